// Running programs: commands, bindings, constants, what lies in the arena, failures; on the driver's ways.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program/ir/launch_frame.h"
#include "program_fixture.h"
#include "runtime/command/command_hooks.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"

namespace mydev::program {
namespace {

using Values = std::vector<float>;

// --- commands
// ---------------------------------------------------------------------------------------------------------

TEST(ProgramRun, LaunchesKernelsInOrder) {
  const SharedProgram program = parsed(R"(program p(x: f32[2,2], w: f32[2,2]) -> (y: f32[2,2]) {
  temporary t: f32[2,2]
  t = launch mydev.matmul(x, w; alpha=1.0, beta=0.0)
  t = launch mydev.add(t, f32[2,2] -20.0; alpha=1.0)
  y = launch mydev.relu(t)
})");
  EXPECT_EQ(run_once(program, {{1, 2, 3, 4}, {5, 6, 7, 8}}, 4), (Values{0, 2, 23, 30}));
}

TEST(ProgramRun, ComputesOverAnOperandThatDies) {
  // A product that is added to what its result takes the place of.
  const SharedProgram program = parsed(R"(program p(x: f32[1,64], w: f32[64,48]) -> (y: f32[1,48]) {
  temporary a: f32[1,48]
  temporary b: f32[1,48]
  a = fill hex "0000803f"
  b = launch mydev.matmul(x, w, a; alpha=1.0, beta=1.0)
  y = copy b
})");
  EXPECT_EQ(plan_memory(*program, 64).arena_bytes, 192U);
  EXPECT_EQ(run_once(program, {Values(64, 2), Values(64 * 48, 0.5F)}, 48), Values(48, 65));
}

TEST(ProgramRun, CopiesDenseAndStridedViews) {
  const SharedProgram program = parsed(R"(program p(x: f32[2,3]) -> (y: f32[3,4]) {
  y = fill hex "0000803f"
  y f32[3,2]{4,1} = copy x f32[3,2]{1,3}
  y+32 f32[2] = copy x+4 f32[2]
})");
  EXPECT_EQ(run_once(program, {{1, 2, 3, 4, 5, 6}}, 12), (Values{1, 4, 1, 1, 2, 5, 1, 1, 2, 3, 1, 1}));
}

TEST(ProgramRun, GivesKernelsTheAttributesThatAStepLeavesOut) {
  const auto kinds_of = [](const std::string& types, const std::string& kernel) {
    const SharedProgram program =
        parsed("program p(x: " + types + "[4]) -> (y: " + types + "[4]) {\n  y = launch " + kernel + "\n}");
    LaunchFrame made(program->steps()[0]);
    std::vector<int> kinds;
    for (uint32_t i = 0; i < made.frame().num_attributes; ++i) kinds.push_back(made.frame().attributes[i].kind);
    return kinds;
  };
  EXPECT_EQ(kinds_of("f32", "mydev.add(x, x)"), std::vector<int>{MYDEV_ATTRIBUTE_FLOAT});
  EXPECT_EQ(kinds_of("s32", "mydev.add(x, x)"), std::vector<int>{MYDEV_ATTRIBUTE_INT});
  EXPECT_EQ(kinds_of("c64", "mydev.add(x, x)"), std::vector<int>{MYDEV_ATTRIBUTE_COMPLEX});
  EXPECT_EQ(kinds_of("f32", "mydev.copy(x)"), (std::vector<int>{MYDEV_ATTRIBUTE_BOOL, MYDEV_ATTRIBUTE_BOOL}));
  EXPECT_EQ(kinds_of("f32", "mydev.exp(x)"), std::vector<int>{});
}

TEST(ProgramRun, FillsWithPatterns) {
  const SharedProgram program = parsed(R"(program p() -> (y: f32[4]) {
  y f32[2] = fill hex "0000803f00000040"
  y+8 f32[2] = fill hex "00"
})");
  EXPECT_EQ(run_once(program, {}, 4), (Values{1, 2, 0, 0}));
}

