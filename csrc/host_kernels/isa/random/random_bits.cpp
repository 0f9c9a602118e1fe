// Kernel group random_bits: the words of counter-based generators, as JAX and StableHLO define them. Integers alone, so
// the results are the same to the last bit in each instruction set and for each number of threads.
#include <algorithm>
#include <cstring>

#include "host_kernels/isa/random/philox_words.h"
#include "host_kernels/isa/random/threefry.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/tensor_list.h"
#include "host_kernels/strided_layout.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// --- mydev.threefry2x32 ----------------------------------------------------------------------------------------------

mydev_code threefry2x32_entry(const mydev_frame* frame) {
  constexpr int kOperands = 6, kResults = 2;
  constexpr auto kBytes = static_cast<int64_t>(sizeof(uint32_t));
  StridedLayout layout;
  if (!have_dtype(frame, 0, kOperands, MYDEV_U32)) return MYDEV_UNIMPLEMENTED;
  if (!make_layout(frame->buffers, kOperands, layout)) return MYDEV_UNIMPLEMENTED;
  parallel_for(layout.count, kGrainHeavy, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t key0[kChunk], key1[kChunk], x[kChunk], y[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t n = std::min(kChunk, end - at);
      int operand = kResults;
      for (uint32_t* const words : {key0, key1, x, y}) {
        gather(words, layout, operand, frame->buffers[operand].data, at, n, kBytes);
        ++operand;
      }
      for (int64_t i = 0; i < n; ++i) threefry2x32(key0[i], key1[i], x[i], y[i]);
      scatter(x, layout, 0, frame->buffers[0].data, at, n, kBytes);
      scatter(y, layout, 1, frame->buffers[1].data, at, n, kBytes);
    }
  });
  return MYDEV_OK;
}

// --- mydev.rng_bit_generator -----------------------------------------------------------------------------------------

constexpr int64_t kWordsAtOnce = kChunk;

// The state of a generator: its key, and the counter of the next block, whose high half is there in three words only.
struct GeneratorState {
  uint64_t key, counter, high;
  bool has_high;

  explicit GeneratorState(const mydev_buffer& words) : has_high(words.sizes[0] == 3) {
    const auto* given = static_cast<const uint64_t*>(words.data);
    key = given[0];
    counter = given[1];
    high = has_high ? given[2] : key;  // as in XLA
  }

  // The two words of each of `blocks` blocks.
  void threefry_words(int64_t first, int64_t blocks, uint32_t* x, uint32_t* y) const {
    for (int64_t i = 0; i < blocks; ++i) {
      const uint64_t block = counter + static_cast<uint64_t>(first + i);
      x[i] = static_cast<uint32_t>(block);
      y[i] = static_cast<uint32_t>(block >> 32);
      threefry2x32(static_cast<uint32_t>(key), static_cast<uint32_t>(key >> 32), x[i], y[i]);
    }
  }
  void philox(int64_t first, uint32_t* words) const {
    philox_words(key, counter + static_cast<uint64_t>(first), kWordsAtOnce / 4, words,
                 [this](uint64_t block) { return high + (block < counter ? 1 : 0); });
  }
  void store_advanced(int64_t blocks, const mydev_buffer& to) const {
    auto* words = static_cast<uint64_t*>(to.data);
    words[0] = key;
    words[1] = counter + static_cast<uint64_t>(blocks);
    if (has_high) words[2] = high + (words[1] < counter ? 1 : 0);
  }
};

// Stores n elements, which have a word each, or two if they have eight bytes.
void store_words(const uint32_t* words, char* to, int64_t n, int64_t bytes) {
  if (bytes >= 4) {
    std::memcpy(to, words, static_cast<size_t>(n * bytes));
  } else if (bytes == 2) {
    auto* const elements = reinterpret_cast<uint16_t*>(to);
    for (int64_t i = 0; i < n; ++i) elements[i] = static_cast<uint16_t>(words[i]);
  } else {
    auto* const elements = reinterpret_cast<uint8_t*>(to);
    for (int64_t i = 0; i < n; ++i) elements[i] = static_cast<uint8_t>(words[i]);
  }
}

