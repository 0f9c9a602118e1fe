// Kernel group foreach: one elementwise operation over lists of packed tensors, in one launch; norms of each of a list.
//
// Computed in float for f16, bf16 and f32, in double for f64. Norms do not depend on the number of threads.
#include <cmath>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/tensor_list.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// Each operation has kInputs lists x, y, z and a scalar s.
struct AddScalar {
  static constexpr int kInputs = 1;
  static auto apply(auto x, auto, auto, auto s) { return x + s; }
};
struct MulScalar : AddScalar {
  static auto apply(auto x, auto, auto, auto s) { return x * s; }
};
struct DivScalar : AddScalar {
  static auto apply(auto x, auto, auto, auto s) { return x / s; }
};
struct Sqrt : AddScalar {
  static auto apply(auto x, auto, auto, auto) { return std::sqrt(x); }
};
struct Neg : AddScalar {
  static auto apply(auto x, auto, auto, auto) { return -x; }
};
struct Reciprocal : AddScalar {
  static auto apply(auto x, auto, auto, auto) { return 1 / x; }
};
struct Copy : AddScalar {
  static auto apply(auto x, auto, auto, auto) { return x; }
};
struct Fill : AddScalar {
  static constexpr int kInputs = 0;
  static auto apply(auto, auto, auto, auto s) { return s; }
};
struct AddList {  // x + s y
  static constexpr int kInputs = 2;
  static auto apply(auto x, auto y, auto, auto s) { return x + s * y; }
};
struct MulList : AddList {
  static auto apply(auto x, auto y, auto, auto) { return x * y; }
};
struct DivList : AddList {
  static auto apply(auto x, auto y, auto, auto) { return x / y; }
};
struct Maximum : AddList {
  static auto apply(auto x, auto y, auto, auto) { return kLarger(x, y); }
};
struct Minimum : AddList {
  static auto apply(auto x, auto y, auto, auto) { return kSmaller(x, y); }
};
struct Lerp : AddList {  // exact at both ends
  static auto apply(auto x, auto y, auto, auto s) {
    return (s < 0 ? -s : s) < decltype(s)(0.5) ? x + s * (y - x) : y - (y - x) * (1 - s);
  }
};
struct Addcmul {
  static constexpr int kInputs = 3;
  static auto apply(auto x, auto y, auto z, auto s) { return x + s * y * z; }
};
struct Addcdiv : Addcmul {
  static auto apply(auto x, auto y, auto z, auto s) { return x + s * (y / z); }
};

double scalar_at(const mydev_frame* frame, int64_t tensor) {
  if (frame->num_attributes == 0) return 0;
  const mydev_attribute& scalars = frame->attributes[0];
  return scalars.value.floats[scalars.count == 1 ? 0 : tensor];
}

template <typename Op, typename C>
void apply_dense(C* out, const C* x, const C* y, const C* z, C s, int64_t count) {
#pragma GCC ivdep  // out is x, or apart from it
  for (int64_t i = 0; i < count; ++i) {
    const C second = Op::kInputs > 1 ? y[i] : C{0}, third = Op::kInputs > 2 ? z[i] : C{0};
    out[i] = Op::apply(Op::kInputs > 0 ? x[i] : C{0}, second, third, s);
  }
}

template <typename Op, typename C>
mydev_code apply_as(const mydev_frame* frame) {
  const int64_t length = frame->num_outputs;
  const mydev_buffer* outs = frame->buffers;
  for_each_piece(outs, length, [&](int64_t tensor, int64_t, int64_t begin, int64_t count) {
    const C scalar = static_cast<C>(scalar_at(frame, tensor));
    const ChunkWriter<C> writer(outs[tensor].dtype);
    alignas(64) C buffers[4][kChunk];
    for (int64_t at = begin; at < begin + count; at += kChunk) {
      const int64_t n = std::min(kChunk, begin + count - at);
      const C* in[3] = {};
      for (int i = 0; i < Op::kInputs; ++i) {
        const mydev_buffer& source = outs[(i + 1) * length + tensor];
        const ChunkReader<C> reader(source.dtype);
        const int64_t step = source.rank == 0 && outs[tensor].rank != 0 ? 0 : 1;
        const char* address = static_cast<const char*>(source.data) + at * step * reader.element_bytes();
        in[i] = reader.read(address, step, n, buffers[i]);
      }
      char* target = static_cast<char*>(outs[tensor].data) + at * writer.element_bytes();
      C* result = writer.place(target, 1, buffers[3]);
      apply_dense<Op>(result, in[0], in[1], in[2], scalar, n);
      writer.write(result, target, 1, n);
    }
  });
  return MYDEV_OK;
}

