// Times a launch of an empty kernel, and the look-ups that go with it.
#include <benchmark/benchmark.h>

#include <array>
#include <chrono>

#include "runtime/command/command_hooks.h"
#include "runtime/command/launch.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

mydev_code do_nothing(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}
constexpr mydev_kernel kNothing = {sizeof(mydev_kernel), "bench.nothing", do_nothing, nullptr, nullptr, nullptr};

void launch_empty_kernel(benchmark::State& state) {
  mydev_frame frame = make_frame({}, 0);
  for (auto _ : state) {
    launch(kNothing, frame, current_stream(0));
  }
}
BENCHMARK(launch_empty_kernel);

void build_frame_and_launch(benchmark::State& state) {
  float data[16] = {};
  const int64_t size = 16, stride = 1;
  for (auto _ : state) {
    const mydev_buffer operand = {data, &size, &stride, 1, MYDEV_F32};
    const std::array<mydev_buffer, 3> operands = {operand, operand, operand};
    mydev_frame frame = make_frame(operands, 1);
    launch(kNothing, frame, current_stream(0));
  }
}
BENCHMARK(build_frame_and_launch);

// Gives a stream work as a program does: some launches, then a wait, which is not counted. Its time with
// MYDEV_DRIVER=host:async, against launch_empty_kernel with the inline driver, is what asynchrony costs the thread that
// launches.
void launch_between_waits(benchmark::State& state) {
  constexpr int kLaunches = 256;
  const int64_t size = 16, stride = 1;
  float data[16] = {};
  const mydev_buffer operand = {data, &size, &stride, 1, MYDEV_F32};
  const std::array<mydev_buffer, 3> operands = {operand, operand, operand};
  mydev_frame frame = make_frame(operands, 1);
  Stream& stream = current_stream(0);
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kLaunches; ++i) launch(kNothing, frame, stream);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    stream.synchronize();
    state.SetIterationTime(elapsed.count() / kLaunches);
  }
}
BENCHMARK(launch_between_waits)->UseManualTime()->Iterations(2000);

void launch_with_a_hook(benchmark::State& state) {
  const int id = add_command_hook({.submitted = [](void*, const CommandRecord&) {}});
  mydev_frame frame = make_frame({}, 0);
  for (auto _ : state) {
    launch(kNothing, frame, current_stream(0));
  }
  remove_command_hook(id);
}
BENCHMARK(launch_with_a_hook);

void find_current_stream(benchmark::State& state) {
  for (auto _ : state) {
    benchmark::DoNotOptimize(&current_stream(current_device()));
  }
}
BENCHMARK(find_current_stream);

void record_event(benchmark::State& state) {
  Event event(0, false);
  for (auto _ : state) {
    event.record(current_stream(0));
  }
}
BENCHMARK(record_event);

}  // namespace
}  // namespace mydev
