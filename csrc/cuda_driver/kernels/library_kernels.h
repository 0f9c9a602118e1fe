// The driver's own records: the kernels of the libraries that were found. Thread-safe once the driver has started.
#pragma once

#include <string>

#include "cuda_driver/device/cuda_options.h"
#include "mydev/driver.h"

namespace mydev::cuda_driver {

// Loads the libraries that the options name, and others that there are.
void load_kernel_libraries(const CudaOptions& options);

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame);
const mydev_kernel* find_kernel(int32_t device, const char* name);
mydev_code list_kernels(int32_t device, const mydev_kernel* const** out_kernels);

}  // namespace mydev::cuda_driver
