// Launching a kernel by what its records say of themselves: limits, plans, who runs them; with the host driver in its
// ways, and with a driver that has records of its own for seven built-in kernels (tests/drivers/kernels).
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "error_fixture.h"
#include "kernels/launch/kernel_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/registry/launchable.h"
#include "runtime/frame/frame.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

constexpr std::array<int64_t, 2> kSizes = {2, 3}, kDense = {3, 1}, kTransposed = {1, 2};

mydev_buffer floats(const std::array<int64_t, 2>& strides = kDense) {
  static std::array<float, 6> memory;
  return {memory.data(), kSizes.data(), strides.data(), 2, MYDEV_F32, 0};
}

std::string launched(const char* name, std::vector<mydev_buffer> buffers) {
  mydev_frame frame = make_frame(buffers, 1);
  const Launchable* kernel = resolve_kernel(device(0), name);
  if (kernel == nullptr) return "none";
  try {
    launch_kernel(*kernel, frame, default_stream(0));
    default_stream(0).synchronize();
    return "ran";
  } catch (const KernelDeclined& declined) {
    return declined.what();
  }
}

// --- limits ----------------------------------------------------------------------------------------------------------

mydev_code succeed(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}

mydev_kernel record(const char* name, mydev_kernel_fn entry = succeed) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  kernel.entry = entry;
  return kernel;
}

class KernelLaunch : public testing::Test {
 protected:
  void SetUp() override {
    if (!device(0).host_accessible()) GTEST_SKIP() << "needs memory that the host reaches";
  }
};

std::string with_limits(const char* name, const mydev_limits& limits, mydev_buffer operand) {
  mydev_kernel kernel = record(name);
  kernel.limits = &limits;
  register_kernel(kernel);
  const std::string result = launched(name, {floats(), operand});
  unregister_kernel(name);
  return result;
}

TEST_F(KernelLaunch, LimitsOfDtypesDecline) {
  const mydev_limits limits = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F32), -1, 0};
  mydev_buffer integers = floats();
  integers.dtype = MYDEV_S64;
  EXPECT_EQ(with_limits("test.f32", limits, floats()), "ran");
  EXPECT_EQ(with_limits("test.f32", limits, integers), "test.f32: this process takes f32, and operand 0 is s64");
}

TEST_F(KernelLaunch, LimitsOfLayoutDecline) {
  const mydev_limits limits = {sizeof(mydev_limits), 0, -1, MYDEV_LIMIT_DENSE};
  EXPECT_EQ(with_limits("test.dense", limits, floats()), "ran");
  EXPECT_EQ(with_limits("test.dense", limits, floats(kTransposed)),
            "test.dense: this process takes dense operands, and operand 0 is strided");
}

TEST_F(KernelLaunch, LimitsOfRankDecline) {
  const mydev_limits limits = {sizeof(mydev_limits), 0, 1, 0};
  EXPECT_EQ(with_limits("test.rank", limits, floats()),
            "test.rank: this process takes up to 1 dimensions, and result 0 has 2");
}

TEST_F(KernelLaunch, LimitsDeclineNumbers) {
  static const mydev_scalar number{.f = 1.5};
  const mydev_limits limits = {sizeof(mydev_limits), 0, -1, MYDEV_LIMIT_NO_SCALARS};
  mydev_buffer scalar = floats();
  scalar.data = const_cast<mydev_scalar*>(&number);
  scalar.flags = MYDEV_BUFFER_SCALAR;
  EXPECT_EQ(with_limits("test.no_scalars", limits, scalar),
            "test.no_scalars: this process takes no numbers, and operand 0 is one");
}

TEST_F(KernelLaunch, LimitsLetAbsentOperandsPass) {
  const mydev_limits limits = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F32), -1, MYDEV_LIMIT_DENSE};
  EXPECT_EQ(with_limits("test.absent", limits, {nullptr, nullptr, nullptr, 0, MYDEV_DTYPE_INVALID, 0}), "ran");
}

