#include "aten/graph/program_function.h"

#include <algorithm>
#include <utility>

#include "aten/core/device_type.h"
#include "aten/core/dtype.h"
#include "aten/launch/native_launch.h"
#include "aten/memory/device_allocator.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

using program::Binding;
using program::Slot;
using program::SlotIndex;

ProgramFunction::ProgramFunction(program::SharedProgram program) : program_(std::move(program)) {
  for (const SlotIndex index : program_->parameters()) {
    const Slot& slot = program_->slots()[index];
    MYDEV_CHECK(!slot.donated && !slot.on_host, MYDEV_INVALID_ARGUMENT, "program '", program_->name(),
                "' cannot be a function of tensors: its parameter '", slot.name, "' is ",
                slot.donated ? "donated" : "memory of the host");
  }
  for (const SlotIndex index : program_->results()) {
    const Slot& slot = program_->slots()[index];
    MYDEV_CHECK(!slot.on_host && to_scalar_type(slot.dtype) != c10::ScalarType::Undefined, MYDEV_INVALID_ARGUMENT,
                "program '", program_->name(), "' cannot be a function of tensors: its result '", slot.name, "' is ",
                slot.on_host ? "memory of the host" : "of a dtype that tensors do not have");
  }
}

// The memory of one call.
class ProgramFunction::CallMemory final : public program::RunMemory {
 public:
  CallMemory(const program::Program& program, Stream& stream, size_t num_blocks)
      : program_(program), stream_(stream), arena_(num_blocks), results_(program.own_results().size()) {}

  Binding arena(size_t block, uint64_t bytes) override {
    arena_[block] = allocate_device_memory(stream_, bytes);
    return {arena_[block].get(), bytes};
  }
  void release_arena(size_t block) noexcept override { arena_[block].clear(); }
  Binding result(size_t index) override {
    const Slot& slot = program_.slots()[program_.own_results()[index]];
    results_[index] = empty_dense(slot.sizes, to_scalar_type(slot.dtype), torch_device(stream_.device().index));
    return {results_[index].mutable_data_ptr(), results_[index].nbytes()};
  }
  void release(size_t) noexcept override {}  // the caller's
  std::vector<at::Tensor> take_results() { return std::move(results_); }

 private:
  const program::Program& program_;
  Stream& stream_;
  std::vector<c10::DataPtr> arena_;
  std::vector<at::Tensor> results_;
};

void ProgramFunction::check(const std::vector<at::Tensor>& inputs, int device) const {
  const std::vector<SlotIndex>& parameters = program_->parameters();
  TORCH_CHECK(inputs.size() == parameters.size(), "program '", program_->name(), "' has ", parameters.size(),
              " parameters, and is given ", inputs.size(), " tensors");
  for (size_t i = 0; i < inputs.size(); ++i) {
    const at::Tensor& input = inputs[i];
    const Slot& slot = program_->slots()[parameters[i]];
    TORCH_CHECK(on_device(input) && input.device().index() == device, "program '", program_->name(), "': input ", i,
                " is on ", input.device(), ", and the program runs on ", torch_device(device));
    TORCH_CHECK(to_frame_dtype(input.scalar_type()) == slot.dtype && input.sizes() == slot.sizes &&
                    input.layout() == at::kStrided && input.is_contiguous() && !input.is_conj() && !input.is_neg() &&
                    !input._is_zerotensor(),
                "program '", program_->name(), "': input ", i, " is ", input.scalar_type(), " of sizes ", input.sizes(),
                ", and the program was compiled for ", to_scalar_type(slot.dtype), " of sizes ",
                c10::IntArrayRef(slot.sizes), ", dense and row-major");
  }
}

program::Executor& ProgramFunction::executor_for(Stream& stream) {
  const auto prepare = [&](Stream& where, program::Fusing fusing) {
    return std::make_unique<program::Executor>(program_, where, program::caching_allocator_for(where),
                                               program::Arena::kGiven, /*position=*/0, fusing);
  };
  const int device = stream.device().index;
  if (stream.capture() != nullptr) {
    return *captured_.emplace_back(prepare(default_stream(device), program::Fusing::kStepByStep));
  }
  std::unique_ptr<program::Executor>& executor = executors_[device];
  if (executor == nullptr) executor = prepare(stream, program::Fusing::kFused);
  return *executor;
}

std::vector<at::Tensor> ProgramFunction::call(const std::vector<at::Tensor>& inputs, int device) {
  check(inputs, device);
  Stream& stream = current_stream(device);
  std::vector<Binding> parameters;
  for (const at::Tensor& input : inputs) {
    parameters.push_back({const_cast<void*>(input.const_data_ptr()), input.nbytes()});
  }
  const std::lock_guard lock(mutex_);
  program::Executor& executor = executor_for(stream);
  CallMemory memory(*program_, stream, executor.plan().arena.size());
  executor.run(stream, parameters, memory);
  std::vector<at::Tensor> own = memory.take_results(), results;
  for (const SlotIndex index : program_->results()) {
    const auto place = std::ranges::find(program_->own_results(), index) - program_->own_results().begin();
    results.push_back(own[static_cast<size_t>(place)]);
  }
  return results;
}

}  // namespace mydev
