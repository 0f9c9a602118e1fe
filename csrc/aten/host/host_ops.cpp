// Ops that run PyTorch's CPU kernel through a typed wrapper (host_op.h) instead of the boxed fallback: everyday ops
// without a kernel of ours, whose calls are short enough for the boxing to show. Adding one is one word. A row
// for an op that has a kernel of ours, or none of the CPU's, would do nothing or harm;
// tests/device/test_fallback.py finds it.
#include <ATen/Operators.h>
#include <torch/library.h>

#include "aten/host/fallback.h"
#include "aten/host/host_op.h"

// clang-format off
#define MYDEV_HOST_OPS(X)                                                                                              \
  X(copysign_Tensor) X(_logcumsumexp) X(sort_values_stable) X(topk_values) X(kthvalue_values) X(median)                \
  X(median_dim_values) X(gather_out) X(scatter_reduce_two) X(scatter_reduce__two) X(take) X(put_) X(nonzero_out)       \
  X(bincount) X(bucketize_Tensor) X(searchsorted_Tensor) X(unique_dim)                                                 \
  X(logspace_out) X(_cdist_forward) X(_pdist_forward) X(renorm) X(linalg_cross) X(vdot) X(im2col) X(col2im)            \
  X(grid_sampler_2d) X(grid_sampler_2d_backward) X(linalg_inv_ex)                                                       \
  X(_linalg_det) X(_linalg_svd) X(_linalg_eigh) X(linalg_qr) X(_linalg_solve_ex) X(linalg_lu_factor_ex) X(_fft_r2c)    \
  X(_fft_c2r) X(_fft_c2c) X(smooth_l1_loss) X(smooth_l1_loss_backward_grad_input) X(huber_loss) X(multi_margin_loss)   \
  X(_ctc_loss) X(_embedding_bag) X(channel_shuffle) X(mkldnn_rnn_layer) X(mkldnn_rnn_layer_backward)
// clang-format on

namespace mydev {

void register_host_ops(torch::Library& library) {
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const auto add = [&](const char* name, const char* overload, torch::CppFunction&& kernel) {
    const auto op = dispatcher.findOp({name, overload});
    TORCH_INTERNAL_ASSERT(op.has_value(), name, ".", overload, " is not an op of this torch version");
    if (op->hasKernelForDispatchKey(kDispatchKey)) return;  // that of an extension which was loaded before
    library.impl(c10::toString(op->operator_name()).c_str(), std::move(kernel));
  };
#define MYDEV_ADD(op) \
  add(at::_ops::op::name, at::_ops::op::overload_name, torch::CppFunction(&HostOp<at::_ops::op>::call));
  MYDEV_HOST_OPS(MYDEV_ADD)
#undef MYDEV_ADD
}

}  // namespace mydev
