// Kernel group reduction: sums, products, extrema, truths and norms along some dimensions.
//
// Precision: floating elements go through float (f16, bf16, f32) or double lanes, which are emptied into doubles after
// at most kFlush additions; integers are exact in 64 bits. The compute type follows the output's dtype. Results do not
// depend on the number of threads.
#include <algorithm>
#include <array>
#include <type_traits>
#include <utility>

#include "host_kernels/isa/reduction/reduction_operations.h"
#include "host_kernels/isa/reduction/reduction_plan.h"
#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/half_values.h"
#include "host_kernels/row_reduction.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kFlush = 64;  // additions per lane before a lane is emptied into the wide type
constexpr int64_t kStoreBlock = 256;
constexpr int64_t kRowsAtOnce = 4;

// --- the walk --------------------------------------------------------------------------------------------------------

template <typename Op>
inline constexpr auto kCombine = [](auto a, auto b) { return Op::combine(a, b); };

// The lanes of a vector in the wide type, combined.
template <typename Op, typename W>
W empty_lanes(F32 v)
  requires std::is_same_v<W, double>
{
  return across_lanes<double>(Op::combine(widen_low(v), widen_high(v)), kCombine<Op>);
}
template <typename Op, typename W>
W empty_lanes(Vec<W> v) {
  return across_lanes<W>(v, kCombine<Op>);
}

// Elements of T as a vector of A: T is A, or a half type of A's values.
template <typename A, typename T>
Vec<A> load_lanes(const T* x) {
  if constexpr (std::is_same_v<A, T>) {
    return load(x);
  } else {
    return load_values(x);
  }
}
template <typename A, typename T>
Vec<A> load_partial_lanes(const T* x, int64_t count, Vec<A> others) {
  if constexpr (std::is_same_v<A, T>) {
    return load_partial(x, count, others);
  } else {
    A values[kLanes<A>];
    store(values, others);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<A>(x[i]);
    return load(values);
  }
}

template <typename Op, typename A, typename W, typename T = A>
[[gnu::always_inline]] inline W reduce_dense(const T* x, int64_t count) {
  constexpr int64_t n = kLanes<A>;
  if constexpr (Op::kChoice != Choice::kNone && std::is_floating_point_v<A>) {
    constexpr bool kLargest = Op::kChoice == Choice::kLargest;
    return extremum_of<kLargest>(x, count, Op::template identity<A>(), [](auto v) { return Op::map(v); });
  }
  const Vec<A> start = splat(Op::template identity<A>());
  if (count < 4 * n) {
    Vec<A> lanes = start;
    int64_t i = 0;
    for (; i + n <= count; i += n) lanes = Op::combine(lanes, Op::map(load_lanes<A>(x + i)));
    // map leaves the identity as it is, in every operation.
    if (i < count) lanes = Op::combine(lanes, Op::map(load_partial_lanes<A>(x + i, count - i, start)));
    return empty_lanes<Op, W>(lanes);
  }
  W result = Op::template identity<W>();
  int64_t i = 0;
  while (i < count) {
    Vec<A> a = start, b = start, c = start, d = start;
    const int64_t steps = std::min(kFlush, (count - i) / (4 * n));
    for (int64_t step = 0; step < steps; ++step, i += 4 * n) {
      a = Op::combine(a, Op::map(load_lanes<A>(x + i)));
      b = Op::combine(b, Op::map(load_lanes<A>(x + i + n)));
      c = Op::combine(c, Op::map(load_lanes<A>(x + i + 2 * n)));
      d = Op::combine(d, Op::map(load_lanes<A>(x + i + 3 * n)));
    }
    if (count - i < 4 * n) {
      for (; i + n <= count; i += n) a = Op::combine(a, Op::map(load_lanes<A>(x + i)));
      if (i < count) b = Op::combine(b, Op::map(load_partial_lanes<A>(x + i, count - i, start)));
      i = count;
    }
    const W lanes = empty_lanes<Op, W>(Op::combine(Op::combine(a, b), Op::combine(c, d)));
    result = static_cast<W>(Op::combine(result, lanes));
  }
  return result;
}

// Elements are read as Read, which is A or has its representation.
template <typename Op, typename A, typename W, typename Read>
class Reduction {
 public:
  Reduction(const mydev_frame* frame, const ReductionPlan& plan, const ChunkReader<Read>& reader,
            const ChunkWriter<W>& writer)
      : plan_(plan),
        dtype_(frame->buffers[1].dtype),
        reader_(reader),
        writer_(writer),
        in_(static_cast<const char*>(frame->buffers[1].data)),
        out_(static_cast<char*>(frame->buffers[0].data)),
        partial_(static_cast<W*>(frame->scratch)) {}

