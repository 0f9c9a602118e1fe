// Pointwise kernels by themselves: the cost of a launch's kernel on 16 elements, and throughput on larger operands.
#include <benchmark/benchmark.h>

#include <array>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "runtime/command/launch.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"

namespace mydev {
namespace {

void run_kernel(benchmark::State& state, const char* name, size_t inputs) {
  const mydev_kernel* kernel = find_kernel(name);
  const int64_t size = state.range(0), stride = 1;
  std::vector<float> out(static_cast<size_t>(size)), in(static_cast<size_t>(size), 0.5f);
  std::array<mydev_buffer, 3> buffers;
  buffers[0] = {out.data(), &size, &stride, 1, MYDEV_F32};
  for (size_t i = 1; i <= inputs; ++i) buffers[i] = {in.data(), &size, &stride, 1, MYDEV_F32};
  mydev_frame frame = make_frame({buffers.data(), inputs + 1}, 1);
  frame.host = &host_services();
  for (auto _ : state) {
    if (kernel->entry(&frame) != MYDEV_OK) state.SkipWithError("the kernel failed");
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * size);
}

void unary(benchmark::State& state, const char* name) {
  run_kernel(state, name, 1);
}
void binary(benchmark::State& state, const char* name) {
  run_kernel(state, name, 2);
}

BENCHMARK_CAPTURE(binary, add, "mydev.add")->Arg(16)->Arg(4096)->Arg(1 << 20);
BENCHMARK_CAPTURE(binary, pow, "mydev.pow")->Arg(4096);
BENCHMARK_CAPTURE(unary, relu, "mydev.relu")->Arg(16)->Arg(4096)->Arg(1 << 20);
BENCHMARK_CAPTURE(unary, exp, "mydev.exp")->Arg(4096)->Arg(1 << 20);
BENCHMARK_CAPTURE(unary, log, "mydev.log")->Arg(4096);
BENCHMARK_CAPTURE(unary, tanh, "mydev.tanh")->Arg(4096);
BENCHMARK_CAPTURE(unary, sin, "mydev.sin")->Arg(4096);
BENCHMARK_CAPTURE(unary, gelu, "mydev.gelu")->Arg(4096)->Arg(1 << 20);

}  // namespace
}  // namespace mydev
