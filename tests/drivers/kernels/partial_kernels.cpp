// Seven kernels like the first ones of a vendor: dense f32, the plain case of each, and nothing else. Calls that they
// decline must reach the CPU, with the same answers as without them.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>

#include "mydev/custom_call.h"

namespace {

constexpr mydev_limits kDenseFloats = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F32), -1, MYDEV_LIMIT_DENSE};
constexpr mydev_limits kDenseFloatTensors = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F32), -1,
                                             MYDEV_LIMIT_DENSE | MYDEV_LIMIT_NO_SCALARS};
constexpr mydev_limits kFloats = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F32), -1, 0};

int64_t count(const mydev_buffer& buffer) {
  return std::accumulate(buffer.sizes, buffer.sizes + buffer.rank, int64_t{1}, std::multiplies<>());
}
float* floats(const mydev_buffer& buffer) {
  return static_cast<float*>(buffer.data);
}
// An operand's elements; those of a number are all the same.
struct Values {
  explicit Values(const mydev_buffer& buffer)
      : number((buffer.flags & MYDEV_BUFFER_SCALAR) != 0
                   ? static_cast<float>(static_cast<const mydev_scalar*>(buffer.data)->f)
                   : 0),
        data((buffer.flags & MYDEV_BUFFER_SCALAR) != 0 ? nullptr : floats(buffer)) {}
  float operator[](int64_t i) const { return data != nullptr ? data[i] : number; }
  float number;
  const float* data;
};

mydev_code add(const mydev_frame* frame) {
  const auto alpha = frame->num_attributes == 0 ? 1.0F : static_cast<float>(frame->attributes[0].value.f);
  const Values a(frame->buffers[1]), b(frame->buffers[2]);
  float* out = floats(frame->buffers[0]);
  for (int64_t i = 0; i < count(frame->buffers[0]); ++i) out[i] = a[i] + alpha * b[i];
  return MYDEV_OK;
}

mydev_code mul(const mydev_frame* frame) {
  const Values a(frame->buffers[1]), b(frame->buffers[2]);
  float* out = floats(frame->buffers[0]);
  for (int64_t i = 0; i < count(frame->buffers[0]); ++i) out[i] = a[i] * b[i];
  return MYDEV_OK;
}

mydev_code relu(const mydev_frame* frame) {
  const float* in = floats(frame->buffers[1]);
  float* out = floats(frame->buffers[0]);
  for (int64_t i = 0; i < count(frame->buffers[0]); ++i) out[i] = in[i] < 0 ? 0 : in[i];
  return MYDEV_OK;
}

mydev_code copy(const mydev_frame* frame) {
  std::copy_n(floats(frame->buffers[1]), count(frame->buffers[0]), floats(frame->buffers[0]));
  return MYDEV_OK;
}

mydev_code fill(const mydev_frame* frame) {
  const mydev_attribute& value = frame->attributes[0];
  const double number = value.kind == MYDEV_ATTRIBUTE_FLOAT ? value.value.f : static_cast<double>(value.value.i);
  std::fill_n(floats(frame->buffers[0]), count(frame->buffers[0]), static_cast<float>(number));
  return MYDEV_OK;
}

// Plans say what limits cannot.
mydev_code decline(const mydev_frame* frame, const char* reason) {
  frame->host->set_error(frame, reason);
  return MYDEV_UNIMPLEMENTED;
}

bool is_dense(const mydev_buffer& buffer) {
  int64_t expected = 1;
  for (int32_t d = buffer.rank - 1; d >= 0; --d) {
    if (buffer.sizes[d] != 1 && buffer.strides[d] != expected) return false;
    expected *= buffer.sizes[d];
  }
  return true;
}

// Lazy bits are the kernel's to resolve; these stay away from them. Both attributes may be left out.
mydev_code plan_copy(const mydev_frame* frame, mydev_plan* /*out*/) {
  const std::span attributes(frame->attributes, frame->num_attributes);
  const bool plain = std::none_of(attributes.begin(), attributes.end(), [](const auto& a) { return a.value.i != 0; });
  return plain ? MYDEV_OK : decline(frame, "copies values as they are");
}

// All elements of a dense operand to one number; none of them to 0.
mydev_code plan_sum(const mydev_frame* frame, mydev_plan* /*out*/) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  const bool whole = std::all_of(out.strides, out.strides + out.rank, [](int64_t stride) { return stride == 0; });
  return whole && is_dense(in) ? MYDEV_OK : decline(frame, "sums all of a dense operand only");
}
mydev_code sum(const mydev_frame* frame) {
  const float* in = floats(frame->buffers[1]);
  double total = 0;
  for (int64_t i = 0; i < count(frame->buffers[1]); ++i) total += in[i];
  *floats(frame->buffers[0]) = static_cast<float>(total);
  return MYDEV_OK;
}

// Takes two dense matrices and nothing to add. Its decision is one number, which the launch gets back.
mydev_code plan_matmul(const mydev_frame* frame, mydev_plan* out) {
  const bool plain = frame->num_inputs == 2 && frame->buffers[0].rank == 2 && frame->attributes[1].value.f == 0;
  for (int i = 0; i < 3; ++i) {
    if (!plain || !is_dense(frame->buffers[i])) return decline(frame, "multiplies two dense matrices only");
  }
  out->decision = new int64_t(frame->buffers[1].sizes[1]);
  out->release = [](void* decision) { delete static_cast<int64_t*>(decision); };
  out->scratch_bytes = sizeof(double);  // not needed, but given
  return MYDEV_OK;
}
mydev_code matmul(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  const int64_t rows = out.sizes[0], columns = out.sizes[1], inner = *static_cast<const int64_t*>(frame->decision);
  if (frame->scratch == nullptr || frame->scratch_bytes < sizeof(double)) return MYDEV_INTERNAL;
  const float *a = floats(frame->buffers[1]), *b = floats(frame->buffers[2]);
  const auto alpha = static_cast<float>(frame->attributes[0].value.f);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      float total = 0;
      for (int64_t k = 0; k < inner; ++k) total += a[i * inner + k] * b[k * columns + j];
      floats(out)[i * columns + j] = alpha * total;
    }
  }
  return MYDEV_OK;
}

constexpr mydev_kernel record(const char* name, mydev_kernel_fn entry, const mydev_limits& limits,
                              mydev_code (*plan)(const mydev_frame*, mydev_plan*) = nullptr) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  kernel.entry = entry;
  kernel.runs = MYDEV_RUNS_DRIVER;
  kernel.limits = &limits;
  kernel.plan = plan;
  return kernel;
}

constexpr mydev_kernel kKernels[] = {
    record("mydev.add", add, kDenseFloats),
    record("mydev.mul", mul, kDenseFloatTensors),
    record("mydev.relu", relu, kDenseFloats),
    record("mydev.copy", copy, kDenseFloats, plan_copy),
    record("mydev.fill", fill, kDenseFloats),
    record("mydev.sum", sum, kFloats, plan_sum),
    record("mydev.matmul", matmul, kFloats, plan_matmul),
};

}  // namespace

extern const std::span<const mydev_kernel> kMoreKernels;
const std::span<const mydev_kernel> kMoreKernels = kKernels;
