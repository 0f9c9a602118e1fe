#include "stablehlo/bytecode/locations.h"

#include <optional>
#include <string>

namespace mydev::stablehlo {

namespace {

enum LocationCode : uint8_t {
  kStringAttribute = 2,
  kCallSite = 10,
  kFileLineColumn = 11,
  kFused = 12,
  kFusedWithMetadata = 13,
  kName = 14,
  kFileRange = 22,
};

// Inlined calls and fused operations have many locations; the first few say where to look.
constexpr int kMostDepth = 6;
constexpr size_t kMostLocations = 3;
constexpr size_t kMostCharacters = 400;

class BytecodeLocations final : public LocationTable {
 public:
  explicit BytecodeLocations(BytecodeSections sections) : sections_(std::move(sections)) {}

  std::string text(uint32_t location) const override {
    // Describing an error must not raise one: a location that cannot be read has no text.
    const RaiserBypass bypass;
    try {
      return describe(location, 0).substr(0, kMostCharacters);
    } catch (const Error&) {
      return "";
    }
  }

 private:
  // The bytes of an attribute of the builtin dialect; nullopt for others.
  std::optional<Cursor> builtin_attribute(size_t index) const {
    if (index >= sections_.attributes.size()) return std::nullopt;
    const BytecodeSections::Entry& entry = sections_.attributes[index];
    if (!entry.is_custom || sections_.dialects[entry.dialect] != "builtin") return std::nullopt;
    return entry.bytes;
  }

  std::string quoted_string(size_t index) const {
    std::optional<Cursor> cursor = builtin_attribute(index);
    if (!cursor || cursor->varint() != kStringAttribute) return "\"\"";
    return '"' + std::string(sections_.string(*cursor)) + '"';
  }

  std::string fused(Cursor& cursor, int depth) const {
    std::string text;
    const size_t count = cursor.count("locations");
    for (size_t i = 0; i < count && i < kMostLocations; ++i) {
      const std::string part = describe(cursor.varint(), depth);
      if (part.empty()) continue;
      text += (text.empty() ? "" : ", ") + part;
    }
    return text.empty() ? text : "fused[" + text + "]";
  }

  std::string describe(size_t index, int depth) const {
    std::optional<Cursor> cursor = builtin_attribute(index);
    if (!cursor || depth > kMostDepth) return "";
    switch (cursor->varint()) {
      case kCallSite: {
        const std::string callee = describe(cursor->varint(), depth + 1);
        const std::string caller = describe(cursor->varint(), depth + 1);
        return caller.empty() ? callee : callee + " called at " + caller;
      }
      case kFileLineColumn: {
        const std::string file = quoted_string(cursor->varint());
        const uint64_t line = cursor->varint();
        return file + ":" + std::to_string(line) + ":" + std::to_string(cursor->varint());
      }
      case kFileRange: {
        std::string text = quoted_string(cursor->varint());
        const size_t count = cursor->count("numbers of a location");
        for (size_t i = 0; i < count && i < 2; ++i) text += ':' + std::to_string(cursor->varint());
        return text;
      }
      case kFused:
      case kFusedWithMetadata:
        return fused(*cursor, depth + 1);
      case kName: {
        const std::string name = quoted_string(cursor->varint());
        const std::string child = describe(cursor->varint(), depth + 1);
        return child.empty() ? name : name + "(" + child + ")";
      }
      default:
        return "";
    }
  }

  BytecodeSections sections_;
};

}  // namespace

std::unique_ptr<const LocationTable> bytecode_locations(BytecodeSections sections) {
  return std::make_unique<BytecodeLocations>(std::move(sections));
}

}  // namespace mydev::stablehlo
