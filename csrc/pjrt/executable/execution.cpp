// Executing: arguments checked, memory found for results, a submission for each device.
//
// Memory. A result that is computed in place of a donated argument takes over its memory. If the argument lives on (the
// client says so, or its memory is not the allocator's, or has external references), the program writes a copy of it.
#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "pjrt/base/arguments.h"
#include "pjrt/buffer/buffer.h"
#include "pjrt/buffer/submission.h"
#include "pjrt/executable/executable.h"
#include "runtime/command/transfer.h"

namespace mydev::pjrt {

namespace {

uint64_t next_run_id() noexcept {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;  // a number of its own is all that is asked for
}

// Returns for each parameter whether the call donates it.
std::vector<bool> donated_parameters(const ModuleDescription& module, const PJRT_ExecuteOptions* options) {
  std::vector<bool> donated;
  donated.reserve(module.parameters.size());
  for (const ValueDescription& parameter : module.parameters) donated.push_back(parameter.donated);
  if (options == nullptr || !MYDEV_PJRT_HAS(*options, num_non_donatable_input_indices)) return donated;
  const std::span kept(options->non_donatable_input_indices, options->num_non_donatable_input_indices);
  for (const int64_t index : kept) {
    MYDEV_CHECK(index >= 0 && static_cast<size_t>(index) < donated.size(), MYDEV_INVALID_ARGUMENT, "argument ", index,
                " is said not to be donatable, and '", module.name, "' has ", donated.size());
    donated[static_cast<size_t>(index)] = false;
  }
  return donated;
}

// The work of one device in an execution, on its shards of the arguments. One thread builds it, then gives it to the
// device.
class ShardExecution {
 public:
  ShardExecution(PJRT_LoadedExecutable& executable, LocalDevice& device, std::span<PJRT_Buffer* const> arguments)
      : module_(executable.info->module->description()),
        device_(device),
        instance_(executable.instance(device)),
        arguments_(arguments) {}

  // Raises INVALID_ARGUMENT for arguments that do not fit. Changes nothing.
  void check(const std::vector<bool>& donated) const {
    std::unordered_set<const PJRT_Buffer*> given;
    const bool donates = std::ranges::find(donated, true) != donated.end();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      check_argument(i);
      if (donates && donated[i]) {
        MYDEV_CHECK(given.insert(arguments_[i]).second, MYDEV_INVALID_ARGUMENT, "argument ", i, " of '", module_.name,
                    "', which is donated, is given twice");
      }
    }
    if (given.empty()) return;
    for (size_t i = 0; i < arguments_.size(); ++i) {
      MYDEV_CHECK(donated[i] || !given.contains(arguments_[i]), MYDEV_INVALID_ARGUMENT, "argument ", i, " of '",
                  module_.name, "' is also given as one that is donated");
    }
  }

  // Allocates memory for results, while a lack of it harms nobody.
  void allocate_results() {
    for (size_t i = 0; i < module_.results.size(); ++i) {
      const bool in_place = module_.in_place_of[i].has_value();
      results_.push_back(in_place ? nullptr
                                  : Storage::allocate(memory_of(module_.results[i]), module_.results[i].shape->bytes));
    }
  }

  // Takes the arguments over, and finds the memory of results that are computed in place.
  void take_arguments(const std::vector<bool>& donated) {
    std::vector<bool> written = donated_by_module();
    for (size_t i = 0; i < arguments_.size(); ++i) {
      PJRT_Buffer& buffer = *arguments_[i];
      if (!buffer.ready->is_ready() || buffer.ready->has_failed()) inputs_.push_back(buffer.ready);
      SharedStorage storage = donated[i] ? buffer.donate("donated to '" + module_.name + "'") : nullptr;
      if (storage == nullptr) {
        storage = buffer.hold("an execution");
        if (written[i] && !buffer.memory.on_host()) storage = copied(std::move(storage));
      }
      storages_.push_back(std::move(storage));
    }
    for (size_t i = 0; i < results_.size(); ++i) {
      const std::optional<size_t> parameter = module_.in_place_of[i];
      if (parameter) results_[i] = storages_[*parameter];
    }
  }

  std::optional<uint64_t> run_of_its_own() const { return instance_->run_of_its_own(); }