TEST(ProgramRun, PassesOverViewsWithoutElements) {
  const SharedProgram program = parsed(R"(program p(x: f32[0], n: f32[4]) -> (y: f32[4]) {
  temporary t: f32[0,5]
  t = launch mydev.exp(x f32[0,5])
  t = fill hex "00"
  t f32[0] = copy x
  y = copy n
})");
  EXPECT_EQ(run_once(program, {{}, {1, 2, 3, 4}}, 4), (Values{1, 2, 3, 4}));
}

TEST(ProgramRun, UploadsConstantsOnce) {
  const SharedProgram program = parsed(R"(program p(x: f32[2]) -> (y: f32[2]) {
  constant c: f32[2] = hex "0000803f00000040"
  constant d: u8[1] = hex "07"
  y = launch mydev.add(x, c; alpha=1.0)
})");
  Executor executor = executor_of(program);
  EXPECT_EQ(executor.constant_bytes(), device(0).properties.alignment + 1);
  const Floats x({1, 1}), y({0, 0});
  for (const float value : {1.F, 5.F}) {
    const Floats given({value, value});
    executor.run(default_stream(0), std::vector{given.binding()}, std::vector{y.binding()});
    EXPECT_EQ(y.read(), (Values{value + 1, value + 2}));
  }
}

// --- bindings
// ---------------------------------------------------------------------------------------------------------

constexpr char kAddTwice[] = R"(program p(x: f32[2], donated sum: f32[2]) -> (y: f32[2], sum) {
  sum = launch mydev.add(sum, x; alpha=1.0)
  y = launch mydev.add(sum, x; alpha=1.0)
})";

TEST(ProgramRun, HasTheConstantsOfTheDevicesPosition) {
  const SharedProgram program = parsed(R"(program body(donated n: s64[]) -> (n) {
  constant c: s64[] = hex "0a00000000000000", hex "1400000000000000"
  n = launch mydev.add(n, c; alpha=1)
}

program p(donated n: s64[]) -> (n) {
  repeat 3 body(n)
}
)");
  const auto sum_on = [&](uint32_t position) {
    const DeviceArray<int64_t> n({1});
    Executor executor(program, default_stream(0), caching_allocator_for(default_stream(0)), Arena::kKept, position);
    executor.run(default_stream(0), std::vector<Binding>{n.binding()});
    return n.read();
  };
  EXPECT_EQ(sum_on(0), std::vector<int64_t>{31});
  EXPECT_EQ(sum_on(1), std::vector<int64_t>{61});
  expect_error(error_of([&] { sum_on(2); }), MYDEV_INVALID_ARGUMENT,
               "constant 'c' has data for 2 devices, and none for device 2");
}

TEST(ProgramRun, UpdatesDonatedParametersInPlace) {
  Executor executor = executor_of(parsed(kAddTwice));
  const Floats x({1, 2}), sum({0, 0}), y({0, 0});
  for (int i = 0; i < 3; ++i) {
    executor.run(default_stream(0), std::vector{x.binding(), sum.binding()}, std::vector{y.binding()});
  }
  EXPECT_EQ(sum.read(), (Values{3, 6}));
  EXPECT_EQ(y.read(), (Values{4, 8}));
}

TEST(ProgramRun, TakesOtherMemoryAtEachRun) {
  Executor executor = executor_of(parsed(kAddTwice));
  const Floats one({1, 2}), two({10, 20}), sum({0, 0}), other_sum({5, 5}), y({0, 0}), other_y({0, 0});
  executor.run(default_stream(0), std::vector{one.binding(), sum.binding()}, std::vector{y.binding()});
  executor.run(default_stream(0), std::vector{two.binding(), other_sum.binding()}, std::vector{other_y.binding()});
  executor.run(default_stream(0), std::vector{one.binding(), sum.binding()}, std::vector{y.binding()});
  EXPECT_EQ(sum.read(), (Values{2, 4}));
  EXPECT_EQ(y.read(), (Values{3, 6}));
  EXPECT_EQ(other_sum.read(), (Values{15, 25}));
  EXPECT_EQ(other_y.read(), (Values{25, 45}));
}

