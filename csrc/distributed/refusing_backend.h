// The process-group backend of the device in groups that are of gloo alone: refuses each collective of device tensors,
// and says which backend to ask for. Sends nothing; the group's other backends are not touched. Thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <utility>
#include <vector>

namespace mydev {

class RefusingBackend final : public c10d::Backend {
 public:
  // `name` stands in the errors of c10d: "Backend <name> does not support allreduce".
  RefusingBackend(int rank, int size, std::string name) : c10d::Backend(rank, size), name_(std::move(name)) {}

  const std::string getBackendName() const override { return name_; }
  void setTimeout(std::chrono::milliseconds /*timeout*/) override {}

  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                          const std::vector<int>& ranks,
                                          const c10::intrusive_ptr<Options>& /*options*/) override {
    const auto place = std::find(ranks.begin(), ranks.end(), rank_);
    if (place == ranks.end()) return nullptr;
    return c10::make_intrusive<RefusingBackend>(static_cast<int>(place - ranks.begin()), static_cast<int>(ranks.size()),
                                                name_);
  }
  c10::intrusive_ptr<c10d::Backend> merge(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                          const c10::intrusive_ptr<Options>& /*options*/, const int& rank,
                                          const int& size) override {
    return c10::make_intrusive<RefusingBackend>(rank, size, name_);
  }

 private:
  const std::string name_;
};

}  // namespace mydev
