// Reads the primitives of MLIR's bytecode from a range of bytes, and nothing beyond it.
//
// Bytes that do not fit raise INVALID_ARGUMENT with the offset in the program: "StableHLO bytecode, offset 0x2c: ...".
// Not thread-safe; a Cursor is a view, and cheap to copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "runtime/base/api.h"
#include "runtime/base/status.h"

namespace mydev::stablehlo {

class MYDEV_API Cursor {
 public:
  Cursor() = default;
  // `offset` of the first byte in the program, for messages.
  Cursor(std::span<const std::byte> bytes, size_t offset) : bytes_(bytes), offset_(offset) {}

  size_t remaining() const noexcept { return bytes_.size(); }
  bool at_end() const noexcept { return bytes_.empty(); }
  size_t offset() const noexcept { return offset_; }

  uint8_t byte();
  uint64_t varint();
  int64_t signed_varint();
  // A varint that is a number of things, each of which takes at least `bytes_each` of what remains: memory for them is
  // within the program's size. `what` in the plural, for messages.
  size_t count(std::string_view what, size_t bytes_each = 1);
  // A varint below `limit`.
  size_t index(size_t limit, std::string_view what);
  std::span<const std::byte> take(size_t count);
  // Takes as many bytes as a varint says.
  std::span<const std::byte> blob() { return take(count("bytes")); }
  // Takes the text up to a zero byte, which it skips.
  std::string_view zero_terminated();
  // The next `count` bytes as a cursor of their own, which it skips.
  Cursor part(size_t count);
  // An integer of so many bits as MLIR writes them: its low 64 bits, sign-extended.
  int64_t integer(unsigned bits);

  // Raises unless all has been read.
  void expect_end(std::string_view what) const;
  template <typename... Parts>
  [[noreturn]] [[gnu::cold]] void fail(const Parts&... parts) const {
    fail_at(offset_, parts...);
  }
  template <typename... Parts>
  [[noreturn]] [[gnu::cold]] static void fail_at(size_t offset, const Parts&... parts) {
    mydev::detail::raise_formatted(MYDEV_INVALID_ARGUMENT, "StableHLO bytecode, offset 0x", std::hex, offset, std::dec,
                                   ": ", parts...);
  }

 private:
  std::span<const std::byte> bytes_;
  size_t offset_ = 0;
};

}  // namespace mydev::stablehlo
