// Kernel group pooling, over [N, C, H, W].
//
// Averages of bf16 and f16 are taken in f32. Operands may have any strides. If all of them lie channels-last, or all
// channels-first, the loops (pooling_loops.h) read them as they are. Other operands, and bf16 and f16, are copied to
// scratch first. So are narrow images of many channels, whose maxima are found several times as fast channels-last.
// Planes of 2^31 elements or more are refused.
#include <algorithm>
#include <array>
#include <string>
#include <type_traits>

#include "host_kernels/builtin_kernels.h"
#include "host_kernels/dense_order.h"
#include "host_kernels/isa_variant.h"
#include "host_kernels/nested_copy.h"
#include "host_kernels/pooling_loops.h"
#include "kernels/registry/kernel_entry.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

enum class Pool { kMax, kMaxBackward, kAverage, kAverageBackward, kAdaptive, kAdaptiveBackward };

struct Signature {
  const char* name;
  uint32_t outputs, inputs, attributes;
  uint32_t x, out;  // which buffers are x (or its gradient) and the result (or its gradient)
};

constexpr Signature kSignatures[] = {
    {"mydev.max_pool2d", 2, 1, 4, 2, 0},          {"mydev.max_pool2d_backward", 1, 2, 0, 0, 1},
    {"mydev.avg_pool2d", 1, 1, 5, 1, 0},          {"mydev.avg_pool2d_backward", 1, 1, 5, 0, 1},
    {"mydev.adaptive_avg_pool2d", 1, 1, 0, 1, 0}, {"mydev.adaptive_avg_pool2d_backward", 1, 1, 0, 0, 1},
};
constexpr const Signature& signature_of(Pool pool) {
  return kSignatures[static_cast<int>(pool)];
}

constexpr int kMaxBuffers = 3;

const MaxPoolingLoops& max_loops() {
  return MYDEV_ISA_VARIANT(instruction_set(), max_pooling_loops);
}
const AveragePoolingLoops& average_loops() {
  return MYDEV_ISA_VARIANT(instruction_set(), average_pooling_loops);
}

// How a frame will be computed: decided once, before the launch.
struct PoolingPlan {
  PoolingGeometry geometry{};
  mydev_dtype compute = MYDEV_F32;
  DenseOrder order = kChannelsFirst;
  std::array<bool, kMaxBuffers> copied{};
  std::array<uint64_t, kMaxBuffers> offsets{};
  uint64_t scratch_bytes = 0;
};

[[noreturn]] void refuse(const Signature& signature, const std::string& why) {
  throw Error(MYDEV_INVALID_ARGUMENT, std::string(signature.name) + ": " + why);
}

void read_attributes(const mydev_frame& frame, Pool pool, const Signature& signature, PoolingGeometry& geometry) {
  const bool is_max = pool == Pool::kMax;
  for (uint32_t i = 0; i < (is_max ? 4u : 3u); ++i) {
    if (frame.attributes[i].kind != MYDEV_ATTRIBUTE_INT_ARRAY || frame.attributes[i].count != 2) {
      refuse(signature, "kernel, stride, padding and dilation need two numbers each");
    }
  }
  for (int i = 0; i < 2; ++i) {
    PoolingAxis& axis = i == 0 ? geometry.height : geometry.width;
    axis.kernel = frame.attributes[0].value.ints[i];
    axis.stride = frame.attributes[1].value.ints[i];
    axis.padding = frame.attributes[2].value.ints[i];
    axis.dilation = is_max ? frame.attributes[3].value.ints[i] : 1;
    if (axis.kernel < 1 || axis.stride < 1 || axis.dilation < 1 || axis.padding < 0) {
      refuse(signature, "kernel, stride and dilation must be positive and padding not negative");
    }
  }
  if (!is_max) {
    geometry.count_include_pad = frame.attributes[3].value.i != 0;
    geometry.divisor = frame.attributes[4].value.i;
  }
}

