// Kernel group copy: element by element between any two layouts and element types.
//
// conj and neg are lazy bits of PyTorch tensors; they change the converted values. Conversions are those of
// element_conversion.h. Threads: split by output elements.
#include <algorithm>
#include <cstring>

#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/element_conversion.h"
#include "host_kernels/isa/simd/simd.h"
#include "host_kernels/isa/simd/strided_runs.h"
#include "host_kernels/isa/simd/transposed_tile.h"
#include "host_kernels/pointwise_block.h"
#include "host_kernels/strided_layout.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kBufferBytes = 4096;
constexpr int64_t kMinRow = 64;  // shorter rows are gathered, several to a buffer
constexpr int kOut = 0, kIn = 1;

// Negates dense values.
template <typename T>
void negate(void* data, int64_t n) {
  T* p = static_cast<T*>(data);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T>) {
      p[i] = static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(p[i]));
    } else {
      p[i] = -p[i];
    }
  }
}
template <>
void negate<BFloat16Bits>(void* data, int64_t n) {
  uint16_t* p = static_cast<uint16_t*>(data);
  for (int64_t i = 0; i < n; ++i) p[i] ^= 0x8000;
}

// Negates the imaginary parts of complex values, and the real ones too.
template <typename T>
void conjugate(void* data, int64_t n) {
  T* p = static_cast<T*>(data);
  for (int64_t i = 0; i < n; ++i) p[2 * i + 1] = -p[2 * i + 1];
}
template <typename T>
void negate_complex(void* data, int64_t n) {
  negate<T>(data, 2 * n);
}
template <typename T>
void negate_conjugate(void* data, int64_t n) {
  T* p = static_cast<T*>(data);
  for (int64_t i = 0; i < n; ++i) p[2 * i] = -p[2 * i];
}

using FlipSigns = void (*)(void* data, int64_t n);

template <typename T>
FlipSigns complex_signs(bool conj, bool neg) {
  if (!neg) return conj ? conjugate<T> : nullptr;
  return conj ? negate_conjugate<T> : negate_complex<T>;
}

// Finds the function that conjugates and negates elements of a type; nullptr: nothing is to be done. False: the type
// has no negatives.
bool find_signs(mydev_dtype dtype, bool conj, bool neg, FlipSigns& signs) {
  signs = nullptr;
  if (dtype == MYDEV_C64) {
    signs = complex_signs<float>(conj, neg);
  } else if (dtype == MYDEV_C128) {
    signs = complex_signs<double>(conj, neg);
  } else if (neg) {
    visit_element_type(dtype, [&]<typename T>() {
      if constexpr (!std::is_same_v<T, Truth>) signs = negate<T>;
    });
    return signs != nullptr;
  }
  return true;
}

struct Plan {
  char* out;
  const char* in;
  int64_t out_size, in_size;  // bytes of an element
  Conversion conversion;
  FlipSigns signs;             // of the converted values; nullptr: as they are
  bool out_direct, in_direct;  // dense along a piece
  bool by_row;
  int64_t chunk;  // elements that fit a buffer
  StridedLayout layout;
  bool same_bytes() const { return conversion.count == 0 && signs == nullptr; }
};

// Converts dense elements, and changes their signs.
class DenseConversion {
 public:
  explicit DenseConversion(const Plan& plan) : plan_(plan) {}

  // n: at most the plan's chunk, unless there is one step. `out` is not `values`.
  void run(char* out, const char* values, int64_t n) {
    const int count = plan_.conversion.count;
    if (count == 0) std::memcpy(out, values, static_cast<size_t>(n * plan_.out_size));
    for (int step = 0; step < count; ++step) {
      char* const target = step + 1 == count ? out : buffers_[step % 2];
      plan_.conversion.steps[step](target, values, n);
      values = target;
    }
    if (plan_.signs != nullptr) plan_.signs(out, n);
  }

 private:
  const Plan& plan_;
  alignas(64) char buffers_[2][kBufferBytes];
};

class Worker {
 public:
  explicit Worker(const Plan& plan) : plan_(plan), conversion_(plan) {}

