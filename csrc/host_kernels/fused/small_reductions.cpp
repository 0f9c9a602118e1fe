// Reductions as instructions: of dense rows, and of the columns of a matrix.
#include <bit>
#include <limits>
#include <string_view>
#include <vector>

#include "host_kernels/fused/small_instructions.h"

namespace mydev::kernels {

namespace {

constexpr int64_t kMostPieces = 64;  // instructions that read a matrix

}  // namespace

// Rows of few values, in the order in which the kernel's vectors combine their lanes: halves with halves.
bool SmallProgram::Instructions::rows(const Rows& rows) {
  const bool is_double = rows.dtype == MYDEV_F64;
  const std::string_view name = rows.kernel;
  const bool adds = name == "mydev.sum", is_largest = name == "mydev.amax";
  if (!is_double && rows.dtype != MYDEV_F32) return false;
  if (!adds && !is_largest && name != "mydev.amin") return false;
  if (rows.rows > kMostScalars || rows.length > (is_double ? kMostScalars : 2 * kMostScalars)) return false;
  for (int64_t row = 0; row < rows.rows; ++row) {
    const int64_t begin = row * rows.length * rows.value_bytes;
    const uint8_t result = adds ? sum(rows, begin) : extremum(rows, begin, is_largest);
    store(rows.to, row * rows.value_bytes, rows.value_bytes, result);
  }
  return true;
}

// Combines registers, which it pins, into the first.
void SmallProgram::Instructions::combine_halves(VectorOp op, std::span<const uint8_t> values) {
  for (size_t half = kMostScalars, count = values.size(); half > 0; half /= 2) {
    for (size_t i = 0; i < half && i + half < count; ++i) to_.vector(op, values[i], values[i], values[i + half]);
    count = std::min(count, half);
  }
}

// Adds doubles; the sum of zeros is not negative.
uint8_t SmallProgram::Instructions::sum(const Rows& rows, int64_t begin) {
  const bool is_double = rows.value_bytes == 8;
  std::vector<uint8_t> values;
  uint32_t pinned = 0;
  for (int64_t i = 0; i < rows.length; ++i) {
    pinned_ = pinned;
    const uint8_t value = load(rows.from, begin + i * rows.value_bytes, rows.value_bytes);
    values.push_back(new_register());
    pinned |= 1U << values.back();
    to_.vector({0, 1, 0x57}, kScratch0, kScratch0, kScratch0);
    // VADDSD with 0, or VCVTSS2SD.
    if (is_double) {
      to_.vector({3, 1, 0x58}, values.back(), value, kScratch0);
    } else {
      to_.vector({2, 1, 0x5A}, values.back(), kScratch0, value);
    }
  }
  combine_halves({3, 1, 0x58}, values);
  to_.vector({0, 1, 0x57}, kScratch0, kScratch0, kScratch0);
  to_.vector({3, 1, 0x58}, values[0], values[0], kScratch0);
  if (!is_double) to_.vector({3, 1, 0x5A}, values[0], kScratch0, values[0]);  // VCVTSD2SS
  return values[0];
}

// NaN, the one without a sign, if a value is NaN.
uint8_t SmallProgram::Instructions::extremum(const Rows& rows, int64_t begin, bool is_largest) {
  const auto width = static_cast<int>(rows.value_bytes);
  const uint8_t prefix = prefix_of(true, width);
  std::vector<uint8_t> values;
  uint32_t pinned = 0;
  to_.vector({0, 1, 0x57}, kScratch0, kScratch0, kScratch0);
  for (int64_t i = 0; i < rows.length; ++i) {
    pinned_ = pinned;
    const uint8_t value = load(rows.from, begin + i * width, width);
    values.push_back(new_register());
    pinned |= 1U << values.back();
    to_.vector({0, 1, 0x28}, values.back(), 0, value);  // VMOVAPS
    compare({prefix, 1, 0xC2}, kScratch1, value, value, 3);
    to_.vector(kOr, kScratch0, kScratch0, kScratch1);
  }
  combine_halves({prefix, 1, static_cast<uint8_t>(is_largest ? 0x5F : 0x5D)}, values);
  // The quiet NaN has the bits of the exponent and the highest behind them.
  const auto not_a_number = width == 8 ? std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN())
                                       : std::bit_cast<uint32_t>(std::numeric_limits<float>::quiet_NaN());
  to_.set(kRax, not_a_number);
  to_.bytes({0xC4, 0x61, 0xF9, 0x6E, 0xF8});  // vmovq xmm15, rax
  select({1, 3, static_cast<uint8_t>(width == 8 ? 0x4B : 0x4A)}, values[0], values[0], kScratch1, kScratch0);
  return values[0];
}

