#include "conform/driver/held_stream.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace mydev::conform {

struct HeldStream::Gate {
  explicit Gate(std::chrono::milliseconds most) : limit(most) {}
  const std::chrono::milliseconds limit;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  bool open = false;
  bool expired = false;

  void pass() {
    std::unique_lock lock(mutex);
    if (!changed.wait_for(lock, limit, [this] { return open; })) expired = true;
  }
};

namespace {

constexpr uint64_t kLoadBytes = 32 << 20;
constexpr unsigned char kLoadSteps = 16;

bool can_hold(const DriverCase& t) {
  return t.device().asynchronous() && t.driver().stream_host_call != nullptr;
}

}  // namespace

void needs_held_streams(DriverCase& t) {
  t.needs(can_hold(t), "needs an asynchronous device with stream_host_call, to hold work up");
}

void expect_no_call(DriverCase& t, const HeldStream& held, std::string_view what, const Calls& calls) {
  std::this_thread::sleep_for(kLookout);
  const bool came = calls.number() > 0;
  t.checks.that(!came || !held.held(), std::string(what) + " was called while work before it was pending");
}

HeldStream::HeldStream(DriverCase& owner, Stream& stream, std::chrono::milliseconds limit)
    : owner_(owner), stream_(stream) {
  if (can_hold(owner)) {
    gate_ = &keep_forever(std::make_unique<Gate>(limit));
    owner.must(owner.driver().stream_host_call(
                   stream.handle(), [](void* gate) { static_cast<Gate*>(gate)->pass(); }, gate_),
               "stream_host_call");
  } else if (owner.device().asynchronous()) {
    load_.emplace(owner, kLoadBytes);
    for (unsigned char step = 0; step < kLoadSteps; ++step) owner.fill(stream, *load_, Bytes(16, step));
  }
}

HeldStream::~HeldStream() {
  release();
  // No work may use memory that is freed.
  if (load_) owner_.ok(owner_.driver().stream_synchronize(stream_.handle()), "stream_synchronize");
}

void HeldStream::release() {
  if (gate_ == nullptr) return;
  {
    const std::lock_guard lock(gate_->mutex);
    gate_->open = true;
  }
  gate_->changed.notify_all();
}

bool HeldStream::held() const {
  if (gate_ == nullptr) return false;
  const std::lock_guard lock(gate_->mutex);
  return !gate_->expired;
}

}  // namespace mydev::conform
