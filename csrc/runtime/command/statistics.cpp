#include "runtime/command/statistics.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <tuple>

namespace mydev {

namespace {

struct Count {
  uint64_t calls = 0, bytes = 0;
  int64_t nanoseconds = 0;
};

struct Statistics {
  std::mutex mutex;
  std::map<std::tuple<CommandKind, std::string, int>, Count, std::less<>> counts;
  int counting = 0;
  int hook = 0;
};

// Never destroyed: commands end until the process is gone.
Statistics& statistics() {
  static Statistics& instance = *new Statistics;
  return instance;
}

void count(void*, const CommandRecord& record) {
  Statistics& all = statistics();
  const std::lock_guard lock(all.mutex);
  if (all.counting == 0) return;
  Count& row = all.counts[{record.kind, record.name, record.stream->device().index}];
  ++row.calls;
  row.bytes += record.bytes;
  row.nanoseconds += record.end_ns - record.begin_ns;
}

}  // namespace

void begin_command_statistics() {
  Statistics& all = statistics();
  const std::lock_guard lock(all.mutex);
  if (all.counting++ == 0) all.hook = add_command_hook({.finished = count});
}

void end_command_statistics() {
  Statistics& all = statistics();
  const std::lock_guard lock(all.mutex);
  MYDEV_CHECK(all.counting > 0, MYDEV_FAILED_PRECONDITION, "command statistics: nobody counts");
  if (--all.counting == 0) remove_command_hook(all.hook);
}

std::vector<CommandRow> command_rows() {
  Statistics& all = statistics();
  std::vector<CommandRow> rows;
  {
    const std::lock_guard lock(all.mutex);
    for (const auto& [key, row] : all.counts) {
      const auto& [kind, name, device] = key;
      rows.push_back({kind, name, device, row.calls, row.bytes, row.nanoseconds});
    }
  }
  std::sort(rows.begin(), rows.end(),
            [](const CommandRow& a, const CommandRow& b) { return a.nanoseconds > b.nanoseconds; });
  return rows;
}

}  // namespace mydev
