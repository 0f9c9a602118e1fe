// Where the processes of a job tell each other how they are reached, before they are connected: what a client brings.
#pragma once

#include <chrono>
#include <string>

namespace mydev::transport {

class KeyValueStore {
 public:
  virtual ~KeyValueStore() = default;
  // For all processes. Raises what the store says, as for a key that is there.
  virtual void put(const std::string& key, const std::string& value) = 0;
  // Waits until some process has put the key. Raises what the store says, DEADLINE_EXCEEDED where it takes longer.
  virtual std::string get(const std::string& key, std::chrono::milliseconds timeout) = 0;
};

}  // namespace mydev::transport