  void run() {
    if (plan_.pieces > 1) {
      const int64_t length = plan_.reduced[plan_.split].size;
      parallel_for(plan_.pieces, 1, [&](int64_t begin, int64_t end) {
        for (int64_t piece = begin; piece < end; ++piece) {
          run_piece(partial_ + piece * plan_.outputs, length * piece / plan_.pieces,
                    length * (piece + 1) / plan_.pieces);
        }
      });
      combine_pieces();
      return;
    }
    run_piece(nullptr, 0, plan_.reduced_rank > 0 ? plan_.reduced[plan_.split].size : 0);
  }

 private:
  // Reduces positions [begin, end) of the split dimension; into `partial`, or finished into the output if it is null.
  void run_piece(W* partial, int64_t begin, int64_t end) {
    ReductionPlan piece = plan_;
    if (piece.reduced_rank > 0) piece.reduced[piece.split].size = end - begin;
    const char* in = in_;
    if (piece.reduced_rank > 0) in += begin * piece.reduced[piece.split].in * reader_.element_bytes();
    const int64_t columns = piece.vertical ? piece.outer[0].size : 1;
    const int64_t blocks = (columns + kColumnBlock - 1) / kColumnBlock;
    const int64_t tasks = piece.outputs / columns * blocks;
    const int64_t per_task = std::min(columns, kColumnBlock) * std::max<int64_t>(piece.count, 1);
    const int64_t grain = partial != nullptr ? tasks : std::max<int64_t>(kReductionTask / per_task, 1);
    parallel_for(tasks, grain, [&](int64_t first, int64_t last) {
      if (piece.vertical) {
        for (int64_t task = first; task < last; ++task) {
          const int64_t column = task % blocks * kColumnBlock;
          reduce_columns(piece, in, task / blocks, column, std::min(columns - column, kColumnBlock), partial);
        }
      } else {
        reduce_outputs(piece, in, first, last, partial);
      }
    });
  }

  void reduce_outputs(const ReductionPlan& plan, const char* in, int64_t first, int64_t last, W* partial) {
    if (plan.outer_rank == 1 && plan.reduced_rank == 1 && reader_.direct(plan.reduced[0].in)) {
      // Rows at equal distances, as short as a window's: no odometer.
      const int64_t step = plan.outer[0].in, count = plan.reduced[0].size;
      const A* x = reinterpret_cast<const A*>(in);
      store_outputs(first, last, partial,
                    [=](int64_t output) { return reduce_dense<Op, A, W>(x + output * step, count); });
      return;
    }
    Odometer outer(plan.outer, plan.outer_rank, 0);
    outer.seek(first);
    store_outputs(first, last, partial, [&](int64_t) {
      const W value = reduce_one(plan, in + outer.in() * reader_.element_bytes());
      outer.next();
      return value;
    });
  }

  // Stores value(output) for the outputs [first, last), in this order: as it is into `partial`, or else finished.
  template <typename Value>
  void store_outputs(int64_t first, int64_t last, W* partial, const Value& value) {
    if (partial != nullptr) {
      for (int64_t output = first; output < last; ++output) partial[output] = value(output);
      return;
    }
    alignas(64) W block[kStoreBlock];
    const PlanDimension inner = plan_.outer_rank > 0 ? plan_.outer[0] : PlanDimension{1, 0, 1};
    Odometer outer(plan_.outer, plan_.outer_rank, 1);
    for (int64_t output = first; output < last;) {
      const int64_t column = output % inner.size;
      const int64_t n = std::min({kStoreBlock, inner.size - column, last - output});
      outer.seek(output / inner.size);
      for (int64_t i = 0; i < n; ++i) block[i] = value(output + i);
      for (int64_t i = 0; i < n; ++i) block[i] = Op::template finish<W>(block[i], plan_.count);
      writer_.write(block, out_ + (outer.out() + column * inner.out) * writer_.element_bytes(), inner.out, n);
      output += n;
    }
  }

  W reduce_one(const ReductionPlan& plan, const char* in) {
    W result = Op::template identity<W>();
    if (plan.count == 0) return result;
    if (plan.reduced_rank == 0) return combine_run(result, in, 0, 1);
    if (plan.reduced_rank == 1) return combine_run(result, in, plan.reduced[0].in, plan.reduced[0].size);
    Odometer reduced(plan.reduced, plan.reduced_rank, 1);
    int64_t runs = 1;
    for (int i = 1; i < plan.reduced_rank; ++i) runs *= plan.reduced[i].size;
    for (int64_t run = 0; run < runs; ++run, reduced.next()) {
      result =
          combine_run(result, in + reduced.in() * reader_.element_bytes(), plan.reduced[0].in, plan.reduced[0].size);
    }
    return result;
  }

