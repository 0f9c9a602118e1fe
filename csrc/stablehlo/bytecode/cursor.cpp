#include "stablehlo/bytecode/cursor.h"

#include <algorithm>
#include <bit>

namespace mydev::stablehlo {

uint8_t Cursor::byte() {
  return std::to_integer<uint8_t>(take(1).front());
}

// The number of zero bits at the low end of the first byte says how many bytes follow; eight say that it is a number of
// eight bytes, with nothing in the first.
uint64_t Cursor::varint() {
  const uint8_t first = byte();
  if ((first & 1) != 0) [[likely]]
    return first >> 1;
  const size_t more = first == 0 ? 8 : static_cast<size_t>(std::countr_zero(first));
  const std::span<const std::byte> rest = take(more);
  uint64_t value = 0;
  for (size_t i = more; i-- > 0;) value = value << 8 | std::to_integer<uint64_t>(rest[i]);
  return first == 0 ? value : (value << (7 - more)) | (first >> (more + 1));
}

int64_t Cursor::signed_varint() {
  const uint64_t zigzag = varint();
  return static_cast<int64_t>((zigzag >> 1) ^ (~(zigzag & 1) + 1));
}

size_t Cursor::count(std::string_view what, size_t bytes_each) {
  const size_t start = offset_;
  const uint64_t value = varint();
  if (value > remaining() / bytes_each) {
    fail_at(start, value, " ", what, " do not fit into the ", remaining(), " bytes that are left");
  }
  return value;
}

size_t Cursor::index(size_t limit, std::string_view what) {
  const size_t start = offset_;
  const uint64_t value = varint();
  if (value >= limit) fail_at(start, "there is no ", what, " ", value, "; there are ", limit);
  return value;
}

std::span<const std::byte> Cursor::take(size_t count) {
  if (count > bytes_.size()) [[unlikely]] {
    fail("expected ", count, " more bytes, and ", bytes_.size(), " are left; is the program truncated?");
  }
  const std::span<const std::byte> taken = bytes_.first(count);
  bytes_ = bytes_.subspan(count);
  offset_ += count;
  return taken;
}

std::string_view Cursor::zero_terminated() {
  const auto end = std::ranges::find(bytes_, std::byte{0});
  if (end == bytes_.end()) fail("a text has no end; is the program truncated?");
  const std::span<const std::byte> text = take(static_cast<size_t>(end - bytes_.begin()));
  take(1);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

Cursor Cursor::part(size_t count) {
  const size_t start = offset_;
  return {take(count), start};
}

int64_t Cursor::integer(unsigned bits) {
  if (bits <= 8) return static_cast<int8_t>(byte());
  if (bits <= 64) return signed_varint();
  const size_t words = count("words of an integer");
  int64_t low = 0;
  for (size_t i = 0; i < words; ++i) {
    const int64_t word = signed_varint();
    if (i == 0) low = word;
  }
  return low;
}

void Cursor::expect_end(std::string_view what) const {
  if (!at_end()) fail(what, " ends here, and ", remaining(), " bytes more were announced");
}

}  // namespace mydev::stablehlo