TEST_F(KernelLaunch, UnknownLimitsAreRefused) {
  const mydev_limits limits = {sizeof(mydev_limits), 0, -1, 1U << 20};
  const Error error = error_of([&] { with_limits("test.unknown_limits", limits, floats()); });
  expect_error(error, MYDEV_INVALID_ARGUMENT, "unknown limits 1048576");
  unregister_kernel("test.unknown_limits");
}

// --- plans -----------------------------------------------------------------------------------------------------------

int decisions_left = 0;
std::atomic<int> decision_seen{0};

mydev_code plan_five(const mydev_frame* /*frame*/, mydev_plan* out) {
  ++decisions_left;
  out->scratch_bytes = 100;
  out->decision = new int(5);
  out->release = [](void* decision) {
    delete static_cast<int*>(decision);
    --decisions_left;
  };
  return MYDEV_OK;
}
mydev_code see_decision(const mydev_frame* frame) {
  decision_seen = *static_cast<int*>(frame->decision) + static_cast<int>(frame->scratch_bytes);
  return frame->scratch != nullptr ? MYDEV_OK : MYDEV_INTERNAL;
}
mydev_code fail_after_plan(const mydev_frame* frame) {
  frame->host->set_error(frame, "after all");
  return MYDEV_UNIMPLEMENTED;
}

std::string with_plan(mydev_kernel kernel, decltype(mydev_kernel::plan) plan) {
  kernel.plan = plan;
  register_kernel(kernel);
  struct Unregister {
    const char* name;
    ~Unregister() { unregister_kernel(name); }
  } const unregister{kernel.name};
  return launched(kernel.name, {floats(), floats()});
}

TEST_F(KernelLaunch, APlanGivesScratchAndADecisionThatIsReleased) {
  EXPECT_EQ(with_plan(record("test.plan", see_decision), plan_five), "ran");
  EXPECT_EQ(decision_seen, 105);
  EXPECT_EQ(decisions_left, 0);
}

TEST_F(KernelLaunch, APlanDeclinesWithItsReason) {
  const auto decline = [](const mydev_frame* frame, mydev_plan*) {
    frame->host->set_error(frame, "wants more elements");
    return MYDEV_UNIMPLEMENTED;
  };
  EXPECT_EQ(with_plan(record("test.declines"), decline), "test.declines: this process wants more elements");
}

TEST_F(KernelLaunch, APlanThatFailsIsAnError) {
  const auto fail = [](const mydev_frame*, mydev_plan*) { return MYDEV_DATA_LOSS; };
  expect_error(error_of([&] { with_plan(record("test.plan_fails"), fail); }), MYDEV_DATA_LOSS,
               "no plan for test.plan_fails(out f32[2,3], f32[2,3])");
}

TEST_F(KernelLaunch, APlanThatThrowsIsAnError) {
  const auto fail = [](const mydev_frame*, mydev_plan*) -> mydev_code { throw std::runtime_error("boom"); };
  expect_error(error_of([&] { with_plan(record("test.plan_throws"), fail); }), MYDEV_INTERNAL, "its plan threw: boom");
}

TEST_F(KernelLaunch, ARefusalAfterThePlanIsAnError) {
  const Error error = error_of([] { with_plan(record("test.late", fail_after_plan), plan_five); });
  expect_error(error, MYDEV_UNIMPLEMENTED, "after all");
  EXPECT_EQ(decisions_left, 0);
}

// --- who runs a record -----------------------------------------------------------------------------------------------

std::atomic<std::thread::id> ran_on;

mydev_code note_thread(const mydev_frame* /*frame*/) {
  ran_on = std::this_thread::get_id();
  return MYDEV_OK;
}

TEST_F(KernelLaunch, TheRuntimeCallsWhatEnqueues) {
  mydev_kernel kernel = record("test.enqueues", note_thread);
  kernel.platform = "mydev";
  kernel.runs = MYDEV_RUNS_HOST_ENQUEUE;
  register_kernel(kernel);
  EXPECT_EQ(launched("test.enqueues", {floats(), floats()}), "ran");
  EXPECT_EQ(ran_on.load(), std::this_thread::get_id());
}

