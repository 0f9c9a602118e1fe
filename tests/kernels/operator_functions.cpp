// Small kernels, one for each thing that a signature can say. Only the public header.
#include "operator_functions.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace operators {

namespace {

// --- frames ----------------------------------------------------------------------------------------------------------

int64_t count(const mydev_buffer& buffer) {
  int64_t elements = 1;
  for (int32_t d = 0; d < buffer.rank; ++d) elements *= buffer.sizes[d];
  return elements;
}
const mydev_buffer& input(const mydev_frame* frame, uint32_t i) {
  return frame->buffers[frame->num_outputs + i];
}

// body(T*) for each dtype that the kernels take.
template <typename Body>
mydev_code by_dtype(int32_t dtype, const Body& body) {
  if (dtype == MYDEV_F64) {
    body(double{});
  } else {
    body(float{});
  }
  return MYDEV_OK;
}

// The place of element i of `shape`, in row-major order, in a buffer that is broadcast to it.
int64_t place(const mydev_buffer& buffer, const mydev_buffer& shape, int64_t i) {
  int64_t offset = 0;
  for (int32_t d = shape.rank - 1, own = buffer.rank - 1; d >= 0; --d, --own) {
    const int64_t index = i % shape.sizes[d];
    i /= shape.sizes[d];
    if (own >= 0 && buffer.sizes[own] != 1) offset += index * buffer.strides[own];
  }
  return offset;
}

// out[i] = f(a[i], b[i]), broadcast.
template <typename Function>
mydev_code broadcast(const mydev_frame* frame, const Function& function) {
  const mydev_buffer& out = frame->buffers[0];
  return by_dtype(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    const mydev_buffer &a = input(frame, 0), &b = input(frame, 1);
    for (int64_t i = 0; i < count(out); ++i) {
      static_cast<T*>(out.data)[i] =
          function(static_cast<const T*>(a.data)[place(a, out, i)], static_cast<const T*>(b.data)[place(b, out, i)]);
    }
  });
}

// out[k][i] = f(k, in[0][i], in[1][i], …) of dense buffers of one shape.
template <typename Function>
mydev_code elementwise(const mydev_frame* frame, const Function& function) {
  return by_dtype(frame->buffers[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count(frame->buffers[0]); ++i) {
      T in[4] = {};
      for (uint32_t k = 0; k < frame->num_inputs; ++k) {
        if (input(frame, k).data != nullptr) in[k] = static_cast<const T*>(input(frame, k).data)[i];
      }
      for (uint32_t k = 0; k < frame->num_outputs; ++k) {
        static_cast<T*>(frame->buffers[k].data)[i] = static_cast<T>(function(k, in));
      }
    }
  });
}

template <typename T>
void multiply(const T* a, const T* b, T* c, int64_t m, int64_t n, int64_t k, bool transpose_a, bool transpose_b) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum = 0;
      for (int64_t p = 0; p < k; ++p) {
        sum += (transpose_a ? a[p * m + i] : a[i * k + p]) * (transpose_b ? b[j * k + p] : b[p * n + j]);
      }
      c[i * n + j] = sum;
    }
  }
}

}  // namespace

// --- kernels ---------------------------------------------------------------------------------------------------------

mydev_code axpy(const mydev_frame* frame) {
  const double alpha = frame->attributes[0].value.f;
  return broadcast(frame, [alpha](auto x, auto y) { return static_cast<decltype(x)>(alpha * x + y); });
}

