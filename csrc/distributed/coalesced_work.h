// One Work that stands for several.
#pragma once

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

namespace mydev {

class CoalescedWork final : public c10d::Work {
 public:
  CoalescedWork(int rank, c10::Device device, std::vector<c10::intrusive_ptr<c10d::Work>> works);

  bool isCompleted() override;
  bool isSuccess() const override;
  std::exception_ptr exception() const override;
  std::vector<at::Tensor> result() override;
  void synchronize() override { wait(kNoTimeout); }
  bool wait(std::chrono::milliseconds timeout) override;
  void blockCurrentStream() override { wait(kNoTimeout); }
  void abort() override;
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

 private:
  const c10::Device device_;
  const std::vector<c10::intrusive_ptr<c10d::Work>> works_;
};

}  // namespace mydev
