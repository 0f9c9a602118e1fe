// A piece of a stream's work: a callable that is called once, kept in place where it is small, so that giving a launch
// to a stream's thread allocates nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace mydev::host_driver {

class Task {
 public:
  Task() = default;
  template <typename Function>
    requires(!std::is_same_v<std::remove_cvref_t<Function>, Task>)
  Task(Function&& function) {  // NOLINT(google-explicit-constructor): as std::function
    using Kept = std::remove_cvref_t<Function>;
    if constexpr (sizeof(Kept) <= kRoom && std::is_nothrow_move_constructible_v<Kept>) {
      new (room_) Kept(std::forward<Function>(function));
      act_ = [](Action action, void* from, void* to) {
        Kept& kept = *static_cast<Kept*>(from);
        if (action == Action::kCall) kept();
        if (action == Action::kMove) new (to) Kept(std::move(kept));
        if (action != Action::kCall) kept.~Kept();
      };
    } else {
      *this = Task([owned = std::make_unique<Kept>(std::forward<Function>(function))] { (*owned)(); });
    }
  }
  Task(Task&& other) noexcept { take(other); }
  Task& operator=(Task&& other) noexcept {
    if (this != &other) {
      drop();
      take(other);
    }
    return *this;
  }
  ~Task() { drop(); }

  void operator()() { act_(Action::kCall, room_, nullptr); }

 private:
  enum class Action { kCall, kMove, kDestroy };
  static constexpr size_t kRoom = 56;

  void take(Task& other) noexcept {
    act_ = std::exchange(other.act_, nullptr);
    if (act_ != nullptr) act_(Action::kMove, other.room_, room_);
  }
  void drop() noexcept {
    if (act_ != nullptr) std::exchange(act_, nullptr)(Action::kDestroy, room_, nullptr);
  }

  void (*act_)(Action action, void* from, void* to) = nullptr;
  alignas(std::max_align_t) char room_[kRoom];
};

}  // namespace mydev::host_driver