TEST(ProgramRun, RefusesBindingsThatDoNotFit) {
  Executor executor = executor_of(parsed(kAddTwice));
  const Floats x({1, 2}), sum({0, 0}), y({0, 0}), small({0});
  const auto refused = [&](std::vector<Binding> parameters, std::vector<Binding> results) {
    const Error error = error_of([&] { executor.run(default_stream(0), parameters, results); });
    EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
    return std::string(error.what());
  };
  EXPECT_EQ(refused({x.binding()}, {y.binding()}), "program 'p' has 2 parameters, and is given 1");
  EXPECT_EQ(refused({x.binding(), sum.binding()}, {}), "program 'p' has 1 result, and is given 0");
  EXPECT_EQ(refused({x.binding(), small.binding()}, {y.binding()}),
            "program 'p': parameter 'sum' has 8 bytes, and is given 4");
  EXPECT_EQ(refused({x.binding(), sum.binding()}, {{nullptr, 8}}),
            "program 'p': result 'y' has 8 bytes, and is given 8 at NULL");
  executor.run(default_stream(0), std::vector{x.binding(), sum.binding()}, std::vector{y.binding()});
  EXPECT_EQ(y.read(), (Values{2, 4}));
}

TEST(ProgramRun, RefusesUnalignedMemoryThatTemporariesLieIn) {
  Executor executor = executor_of(parsed(R"(program p(donated x: f32[64]) -> (y: f32[64]) {
  temporary t: f32[64]
  temporary u: f32[64]
  t = launch mydev.exp(x)
  u = launch mydev.exp(t)
  y = launch mydev.add(u, f32[64] 1.0; alpha=1.0)
})"));
  const Floats memory(Values(80)), y(Values(64));
  ASSERT_EQ(executor.plan().arena_bytes, 0U) << "they lie in x";
  const Binding unaligned{static_cast<char*>(memory.binding().data) + 4, 256};
  expect_error(error_of([&] { executor.run(default_stream(0), std::vector{unaligned}, std::vector{y.binding()}); }),
               MYDEV_INVALID_ARGUMENT, "program 'p': parameter 'x' lies at");
  executor.run(default_stream(0), std::vector{memory.binding()}, std::vector{y.binding()});
  EXPECT_FLOAT_EQ(y.read()[7], std::exp(1.F) + 1);
}

// --- memory and streams
// -----------------------------------------------------------------------------------------------

TEST(ProgramRun, FindsNothingInItsArenaThatWasThereBefore) {
  Executor executor = executor_of(parsed(R"(program p(x: f32[100,100]) -> (y: f32[100,100]) {
  temporary t: f32[100,100]
  temporary u: f32[100,100]
  t = launch mydev.matmul(x, x f32[100,100]{1,100}; alpha=1.0, beta=0.0)
  u = launch mydev.matmul(t, x; alpha=1.0, beta=0.0)
  y = launch mydev.add(t, u; alpha=1.0)
})"));
  EXPECT_GE(executor.plan().arena_bytes, 2 * 40000U);
  const Floats x(Values(10000, 0.5F)), y(Values(10000));
  for (int i = 0; i < 2; ++i) {
    poison(executor.arena());
    executor.run(default_stream(0), std::vector{x.binding()}, std::vector{y.binding()});
    EXPECT_FLOAT_EQ(y.read()[42], 25 + 1250);
  }
}

TEST(ProgramRun, RunsOnOneStreamAfterAnother) {
  Executor executor = executor_of(parsed(R"(program p(x: f32[100000], donated sum: f32[100000]) -> (sum) {
  temporary t: f32[100000]
  t = launch mydev.exp(x)
  sum = launch mydev.add(sum, t; alpha=1.0)
})"));
  const Floats zeros(Values(100000)), sum(Values(100000));
  for (int i = 0; i < 10; ++i) {
    executor.run(stream_from_pool(0, 0), std::vector{zeros.binding(), sum.binding()});
  }
  synchronize_device(device(0));
  EXPECT_EQ(sum.read()[99999], 10);
}

