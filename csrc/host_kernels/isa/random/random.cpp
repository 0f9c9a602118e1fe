// Kernel group random: fills from Philox 4x32-10, and dropout.
//
// Element i takes its words from a block that i alone determines, counted from `offset` (in blocks), and its value from
// operations that are exact or correctly rounded: the numbers do not depend on threads, instruction set or C library.
// So this file is compiled without contraction (CMakeLists.txt) and uses neither fma nor vector_math.h. Blocks used:
// f64 and 64-bit integers kWide elements a block, all else kNarrow; a caller advances its offset by random_blocks().
// f16 and bf16 are drawn as float and rounded.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "host_kernels/isa/random/philox_words.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/simd.h"
#include "host_kernels/isa/simd/tensor_list.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/uniform_range.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kNarrow = 4, kWide = 2;      // elements per block
constexpr int64_t kBlocks = kChunk / kNarrow;  // of a chunk of narrow elements

inline uint64_t joined(const uint32_t* words, int64_t i) {
  return uint64_t{words[2 * i]} << 32 | words[2 * i + 1];
}

struct Source {
  uint64_t seed, offset;
};

// Returns the seed and the offset of the first two attributes. If the frame has a state after `operands` operands, its
// seed is used, and the offset counts blocks from the state: a repeated launch then draws from where its device's
// memory says. Returns nothing if the operand is no state.
std::optional<Source> source_of(const mydev_frame& frame, uint32_t operands) {
  Source source{static_cast<uint64_t>(frame.attributes[0].value.i), static_cast<uint64_t>(frame.attributes[1].value.i)};
  if (frame.num_inputs > operands) {
    const mydev_buffer& state = frame.buffers[frame.num_outputs + operands];
    if (state.dtype != MYDEV_S64 || state.rank != 1 || state.sizes[0] != 2) return std::nullopt;
    const auto* numbers = static_cast<const uint64_t*>(state.data);
    source = {numbers[0], numbers[state.strides[0]] + source.offset};
  }
  return source;
}

// Calls body(words, at, n) for chunks of the elements [0, count), kPerBlock to a block; n <= kBlocks * kPerBlock.
template <int64_t kPerBlock, typename Body>
void for_each_chunk(const Source& source, int64_t count, const Body& body) {
  constexpr int64_t kElements = kBlocks * kPerBlock;
  const int64_t chunks = (count + kElements - 1) / kElements;
  parallel_for(chunks, kGrainHeavy / kElements, [&](int64_t first, int64_t last) {
    alignas(64) uint32_t words[kBlocks * 4];
    for (int64_t chunk = first; chunk < last; ++chunk) {
      philox_words(source.seed, source.offset + static_cast<uint64_t>(chunk * kBlocks), kBlocks, words);
      body(words, chunk * kElements, std::min(kElements, count - chunk * kElements));
    }
  });
}

// --- elementary functions ------------------------------------------------------------------------------------------

template <typename V>
V horner(V, V last) {
  return last;
}
// c0 + c1 x + c2 x^2 + ...
template <typename V, typename... Rest>
V horner(V x, V first, Rest... rest) {
  return horner(x, rest...) * x + first;
}
template <typename... T>
F32 polynomial_of(F32 x, T... coefficients) {
  return horner(x, splat(static_cast<float>(coefficients))...);
}
template <typename... T>
F64 polynomial_of(F64 x, T... coefficients) {
  return horner(x, splat(static_cast<double>(coefficients))...);
}

// -log(u), for normal u in (0, 1].
inline F32 negative_log(F32 u) {
  constexpr int32_t kSqrtHalf = 0x3f3504f3;
  const I32 exponent = (bits(u) - kSqrtHalf) >> 23;
  const F32 n = __builtin_convertvector(exponent, F32);
  const F32 f = from_bits(bits(u) - (exponent << 23)) - 1.0f;  // in [sqrt(1/2) - 1, sqrt(2) - 1)
  const F32 z = f * f;
  const F32 p = polynomial_of(f, 0.3333333124f, -0.2499998102f, 0.2000069285f, -0.166691679f, 0.1425098812f,
                              -0.123962282f, 0.1163605849f, -0.1166381564f, 0.07333003112f);
  const F32 low = n * 1.42860677e-6f + (f * z * p - z * 0.5f);
  return -(n * 0.693145752f + (f + low));  // the first product is exact
}
inline F64 negative_log(F64 u) {
  constexpr int64_t kSqrtHalf = 0x3fe6a09e667f3bcd;
  const I64 exponent = (bits(u) - kSqrtHalf) >> 52;
  const F64 n = __builtin_convertvector(exponent, F64);
  const F64 f = from_bits(bits(u) - (exponent << 52)) - 1.0;
  const F64 s = f / (f + 2.0);
  const F64 z = s * s;
  const F64 p = polynomial_of(z, 2.0 / 3, 2.0 / 5, 2.0 / 7, 2.0 / 9, 2.0 / 11, 2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19,
                              2.0 / 21, 2.0 / 23);
  return -(n * 0.69314718055994531 + (s * z * p + s * 2.0));
}

