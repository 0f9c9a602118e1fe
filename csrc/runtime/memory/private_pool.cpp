#include "runtime/memory/private_pool.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <set>
#include <string>
#include <unordered_map>

#include "runtime/base/log.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/memory/device_memory.h"

namespace mydev {

namespace {

struct KeyUse {
  PoolId pool;
  const Stream* stream;  // of the driver, whose alias the key is
  bool last_resort;
};

// The mutex is a leaf. Keys are never destroyed, since blocks refer to them. A key of a pool that is gone serves
// another pool once no memory is left under it.
struct Keys {
  std::mutex mutex;
  std::unordered_map<const Stream*, KeyUse> used;
  std::map<const Stream*, std::vector<Stream*>> idle;  // by the driver's stream
};
Keys& keys() {
  static Keys& instance = *new Keys;
  return instance;
}

struct Pools {
  std::mutex mutex;
  std::map<PoolId, std::weak_ptr<PrivatePool>> by_id;
};
Pools& pools() {
  static Pools& instance = *new Pools;
  return instance;
}

unsigned long long next_number() {
  static std::atomic<unsigned long long> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

bool has_memory(const Stream& key) {
  DeviceMemory* memory = DeviceMemory::existing(key.device().index);
  return memory != nullptr && memory->has_segments(key);
}

Stream& take_key(const Stream& stream) {
  std::vector<Stream*> idle;
  {
    const std::lock_guard lock(keys().mutex);
    std::swap(idle, keys().idle[&stream]);
  }
  const auto found = std::find_if(idle.begin(), idle.end(), [](const Stream* key) { return !has_memory(*key); });
  Stream* key = found != idle.end() ? *found : Stream::alias_of(stream).release();
  if (found != idle.end()) idle.erase(found);
  const std::lock_guard lock(keys().mutex);
  std::vector<Stream*>& left = keys().idle[&stream];
  left.insert(left.end(), idle.begin(), idle.end());
  return *key;
}

void return_memory(int device, PoolId pool) noexcept {
  DeviceMemory* memory = DeviceMemory::existing(device);
  if (memory == nullptr) return;
  try {
    memory->empty_cache(pool);
  } catch (const std::exception& error) {  // of the driver; the memory stays cached
    const std::string message =
        std::string("a memory pool is gone, but its memory was not given back: ") + error.what();
    log(MYDEV_LOG_WARNING, message.c_str());
  }
}

}  // namespace

PoolId PrivatePool::next_id() {
  return {next_number(), 0};
}

std::shared_ptr<PrivatePool> PrivatePool::find(PoolId id) {
  const std::lock_guard lock(pools().mutex);
  const auto found = pools().by_id.find(id);
  return found == pools().by_id.end() ? nullptr : found->second.lock();
}

std::shared_ptr<PrivatePool> PrivatePool::with_id(PoolId id) {
  const std::lock_guard lock(pools().mutex);
  auto& by_id = pools().by_id;
  std::erase_if(by_id, [](const auto& entry) { return entry.second.expired(); });
  std::shared_ptr<PrivatePool> pool = by_id[id].lock();
  if (pool == nullptr) by_id[id] = pool = std::make_shared<PrivatePool>(id, PoolOptions{});
  return pool;
}

std::shared_ptr<PrivatePool> PrivatePool::make(PoolOptions options) {
  const PoolId id{0, next_number()};
  auto pool = std::make_shared<PrivatePool>(id, options);
  const std::lock_guard lock(pools().mutex);
  std::erase_if(pools().by_id, [](const auto& entry) { return entry.second.expired(); });
  pools().by_id[id] = pool;
  return pool;
}

PrivatePool::~PrivatePool() {
  if (in_bad_fork()) return;  // locks may be held for ever
  {
    const std::lock_guard lock(keys().mutex);
    for (const auto& [stream, key] : keys_) {
      key->set_keeps_memory(false);
      keys().used.erase(key);
      keys().idle[stream].push_back(key);
    }
  }
  if (!options_.returns_memory) return;
  std::set<int> devices;
  for (const auto& [stream, key] : keys_) devices.insert(stream->device().index);
  for (const int device : devices) return_memory(device, id_);
}

Stream& PrivatePool::key_of(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  Stream*& key = keys_[&stream];
  if (key == nullptr) {
    key = &take_key(stream);
    key->set_keeps_memory(true);
    const std::lock_guard keys_lock(keys().mutex);
    keys().used[key] = {id_, &stream, options_.last_resort};
  }
  return *key;
}

bool PrivatePool::has_key(const Stream& key) const {
  return pool_of_key(key) == id_;
}

PoolId pool_of_key(const Stream& key) {
  const std::lock_guard lock(keys().mutex);
  const auto found = keys().used.find(&key);
  return found == keys().used.end() ? PoolId{} : found->second.pool;
}

std::vector<Stream*> last_resort_keys(const Stream& stream) {
  std::vector<Stream*> found;
  const std::lock_guard lock(keys().mutex);
  for (const auto& [key, use] : keys().used) {
    if (use.last_resort && use.stream == &stream) found.push_back(const_cast<Stream*>(key));
  }
  return found;
}

}  // namespace mydev
