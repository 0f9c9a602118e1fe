// A collective of a capture (runtime/stream/capture.h): nothing is sent, and each replay issues it anew.
//
// The capture gets a step that issues the collective and, where it is first waited for on a stream, another that makes
// the replay's stream wait. Between the two a replay goes on with other work, as eager code does. The operands stay
// alive until the capture has the second step. Not thread-safe: used by the thread that captures.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "runtime/stream/stream.h"

namespace mydev {

class CapturedWork final : public c10d::Work {
 public:
  using Tensors = std::vector<at::Tensor>;
  // Issues the collective on the current stream, over the memory that a replay has for its operands.
  using Reissue = std::function<c10::intrusive_ptr<c10d::Work>(const Tensors& outputs, const Tensors& inputs)>;

  // Records the step that issues it on `stream`, which captures. `outputs` may be read, too.
  CapturedWork(int rank, c10d::OpType type, std::string name, Stream& stream, Tensors outputs, Tensors inputs,
               Reissue reissue);

  // Records the step that waits on the current stream. Raises RuntimeError if that does not capture: the collective
  // has not run. There is no time-out: a replay has the group's.
  bool wait(std::chrono::milliseconds timeout) override;
  void synchronize() override { wait(kNoTimeout); }
  void blockCurrentStream() override { wait(kNoTimeout); }
  std::vector<at::Tensor> result() override { return outputs_; }
  // Waits as wait() does, and is complete in the order of the stream.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;
  // Raises RuntimeError: the answer would be the same in each replay.
  bool isCompleted() override;

 private:
  void record(Stream& stream, const std::string& name, std::function<void(const Tensors& tensors)> function) const;

  const std::string name_;
  const int device_;
  Tensors outputs_, inputs_;
  // Shared by the two steps: the collective of the replay under way.
  const std::shared_ptr<c10::intrusive_ptr<c10d::Work>> replayed_ = std::make_shared<c10::intrusive_ptr<c10d::Work>>();
  std::vector<const Stream*> waiting_;  // that wait already
};

}  // namespace mydev
