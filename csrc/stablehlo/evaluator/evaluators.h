// One function for each operator that is not computed element by element: see evaluation.h.
#pragma once

#include "stablehlo/evaluator/evaluation.h"

namespace mydev::stablehlo {

// windows.cpp, reductions.cpp
Evaluation evaluate_reduce(const Module& module, const Operation& op);
Evaluation evaluate_reduce_window(const Module& module, const Operation& op);
Evaluation evaluate_select_and_scatter(const Module& module, const Operation& op);
Evaluation evaluate_sort(const Module& module, const Operation& op);
// The first elements of each line in the order of the called computation: exactly, and as many as the results have.
Evaluation evaluate_approx_top_k(const Module& module, const Operation& op);
// indexing.cpp
Evaluation evaluate_gather(const Operation& op);
Evaluation evaluate_scatter(const Module& module, const Operation& op);
Evaluation evaluate_dynamic_slice(const Operation& op);
Evaluation evaluate_dynamic_update_slice(const Operation& op);
// bits.cpp
Evaluation evaluate_bitcast_convert(const Operation& op);
// dynamic_shapes.cpp
Evaluation evaluate_dynamic_pad(const Operation& op);
Evaluation evaluate_real_dynamic_slice(const Operation& op);
// products.cpp
Evaluation evaluate_dot_general(const Operation& op);
Evaluation evaluate_convolution(const Operation& op);  // and dynamic_conv
// random.cpp
Evaluation evaluate_rng_bit_generator(const Operation& op);
Evaluation evaluate_rng(const Operation& op);
// linear_algebra.cpp
Evaluation evaluate_fft(const Operation& op);
Evaluation evaluate_cholesky(const Operation& op);
Evaluation evaluate_triangular_solve(const Operation& op);

}  // namespace mydev::stablehlo