// For |r| <= pi / 4.
inline F32 sin_near_zero(F32 r) {
  const F32 z = r * r;
  return r * z * polynomial_of(z, -0.1666666666f, 0.008333331868f, -0.0001984008272f, 2.724939015e-6f) + r;
}
inline F32 cos_near_zero(F32 r) {
  const F32 z = r * r;
  return z * z * polynomial_of(z, 0.04166666666f, -0.001388888767f, 2.480059694e-5f, -2.730050299e-7f) -
         (z * 0.5f - 1.0f);
}
inline F64 sin_near_zero(F64 r) {  // Taylor
  const F64 z = r * r;
  return r * z *
             polynomial_of(z, -1.0 / 6, 1.0 / 120, -1.0 / 5040, 1.0 / 362880, -1.0 / 39916800, 1.0 / 6227020800,
                           -1.0 / 1307674368000, 1.0 / 355687428096000) +
         r;
}
inline F64 cos_near_zero(F64 r) {
  const F64 z = r * r;
  return z * z *
             polynomial_of(z, 1.0 / 24, -1.0 / 720, 1.0 / 40320, -1.0 / 3628800, 1.0 / 479001600, -1.0 / 87178291200,
                           1.0 / 20922789888000, -1.0 / 6402373705728000) -
         (z * 0.5 - 1.0);
}

// --- distributions: n values from words; a and b are the frame's parameters ----------------------------------------

// The bits that a compute type takes from the words: kBits for each value, in the order of the words.
template <typename C>
struct Draw;
template <>
struct Draw<float> {
  using Integer = int32_t;
  static constexpr int kBits = 24;
  static constexpr float kUnit = 0x1p-24f, kTurn = 6.28318531f * 0x1p-24f;
  static int32_t at(const uint32_t* words, int64_t i) { return static_cast<int32_t>(words[i] >> 8); }
};
template <>
struct Draw<double> {
  using Integer = int64_t;
  static constexpr int kBits = 53;
  static constexpr double kUnit = 0x1p-53, kTurn = 6.283185307179586 * 0x1p-53;
  static int64_t at(const uint32_t* words, int64_t i) { return static_cast<int64_t>(joined(words, i) >> 11); }
};

// In [0, 1).
template <typename C>
C unit(const uint32_t* words, int64_t i) {
  return static_cast<C>(Draw<C>::at(words, i)) * Draw<C>::kUnit;
}

template <typename C>
int64_t whole_vectors(int64_t n) {
  return (n + kLanes<C> - 1) / kLanes<C> * kLanes<C>;
}

struct Parameters {
  double first, second;
  int32_t dtype;  // of the output
  double most;    // of uniform numbers
};

struct Uniform {
  template <typename C>
  static void draw(const uint32_t* words, C* x, int64_t n, const Parameters& p) {
    const C low = static_cast<C>(p.first), range = static_cast<C>(p.second - p.first);
    const C most = static_cast<C>(p.most);
    for (int64_t i = 0; i < n; ++i) {
      const C value = unit<C>(words, i) * range + low;
      x[i] = value < most ? value : most;
    }
  }
};

// Box-Muller: two values from a radius, of a uniform value in (0, 1], and an angle, which an integer counts in parts of
// a turn.
struct Normal {
  template <typename C>
  static void draw(const uint32_t* words, C* x, int64_t n, const Parameters& p) {
    using Integer = typename Draw<C>::Integer;
    constexpr int kQuadrant = Draw<C>::kBits - 2;
    const C mean = static_cast<C>(p.first), std = static_cast<C>(p.second);
    alignas(64) C u[kChunk / 2], v[kChunk / 2], r[kChunk];
    alignas(64) Integer angle[kChunk / 2];
    const int64_t padded = whole_vectors<C>((n + 1) / 2);
    for (int64_t i = 0; i < padded; ++i) {
      u[i] = C{1} - unit<C>(words, 2 * i);
      angle[i] = Draw<C>::at(words, 2 * i + 1);
      const Integer quadrant = (angle[i] + (Integer{1} << (kQuadrant - 1))) >> kQuadrant;  // the nearest multiple
      v[i] = static_cast<C>(angle[i] - (quadrant << kQuadrant)) * Draw<C>::kTurn;
      angle[i] = quadrant;
    }
    for (int64_t i = 0; i < padded; i += kLanes<C>) {
      const Vec<C> radius = sqrt(negative_log(load(u + i)) * C{2}) * std;
      const Vec<C> sine = sin_near_zero(load(v + i)), cosine = cos_near_zero(load(v + i));
      const Vec<Integer> quadrant = load(angle + i), odd = (quadrant & 1) != 0;
      constexpr int kSign = 8 * sizeof(C) - 2;  // moves bit 1 into the sign
      const Vec<Integer> cosine_bits = bits(odd ? sine : cosine) ^ (((quadrant + 1) & 2) << kSign);
      const Vec<Integer> sine_bits = bits(odd ? cosine : sine) ^ ((quadrant & 2) << kSign);
      store(u + i, radius * from_bits(cosine_bits) + mean);
      store(v + i, radius * from_bits(sine_bits) + mean);
    }
    for (int64_t i = 0; i < padded; ++i) {
      r[2 * i] = u[i];
      r[2 * i + 1] = v[i];
    }
    std::memcpy(x, r, static_cast<size_t>(n) * sizeof(C));
  }
};

