// Products in dtypes that a record is asked for only if its limits name them: f64, s8 into s32 and 8-bit floats into
// f32 and bf16, of dense matrices; and convolutions of images in f64. mydev_test_products() counts the former,
// mydev_test_convolutions() the latter.
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>

#include "mydev/custom_call.h"

namespace {

constexpr mydev_limits kLimits = {sizeof(mydev_limits),
                                  MYDEV_DTYPE_BIT(MYDEV_F64) | MYDEV_DTYPE_BIT(MYDEV_S8) | MYDEV_DTYPE_BIT(MYDEV_S32) |
                                      MYDEV_DTYPE_BIT(MYDEV_F8E4M3FN) | MYDEV_DTYPE_BIT(MYDEV_F32) |
                                      MYDEV_DTYPE_BIT(MYDEV_BF16),
                                  -1, MYDEV_LIMIT_DENSE};

mydev_code plan(const mydev_frame* frame, mydev_plan* /*out*/) {
  const int32_t out = frame->buffers[0].dtype, factor = frame->buffers[1].dtype;
  const bool known = (factor == MYDEV_F64 && out == MYDEV_F64) || (factor == MYDEV_S8 && out == MYDEV_S32) ||
                     (factor == MYDEV_F8E4M3FN && (out == MYDEV_F32 || out == MYDEV_BF16));
  if (known && frame->buffers[0].rank == 2) return MYDEV_OK;
  frame->host->set_error(frame, "multiplies f64, s8 into s32 and f8e4m3fn into f32 or bf16, two matrices only");
  return MYDEV_UNIMPLEMENTED;
}

struct Float8 {
  uint8_t bits;
  operator float() const {
    const int exponent = bits >> 3 & 15, fraction = bits & 7;
    const float size = (bits & 127) == 127 ? NAN
                       : exponent == 0     ? std::ldexp(static_cast<float>(fraction), -9)
                                           : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
    return bits >= 128 ? -size : size;
  }
};

struct Bfloat16 {
  uint16_t bits = 0;
  Bfloat16() = default;
  explicit Bfloat16(float value) {  // rounded to the nearest, halves to even
    const auto wide = std::bit_cast<uint32_t>(value);
    bits = static_cast<uint16_t>((wide + 0x7FFF + (wide >> 16 & 1)) >> 16);
  }
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
};

// Sums in Sum.
template <typename Factor, typename Sum, typename Out = Sum>
void multiply(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &a = frame->buffers[1];
  const int64_t rows = out.sizes[0], columns = out.sizes[1], inner = a.sizes[1];
  const auto *left = static_cast<const Factor*>(a.data), *right = static_cast<const Factor*>(frame->buffers[2].data);
  const auto alpha = static_cast<Sum>(frame->attributes[0].value.f),
             beta = static_cast<Sum>(frame->attributes[1].value.f);
  const auto* addend = static_cast<const Out*>(frame->num_inputs == 3 ? frame->buffers[3].data : out.data);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      Sum sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum += static_cast<Sum>(left[i * inner + k]) * static_cast<Sum>(right[k * columns + j]);
      }
      const int64_t at = i * columns + j;
      const Sum added = beta != 0 ? beta * static_cast<Sum>(addend[at]) : 0;
      static_cast<Out*>(out.data)[at] = static_cast<Out>(alpha * sum + added);
    }
  }
}

std::array<std::atomic<int64_t>, 64> products{};  // by the dtype of the factors

mydev_code matmul(const mydev_frame* frame) {
  ++products[static_cast<size_t>(frame->buffers[1].dtype)];
  switch (frame->buffers[1].dtype) {
    case MYDEV_F64:
      multiply<double, double>(frame);
      break;
    case MYDEV_S8:
      multiply<int8_t, int32_t>(frame);
      break;
    default:
      if (frame->buffers[0].dtype == MYDEV_F32) {
        multiply<Float8, float>(frame);
      } else {
        multiply<Float8, float, Bfloat16>(frame);
      }
  }
  return MYDEV_OK;
}

