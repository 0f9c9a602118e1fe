// A library of small kernels, one for each thing that a signature can say. Only the public header.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

#include "mydev/custom_call.h"

namespace {

constexpr uint64_t kFloats = MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64);

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

// Of the gradients of the new x and of the old one: both reach x, the first y.
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
// Of x, the gradient and the parts: the gradients of x and of each part.
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

// Reverses its operand by way of scratch, of which it asks for as much as the operand has.
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

// --- signatures ------------------------------------------------------------------------------------------------------

constexpr mydev_operand operand(const char* name, uint64_t dtypes = kFloats, int32_t like = -1, uint32_t flags = 0,
                                int32_t rank_min = 0, int32_t rank_max = -1) {
  return {sizeof(mydev_operand), name, dtypes, like, -1, rank_min, rank_max, flags, nullptr};
}
constexpr mydev_operand result(const char* name, int32_t like, int32_t alias = -1) {
  return {sizeof(mydev_operand), name, 0, like, alias, 0, -1, 0, nullptr};
}
constexpr mydev_operand typed_result(const char* name, mydev_dtype dtype) {
  return {sizeof(mydev_operand), name, MYDEV_DTYPE_BIT(dtype), -1, -1, 0, -1, 0, nullptr};
}

constexpr mydev_operand kX = operand("x"), kY = operand("y", kFloats, 0), kZ = operand("z", kFloats, 0);
constexpr mydev_operand kStridedX = operand("x", kFloats, -1, MYDEV_OPERAND_STRIDED);
constexpr mydev_operand kStridedY = operand("y", kFloats, 0, MYDEV_OPERAND_STRIDED);
constexpr mydev_operand kWeight = operand("w", kFloats, 0, MYDEV_OPERAND_OPTIONAL);
constexpr mydev_operand kParts = operand("parts", MYDEV_DTYPE_BIT(MYDEV_F32), -1, MYDEV_OPERAND_VARIADIC);
constexpr mydev_operand kGrad = operand("grad", kFloats, 0);
constexpr mydev_operand kFloatParts = operand("parts", kFloats, -1, MYDEV_OPERAND_VARIADIC);
constexpr mydev_operand kPartsLikeX = operand("parts", kFloats, 0, MYDEV_OPERAND_VARIADIC);
constexpr mydev_operand kMatrix = operand("a", kFloats, -1, 0, 2, 2), kMatrix2 = operand("b", kFloats, 0, 0, 2, 2);
constexpr mydev_operand kMatrix3 = operand("grad", kFloats, 0, 0, 2, 2);
constexpr mydev_operand kF32 = operand("x", MYDEV_DTYPE_BIT(MYDEV_F32));
constexpr mydev_operand kOut = result("out", 0), kOut1 = result("out1", 0), kInPlace = result("out", 0, 0);
constexpr mydev_operand kInPlace1 = result("out1", 1, 1);
constexpr mydev_operand kIndex = typed_result("index", MYDEV_S64), kText = typed_result("text", MYDEV_U8);
constexpr mydev_operand kF32Out = typed_result("out", MYDEV_F32);

constexpr mydev_operand parts_like(const char* name, int32_t like) {
  return {sizeof(mydev_operand), name, 0, like, -1, 0, -1, MYDEV_OPERAND_VARIADIC, nullptr};
}
constexpr mydev_operand kPartsOut = parts_like("outs", 0), kGradParts = parts_like("grad_parts", 2);

constexpr const mydev_operand* kNone[] = {nullptr};
constexpr const mydev_operand* kXAndParts[] = {&kX, &kPartsLikeX};
constexpr const mydev_operand* kXGradAndParts[] = {&kX, &kGrad, &kPartsLikeX};
constexpr const mydev_operand* kOnlyParts[] = {&kFloatParts};
constexpr const mydev_operand* kOutAndParts[] = {&kOut, &kGradParts};
constexpr const mydev_operand* kPartsOuts[] = {&kPartsOut};
constexpr const mydev_operand* kSecondWritten[] = {&kInPlace1};
constexpr const mydev_operand* kX1[] = {&kX};
constexpr const mydev_operand* kXY[] = {&kX, &kY};
constexpr const mydev_operand* kXYZ[] = {&kX, &kY, &kZ};
constexpr const mydev_operand* kStrided[] = {&kStridedX, &kStridedY};
constexpr const mydev_operand* kWeighed[] = {&kX, &kWeight};
constexpr const mydev_operand* kVariadic[] = {&kParts};
constexpr const mydev_operand* kF32AndParts[] = {&kF32, &kParts};
constexpr const mydev_operand* kMatrices[] = {&kMatrix, &kMatrix2};
constexpr const mydev_operand* kMatricesAndGrad[] = {&kMatrix, &kMatrix2, &kMatrix3};
constexpr const mydev_operand* kF32Only[] = {&kF32};
constexpr const mydev_operand* kOuts[] = {&kOut, &kOut1};
constexpr const mydev_operand* kInPlaceOut[] = {&kInPlace};
constexpr const mydev_operand* kWrittenAndFresh[] = {&kInPlace, &kOut1};
constexpr const mydev_operand* kFreshAndWritten[] = {&kOut1, &kInPlace};
constexpr const mydev_operand* kBothWritten[] = {&kInPlace, &kInPlace1};
constexpr const mydev_operand* kValueAndIndex[] = {&kOut, &kIndex};
constexpr const mydev_operand* kTextOut[] = {&kText};
constexpr const mydev_operand* kF32Outs[] = {&kF32Out};