template <typename Op>
mydev_code foreach_entry(const mydev_frame* frame) {
  if (frame->num_outputs == 0) return MYDEV_OK;
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  if (frame->buffers[0].dtype == MYDEV_F64) return apply_as<Op, double>(frame);
  return apply_as<Op, float>(frame);
}

// --- norms -----------------------------------------------------------------------------------------------------------

struct Norm1 {
  static auto map(auto x) { return x < 0 ? -x : x; }
  static auto combine(auto a, auto b) { return a + b; }
  static double finish(double x) { return x; }
};
struct Norm2 : Norm1 {
  static auto map(auto x) { return x * x; }
  static double finish(double x) { return std::sqrt(x); }
};
struct NormInf : Norm1 {
  static auto combine(auto a, auto b) { return kLarger(a, b); }
};

uint64_t norm_scratch(const mydev_frame* frame) {
  int64_t pieces = 0;
  for (uint32_t t = 0; t < frame->num_inputs; ++t) pieces += piece_count(frame->buffers[frame->num_outputs + t]);
  return static_cast<uint64_t>(pieces) * sizeof(double);
}

template <typename Op, typename C>
mydev_code norm_as(const mydev_frame* frame) {
  const int64_t length = frame->num_outputs;
  const mydev_buffer* in = frame->buffers + length;
  double* partial = static_cast<double*>(frame->scratch);
  for_each_piece(in, length, [&](int64_t tensor, int64_t piece, int64_t begin, int64_t count) {
    const ChunkReader<C> reader(in[tensor].dtype);
    alignas(64) C buffer[kChunk], mapped[kChunk];
    double total = 0;
    for (int64_t at = begin; at < begin + count; at += kChunk) {
      const int64_t n = std::min(kChunk, begin + count - at);
      const C* x = reader.read(static_cast<const char*>(in[tensor].data) + at * reader.element_bytes(), 1, n, buffer);
      for (int64_t i = 0; i < n; ++i) mapped[i] = Op::map(x[i]);
      total = Op::combine(total,
                          static_cast<double>(fold(mapped, n, C{0}, [](auto a, auto b) { return Op::combine(a, b); })));
    }
    partial[piece] = total;
  });
  int64_t piece = 0;
  for (int64_t t = 0; t < length; ++t) {
    double total = 0;
    for (const int64_t end = piece + piece_count(in[t]); piece < end; ++piece) {
      total = Op::combine(total, partial[piece]);
    }
    total = Op::finish(total);
    ChunkWriter<double>(frame->buffers[t].dtype).write(&total, static_cast<char*>(frame->buffers[t].data), 0, 1);
  }
  return MYDEV_OK;
}

template <typename Op>
mydev_code norm_entry(const mydev_frame* frame) {
  if (frame->num_outputs == 0) return MYDEV_OK;
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  if (frame->buffers[0].dtype == MYDEV_F64) return norm_as<Op, double>(frame);
  return norm_as<Op, float>(frame);
}

constexpr mydev_kernel norm_record(const char* name, mydev_kernel_fn entry) {
  return kernel_record(name, entry, norm_scratch);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.foreach_add_scalar", foreach_entry<AddScalar>),
    kernel_record("mydev.foreach_mul_scalar", foreach_entry<MulScalar>),
    kernel_record("mydev.foreach_div_scalar", foreach_entry<DivScalar>),
    kernel_record("mydev.foreach_add", foreach_entry<AddList>),
    kernel_record("mydev.foreach_mul", foreach_entry<MulList>),
    kernel_record("mydev.foreach_div", foreach_entry<DivList>),
    kernel_record("mydev.foreach_maximum", foreach_entry<Maximum>),
    kernel_record("mydev.foreach_minimum", foreach_entry<Minimum>),
    kernel_record("mydev.foreach_lerp", foreach_entry<Lerp>),
    kernel_record("mydev.foreach_addcmul", foreach_entry<Addcmul>),
    kernel_record("mydev.foreach_addcdiv", foreach_entry<Addcdiv>),
    kernel_record("mydev.foreach_sqrt", foreach_entry<Sqrt>),
    kernel_record("mydev.foreach_neg", foreach_entry<Neg>),
    kernel_record("mydev.foreach_reciprocal", foreach_entry<Reciprocal>),
    kernel_record("mydev.foreach_copy", foreach_entry<Copy>),
    kernel_record("mydev.foreach_fill", foreach_entry<Fill>),
    norm_record("mydev.foreach_norm1", norm_entry<Norm1>),
    norm_record("mydev.foreach_norm2", norm_entry<Norm2>),
    norm_record("mydev.foreach_norm_inf", norm_entry<NormInf>),
};

}  // namespace

std::span<const mydev_kernel> foreach () {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
