#include "runtime/validation/access_history.h"

#include <algorithm>

namespace mydev::validation {

namespace {

const void* pointer(uintptr_t address) {
  return reinterpret_cast<const void*>(address);  // NOLINT(performance-no-int-to-ptr)
}

bool known(const Access& access, const VectorClock& clock) {
  return clock.covers(access.timeline, access.epoch);
}

// Whether commands that are ordered after `later` are ordered after `earlier` too, at all bytes of a range that both
// touch.
bool replaces(const Access& later, const Access& earlier, const VectorClock& clock) {
  if (!later.view.dense() || !known(earlier, clock)) return false;
  return later.writes || (!earlier.writes && earlier.timeline == later.timeline);
}

}  // namespace

SharedAccess AccessHistory::conflict(const Access& access, const VectorClock& clock) const {
  for (auto range = ranges_.first_behind(access.view.begin); range != ranges_.end() && range->first < access.view.end;
       ++range) {
    for (const SharedAccess& earlier : range->second.value) {
      if ((!access.writes && !earlier->writes) || known(*earlier, clock)) continue;
      if (overlap(access.view, earlier->view)) return earlier;
    }
  }
  return nullptr;
}

void AccessHistory::add(const SharedAccess& access, const VectorClock& clock, const VectorClock& host) {
  const uintptr_t end = access->view.end;
  uintptr_t next = access->view.begin;
  ranges_.split(next);
  ranges_.split(end);
  auto range = ranges_.first_behind(next);
  if (access->writes && access->view.dense()) {  // nothing earlier in it counts any more
    while (range != ranges_.end() && range->first < end) range = ranges_.erase(range);
  }
  while (next < end) {
    if (range == ranges_.end() || range->first > next) {
      const uintptr_t gap_end = range == ranges_.end() ? end : std::min(end, range->first);
      ranges_.insert(pointer(next), gap_end - next, {access});
      next = gap_end;
      continue;
    }
    Accesses& accesses = range->second.value;
    std::erase_if(accesses, [&](const SharedAccess& earlier) {
      return known(*earlier, host) || replaces(*access, *earlier, clock);
    });
    if (accesses.size() >= kMostViews) accesses.erase(accesses.begin());
    accesses.push_back(access);
    next = range->first + range->second.size;
    ++range;
  }
  if (ranges_.size() > prune_at_) prune(host);
}

void AccessHistory::prune(const VectorClock& host) {
  for (auto range = ranges_.first_behind(0); range != ranges_.end();) {
    Accesses& accesses = range->second.value;
    std::erase_if(accesses, [&](const SharedAccess& access) { return known(*access, host); });
    range = accesses.empty() ? ranges_.erase(range) : std::next(range);
  }
  if (ranges_.size() > kMostRanges) ranges_.clear();
  prune_at_ = std::min(kMostRanges, std::max<size_t>(1024, 2 * ranges_.size()));
}

void AccessHistory::forget(const Access& access) {
  auto range = ranges_.first_behind(access.view.begin);
  while (range != ranges_.end() && range->first < access.view.end) {
    Accesses& accesses = range->second.value;
    std::erase_if(accesses, [&](const SharedAccess& other) { return other->command == access.command; });
    range = accesses.empty() ? ranges_.erase(range) : std::next(range);
  }
}

SharedAccess AccessHistory::pending(uintptr_t begin, uintptr_t end, const VectorClock& host) const {
  for (auto range = ranges_.first_behind(begin); range != ranges_.end() && range->first < end; ++range) {
    for (const SharedAccess& access : range->second.value) {
      if (!known(*access, host)) return access;
    }
  }
  return nullptr;
}

void AccessHistory::erase(uintptr_t begin, uintptr_t end) {
  ranges_.split(begin);
  ranges_.split(end);
  auto range = ranges_.first_behind(begin);
  while (range != ranges_.end() && range->first < end) range = ranges_.erase(range);
}

}  // namespace mydev::validation