mydev_attribute_spec attribute(const char* name, mydev_attribute_kind kind, bool required, int64_t i = 0,
                               mydev_dtype dtype = MYDEV_DTYPE_INVALID) {
  mydev_attribute_spec spec{};
  spec.struct_size = sizeof(spec);
  spec.value.name = name;
  spec.value.kind = kind;
  spec.value.dtype = dtype;
  spec.value.value.i = i;
  spec.flags = required ? MYDEV_ATTRIBUTE_REQUIRED : 0;
  return spec;
}
mydev_attribute_spec real(const char* name, double value) {
  mydev_attribute_spec spec = attribute(name, MYDEV_ATTRIBUTE_FLOAT, false);
  spec.value.value.f = value;
  return spec;
}
mydev_attribute_spec text(const char* name, const char* value) {
  mydev_attribute_spec spec = attribute(name, MYDEV_ATTRIBUTE_STRING, false);
  spec.value.value.bytes = value;
  spec.value.count = static_cast<uint32_t>(std::strlen(value));
  return spec;
}

constexpr int64_t kInts[] = {1, 2};
mydev_attribute_spec ints(const char* name) {
  mydev_attribute_spec spec = attribute(name, MYDEV_ATTRIBUTE_INT_ARRAY, false);
  spec.value.value.ints = kInts;
  spec.value.count = 2;
  return spec;
}

const mydev_attribute_spec kAlpha = real("alpha", 1), kStep = real("step", 1);
const mydev_attribute_spec kTimes = attribute("times", MYDEV_ATTRIBUTE_INT, true);
const mydev_attribute_spec kSize = attribute("size", MYDEV_ATTRIBUTE_INT, true);
const mydev_attribute_spec kCode = attribute("code", MYDEV_ATTRIBUTE_INT, true), kMessage = text("message", "no luck");
const mydev_attribute_spec kFlag = attribute("flag", MYDEV_ATTRIBUTE_BOOL, true);
const mydev_attribute_spec kNarrow = attribute("narrow", MYDEV_ATTRIBUTE_INT, false, 5, MYDEV_S8);
const mydev_attribute_spec kScale = real("scale", 0.5), kName = text("name", "none"), kDims = ints("dims");
const mydev_attribute_spec kReals = attribute("reals", MYDEV_ATTRIBUTE_FLOAT_ARRAY, true);
const mydev_attribute_spec kComplex = attribute("z", MYDEV_ATTRIBUTE_COMPLEX, false);

const mydev_attribute_spec* const kAxpyAttributes[] = {&kAlpha};
const mydev_attribute_spec* const kScaledAttributes[] = {&kScale};
const mydev_attribute_spec* const kStepAttributes[] = {&kStep};
const mydev_attribute_spec* const kRepeatAttributes[] = {&kTimes};
const mydev_attribute_spec* const kFillAttributes[] = {&kSize};
const mydev_attribute_spec* const kFailAttributes[] = {&kCode, &kMessage};
const mydev_attribute_spec* const kAllAttributes[] = {&kFlag, &kNarrow, &kScale, &kName, &kDims, &kReals, &kComplex};

template <size_t kOperands, size_t kResults>
mydev_signature signature(const mydev_operand* const (&operands)[kOperands], uint32_t num_operands,
                          const mydev_operand* const (&results)[kResults], uint32_t num_results, const char* shapes,
                          const mydev_attribute_spec* const* attributes = nullptr, uint32_t num_attributes = 0) {
  mydev_signature signature{};
  signature.struct_size = sizeof(signature);
  signature.operands = operands;
  signature.num_operands = num_operands;
  signature.results = results;
  signature.num_results = num_results;
  signature.shapes = shapes;
  signature.attributes = attributes;
  signature.num_attributes = num_attributes;
  return signature;
}
mydev_signature inferred(mydev_code (*infer)(const mydev_frame*, mydev_shape*),
                         const mydev_attribute_spec* const* attributes, uint32_t num_attributes) {
  mydev_signature signature = ::signature(kF32Only, 1, kOuts, 1, nullptr, attributes, num_attributes);
  signature.infer_shapes = infer;
  return signature;
}