mydev_code square(const mydev_frame* frame) {
  return elementwise(frame, [](uint32_t, const auto* in) { return in[0] * in[0]; });
}
mydev_code square_vjp(const mydev_frame* frame) {
  return elementwise(frame, [](uint32_t, const auto* in) { return 2 * in[0] * in[1]; });
}
mydev_code square_vjp_vjp(const mydev_frame* frame) {
  return elementwise(frame, [](uint32_t k, const auto* in) { return 2 * in[1 - k] * in[2]; });
}
mydev_code exponential(const mydev_frame* frame) {
  return elementwise(frame, [](uint32_t, const auto* in) { return std::exp(in[0]); });
}
mydev_code scaled(const mydev_frame* frame) {
  const double scale = frame->attributes[0].value.f;
  return elementwise(frame, [scale](uint32_t, const auto* in) { return scale * in[0]; });
}
mydev_code product(const mydev_frame* frame) {
  return elementwise(frame, [](uint32_t, const auto* in) { return in[0] * in[1]; });
}

// c[m,n] = a[m,k] b[k,n], with either operand read transposed.
mydev_code matmul(const mydev_frame* frame) {
  return by_dtype(frame->buffers[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const mydev_buffer &a = input(frame, 0), &b = input(frame, 1);
    multiply(static_cast<const T*>(a.data), static_cast<const T*>(b.data), static_cast<T*>(frame->buffers[0].data),
             a.sizes[0], b.sizes[1], a.sizes[1], false, false);
  });
}
mydev_code matmul_vjp(const mydev_frame* frame) {
  return by_dtype(frame->buffers[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const mydev_buffer &a = input(frame, 0), &b = input(frame, 1);
    const auto* grad = static_cast<const T*>(input(frame, 2).data);
    const int64_t m = a.sizes[0], k = a.sizes[1], n = b.sizes[1];
    multiply(grad, static_cast<const T*>(b.data), static_cast<T*>(frame->buffers[0].data), m, k, n, false, true);
    multiply(static_cast<const T*>(a.data), grad, static_cast<T*>(frame->buffers[1].data), k, n, m, true, false);
  });
}

mydev_code increment(const mydev_frame* frame) {
  const double step = frame->attributes[0].value.f;
  const mydev_buffer& x = frame->buffers[0];
  if (x.data != input(frame, 0).data) {
    frame->host->set_error(frame, "the result is not the operand's memory");
    return MYDEV_INTERNAL;
  }
  return by_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count(x); ++i) static_cast<T*>(x.data)[i] += static_cast<T>(step);
  });
}

// Adds y to x, in place, and gives what x was. The fresh result comes first or last.
template <uint32_t kWritten>
mydev_code accumulate(const mydev_frame* frame) {
  const mydev_buffer &x = frame->buffers[kWritten], &before = frame->buffers[1 - kWritten];
  return by_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count(x); ++i) {
      static_cast<T*>(before.data)[i] = static_cast<T*>(x.data)[i];
      static_cast<T*>(x.data)[i] += static_cast<const T*>(input(frame, 1).data)[i];
    }
  });
}

template mydev_code accumulate<0>(const mydev_frame* frame);
template mydev_code accumulate<1>(const mydev_frame* frame);

// Takes the gradients of the new x and of the old one: both reach x, the first y.
mydev_code accumulate_vjp(const mydev_frame* frame) {
  return elementwise(frame, [](uint32_t k, const auto* in) { return k == 0 ? in[0] + in[1] : in[0]; });
}

// Adds x to y, in place, which is all that it gives.
mydev_code add_to(const mydev_frame* frame) {
  return by_dtype(frame->buffers[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* y = static_cast<T*>(frame->buffers[0].data);
    for (int64_t i = 0; i < count(frame->buffers[0]); ++i) y[i] += static_cast<const T*>(input(frame, 0).data)[i];
  });
}

mydev_code swap(const mydev_frame* frame) {
  const mydev_buffer &x = frame->buffers[0], &y = frame->buffers[1];
  return by_dtype(x.dtype, [&](auto zero) {
    using T = decltype(zero);
    for (int64_t i = 0; i < count(x); ++i) std::swap(static_cast<T*>(x.data)[i], static_cast<T*>(y.data)[i]);
  });
}

