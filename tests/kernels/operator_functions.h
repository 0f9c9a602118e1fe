// The functions of the kernels in operator_kernels.cpp.
#pragma once

#include "mydev/custom_call.h"

namespace operators {

mydev_code axpy(const mydev_frame* frame);
mydev_code square(const mydev_frame* frame);
mydev_code square_vjp(const mydev_frame* frame);
mydev_code square_vjp_vjp(const mydev_frame* frame);
mydev_code exponential(const mydev_frame* frame);
mydev_code scaled(const mydev_frame* frame);
mydev_code product(const mydev_frame* frame);
mydev_code matmul(const mydev_frame* frame);
mydev_code matmul_vjp(const mydev_frame* frame);
mydev_code increment(const mydev_frame* frame);
template <uint32_t kWritten>  // 0 and 1
mydev_code accumulate(const mydev_frame* frame);
mydev_code accumulate_vjp(const mydev_frame* frame);
mydev_code add_to(const mydev_frame* frame);
mydev_code swap(const mydev_frame* frame);
mydev_code weigh(const mydev_frame* frame);
mydev_code total(const mydev_frame* frame);
mydev_code weigh_squares(const mydev_frame* frame);
mydev_code weigh_squares_vjp(const mydev_frame* frame);
mydev_code double_each(const mydev_frame* frame);
mydev_code half_total(const mydev_frame* frame);
mydev_code minimum(const mydev_frame* frame);
mydev_code repeat(const mydev_frame* frame);
mydev_code infer_repeat(const mydev_frame* frame, mydev_shape* results);
mydev_code lie(const mydev_frame* frame);
mydev_code infer_lie(const mydev_frame* frame, mydev_shape* results);
mydev_code attributes_text(const mydev_frame* frame);
mydev_code fill(const mydev_frame* frame);
mydev_code reverse(const mydev_frame* frame);
uint64_t reverse_scratch(const mydev_frame* frame);
uint64_t greedy_scratch(const mydev_frame* frame);
uint64_t throwing_scratch(const mydev_frame* frame);
mydev_code fail(const mydev_frame* frame);
mydev_code crash_softly(const mydev_frame* frame);

}  // namespace operators
