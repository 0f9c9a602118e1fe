// Machine code of a SmallProgram, for processors with AVX2.
//
// One function runs all items. Pointwise steps over up to four values are instructions, one after the other for each
// value, and so are arithmetic ones over up to 32 floats, by vectors. All else is called. Each result is stored at
// once, and stays in a register as well, until that is needed or something else is written there. No register holds
// anything where control flow joins, and behind calls.
#include <algorithm>
#include <array>
#include <bit>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>

#include "host_kernels/fused/small_program.h"

namespace mydev::kernels {

namespace {

constexpr size_t kMostCode = 1 << 18;  // bytes; a longer program is interpreted
constexpr int64_t kMostScalars = 4, kMostFloats = 32;
constexpr int kRegisters = 14;                     // that hold values
constexpr uint8_t kScratch0 = 14, kScratch1 = 15;  // for steps between
constexpr Register kBaseRegisters[] = {kRdx, kRsi, kRdi, kR8, kR9, kR10, kR11};
constexpr Register kConstants = kRbp, kMemory = kRbx, kTable = kR12, kProgram = kR13, kRun = kR14, kBases = kR15;

enum class Pattern : uint8_t { kArithmetic, kScaled, kRoot, kNegative, kMagnitude, kExtremum, kCompare, kNot, kSelect };
enum class Class : uint8_t { kFloat, kInteger, kTruth };

// How the steps of a kernel are computed. `narrow` and `wide` are opcodes for values of 4 and of 8 bytes, 0: there is
// none; of comparisons and extrema of floats they are the predicate of CMPPS.
struct Row {
  const char* kernel;
  Class of;
  Pattern pattern;
  uint8_t map, narrow, wide;
  bool swaps = false, inverts = false;
};

constexpr Row kRows[] = {
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

std::optional<Class> class_of(mydev_dtype dtype) {
  if (dtype == MYDEV_F32 || dtype == MYDEV_F64) return Class::kFloat;
  if (dtype == MYDEV_S32 || dtype == MYDEV_S64) return Class::kInteger;
  if (dtype == MYDEV_PRED) return Class::kTruth;
  return std::nullopt;
}

// Rows that vectors of floats have, too.
bool has_vectors(const Row& row) {
  return row.of == Class::kFloat && row.pattern != Pattern::kCompare && row.pattern != Pattern::kSelect;
}

constexpr VectorOp kXor{1, 1, 0xEF}, kOr{1, 1, 0xEB}, kEqual{1, 1, 0x76}, kGreater{1, 1, 0x66}, kWiden{1, 2, 0x25};

}  // namespace

class SmallProgram::Coder {
 public:
  explicit Coder(const SmallProgram& program) : program_(program), is_shared_(program.places_.size()) {
    for (size_t i = 0; i < is_shared_.size(); ++i) {
      const Place& place = program.places_[i];
      if (place.kind == Place::kBuffer || place.kind == Place::kMoving) is_shared_[i] = true;
      if (place.kind == Place::kMoving) is_shared_[place.base] = true;
    }
  }

  // Returns nothing if the program has numbers that instructions do not hold.
  std::optional<ExecutableMemory> code() {
    begin();
    items(0, program_.items_.size(), 0);
    end();
    if (!fits_ || to_.size() > kMostCode) return std::nullopt;
    return ExecutableMemory(to_.code());
  }

 private:
  // A register that holds bytes of a place. `truth`: as bits that are all equal, of as many bytes.
  struct Held {
    uint8_t reg;
    bool truth;
    size_t place;
    int64_t offset, bytes;
    int width;
  };
  using Place = SmallProgram::Place;

  // --- memory and registers ---

  Address address_of(size_t index, int64_t offset) {
    const Pointer& pointer = program_.pointers_[index];
    const Place& place = program_.places_[pointer.place];
    if (place.kind == Place::kScratch) return {kMemory, signed32(place.offset + pointer.offset + offset)};
    if (place.kind == Place::kConstant) return {kConstants, signed32(place.offset + pointer.offset + offset)};
    return {base_of(pointer.place), signed32(pointer.offset + offset)};
  }

  // A register that has the address of the place.
  Register base_of(size_t place) {
    const auto found = std::ranges::find(bases_, place);
    if (found != bases_.end()) return kBaseRegisters[static_cast<size_t>(found - bases_.begin())];
    next_base_ = (next_base_ + 1) % bases_.size();
    bases_[next_base_] = place;
    const Register reg = kBaseRegisters[next_base_];
    to_.load(reg, {kBases, signed32(static_cast<int64_t>(place * sizeof(void*)))});
    return reg;
  }

