// Settings for facts that a contract states in its notes only: sizes that fit each other, positions that exist. Each
// row is a way to try the kernel, in place of the sizes and attributes that any kernel is tried with.
//
// Settings are words: "h=7" a size (each entry of a list), "stride=2,3" an attribute, "index<d" positions below a size,
// "index<h*w" below a product, "var:0.5..2" the bounds of an operand's elements, "rank=2" the least entries of lists.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "conform/kernels/variation.h"
#include "kernels/spec/contract.h"

namespace mydev::conform {

struct OperandBounds {
  double low = 0, high = 0;
};

class Settings {
 public:
  explicit Settings(std::string_view text) : text_(text) {}

  // The numbers that the size or attribute is to have; empty: nothing is said.
  std::vector<double> values(std::string_view name) const;
  // Returns the bounds of an operand's elements, given the sizes by name.
  template <typename SizeOf>
  std::optional<OperandBounds> bounds(std::string_view operand, const SizeOf& size_of) const {
    if (const std::string_view range = setting(operand, ':'); !range.empty()) return range_of(range);
    const std::string_view factors = setting(operand, '<');
    if (factors.empty()) return std::nullopt;
    double product = 1;
    for (const std::string_view factor : split(factors, '*')) product *= static_cast<double>(size_of(factor));
    return OperandBounds{0, product - 1};
  }

  std::string_view text() const { return text_; }

 private:
  // Returns the text behind the name and the sign in a word; "" if there is none.
  std::string_view setting(std::string_view name, char sign) const;
  static OperandBounds range_of(std::string_view text);
  static std::vector<std::string_view> split(std::string_view text, char separator);

  std::string_view text_;
};

// The ways to try the kernel with frames of a kind; one without settings if nothing is said of it.
std::vector<Settings> settings_of(const KernelContract& contract, const Variation& variation);

}  // namespace mydev::conform
