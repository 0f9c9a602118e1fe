#include "program/run/command.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <span>
#include <utility>

#include "kernels/launch/kernel_launch.h"
#include "kernels/launch/prepared_launch.h"
#include "kernels/launch/staged_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/registry/launchable.h"
#include "program/ir/access.h"
#include "program/ir/compiled_step.h"
#include "program/ir/launch_frame.h"
#include "program/run/interned_string.h"
#include "program/transform/fused_form.h"
#include "program/transform/small_steps.h"
#include "runtime/base/status.h"
#include "runtime/command/launch.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/capture.h"

namespace mydev::program {

void Relocations::follow(void*& pointer, const Operand& view) {
  const auto [begin, end] = bytes_touched(view);
  if (begin == end) return;
  const Address& slot = slots[view.slot];
  table.follow(pointer, {slot.entry, slot.offset + view.offset});
}

namespace {

uint64_t bytes_of(const Operand& dense_view) {
  const auto [begin, end] = bytes_touched(dense_view);
  return static_cast<uint64_t>(end - begin);
}

// Follows the addresses of a step's results, then of its operands, with the pointers of `buffers`.
void follow_all(Relocations& relocations, const Step& step, std::span<mydev_buffer> buffers) {
  size_t i = 0;
  for (const Operand& result : step.results) relocations.follow(buffers[i++].data, result);
  for (const Operand& operand : step.operands) relocations.follow(buffers[i++].data, operand);
}

// Returns a bit for each of the step's buffers that is a constant, as in mydev_plan.
uint64_t constant_buffers(const Step& step, const SlotFacts& slots) {
  uint64_t constants = 0;
  size_t buffer = step.results.size();
  for (const Operand& operand : step.operands) {
    if (buffer < 64 && slots.is_constant(operand)) constants |= uint64_t{1} << buffer;
    ++buffer;
  }
  return constants;
}

// The launch of a kernel that is decided when the command is made.
class PreparedCommand : public Command {
 public:
  uint64_t workspace_bytes() const noexcept override { return launch_->scratch_bytes(); }
  bool is_repeatable() const noexcept override { return launch_->is_repeatable(); }
  void place(Relocations& relocations) override {
    follow_all(relocations, step_, made_.buffers());
    made_.frame().scratch_bytes = launch_->scratch_bytes();
    if (launch_->scratch_bytes() != 0) relocations.table.follow(made_.frame().scratch, relocations.workspace);
  }
  void submit(Stream& stream, const char*& /*where*/) override { launch_->run(made_.frame(), stream); }

 protected:
  explicit PreparedCommand(const Step& step, std::span<const SlotIndex> memory = {})
      : step_(step), made_(step, memory) {}

  const Step& step_;
  LaunchFrame made_;
  std::unique_ptr<PreparedLaunch> launch_;  // made by the constructors of derived classes
};

class LaunchCommand final : public PreparedCommand {
 public:
  LaunchCommand(const Launchable& kernel, const Step& step, const SlotFacts& slots, Stream& stream)
      : PreparedCommand(step, slots.memory) {
    launch_ = std::make_unique<PreparedLaunch>(kernel, made_.frame(), stream, constant_buffers(step, slots));
  }
};

class CopyCommand final : public Command {
 public:
  CopyCommand(const Step& step, mydev_copy_kind kind) : step_(step), kind_(kind), bytes_(bytes_of(step.results[0])) {}

  void place(Relocations& relocations) override {
    relocations.follow(to_, step_.results[0]);
    relocations.follow(from_, step_.operands[0]);
  }
  void submit(Stream& stream, const char*& /*where*/) override { copy_bytes(stream, to_, from_, bytes_, kind_); }

 private:
  const Step& step_;
  mydev_copy_kind kind_;
  uint64_t bytes_;
  void *to_ = nullptr, *from_ = nullptr;
};

constexpr const char* kCopyKernel = "mydev.copy";

// Work on the buffers of a step.
class BuffersCommand : public Command {
 public:
  explicit BuffersCommand(const Step& step) : step_(step) {
    for (const auto* operands : {&step.results, &step.operands}) {
      for (const Operand& operand : *operands) buffers_.push_back(buffer_of(operand, nullptr));
    }
  }

  void place(Relocations& relocations) override { follow_all(relocations, step_, buffers_); }

