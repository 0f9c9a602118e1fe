#include "distributed/reduction.h"

#include <ATen/ATen.h>

#include <cmath>
#include <limits>

namespace mydev {
namespace {

using c10::ScalarType;
using Op = c10d::ReduceOp;

bool is_bitwise(Op::RedOpType op) {
  return op == Op::BAND || op == Op::BOR || op == Op::BXOR;
}

const char* name_of(Op::RedOpType op) {
  switch (op) {
    case Op::SUM:
      return "SUM";
    case Op::AVG:
      return "AVG";
    case Op::PRODUCT:
      return "PRODUCT";
    case Op::MIN:
      return "MIN";
    case Op::MAX:
      return "MAX";
    case Op::BAND:
      return "BAND";
    case Op::BOR:
      return "BOR";
    case Op::BXOR:
      return "BXOR";
    case Op::PREMUL_SUM:
      return "PREMUL_SUM";
    default:
      return "UNUSED";
  }
}

ScalarType wire_type_of(ScalarType type, Op::RedOpType op) {
  switch (type) {
    case ScalarType::Bool:
      return ScalarType::Byte;
    case ScalarType::Byte:
    case ScalarType::Char:
      return op == Op::AVG ? ScalarType::Int : type;  // the sum may not fit
    case ScalarType::Short:
    case ScalarType::UInt16:
      return ScalarType::Int;
    case ScalarType::UInt32:
    case ScalarType::UInt64:
      return ScalarType::Long;
    default:
      return c10::isFloat8Type(type) ? ScalarType::Float : c10::toRealValueType(type);
  }
}

double factor_of(const Op& op) {
  const auto* supplement = dynamic_cast<const c10d::PreMulSumSupplement*>(op.supplement_.get());
  TORCH_CHECK(supplement != nullptr, "ReduceOp.PREMUL_SUM has no factor");
  return supplement->tensor_factor.defined() ? supplement->tensor_factor.item().toDouble() : supplement->double_factor;
}

// Same bits, seen as the wire's dtype.
at::Tensor reinterpreted(const at::Tensor& host, ScalarType wire_type) {
  if (host.scalar_type() == wire_type) return host;
  return host.is_complex() ? at::view_as_real(host) : host.view(wire_type);
}

// Whether the engine can move the dtype; others are sent as bytes.
bool engine_moves(ScalarType type) noexcept {
  switch (type) {
    case ScalarType::Bool:
    case ScalarType::Byte:
    case ScalarType::Char:
    case ScalarType::Int:
    case ScalarType::Long:
    case ScalarType::Half:
    case ScalarType::BFloat16:
    case ScalarType::Float:
    case ScalarType::Double:
      return true;
    default:
      return false;
  }
}

// Each rank's contribution to a sum with factors. Products of integers with whole factors are exact.
at::Tensor multiplied(const at::Tensor& wire, double factor) {
  if (!c10::isIntegralType(wire.scalar_type(), /*includeBool=*/false)) return at::mul(wire, factor);
  constexpr double kExact = int64_t{1} << 53;
  if (factor == std::trunc(factor) && std::abs(factor) <= kExact) return at::mul(wire, static_cast<int64_t>(factor));
  return at::mul(wire.to(ScalarType::Double), factor);
}

// Divides 64-bit unsigned numbers, whose bits are in `wire`: it doubles the quotients of their halves, then corrects
// them.
void divide_unsigned_(at::Tensor& wire, int64_t divisor) {
  const at::Tensor halves = at::bitwise_and(at::bitwise_right_shift(wire, 1), std::numeric_limits<int64_t>::max());
  const at::Tensor quotients = at::div(halves, divisor, "trunc").mul_(2);
  const at::Tensor remainders = at::sub(wire, at::mul(quotients, divisor));
  wire.copy_(at::add(quotients, at::ge(remainders, divisor)));
}

}  // namespace

Reduction::Reduction(ScalarType type, const Op& op, int group_size)
    : type_(type),
      wire_type_(wire_type_of(type, op)),
      op_(op),
      engine_op_(op),
      ordered_unsigned_(type == ScalarType::UInt64 && (op_ == Op::MIN || op_ == Op::MAX)),
      group_size_(group_size) {
  const bool linear = op_ == Op::SUM || op_ == Op::AVG || op_ == Op::PREMUL_SUM;
  TORCH_CHECK(linear || !c10::isComplexType(type), "ReduceOp.", name_of(op_),
              " is not defined for complex tensors; reduce the real and imaginary parts, or use SUM or AVG");
  TORCH_CHECK(!is_bitwise(op_) || c10::isIntegralType(type, /*includeBool=*/true) || c10::isBarebonesUnsignedType(type),
              "ReduceOp.", name_of(op_), " is for integers and bool, not for ", type);
  TORCH_CHECK(type != ScalarType::Bool || (op_ != Op::AVG && op_ != Op::PREMUL_SUM), "ReduceOp.", name_of(op_),
              " is not defined for bool tensors; convert them first");
  TORCH_CHECK(op_ != Op::UNUSED, "ReduceOp.UNUSED is not an operation");
  if (op_ == Op::PREMUL_SUM) factor_ = factor_of(op);
  if (op_ == Op::AVG || op_ == Op::PREMUL_SUM) engine_op_ = Op::SUM;
  if (type == ScalarType::Bool && op_ == Op::SUM) engine_op_ = Op::MAX;
}

at::Tensor Reduction::to_wire(const at::Tensor& host) const {
  const bool same_bits =
      type_ == ScalarType::Bool || type_ == ScalarType::UInt64 || wire_type_ == c10::toRealValueType(type_);
  at::Tensor wire = same_bits ? reinterpreted(host, wire_type_) : host.to(wire_type_);
  if (ordered_unsigned_) wire = at::bitwise_xor(wire, std::numeric_limits<int64_t>::min());
  if (factor_) wire = multiplied(wire, *factor_).to(wire_type_);
  return wire;
}

bool Reduction::needs_from_wire(const at::Tensor& wire, const at::Tensor& host) const {
  return op_ == Op::AVG || wire.const_data_ptr() != host.const_data_ptr();
}

void Reduction::from_wire(at::Tensor wire, const at::Tensor& host) const {
  if (op_ == Op::AVG) {
    if (c10::isFloatingType(wire_type_)) {
      wire.div_(group_size_);
    } else if (type_ == ScalarType::UInt64) {
      divide_unsigned_(wire, group_size_);
    } else {
      wire.div_(group_size_, "trunc");
    }
  }
  if (ordered_unsigned_) wire = at::bitwise_xor(wire, std::numeric_limits<int64_t>::min());
  if (wire.const_data_ptr() == host.const_data_ptr()) return;
  if (host.is_complex() || type_ == ScalarType::UInt64 || type_ == ScalarType::Bool) {
    reinterpreted(host, wire_type_).copy_(wire);
  } else {
    host.copy_(wire);
  }
}

at::Tensor Reduction::reduce_rows(const at::Tensor& rows) const {
  switch (engine_op_) {
    case Op::SUM:
      return at::sum(rows, 0, /*keepdim=*/false, wire_type_);
    case Op::PRODUCT:
      return at::prod(rows, 0, /*keepdim=*/false, wire_type_);
    case Op::MIN:
      return at::amin(rows, 0);
    case Op::MAX:
      return at::amax(rows, 0);
    default:
      break;
  }
  at::Tensor result = rows[0].clone();
  for (int64_t row = 1; row < rows.size(0); ++row) {
    if (engine_op_ == Op::BAND) {
      result.bitwise_and_(rows[row]);
    } else if (engine_op_ == Op::BOR) {
      result.bitwise_or_(rows[row]);
    } else {
      result.bitwise_xor_(rows[row]);
    }
  }
  return result;
}

at::Tensor as_movable(const at::Tensor& host) {
  if (engine_moves(host.scalar_type())) return host;
  const at::Tensor with_rows = host.dim() < 2 ? host.view({host.numel(), 1}) : host;
  return with_rows.view(ScalarType::Byte);
}

}  // namespace mydev
