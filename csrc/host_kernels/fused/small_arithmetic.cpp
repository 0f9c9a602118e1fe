// Pointwise steps as instructions. All results are, to the bit, those of the kernels.
#include <bit>
#include <cstring>
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
    {"mydev.maximum", Class::kFloat, Pattern::kExtremum, 1, kGreaterOrEqual, kGreaterOrEqual},
    {"mydev.minimum", Class::kFloat, Pattern::kExtremum, 1, kLessOrEqual, kLessOrEqual},
    {"mydev.eq", Class::kFloat, Pattern::kCompare, 1, 0, 0},
    {"mydev.ne", Class::kFloat, Pattern::kCompare, 1, 4, 4},
    {"mydev.lt", Class::kFloat, Pattern::kCompare, 1, 17, 17},
    {"mydev.le", Class::kFloat, Pattern::kCompare, 1, 18, 18},
    {"mydev.gt", Class::kFloat, Pattern::kCompare, 1, 30, 30},
    {"mydev.ge", Class::kFloat, Pattern::kCompare, 1, 29, 29},
    {"mydev.isfinite", Class::kFloat, Pattern::kIsFinite, 1, 0x5C, 0x5C},
    {"mydev.where", Class::kFloat, Pattern::kSelect, 3, 0x4A, 0x4B},
    {"mydev.add", Class::kInteger, Pattern::kArithmetic, 1, 0xFE, 0xD4},
    {"mydev.sub", Class::kInteger, Pattern::kArithmetic, 1, 0xFA, 0xFB},
    {"mydev.mul", Class::kInteger, Pattern::kArithmetic, 2, 0x40, 0},
    {"mydev.maximum", Class::kInteger, Pattern::kArithmetic, 2, 0x3D, 0},
    {"mydev.minimum", Class::kInteger, Pattern::kArithmetic, 2, 0x39, 0},
    {"mydev.sign", Class::kInteger, Pattern::kSign, 2, 0x0A, 0},
    {"mydev.div_trunc", Class::kInteger, Pattern::kQuotient, 1, 0x5E, 0},
    {"mydev.fmod", Class::kInteger, Pattern::kRemainder, 1, 0x5E, 0},
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
  return row.of == Class::kFloat && !gives_truth(row) && row.pattern != Pattern::kSelect;
}

bool SmallProgram::Instructions::gives_truth(const Row& row) {
  return row.of == Class::kTruth || row.pattern == Pattern::kCompare || row.pattern == Pattern::kIsFinite;
}