// x scaled by w, if there is one.
mydev_code weigh(const mydev_frame* frame) {
  const bool weighed = input(frame, 1).dtype != MYDEV_DTYPE_INVALID;
  return elementwise(frame, [weighed](uint32_t, const auto* in) { return weighed ? in[0] * in[1] : in[0]; });
}
mydev_code total(const mydev_frame* frame) {
  return by_dtype(frame->buffers[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* out = static_cast<T*>(frame->buffers[0].data);
    for (int64_t i = 0; i < count(frame->buffers[0]); ++i) {
      out[i] = 0;
      for (uint32_t k = 0; k < frame->num_inputs; ++k) out[i] += static_cast<const T*>(input(frame, k).data)[i];
    }
  });
}

// x times the sum of the squares of the parts.
mydev_code weigh_squares(const mydev_frame* frame) {
  return by_dtype(frame->buffers[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* x = static_cast<const T*>(input(frame, 0).data);
    auto* out = static_cast<T*>(frame->buffers[0].data);
    for (int64_t i = 0; i < count(frame->buffers[0]); ++i) {
      T sum = 0;
      for (uint32_t k = 1; k < frame->num_inputs; ++k) {
        const T part = static_cast<const T*>(input(frame, k).data)[i];
        sum += part * part;
      }
      out[i] = x[i] * sum;
    }
  });
}
// Takes x, the gradient and the parts; gives the gradients of x and of each part.
mydev_code weigh_squares_vjp(const mydev_frame* frame) {
  return by_dtype(frame->buffers[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto *x = static_cast<const T*>(input(frame, 0).data), *grad = static_cast<const T*>(input(frame, 1).data);
    auto* grad_x = static_cast<T*>(frame->buffers[0].data);
    for (int64_t i = 0; i < count(frame->buffers[0]); ++i) {
      grad_x[i] = 0;
      for (uint32_t k = 1; k < frame->num_outputs; ++k) {
        const T part = static_cast<const T*>(input(frame, k + 1).data)[i];
        grad_x[i] += grad[i] * part * part;
        static_cast<T*>(frame->buffers[k].data)[i] = 2 * x[i] * part * grad[i];
      }
    }
  });
}
// Twice each part, whatever its sizes.
mydev_code double_each(const mydev_frame* frame) {
  for (uint32_t k = 0; k < frame->num_outputs; ++k) {
    by_dtype(frame->buffers[k].dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto* from = static_cast<const T*>(input(frame, k).data);
      for (int64_t i = 0; i < count(frame->buffers[k]); ++i) static_cast<T*>(frame->buffers[k].data)[i] = 2 * from[i];
    });
  }
  return MYDEV_OK;
}

// Half of x, and all of the others.
mydev_code half_total(const mydev_frame* frame) {
  return elementwise(frame, [](uint32_t, const auto* in) { return in[0] / 2 + in[1] + in[2] + in[3]; });
}

// The minimum and where it is.
mydev_code minimum(const mydev_frame* frame) {
  return by_dtype(input(frame, 0).dtype, [&](auto zero) {
    using T = decltype(zero);
    const mydev_buffer& x = input(frame, 0);
    const int64_t size = x.sizes[x.rank - 1];
    for (int64_t row = 0; row < count(frame->buffers[0]); ++row) {
      const T* values = static_cast<const T*>(x.data) + row * size;
      int64_t best = 0;
      for (int64_t i = 1; i < size; ++i) best = values[i] < values[best] ? i : best;
      static_cast<T*>(frame->buffers[0].data)[row] = values[best];
      static_cast<int64_t*>(frame->buffers[1].data)[row] = best;
    }
  });
}

mydev_code repeat(const mydev_frame* frame) {
  const mydev_buffer& x = input(frame, 0);
  auto* out = static_cast<float*>(frame->buffers[0].data);
  for (int64_t i = 0; i < count(frame->buffers[0]); ++i) out[i] = static_cast<const float*>(x.data)[i % count(x)];
  return MYDEV_OK;
}
mydev_code infer_repeat(const mydev_frame* frame, mydev_shape* results) {
  const int64_t times = frame->attributes[0].value.i;
  if (times < 1) {
    frame->host->set_error(frame, "times must be at least 1");
    return MYDEV_INVALID_ARGUMENT;
  }
  results[0].rank = 1;
  results[0].sizes[0] = times * frame->buffers[0].sizes[0];
  return MYDEV_OK;
}

