// Products in dtypes that a record is asked for only if its limits name them: f64, s8 into s32 and 8-bit floats into
// f32, of dense matrices. mydev_test_products() counts them.
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <span>

#include "mydev/custom_call.h"

namespace {

constexpr mydev_limits kLimits = {sizeof(mydev_limits),
                                  MYDEV_DTYPE_BIT(MYDEV_F64) | MYDEV_DTYPE_BIT(MYDEV_S8) | MYDEV_DTYPE_BIT(MYDEV_S32) |
                                      MYDEV_DTYPE_BIT(MYDEV_F8E4M3FN) | MYDEV_DTYPE_BIT(MYDEV_F32),
                                  -1, MYDEV_LIMIT_DENSE};

mydev_code plan(const mydev_frame* frame, mydev_plan* /*out*/) {
  const int32_t out = frame->buffers[0].dtype, factor = frame->buffers[1].dtype;
  const bool known = (factor == MYDEV_F64 && out == MYDEV_F64) || (factor == MYDEV_S8 && out == MYDEV_S32) ||
                     (factor == MYDEV_F8E4M3FN && out == MYDEV_F32);
  if (known && frame->num_inputs == 2 && frame->buffers[0].rank == 2 && frame->attributes[1].value.f == 0) {
    return MYDEV_OK;
  }
  frame->host->set_error(frame, "multiplies f64, s8 into s32 and f8e4m3fn into f32, two matrices only");
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

template <typename Factor, typename Out>
void multiply(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &a = frame->buffers[1];
  const int64_t rows = out.sizes[0], columns = out.sizes[1], inner = a.sizes[1];
  const auto *left = static_cast<const Factor*>(a.data), *right = static_cast<const Factor*>(frame->buffers[2].data);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < columns; ++j) {
      Out sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum += static_cast<Out>(left[i * inner + k]) * static_cast<Out>(right[k * columns + j]);
      }
      static_cast<Out*>(out.data)[i * columns + j] = static_cast<Out>(frame->attributes[0].value.f) * sum;
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
      multiply<Float8, float>(frame);
  }
  return MYDEV_OK;
}

constexpr mydev_kernel kKernels[] = {{.struct_size = sizeof(mydev_kernel),
                                      .name = "mydev.matmul",
                                      .entry = matmul,
                                      .runs = MYDEV_RUNS_DRIVER,
                                      .limits = &kLimits,
                                      .plan = plan}};

}  // namespace

extern "C" [[gnu::visibility("default")]] int64_t mydev_test_products(int32_t dtype) {
  return products[static_cast<size_t>(dtype)];
}

extern const std::span<const mydev_kernel> kMoreKernels;
const std::span<const mydev_kernel> kMoreKernels = kKernels;
