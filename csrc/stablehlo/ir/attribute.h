// Attributes: what operators, functions and modules are given besides values, as one variant.
//
// An Attribute does not change once its module has it, and lives as long. Operation has accessors that check the kind
// and name the operator where it is another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "stablehlo/ir/sharding.h"
#include "stablehlo/ir/type.h"

namespace mydev::stablehlo {

struct Attribute;

struct NamedAttribute {
  std::string_view name;  // the module's
  const Attribute* value = nullptr;
};

using ArrayAttribute = std::vector<const Attribute*>;
using Dictionary = std::vector<NamedAttribute>;
// The attribute of that name, or nullptr.
const Attribute* find(const Dictionary& dictionary, std::string_view name) noexcept;

struct Unit {};  // it is there: nothing else is said
struct Integer {
  int64_t value = 0;  // of an unsigned type: its bits
  const Type* type = nullptr;
};
struct Float {
  double value = 0;
  uint64_t bits = 0;  // as its type has them
  const Type* type = nullptr;
};
struct Symbol {
  std::string path;  // "main"; of a nested one "outer::inner"
};

// The elements of a constant.
struct TensorLiteral {
  const Type* type = nullptr;  // a static tensor
  // Dense, row-major, little-endian; a byte for each element of fewer than eight bits, extended to it by its sign;
  // 0 or 1 of a pred. One element where is_splat: they are all the same. The module's memory, not aligned.
  std::span<const std::byte> bytes;
  bool is_splat = false;
};

enum class ComparisonDirection : uint8_t { kEq, kNe, kGe, kGt, kLe, kLt };
enum class ComparisonType : uint8_t { kNone, kFloat, kTotalOrder, kSigned, kUnsigned };
enum class CustomCallVersion : uint8_t {
  kUnspecified,
  kOriginal,
  kStatusReturning,
  kStatusReturningUnified,
  kTypedFfi
};
enum class FftType : uint8_t { kFft, kIfft, kRfft, kIrfft };
enum class Precision : uint8_t { kDefault, kHigh, kHighest };
enum class RngAlgorithm : uint8_t { kDefault, kThreeFry, kPhilox };
enum class RngDistribution : uint8_t { kUniform = 1, kNormal };
enum class Transpose : uint8_t { kInvalid, kNoTranspose, kTranspose, kAdjoint };
enum class ResultAccuracyMode : uint8_t { kDefault, kHighest, kTolerance };

struct ResultAccuracy {
  double atol = 0, rtol = 0;
  int64_t ulps = 0;
  ResultAccuracyMode mode = ResultAccuracyMode::kDefault;
};

// Part of an operand that a custom call writes its result into.
struct OutputOperandAlias {
  std::vector<int64_t> output_tuple_indices;
  int64_t operand_index = 0;
  std::vector<int64_t> operand_tuple_indices;
};

// One of a dialect whose attributes are read past, such as most of Shardy's: "sdy attribute 10".
struct UnknownAttribute {
  std::string description;
};

struct Attribute {
  using Value = std::variant<Unit, bool, Integer, Float, std::string, Symbol, const Type*, ArrayAttribute, Dictionary,
                             TensorLiteral, ComparisonDirection, ComparisonType, CustomCallVersion, FftType, Precision,
                             RngAlgorithm, RngDistribution, Transpose, ResultAccuracyMode, ResultAccuracy,
                             OutputOperandAlias, Mesh, TensorSharding, TensorShardings, ManualAxes, MeshAxis,
                             AxisReference, AxisReference::Part, DimensionSharding, UnknownAttribute>;
  Value value;

  // The alternative, or nullptr if it is another one.
  template <typename T>
  const T* get_if() const noexcept {
    return std::get_if<T>(&value);
  }
  // What it is, for messages: "an integer", "a tensor literal".
  std::string_view kind_name() const noexcept;
};

// Elements of a literal as numbers; all of them where it is a splat, at most so many. Raises INVALID_ARGUMENT for other
// types.
inline constexpr size_t kMostListedElements = size_t{1} << 20;
std::vector<int64_t> integers_of(const TensorLiteral& literal);
// What every kind of list of integers or booleans gives; nothing for what is none.
std::optional<std::vector<int64_t>> integers_in(const Attribute& attribute);
std::vector<double> floats_of(const TensorLiteral& literal);  // of floats and integers

// The number that bits stand for: of f64, f32, bf16 and f16. Raises UNIMPLEMENTED for others.
double float_of_bits(ElementType type, uint64_t bits);

}  // namespace mydev::stablehlo
