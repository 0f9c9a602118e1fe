// Kernel group random: fills (out; ; seed, offset, ...) of a dense out from Philox 4x32-10.
//
// Element i takes its words from a block that i alone determines, counted from `offset` (in blocks): the numbers do not
// depend on threads or instruction set. Blocks used: f64 and 64-bit integers kWide elements a block, all else
// kNarrow; a caller advances its offset by random_blocks(). f16 and bf16 are drawn as float and rounded.
//   mydev.random_uniform: [low, high)       mydev.random_normal: mean, std       mydev.random_exponential: rate
//   mydev.random_bernoulli: probability     mydev.random_integers: low + [0, range), range 0 meaning 2^64
//   mydev.dropout(out, mask; in; seed, offset, p): in / (1 - p) where kept, else 0; mask is 1 where kept
//   mydev.dropout_backward(grad_in; grad_out, mask; scale)
#include <algorithm>
#include <cmath>

#include "host_kernels/isa/element_chunk.h"
#include "host_kernels/isa/simd.h"
#include "host_kernels/isa/tensor_list.h"
#include "host_kernels/isa/vector_math.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kNarrow = 4, kWide = 2;      // elements per block
constexpr int64_t kBlocks = kChunk / kNarrow;  // of a chunk of narrow elements

// The words of blocks [first, first + kBlocks), block after block.
void philox_words(uint64_t seed, uint64_t first, uint32_t* __restrict words) {
  constexpr int kBatch = 16;
  for (int64_t batch = 0; batch < kBlocks; batch += kBatch) {
    uint32_t c0[kBatch], c1[kBatch], c2[kBatch], c3[kBatch];
    for (int l = 0; l < kBatch; ++l) {
      const uint64_t counter = first + static_cast<uint64_t>(batch + l);
      c0[l] = static_cast<uint32_t>(counter);
      c1[l] = static_cast<uint32_t>(counter >> 32);
      c2[l] = 0;
      c3[l] = 0;
    }
    uint32_t k0 = static_cast<uint32_t>(seed), k1 = static_cast<uint32_t>(seed >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int l = 0; l < kBatch; ++l) {
        const uint64_t p0 = uint64_t{0xD2511F53} * c0[l], p1 = uint64_t{0xCD9E8D57} * c2[l];
        c0[l] = static_cast<uint32_t>(p1 >> 32) ^ c1[l] ^ k0;
        c1[l] = static_cast<uint32_t>(p1);
        c2[l] = static_cast<uint32_t>(p0 >> 32) ^ c3[l] ^ k1;
        c3[l] = static_cast<uint32_t>(p0);
      }
      k0 += 0x9E3779B9;
      k1 += 0xBB67AE85;
    }
    uint32_t* target = words + batch * 4;
    for (int l = 0; l < kBatch; ++l) {
      target[4 * l] = c0[l];
      target[4 * l + 1] = c1[l];
      target[4 * l + 2] = c2[l];
      target[4 * l + 3] = c3[l];
    }
  }
}

inline uint64_t joined(const uint32_t* words, int64_t i) {
  return uint64_t{words[2 * i]} << 32 | words[2 * i + 1];
}

struct Source {
  uint64_t seed, offset;
  explicit Source(const mydev_attribute* attributes)
      : seed(static_cast<uint64_t>(attributes[0].value.i)), offset(static_cast<uint64_t>(attributes[1].value.i)) {}
};

// Calls body(words, at, n) for chunks of the elements [0, count), kPerBlock to a block; n <= kBlocks * kPerBlock.
template <int64_t kPerBlock, typename Body>
void for_each_chunk(const Source& source, int64_t count, const Body& body) {
  constexpr int64_t kElements = kBlocks * kPerBlock;
  const int64_t chunks = (count + kElements - 1) / kElements;
  parallel_for(chunks, kGrainHeavy / kElements, [&](int64_t first, int64_t last) {
    alignas(64) uint32_t words[kBlocks * 4];
    for (int64_t chunk = first; chunk < last; ++chunk) {
      philox_words(source.seed, source.offset + static_cast<uint64_t>(chunk * kBlocks), words);
      body(words, chunk * kElements, std::min(kElements, count - chunk * kElements));
    }
  });
}

// --- distributions: n values from words; a and b are the frame's parameters ----------------------------------------

// In [0, 1): 24 bits of a word, 53 of two.
inline float unit(uint32_t word) {
  return static_cast<float>(static_cast<int32_t>(word >> 8)) * 0x1p-24f;
}
inline double unit(uint64_t word) {
  return static_cast<double>(static_cast<int64_t>(word >> 11)) * 0x1p-53;
}

struct Uniform {
  static void draw(const uint32_t* words, float* x, int64_t n, double a, double b) {
    const float low = static_cast<float>(a), range = static_cast<float>(b - a);
    for (int64_t i = 0; i < n; ++i) x[i] = unit(words[i]) * range + low;
  }
  static void draw(const uint32_t* words, double* x, int64_t n, double a, double b) {
    for (int64_t i = 0; i < n; ++i) x[i] = unit(joined(words, i)) * (b - a) + a;
  }
};