// Counts how often streams of device 0 are told to wait for an event.
class WaitCounter {
 public:
  WaitCounter() {
    original_ = device(0).driver;
    altered_ = *original_;
    altered_.stream_wait_event = [](mydev_stream stream, mydev_event event) {
      ++waits_;
      return original_->stream_wait_event(stream, event);
    };
    waits_ = 0;
    device(0).driver = &altered_;
  }
  ~WaitCounter() { device(0).driver = original_; }
  WaitCounter(const WaitCounter&) = delete;
  WaitCounter& operator=(const WaitCounter&) = delete;
  int waits() const { return waits_; }

 private:
  static inline const mydev_driver_api* original_ = nullptr;
  static inline int waits_ = 0;
  mydev_driver_api altered_;
};

TEST(ProgramRun, WaitsForTheStreamBeforeItWhereStreamsAreAsynchronous) {
  Executor executor = executor_of(parsed(kAddTwice));
  const Floats x({1, 2}), sum({0, 0}), y({0, 0});
  Stream &one = stream_from_pool(0, 0), &other = stream_from_pool(0, 0);
  const WaitCounter counter;
  for (Stream* stream : {&one, &one, &other, &other}) {
    executor.run(*stream, std::vector{x.binding(), sum.binding()}, std::vector{y.binding()});
  }
  EXPECT_EQ(counter.waits(), device(0).asynchronous() ? 1 : 0);
  synchronize_device(device(0));
}

TEST(ProgramRun, MayBeDestroyedWhileItRuns) {
  const Floats x(Values(100000)), y(Values(100000));
  {
    Executor executor = executor_of(parsed(R"(program p(x: f32[100000]) -> (y: f32[100000]) {
  temporary t: f32[100000]
  t = launch mydev.exp(x)
  y = launch mydev.exp(t)
})"));
    executor.run(default_stream(0), std::vector{x.binding()}, std::vector{y.binding()});
  }
  EXPECT_FLOAT_EQ(y.read()[99999], std::exp(1.F));
}

int64_t allocated_bytes() {
  return allocator_stats(0).allocated_bytes.all.current;
}

TEST(ProgramRun, AllocatesAtTheBeginningAlone) {
  const Floats x({1, 2}), y({0, 0});
  const int64_t before = allocated_bytes();
  uint64_t given = 0;
  {
    Executor executor(parsed(R"(program p(x: f32[2]) -> (y: f32[2]) {
  constant c: f32[2] = hex "0000803f00000040"
  temporary t: f32[2]
  t = launch mydev.add(x, c; alpha=1.0)
  y = copy t
})"),
                      default_stream(0), [&](uint64_t bytes) {
                        given += bytes;
                        return caching_allocator_for(default_stream(0))(bytes);
                      });
    EXPECT_EQ(given, executor.plan().arena_bytes + executor.constant_bytes());
    const int64_t prepared = allocated_bytes();
    EXPECT_GT(prepared, before);
    executor.run(default_stream(0), std::vector{x.binding()}, std::vector{y.binding()});
    EXPECT_EQ(allocated_bytes(), prepared);
  }
  EXPECT_EQ(allocated_bytes(), before);
}

TEST(ProgramRun, LeavesNothingBehindWithoutMemory) {
  const SharedProgram program = parsed(R"(program p(x: f32[2]) -> (y: f32[2]) {
  constant c: f32[2] = hex "0000803f00000040"
  temporary t: f32[2]
  t = launch mydev.add(x, c; alpha=1.0)
  y = copy t
})");
  const int64_t before = allocated_bytes();
  for (int allowed : {0, 1}) {  // the arena's, then that of constants
    const auto allocate_few = [&](uint64_t bytes) {
      if (allowed-- == 0) raise(MYDEV_RESOURCE_EXHAUSTED, "no memory for " + std::to_string(bytes));
      return caching_allocator_for(default_stream(0))(bytes);
    };
    expect_error(error_of([&] { Executor(program, default_stream(0), allocate_few); }), MYDEV_RESOURCE_EXHAUSTED,
                 "no memory for");
    EXPECT_EQ(allocated_bytes(), before);
  }
  EXPECT_EQ(run_once(program, {{1, 1}}, 2), (Values{2, 3}));
}

// --- failures
// ---------------------------------------------------------------------------------------------------------

