#include "distributed/self_transfers.h"

#include <ATen/ATen.h>

namespace mydev {

using std::chrono::milliseconds;

bool SelfTransfer::claim() {
  const std::lock_guard lock(mutex_);
  if (completed_ || claimed_) return false;
  claimed_ = true;
  return true;
}

void SelfTransfer::deliver(SelfTransfer& send, SelfTransfer& receive) noexcept {
  std::exception_ptr error;
  try {
    const at::Tensor &from = send.tensor_, &to = receive.tensor_;
    TORCH_CHECK(from.scalar_type() == to.scalar_type() && from.numel() == to.numel(), "a rank sends ", from.numel(),
                " elements of ", from.scalar_type(), " to itself and receives ", to.numel(), " of ", to.scalar_type());
    to.copy_(from.view_as(to));
  } catch (...) {
    error = std::current_exception();
  }
  send.end(error);
  receive.end(error);
}

bool SelfTransfer::wait(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  const auto done = [this] { return completed_; };
  if (!cv_.wait_for(lock, timeout > kNoTimeout ? timeout : timeout_, done) && !claimed_) {
    const char* other = opType_ == c10d::OpType::SEND ? "receive from" : "send to";
    completed_ = true;
    exception_ = std::make_exception_ptr(
        std::runtime_error(c10::str("timed out: this rank has not called the ", other, " itself that it waits for")));
  }
  cv_.wait(lock, done);
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  return true;
}

void SelfTransfer::abort() {
  {
    const std::lock_guard lock(mutex_);
    if (completed_ || claimed_) return;
    claimed_ = true;
  }
  end(std::make_exception_ptr(std::runtime_error("the process group was aborted")));
}

void SelfTransfer::end(const std::exception_ptr& error) {
  {
    const std::lock_guard lock(mutex_);
    completed_ = true;
    exception_ = error;
  }
  cv_.notify_all();
}

SelfTransfers::TransferPtr SelfTransfers::match(const TransferPtr& transfer, int tag, Waiting& own, Waiting& others) {
  const std::lock_guard lock(mutex_);
  std::deque<TransferPtr>& queue = others[tag];
  while (!queue.empty()) {
    TransferPtr other = std::move(queue.front());
    queue.pop_front();
    if (other->claim()) {
      transfer->claim();
      return other;
    }
  }
  own[tag].push_back(transfer);
  return {};
}

SelfTransfers::TransferPtr SelfTransfers::send(const at::Tensor& tensor, int tag, milliseconds timeout) {
  auto transfer = c10::make_intrusive<SelfTransfer>(rank_, c10d::OpType::SEND, tensor, timeout);
  if (const TransferPtr receive = match(transfer, tag, sends_, receives_)) SelfTransfer::deliver(*transfer, *receive);
  return transfer;
}

SelfTransfers::TransferPtr SelfTransfers::recv(const at::Tensor& tensor, int tag, milliseconds timeout) {
  auto transfer = c10::make_intrusive<SelfTransfer>(rank_, c10d::OpType::RECV, tensor, timeout);
  if (const TransferPtr send = match(transfer, tag, receives_, sends_)) SelfTransfer::deliver(*send, *transfer);
  return transfer;
}

}  // namespace mydev
