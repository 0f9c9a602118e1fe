// What a launch of an empty kernel costs, and the look-ups that go with it.
#include <benchmark/benchmark.h>

#include <array>

#include "runtime/launch/launch.h"
#include "runtime/launch/launch_hooks.h"
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

void launch_with_a_hook(benchmark::State& state) {
  const int id = add_launch_hook([](void*, const LaunchRecord&) {}, nullptr);
  mydev_frame frame = make_frame({}, 0);
  for (auto _ : state) {
    launch(kNothing, frame, current_stream(0));
  }
  remove_launch_hook(id);
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