TEST_F(KernelLaunch, WhatAnotherPlatformEnqueuesIsNotForThisDevice) {
  mydev_kernel kernel = record("test.other_platform");
  kernel.platform = "CUDA";
  kernel.runs = MYDEV_RUNS_HOST_ENQUEUE;
  register_kernel(kernel);
  EXPECT_EQ(launched("test.other_platform", {floats(), floats()}), "none");
}

TEST_F(KernelLaunch, ARecordWithoutQuestionsIsLaunchedAtOnce) {
  register_kernel(record("test.plain"));
  const Launchable* resolved = resolve_kernel(device(0), "test.plain");
  EXPECT_EQ(resolved->plain, find_kernel("test.plain"));
  EXPECT_EQ(resolved->at_once, find_kernel("test.plain"));
}

TEST_F(KernelLaunch, ARecordThatNeedsScratchIsNotLaunchedAtOnce) {
  mydev_kernel kernel = record("test.scratch_only");
  kernel.scratch_bytes = [](const mydev_frame*) -> uint64_t { return 64; };
  register_kernel(kernel);
  const Launchable* resolved = resolve_kernel(device(0), "test.scratch_only");
  EXPECT_EQ(resolved->plain, find_kernel("test.scratch_only"));
  EXPECT_EQ(resolved->at_once, nullptr);
}

TEST_F(KernelLaunch, TheSameRecordsAreTheSameLaunchable) {
  mydev_kernel kernel = record("test.kept");
  kernel.plan = plan_five;
  register_kernel(kernel);
  const Launchable* resolved = resolve_kernel(device(0), "test.kept");
  EXPECT_EQ(resolved->plain, nullptr);
  EXPECT_EQ(resolve_kernel(device(0), "test.kept"), resolved);
}

// --- a driver with records of its own --------------------------------------------------------------------------------

class DriverKernels : public testing::Test {
 protected:
  void SetUp() override {
    const auto find = device(0).driver->find_kernel;
    const mydev_kernel* own = find == nullptr ? nullptr : find(0, "mydev.add");
    if (own == nullptr || own->limits == nullptr) {
      GTEST_SKIP() << "needs the kernel mydev.add of partial_driver.so";
    }
    block_ = allocate(default_stream(0), 64);
  }
  void TearDown() override {
    if (block_ != nullptr) release(*block_);
  }
  mydev_buffer buffer(int16_t dtype, const std::array<int64_t, 2>& strides = kDense) const {
    return {block_->data, kSizes.data(), strides.data(), 2, dtype, 0};
  }
  Block* block_ = nullptr;
};

TEST_F(DriverKernels, RunWhereTheyTakeTheOperands) {
  EXPECT_EQ(launched("mydev.relu", {buffer(MYDEV_F32), buffer(MYDEV_F32)}), "ran");
}

TEST_F(DriverKernels, DeclineOtherOperandsAndNoOneElseIsThere) {
  EXPECT_EQ(launched("mydev.relu", {buffer(MYDEV_F64), buffer(MYDEV_F64)}),
            "mydev.relu: driver 'discrete' takes f32, and result 0 is f64");
  EXPECT_EQ(launched("mydev.relu", {buffer(MYDEV_F32), buffer(MYDEV_F32, kTransposed)}),
            "mydev.relu: driver 'discrete' takes dense operands, and operand 0 is strided");
}

TEST_F(DriverKernels, OfVersionOneTakeNoNumbersAndDeclineAtTheLaunch) {
  static const mydev_scalar number{.f = 1.5};
  static mydev_kernel old = [] {
    mydev_kernel kernel = *device(0).driver->find_kernel(0, "mydev.add");
    kernel.struct_size = offsetof(mydev_kernel, runs);  // as 1.0 wrote it
    return kernel;
  }();
  const Launchable* kernel = find_launchable(device(0), "mydev.add", {.own = &old});
  EXPECT_TRUE(kernel->candidates.front().may_decline);
  mydev_buffer scalar = buffer(MYDEV_F32);
  scalar.data = const_cast<mydev_scalar*>(&number);
  scalar.flags = MYDEV_BUFFER_SCALAR;
  const std::vector<mydev_buffer> buffers = {buffer(MYDEV_F32), buffer(MYDEV_F32), scalar};
  EXPECT_EQ(declared_refusal(kernel->candidates.front(), make_frame(buffers, 1)),
            "takes no numbers, and operand 1 is one");
}

