// The kernel registry: names, look-up, duplicates, and the choice of the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/builtin_kernels.h"
#include "kernels/instruction_set.h"
#include "kernels/kernel_registry.h"
#include "kernels/parallel.h"
#include "runtime/status.h"

namespace mydev {
namespace {

mydev_code succeed(const mydev_frame*) {
  return MYDEV_OK;
}

mydev_code code_of(const mydev_kernel& kernel) {
  try {
    register_kernel(kernel);
  } catch (const Error& error) {
    return error.code();
  }
  return MYDEV_OK;
}

constexpr mydev_kernel record(const char* name) {
  return {sizeof(mydev_kernel), name, succeed, nullptr, nullptr, nullptr};
}

TEST(Registry, FindsBuiltInKernelsByName) {
  const mydev_kernel* kernel = find_kernel("mydev.add");
  ASSERT_NE(kernel, nullptr);
  EXPECT_STREQ(kernel->name, "mydev.add");
}

TEST(Registry, HasNothingForAnUnknownName) {
  EXPECT_EQ(find_kernel("mydev.no_such_kernel"), nullptr);
}

TEST(Registry, FindsARegisteredKernel) {
  static constexpr mydev_kernel kMine = record("test.mine");
  register_kernel(kMine);
  EXPECT_EQ(find_kernel("test.mine"), &kMine);
}

TEST(Registry, RefusesASecondRecordOfTheSameName) {
  static constexpr mydev_kernel kFirst = record("test.twice"), kSecond = record("test.twice");
  register_kernel(kFirst);
  EXPECT_EQ(code_of(kSecond), MYDEV_ALREADY_EXISTS);
  EXPECT_EQ(find_kernel("test.twice"), &kFirst);
}

TEST(Registry, TakesTheSameRecordAgain) {
  static constexpr mydev_kernel kAgain = record("test.again");
  register_kernel(kAgain);
  EXPECT_EQ(code_of(kAgain), MYDEV_OK);
}

class BadNames : public testing::TestWithParam<std::string> {};

TEST_P(BadNames, AreRefused) {
  const mydev_kernel kernel = record(GetParam().c_str());
  EXPECT_EQ(code_of(kernel), MYDEV_INVALID_ARGUMENT);
}

INSTANTIATE_TEST_SUITE_P(Registry, BadNames,
                         testing::Values("", "with space", "slash/", "ümlaut", std::string(129, 'x')));

TEST(Registry, ListsKernelsByName) {
  const std::vector<const mydev_kernel*> kernels = all_kernels();
  EXPECT_TRUE(std::is_sorted(kernels.begin(), kernels.end(),
                             [](const auto* a, const auto* b) { return std::string_view(a->name) < b->name; }));
}

TEST(InstructionSets, BaselineIsAlwaysThere) {
  EXPECT_EQ(supported_instruction_sets().front(), InstructionSet::kBaseline);
}

class EachInstructionSet : public testing::TestWithParam<InstructionSet> {};

TEST_P(EachInstructionSet, HasTheSameKernels) {
  const auto names = [](InstructionSet isa) {
    std::vector<std::string> result;
    for (const mydev_kernel* kernel : kernels::builtin_kernels(isa)) result.emplace_back(kernel->name);
    return result;
  };
  EXPECT_EQ(names(GetParam()), names(InstructionSet::kBaseline));
}

TEST_P(EachInstructionSet, DocumentsEachKernel) {
  for (const mydev_kernel* kernel : kernels::builtin_kernels(GetParam())) {
    EXPECT_NE(kernel->doc, nullptr) << kernel->name;
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, EachInstructionSet, testing::ValuesIn([] {
                           const auto supported = supported_instruction_sets();
                           return std::vector<InstructionSet>(supported.begin(), supported.end());
                         }()),
                         [](const auto& info) { return instruction_set_name(info.param); });

class ParallelFor : public testing::TestWithParam<int64_t> {};

TEST_P(ParallelFor, VisitsEachIndexOnce) {
  std::vector<std::atomic<int>> visits(static_cast<size_t>(GetParam()));
  parallel_for(GetParam(), 10, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) visits[static_cast<size_t>(i)].fetch_add(1, std::memory_order_relaxed);
  });
  EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](const auto& count) { return count.load() == 1; }));
}

INSTANTIATE_TEST_SUITE_P(Parallel, ParallelFor, testing::Values(0, 1, 10, 11, 20, 1000, 12345));

TEST(Parallel, DoesNotForkInsideItself) {
  std::atomic<bool> forked = false;
  parallel_for(1000, 1, [&](int64_t, int64_t) {
    if (parallel_threads() > 1) forked = true;
  });
  EXPECT_TRUE(parallel_threads() == 1 || !forked);
}

}  // namespace
}  // namespace mydev
