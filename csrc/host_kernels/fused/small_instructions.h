// Steps of a SmallProgram as instructions: pointwise steps, reductions, products, moves (small_code.cpp).
//
// Functions that return bool return false, and write nothing, if the step is to be called.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "host_kernels/fused/small_registers.h"

namespace mydev::kernels {

class SmallProgram::Instructions : protected SmallProgram::Registers {
 protected:
  using Registers::Registers;

  // --- small_arithmetic.cpp ---
  bool has_code(size_t call) const { return has_pack(call) || row_of(call) != nullptr; }
  void call(size_t index);

  // --- small_reductions.cpp ---
  bool rows(const Rows& rows);

  // --- small_kernels.cpp ---
  bool kernel(const Kernel& kernel);

  // --- small_moves.cpp ---
  bool move(const Move& move);
  bool convert(const Convert& convert);

 private:
  static constexpr int64_t kMostScalars = 4, kMostFloats = 32;
  // Predicates of CMPPS, which do not hold of NaN.
  static constexpr uint8_t kLess = 17, kLessOrEqual = 18, kGreaterOrEqual = 29, kGreaterThan = 30;

  enum class Pattern : uint8_t {
    kArithmetic,
    kScaled,
    kRoot,
    kNegative,
    kMagnitude,
    kExtremum,
    kCompare,
    kIsFinite,
    kNot,
    kSelect,
    kSign,
    kQuotient,
    kRemainder
  };
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
  static const Row kRows[];

  static int64_t step_of(int64_t rest) { return rest >= 32 ? 32 : rest >= 16 ? 16 : rest >= 8 ? 8 : 4; }
  static int width_of(const Operation& operation) {
    return operation.dtype == MYDEV_F64 || operation.dtype == MYDEV_S64 ? 8 : 4;
  }
  // SS, SD; PS, PD.
  static uint8_t prefix_of(bool scalar, int width) { return scalar ? (width == 8 ? 3 : 2) : (width == 8 ? 1 : 0); }
  static std::optional<Class> class_of(mydev_dtype dtype);
  static bool has_vectors(const Row& row);
  static bool gives_truth(const Row& row);
  bool divides(size_t call) const;
  bool has_pack(size_t call) const {
    return program_.operations_[call].pack != nullptr && program_.calls_[call].count <= kMostFloats;
  }
  void call_pack(size_t index);
  // The row of a call; nullptr: it has no code.
  const Row* row_of(size_t index) const;

  void sign_bits(uint8_t reg, bool all_but, int width, bool full);
  uint8_t compute(const Row& row, std::span<const uint8_t> in, int width, int64_t bytes);
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
  void choose(uint8_t predicate, uint8_t to, uint8_t first, uint8_t second, int width, int64_t bytes);

  // Columns of a matrix whose rows lie dense, `stride` elements apart.
  struct Columns {
    size_t pointer;
    int64_t rows, count, stride;
    int width;
  };
  static std::optional<Columns> columns_of(const Kernel& kernel, size_t operand);
  bool columns(const Kernel& kernel);
  bool places_in_columns(const Kernel& kernel, uint8_t predicate);
  void combine_halves(VectorOp op, std::span<const uint8_t> values);
  uint8_t sum(const Rows& rows, int64_t begin);
  uint8_t extremum(const Rows& rows, int64_t begin, bool is_largest);

  struct Matrix;
  bool product(const Kernel& kernel);
  enum class PartUse : uint8_t { kRead, kWrite, kAdd };
  // Elements of a part that lie dense: where they begin, in bytes.
  struct Piece {
    int64_t in_whole, in_part, bytes;
  };
  // One of the indices of a part: where it lies, in elements; the last place where the part may begin; the bytes from
  // place to place, and what is added to a negative index.
  struct Component {
    int64_t index;
    int32_t last, stride, wrap;
  };
  bool part(const Kernel& kernel, PartUse use);
  static std::vector<Piece> pieces_of(const mydev_buffer& whole, const mydev_buffer& parts, int64_t width, size_t most);
  static int64_t elements_of(const mydev_buffer& buffer);
  bool begin_with(const Kernel& kernel, int64_t width);
  std::vector<size_t> place_of_part(std::span<const Component> components, size_t index, bool is_wide, bool clamps,
                                    Register base);

  void move_dense(const Move& move);
  static bool repeats_one(const Move& move);
  void move_byte(const Move& move, int64_t to, int64_t from);
};

}  // namespace mydev::kernels
