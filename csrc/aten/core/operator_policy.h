// The policy table: the operators that run best somewhere else than on a kernel of the device.
//
// An operator without a row here runs a kernel of the device, where there is one, and the counted fallback elsewhere.
// A row says that something else is better, and why. Files that carry a policy out take their rows from here: a new
// operator of one of these kinds is one row, and no other change.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

// --- PyTorch's CPU kernel --------------------------------------------------------------------------------------------
//
// One operator a row: through a typed wrapper (aten/host/host_op.h) instead of the boxed fallback. These are everyday
// operators without a kernel of ours, whose calls are short enough for the boxing to show. A row for an operator that
// has a kernel of ours, or none of the CPU's, would do nothing or harm; tests/device/test_fallback.py finds it.

// clang-format off
#define MYDEV_HOST_OPS(X)                                                                                              \
  X(copysign_Tensor) X(_logcumsumexp) X(sort_values_stable) X(topk_values) X(kthvalue_values) X(median)                \
  X(median_dim_values) X(gather_out) X(scatter_reduce_two) X(scatter_reduce__two) X(take) X(put_) X(nonzero_out)       \
  X(bincount) X(bucketize_Tensor) X(searchsorted_Tensor) X(unique_dim)                                                 \
  X(logspace_out) X(_cdist_forward) X(_pdist_forward) X(renorm) X(linalg_cross) X(vdot) X(im2col) X(col2im)            \
  X(grid_sampler_2d) X(grid_sampler_2d_backward) X(linalg_inv_ex)                                                      \
  X(_linalg_det) X(_linalg_svd) X(_linalg_eigh) X(linalg_qr) X(_linalg_solve_ex) X(linalg_lu_factor_ex) X(_fft_r2c)    \
  X(_fft_c2r) X(_fft_c2c) X(smooth_l1_loss) X(smooth_l1_loss_backward_grad_input) X(huber_loss) X(multi_margin_loss)   \
  X(_ctc_loss) X(_embedding_bag) X(channel_shuffle) X(mkldnn_rnn_layer) X(mkldnn_rnn_layer_backward)
// clang-format on

// An operator and its stub a row: the loop of a dispatch stub of the CPU, on the device's memory
// (aten/host/stubs.cpp). The operator is the functional overload's name. All have an out= overload `op##_out`, and the
// first ones an in-place overload `op##_`.
#define MYDEV_IN_PLACE_STUBS(X) \
  X(digamma, digamma_stub)      \
  X(lgamma, lgamma_stub)        \
  X(erfinv, erfinv_stub)        \
  X(sinc, sinc_stub)            \
  X(i0, i0_stub)                \
  X(igamma, igamma_stub)        \
  X(igammac, igammac_stub)      \
  X(hypot, hypot_stub)          \
  X(nextafter, nextafter_stub)
#define MYDEV_OTHER_STUBS(X)                                                   \
  X(special_i0e, special_i0e_stub)                                             \
  X(special_i1, special_i1_stub)                                               \
  X(special_i1e, special_i1e_stub)                                             \
  X(special_entr, special_entr_stub)                                           \
  X(special_erfcx, special_erfcx_stub)                                         \
  X(special_ndtri, special_ndtri_stub)                                         \
  X(special_log_ndtr, special_log_ndtr_stub)                                   \
  X(special_airy_ai, special_airy_ai_stub)                                     \
  X(special_bessel_j0, special_bessel_j0_stub)                                 \
  X(special_bessel_j1, special_bessel_j1_stub)                                 \
  X(special_bessel_y0, special_bessel_y0_stub)                                 \
  X(special_bessel_y1, special_bessel_y1_stub)                                 \
  X(special_modified_bessel_i0, special_modified_bessel_i0_stub)               \
  X(special_modified_bessel_i1, special_modified_bessel_i1_stub)               \
  X(special_modified_bessel_k0, special_modified_bessel_k0_stub)               \
  X(special_modified_bessel_k1, special_modified_bessel_k1_stub)               \
  X(special_scaled_modified_bessel_k0, special_scaled_modified_bessel_k0_stub) \
  X(special_scaled_modified_bessel_k1, special_scaled_modified_bessel_k1_stub) \
  X(special_spherical_bessel_j0, special_spherical_bessel_j0_stub)             \
  X(special_zeta, zeta_stub)                                                   \
  X(special_xlog1py, xlog1py_stub)

