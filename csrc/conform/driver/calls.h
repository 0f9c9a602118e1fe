// Calls that a driver makes: counted, and waited for.
//
// Objects that a driver is given for a call live as long as the process: a driver that breaks its promises may call at
// any time. Thread-safe.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

#include "conform/driver/driver_case.h"

namespace mydev::conform {

template <typename Object>
Object& keep_forever(std::unique_ptr<Object> object) {
  static auto& kept = *new std::vector<std::unique_ptr<Object>>;
  return *kept.emplace_back(std::move(object));
}

class Calls {
 public:
  static Calls& make() { return keep_forever(std::make_unique<Calls>()); }
  // A mydev_host_function, whose context is a Calls.
  static void count(void* calls) { static_cast<Calls*>(calls)->add(); }

  void add();
  int number() const;
  bool come() const;  // waits for the first, for kPatience at most

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  int number_ = 0;
};

// Checks that the call came, and does not come again. If it never comes, the case ends.
void expect_one_call(DriverCase& t, std::string_view what, const Calls& calls);

}  // namespace mydev::conform
