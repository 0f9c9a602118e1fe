// mydev_conform: runs the conformance suites, for `mydev conform`, which gives each case a process of its own, and for
// ctest, which runs all cases of a suite in one.
//
//   mydev_conform SUITE               all cases
//   mydev_conform SUITE --case NAME   one
//   mydev_conform SUITE [--case NAME] --share I/N   suites of kernels: the I-th of N shares of each
//   mydev_conform SUITE ... --device NAME   with that name for the device in messages
//   mydev_conform SUITE --list        their names and promises, without loading a driver
//   mydev_conform --contracts         no case: the contracts of the built-in kernels as JSON
//
// The driver is that of MYDEV_DRIVER. The program prints one JSON object per line: for each case its status (passed,
// failed, skipped), messages and seconds, and for a case with many parts where it is. Exit code: 0 none failed, 1 one
// did, 2 the command line cannot be understood, 77 the one case was skipped. After a failure the process ends at once:
// a driver that breaks a promise may also hang at exit, and that is no news.
#include <array>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "conform/case.h"
#include "kernels/registry/description.h"
#include "runtime/base/device_name.h"
#include "runtime/base/utf8.h"

namespace mydev::conform {
namespace {

enum ExitCode : int { kFine = 0, kFailed = 1, kUsage = 2, kSkipped = 77 };

struct Options {
  const Suite* suite = nullptr;
  bool list = false;
  std::optional<std::string_view> only;
  Share share;
};

const std::array<Suite, 5>& suites() {
  static const std::array all = {driver_suite(), kernel_suite(), portable_kernel_suite(), portable_module_suite(),
                                 host_kernel_suite()};
  return all;
}

const Suite* find_suite(std::string_view name) {
  for (const Suite& suite : suites()) {
    if (suite.name == name) return &suite;
  }
  return nullptr;
}

// "2/6"
std::optional<Share> parse_share(const std::string& text) {
  Share share;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, share.number);
  if (first.ec != std::errc() || first.ptr == end || *first.ptr != '/') return std::nullopt;
  const auto second = std::from_chars(first.ptr + 1, end, share.of);
  const bool makes_sense = second.ec == std::errc() && second.ptr == end && share.number < share.of;
  return makes_sense ? std::optional(share) : std::nullopt;
}

std::optional<Options> parse(std::span<char* const> arguments) {
  if (arguments.empty()) return std::nullopt;
  Options options{.suite = find_suite(arguments[0])};
  std::span<char* const> rest = arguments.subspan(1);
  if (rest.size() == 1 && std::string_view(rest[0]) == "--list") {
    options.list = true;
    rest = {};
  }
  for (; rest.size() >= 2; rest = rest.subspan(2)) {
    if (std::string_view(rest[0]) == "--case") {
      options.only = rest[1];
    } else if (std::string_view(rest[0]) == "--share") {
      const std::optional<Share> share = parse_share(rest[1]);
      if (!share) return std::nullopt;
      options.share = *share;
    } else if (std::string_view(rest[0]) == "--device") {
      if (!set_device_name(rest[1])) return std::nullopt;
    } else {
      return std::nullopt;
    }
  }
  if (!rest.empty()) return std::nullopt;
  return options.suite != nullptr ? std::optional(options) : std::nullopt;
}

int explain_usage() {
  std::cerr
      << "usage: mydev_conform SUITE [--list | --case NAME] [--share I/N] [--device NAME], or --contracts; suites:\n";
  for (const Suite& suite : suites()) std::cerr << "  " << suite.name << "  " << suite.title << '\n';
  return kUsage;
}

// Prints the entries as a JSON object on a line of its own, after the end of any unfinished line, and flushes.
void print_line(Description::Dictionary entries) {
  std::fflush(stdout);
  std::cout << '\n' << as_json({std::move(entries)}) << '\n' << std::flush;
}

Description text(std::string_view value) {
  return {to_utf8(value)};
}
Description texts(std::span<const std::string> values) {
  Description::List list;
  for (const std::string& value : values) list.push_back(text(value));
  return {std::move(list)};
}

int list(const Suite& suite) {
  for (const Group& group : suite.groups) {
    for (const Case& listed : group.cases()) {
      print_line({{"group", text(group.name)},
                  {"name", text(listed.name)},
                  {"promise", text(listed.promise)},
                  {"prerequisite", {listed.prerequisite}}});
    }
  }
  return kFine;
}

void print_place(std::string_view where) {
  print_line({{"at", text(where)}});
}

Outcome run_and_print(const Case& chosen, Follower follower, Share share) {
  Outcome outcome = run_case(chosen, follower, share);
  Description::Dictionary line = {{"name", text(chosen.name)},
                                  {"status", text(status_name(outcome.status))},
                                  {"messages", texts(outcome.messages)},
                                  {"seconds", {outcome.seconds}}};
  for (const auto& [name, number] : outcome.numbers) line.emplace_back(name, Description{number});
  for (const auto& [name, values] : outcome.texts) line.emplace_back(name, texts(values));
  print_line(std::move(line));
  return outcome;
}

// Returns those of a suite's cases that were asked for.
std::vector<Case> chosen_cases(const Options& options) {
  std::vector<Case> chosen;
  for (const Group& group : options.suite->groups) {
    for (Case& candidate : group.cases()) {
      if (!options.only || candidate.name == *options.only) chosen.push_back(std::move(candidate));
    }
  }
  return chosen;
}

int run(const Options& options) {
  const std::vector<Case> chosen = chosen_cases(options);
  if (chosen.empty()) {
    std::cerr << "mydev_conform: suite '" << options.suite->name << "' has no case '" << options.only.value_or("")
              << "'; --list names them\n";
    return kUsage;
  }
  bool failed = false;
  bool skipped = false;
  for (const Case& each : chosen) {
    const Outcome outcome = run_and_print(each, options.only ? &print_place : nullptr, options.share);
    failed |= outcome.status == Status::kFailed;
    skipped = outcome.status == Status::kSkipped;
    if (outcome.status == Status::kFailed && each.prerequisite) break;
  }
  if (failed) std::_Exit(kFailed);
  return options.only && skipped ? kSkipped : kFine;
}

int run_program(std::span<char* const> arguments) {
  if (arguments.size() == 1 && std::string_view(arguments[0]) == "--contracts") {
    std::cout << contracts_as_json();
    return std::cout.flush() ? kFine : kFailed;
  }
  const std::optional<Options> options = parse(arguments);
  if (!options) return explain_usage();
  return options->list ? list(*options->suite) : run(*options);
}

}  // namespace
}  // namespace mydev::conform

int main(int argc, char** argv) {
  return mydev::conform::run_program(std::span(argv, static_cast<size_t>(argc)).subspan(1));
}
