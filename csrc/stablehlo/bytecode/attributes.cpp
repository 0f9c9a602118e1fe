#include "stablehlo/bytecode/attributes.h"

#include <algorithm>
#include <utility>

#include "stablehlo/ir/limits.h"

namespace mydev::stablehlo {

namespace {

// Entries share what they are made of, so a few bytes can stand for more than memory holds once they are written out.
constexpr size_t kMostParts = size_t{1} << 20;

// A byte for each of the bits, the lowest one first.
std::vector<std::byte> unpack_bits(std::span<const std::byte> packed, size_t count) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = (packed[i / 8] >> (i % 8)) & std::byte{1};
  return bytes;
}

// Values of fewer than eight bits as those of bytes: the bits above them may be anything.
std::vector<std::byte> widen(std::span<const std::byte> narrow, const ElementRow& row) {
  std::vector<std::byte> bytes(narrow.begin(), narrow.end());
  const int unused = 8 - row.bits;
  for (std::byte& byte : bytes) {
    const auto shifted = static_cast<uint8_t>(std::to_integer<unsigned>(byte) << unused);
    byte = row.kind == ElementKind::kSigned ? static_cast<std::byte>(static_cast<int8_t>(shifted) >> unused)
                                            : static_cast<std::byte>(shifted >> unused);
  }
  return bytes;
}

}  // namespace

template <typename T, typename Decode>
const T* BytecodeAttributes::decode_once(Decoded<T>& slot, size_t offset, const Decode& decode) {
  if (slot.value == nullptr) {
    if (++depth_ > kMostNesting) {
      Cursor::fail_at(offset, "attributes and types are nested in each other more than ", kMostNesting, " deep");
    }
    const size_t outer = std::exchange(parts_, 1);
    slot.value = contents_.add(decode());
    slot.parts = std::exchange(parts_, outer);
    --depth_;
  }
  parts_ += slot.parts;
  if (parts_ > kMostParts) Cursor::fail_at(offset, "an attribute or a type has more than ", kMostParts, " parts");
  return slot.value;
}

const Attribute* BytecodeAttributes::attribute_at(size_t index, size_t offset) {
  return decode_once(attributes_[index], offset, [&] { return decode_attribute(sections_.attributes[index]); });
}

const Attribute* BytecodeAttributes::attribute(Cursor& cursor) {
  const size_t offset = cursor.offset();
  return attribute_at(cursor.index(attributes_.size(), "attribute"), offset);
}

const Attribute* BytecodeAttributes::optional_attribute(Cursor& cursor) {
  const size_t offset = cursor.offset();
  const uint64_t encoded = cursor.varint();
  if ((encoded & 1) == 0) return nullptr;
  if (encoded >> 1 >= attributes_.size()) {
    Cursor::fail_at(offset, "there is no attribute ", encoded >> 1, "; there are ", attributes_.size());
  }
  return attribute_at(encoded >> 1, offset);
}

const Type* BytecodeAttributes::type(Cursor& cursor) {
  const size_t offset = cursor.offset();
  return type_at(cursor.index(types_.size(), "type"), offset);
}

const Type* BytecodeAttributes::type_at(size_t index, size_t offset) {
  return decode_once(types_[index], offset, [&] { return decode_type(sections_.types[index]); });
}

Attribute BytecodeAttributes::decode_attribute(const BytecodeSections::Entry& entry) {
  const std::string_view dialect = sections_.dialects[entry.dialect];
  Cursor cursor = entry.bytes;
  if (!entry.is_custom) return {UnknownAttribute{std::string(cursor.zero_terminated())}};
  Attribute attribute;
  if (dialect == "builtin") {
    attribute = decode_builtin_attribute(cursor, *this);
  } else if (dialect == "vhlo") {
    attribute = decode_vhlo_attribute(cursor, *this);
  } else if (dialect == "sdy") {
    attribute = decode_sdy_attribute(cursor, *this);
  } else {
    return {UnknownAttribute{"an attribute of dialect '" + std::string(dialect) + "'"}};
  }
  if (!std::holds_alternative<UnknownAttribute>(attribute.value)) cursor.expect_end(attribute.kind_name());
  return attribute;
}

Type BytecodeAttributes::decode_type(const BytecodeSections::Entry& entry) {
  const std::string_view dialect = sections_.dialects[entry.dialect];
  Cursor cursor = entry.bytes;
  Type type;
  if (!entry.is_custom) {
    // Element types to which the builtin dialect gives no code.
    const size_t offset = cursor.offset();
    const std::string_view text = cursor.zero_terminated();
    const auto row = std::ranges::find(kElementTypes, text, &ElementRow::mlir_name);
    if (row == kElementTypes.end()) Cursor::fail_at(offset, "'", text, "' is no type that is known");
    type.kind = TypeKind::kElement;
    type.element = row->type;
  } else if (dialect == "builtin") {
    type = decode_builtin_type(cursor, *this);
  } else if (dialect == "vhlo") {
    type = decode_vhlo_type(cursor, *this);
  } else if (dialect == "stablehlo") {
    // Operators of Shardy, which have no versions, keep the one type that is StableHLO's own.
    if (cursor.varint() != 0) cursor.fail("the only type of dialect 'stablehlo' that is known is a token");
    type.kind = TypeKind::kToken;
  } else {
    cursor.fail("types of dialect '", dialect, "' are not known");
  }
  cursor.expect_end("a type");
  if (!sizes_are_valid(type)) {
    Cursor::fail_at(entry.bytes.offset(), "the sizes of ", type.text(), " are negative, or more than there can be");
  }
  return type;
}

