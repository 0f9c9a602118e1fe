// Conformance suites: cases in the order in which one brings a thing up. A case is a promise of a public header and the
// function that tests whether it is kept.
//
// A suite is data: a source file registers it, and main.cpp runs what is registered, by name. Cases are listed without
// loading a driver. A case records every check that fails, in words that say what was expected and what came. It says
// so on stderr at once, lest a crash that follows hide it. It ends early where going on makes no sense, or where the
// thing under test has nothing that the promise is about.
//
// Threads: a case runs on one thread, and starts others with on_threads, which may use its Checks.
#pragma once

#include <concepts>
#include <functional>
#include <mutex>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace mydev::conform {

enum class Status { kPassed, kFailed, kSkipped };
const char* status_name(Status status) noexcept;  // "passed", ...

struct Outcome {
  Status status = Status::kPassed;
  std::vector<std::string> messages;  // of each check that failed; or the reason why it was skipped
  double seconds = 0;
  // Further results of the case, by name.
  std::vector<std::pair<std::string, double>> numbers;
  std::vector<std::pair<std::string, std::vector<std::string>>> texts;
};

// Called before each part of a case of many parts, with the part's name, so that one can say where a process ended.
using Follower = void (*)(std::string_view where);

// Which parts to try of a case of many: each of `of`, from the one of this number on.
struct Share {
  size_t number = 0, of = 1;
};

// The findings of a case so far.
class Checks {
 public:
  explicit Checks(Follower follower = nullptr, Share share = {}) : follower_(follower), share_(share) {}

  // Each returns whether the check held. If it did not, the message is recorded, and the case goes on.
  bool that(bool holds, std::string_view otherwise);
  template <typename Got, typename Expected>
  bool equal(std::string_view what, const Got& got, const Expected& expected) {
    if (same(got, expected)) return true;
    fail(std::string(what) + " is " + text_of(got) + "; expected " + text_of(expected));
    return false;
  }
  void fail(std::string message);
  // Ends the case unless it holds.
  void require(bool holds, std::string_view otherwise);
  [[noreturn]] void end();
  // Ends the case: the thing that the promise is about is not there.
  [[noreturn]] void skip(const std::string& reason);

  // The following are for the case's own thread.
  void at(std::string_view where) const {
    if (follower_ != nullptr) follower_(where);
  }
  // Whether the case is to try its part of this number; for cases that can leave out parts.
  bool wants(size_t part) const { return part % share_.of == share_.number; }
  size_t shares() const { return share_.of; }
  void report(std::string name, double number) { reported_.numbers.emplace_back(std::move(name), number); }
  void report(std::string name, std::vector<std::string> texts) {
    reported_.texts.emplace_back(std::move(name), std::move(texts));
  }

  bool failed() const;
  std::vector<std::string> messages() const;
  const Outcome& reported() const { return reported_; }

 private:
  template <typename Got, typename Expected>
  static bool same(const Got& got, const Expected& expected) {
    if constexpr (std::is_convertible_v<Got, std::string_view>) {
      return std::string_view(got) == std::string_view(expected);
    } else {
      return got == expected;
    }
  }
  template <typename Value>
  static std::string text_of(const Value& value) {
    std::ostringstream out;
    if constexpr (std::is_same_v<Value, bool>) {
      out << (value ? "true" : "false");
    } else if constexpr (std::is_convertible_v<Value, std::string_view>) {
      out << '\'' << std::string_view(value) << '\'';
    } else if constexpr (std::is_enum_v<Value>) {
      out << static_cast<std::underlying_type_t<Value>>(value);
    } else if constexpr (std::integral<Value> && sizeof(Value) == 1) {
      out << static_cast<int>(value);
    } else {
      out << value;
    }
    return out.str();
  }

  Follower follower_;
  Share share_;
  Outcome reported_;
  mutable std::mutex mutex_;
  std::vector<std::string> messages_;
};

struct Case {
  std::string name;     // unique in its suite: a word per idea, joined by _
  std::string promise;  // what holds, in one line
  std::function<void(Checks&)> run;
  bool prerequisite = false;  // nothing that follows can hold without it: where it fails the suite ends
};

struct Group {
  std::string name;
  std::vector<Case> (*cases)();
};

struct Suite {
  std::string name;
  std::string title;          // what it is for, in one line
  std::vector<Group> groups;  // in bring-up order
};

// The suites, each made in the file suite.cpp of its folder.
Suite driver_suite();
Suite kernel_suite();
Suite portable_kernel_suite();
Suite portable_module_suite();
Suite host_kernel_suite();

// Runs work(0), work(1), … on threads of their own. An exception that ends the work of one ends the case, once all are
// done.
void on_threads(int count, const std::function<void(int)>& work);

// Runs a case on this thread. An exception that it throws is a failure.
Outcome run_case(const Case& chosen, Follower follower = nullptr, Share share = {});

}  // namespace mydev::conform
