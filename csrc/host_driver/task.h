// A piece of a stream's work: a callable that is called once, kept in place where it is small, so that giving a launch
// to a stream's thread allocates nothing.
#pragma once

#include <cstddef>
#include <cstring>
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
      call_ = [](void* kept) { (*static_cast<Kept*>(kept))(); };
      if constexpr (!std::is_trivially_copyable_v<Kept>) {
        move_ = [](void* from, void* to) {
          Kept& kept = *static_cast<Kept*>(from);
          if (to != nullptr) new (to) Kept(std::move(kept));
          kept.~Kept();
        };
      }
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

  void operator()() { call_(room_); }

 private:
  static constexpr size_t kRoom = 48;

  void take(Task& other) noexcept {
    call_ = other.call_;
    move_ = std::exchange(other.move_, nullptr);
    if (move_ == nullptr) {
      std::memcpy(room_, other.room_, kRoom);
    } else {
      move_(other.room_, room_);
    }
  }
  void drop() noexcept {
    if (move_ != nullptr) std::exchange(move_, nullptr)(room_, nullptr);
  }

  void (*call_)(void* kept) = nullptr;
  void (*move_)(void* from, void* to) = nullptr;  // `to` is nullptr: ends it; no function: bytes are all there is
  alignas(std::max_align_t) char room_[kRoom]{};
};

}  // namespace mydev::host_driver
