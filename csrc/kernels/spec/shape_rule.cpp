// Shape rules, "(...,m,k),(k,n)->(...,m,n)": parsing, and applying to a frame's sizes.
#include "kernels/spec/shape_rule.h"

#include <algorithm>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/base/text_scanner.h"

namespace mydev {

namespace {

// A recursive-descent parser without recursion: lists ["," lists] "->" lists.
class ShapeRuleParser final : public TextScanner {
 public:
  ShapeRuleParser(const char* rule, const mydev_signature& signature, std::vector<std::string>& names)
      : TextScanner(rule), signature_(signature), names_(names) {}

  std::vector<ShapeRule::List> lists(bool may_name) {
    std::vector<ShapeRule::List> result;
    if (!at("(")) return result;
    do {
      result.push_back(list(may_name));
    } while (take(","));
    return result;
  }
  void end() {
    if (!at_end()) fail_expecting("the end");
  }
  [[noreturn]] void fail(const std::string& what) const {
    raise(MYDEV_INVALID_ARGUMENT, "shape rule \"" + std::string(text_) + "\": " + what + " at position " +
                                      std::to_string(position_) + "; a rule looks like \"(...,m,k),(k,n)->(...,m,n)\"");
  }

 private:
  [[noreturn]] void fail_expecting(const std::string& expected) override { fail("expected " + expected); }

  ShapeRule::List list(bool may_name) {
    expect("(");
    ShapeRule::List list{false, {}};
    if (take("...")) {
      list.ellipsis = true;
      if (take(")")) return list;
      if (!take(",")) fail_expecting("',' or ')'");
    } else if (take(")")) {
      return list;
    }
    do {
      list.sizes.push_back(size(may_name));
      if (list.sizes.size() > MYDEV_MAX_SHAPE_RANK) fail("a list of more than 32 sizes");
    } while (take(","));
    if (!take(")")) fail_expecting("',' or ')'");
    return list;
  }

  ShapeRule::Size size(bool may_name) {
    ShapeRule::Size size{ShapeRule::Size::kNumber, 0, 0, 0};
    if (is_digit(peek())) {
      size.number = integer("a number that is not too large");
    } else if (take("@")) {
      size.kind = ShapeRule::Size::kAttribute;
      size.attribute = attribute(identifier());
    } else {
      size.kind = ShapeRule::Size::kName;
      size.name = name(identifier(), may_name);
    }
    return size;
  }

  std::string_view identifier() { return word("a size: a name, a number or @attribute"); }
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

  const mydev_signature& signature_;
  std::vector<std::string>& names_;
};

}  // namespace

ShapeRule::ShapeRule(const char* rule, const mydev_signature& signature) {
  ShapeRuleParser parser(rule, signature, names_);
  operands_ = parser.lists(true);
  parser.expect("->");
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