// --- convolution -----------------------------------------------------------------------------------------------------

constexpr mydev_limits kDouble = {sizeof(mydev_limits), MYDEV_DTYPE_BIT(MYDEV_F64), 4, 0};
enum : uint32_t { kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups };

mydev_code plan_convolution(const mydev_frame* frame, mydev_plan* /*out*/) {
  const bool is_taken = frame->buffers[0].rank == 4 && frame->attributes[kTransposed].value.i == 0 &&
                        frame->attributes[kGroups].value.i == 1;
  if (!is_taken) frame->host->set_error(frame, "convolves images of one group, not transposed");
  return is_taken ? MYDEV_OK : MYDEV_UNIMPLEMENTED;
}

double& element(const mydev_buffer& buffer, const std::array<int64_t, 4>& at) {
  int64_t offset = 0;
  for (int32_t d = 0; d < buffer.rank; ++d) offset += at[static_cast<size_t>(d)] * buffer.strides[d];
  return static_cast<double*>(buffer.data)[offset];
}

std::atomic<int64_t> convolutions{0};

mydev_code convolution(const mydev_frame* frame) {
  ++convolutions;
  const mydev_buffer &out = frame->buffers[0], &x = frame->buffers[1], &weight = frame->buffers[2];
  // The position in x that an element of a window has along dimension d; outside of 0..size-1: none.
  const auto from = [&](size_t d, int64_t window, int64_t tap) {
    const auto number = [&](uint32_t attribute) { return frame->attributes[attribute].value.ints[d]; };
    return window * number(kStride) - number(kPadding) + tap * number(kDilation);
  };
  for (int64_t i = 0; i < out.sizes[0] * out.sizes[1] * out.sizes[2] * out.sizes[3]; ++i) {
    const int64_t column = i % out.sizes[3], row = i / out.sizes[3] % out.sizes[2];
    const int64_t channel = i / out.sizes[3] / out.sizes[2] % out.sizes[1];
    const int64_t image = i / out.sizes[3] / out.sizes[2] / out.sizes[1];
    double sum = frame->num_inputs == 3 ? element(frame->buffers[3], {channel}) : 0;
    for (int64_t tap = 0; tap < weight.sizes[1] * weight.sizes[2] * weight.sizes[3]; ++tap) {
      const int64_t k = tap % weight.sizes[3], j = tap / weight.sizes[3] % weight.sizes[2];
      const int64_t in = tap / weight.sizes[3] / weight.sizes[2], y = from(0, row, j), z = from(1, column, k);
      if (y < 0 || y >= x.sizes[2] || z < 0 || z >= x.sizes[3]) continue;
      sum += element(x, {image, in, y, z}) * element(weight, {channel, in, j, k});
    }
    element(out, {image, channel, row, column}) = sum;
  }
  return MYDEV_OK;
}

constexpr mydev_kernel kKernels[] = {{.struct_size = sizeof(mydev_kernel),
                                      .name = "mydev.matmul",
                                      .entry = matmul,
                                      .runs = MYDEV_RUNS_DRIVER,
                                      .limits = &kLimits,
                                      .plan = plan},
                                     {.struct_size = sizeof(mydev_kernel),
                                      .name = "mydev.convolution",
                                      .entry = convolution,
                                      .runs = MYDEV_RUNS_DRIVER,
                                      .limits = &kDouble,
                                      .plan = plan_convolution}};

}  // namespace

extern "C" [[gnu::visibility("default")]] int64_t mydev_test_products(int32_t dtype) {
  return products[static_cast<size_t>(dtype)];
}

extern "C" [[gnu::visibility("default")]] int64_t mydev_test_convolutions() {
  return convolutions;
}

extern const std::span<const mydev_kernel> kMoreKernels;
const std::span<const mydev_kernel> kMoreKernels = kKernels;
