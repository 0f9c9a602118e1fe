// Pointwise steps and reductions as instructions. All results are, to the bit, those of the kernels.
#include <bit>
#include <limits>
#include <string_view>

#include "host_kernels/fused/small_instructions.h"

namespace mydev::kernels {

const SmallProgram::Instructions::Row SmallProgram::Instructions::kRows[] = {
    {"mydev.add", Class::kFloat, Pattern::kArithmetic, 1, 0x58, 0x58},
    {"mydev.sub", Class::kFloat, Pattern::kArithmetic, 1, 0x5C, 0x5C},
    {"mydev.add", Class::kFloat, Pattern::kScaled, 2, 0xB8, 0},
    {"mydev.sub", Class::kFloat, Pattern::kScaled, 2, 0xBC, 0},
    {"mydev.mul", Class::kFloat, Pattern::kArithmetic, 1, 0x59, 0x59},
    {"mydev.div", Class::kFloat, Pattern::kArithmetic, 1, 0x5E, 0x5E},
    {"mydev.sqrt", Class::kFloat, Pattern::kRoot, 1, 0x51, 0x51},
    {"mydev.neg", Class::kFloat, Pattern::kNegative, 1, 0x57, 0x57},
    {"mydev.abs", Class::kFloat, Pattern::kMagnitude, 1, 0x54, 0x54},
    {"mydev.maximum", Class::kFloat, Pattern::kExtremum, 1, 29, 29},
    {"mydev.minimum", Class::kFloat, Pattern::kExtremum, 1, 18, 18},
    {"mydev.eq", Class::kFloat, Pattern::kCompare, 1, 0, 0},
    {"mydev.ne", Class::kFloat, Pattern::kCompare, 1, 4, 4},
    {"mydev.lt", Class::kFloat, Pattern::kCompare, 1, 17, 17},
    {"mydev.le", Class::kFloat, Pattern::kCompare, 1, 18, 18},
    {"mydev.gt", Class::kFloat, Pattern::kCompare, 1, 30, 30},
    {"mydev.ge", Class::kFloat, Pattern::kCompare, 1, 29, 29},
    {"mydev.where", Class::kFloat, Pattern::kSelect, 3, 0x4A, 0x4B},
    {"mydev.add", Class::kInteger, Pattern::kArithmetic, 1, 0xFE, 0xD4},
    {"mydev.sub", Class::kInteger, Pattern::kArithmetic, 1, 0xFA, 0xFB},
    {"mydev.mul", Class::kInteger, Pattern::kArithmetic, 2, 0x40, 0},
    {"mydev.maximum", Class::kInteger, Pattern::kArithmetic, 2, 0x3D, 0},
    {"mydev.minimum", Class::kInteger, Pattern::kArithmetic, 2, 0x39, 0},
    {"mydev.bitwise_and", Class::kInteger, Pattern::kArithmetic, 1, 0xDB, 0xDB},
    {"mydev.bitwise_or", Class::kInteger, Pattern::kArithmetic, 1, 0xEB, 0xEB},
    {"mydev.bitwise_xor", Class::kInteger, Pattern::kArithmetic, 1, 0xEF, 0xEF},
    {"mydev.eq", Class::kInteger, Pattern::kCompare, 1, 0x76, 0},
    {"mydev.ne", Class::kInteger, Pattern::kCompare, 1, 0x76, 0, false, true},
    {"mydev.gt", Class::kInteger, Pattern::kCompare, 1, 0x66, 0},
    {"mydev.lt", Class::kInteger, Pattern::kCompare, 1, 0x66, 0, true},
    {"mydev.ge", Class::kInteger, Pattern::kCompare, 1, 0x66, 0, true, true},
    {"mydev.le", Class::kInteger, Pattern::kCompare, 1, 0x66, 0, false, true},
    {"mydev.where", Class::kInteger, Pattern::kSelect, 3, 0x4A, 0x4B},
    {"mydev.bitwise_and", Class::kTruth, Pattern::kArithmetic, 1, 0xDB, 0},
    {"mydev.bitwise_or", Class::kTruth, Pattern::kArithmetic, 1, 0xEB, 0},
    {"mydev.bitwise_xor", Class::kTruth, Pattern::kArithmetic, 1, 0xEF, 0},
    {"mydev.bitwise_not", Class::kTruth, Pattern::kNot, 1, 0xEF, 0},
};

std::optional<SmallProgram::Instructions::Class> SmallProgram::Instructions::class_of(mydev_dtype dtype) {
  if (dtype == MYDEV_F32 || dtype == MYDEV_F64) return Class::kFloat;
  if (dtype == MYDEV_S32 || dtype == MYDEV_S64) return Class::kInteger;
  if (dtype == MYDEV_PRED) return Class::kTruth;
  return std::nullopt;
}

// Rows that vectors of floats have, too.
bool SmallProgram::Instructions::has_vectors(const Row& row) {
  return row.of == Class::kFloat && row.pattern != Pattern::kCompare && row.pattern != Pattern::kSelect;
}

// The row of a call; nullptr: it has no code.
const SmallProgram::Instructions::Row* SmallProgram::Instructions::row_of(size_t index) const {
  const PointwiseTableCall& call = program_.calls_[index];
  const Operation& operation = program_.operations_[index];
  const std::optional<Class> of = class_of(operation.dtype);
  if (!of) return nullptr;
  const std::string_view name = call.frame->kernel->name;
  const auto* const row = std::ranges::find_if(kRows, [&](const Row& each) {
    return each.of == *of && each.kernel == name && (each.pattern == Pattern::kScaled) == (operation.alpha != 1);
  });
  if (row == std::end(kRows)) return nullptr;
  const bool has_opcode = row->pattern == Pattern::kCompare && *of == Class::kFloat;
  if (!has_opcode && width_of(operation) == 8 && row->wide == 0) return nullptr;
  if (call.count > kMostScalars && (!has_vectors(*row) || call.count > kMostFloats)) return nullptr;
  return row;
}

// All bits of `reg` but the sign, or the sign alone.
void SmallProgram::Instructions::sign_bits(uint8_t reg, bool all_but, int width, bool full) {
  to_.vector({1, 1, 0x76, full}, reg, reg, reg);
  // VPSLLD, VPSLLQ and to the right: the register that is shifted stands third.
  to_.vector({1, 1, static_cast<uint8_t>(width == 8 ? 0x73 : 0x72), full}, all_but ? 2 : 6, reg, reg);
  to_.byte(all_but ? 1 : static_cast<uint8_t>(8 * width - 1));
}

// Computes `bytes` bytes of values of `width` bytes.
uint8_t SmallProgram::Instructions::compute(const Row& row, std::span<const uint8_t> in, int width, int64_t bytes) {
  const bool scalar = bytes == width, full = bytes == 32, is_float = row.of == Class::kFloat;
  const uint8_t opcode = width == 8 ? row.wide : row.narrow;
  const uint8_t to = new_register();
  switch (row.pattern) {
    case Pattern::kArithmetic:
      to_.vector({is_float ? prefix_of(scalar, width) : uint8_t{1}, row.map, opcode, full}, to, in[0], in[1]);
      break;
    case Pattern::kScaled:  // VFMADD231PS or VFNMADD231PS: as the kernel, with one rounding
      to_.vector({0, 1, 0x28, full}, to, 0, in[0]);
      to_.vector({1, row.map, opcode, full}, to, in[2], in[1]);
      break;
    case Pattern::kRoot:
      to_.vector({prefix_of(scalar, width), 1, opcode, full}, to, scalar ? in[0] : uint8_t{0}, in[0]);
      break;
    case Pattern::kNegative:
    case Pattern::kMagnitude:
      sign_bits(kScratch0, row.pattern == Pattern::kMagnitude, width, full);
      to_.vector({0, 1, opcode, full}, to, in[0], kScratch0);
      break;
    case Pattern::kExtremum:  // the first, if it wins or is no number
      compare({prefix_of(scalar, width), 1, 0xC2, full}, kScratch0, in[0], in[1], opcode);
      compare({prefix_of(scalar, width), 1, 0xC2, full}, kScratch1, in[0], in[0], 3);
      to_.vector({1, 1, 0xEB, full}, kScratch0, kScratch0, kScratch1);
      select({1, 3, static_cast<uint8_t>(width == 8 ? 0x4B : 0x4A), full}, to, in[1], in[0], kScratch0);
      break;
    case Pattern::kCompare:
      if (is_float) {
        compare({prefix_of(true, width), 1, 0xC2}, to, in[0], in[1], opcode);
      } else {
        to_.vector({1, 1, opcode}, to, in[row.swaps ? 1 : 0], in[row.swaps ? 0 : 1]);
        if (row.inverts) invert(to, to);
      }
      break;
    case Pattern::kNot:
      invert(to, in[0]);
      break;
    case Pattern::kSelect:
      select({1, 3, opcode}, to, in[2], in[1], in[0]);
      break;
  }
  return to;
}

void SmallProgram::Instructions::call(size_t index) {
  const Row* const row = row_of(index);
  const PointwiseTableCall& call = program_.calls_[index];
  const Operation& operation = program_.operations_[index];
  const bool of_truths = row->of == Class::kTruth, gives_truth = of_truths || row->pattern == Pattern::kCompare;
  const int width = width_of(operation);
  const int64_t bytes = call.count * width;
  uint8_t one = 0;
  pinned_ = 0;
  if (operation.by_one) {
    one = load(call.first + 2, 0, width);
    if (call.count > kMostScalars) one = broadcast(one, width);
  } else if (row->pattern == Pattern::kScaled) {
    one = new_register();
    to_.set(kRax, std::bit_cast<uint32_t>(static_cast<float>(operation.alpha)));
    to_.vector({1, 1, 0x6E}, one, 0, kRax);
    if (call.count > kMostScalars) one = broadcast(one, width);
  }
  const uint32_t pinned = pinned_;
  for (int64_t at = 0; at < bytes;) {
    pinned_ = pinned;
    const int64_t step = call.count <= kMostScalars ? width : step_of(bytes - at);
    std::array<uint8_t, kMaxBlockInputs> in{};
    for (int k = 0; k < operation.inputs; ++k) {
      const size_t pointer = call.first + 1 + static_cast<size_t>(k);
      const bool is_truth = of_truths || (row->pattern == Pattern::kSelect && k == 0);
      in[static_cast<size_t>(k)] = is_truth                     ? load_truth(pointer, at / width, width)
                                   : operation.by_one && k == 1 ? one
                                                                : load(pointer, at, step);
    }
    if (row->pattern == Pattern::kScaled) in[2] = one;
    const uint8_t result = compute(*row, in, width, step);
    if (gives_truth) {
      store_truth(call.first, at / width, result, width);
    } else {
      store(call.first, at, step, result);
    }
    at += step;
  }
}

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

}  // namespace mydev::kernels