// True if the second input of the call is numbers that instructions divide by: constants but 0, which the kernel
// refuses, and -1, whose quotient may be too large.
bool SmallProgram::Instructions::divides(size_t call) const {
  const Pointer& pointer = program_.pointers_[program_.calls_[call].first + 2];
  const Binding& binding = program_.bindings_[pointer.binding];
  if (binding.kind != Binding::kConstant) return false;
  const int64_t count = program_.operations_[call].by_one ? 1 : program_.calls_[call].count;
  for (int64_t i = 0; i < count; ++i) {
    int32_t divisor = 0;
    std::memcpy(&divisor, program_.constant(binding.offset + pointer.offset + i * 4), sizeof divisor);
    if (divisor == 0 || divisor == -1) return false;
  }
  return true;
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
  if ((row->pattern == Pattern::kQuotient || row->pattern == Pattern::kRemainder) && !divides(index)) return nullptr;
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

// The first, if it is no number or the predicate holds; else the second. MAXPS and MINPS give their second operand if
// the operands are equal or one is NaN, so only a NaN in the place of their first one is left to be put in.
void SmallProgram::Instructions::choose(uint8_t predicate, uint8_t to, uint8_t first, uint8_t second, int width,
                                        int64_t bytes) {
  const bool full = bytes == 32, is_strict = predicate == kLess || predicate == kGreaterThan;
  const bool is_largest = predicate == kGreaterThan || predicate == kGreaterOrEqual;
  const uint8_t prefix = prefix_of(bytes == width, width);
  const uint8_t one = is_strict ? first : second, other = is_strict ? second : first;
  to_.vector({prefix, 1, static_cast<uint8_t>(is_largest ? 0x5F : 0x5D), full}, kScratch0, one, other);
  compare({prefix, 1, 0xC2, full}, kScratch1, one, one, 3);
  select({1, 3, static_cast<uint8_t>(width == 8 ? 0x4B : 0x4A), full}, to, kScratch0, one, kScratch1);
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
    case Pattern::kExtremum:
      choose(opcode, to, in[0], in[1], width, bytes);
      break;
    case Pattern::kCompare:
      if (is_float) {
        compare({prefix_of(true, width), 1, 0xC2}, to, in[0], in[1], opcode);
      } else {
        to_.vector({1, 1, opcode}, to, in[row.swaps ? 1 : 0], in[row.swaps ? 0 : 1]);
        if (row.inverts) invert(to, to);
      }
      break;
    case Pattern::kIsFinite:  // what differs from itself by a number
      to_.vector({prefix_of(true, width), row.map, opcode}, to, in[0], in[0]);
      compare({prefix_of(true, width), 1, 0xC2}, to, to, to, 7);
      break;
    case Pattern::kSign:  // 1 with the sign, or 0
      to_.vector(kEqual, kScratch0, kScratch0, kScratch0);
      to_.vector({1, 2, 0x1E}, kScratch0, 0, kScratch0);  // VPABSD
      to_.vector({1, row.map, opcode}, to, kScratch0, in[0]);
      break;
    case Pattern::kQuotient:
    case Pattern::kRemainder:                         // doubles have all quotients of integers of 32 bits
      to_.vector({2, 1, 0xE6}, kScratch0, 0, in[0]);  // VCVTDQ2PD
      to_.vector({2, 1, 0xE6}, kScratch1, 0, in[1]);
      to_.vector({3, row.map, opcode}, to, kScratch0, kScratch1);
      to_.vector({1, 1, 0xE6}, to, 0, to);  // VCVTTPD2DQ
      if (row.pattern == Pattern::kQuotient) break;
      to_.vector({1, 2, 0x40}, kScratch0, to, in[1]);
      to_.vector({1, 1, 0xFA}, to, in[0], kScratch0);
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

// Calls the kernel's function of one vector register, whose values are those of the operand, or 0.
void SmallProgram::Instructions::call_pack(size_t index) {
  const PointwiseTableCall& call = program_.calls_[index];
  const Operation& operation = program_.operations_[index];
  const int64_t bytes = call.count * width_of(operation);
  for (int64_t at = 0; at < bytes;) {
    const int64_t step = step_of(bytes - at);
    pinned_ = 0;
    const uint8_t in = load(call.first + 1, at, step);
    if (step == 4) {
      to_.vector({1, 3, 0x21}, 0, in, in);  // VINSERTPS
      to_.byte(0x0E);
    } else if (step == 8) {
      to_.vector({2, 1, 0x7E}, 0, 0, in);  // VMOVQ
    } else {
      to_.vector({0, 1, 0x28, step == 32}, 0, 0, in);
    }
    to_.set(kRax, std::bit_cast<uint64_t>(operation.pack));
    to_.call(kRax);
    forget();
    store(call.first, at, step, pin(0));
    at += step;
  }
}

void SmallProgram::Instructions::call(size_t index) {
  if (has_pack(index)) return call_pack(index);
  const Row* const row = row_of(index);
  const PointwiseTableCall& call = program_.calls_[index];
  const Operation& operation = program_.operations_[index];
  const bool of_truths = row->of == Class::kTruth;
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
    if (gives_truth(*row)) {
      store_truth(call.first, at / width, result, width);
    } else {
      store(call.first, at, step, result);
    }
    at += step;
  }
}

}  // namespace mydev::kernels
