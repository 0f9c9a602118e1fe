// A softmax, a layer norm and a chain in primitives, fused and tile by tile, against the kernels that compute them.
// ROWS of 1,024 numbers: few of them stay in a cache, and show what the tiles themselves cost.
#include <benchmark/benchmark.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "program/run/executor.h"
#include "program/text/text.h"
#include "program/transform/fusion.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/stream_table.h"

namespace mydev::program {
namespace {

constexpr int64_t kColumns = 1024;

constexpr char kSoftmax[] =
    "program f(x: T, w: V, b: V) -> (y: T) {\n"
    "  temporary m: R\n  temporary s: T\n  temporary e: T\n  temporary d: R\n"
    "  m T{1,0} = launch mydev.amax(x)\n"
    "  s = launch mydev.sub(x, m T{1,0}; alpha=1.0)\n"
    "  e = launch mydev.exp(s)\n"
    "  d T{1,0} = launch mydev.sum(e)\n"
    "  y = launch mydev.div(e, d T{1,0})\n}\n";
constexpr char kNativeSoftmax[] =
    "program f(x: T, w: V, b: V) -> (y: T) {\n"
    "  y 3T = launch mydev.softmax(x 3T)\n}\n";
constexpr char kLayerNorm[] =
    "program f(x: T, w: V, b: V) -> (y: T) {\n"
    "  temporary m: R\n  temporary c: T\n  temporary q: T\n  temporary v: R\n  temporary u: R\n  temporary r: R\n"
    "  temporary n: T\n  temporary o: T\n"
    "  m T{1,0} = launch mydev.mean(x)\n"
    "  c = launch mydev.sub(x, m T{1,0}; alpha=1.0)\n"
    "  q = launch mydev.mul(c, c)\n"
    "  v T{1,0} = launch mydev.mean(q)\n"
    "  u = launch mydev.add(v, R 1e-05; alpha=1.0)\n"
    "  r = launch mydev.rsqrt(u)\n"
    "  n = launch mydev.mul(c, r T{1,0})\n"
    "  o = launch mydev.mul(n, w T{0,1})\n"
    "  y = launch mydev.add(o, b T{0,1}; alpha=1.0)\n}\n";
constexpr char kNativeLayerNorm[] =
    "program f(x: T, w: V, b: V) -> (y: T) {\n"
    "  temporary m: R\n  temporary r: R\n"
    "  y, m, r = launch mydev.layer_norm(x, w, b; eps=1e-05)\n}\n";
constexpr char kChain[] =
    "program f(x: T, w: V, b: V) -> (y: T) {\n"
    "  temporary a: T\n  temporary c: T\n  temporary d: T\n  temporary e: T\n"
    "  a = launch mydev.mul(x, T 2.0)\n"
    "  c = launch mydev.add(a, T 1.0; alpha=1.0)\n"
    "  d = launch mydev.relu(c)\n"
    "  e = launch mydev.mul(d, x)\n"
    "  y = launch mydev.sigmoid(e)\n}\n";

void replace(std::string& text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
}

void run_rows(benchmark::State& state, const char* body, bool fused) {
  const int64_t rows = state.range(0);
  std::string text = body;
  const std::string n = std::to_string(rows), k = std::to_string(kColumns);
  replace(text, "3T", "f32[" + n + "," + k + ",1]");
  replace(text, " T", " f32[" + n + "," + k + "]");
  replace(text, " R", " f32[" + n + "]");
  replace(text, " V", " f32[" + k + "]");
  const SharedProgram program = parse("programs version 1\n" + text);
  Stream& stream = default_stream(0);
  Executor executor(fused ? fuse(program) : program, stream, caching_allocator_for(stream));
  const auto bytes = static_cast<uint64_t>(rows * kColumns) * sizeof(float);
  const auto memory = caching_allocator_for(stream)(2 * bytes + 2 * kColumns * sizeof(float));
  char* const base = static_cast<char*>(memory.get());
  std::vector<float> values(static_cast<size_t>(rows * kColumns));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 7919 % 1000) / 250.0F - 2.0F;
  std::memcpy(base, values.data(), bytes);
  std::memcpy(base + bytes, values.data(), bytes);
  std::memcpy(base + 2 * bytes, values.data(), 2 * kColumns * sizeof(float));
  const std::array parameters = {Binding{base, bytes}, Binding{base + 2 * bytes, kColumns * sizeof(float)},
                                 Binding{base + 2 * bytes + kColumns * sizeof(float), kColumns * sizeof(float)}};
  const std::array results = {Binding{base + bytes, bytes}};
  for (auto _ : state) executor.run(stream, parameters, results);
  state.SetItemsProcessed(state.iterations() * rows);
}

#define ROWS(name, body, fused)        \
  void name(benchmark::State& state) { \
    run_rows(state, body, fused);      \
  }                                    \
  BENCHMARK(name)->Arg(32)->Arg(4096)->Arg(16384)
ROWS(softmax_by_kernel, kNativeSoftmax, false);
ROWS(softmax_in_tiles, kSoftmax, true);
ROWS(layer_norm_by_kernel, kNativeLayerNorm, false);
ROWS(layer_norm_in_tiles, kLayerNorm, true);
ROWS(chain_by_kernels, kChain, false);
ROWS(chain_in_tiles, kChain, true);

}  // namespace
}  // namespace mydev::program
