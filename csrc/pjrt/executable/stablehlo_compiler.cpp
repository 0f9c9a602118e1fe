// The compiler of StableHLO: the layers below read and lower it.
#include <algorithm>
#include <utility>

#include "lowering/collectives/collectives.h"
#include "lowering/lowering.h"
#include "pjrt/base/wire.h"
#include "pjrt/device/platform.h"
#include "pjrt/executable/program_module.h"
#include "runtime/base/log.h"
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
  std::vector<int64_t> dimensions = sharding.shards(), last;  // of what the last dimensions are
  int64_t copies = sharding.devices() / summands;
  for (const int64_t shards : dimensions) copies /= shards;
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
  std::string message = "program '" + program + "' for " + std::to_string(devices) + " devices gathers shards of ";
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

class StablehloInstance final : public ModuleInstance {
 public:
  StablehloInstance(std::unique_ptr<ModuleInstance> program, std::shared_ptr<lowering::Collectives> collectives,
                    bool has_collectives, const ModulePlace& place)
      : program_(std::move(program)),
        collectives_(std::move(collectives)),
        has_collectives_(has_collectives),
        device_(place.position) {}

  void run(const ModuleRun& run) override {
    if (has_collectives_) collectives_->begin(device_, run.stream, run.run_id);
    program_->run(run);
  }
  std::optional<uint64_t> run_of_its_own() override {
    return has_collectives_ ? std::optional(collectives_->next_run(device_)) : std::nullopt;
  }
  void cancel(uint64_t run_id, const Failure& failure) override { collectives_->cancel(run_id, failure.message); }

 private:
  std::unique_ptr<ModuleInstance> program_;
  std::shared_ptr<lowering::Collectives> collectives_;  // of all devices, and of other modules with the same rendezvous
  bool has_collectives_;
  int64_t device_;
};

// The module is partitioned and lowered once, for all devices.
class StablehloModule final : public CompiledModule {
 public:
  StablehloModule(stablehlo::Module module, const CompileOptions& options)
      : module_(std::make_shared<const stablehlo::Module>(std::move(module))) {
    stablehlo::verify(*module_);
    const lowering::Devices devices{options.num_replicas, options.num_partitions};
    lowered_ = lowering::lower(module_, devices);
    auto& collectives = *lowered_.collectives;
    collectives = std::make_shared<lowering::Collectives>(devices.count(), processes_of(options.device_assignment));
    if (has_collectives()) {
      collectives = lowering::Collectives::shared(
          serialize_device_assignment(options.device_assignment) + lowered_.collectives_text, collectives);
    }
    program_ = std::make_unique<const ProgramModule>(lowered_.program);
    description_ = program_->description();
    log_gathers(description_.name, devices.count(), lowered_.gathered);
    const stablehlo::Function& main = module_->main();
    std::vector<const stablehlo::Type*> parameters, results;
    for (const stablehlo::FunctionArgument& argument : main.arguments) parameters.push_back(argument.value->type);
    for (const stablehlo::FunctionResult& result : main.results) results.push_back(result.type);
    const bool is_partitioned = devices.partitions > 1;
    describe(parameters, lowered_.shardings.parameters, lowered_.kinds.arguments, is_partitioned,
             description_.parameters);
    describe(results, lowered_.shardings.results, lowered_.kinds.results, is_partitioned, description_.results);
    for (size_t i = 0; i < parameters.size(); ++i) description_.parameters[i].donated = lowered_.donated[i];
  }

  const ModuleDescription& description() const override { return description_; }
  std::unique_ptr<ModuleInstance> load(const ModulePlace& place) const override {
    return std::make_unique<StablehloInstance>(program_->load(place), *lowered_.collectives, has_collectives(), place);
  }
  program::SharedProgram program() const override { return lowered_.program; }
  // Clients do not know Shardy's operators by the time that they ask.
  std::optional<std::string> text() const override {
    const lowering::Partition* partition = lowered_.partition.get();
    return partition == nullptr ? std::nullopt : std::optional(stablehlo::print(partition->module));
  }

 private:
  // Describes values with the element types of the program, which kernels may not know.
  void describe(std::span<const stablehlo::Type* const> types, std::span<const lowering::Sharding> shardings,
                std::span<const std::string> kinds, bool is_partitioned, std::vector<ValueDescription>& values) const {
    for (size_t i = 0; i < types.size(); ++i) {
      const bool is_token = types[i]->kind == stablehlo::TypeKind::kToken;  // clients hold pred[0] for it
      const ElementType& type = element_type(is_token ? "pred" : stablehlo::element_row(types[i]->element).name);
      const SharedShape computed = values.at(i).shape;
      values[i].shape = make_shape(type, is_token ? std::vector<int64_t>{0} : shardings[i].shard_sizes(types[i]->dims));
      // Clients have memory for what the module declares: the program writes and reads all of it, and no more.
      MYDEV_ASSERT(values[i].shape->sizes == computed->sizes && values[i].shape->bytes == computed->bytes);
      values[i].memory = memory_named(kinds[i]);
      if (is_partitioned) values[i].sharding = serialized(shardings[i]);
    }
  }

  bool has_collectives() const { return !lowered_.collectives_text.empty(); }

  std::shared_ptr<const stablehlo::Module> module_;
  lowering::LoweredProgram lowered_;
  std::unique_ptr<const ProgramModule> program_;
  ModuleDescription description_;
};

}  // namespace

SharedModule compile_stablehlo(std::string_view code, const CompileOptions& options) {
  const auto bytes = std::as_bytes(std::span(code));
  return std::make_shared<StablehloModule>(
      stablehlo::is_bytecode(bytes) ? stablehlo::read_bytecode(bytes) : stablehlo::read_text(code), options);
}

}  // namespace mydev::pjrt
