#include "aten/graph/recorded_function.h"

#include <ATen/EmptyTensor.h>

#include <algorithm>
#include <utility>

#include "aten/core/device_type.h"
#include "aten/device/generator.h"
#include "aten/launch/native_launch.h"
#include "aten/memory/device_allocator.h"
#include "aten/memory/storage.h"
#include "program/text/text.h"
#include "program/transform/fusion.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

const void* memory_of(const at::Tensor& tensor) {
  return tensor.storage().data();
}

uint64_t bytes_reached(const at::Tensor& tensor) {
  return at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize());
}

}  // namespace

// --- recording -------------------------------------------------------------------------------------------------------

FunctionRecorder::FunctionRecorder(int device)
    : device_(device),
      space_(std::make_shared<AddressSpace>(device)),
      recorder_(std::make_shared<program::Recorder>("function", space_)),
      draws_(default_device_generator(static_cast<c10::DeviceIndex>(device))) {
  TORCH_CHECK(current_stream(device).capture() == nullptr, "a function cannot be recorded while the current stream of ",
              torch_device(device), " captures");
  draws_.allocate();
  recorder_->begin(space_->stream());
  draws_.begin(*recorder_);
  previous_ = &exchange_current_stream(space_->stream());
}

void FunctionRecorder::cancel() noexcept {
  if (previous_ == nullptr) return;
  stop();
  recorder_->cancel();
}

void FunctionRecorder::stop() noexcept {
  exchange_current_stream(*std::exchange(previous_, nullptr));
  draws_.end(*recorder_);
}

at::Tensor FunctionRecorder::add_input(const at::Tensor& like, bool donated) {
  TORCH_CHECK(
      on_device(like) && like.device().index() == device_ && like.layout() == at::kStrided && !like._is_zerotensor(),
      "a function on ", torch_device(device_), " cannot be recorded with an input of layout ", like.layout(), " on ",
      like.device());
  at::Tensor input = empty_strided_on(like.sizes(), like.strides(), like.scalar_type(), like.device());
  if (like.is_conj()) input._set_conj(true);
  if (like.is_neg()) input._set_neg(true);
  if (donated && memory_of(input) != nullptr) donated_.push_back(memory_of(input));
  return inputs_.emplace_back(std::move(input));
}

std::shared_ptr<RecordedFunction> FunctionRecorder::finish(const std::vector<at::Tensor>& outputs) {
  TORCH_CHECK(previous_ != nullptr, "the recording of the function is over");
  stop();
  program::Signature signature{
      .reserved = space_->reservations(), .parameters = {}, .results = {}, .donated = std::move(donated_)};
  const auto index_in = [](const std::vector<const void*>& list, const void* data) {
    return static_cast<size_t>(std::ranges::find(list, data) - list.begin());
  };
  for (const at::Tensor& input : inputs_) {
    if (memory_of(input) != nullptr) signature.parameters.push_back(memory_of(input));
  }
  std::vector<RecordedFunction::Output> kept;
  std::vector<uint64_t> result_bytes;
  for (const at::Tensor& output : outputs) {
    const void* data = memory_of(output);
    const bool reserved =
        std::ranges::binary_search(signature.reserved, const_cast<void*>(data), std::less<>(), &Reservation::data);
    const auto same = [&](const at::Tensor& input) { return output.storage().is_alias_of(input.storage()); };
    const auto input = std::ranges::find_if(inputs_, same);
    if (input != inputs_.end()) {
      kept.push_back({RecordedFunction::Output::kInput, static_cast<size_t>(input - inputs_.begin()), output});
    } else if (!reserved && data != nullptr) {
      kept.push_back({RecordedFunction::Output::kOther, 0, output});
    } else {
      // Tensors without memory share none.
      const size_t index = data == nullptr ? signature.results.size() : index_in(signature.results, data);
      if (index == signature.results.size()) {
        signature.results.push_back(data);
        result_bytes.push_back(output.storage().nbytes());
      }
      kept.push_back({RecordedFunction::Output::kResult, index, output});
    }
  }
  program::Recording recording = recorder_->end(signature);
  std::shared_ptr<RecordedFunction> function(new RecordedFunction(std::move(draws_)));
  function->device_ = device_;
  const program::Program& program = *recording.program;
  size_t parameter = 0;
  for (const at::Tensor& input : inputs_) {
    const bool bound = memory_of(input) != nullptr;
    const bool written = bound && program.slots()[program.parameters()[parameter]].donated;
    parameter += bound ? 1 : 0;
    function->inputs_.push_back({bytes_reached(input), written});
  }
  for (const RecordedFunction::Output& output : kept) {
    if (output.memory == RecordedFunction::Output::kInput) function->inputs_[output.index].returned = true;
  }
  function->outputs_ = std::move(kept);
  function->result_bytes_ = std::move(result_bytes);
  function->own_results_ = std::move(recording.results);
  function->others_ = std::move(recording.parameters);
  function->memory_ = std::move(recording.memory);
  Stream& stream = current_stream(device_);
  function->executor_.emplace(program::fuse(recording.program), stream, program::caching_allocator_for(stream),
                              program::Arena::kGiven);
  return function;
}

