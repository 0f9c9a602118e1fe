// The tables of a program in MLIR bytecode: the contents of its sections, without their meaning.
//
// The tables are views into the bytes, which must outlive them. Any thread may read them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "stablehlo/bytecode/cursor.h"

namespace mydev::stablehlo {

struct BytecodeSections {
  struct OperatorName {
    uint32_t dialect = 0;
    std::string_view name;  // "add_v1"
  };
  // An attribute or a type, which is decoded on its own.
  struct Entry {
    uint32_t dialect = 0;
    bool is_custom = false;  // in its dialect's encoding; false: as text
    Cursor bytes;
  };

  std::string_view producer;  // "StableHLO_v1.13.0"
  std::vector<std::string_view> strings;
  std::vector<std::string_view> dialects;
  std::vector<OperatorName> operators;
  std::vector<Entry> attributes, types;
  std::vector<Cursor> properties;
  Cursor operations;

  // The string that a varint names. Raises if there is none.
  std::string_view string(Cursor& cursor) const { return strings[cursor.index(strings.size(), "string")]; }
};

// Raises INVALID_ARGUMENT for malformed bytecode, UNIMPLEMENTED for bytecode of other versions than 6.
BytecodeSections read_sections(std::span<const std::byte> bytes);
// The next nested section, which must have this id.
enum class SectionId : uint8_t {
  kStrings,
  kDialects,
  kAttributesAndTypes,
  kOffsets,
  kOperations,
  kResources,
  kResourceOffsets,
  kDialectVersions,
  kProperties,
};
Cursor read_section(Cursor& cursor, SectionId expected);

}  // namespace mydev::stablehlo
