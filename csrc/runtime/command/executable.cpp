#include "runtime/command/executable.h"

#include <optional>

#include "runtime/base/source_location.h"
#include "runtime/base/status.h"
#include "runtime/command/command_hooks.h"
#include "runtime/driver/binary_cache.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev {

const mydev_programs_extension* program_compiler_of(const Device& device) {
  return extension_of<mydev_programs_extension>(*device.driver, MYDEV_PROGRAMS_EXTENSION);
}

std::shared_ptr<const Executable> Executable::compile(Device& device, const mydev_program& program, const char* name,
                                                      std::string& out_reason) {
  const mydev_programs_extension& programs = *program_compiler_of(device);
  mydev_executable handle = nullptr;
  uint64_t scratch_bytes = 0;
  const mydev_code code = programs.compile(device.index, &program, &handle, &scratch_bytes);
  if (code == MYDEV_UNIMPLEMENTED) {
    out_reason = device.driver->last_error();
    return nullptr;
  }
  check_driver(device, code, name);
  MYDEV_CHECK(handle != nullptr, MYDEV_INTERNAL, name, ": the driver gave no executable, and no error");
  return std::shared_ptr<const Executable>(new Executable(device, programs, handle, scratch_bytes, name));
}

std::shared_ptr<const Executable> Executable::load(Device& device, std::string_view binary, const char* name) {
  const mydev_programs_extension& programs = *program_compiler_of(device);
  mydev_executable handle = nullptr;
  uint64_t scratch_bytes = 0;
  check_driver(device, programs.load(device.index, binary.data(), binary.size(), &handle, &scratch_bytes), name);
  MYDEV_CHECK(handle != nullptr, MYDEV_INTERNAL, name, ": the driver loaded no executable, and gave no error");
  return std::shared_ptr<const Executable>(new Executable(device, programs, handle, scratch_bytes, name));
}

std::shared_ptr<const Executable> Executable::find_or_compile(Device& device, const mydev_program& program,
                                                              const char* name, std::string_view text,
                                                              std::string& out_reason) {
  if (program_compiler_of(device)->load == nullptr) return compile(device, program, name, out_reason);
  const std::string key = binary_key(device, {"program", text});
  auto executable = load_binary(key, [&](const std::string& binary) { return load(device, binary, name); });
  if (executable != nullptr) return executable;
  executable = compile(device, program, name, out_reason);
  if (executable != nullptr) keep_binary(key, executable->binary());
  return executable;
}

std::span<const std::byte> Executable::binary() const {
  const void* data = nullptr;
  uint64_t bytes = 0;
  check_driver(device_, programs_.binary(handle_, &data, &bytes), name_);
  return {static_cast<const std::byte*>(data), bytes};
}

Executable::~Executable() {
  // A child after fork has neither the driver nor its executables. A failure cannot be reported here.
  if (driver_loaded()) programs_.destroy(handle_);
}

void Executable::run(Stream& stream, std::span<void* const> parameters, std::span<void* const> results,
                     void* scratch) const {
  stream.check_open();
  if (stream.asynchronous()) stream.note_transfer({name_, nullptr, nullptr, 0, source_location()});
  std::optional<detail::ObservedCommand> observed;
  if (detail::observing()) [[unlikely]] {
    observed.emplace(CommandRecord{.kind = CommandKind::kLaunch, .name = name_, .stream = &stream});
  }
  const mydev_code code = programs_.run(stream.handle(), handle_, parameters.data(), results.data(), scratch);
  if (observed) observed->submitted(stream, code);
  check_driver(stream.device(), code, name_);
}

}  // namespace mydev
