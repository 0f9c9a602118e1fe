// The census of fallbacks: which ops ran on the CPU, how often, at what cost, from where; and whether they may. It also
// counts how often ops were composed of others in place of a fallback (composition.h).
//
// One record per op, immortal. Counting is a few relaxed atomic additions. Thread-safe.
#pragma once

#include <ATen/core/dispatch/Dispatcher.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/base/api.h"

namespace mydev {

enum class FallbackMode : int8_t { kAllow, kWarn, kError };

class FallbackRecord {
 public:
  explicit FallbackRecord(std::string name) : name_(std::move(name)) {}
  const std::string& name() const noexcept { return name_; }

  // Notes the caller's Python line the first time; raises NotImplementedError or warns (once) as the mode says.
  void enter() {
    if (__builtin_expect(
            calls_.fetch_add(1, std::memory_order_relaxed) == 0 || effective_mode() != FallbackMode::kAllow, 0)) {
      enter_slow();
    }
  }
  // Notes why a kernel of the device did not take the operands; the first reason is kept.
  void note_declined(const char* reason);
  // `copying`: how much of the time was not the CPU kernel's, on a device that the host does not reach.
  void leave(int64_t nanoseconds, int64_t copying, uint64_t bytes_copied) noexcept {
    nanoseconds_.fetch_add(nanoseconds, std::memory_order_relaxed);
    if (copying != 0) copying_.fetch_add(copying, std::memory_order_relaxed);
    if (bytes_copied != 0) bytes_.fetch_add(bytes_copied, std::memory_order_relaxed);
  }

  // Whether the op is composed of others where the host does not reach the operands. Set once, when ops are registered.
  bool is_composed() const noexcept { return composed_; }
  void set_composed() noexcept { composed_ = true; }
  void count_composition() noexcept { compositions_.fetch_add(1, std::memory_order_relaxed); }

 private:
  friend struct FallbackCensus;
  FallbackMode effective_mode() const noexcept;
  void enter_slow();

  const std::string name_;
  std::atomic<uint64_t> calls_{0}, bytes_{0};
  std::atomic<int64_t> nanoseconds_{0}, copying_{0};
  std::atomic<int8_t> mode_{-1};  // -1: the global mode
  std::atomic<bool> warned_{false};
  std::atomic<bool> declined_{false};
  bool composed_ = false;
  std::atomic<uint64_t> compositions_{0};
  std::string first_line_, decline_;  // guarded by the census's mutex
};

struct FallbackRow {
  std::string op, first_line, declined;
  uint64_t calls, bytes_copied;
  int64_t nanoseconds, copying_nanoseconds;
};

// "aten::sort.stable", the name by which a library registers the op.
std::string full_op_name(const char* name, const char* overload);

// The record of an op by its full name; made at first need.
FallbackRecord& fallback_record(const std::string& op);
FallbackRecord& fallback_record(const char* name, const char* overload);
FallbackRecord& fallback_record(const c10::OperatorHandle& op);

MYDEV_API std::vector<FallbackRow> fallback_rows();                            // those with calls, most time first
MYDEV_API std::vector<std::pair<std::string, uint64_t>> composition_counts();  // of the ops that were composed
MYDEV_API std::vector<std::string> composable_ops();                           // those that may be
MYDEV_API void reset_fallback_census();

MYDEV_API FallbackMode fallback_mode();
MYDEV_API void set_fallback_mode(FallbackMode mode);
MYDEV_API std::optional<FallbackMode> fallback_mode(const std::string& op);
MYDEV_API void set_fallback_mode(const std::string& op,
                                 std::optional<FallbackMode> mode);  // nullopt: as the global mode

}  // namespace mydev