// Above 0: the first of the intervals that uniform values stand for counts with its middle, and what the output's type
// would round to 0 becomes its smallest normal number (f16: its smallest).
struct Exponential {
  template <typename C>
  static void draw(const uint32_t* words, C* x, int64_t n, const Parameters& p) {
    const Vec<C> least = splat(Draw<C>::kUnit / 2);
    const Vec<C> smallest = splat(p.dtype == MYDEV_F16 ? static_cast<C>(0x1p-24) : std::numeric_limits<C>::min());
    const C scale = static_cast<C>(1 / p.first);
    alignas(64) C u[kChunk];
    const int64_t padded = whole_vectors<C>(n);
    for (int64_t i = 0; i < padded; ++i) u[i] = C{1} - unit<C>(words, i);
    for (int64_t i = 0; i < padded; i += kLanes<C>) {
      store(u + i, at_least(at_least(negative_log(load(u + i)), least) * scale, smallest));
    }
    std::memcpy(x, u, static_cast<size_t>(n) * sizeof(C));
  }
};

struct Bernoulli {
  static void draw(const uint32_t* words, float* x, int64_t n, const Parameters& p) {
    const uint64_t below = philox_threshold(p.first);
    for (int64_t i = 0; i < n; ++i) x[i] = words[i] < below ? 1.0f : 0.0f;
  }
};

template <typename Distribution, typename C, int64_t kPerBlock>
mydev_code fill_with(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  const mydev_attribute* a = frame->attributes;
  Parameters parameters{a[2].value.f, frame->num_attributes > 3 ? a[3].value.f : 0, out.dtype, 0};
  if constexpr (std::is_same_v<Distribution, Uniform>) {
    parameters.most = greatest_below(static_cast<mydev_dtype>(out.dtype), parameters.first, parameters.second);
  }
  const ChunkWriter<C> writer(out.dtype);
  const std::optional<Source> source = source_of(*frame, 0);
  if (!writer.supported() || !source) return MYDEV_UNIMPLEMENTED;
  for_each_chunk<kPerBlock>(*source, element_count(out), [&](const uint32_t* words, int64_t at, int64_t n) {
    alignas(64) C buffer[kChunk];
    char* target = static_cast<char*>(out.data) + at * writer.element_bytes();
    C* x = writer.place(target, 1, buffer);
    Distribution::draw(words, x, n, parameters);
    writer.write(x, target, 1, n);
  });
  return MYDEV_OK;
}

template <typename Distribution>
mydev_code fill_entry(const mydev_frame* frame) {
  if (!is_floating(frame->buffers[0].dtype)) return MYDEV_UNIMPLEMENTED;
  if (frame->buffers[0].dtype == MYDEV_F64) return fill_with<Distribution, double, kWide>(frame);
  return fill_with<Distribution, float, kNarrow>(frame);
}

mydev_code bernoulli_entry(const mydev_frame* frame) {
  return fill_with<Bernoulli, float, kNarrow>(frame);
}

// low + [0, range) by multiplying with the range and keeping the high half: each value's probability is right to 2^-32,
// or to 2^-64 for ranges above 2^32.
mydev_code integers_entry(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  const mydev_attribute* a = frame->attributes;
  const int64_t low = a[2].value.i;
  const uint64_t range = static_cast<uint64_t>(a[3].value.i);
  const ChunkWriter<int64_t> writer(out.dtype);
  const std::optional<Source> source = source_of(*frame, 0);
  if (!writer.supported() || !source) return MYDEV_UNIMPLEMENTED;
  for_each_chunk<kWide>(*source, element_count(out), [&](const uint32_t* words, int64_t at, int64_t n) {
    alignas(64) int64_t values[kChunk];
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t word = joined(words, i);
      const uint64_t drawn =
          range == 0 ? word : static_cast<uint64_t>(static_cast<unsigned __int128>(word) * range >> 64);
      values[i] = static_cast<int64_t>(static_cast<uint64_t>(low) + drawn);
    }
    writer.write(values, static_cast<char*>(out.data) + at * writer.element_bytes(), 1, n);
  });
  return MYDEV_OK;
}

