// Programs that a device's own compiler has compiled (driver_extensions.h, "programs").
//
// An executable is destroyed with the last reference to it, when none of its runs is pending: its owner sees to that.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "mydev/driver_extensions.h"
#include "runtime/base/api.h"
#include "runtime/driver/device.h"
#include "runtime/stream/stream.h"

namespace mydev {

// Returns the extension's table; nullptr if the device's driver compiles no programs.
MYDEV_API const mydev_programs_extension* program_compiler_of(const Device& device);

class MYDEV_API Executable {
 public:
  // Waits for the compiler, maybe for minutes. Returns nullptr, and the reason, if it declines the program. Raises its
  // failure. `name` lives as long as the process, for errors and traces.
  static std::shared_ptr<const Executable> compile(Device& device, const mydev_program& program, const char* name,
                                                   std::string& out_reason);
  // The executable of bytes that binary() gave. Raises FAILED_PRECONDITION if they are of another architecture or
  // compiler. The driver gives `load`.
  static std::shared_ptr<const Executable> load(Device& device, std::string_view binary, const char* name);
  // Loads what was compiled of the program before (binary_cache.h), or else compiles it, and keeps the binary if the
  // driver gives it. `text` has all of the program.
  static std::shared_ptr<const Executable> find_or_compile(Device& device, const mydev_program& program,
                                                           const char* name, std::string_view text,
                                                           std::string& out_reason);
  ~Executable();
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  uint64_t scratch_bytes() const noexcept { return scratch_bytes_; }
  // Borrowed from the executable. The driver gives `binary`.
  std::span<const std::byte> binary() const;
  // Runs it behind earlier work of the stream, which does not capture. Raises the driver's failure.
  void run(Stream& stream, std::span<void* const> parameters, std::span<void* const> results, void* scratch) const;

 private:
  Executable(const Device& device, const mydev_programs_extension& programs, mydev_executable handle,
             uint64_t scratch_bytes, const char* name)
      : device_(device), programs_(programs), handle_(handle), scratch_bytes_(scratch_bytes), name_(name) {}

  const Device& device_;
  const mydev_programs_extension& programs_;
  mydev_executable handle_;
  uint64_t scratch_bytes_;
  const char* name_;
};

}  // namespace mydev