  // Submits the work, and makes the results' buffers.
  SharedCompletion submit(uint64_t run_id, bool on_thread, PJRT_Buffer** out_results) {
    Submission work{.name = "execution of a program"};
    work.inputs = std::move(inputs_);
    work.storages = storages_;
    work.storages.insert(work.storages.end(), results_.begin(), results_.end());
    work.storages.insert(work.storages.end(), copy_sources_.begin(), copy_sources_.end());
    work.submit = [instance = instance_, run_id, arguments = bindings(storages_), results = bindings(results_),
                   copies = copies_](Stream& stream) {
      for (const Copy& copy : copies) copy_bytes(stream, copy.dst, copy.src, copy.bytes, MYDEV_COPY_DEVICE_TO_DEVICE);
      instance->run({stream, run_id, arguments, results});
    };
    // This holds no reference to the instance: dropping the last one waits for its work, which no thread of a stream
    // may do.
    work.cancel = [instance = std::weak_ptr(instance_), run_id](const Failure& failure) {
      if (const auto held = instance.lock()) held->cancel(run_id, failure);
    };
    SharedCompletion completion =
        on_thread ? submit_on_thread(device_, std::move(work)) : pjrt::submit(device_, std::move(work));
    for (size_t i = 0; i < results_.size(); ++i) {
      const ValueDescription& result = module_.results[i];
      out_results[i] = new PJRT_Buffer(memory_of(result), result.shape, results_[i], completion);
    }
    return completion;
  }

 private:
  struct Copy {
    void* dst;
    const void* src;
    uint64_t bytes;
  };

  PJRT_Memory& memory_of(const ValueDescription& value) const {
    return device_.memories[static_cast<size_t>(value.memory)];
  }

  void check_argument(size_t i) const {
    const PJRT_Buffer& buffer = required(arguments_[i], "an argument");
    const Shape& expected = *module_.parameters[i].shape;
    const bool fits = buffer.shape.get() == &expected ||
                      (buffer.shape->type == expected.type && buffer.shape->sizes == expected.sizes);
    MYDEV_CHECK(fits, MYDEV_INVALID_ARGUMENT, "argument ", i, " of '", module_.name, "' is ", describe(buffer),
                ", and ", describe(expected), " is expected");
    const PJRT_Memory& memory = memory_of(module_.parameters[i]);
    MYDEV_CHECK(&buffer.memory == &memory, MYDEV_INVALID_ARGUMENT, "argument ", i, " of '", module_.name, "' is ",
                describe(buffer), ", and the program takes it in ", memory.to_string, "; copy it there first");
    MYDEV_CHECK(!buffer.deleted(), MYDEV_INVALID_ARGUMENT, "argument ", i, " of '", module_.name, "', ",
                describe(buffer), ", has been deleted or donated");
  }

  // Returns for each parameter whether the program may write it, whatever the call says.
  std::vector<bool> donated_by_module() const {
    std::vector<bool> written;
    written.reserve(module_.parameters.size());
    for (const ValueDescription& parameter : module_.parameters) written.push_back(parameter.donated);
    for (const std::optional<size_t>& parameter : module_.in_place_of) {
      if (parameter) written[*parameter] = true;
    }
    return written;
  }

  SharedStorage copied(SharedStorage from) {
    SharedStorage to = Storage::allocate(device_.default_memory(), from->bytes());
    if (from->bytes() != 0) copies_.push_back({to->data(), from->data(), from->bytes()});
    copy_sources_.push_back(std::move(from));
    return to;
  }

  static std::vector<program::Binding> bindings(const std::vector<SharedStorage>& storages) {
    std::vector<program::Binding> bindings;
    bindings.reserve(storages.size());
    for (const SharedStorage& storage : storages) bindings.push_back({storage->data(), storage->bytes()});
    return bindings;
  }

