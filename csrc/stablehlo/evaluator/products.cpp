// dot_general and convolution. Elements are widened to s64, f64 or c128, added there, and rounded once.
#include <algorithm>
#include <complex>
#include <type_traits>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

using Complex = std::complex<double>;

template <typename T>
T wide(const Type& type, const std::byte* data, int64_t index) {
  const Number number = element(type, data, index);
  if constexpr (std::is_same_v<T, Complex>) return {number.real, number.imaginary};
  if constexpr (std::is_same_v<T, double>) return converted(type.element, ElementType::kF64, number).real;
  if constexpr (std::is_same_v<T, uint64_t>) return static_cast<uint64_t>(number.integer);  // wraps round
}

Number narrow(double value) {
  return {.real = value};
}
Number narrow(uint64_t value) {
  return {.integer = static_cast<int64_t>(value)};
}
Number narrow(const Complex& value) {
  return {.real = value.real(), .imaginary = value.imag()};
}

template <typename T>
std::vector<T> widened(const Type& type, const std::byte* data, const Sizes& sizes, const Sizes& strides) {
  std::vector<T> values;
  values.reserve(static_cast<size_t>(count_of(sizes)));
  for (Index at(sizes); at; at.next()) values.push_back(wide<T>(type, data, at.offset(strides)));
  return values;
}

// The batch, free and contracted dimensions of one operand, in this order.
struct Side {
  Sizes sizes, strides;
  int64_t batch = 1, free = 1, contracted = 1;

  Side(const Type& type, const Sizes& batching, const Sizes& contracting) {
    const Sizes all = row_major_strides(type.dims);
    const auto add = [&](int64_t d, int64_t& count) {
      const auto at = static_cast<size_t>(d);
      sizes.push_back(type.dims.at(at));
      strides.push_back(all[at]);
      count *= type.dims[at];
    };
    for (const int64_t d : batching) add(d, batch);
    for (int64_t d = 0; d < type.rank(); ++d) {
      if (std::ranges::count(batching, d) + std::ranges::count(contracting, d) == 0) add(d, free);
    }
    for (const int64_t d : contracting) add(d, contracted);
  }
};

template <typename T>
void multiply(const Operation& op, const Side& a, const Side& b, std::span<const std::byte* const> operands,
              std::byte* result) {
  const std::vector<T> left = widened<T>(*op.operand(0).type, operands[0], a.sizes, a.strides);
  const std::vector<T> right = widened<T>(*op.operand(1).type, operands[1], b.sizes, b.strides);
  const int64_t k = a.contracted;
  const int64_t grain = std::max<int64_t>(kGrainHeavy / std::max<int64_t>(b.free * k, 1), 1);
  parallel_for(a.batch * a.free, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const T* x = left.data() + row * k;
      for (int64_t column = 0; column < b.free; ++column) {
        const T* y = right.data() + (row / a.free * b.free + column) * k;
        T sum{};
        for (int64_t i = 0; i < k; ++i) sum += x[i] * y[i];
        set_element(*op.result().type, result, row * b.free + column, narrow(sum));
      }
    }
  });
}

// Calls f(T{}) for the T to which elements of operands are widened for a result of the type.
template <typename F>
void for_wide_type(ElementType type, const F& f) {
  switch (kind_of(type)) {
    case ElementKind::kFloat:
      return f(double{});
    case ElementKind::kComplex:
      return f(Complex{});
    default:
      return f(uint64_t{});
  }
}

struct Convolution {
  struct Spatial {
    size_t input, kernel, output;  // dimensions
    int64_t stride, low, lhs_dilation, rhs_dilation;
    bool reversed;
  };
  size_t input_batch, input_feature, kernel_input, kernel_output, output_batch, output_feature;
  int64_t feature_groups, batch_groups;
  std::vector<Spatial> spatial;

  explicit Convolution(const Operation& op) {
    const auto dimension = [&op](const char* name) { return static_cast<size_t>(op.integer(name)); };
    input_batch = dimension("input_batch_dimension");
    input_feature = dimension("input_feature_dimension");
    kernel_input = dimension("kernel_input_feature_dimension");
    kernel_output = dimension("kernel_output_feature_dimension");
    output_batch = dimension("output_batch_dimension");
    output_feature = dimension("output_feature_dimension");
    feature_groups = op.integer("feature_group_count");
    batch_groups = op.integer("batch_group_count");
    const Sizes input = op.integers("input_spatial_dimensions"), kernel = op.integers("kernel_spatial_dimensions"),
                output = op.integers("output_spatial_dimensions"), strides = op.integers_or_none("window_strides"),
                padding = op.integers_or_none("padding"), lhs = op.integers_or_none("lhs_dilation"),
                rhs = op.integers_or_none("rhs_dilation"), reversal = op.integers_or_none("window_reversal");
    const auto at = [](const Sizes& list, size_t i, int64_t otherwise) { return list.empty() ? otherwise : list[i]; };
    for (size_t i = 0; i < input.size(); ++i) {
      spatial.push_back({static_cast<size_t>(input[i]), static_cast<size_t>(kernel[i]), static_cast<size_t>(output[i]),
                         at(strides, i, 1), at(padding, 2 * i, 0), at(lhs, i, 1), at(rhs, i, 1),
                         at(reversal, i, 0) != 0});
    }
  }
};

