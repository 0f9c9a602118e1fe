// Shape rules, "(...,m,k),(k,n)->(...,m,n)": parsing, and applying to a frame's sizes.
#include "kernels/spec/shape_rule.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "kernels/spec/characters.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

// A recursive-descent parser without recursion: lists ["," lists] "->" lists.
class ShapeRuleParser {
 public:
  ShapeRuleParser(const char* rule, const mydev_signature& signature, std::vector<std::string>& names)
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
    if (names_.size() == ShapeRule::kMaxNames) fail("more than 64 names");
    names_.emplace_back(name);
    return static_cast<int32_t>(names_.size() - 1);
  }

  std::string_view rule_;
  const mydev_signature& signature_;
  std::vector<std::string>& names_;
  size_t position_ = 0;
};

}  // namespace

ShapeRule::ShapeRule(const char* rule, const mydev_signature& signature) {
  ShapeRuleParser parser(rule, signature, names_);
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
  ShapeBinding<int64_t> binding(*this, kernel, {frame.attributes, frame.num_attributes});
  for (uint32_t input = 0; input < frame.num_inputs; ++input) {
    const mydev_buffer& buffer = frame.buffers[frame.num_outputs + input];
    if (buffer.dtype != MYDEV_DTYPE_INVALID) binding.take(input, {buffer.sizes, static_cast<size_t>(buffer.rank)});
  }
  for (uint32_t i = 0; i < results.size(); ++i) {
    results[i].rank = binding.give(i, std::span<int64_t, MYDEV_MAX_SHAPE_RANK>(results[i].sizes));
  }
}

}  // namespace mydev
