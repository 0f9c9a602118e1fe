// The oneDNN primitives of a convolution.
#pragma once

#include <memory>

#include "host_kernels/onednn/convolution_problem.h"

namespace mydev::kernels {

class PrimitivePlan;  // primitive_plan.h

// Activations that all lie channels-last are used so.
bool works_channels_last(const ConvolutionProblem& problem) noexcept;

// From the cache of plans. Operands of the plan are those of ConvolutionRole; the orders of the problem are decided.
std::shared_ptr<PrimitivePlan> find_convolution_primitives(const ConvolutionProblem& problem);

}  // namespace mydev::kernels