  void forget() {
    held_.clear();
    bases_.fill(kNoPointer);
  }

  int32_t signed32(int64_t value) {
    fits_ = fits_ && value == static_cast<int32_t>(value);
    return static_cast<int32_t>(value);
  }

  uint8_t new_register() {
    uint8_t oldest = kRegisters;
    for (uint8_t reg = 0; reg < kRegisters; ++reg) {
      if ((pinned_ >> reg & 1) == 0 && (oldest == kRegisters || used_[reg] < used_[oldest])) oldest = reg;
    }
    std::erase_if(held_, [&](const Held& held) { return held.reg == oldest; });
    return pin(oldest);
  }

  // The step that is being written uses the register.
  uint8_t pin(uint8_t reg) {
    pinned_ |= 1U << reg;
    used_[reg] = ++clock_;
    return reg;
  }

  const Held* find(size_t pointer, int64_t offset, int64_t bytes, bool truth) const {
    const Pointer& at = program_.pointers_[pointer];
    for (const Held& held : held_) {
      if (held.place == at.place && held.offset == at.offset + offset && held.bytes == bytes && held.truth == truth) {
        return &held;
      }
    }
    return nullptr;
  }

  // Forgets what has been written over.
  void overwritten(size_t pointer, int64_t offset, int64_t bytes) {
    const Pointer& at = program_.pointers_[pointer];
    const int64_t begin = at.offset + offset, end = begin + bytes;
    std::erase_if(held_, [&](const Held& held) {
      if (held.place != at.place) return is_shared_[at.place] && is_shared_[held.place];
      return held.offset < end && held.offset + held.bytes > begin;
    });
  }

  // Notes that the register holds what has just been read or written there.
  void hold(uint8_t reg, size_t pointer, int64_t offset, int64_t bytes, bool truth = false, int width = 0) {
    const Pointer& at = program_.pointers_[pointer];
    held_.push_back({reg, truth, at.place, at.offset + offset, bytes, width});
  }

  static VectorOp move_op(int64_t bytes, bool stores) {
    const uint8_t prefix = bytes == 4 ? 2 : bytes == 8 ? 3 : 0;
    return {prefix, 1, static_cast<uint8_t>(stores ? 0x11 : 0x10), bytes == 32};
  }

  uint8_t load(size_t pointer, int64_t offset, int64_t bytes) {
    if (const Held* held = find(pointer, offset, bytes, false)) return pin(held->reg);
    const uint8_t reg = new_register();
    to_.vector(move_op(bytes, false), reg, 0, address_of(pointer, offset));
    hold(reg, pointer, offset, bytes);
    return reg;
  }

  void store(size_t pointer, int64_t offset, int64_t bytes, uint8_t reg) {
    to_.vector(move_op(bytes, true), reg, 0, address_of(pointer, offset));
    overwritten(pointer, offset, bytes);
    hold(reg, pointer, offset, bytes);
  }

  // A truth as bits of `width` bytes.
  uint8_t load_truth(size_t pointer, int64_t offset, int width) {
    if (const Held* held = find(pointer, offset, 1, true)) {
      pin(held->reg);
      if (held->width >= width) return held->reg;
      to_.vector(kWiden, kScratch0, 0, held->reg);
      return kScratch0;
    }
    const uint8_t reg = new_register();
    to_.load_byte(kRax, address_of(pointer, offset));
    to_.vector({1, 1, 0x6E}, reg, 0, kRax);
    to_.vector(kXor, kScratch0, kScratch0, kScratch0);
    to_.vector(kGreater, reg, reg, kScratch0);
    if (width == 8) to_.vector(kWiden, reg, 0, reg);
    hold(reg, pointer, offset, 1, true, width);
    return reg;
  }

  void store_truth(size_t pointer, int64_t offset, uint8_t reg, int width) {
    to_.vector({1, 1, 0x7E}, reg, 0, kRcx);
    to_.bytes({0x83, 0xE1, 0x01});  // and ecx, 1
    to_.memory(false, 0x88, kRcx, address_of(pointer, offset));
    overwritten(pointer, offset, 1);
    hold(reg, pointer, offset, 1, true, width);
  }

  // --- one value, or a vector of floats ---

