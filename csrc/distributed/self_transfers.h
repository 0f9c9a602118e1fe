// Transfers of a rank to itself, which gloo lacks: a send is matched with the receive of its tag, whichever comes
// first.
//
// Takes CPU tensors, as the engine does. Both end when they are matched, in the order of their calls for each tag. A
// transfer without a match fails after the group's timeout, when waited for. Thread-safe.
#pragma once

#include <chrono>
#include <deque>
#include <mutex>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <unordered_map>

namespace mydev {

class SelfTransfer final : public c10d::Work {
 public:
  SelfTransfer(int rank, c10d::OpType type, at::Tensor tensor, std::chrono::milliseconds timeout)
      : Work(rank, type), tensor_(std::move(tensor)), timeout_(timeout) {}

  // Claims the transfer for a match; false if it is claimed already or has ended. From then on only deliver() ends it.
  bool claim();
  static void deliver(SelfTransfer& send, SelfTransfer& receive) noexcept;

  bool wait(std::chrono::milliseconds timeout) override;
  void abort() override;
  int sourceRank() const override { return rank_; }

 private:
  void end(const std::exception_ptr& error);

  const at::Tensor tensor_;
  const std::chrono::milliseconds timeout_;
  bool claimed_ = false;  // guarded by the base's mutex_
};

// The transfers of one process group.
class SelfTransfers {
 public:
  using TransferPtr = c10::intrusive_ptr<SelfTransfer>;

  explicit SelfTransfers(int rank) : rank_(rank) {}

  TransferPtr send(const at::Tensor& tensor, int tag, std::chrono::milliseconds timeout);
  TransferPtr recv(const at::Tensor& tensor, int tag, std::chrono::milliseconds timeout);

 private:
  using Waiting = std::unordered_map<int, std::deque<TransferPtr>>;

  // The first of `others` that still waits, or null after adding the transfer to its `own` kind.
  TransferPtr match(const TransferPtr& transfer, int tag, Waiting& own, Waiting& others);

  const int rank_;
  std::mutex mutex_;  // guards what follows
  Waiting sends_, receives_;
};

}  // namespace mydev
