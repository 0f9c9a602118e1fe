// Products of 8-bit integers into 32 bits by oneDNN's function dnnl_gemm_s8s8s32, where the processor has instructions
// made for that (VNNI). oneDNN's primitives would round their sums to f32. Other products of integers are those of
// wide_product.h.
#pragma once

#include "host_kernels/onednn/matmul_problem.h"

namespace mydev::kernels {

// Whether the product is one of dot products: of narrow integers, with fewer rows than would earn the packing of b
// back.
bool is_of_dots(const Problem& problem);

// Whether the function takes the product. It takes no dot products, which it does not compute as fast.
bool takes_integers(const Problem& problem);

// Throws RESOURCE_EXHAUSTED where oneDNN finds no memory.
void multiply_integers(const Problem& problem);

}  // namespace mydev::kernels