// Whether rows of maxima are so short that channels fill vectors better, which pays for the copies.
bool works_faster_channels_last(Pool pool, const PoolingGeometry& geometry, int64_t channels) noexcept {
  constexpr int64_t kManyChannels = 32, kShortRow = 32;
  const bool halves = geometry.height.is_halved() && geometry.width.is_halved();
  return pool == Pool::kMax && !halves && channels >= kManyChannels && geometry.width.out < kShortRow;
}

PoolingPlan plan_pooling(const mydev_frame& frame, Pool pool) {
  const Signature& signature = signature_of(pool);
  const uint32_t num_buffers = signature.outputs + signature.inputs;
  if (frame.num_outputs != signature.outputs || frame.num_inputs != signature.inputs ||
      frame.num_attributes != signature.attributes) {
    refuse(signature, "takes other operands or attributes; see its contract");
  }
  const mydev_buffer &x = frame.buffers[signature.x], &out = frame.buffers[signature.out];
  PoolingPlan plan;
  PoolingGeometry& geometry = plan.geometry;
  if (x.rank != 4 || out.rank != 4 || x.sizes[0] != out.sizes[0] || x.sizes[1] != out.sizes[1]) {
    refuse(signature, "operands must be [N,C,H,W] of one N and C");
  }
  const mydev_dtype dtype = static_cast<mydev_dtype>(x.dtype);
  if ((dtype != MYDEV_F32 && dtype != MYDEV_F64 && dtype != MYDEV_BF16 && dtype != MYDEV_F16) || out.dtype != x.dtype) {
    throw Error(MYDEV_UNIMPLEMENTED,
                std::string(signature.name) + ": takes f32, f64, bf16 and f16, got " + dtype_name(dtype));
  }
  if (x.sizes[2] * x.sizes[3] > INT32_MAX) refuse(signature, "a plane of x must have less than 2^31 elements");
  if (pool == Pool::kMax || pool == Pool::kMaxBackward) {
    const mydev_buffer& indices = frame.buffers[pool == Pool::kMax ? 1 : 2];
    const bool fits =
        indices.dtype == MYDEV_S64 && indices.rank == 4 && std::equal(out.sizes, out.sizes + 4, indices.sizes);
    if (!fits) refuse(signature, "indices must be s64 of the result's sizes");
  }
  geometry.height.in = x.sizes[2];
  geometry.height.out = out.sizes[2];
  geometry.width.in = x.sizes[3];
  geometry.width.out = out.sizes[3];
  geometry.adaptive = signature.attributes == 0;
  if (signature.attributes != 0) read_attributes(frame, pool, signature, geometry);

  plan.compute = dtype == MYDEV_F64 ? MYDEV_F64 : MYDEV_F32;
  const bool channels_last =
      dense_orders_of(x) == kChannelsLast || works_faster_channels_last(pool, geometry, x.sizes[1]);
  plan.order = channels_last ? kChannelsLast : kChannelsFirst;
  geometry.planes = channels_last ? x.sizes[0] : x.sizes[0] * x.sizes[1];
  geometry.lanes = channels_last ? x.sizes[1] : 1;
  for (uint32_t i = 0; i < num_buffers; ++i) {
    const mydev_buffer& buffer = frame.buffers[i];
    const mydev_dtype wanted = buffer.dtype == MYDEV_S64 ? MYDEV_S64 : plan.compute;
    plan.copied[i] = (dense_orders_of(buffer) & plan.order) == 0 || buffer.dtype != wanted;
    if (!plan.copied[i]) continue;
    plan.offsets[i] = plan.scratch_bytes;
    plan.scratch_bytes += (static_cast<uint64_t>(count_elements(buffer) * dtype_size(wanted)) + 63) / 64 * 64;
  }
  return plan;
}

