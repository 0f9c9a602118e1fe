// dot_general and convolution of all numbers.
#include <algorithm>
#include <array>

#include "kernels/spec/contract.h"
#include "lowering/frame.h"
#include "runtime/base/status.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// An operand of a product as a matrix, or a batch of them: its batch, free and contracted dimensions, each merged.
struct Side {
  program::Operand view;  // in that order of dimensions
  std::array<size_t, 3> ranks;
  int64_t batch, free, contracted;

  Side(const program::Operand& operand, const Sizes& batching, const Sizes& contracting) {
    Sizes order = batching, left;
    for (int64_t d = 0; d < static_cast<int64_t>(operand.sizes.size()); ++d) {
      if (std::ranges::count(batching, d) + std::ranges::count(contracting, d) == 0) left.push_back(d);
    }
    order.insert(order.end(), left.begin(), left.end());
    order.insert(order.end(), contracting.begin(), contracting.end());
    view = transposed(operand, order);
    ranks = {batching.size(), left.size(), contracting.size()};
    size_t d = 0;
    const std::array<int64_t*, 3> counts = {&batch, &free, &contracted};
    for (size_t group = 0; group < counts.size(); ++group) {
      *counts[group] = 1;
      for (size_t i = 0; i < ranks[group]; ++i) *counts[group] *= view.sizes[d++];
    }
  }
};

// The memory of a product. If its only user transposes a matrix, it lies as the transposed matrix does.
program::Operand product_memory(Frame& frame, const Operation& op) {
  const Value& result = op.result();
  const Operation* user = frame.context.only_user(result);
  if (user == nullptr || user->op != Operator::kTranspose || result.type->rank() != 2) return frame.result_of(result);
  const Sizes& sizes = result.type->dims;
  const Sizes permutation = user->integers("permutation");
  const program::Operand memory =
      frame.emit.temporary(dtype_of(result.type->element),
                           {sizes[static_cast<size_t>(permutation[0])], sizes[static_cast<size_t>(permutation[1])]});
  return transposed(memory, permutation);
}

constexpr const char *kMatmul = "mydev.matmul", *kConvolution = "mydev.convolution";

bool is_unsigned_bits(mydev_dtype dtype) noexcept {
  return signed_dtype(dtype) != dtype;
}

// The factors of a product, of one dtype that the kernel multiplies into `result`; none if there is no such dtype.
// Floats that every record takes are converted first where the result is wider: neighbours are fused with that.
std::optional<std::pair<Tensor, Tensor>> factors_of(Frame& frame, const Operation& op, const char* kernel,
                                                    mydev_dtype result) {
  const KernelContract& contract = *builtin_contract(kernel);
  const ContractVariable& factors = contract.variables[0];
  const Tensor &a = frame[op.operand(0)], &b = frame[op.operand(1)];
  const bool are_alike = a.view.dtype == b.view.dtype;
  const auto with_signs = [](const Tensor& tensor) {
    return Tensor{with_dtype(tensor.view, signed_dtype(tensor.view.dtype))};
  };
  if (is_unsigned_bits(a.view.dtype) || is_unsigned_bits(b.view.dtype)) {
    if (!are_alike || a.view.dtype != result) return std::nullopt;
    return std::pair(with_signs(a), with_signs(b));
  }
  const auto may_be = [&](mydev_dtype dtype) { return (factors.dtypes & MYDEV_DTYPE_BIT(dtype)) != 0; };
  if (!may_be(a.view.dtype) || !may_be(b.view.dtype)) return std::nullopt;
  const mydev_dtype wanted = signed_dtype(result);
  const bool is_usual = (factors.dtypes & ~factors.on_request & MYDEV_DTYPE_BIT(a.view.dtype)) != 0;
  if (are_alike && !is_usual && contract.variables[1].takes(wanted, a.view.dtype)) {
    return std::pair(a, b);
  }
  const ElementKind kind = element_row(op.result().type->element).kind;
  const auto converts = [&](size_t operand) { return element_row(op.operand(operand).type->element).kind == kind; };
  if (!may_be(wanted) || !converts(0) || !converts(1)) return std::nullopt;
  return std::pair(frame.emit.converted(a, wanted), frame.emit.converted(b, wanted));
}

