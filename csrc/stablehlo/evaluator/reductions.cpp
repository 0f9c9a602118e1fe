// reduce and sort.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/scalar_program.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

constexpr int64_t kGrain = 2048;  // elements, of some 30 ns each

// Where a reduction's elements are: offsets are of those that are kept plus of those that are reduced.
struct Reduction {
  Sizes kept, kept_strides, reduced, reduced_strides;

  explicit Reduction(const Operation& op) {
    const Sizes& sizes = op.operand(0).type->dims;
    const Sizes strides = row_major_strides(sizes), dimensions = op.integers("dimensions");
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool is_reduced = std::ranges::count(dimensions, static_cast<int64_t>(d)) != 0;
      (is_reduced ? reduced : kept).push_back(sizes[d]);
      (is_reduced ? reduced_strides : kept_strides).push_back(strides[d]);
    }
  }
};

}  // namespace

Evaluation evaluate_reduce(const Module& module, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(module, op.region());
  return [&op, body, shape = Reduction(op)](auto operands, auto results) {
    const size_t n = results.size();
    const int64_t each = std::max<int64_t>(count_of(shape.reduced), 1);
    parallel_for(count_of(shape.kept), std::max<int64_t>(kGrain / each, 1), [&](int64_t begin, int64_t end) {
      std::vector<Number> registers = body->make_registers();
      Index kept(shape.kept);
      kept.seek(begin);
      for (int64_t i = begin; i < end; ++i, kept.next()) {
        const int64_t base = kept.offset(shape.kept_strides);
        for (size_t k = 0; k < n; ++k) registers[k] = element(*op.operand(n + k).type, operands[n + k], 0);
        for (Index at(shape.reduced); at; at.next()) {
          const int64_t offset = base + at.offset(shape.reduced_strides);
          for (size_t k = 0; k < n; ++k) registers[n + k] = element(*op.operand(k).type, operands[k], offset);
          body->run(registers);
          // Results may be registers of arguments: all are read before any is written.
          std::vector<Number>& next = registers;
          if (n == 1) {
            next[0] = body->result(registers, 0);
          } else {
            std::vector<Number> values;
            for (size_t k = 0; k < n; ++k) values.push_back(body->result(registers, k));
            std::ranges::copy(values, next.begin());
          }
        }
        for (size_t k = 0; k < n; ++k) set_element(*op.result(k).type, results[k], i, registers[k]);
      }
    });
  };
}

Evaluation evaluate_sort(const Module& module, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(module, op.region());
  int64_t dimension = op.integer("dimension", -1);
  const Type& first = *op.operand(0).type;
  if (dimension < 0) dimension += first.rank();
  return [&op, body, dimension](auto operands, auto results) {
    Sizes lines = op.operand(0).type->dims;
    const Sizes strides = row_major_strides(lines);
    const auto d = static_cast<size_t>(dimension);
    const int64_t length = lines[d], step = strides[d];
    lines[d] = length == 0 ? 0 : 1;
    const size_t n = operands.size();
    parallel_for(count_of(lines), std::max<int64_t>(kGrain / std::max<int64_t>(length, 1), 1),
                 [&](int64_t begin, int64_t end) {
                   std::vector<Number> registers = body->make_registers();
                   std::vector<int64_t> order(static_cast<size_t>(length));
                   std::vector<Number> columns(n * order.size());
                   Index line(lines);
                   line.seek(begin);
                   for (int64_t i = begin; i < end; ++i, line.next()) {
                     const int64_t base = line.offset(strides);
                     for (size_t k = 0; k < n; ++k) {
                       for (int64_t j = 0; j < length; ++j) {
                         columns[k * order.size() + static_cast<size_t>(j)] =
                             element(*op.operand(k).type, operands[k], base + j * step);
                       }
                     }
                     std::iota(order.begin(), order.end(), 0);
                     std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
                       for (size_t k = 0; k < n; ++k) {
                         registers[2 * k] = columns[k * order.size() + static_cast<size_t>(a)];
                         registers[2 * k + 1] = columns[k * order.size() + static_cast<size_t>(b)];
                       }
                       body->run(registers);
                       return body->result(registers, 0).integer != 0;
                     });
                     for (size_t k = 0; k < n; ++k) {
                       const Type& type = *op.operand(k).type;
                       const int64_t bytes = element_bytes(type.element);
                       for (int64_t j = 0; j < length; ++j) {
                         std::memcpy(results[k] + (base + j * step) * bytes,
                                     operands[k] + (base + order[static_cast<size_t>(j)] * step) * bytes,
                                     static_cast<size_t>(bytes));
                       }
                     }
                   }
                 });
  };
}

}  // namespace mydev::stablehlo