TEST_F(DriverKernels, WithoutDtypesInTheirLimitsTakeTheUsualOnes) {
  static mydev_kernel product = *device(0).driver->find_kernel(0, "mydev.matmul");
  product.limits = nullptr;
  const Launchable* kernel = find_launchable(device(0), "mydev.matmul", {.own = &product});
  const std::vector<mydev_buffer> wide = {buffer(MYDEV_F64), buffer(MYDEV_F64), buffer(MYDEV_F64)};
  EXPECT_EQ(declared_refusal(kernel->candidates.front(), make_frame(wide, 1)),
            "takes f16 f32 bf16, and result 0 is f64");
  const std::vector<mydev_buffer> usual = {buffer(MYDEV_F32), buffer(MYDEV_F32), buffer(MYDEV_F32)};
  EXPECT_EQ(declared_refusal(kernel->candidates.front(), make_frame(usual, 1)), "");
}

// The driver's record of a name of which it has none, with limits of single operands.
struct LimitedRecord {
  LimitedRecord(const char* name, std::vector<mydev_operand_limits> own) : operands(std::move(own)) {
    for (const mydev_operand_limits& each : operands) list.push_back(&each);
    limits = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F16), 2, MYDEV_LIMIT_DENSE, list.data(), list.size()};
    kernel = {.struct_size = sizeof(mydev_kernel), .name = name, .runs = MYDEV_RUNS_DRIVER, .limits = &limits};
  }
  std::vector<mydev_operand_limits> operands;
  std::vector<const mydev_operand_limits*> list;
  mydev_limits limits;
  mydev_kernel kernel;
};

constexpr mydev_operand_limits limits_of(const char* name, uint64_t dtypes, int32_t rank_max = -1, uint32_t flags = 0) {
  return {sizeof(mydev_operand_limits), name, dtypes, rank_max, flags};
}

TEST_F(DriverKernels, AreAskedForDtypesBehindTheBarIfTheyNameThem) {
  constexpr uint64_t kUsual = MYDEV_DTYPE_BIT(MYDEV_F16) | MYDEV_DTYPE_BIT(MYDEV_BF16) | MYDEV_DTYPE_BIT(MYDEV_F32);
  static constexpr mydev_limits kWide = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F64), -1, 0};
  for (const char* name : {"mydev.matmul", "mydev.convolution", "mydev.convolution_backward_data"}) {
    // Launchables are kept, and so are their records.
    const auto kernel_of = [&](const mydev_limits* limits) {
      const auto* record = new mydev_kernel{
          .struct_size = sizeof(mydev_kernel), .name = name, .runs = MYDEV_RUNS_DRIVER, .limits = limits};
      return find_launchable(device(0), name, {.own = record});
    };
    EXPECT_EQ(kernel_of(nullptr)->dtypes, kUsual);
    EXPECT_EQ(kernel_of(&kWide)->dtypes, kUsual | MYDEV_DTYPE_BIT(MYDEV_F64));
    EXPECT_EQ(kernel_of(nullptr)->dtypes_in_graphs, contract_dtypes(name, 'T'));
  }
}

