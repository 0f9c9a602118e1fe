// The compiler of StableHLO: the layers below read and lower it.
#include <algorithm>
#include <utility>

#include "lowering/lowering.h"
#include "pjrt/base/wire.h"
#include "pjrt/device/platform.h"
#include "pjrt/executable/program_module.h"
#include "runtime/base/log.h"
#include "runtime/command/host_work.h"
#include "stablehlo/bytecode/reader.h"
#include "stablehlo/text/text.h"
#include "stablehlo/verifier/verifier.h"

namespace mydev::pjrt {

namespace {

// Returns the sharding as a serialized OpSharding.
std::string serialized(const lowering::Sharding& sharding) {
  constexpr uint32_t kType = 1, kTileDimensions = 3, kTileDevices = 4, kReplicatedLastDimension = 6,
                     kLastDimensions = 8;
  constexpr int64_t kReplicated = 0, kTiled = 3, kUnreduced = 6;
  WireWriter writer;
  const int64_t summands = sharding.summand_count();
  const bool is_replicated = sharding.is_whole() && summands == 1;
  writer.number(kType, static_cast<uint64_t>(is_replicated ? kReplicated : kTiled));
  if (is_replicated) return std::move(writer).take();
  std::vector<int64_t> dimensions = sharding.parts(), last;  // of what the last dimensions are
  int64_t copies = sharding.devices() / summands;
  for (const int64_t parts : dimensions) copies /= parts;
  if (copies > 1) {
    dimensions.push_back(copies);
    last.push_back(kReplicated);
  }
  if (summands > 1) {
    dimensions.push_back(summands);
    last.push_back(kUnreduced);
  }
  writer.packed(kTileDimensions, dimensions);
  writer.packed(kTileDevices, sharding.devices_by_tile());
  if (summands > 1) {
    writer.packed(kLastDimensions, last);
  } else if (copies > 1) {
    writer.number(kReplicatedLastDimension, 1);
  }
  return std::move(writer).take();
}

MemoryKind memory_named(const std::string& name) {
  if (name.empty()) return MemoryKind::kDevice;
  const auto found = std::ranges::find(kMemoryKindNames, std::string_view(name));
  MYDEV_CHECK(found != kMemoryKindNames.end(), MYDEV_INVALID_ARGUMENT, "the program has a value in memory '", name,
              "'; there are device, pinned_host and unpinned_host");
  return static_cast<MemoryKind>(found - kMemoryKindNames.begin());
}

// Logs the values that are computed from more than a device's shard, for people who look for the limits of
// partitioning.
void log_gathers(const std::string& program, int64_t devices, std::span<const std::string> gathered) {
  if (gathered.empty()) return;
  std::string message = "program '" + program + "' for " + std::to_string(devices) + " devices gathers parts of ";
  for (size_t i = 0; i < gathered.size(); ++i) message += (i != 0 ? "; " : "") + gathered[i];
  log(MYDEV_LOG_DEBUG, message.c_str());
}

// Returns the devices, and their processes unless all are of this process.
lowering::SeveralProcesses processes_of(const std::vector<std::vector<int64_t>>& assignment) {
  const Platform& platform = Platform::get();
  lowering::SeveralProcesses several;
  bool elsewhere = false;
  for (const std::vector<int64_t>& replica : assignment) {
    for (const int64_t id : replica) {
      several.devices.push_back(id);
      elsewhere = elsewhere || !platform.is_local(platform.device(id));
    }
  }
  if (elsewhere) several.processes = platform.processes();
  return several;
}

// The program of one device.
struct Lowered {
  lowering::Placement placement;
  lowering::LoweredProgram program;
};
using SharedLowered = std::shared_ptr<const Lowered>;

class StablehloInstance final : public ModuleInstance {
 public:
  StablehloInstance(SharedLowered lowered, const ModulePlace& place)
      : lowered_(std::move(lowered)), instance_(ProgramModule(lowered_->program.program).load(place)) {}

  void run(const ModuleRun& run) override {
    const lowering::Placement& placement = lowered_->placement;
    if (placement.devices() > 1) {
      submit_host_call(run.stream, "a run on several devices",
                       [collectives = placement.collectives, device = placement.device(), id = run.run_id] {
                         collectives->begin(device, id);
                       });
    }
    instance_->run(run);
  }
  std::optional<uint64_t> run_of_its_own() override {
    if (lowered_->program.collectives_text.empty()) return std::nullopt;
    return lowered_->placement.collectives->next_run(lowered_->placement.device());
  }
  void cancel(uint64_t run_id, const Failure& failure) override {
    lowered_->placement.collectives->cancel(run_id, failure.message);
  }