  void run(int64_t begin, int64_t end) {
    // Between dense runs nothing needs a buffer, nor where one side is dense and has the same bytes.
    const bool unbounded = plan_.out_direct && plan_.in_direct
                               ? plan_.conversion.count <= 1
                               : plan_.same_bytes() && (plan_.out_direct || plan_.in_direct);
    for_each_run(plan_.layout, plan_.by_row, unbounded ? end - begin : plan_.chunk, begin, end,
                 [this](int64_t position, int64_t n) { run_piece(position, n); });
  }

 private:
  void run_piece(int64_t position, int64_t n) {
    const StridedLayout& layout = plan_.layout;
    char* const out = plan_.out_direct ? plan_.out + layout.offset(kOut, position) : nullptr;
    if (plan_.same_bytes()) {
      if (plan_.in_direct) {
        const char* in = plan_.in + layout.offset(kIn, position);
        if (out != nullptr) {
          std::memmove(out, in, static_cast<size_t>(n * plan_.in_size));
        } else {
          scatter(in, layout, kOut, plan_.out, position, n, plan_.out_size);
        }
        return;
      }
      char* const target = out != nullptr ? out : gathered_;
      gather(target, layout, kIn, plan_.in, position, n, plan_.in_size);
      if (out == nullptr) scatter(target, layout, kOut, plan_.out, position, n, plan_.out_size);
      return;
    }
    convert_piece(position, n, out);
  }

  void convert_piece(int64_t position, int64_t n, char* out) {
    const StridedLayout& layout = plan_.layout;
    const char* values = plan_.in + (plan_.in_direct ? layout.offset(kIn, position) : 0);
    if (!plan_.in_direct) {
      gather(gathered_, layout, kIn, plan_.in, position, n, plan_.in_size);
      values = gathered_;
    }
    conversion_.run(out != nullptr ? out : converted_, values, n);
    if (out == nullptr) scatter(converted_, layout, kOut, plan_.out, position, n, plan_.out_size);
  }

  const Plan& plan_;
  DenseConversion conversion_;
  alignas(64) char gathered_[kBufferBytes];
  alignas(64) char converted_[kBufferBytes];
};

// --- rows ------------------------------------------------------------------------------------------------------------

constexpr int64_t kShortestRow = 16;  // bytes; shorter ones are gathered

// Copies bytes >= kShortestRow from one place to another, which may be the same.
inline void copy_row(char* to, const char* from, int64_t bytes) {
  using Bytes16 = detail::VectorType<char, 16>::type;
  constexpr int64_t n = static_cast<int64_t>(kVectorBytes);
  constexpr int64_t kLongest = 1024;  // from which the C library's copy is faster
  if (bytes > kLongest) {
    std::memmove(to, from, static_cast<size_t>(bytes));
    return;
  }
  const auto run = [=]<typename V>(V) {
    constexpr int64_t size = sizeof(V);
    V v;
    for (int64_t i = 0; i + size <= bytes; i += size) {
      std::memcpy(&v, from + i, sizeof(v));
      std::memcpy(to + i, &v, sizeof(v));
    }
    std::memcpy(&v, from + bytes - size, sizeof(v));  // the rest, and some once more
    std::memcpy(to + bytes - size, &v, sizeof(v));
  };
  if (bytes >= n) {
    run(Vec<char>{});
  } else {
    run(Bytes16{});
  }
}

bool copies_rows(const Plan& plan) {
  const StridedLayout& layout = plan.layout;
  return plan.same_bytes() && layout.rank > 1 && layout.strides[kOut][0] == plan.out_size &&
         layout.strides[kIn][0] == plan.in_size && layout.sizes[0] * plan.in_size >= kShortestRow;
}

