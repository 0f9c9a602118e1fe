// Kernels with one fault each, of the kind that a vendor's have, and one that is right: what `mydev conform kernels`
// must find, and must not.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <span>
#include <thread>

#include "mydev/custom_call.h"

namespace {

constexpr mydev_limits kDense = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F32), -1,
                                 MYDEV_LIMIT_DENSE | MYDEV_LIMIT_NO_SCALARS};
constexpr mydev_limits kStrided = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F32), -1, MYDEV_LIMIT_NO_SCALARS};

int64_t count(const mydev_buffer& buffer) {
  return std::accumulate(buffer.sizes, buffer.sizes + buffer.rank, int64_t{1}, std::multiplies<>());
}
float* floats(const mydev_buffer& buffer) {
  return static_cast<float*>(buffer.data);
}
// Element by element, as if all operands were dense.
template <typename Function>
mydev_code pointwise(const mydev_frame* frame, const Function& function) {
  const mydev_buffer* buffers = frame->buffers;
  const float* second = frame->num_inputs > 1 ? floats(buffers[2]) : floats(buffers[1]);
  for (int64_t i = 0; i < count(buffers[0]); ++i) floats(buffers[0])[i] = function(floats(buffers[1])[i], second[i]);
  return MYDEV_OK;
}

mydev_code right(const mydev_frame* frame) {
  return pointwise(frame, [](float a, float /*b*/) { return std::sqrt(a); });
}
mydev_code ignores_strides(const mydev_frame* frame) {
  return pointwise(frame, [](float a, float /*b*/) { return a < 0 ? 0 : a; });
}
mydev_code loses_nan(const mydev_frame* frame) {
  return pointwise(frame, [](float a, float b) { return a > b ? a : b; });
}
mydev_code ignores_alpha(const mydev_frame* frame) {
  return pointwise(frame, [](float a, float b) { return a + b; });
}
mydev_code ignores_operands(const mydev_frame* frame) {
  for (int64_t i = 0; i < count(frame->buffers[0]); ++i) floats(frame->buffers[0])[i] = 1;
  return MYDEV_OK;
}
mydev_code writes_too_much(const mydev_frame* frame) {
  const mydev_code code = pointwise(frame, [](float a, float b) { return a * b; });
  if (const int64_t elements = count(frame->buffers[0]); elements > 0) floats(frame->buffers[0])[elements] = 0;
  return code;
}
mydev_code changes_its_operand(const mydev_frame* frame) {
  const mydev_code code = pointwise(frame, [](float a, float /*b*/) { return std::fabs(a); });
  if (count(frame->buffers[1]) > 0) floats(frame->buffers[1])[0] += 1;
  return code;
}
mydev_code crashes_for_three_dimensions(const mydev_frame* frame) {
  if (frame->buffers[0].rank == 3) std::abort();
  return pointwise(frame, [](float a, float /*b*/) { return std::floor(a); });
}
mydev_code comes_to_no_end(const mydev_frame* /*frame*/) {
  for (;;) std::this_thread::yield();
}
mydev_code fails(const mydev_frame* frame) {
  frame->host->set_error(frame, "the unit is on fire");
  return MYDEV_INTERNAL;
}

// All of a dense operand to one number; of nothing it writes nothing.
mydev_code decline(const mydev_frame* frame, const char* reason) {
  frame->host->set_error(frame, reason);
  return MYDEV_UNIMPLEMENTED;
}
mydev_code plan_sum(const mydev_frame* frame, mydev_plan* /*out*/) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  int64_t dense = 1;
  for (int32_t d = in.rank - 1; d >= 0; --d) {
    if (out.strides[d] != 0 || (in.sizes[d] != 1 && in.strides[d] != dense)) return decline(frame, "sums all at once");
    dense *= in.sizes[d];
  }
  return MYDEV_OK;
}
mydev_code forgets_to_write(const mydev_frame* frame) {
  double total = 0;
  for (int64_t i = 0; i < count(frame->buffers[1]); ++i) {
    total += floats(frame->buffers[1])[i];
    *floats(frame->buffers[0]) = static_cast<float>(total);
  }
  return MYDEV_OK;
}

// in[o,d,i] at index[n]; each o as if it were the first.
mydev_code loses_a_dimension(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1], &index = frame->buffers[2];
  const int64_t inner = out.sizes[2];
  for (int64_t i = 0; i < count(out); ++i) {
    const int64_t n = i / inner % out.sizes[1];
    const int64_t row = index.dtype == MYDEV_S64 ? static_cast<const int64_t*>(index.data)[n * index.strides[0]]
                                                 : static_cast<const int32_t*>(index.data)[n * index.strides[0]];
    floats(out)[i] = floats(in)[row * inner + i % inner];
  }
  return MYDEV_OK;
}
mydev_code plan_floats(const mydev_frame* frame, mydev_plan* /*out*/) {
  return frame->buffers[0].dtype == MYDEV_F32 ? MYDEV_OK : decline(frame, "selects f32");
}

constexpr mydev_kernel record(const char* name, mydev_kernel_fn entry, const mydev_limits* limits,
                              mydev_code (*plan)(const mydev_frame*, mydev_plan*) = nullptr) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  kernel.entry = entry;
  kernel.runs = MYDEV_RUNS_DRIVER;
  kernel.limits = limits;
  kernel.plan = plan;
  return kernel;
}

constexpr mydev_limits kNumbersToo = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F32), -1, MYDEV_LIMIT_DENSE};

constexpr mydev_kernel kKernels[] = {
    record("mydev.sqrt", right, &kDense),
    record("mydev.relu", ignores_strides, &kStrided),
    record("mydev.maximum", loses_nan, &kDense),
    record("mydev.add", ignores_alpha, &kDense),
    record("mydev.div", ignores_operands, &kNumbersToo),
    record("mydev.mul", writes_too_much, &kDense),
    record("mydev.abs", changes_its_operand, &kDense),
    record("mydev.floor", crashes_for_three_dimensions, &kDense),
    record("mydev.ceil", comes_to_no_end, &kDense),
    record("mydev.exp", fails, &kDense),
    record("mydev.sum", forgets_to_write, &kStrided, plan_sum),
    record("mydev.index_select", loses_a_dimension, nullptr, plan_floats),
};

}  // namespace

extern const std::span<const mydev_kernel> kMoreKernels;
const std::span<const mydev_kernel> kMoreKernels = kKernels;
