// The decision that a kernel's plan made for one frame (mydev_plan). It is released when the kernel has run, or if it
// never will.
#pragma once

#include <utility>

namespace mydev {

class Decision {
 public:
  Decision() = default;
  Decision(void* decision, void (*release)(void*)) noexcept : decision_(decision), release_(release) {}
  Decision(Decision&& other) noexcept : decision_(other.decision_), release_(std::exchange(other.release_, nullptr)) {}
  Decision& operator=(Decision&& other) noexcept {
    std::swap(decision_, other.decision_);
    std::swap(release_, other.release_);
    return *this;
  }
  ~Decision() {
    if (release_ != nullptr) release_(decision_);
  }
  void* get() const noexcept { return decision_; }

 private:
  void* decision_ = nullptr;
  void (*release_)(void*) = nullptr;
};

}  // namespace mydev
