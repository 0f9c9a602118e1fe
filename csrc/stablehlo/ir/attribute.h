// Attributes: the data besides values that operators, functions and modules are given, as one variant.
//
// An Attribute does not change once its module has it, and lives as long. Operation has accessors that check the kind
// and name the operator if it is another one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "runtime/base/api.h"
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
MYDEV_API const Attribute* find(const Dictionary& dictionary, std::string_view name) noexcept;

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
  // Dense, row-major, little-endian. An element of fewer than eight bits has a byte, extended to it by its sign; a pred
  // is 0 or 1. If is_splat, there is one element: they are all the same. The memory is the module's and not aligned.
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

// An attribute of a dialect whose attributes are read past, such as most of Shardy's: "sdy attribute 10".
struct UnknownAttribute {
  std::string description;
};

struct MYDEV_API Attribute {
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
  // The name of its kind, for messages: "an integer", "a tensor literal".
  std::string_view kind_name() const noexcept;
};

// Elements of a literal as numbers, at most so many; a splat gives all of them. Raises INVALID_ARGUMENT for other
// types.
inline constexpr size_t kMostListedElements = size_t{1} << 20;
MYDEV_API std::vector<int64_t> integers_of(const TensorLiteral& literal);
// The values of any kind of list of integers or booleans; nullopt if the attribute is no such list.
MYDEV_API std::optional<std::vector<int64_t>> integers_in(const Attribute& attribute);
MYDEV_API std::vector<double> floats_of(const TensorLiteral& literal);  // of floats and integers

// The number that bits stand for, for f64, f32, bf16 and f16. Raises UNIMPLEMENTED for others.
double float_of_bits(ElementType type, uint64_t bits);

}  // namespace mydev::stablehlo
