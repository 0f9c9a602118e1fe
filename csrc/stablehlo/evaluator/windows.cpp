// reduce_window and select_and_scatter.
#include <algorithm>
#include <memory>
#include <optional>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/scalar_program.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

constexpr int64_t kWindowGrain = 2048;

// A window that moves over a tensor.
struct Window {
  Sizes sizes, strides, dilations, base_dilations, low;
  Sizes base, base_strides;  // of the tensor

  Window(const Operation& op, bool dilated) {
    base = op.operand(0).type->dims;
    base_strides = row_major_strides(base);
    const size_t rank = base.size();
    const auto or_ones = [rank](const Sizes& given) { return given.empty() ? Sizes(rank, 1) : given; };
    sizes = or_ones(op.integers_or_none("window_dimensions"));
    strides = or_ones(op.integers_or_none("window_strides"));
    dilations = or_ones(dilated ? op.integers_or_none("window_dilations") : Sizes{});
    base_dilations = or_ones(dilated ? op.integers_or_none("base_dilations") : Sizes{});
    const Sizes padding = op.integers_or_none("padding");
    low.assign(rank, 0);
    for (size_t d = 0; 2 * d < padding.size(); ++d) low[d] = padding[2 * d];
  }

  // The tensor's indices along a dimension that are under a window there, in order. Places over padding, or between
  // elements, are never gone through: there may be any number of them.
  void find_under(size_t d, int64_t number, Sizes& found) const {
    const int64_t begin = number * strides[d] - low[d], step = dilations[d], spread = base_dilations[d];
    found.clear();
    if (spread == 1) {
      for (int64_t place = begin < 0 ? (-begin + step - 1) / step : 0; place < sizes[d]; ++place) {
        if (begin + place * step >= base[d]) break;
        found.push_back(begin + place * step);
      }
      return;
    }
    const int64_t end = begin + (sizes[d] - 1) * step;
    for (int64_t i = begin < 0 ? 0 : (begin + spread - 1) / spread; i < base[d] && i * spread <= end; ++i) {
      if ((i * spread - begin) % step == 0) found.push_back(i);
    }
  }

  // The dimension along which each window begins or ends where the tensor does; nothing if there is none.
  std::optional<size_t> cumulative_dimension(const Sizes& windows) const {
    if (windows != base || count_of(base) == 0) return std::nullopt;
    std::optional<size_t> found;
    for (size_t d = 0; d < base.size(); ++d) {
      if (strides[d] != 1 || dilations[d] != 1 || base_dilations[d] != 1) return std::nullopt;
      if (sizes[d] == 1) continue;  // and no padding, as there are as many windows as elements
      if (found || sizes[d] != base[d] || (low[d] != 0 && low[d] != base[d] - 1)) return std::nullopt;
      found = d;
    }
    return found;
  }
};

// The elements under one window after the other. One thread.
class UnderWindow {
 public:
  explicit UnderWindow(const Window& window)
      : window_(window), indices_(window.base.size()), counts_(window.base.size()) {}

  // Calls f with the offset of each, in order.
  template <typename F>
  void for_each(const Index& at, const F& f) {
    for (size_t d = 0; d < indices_.size(); ++d) {
      window_.find_under(d, at[d], indices_[d]);
      counts_[d] = std::ssize(indices_[d]);
    }
    for (Index within(counts_); within; within.next()) {
      int64_t offset = 0;
      for (size_t d = 0; d < indices_.size(); ++d) {
        offset += indices_[d][static_cast<size_t>(within[d])] * window_.base_strides[d];
      }
      f(offset);
    }
  }

 private:
  const Window& window_;
  std::vector<Sizes> indices_;  // by dimension
  Sizes counts_;
};

// Each window has one element more than the one before: the body is called once for each element.
Evaluation evaluate_cumulative(const Operation& op, std::shared_ptr<const ScalarProgram> body, const Window& window,
                               size_t dim) {
  const int64_t size = window.base[dim], stride = window.base_strides[dim];
  const bool from_each_on = window.low[dim] == 0;
  const int64_t lines = count_of(window.base) / size;
  return [=, &op, body = std::move(body)](auto operands, auto results) {
    const size_t n = results.size();
    parallel_for(lines, std::max<int64_t>(kWindowGrain / size, 1), [&](int64_t begin, int64_t end) {
      std::vector<Number> registers = body->make_registers(), values(n);
      for (int64_t line = begin; line < end; ++line) {
        for (size_t k = 0; k < n; ++k) values[k] = element(*op.operand(n + k).type, operands[n + k], 0);
        const int64_t first = line / stride * stride * size + line % stride;
        for (int64_t i = 0; i < size; ++i) {
          const int64_t at = first + (from_each_on ? size - 1 - i : i) * stride;
          for (size_t k = 0; k < n; ++k) {
            registers[from_each_on ? n + k : k] = values[k];
            registers[from_each_on ? k : n + k] = element(*op.operand(k).type, operands[k], at);
          }
          body->run(registers);
          for (size_t k = 0; k < n; ++k) {
            values[k] = body->result(registers, k);
            set_element(*op.result(k).type, results[k], at, values[k]);
          }
        }
      }
    });
  };
}

}  // namespace

Evaluation evaluate_reduce_window(const Module& module, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(module, op.region());
  const Window window(op, /*dilated=*/true);
  if (const std::optional<size_t> dim = window.cumulative_dimension(op.result().type->dims)) {
    return evaluate_cumulative(op, std::move(body), window, *dim);
  }
  return [&op, body, window](auto operands, auto results) {
    const size_t n = results.size();
    const Sizes& sizes = op.result().type->dims;
    int64_t each = 1;  // of the tensor's elements under a window, at most
    for (size_t d = 0; d < sizes.size(); ++d) each *= std::clamp<int64_t>(window.base[d], 1, window.sizes[d]);
    const int64_t grain = std::max<int64_t>(kWindowGrain / each, 1);
    parallel_for(count_of(sizes), grain, [&](int64_t begin, int64_t end) {
      std::vector<Number> registers = body->make_registers(), values(n);
      UnderWindow under(window);
      Index at(sizes);
      at.seek(begin);
      for (int64_t i = begin; i < end; ++i, at.next()) {
        for (size_t k = 0; k < n; ++k) values[k] = element(*op.operand(n + k).type, operands[n + k], 0);
        under.for_each(at, [&](int64_t offset) {
          for (size_t k = 0; k < n; ++k) {
            registers[k] = values[k];
            registers[n + k] = element(*op.operand(k).type, operands[k], offset);
          }
          body->run(registers);
          for (size_t k = 0; k < n; ++k) values[k] = body->result(registers, k);
        });
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
    UnderWindow under(window);
    int64_t i = 0;
    for (Index at(source.dims); at; at.next(), ++i) {
      int64_t chosen = -1;
      Number best;
      under.for_each(at, [&](int64_t offset) {
        const Number candidate = element(type, operands[0], offset);
        if (chosen >= 0) {
          choosing[0] = best;
          choosing[1] = candidate;
          select->run(choosing);
          if (select->result(choosing, 0).integer != 0) return;
        }
        chosen = offset;
        best = candidate;
      });
      if (chosen < 0) continue;
      adding[0] = element(type, results[0], chosen);
      adding[1] = element(source, operands[1], i);
      scatter->run(adding);
      set_element(type, results[0], chosen, scatter->result(adding, 0));
    }
  };
}

}  // namespace mydev::stablehlo