TEST_F(DriverKernels, HaveLimitsOfSingleOperands) {
  static const LimitedRecord gather("mydev.gather", {limits_of("index", MYDEV_DTYPE_BIT(MYDEV_S64), 1)});
  const Launchable* kernel = find_launchable(device(0), "mydev.gather", {.own = &gather.kernel});
  EXPECT_EQ(kernel->plain, nullptr);
  const auto refusal = [&](mydev_buffer out, mydev_buffer x, mydev_buffer index) {
    const std::vector<mydev_buffer> buffers = {out, x, index};
    return declared_refusal(kernel->candidates.front(), make_frame(buffers, 1));
  };
  const mydev_buffer half = buffer(MYDEV_F16), wide = buffer(MYDEV_S64);
  mydev_buffer row = wide;
  row.rank = 1;
  row.strides = kDense.data() + 1;
  EXPECT_EQ(refusal(half, half, row), "");
  EXPECT_EQ(refusal(half, wide, row), "takes f16 as 'in', and operand 0 is s64");
  EXPECT_EQ(refusal(half, half, half), "takes up to 1 dimensions as 'index', and operand 1 has 2");
  row.dtype = MYDEV_F16;
  EXPECT_EQ(refusal(half, half, row), "takes s64 as 'index', and operand 1 is f16");
}

TEST_F(DriverKernels, HaveLimitsOfLists) {
  static const LimitedRecord joined("mydev.concatenate", {limits_of("in", MYDEV_DTYPE_BIT(MYDEV_F32))});
  const Launchable* kernel = find_launchable(device(0), "mydev.concatenate", {.own = &joined.kernel});
  const mydev_buffer half = buffer(MYDEV_F16), single = buffer(MYDEV_F32);
  const std::vector<mydev_buffer> good = {half, single, single}, bad = {half, single, half};
  EXPECT_EQ(declared_refusal(kernel->candidates.front(), make_frame(good, 1)), "");
  EXPECT_EQ(declared_refusal(kernel->candidates.front(), make_frame(bad, 1)),
            "takes f32 as 'in', and operand 1 is f16");
}

TEST_F(DriverKernels, WithLimitsThatTheContractDoesNotHaveAreRefused) {
  const auto refuse = [](const mydev_operand_limits& own, const char* message) {
    const LimitedRecord record("mydev.gather", {own});
    expect_error(error_of([&] { find_launchable(device(0), "mydev.gather", {.own = &record.kernel}); }),
                 MYDEV_INVALID_ARGUMENT, message);
  };
  refuse(limits_of("indices", 0), "'mydev.gather' of driver 'discrete': its limits name the operand 'indices'");
  refuse(limits_of("index", MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_S64)), "it takes f32 as 'index', which");
  refuse(limits_of("index", 0, -2), "its limits have rank_max -2");
  refuse(limits_of("index", 0, -1, 64), "unknown limits 64");
  const LimitedRecord nameless("test.nameless", {limits_of("x", 0)});
  expect_error(error_of([&] { find_launchable(device(0), "test.nameless", {.own = &nameless.kernel}); }),
               MYDEV_INVALID_ARGUMENT, "neither a contract nor a signature");
}

TEST_F(DriverKernels, WithLimitsOfVersionOneHaveNoneOfOperands) {
  static LimitedRecord old("mydev.gather", {limits_of("index", MYDEV_DTYPE_BIT(MYDEV_S64))});
  old.limits.struct_size = offsetof(mydev_limits, operands);  // as 1.1 wrote it
  const Launchable* kernel = find_launchable(device(0), "mydev.gather", {.own = &old.kernel});
  EXPECT_TRUE(kernel->candidates.front().operand_limits.empty());
}

TEST_F(DriverKernels, AreListed) {
  const std::vector<const mydev_kernel*> listed = drivers_kernels(device(0));
  ASSERT_EQ(listed.size(), 9U);
  EXPECT_STREQ(listed.front()->name, "conformance.fail");
  EXPECT_STREQ(listed[2]->name, "mydev.add");
}

TEST_F(DriverKernels, ThatContradictThemselvesAreRefusedWithTheDriversName) {
  mydev_kernel odd = *device(0).driver->find_kernel(0, "mydev.add");
  odd.runs = 77;
  expect_error(error_of([&] { find_launchable(device(0), "mydev.add", {.own = &odd}); }), MYDEV_INVALID_ARGUMENT,
               "kernel 'mydev.add' of driver 'discrete': unknown `runs` 77");
  odd.name = "mydev.sub";
  expect_error(error_of([&] { find_launchable(device(0), "mydev.add", {.own = &odd}); }), MYDEV_INVALID_ARGUMENT,
               "calls itself 'mydev.sub'");
}

