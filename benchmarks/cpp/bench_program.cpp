// Times what a program costs beyond its kernels: a run, a step, other memory at each run; and the planning.
#include <benchmark/benchmark.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program/ir/builder.h"
#include "program/run/executor.h"
#include "program/text/text.h"
#include "program/transform/fusion.h"
#include "runtime/command/launch.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/stream_table.h"

namespace mydev::program {
namespace {

constexpr int64_t kElements = 16;

mydev_code do_nothing(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}

const mydev_kernel& nothing() {
  static const mydev_kernel& kernel = []() -> const mydev_kernel& {
    mydev_kernel record{};
    record.struct_size = sizeof record;
    record.name = "bench.nothing";
    record.entry = do_nothing;
    return *register_kernel(record, {"", "this benchmark"});
  }();
  return kernel;
}

// y = x, and then `launches` launches of y = f(y, x).
SharedProgram chain_of(int64_t launches) {
  nothing();
  ProgramBuilder builder("chain");
  const SlotIndex x = builder.parameter(MYDEV_F32, {kElements}), y = builder.temporary(MYDEV_F32, {kElements});
  builder.returns(y);
  builder.copy(builder.view(y), builder.view(x));
  for (int64_t i = 0; i < launches; ++i) {
    builder.launch("bench.nothing", {builder.view(y)}, {builder.view(y), builder.view(x)});
  }
  return std::move(builder).build();
}

struct Memory {
  std::shared_ptr<void> block = caching_allocator_for(default_stream(0))(4 * kElements * sizeof(float));
  Binding part(size_t index) const {
    constexpr size_t kBytes = kElements * sizeof(float);
    return {static_cast<char*>(block.get()) + index * kBytes, kBytes};
  }
};

// Runs a program of a copy and N launches of a kernel that does nothing. The difference to launch_frames with as many
// is what a program adds to a step.
void run_program(benchmark::State& state) {
  Stream& stream = default_stream(0);
  Executor executor(chain_of(state.range(0)), stream, caching_allocator_for(stream));
  const Memory memory;
  const std::array parameters = {memory.part(0)}, results = {memory.part(1)};
  for (auto _ : state) executor.run(stream, parameters, results);
  state.SetItemsProcessed(state.iterations() * std::max<int64_t>(1, state.range(0)));
}
BENCHMARK(run_program)->Arg(0)->Arg(1)->Arg(1000);

// The same with other memory at each run.
void rebind_and_run_program(benchmark::State& state) {
  Stream& stream = default_stream(0);
  Executor executor(chain_of(state.range(0)), stream, caching_allocator_for(stream));
  const Memory memory;
  std::array parameters = {memory.part(0)}, others = {memory.part(2)};
  std::array results = {memory.part(1)}, other_results = {memory.part(3)};
  for (auto _ : state) {
    executor.run(stream, parameters, results);
    std::swap(parameters, others);
    std::swap(results, other_results);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(rebind_and_run_program)->Arg(1000);

// Times the runtime's launch with as many frames.
void launch_frames(benchmark::State& state) {
  Stream& stream = default_stream(0);
  const Memory memory;
  const int64_t stride = 1;
  const auto buffer = [&](size_t part) {
    return mydev_buffer{memory.part(part).data, &kElements, &stride, 1, MYDEV_F32, 0};
  };
  const std::array buffers = {buffer(1), buffer(1), buffer(0)};
  std::vector<mydev_frame> frames(static_cast<size_t>(state.range(0)), make_frame(buffers, 1));
  for (auto _ : state) {
    for (mydev_frame& frame : frames) launch(nothing(), frame, stream);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(launch_frames)->Arg(1000);

// relu(x * w + b) * w on N numbers: four launches, or one step that is computed tile by tile.
void pointwise_chain(benchmark::State& state, bool fused) {
  const std::string type = "f32[" + std::to_string(state.range(0)) + "]";
  const SharedProgram launches =
      parse("programs version 1\nprogram chain(x: " + type + ", w: " + type + ", b: f32[1]) -> (y: " + type +
            ") {\n  temporary t: " + type + "\n  temporary u: " + type + "\n  temporary v: " + type +
            "\n  t = launch mydev.mul(x, w)\n  u = launch mydev.add(t, b " + type +
            "{0}; alpha=1.0)\n  v = launch mydev.relu(u)\n  y = launch mydev.mul(v, w)\n}\n");
  Stream& stream = default_stream(0);
  Executor executor(fused ? fuse(launches) : launches, stream, caching_allocator_for(stream));
  const auto bytes = static_cast<uint64_t>(state.range(0)) * sizeof(float);
  const auto memory = caching_allocator_for(stream)(4 * bytes);
  const auto part = [&](uint64_t index) { return Binding{static_cast<char*>(memory.get()) + index * bytes, bytes}; };
  const float zero = 0;
  fill_bytes(stream, memory.get(), 4 * bytes, &zero, sizeof zero);
  const std::array parameters = {part(0), part(1), part(2)};
  const std::array results = {part(3)};
  for (auto _ : state) executor.run(stream, parameters, results);
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
void launch_pointwise_chain(benchmark::State& state) {
  pointwise_chain(state, false);
}
void tile_pointwise_chain(benchmark::State& state) {
  pointwise_chain(state, true);
}
BENCHMARK(launch_pointwise_chain)->Arg(1 << 10)->Arg(1 << 16)->Arg(1 << 22)->UseRealTime();
BENCHMARK(tile_pointwise_chain)->Arg(1 << 10)->Arg(1 << 16)->Arg(1 << 22)->UseRealTime();

// N temporaries, each of which lives for some steps.
void plan_program(benchmark::State& state) {
  ProgramBuilder builder("many");
  const SlotIndex x = builder.parameter(MYDEV_F32, {1000});
  std::vector<SlotIndex> slots(8, x);
  for (int64_t i = 0; i < state.range(0); ++i) {
    slots.push_back(builder.temporary(MYDEV_F32, {1 + i * 7919 % 1000}));
    Operand from = builder.view(slots[slots.size() - 2 - static_cast<size_t>(i) % 7]);
    const Operand to = builder.view(slots.back());
    builder.launch("bench.nothing", {to}, {from});
  }
  const SharedProgram program = std::move(builder).build();
  for (auto _ : state) benchmark::DoNotOptimize(plan_memory(*program, 64).arena_bytes);
}
BENCHMARK(plan_program)->Arg(100)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace mydev::program
