#include "runtime/memory/private_pool.h"

#include <memory>
#include <vector>

namespace mydev {

namespace {

// Keys are never destroyed, since blocks refer to them; those of pools that are gone serve the next.
struct IdleKeys {
  std::mutex mutex;
  std::map<const Stream*, std::vector<Stream*>> of_stream;
};
IdleKeys& idle_keys() {
  static IdleKeys& instance = *new IdleKeys;
  return instance;
}

Stream& take_key(const Stream& stream) {
  IdleKeys& idle = idle_keys();
  const std::lock_guard lock(idle.mutex);
  std::vector<Stream*>& keys = idle.of_stream[&stream];
  if (keys.empty()) return *Stream::alias_of(stream).release();
  Stream* key = keys.back();
  keys.pop_back();
  return *key;
}

}  // namespace

PrivatePool::~PrivatePool() {
  IdleKeys& idle = idle_keys();
  const std::lock_guard lock(idle.mutex);
  for (const auto& [stream, key] : keys_) {
    key->set_keeps_memory(false);
    idle.of_stream[stream].push_back(key);
  }
}

Stream& PrivatePool::key_of(const Stream& stream) {
  const std::lock_guard lock(mutex_);
  Stream*& key = keys_[&stream];
  if (key == nullptr) {
    key = &take_key(stream);
    key->set_keeps_memory(true);
  }
  return *key;
}

}  // namespace mydev
