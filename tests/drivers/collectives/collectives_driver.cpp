// Another driver (MYDEV_WRAPPED_DRIVER), whose memory the host reaches, with the extension `collectives`: members of a
// group wait for each other in their streams' order, and each computes its part on the host. It reduces f32 and s32 by
// addition, and leaves all else to the runtime.
//
// Options: those of the wrapped driver. Tests ask collectives_driver_calls, and collectives_driver_fail makes the next
// call of an entry fail.
#include <dlfcn.h>

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "mydev/driver_extensions.h"

namespace {

const mydev_driver_api* wrapped = nullptr;
bool asynchronous = false;
thread_local std::string message;  // of this driver's own failure
std::mutex mutex;                  // guards all that follows, and groups
std::condition_variable changed;
std::map<std::string, int64_t> calls;        // by the names of entries
std::map<std::string, mydev_code> failures;  // of the next call
std::map<mydev_stream, std::string> failed;  // streams whose work was aborted
uint64_t last_id = 0;

// Counts the call, and returns the failure that a test has asked for.
mydev_code begin_call(const char* name) {
  const std::lock_guard lock(mutex);
  ++calls[name];
  const auto found = failures.find(name);
  if (found == failures.end()) return MYDEV_OK;
  const mydev_code code = found->second;
  failures.erase(found);
  message = std::string(name) + " fails on request";
  return code;
}

// An operation is a rendezvous of the members: all bring a pointer, each works, and none goes on before all have.
struct Rendezvous {
  std::vector<const void*> brought;
  size_t arrived = 0, computed = 0, done = 0;
};
struct Group {
  size_t size = 0, joined = 0;
  bool aborted = false;
  std::map<uint64_t, Rendezvous> rendezvous;  // by the numbers of operations
  struct Sent {
    const void* data;
    uint64_t bytes;
    bool taken = false;
  };
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<Sent>>> sent;
};
std::map<uint64_t, std::shared_ptr<Group>> groups;  // by their ids

struct Communicator {
  std::shared_ptr<Group> group;
  int rank;
  uint64_t operations = 0;
};
Communicator& of(mydev_communicator handle) {
  return *reinterpret_cast<Communicator*>(handle);
}

// Work in the order of a stream, which returns false if the group was aborted.
using Work = std::function<bool()>;
struct Pending {
  mydev_stream stream;
  Work work;
};

mydev_code run_in_order(mydev_stream stream, Work work) {
  if (!asynchronous) {
    if (work()) return MYDEV_OK;
    message = "the group of devices was aborted";
    return MYDEV_ABORTED;
  }
  return wrapped->stream_host_call(
      stream,
      [](void* context) {
        const std::unique_ptr<Pending> pending(static_cast<Pending*>(context));
        if (pending->work()) return;
        const std::lock_guard lock(mutex);
        failed[pending->stream] = "the group of devices was aborted";
      },
      new Pending{stream, std::move(work)});
}

// `compute` is given what all bring, and returns what is left to do when nobody reads that any more.
mydev_code rendezvous(mydev_communicator handle, mydev_stream stream, const void* brought,
                      std::function<std::function<void()>(const std::vector<const void*>&)> compute) {
  Communicator& own = of(handle);
  return run_in_order(
      stream, [group = own.group, rank = own.rank, number = own.operations++, brought, compute = std::move(compute)] {
        std::unique_lock lock(mutex);
        Rendezvous& shared = group->rendezvous[number];
        shared.brought.resize(group->size);
        shared.brought[static_cast<size_t>(rank)] = brought;
        const auto wait_for = [&](size_t& count) {
          ++count;
          changed.notify_all();
          changed.wait(lock, [&] { return count == group->size || group->aborted; });
          return count == group->size;
        };
        if (!wait_for(shared.arrived)) return false;
        lock.unlock();
        const std::function<void()> finish = compute(shared.brought);
        lock.lock();
        if (!wait_for(shared.computed)) return false;
        finish();
        if (!wait_for(shared.done)) return false;
        if (++shared.arrived == 2 * group->size) group->rendezvous.erase(number);
        return true;
      });
}

template <typename T>
std::vector<std::byte> sums(const std::vector<const void*>& brought, uint64_t begin, uint64_t count) {
  std::vector<std::byte> bytes(count * sizeof(T));
  auto* values = reinterpret_cast<T*>(bytes.data());
  for (const void* data : brought) {
    for (uint64_t i = 0; i < count; ++i) values[i] += static_cast<const T*>(data)[begin + i];
  }
  return bytes;
}

mydev_code reduce(mydev_communicator handle, mydev_stream stream, void* dst, const void* src, uint64_t begin,
                  uint64_t count, int32_t dtype, int32_t reduction) {
  if (reduction != MYDEV_REDUCTION_ADD || (dtype != MYDEV_F32 && dtype != MYDEV_S32)) return MYDEV_UNIMPLEMENTED;
  return rendezvous(handle, stream, src, [=](const std::vector<const void*>& brought) {
    std::vector<std::byte> result =
        dtype == MYDEV_F32 ? sums<float>(brought, begin, count) : sums<int32_t>(brought, begin, count);
    return [dst, result = std::move(result)] {
      if (!result.empty()) std::memcpy(dst, result.data(), result.size());
    };
  });
}

mydev_code all_reduce(mydev_communicator handle, mydev_stream stream, void* dst, const void* src, uint64_t count,
                      int32_t dtype, int32_t reduction) {
  if (const mydev_code code = begin_call("all_reduce"); code != MYDEV_OK) return code;
  return reduce(handle, stream, dst, src, 0, count, dtype, reduction);
}
mydev_code reduce_scatter(mydev_communicator handle, mydev_stream stream, void* dst, const void* src, uint64_t count,
                          int32_t dtype, int32_t reduction) {
  if (const mydev_code code = begin_call("reduce_scatter"); code != MYDEV_OK) return code;
  const auto rank = static_cast<uint64_t>(of(handle).rank);
  return reduce(handle, stream, dst, src, rank * count, count, dtype, reduction);
}

// Copies what each member brought, from `offset` on, one behind the other.
mydev_code collect(mydev_communicator handle, mydev_stream stream, void* dst, const void* src, uint64_t bytes,
                   uint64_t offset) {
  return rendezvous(handle, stream, src, [=](const std::vector<const void*>& brought) {
    std::vector<std::byte> all(bytes * brought.size());
    for (size_t i = 0; i < brought.size() && bytes != 0; ++i) {
      std::memcpy(all.data() + bytes * i, static_cast<const std::byte*>(brought[i]) + offset, bytes);
    }
    return [dst, all = std::move(all)] {
      if (!all.empty()) std::memcpy(dst, all.data(), all.size());
    };
  });
}
mydev_code all_gather(mydev_communicator handle, mydev_stream stream, void* dst, const void* src, uint64_t bytes) {
  if (const mydev_code code = begin_call("all_gather"); code != MYDEV_OK) return code;
  return collect(handle, stream, dst, src, bytes, 0);
}
mydev_code all_to_all(mydev_communicator handle, mydev_stream stream, void* dst, const void* src, uint64_t bytes) {
  if (const mydev_code code = begin_call("all_to_all"); code != MYDEV_OK) return code;
  return collect(handle, stream, dst, src, bytes, bytes * static_cast<uint64_t>(of(handle).rank));
}
mydev_code broadcast(mydev_communicator handle, mydev_stream stream, void* dst, const void* src, uint64_t bytes,
                     int32_t root) {
  if (const mydev_code code = begin_call("broadcast"); code != MYDEV_OK) return code;
  return rendezvous(handle, stream, src, [=](const std::vector<const void*>& brought) {
    const void* from = brought[static_cast<size_t>(root)];
    if (bytes != 0 && dst != from) std::memmove(dst, from, bytes);
    return [] {};
  });
}

// --- transfers -------------------------------------------------------------------------------------------------------

struct Transfer {
  std::shared_ptr<Group> group;
  int rank, peer;
  mydev_stream stream;
  const void* src;
  void* dst;
  uint64_t bytes;
};
thread_local std::vector<Transfer> grouped;
thread_local bool grouping = false;

bool transfer_all(const std::vector<Transfer>& transfers) {
  std::unique_lock lock(mutex);
  std::vector<std::shared_ptr<Group::Sent>> own;
  for (const Transfer& transfer : transfers) {
    if (transfer.dst != nullptr || transfer.src == nullptr) continue;
    own.push_back(std::make_shared<Group::Sent>(Group::Sent{transfer.src, transfer.bytes}));
    transfer.group->sent[{transfer.rank, transfer.peer}].push_back(own.back());
  }
  changed.notify_all();
  const Group& group = *transfers.front().group;
  for (const Transfer& transfer : transfers) {
    if (transfer.dst == nullptr) continue;
    auto& waiting = transfer.group->sent[{transfer.peer, transfer.rank}];
    changed.wait(lock, [&] { return !waiting.empty() || group.aborted; });
    if (waiting.empty()) return false;
    std::memcpy(transfer.dst, waiting.front()->data, transfer.bytes);
    waiting.front()->taken = true;
    waiting.pop_front();
    changed.notify_all();
  }
  for (const auto& sent : own) {
    changed.wait(lock, [&] { return sent->taken || group.aborted; });
    if (!sent->taken) return false;
  }
  return true;
}

mydev_code group_start() {
  if (const mydev_code code = begin_call("group_start"); code != MYDEV_OK) return code;
  grouping = true;
  return MYDEV_OK;
}
mydev_code group_end() {
  if (const mydev_code code = begin_call("group_end"); code != MYDEV_OK) return code;
  grouping = false;
  std::vector<Transfer> transfers = std::exchange(grouped, {});
  std::erase_if(transfers, [](const Transfer& transfer) { return transfer.bytes == 0; });
  if (transfers.empty()) return MYDEV_OK;
  const mydev_stream stream = transfers.front().stream;
  return run_in_order(stream, [transfers = std::move(transfers)] { return transfer_all(transfers); });
}
mydev_code give(Transfer transfer) {
  grouped.push_back(std::move(transfer));
  if (grouping) return MYDEV_OK;
  std::vector<Transfer> transfers = std::exchange(grouped, {});
  const mydev_stream stream = transfers.front().stream;
  return run_in_order(stream, [transfers = std::move(transfers)] { return transfer_all(transfers); });
}
mydev_code send(mydev_communicator handle, mydev_stream stream, const void* src, uint64_t bytes, int32_t to) {
  if (const mydev_code code = begin_call("send"); code != MYDEV_OK) return code;
  return give({of(handle).group, of(handle).rank, to, stream, src, nullptr, bytes});
}
mydev_code receive(mydev_communicator handle, mydev_stream stream, void* dst, uint64_t bytes, int32_t from) {
  if (const mydev_code code = begin_call("receive"); code != MYDEV_OK) return code;
  return give({of(handle).group, of(handle).rank, from, stream, nullptr, dst, bytes});
}

// --- groups ----------------------------------------------------------------------------------------------------------

mydev_code unique_id(mydev_communicator_id* out_id) {
  if (const mydev_code code = begin_call("unique_id"); code != MYDEV_OK) return code;
  const std::lock_guard lock(mutex);
  std::memset(out_id, 0, sizeof *out_id);
  std::memcpy(out_id, &++last_id, sizeof last_id);
  return MYDEV_OK;
}
mydev_code create(int32_t /*device*/, const mydev_communicator_id* id, int32_t size, int32_t rank,
                  mydev_communicator* out_communicator) {
  if (const mydev_code code = begin_call("create"); code != MYDEV_OK) return code;
  uint64_t number = 0;
  std::memcpy(&number, id, sizeof number);
  std::unique_lock lock(mutex);
  std::shared_ptr<Group>& known = groups[number];
  if (known == nullptr) known = std::make_shared<Group>();
  const std::shared_ptr<Group> group = known;
  group->size = static_cast<size_t>(size);
  ++group->joined;
  changed.notify_all();
  changed.wait(lock, [&] { return group->joined == group->size; });
  *out_communicator = reinterpret_cast<mydev_communicator>(new Communicator{group, rank});
  return MYDEV_OK;
}
mydev_code destroy(mydev_communicator handle) {
  const mydev_code code = begin_call("destroy");
  delete &of(handle);
  return code;
}
mydev_code abort_group(mydev_communicator handle) {
  const mydev_code code = begin_call("abort");
  const std::lock_guard lock(mutex);
  of(handle).group->aborted = true;
  changed.notify_all();
  return code;
}

constexpr mydev_collectives_extension kCollectives = {
    .head = {.struct_size = sizeof(mydev_collectives_extension), .version = MYDEV_COLLECTIVES_VERSION},
    .unique_id = unique_id,
    .create = create,
    .destroy = destroy,
    .abort = abort_group,
    .group_start = group_start,
    .group_end = group_end,
    .send = send,
    .receive = receive,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .broadcast = broadcast,
    .all_to_all = all_to_all,
};
constexpr mydev_extension kExtensions[] = {{MYDEV_COLLECTIVES_EXTENSION, MYDEV_COLLECTIVES_VERSION}};

const void* extension(const char* name, uint32_t /*version*/) {
  return std::strcmp(name, MYDEV_COLLECTIVES_EXTENSION) == 0 ? &kCollectives : nullptr;
}

mydev_code initialize(const char* options, const mydev_host_services* host) {
  asynchronous = std::strstr(options, "async") != nullptr;
  return wrapped->initialize(options, host);
}
const char* last_error() {
  return message.empty() ? wrapped->last_error() : message.c_str();
}
mydev_code stream_status(mydev_stream stream, mydev_code* out_status) {
  {
    const std::lock_guard lock(mutex);
    const auto found = failed.find(stream);
    if (found != failed.end()) {
      *out_status = MYDEV_ABORTED;
      message = found->second;
      failed.erase(found);
      return MYDEV_OK;
    }
  }
  return wrapped->stream_status(stream, out_status);
}

}  // namespace

extern "C" MYDEV_EXPORT int64_t collectives_driver_calls(const char* entry) {
  const std::lock_guard lock(mutex);
  return calls[entry];
}
extern "C" MYDEV_EXPORT void collectives_driver_fail(const char* entry, mydev_code code) {
  const std::lock_guard lock(mutex);
  failures[entry] = code;
}

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor) {
  void* library = ::dlopen(MYDEV_WRAPPED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  void* query = library == nullptr ? nullptr : ::dlsym(library, MYDEV_DRIVER_QUERY_SYMBOL);
  if (query == nullptr) {
    std::fprintf(stderr, "collectives_driver: %s\n", ::dlerror());  // NOLINT(concurrency-mt-unsafe)
    std::abort();
  }
  wrapped = reinterpret_cast<mydev_driver_query_fn>(query)(version_major, version_minor);
  static mydev_driver_api api;
  api = *wrapped;
  api.name = "collectives";
  api.initialize = initialize;
  api.last_error = last_error;
  api.stream_status = stream_status;
  api.extensions = kExtensions;
  api.num_extensions = 1;
  api.extension = extension;
  return &api;
}
