// Pooling: the largest element or the sum of windows over one or two dimensions. Also windows that all begin where the
// dimension begins, or all end where it ends: they give sums, largest elements and the like of the elements up to each.
#include <algorithm>
#include <array>
#include <cmath>

#include "lowering/frame.h"
#include "lowering/operators/reduction_kernels.h"
#include "runtime/frame/dtype.h"
#include "stablehlo/evaluator/scalar_program.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// How windows go over a tensor, as the kernels of pooling say it: planes of two dimensions.
struct Pooling {
  Sizes order;  // of dimensions: images, channels, rows, columns; -1: none, of size 1
  Sizes kernel, stride, padding, dilation;

  program::Operand planes(const program::Operand& view) const {
    program::Operand result = view;
    result.sizes.clear();
    result.strides.clear();
    for (const int64_t d : order) {
      result.sizes.push_back(d < 0 ? 1 : view.sizes[static_cast<size_t>(d)]);
      result.strides.push_back(d < 0 ? 0 : view.strides[static_cast<size_t>(d)]);
    }
    return result;
  }
};

// Whether each window has an element, which the kernels take for granted. False if the places in a window lie further
// apart than the tensor is long.
bool windows_have_elements(int64_t size, int64_t windows, int64_t kernel, int64_t stride, int64_t low,
                           int64_t dilation) {
  if (dilation > size) return false;
  const int64_t before_first = (low + dilation - 1) / dilation, last = (windows - 1) * stride - low;
  return before_first < kernel && last < size;
}

// The pooling of an operation with windows over `whole` that give `pooled`; none: the kernels cannot express it.
std::optional<Pooling> pooling_of(const Operation& op, const Type& whole, const Type& pooled) {
  const size_t rank = whole.dims.size();
  const Sizes sizes = listed_or(op.integers_or_none("window_dimensions"), rank, 1),
              strides = listed_or(op.integers_or_none("window_strides"), rank, 1),
              dilations = listed_or(op.integers_or_none("window_dilations"), rank, 1),
              spread = listed_or(op.integers_or_none("base_dilations"), rank, 1),
              edges = listed_or(op.integers_or_none("padding"), 2 * rank, 0);
  if (is_empty(whole.dims) || is_empty(pooled.dims) || std::ranges::count(spread, 1) != std::ssize(spread))
    return std::nullopt;
  Sizes planes, others;
  for (size_t d = 0; d < rank; ++d) {
    const bool still = sizes[d] == 1 && strides[d] == 1 && edges[2 * d] == 0 && edges[2 * d + 1] == 0;
    (still ? others : planes).push_back(static_cast<int64_t>(d));
    if (!still && (edges[2 * d] < 0 || !windows_have_elements(whole.dims[d], pooled.dims[d], sizes[d], strides[d],
                                                              edges[2 * d], dilations[d]))) {
      return std::nullopt;
    }
  }
  if (planes.size() > 2 || others.size() > 2) return std::nullopt;
  planes.insert(planes.begin(), 2 - planes.size(), -1);
  others.insert(others.begin(), 2 - others.size(), -1);
  Pooling pooling{others, {}, {}, {}, {}};
  for (const int64_t d : planes) {
    const auto at = static_cast<size_t>(d);
    pooling.order.push_back(d);
    pooling.kernel.push_back(d < 0 ? 1 : sizes[at]);
    pooling.stride.push_back(d < 0 ? 1 : strides[at]);
    pooling.padding.push_back(d < 0 ? 0 : edges[2 * at]);
    pooling.dilation.push_back(d < 0 ? 1 : dilations[at]);
  }
  return pooling;
}

// Describes windows that hold all elements along `dim` up to each element, or from each on.
struct Prefixes {
  int64_t dim;
  bool from_each_on;
};

std::optional<Prefixes> prefixes_of(const Operation& op, const Type& whole) {
  const size_t rank = whole.dims.size();
  const Sizes sizes = listed_or(op.integers_or_none("window_dimensions"), rank, 1),
              edges = listed_or(op.integers_or_none("padding"), 2 * rank, 0);
  for (const char* name : {"window_strides", "window_dilations", "base_dilations"}) {
    if (std::ranges::count(listed_or(op.integers_or_none(name), rank, 1), 1) != static_cast<int64_t>(rank)) return {};
  }
  std::optional<Prefixes> found;
  for (size_t d = 0; d < rank; ++d) {
    const int64_t low = edges[2 * d], high = edges[2 * d + 1], others = whole.dims[d] - 1;
    if (sizes[d] == 1 && low == 0 && high == 0) continue;
    if (found || sizes[d] != whole.dims[d] || std::min(low, high) != 0 || std::max(low, high) != others) return {};
    found = Prefixes{static_cast<int64_t>(d), high != 0};
  }
  return found;
}

