// For tests of processes of a job: several of them in one, each with a thread while they join.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "transport/processes.h"

namespace mydev::transport {

class MemoryStore final : public KeyValueStore {
 public:
  void put(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    MYDEV_CHECK(values_.emplace(key, value).second, MYDEV_ALREADY_EXISTS, "the key '", key, "' is there");
    changed_.notify_all();
  }
  std::string get(const std::string& key, std::chrono::milliseconds timeout) override {
    std::unique_lock lock(mutex_);
    MYDEV_CHECK(changed_.wait_for(lock, timeout, [&] { return values_.contains(key); }), MYDEV_DEADLINE_EXCEEDED,
                "nobody put the key");
    return values_.at(key);
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

// One for each count of devices.
inline std::vector<std::shared_ptr<Processes>> joined(
    const std::vector<int64_t>& devices, std::chrono::milliseconds timeout = std::chrono::milliseconds(-1)) {
  MemoryStore store;
  std::vector<std::shared_ptr<Processes>> processes(devices.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < devices.size(); ++i) {
    threads.emplace_back([&, i] {
      JoinOptions options{.index = static_cast<int>(i), .count = static_cast<int>(devices.size())};
      options.devices = devices[i];
      options.device_kind = "test device";
      options.timeout = timeout;
      processes[i] = Processes::join(options, store);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return processes;
}

}  // namespace mydev::transport
