// Kernel group sort: the lines of [O, D, I] along D in order, and the first K of each.
//
// Elements are compared by keys: unsigned numbers whose order is that of the elements, or the opposite one. Lines are
// sorted by radix (least significant digit first, Knuth, The Art of Computer Programming 3, 5.2.5), which keeps equal
// elements in their order. An item of 64 bits has the position of an element below 32 bits of its key. These are the
// highest bits in which the line's keys differ; runs that they leave equal are sorted in the same way. All threads sort
// one long line together.
//
// A few of many are kept in a heap. topk chooses among equal elements as PyTorch's on the CPU does, which has the
// algorithms of the standard library.
#include <algorithm>
#include <array>
#include <bit>
#include <type_traits>
#include <utility>

#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

// --- keys ------------------------------------------------------------------------------------------------------------

template <typename T>
using Key = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<sizeof(T) == 2, uint16_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>>>;

template <typename T>
inline constexpr Key<T> kInfinity = 0;  // the bits of infinity; 0 for what is no floating type
template <>
inline constexpr Key<_Float16> kInfinity<_Float16> = 0x7C00;
template <>
inline constexpr Key<BFloat16Bits> kInfinity<BFloat16Bits> = 0x7F80;
template <>
inline constexpr Key<float> kInfinity<float> = 0x7F800000;
template <>
inline constexpr Key<double> kInfinity<double> = 0x7FF0000000000000;

// NaN is greatest, and all NaN are equal; so are 0 and -0.
template <typename T>
Key<T> key_of(T value) {
  constexpr auto kSign = static_cast<Key<T>>(Key<T>{1} << (8 * sizeof(T) - 1));
  const auto bits = std::bit_cast<Key<T>>(value);
  if constexpr (std::is_same_v<T, Truth>) {
    return bits != 0;
  } else if constexpr (kInfinity<T> != 0) {
    const auto magnitude = static_cast<Key<T>>(bits & ~kSign);
    const auto key = static_cast<Key<T>>(bits > kSign ? ~bits : magnitude | kSign);
    return magnitude > kInfinity<T> ? static_cast<Key<T>>(~Key<T>{0}) : key;
  } else if constexpr (std::is_signed_v<T>) {
    return static_cast<Key<T>>(bits ^ kSign);
  } else {
    return bits;
  }
}

template <typename T>
struct Line {
  const T* elements;
  int64_t stride, count;
  Key<T> flip;  // all ones if greater elements come first

  T element(int64_t position) const {
    const T value = elements[position * stride];
    if constexpr (std::is_same_v<T, Truth>) return static_cast<Truth>(value != Truth{});
    return value;
  }
  Key<T> key(int64_t position) const { return key_of(element(position)) ^ flip; }
};

// --- sorting by radix ------------------------------------------------------------------------------------------------

constexpr int kPositionBits = 32;
constexpr int64_t kLongestLine = int64_t{1} << kPositionBits;
constexpr int kDigitBits = 11;
constexpr int64_t kDigits = int64_t{1} << kDigitBits;
constexpr int64_t kFewItems = 64;     // from which comparing is slower
constexpr int64_t kLongLine = 16384;  // from which all threads sort it together
constexpr int64_t kMostPieces = 64;
constexpr int64_t kGrain = 2048;  // elements from which threads share the lines

int64_t position_in(uint64_t item) {
  return static_cast<int64_t>(item & (kLongestLine - 1));
}

// The memory that sorting a run of a line takes.
struct Room {
  uint64_t *items, *others;  // one for each element
  uint32_t* counts;          // kDigits for each piece
  int64_t pieces;            // that are worked on at once, if the run is long
};

// body(piece, begin, end)
template <typename Body>
void for_each_piece(int64_t count, int64_t pieces, const Body& body) {
  parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      body(piece, count * piece / pieces, count * (piece + 1) / pieces);
    }
  });
}

