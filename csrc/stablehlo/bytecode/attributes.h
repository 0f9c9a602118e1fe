// Attributes and types of a program in bytecode, decoded when they are asked for, and once.
//
// The attributes and types of the dialects builtin, vhlo and sdy are known, as far as StableHLO 1.13 has them. Not
// thread-safe: of one call of read_bytecode().
#pragma once

#include <string_view>
#include <vector>

#include "stablehlo/bytecode/cursor.h"
#include "stablehlo/bytecode/sections.h"
#include "stablehlo/ir/module.h"

namespace mydev::stablehlo {

Type element_type(ElementType element);  // as a type of its own

class BytecodeAttributes {
 public:
  BytecodeAttributes(const BytecodeSections& sections, Module::Contents& contents)
      : sections_(sections),
        contents_(contents),
        attributes_(sections.attributes.size()),
        types_(sections.types.size()) {}

  // The attribute or type that a varint names.
  const Attribute* attribute(Cursor& cursor);
  const Type* type(Cursor& cursor);
  // The type of that number, which is below the number of all types.
  const Type* type_at(size_t index, size_t offset);
  // The attribute that a varint names by twice its number and one; nullptr if the varint is zero.
  const Attribute* optional_attribute(Cursor& cursor);
  // The attribute that a varint names, which must hold a T. `what` is for messages.
  template <typename T>
  const T& attribute_of(Cursor& cursor, std::string_view what) {
    const size_t offset = cursor.offset();
    const Attribute* found = attribute(cursor);
    if (const T* value = found->get_if<T>()) return *value;
    Cursor::fail_at(offset, "expected ", what, ", found ", found->kind_name());
  }
  std::string_view string(Cursor& cursor) const { return sections_.string(cursor); }

  // Lists that begin with their lengths.
  std::vector<const Attribute*> attributes(Cursor& cursor);
  std::vector<const Type*> types(Cursor& cursor);
  std::vector<int64_t> signed_integers(Cursor& cursor);

  // Attributes and types that all dialects write alike.
  Attribute dictionary(Cursor& cursor);
  Type complex_type(Cursor& cursor);
  Type shaped_type(Cursor& cursor, TypeKind kind);
  Type function_type(Cursor& cursor);
  Type tuple_type(Cursor& cursor);
  Type unranked_type(Cursor& cursor);
  TensorLiteral literal(Cursor& cursor);
  Float floating(Cursor& cursor);  // its type, then its bits

  // A bare number, written as the bits of its type.
  int64_t integer(Cursor& cursor, const Type& type);

  Module::Contents& contents() noexcept { return contents_; }

 private:
  template <typename T>
  struct Decoded {
    const T* value = nullptr;  // nullptr: not yet
    size_t parts = 0;          // of the value, written out
  };
  template <typename T, typename Decode>
  const T* decode_once(Decoded<T>& slot, size_t offset, const Decode& decode);
  const Attribute* attribute_at(size_t index, size_t offset);
  Attribute decode_attribute(const BytecodeSections::Entry& entry);
  Type decode_type(const BytecodeSections::Entry& entry);

  const BytecodeSections& sections_;
  Module::Contents& contents_;
  std::vector<Decoded<Attribute>> attributes_;
  std::vector<Decoded<Type>> types_;
  int depth_ = 0;
  size_t parts_ = 0;  // of what is being decoded, so far
};

// Each decodes one dialect; the cursor stands at the code. They raise for codes that they do not know, except for sdy.
Attribute decode_builtin_attribute(Cursor& cursor, BytecodeAttributes& table);
Attribute decode_vhlo_attribute(Cursor& cursor, BytecodeAttributes& table);
Attribute decode_sdy_attribute(Cursor& cursor, BytecodeAttributes& table);
Type decode_builtin_type(Cursor& cursor, BytecodeAttributes& table);
Type decode_vhlo_type(Cursor& cursor, BytecodeAttributes& table);

}  // namespace mydev::stablehlo