// --- host records on memory that the host does not reach
// --------------------------------------------------------------

constexpr std::array<int64_t, 1> kThree = {3}, kOne = {1}, kTwo = {2};

// Device memory, and what a stream finds there.
class StagedLaunch : public testing::Test {
 protected:
  void SetUp() override {
    if (device(0).host_accessible()) GTEST_SKIP() << "needs memory that the host does not reach";
    memory_ = allocate(default_stream(0), sizeof(values_));
    copy(memory_->data, values_.data(), MYDEV_COPY_HOST_TO_DEVICE);
  }
  void TearDown() override {
    if (memory_ != nullptr) release(*memory_);
  }
  void copy(void* to, const void* from, mydev_copy_kind kind) {
    check_driver(device(0), device(0).driver->copy(default_stream(0).handle(), to, from, sizeof(values_), kind),
                 "copying");
    default_stream(0).synchronize();
  }
  mydev_buffer at(size_t first, const std::array<int64_t, 1>& strides) {
    return {static_cast<float*>(memory_->data) + first, kThree.data(), strides.data(), 1, MYDEV_F32, 0};
  }
  std::array<float, 6> contents() {
    std::array<float, 6> found{};
    copy(found.data(), memory_->data, MYDEV_COPY_DEVICE_TO_HOST);
    return found;
  }

  std::array<float, 6> values_ = {1, 2, 3, 4, 5, 6};
  Block* memory_ = nullptr;
};

// out = 10 * in, by scratch.
mydev_code ten_times(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  auto* scratch = static_cast<float*>(frame->scratch);
  for (int64_t i = 0; i < 3; ++i) scratch[i] = 10 * static_cast<const float*>(in.data)[i * in.strides[0]];
  for (int64_t i = 0; i < 3; ++i) static_cast<float*>(out.data)[i * out.strides[0]] = scratch[i];
  return MYDEV_OK;
}

uint64_t three_floats(const mydev_frame* /*frame*/) {
  return 3 * sizeof(float);
}

TEST_F(StagedLaunch, WritesResultsBackAndNothingElse) {
  mydev_kernel kernel = record("test.ten_times", ten_times);
  kernel.scratch_bytes = three_floats;
  register_kernel(kernel);
  EXPECT_EQ(launched("test.ten_times", {at(1, kTwo), at(0, kTwo)}), "ran");  // they alternate
  EXPECT_EQ(contents(), (std::array<float, 6>{1, 10, 3, 30, 5, 50}));
  EXPECT_EQ(launched("test.ten_times", {at(1, kOne), at(0, kOne)}), "ran");  // they overlap
  EXPECT_EQ(contents(), (std::array<float, 6>{1, 10, 100, 30, 5, 50}));
  unregister_kernel("test.ten_times");
}

TEST_F(StagedLaunch, WhatTheRecordThrowsIsItsError) {
  register_kernel(
      record("test.throws", [](const mydev_frame*) -> mydev_code { throw std::runtime_error("it broke"); }));
  expect_error(error_of([&] { launched("test.throws", {at(0, kOne), at(3, kOne)}); }), MYDEV_INTERNAL,
               "the kernel threw: it broke");
  unregister_kernel("test.throws");
  EXPECT_EQ(contents(), values_);
}

TEST_F(StagedLaunch, DeclinesByItsLimits) {
  const mydev_limits limits = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_S64), -1, 0};
  mydev_kernel kernel = record("test.staged_limits");
  kernel.limits = &limits;
  register_kernel(kernel);
  EXPECT_EQ(launched("test.staged_limits", {at(0, kOne), at(3, kOne)}),
            "test.staged_limits: this process takes s64, and result 0 is f32");
  unregister_kernel("test.staged_limits");
}

}  // namespace
}  // namespace mydev
