#include "device_kernels/text/element_loop.h"

#include <algorithm>
#include <utility>

namespace mydev::device_kernels {

namespace {

// Rows that are shorter leave threads without work.
constexpr int64_t kShortRow = 16;
constexpr int64_t kMostNarrow = INT32_MAX;

bool needs_64_bits(const Extents& extents) {
  if (extents.count() > kMostNarrow) return true;
  for (const Dimension& dimension : extents.dimensions()) {
    for (const int64_t stride : dimension.strides) {
      int64_t reach = 0;
      if (__builtin_mul_overflow(dimension.size, stride, &reach) || std::abs(reach) > kMostNarrow / 16) return true;
    }
  }
  return false;
}

}  // namespace

ElementLoop::ElementLoop(const Request& request, Extents extents, std::vector<std::string> names, const char* piece)
    : request_(request),
      extents_(std::move(extents)),
      names_(std::move(names)),
      piece_(piece),
      is_wide_(needs_64_bits(extents_)) {
  extents_.pad(extents_.padded_rank());
  const Dimension& innermost = extents_.dimensions().back();
  is_flat_ = innermost.size < kShortRow && extents_.count() != innermost.size;
  for (const int64_t stride : innermost.strides) inner_ += stride == 1 ? '1' : stride == 0 ? '0' : 's';
}

std::string ElementLoop::form() const {
  return std::to_string(extents_.dimensions().size()) + inner_ + (is_flat_ ? "f" : "r") + (is_wide_ ? "w" : "n");
}

int64_t ElementLoop::length() const {
  return is_flat_ ? extents_.count() : extents_.dimensions().back().size;
}

int64_t ElementLoop::rows() const {
  return is_flat_ || extents_.count() == 0 ? 1 : extents_.count() / length();
}

void ElementLoop::declare(FunctionText& function) const {
  const size_t rank = extents_.dimensions().size();
  for (size_t d = 0; d < rank; ++d) function.add_integer(size(d) + "_given");
  for (size_t b = 0; b < names_.size(); ++b) {
    for (size_t d = 0; d + 1 < rank; ++d) function.add_integer(stride(b, d) + "_given");
    if (inner_[b] == 's') function.add_integer(stride(b, rank - 1) + "_given");
  }
}

void ElementLoop::give(Call& call) const {
  const std::vector<Dimension>& dimensions = extents_.dimensions();
  for (const Dimension& dimension : dimensions) call.give(dimension.size);
  for (size_t b = 0; b < names_.size(); ++b) {
    for (size_t d = 0; d + 1 < dimensions.size(); ++d) call.give(dimensions[d].strides[b]);
    if (inner_[b] == 's') call.give(dimensions.back().strides[b]);
  }
}

mydev_geometry ElementLoop::geometry() const {
  const KernelLanguage& language = request_.language;
  return rows_of(request_, rows(), length(), piece_ == "BLOCK" ? language.block : language.elements);
}

// The product of the sizes of the dimensions before `end`.
std::string ElementLoop::count_text(size_t end) const {
  std::string text;
  for (size_t d = 0; d < end; ++d) text += (d == 0 ? "(i64)" : " * ") + size(d);
  return text.empty() ? "1" : text;
}

// Takes an index apart, and gives the place of each buffer's element along the dimensions before `end`.
std::string ElementLoop::places(const std::string& index, size_t end) const {
  const std::string type = index_type();
  std::string text, rest = index;
  for (size_t d = end; d-- > 1;) {
    const std::string at = std::to_string(d);
    text.append("const ").append(type).append(" p").append(at).append(" = ").append(rest).append(" % ").append(size(d));
    text.append(", q").append(at).append(" = ").append(rest).append(" / ").append(size(d)).append(";\n");
    rest = "q" + at;
  }
  if (end > 0) text += "const " + type + " p0 = " + rest + ";\n";
  for (size_t b = 0; b < names_.size(); ++b) {
    text += "const " + type + " " + names_[b] + "_at = ";
    bool any = false;
    for (size_t d = 0; d < end; ++d) {
      const bool innermost = d + 1 == extents_.dimensions().size();
      if (innermost && inner_[b] == '0') continue;
      text += std::string(any ? " + " : "") + "p" + std::to_string(d);
      if (!innermost || inner_[b] == 's') text += " * " + stride(b, d);
      any = true;
    }
    text += any ? ";\n" : "0;\n";
  }
  return text;
}

std::string ElementLoop::open_rows() const {
  const size_t rank = extents_.dimensions().size();
  const std::string type = index_type();
  std::string text;
  const auto declare = [&](const std::string& name) {
    text += "const " + type + " " + name + " = (" + type + ")" + name + "_given;\n";
  };
  for (size_t d = 0; d < rank; ++d) declare(size(d));
  for (size_t b = 0; b < names_.size(); ++b) {
    for (size_t d = 0; d + 1 < rank; ++d) declare(stride(b, d));
    if (inner_[b] == 's') declare(stride(b, rank - 1));
  }
  const std::string rows = is_flat_ ? "1" : count_text(rank - 1), length = is_flat_ ? count_text(rank) : size(rank - 1);
  text += "ROWS_OPEN(" + type + ", row, " + rows + ", " + length + ", " + piece_ + ")\n";
  return is_flat_ ? text : text + places("row", rank - 1);
}

std::string ElementLoop::open_places() const {
  const std::string text = "PLACES_OPEN(" + index_type() + ", i)\n";
  return is_flat_ ? text + places("i", extents_.dimensions().size()) : text;
}

std::string ElementLoop::close() const {
  return "PLACES_CLOSE\nROWS_CLOSE\n";
}

std::string ElementLoop::place(size_t buffer) const {
  std::string at = names_[buffer] + "_at";
  if (is_flat_ || inner_[buffer] == '0') return at;
  const std::string inner = inner_[buffer] == '1' ? "i" : "i * " + stride(buffer, extents_.dimensions().size() - 1);
  return at + " + " + inner;
}

std::string ElementLoop::element(size_t buffer) const {
  return names_[buffer] + "[" + place(buffer) + "]";
}

}  // namespace mydev::device_kernels