  W combine_run(W result, const char* in, int64_t stride, int64_t count) {
    if (reader_.direct(stride)) {
      return static_cast<W>(Op::combine(result, reduce_dense<Op, A, W>(reinterpret_cast<const A*>(in), count)));
    }
    if constexpr (std::is_same_v<Read, float> && Op::kChoice == Choice::kNone) {
      if (stride == 1 && dtype_ == MYDEV_F16) {
        return Op::combine(result, reduce_dense<Op, A, W>(reinterpret_cast<const _Float16*>(in), count));
      }
      if (stride == 1 && dtype_ == MYDEV_BF16) {
        return Op::combine(result, reduce_dense<Op, A, W>(reinterpret_cast<const BFloat16Bits*>(in), count));
      }
    }
    alignas(64) Read buffer[kChunk];
    for (int64_t i = 0; i < count; i += kChunk) {
      const int64_t length = std::min(kChunk, count - i);
      const A* x = read(in + i * stride * reader_.element_bytes(), stride, length, buffer);
      result = static_cast<W>(Op::combine(result, reduce_dense<Op, A, W>(x, length)));
    }
    return result;
  }

  void reduce_columns(const ReductionPlan& plan, const char* in, int64_t group, int64_t column, int64_t columns,
                      W* partial) {
    alignas(64) A lanes[kColumnBlock];
    alignas(64) W results[kColumnBlock];
    alignas(64) Read buffer[kRowsAtOnce * kColumnBlock];
    Odometer outer(plan.outer, plan.outer_rank, 1);
    outer.seek(group);
    const int64_t stride = plan.outer[0].in;
    in += (outer.in() + column * stride) * reader_.element_bytes();
    for (int64_t j = 0; j < columns; ++j) results[j] = Op::template identity<W>();
    Odometer row(plan.reduced, plan.reduced_rank, 0);
    int64_t rows = 1;
    for (int i = 0; i < plan.reduced_rank; ++i) rows *= plan.reduced[i].size;
    constexpr bool kIsExact = Op::kChoice != Choice::kNone;  // in lanes, however many there are
    for (int64_t begin = 0, end = 0; begin < rows; begin = end) {
      end = kIsExact ? rows : std::min(rows, begin + kFlush);
      for (int64_t j = 0; j < columns; ++j) lanes[j] = Op::template identity<A>();
      const auto combine_all = [&](const auto& row_at) {
        int64_t r = begin;
        for (; r + kRowsAtOnce <= end; r += kRowsAtOnce) {
          decltype(row_at(nullptr, 0)) x[kRowsAtOnce];
          for (int64_t i = 0; i < kRowsAtOnce; ++i, row.next()) {
            x[i] = row_at(in + row.in() * reader_.element_bytes(), i);
          }
          combine_rows(x[0], x[1], x[2], x[3], lanes, columns);
        }
        for (; r < end; ++r, row.next()) {
          combine_row(row_at(in + row.in() * reader_.element_bytes(), 0), lanes, columns);
        }
      };
      if (!combine_halves(combine_all, stride)) {
        combine_all([&](const char* at, int64_t i) { return read(at, stride, columns, buffer + i * kColumnBlock); });
      }
      for (int64_t j = 0; j < columns; ++j) {
        results[j] = static_cast<W>(Op::combine(results[j], static_cast<W>(lanes[j])));
      }
    }
    if (partial != nullptr) {
      std::memcpy(partial + group * plan.outer[0].size + column, results, static_cast<size_t>(columns) * sizeof(W));
      return;
    }
    for (int64_t j = 0; j < columns; ++j) results[j] = Op::template finish<W>(results[j], plan_.count);
    const int64_t offset = outer.out() + column * plan.outer[0].out;
    writer_.write(results, out_ + offset * writer_.element_bytes(), plan.outer[0].out, columns);
  }

  // Returns whether all rows were combined: of dense elements of a half type, which are read as they lie.
  template <typename CombineAll>
  bool combine_halves(const CombineAll& combine_all, int64_t stride) const {
    if constexpr (std::is_same_v<Read, float>) {
      if (stride != 1) return false;
      if (dtype_ == MYDEV_F16) {
        combine_all([](const char* at, int64_t /*i*/) { return reinterpret_cast<const _Float16*>(at); });
        return true;
      }
      if (dtype_ == MYDEV_BF16) {
        combine_all([](const char* at, int64_t /*i*/) { return reinterpret_cast<const BFloat16Bits*>(at); });
        return true;
      }
    }
    return false;
  }

