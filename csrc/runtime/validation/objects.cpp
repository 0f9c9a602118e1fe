#include "runtime/validation/objects.h"

#include <algorithm>
#include <utility>

#include "runtime/validation/finding.h"

namespace mydev::validation {

namespace {

constexpr size_t kMostPastObjects = 1024;
constexpr int32_t kHandles = -2;  // the "space" of handles that are past

std::string place_of(int32_t space) {
  return space == kPinned ? "pinned host memory" : text("device ", space);
}

std::string range_text(const MemoryView& view) {
  return text("[", reinterpret_cast<const void*>(view.begin), ", ",  // NOLINT(performance-no-int-to-ptr)
              reinterpret_cast<const void*>(view.end), "), ", view.end - view.begin, " bytes");
}

}  // namespace

// --- devices ---------------------------------------------------------------------------------------------------------

void Objects::set_devices(std::vector<mydev_device_properties> properties) {
  spaces_[kPinned];
  for (size_t index = 0; index < properties.size(); ++index) {
    spaces_[static_cast<int32_t>(index)].properties = properties[index];
  }
}

Space& Objects::device(int32_t device) {
  require(device >= 0 && device < device_count(), MYDEV_INVALID_ARGUMENT, "there is no device ", device,
          "; the driver has ", device_count());
  return spaces_.at(device);
}

// --- memory ----------------------------------------------------------------------------------------------------------

void Objects::add_allocation(int32_t space, void* data, uint64_t bytes) {
  Space& memory = spaces_.at(space);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  require(data != nullptr, MYDEV_FAILED_PRECONDITION, "the driver said OK and gave NULL for ", bytes, " bytes");
  const uint64_t alignment = space == kPinned ? 4096 : std::max<uint64_t>(memory.properties.alignment, 1);
  require(begin % alignment == 0, MYDEV_FAILED_PRECONDITION, "the driver gave ", data, " for ", bytes, " bytes of ",
          place_of(space), ", which is not aligned to the promised ", alignment, " bytes");
  const auto other = memory.allocations.first_behind(begin);
  if (other != memory.allocations.end() && other->first < begin + bytes) {
    throw Finding(MYDEV_FAILED_PRECONDITION,
                  text("the driver gave ", data, " for ", bytes, " bytes of ", place_of(space),
                       ", which overlaps a live allocation of ", other->second.size, " bytes at ",
                       reinterpret_cast<const void*>(other->first)));  // NOLINT(performance-no-int-to-ptr)
  }
  memory.allocations.insert(data, bytes, {bytes});
  memory.allocated += bytes;
  memory.history.erase(begin, begin + bytes);
  require(space == kPinned || memory.allocated <= memory.properties.total_memory, MYDEV_FAILED_PRECONDITION,
          "the driver says that device ", space, " has ", memory.properties.total_memory, " bytes, and has given out ",
          memory.allocated, "; refuse what does not fit with RESOURCE_EXHAUSTED");
}

void Objects::check_allocation(int32_t space, const void* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  const Space& memory = spaces_.at(space);
  const auto found = memory.allocations.find(begin);
  require(found != memory.allocations.end(), MYDEV_INVALID_ARGUMENT, "no live allocation of ", place_of(space),
          " begins at ", data, past(space, begin));
  require(found->first == begin, MYDEV_INVALID_ARGUMENT, data, " lies ", begin - found->first,
          " bytes inside an allocation of ", place_of(space), "; give the pointer that the allocation began with");
  require(found->second.size == bytes, MYDEV_INVALID_ARGUMENT, "the allocation at ", data, " has ", found->second.size,
          " bytes, not ", bytes, "; give the number that it was made with");
}

void Objects::remove_allocation(int32_t space, const void* data) {
  Space& memory = spaces_.at(space);
  const Allocation gone = memory.allocations.extract(data);
  const auto begin = reinterpret_cast<uintptr_t>(data);
  memory.allocated -= gone.bytes;
  memory.history.erase(begin, begin + gone.bytes);
  remember(space, data, gone.bytes);
}

void Objects::check_range(int32_t device, const MemoryView& view, const std::string& what) {
  Space& memory = spaces_.at(device);
  const auto found = memory.allocations.find(view.begin);
  if (found == memory.allocations.end()) {
    if (other_memory_ || has(device, MYDEV_CAPABILITY_UNIFIED_MEMORY)) return;
    std::string elsewhere = past(device, view.begin);
    for (const auto& [other, space] : spaces_) {
      const bool there = other != device && space.allocations.find(view.begin) != space.allocations.end();
      if (there) elsewhere += text("; it is memory of ", place_of(other));
    }
    throw Finding(MYDEV_INVALID_ARGUMENT,
                  text(what, " ", range_text(view), ", lies in no live allocation of device ", device, elsewhere));
  }
  require(view.end <= found->first + found->second.size, MYDEV_INVALID_ARGUMENT, what, " ", range_text(view),
          ", reaches ", view.end - found->first - found->second.size, " bytes beyond its allocation of ",
          found->second.size, " bytes on device ", device);
}

bool Objects::check_host_range(const MemoryView& view, const std::string& what) {
  const Space& pinned = spaces_.at(kPinned);
  const auto found = pinned.allocations.find(view.begin);
  if (found == pinned.allocations.end()) return false;
  require(view.end <= found->first + found->second.size, MYDEV_INVALID_ARGUMENT, what, " ", range_text(view),
          ", reaches beyond its pinned allocation of ", found->second.size, " bytes");
  return true;
}

// --- handles ---------------------------------------------------------------------------------------------------------

StreamObject& Objects::add_stream(mydev_stream handle, int32_t device, Order& order) {
  require(handle != nullptr, MYDEV_FAILED_PRECONDITION, "the driver said OK and gave NULL for a stream");
  require(streams_.find(handle) == streams_.end(), MYDEV_FAILED_PRECONDITION,
          "the driver gave the handle of a live stream again: ", static_cast<const void*>(handle));
  const int64_t number = spaces_.at(device).streams_made++;
  std::string name = text("stream ", number, " of device ", device, " (", static_cast<const void*>(handle), ")");
  return streams_.emplace(handle, StreamObject{device, std::move(name), order.add_stream(), ""}).first->second;
}

StreamObject* Objects::find_stream(mydev_stream handle) {
  const auto found = streams_.find(handle);
  return found == streams_.end() ? nullptr : &found->second;
}

StreamObject& Objects::stream(mydev_stream handle) {
  StreamObject* found = find_stream(handle);
  if (found == nullptr) refuse_handle("stream", handle);
  return *found;
}

void Objects::remove_stream(mydev_stream handle) {
  streams_.erase(handle);
  remember(kHandles, handle, 1);
}

EventObject& Objects::add_event(mydev_event handle, int32_t device, uint32_t flags) {
  require(handle != nullptr, MYDEV_FAILED_PRECONDITION, "the driver said OK and gave NULL for an event");
  const auto [event, fresh] = events_.emplace(handle, EventObject{device, flags, false, {}});
  require(fresh, MYDEV_FAILED_PRECONDITION,
          "the driver gave the handle of a live event again: ", static_cast<const void*>(handle));
  return event->second;
}

EventObject& Objects::event(mydev_event handle) {
  const auto found = events_.find(handle);
  if (found == events_.end()) refuse_handle("event", handle);
  return found->second;
}

void Objects::remove_event(mydev_event handle) {
  events_.erase(handle);
  remember(kHandles, handle, 1);
}

void Objects::refuse_handle(const char* kind, const void* handle) const {
  throw Finding(MYDEV_INVALID_ARGUMENT, text(handle, " is no live ", kind, " made by this driver's ", kind, "_create",
                                             past(kHandles, reinterpret_cast<uintptr_t>(handle))));
}

// --- what is past ----------------------------------------------------------------------------------------------------

void Objects::remember(int32_t space, const void* data, uint64_t bytes) {
  const auto begin = reinterpret_cast<uintptr_t>(data);
  past_.push_back({space, begin, begin + bytes});
  if (past_.size() > kMostPastObjects) past_.pop_front();
}

std::string Objects::past(int32_t space, uintptr_t address) const {
  const auto latest = std::find_if(past_.rbegin(), past_.rend(), [&](const Past& gone) {
    return gone.space == space && gone.begin <= address && address < gone.end;
  });
  if (latest == past_.rend()) return "";
  if (space == kHandles) return "; it was destroyed";
  return text("; an allocation of ", latest->end - latest->begin, " bytes there was freed");
}

std::string Objects::summary() const {
  uint64_t allocations = 0, bytes = 0;
  for (const auto& [index, space] : spaces_) {
    allocations += space.allocations.size();
    bytes += space.allocated;
  }
  return text(allocations, " allocations of ", bytes, " bytes, ", streams_.size(), " streams, ", events_.size(),
              " events");
}

}  // namespace mydev::validation
