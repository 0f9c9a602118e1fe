#include "device_kernels/text/reduction_loop.h"

#include <utility>

namespace mydev::device_kernels {

namespace {

constexpr int64_t kFewElements = 32;  // of a result, which a thread adds up alone
constexpr int64_t kManyResults = 64;
std::string product(const std::string& kind, size_t end) {
  std::string text;
  for (size_t d = 0; d < end; ++d) text += (d == 0 ? "" : " * ") + kind + std::to_string(d);
  return text.empty() ? "1" : "(" + text + ")";
}

}  // namespace

ReductionLoop::ReductionLoop(const Request& request, Extents outer, Extents reduced, std::vector<std::string> names,
                             size_t first)
    : request_(request), names_(std::move(names)), outer_(std::move(outer)), reduced_(std::move(reduced)) {
  outer_.pad(outer_.padded_rank());
  reduced_.pad(reduced_.padded_rank());
  const bool side_by_side =
      outer_.dimensions().back().strides[first] == 1 && reduced_.dimensions().back().strides[first] != 1;
  by_group_ = reduced_.count() >= kFewElements && !(side_by_side && outer_.count() >= kManyResults);
  const Dimension& inner = (by_group_ ? reduced_ : outer_).dimensions().back();
  for (const int64_t stride : inner.strides) inner_ += stride == 1 ? '1' : 's';
}

void ReductionLoop::part() {
  const int64_t length = outer_.dimensions().back().size, block = request_.language.block;
  if (results() == 0) return;
  const int64_t groups = by_group_ ? results() : results() / length * ((length + block - 1) / block);
  parts_ = parts_of(request_, groups, elements(), by_group_ ? request_.language.lanes : 1);
}

std::string ReductionLoop::form() const {
  return std::string(by_group_ ? "g" : "l") + std::to_string(outer_.dimensions().size()) + "-" +
         std::to_string(reduced_.dimensions().size()) + inner_ + (parts_ == 1 ? "" : "p");
}

template <typename Function>
void ReductionLoop::for_each_size(const Function& function) const {
  for (const auto& [kind, extents] : {std::pair{"k", &outer_}, std::pair{"r", &reduced_}}) {
    const auto& dimensions = extents->dimensions();
    for (size_t d = 0; d < dimensions.size(); ++d) {
      const std::string suffix = kind + std::to_string(d);
      function(suffix, dimensions[d].size);
      for (size_t b = 0; b < names_.size(); ++b) function(names_[b] + "_" + suffix, dimensions[d].strides[b]);
    }
  }
  if (parts_ == 1) return;
  function("parts", parts_);
  function("of_part", (elements() + parts_ - 1) / parts_);
}

void ReductionLoop::declare(FunctionText& function) const {
  for_each_size([&](const std::string& name, int64_t) { function.add_integer(name); });
}

void ReductionLoop::give(Call& call) const {
  for_each_size([&](const std::string&, int64_t value) { call.give(value); });
}

mydev_geometry ReductionLoop::geometry(Range range) const {
  const int64_t times = range == Range::kPart ? parts_ : 1;
  if (by_group_) return groups(request_, results() * times);
  const int64_t length = outer_.dimensions().back().size;
  return rows_of(request_, results() / length * times, length, request_.language.block);
}

std::string ReductionLoop::count_text() const {
  return product("r", reduced_.dimensions().size());
}

std::string ReductionLoop::open_results(Range range) const {
  const size_t rank = outer_.dimensions().size(), taken = by_group_ ? rank : rank - 1;
  const std::string all = product("k", taken), index = by_group_ ? "g" : "row";
  const bool parted = range == Range::kPart;
  const std::string name = parted ? "of_all" : index, count = parted ? "parts * " + all : all;
  const std::string parts =
      parted ? "const i64 " + index + " = of_all % " + all + ", part = of_all / " + all + ";\n" : "";
  if (by_group_) return "GROUPS_OPEN(i64, " + name + ", " + count + ")\n" + parts + places("k", index, taken, "");
  return "ROWS_OPEN(i64, " + name + ", " + count + ", k" + std::to_string(rank - 1) + ", BLOCK)\n" + parts +
         places("k", index, taken, "");
}

std::string ReductionLoop::close_results() const {
  return by_group_ ? "GROUPS_CLOSE\n" : "ROWS_CLOSE\n";
}

std::string ReductionLoop::open_elements(Range range) const {
  const size_t rank = reduced_.dimensions().size();
  const std::string inner = "r" + std::to_string(rank - 1);
  if (range == Range::kPart) {
    const std::string count = count_text(), place = "q * " + inner;
    const std::string text = "const i64 begin = part * of_part, end = begin + of_part < " + count +
                             " ? begin + of_part : " + count + ";\nfor (i64 q = begin / " + inner + "; " + place +
                             " < end; ++q) {\n" + places("r", "q", rank - 1, "_k") + "const i64 first = begin > " +
                             place + " ? begin - " + place + " : 0, last = end - " + place + " < " + inner +
                             " ? end - " + place + " : " + inner + ";\n";
    if (by_group_) return text + "LOOP_OPEN(i64, of_range, last - first)\nconst i64 j = first + of_range;\n";
    return text + "for (i64 j = first; j < last; ++j) {\n" + open_lanes();
  }
  std::string text = "for (i64 q = 0; q < " + product("r", rank - 1) + "; ++q) {\n" + places("r", "q", rank - 1, "_k");
  if (by_group_) return text + "LOOP_OPEN(i64, j, " + inner + ")\n";
  return text + "for (i64 j = 0; j < " + inner + "; ++j) {\n" + open_lanes();
}

std::string ReductionLoop::close_elements(Range range) const {
  const std::string inner = "r" + std::to_string(reduced_.dimensions().size() - 1);
  if (by_group_) return "LOOP_CLOSE(" + (range == Range::kPart ? "last - first" : inner) + ")\n}\n";
  return close_lanes() + "}\n}\n";
}

std::string ReductionLoop::open_parts() const {
  if (by_group_) return "LOOP_OPEN(i64, part_at, parts)\n";
  return "for (i64 part_at = 0; part_at < parts; ++part_at) {\n" + open_lanes();
}

std::string ReductionLoop::close_parts() const {
  return by_group_ ? "LOOP_CLOSE(parts)\n" : close_lanes() + "}\n";
}

std::string ReductionLoop::place_in_parts(const std::string& part) const {
  const size_t rank = outer_.dimensions().size();
  if (by_group_) return part + " * " + product("k", rank) + " + g";
  return "(" + part + " * " + product("k", rank - 1) + " + row) * k" + std::to_string(rank - 1) + " + i";
}

std::string ReductionLoop::open_lanes() const {
  return "LANES_OPEN(i64, i)\n";
}

std::string ReductionLoop::close_lanes() const {
  return "LANES_CLOSE(BLOCK)\n";
}

std::string ReductionLoop::place_of_element() const {
  return "(q * r" + std::to_string(reduced_.dimensions().size() - 1) + " + j)";
}

std::string ReductionLoop::element(size_t b) const {
  return names_[b] + "[" + names_[b] + "_r + j" + (by_group_ && inner_[b] == '1' ? "" : " * " + inner_stride(b, "r")) +
         lane(b) + "]";
}

std::string ReductionLoop::result(size_t b) const {
  return names_[b] + "[" + names_[b] + "_k" + lane(b) + "]";
}

std::string ReductionLoop::inner_stride(size_t b, const std::string& kind) const {
  return names_[b] + "_" + kind + std::to_string((kind == "k" ? outer_ : reduced_).dimensions().size() - 1);
}

std::string ReductionLoop::lane(size_t b) const {
  if (by_group_) return "";
  return inner_[b] == '1' ? " + i" : " + i * " + inner_stride(b, "k");
}

// Takes an index apart into the dimensions before `end`, and adds to the places of `base`.
std::string ReductionLoop::places(const std::string& kind, const std::string& index, size_t end,
                                  const std::string& base) const {
  std::string text, rest = index;
  for (size_t d = end; d-- > 0;) {
    const std::string at = kind + std::to_string(d);
    text.append("const i64 p").append(at).append(" = ").append(rest);
    if (d != 0) text.append(" % ").append(at);
    text.append(", q").append(at).append(" = ").append(rest).append(" / ").append(at).append(";\n");
    rest = "q" + at;
  }
  for (const std::string& name : names_) {
    text.append("const i64 ").append(name).append("_").append(kind).append(" = ");
    text += base.empty() ? "0" : name + base;
    for (size_t d = 0; d < end; ++d) {
      const std::string at = kind + std::to_string(d);
      text.append(" + p").append(at).append(" * ").append(name).append("_").append(at);
    }
    text += ";\n";
  }
  return text;
}

}  // namespace mydev::device_kernels