mydev_code lie(const mydev_frame*) {
  return MYDEV_OK;
}
mydev_code infer_lie(const mydev_frame*, mydev_shape* results) {
  results[0].rank = 1;
  results[0].sizes[0] = -1;
  return MYDEV_OK;
}

// Writes its attributes as text, into 256 bytes.
mydev_code attributes_text(const mydev_frame* frame) {
  std::string text;
  for (uint32_t i = 0; i < frame->num_attributes; ++i) {
    const mydev_attribute& attribute = frame->attributes[i];
    text += std::string(attribute.name) + "=";
    char number[64];
    switch (attribute.kind) {
      case MYDEV_ATTRIBUTE_STRING:
        text += std::string(attribute.value.bytes, attribute.count);
        break;
      case MYDEV_ATTRIBUTE_FLOAT:
        std::snprintf(number, sizeof(number), "%g", attribute.value.f);
        text += number;
        break;
      case MYDEV_ATTRIBUTE_INT_ARRAY:
        for (uint32_t k = 0; k < attribute.count; ++k) text += std::to_string(attribute.value.ints[k]) + ",";
        break;
      case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
        for (uint32_t k = 0; k < attribute.count; ++k) {
          std::snprintf(number, sizeof(number), "%g,", attribute.value.floats[k]);
          text += number;
        }
        break;
      case MYDEV_ATTRIBUTE_COMPLEX:
        std::snprintf(number, sizeof(number), "%g%+gi", attribute.value.c[0], attribute.value.c[1]);
        text += number;
        break;
      default:
        text += std::to_string(attribute.value.i);
    }
    text += ";";
  }
  const mydev_buffer& out = frame->buffers[0];
  std::memset(out.data, 0, static_cast<size_t>(count(out)));
  std::memcpy(out.data, text.data(), std::min(text.size(), static_cast<size_t>(count(out))));
  return MYDEV_OK;
}

mydev_code fill(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  for (int64_t i = 0; i < count(out); ++i) static_cast<float*>(out.data)[i] = 7;
  return MYDEV_OK;
}

// Reverses its operand by means of scratch, of which it asks for as much as the operand has.
mydev_code reverse(const mydev_frame* frame) {
  const mydev_buffer &x = input(frame, 0), &out = frame->buffers[0];
  const auto size = static_cast<size_t>(count(x));
  if (frame->scratch_bytes < size * sizeof(float)) {
    frame->host->set_error(frame, "there is no scratch");
    return MYDEV_INTERNAL;
  }
  auto* scratch = static_cast<float*>(frame->scratch);
  std::memcpy(scratch, x.data, size * sizeof(float));
  for (size_t i = 0; i < size; ++i) static_cast<float*>(out.data)[i] = scratch[size - 1 - i];
  return MYDEV_OK;
}
uint64_t reverse_scratch(const mydev_frame* frame) {
  return static_cast<uint64_t>(count(input(frame, 0))) * sizeof(float);
}

uint64_t greedy_scratch(const mydev_frame*) {
  return UINT64_C(1) << 60;
}
uint64_t throwing_scratch(const mydev_frame*) {
  throw std::runtime_error("thrown while asked");
}

mydev_code fail(const mydev_frame* frame) {
  const std::string message(frame->attributes[1].value.bytes, frame->attributes[1].count);
  frame->host->set_error(frame, message.c_str());
  return static_cast<mydev_code>(frame->attributes[0].value.i);
}

mydev_code crash_softly(const mydev_frame*) {
  throw std::runtime_error("thrown by the kernel");
}

}  // namespace operators
