/* Declarations that the driver's files share. */
#ifndef ACME_H_
#define ACME_H_

#include "mydev/driver_extensions.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Returns the code, and keeps the message for last_error of this thread. */
mydev_code acme_fail(mydev_code code, const char* format, ...) __attribute__((format(printf, 2, 3)));

/* The functions that the libraries export. */
MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor);
MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major, uint32_t version_minor);

/* The kernels of the device, NULL-terminated: kernels.c. */
const mydev_kernel* const* acme_kernels(void);

/* With these `mydev conform driver` tries launches: conformance.c. */
extern const mydev_kernel acme_conformance_scale, acme_conformance_fail;
/* [with compiler] */

extern const mydev_compiler_extension acme_compiler; /* compiler.c */
/* [end] */

#ifdef __cplusplus
}
#endif

#endif /* ACME_H_ */
