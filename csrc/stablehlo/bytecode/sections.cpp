#include "stablehlo/bytecode/sections.h"

#include <algorithm>
#include <array>
#include <optional>

#include "stablehlo/bytecode/reader.h"

namespace mydev::stablehlo {

namespace {

constexpr std::array kMagic = {std::byte{'M'}, std::byte{'L'}, std::byte{0xEF}, std::byte{'R'}};
// The version of bytecode that JAX and PyTorch/XLA write since StableHLO 0.15.
constexpr uint64_t kVersion = 6;
constexpr std::array kSectionNames = {"strings",   "dialects",         "attributes",       "offsets",   "operations",
                                      "resources", "resource offsets", "dialect versions", "properties"};

struct Section {
  size_t id = 0, offset = 0;
  Cursor bytes;
};

Section next_section(Cursor& cursor) {
  Section section;
  section.offset = cursor.offset();
  const uint8_t id = cursor.byte();
  section.id = id & 0x7F;
  if (section.id >= kSectionNames.size()) Cursor::fail_at(section.offset, "there is no section ", section.id);
  const size_t length = cursor.count("bytes of a section");
  if ((id & 0x80) != 0) {
    const uint64_t alignment = cursor.varint();
    if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment > 4096) {
      Cursor::fail_at(section.offset, "a section is aligned to ", alignment, " bytes");
    }
    cursor.take((alignment - cursor.offset() % alignment) % alignment);
  }
  section.bytes = cursor.part(length);
  return section;
}

void read_strings(Cursor cursor, BytecodeSections& sections) {
  const size_t count = cursor.count("strings");
  std::vector<uint64_t> lengths(count);
  for (uint64_t& length : lengths) length = cursor.varint();
  sections.strings.reserve(count);
  // The lengths are in the opposite order, and count the zero byte.
  for (auto length = lengths.rbegin(); length != lengths.rend(); ++length) {
    if (*length == 0) cursor.fail("a string has no place for its end");
    const std::span<const std::byte> text = cursor.take(*length);
    if (text.back() != std::byte{0}) cursor.fail("a string does not end with a zero byte");
    sections.strings.emplace_back(reinterpret_cast<const char*>(text.data()), text.size() - 1);
  }
  cursor.expect_end("the strings' section");
}

void read_dialects(Cursor cursor, BytecodeSections& sections) {
  const size_t count = cursor.count("dialects");
  for (size_t i = 0; i < count; ++i) {
    const uint64_t encoded = cursor.varint();
    if (encoded >> 1 >= sections.strings.size()) cursor.fail("a dialect is named by string ", encoded >> 1);
    sections.dialects.push_back(sections.strings[encoded >> 1]);
    if ((encoded & 1) != 0) read_section(cursor, SectionId::kDialectVersions);
  }
  const size_t operators = cursor.count("operators");
  sections.operators.reserve(operators);
  while (sections.operators.size() < operators) {
    const auto dialect = static_cast<uint32_t>(cursor.index(count, "dialect"));
    const size_t of_dialect = cursor.count("operators");
    if (of_dialect == 0 || of_dialect > operators - sections.operators.size()) {
      cursor.fail("dialect '", sections.dialects[dialect], "' has ", of_dialect, " operators, of ", operators);
    }
    for (size_t i = 0; i < of_dialect; ++i) {
      const uint64_t name = cursor.varint() >> 1;
      if (name >= sections.strings.size()) cursor.fail("an operator is named by string ", name);
      sections.operators.push_back({dialect, sections.strings[name]});
    }
  }
  cursor.expect_end("the dialects' section");
}

void read_entries(Cursor& offsets, Cursor& data, const BytecodeSections& sections, size_t count,
                  std::vector<BytecodeSections::Entry>& entries) {
  entries.reserve(count);
  while (entries.size() < count) {
    const auto dialect = static_cast<uint32_t>(offsets.index(sections.dialects.size(), "dialect"));
    const size_t of_dialect = offsets.count("attributes");
    if (of_dialect == 0 || of_dialect > count - entries.size()) {
      offsets.fail("dialect '", sections.dialects[dialect], "' has ", of_dialect, " entries, of ", count);
    }
    for (size_t i = 0; i < of_dialect; ++i) {
      const uint64_t encoded = offsets.varint();
      entries.push_back({dialect, (encoded & 1) != 0, data.part(encoded >> 1)});
    }
  }
}

void read_attributes(Cursor offsets, Cursor data, BytecodeSections& sections) {
  const size_t attributes = offsets.count("attributes");
  const size_t types = offsets.count("types");
  read_entries(offsets, data, sections, attributes, sections.attributes);
  read_entries(offsets, data, sections, types, sections.types);
  offsets.expect_end("the offsets' section");
  data.expect_end("the attributes' section");
}

void read_properties(Cursor cursor, BytecodeSections& sections) {
  const size_t count = cursor.count("properties");
  sections.properties.reserve(count);
  for (size_t i = 0; i < count; ++i) sections.properties.push_back(cursor.part(cursor.count("bytes of properties")));
  cursor.expect_end("the properties' section");
}

}  // namespace

bool is_bytecode(std::span<const std::byte> bytes) noexcept {
  return bytes.size() >= kMagic.size() && std::ranges::equal(bytes.first(kMagic.size()), kMagic);
}

Cursor read_section(Cursor& cursor, SectionId expected) {
  const Section section = next_section(cursor);
  const auto id = static_cast<size_t>(expected);
  if (section.id != id) {
    Cursor::fail_at(section.offset, "found the section of ", kSectionNames[section.id], ", expected that of ",
                    kSectionNames[id]);
  }
  return section.bytes;
}

BytecodeSections read_sections(std::span<const std::byte> bytes) {
  Cursor cursor(bytes, 0);
  if (!is_bytecode(bytes)) cursor.fail("the program does not begin with the four bytes of MLIR bytecode");
  cursor.take(kMagic.size());
  const uint64_t version = cursor.varint();
  MYDEV_CHECK(version == kVersion, MYDEV_UNIMPLEMENTED, "the program is MLIR bytecode of version ", version,
              "; versions other than ", kVersion, " are not read. Serialise it for StableHLO 0.15 or later");
  BytecodeSections sections;
  sections.producer = cursor.zero_terminated();
  std::array<std::optional<Cursor>, kSectionNames.size()> found;
  while (!cursor.at_end()) {
    const Section section = next_section(cursor);
    if (found[section.id]) Cursor::fail_at(section.offset, "a second section of ", kSectionNames[section.id]);
    found[section.id] = section.bytes;
  }
  const auto section = [&](SectionId id) {
    const auto index = static_cast<size_t>(id);
    if (!found[index]) cursor.fail("there is no section of ", kSectionNames[index], "; is the program truncated?");
    return *found[index];
  };
  read_strings(section(SectionId::kStrings), sections);
  read_dialects(section(SectionId::kDialects), sections);
  read_attributes(section(SectionId::kOffsets), section(SectionId::kAttributesAndTypes), sections);
  if (found[static_cast<size_t>(SectionId::kProperties)]) {
    read_properties(section(SectionId::kProperties), sections);
  }
  sections.operations = section(SectionId::kOperations);
  return sections;
}

}  // namespace mydev::stablehlo
