// Times one allocate + release, beside the C library's allocator in the same run.
#include <benchmark/benchmark.h>

#include <cstdlib>
#include <vector>

#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"

namespace {

void device_block(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  mydev::Stream& stream = mydev::default_stream(0);
  for (auto _ : state) {
    mydev::Block* block = mydev::allocate(stream, bytes);
    benchmark::DoNotOptimize(block);
    mydev::release(*block);
  }
}

void posix_memalign_free(benchmark::State& state) {
  const auto bytes = static_cast<size_t>(state.range(0));
  for (auto _ : state) {
    void* data = nullptr;
    if (posix_memalign(&data, 64, bytes) != 0) state.SkipWithError("posix_memalign failed");
    benchmark::DoNotOptimize(data);
    std::free(data);
  }
}

// A training step's pattern: many live at once, freed in reverse.
void many_live_blocks(benchmark::State& state) {
  mydev::Stream& stream = mydev::default_stream(0);
  std::vector<mydev::Block*> blocks(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    size_t bytes = 64;
    for (mydev::Block*& block : blocks) {
      block = mydev::allocate(stream, bytes);
      bytes = bytes * 5 % 65521 + 1;
    }
    for (size_t i = blocks.size(); i > 0; --i) mydev::release(*blocks[i - 1]);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

void find_block(benchmark::State& state) {
  mydev::Block* block = mydev::allocate(mydev::default_stream(0), 4096);
  for (auto _ : state) benchmark::DoNotOptimize(mydev::find_block(block->data));
  mydev::release(*block);
}

void sizes(benchmark::internal::Benchmark* b) {
  for (const int64_t bytes : {64, 4096, 1 << 20, 2 << 20, 16 << 20, 256 << 20}) b->Arg(bytes);
}

BENCHMARK(device_block)->Apply(sizes);
BENCHMARK(device_block)->Arg(4096)->Threads(2);
BENCHMARK(posix_memalign_free)->Apply(sizes);
BENCHMARK(many_live_blocks)->Arg(16)->Arg(500);
BENCHMARK(find_block);

}  // namespace