void multiply(Frame& frame, const Operation& op, const Tensor& a, const Tensor& b, const program::Operand& result) {
  Emitter& emit = frame.emit;
  const Side left(a.view, op.integers("lhs_batching_dimensions"), op.integers("lhs_contracting_dimensions"));
  const Side right(b.view, op.integers("rhs_batching_dimensions"), op.integers("rhs_contracting_dimensions"));
  if (is_empty(result.sizes)) return;
  if (left.contracted == 0) {
    emit.copy(result, emit.splat(result.dtype, result.sizes, 0.0).view);
    return;
  }
  program::Operand x = emit.merge(left.view, left.ranks);
  program::Operand y = transposed(emit.merge(right.view, right.ranks), {0, 2, 1});
  const std::optional<program::Operand> lies = reshaped(result, {left.batch, left.free, right.free});
  MYDEV_ASSERT(lies.has_value());  // it is dense, or a matrix
  program::Operand out = with_dtype(*lies, signed_dtype(result.dtype));
  if (out.strides[2] != 1 && out.strides[1] == 1) {  // it lies transposed: so does the product of the transposed
    std::swap(x, y);
    for (program::Operand* matrix : {&x, &y, &out}) *matrix = transposed(*matrix, {0, 2, 1});
  }
  if (left.batch == 1) {
    for (program::Operand* matrix : {&x, &y, &out}) {
      matrix->sizes.erase(matrix->sizes.begin());
      matrix->strides.erase(matrix->strides.begin());
    }
  }
  const std::array attributes = {float_attribute("alpha", 1), float_attribute("beta", 0)};
  emit.launch(kMatmul, {out}, {x, y}, attributes);
}

// The product of truths: whether a sum of products of 0 and 1 is not 0.
void multiply_truths(Frame& frame, const Operation& op) {
  Emitter& emit = frame.emit;
  const Tensor a = emit.converted(frame[op.operand(0)], MYDEV_F32), b = emit.converted(frame[op.operand(1)], MYDEV_F32);
  const program::Operand sums = emit.temporary(MYDEV_F32, op.result().type->dims);
  multiply(frame, op, a, b, sums);
  frame.set(op.result(), emit.converted({sums}, MYDEV_PRED));
}

// Whether the result and the operands are numbers of whole bytes.
bool has_numbers(const Operation& op) {
  return std::ranges::all_of(std::array{&op.result(), &op.operand(0), &op.operand(1)}, [](const Value* value) {
    return has_kernels(value->type->element) && element_row(value->type->element).bits >= 8;
  });
}

bool lower_dot_general(Frame& frame, const Operation& op) {
  const std::array values = {&op.result(), &op.operand(0), &op.operand(1)};
  if (std::ranges::all_of(values, [](const Value* value) { return value->type->element == ElementType::kPred; })) {
    multiply_truths(frame, op);
    return true;
  }
  if (!has_numbers(op)) return false;
  const auto factors = factors_of(frame, op, kMatmul, dtype_of(op.result().type->element));
  if (!factors) return false;
  const program::Operand result = product_memory(frame, op);
  frame.set(op.result(), {result});
  multiply(frame, op, factors->first, factors->second, result);
  return true;
}

// Whether a padded tensor is much larger than the result that is computed of it: then padding is skipped rather than
// written.
bool outgrows(const Sizes& sizes, const Sizes& low, const Sizes& high, const Sizes& interior, int64_t elements) {
  constexpr double kMuch = 16;
  double padded = 1;
  for (size_t d = 0; d < sizes.size(); ++d) {
    padded *= static_cast<double>(sizes[d]) * static_cast<double>(interior[d] + 1) +
              static_cast<double>(std::max<int64_t>(low[d], 0)) + static_cast<double>(std::max<int64_t>(high[d], 0));
  }
  return padded > kMuch * static_cast<double>(elements);
}