 protected:
  const Step& step_;
  std::vector<mydev_buffer> buffers_;
};

class StridedCopyCommand final : public BuffersCommand {
 public:
  using BuffersCommand::BuffersCommand;

  void submit(Stream& stream, const char*& /*where*/) override {
    if (copy_views(stream, buffers_[0], buffers_[1], MYDEV_COPY_DEVICE_TO_DEVICE)) return;
    mydev_frame frame = make_frame(buffers_, 1);
    launch_kernel(*resolve_step(stream.device(), kCopyKernel), frame, stream);
  }
};

class FillCommand final : public Command {
 public:
  explicit FillCommand(const Step& step) : step_(step), bytes_(bytes_of(step.results[0])) {}

  void place(Relocations& relocations) override { relocations.follow(to_, step_.results[0]); }
  void submit(Stream& stream, const char*& /*where*/) override {
    fill_bytes(stream, to_, bytes_, step_.pattern.data(), static_cast<uint32_t>(step_.pattern.size()));
  }

 private:
  const Step& step_;
  uint64_t bytes_;
  void* to_ = nullptr;
};

// An asynchronous stream calls the function later, with a copy of the buffers, since the next run may bind others.
class HostCommand final : public BuffersCommand {
 public:
  using BuffersCommand::BuffersCommand;

  bool is_repeatable() const noexcept override { return false; }
  void submit(Stream& stream, const char*& /*where*/) override {
    call_on_host(
        name_, buffers_, step_.results.size(),
        [call = step_.function](std::span<const mydev_buffer> buffers) { (*call)(buffers); }, stream);
  }

 private:
  const char* name_ = interned_string(step_.name);
};

class CollectiveCommand final : public BuffersCommand {
 public:
  using BuffersCommand::BuffersCommand;

  bool is_repeatable() const noexcept override { return false; }
  void submit(Stream& stream, const char*& /*where*/) override {
    if (stream.capture() != nullptr) raise_not_captured(stream, step_.name.c_str());
    (*step_.collective)(stream, buffers_);
  }
};

constexpr const char *kFusedKernel = "mydev.fused", *kSmallKernel = "mydev.small_steps";

// The uses of a fused step's buffers, in all iterations.
std::vector<BufferUse> uses_of_fused(const Step& step) {
  std::vector<BufferUse> uses;
  uses.reserve(step.results.size() + step.operands.size());
  for (const Operand& result : step.results) {
    uses.push_back({0, static_cast<int64_t>(bytes_of(result)), /*reads=*/false, /*writes=*/true});
  }
  for (size_t i = 0; i < step.operands.size(); ++i) {
    const auto bytes = static_cast<int64_t>(bytes_of(step.operands[i]));
    const int64_t moved = step.count == 0 ? 0 : step.advance(i) * static_cast<int64_t>(step.count - 1);
    const bool writes = step.program->slots()[step.program->parameters()[i]].donated;
    uses.push_back({std::min<int64_t>(moved, 0), bytes + std::max<int64_t>(moved, 0), /*reads=*/true, writes});
  }
  return uses;
}

class FusedCommand final : public PreparedCommand {
 public:
  // Throws KernelDeclined.
  FusedCommand(const Step& step, Attributes form, const Launchable& kernel, Stream& stream)
      : PreparedCommand(step), form_(std::move(form)) {
    mydev_frame& frame = made_.frame();
    frame.attributes = form_.get().data();
    frame.num_attributes = static_cast<uint32_t>(form_.get().size());
    launch_ = std::make_unique<PreparedLaunch>(kernel, frame, stream, /*constants=*/0, uses_of_fused(step));
    frame.num_attributes = 1;  // launches are given the text alone: the plan has read the rest
  }

  bool is_decided() const noexcept { return launch_->is_decided(); }
  bool of_driver() const noexcept { return launch_->of_driver(); }
  bool is_portable() const noexcept { return launch_->is_portable(); }
  // Loops may go through large arrays row by row, and copies are of whole ones.
  bool copies_too_much() const {
    constexpr uint64_t kMostCopied = 1 << 20;
    uint64_t bytes = 0;
    for (const Operand& view : step_.results) bytes += bytes_of(view);
    for (const Operand& view : step_.operands) bytes += bytes_of(view);
    return launch_->is_staged() && bytes > kMostCopied;
  }

