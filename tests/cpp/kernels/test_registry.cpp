// The kernel registry: names, look-up, duplicates, and the choice of the instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "error_fixture.h"
#include "host_kernels/builtin_kernels.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/registry/registered_kernel.h"
#include "kernels/spec/contract.h"
#include "runtime/base/instruction_set.h"
#include "runtime/base/parallel.h"
#include "runtime/base/status.h"
#include "runtime/command/launch.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

mydev_code succeed(const mydev_frame*) {
  return MYDEV_OK;
}
mydev_code abort_always(const mydev_frame*) {
  return MYDEV_ABORTED;
}

mydev_code code_of(const mydev_kernel& kernel) {
  return error_of([&] { register_kernel(kernel); }).code();
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
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

TEST(Registry, CopiesARegisteredKernel) {
  mydev_kernel mine = record("test.mine");
  register_kernel(mine);
  mine.entry = nullptr;
  ASSERT_NE(find_kernel("test.mine"), nullptr);
  EXPECT_EQ(find_kernel("test.mine")->entry, succeed);
}

TEST(Registry, AFailedLaunchOfAUsersKernelNamesItsLibrary) {
  mydev_kernel failing = record("test.failing");
  failing.entry = abort_always;
  register_kernel(failing, {"/lib/of/kernels.so", "kernels 1.0"});
  mydev_frame frame = make_frame({}, 0);
  const auto run = [&] {
    launch(*find_kernel("test.failing"), frame, default_stream(0));
    default_stream(0).synchronize();
  };
  EXPECT_TRUE(contains(error_of(run).what(), "kernel 'test.failing' of kernels 1.0 (/lib/of/kernels.so)"));
}

TEST(Registry, LeavesBuiltInRecordsWhereTheyAre) {
  const auto builtins = kernels::builtin_kernels(instruction_set());
  EXPECT_EQ(find_kernel(builtins.front()->name), builtins.front());
}

TEST(Registry, TellsRegisteredKernelsFromBuiltInOnes) {
  const mydev_kernel* mine = register_kernel(record("test.among_registered"), {"", "test"});
  const std::vector<const mydev_kernel*> registered = registered_kernels();
  EXPECT_EQ(std::count(registered.begin(), registered.end(), mine), 1);
  EXPECT_EQ(std::count(registered.begin(), registered.end(), find_kernel("mydev.add")), 0);
}

TEST(Registry, KnowsTheNamesOfBuiltInKernelsBeforeTheyAreNeeded) {
  EXPECT_EQ(code_of(record("mydev.copy")), MYDEV_ALREADY_EXISTS);
  EXPECT_EQ(code_of(record("mydev.of_a_user")), MYDEV_OK);
}

TEST(Registry, LoadsBuiltInKernelsOnceForManyThreads) {
  std::vector<const mydev_kernel*> found(8);
  std::vector<std::thread> threads;
  for (auto& place : found) threads.emplace_back([&place] { place = find_kernel("mydev.mul"); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_NE(found.front(), nullptr);
  EXPECT_EQ(std::count(found.begin(), found.end(), found.front()), 8);
}

TEST(Registry, ReadsARecordOfAShorterVersion) {
  mydev_kernel older = record("test.older");
  older.batching = 77;  // beyond what its writer knew
  older.struct_size = offsetof(mydev_kernel, driver_data) + sizeof(void*);
  register_kernel(older);
  EXPECT_EQ(find_kernel("test.older")->batching, MYDEV_BATCHING_NONE);
  EXPECT_EQ(find_kernel("test.older")->struct_size, sizeof(mydev_kernel));
}

TEST(Registry, RefusesARecordTooShortForAnyVersion) {
  mydev_kernel stub = record("test.stub");
  stub.struct_size = 16;
  const Error error = error_of([&] { register_kernel(stub); });
  EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(error.what(), "struct_size 16")) << error.what();
}

TEST(Registry, RefusesAnotherRecordOfTheSameNameAndNamesBothFiles) {
  mydev_kernel first = record("test.twice"), second = record("test.twice");
  second.entry = abort_always;
  register_kernel(first, {"/lib/first.so", "first 1.0"});
  const Error error = error_of([&] { register_kernel(second, {"/lib/second.so", "second 2.0"}); });
  EXPECT_EQ(error.code(), MYDEV_ALREADY_EXISTS);
  EXPECT_TRUE(contains(error.what(), "first 1.0 (/lib/first.so)")) << error.what();
  EXPECT_TRUE(contains(error.what(), "second 2.0 (/lib/second.so)")) << error.what();
  EXPECT_EQ(find_kernel("test.twice")->entry, succeed);
}

TEST(Registry, RefusesTheNameOfABuiltInKernel) {
  const Error error = error_of([] { register_kernel(record("mydev.add")); });
  EXPECT_EQ(error.code(), MYDEV_ALREADY_EXISTS);
  EXPECT_TRUE(contains(error.what(), "built-in")) << error.what();
}

TEST(Registry, TakesTheSameRecordAgain) {
  const mydev_kernel* first = register_kernel(record("test.again"), {"/lib/first.so", "first"});
  EXPECT_EQ(register_kernel(record("test.again"), {"/lib/second.so", "second"}), first);
  EXPECT_EQ(kernel_origin("test.again").file, "/lib/first.so");
}

TEST(Registry, TakesRecordsTogetherOrNotAtAll) {
  const mydev_kernel good = record("test.good"), bad = record("no good");
  const std::vector<const mydev_kernel*> table = {&good, &bad};
  EXPECT_EQ(error_of([&] { register_kernels(table, {"", "test"}); }).code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_EQ(find_kernel("test.good"), nullptr);
}

TEST(Registry, RefusesTwoRecordsOfOneNameTogether) {
  mydev_kernel one = record("test.pair"), other = record("test.pair");
  other.entry = abort_always;
  const std::vector<const mydev_kernel*> table = {&one, &other};
  EXPECT_EQ(error_of([&] { register_kernels(table, {"/lib/pair.so", "pair"}); }).code(), MYDEV_ALREADY_EXISTS);
}

TEST(Registry, ReplacesTheKernelsOfAFile) {
  const mydev_kernel kept = record("test.kept"), gone = record("test.gone");
  mydev_kernel changed = kept;
  changed.entry = abort_always;
  const std::vector<const mydev_kernel*> before = {&kept, &gone}, after = {&changed};
  register_kernels(before, {"/lib/replaced.so", "one"});
  register_kernels(after, {"/lib/replaced.so", "two"}, true);
  EXPECT_EQ(find_kernel("test.kept")->entry, abort_always);
  EXPECT_EQ(find_kernel("test.gone"), nullptr);
  EXPECT_EQ(kernel_origin("test.kept").library, "two");
}

TEST(Registry, TakesAKernelOutWhileItsRecordStays) {
  const mydev_kernel* kernel = register_kernel(record("test.out"), {"", "test"});
  unregister_kernel("test.out");
  EXPECT_EQ(find_kernel("test.out"), nullptr);
  EXPECT_EQ(kernel->entry, succeed);
  EXPECT_EQ(code_of(record("test.out")), MYDEV_OK);
}

TEST(Registry, TakesOutOnlyWhatIsThereAndNotBuiltIn) {
  EXPECT_EQ(error_of([] { unregister_kernel("test.unknown"); }).code(), MYDEV_NOT_FOUND);
  EXPECT_EQ(error_of([] { unregister_kernel("mydev.add"); }).code(), MYDEV_FAILED_PRECONDITION);
}

TEST(Registry, CountsChanges) {
  const uint64_t before = registry_generation();
  register_kernel(record("test.counted"));
  const uint64_t between = registry_generation();
  unregister_kernel("test.counted");
  EXPECT_LT(before, between);
  EXPECT_LT(between, registry_generation());
}

TEST(Registry, DescribesAKernel) {
  const Description described = describe_kernel("mydev.add");
  const auto says = [&](const char* key, Description expected) { return *described.find(key) == expected; };
  EXPECT_TRUE(says("name", {std::string("mydev.add")}));
  EXPECT_TRUE(says("kind", {std::string("frame")}));
  EXPECT_TRUE(says("platform", {std::string("Host")}));
  EXPECT_TRUE(says("library", {std::string("built-in")}));
  EXPECT_TRUE(says("file", {}));
  EXPECT_EQ(error_of([] { describe_kernel("test.unknown"); }).code(), MYDEV_NOT_FOUND);
}

TEST(Registry, ResolvesADevicesKernelOnlyForThatDevice) {
  mydev_kernel ours = record("test.ours"), theirs = record("test.theirs");
  ours.platform = "mydev";
  theirs.platform = "CUDA";
  register_kernel(ours);
  register_kernel(theirs);
  EXPECT_NE(resolve_kernel(device(0), "test.ours"), nullptr);
  EXPECT_EQ(resolve_kernel(device(0), "test.theirs"), nullptr);
}

// A record with one thing wrong.
// Gradients of a kernel of two operands, the second of which is variadic.
constexpr int32_t kParts = 1, kPartsThenX[] = {1, 0};
constexpr mydev_gradient kVariadicFirst = {sizeof(mydev_gradient), "vjp", &kParts, 1, 2, kPartsThenX};
constexpr mydev_gradient kVariadicNotSaved = {sizeof(mydev_gradient), "vjp", nullptr, 0, 1, &kParts};
void give_gradient(mydev_kernel& kernel, const mydev_gradient& gradient) {
  constexpr uint64_t kF32 = MYDEV_DTYPE_BIT(MYDEV_F32);
  static constexpr mydev_operand kOperand = {sizeof(mydev_operand), "x", kF32, -1, -1, 0, -1, 0, nullptr};
  static constexpr mydev_operand kRest = {sizeof(mydev_operand),  "parts", kF32, -1, -1, 0, -1,
                                          MYDEV_OPERAND_VARIADIC, nullptr};
  static constexpr const mydev_operand* kOperands[] = {&kOperand, &kRest};
  static constexpr const mydev_operand* kResults[] = {&kOperand};
  static constexpr mydev_signature kSignature = {.struct_size = sizeof(mydev_signature),
                                                 .operands = kOperands,
                                                 .num_operands = 2,
                                                 .num_results = 1,
                                                 .results = kResults,
                                                 .shapes = "(n),(n)->(n)"};
  kernel.signature = &kSignature;
  kernel.gradient = &gradient;
}

struct BadRecord {
  const char* name;
  void (*spoil)(mydev_kernel& kernel);
  const char* message;
};
void function() {}
class BadRecords : public testing::TestWithParam<BadRecord> {};
INSTANTIATE_TEST_SUITE_P(
    Registry, BadRecords,
    testing::Values(BadRecord{"NoEntry", [](mydev_kernel& k) { k.entry = nullptr; }, "its entry is NULL"},
                    BadRecord{"UnknownKind", [](mydev_kernel& k) { k.kind = 8; }, "unknown kind 8"},
                    BadRecord{"NegativeKind", [](mydev_kernel& k) { k.kind = -1; }, "unknown kind -1"},
                    BadRecord{"FrameWithFunction", [](mydev_kernel& k) { k.execute = function; }, "leave execute NULL"},
                    BadRecord{"FrameWithStage", [](mydev_kernel& k) { k.prepare = function; }, "has no stages"},
                    BadRecord{"LegacyWithEntry",
                              [](mydev_kernel& k) {
                                k.kind = MYDEV_KIND_STATUS_HOST;
                                k.execute = function;
                              },
                              "leave entry NULL"},
                    BadRecord{"LegacyWithoutFunction",
                              [](mydev_kernel& k) {
                                k.kind = MYDEV_KIND_STATUS_HOST;
                                k.entry = nullptr;
                              },
                              "execute, is NULL"},
                    BadRecord{"UnknownTrait", [](mydev_kernel& k) { k.traits = 4; }, "unknown traits 4"},
                    BadRecord{"TupleTrait", [](mydev_kernel& k) { k.traits = MYDEV_TRAIT_TUPLE_RESULT; },
                              "legacy host kinds"},
                    BadRecord{"UnknownBatching", [](mydev_kernel& k) { k.batching = 9; }, "unknown batching 9"},
                    BadRecord{"GradientAlone",
                              [](mydev_kernel& k) {
                                static constexpr int32_t kWrt = 0;
                                static constexpr mydev_gradient kGradient = {
                                    sizeof(mydev_gradient), "vjp", nullptr, 0, 1, &kWrt};
                                k.gradient = &kGradient;
                              },
                              "no signature"},
                    BadRecord{"VariadicFirst", [](mydev_kernel& k) { give_gradient(k, kVariadicFirst); },
                              "is for operand 1, which is variadic; put it last"},
                    BadRecord{"VariadicNotSaved", [](mydev_kernel& k) { give_gradient(k, kVariadicNotSaved); },
                              "is for operand 1, which is variadic; save it too"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(BadRecords, AreRefused) {
  mydev_kernel kernel = record("test.bad");
  GetParam().spoil(kernel);
  const Error error = error_of([&] { register_kernel(kernel); });
  EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_TRUE(contains(error.what(), GetParam().message)) << error.what();
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

using enum InstructionSet;

TEST(InstructionSets, TheBestThatBuildAndProcessorShareIsChosen) {
  const std::vector all = {kBaseline, kAvx2, kAvx512};
  const std::vector older = {kBaseline, kAvx2};
  EXPECT_EQ(choose_instruction_set("auto", all, older), kAvx2);
  EXPECT_EQ(choose_instruction_set("auto", std::vector{kAvx2}, all), kAvx2);
  EXPECT_EQ(choose_instruction_set("baseline", older, all), kBaseline);
  expect_error(error_of([&] { choose_instruction_set("avx512", older, all); }), MYDEV_INVALID_ARGUMENT,
               "MYDEV_ISA='avx512' is not valid with this processor and build; it takes auto|baseline|avx2");
}

TEST(InstructionSets, ABuildForABetterProcessorIsRefused) {
  const std::vector built = {kAvx512};
  const std::vector processor = {kBaseline, kAvx2};
  expect_error(error_of([&] { choose_instruction_set("auto", built, processor); }), MYDEV_FAILED_PRECONDITION,
               "this build's kernels are for avx512; this processor has baseline, avx2 only. Build on this machine");
}

class EachInstructionSet : public testing::TestWithParam<InstructionSet> {};

TEST_P(EachInstructionSet, HasTheSameKernels) {
  const auto names = [](InstructionSet isa) {
    std::vector<std::string> result;
    for (const mydev_kernel* kernel : kernels::builtin_kernels(isa)) result.emplace_back(kernel->name);
    return result;
  };
  EXPECT_EQ(names(GetParam()), names(instruction_set()));
}

TEST_P(EachInstructionSet, HasAContractForEachKernel) {
  for (const mydev_kernel* kernel : kernels::builtin_kernels(GetParam())) {
    const std::string_view name = kernel->name;
    const bool has_form = name == "mydev.fused" || name == "mydev.small_steps";  // program/transform
    EXPECT_EQ(builtin_contract(kernel->name) == nullptr, has_form) << kernel->name;
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
