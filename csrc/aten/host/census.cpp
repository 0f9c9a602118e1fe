#include "aten/host/census.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>

#include "runtime/base/source_location.h"
#include "runtime/command/launch.h"

namespace mydev {

// All records; the mutex also guards their first lines.
struct FallbackCensus {
  std::shared_mutex mutex;
  std::unordered_map<std::string, std::unique_ptr<FallbackRecord>> by_name;
  std::unordered_map<const c10::FunctionSchema*, FallbackRecord*> by_schema;
  std::atomic<FallbackMode> mode{FallbackMode::kAllow};

  static FallbackCensus& instance() {
    static auto* census = new FallbackCensus;
    return *census;
  }
  static int8_t mode_of(const FallbackRecord& record) { return record.mode_.load(std::memory_order_relaxed); }
  static void set_mode_of(FallbackRecord& record, int8_t mode) { record.mode_.store(mode, std::memory_order_relaxed); }
  static FallbackRow row_of(const FallbackRecord& record) {
    return {record.name_,
            record.first_line_,
            record.decline_,
            record.calls_.load(std::memory_order_relaxed),
            record.bytes_.load(std::memory_order_relaxed),
            record.nanoseconds_.load(std::memory_order_relaxed),
            record.copying_.load(std::memory_order_relaxed)};
  }
  static uint64_t compositions_of(const FallbackRecord& record) {
    return record.compositions_.load(std::memory_order_relaxed);
  }
  static void reset(FallbackRecord& record) {
    record.calls_ = 0;
    record.bytes_ = 0;
    record.nanoseconds_ = 0;
    record.copying_ = 0;
    record.compositions_ = 0;
    record.warned_ = false;
    record.declined_ = false;
    record.first_line_.clear();
    record.decline_.clear();
  }
};

FallbackMode FallbackRecord::effective_mode() const noexcept {
  const int8_t own = mode_.load(std::memory_order_relaxed);
  return own >= 0 ? static_cast<FallbackMode>(own) : FallbackCensus::instance().mode.load(std::memory_order_relaxed);
}

void FallbackRecord::enter_slow() {
  FallbackCensus& census = FallbackCensus::instance();
  const FallbackMode mode = effective_mode();
  const std::string line(source_location());
  std::string declined;
  {
    std::unique_lock lock(census.mutex);
    if (first_line_.empty()) first_line_ = line;
    declined = decline_;
  }
  if (mode == FallbackMode::kError) {
    calls_.fetch_sub(1, std::memory_order_relaxed);
    TORCH_CHECK_NOT_IMPLEMENTED(
        false, name_, " has no kernel for this call on the device", declined.empty() ? "" : " (" + declined + ")",
        ", and falling back to the CPU is forbidden (fallback mode ", "'error')", line.empty() ? "" : " at ", line,
        "; write a kernel for it, call it with dtypes and layouts that have one, or allow it with "
        "fallback_mode(\"allow\", op=\"",
        name_, "\")");
  }
  if (mode == FallbackMode::kWarn && !warned_.exchange(true, std::memory_order_relaxed)) {
    TORCH_WARN(name_, " runs on the CPU: the device has no kernel for this call", line.empty() ? "" : " at ", line,
               ". Further calls are only counted; see fallback_census().");
  }
}

void FallbackRecord::note_declined(const char* reason) {
  if (declined_.exchange(true, std::memory_order_relaxed)) return;
  const std::unique_lock lock(FallbackCensus::instance().mutex);
  decline_ = reason;
}

std::string full_op_name(const char* name, const char* overload) {
  return overload[0] == '\0' ? name : std::string(name) + "." + overload;
}

FallbackRecord& fallback_record(const std::string& op) {
  FallbackCensus& census = FallbackCensus::instance();
  std::unique_lock lock(census.mutex);
  auto& record = census.by_name[op];
  if (record == nullptr) record = std::make_unique<FallbackRecord>(op);
  return *record;
}

FallbackRecord& fallback_record(const char* name, const char* overload) {
  return fallback_record(full_op_name(name, overload));
}

FallbackRecord& fallback_record(const c10::OperatorHandle& op) {
  FallbackCensus& census = FallbackCensus::instance();
  const c10::FunctionSchema* schema = &op.schema();
  {
    std::shared_lock lock(census.mutex);
    if (auto found = census.by_schema.find(schema); found != census.by_schema.end()) return *found->second;
  }
  FallbackRecord& record = fallback_record(c10::toString(op.operator_name()));
  std::unique_lock lock(census.mutex);
  census.by_schema[schema] = &record;
  return record;
}

std::vector<FallbackRow> fallback_rows() {
  FallbackCensus& census = FallbackCensus::instance();
  std::vector<FallbackRow> rows;
  {
    std::shared_lock lock(census.mutex);
    for (const auto& [name, record] : census.by_name) {
      FallbackRow row = FallbackCensus::row_of(*record);
      if (row.calls > 0) rows.push_back(std::move(row));
    }
  }
  std::sort(rows.begin(), rows.end(),
            [](const FallbackRow& a, const FallbackRow& b) { return a.nanoseconds > b.nanoseconds; });
  return rows;
}

std::vector<std::pair<std::string, uint64_t>> composition_counts() {
  FallbackCensus& census = FallbackCensus::instance();
  std::vector<std::pair<std::string, uint64_t>> counts;
  std::shared_lock lock(census.mutex);
  for (const auto& [name, record] : census.by_name) {
    const uint64_t count = FallbackCensus::compositions_of(*record);
    if (count > 0) counts.emplace_back(name, count);
  }
  return counts;
}

std::vector<std::string> composable_ops() {
  FallbackCensus& census = FallbackCensus::instance();
  std::vector<std::string> names;
  std::shared_lock lock(census.mutex);
  for (const auto& [name, record] : census.by_name) {
    if (record->is_composed()) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

void reset_fallback_census() {
  FallbackCensus& census = FallbackCensus::instance();
  std::unique_lock lock(census.mutex);
  for (auto& [name, record] : census.by_name) FallbackCensus::reset(*record);
}

FallbackMode fallback_mode() {
  return FallbackCensus::instance().mode.load(std::memory_order_relaxed);
}

void set_fallback_mode(FallbackMode mode) {
  FallbackCensus::instance().mode.store(mode, std::memory_order_relaxed);
}

std::optional<FallbackMode> fallback_mode(const std::string& op) {
  const int8_t mode = FallbackCensus::mode_of(fallback_record(op));
  return mode < 0 ? std::nullopt : std::optional(static_cast<FallbackMode>(mode));
}

void set_fallback_mode(const std::string& op, std::optional<FallbackMode> mode) {
  FallbackCensus::set_mode_of(fallback_record(op), mode ? static_cast<int8_t>(*mode) : int8_t{-1});
}

}  // namespace mydev
