#include "kernels/registry/portable_launches.h"

#include <map>
#include <mutex>
#include <utility>

namespace mydev {

namespace {

struct Counters {
  std::mutex mutex;
  std::map<std::pair<std::string, int>, std::atomic<uint64_t>> by_kernel;
};

Counters& counters() {
  static Counters& all = *new Counters;
  return all;
}

}  // namespace

std::atomic<uint64_t>& portable_launches(std::string_view name, int device) {
  Counters& all = counters();
  const std::lock_guard lock(all.mutex);
  return all.by_kernel[{std::string(name), device}];
}

std::vector<PortableLaunches> all_portable_launches() {
  Counters& all = counters();
  const std::lock_guard lock(all.mutex);
  std::vector<PortableLaunches> rows;
  rows.reserve(all.by_kernel.size());
  for (const auto& [kernel, count] : all.by_kernel) rows.push_back({kernel.first, kernel.second, count.load()});
  return rows;
}

}  // namespace mydev
