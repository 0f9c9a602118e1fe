// Attributes and types of VHLO, the versioned form in which StableHLO is stored.
#include <algorithm>
#include <bit>

#include "stablehlo/bytecode/attributes.h"

namespace mydev::stablehlo {

namespace {

enum AttributeCode : uint8_t {
  kArray = 1,
  kBoolean,
  kComparisonDirection,
  kComparisonType,
  kCustomCallVersion,
  kDictionary,
  kFftType,
  kFloat,
  kInteger,
  kOutputOperandAlias,
  kPrecision,
  kRngAlgorithm,
  kRngDistribution,
  kString,
  kTensor,
  kTranspose,
  kType,
  kTypeExtensions,
  kResultAccuracyMode,
  kResultAccuracy,
};

enum TypeCode : uint8_t {
  kComplexType = 1,
  kFunctionType = 8,
  kTensorType = 20,
  kTensorTypeWithEncoding = 21,
  kTokenType = 22,
  kTupleType = 23,
  kQuantizedType = 24,
  kUnrankedTensorType = 25,
  kWitnessType = 26,
  kQuantizedPerAxisType = 30,
  kNoneType = 33,
  kBufferType = 41,
};

// A number of an enumeration whose last one is `last`.
template <typename T>
Attribute enumeration(Cursor& cursor, T last, std::string_view what, T first = T{}) {
  const size_t offset = cursor.offset();
  const size_t value = cursor.index(static_cast<size_t>(last) + 1, what);
  if (value < static_cast<size_t>(first)) Cursor::fail_at(offset, "there is no ", what, " ", value);
  return {static_cast<T>(value)};
}

Attribute output_operand_alias(Cursor& cursor, BytecodeAttributes& table) {
  OutputOperandAlias alias;
  alias.output_tuple_indices = table.signed_integers(cursor);
  alias.operand_index = cursor.signed_varint();
  alias.operand_tuple_indices = table.signed_integers(cursor);
  return {std::move(alias)};
}

Attribute result_accuracy(Cursor& cursor, BytecodeAttributes& table) {
  ResultAccuracy accuracy;
  accuracy.atol = std::bit_cast<double>(cursor.signed_varint());
  accuracy.rtol = std::bit_cast<double>(cursor.signed_varint());
  accuracy.ulps = cursor.signed_varint();
  accuracy.mode = table.attribute_of<ResultAccuracyMode>(cursor, "a mode of accuracy");
  return {accuracy};
}

// The upper bounds of the dynamic sizes of a tensor, as an array of integers.
Attribute type_extensions(Cursor& cursor, BytecodeAttributes& table) {
  ArrayAttribute bounds;
  for (const int64_t bound : table.signed_integers(cursor)) {
    bounds.push_back(table.contents().add(Attribute{Integer{bound, nullptr}}));
  }
  return {std::move(bounds)};
}

Type tensor_type_with_encoding(Cursor& cursor, BytecodeAttributes& table) {
  std::vector<int64_t> bounds;
  const size_t offset = cursor.offset();
  for (const Attribute* bound : table.attribute_of<ArrayAttribute>(cursor, "the bounds of a tensor")) {
    const auto* integer = bound->get_if<Integer>();
    if (integer == nullptr) Cursor::fail_at(offset, "a bound of a tensor is ", bound->kind_name());
    bounds.push_back(integer->value);
  }
  Type type = table.shaped_type(cursor, TypeKind::kTensor);
  if (bounds.size() != type.dims.size()) {
    Cursor::fail_at(offset, "a tensor of rank ", type.dims.size(), " has ", bounds.size(), " bounds");
  }
  type.bounds = std::move(bounds);
  return type;
}

}  // namespace

Attribute decode_vhlo_attribute(Cursor& cursor, BytecodeAttributes& table) {
  const size_t offset = cursor.offset();
  const uint64_t code = cursor.varint();
  switch (code) {
    case kArray:
      return {table.attributes(cursor)};
    case kBoolean:
      return {cursor.index(2, "boolean") != 0};
    case kComparisonDirection:
      return enumeration(cursor, ComparisonDirection::kLt, "comparison direction");
    case kComparisonType:
      return enumeration(cursor, ComparisonType::kUnsigned, "comparison type");
    case kCustomCallVersion:
      return enumeration(cursor, CustomCallVersion::kTypedFfi, "version of custom calls");
    case kDictionary:
      return table.dictionary(cursor);
    case kFftType:
      return enumeration(cursor, FftType::kIrfft, "kind of Fourier transform");
    case kFloat:
      return {table.floating(cursor)};
    case kInteger: {
      const Type* type = table.type(cursor);
      return {Integer{table.integer(cursor, *type), type}};
    }
    case kOutputOperandAlias:
      return output_operand_alias(cursor, table);
    case kPrecision:
      return enumeration(cursor, Precision::kHighest, "precision");
    case kRngAlgorithm:
      return enumeration(cursor, RngAlgorithm::kPhilox, "algorithm of random numbers");
    case kRngDistribution:
      return enumeration(cursor, RngDistribution::kNormal, "distribution of random numbers", RngDistribution::kUniform);
    case kString:
      return {std::string(table.string(cursor))};
    case kTensor:
      return {table.literal(cursor)};
    case kTranspose:
      return enumeration(cursor, Transpose::kAdjoint, "transposition");
    case kType:
      return {table.type(cursor)};
    case kTypeExtensions:
      return type_extensions(cursor, table);
    case kResultAccuracyMode:
      return enumeration(cursor, ResultAccuracyMode::kTolerance, "mode of accuracy");
    case kResultAccuracy:
      return result_accuracy(cursor, table);
    default:
      Cursor::fail_at(offset, "attribute ", code, " of VHLO is none of StableHLO 1.13, the newest that is read");
  }
}

Type decode_vhlo_type(Cursor& cursor, BytecodeAttributes& table) {
  const size_t offset = cursor.offset();
  const uint64_t code = cursor.varint();
  Type type;
  switch (code) {
    case kComplexType:
      return table.complex_type(cursor);
    case kFunctionType:
      return table.function_type(cursor);
    case kTensorType:
      return table.shaped_type(cursor, TypeKind::kTensor);
    case kTensorTypeWithEncoding:
      return tensor_type_with_encoding(cursor, table);
    case kTokenType:
      type.kind = TypeKind::kToken;
      return type;
    case kTupleType:
      return table.tuple_type(cursor);
    case kUnrankedTensorType:
      return table.unranked_type(cursor);
    case kWitnessType:
      type.kind = TypeKind::kWitness;
      return type;
    case kNoneType:
      return type;
    case kBufferType:
      return table.shaped_type(cursor, TypeKind::kBuffer);
    case kQuantizedType:
    case kQuantizedPerAxisType:
      raise(MYDEV_UNIMPLEMENTED, "quantized types are not read; dequantize the program before it is serialised");
    default:
      break;
  }
  const auto row =
      std::ranges::find_if(kElementTypes, [code](const ElementRow& candidate) { return candidate.vhlo_code == code; });
  if (row == kElementTypes.end() || code >= kNoCode) {
    Cursor::fail_at(offset, "type ", code, " of VHLO is none of StableHLO 1.13, the newest that is read");
  }
  return element_type(row->type);
}

}  // namespace mydev::stablehlo