const mydev_signature kAxpy = signature(kStrided, 2, kOuts, 1, "(...),(...)->(...)", kAxpyAttributes, 1);
const mydev_signature kUnary = signature(kX1, 1, kOuts, 1, "(...)->(...)");
const mydev_signature kScaled = signature(kX1, 1, kOuts, 1, "(...)->(...)", kScaledAttributes, 1);
const mydev_signature kBinary = signature(kXY, 2, kOuts, 1, "(...),(...)->(...)");
const mydev_signature kTernary = signature(kXYZ, 3, kOuts, 2, "(...),(...),(...)->(...),(...)");
const mydev_signature kMatmul = signature(kMatrices, 2, kOuts, 1, "(m,k),(k,n)->(m,n)");
const mydev_signature kMatmulVjp = signature(kMatricesAndGrad, 3, kOuts, 2, "(m,k),(k,n),(m,n)->(m,k),(k,n)");
const mydev_signature kIncrement = signature(kX1, 1, kInPlaceOut, 1, "(...)->(...)", kStepAttributes, 1);
const mydev_signature kAccumulate = signature(kXY, 2, kWrittenAndFresh, 2, "(n),(n)->(n),(n)");
const mydev_signature kAccumulateLast = signature(kXY, 2, kFreshAndWritten, 2, "(n),(n)->(n),(n)");
const mydev_signature kAccumulateVjp = signature(kXY, 2, kOuts, 2, "(n),(n)->(n),(n)");
const mydev_signature kSwap = signature(kXY, 2, kBothWritten, 2, "(n),(n)->(n),(n)");
const mydev_signature kAddTo = signature(kXY, 2, kSecondWritten, 1, "(n),(n)->(n)");
const mydev_signature kWeighSquares = signature(kXAndParts, 2, kOuts, 1, "(...),(...)->(...)");
const mydev_signature kWeighSquaresVjp = signature(kXGradAndParts, 3, kOutAndParts, 2, "(...),(...),(...)->(...)");
const mydev_signature kDoubleEach = signature(kOnlyParts, 1, kPartsOuts, 1, nullptr);
const mydev_signature kWeigh = signature(kWeighed, 2, kOuts, 1, "(...),(...)->(...)");
const mydev_signature kTotal = signature(kVariadic, 1, kF32Outs, 1, "(n)->(n)");
const mydev_signature kHalfTotal = signature(kF32AndParts, 2, kF32Outs, 1, "(n),(n)->(n)");
const mydev_signature kMinimum = signature(kX1, 1, kValueAndIndex, 2, "(...,n)->(...),(...)");
const mydev_signature kAttributes = signature(kNone, 0, kTextOut, 1, "->(256)", kAllAttributes, 7);
const mydev_signature kFill = signature(kNone, 0, kF32Outs, 1, "->(@size)", kFillAttributes, 1);
const mydev_signature kReverse = signature(kF32Only, 1, kOuts, 1, "(n)->(n)");
const mydev_signature kFail = signature(kX1, 1, kOuts, 1, "(...)->(...)", kFailAttributes, 2);
const mydev_signature kRepeat = inferred(infer_repeat, kRepeatAttributes, 1);
const mydev_signature kLie = inferred(infer_lie, nullptr, 0);

constexpr int32_t kSaved0[] = {0}, kSaved01[] = {0, 1}, kSavedResult[] = {-1};
constexpr mydev_gradient kSquareGradient = {sizeof(mydev_gradient), "test.square_vjp", kSaved0, 1, 1, kSaved0};
constexpr mydev_gradient kSquareVjpGradient = {sizeof(mydev_gradient), "test.square_vjp_vjp", kSaved01, 2, 2, kSaved01};
constexpr mydev_gradient kExpGradient = {sizeof(mydev_gradient), "test.product", kSavedResult, 1, 1, kSaved0};
constexpr mydev_gradient kMatmulGradient = {sizeof(mydev_gradient), "test.matmul_vjp", kSaved01, 2, 2, kSaved01};
constexpr mydev_gradient kHalfGradient = {sizeof(mydev_gradient), "test.product", kSaved01 + 1, 1, 1, kSaved0};
constexpr mydev_gradient kScaledGradient = {sizeof(mydev_gradient), "typed.scale", nullptr, 0, 1, kSaved0};
constexpr mydev_gradient kHalfTotalGradient = {sizeof(mydev_gradient), "test.scaled", nullptr, 0, 1, kSaved0};
constexpr mydev_gradient kAccumulateGradient = {sizeof(mydev_gradient), "test.accumulate_vjp", nullptr, 0, 2, kSaved01};
constexpr mydev_gradient kWeighSquaresGradient = {
    sizeof(mydev_gradient), "test.weigh_squares_vjp", kSaved01, 2, 2, kSaved01};
