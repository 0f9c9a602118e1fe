// reduce_window and select_and_scatter.
#include <algorithm>
#include <memory>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/scalar_program.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

constexpr int64_t kGrain = 2048;

// A window that moves over a tensor.
struct Window {
  Sizes sizes, strides, dilations, base_dilations, low;
  Sizes base, base_strides;  // of the tensor

  Window(const Operation& op, bool dilated) {
    base = op.operand(0).type->dims;
    base_strides = row_major_strides(base);
    const size_t rank = base.size();
    const auto or_ones = [rank](Sizes given) { return given.empty() ? Sizes(rank, 1) : given; };
    sizes = or_ones(op.integers_or_none("window_dimensions"));
    strides = or_ones(op.integers_or_none("window_strides"));
    dilations = or_ones(dilated ? op.integers_or_none("window_dilations") : Sizes{});
    base_dilations = or_ones(dilated ? op.integers_or_none("base_dilations") : Sizes{});
    const Sizes padding = op.integers_or_none("padding");
    low.assign(rank, 0);
    for (size_t d = 0; 2 * d < padding.size(); ++d) low[d] = padding[2 * d];
  }

  // The element under a place of the window; -1: padding, or between elements.
  int64_t offset(const Index& at, const Index& within) const {
    int64_t offset = 0;
    for (size_t d = 0; d < base.size(); ++d) {
      const int64_t position = at[d] * strides[d] + within[d] * dilations[d] - low[d];
      if (position < 0 || position % base_dilations[d] != 0 || position / base_dilations[d] >= base[d]) return -1;
      offset += position / base_dilations[d] * base_strides[d];
    }
    return offset;
  }
};

}  // namespace

Evaluation evaluate_reduce_window(const Module& module, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(module, op.region());
  return [&op, body, window = Window(op, /*dilated=*/true)](auto operands, auto results) {
    const size_t n = results.size();
    const Sizes& sizes = op.result().type->dims;
    const int64_t grain = std::max<int64_t>(kGrain / std::max<int64_t>(count_of(window.sizes), 1), 1);
    parallel_for(count_of(sizes), grain, [&](int64_t begin, int64_t end) {
      std::vector<Number> registers = body->make_registers(), values(n);
      Index at(sizes);
      at.seek(begin);
      for (int64_t i = begin; i < end; ++i, at.next()) {
        for (size_t k = 0; k < n; ++k) values[k] = element(*op.operand(n + k).type, operands[n + k], 0);
        for (Index within(window.sizes); within; within.next()) {
          const int64_t offset = window.offset(at, within);
          if (offset < 0) continue;
          for (size_t k = 0; k < n; ++k) {
            registers[k] = values[k];
            registers[n + k] = element(*op.operand(k).type, operands[k], offset);
          }
          body->run(registers);
          for (size_t k = 0; k < n; ++k) values[k] = body->result(registers, k);
        }
        for (size_t k = 0; k < n; ++k) set_element(*op.result(k).type, results[k], i, values[k]);
      }
    });
  };
}

Evaluation evaluate_select_and_scatter(const Module& module, const Operation& op) {
  auto select = std::make_shared<const ScalarProgram>(module, op.region(0));
  auto scatter = std::make_shared<const ScalarProgram>(module, op.region(1));
  return [&op, select, scatter, window = Window(op, /*dilated=*/false)](auto operands, auto results) {
    const Type &type = *op.operand(0).type, &source = *op.operand(1).type;
    const Number initial = element(*op.operand(2).type, operands[2], 0);
    for (int64_t i = 0; i < type.element_count(); ++i) set_element(type, results[0], i, initial);
    std::vector<Number> choosing = select->make_registers(), adding = scatter->make_registers();
    int64_t i = 0;
    for (Index at(source.dims); at; at.next(), ++i) {
      int64_t chosen = -1;
      Number best;
      for (Index within(window.sizes); within; within.next()) {
        const int64_t offset = window.offset(at, within);
        if (offset < 0) continue;
        const Number candidate = element(type, operands[0], offset);
        if (chosen >= 0) {
          choosing[0] = best;
          choosing[1] = candidate;
          select->run(choosing);
          if (select->result(choosing, 0).integer != 0) continue;
        }
        chosen = offset;
        best = candidate;
      }
      if (chosen < 0) continue;
      adding[0] = element(type, results[0], chosen);
      adding[1] = element(source, operands[1], i);
      scatter->run(adding);
      set_element(type, results[0], chosen, scatter->result(adding, 0));
    }
  };
}

}  // namespace mydev::stablehlo
