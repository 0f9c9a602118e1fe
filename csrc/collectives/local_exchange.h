// The exchange of devices of one process.
//
// A member that receives posts where its data go, and an event after which they may be written there. The member that
// sends copies them there on its own stream, behind that event, and gives an event of its own, for which the receiver's
// stream waits. Devices that do not reach each other go through pinned memory of the host. Only threads wait for each
// other here, and only until each has given its stream the work. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>

#include "collectives/cancelled_runs.h"
#include "collectives/exchange.h"
#include "runtime/base/api.h"
#include "runtime/stream/event.h"

namespace mydev::collectives {

class MYDEV_API LocalExchange final : public Exchange {
 public:
  void exchange(Stream& stream, const ExchangeKey& key, int self, std::span<const Transfer> sends,
                std::span<const Transfer> receives) override;
  // Some member will not come to the end of that run: members that wait in it, now or later, raise ABORTED. The latest
  // such runs are remembered.
  void cancel(uint64_t run, const std::string& why);

 private:
  enum class State : uint8_t { kPosted, kSending, kSent };
  struct Post {
    Transfer to;
    Stream* stream = nullptr;
    std::shared_ptr<Event> ready;  // nullptr: the stream is not asynchronous
    State state = State::kPosted;
    std::shared_ptr<Event> sent;   // nullptr: it has been done
    std::shared_ptr<void> staged;  // the data, if the sender does not reach the receiver
    std::string failure;           // of the sender
  };
  using SharedPost = std::shared_ptr<Post>;
  using Queue = std::tuple<uint64_t, int64_t, int, int>;  // run, operation, sender, receiver

  void wait(std::unique_lock<std::mutex>& lock, uint64_t run, const std::function<bool()>& holds);
  void send(Stream& stream, const ExchangeKey& key, int self, const Transfer& transfer);
  void finish(Stream& stream, const ExchangeKey& key, Post& post);
  void withdraw(Stream& stream, const ExchangeKey& key, int self, std::span<const SharedPost> posts) noexcept;

  std::mutex mutex_;  // guards what follows, and states of posts
  std::condition_variable changed_;
  std::map<Queue, std::deque<SharedPost>> posts_;
  CancelledRuns cancelled_;
};

}  // namespace mydev::collectives