bool lower_convolution(Frame& frame, const Operation& op) {
  const Sizes input = op.integers("input_spatial_dimensions"), kernel = op.integers("kernel_spatial_dimensions"),
              output = op.integers("output_spatial_dimensions");
  const size_t n = input.size();
  if (!has_numbers(op) || n < 1 || n > 3 || op.integer("batch_group_count") != 1) return false;
  const program::Operand result = frame.result_of(op.result());
  if (is_empty(result.sizes) || is_empty(frame.view(op.operand(0)).sizes) ||
      is_empty(frame.view(op.operand(1)).sizes)) {
    return false;
  }
  const auto factors = factors_of(frame, op, kConvolution, result.dtype);
  if (!factors) return false;
  Emitter& emit = frame.emit;
  const auto arranged = [](const program::Operand& view, int64_t first, int64_t second, const Sizes& spatial) {
    Sizes order = {first, second};
    order.insert(order.end(), spatial.begin(), spatial.end());
    return transposed(view, order);
  };
  program::Operand image =
      arranged(factors->first.view, op.integer("input_batch_dimension"), op.integer("input_feature_dimension"), input);
  program::Operand weight = arranged(factors->second.view, op.integer("kernel_output_feature_dimension"),
                                     op.integer("kernel_input_feature_dimension"), kernel);
  const program::Operand out =
      arranged(with_dtype(result, signed_dtype(result.dtype)), op.integer("output_batch_dimension"),
               op.integer("output_feature_dimension"), output);

  const Sizes stride = listed_or(op.integers_or_none("window_strides"), n, 1),
              dilation = listed_or(op.integers_or_none("rhs_dilation"), n, 1),
              spread = listed_or(op.integers_or_none("lhs_dilation"), n, 1),
              edges = listed_or(op.integers_or_none("padding"), 2 * n, 0),
              reversal = listed_or(op.integers_or_none("window_reversal"), n, 0);
  Sizes low(n + 2, 0), high(n + 2, 0), interior(n + 2, 0), padding(n), turned;
  bool pads = false;
  for (size_t i = 0; i < n; ++i) {
    // The kernel pads both ends alike; the rest is padded before.
    padding[i] = spread[i] == 1 ? std::max<int64_t>(std::min(edges[2 * i], edges[2 * i + 1]), 0) : 0;
    low[i + 2] = edges[2 * i] - padding[i];
    high[i + 2] = edges[2 * i + 1] - padding[i];
    interior[i + 2] = spread[i] - 1;
    pads = pads || low[i + 2] != 0 || high[i + 2] != 0 || spread[i] != 1;
    if (reversal[i] != 0) turned.push_back(static_cast<int64_t>(i + 2));
  }
  if (pads && outgrows(image.sizes, low, high, interior, count_of(image.sizes) + count_of(result.sizes))) return false;
  if (pads) image = emit.pad({image, std::nullopt}, emit.splat(image.dtype, {}, 0.0), low, high, interior);
  if (is_empty(image.sizes)) return false;
  if (!turned.empty()) weight = emit.duplicate(reversed(weight, turned));
  const Sizes zeros(n, 0);
  const std::array attributes = {
      int_array_attribute("stride", stride),        int_array_attribute("padding", padding),
      int_array_attribute("dilation", dilation),    bool_attribute("transposed", false),
      int_array_attribute("output_padding", zeros), int_attribute("groups", op.integer("feature_group_count"))};
  emit.launch(kConvolution, {out}, {image, weight}, attributes);
  frame.set(op.result(), {result, std::nullopt});
  return true;
}

}  // namespace

bool lower_product(Frame& frame, const Operation& op) {
  if (op.op == Operator::kDotGeneral) return lower_dot_general(frame, op);
  return op.op == Operator::kConvolution && lower_convolution(frame, op);
}

}  // namespace mydev::lowering
