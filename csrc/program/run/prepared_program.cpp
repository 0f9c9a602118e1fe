#include "program/run/prepared_program.h"

#include <algorithm>

#include "program/plan/live_ranges.h"
#include "program/run/interned_string.h"
#include "program/transform/fusible_run.h"
#include "program/transform/fusion.h"
#include "runtime/base/source_location.h"
#include "runtime/base/status.h"
#include "runtime/command/executable.h"
#include "runtime/command/transfer.h"

namespace mydev::program {

namespace {

std::vector<Address> addresses_of(const Relocations& relocations, const std::vector<Operand>& views) {
  std::vector<Address> addresses;
  for (const Operand& view : views) {
    const Address& slot = relocations.slots[view.slot];
    addresses.push_back({slot.entry, slot.offset + view.offset});
  }
  return addresses;
}

// Returns for each operand whether it is a constant that does not move.
std::vector<bool> constants_of(const Step& step, const SlotFacts& slots) {
  std::vector<bool> constants(step.operands.size());
  for (size_t i = 0; i < constants.size(); ++i) {
    constants[i] = slots.is_constant(step.operands[i]) && step.advance(i) == 0;
  }
  return constants;
}

// Returns what a step calls. If no kernel takes steps of a few elements as one launch, those that go tile by tile do.
SharedProgram called_program(const Step& step) {
  return step.kind == StepKind::kFused && !FusibleRun::of(*step.program) ? fuse_runs(step.program) : step.program;
}

// A step that calls a program: once, a number of times, while a byte is not zero, or depending on a byte. If the
// device's compiler has compiled the program, the steps are run only where a stream captures them.
class CallCommand final : public Command {
 public:
  CallCommand(const Step& step, const SlotFacts& slots, Preparation& preparation, const char* where)
      : step_(step), called_(called_program(step)), then_(*called_, preparation, where, constants_of(step, slots)) {
    if (step.otherwise != nullptr) {
      otherwise_ = std::make_unique<PreparedProgram>(*step.otherwise, preparation, where, constants_of(step, slots));
    }
  }

  uint64_t workspace_bytes() const noexcept override {
    const uint64_t scratch_bytes = step_.executable != nullptr ? step_.executable->scratch_bytes() : 0;
    return std::max(
        {then_.plan().arena_bytes, otherwise_ != nullptr ? otherwise_->plan().arena_bytes : 0, scratch_bytes});
  }

  bool is_repeatable() const noexcept override {
    return step_.kind != StepKind::kWhile && step_.kind != StepKind::kIf && step_.executable == nullptr &&
           then_.is_repeatable();
  }

  void place(Relocations& relocations) override {
    std::vector<Address> parameters = addresses_of(relocations, step_.operands);
    const std::vector<Address> results = addresses_of(relocations, step_.results);
    const std::span<const Address> arena(&relocations.workspace, 1);
    relocations.follow(predicate_, step_.predicate);
    if (step_.executable != nullptr) follow_all(relocations);
    follow_moving(relocations, parameters);
    then_.place(relocations.table, relocations.constants, parameters, results, arena);
    if (otherwise_ != nullptr) otherwise_->place(relocations.table, relocations.constants, parameters, results, arena);
  }

  void submit(Stream& stream, const char*& where) override {
    const char* const here = where;
    switch (step_.kind) {
      case StepKind::kRepeat:
        for (uint64_t iteration = 0; iteration < step_.count; ++iteration) {
          for (const Moving& moving : moving_) {
            table_->set(moving.entry,
                        static_cast<char*>(moving.start) + moving.advance * static_cast<int64_t>(iteration));
          }
          then_.run(stream, where);
        }
        break;
      case StepKind::kWhile:
        while (is_set(stream)) {
          then_.run(stream, where);
          where = here;
        }
        break;
      case StepKind::kIf:
        if (is_set(stream)) {
          then_.run(stream, where);
        } else if (otherwise_ != nullptr) {
          otherwise_->run(stream, where);
        }
        break;
      default:
        if (step_.executable != nullptr && stream.capture() == nullptr) {
          step_.executable->run(stream, operands_, results_, scratch_);
        } else {
          then_.run(stream, where);
        }
    }
  }

 private:
  // For the executable: all that it is given.
  void follow_all(Relocations& relocations) {
    operands_.resize(step_.operands.size());
    results_.resize(step_.results.size());
    for (size_t i = 0; i < operands_.size(); ++i) relocations.follow(operands_[i], step_.operands[i]);
    for (size_t i = 0; i < results_.size(); ++i) relocations.follow(results_[i], step_.results[i]);
    if (step_.executable->scratch_bytes() != 0) relocations.table.follow(scratch_, relocations.workspace);
  }

