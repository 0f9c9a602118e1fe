#include "cuda_driver/kernels/library_kernels.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "cuda_driver/kernels/convolution.h"
#include "cuda_driver/kernels/cublaslt.h"
#include "cuda_driver/kernels/cudnn.h"
#include "cuda_driver/kernels/library_kernel.h"
#include "cuda_driver/kernels/matmul.h"
#include "cuda_driver/observe/profiler.h"
#include "cuda_driver/stream/cuda_stream.h"

namespace mydev::cuda_driver {

namespace {

// NULL-terminated.
std::vector<const mydev_kernel*>& found_kernels() {
  static auto& all = *new std::vector<const mydev_kernel*>{nullptr};
  return all;
}

void add(const LibraryKernel& kernel) {
  found_kernels().insert(found_kernels().end() - 1, &kernel);
}

}  // namespace

void load_kernel_libraries(const CudaOptions& options) {
  load_cublaslt(options.cublas);
  if (has_cublaslt()) add(matmul_kernel());
  load_cudnn(options.cudnn);
  if (!has_cudnn()) return;
  for (const LibraryKernel* kernel : convolution_kernels()) add(*kernel);
}

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  return run_checked([&] {
    const auto& all = found_kernels();
    require(std::ranges::find(all, kernel) != all.end(), MYDEV_UNIMPLEMENTED, "kernel '", kernel->name,
            "' is none of the CUDA driver's; those of a compiled module are launched with a geometry");
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    const RecordedActivity activity(on, {MYDEV_ACTIVITY_LAUNCH, kernel->name});
    static_cast<const LibraryKernel*>(kernel)->enqueue(on, *frame);
  });
}

const mydev_kernel* find_kernel(int32_t /*device*/, const char* name) {
  const auto& all = found_kernels();
  const auto found = std::find_if(all.begin(), all.end() - 1,
                                  [&](const mydev_kernel* kernel) { return std::string_view(kernel->name) == name; });
  return *found;
}

mydev_code list_kernels(int32_t /*device*/, const mydev_kernel* const** out_kernels) {
  *out_kernels = found_kernels().data();
  return MYDEV_OK;
}

}  // namespace mydev::cuda_driver
