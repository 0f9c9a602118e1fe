// Programs as graphs of a driver that records (MYDEV_DRIVER=.../graph_driver.so), and as single steps on the others:
// the same values, errors and memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program/run/graph_instances.h"
#include "program_fixture.h"
#include "runtime/command/command_hooks.h"
#include "runtime/command/launch.h"

namespace mydev::program {
namespace {

constexpr const char* kTwice = R"(program p(x: f32[4], donated s: f32[4]) -> (y: f32[4], s) {
  temporary t: f32[4]
  constant c: f32[4] = hex "0000803f000000400000404000008040"
  t = fill hex "0000803f"
  s = launch mydev.add(s, x; alpha=1.0)
  t = launch mydev.add(t, s; alpha=1.0)
  y = copy t
  y = launch mydev.mul(y, c)
})";

// True if the device records programs. One whose kernels have to be asked at each launch does not, as host:remote.
bool records() {
  const bool has_graphs = GraphInstances::make(*parsed(kTwice), device(0)) != nullptr;
  return has_graphs && device(0).host_accessible();
}

class Twice {
 public:
  void run(Stream& stream = default_stream(0)) { run(*x_, stream); }
  void run(const Floats& x, Stream& stream = default_stream(0)) {
    executor_.run(stream, std::vector{x.binding(), sum_.binding()}, std::vector{y_.binding()});
  }
  // After runs with x = 1, 2, 3, 4 so many times.
  void expect_runs(int runs, Stream& stream = default_stream(0)) const {
    const auto n = static_cast<float>(runs);
    EXPECT_EQ(sum_.read(stream), (std::vector<float>{n, 2 * n, 3 * n, 4 * n}));
    EXPECT_EQ(y_.read(stream), (std::vector<float>{n + 1, 2 * (2 * n + 1), 3 * (3 * n + 1), 4 * (4 * n + 1)}));
  }
  static std::unique_ptr<Floats> values() { return std::make_unique<Floats>(std::vector<float>{1, 2, 3, 4}); }

 private:
  Executor executor_ = executor_of(parsed(kTwice));
  std::unique_ptr<Floats> x_ = values();
  Floats sum_{{0, 0, 0, 0}}, y_{{0, 0, 0, 0}};
};

TEST(ProgramGraphs, ComputeWhatTheStepsCompute) {
  Twice program;
  for (int run = 1; run <= 5; ++run) {
    program.run();
    program.expect_runs(run);
  }
}

TEST(ProgramGraphs, AreLaunchedOnceTheyAreRecorded) {
  Twice program;
  program.run();
  program.run();  // records
  const uint64_t before = launch_count();
  program.run();
  EXPECT_EQ(launch_count() - before, records() ? 0U : 3U);
  program.expect_runs(3);
}

TEST(ProgramGraphs, AreOfTheirMemory) {
  Twice program;
  std::vector<std::unique_ptr<Floats>> inputs(GraphInstances::kMost + 2);
  for (auto& input : inputs) input = Twice::values();
  int runs = 0;
  for (int iteration = 0; iteration < 2; ++iteration) {
    for (const auto& input : inputs) {
      for (int again = 0; again < 3; ++again, ++runs) program.run(*input);
    }
  }
  program.expect_runs(runs);
}

TEST(ProgramGraphs, FollowWhenTheMemoryOfAParameterIsGone) {
  Twice program;
  auto first = Twice::values();
  for (int run = 0; run < 3; ++run) program.run(*first);
  first.reset();
  const Floats other(std::vector<float>(4, 9));  // may lie where the first did
  const auto second = Twice::values();
  for (int run = 0; run < 3; ++run) program.run(*second);
  program.expect_runs(6);
  EXPECT_EQ(other.read(), std::vector<float>(4, 9));
}

TEST(ProgramGraphs, RunOnTwoStreams) {
  Twice program;
  Stream& other = stream_from_pool(0, 0);
  for (int run = 0; run < 6; ++run) program.run(run % 2 == 0 ? default_stream(0) : other);
  program.expect_runs(6, other);
}

std::atomic<bool> shall_fail{false};

mydev_code fail_if_asked(const mydev_frame* frame) {
  if (!shall_fail) return MYDEV_OK;
  frame->host->set_error(frame, "out of order");
  return MYDEV_ABORTED;
}

TEST(ProgramGraphs, FailInTheMiddleAndRunAgain) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "test.failing_in_a_graph";
  kernel.entry = fail_if_asked;
  register_kernel(kernel);
  Executor executor = executor_of(parsed(R"(program p(donated x: f32[2]) -> (x) {
  x = launch mydev.add(x, f32[2] 1.0; alpha=1.0)
  launch test.failing_in_a_graph(x)
  x = launch mydev.mul(x, f32[2] 2.0)
})"));
  const Floats x({0, 0});
  const auto run = [&] {
    executor.run(default_stream(0), std::vector{x.binding()});
    default_stream(0).synchronize();
  };
  for (int i = 0; i < 3; ++i) run();  // 2, 6, 14
  shall_fail = true;
  const Error error = error_of(run);
  shall_fail = false;
  expect_error(error, MYDEV_ABORTED, "out of order");
  expect_error(error, MYDEV_ABORTED, "program 'p'");
  const bool went_on = default_stream(0).asynchronous();  // the steps behind had been given
  EXPECT_EQ(x.read()[0], went_on ? 30 : 15);
  run();
  EXPECT_EQ(x.read()[0], went_on ? 62 : 32);
}

TEST(ProgramGraphs, AreStepsForWhoWatchesSteps) {
  static std::atomic<int> launches{0};
  Twice program;
  for (int run = 0; run < 3; ++run) program.run();
  const int id = add_command_hook({.submitted = [](void*, const CommandRecord& record) {
    if (record.kind == CommandKind::kLaunch) ++launches;
  }});
  program.run();
  remove_command_hook(id);
  EXPECT_EQ(launches, 3);
  program.run();
  program.expect_runs(5);
}

TEST(ProgramGraphs, HoldLoopsButNotWhatWaitsForTheHost) {
  constexpr const char* kLoops = R"(program round(donated x: f32[2], w: f32[2]) -> (x) {
  x = launch mydev.add(x, w; alpha=1.0)
}
program p(donated x: f32[2], w: f32[6], b: pred[]) -> (x) {
  repeat 3 round(x, w f32[2] by 8)
})";
  const auto gain = [](const char* text, int runs) {
    Executor executor = executor_of(parsed(text));
    const Floats x({0, 0}), w({1, 2, 3, 4, 5, 6});
    const DeviceArray<uint8_t> b({1});
    for (int run = 0; run < runs; ++run) {
      executor.run(default_stream(0), std::vector{x.binding(), w.binding(), b.binding()});
    }
    return x.read();
  };
  EXPECT_EQ(gain(kLoops, 4), (std::vector<float>{36, 48}));
  std::string waits = kLoops;
  waits.replace(waits.find("repeat 3 round(x, w f32[2] by 8)"), 32, "if b then round(x, w f32[2])");
  EXPECT_EQ(gain(waits.c_str(), 4), (std::vector<float>{4, 8}));
}

}  // namespace
}  // namespace mydev::program
