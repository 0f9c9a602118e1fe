#include "pjrt/device/profile.h"

#include <chrono>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "pjrt/base/wire.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/command/command_hooks.h"

namespace mydev::pjrt {

namespace {

struct Row {
  const char* name;
  CommandKind kind;
  uint64_t bytes;
  int64_t begin_ns, end_ns;
};

using StreamKey = std::pair<int, int64_t>;  // device, stream

int64_t steady_now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}
int64_t wall_now() {
  return std::chrono::system_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

// The numbers of the fields in XSpace's messages (tsl/profiler/protobuf/xplane.proto).
constexpr uint32_t kSpacePlanes = 1, kSpaceWarnings = 3;
constexpr uint32_t kPlaneId = 1, kPlaneName = 2, kPlaneLines = 3, kPlaneEventMetadata = 4, kPlaneStatMetadata = 5;
constexpr uint32_t kLineId = 1, kLineName = 2, kLineTimestampNs = 3, kLineEvents = 4;
constexpr uint32_t kEventMetadataId = 1, kEventOffsetPs = 2, kEventDurationPs = 3, kEventStats = 4;
constexpr uint32_t kStatMetadataId = 1, kStatUint64 = 3, kStatString = 5;
constexpr uint32_t kMetadataId = 1, kMetadataName = 2;
constexpr uint32_t kEntryKey = 1, kEntryValue = 2;
constexpr uint64_t kBytesStat = 1, kKindStat = 2;

std::string named(uint64_t id, std::string_view name) {
  WireWriter inner, outer;
  inner.number(kMetadataId, id);
  inner.bytes(kMetadataName, name);
  outer.number(kEntryKey, id);
  outer.bytes(kEntryValue, std::move(inner).take());
  return std::move(outer).take();
}

class Profile {
 public:
  static Profile& get() {
    static Profile& profile = *new Profile();  // hooks may be called late
    return profile;
  }

  void start() {
    const std::lock_guard lock(mutex_);
    MYDEV_CHECK(hook_ < 0, MYDEV_FAILED_PRECONDITION, "someone profiles already; stop that first");
    rows_.clear();
    count_ = left_out_ = 0;
    wall_of_steady_ = wall_now() - steady_now();
    hook_ = add_command_hook(
        {.finished = [](void* self, const CommandRecord& record) { static_cast<Profile*>(self)->add(record); },
         .context = this});
  }

  void stop() {
    int hook = -1;
    {
      const std::lock_guard lock(mutex_);
      hook = std::exchange(hook_, -1);
    }
    if (hook >= 0) remove_command_hook(hook);
  }

  std::string serialized() const {
    const std::lock_guard lock(mutex_);
    WireWriter out;
    auto stream = rows_.begin();
    while (stream != rows_.end()) {
      const auto end = rows_.upper_bound({stream->first.first, INT64_MAX});
      out.bytes(kSpacePlanes, plane_of(stream, end));
      stream = end;
    }
    if (left_out_ != 0) {
      out.bytes(kSpaceWarnings, std::string(device_name()) + ": " + std::to_string(left_out_) +
                                    " commands beyond the first " + std::to_string(kMostRows) + " have no rows");
    }
    return std::move(out).take();
  }

 private:
  using Rows = std::map<StreamKey, std::vector<Row>>;

  void add(const CommandRecord& record) {
    const std::lock_guard lock(mutex_);
    if (hook_ < 0) return;
    if (++count_ > kMostRows) {
      ++left_out_;
      return;
    }
    rows_[{record.stream->device().index, record.stream->id()}].push_back(
        {record.name, record.kind, record.bytes, record.begin_ns, record.end_ns});
  }

  std::string plane_of(Rows::const_iterator begin, Rows::const_iterator end) const {
    const int device = begin->first.first;
    WireWriter out;
    std::map<std::string_view, uint64_t> names;
    out.number(kPlaneId, static_cast<uint64_t>(device));
    // The prefix that XLA's tools know for devices that they do not know.
    out.bytes(kPlaneName, "/device:CUSTOM:" + device_text(device));
    for (auto stream = begin; stream != end; ++stream) out.bytes(kPlaneLines, line_of(stream->first, names));
    for (const auto& [name, id] : names) out.bytes(kPlaneEventMetadata, named(id, name));
    out.bytes(kPlaneStatMetadata, named(kBytesStat, "bytes_accessed"));
    out.bytes(kPlaneStatMetadata, named(kKindStat, "command"));
    return std::move(out).take();
  }

  std::string line_of(const StreamKey& key, std::map<std::string_view, uint64_t>& names) const {
    const std::vector<Row>& rows = rows_.at(key);
    int64_t origin = INT64_MAX;
    for (const Row& row : rows) origin = std::min(origin, row.begin_ns);
    WireWriter out;
    out.number(kLineId, static_cast<uint64_t>(key.second));
    out.bytes(kLineName, "stream " + std::to_string(key.second));
    out.number(kLineTimestampNs, static_cast<uint64_t>(origin + wall_of_steady_));
    for (const Row& row : rows) {
      const uint64_t id = names.emplace(row.name, names.size() + 1).first->second;
      WireWriter event;
      event.number(kEventMetadataId, id);
      event.number(kEventOffsetPs, static_cast<uint64_t>(row.begin_ns - origin) * 1000);
      event.number(kEventDurationPs, static_cast<uint64_t>(std::max<int64_t>(row.end_ns - row.begin_ns, 0)) * 1000);
      WireWriter bytes, kind;
      bytes.number(kStatMetadataId, kBytesStat);
      bytes.number(kStatUint64, row.bytes);
      event.bytes(kEventStats, std::move(bytes).take());
      kind.number(kStatMetadataId, kKindStat);
      kind.bytes(kStatString, command_kind_name(row.kind));
      event.bytes(kEventStats, std::move(kind).take());
      out.bytes(kLineEvents, std::move(event).take());
    }
    return std::move(out).take();
  }

  mutable std::mutex mutex_;  // guards what follows
  int hook_ = -1;
  Rows rows_;
  size_t count_ = 0;
  uint64_t left_out_ = 0;
  int64_t wall_of_steady_ = 0;  // nanoseconds to add to a time of the one clock to get that of the other
};

}  // namespace

void start_profile() {
  Profile::get().start();
}
void stop_profile() {
  Profile::get().stop();
}
std::string serialized_profile() {
  return Profile::get().serialized();
}

}  // namespace mydev::pjrt