struct Normal {  // Box-Muller: two values from two uniform ones, the first in (0, 1]
  static void draw(const uint32_t* words, float* x, int64_t n, double a, double b) {
    const F32 mean = splat(static_cast<float>(a)), std = splat(static_cast<float>(b));
    constexpr int64_t lanes = kLanes<float>;
    alignas(64) float u[kChunk / 2], v[kChunk / 2], r[kChunk];
    const int64_t pairs = (n + 1) / 2;
    const int64_t padded = (pairs + lanes - 1) / lanes * lanes;
    for (int64_t i = 0; i < padded; ++i) {
      u[i] = 1.0f - unit(words[2 * i]);
      v[i] = unit(words[2 * i + 1]) * 6.28318531f;
    }
    for (int64_t i = 0; i < padded; i += lanes) {
      const F32 radius = sqrt(-2.0f * log(load(u + i))) * std;
      const F32 angle = load(v + i);
      store(u + i, radius * sin_shifted(angle, 1) + mean);
      store(v + i, radius * sin_shifted(angle, 0) + mean);
    }
    for (int64_t i = 0; i < padded; ++i) {
      r[2 * i] = u[i];
      r[2 * i + 1] = v[i];
    }
    std::memcpy(x, r, static_cast<size_t>(n) * sizeof(float));
  }
  static void draw(const uint32_t* words, double* x, int64_t n, double a, double b) {
    for (int64_t i = 0; i < n; i += 2) {
      const double radius = std::sqrt(-2.0 * std::log(1.0 - unit(joined(words, i)))) * b;
      const double angle = unit(joined(words, i + 1)) * 6.283185307179586;
      x[i] = radius * std::cos(angle) + a;
      if (i + 1 < n) x[i + 1] = radius * std::sin(angle) + a;
    }
  }
};

struct Exponential {
  static void draw(const uint32_t* words, float* x, int64_t n, double a, double) {
    const float scale = static_cast<float>(-1 / a);
    alignas(64) float u[kChunk];
    const int64_t padded = (n + kLanes<float> - 1) / kLanes<float> * kLanes<float>;
    for (int64_t i = 0; i < padded; ++i) u[i] = 1.0f - unit(words[i]);
    for (int64_t i = 0; i < padded; i += kLanes<float>) store(u + i, log(load(u + i)) * scale);
    std::memcpy(x, u, static_cast<size_t>(n) * sizeof(float));
  }
  static void draw(const uint32_t* words, double* x, int64_t n, double a, double) {
    for (int64_t i = 0; i < n; ++i) x[i] = -std::log(1.0 - unit(joined(words, i))) / a;
  }
};

// A word is below the threshold with probability p; p = 1 needs 2^32, hence the 64 bits.
inline uint64_t threshold(double p) {
  return static_cast<uint64_t>(std::llround(std::ldexp(p, 32)));
}

struct Bernoulli {
  static void draw(const uint32_t* words, float* x, int64_t n, double a, double) {
    const uint64_t below = threshold(a);
    for (int64_t i = 0; i < n; ++i) x[i] = words[i] < below ? 1.0f : 0.0f;
  }
};

template <typename Distribution, typename C, int64_t kPerBlock>
mydev_code fill_with(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  const mydev_attribute* a = frame->attributes;
  const double first = a[2].value.f, second = frame->num_attributes > 3 ? a[3].value.f : 0;
  const ChunkWriter<C> writer(out.dtype);
  if (!writer.supported()) return MYDEV_UNIMPLEMENTED;
  for_each_chunk<kPerBlock>(Source(a), element_count(out), [&](const uint32_t* words, int64_t at, int64_t n) {
    alignas(64) C buffer[kChunk];
    char* target = static_cast<char*>(out.data) + at * writer.element_bytes();
    C* x = writer.place(target, 1, buffer);
    Distribution::draw(words, x, n, first, second);
    writer.write(x, target, 1, n);
  });
  return MYDEV_OK;
}

template <typename Distribution>
mydev_code fill_entry(const mydev_frame* frame) {
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
  if (!writer.supported()) return MYDEV_UNIMPLEMENTED;
  for_each_chunk<kWide>(Source(a), element_count(out), [&](const uint32_t* words, int64_t at, int64_t n) {
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
  const uint64_t below = threshold(keep);
  const C scale = keep == 0 ? C{0} : static_cast<C>(1 / keep);
  const ChunkWriter<C> writer(out.dtype);
  const ChunkReader<C> reader(in.dtype);
  if (!writer.supported() || !reader.supported()) return MYDEV_UNIMPLEMENTED;
  for_each_chunk<kNarrow>(Source(a), element_count(out), [&](const uint32_t* words, int64_t at, int64_t n) {
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

mydev_code dropout_entry(const mydev_frame* frame) {
  if (frame->buffers[0].dtype == MYDEV_F64) return dropout_as<double>(frame);
  return dropout_as<float>(frame);
}

mydev_code dropout_backward_entry(const mydev_frame* frame) {
  if (frame->buffers[0].dtype == MYDEV_F64) return dropout_backward_as<double>(frame);
  return dropout_backward_as<float>(frame);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.random_uniform", fill_entry<Uniform>, "out; ; seed, offset, low, high: in [low, high)"),
    kernel_record("mydev.random_normal", fill_entry<Normal>, "out; ; seed, offset, mean, std"),
    kernel_record("mydev.random_exponential", fill_entry<Exponential>, "out; ; seed, offset, rate"),
    kernel_record("mydev.random_bernoulli", bernoulli_entry, "out; ; seed, offset, p: 1 with probability p, else 0"),
    kernel_record("mydev.random_integers", integers_entry, "out; ; seed, offset, low, range: in [low, low + range)"),
    kernel_record("mydev.dropout", dropout_entry, "out, mask; in; seed, offset, p: zeroed with probability p"),
    kernel_record("mydev.dropout_backward", dropout_backward_entry, "grad_in; grad_out, mask; scale"),
};

}  // namespace

std::span<const mydev_kernel> random() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
