// Reductions whose body is one operator that a kernel reduces by.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "lowering/frame.h"
#include "lowering/operators/reduction_kernels.h"
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
  const ElementRow& row = element_row(type);
  const bool adds = op == Operator::kAdd || op == Operator::kMultiply;
  switch (row.kind) {
    case ElementKind::kFloat:
      return row.bits >= 16 && has_kernels(type) ? find_in(kNumbers) : nullptr;
    case ElementKind::kSigned:
      return row.bits >= 8 ? find_in(kNumbers) : nullptr;
    case ElementKind::kUnsigned:
      // Sums and products have the bits of the signed ones.
      return type == ElementType::kU8 || (row.bits >= 16 && adds) ? find_in(kNumbers) : nullptr;
    default:
      return nullptr;
  }
}

bool is_neutral(Operator op, ElementType type, const mydev_scalar& value) noexcept {
  const bool is_float = element_row(type).kind == ElementKind::kFloat;
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
  program::Operand x = frame.view(op.operand(0));
  x.dtype = signed_dtype(x.dtype);
  Tensor initial{broadcast(frame.view(op.operand(1)), op.result().type->dims, {}), frame[op.operand(1)].splat};
  initial.view.dtype = x.dtype;
  Tensor result{frame.result_of(op.result()), std::nullopt};
  result.view.dtype = x.dtype;
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
    if (!initial.splat || !is_neutral(body->op, type, *initial.splat)) {
      if (initial.splat && x.dtype != dtype_of(type)) initial.splat.reset();
      result = emit.pointwise(row->binary, x.dtype, {result, initial});
    }
  }
  result.view.dtype = dtype_of(type);
  frame.set(op.result(), result);
  return true;
}

}  // namespace mydev::lowering
