// The operators, as rows of one table: name, operands, results, regions, attributes, traits.
//
// One operator of StableHLO is one Operator, whatever version of VHLO it came as ("add_v1", "dot_general_v2"). The
// attributes have VHLO's names, in which StableHLO's structured ones are flat: dot_general has
// lhs_contracting_dimensions and so on, not dot_dimension_numbers. Operators of other dialects that programs have
// (func.call, and Shardy's) are rows as well. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/api.h"

namespace mydev::stablehlo {

enum class Operator : uint8_t {
  // clang-format off
  kAbs, kAdd, kAfterAll, kAllGather, kAllReduce, kAllToAll, kAnd, kAtan2, kBatchNormGrad, kBatchNormInference,
  kBatchNormTraining, kBitcastConvert, kBroadcast, kBroadcastInDim, kCase, kCbrt, kCeil, kCholesky, kClamp,
  kCollectiveBroadcast, kCollectivePermute, kCompare, kComplex, kComposite, kConcatenate, kConstant, kConvert,
  kConvolution, kCosine, kCountLeadingZeros, kCreateToken, kCrossReplicaSum, kCustomCall, kDivide, kDot, kDotGeneral,
  kDynamicBroadcastInDim, kDynamicConv, kDynamicGather, kDynamicIota, kDynamicPad, kDynamicReshape, kDynamicSlice,
  kDynamicUpdateSlice, kEinsum, kExponential, kExponentialMinusOne, kFft, kFloor, kGather, kGetDimensionSize,
  kGetTupleElement, kIf, kImag, kInfeed, kIota, kIsFinite, kLog, kLogPlusOne, kLogistic, kMap, kMaximum, kMinimum,
  kMultiply, kNegate, kNot, kOptimizationBarrier, kOr, kOutfeed, kPad, kPartitionId, kPopcnt, kPower, kReal,
  kRealDynamicSlice, kRecv, kReduce, kReducePrecision, kReduceScatter, kReduceWindow, kRemainder, kReplicaId, kReshape,
  kReturn, kReverse, kRng, kRngBitGenerator, kRoundNearestAfz, kRoundNearestEven, kRsqrt, kScatter, kSelect,
  kSelectAndScatter, kSend, kSetDimensionSize, kShiftLeft, kShiftRightArithmetic, kShiftRightLogical, kSign, kSine,
  kSlice, kSort, kSqrt, kSubtract, kTan, kTanh, kTorchIndexSelect, kTranspose, kTriangularSolve, kTuple, kUnaryEinsum,
  kUniformDequantize, kUniformQuantize, kWhile, kXor,

  kCall,  // func.call

  kSdyAllGather, kSdyAllReduce, kSdyAllSlice, kSdyAllToAll, kSdyCollectivePermute, kSdyDataFlowEdge,
  kSdyManualComputation, kSdyNamedComputation, kSdyPropagationBarrier, kSdyReduceScatter, kSdyReplicatedToUnreduced,
  kSdyReshard, kSdyShardedToUnreduced, kSdyShardingConstraint, kSdyShardingGroup,
  // clang-format on
};

enum Trait : uint16_t {
  kTerminator = 1,           // the last of its block
  kSideEffects = 2,          // is run whether or not its results are used; custom calls say so in an attribute as well
  kSameTypes = 4,            // operands and results are of one type
  kSameShape = 8,            // operands and results are tensors of one shape
  kRegionsAreBranches = 16,  // a region takes no arguments and returns the results
  kResultsAreOperands = 32,  // the results are of the types of the operands
  kIdentity = 64,            // the result is the operand: it is about shardings only
  kElementwise = 128,        // computes element by element, by no region
};

struct AttributeRow {
  enum Kind : uint8_t {
    kBool,
    kInteger,
    kFloat,
    kString,    // or a symbol
    kIntegers,  // a one-dimensional tensor of s64, or an array
    kBools,     // a one-dimensional tensor of pred
    kTensor,    // any literal
    kArray,
    kDictionary,
    kType,
    kEnumeration,
    kAny,
  };
  std::string_view name;
  Kind kind = kAny;
  bool optional = false;
  // The first and last of VHLO's versions of the operator that have the attribute.
  uint8_t first_version = 1, last_version = 0xFF;
};

struct OperatorRow {
  Operator op;
  std::string_view name;  // "stablehlo.add"
  // Names of the groups of operands, in their order: "lhs rhs"; "inputs* init_values*". A group with a star has any
  // number of them; those of one operator have the same number.
  std::string_view operands;
  std::string_view results;  // likewise
  int8_t regions;            // -1: any number, at least one
  uint16_t traits;
  // The number of versions that VHLO has of the operator, up to StableHLO 1.13. 0: it is of another dialect.
  uint8_t versions;
  std::span<const AttributeRow> attributes;  // by name

  std::string_view short_name() const noexcept { return name.substr(name.find('.') + 1); }
  bool has(Trait trait) const noexcept { return (traits & trait) != 0; }
};

MYDEV_API const OperatorRow& operator_row(Operator op) noexcept;
MYDEV_API std::span<const OperatorRow> operator_rows() noexcept;
// The row of "stablehlo.add", or nullptr.
MYDEV_API const OperatorRow* find_operator(std::string_view name) noexcept;
// The attribute of that name, or nullptr.
const AttributeRow* find_attribute(const OperatorRow& row, std::string_view name) noexcept;

// The place of a group of operands or results among `count` of them.
struct GroupRange {
  size_t begin = 0, count = 0;
};
// The range of the group of that name; an empty range past the end if there is none. `groups` as in OperatorRow.
MYDEV_API GroupRange group_range(std::string_view groups, std::string_view name, size_t count) noexcept;
// Whether `count` operands can be divided into the groups.
MYDEV_API bool fits_groups(std::string_view groups, size_t count) noexcept;

}  // namespace mydev::stablehlo