namespace mydev {

// --- the host's record of a kernel -----------------------------------------------------------------------------------

// The devices on which the host's own record of a kernel runs.
enum class BuiltinRuns : uint8_t {
  kAnywhere,
  // Devices whose memory the host does not reach. This is for kernels that are no faster than PyTorch's on the CPU:
  // elsewhere the operator takes its alias (aten/host/alias.h), as if there were no kernel. A driver's own record of
  // the name is launched on any device. So is the host's record while a graph is captured, since a capture takes no
  // alias.
  kWithoutHostAccess,
  // Anywhere, and on copies where the host does not reach the memory. This is for kernels that draw random numbers:
  // these are the same on every device, and the same whether a graph is captured or not.
  kOnCopies,
};

// Facts about a kernel of the device, for the compiler of the host's graphs.
struct GraphPolicy {
  bool faster = true;           // than the CPU's library and generated code (benchmarks/): graphs keep each call of it
  bool better_frozen = false;   // but not with a constant operand: Inductor's own kernels then pack that beforehand
  bool whole = false;           // Inductor must not decompose it
  bool trusts_layouts = false;  // and, since only the call above sees to its operands' layouts, only where it is kept
  int images = 0;               // this many first operands are images, which are faster channels-last
};

namespace policy {

// The rows: the kernels of an operator, or of one way to compute it.
inline constexpr BuiltinRuns kDraws = BuiltinRuns::kOnCopies;  // of random numbers, also in dropout and attention
// Another operator's kernel, or a line of several: no faster than the operator on the CPU.
inline constexpr BuiltinRuns kComposition = BuiltinRuns::kWithoutHostAccess;
inline constexpr BuiltinRuns kGroupNorm = BuiltinRuns::kWithoutHostAccess;
inline constexpr BuiltinRuns kRearrange = BuiltinRuns::kWithoutHostAccess;  // flip, roll, shuffles
inline constexpr BuiltinRuns kLinspace = BuiltinRuns::kWithoutHostAccess, kEye = BuiltinRuns::kWithoutHostAccess;
inline constexpr BuiltinRuns kTriangle = BuiltinRuns::kWithoutHostAccess;
inline constexpr BuiltinRuns kScatter = BuiltinRuns::kWithoutHostAccess;
inline constexpr BuiltinRuns kWriteRows = BuiltinRuns::kWithoutHostAccess;  // index_copy, index_add
inline constexpr BuiltinRuns kAdvancedIndex = BuiltinRuns::kWithoutHostAccess;
inline constexpr BuiltinRuns kCoalesce = BuiltinRuns::kWithoutHostAccess;
// The CPU's is faster over most images. Its gradients, which scatter, are up to four times as fast if images lie
// channels first.
inline constexpr BuiltinRuns kUpsampleLinear = BuiltinRuns::kWithoutHostAccess;
inline constexpr BuiltinRuns kUpsampleBackward = BuiltinRuns::kWithoutHostAccess;
// The CPU's counts indices where there are several dimensions; ours divides.
inline constexpr BuiltinRuns kNonzeroOfMatrix = BuiltinRuns::kWithoutHostAccess;
// The CPU's is faster for few elements, and for runs that are there already.
inline constexpr BuiltinRuns kUniqueOfFew = BuiltinRuns::kWithoutHostAccess;
inline constexpr BuiltinRuns kUniqueConsecutive = BuiltinRuns::kWithoutHostAccess;
// Our kernel sorts, though here nobody asked for it.
inline constexpr BuiltinRuns kUnsortedTopk = BuiltinRuns::kWithoutHostAccess;

// PyTorch's composition of views, copies, reductions and arithmetic (aten/host/composition.h), instead of copies to the
// host.
inline constexpr std::array<std::string_view, 2> kComposed = {"aten::linalg__powsum", "aten::narrow_copy"};

// --- compiled graphs -------------------------------------------------------------------------------------------------

inline constexpr GraphPolicy kProductInGraph{.better_frozen = true};
inline constexpr GraphPolicy kCloneInGraph{.faster = false};
inline constexpr GraphPolicy kConvolutionInGraph{.better_frozen = true, .images = 1};
inline constexpr GraphPolicy kConvolutionBackwardInGraph{.images = 2};
inline constexpr GraphPolicy kGroupNormInGraph{.whole = true, .trusts_layouts = true};
inline constexpr GraphPolicy kMaxPoolInGraph{.whole = true};

// Functions that no language of kernels has: compiled graphs call them.
inline constexpr std::array<const char*, 7> kNotInKernels = {"erfinv", "frexp",  "polygamma", "digamma",
                                                             "lgamma", "igamma", "igammac"};

}  // namespace policy
}  // namespace mydev
