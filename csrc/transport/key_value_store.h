// A store, brought by the client, in which the processes of a job tell each other how they are reached, before they are
// connected.
#pragma once

#include <chrono>
#include <string>

namespace mydev::transport {

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // Stores a value for all processes. Raises the store's error, such as for a key that is there.
  virtual void put(const std::string& key, const std::string& value) = 0;
  // Waits until some process has put the key. Raises the store's error, and DEADLINE_EXCEEDED if it takes longer.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

}  // namespace mydev::transport