std::atomic<bool> shall_fail{false};

mydev_code fail_if_asked(const mydev_frame* frame) {
  if (!shall_fail) return MYDEV_OK;
  frame->host->set_error(frame, "out of order");
  return MYDEV_ABORTED;
}

void register_failing() {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "test.failing";
  kernel.entry = fail_if_asked;
  register_kernel(kernel);
}

TEST(ProgramRun, NamesTheStepThatFailsAndRunsAgain) {
  register_failing();
  Executor executor = executor_of(parsed(R"(program body(donated d: f32[2]) -> (d) {
  launch test.failing(d)
}
program p(x: f32[2]) -> (y: f32[2]) {
  y = copy x
  call body(y)
  y = launch mydev.add(y, y; alpha=1.0)
})"));
  const Floats x({1, 2}), y({0, 0});
  const auto run = [&] {
    executor.run(default_stream(0), std::vector{x.binding()}, std::vector{y.binding()});
    default_stream(0).synchronize();
  };
  run();
  shall_fail = true;
  const Error error = error_of(run);
  shall_fail = false;
  expect_error(error, MYDEV_ABORTED, "out of order [ABORTED in test.failing(f32[2]) on device mydev:0]");
  expect_error(error, MYDEV_ABORTED, "step 0 of program 'body' (launch test.failing), called by step 1 of program 'p'");
  run();
  EXPECT_EQ(y.read(), (Values{2, 4}));
}

TEST(ProgramRun, NamesTheStepWhoseKernelDeclines) {
  static const mydev_limits limits{sizeof limits, MYDEV_DTYPE_BIT(MYDEV_S64), -1, 0};
  mydev_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "test.of_integers";
  kernel.entry = fail_if_asked;
  kernel.limits = &limits;
  register_kernel(kernel);
  const SharedProgram program = parsed("program p(x: f32[2]) -> () {\n  launch test.of_integers(x)\n}\n");
  const auto run = [&] {
    const Floats x({1, 2});
    executor_of(program).run(default_stream(0), std::vector{x.binding()});
  };
  expect_error(error_of(run), MYDEV_UNIMPLEMENTED,
               "step 0 of program 'p' (launch test.of_integers): test.of_integers: this process takes s64, and");
}

std::vector<uint64_t> constants_given;

TEST(ProgramRun, TellsKernelsWhichOperandsAreConstants) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "test.with_constants";
  kernel.entry = fail_if_asked;
  kernel.platform = "mydev";  // so that it is asked, whatever memory the host reaches
  kernel.plan = [](const mydev_frame*, mydev_plan* plan) {
    constants_given.push_back(plan->constants);
    return MYDEV_OK;
  };
  register_kernel(kernel);
  executor_of(parsed(R"(program body(a: f32[2], b: f32[1], c: f32[2], donated y: f32[2]) -> (y) {
  y = launch test.with_constants(a, b, c)
}
program p(x: f32[2]) -> (y: f32[2]) {
  constant c: f32[2] = hex "0000803f00000040"
  temporary t: f32[2]
  t = copy c
  y = launch test.with_constants(x, c, t, f32[2] 1.0, c+4 f32[1])
  call body(x, c f32[1], c, y)
  repeat 2 body(c, c f32[1] by 4, x, y)
})"));
  EXPECT_EQ(constants_given, (std::vector<uint64_t>{0b100100, 0b1100, 0b10}));
}

TEST(ProgramRun, IsSeenByHooks) {
  static std::atomic<int> launches{0}, copies{0};
  const int id = add_command_hook({.submitted = [](void*, const CommandRecord& record) {
    (record.kind == CommandKind::kLaunch ? launches : copies) += 1;
  }});
  Executor executor = executor_of(parsed(kAddTwice));
  const Floats x({1, 2}), sum({0, 0}), y({0, 0});
  launches = 0;
  executor.run(default_stream(0), std::vector{x.binding(), sum.binding()}, std::vector{y.binding()});
  remove_command_hook(id);
  EXPECT_EQ(launches, 2);
  default_stream(0).synchronize();
}

}  // namespace
}  // namespace mydev::program