  template <typename T>
  static void combine_row(const T* x, A* lanes, int64_t columns) {
    int64_t j = 0;
    for (; j + kLanes<A> <= columns; j += kLanes<A>) {
      store(lanes + j, Op::combine(load(lanes + j), Op::map(load_lanes<A>(x + j))));
    }
    for (; j < columns; ++j) lanes[j] = static_cast<A>(Op::combine(lanes[j], Op::map(static_cast<A>(x[j]))));
  }

  // Four rows at once: the lanes are loaded and stored once for them.
  template <typename T>
  static void combine_rows(const T* a, const T* b, const T* c, const T* d, A* lanes, int64_t columns) {
    const auto combined = [](auto lane, auto a, auto b, auto c, auto d) {
      const auto first = Op::combine(Op::map(a), Op::map(b)), second = Op::combine(Op::map(c), Op::map(d));
      return Op::combine(lane, Op::combine(first, second));
    };
    int64_t j = 0;
    for (; j + kLanes<A> <= columns; j += kLanes<A>) {
      store(lanes + j, combined(load(lanes + j), load_lanes<A>(a + j), load_lanes<A>(b + j), load_lanes<A>(c + j),
                                load_lanes<A>(d + j)));
    }
    for (; j < columns; ++j) {
      lanes[j] = static_cast<A>(
          combined(lanes[j], static_cast<A>(a[j]), static_cast<A>(b[j]), static_cast<A>(c[j]), static_cast<A>(d[j])));
    }
  }

  void combine_pieces() {
    for (int64_t piece = 1; piece < plan_.pieces; ++piece) {
      const W* __restrict from = partial_ + piece * plan_.outputs;
      for (int64_t output = 0; output < plan_.outputs; ++output) {
        partial_[output] = static_cast<W>(Op::combine(partial_[output], from[output]));
      }
    }
    store_outputs(0, plan_.outputs, nullptr, [this](int64_t output) { return partial_[output]; });
  }

  const A* read(const char* in, int64_t stride, int64_t count, Read* buffer) {
    return reinterpret_cast<const A*>(reader_.read(in, stride, count, buffer));
  }

  const ReductionPlan& plan_;
  const int32_t dtype_;  // of the elements
  const ChunkReader<Read>& reader_;
  const ChunkWriter<W>& writer_;
  const char* in_;
  char* out_;
  W* partial_;
};

template <typename Op, typename T, typename W>
void reduce_rows(char* out, int64_t out_bytes, const char* in, int64_t in_bytes, int64_t rows, int64_t length) {
  for (int64_t row = 0; row < rows; ++row, out += out_bytes, in += in_bytes) {
    const W value = reduce_dense<Op, T, W>(reinterpret_cast<const T*>(in), length);
    *reinterpret_cast<T*>(out) = static_cast<T>(Op::template finish<W>(value, length));
  }
}

template <typename Op, typename A, typename W, typename Read = A>
mydev_code reduce_as(const mydev_frame* frame) {
  ReductionPlan plan;
  if (!make_reduction_plan(frame->buffers[0], frame->buffers[1], plan)) return MYDEV_UNIMPLEMENTED;
  if (plan.outputs == 0) return MYDEV_OK;
  const ChunkReader<Read> reader(frame->buffers[1].dtype);
  const ChunkWriter<W> writer(frame->buffers[0].dtype);
  if (!reader.supported() || !writer.supported()) return MYDEV_UNIMPLEMENTED;
  Reduction<Op, A, W, Read>(frame, plan, reader, writer).run();
  return MYDEV_OK;
}

template <typename Op>
mydev_code reduce_numbers(const mydev_frame* frame) {
  switch (frame->buffers[0].dtype) {
    case MYDEV_F16:
    case MYDEV_BF16:
    case MYDEV_F32:
      return reduce_as<Op, float, double>(frame);
    case MYDEV_F64:
      return reduce_as<Op, double, double>(frame);
    default:
      return reduce_as<Op, int64_t, int64_t>(frame);
  }
}

template <typename Op>
mydev_code reduce_into_numbers(const mydev_frame* frame) {
  return frame->buffers[0].dtype == MYDEV_PRED ? MYDEV_UNIMPLEMENTED : reduce_numbers<Op>(frame);
}