// Both sides are dense along dimension 0: a row is one copy, and places are reached by steps, not by division.
void copy_rows(const Plan& plan) {
  const StridedLayout& layout = plan.layout;
  const int64_t length = layout.sizes[0], bytes = length * plan.in_size;
  parallel_for(layout.count / length, std::max<int64_t>(kGrainCheap / length, 1), [&](int64_t begin, int64_t end) {
    int64_t index[kMaxLoopRank];
    char* out = plan.out;
    const char* in = plan.in;
    for (int64_t d = 1, rest = begin; d < layout.rank; ++d) {
      index[d] = rest % layout.sizes[d];
      rest /= layout.sizes[d];
      out += index[d] * layout.strides[kOut][d];
      in += index[d] * layout.strides[kIn][d];
    }
    for (int64_t row = begin; row < end; ++row) {
      copy_row(out, in, bytes);
      for (int d = 1; d < layout.rank; ++d) {
        out += layout.strides[kOut][d];
        in += layout.strides[kIn][d];
        if (++index[d] < layout.sizes[d]) break;
        out -= index[d] * layout.strides[kOut][d];
        in -= index[d] * layout.strides[kIn][d];
        index[d] = 0;
      }
    }
  });
}

// --- transposition -------------------------------------------------------------------------------------------------
//
// The output runs along dimension 0, the input along another: tiles, so that both sides use whole cache lines.

constexpr int64_t kMaxInterleaved = 4;

// out[r][c] = in[c][r] for few columns, as of channels: rows of out are dense.
template <int64_t kColumns, typename T>
void interleave(char* out, const char* in, int64_t in_row, int64_t rows) {
  T* const values = reinterpret_cast<T*>(out);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      values[r * kColumns + c] = reinterpret_cast<const T*>(in + c * in_row)[r];
    }
  }
}

template <typename T>
void interleave(char* out, const char* in, int64_t in_row, int64_t rows, int64_t columns) {
  switch (columns) {
    case 2:
      return interleave<2, T>(out, in, in_row, rows);
    case 3:
      return interleave<3, T>(out, in, in_row, rows);
    default:
      return interleave<4, T>(out, in, in_row, rows);
  }
}

// out[r][c] = in[c][r]: rows of out are `out_row` bytes apart, rows of in `in_row`. Through a dense tile, so that both
// sides are touched in whole lines, whatever their strides do to the cache's sets. T has the bytes of in's elements.
template <typename T>
void transpose_tile(char* out, int64_t out_row, const char* in, int64_t in_row, int64_t rows, int64_t columns,
                    DenseConversion& conversion) {
  alignas(64) T tile[kTile<T>][kTile<T>];
  transpose_into(&tile[0][0], kTile<T>, in, in_row, rows, columns);
  for (int64_t r = 0; r < rows; ++r) {
    conversion.run(out + r * out_row, reinterpret_cast<const char*>(tile[r]), columns);
  }
}

// Whether a transposition along dimension d has few columns, side by side.
bool interleaves(const Plan& plan, int d) {
  const int64_t columns = plan.layout.sizes[0];
  return columns <= kMaxInterleaved && plan.layout.strides[kOut][d] == columns * plan.out_size && plan.same_bytes();
}

// The dimension along which the input runs; 0 if the copy is no transposition.
int transposed_dimension(const Plan& plan) {
  const StridedLayout& layout = plan.layout;
  if (layout.strides[kOut][0] != plan.out_size || layout.strides[kIn][0] == plan.in_size || plan.in_size > 8) return 0;
  for (int d = 1; d < layout.rank; ++d) {
    if (layout.strides[kIn][d] != plan.in_size || layout.sizes[d] < 8) continue;
    return layout.sizes[0] >= 8 || interleaves(plan, d) ? d : 0;
  }
  return 0;
}

template <typename T>
void transpose(const Plan& plan, int d) {
  const StridedLayout& layout = plan.layout;
  const int64_t columns = layout.sizes[0], rows = layout.sizes[d];
  const int64_t column_tiles = (columns + kTile<T> - 1) / kTile<T>, row_tiles = (rows + kTile<T> - 1) / kTile<T>;
  const int64_t tiles = layout.count / (columns * rows) * column_tiles * row_tiles;
  const bool few_columns = interleaves(plan, d);
  parallel_for(tiles, kGrainCheap / (kTile<T> * kTile<T>), [&, d](int64_t begin, int64_t end) {
    DenseConversion conversion(plan);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t column = t % column_tiles * kTile<T>;
      int64_t rest = t / column_tiles;
      const int64_t row = rest % row_tiles * kTile<T>;
      rest /= row_tiles;
      char* out = plan.out + column * layout.strides[kOut][0] + row * layout.strides[kOut][d];
      const char* in = plan.in + column * layout.strides[kIn][0] + row * layout.strides[kIn][d];
      for (int other = 1; other < layout.rank; ++other) {
        if (other == d) continue;
        const int64_t index = rest % layout.sizes[other];
        rest /= layout.sizes[other];
        out += index * layout.strides[kOut][other];
        in += index * layout.strides[kIn][other];
      }
      const int64_t tile_rows = std::min(kTile<T>, rows - row), tile_columns = std::min(kTile<T>, columns - column);
      if (few_columns) {
        interleave<T>(out, in, layout.strides[kIn][0], tile_rows, tile_columns);
      } else {
        transpose_tile<T>(out, layout.strides[kOut][d], in, layout.strides[kIn][0], tile_rows, tile_columns,
                          conversion);
      }
    }
  });
}

