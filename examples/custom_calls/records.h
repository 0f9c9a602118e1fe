/* The records of this library, one per kernel; library.c makes a table of them. C11 and C++. */
#ifndef EXAMPLE_RECORDS_H_
#define EXAMPLE_RECORDS_H_

#include "mydev/custom_call.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const mydev_kernel softcap;
extern const mydev_kernel rms_norm_rope, rms_norm_rope_grad;
extern const mydev_kernel csr_matmul, csr_matmul_grad;
extern const mydev_kernel original_axpy, original_axpy_device;
extern const mydev_kernel status_sqrt, status_sqrt_device;
extern const mydev_kernel unified_polynomial, unified_polynomial_device;

#ifdef __cplusplus
}
#endif

#endif