std::vector<const Attribute*> BytecodeAttributes::attributes(Cursor& cursor) {
  std::vector<const Attribute*> list(cursor.count("attributes"));
  for (const Attribute*& element : list) element = attribute(cursor);
  return list;
}

std::vector<const Type*> BytecodeAttributes::types(Cursor& cursor) {
  std::vector<const Type*> list(cursor.count("types"));
  for (const Type*& element : list) element = type(cursor);
  return list;
}

std::vector<int64_t> BytecodeAttributes::signed_integers(Cursor& cursor) {
  std::vector<int64_t> list(cursor.count("integers"));
  for (int64_t& element : list) element = cursor.signed_varint();
  return list;
}

int64_t BytecodeAttributes::integer(Cursor& cursor, const Type& type) {
  const ElementRow& row = element_row(type.element);
  const bool is_number = row.kind == ElementKind::kBool || is_integer(type.element);
  if (type.kind != TypeKind::kElement || !is_number) cursor.fail("an integer is of the type ", type.text());
  const int64_t value = cursor.integer(row.bits);
  const bool is_unsigned = row.kind != ElementKind::kSigned && row.bits < 64;
  return is_unsigned ? value & ((int64_t{1} << row.bits) - 1) : value;
}

Float BytecodeAttributes::floating(Cursor& cursor) {
  const Type& type = *this->type(cursor);
  const ElementRow& row = element_row(type.element);
  if (type.kind != TypeKind::kElement || !is_float(type.element)) {
    cursor.fail("a float is of the type ", type.text());
  }
  auto bits = static_cast<uint64_t>(cursor.integer(row.bits));
  if (row.bits < 64) bits &= (uint64_t{1} << row.bits) - 1;
  return {float_of_bits(type.element, bits), bits, &type};
}

TensorLiteral BytecodeAttributes::literal(Cursor& cursor) {
  const Type* type = this->type(cursor);
  const size_t offset = cursor.offset();
  const std::span<const std::byte> bytes = cursor.blob();
  if (!type->is_tensor() || !type->is_static()) {
    Cursor::fail_at(offset, "a literal is of the type ", type->text(), ", which is no tensor of known sizes");
  }
  const auto count = static_cast<size_t>(type->element_count());
  const auto each = static_cast<size_t>(element_bytes(type->element));
  TensorLiteral literal{type, bytes, false};
  if (count == 0) {
    literal.bytes = {};
    return literal;
  }
  if (type->element == ElementType::kPred) {
    // Bits, eight to a byte; all of them in one byte where they are the same.
    const bool is_uniform = bytes.size() == 1 && (bytes[0] == std::byte{0} || bytes[0] == std::byte{0xFF});
    if (is_uniform || bytes.size() == (count + 7) / 8) {
      literal.is_splat = is_uniform && count > 1;
      literal.bytes = contents_.literals.emplace_back(unpack_bits(bytes, is_uniform ? 1 : count));
      return literal;
    }
  }
  literal.is_splat = count > 1 && bytes.size() == each;
  if (!literal.is_splat && bytes.size() != count * each) {
    Cursor::fail_at(offset, "a literal of the type ", type->text(), " has ", bytes.size(), " bytes, expected ",
                    count * each);
  }
  const ElementRow& row = element_row(type->element);
  if (row.bits < 8) literal.bytes = contents_.literals.emplace_back(widen(bytes, row));
  return literal;
}

Type element_type(ElementType element) {
  Type type;
  type.kind = TypeKind::kElement;
  type.element = element;
  return type;
}

Attribute BytecodeAttributes::dictionary(Cursor& cursor) {
  Dictionary entries(cursor.count("attributes", 2));
  for (NamedAttribute& entry : entries) {
    entry.name = attribute_of<std::string>(cursor, "a string");
    entry.value = attribute(cursor);
  }
  return {std::move(entries)};
}

Type BytecodeAttributes::complex_type(Cursor& cursor) {
  const Type* part = type(cursor);
  if (part->element == ElementType::kF32) return element_type(ElementType::kC64);
  if (part->element == ElementType::kF64) return element_type(ElementType::kC128);
  cursor.fail("there are no complex numbers of ", part->text());
}

Type BytecodeAttributes::shaped_type(Cursor& cursor, TypeKind kind) {
  Type shaped;
  shaped.kind = kind;
  shaped.dims = signed_integers(cursor);
  const Type* element = type(cursor);
  if (element->kind != TypeKind::kElement) cursor.fail("the elements of a tensor are of the type ", element->text());
  shaped.element = element->element;
  return shaped;
}

Type BytecodeAttributes::function_type(Cursor& cursor) {
  Type function;
  function.kind = TypeKind::kFunction;
  function.inputs = types(cursor);
  function.results = types(cursor);
  return function;
}

Type BytecodeAttributes::tuple_type(Cursor& cursor) {
  Type tuple;
  tuple.kind = TypeKind::kTuple;
  tuple.inputs = types(cursor);
  return tuple;
}

Type BytecodeAttributes::unranked_type(Cursor& cursor) {
  Type unranked;
  unranked.kind = TypeKind::kUnranked;
  unranked.element = type(cursor)->element;
  return unranked;
}

}  // namespace mydev::stablehlo