template <typename Op>
mydev_code reduce_same_dtype(const mydev_frame* frame) {
  const int32_t dtype = frame->buffers[0].dtype;
  if (dtype != frame->buffers[1].dtype) return MYDEV_UNIMPLEMENTED;
  if (dtype == MYDEV_U8) return reduce_as<Op, uint8_t, uint8_t>(frame);
  if (dtype == MYDEV_S32) return reduce_as<Op, int32_t, int32_t>(frame);
  return reduce_numbers<Op>(frame);
}

template <typename Op>
mydev_code reduce_floats(const mydev_frame* frame) {
  if (!is_floating(frame->buffers[0].dtype)) return MYDEV_UNIMPLEMENTED;
  if (frame->buffers[0].dtype == MYDEV_F64) return reduce_as<Op, double, double>(frame);
  return reduce_as<Op, float, double>(frame);
}

template <typename Op>
mydev_code reduce_truths(const mydev_frame* frame) {
  if (frame->buffers[0].dtype != MYDEV_PRED && frame->buffers[0].dtype != MYDEV_U8) return MYDEV_UNIMPLEMENTED;
  return reduce_as<Op, uint8_t, uint8_t, Truth>(frame);
}

uint64_t partial_bytes(const mydev_frame* frame) {
  ReductionPlan plan;
  if (!make_reduction_plan(frame->buffers[0], frame->buffers[1], plan) || plan.pieces == 1) return 0;
  return static_cast<uint64_t>(plan.pieces * plan.outputs) * sizeof(double);
}

// How rows of the dtype are reduced, by what the operation takes: floats, numbers or truths.
template <typename Op>
RowReduction rows_of_floats(int32_t dtype) {
  constexpr RowReduction::Total kTotal = std::is_same_v<Op, Sum>    ? RowReduction::kSum
                                         : std::is_same_v<Op, Mean> ? RowReduction::kMean
                                                                    : RowReduction::kOther;
  if (dtype == MYDEV_F32) return {reduce_rows<Op, float, double>, kTotal};
  if (dtype == MYDEV_F64) return {reduce_rows<Op, double, double>, RowReduction::kOther};
  return {};
}
template <typename Op>
RowReduction rows_of_numbers(int32_t dtype) {
  if (dtype == MYDEV_S64) return {reduce_rows<Op, int64_t, int64_t>, RowReduction::kOther};
  return rows_of_floats<Op>(dtype);
}
template <typename Op>
RowReduction rows_of_truths(int32_t dtype) {
  if (dtype == MYDEV_PRED) return {reduce_rows<Op, uint8_t, uint8_t>, RowReduction::kOther};
  return {};
}

struct ReductionKernel {
  const char* name;
  mydev_kernel_fn entry;
  RowReduction (*rows)(int32_t dtype);
};

constexpr ReductionKernel kKernels[] = {
    {"mydev.sum", reduce_into_numbers<Sum>, rows_of_numbers<Sum>},
    {"mydev.mean", reduce_floats<Mean>, rows_of_floats<Mean>},
    {"mydev.prod", reduce_into_numbers<Prod>, rows_of_numbers<Prod>},
    {"mydev.amax", reduce_same_dtype<Amax>, rows_of_numbers<Amax>},
    {"mydev.amin", reduce_same_dtype<Amin>, rows_of_numbers<Amin>},
    {"mydev.any", reduce_truths<Any>, rows_of_truths<Any>},
    {"mydev.all", reduce_truths<All>, rows_of_truths<All>},
    {"mydev.norm1", reduce_floats<Norm1>, rows_of_floats<Norm1>},
    {"mydev.norm2", reduce_floats<Norm2>, rows_of_floats<Norm2>},
    {"mydev.norm_inf", reduce_floats<NormInf>, rows_of_floats<NormInf>},
};

template <size_t... i>
constexpr std::array<mydev_kernel, sizeof...(i)> reduction_records(std::index_sequence<i...>) {
  return {{kernel_record(kKernels[i].name, kKernels[i].entry, partial_bytes)...}};
}
constexpr auto kRecords = reduction_records(std::make_index_sequence<std::size(kKernels)>());

}  // namespace

std::span<const mydev_kernel> reduction() {
  return kRecords;
}

RowReduction find_row_reduction(const char* kernel, int32_t dtype) {
  for (const ReductionKernel& row : kKernels) {
    if (__builtin_strcmp(row.name, kernel) == 0) return row.rows(dtype);
  }
  return {};
}

}  // namespace mydev::kernels::MYDEV_ISA