// Sorts the items by `bits` bits, at least one, above their positions. Returns the array that holds them.
uint64_t* sort_by_digits(int64_t count, int bits, int64_t pieces, const Room& room) {
  const int most = std::clamp(static_cast<int>(std::bit_width(static_cast<uint64_t>(count))) - 1, 1, kDigitBits);
  const int passes = (bits + most - 1) / most, digit_bits = (bits + passes - 1) / passes;
  const int64_t digits = int64_t{1} << digit_bits;
  uint64_t *from = room.items, *to = room.others;
  for (int pass = 0; pass < passes; ++pass) {
    const int shift = kPositionBits + pass * digit_bits;
    const auto digit = [&](uint64_t item) { return (item >> shift) & static_cast<uint64_t>(digits - 1); };
    for_each_piece(count, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
      uint32_t* counts = room.counts + piece * kDigits;
      std::fill(counts, counts + digits, 0U);
      for (int64_t i = begin; i < end; ++i) ++counts[digit(from[i])];
    });
    uint32_t place = 0;
    for (int64_t d = 0; d < digits; ++d) {
      for (int64_t piece = 0; piece < pieces; ++piece) {
        place += std::exchange(room.counts[piece * kDigits + d], place);
      }
    }
    for_each_piece(count, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
      uint32_t* places = room.counts + piece * kDigits;
      for (int64_t i = begin; i < end; ++i) to[places[digit(from[i])]++] = from[i];
    });
    std::swap(from, to);
  }
  return from;
}

// Sorts `count` elements: the whole line, or those at the positions in room.items. Returns the array that holds them.
template <bool kWhole, typename T>
uint64_t* sort_run(const Line<T>& line, int64_t count, const Room& room) {
  const auto position_of = [&](int64_t i) { return kWhole ? i : position_in(room.items[i]); };
  const int64_t pieces = count < kLongLine ? 1 : room.pieces;
  std::array<Key<T>, kMostPieces> least, greatest;
  for_each_piece(count, pieces, [&](int64_t piece, int64_t begin, int64_t end) {
    Key<T> low = ~Key<T>{0}, high = 0;
    for (int64_t i = begin; i < end; ++i) {
      const Key<T> key = line.key(position_of(i));
      low = std::min(low, key);
      high = std::max(high, key);
    }
    least[static_cast<size_t>(piece)] = low;
    greatest[static_cast<size_t>(piece)] = high;
  });
  const Key<T> low = *std::min_element(least.begin(), least.begin() + pieces);
  const Key<T> high = *std::max_element(greatest.begin(), greatest.begin() + pieces);
  const int width = static_cast<int>(std::bit_width(static_cast<uint64_t>(high - low)));
  const int bits = std::min(width, 64 - kPositionBits), rest = width - bits;
  for_each_piece(count, pieces, [&](int64_t, int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t position = position_of(i);
      const uint64_t key = static_cast<uint64_t>(line.key(position) - low) >> rest;
      room.items[i] = key << kPositionBits | static_cast<uint64_t>(position);
    }
  });
  uint64_t* sorted = room.items;
  if (count < kFewItems) {
    std::sort(sorted, sorted + count);
  } else if (bits != 0) {  // else all keys are equal
    sorted = sort_by_digits(count, bits, pieces, room);
  }
  if (rest == 0) return sorted;
  uint64_t* others = sorted == room.items ? room.others : room.items;
  for (int64_t begin = 0, end; begin < count; begin = end) {
    const uint64_t key = sorted[begin] >> kPositionBits;
    for (end = begin + 1; end < count && sorted[end] >> kPositionBits == key;) ++end;
    if (end - begin == 1) continue;
    const Room part = {sorted + begin, others + begin, room.counts, room.pieces};
    const uint64_t* run = sort_run<false>(line, end - begin, part);
    if (run != part.items) std::copy(run, run + (end - begin), part.items);
  }
  return sorted;
}

// --- the first of a line ---------------------------------------------------------------------------------------------

struct Element {
  uint64_t key;
  int64_t position;
};
constexpr int64_t kElementBytes = sizeof(Element);
static_assert(kElementBytes == 2 * sizeof(uint64_t), "a room has two items for each element");

struct ByKey {
  bool operator()(const Element& a, const Element& b) const { return a.key < b.key; }
};
struct ByKeyAndPosition {
  bool operator()(const Element& a, const Element& b) const {
    return a.key != b.key ? a.key < b.key : a.position < b.position;
  }
};

