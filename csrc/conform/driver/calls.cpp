#include "conform/driver/calls.h"

#include <string>
#include <thread>

namespace mydev::conform {

void Calls::add() {
  {
    const std::lock_guard lock(mutex_);
    ++number_;
  }
  changed_.notify_all();
}

int Calls::number() const {
  const std::lock_guard lock(mutex_);
  return number_;
}

bool Calls::come() const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, kPatience, [this] { return number_ > 0; });
}

void expect_one_call(DriverCase& t, std::string_view what, const Calls& calls) {
  t.checks.require(calls.come(),
                   std::string(what) + " was not called within " + std::to_string(kPatience.count()) + " s");
  std::this_thread::sleep_for(kLookout);
  t.checks.equal("the number of times that " + std::string(what) + " was called", calls.number(), 1);
}

}  // namespace mydev::conform
