// Shape rules, "(...,m,k),(k,n)->(...,m,n)": parsing and applying.
#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "kernels/spec/signature.h"
#include "runtime/frame.h"
#include "runtime/status.h"

namespace mydev {

namespace {

constexpr size_t kMaxNames = 64;

bool is_space(char c) {
  return c == ' ' || c == '\t' || c == '\n';
}
bool is_digit(char c) {
  return c >= '0' && c <= '9';
}
bool is_name_start(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

// A recursive-descent parser without recursion: lists ["," lists] "->" lists.
class Parser {
 public:
  Parser(const char* rule, const mydev_signature& signature, std::vector<std::string>& names)
      : rule_(rule), signature_(signature), names_(names) {}

  std::vector<ShapeRule::List> lists(bool may_name) {
    std::vector<ShapeRule::List> result;
    skip_spaces();
    if (peek() != '(') return result;
    do {
      result.push_back(list(may_name));
    } while (take(','));
    return result;
  }
  void arrow() {
    if (!take('-') || position_ >= rule_.size() || rule_[position_] != '>') fail("expected '->'");
    ++position_;
  }
  void end() {
    skip_spaces();
    if (position_ != rule_.size()) fail("expected the end");
  }
  [[noreturn]] void fail(const std::string& what) const {
    raise(MYDEV_INVALID_ARGUMENT, "shape rule \"" + std::string(rule_) + "\": " + what + " at position " +
                                      std::to_string(position_) + "; a rule looks like \"(...,m,k),(k,n)->(...,m,n)\"");
  }

 private:
  char peek() const { return position_ < rule_.size() ? rule_[position_] : '\0'; }
  void skip_spaces() {
    while (is_space(peek())) ++position_;
  }
  bool take(char c) {
    skip_spaces();
    if (peek() != c) return false;
    ++position_;
    return true;
  }

  ShapeRule::List list(bool may_name) {
    if (!take('(')) fail("expected '('");
    ShapeRule::List list{false, {}};
    skip_spaces();
    if (rule_.substr(position_).starts_with("...")) {
      list.ellipsis = true;
      position_ += 3;
      if (take(')')) return list;
      if (!take(',')) fail("expected ',' or ')'");
    } else if (take(')')) {
      return list;
    }
    do {
      list.sizes.push_back(size(may_name));
      if (list.sizes.size() > MYDEV_MAX_SHAPE_RANK) fail("a list of more than 32 sizes");
    } while (take(','));
    if (!take(')')) fail("expected ',' or ')'");
    return list;
  }

  ShapeRule::Size size(bool may_name) {
    skip_spaces();
    ShapeRule::Size size{ShapeRule::Size::kNumber, 0, 0, 0};
    if (is_digit(peek())) {
      const char* begin = rule_.data() + position_;
      const auto [end, error] = std::from_chars(begin, rule_.data() + rule_.size(), size.number);
      if (error != std::errc()) fail("a number that is too large");
      position_ += static_cast<size_t>(end - begin);
    } else if (take('@')) {
      size.kind = ShapeRule::Size::kAttribute;
      size.attribute = attribute(identifier());
    } else {
      size.kind = ShapeRule::Size::kName;
      size.name = name(identifier(), may_name);
    }
    return size;
  }

  std::string_view identifier() {
    const size_t begin = position_;
    if (!is_name_start(peek())) fail("expected a size: a name, a number or @attribute");
    while (is_name_start(peek()) || is_digit(peek())) ++position_;
    return rule_.substr(begin, position_ - begin);
  }
  int32_t attribute(std::string_view name) const {
    for (uint32_t i = 0; i < signature_.num_attributes; ++i) {
      const mydev_attribute& value = signature_.attributes[i]->value;
      if (name != value.name) continue;
      if (value.kind != MYDEV_ATTRIBUTE_INT) fail("attribute '" + std::string(name) + "' is not of kind INT");
      return static_cast<int32_t>(i);
    }
    fail("the signature has no attribute '" + std::string(name) + "'");
  }
  int32_t name(std::string_view name, bool may_name) const {
    const auto known = std::find(names_.begin(), names_.end(), name);
    if (known != names_.end()) return static_cast<int32_t>(known - names_.begin());
    if (!may_name) fail("size '" + std::string(name) + "' of a result is in no operand");
    if (names_.size() == kMaxNames) fail("more than 64 names");
    names_.emplace_back(name);
    return static_cast<int32_t>(names_.size() - 1);
  }

  std::string_view rule_;
  const mydev_signature& signature_;
  std::vector<std::string>& names_;
  size_t position_ = 0;
};

// The sizes that the names have and what "..." stands for, as far as the operands have told.
class Binding {
 public:
  Binding(const ShapeRule& rule, const mydev_kernel& kernel, const mydev_frame& frame)
      : rule_(rule), kernel_(kernel), frame_(frame) {
    sizes_.fill(-1);
  }

  void take(uint32_t input) {
    const mydev_buffer& buffer = frame_.buffers[frame_.num_outputs + input];
    const uint32_t operand = operand_of_input(*kernel_.signature, input);
    if (buffer.dtype == MYDEV_DTYPE_INVALID) return;  // absent
    const ShapeRule::List& list = rule_.operands()[operand];
    const auto named = static_cast<int32_t>(list.sizes.size());
    const int32_t leading = buffer.rank - named;
    MYDEV_CHECK(leading == 0 || (leading > 0 && list.ellipsis), MYDEV_INVALID_ARGUMENT, describe(input), " has rank ",
                buffer.rank, "; the shape rule asks for ", list.ellipsis ? "at least " : "", named, ": ", expected());
    for (int32_t d = 0; d < named; ++d) {
      bind(list.sizes[static_cast<size_t>(d)], buffer.sizes[leading + d], input, leading + d);
    }
    if (list.ellipsis) broadcast(buffer.sizes, leading, input);
  }

  void give(const ShapeRule::List& list, uint32_t index, mydev_shape& result) const {
    const size_t rank = list.sizes.size() + (list.ellipsis ? static_cast<size_t>(leading_rank_) : 0);
    MYDEV_CHECK(rank <= MYDEV_MAX_SHAPE_RANK, MYDEV_INVALID_ARGUMENT, kernel_.name, ": result ", index,
                " would have rank ", rank, "; the limit is ", MYDEV_MAX_SHAPE_RANK);
    result.rank = static_cast<int32_t>(rank);
    int64_t* out = result.sizes;
    if (list.ellipsis) out = std::copy_n(leading_.begin(), leading_rank_, out);
    for (const ShapeRule::Size& size : list.sizes) {
      const int64_t value = known(size);
      MYDEV_CHECK(value >= 0 || size.kind != ShapeRule::Size::kName, MYDEV_INVALID_ARGUMENT, kernel_.name, ": size '",
                  rule_.names()[static_cast<size_t>(size.name)], "' of result ", index,
                  " is not known, since the operand that has it is absent: ", expected());
      MYDEV_CHECK(value >= 0, MYDEV_INVALID_ARGUMENT, kernel_.name, ": attribute '", text(size), "' is ", value,
                  ", a size of result ", index, "; give 0 or more");
      *out++ = value;
    }
  }

 private:
  // -1: not yet.
  int64_t known(const ShapeRule::Size& size) const {
    switch (size.kind) {
      case ShapeRule::Size::kNumber:
        return size.number;
      case ShapeRule::Size::kAttribute:
        return frame_.attributes[size.attribute].value.i;
      default:
        return sizes_[static_cast<size_t>(size.name)];
    }
  }
  std::string text(const ShapeRule::Size& size) const {
    switch (size.kind) {
      case ShapeRule::Size::kNumber:
        return std::to_string(size.number);
      case ShapeRule::Size::kAttribute:
        return std::string("@") + kernel_.signature->attributes[size.attribute]->value.name;
      default:
        return rule_.names()[static_cast<size_t>(size.name)];
    }
  }
  std::string expected() const { return describe_signature(kernel_); }
  std::string describe(uint32_t input) const {
    return std::string(kernel_.name) + ": operand '" +
           kernel_.signature->operands[operand_of_input(*kernel_.signature, input)]->name + "'";
  }

  void bind(const ShapeRule::Size& size, int64_t actual, uint32_t input, int32_t dimension) {
    const int64_t value = known(size);
    if (value < 0 && size.kind == ShapeRule::Size::kName) {
      sizes_[static_cast<size_t>(size.name)] = actual;
      return;
    }
    MYDEV_CHECK(value == actual, MYDEV_INVALID_ARGUMENT, describe(input), " has size ", actual, " in dimension ",
                dimension, ", where '", text(size), "' is ", value, ": ", expected());
  }

  void broadcast(const int64_t* sizes, int32_t rank, uint32_t input) {
    MYDEV_CHECK(rank <= MYDEV_MAX_SHAPE_RANK, MYDEV_INVALID_ARGUMENT, describe(input), " has rank ", rank,
                "; the limit is ", MYDEV_MAX_SHAPE_RANK);
    if (rank > leading_rank_) {
      std::copy_backward(leading_.begin(), leading_.begin() + leading_rank_, leading_.begin() + rank);
      std::fill_n(leading_.begin(), rank - leading_rank_, int64_t{1});
      leading_rank_ = rank;
    }
    int64_t* out = leading_.data() + (leading_rank_ - rank);
    for (int32_t d = 0; d < rank; ++d) {
      MYDEV_CHECK(sizes[d] == out[d] || sizes[d] == 1 || out[d] == 1, MYDEV_INVALID_ARGUMENT, describe(input),
                  " has size ", sizes[d], " in dimension ", d, ", which does not broadcast with ", out[d], ": ",
                  expected());
      if (out[d] == 1) out[d] = sizes[d];
    }
  }

  const ShapeRule& rule_;
  const mydev_kernel& kernel_;
  const mydev_frame& frame_;
  std::array<int64_t, kMaxNames> sizes_;
  std::array<int64_t, MYDEV_MAX_SHAPE_RANK> leading_;
  int32_t leading_rank_ = 0;
};

}  // namespace

ShapeRule::ShapeRule(const char* rule, const mydev_signature& signature) {
  Parser parser(rule, signature, names_);
  operands_ = parser.lists(true);
  parser.arrow();
  results_ = parser.lists(false);
  parser.end();
  const auto check_count = [&](const char* what, size_t lists, uint32_t expected) {
    if (lists != expected) {
      parser.fail(std::to_string(lists) + " lists for " + std::to_string(expected) + " " + what);
    }
  };
  check_count("operands", operands_.size(), signature.num_operands);
  check_count("results", results_.size(), num_single_results(signature));
  const auto has_ellipsis = [](const List& list) { return list.ellipsis; };
  if (std::any_of(results_.begin(), results_.end(), has_ellipsis) &&
      std::none_of(operands_.begin(), operands_.end(), has_ellipsis)) {
    parser.fail("'...' in a result and in no operand");
  }
}

void ShapeRule::apply(const mydev_kernel& kernel, const mydev_frame& frame, std::span<mydev_shape> results) const {
  Binding binding(*this, kernel, frame);
  for (uint32_t input = 0; input < frame.num_inputs; ++input) binding.take(input);
  for (uint32_t i = 0; i < results.size(); ++i) binding.give(results_[i], i, results[i]);
}

}  // namespace mydev
