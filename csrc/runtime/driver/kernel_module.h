// Kernels that a driver's compiler makes from source at run time (driver_extensions.h, "compiler"): modules, their
// kernels, and what one launch of such a kernel needs beside its frame.
//
// A module is destroyed with the last reference to it. The driver sees to it that launches which a stream was given
// before run to their end. Kernels hold their module. Errors and traces call a kernel "compiled.<function>", a name
// that is not in the registry and lives as long as the process. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "mydev/driver_extensions.h"
#include "runtime/base/api.h"
#include "runtime/driver/device.h"

namespace mydev {

// Returns the extension's table; nullptr if the device's driver has no compiler.
MYDEV_API const mydev_compiler_extension* compiler_of(const Device& device);
// Returns the languages that the device's driver compiles, the best first; none if it has no compiler. Raises the
// driver's failure.
MYDEV_API std::vector<std::string> compiler_languages(const Device& device);

// Returns what code for the device must keep to, with the defaults of driver_extensions.h where the driver says
// nothing. The device has a compiler. Raises the driver's failure, and FAILED_PRECONDITION for properties that
// contradict themselves.
MYDEV_API mydev_compiler_properties compiler_properties(const Device& device);

// The parameters of a kernel's function: pointers to memory that it only writes, that it reads and writes, and that it
// only reads, in this order; then numbers.
struct KernelParameters {
  uint32_t results = 0;
  uint32_t updated = 0;
  uint32_t operands = 0;
  std::string numbers;  // 'i' for each integer, 'f' for each floating-point number

  uint32_t written() const noexcept { return results + updated; }
  uint32_t buffers() const noexcept { return results + updated + operands; }
};

class CompiledKernel;

class MYDEV_API KernelModule : public std::enable_shared_from_this<KernelModule> {
 public:
  // Waits for the compiler, maybe for seconds. `language` is one of the device's, or MYDEV_MODULE_BINARY with the bytes
  // of binary(). Raises INVALID_ARGUMENT with what the compiler says, or for another language; UNIMPLEMENTED for a
  // device whose driver has no compiler.
  static std::shared_ptr<KernelModule> compile(Device& device, const std::string& language, std::string_view source,
                                               const std::string& options);
  // Loads what was compiled before of the same source (binary_cache.h), or else compiles it and keeps the binary.
  static std::shared_ptr<KernelModule> find_or_compile(Device& device, const std::string& language,
                                                       std::string_view source, const std::string& options);
  ~KernelModule();
  KernelModule(const KernelModule&) = delete;
  KernelModule& operator=(const KernelModule&) = delete;

  const Device& device() const noexcept { return device_; }
  // Returns the compiled bytes, which a cache may keep; nothing if the driver does not give them. Borrowed from the
  // module.
  std::optional<std::span<const std::byte>> binary() const;
  // Raises NOT_FOUND for a name that the source does not export, and INVALID_ARGUMENT for other letters in
  // parameters.numbers.
  std::shared_ptr<const CompiledKernel> kernel(const std::string& name, KernelParameters parameters);

 private:
  KernelModule(Device& device, const mydev_compiler_extension& compiler, mydev_module handle)
      : device_(device), compiler_(compiler), handle_(handle) {}

  Device& device_;
  const mydev_compiler_extension& compiler_;
  mydev_module handle_;
};

class CompiledKernel {
 public:
  CompiledKernel(std::shared_ptr<const KernelModule> module, const mydev_compiler_extension& compiler,
                 const mydev_kernel& record, const mydev_kernel& shown, KernelParameters parameters);

  const Device& device() const noexcept { return module_->device(); }
  const KernelParameters& parameters() const noexcept { return parameters_; }
  // Its name, for errors and traces; lives as long as the process, with no function to call.
  const mydev_kernel& shown() const noexcept { return shown_; }
  const mydev_kernel& record() const noexcept { return record_; }  // the driver's; lives as long as this
  // The attributes of the numbers, each with a name and a kind, without a value.
  std::span<const mydev_attribute> attributes() const noexcept { return attributes_; }
  // The driver's launch, and nothing else: launch.h is how a kernel is launched.
  mydev_code submit(mydev_stream stream, mydev_frame* frame, const mydev_geometry& geometry) const {
    return compiler_.launch(stream, &record_, frame, &geometry);
  }

 private:
  std::shared_ptr<const KernelModule> module_;
  const mydev_compiler_extension& compiler_;
  const mydev_kernel& record_;
  const mydev_kernel& shown_;
  const KernelParameters parameters_;
  std::vector<std::string> names_;
  std::vector<mydev_attribute> attributes_;
};

// Whether the record is shown() of some kernel.
MYDEV_API bool is_compiled_kernel(const mydev_kernel& kernel) noexcept;

// A launch of a compiled kernel has these beside its frame.
struct CompiledLaunch {
  std::shared_ptr<const CompiledKernel> kernel;
  mydev_geometry geometry;
};

MYDEV_API mydev_geometry make_geometry(const std::array<uint32_t, 3>& grid, const std::array<uint32_t, 3>& group,
                                       uint64_t local_memory = 0) noexcept;

}  // namespace mydev