// Whether a body is the logarithm of the sum of its arguments' exponentials, as JAX writes it: of two numbers a and b,
// max(a, b) + log1p(exp(-|a - b|)), and a + b if a - b is NaN.
bool is_log_add_exp(const Region& region) {
  const auto operation = [](const Value& value, Operator op) {
    return value.definition != nullptr && value.definition->op == op ? value.definition : nullptr;
  };
  const auto of_arguments = [&](const Value& value, Operator op) {
    const Operation* found = operation(value, op);
    return found != nullptr && found->operands[0] == region.arguments()[0] &&
           found->operands[1] == region.arguments()[1];
  };
  const Operation* chosen = operation(*region.results()[0], Operator::kSelect);
  if (region.arguments().size() != 2 || chosen == nullptr || !of_arguments(chosen->operand(1), Operator::kAdd))
    return false;
  const Operation* is_nan = operation(chosen->operand(0), Operator::kCompare);
  const Operation* sum = operation(chosen->operand(2), Operator::kAdd);
  if (is_nan == nullptr || sum == nullptr || is_nan->operands[0] != is_nan->operands[1] ||
      is_nan->get<ComparisonDirection>("comparison_direction") != ComparisonDirection::kNe) {
    return false;
  }
  const Value* value = &sum->operand(1);
  for (const Operator op : {Operator::kLogPlusOne, Operator::kExponential, Operator::kNegate, Operator::kAbs}) {
    const Operation* found = operation(*value, op);
    if (found == nullptr) return false;
    value = &found->operand(0);
  }
  return value == is_nan->operands[0] && of_arguments(*value, Operator::kSubtract) &&
         of_arguments(sum->operand(0), Operator::kMaximum);
}

bool is_wide_float(ElementType type) noexcept {
  return element_row(type).kind == ElementKind::kFloat && element_row(type).bits >= 16 && has_kernels(type);
}

bool lower_prefixes(Frame& frame, const Operation& op) {
  const ElementType type = op.result(0).type->element;
  if (op.results.size() != 1 || is_empty(op.result().type->dims)) return false;
  const std::optional<Prefixes> prefixes = prefixes_of(op, *op.operand(0).type);
  if (!prefixes) return false;
  const std::optional<mydev_scalar>& initial = frame[op.operand(1)].splat;
  const Operation* body = ScalarProgram(frame.context.module, op.region()).only_operation();
  const ReductionKernels* kernels = body != nullptr ? reduction_kernels(body->op, type) : nullptr;
  const char* kernel = kernels != nullptr ? kernels->cumulative : nullptr;
  const bool sums_exponentials =
      is_wide_float(type) && initial && is_neutral(Operator::kMaximum, type, *initial) && is_log_add_exp(op.region());
  if (sums_exponentials) kernel = "mydev.logcumsumexp";
  if (kernel == nullptr) return false;
  const Sizes turned = prefixes->from_each_on ? Sizes{prefixes->dim} : Sizes{};
  const std::array attributes = {int_attribute("dim", prefixes->dim)};
  // Sums of exponentials are sums of floats, which are as they are.
  const Operator by = sums_exponentials ? Operator::kAdd : body->op;
  const mydev_dtype dtype = dtype_of(type);
  Emitter& emit = frame.emit;
  const program::Operand x = as_reduced(emit, by, frame[op.operand(0)]).view;
  Tensor result{is_complex(dtype) ? both_parts(frame.result_of(op.result())) : emit.temporary(x.dtype, x.sizes)};
  emit.launch(kernel, {reversed(result.view, turned)}, {reversed(x, turned)}, attributes);
  if (!sums_exponentials && !(initial && is_neutral(by, type, *initial))) {
    const Tensor first = as_reduced(emit, by, {broadcast(frame.view(op.operand(1)), op.result().type->dims, {})});
    result = emit.pointwise(kernels->binary, x.dtype, {result, first});
  }
  frame.set(op.result(), from_reduced(emit, by, result, dtype));
  return true;
}