// A matrix whose columns are reduced, in vectors of them.
std::optional<SmallProgram::Instructions::Columns> SmallProgram::Instructions::columns_of(const Kernel& kernel,
                                                                                          size_t operand) {
  const mydev_buffer &in = kernel.frame->buffers[operand], &out = kernel.frame->buffers[0];
  const bool is_double = in.dtype == MYDEV_F64;
  for (const size_t pointer : kernel.pointers) {
    if (pointer == kNoPointer) return std::nullopt;
  }
  if ((!is_double && in.dtype != MYDEV_F32) || out.dtype != in.dtype || in.rank != 2) return std::nullopt;
  const Columns columns{kernel.pointers[operand], in.sizes[0], in.sizes[1], in.strides[0], is_double ? 8 : 4};
  const bool fits = in.strides[1] == 1 && columns.stride > 1 && out.strides[0] == 0 && out.strides[1] == 1;
  // The kernel computes fewer columns one by one, in another order.
  if (!fits || columns.rows < 2 || columns.count < 4) return std::nullopt;
  if (columns.rows > kMostPieces || columns.rows * columns.count * columns.width / 16 > kMostPieces)
    return std::nullopt;
  return columns;
}

// Rows are combined four at a time, and then one after the other, as the kernel combines them.
bool SmallProgram::Instructions::columns(const Kernel& kernel) {
  const std::string_view name = kernel.frame->kernel->name;
  const std::optional<Columns> columns = columns_of(kernel, 1);
  if (!columns) return false;
  const int width = columns->width;
  for (int64_t at = 0, bytes = columns->count * width; at < bytes;) {
    const int64_t step = step_of(bytes - at);
    const auto combine = [&](uint8_t to, uint8_t first, uint8_t second) {
      if (name == "mydev.sum") {
        to_.vector({prefix_of(step == width, width), 1, 0x58, step == 32}, to, first, second);
      } else {
        choose(name == "mydev.amax" ? kGreaterThan : kLess, to, first, second, width, step);
      }
    };
    const auto row = [&](int64_t r) { return load(columns->pointer, r * columns->stride * width + at, step); };
    pinned_ = 0;
    const uint8_t total = new_register(), four = new_register(), two = new_register();
    const uint32_t pinned = pinned_;
    int64_t r = 0;
    if (name == "mydev.sum") {
      to_.vector({0, 1, 0x57, step == 32}, total, total, total);  // the sum of zeros is not negative
    } else if (columns->rows < 4) {
      to_.vector({0, 1, 0x28, step == 32}, total, 0, row(r++));  // VMOVAPS
    }
    for (; r + 4 <= columns->rows; r += 4) {
      const bool is_first = r == 0 && name != "mydev.sum";
      pinned_ = pinned;
      combine(four, row(r), row(r + 1));
      pinned_ = pinned;
      combine(two, row(r + 2), row(r + 3));
      combine(is_first ? total : four, four, two);
      if (!is_first) combine(total, total, four);
    }
    for (; r < columns->rows; ++r) {
      pinned_ = pinned;
      combine(total, total, row(r));
    }
    store(kernel.pointers[0], at, step, total);
    at += step;
  }
  return true;
}

// The first of the values that nothing beats, of four columns at a time, and its row. NaN beats numbers.
bool SmallProgram::Instructions::places_in_columns(const Kernel& kernel, uint8_t predicate) {
  const std::optional<Columns> columns = columns_of(kernel, 2);
  if (!columns || columns->width != 4 || columns->count % 4 != 0) return false;
  const mydev_buffer& places = kernel.frame->buffers[1];
  if (places.strides[0] != 0 || places.strides[1] != 1) return false;
  for (int64_t at = 0; at < columns->count * 4; at += 16) {
    pinned_ = 0;
    const uint8_t best = new_register(), place = new_register(), beats = new_register(), number = new_register();
    const uint32_t pinned = pinned_;
    to_.vector({0, 1, 0x28}, best, 0, load(columns->pointer, at, 16));
    to_.vector(kXor, place, place, place);
    for (int64_t r = 1; r < columns->rows; ++r) {
      pinned_ = pinned;
      const uint8_t value = load(columns->pointer, r * columns->stride * 4 + at, 16);
      compare({0, 1, 0xC2}, beats, value, best, predicate);
      compare({0, 1, 0xC2}, kScratch0, value, value, 3);  // is no number
      compare({0, 1, 0xC2}, kScratch1, best, best, 7);    // is one
      to_.vector({1, 1, 0xDB}, kScratch0, kScratch0, kScratch1);
      to_.vector(kOr, beats, beats, kScratch0);
      to_.set(kRax, static_cast<uint64_t>(r));
      to_.vector({1, 1, 0x6E}, number, 0, kRax);
      to_.vector({1, 2, 0x58}, number, 0, number);  // VPBROADCASTD
      select({1, 3, 0x4A}, best, best, value, beats);
      select({1, 3, 0x4A}, place, place, number, beats);
    }
    to_.vector({1, 2, 0x25, true}, place, 0, place);  // VPMOVSXDQ
    store(kernel.pointers[0], at, 16, best);
    store(kernel.pointers[1], 2 * at, 32, place);
  }
  return true;
}

}  // namespace mydev::kernels
