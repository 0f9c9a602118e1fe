// reduce, sort, and the custom call ApproxTopK.
#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/scalar_program.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

constexpr int64_t kReductionGrain = 2048;  // elements, of some 30 ns each

// The offset of a reduction's element is the sum of two: one over the outer dimensions, one over the reduced ones.
struct Reduction {
  Sizes outer, outer_strides, reduced, reduced_strides;

  explicit Reduction(const Operation& op) {
    const Sizes& sizes = op.operand(0).type->dims;
    const Sizes strides = row_major_strides(sizes), dimensions = op.integers("dimensions");
    for (size_t d = 0; d < sizes.size(); ++d) {
      const bool is_reduced = std::ranges::count(dimensions, static_cast<int64_t>(d)) != 0;
      (is_reduced ? reduced : outer).push_back(sizes[d]);
      (is_reduced ? reduced_strides : outer_strides).push_back(strides[d]);
    }
  }
};

}  // namespace

Evaluation evaluate_reduce(const Module& module, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(module, op.region());
  return [&op, body, shape = Reduction(op)](auto operands, auto results) {
    const size_t n = results.size();
    const int64_t each = std::max<int64_t>(count_of(shape.reduced), 1);
    parallel_for(count_of(shape.outer), std::max<int64_t>(kReductionGrain / each, 1), [&](int64_t begin, int64_t end) {
      std::vector<Number> registers = body->make_registers(), values(n);
      Index outer(shape.outer);
      outer.seek(begin);
      for (int64_t i = begin; i < end; ++i, outer.next()) {
        const int64_t base = outer.offset(shape.outer_strides);
        for (size_t k = 0; k < n; ++k) registers[k] = element(*op.operand(n + k).type, operands[n + k], 0);
        for (Index at(shape.reduced); at; at.next()) {
          const int64_t offset = base + at.offset(shape.reduced_strides);
          for (size_t k = 0; k < n; ++k) registers[n + k] = element(*op.operand(k).type, operands[k], offset);
          body->run(registers);
          // Results may be registers of arguments: all are read before any is written.
          for (size_t k = 0; k < n; ++k) values[k] = body->result(registers, k);
          std::ranges::copy(values, registers.begin());
        }
        for (size_t k = 0; k < n; ++k) set_element(*op.result(k).type, results[k], i, registers[k]);
      }
    });
  };
}

namespace {

// Sorts tensors of one shape together along a dimension; the results have the first elements of each line.
Evaluation sort_lines(const Operation& op, std::shared_ptr<const ScalarProgram> less, int64_t dimension) {
  return [&op, less = std::move(less), dimension](auto operands, auto results) {
    Sizes lines = op.operand(0).type->dims;
    const Sizes strides = row_major_strides(lines), result_strides = row_major_strides(op.result().type->dims);
    const auto d = static_cast<size_t>(dimension);
    const int64_t length = lines[d], kept = op.result().type->dims[d], step = strides[d];
    lines[d] = length == 0 ? 0 : 1;
    const size_t n = results.size();
    parallel_for(count_of(lines), std::max<int64_t>(kReductionGrain / std::max<int64_t>(length, 1), 1),
                 [&](int64_t begin, int64_t end) {
                   std::vector<Number> registers = less->make_registers();
                   std::vector<int64_t> order(static_cast<size_t>(length));
                   std::vector<Number> columns(n * order.size());
                   Index line(lines);
                   line.seek(begin);
                   for (int64_t i = begin; i < end; ++i, line.next()) {
                     const int64_t base = line.offset(strides), to = line.offset(result_strides);
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
                       less->run(registers);
                       return less->result(registers, 0).integer != 0;
                     });
                     for (size_t k = 0; k < n; ++k) {
                       const Type& type = *op.operand(k).type;
                       const int64_t bytes = element_bytes(type.element);
                       for (int64_t j = 0; j < kept; ++j) {
                         std::memcpy(results[k] + (to + j * result_strides[d]) * bytes,
                                     operands[k] + (base + order[static_cast<size_t>(j)] * step) * bytes,
                                     static_cast<size_t>(bytes));
                       }
                     }
                   }
                 });
  };
}

}  // namespace

Evaluation evaluate_sort(const Module& module, const Operation& op) {
  int64_t dimension = op.integer("dimension", -1);
  if (dimension < 0) dimension += op.operand(0).type->rank();
  return sort_lines(op, std::make_shared<const ScalarProgram>(module, op.region()), dimension);
}

namespace {

// The function that an operation names in a list of one; nullptr if it does not. VHLO has symbols as strings.
const Function* only_called(const Module& module, const Operation& op) {
  const auto& called = op.get<ArrayAttribute>("called_computations");
  if (called.size() != 1) return nullptr;
  const auto* symbol = called[0]->get_if<Symbol>();
  const auto* text = called[0]->get_if<std::string>();
  if (symbol == nullptr && text == nullptr) return nullptr;
  return module.find_function(symbol != nullptr ? symbol->path : *text);
}

// Requires that results have the operands' types, with as many elements or fewer along the dimension.
void require_shorter_results(const Operation& op, int64_t dimension) {
  const size_t n = op.results.size();
  const Type& first = *op.operand(0).type;
  if (n == 0 || op.operands.size() != 2 * n || dimension < 0 || dimension >= first.rank()) {
    op.fail(MYDEV_INVALID_ARGUMENT, "it takes tensors with dimension ", dimension,
            " and an initial value for each, and gives a result for each");
  }
  const auto d = static_cast<size_t>(dimension);
  Sizes sizes = first.dims;
  if (op.result().type->rank() == first.rank()) sizes[d] = std::min(sizes[d], op.result().type->dims[d]);
  for (size_t i = 0; i < n; ++i) {
    const Type &from = *op.operand(i).type, &to = *op.result(i).type;
    if (from.dims != first.dims || to.dims != sizes || from.element != to.element) {
      op.fail(MYDEV_INVALID_ARGUMENT, "a ", to.text(), " is not of the first elements of a ", from.text(),
              " along dimension ", dimension);
    }
  }
}

}  // namespace

ApproxTopK approx_top_k_of(const Module& module, const Operation& op) {
  const Function* less = only_called(module, op);
  const Attribute* dimension = find(op.get<Dictionary>("mhlo.backend_config"), "reduction_dim");
  const auto* d = dimension != nullptr ? dimension->get_if<Integer>() : nullptr;
  const size_t arguments = 2 * op.results.size();
  if (less == nullptr || less->arguments.size() != arguments || less->results.size() != 1 || d == nullptr) {
    op.fail(MYDEV_INVALID_ARGUMENT, "it needs one called computation that compares, of ", arguments,
            " arguments, and 'reduction_dim' in its configuration");
  }
  require_shorter_results(op, d->value);
  return {less, d->value};
}

Evaluation evaluate_approx_top_k(const Module& module, const Operation& op) {
  const ApproxTopK exact = approx_top_k_of(module, op);
  return sort_lines(op, std::make_shared<const ScalarProgram>(module, *exact.comparator->body), exact.dimension);
}

}  // namespace mydev::stablehlo
