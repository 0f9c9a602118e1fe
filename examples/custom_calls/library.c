/* What the library offers: the one symbol that it exports. */
#include "records.h"

// [docs: query]
static const mydev_kernel* const kernels[] = {
    &softcap,
    &rms_norm_rope,
    &rms_norm_rope_grad,
    &csr_matmul,
    &csr_matmul_grad,
    &original_axpy,
    &original_axpy_device,
    &status_sqrt,
    &status_sqrt_device,
    &unified_polynomial,
    &unified_polynomial_device,
};

static const mydev_library library = {
    .struct_size = sizeof(mydev_library),
    .version_major = MYDEV_CUSTOM_CALL_VERSION_MAJOR,
    .version_minor = MYDEV_CUSTOM_CALL_VERSION_MINOR,
    .name = "example kernels",
    .version = "1.0",
    .kernels = kernels,
    .num_kernels = sizeof(kernels) / sizeof(kernels[0]),
};

MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major, uint32_t version_minor) {
  (void)version_minor; /* a newer host reads what this library wrote */
  return version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR ? &library : NULL;
}
// [docs: end]