// Puts an element in the place of a heap's first: the gap sinks to the bottom, and the element rises from there. Equal
// elements end up where libstdc++'s partial_sort has them.
template <typename Before>
void replace_first(Element* heap, int64_t count, Element element, Before before) {
  int64_t gap = 0, child = 2;
  for (; child < count; child = 2 * gap + 2) {
    child -= before(heap[child], heap[child - 1]) ? 1 : 0;
    heap[gap] = heap[child];
    gap = child;
  }
  if (child == count) {
    heap[gap] = heap[child - 1];
    gap = child - 1;
  }
  for (int64_t parent; gap > 0 && before(heap[parent = (gap - 1) / 2], element); gap = parent) {
    heap[gap] = heap[parent];
  }
  heap[gap] = element;
}

// Finds the first `kept` of a line. They are a heap, whose first is the last of them. A later element comes before it
// only by its key; loops without branches ask this for many elements at once, and then for some.
template <typename T, typename Before>
void find_first(const Line<T>& line, Element* heap, int64_t kept, Before before) {
  constexpr int64_t kMany = 64, kSome = 16;
  for (int64_t i = 0; i < kept; ++i) heap[i] = {line.key(i), i};
  std::make_heap(heap, heap + kept, before);
  const auto any_comes_before = [&](int64_t begin, int64_t end) {
    const auto last = static_cast<Key<T>>(heap[0].key);
    const T* elements = line.elements;
    const Key<T> flip = line.flip;
    Key<T> any = 0;  // of the keys' width, for vectors
    if (line.stride == 1) {
      for (int64_t i = begin; i < end; ++i) any |= static_cast<Key<T>>(key_of(elements[i]) ^ flip) < last ? 1 : 0;
    } else {
      for (int64_t i = begin; i < end; ++i) any |= line.key(i) < last ? 1 : 0;
    }
    return any != 0;
  };
  for (int64_t many = kept; many < line.count; many += kMany) {
    const int64_t many_end = std::min(line.count, many + kMany);
    if (!any_comes_before(many, many_end)) continue;
    for (int64_t some = many; some < many_end; some += kSome) {
      const int64_t end = std::min(many_end, some + kSome);
      if (!any_comes_before(some, end)) continue;
      for (int64_t i = some; i < end; ++i) {
        if (const Key<T> key = line.key(i); key < heap[0].key) replace_first(heap, kept, {key, i}, before);
      }
    }
  }
  std::sort_heap(heap, heap + kept, before);
}

// --- the two kernels -------------------------------------------------------------------------------------------------

// Each calls use(place_of), where place_of(i) is the position in the line of the element that comes out as the i-th.

struct Sort {
  template <typename T, typename Use>
  static void run(const Line<T>& line, int64_t kept, const Room& room, const Use& use) {
    if (kept * 32 < line.count) {
      auto* heap = reinterpret_cast<Element*>(room.items);
      find_first(line, heap, kept, ByKeyAndPosition{});
      use([heap](int64_t i) { return heap[i].position; });
    } else {
      const uint64_t* items = sort_run<true>(line, line.count, room);
      use([items](int64_t i) { return position_in(items[i]); });
    }
  }
};

struct Select {
  template <typename T, typename Use>
  static void run(const Line<T>& line, int64_t kept, const Room& room, const Use& use) {
    auto* elements = reinterpret_cast<Element*>(room.items);
    if (kept * 64 <= line.count) {
      find_first(line, elements, kept, ByKey{});
    } else {
      for (int64_t i = 0; i < line.count; ++i) elements[i] = {line.key(i), i};
      std::nth_element(elements, elements + kept - 1, elements + line.count, ByKey{});
      std::sort(elements, elements + kept - 1, ByKey{});
    }
    use([elements](int64_t i) { return elements[i].position; });
  }
};

// The scratch has rooms, each for a line and one piece; or one room, for a long line and many pieces.
uint64_t room_bytes(int64_t count, int64_t pieces) {
  return static_cast<uint64_t>(std::max<int64_t>(count, 1) * kElementBytes + pieces * kDigits * 4);
}

bool one_after_another(int64_t lines, int64_t count) {
  return count >= kLongLine && lines < parallel_threads();
}

