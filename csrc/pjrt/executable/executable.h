// Executables of the C API: compiled ones, and those that are loaded on devices.
#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "pjrt/c_api/executable.h"
#include "pjrt/device/platform.h"
#include "pjrt/executable/compile_options.h"
#include "pjrt/executable/compiled_module.h"

namespace mydev::pjrt {

// A program as a client gave it to be compiled.
struct ProgramSource {
  std::string format, code, options;  // options: a serialized CompileOptionsProto
};

// Texts as the C API gives them: two arrays.
class TextArray {
 public:
  explicit TextArray(std::vector<std::string> texts);
  TextArray(const TextArray&) = delete;
  TextArray& operator=(const TextArray&) = delete;
  const char* const* data() const noexcept { return data_.empty() ? nullptr : data_.data(); }
  const size_t* sizes() const noexcept { return sizes_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<const char*> data_;
  std::vector<size_t> sizes_;
};

// All that can be asked about an executable. It does not change; handles and loaded executables share it.
struct ExecutableInfo {
  ExecutableInfo(ProgramSource source, CompileOptions options, SharedModule module);

  const ProgramSource source;
  const CompileOptions options;
  const SharedModule module;
  const std::string fingerprint;
  std::vector<PJRT_Buffer_Type> output_types;
  std::vector<int64_t> output_sizes;  // of all outputs
  std::vector<size_t> output_ranks;
  TextArray output_memory_kinds, parameter_memory_kinds;
  TextArray parameter_shardings, output_shardings;  // empty unless known of all
};
using SharedExecutableInfo = std::shared_ptr<const ExecutableInfo>;

// Finds a compiled executable that still exists by its fingerprint; nullptr if there is none.
SharedExecutableInfo find_executable(std::string_view fingerprint);

// Serializes source and options, from which an executable is compiled anew.
std::string serialize(const ExecutableInfo& info);
// Raises INVALID_ARGUMENT for bytes that serialize() did not give.
ProgramSource deserialize(std::string_view bytes);

}  // namespace mydev::pjrt

struct PJRT_Executable {
  mydev::pjrt::SharedExecutableInfo info;
  std::vector<void*> output_layouts, parameter_layouts;  // what the Layouts extension gave last
  std::vector<PJRT_NamedValue> cost;                     // what was given last of it
};

struct PJRT_LoadedExecutable {
 public:
  // Compiles for the devices that the options name. If there are several, the executable is loaded on them when they
  // first execute.
  PJRT_LoadedExecutable(mydev::pjrt::Platform& platform, mydev::pjrt::ProgramSource source);
  ~PJRT_LoadedExecutable() { drop(); }
  PJRT_LoadedExecutable(const PJRT_LoadedExecutable&) = delete;
  PJRT_LoadedExecutable& operator=(const PJRT_LoadedExecutable&) = delete;

  const mydev::pjrt::SharedExecutableInfo info;
  // The devices of this process: one for each replica and partition, partitions of the first replica first.
  std::vector<mydev::pjrt::LocalDevice*> devices;
  std::vector<PJRT_Device*> device_handles;
  std::vector<PJRT_LogicalDeviceIds> logical_ids;

  // [replica][partition]; empty: portable.
  const std::vector<std::vector<int64_t>>& device_assignment() const noexcept {
    return info->options.device_assignment;
  }
  // Returns the number of devices in all processes.
  size_t device_count() const noexcept {
    return device_assignment().empty() ? 1 : device_assignment().size() * device_assignment()[0].size();
  }

  // Raises FAILED_PRECONDITION if it was deleted.
  std::shared_ptr<mydev::pjrt::ModuleInstance> instance(mydev::pjrt::LocalDevice& device);
  void drop();  // does not wait for runs
  bool deleted() const;

 private:
  mutable std::mutex mutex_;  // guards what follows
  bool deleted_ = false;
  std::unordered_map<mydev::pjrt::LocalDevice*, std::shared_ptr<mydev::pjrt::ModuleInstance>> instances_;
};

namespace mydev::pjrt {

// PJRT_LoadedExecutable_Execute: checks all, then submits. Raises before any device has work and any buffer is donated.
void execute(PJRT_LoadedExecutable_Execute_Args& args);

}  // namespace mydev::pjrt
