// For tests of small steps: programs run as they are, and with these steps together.
#pragma once

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program/transform/fusion.h"
#include "program_fixture.h"
#include "runtime/command/command_hooks.h"

namespace mydev::program {

using Values = std::vector<float>;

inline Values some_values(size_t count) {
  Values values(count);
  for (size_t i = 0; i < count; ++i) values[i] = static_cast<float>(i % 7) - 2.5F + 0.01F * static_cast<float>(i);
  return values;
}

inline bool has_kernel() {
  return resolve_kernel(device(0), "mydev.small_steps") != nullptr;
}

inline std::vector<std::string>& launched() {
  static std::vector<std::string> names;
  return names;
}

// Runs the program as it is and with its small steps together, and returns the values of the latter, which are those of
// the former: to the bit, unless a compiler makes one function of them.
inline Values expect_same(const SharedProgram& program, const std::vector<Values>& parameters, size_t count) {
  const SharedProgram gathered = fuse(program);
  EXPECT_NE(gathered, program) << "no steps are gathered";
  const Values expected = run_once(program, parameters, count);
  launched().clear();
  const int id = add_command_hook({.submitted = [](void*, const CommandRecord& record) {
    if (record.kind == CommandKind::kLaunch) launched().emplace_back(record.name);
  }});
  const Values values = run_once(gathered, parameters, count);
  remove_command_hook(id);
  for (size_t i = 0; i < count; ++i) {
    if (fuses_by_compiler() && same_but_for_rounding(values[i], expected[i])) continue;
    EXPECT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(expected[i])) << "element " << i;
  }
  return values;
}

inline void expect_one_launch() {
  if (!has_kernel()) return;
  // A compiler is given no steps that add to parts, or divide whole numbers by others: these are launches.
  if (fuses_by_compiler() && std::ranges::count(launched(), "mydev.small_steps") == 0) return;
  EXPECT_EQ(std::ranges::count(launched(), "mydev.small_steps"), 1) << launched().size() << " launches";
  EXPECT_EQ(launched().size(), 1U);
}

// A program, on some values of as many elements, and how many it gives.
struct SmallCase {
  const char *what, *text;
  std::vector<size_t> parameters;
  size_t count;
  friend void PrintTo(const SmallCase& value, std::ostream* to) { *to << value.what; }
};
// Runs a case as launches and as one.
inline void expect_same(const SmallCase& given) {
  std::vector<Values> parameters;
  for (const size_t count : given.parameters) parameters.push_back(some_values(count));
  expect_same(parsed(given.text), parameters, given.count);
}

// All of them where the system refuses memory that runs, so that steps are interpreted.
inline void expect_same_without_executable_memory(std::span<const SmallCase> cases) {
  constexpr int kSetMdwe = 65, kGetMdwe = 66, kRefuseExecGain = 1;  // of Linux 6.3
  if (prctl(kGetMdwe, 0, 0, 0, 0) < 0) GTEST_SKIP() << "needs Linux 6.3, which can refuse memory that runs";
  const auto run = [&] {
    if (prctl(kSetMdwe, kRefuseExecGain, 0, 0, 0) != 0) return 2;
    for (const SmallCase& each : cases) expect_same(each);
    return testing::Test::HasFailure() ? 1 : 0;
  };
  EXPECT_EXIT(std::exit(run()), testing::ExitedWithCode(0), "");
}

}  // namespace mydev::program