template <typename T>
class Convolver {
 public:
  Convolver(const Operation& op, const Convolution& shape, std::span<const std::byte* const> operands)
      : shape_(shape),
        input_(op.operand(0).type->dims),
        kernel_(op.operand(1).type->dims),
        input_strides_(row_major_strides(input_)),
        kernel_strides_(row_major_strides(kernel_)),
        x_(widened<T>(*op.operand(0).type, operands[0], input_, input_strides_)),
        w_(widened<T>(*op.operand(1).type, operands[1], kernel_, kernel_strides_)) {
    for (const Convolution::Spatial& s : shape.spatial) window_.push_back(kernel_[s.kernel]);
  }

  T at(const Index& out) const {
    const int64_t features = kernel_[shape_.kernel_input], outputs = kernel_[shape_.kernel_output];
    const int64_t output = out[shape_.output_feature];
    const int64_t group = output / (outputs / shape_.feature_groups);
    const int64_t batches = input_[shape_.input_batch] / shape_.batch_groups;
    const int64_t batch =
        output / (outputs / shape_.batch_groups) % shape_.batch_groups * batches + out[shape_.output_batch];
    T sum{};
    for (Index within(window_); within; within.next()) {
      int64_t from = batch * input_strides_[shape_.input_batch] +
                     group % shape_.feature_groups * features * input_strides_[shape_.input_feature];
      int64_t weight = output * kernel_strides_[shape_.kernel_output];
      if (!move(out, within, from, weight)) continue;
      for (int64_t f = 0; f < features; ++f) {
        sum += x_[static_cast<size_t>(from + f * input_strides_[shape_.input_feature])] *
               w_[static_cast<size_t>(weight + f * kernel_strides_[shape_.kernel_input])];
      }
    }
    return sum;
  }

 private:
  // Moves to the place under the window. False: it is padding.
  bool move(const Index& out, const Index& within, int64_t& from, int64_t& weight) const {
    for (size_t i = 0; i < shape_.spatial.size(); ++i) {
      const Convolution::Spatial& s = shape_.spatial[i];
      const int64_t position = out[s.output] * s.stride + within[i] * s.rhs_dilation - s.low;
      if (position < 0 || position % s.lhs_dilation != 0 || position / s.lhs_dilation >= input_[s.input]) return false;
      from += position / s.lhs_dilation * input_strides_[s.input];
      weight += (s.reversed ? window_[i] - 1 - within[i] : within[i]) * kernel_strides_[s.kernel];
    }
    return true;
  }

  const Convolution& shape_;
  const Sizes &input_, &kernel_;
  Sizes input_strides_, kernel_strides_, window_;
  std::vector<T> x_, w_;
};

}  // namespace

Evaluation evaluate_dot_general(const Operation& op) {
  const Side a(*op.operand(0).type, op.integers("lhs_batching_dimensions"), op.integers("lhs_contracting_dimensions"));
  const Side b(*op.operand(1).type, op.integers("rhs_batching_dimensions"), op.integers("rhs_contracting_dimensions"));
  return [&op, a, b](auto operands, auto results) {
    for_wide_type(op.result().type->element,
                  [&](auto zero) { multiply<decltype(zero)>(op, a, b, operands, results[0]); });
  };
}

namespace {

// The convolution with the padding that an operand gives. Raises INVALID_ARGUMENT if the result's sizes do not follow
// from it.
Convolution with_padding(const Operation& op, Convolution shape, const std::byte* data) {
  const Type& type = *op.operand(2).type;
  const Sizes padding = numbers_of(type, data);
  for (size_t i = 0; i < shape.spatial.size(); ++i) {
    Convolution::Spatial& s = shape.spatial[i];
    s.low = padding[2 * i];
    const int64_t size = op.operand(0).type->dims[s.input], window = op.operand(1).type->dims[s.kernel];
    const int64_t spread = size == 0 ? 0 : (size - 1) * s.lhs_dilation + 1,
                  reach = window == 0 ? 0 : (window - 1) * s.rhs_dilation + 1;
    int64_t whole = 0;
    const bool overflows = s.low < -kMostTensorBytes || s.low > kMostTensorBytes ||
                           __builtin_add_overflow(spread, s.low, &whole) ||
                           __builtin_add_overflow(whole, padding[2 * i + 1], &whole);
    const int64_t expected = overflows || whole < reach ? 0 : (whole - reach) / s.stride + 1;
    if (overflows || expected != op.result().type->dims[s.output]) {
      op.fail(MYDEV_INVALID_ARGUMENT, "dimension ", s.input, " of size ", size, " is padded by ", s.low, " and ",
              padding[2 * i + 1], ", and the result has ", op.result().type->dims[s.output]);
    }
  }
  return shape;
}

}  // namespace

Evaluation evaluate_convolution(const Operation& op) {
  return [&op, given = Convolution(op)](auto operands, auto results) {
    const Convolution shape = op.op == Operator::kDynamicConv ? with_padding(op, given, operands[2]) : given;
    for_wide_type(op.result().type->element, [&](auto zero) {
      const Convolver<decltype(zero)> convolver(op, shape, operands);
      const Type& type = *op.result().type;
      parallel_for(type.element_count(), 64, [&](int64_t begin, int64_t end) {
        Index at(type.dims);
        at.seek(begin);
        for (int64_t i = begin; i < end; ++i, at.next()) set_element(type, results[0], i, narrow(convolver.at(at)));
      });
    });
  };
}

}  // namespace mydev::stablehlo
