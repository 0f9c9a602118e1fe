// Attributes and types of MLIR's builtin dialect: of modules, of what discardable attributes hold, and of the values
// that Shardy's operators take.
#include <algorithm>

#include "stablehlo/bytecode/attributes.h"

namespace mydev::stablehlo {

namespace {

enum AttributeCode : uint8_t {
  kArray,
  kDictionary,
  kString,
  kTypedString,
  kFlatSymbol,
  kNestedSymbol,
  kType,
  kUnit,
  kInteger,
  kFloat,
  kCallSiteLocation,
  kUnknownLocation = 15,
  kDenseArray = 17,
  kDenseElements = 18,
  kFileRangeLocation = 22,
};

enum TypeCode : uint8_t {
  kIntegerType = 0,
  kFunctionType = 2,
  kComplexType = 9,
  kNoneType = 12,
  kTensorType = 13,
  kTupleType = 15,
  kUnrankedTensorType = 18,
};

Attribute nested_symbol(Cursor& cursor, BytecodeAttributes& table) {
  std::string path = table.attribute_of<std::string>(cursor, "a string");
  for (const Attribute* nested : table.attributes(cursor)) {
    const auto* symbol = nested->get_if<Symbol>();
    if (symbol == nullptr) cursor.fail("part of a symbol is ", nested->kind_name());
    path += "::" + symbol->path;
  }
  return {Symbol{std::move(path)}};
}

// Numbers without a shape: they are a literal of one dimension.
Attribute dense_array(Cursor& cursor, BytecodeAttributes& table) {
  const Type* element = table.type(cursor);
  if (element->kind != TypeKind::kElement) cursor.fail("an array is of the type ", element->text());
  const size_t offset = cursor.offset();
  const uint64_t count = cursor.varint();
  if (count > static_cast<uint64_t>(kMostTensorBytes / 16)) Cursor::fail_at(offset, "an array of ", count, " numbers");
  const std::span<const std::byte> bytes = cursor.blob();
  if (bytes.size() != count * static_cast<uint64_t>(element_bytes(element->element))) {
    Cursor::fail_at(offset, "an array of ", count, " numbers has ", bytes.size(), " bytes");
  }
  Type type;
  type.kind = TypeKind::kTensor;
  type.element = element->element;
  type.dims = {static_cast<int64_t>(count)};
  return {TensorLiteral{table.contents().add(std::move(type)), bytes, false}};
}

Type integer_type(Cursor& cursor) {
  const size_t offset = cursor.offset();
  const uint64_t encoded = cursor.varint();
  const bool is_unsigned = (encoded & 3) == 2;
  const uint64_t bits = encoded >> 2;
  if (bits == 1) return element_type(ElementType::kPred);
  const ElementKind kind = is_unsigned ? ElementKind::kUnsigned : ElementKind::kSigned;
  const auto row = std::ranges::find_if(kElementTypes, [&](const ElementRow& candidate) {
    return candidate.kind == kind && candidate.bits == bits && candidate.type != ElementType::kIndex;
  });
  if (row == kElementTypes.end()) Cursor::fail_at(offset, "there are no integers of ", bits, " bits");
  return element_type(row->type);
}

}  // namespace

Attribute decode_builtin_attribute(Cursor& cursor, BytecodeAttributes& table) {
  const size_t offset = cursor.offset();
  const uint64_t code = cursor.varint();
  switch (code) {
    case kArray:
      return {table.attributes(cursor)};
    case kDictionary:
      return table.dictionary(cursor);
    case kString:
      return {std::string(table.string(cursor))};
    case kTypedString: {
      Attribute attribute{std::string(table.string(cursor))};
      table.type(cursor);
      return attribute;
    }
    case kFlatSymbol:
      return {Symbol{table.attribute_of<std::string>(cursor, "a string")}};
    case kNestedSymbol:
      return nested_symbol(cursor, table);
    case kType:
      return {table.type(cursor)};
    case kUnit:
      return {Unit{}};
    case kInteger: {
      const Type* type = table.type(cursor);
      const int64_t value = table.integer(cursor, *type);
      if (type->element == ElementType::kPred) return {value != 0};
      return {Integer{value, type}};
    }
    case kFloat:
      return {table.floating(cursor)};
    case kDenseArray:
      return dense_array(cursor, table);
    case kDenseElements:
      return {table.literal(cursor)};
    default:
      break;
  }
  const bool is_location = (code >= kCallSiteLocation && code <= kUnknownLocation) || code == kFileRangeLocation;
  if (is_location) return {UnknownAttribute{"a location"}};
  Cursor::fail_at(offset, "attribute ", code, " of MLIR's builtin dialect is not known");
}

Type decode_builtin_type(Cursor& cursor, BytecodeAttributes& table) {
  const size_t offset = cursor.offset();
  const uint64_t code = cursor.varint();
  switch (code) {
    case kIntegerType:
      return integer_type(cursor);
    case kFunctionType:
      return table.function_type(cursor);
    case kComplexType:
      return table.complex_type(cursor);
    case kNoneType:
      return {};
    case kTensorType:
      return table.shaped_type(cursor, TypeKind::kTensor);
    case kTupleType:
      return table.tuple_type(cursor);
    case kUnrankedTensorType:
      return table.unranked_type(cursor);
    default:
      break;
  }
  const auto row = std::ranges::find_if(kElementTypes,
                                        [code](const ElementRow& candidate) { return candidate.builtin_code == code; });
  if (row == kElementTypes.end() || code >= kNoCode) {
    Cursor::fail_at(offset, "type ", code, " of MLIR's builtin dialect is not known");
  }
  return element_type(row->type);
}

}  // namespace mydev::stablehlo