 private:
  Attributes form_;
};

// A record of the fused kernels that is not the driver's computes what the built-in kernels compute. So it fits only if
// none of the driver's takes their place; and the host's only if none that the device's compiler makes does.
bool runs_builtin_kernels(const Program& program, const Device& device, bool portable_too) {
  return std::ranges::all_of(program.steps(), [&](const Step& step) {
    if (step.program != nullptr) {
      return runs_builtin_kernels(*step.program, device, portable_too) &&
             (step.otherwise == nullptr || runs_builtin_kernels(*step.otherwise, device, portable_too));
    }
    if (step.kind == StepKind::kFill) return true;
    const char* name = step.kind == StepKind::kCopy ? kCopyKernel : step.name.c_str();
    const Launchable* kernel = resolve_step(device, name);
    if (kernel == nullptr) return false;
    const KernelCandidate& first = kernel->candidates.front();
    return first.portable ? portable_too : !first.of_driver;
  });
}

class CompiledCommand final : public Command {
 public:
  CompiledCommand(const Step& step, std::span<const SlotIndex> memory) : step_(step), made_(step, memory) {
    keep_given_operands(step, made_.frame());
  }

  void place(Relocations& relocations) override { follow_all(relocations, step_, made_.buffers()); }
  void submit(Stream& stream, const char*& /*where*/) override {
    launch_compiled(*step_.compiled, made_.frame(), stream);
  }

 private:
  const Step& step_;
  LaunchFrame made_;
};

std::unique_ptr<Command> make_launch(const char* kernel, const Step& step, const SlotFacts& slots, Stream& stream) {
  const Launchable* resolved = resolve_step(stream.device(), kernel);
  MYDEV_ASSERT(resolved != nullptr);  // verify_kernels has found it, and mydev.copy is built in
  return std::make_unique<LaunchCommand>(*resolved, step, slots, stream);
}

std::unique_ptr<Command> make_copy(const Step& step, const SlotFacts& slots, Stream& stream) {
  if (is_dense(step.results[0]) && is_dense(step.operands[0])) {
    const mydev_copy_kind kind = slots.on_host[step.results[0].slot]    ? MYDEV_COPY_DEVICE_TO_HOST
                                 : slots.on_host[step.operands[0].slot] ? MYDEV_COPY_HOST_TO_DEVICE
                                                                        : MYDEV_COPY_DEVICE_TO_DEVICE;
    return std::make_unique<CopyCommand>(step, kind);
  }
  const Device& device = stream.device();
  if (device.driver->copy_strided != nullptr && resolve_kernel(device, kCopyKernel) == nullptr) {
    return std::make_unique<StridedCopyCommand>(step);
  }
  return make_launch(kCopyKernel, step, slots, stream);
}

}  // namespace

std::unique_ptr<Command> make_fused_command(const Step& step, Stream& stream) {
  if (step.kind != StepKind::kFused && step.kind != StepKind::kRepeat) return nullptr;
  const char* name = kFusedKernel;
  std::optional<Attributes> form = fused_form(step);
  if (!form) {
    name = kSmallKernel;
    form = small_form(step);
  }
  if (!form) return nullptr;
  const Launchable* kernel = resolve_step(stream.device(), name);
  if (kernel == nullptr) return nullptr;
  try {
    auto command = std::make_unique<FusedCommand>(step, std::move(*form), *kernel, stream);
    if (name == kSmallKernel && command->copies_too_much()) return nullptr;
    const bool of_driver = command->of_driver() && !command->is_portable();
    if (command->is_decided() &&
        (of_driver || runs_builtin_kernels(*step.program, stream.device(), command->is_portable()))) {
      return command;
    }
  } catch (const KernelDeclined&) {  // NOLINT(bugprone-empty-catch): the step is a call then
  }
  return nullptr;
}

std::unique_ptr<Command> make_command(const Step& step, const SlotFacts& slots, Stream& stream) {
  switch (step.kind) {
    case StepKind::kLaunch:
      if (step.compiled != nullptr) return std::make_unique<CompiledCommand>(step, slots.memory);
      return make_launch(step.name.c_str(), step, slots, stream);
    case StepKind::kCopy:
      return make_copy(step, slots, stream);
    case StepKind::kFill:
      return std::make_unique<FillCommand>(step);
    case StepKind::kCollective:
      return std::make_unique<CollectiveCommand>(step);
    default:
      MYDEV_ASSERT(step.kind == StepKind::kHostCall);
      return std::make_unique<HostCommand>(step);
  }
}

}  // namespace mydev::program