  // All bits of `reg` but the sign, or the sign alone.
  void sign_bits(uint8_t reg, bool all_but, int width, bool full) {
    to_.vector({1, 1, 0x76, full}, reg, reg, reg);
    // VPSLLD, VPSLLQ and to the right: the register that is shifted stands third.
    to_.vector({1, 1, static_cast<uint8_t>(width == 8 ? 0x73 : 0x72), full}, all_but ? 2 : 6, reg, reg);
    to_.byte(all_but ? 1 : static_cast<uint8_t>(8 * width - 1));
  }

  // Computes `bytes` bytes of values of `width` bytes.
  uint8_t compute(const Row& row, std::span<const uint8_t> in, int width, int64_t bytes) {
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

  // SS, SD; PS, PD.
  static uint8_t prefix_of(bool scalar, int width) { return scalar ? (width == 8 ? 3 : 2) : (width == 8 ? 1 : 0); }
  void compare(VectorOp op, uint8_t to, uint8_t first, uint8_t second, uint8_t predicate) {
    to_.vector(op, to, first, second);
    to_.byte(predicate);
  }
  // The second where the bits are set.
  void select(VectorOp op, uint8_t to, uint8_t first, uint8_t second, uint8_t bits) {
    to_.vector(op, to, first, second);
    to_.byte(static_cast<uint8_t>(bits << 4));
  }
  void invert(uint8_t to, uint8_t from) {
    to_.vector(kEqual, kScratch1, kScratch1, kScratch1);
    to_.vector(kXor, to, from, kScratch1);
  }

  // --- steps ---

  static int width_of(const Operation& operation) {
    return operation.dtype == MYDEV_F64 || operation.dtype == MYDEV_S64 ? 8 : 4;
  }

  // The row of a call; nullptr: it has no code.
  const Row* row_of(size_t index) const {
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

  void call(size_t index, const Row* row) {
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

  void calls(const Item& item) {
    const size_t end = item.first + item.count;
    for (size_t i = item.first; i < end; ++i) {
      if (const Row* const row = row_of(i)) {
        call(i, row);
        continue;
      }
      const size_t first = i;
      while (i + 1 < end && row_of(i + 1) == nullptr) ++i;
      call_kernels(first, i + 1 - first);
    }
  }

  // False: it is to be called.
  bool move(const Move& move) {
    const int64_t width = move.value_bytes;
    const bool dense = move.to_offsets.empty(), by_bytes = width == 1;
    if ((width != 4 && width != 8 && !by_bytes) || move.count > (by_bytes ? kMostScalars : kMostFloats)) return false;
    if (by_bytes && dense && move.count != 1) return false;
    pinned_ = 0;
    if (dense && !by_bytes) {
      move_dense(move);
    } else if (move.count > kMostScalars && repeats_one(move)) {
      const uint8_t many = broadcast(load(move.from, move.from_offsets[0], width), width);
      for (int64_t at = 0, bytes = move.count * width; at < bytes;) {
        const int64_t step = step_of(bytes - at);
        store(move.to, at, step, many);
        at += step;
      }
    } else if (move.count > 2 * kMostScalars) {
      return false;
    } else {
      for (int64_t i = 0; i < move.count; ++i) {
        const int64_t to = dense ? 0 : move.to_offsets[static_cast<size_t>(i)];
        const int64_t from = dense ? 0 : move.from_offsets[static_cast<size_t>(i)];
        pinned_ = 0;
        if (by_bytes) {
          move_byte(move, to, from);
        } else {
          store(move.to, to, width, load(move.from, from, width));
        }
      }
    }
    return true;
  }

  // All values are read before any is written.
  void move_dense(const Move& move) {
    const int64_t bytes = move.count * move.value_bytes;
    struct Part {
      int64_t at, bytes;
      uint8_t reg;
    };
    std::vector<Part> parts;
    for (int64_t at = 0; at < bytes; at += parts.back().bytes) {
      const int64_t step = move.count <= kMostScalars ? move.value_bytes : step_of(bytes - at);
      parts.push_back({at, step, load(move.from, at, step)});
    }
    for (const Part& part : parts) store(move.to, part.at, part.bytes, part.reg);
  }

  // One value, as often as a dense result has values.
  static bool repeats_one(const Move& move) {
    for (size_t i = 0; i < move.to_offsets.size(); ++i) {
      if (move.to_offsets[i] != static_cast<int64_t>(i) * move.value_bytes) return false;
      if (move.from_offsets[i] != move.from_offsets[0]) return false;
    }
    return true;
  }

  static int64_t step_of(int64_t rest) { return rest >= 32 ? 32 : rest >= 16 ? 16 : rest >= 8 ? 8 : 4; }

  // Returns a vector that has only this value.
  uint8_t broadcast(uint8_t one, int64_t width) {
    const uint8_t many = new_register();
    to_.vector({1, 2, static_cast<uint8_t>(width == 8 ? 0x19 : 0x18), true}, many, 0, one);
    return many;
  }

  void move_byte(const Move& move, int64_t to, int64_t from) {
    const Held* const found = find(move.from, from, 1, true);
    const Held held = found != nullptr ? *found : Held{};
    to_.load_byte(kRcx, address_of(move.from, from));
    to_.memory(false, 0x88, kRcx, address_of(move.to, to));
    overwritten(move.to, to, 1);
    if (held.truth) hold(held.reg, move.to, to, 1, true, held.width);
  }

  // False: it is to be called.
  bool convert(const Convert& convert) {
    if (convert.count > kMostScalars || !convert.is_of_truths) return false;
    for (int64_t i = 0; i < convert.count; ++i) {
      pinned_ = 0;
      const uint8_t reg = load_truth(convert.from, i, 4);
      store_truth(convert.to, i, reg, 4);
    }
    return true;
  }

  // Rows of few values, in the order in which the kernel's vectors combine their lanes: halves with halves. False: it
  // is to be called.
  bool rows(const Rows& rows) {
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
  void combine_halves(VectorOp op, std::span<const uint8_t> values) {
    for (size_t half = kMostScalars, count = values.size(); half > 0; half /= 2) {
      for (size_t i = 0; i < half && i + half < count; ++i) to_.vector(op, values[i], values[i], values[i + half]);
      count = std::min(count, half);
    }
  }

  // Adds doubles; the sum of zeros is not negative.
  uint8_t sum(const Rows& rows, int64_t begin) {
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
  uint8_t extremum(const Rows& rows, int64_t begin, bool is_largest) {
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

  // --- control flow ---

  using Step = mydev_code (*)(const SmallProgram&, size_t, size_t, Run&) noexcept;

  static mydev_code fail(const PointwiseTableCall& failed, Run& run) noexcept {
    return pass_on(*failed.frame, MYDEV_FAILED_PRECONDITION, run.outer);
  }
  static mydev_code run_item(const SmallProgram& program, size_t index, size_t, Run& run) noexcept {
    return program.run_items(index, index + 1, run);
  }
  static mydev_code begin_loop(const SmallProgram& program, size_t index, size_t, Run& run) noexcept {
    program.begin_repeat(program.items_[index], run);
    return MYDEV_OK;
  }

  // Calls step(program, first, second, run), and leaves with its code if that is none of success.
  void to_call(Step step, size_t first, size_t second) {
    to_.move(kRdi, kProgram);
    to_.set(kRsi, first);
    to_.set(kRdx, second);
    to_.move(kRcx, kRun);
    call_function(step);
    to_.bytes({0x85, 0xC0});  // test eax, eax
    exits_.push_back(to_.jump_if_not_zero());
    forget();
  }

  template <typename Function>
  void call_function(Function* function) {
    to_.set(kRax, std::bit_cast<uint64_t>(function));
    to_.bytes({0xC5, 0xF8, 0x77});  // vzeroupper
    to_.call(kRax);
  }

  // Runs calls one after the other; leaves if the attributes of one failed.
  void call_kernels(size_t first, size_t count) {
    to_.set(kRdi, std::bit_cast<uint64_t>(&program_.calls_[first]));
    to_.set(kRsi, count);
    to_.move(kRdx, kTable);
    call_function(program_.run_calls_);
    to_.bytes({0x48, 0x85, 0xC0});  // test rax, rax
    failures_.push_back(to_.jump_if_not_zero());
    forget();
  }

  // Sets the flags by the byte: zero if it is 0.
  void test(size_t pointer) {
    to_.load_byte(kRax, address_of(pointer, 0));
    to_.bytes({0x85, 0xC0});
  }

  void items(size_t begin, size_t end, int depth) {
    for (size_t i = begin; i < end && to_.size() <= kMostCode;) {
      const Item& item = program_.items_[i];
      size_t next = i + 1;
      bool has_code = true;
      switch (item.kind) {
        case Item::kCalls:
          calls(item);
          break;
        case Item::kMove:
          has_code = move(program_.moves_[item.first]);
          break;
        case Item::kConvert:
          has_code = convert(program_.converts_[item.first]);
          break;
        case Item::kRows:
          has_code = rows(program_.rows_[item.first]);
          break;
        case Item::kKernel:
          has_code = false;
          break;
        case Item::kRepeat:
          repeat(i, depth);
          next = item.end;
          break;
        case Item::kWhile:
          loop(i, depth);
          next = item.end;
          break;
        case Item::kIf:
          condition(i, depth);
          next = item.end;
          break;
      }
      if (!has_code) to_call(&run_item, i, 0);
      i = next;
    }
  }

  void repeat(size_t index, int depth) {
    const Item& item = program_.items_[index];
    if (item.iterations == 0) return;
    if (item.count != 0) to_call(&begin_loop, index, 0);
    const Address counter{kRsp, signed32(int64_t{8} * depth)};
    to_.set(kRax, static_cast<uint64_t>(item.iterations));
    to_.store(counter, kRax);
    forget();
    const size_t head = to_.size();
    items(index + 1, item.end, depth + 1);
    forget();
    to_.add(counter, -1);
    const size_t done = to_.jump_if_zero();
    for (const Advance& advance : std::span(program_.advances_).subspan(item.first, item.count)) {
      const int32_t bytes = signed32(advance.bytes);
      to_.add({kBases, signed32(static_cast<int64_t>(advance.place * sizeof(void*)))}, bytes);
      for (const size_t pointer : advance.pointers) {
        to_.add({kTable, signed32(static_cast<int64_t>(pointer * sizeof(void*)))}, bytes);
      }
    }
    to_.land(to_.jump(), head);
    to_.land(done);
  }

  void loop(size_t index, int depth) {
    const Item& item = program_.items_[index];
    test(item.first);
    const size_t done = to_.jump_if_zero();
    forget();
    const size_t head = to_.size();
    items(index + 1, item.end, depth + 1);
    test(item.first);
    to_.land(to_.jump_if_not_zero(), head);
    to_.land(done);
    forget();
  }

  void condition(size_t index, int depth) {
    const Item& item = program_.items_[index];
    test(item.first);
    const size_t to_otherwise = to_.jump_if_zero();
    const auto held = held_;
    const auto bases = bases_;
    items(index + 1, item.otherwise, depth + 1);
    const size_t done = to_.jump();
    to_.land(to_otherwise);
    held_ = held;
    bases_ = bases;
    items(item.otherwise, item.end, depth + 1);
    to_.land(done);
    forget();
  }

  static constexpr int32_t kFrame = 520;  // counters of loops; calls are aligned to 16 bytes with it
  void begin() {
    to_.bytes({0x55, 0x53, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57});  // push rbp, rbx, r12 to r15
    to_.bytes({0x48, 0x81, 0xEC, kFrame & 255, kFrame >> 8, 0, 0});           // sub rsp
    to_.move(kMemory, kRdi);
    to_.move(kTable, kRsi);
    to_.move(kBases, kRdx);
    to_.move(kProgram, kRcx);
    to_.move(kRun, kR8);
    to_.set(kConstants, std::bit_cast<uint64_t>(program_.constant(0)));
    forget();
  }
  void end() {
    to_.bytes({0x31, 0xC0});  // xor eax, eax
    const size_t leave = to_.size();
    for (const size_t exit : exits_) to_.land(exit);
    to_.bytes({0xC5, 0xF8, 0x77});                                   // vzeroupper
    to_.bytes({0x48, 0x81, 0xC4, kFrame & 255, kFrame >> 8, 0, 0});  // add rsp
    to_.bytes({0x41, 0x5F, 0x41, 0x5E, 0x41, 0x5D, 0x41, 0x5C, 0x5B, 0x5D, 0xC3});
    for (const size_t failure : failures_) to_.land(failure);
    to_.move(kRdi, kRax);
    to_.move(kRsi, kRun);
    call_function(&fail);
    to_.land(to_.jump(), leave);
  }

  const SmallProgram& program_;
  std::vector<bool> is_shared_;  // of the places: the memory may be that of another one
  Assembler to_;
  std::vector<Held> held_;
  std::array<size_t, std::size(kBaseRegisters)> bases_{};  // places
  size_t next_base_ = 0;
  std::vector<size_t> exits_, failures_;     // jumps: with a code in eax, with a call that failed in rax
  std::array<uint64_t, kRegisters> used_{};  // when
  uint64_t clock_ = 0;
  uint32_t pinned_ = 0;  // registers of the step that is being written
  bool fits_ = true;
};

void SmallProgram::generate_code() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::kBaseline) return;
  if (std::optional<ExecutableMemory> code = Coder(*this).code()) code_ = std::move(*code);
#endif
}

}  // namespace mydev::kernels