uint64_t scratch_bytes(const mydev_frame* frame) {
  const int64_t* sizes = frame->buffers[2].sizes;
  const int64_t lines = sizes[0] * sizes[2], threads = parallel_threads();
  if (one_after_another(lines, sizes[1])) return room_bytes(sizes[1], std::min(threads, kMostPieces));
  return static_cast<uint64_t>(std::min(lines, threads)) * room_bytes(sizes[1], 1);
}

template <typename Algorithm, typename T>
void run_as(const mydev_frame* frame) {
  const mydev_buffer &values = frame->buffers[0], &indices = frame->buffers[1], &in = frame->buffers[2];
  const int64_t inner = in.sizes[2], lines = in.sizes[0] * inner, count = in.sizes[1], kept = values.sizes[1];
  if (lines == 0 || kept == 0) return;
  const auto flip = static_cast<Key<T>>(frame->attributes[0].value.i != 0 ? ~Key<T>{0} : Key<T>{0});
  // Other threads may be there now than when the scratch was made.
  const bool alone = one_after_another(lines, count);
  const uint64_t one = room_bytes(count, 1);
  const auto spare = static_cast<int64_t>((frame->scratch_bytes - one) / (room_bytes(count, 2) - one));
  const int64_t pieces = alone ? std::min({int64_t{parallel_threads()}, kMostPieces, 1 + spare}) : 1;
  const int64_t rooms = alone ? 1 : std::min(lines, static_cast<int64_t>(frame->scratch_bytes / one));
  const auto run_lines = [&](int64_t room_number, int64_t first, int64_t last) {
    auto* items = reinterpret_cast<uint64_t*>(static_cast<char*>(frame->scratch) +
                                              room_number * static_cast<int64_t>(room_bytes(count, pieces)));
    const Room room = {items, items + count, reinterpret_cast<uint32_t*>(items + 2 * count), pieces};
    for (int64_t at = first; at < last; ++at) {
      const int64_t o = at / inner, i = at % inner;
      const Line<T> line = {static_cast<const T*>(in.data) + o * in.strides[0] + i * in.strides[2], in.strides[1],
                            count, flip};
      T* to = static_cast<T*>(values.data) + o * values.strides[0] + i * values.strides[2];
      auto* places = static_cast<int64_t*>(indices.data) + o * indices.strides[0] + i * indices.strides[2];
      Algorithm::run(line, kept, room, [&](const auto& place_of) {
        for_each_piece(kept, kept < kLongLine ? 1 : pieces, [&](int64_t, int64_t begin, int64_t end) {
          for (int64_t j = begin; j < end; ++j) {
            const int64_t place = place_of(j);
            places[j * indices.strides[1]] = place;
            to[j * values.strides[1]] = line.element(place);
          }
        });
      });
    }
  };
  parallel_for(rooms, lines * count < kGrain ? rooms : 1, [&](int64_t first, int64_t last) {
    for (int64_t number = first; number < last; ++number) {
      run_lines(number, lines * number / rooms, lines * (number + 1) / rooms);
    }
  });
}

// The attribute is `descending` or `largest`, which are the same order.
template <typename Algorithm>
mydev_code entry(const mydev_frame* frame) {
  const mydev_buffer &values = frame->buffers[0], &indices = frame->buffers[1], &in = frame->buffers[2];
  if (values.dtype != in.dtype || indices.dtype != MYDEV_S64) return MYDEV_UNIMPLEMENTED;
  if (in.rank != 3 || values.rank != 3 || values.sizes[0] != in.sizes[0] || values.sizes[2] != in.sizes[2] ||
      values.sizes[1] > in.sizes[1]) {
    frame->host->set_error(frame, "takes [o,d,i] and gives [o,k,i] with k at most d");
    return MYDEV_INVALID_ARGUMENT;
  }
  if (in.sizes[1] >= kLongestLine) return MYDEV_UNIMPLEMENTED;
  return visit_element_type(in.dtype, [&]<typename T>() { run_as<Algorithm, T>(frame); }) ? MYDEV_OK
                                                                                          : MYDEV_UNIMPLEMENTED;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.sort", entry<Sort>, scratch_bytes),
    kernel_record("mydev.topk", entry<Select>, scratch_bytes),
};

}  // namespace

std::span<const mydev_kernel> sort() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