constexpr mydev_gradient kUnlikelyGradient = {sizeof(mydev_gradient), "test.square_vjp", kSaved01, 2, 2, kSaved01};
constexpr mydev_gradient kLostGradient = {sizeof(mydev_gradient), "test.nowhere", kSaved0, 1, 1, kSaved0};

mydev_kernel kernel(const char* name, mydev_kernel_fn entry, const mydev_signature& signature,
                    const mydev_gradient* gradient = nullptr, mydev_batching batching = MYDEV_BATCHING_NONE) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.name = name;
  kernel.entry = entry;
  kernel.signature = &signature;
  kernel.gradient = gradient;
  kernel.batching = batching;
  return kernel;
}
mydev_kernel with_scratch(mydev_kernel kernel, uint64_t (*scratch)(const mydev_frame*)) {
  kernel.scratch_bytes = scratch;
  return kernel;
}

const mydev_kernel kKernels[] = {
    kernel("test.axpy", axpy, kAxpy, nullptr, MYDEV_BATCHING_BROADCAST_ALL),
    kernel("test.square", square, kUnary, &kSquareGradient, MYDEV_BATCHING_EXPAND_DIMS),
    kernel("test.square_vjp", square_vjp, kBinary, &kSquareVjpGradient, MYDEV_BATCHING_BROADCAST_ALL),
    kernel("test.square_vjp_vjp", square_vjp_vjp, kTernary),
    kernel("test.exp", exponential, kUnary, &kExpGradient),
    kernel("test.scaled", scaled, kScaled, &kScaledGradient),
    kernel("test.product", product, kBinary),
    kernel("test.half_gradient", product, kBinary, &kHalfGradient),
    kernel("test.lost_gradient", square, kUnary, &kLostGradient),
    kernel("test.matmul", matmul, kMatmul, &kMatmulGradient, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.matmul_vjp", matmul_vjp, kMatmulVjp),
    kernel("test.increment", increment, kIncrement, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.accumulate", accumulate<0>, kAccumulate, &kAccumulateGradient),
    kernel("test.accumulate_vjp", accumulate_vjp, kAccumulateVjp),
    kernel("test.accumulate_last", accumulate<1>, kAccumulateLast),
    kernel("test.swap", swap, kSwap, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.add_to", add_to, kAddTo, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("class", square, kUnary),  // a word that Python keeps for itself
    kernel("test.weigh", weigh, kWeigh),
    kernel("test.total", total, kTotal),
    kernel("test.weigh_squares", weigh_squares, kWeighSquares, &kWeighSquaresGradient, MYDEV_BATCHING_BROADCAST_ALL),
    kernel("test.weigh_squares_vjp", weigh_squares_vjp, kWeighSquaresVjp, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.unlikely_gradient", weigh_squares, kWeighSquares, &kUnlikelyGradient),
    kernel("test.double_each", double_each, kDoubleEach, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.half_total", half_total, kHalfTotal, &kHalfTotalGradient),
    kernel("test.minimum", minimum, kMinimum, nullptr, MYDEV_BATCHING_EXPAND_DIMS),
    kernel("test.attributes", attributes_text, kAttributes),
    kernel("test.fill", fill, kFill),
    with_scratch(kernel("test.reverse", reverse, kReverse), reverse_scratch),
    with_scratch(kernel("test.greedy", reverse, kReverse), greedy_scratch),
    with_scratch(kernel("test.scratch_throws", reverse, kReverse), throwing_scratch),
    kernel("test.fail", fail, kFail),
    kernel("test.throw", crash_softly, kUnary),
    kernel("test.repeat", repeat, kRepeat),
    kernel("test.lie", lie, kLie),
};

}  // namespace

extern "C" MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major, uint32_t) {
  static const auto* const table = [] {
    constexpr size_t kCount = sizeof(kKernels) / sizeof(kKernels[0]);
    static const mydev_kernel* pointers[kCount];
    for (size_t i = 0; i < kCount; ++i) pointers[i] = &kKernels[i];
    static const mydev_library library = {sizeof(mydev_library),
                                          MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                          MYDEV_CUSTOM_CALL_VERSION_MINOR,
                                          "operator_kernels",
                                          "1.0",
                                          pointers,
                                          kCount};
    return &library;
  }();
  return version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR ? table : nullptr;
}
