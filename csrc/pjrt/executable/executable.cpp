#include "pjrt/executable/executable.h"

#include <algorithm>
#include <set>
#include <utility>

#include "pjrt/base/fingerprint.h"
#include "pjrt/base/wire.h"
#include "pjrt/buffer/submission.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/stream/loading_stream.h"

using mydev::pjrt::LocalDevice;
using mydev::pjrt::ModuleInstance;
using mydev::pjrt::Platform;
using mydev::pjrt::ProgramSource;

namespace mydev::pjrt {

namespace {

constexpr std::string_view kMagic = "mydev executable";
constexpr uint64_t kSerializedVersion = 2;
constexpr uint32_t kMagicField = 1, kVersionField = 2, kFormatField = 3, kCodeField = 4, kOptionsField = 5,
                   kHashField = 6;

void add(Fingerprint& hash, const ProgramSource& source) {
  hash.add(source.format);
  hash.add(source.code);
  hash.add(source.options);
}
std::string fingerprint_of(const ProgramSource& source) {
  Fingerprint hash;
  hash.add(Platform::get().fingerprint());
  add(hash, source);
  return hash.text();
}
uint64_t hash_of(const ProgramSource& source) {
  Fingerprint hash;
  add(hash, source);
  return hash.value();
}

std::vector<std::string> memory_kinds(const std::vector<ValueDescription>& values) {
  std::vector<std::string> kinds;
  kinds.reserve(values.size());
  for (const ValueDescription& value : values) kinds.emplace_back(kMemoryKindNames[static_cast<size_t>(value.memory)]);
  return kinds;
}

std::vector<std::string> shardings_if_known(const std::vector<ValueDescription>& values) {
  std::vector<std::string> texts;
  for (const ValueDescription& value : values) {
    if (!value.sharding) return {};
    texts.push_back(*value.sharding);
  }
  return texts;
}

}  // namespace

TextArray::TextArray(std::vector<std::string> texts) : texts_(std::move(texts)) {
  for (const std::string& text : texts_) {
    data_.push_back(text.data());
    sizes_.push_back(text.size());
  }
}

ExecutableInfo::ExecutableInfo(ProgramSource given, CompileOptions parsed, SharedModule compiled)
    : source(std::move(given)),
      options(std::move(parsed)),
      module(std::move(compiled)),
      fingerprint(fingerprint_of(source)),
      output_memory_kinds(memory_kinds(module->description().results)),
      parameter_memory_kinds(memory_kinds(module->description().parameters)),
      parameter_shardings(shardings_if_known(module->description().parameters)),
      output_shardings(shardings_if_known(module->description().results)) {
  for (const ValueDescription& result : module->description().results) {
    output_types.push_back(result.shape->type->type);
    output_sizes.insert(output_sizes.end(), result.shape->sizes.begin(), result.shape->sizes.end());
    output_ranks.push_back(result.shape->sizes.size());
  }
}

std::string serialize(const ExecutableInfo& info) {
  WireWriter message;
  message.bytes(kMagicField, kMagic);
  message.number(kVersionField, kSerializedVersion);
  message.bytes(kFormatField, info.source.format);
  message.bytes(kCodeField, info.source.code);
  message.bytes(kOptionsField, info.source.options);
  message.number(kHashField, hash_of(info.source));
  return std::move(message).take();
}

ProgramSource deserialize(std::string_view bytes) {
  std::string_view magic;
  uint64_t version = 0, hash = 0;
  ProgramSource source;
  const Failure damage = failure_of([&] {
    WireReader message(bytes);
    while (message.next()) {
      if (message.field() == kMagicField) magic = message.bytes();
      if (message.field() == kVersionField) version = static_cast<uint64_t>(message.number());
      if (message.field() == kFormatField) source.format = message.bytes();
      if (message.field() == kCodeField) source.code = message.bytes();
      if (message.field() == kOptionsField) source.options = message.bytes();
      if (message.field() == kHashField) hash = static_cast<uint64_t>(message.number());
    }
  });
  MYDEV_CHECK(magic == kMagic, MYDEV_INVALID_ARGUMENT, "these ", bytes.size(),
              " bytes are no serialized executable of device ", device_name());
  MYDEV_CHECK(!damage.failed(), MYDEV_INVALID_ARGUMENT, "the serialized executable of ", bytes.size(),
              " bytes is damaged: ", damage.message);
  MYDEV_CHECK(version == kSerializedVersion, MYDEV_INVALID_ARGUMENT, "the serialized executable has version ", version,
              ", and this plugin reads version ", kSerializedVersion, "; compile the program again");
  MYDEV_CHECK(hash == hash_of(source), MYDEV_INVALID_ARGUMENT, "the serialized executable of ", bytes.size(),
              " bytes is damaged: it is not what its hash was taken of; compile the program again");
  return source;
}

namespace {

// The compiled executables that still exist, by fingerprint.
class Known {
 public:
  void add(const SharedExecutableInfo& info) {
    const std::lock_guard lock(mutex_);
    if (executables_.size() >= prune_at_) {
      std::erase_if(executables_, [](const auto& entry) { return entry.second.expired(); });
      prune_at_ = 2 * executables_.size() + 64;
    }
    executables_[info->fingerprint] = info;
  }
  SharedExecutableInfo find(std::string_view fingerprint) {
    const std::lock_guard lock(mutex_);
    const auto found = executables_.find(std::string(fingerprint));
    return found == executables_.end() ? nullptr : found->second.lock();
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::unordered_map<std::string, std::weak_ptr<const ExecutableInfo>> executables_;
  size_t prune_at_ = 64;
};
Known& known() {
  static Known& known = *new Known();
  return known;
}

// If the client names no devices, assigns one of this process, or those of all processes in their order.
void assign_devices(const Platform& platform, CompileOptions& options) {
  const auto replicas = static_cast<size_t>(options.num_replicas),
             partitions = static_cast<size_t>(options.num_partitions);
  if (options.portable) {
    MYDEV_CHECK(replicas * partitions == 1, MYDEV_INVALID_ARGUMENT, "a portable executable is of one device, and ",
                replicas, " replicas of ", partitions, " partitions were asked for");
    options.device_assignment.clear();
  } else if (options.device_assignment.empty()) {
    int64_t next = std::max<int64_t>(options.device_ordinal, 0);
    if (replicas * partitions == 1) {
      const auto& here = platform.local_devices();
      MYDEV_CHECK(next < static_cast<int64_t>(here.size()), MYDEV_INVALID_ARGUMENT, "device_ordinal is ", next,
                  "; this process has ", here.size(), " devices: give one from 0 to ", here.size() - 1);
      next = here[static_cast<size_t>(next)]->id();
    }
    options.device_assignment.assign(replicas, std::vector<int64_t>(partitions));
    for (std::vector<int64_t>& replica : options.device_assignment) {
      for (int64_t& id : replica) id = next++;
    }
  }
  std::set<int64_t> named;
  for (const std::vector<int64_t>& replica : options.device_assignment) {
    for (const int64_t id : replica) {
      MYDEV_CHECK(named.insert(platform.device(id).id()).second, MYDEV_INVALID_ARGUMENT,
                  "the device assignment names device ", id, " twice");
    }
  }
}

SharedExecutableInfo compile(const Platform& platform, ProgramSource source) {
  CompileOptions options = parse_compile_options(source.options, "PJRT_Client_Compile");
  assign_devices(platform, options);
  SharedModule module = compile_module(source.format, source.code, options);
  auto info = std::make_shared<const ExecutableInfo>(std::move(source), std::move(options), std::move(module));
  known().add(info);
  return info;
}

}  // namespace

SharedExecutableInfo find_executable(std::string_view fingerprint) {
  return known().find(fingerprint);
}

}  // namespace mydev::pjrt

PJRT_LoadedExecutable::PJRT_LoadedExecutable(Platform& platform, ProgramSource source)
    : info(mydev::pjrt::compile(platform, std::move(source))) {
  const std::vector<std::vector<int64_t>>& assignment = device_assignment();
  for (size_t r = 0; r < assignment.size(); ++r) {
    for (size_t p = 0; p < assignment[r].size(); ++p) {
      PJRT_Device& device = platform.device(assignment[r][p]);
      if (!platform.is_local(device)) continue;
      devices.push_back(&platform.local(device));
      device_handles.push_back(&device);
      logical_ids.push_back({static_cast<int>(r), static_cast<int>(p)});
    }
  }
  // Clients that have a thread for each device may compile for all devices in each thread, and run one. So an
  // executable for several devices is loaded on them when they first execute.
  if (device_count() == 1 && !devices.empty()) instance(*devices.front());
}

std::shared_ptr<ModuleInstance> PJRT_LoadedExecutable::instance(LocalDevice& device) {
  const std::lock_guard lock(mutex_);
  MYDEV_CHECK(!deleted_, MYDEV_FAILED_PRECONDITION, "executable '", info->module->description().name,
              "' was deleted and cannot be executed; compile it again");
  const auto found = instances_.find(&device);
  if (found != instances_.end()) return found->second;
  mydev::pjrt::ModulePlace place{mydev::loading_stream(device.device.index)};
  if (!device_assignment().empty()) {
    const auto i = static_cast<size_t>(std::ranges::find(devices, &device) - devices.begin());
    MYDEV_CHECK(i < devices.size(), MYDEV_INVALID_ARGUMENT, "executable '", info->module->description().name,
                "' was not compiled for device ", device.id(), "; name it in the device assignment");
    place.position =
        static_cast<uint32_t>(logical_ids[i].replica * info->options.num_partitions + logical_ids[i].partition);
  }
  // Loading does not wait for the device's turn, which may wait for a device that this very thread is to start next.
  const std::unique_lock loading = mydev::lock_loading(device.device.index);
  return instances_.emplace(&device, info->module->load(place)).first->second;
}

void PJRT_LoadedExecutable::drop() {
  const std::lock_guard lock(mutex_);
  deleted_ = true;
  for (auto& [device, instance] : instances_) mydev::pjrt::release_later(std::move(instance));
  instances_.clear();
}

bool PJRT_LoadedExecutable::deleted() const {
  const std::lock_guard lock(mutex_);
  return deleted_;
}