 private:
  SharedLowered lowered_;
  std::unique_ptr<ModuleInstance> instance_;
};

// The module is partitioned once. It is lowered once for each device, since the program knows the device's replica and
// partition; the first device's program also describes the module.
class StablehloModule final : public CompiledModule {
 public:
  StablehloModule(stablehlo::Module module, const CompileOptions& options)
      : module_(std::make_shared<const stablehlo::Module>(std::move(module))) {
    lowering::Placement placement{options.num_replicas, options.num_partitions};
    placement.collectives =
        std::make_shared<lowering::Collectives>(placement.devices(), processes_of(options.device_assignment));
    stablehlo::verify(*module_);
    first_ = std::make_shared<const Lowered>(Lowered{placement, lowering::lower(module_, placement)});
    const lowering::LoweredProgram& first = first_->program;
    collectives_ = placement.collectives;
    if (!first.collectives_text.empty()) {
      collectives_ = lowering::Collectives::shared(
          serialize_device_assignment(options.device_assignment) + first.collectives_text, collectives_);
    }
    description_ = ProgramModule(first.program).description();
    log_gathers(description_.name, placement.devices(), first.gathered);
    const stablehlo::Function& main = module_->main();
    std::vector<const stablehlo::Type*> parameters, results;
    for (const stablehlo::FunctionArgument& argument : main.arguments) parameters.push_back(argument.value->type);
    for (const stablehlo::FunctionResult& result : main.results) results.push_back(result.type);
    describe(parameters, first.shardings.parameters, first.kinds.arguments, description_.parameters);
    describe(results, first.shardings.results, first.kinds.results, description_.results);
    for (size_t i = 0; i < parameters.size(); ++i) description_.parameters[i].donated = first.donated[i];
  }

  const ModuleDescription& description() const override { return description_; }
  std::unique_ptr<ModuleInstance> load(const ModulePlace& place) const override {
    return std::make_unique<StablehloInstance>(lowered_for(place), place);
  }
  void show(const std::function<void(const program::Program&)>& look) const override { look(*first_->program.program); }
  // Clients do not know Shardy's operators by the time that they ask.
  std::optional<std::string> text() const override {
    const lowering::Partition* parts = first_->program.partition.get();
    return parts == nullptr ? std::nullopt : std::optional(stablehlo::print(parts->module));
  }

 private:
  // Describes values with the element types of the program, which kernels may not know.
  void describe(std::span<const stablehlo::Type* const> types, std::span<const lowering::Sharding> shardings,
                std::span<const std::string> kinds, std::vector<ValueDescription>& values) const {
    for (size_t i = 0; i < types.size(); ++i) {
      const bool is_token = types[i]->kind == stablehlo::TypeKind::kToken;  // clients hold pred[0] for it
      const ElementType& type = element_type(is_token ? "pred" : stablehlo::element_row(types[i]->element).name);
      const SharedShape computed = values.at(i).shape;
      values[i].shape = make_shape(type, is_token ? std::vector<int64_t>{0} : shardings[i].part_sizes(types[i]->dims));
      // Clients have memory for what the module declares: the program writes and reads all of it, and no more.
      MYDEV_ASSERT(values[i].shape->sizes == computed->sizes && values[i].shape->bytes == computed->bytes);
      values[i].memory = memory_named(kinds[i]);
      if (first_->placement.partitions > 1) values[i].sharding = serialized(shardings[i]);
    }
  }

  SharedLowered lowered_for(const ModulePlace& place) const {
    lowering::Placement placement = first_->placement;
    placement.replica = place.replica;
    placement.partition = place.partition;
    placement.collectives = collectives_;
    if (placement.device() == first_->placement.device() && collectives_ == first_->placement.collectives) {
      return first_;
    }
    return std::make_shared<const Lowered>(
        Lowered{placement, lowering::lower(module_, placement, first_->program.partition)});
  }

  std::shared_ptr<const stablehlo::Module> module_;
  SharedLowered first_;                                 // of the first device
  std::shared_ptr<lowering::Collectives> collectives_;  // of all devices, and of other modules that meet for the same
  ModuleDescription description_;
};

}  // namespace

SharedModule compile_stablehlo(std::string_view code, const CompileOptions& options) {
  const auto bytes = std::as_bytes(std::span(code));
  return std::make_shared<StablehloModule>(
      stablehlo::is_bytecode(bytes) ? stablehlo::read_bytecode(bytes) : stablehlo::read_text(code), options);
}

}  // namespace mydev::pjrt