// The pooled tensor, and the place in its plane of each element.
program::Operand launch_max_pool(Frame& frame, const Pooling& pooling, const program::Operand& x,
                                 const program::Operand& pooled) {
  const program::Operand out = pooling.planes(pooled);
  const program::Operand indices = frame.emit.temporary(MYDEV_S64, out.sizes);
  const std::array attributes = {
      int_array_attribute("kernel", pooling.kernel), int_array_attribute("stride", pooling.stride),
      int_array_attribute("padding", pooling.padding), int_array_attribute("dilation", pooling.dilation)};
  frame.emit.launch("mydev.max_pool2d", {out, indices}, {pooling.planes(x)}, attributes);
  return indices;
}

bool lower_reduce_window(Frame& frame, const Operation& op) {
  if (op.results.size() != 1 || !is_wide_float(op.operand(0).type->element)) return false;
  const Operation* body = ScalarProgram(frame.context.module, op.region()).only_operation();
  const std::optional<mydev_scalar>& initial = frame[op.operand(1)].splat;
  if (body == nullptr || !initial) return false;
  const bool is_max = body->op == Operator::kMaximum && std::isinf(initial->f) && initial->f < 0;
  const bool is_sum = body->op == Operator::kAdd && initial->f == 0;
  const std::optional<Pooling> pooling = pooling_of(op, *op.operand(0).type, *op.result().type);
  if (!pooling || !(is_max || is_sum)) return false;
  if (is_sum && std::ranges::count(pooling->dilation, 1) != 2) return false;
  const program::Operand result = frame.result_of(op.result());
  const program::Operand& x = frame.view(op.operand(0));
  if (is_max) {
    launch_max_pool(frame, *pooling, x, result);
  } else {
    const std::array attributes = {int_array_attribute("kernel", pooling->kernel),
                                   int_array_attribute("stride", pooling->stride),
                                   int_array_attribute("padding", pooling->padding),
                                   bool_attribute("count_include_pad", true), int_attribute("divisor", 1)};
    frame.emit.launch("mydev.avg_pool2d", {pooling->planes(result)}, {pooling->planes(x)}, attributes);
  }
  frame.set(op.result(), {result, std::nullopt});
  return true;
}

// The gradient of the largest elements. The first of equal elements gets it, as in the kernel. NaN is the largest,
// which XLA's comparison leaves to the order of the elements.
bool lower_select_and_scatter(Frame& frame, const Operation& op) {
  const Type& type = *op.operand(0).type;
  const Operation* select = ScalarProgram(frame.context.module, op.region(0)).only_operation();
  const Operation* scatter = ScalarProgram(frame.context.module, op.region(1)).only_operation();
  const std::optional<mydev_scalar>& initial = frame[op.operand(2)].splat;
  if (!is_wide_float(type.element) || select == nullptr || scatter == nullptr || !initial || initial->f != 0 ||
      scatter->op != Operator::kAdd || select->op != Operator::kCompare ||
      select->get<ComparisonDirection>("comparison_direction") != ComparisonDirection::kGe ||
      select->operands[0] != op.region(0).arguments()[0]) {
    return false;
  }
  const std::optional<Pooling> pooling = pooling_of(op, type, *op.operand(1).type);
  if (!pooling) return false;
  const program::Operand pooled = frame.result_of(op.operand(1));
  const program::Operand indices = launch_max_pool(frame, *pooling, frame.view(op.operand(0)), pooled);
  const program::Operand result = frame.result_of(op.result());
  frame.emit.launch("mydev.max_pool2d_backward", {pooling->planes(result)},
                    {pooling->planes(frame.view(op.operand(1))), indices});
  frame.set(op.result(), {result, std::nullopt});
  return true;
}

}  // namespace

bool lower_window(Frame& frame, const Operation& op) {
  if (op.result().type->element != op.operand(0).type->element) return false;
  if (op.op == Operator::kReduceWindow) return lower_prefixes(frame, op) || lower_reduce_window(frame, op);
  return op.op == Operator::kSelectAndScatter && lower_select_and_scatter(frame, op);
}

}  // namespace mydev::lowering
