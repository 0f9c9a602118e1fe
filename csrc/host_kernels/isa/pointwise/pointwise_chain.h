// Chains of pointwise kernels on f32 (pointwise_block.h): each value goes through all of them in a register.
#pragma once

#include "host_kernels/isa/isa.h"
#include "host_kernels/pointwise_block.h"

namespace mydev::kernels::MYDEV_ISA {

// Returns the operation that a chain computes for the kernel; 0: chains do not have it.
int32_t chain_operation(const char* kernel);

// The functions behind PointwiseBlock::joined and run_chain.
int32_t joined_operation(const ChainCall& call, int32_t operation);
void run_chain(const ChainLines& lines, std::span<const ChainCall> calls);

}  // namespace mydev::kernels::MYDEV_ISA
