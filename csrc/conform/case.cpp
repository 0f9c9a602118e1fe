#include "conform/case.h"

#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>
#include <utility>

namespace mydev::conform {

namespace {

// Thrown through a case to its runner.
class Ended final : public std::exception {};
class Skipped final : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace

const char* status_name(Status status) noexcept {
  switch (status) {
    case Status::kPassed:
      return "passed";
    case Status::kFailed:
      return "failed";
    case Status::kSkipped:
      return "skipped";
  }
  return "unknown";
}

bool Checks::that(bool holds, std::string_view otherwise) {
  if (!holds) fail(std::string(otherwise));
  return holds;
}

void Checks::fail(std::string message) {
  const std::lock_guard lock(mutex_);
  std::fprintf(stderr, "%s\n", message.c_str());
  messages_.push_back(std::move(message));
}

void Checks::require(bool holds, std::string_view otherwise) {
  if (!that(holds, otherwise)) end();
}

void Checks::end() {
  throw Ended();
}

void Checks::skip(const std::string& reason) {
  throw Skipped(reason);
}

bool Checks::failed() const {
  const std::lock_guard lock(mutex_);
  return !messages_.empty();
}

std::vector<std::string> Checks::messages() const {
  const std::lock_guard lock(mutex_);
  return messages_;
}

void on_threads(int count, const std::function<void(int)>& work) {
  std::vector<std::exception_ptr> ends(static_cast<size_t>(count));
  {
    std::vector<std::jthread> threads;
    threads.reserve(ends.size());
    for (int number = 0; number < count; ++number) {
      threads.emplace_back([&, number] {
        try {
          work(number);
        } catch (...) {
          ends[static_cast<size_t>(number)] = std::current_exception();
        }
      });
    }
  }
  for (const std::exception_ptr& end : ends) {
    if (end != nullptr) std::rethrow_exception(end);
  }
}

Outcome run_case(const Case& chosen, Follower follower, Share share) {
  const auto begin = std::chrono::steady_clock::now();
  Checks checks(follower, share);
  Outcome outcome;
  try {
    chosen.run(checks);
  } catch (const Ended&) {
    outcome.status = Status::kFailed;  // the check that ended it is recorded
  } catch (const Skipped& skipped) {
    outcome.status = Status::kSkipped;
    outcome.messages.emplace_back(skipped.what());
  } catch (const std::exception& error) {
    checks.fail(error.what());
  } catch (...) {
    checks.fail("it threw something that is no std::exception");
  }
  if (checks.failed()) {
    outcome.status = Status::kFailed;
    outcome.messages = checks.messages();
  }
  outcome.numbers = checks.reported().numbers;
  outcome.texts = checks.reported().texts;
  outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return outcome;
}

}  // namespace mydev::conform
