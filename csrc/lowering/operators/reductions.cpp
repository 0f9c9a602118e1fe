// Reductions whose body is one operator that a kernel reduces by.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "kernels/spec/contract.h"
#include "lowering/frame.h"
#include "lowering/operators/order.h"
#include "lowering/operators/reduction_kernels.h"
#include "runtime/frame/dtype.h"
#include "stablehlo/evaluator/number.h"
#include "stablehlo/evaluator/scalar_program.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

using ReductionRow = ReductionKernels;
constexpr std::array kNumbers = {ReductionRow{Operator::kAdd, "mydev.sum", "mydev.cumsum", "mydev.add"},
                                 ReductionRow{Operator::kMultiply, "mydev.prod", "mydev.cumprod", "mydev.mul"},
                                 ReductionRow{Operator::kMaximum, "mydev.amax", "mydev.cummax", "mydev.maximum"},
                                 ReductionRow{Operator::kMinimum, "mydev.amin", "mydev.cummin", "mydev.minimum"}};
constexpr std::array kTruths = {ReductionRow{Operator::kOr, "mydev.any", nullptr, "mydev.bitwise_or"},
                                ReductionRow{Operator::kMaximum, "mydev.any", nullptr, "mydev.bitwise_or"},
                                ReductionRow{Operator::kAdd, "mydev.any", nullptr, "mydev.bitwise_or"},
                                ReductionRow{Operator::kAnd, "mydev.all", nullptr, "mydev.bitwise_and"},
                                ReductionRow{Operator::kMinimum, "mydev.all", nullptr, "mydev.bitwise_and"},
                                ReductionRow{Operator::kMultiply, "mydev.all", nullptr, "mydev.bitwise_and"}};

}  // namespace

const ReductionKernels* reduction_kernels(Operator op, ElementType type) noexcept {
  const auto find_in = [op](const auto& rows) -> const ReductionRow* {
    const auto found = std::ranges::find(rows, op, &ReductionRow::op);
    return found == rows.end() ? nullptr : &*found;
  };
  if (type == ElementType::kPred) return find_in(kTruths);
  const ReductionRow* row = find_in(kNumbers);
  if (row == nullptr || !has_kernels(type)) return nullptr;
  if (element_row(type).kind == ElementKind::kComplex) return op == Operator::kAdd ? row : nullptr;
  return (contract_dtypes(row->reduction, 'T') & MYDEV_DTYPE_BIT(signed_dtype(dtype_of(type)))) != 0 ? row : nullptr;
}

namespace {

bool compares(Operator op) noexcept {
  return op == Operator::kMaximum || op == Operator::kMinimum;
}

}  // namespace

Tensor as_reduced(Emitter& emit, Operator op, const Tensor& tensor) {
  if (is_complex(tensor.view.dtype)) return {both_parts(tensor.view)};
  if (compares(op)) return in_signed_order(emit, tensor);
  const mydev_dtype dtype = signed_dtype(tensor.view.dtype);
  return dtype == tensor.view.dtype ? tensor : Tensor{with_dtype(tensor.view, dtype)};
}

Tensor from_reduced(Emitter& emit, Operator op, const Tensor& tensor, mydev_dtype dtype) {
  if (is_complex(dtype)) return {of_both_parts(tensor.view)};
  return compares(op) ? from_signed_order(emit, tensor, dtype) : Tensor{with_dtype(tensor.view, dtype)};
}

bool is_neutral(Operator op, ElementType type, const mydev_scalar& value) noexcept {
  const bool is_float = element_row(type).kind == ElementKind::kFloat;
  if (element_row(type).kind == ElementKind::kComplex) {
    return op == Operator::kAdd && value.c[0] == 0 && value.c[1] == 0;
  }
  switch (op) {
    case Operator::kAdd:
    case Operator::kOr:
      return is_float ? value.f == 0 : value.i == 0;
    case Operator::kMultiply:
    case Operator::kAnd:
      return is_float ? value.f == 1 : value.i == 1;
    case Operator::kMaximum:
      return is_float && std::isinf(value.f) && value.f < 0;
    case Operator::kMinimum:
      return is_float && std::isinf(value.f) && value.f > 0;
    default:
      return false;
  }
}

bool lower_reduction(Frame& frame, const Operation& op) {
  if (op.op != Operator::kReduce || op.results.size() != 1) return false;
  const Operation* body = ScalarProgram(frame.context.module, op.region()).only_operation();
  const ElementType type = op.operand(0).type->element;
  const ReductionRow* row = body != nullptr ? reduction_kernels(body->op, type) : nullptr;
  if (row == nullptr || op.result().type->element != type) return false;
  Emitter& emit = frame.emit;
  const Sizes dimensions = op.integers("dimensions");
  const mydev_dtype dtype = dtype_of(type);
  const program::Operand x = as_reduced(emit, body->op, frame[op.operand(0)]).view;
  const Tensor& given = frame[op.operand(1)];
  const Tensor initial = as_reduced(emit, body->op, {broadcast(given.view, op.result().type->dims, {}), given.splat});
  Tensor result{is_complex(dtype) ? both_parts(frame.result_of(op.result()))
                                  : emit.temporary(x.dtype, op.result().type->dims)};
  if (is_empty(x.sizes)) {
    emit.copy(result.view, initial.view);
  } else {
    // The result has the operand's sizes, and one element along what is reduced.
    program::Operand reduced = result.view;
    reduced.sizes = x.sizes;
    reduced.strides.clear();
    size_t next = 0;
    for (size_t d = 0; d < x.sizes.size(); ++d) {
      const bool is_reduced = std::ranges::count(dimensions, static_cast<int64_t>(d)) != 0;
      reduced.strides.push_back(is_reduced ? 0 : result.view.strides[next++]);
    }
    emit.launch(row->reduction, {reduced}, {x});
    if (!given.splat || !is_neutral(body->op, type, *given.splat)) {
      result = emit.pointwise(row->binary, x.dtype, {result, initial});
    }
  }
  frame.set(op.result(), from_reduced(emit, body->op, result, dtype));
  return true;
}

}  // namespace mydev::lowering
