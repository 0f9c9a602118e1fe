// How a reduction of any dtype is made of the dtypes and operations that the engine has.
//
// The engine reduces bool, 8-, 32- and 64-bit integers and floating types by sum, product, minimum, maximum and, for
// integers, bitwise. Other dtypes are sent in a wider one, complex numbers as pairs; an average is a sum and a
// division, a sum with factors multiplies first. The meaning is NCCL's: a sum of bools is "any", an average of integers
// truncates.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <torch/csrc/distributed/c10d/Types.hpp>

namespace mydev {

class Reduction {
 public:
  // Raises if the operation has no meaning for the dtype: bitwise on floating types, order on complex ones, ...
  Reduction(c10::ScalarType type, const c10d::ReduceOp& op, int group_size);

  // The operation that the engine is asked for.
  c10d::ReduceOp::RedOpType engine_op() const noexcept { return engine_op_; }

  // This rank's contribution, in a dtype that the engine has; shares memory with `host` where it can.
  at::Tensor to_wire(const at::Tensor& host) const;
  // Whether from_wire has anything to do.
  bool needs_from_wire(const at::Tensor& wire, const at::Tensor& host) const;
  // Puts the engine's result of the contributions into `host`.
  void from_wire(at::Tensor wire, const at::Tensor& host) const;
  // Reduces the contributions of all ranks, one per row, on this rank.
  at::Tensor reduce_rows(const at::Tensor& rows) const;

 private:
  c10::ScalarType type_, wire_type_;
  c10d::ReduceOp::RedOpType op_, engine_op_;
  std::optional<double> factor_;  // of PREMUL_SUM
  bool ordered_unsigned_;         // 64-bit unsigned numbers compared as signed ones
  int group_size_;
};

// A dense tensor in a form that the engine can move: as bytes if it does not know the dtype. The first dimension stays
// as it is.
at::Tensor as_movable(const at::Tensor& host);

}  // namespace mydev
