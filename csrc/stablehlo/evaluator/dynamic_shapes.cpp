// dynamic_pad and real_dynamic_slice, whose results have sizes that are known; and the check of operands that give
// sizes.
#include <algorithm>
#include <cstring>
#include <string>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

// The number of elements from first to below limit, by step; -1 if step is below 1 or first above limit.
int64_t count_between(int64_t first, int64_t limit, int64_t step) {
  if (step < 1 || first > limit) return -1;
  return (limit - first) / step + ((limit - first) % step != 0 ? 1 : 0);
}

// The size of a dimension after padding; -1 if it overflows or `interior` is negative.
int64_t padded_size(int64_t size, int64_t low, int64_t high, int64_t interior) {
  int64_t padded = 0;
  const bool overflows = interior < 0 || __builtin_mul_overflow(std::max<int64_t>(size - 1, 0), interior, &padded) ||
                         __builtin_add_overflow(padded, size, &padded) ||
                         __builtin_add_overflow(padded, low, &padded) || __builtin_add_overflow(padded, high, &padded);
  return overflows ? -1 : padded;
}

void move_element(int64_t bytes, std::byte* to, int64_t to_index, const std::byte* from, int64_t from_index) {
  std::memcpy(to + to_index * bytes, from + from_index * bytes, static_cast<size_t>(bytes));
}

}  // namespace

Sizes numbers_of(const Type& type, const std::byte* data) {
  Sizes numbers;
  for (int64_t i = 0; i < type.element_count(); ++i) numbers.push_back(element(type, data, i).integer);
  return numbers;
}

void require_sizes(const Operation& op, size_t operand, const Sizes& expected, const Sizes& given) {
  if (given == expected) return;
  const auto text = [](const Sizes& sizes) {
    std::string listed;
    for (const int64_t size : sizes) {
      if (!listed.empty()) listed += ',';
      listed += std::to_string(size);
    }
    return listed;
  };
  op.fail(MYDEV_INVALID_ARGUMENT, "its operand ", operand, " is [", text(given), "], and with a result of the type ",
          op.result().type->text(), " it must be [", text(expected), "]");
}

Evaluation evaluate_dynamic_pad(const Operation& op) {
  return [&op](auto operands, auto results) {
    const Type &from = *op.operand(0).type, &to = *op.result().type;
    const Sizes low = numbers_of(*op.operand(2).type, operands[2]), high = numbers_of(*op.operand(3).type, operands[3]),
                interior = numbers_of(*op.operand(4).type, operands[4]);
    for (size_t d = 0; d < low.size(); ++d) {
      if (padded_size(from.dims[d], low[d], high[d], interior[d]) != to.dims[d]) {
        op.fail(MYDEV_INVALID_ARGUMENT, "dimension ", d, " of size ", from.dims[d], " is padded by ", low[d], ", ",
                high[d], " and ", interior[d], " within, and the result has ", to.dims[d]);
      }
    }
    const int64_t bytes = element_bytes(from.element), count = to.element_count();
    for (int64_t i = 0; i < count; ++i) move_element(bytes, results[0], i, operands[1], 0);
    const Sizes strides = row_major_strides(to.dims);
    int64_t next = 0;
    for (Index at(from.dims); at; at.next(), ++next) {
      int64_t place = 0;
      bool inside = true;
      for (size_t d = 0; d < low.size() && inside; ++d) {
        const int64_t position = low[d] + at[d] * interior[d] + at[d];
        inside = position >= 0 && position < to.dims[d];
        if (inside) place += position * strides[d];
      }
      if (inside) move_element(bytes, results[0], place, operands[0], next);
    }
  };
}

Evaluation evaluate_real_dynamic_slice(const Operation& op) {
  return [&op](auto operands, auto results) {
    const Type &from = *op.operand(0).type, &to = *op.result().type;
    const Sizes first = numbers_of(*op.operand(1).type, operands[1]),
                limit = numbers_of(*op.operand(2).type, operands[2]),
                steps = numbers_of(*op.operand(3).type, operands[3]);
    for (size_t d = 0; d < first.size(); ++d) {
      const bool inside = first[d] >= 0 && limit[d] <= from.dims[d];
      if (!inside || count_between(first[d], limit[d], steps[d]) != to.dims[d]) {
        op.fail(MYDEV_INVALID_ARGUMENT, "elements ", first[d], " to ", limit[d], " in steps of ", steps[d],
                " of dimension ", d, ", which has ", from.dims[d], ", are not the ", to.dims[d], " of the result");
      }
    }
    const int64_t bytes = element_bytes(from.element);
    const Sizes strides = row_major_strides(from.dims);
    int64_t next = 0;
    for (Index at(to.dims); at; at.next(), ++next) {
      int64_t place = 0;
      for (size_t d = 0; d < first.size(); ++d) place += (first[d] + at[d] * steps[d]) * strides[d];
      move_element(bytes, results[0], next, operands[0], place);
    }
  };
}

}  // namespace mydev::stablehlo