mydev_code fail(const mydev_frame* frame, mydev_code code, const char* message) {
  frame->host->set_error(frame, message);
  return code;
}

bool flag(const mydev_frame* frame, uint32_t index) {
  return index < frame->num_attributes && frame->attributes[index].value.i != 0;
}

mydev_code copy_entry(const mydev_frame* frame) {
  if (frame->num_outputs != 1 || frame->num_inputs != 1) {
    return fail(frame, MYDEV_INVALID_ARGUMENT, "wrong number of operands");
  }
  const mydev_buffer& out = frame->buffers[kOut];
  const mydev_buffer& in = frame->buffers[kIn];
  Plan plan;
  if (!make_layout(frame->buffers, 2, plan.layout)) {
    return fail(frame, MYDEV_INVALID_ARGUMENT, "the operands must have one shape, of at most 64 dimensions");
  }
  if (plan.layout.count == 0) return MYDEV_OK;
  plan.out = static_cast<char*>(out.data);
  plan.in = static_cast<const char*>(in.data);
  plan.out_size = dtype_row(out.dtype).size;
  plan.in_size = dtype_row(in.dtype).size;
  plan.conversion = find_conversion(static_cast<mydev_dtype>(in.dtype), static_cast<mydev_dtype>(out.dtype));
  if (plan.conversion.count < 0 || plan.in_size == 0) {
    return fail(frame, MYDEV_UNIMPLEMENTED, "no conversion between these dtypes");
  }
  if (!find_signs(static_cast<mydev_dtype>(out.dtype), flag(frame, 0), flag(frame, 1), plan.signs)) {
    return fail(frame, MYDEV_UNIMPLEMENTED, "elements of this dtype cannot be negated");
  }
  plan.by_row = plan.layout.rank == 1 || plan.layout.sizes[0] >= kMinRow;
  const auto direct = [&](int k, int64_t size) {
    return plan.by_row ? plan.layout.strides[k][0] == size : plan.layout.dense(k, size);
  };
  plan.out_direct = direct(kOut, plan.out_size);
  plan.in_direct = direct(kIn, plan.in_size);
  plan.chunk = kBufferBytes / 16;
  if (const int d = transposed_dimension(plan); d != 0) {
    switch (plan.in_size) {
      case 1:
        transpose<uint8_t>(plan, d);
        break;
      case 2:
        transpose<uint16_t>(plan, d);
        break;
      case 4:
        transpose<uint32_t>(plan, d);
        break;
      default:
        transpose<uint64_t>(plan, d);
        break;
    }
    return MYDEV_OK;
  }
  if (copies_rows(plan)) {
    copy_rows(plan);
    return MYDEV_OK;
  }
  parallel_for(plan.layout.count, kGrainCheap, [&](int64_t begin, int64_t end) { Worker(plan).run(begin, end); });
  return MYDEV_OK;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.copy", copy_entry),
};

}  // namespace

ValueConversion find_value_conversion(mydev_dtype from, mydev_dtype to) {
  const Conversion found = find_conversion(from, to);
  ValueConversion conversion{{}, {}, found.count};
  std::copy_n(found.steps, std::max(found.count, 0), conversion.steps);
  std::copy_n(found.sizes, std::max(found.count, 0), conversion.sizes);
  return conversion;
}

std::span<const mydev_kernel> copy() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
