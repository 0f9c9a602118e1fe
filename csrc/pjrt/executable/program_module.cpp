#include "pjrt/executable/program_module.h"

#include <algorithm>
#include <utility>

#include "program/plan/plan.h"
#include "program/run/executor.h"
#include "program/text/text.h"
#include "runtime/base/status.h"

namespace mydev::pjrt {

namespace {

constexpr uint64_t kPlanAlignment = 64;  // for the figure alone: a device's own may be more

SharedShape shape_of(const program::Slot& slot) {
  return make_shape(element_type(slot.dtype), slot.sizes);
}

MemoryKind memory_of(const program::Slot& slot) {
  return slot.on_host ? MemoryKind::kPinnedHost : MemoryKind::kDevice;
}

class ProgramInstance final : public ModuleInstance {
 public:
  ProgramInstance(const program::SharedProgram& program, const ModulePlace& place, std::vector<size_t> own_results)
      : executor_(program, place.stream, program::caching_allocator_for(place.stream), program::Arena::kKept,
                  place.position),
        own_results_(std::move(own_results)),
        bindings_(own_results_.size()) {}

  void run(const ModuleRun& run) override {
    for (size_t i = 0; i < own_results_.size(); ++i) bindings_[i] = run.results[own_results_[i]];
    executor_.run(run.stream, run.arguments, bindings_);
  }

 private:
  program::Executor executor_;
  std::vector<size_t> own_results_;         // those of all results that have memory of their own
  std::vector<program::Binding> bindings_;  // of these
};

}  // namespace

ProgramModule::ProgramModule(program::SharedProgram program) : program_(std::move(program)) {
  description_.name = program_->name();
  const std::vector<program::SlotIndex>& parameters = program_->parameters();
  for (const program::SlotIndex index : parameters) {
    const program::Slot& slot = program_->slots()[index];
    description_.parameters.push_back({shape_of(slot), std::nullopt, slot.donated, memory_of(slot)});
  }
  for (const program::SlotIndex index : program_->results()) {
    const program::Slot& slot = program_->slots()[index];
    description_.results.push_back({shape_of(slot), std::nullopt, false, memory_of(slot)});
    std::optional<size_t> parameter;
    if (slot.kind == program::SlotKind::kParameter) {
      parameter = static_cast<size_t>(std::ranges::find(parameters, index) - parameters.begin());
      MYDEV_CHECK(std::ranges::count(description_.in_place_of, parameter) == 0, MYDEV_INVALID_ARGUMENT, "program '",
                  program_->name(), "' returns its parameter '", slot.name, "' twice; return a copy of it");
    }
    description_.in_place_of.push_back(parameter);
  }
  description_.memory.temporaries = static_cast<int64_t>(program::plan_memory(*program_, kPlanAlignment).arena_bytes);
}

std::unique_ptr<ModuleInstance> ProgramModule::load(const ModulePlace& place) const {
  std::vector<size_t> own_results;
  for (size_t i = 0; i < description_.in_place_of.size(); ++i) {
    if (!description_.in_place_of[i]) own_results.push_back(i);
  }
  return std::make_unique<ProgramInstance>(program_, place, std::move(own_results));
}

SharedModule compile_program_text(std::string_view text, const CompileOptions&) {
  return std::make_shared<ProgramModule>(program::parse(text));
}

}  // namespace mydev::pjrt
