#include "distributed/coalesced_work.h"

#include <algorithm>

namespace mydev {

using Future = c10::ivalue::Future;

CoalescedWork::CoalescedWork(int rank, c10::Device device, std::vector<c10::intrusive_ptr<c10d::Work>> works)
    : Work(rank, c10d::OpType::COALESCED), device_(device), works_(std::move(works)) {}

bool CoalescedWork::isCompleted() {
  return std::all_of(works_.begin(), works_.end(), [](const auto& work) { return work->isCompleted(); });
}

bool CoalescedWork::isSuccess() const {
  return exception() == nullptr;
}

std::exception_ptr CoalescedWork::exception() const {
  for (const auto& work : works_) {
    if (std::exception_ptr error = work->exception()) return error;
  }
  return nullptr;
}

std::vector<at::Tensor> CoalescedWork::result() {
  std::vector<at::Tensor> tensors;
  for (const auto& work : works_) {
    for (at::Tensor& tensor : work->result()) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

bool CoalescedWork::wait(std::chrono::milliseconds timeout) {
  for (const auto& work : works_) work->wait(timeout);
  return true;
}

void CoalescedWork::abort() {
  for (const auto& work : works_) work->abort();
}

c10::intrusive_ptr<Future> CoalescedWork::getFuture() {
  auto futures = c10::List<c10::intrusive_ptr<Future>>(c10::FutureType::create(c10::ListType::ofTensors()));
  for (const auto& work : works_) futures.push_back(work->getFuture());
  return c10::collectAll(futures)->then([tensors = result()](Future&) -> c10::IValue { return tensors; },
                                        c10::ListType::ofTensors());
}

}  // namespace mydev