// Calls body(first block, blocks) for parts of all blocks, kWordsAtOnce words at a time.
template <typename Body>
void for_each_part(int64_t blocks, int64_t words_per_block, const Body& body) {
  const int64_t at_once = kWordsAtOnce / words_per_block, parts = (blocks + at_once - 1) / at_once;
  parallel_for(parts, kGrainHeavy / at_once, [&](int64_t first, int64_t last) {
    for (int64_t part = first; part < last; ++part) {
      body(part * at_once, std::min(at_once, blocks - part * at_once));
    }
  });
}

// Elements in the order of the words; the number of blocks that they take.
int64_t store_in_order(const GeneratorState& state, bool is_threefry, const mydev_buffer& out, int64_t bytes) {
  const int64_t count = element_count(out), per_element = bytes == 8 ? 2 : 1, per_block = is_threefry ? 2 : 4;
  const int64_t blocks = (count * per_element + per_block - 1) / per_block;
  for_each_part(blocks, per_block, [&](int64_t first, int64_t n) {
    alignas(64) uint32_t words[kWordsAtOnce], x[kWordsAtOnce / 2], y[kWordsAtOnce / 2];
    if (is_threefry) {
      state.threefry_words(first, n, x, y);
      for (int64_t i = 0; i < n; ++i) {
        words[2 * i] = x[i];
        words[2 * i + 1] = y[i];
      }
    } else {
      state.philox(first, words);
    }
    const int64_t at = first * per_block / per_element;
    store_words(words, static_cast<char*>(out.data) + at * bytes, std::min(n * per_block / per_element, count - at),
                bytes);
  });
  return blocks;
}

// The words of a block lie one above the other along the middle one of three dimensions.
int64_t store_in_pairs(const GeneratorState& state, const mydev_buffer& out, int64_t bytes) {
  const int64_t size = out.sizes[1], inner = out.sizes[2], pairs = (size + 1) / 2;
  const int64_t blocks = out.sizes[0] * pairs * inner;
  for_each_part(blocks, 2, [&](int64_t first, int64_t n) {
    alignas(64) uint32_t x[kWordsAtOnce / 2], y[kWordsAtOnce / 2];
    state.threefry_words(first, n, x, y);
    for (int64_t done = 0; done < n;) {
      const int64_t row = (first + done) / inner, within = (first + done) % inner, pair = row % pairs;
      const int64_t run = std::min(inner - within, n - done);
      char* to = static_cast<char*>(out.data) + ((row / pairs * size + 2 * pair) * inner + within) * bytes;
      store_words(x + done, to, run, bytes);
      if (2 * pair + 1 < size) store_words(y + done, to + inner * bytes, run, bytes);
      done += run;
    }
  });
  return blocks;
}

mydev_code rng_bit_generator_entry(const mydev_frame* frame) {
  const mydev_buffer &advanced = frame->buffers[0], &out = frame->buffers[1], &given = frame->buffers[2];
  const DtypeKind kind = dtype_row(out.dtype).kind;
  if (given.dtype != MYDEV_U64 || advanced.dtype != MYDEV_U64) return MYDEV_UNIMPLEMENTED;
  if (kind != DtypeKind::kSigned && kind != DtypeKind::kUnsigned) return MYDEV_UNIMPLEMENTED;
  if (given.sizes[0] != 2 && given.sizes[0] != 3) {
    frame->host->set_error(frame, "the state of a generator has two or three words");
    return MYDEV_INVALID_ARGUMENT;
  }
  const GeneratorState state(given);
  const bool is_threefry = frame->attributes[0].value.i != 0;
  const int64_t bytes = dtype_row(out.dtype).size;
  const bool is_in_order = out.sizes[2] == 1 && (out.sizes[1] % 2 == 0 || out.sizes[0] == 1);
  const int64_t blocks = is_threefry && bytes != 8 && !is_in_order ? store_in_pairs(state, out, bytes)
                                                                   : store_in_order(state, is_threefry, out, bytes);
  state.store_advanced(blocks, advanced);
  return MYDEV_OK;
}

constexpr mydev_kernel kRandomBitsRecords[] = {
    kernel_record("mydev.threefry2x32", threefry2x32_entry),
    kernel_record("mydev.rng_bit_generator", rng_bit_generator_entry),
};

}  // namespace

std::span<const mydev_kernel> random_bits() {
  return kRandomBitsRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