// --- dropout ---------------------------------------------------------------------------------------------------------

template <typename C>
mydev_code dropout_as(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &mask = frame->buffers[1], &in = frame->buffers[2];
  const mydev_attribute* a = frame->attributes;
  const double keep = 1 - a[2].value.f;
  const uint64_t below = philox_threshold(keep);
  const C scale = keep == 0 ? C{0} : static_cast<C>(1 / keep);
  const ChunkWriter<C> writer(out.dtype);
  const ChunkReader<C> reader(in.dtype);
  const std::optional<Source> source = source_of(*frame, 1);
  if (!writer.supported() || !reader.supported() || !source) return MYDEV_UNIMPLEMENTED;
  for_each_chunk<kNarrow>(*source, element_count(out), [&](const uint32_t* words, int64_t at, int64_t n) {
    alignas(64) C source[kChunk], result[kChunk];
    uint8_t* kept = static_cast<uint8_t*>(mask.data) + at;
    char* target = static_cast<char*>(out.data) + at * writer.element_bytes();
    const C* x = reader.read(static_cast<const char*>(in.data) + at * reader.element_bytes(), 1, n, source);
    C* y = writer.place(target, 1, result);
    for (int64_t i = 0; i < n; ++i) kept[i] = words[i] < below;
    for (int64_t i = 0; i < n; ++i) y[i] = x[i] * (static_cast<C>(kept[i]) * scale);
    writer.write(y, target, 1, n);
  });
  return MYDEV_OK;
}

template <typename C>
mydev_code dropout_backward_as(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &grad = frame->buffers[1], &mask = frame->buffers[2];
  const C scale = static_cast<C>(frame->attributes[0].value.f);
  const ChunkWriter<C> writer(out.dtype);
  const ChunkReader<C> reader(grad.dtype);
  if (!writer.supported() || !reader.supported()) return MYDEV_UNIMPLEMENTED;
  parallel_for(element_count(out), kGrainCheap, [&](int64_t begin, int64_t end) {
    alignas(64) C source[kChunk], result[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t n = std::min(kChunk, end - at);
      const uint8_t* kept = static_cast<const uint8_t*>(mask.data) + at;
      char* target = static_cast<char*>(out.data) + at * writer.element_bytes();
      const C* g = reader.read(static_cast<const char*>(grad.data) + at * reader.element_bytes(), 1, n, source);
      C* y = writer.place(target, 1, result);
      for (int64_t i = 0; i < n; ++i) y[i] = g[i] * (static_cast<C>(kept[i] != 0) * scale);
      writer.write(y, target, 1, n);
    }
  });
  return MYDEV_OK;
}

// Whether the operands are floating and of one type, but for the mask.
bool takes(const mydev_frame* frame, uint32_t mask) {
  const int32_t dtype = frame->buffers[0].dtype;
  return is_floating(dtype) && have_dtype(frame, 1, mask, dtype) && have_dtype(frame, mask, mask + 1, MYDEV_PRED) &&
         have_dtype(frame, mask + 1, 3, dtype);
}

mydev_code dropout_entry(const mydev_frame* frame) {
  if (!takes(frame, 1)) return MYDEV_UNIMPLEMENTED;
  if (frame->buffers[0].dtype == MYDEV_F64) return dropout_as<double>(frame);
  return dropout_as<float>(frame);
}

mydev_code dropout_backward_entry(const mydev_frame* frame) {
  if (!takes(frame, 2)) return MYDEV_UNIMPLEMENTED;
  if (frame->buffers[0].dtype == MYDEV_F64) return dropout_backward_as<double>(frame);
  return dropout_backward_as<float>(frame);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.random_uniform", fill_entry<Uniform>),
    kernel_record("mydev.random_normal", fill_entry<Normal>),
    kernel_record("mydev.random_exponential", fill_entry<Exponential>),
    kernel_record("mydev.random_bernoulli", bernoulli_entry),
    kernel_record("mydev.random_integers", integers_entry),
    kernel_record("mydev.dropout", dropout_entry),
    kernel_record("mydev.dropout_backward", dropout_backward_entry),
};

}  // namespace

std::span<const mydev_kernel> random() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
