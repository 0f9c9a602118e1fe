// The device's rows in torch.profiler. They are handed to Kineto, which merges them with the rows of operators.
//
// Each command gives two rows: one of the host's thread, while it was submitted, and one of the stream, while it ran;
// an arrow leads from the first to the second. Both are linked to the operator that was running when it was submitted.
// Ranges that the user has named (record_function) have a row on each stream that worked for them. Names of copies and
// fills are those of CUDA's rows, by which tools know them; so are those of kernels that fill, or that copy what
// lies alike in both places, which is what CUDA does without a kernel.
//
// Compiled where torch has Kineto (cmake/torch.cmake); elsewhere profiles have the host's rows only. Kineto calls one
// session at a time. Nothing is thrown: failures are in the session's errors.
#include <c10/util/ApproximateClock.h>
#include <libkineto.h>
#include <output_base.h>
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/base/device_name.h"
#include "runtime/command/activities.h"
#include "runtime/command/transfer.h"
#include "runtime/driver/device.h"

namespace mydev {
namespace {

using libkineto::ActivityType;
using libkineto::GenericTraceActivity;

int64_t steady_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Returns the offset to add to the steady clock's time for Kineto's, which counts from 1970. Both clocks are read
// several times, and the reading that took the least time counts.
int64_t clock_offset_ns() {
  int64_t best_gap = 0, offset = 0;
  for (int look = 0; look < 16; ++look) {
    const int64_t before = steady_now_ns(), wall = c10::getTime(), after = steady_now_ns();
    if (look == 0 || after - before < best_gap) {
      best_gap = after - before;
      offset = wall - (before + best_gap / 2);
    }
  }
  return offset;
}

// Kineto writes text into JSON as it is.
std::string plain(std::string text) {
  for (char& c : text) {
    if (c == '"') c = '\'';
    if (c == '\\') c = '/';
    if (static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

// The ids of commands, apart from those of operators, in what fits into Kineto's fields.
int32_t correlation_of(const Activity& activity) {
  constexpr uint64_t kCommands = 1U << 30;
  return static_cast<int32_t>(kCommands | (activity.id & (kCommands - 1)));
}

struct RowKind {
  ActivityType device;
  std::string host_name;
  std::string device_name;
  uint64_t bytes;
};

// "mydevLaunchKernel": the form of the names that CUDA's rows on the host have.
std::string called(const char* what) {
  return std::string(device_name()) + what;
}

RowKind copy_kind(const char* direction, uint64_t bytes) {
  return {ActivityType::GPU_MEMCPY, called("Memcpy"), std::string("Memcpy ") + direction, bytes};
}

RowKind fill_kind(uint64_t bytes) {
  return {ActivityType::GPU_MEMSET, called("Memset"), "Memset", bytes};
}

RowKind kind_of(const Activity& activity) {
  const std::string_view name = activity.name;
  switch (activity.kind) {
    case CommandKind::kCopy: {
      const char* direction = name == copy_name(MYDEV_COPY_HOST_TO_DEVICE)     ? "HtoD"
                              : name == copy_name(MYDEV_COPY_DEVICE_TO_HOST)   ? "DtoH"
                              : name == copy_name(MYDEV_COPY_DEVICE_TO_DEVICE) ? "DtoD"
                                                                               : "PtoP";
      return copy_kind(direction, activity.bytes);
    }
    case CommandKind::kFill:
      return fill_kind(activity.bytes);
    case CommandKind::kLaunch:
      if (name == "mydev.fill" || name == "mydev.foreach_fill") return fill_kind(activity.bytes);
      if (name == "mydev.copy" && activity.alike) return copy_kind("DtoD", activity.bytes / 2);  // of both operands
      return {ActivityType::CONCURRENT_KERNEL, called("LaunchKernel"), activity.name, activity.bytes};
    case CommandKind::kHostCall:
      break;
  }
  return {ActivityType::CONCURRENT_KERNEL, called("HostCall"), activity.name, activity.bytes};
}

// Returns the times when a host call did work of its own: its time without that of the commands that it gave to its
// stream, which come after it in `all`. So no time of the stream counts twice.
std::vector<std::pair<int64_t, int64_t>> own_times(const std::vector<Activity>& all, size_t index) {
  const Activity& call = all[index];
  std::vector<std::pair<int64_t, int64_t>> others;
  for (size_t i = index + 1; i < all.size() && all[i].submit_begin_ns <= call.submit_end_ns; ++i) {
    const Activity& other = all[i];
    if (other.device == call.device && other.stream == call.stream) others.emplace_back(other.begin_ns, other.end_ns);
  }
  std::ranges::sort(others);
  std::vector<std::pair<int64_t, int64_t>> own;
  int64_t from = call.begin_ns;
  for (const auto& [begin, end] : others) {
    if (begin > from) own.emplace_back(from, std::min(begin, call.end_ns));
    from = std::max(from, end);
    if (from >= call.end_ns) break;
  }
  if (from < call.end_ns) own.emplace_back(from, call.end_ns);
  return own;
}

class Session final : public libkineto::IActivityProfilerSession {
 public:
  explicit Session(std::set<ActivityType> wanted) : wanted_(std::move(wanted)) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() override {
    if (status_ == libkineto::TraceStatus::RECORDING) end_activities();
  }

  void start() override {
    offset_ns_ = clock_offset_ns();
    begin_ns_ = c10::getTime();
    begin_activities();
    status_ = libkineto::TraceStatus::RECORDING;
  }

  void stop() override {
    if (status_ != libkineto::TraceStatus::RECORDING) return;
    activities_ = end_activities();
    end_ns_ = c10::getTime();
    status_ = libkineto::TraceStatus::PROCESSING;
  }

  std::vector<std::string> errors() override { return {}; }

  void processTrace(libkineto::ActivityLogger& logger) override {
    processTrace(logger, [](int32_t) { return nullptr; }, begin_ns_, end_ns_);
  }

  void processTrace(libkineto::ActivityLogger& logger, libkineto::getLinkedActivityCallback linked, int64_t /*start*/,
                    int64_t /*end*/) override {
    buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
    buffer_->span = libkineto::TraceSpan(begin_ns_, end_ns_, device_name());
    buffer_->gpuOpCount = 0;
    for (size_t i = 0; i < activities_.size(); ++i) {
      const Activity& activity = activities_[i];
      const libkineto::ITraceActivity* const cause =
          activity.operator_id != 0 ? linked(static_cast<int32_t>(activity.operator_id)) : nullptr;
      const RowKind kind = kind_of(activity);
      add_host_row(activity, kind, cause);
      if (activity.kind == CommandKind::kHostCall && activity.encloses) {
        add_range(activity, i, cause);
      } else {
        add_device_row(activity, kind, cause);
      }
      if (activity.annotation_id == 0) continue;
      if (const auto* range = linked(static_cast<int32_t>(activity.annotation_id))) extend_range(activity, *range);
    }
    for (const auto& row : buffer_->activities) row->log(logger);
    // Kineto asks for one device.
    for (const int index : devices_) {
      if (index != *devices_.begin()) logger.handleDeviceInfo(device_info(index), begin_ns_);
    }
  }

  std::unique_ptr<libkineto::DeviceInfo> getDeviceInfo() override {
    if (devices_.empty()) return nullptr;
    return std::make_unique<libkineto::DeviceInfo>(device_info(*devices_.begin()));
  }

  std::vector<libkineto::ResourceInfo> getResourceInfos() override {
    std::vector<libkineto::ResourceInfo> infos;
    for (const auto& [index, stream] : streams_) {
      infos.push_back({stream, stream, index, "stream " + std::to_string(stream) + (stream == 0 ? " (default)" : "")});
    }
    return infos;
  }

  std::string getDeviceProperties() override {
    std::string json;
    for (const Activity& activity : activities_) devices_.insert(activity.device);
    for (const int index : devices_) {
      const mydev_device_properties& properties = device(index).properties;
      json += std::string(json.empty() ? "" : ",") + "{\"id\": " + std::to_string(index) + ", \"name\": \"" +
              plain(properties.name) + "\", \"totalGlobalMem\": " + std::to_string(properties.total_memory) +
              ", \"computeMajor\": " + std::to_string(properties.major) +
              ", \"computeMinor\": " + std::to_string(properties.minor) +
              ", \"numSms\": " + std::to_string(properties.multi_processor_count) + "}";
    }
    return json;
  }

  std::unique_ptr<libkineto::CpuTraceBuffer> getTraceBuffer() override { return std::move(buffer_); }

  void pushCorrelationId(uint64_t id) override { push_cause(Cause::kOperator, id); }
  void popCorrelationId() override { pop_cause(Cause::kOperator); }
  void pushUserCorrelationId(uint64_t id) override { push_cause(Cause::kAnnotation, id); }
  void popUserCorrelationId() override { pop_cause(Cause::kAnnotation); }

 private:
  static libkineto::DeviceInfo device_info(int index) {
    return {index, libkineto::kExceedMaxPid + index, device_text(index), plain(device(index).properties.name)};
  }

  GenericTraceActivity& add_row(ActivityType type, const std::string& name, int64_t begin_ns, int64_t end_ns) {
    buffer_->emplace_activity(buffer_->span, type, plain(name));
    GenericTraceActivity& row = *buffer_->activities.back();
    row.startTime = begin_ns + offset_ns_;
    row.endTime = end_ns + offset_ns_;
    return row;
  }

  // Adds a row of the activity's stream.
  GenericTraceActivity& add_row_of(const Activity& activity, ActivityType type, const std::string& name) {
    devices_.insert(activity.device);
    streams_.emplace(activity.device, activity.stream);
    GenericTraceActivity& row = add_row(type, name, activity.begin_ns, activity.end_ns);
    row.device = activity.device;
    row.resource = static_cast<int32_t>(activity.stream);
    row.threadId = activity.thread;
    return row;
  }

  static void link(GenericTraceActivity& row, const Activity& activity, bool start,
                   const libkineto::ITraceActivity* cause) {
    row.id = correlation_of(activity);
    row.flow.id = static_cast<uint32_t>(row.id);
    row.flow.type = libkineto::kLinkAsyncCpuGpu;
    row.flow.start = start ? 1 : 0;
    row.linked = cause;
    row.addMetadata("correlation", row.id);
  }

  void add_host_row(const Activity& activity, const RowKind& kind, const libkineto::ITraceActivity* cause) {
    if (!wanted_.contains(ActivityType::PRIVATEUSE1_RUNTIME)) return;
    GenericTraceActivity& row =
        add_row(ActivityType::PRIVATEUSE1_RUNTIME, kind.host_name, activity.submit_begin_ns, activity.submit_end_ns);
    row.device = ::getpid();
    row.resource = activity.thread;
    row.threadId = activity.thread;
    link(row, activity, /*start=*/true, cause);
  }

  // A host call that gave the stream commands, such as a compiled graph: a range around these, and what it did itself.
  void add_range(const Activity& activity, size_t index, const libkineto::ITraceActivity* cause) {
    if (wanted_.contains(ActivityType::GPU_USER_ANNOTATION)) {
      link(add_row_of(activity, ActivityType::GPU_USER_ANNOTATION, activity.name), activity, /*start=*/false, nullptr);
    }
    if (!wanted_.contains(ActivityType::CONCURRENT_KERNEL)) return;
    for (const auto& [begin, end] : own_times(activities_, index)) {
      GenericTraceActivity& row = add_row_of(activity, ActivityType::CONCURRENT_KERNEL, activity.name);
      row.startTime = begin + offset_ns_;
      row.endTime = end + offset_ns_;
      row.id = correlation_of(activity);
      row.linked = cause;
      row.addMetadataQuoted("runs on", "host");
    }
  }

  void add_device_row(const Activity& activity, const RowKind& kind, const libkineto::ITraceActivity* cause) {
    if (!wanted_.contains(kind.device)) return;
    GenericTraceActivity& row = add_row_of(activity, kind.device, kind.device_name);
    link(row, activity, /*start=*/false, cause);
    row.addMetadata("device", activity.device);
    row.addMetadata("stream", activity.stream);
    row.addMetadata("bytes", kind.bytes);
    if (!activity.operands.empty()) row.addMetadataQuoted("operands", plain(activity.operands));
    if (activity.kind == CommandKind::kHostCall) row.addMetadataQuoted("runs on", "host");
    if (kind.device != ActivityType::CONCURRENT_KERNEL && activity.end_ns > activity.begin_ns) {
      row.addMetadata("memory bandwidth (GB/s)",
                      static_cast<double>(kind.bytes) / static_cast<double>(activity.end_ns - activity.begin_ns));
    }
  }

  // The user's range lasts, on a stream, from the first of its commands to the last.
  void extend_range(const Activity& activity, const libkineto::ITraceActivity& range) {
    if (!wanted_.contains(ActivityType::GPU_USER_ANNOTATION)) return;
    GenericTraceActivity*& row = ranges_[{activity.device, activity.stream, activity.annotation_id}];
    if (row == nullptr) {
      row = &add_row_of(activity, ActivityType::GPU_USER_ANNOTATION, range.name());
      row->id = static_cast<int32_t>(range.correlationId());
    }
    row->startTime = std::min(row->startTime, activity.begin_ns + offset_ns_);
    row->endTime = std::max(row->endTime, activity.end_ns + offset_ns_);
  }

  std::set<ActivityType> wanted_;
  std::vector<Activity> activities_;
  int64_t offset_ns_ = 0, begin_ns_ = 0, end_ns_ = 0;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_;
  std::map<std::tuple<int, int64_t, uint64_t>, GenericTraceActivity*> ranges_;  // by device, stream, annotation
  std::set<int> devices_;
  std::set<std::pair<int, int64_t>> streams_;
};

class Profiler final : public libkineto::IActivityProfiler {
 public:
  const std::string& name() const override { return name_; }
  const std::set<ActivityType>& availableActivities() const override { return types_; }

  // NULL: the trace has no rows of the device.
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(const std::set<ActivityType>& types,
                                                                 const libkineto::Config& /*config*/) override {
    const bool wanted = std::ranges::any_of(
        types, [&](ActivityType type) { return types_.contains(type) && type != ActivityType::PRIVATEUSE1_RUNTIME; });
    return wanted ? std::make_unique<Session>(types) : nullptr;
  }
  std::unique_ptr<libkineto::IActivityProfilerSession> configure(int64_t /*start_ms*/, int64_t /*duration_ms*/,
                                                                 const std::set<ActivityType>& types,
                                                                 const libkineto::Config& config) override {
    return configure(types, config);
  }

 private:
  std::string name_ = device_name();
  std::set<ActivityType> types_{ActivityType::CONCURRENT_KERNEL, ActivityType::GPU_MEMCPY, ActivityType::GPU_MEMSET,
                                ActivityType::GPU_USER_ANNOTATION, ActivityType::PRIVATEUSE1_RUNTIME};
};

REGISTER_PRIVATEUSE1_PROFILER(Profiler);

}  // namespace
}  // namespace mydev