  const ModuleDescription& module_;
  LocalDevice& device_;
  std::shared_ptr<ModuleInstance> instance_;
  std::span<PJRT_Buffer* const> arguments_;
  std::vector<SharedStorage> storages_;  // of arguments
  std::vector<SharedStorage> results_;
  std::vector<SharedStorage> copy_sources_;
  std::vector<Copy> copies_;
  std::vector<SharedCompletion> inputs_;
};

// Returns the device of each list of arguments.
std::vector<LocalDevice*> devices_of(const PJRT_LoadedExecutable& executable,
                                     const PJRT_LoadedExecutable_Execute_Args& args) {
  PJRT_Device* single = MYDEV_PJRT_HAS(args, execute_device) ? args.execute_device : nullptr;
  if (single != nullptr) {
    MYDEV_CHECK(args.num_devices == 1, MYDEV_INVALID_ARGUMENT, "arguments of ", args.num_devices,
                " devices are given for an execution on one");
    return {&Platform::get().local(*single)};
  }
  MYDEV_CHECK(!executable.device_assignment().empty(), MYDEV_INVALID_ARGUMENT,
              "a portable executable is executed on a device that the call names, and it names none");
  MYDEV_CHECK(args.num_devices == executable.devices.size(), MYDEV_INVALID_ARGUMENT, "arguments of ", args.num_devices,
              " devices are given for an executable of ", executable.devices.size(), " of this process");
  return executable.devices;
}

void check_call(const PJRT_LoadedExecutable& executable, const PJRT_LoadedExecutable_Execute_Args& args) {
  const ModuleDescription& module = executable.info->module->description();
  MYDEV_CHECK(args.num_args == module.parameters.size(), MYDEV_INVALID_ARGUMENT, "'", module.name, "' takes ",
              module.parameters.size(), " arguments, and ", args.num_args, " are given");
  const PJRT_ExecuteOptions* options = args.options;
  if (options != nullptr && MYDEV_PJRT_HAS(*options, num_recv_ops)) {
    MYDEV_CHECK(options->num_send_ops == 0 && options->num_recv_ops == 0, MYDEV_UNIMPLEMENTED,
                "sends to and receives from the host are not supported");
  }
}

}  // namespace

void execute(PJRT_LoadedExecutable_Execute_Args& args) {
  PJRT_LoadedExecutable& executable = required(args.executable, "the executable");
  check_call(executable, args);
  const std::vector<LocalDevice*> devices = devices_of(executable, args);
  for (const LocalDevice* device : devices) {
    check_not_awaited(*device, "an execution of '" + executable.info->module->description().name + "'");
  }
  const std::vector<bool> donated = donated_parameters(executable.info->module->description(), args.options);
  std::vector<ShardExecution> shards;
  shards.reserve(devices.size());
  for (size_t d = 0; d < devices.size(); ++d) {
    PJRT_Buffer* const* arguments = args.num_args == 0 ? nullptr : args.argument_lists[d];
    shards.emplace_back(executable, *devices[d], std::span(arguments, args.num_args)).check(donated);
    shards.back().allocate_results();
  }
  for (ShardExecution& shard : shards) shard.take_arguments(donated);
  // Devices of one execution wait for each other. So each device must come to the executions in the same order, in
  // which they are numbered. Other devices may be started by calls of their own, if the client has a thread for each
  // device, and by other processes.
  static std::mutex& order = *new std::mutex();
  std::unique_lock ordered(order, std::defer_lock);
  if (executable.device_count() > 1) ordered.lock();
  std::vector<uint64_t> run_ids(shards.size(), next_run_id());
  bool waits = shards.size() > 1;
  if (shards.size() < executable.device_count()) {
    for (size_t d = 0; d < shards.size(); ++d) {
      const std::optional<uint64_t> own_run = shards[d].run_of_its_own();
      if (!own_run) continue;
      run_ids[d] = *own_run;
      waits = true;
    }
  }
  if (ordered && !waits) ordered.unlock();
  std::vector<SharedCompletion> completions;
  const bool events = MYDEV_PJRT_HAS(args, device_complete_events) && args.device_complete_events != nullptr;
  for (size_t d = 0; d < shards.size(); ++d) {
    completions.push_back(shards[d].submit(run_ids[d], /*on_thread=*/waits, args.output_lists[d]));
    if (events) args.device_complete_events[d] = new PJRT_Event{completions.back()};
  }
  if (ordered) ordered.unlock();
  for (const SharedCompletion& completion : completions) finish_in_callback(*completion);
}

}  // namespace mydev::pjrt
