// A function of tensors as a program: recorded once for some sizes and strides, and called with other memory each time.
//
// While a FunctionRecorder lives, operators that its thread calls become steps. They allocate addresses alone: nothing
// runs, and no memory of the device is used. Inputs are stand-ins. The function keeps other tensors of the device that
// operators take. Neighbouring steps are fused (program/transform/fusion.h).
//
// A call gives the program to the current stream. It allocates memory for results and temporaries by the step that
// first needs it. The caller gives the inputs away: each is released when no step needs it any more.
#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "aten/graph/captured_draws.h"
#include "program/record/recorder.h"
#include "program/run/executor.h"
#include "runtime/base/api.h"
#include "runtime/memory/address_space.h"

namespace mydev {

// Thread-safe: calls take turns.
class MYDEV_API RecordedFunction {
 public:
  // The caller ensures that `inputs` are laid out as those of the recording were. The call writes the inputs that the
  // function writes. An output that is an input, or shares its memory, does so here too. Raises if an input's storage
  // is too small, and raises the errors of the steps.
  std::vector<at::Tensor> call(std::vector<at::Tensor> inputs);

  // The program's text, for people.
  std::string text() const;
  size_t num_steps() const noexcept { return executor_->program().steps().size(); }
  uint64_t arena_bytes() const noexcept { return executor_->plan().arena_bytes; }
  bool draws() const noexcept { return draws_.any(); }  // random numbers
  // The parameters behind the inputs: memory that is not theirs.
  size_t num_others() const noexcept { return others_.size(); }
  // The outputs that the program writes, each once.
  size_t num_written_results() const noexcept { return own_results_.size(); }

 private:
  friend class FunctionRecorder;
  struct Input {
    uint64_t bytes;         // that it reaches from its first element
    bool written;           // or may be, since it is donated
    bool returned = false;  // an output is it, or shares its memory
  };
  struct Output {
    enum Memory : uint8_t { kInput, kResult, kOther };
    Memory memory;
    size_t index;       // of the input, or the result
    at::Tensor tensor;  // of the recording: how it lies; of kOther: itself
  };

  class CallMemory;

  explicit RecordedFunction(CapturedDraws draws) : draws_(std::move(draws)) {}

  int device_ = 0;
  std::vector<Input> inputs_;
  std::vector<Output> outputs_;
  std::vector<uint64_t> result_bytes_;    // of each result
  std::vector<size_t> own_results_;       // which of them the program writes, in its order
  std::vector<program::Binding> others_;  // parameters behind the inputs: memory of `memory_`
  program::HeldBlocks memory_;
  CapturedDraws draws_;
  std::mutex mutex_;
  std::optional<program::Executor> executor_;
};

// One recording, by one thread, which calls nothing else on the device meanwhile. Work that cannot be recorded raises;
// the recorder must then be destroyed. A recorder that is not finished may always be destroyed.
class MYDEV_API FunctionRecorder {
 public:
  explicit FunctionRecorder(int device);
  ~FunctionRecorder() { cancel(); }
  FunctionRecorder(const FunctionRecorder&) = delete;
  FunctionRecorder& operator=(const FunctionRecorder&) = delete;

  // Returns the stand-in for an input, which is laid out as `like` is. At each call, nobody else may need the memory of
  // a donated input, and no other input may share it: temporaries may lie there. It must be aligned as the device's
  // memory is.
  at::Tensor add_input(const at::Tensor& like, bool donated);
  // Ends the recording. `outputs` are tensors of the device.
  std::shared_ptr<RecordedFunction> finish(const std::vector<at::Tensor>& outputs);
  // Ends the recording without a function; does nothing if it has ended.
  void cancel() noexcept;

 private:
  void stop() noexcept;

  const int device_;
  std::shared_ptr<AddressSpace> space_;
  std::shared_ptr<program::Recorder> recorder_;
  CapturedDraws draws_;
  Stream* previous_ = nullptr;  // the thread's current stream before; nullptr once the recording is over
  std::vector<at::Tensor> inputs_;
  std::vector<const void*> donated_;
};

}  // namespace mydev