// --- calls -----------------------------------------------------------------------------------------------------------

std::string RecordedFunction::text() const {
  return program::print(executor_->program());
}

// The memory of one call.
class RecordedFunction::CallMemory final : public program::RunMemory {
 public:
  CallMemory(const RecordedFunction& function, Stream& stream, std::vector<at::Tensor>& inputs)
      : function_(function),
        stream_(stream),
        inputs_(inputs),
        arena_(function.executor_->plan().arena.size()),
        storages_(function.result_bytes_.size()) {
    for (size_t i = 0; i < storages_.size(); ++i) {
      if (std::ranges::find(function.own_results_, i) == function.own_results_.end()) allocate(i);
    }
  }

  // Returns the bindings of the program's parameters.
  std::vector<program::Binding> bind() {
    std::vector<program::Binding> parameters;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const Input& input = function_.inputs_[i];
      if (input.bytes == 0) continue;
      c10::TensorImpl* impl = inputs_[i].unsafeGetTensorImpl();
      const uint64_t before = static_cast<uint64_t>(impl->storage_offset()) * impl->itemsize();
      TORCH_CHECK(impl->unsafe_storage().nbytes() >= before + input.bytes, "input ", i,
                  " reaches beyond its storage, which has ", impl->unsafe_storage().nbytes(), " bytes");
      void* data = input.written ? impl->mutable_data() : const_cast<void*>(impl->data());
      if (input.written && !impl->is_inference()) impl->bump_version();
      parameters.push_back({data, input.bytes});
      input_of_parameter_.push_back(i);
    }
    parameters.insert(parameters.end(), function_.others_.begin(), function_.others_.end());
    return parameters;
  }

  program::Binding arena(size_t block, uint64_t bytes) override {
    arena_[block] = allocate_device_memory(stream_, bytes);
    return {arena_[block].get(), bytes};
  }
  void release_arena(size_t block) noexcept override { arena_[block].clear(); }
  void release_arena() noexcept { arena_.clear(); }
  program::Binding result(size_t index) override {
    const size_t result = function_.own_results_[index];
    allocate(result);
    return {storages_[result].mutable_data(), function_.result_bytes_[result]};
  }
  const c10::Storage& storage(size_t result) const { return storages_[result]; }
  void release(size_t parameter) noexcept override {
    if (parameter >= input_of_parameter_.size()) return;
    const size_t input = input_of_parameter_[parameter];
    if (!function_.inputs_[input].returned) inputs_[input].reset();
  }

 private:
  void allocate(size_t result) {
    const uint64_t bytes = function_.result_bytes_[result];
    storages_[result] = device_storage(allocate_device_memory(stream_, bytes), bytes);
  }

  const RecordedFunction& function_;
  Stream& stream_;
  std::vector<at::Tensor>& inputs_;
  std::vector<size_t> input_of_parameter_;
  std::vector<c10::DataPtr> arena_;     // of each block
  std::vector<c10::Storage> storages_;  // of the results
};

std::vector<at::Tensor> RecordedFunction::call(std::vector<at::Tensor> inputs) {
  TORCH_CHECK(inputs.size() == inputs_.size(), "the function has ", inputs_.size(), " inputs, and is given ",
              inputs.size());
  Stream& stream = current_stream(device_);
  CallMemory memory(*this, stream, inputs);
  const std::vector<program::Binding> parameters = memory.bind();
  {
    const std::lock_guard lock(mutex_);
    if (draws_.any()) draws_.prepare(stream, "a compiled function that draws random numbers");
    executor_->run(stream, parameters, memory);
  }
  memory.release_arena();
  std::vector<at::Tensor> outputs;
  outputs.reserve(outputs_.size());
  for (const Output& output : outputs_) {
    const c10::TensorImpl& like = *output.tensor.unsafeGetTensorImpl();
    switch (output.memory) {
      case Output::kResult:
        outputs.push_back(tensor_over(memory.storage(output.index), kDispatchKey, like));
        break;
      case Output::kInput: {
        const at::Tensor& input = inputs[output.index];
        at::Tensor view = tensor_over(input.storage(), kDispatchKey, like);
        const int64_t before = input.storage_offset() * static_cast<int64_t>(input.itemsize());
        view.unsafeGetTensorImpl()->set_storage_offset(before / static_cast<int64_t>(like.itemsize()) +
                                                       like.storage_offset());
        outputs.push_back(std::move(view));
        break;
      }
      case Output::kOther:
        outputs.push_back(output.tensor);
    }
  }
  return outputs;
}

}  // namespace mydev