  // An operand that moves from iteration to iteration has an entry of its own in the binding table.
  struct Moving {
    BindingIndex entry;
    int64_t advance;
    void* start;  // where it is in the first iteration
  };
  void follow_moving(Relocations& relocations, std::vector<Address>& parameters) {
    table_ = &relocations.table;
    for (const int64_t advance : step_.advances) {
      if (advance != 0) moving_.push_back({relocations.table.add(), advance, nullptr});
    }
    auto moving = moving_.begin();  // they stay where they are from here on
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (step_.advance(i) == 0) continue;
      relocations.table.follow(moving->start, parameters[i]);
      parameters[i] = {moving->entry, 0};
      ++moving;
    }
  }

  // Waits for the byte. Raises the error of the stream's work if it failed: the byte would be wrong then.
  bool is_set(Stream& stream) const {
    uint8_t byte = 0;
    copy_bytes(stream, &byte, predicate_, 1, MYDEV_COPY_DEVICE_TO_HOST);
    stream.synchronize();
    return byte != 0;
  }

  const Step& step_;
  SharedProgram called_;
  PreparedProgram then_;
  std::unique_ptr<PreparedProgram> otherwise_;
  void* predicate_ = nullptr;
  BindingTable* table_ = nullptr;
  std::vector<Moving> moving_;
  std::vector<void*> operands_, results_;
  void* scratch_ = nullptr;
};

}  // namespace

PreparedProgram::PreparedProgram(const Program& program, Preparation& preparation, const char* called_by,
                                 const std::vector<bool>& constant_parameters)
    : program_(program) {
  preparation.constants.add(program);
  const std::vector<bool> none(program.slots().size());
  SlotFacts slots{shared_memory(program), none, none};
  for (size_t i = 0; i < program.slots().size(); ++i) {
    slots.constant[i] = program.slots()[i].kind == SlotKind::kConstant;
    slots.on_host[i] = program.slots()[i].on_host;
  }
  for (size_t i = 0; i < constant_parameters.size(); ++i) {
    slots.constant[program.parameters()[i]] = constant_parameters[i];
  }
  std::vector<uint64_t> workspace;
  for (StepIndex index = 0; index < program.steps().size(); ++index) {
    const Step& step = program.steps()[index];
    std::string where = describe_step(program, index);
    if (*called_by != '\0') where += ", called by " + std::string(called_by);
    where_.push_back(interned_string(where));
    preparation.where = where_.back();
    std::unique_ptr<Command> command = step.program == nullptr ? make_command(step, slots, preparation.stream)
                                       : preparation.fuses     ? make_fused_command(step, preparation.stream)
                                                               : nullptr;
    if (command == nullptr) command = std::make_unique<CallCommand>(step, slots, preparation, where_.back());
    commands_.push_back(std::move(command));
    workspace.push_back(commands_.back()->workspace_bytes());
  }
  const uint64_t alignment = preparation.stream.device().properties.alignment;
  plan_ = plan_memory(program, alignment, workspace, *called_by == '\0' ? preparation.given : Given::kUnaligned);
}

bool PreparedProgram::is_repeatable() const noexcept {
  return std::ranges::all_of(commands_, [](const auto& command) { return command->is_repeatable(); });
}

void PreparedProgram::place(BindingTable& table, const ConstantPool& constants, std::span<const Address> parameters,
                            std::span<const Address> results, std::span<const Address> arena) {
  Relocations relocations{table, constants, std::vector<Address>(program_.slots().size()), {}};
  for (size_t i = 0; i < parameters.size(); ++i) relocations.slots[program_.parameters()[i]] = parameters[i];
  for (size_t i = 0; i < results.size(); ++i) relocations.slots[program_.own_results()[i]] = results[i];
  const auto address_of = [&](const Placement& placement) {
    if (placement.home == Placement::kNowhere) return Address{};
    const bool in_arena = placement.home >= Placement::kArena;
    const Address& home = in_arena ? arena[placement.home - Placement::kArena] : relocations.slots[placement.home];
    return Address{home.entry, home.offset + placement.offset};
  };
  for (SlotIndex index = 0; index < program_.slots().size(); ++index) {
    const SlotKind kind = program_.slots()[index].kind;
    if (kind == SlotKind::kTemporary) relocations.slots[index] = address_of(plan_.slots[index]);
    if (kind == SlotKind::kConstant) {
      relocations.slots[index] = {kConstantsBinding, constants.offset_of(program_, index)};
    }
  }
  for (size_t step = 0; step < commands_.size(); ++step) {
    relocations.workspace = address_of(plan_.workspace[step]);
    commands_[step]->place(relocations);
  }
}

void PreparedProgram::run(Stream& stream, const char*& where, StepIndex first, StepIndex end) {
  for (StepIndex step = first; step < end; ++step) {
    where = where_[step];
    if (stream.needs_care()) [[unlikely]] {
      const SourceLocationScope scope(where);
      commands_[step]->submit(stream, where);
    } else {
      commands_[step]->submit(stream, where);
    }
  }
}

}  // namespace mydev::program