template <typename T>
void run_loops(Pool pool, const PoolingGeometry& g, const std::array<void*, kMaxBuffers>& data,
               const MaxPooling<T>& max, const AveragePooling<T>& average) {
  const auto at = [&](size_t i) { return static_cast<T*>(data[i]); };
  const auto indices_at = [&](size_t i) { return static_cast<int64_t*>(data[i]); };
  const int64_t taps =
      g.adaptive ? std::max<int64_t>(1, g.height.in * g.width.in / std::max<int64_t>(1, g.height.out * g.width.out))
                 : std::max<int64_t>(1, g.height.kernel * g.width.kernel);
  const int64_t rows = g.planes * g.height.out;
  const auto grain = [](int64_t work) { return std::max<int64_t>(1, kGrainCheap / std::max<int64_t>(1, work)); };
  const int64_t row_grain = grain(g.width.out * g.lanes * taps);
  const int64_t block_grain =
      grain(std::min(g.lanes, PoolingGeometry::kBlockLanes) *
            (g.height.in * g.width.in + g.height.out * g.width.out * (pool == Pool::kMaxBackward ? 1 : taps)));
  switch (pool) {
    case Pool::kMax:
      parallel_for(rows, row_grain,
                   [&](int64_t begin, int64_t end) { max.forward(g, at(2), at(0), indices_at(1), begin, end); });
      break;
    case Pool::kMaxBackward:
      parallel_for(g.blocks(), block_grain,
                   [&](int64_t begin, int64_t end) { max.backward(g, at(1), indices_at(2), at(0), begin, end); });
      break;
    case Pool::kAverage:
    case Pool::kAdaptive:
      parallel_for(rows, row_grain, [&](int64_t begin, int64_t end) { average.forward(g, at(1), at(0), begin, end); });
      break;
    case Pool::kAverageBackward:
    case Pool::kAdaptiveBackward:
      parallel_for(g.blocks(), block_grain,
                   [&](int64_t begin, int64_t end) { average.backward(g, at(1), at(0), begin, end); });
      break;
  }
}

void run(const mydev_frame& frame, Pool pool) {
  const Signature& signature = signature_of(pool);
  const auto& plan = planned<PoolingPlan>(frame);
  const uint32_t num_buffers = signature.outputs + signature.inputs;
  std::array<void*, kMaxBuffers> data{};
  std::array<std::array<int64_t, 4>, kMaxBuffers> strides;
  const auto dense_copy = [&](uint32_t i) {
    const mydev_buffer& buffer = frame.buffers[i];
    const mydev_dtype dtype = buffer.dtype == MYDEV_S64 ? MYDEV_S64 : plan.compute;
    return mydev_buffer{data[i], buffer.sizes, strides[i].data(), buffer.rank, static_cast<int16_t>(dtype), 0};
  };
  for (uint32_t i = 0; i < num_buffers; ++i) {
    data[i] = plan.copied[i] ? static_cast<char*>(frame.scratch) + plan.offsets[i] : frame.buffers[i].data;
    if (!plan.copied[i]) continue;
    dense_strides(4, frame.buffers[i].sizes, plan.order, strides[i].data());
    if (i >= signature.outputs) nested_copy(frame, signature.name, dense_copy(i), frame.buffers[i]);
  }
  if (plan.compute == MYDEV_F64) {
    run_loops(pool, plan.geometry, data, max_loops().f64, average_loops().f64);
  } else {
    run_loops(pool, plan.geometry, data, max_loops().f32, average_loops().f32);
  }
  for (uint32_t i = 0; i < signature.outputs; ++i) {
    if (plan.copied[i]) nested_copy(frame, signature.name, frame.buffers[i], dense_copy(i));
  }
}

template <Pool pool>
mydev_code pooling_entry(const mydev_frame* frame) {
  return run_entry(*frame, [&] { run(*frame, pool); });
}

template <Pool pool>
PoolingPlan plan(const mydev_frame& frame) {
  return plan_pooling(frame, pool);
}

template <Pool pool>
constexpr mydev_kernel record() {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = signature_of(pool).name;
  kernel.entry = pooling_entry<pool>;
  kernel.plan = plan_entry<PoolingPlan, plan<pool>>;
  return kernel;
}

constexpr mydev_kernel kPoolingRecords[] = {record<Pool::kMax>(),      record<Pool::kMaxBackward>(),
                                            record<Pool::kAverage>(),  record<Pool::kAverageBackward>(),
                                            record<Pool::kAdaptive>(), record<Pool::kAdaptiveBackward>()};

}  // namespace

std::span<const mydev_kernel> pooling() {
  return kPoolingRecords;
}

}  // namespace mydev::kernels
