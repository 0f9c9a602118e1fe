// Applying a shape rule: to sizes that are numbers, and to a compiler's symbols.
//
// The type of the sizes says in SizeTraits what it means that two of them are equal, or that one is 1: asking a symbol
// makes the compiler assume the answer. Errors are INVALID_ARGUMENT and name the operand and the size.
#pragma once

#include <algorithm>
#include <array>
#include <span>
#include <string>

#include "kernels/spec/signature.h"
#include "runtime/base/status.h"

namespace mydev {

template <typename Size>
struct SizeTraits;

template <>
struct SizeTraits<int64_t> {
  static bool must_equal(int64_t a, int64_t b) noexcept { return a == b; }
  static bool is_one(int64_t size) noexcept { return size == 1; }
};

// The sizes that the rule's names have, and what "..." stands for, as far as the operands determine them.
template <typename Size>
class ShapeBinding {
 public:
  // Attributes are those of a call that check_operands has accepted.
  ShapeBinding(const ShapeRule& rule, const mydev_kernel& kernel, std::span<const mydev_attribute> attributes)
      : rule_(rule), kernel_(kernel), attributes_(attributes) {}

  // The sizes of an operand that is there.
  void take(uint32_t input, std::span<const Size> sizes) {
    const ShapeRule::List& list = rule_.operands()[operand_of_input(*kernel_.signature, input)];
    const size_t rank = sizes.size(), named = list.sizes.size();
    MYDEV_CHECK(rank == named || (rank > named && list.ellipsis), MYDEV_INVALID_ARGUMENT, describe(input), " has rank ",
                rank, "; the shape rule asks for ", list.ellipsis ? "at least " : "", named, ": ", expected());
    const size_t leading = rank - named;
    for (size_t d = 0; d < named; ++d) bind(list.sizes[d], sizes[leading + d], input, leading + d);
    if (list.ellipsis) broadcast(sizes.first(leading), input);
  }

  // Writes the sizes of a result, returns their number.
  int32_t give(uint32_t index, std::span<Size, MYDEV_MAX_SHAPE_RANK> out) const {
    const ShapeRule::List& list = rule_.results()[index];
    const size_t leading = list.ellipsis ? leading_rank_ : 0;
    const size_t rank = leading + list.sizes.size();
    MYDEV_CHECK(rank <= MYDEV_MAX_SHAPE_RANK, MYDEV_INVALID_ARGUMENT, kernel_.name, ": result ", index,
                " would have rank ", rank, "; the limit is ", MYDEV_MAX_SHAPE_RANK);
    std::copy_n(leading_.begin(), leading, out.begin());
    for (size_t d = 0; d < list.sizes.size(); ++d) {
      const ShapeRule::Size& size = list.sizes[d];
      MYDEV_CHECK(is_known(size), MYDEV_INVALID_ARGUMENT, kernel_.name, ": size '", text(size), "' of result ", index,
                  " is not known, since the operand that has it is absent: ", expected());
      MYDEV_CHECK(size.kind != ShapeRule::Size::kAttribute || attribute(size) >= 0, MYDEV_INVALID_ARGUMENT,
                  kernel_.name, ": attribute '", text(size), "' is ", attribute(size), ", a size of result ", index,
                  "; give 0 or more");
      out[leading + d] = value(size);
    }
    return static_cast<int32_t>(rank);
  }

 private:
  int64_t attribute(const ShapeRule::Size& size) const {
    return attributes_[static_cast<size_t>(size.attribute)].value.i;
  }
  bool is_known(const ShapeRule::Size& size) const {
    return size.kind != ShapeRule::Size::kName || (bound_ >> size.name & 1) != 0;
  }
  Size value(const ShapeRule::Size& size) const {
    switch (size.kind) {
      case ShapeRule::Size::kNumber:
        return size.number;
      case ShapeRule::Size::kAttribute:
        return attribute(size);
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

  void bind(const ShapeRule::Size& size, const Size& actual, uint32_t input, size_t dimension) {
    if (!is_known(size)) {
      sizes_[static_cast<size_t>(size.name)] = actual;
      bound_ |= UINT64_C(1) << size.name;
      return;
    }
    MYDEV_CHECK(SizeTraits<Size>::must_equal(value(size), actual), MYDEV_INVALID_ARGUMENT, describe(input),
                " has size ", actual, " in dimension ", dimension, ", where '", text(size), "' is ", value(size), ": ",
                expected());
  }

  void broadcast(std::span<const Size> sizes, uint32_t input) {
    MYDEV_CHECK(sizes.size() <= MYDEV_MAX_SHAPE_RANK, MYDEV_INVALID_ARGUMENT, describe(input), " has rank ",
                sizes.size(), "; the limit is ", MYDEV_MAX_SHAPE_RANK);
    if (sizes.size() > leading_rank_) {
      const auto end = leading_.begin() + static_cast<ptrdiff_t>(leading_rank_);
      std::copy_backward(leading_.begin(), end, leading_.begin() + static_cast<ptrdiff_t>(sizes.size()));
      std::fill_n(leading_.begin(), sizes.size() - leading_rank_, Size(1));
      leading_rank_ = sizes.size();
    }
    Size* out = leading_.data() + (leading_rank_ - sizes.size());
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (SizeTraits<Size>::is_one(out[d])) {
        out[d] = sizes[d];
        continue;
      }
      MYDEV_CHECK(SizeTraits<Size>::is_one(sizes[d]) || SizeTraits<Size>::must_equal(sizes[d], out[d]),
                  MYDEV_INVALID_ARGUMENT, describe(input), " has size ", sizes[d], " in dimension ", d,
                  ", which does not broadcast with ", out[d], ": ", expected());
    }
  }

  const ShapeRule& rule_;
  const mydev_kernel& kernel_;
  const std::span<const mydev_attribute> attributes_;
  std::array<Size, ShapeRule::kMaxNames> sizes_;  // of the names whose bit is set
  uint64_t bound_ = 0;
  static_assert(ShapeRule::kMaxNames <= 64);
  std::array<Size, MYDEV_MAX_SHAPE_RANK> leading_;
  size_t leading_rank_ = 0;
};

}  // namespace mydev
