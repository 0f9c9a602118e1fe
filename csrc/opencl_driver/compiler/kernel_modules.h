// The extension "compiler": programs of OpenCL C, their binaries, and launches of their kernels.
//
// A program is built for one device. A kernel object holds the parameters of its next launch, so it is locked from the
// first parameter to the command. Commands hold what they use: a module may go while its launches are pending.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "mydev/driver_extensions.h"
#include "opencl_driver/memory/device_memory.h"
#include "opencl_driver/stream/stream.h"

namespace mydev::opencl_driver {

mydev_compiler_properties compiler_properties(const OpenclDevice& device, mydev_parameter_form parameters);

class KernelModule {
 public:
  // Takes source or, in the language MYDEV_MODULE_BINARY, what binary() gave. Raises INVALID_ARGUMENT for another
  // language and with the compiler's words, FAILED_PRECONDITION for a binary of another device.
  static std::unique_ptr<KernelModule> make(const Platform& platform, const OpenclDevice& device,
                                            const mydev_module_source& source);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  const mydev_kernel* kernel(const std::string& name);  // raises NOT_FOUND
  std::string_view binary();

 private:
  struct Kernel;
  friend void launch_of_module(OpenclStream& stream, const DeviceMemory& memory, const mydev_kernel& record,
                               const mydev_frame& frame, const mydev_geometry& geometry);

  KernelModule(const OpenclDevice& device, cl_program program);

  const OpenclDevice& device_;
  const cl_program program_;  // NOLINT(misc-misplaced-const): a constant handle
  std::mutex mutex_;          // guards what follows
  std::map<std::string, std::unique_ptr<Kernel>> kernels_;
  std::string binary_;
};

// Raises INVALID_ARGUMENT for operands, numbers or a geometry that the kernel or the device does not take.
void launch_of_module(OpenclStream& stream, const DeviceMemory& memory, const mydev_kernel& record,
                      const mydev_frame& frame, const mydev_geometry& geometry);

}  // namespace mydev::opencl_driver
