/* A library of kernels in C11 that sees nothing but the public header: one of our own kind, and one of each legacy form
 * that reports errors. */
#include <string.h>

#include "mydev/custom_call.h"

struct XlaCustomCallStatus;
void XlaCustomCallStatusSetFailure(struct XlaCustomCallStatus* status, const char* message, size_t size);

static mydev_code twice(const mydev_frame* frame) {
  const float* in = (const float*)frame->buffers[1].data;
  float* out = (float*)frame->buffers[0].data;
  for (int64_t i = 0; i < frame->buffers[0].sizes[0]; ++i) out[i] = 2 * in[i * frame->buffers[1].strides[0]];
  return MYDEV_OK;
}

static void fail_with_opaque(void* out, const void** in, const char* opaque, size_t size,
                             struct XlaCustomCallStatus* status) {
  (void)out;
  (void)in;
  XlaCustomCallStatusSetFailure(status, opaque, size);
}

static const mydev_operand kX = {.struct_size = sizeof(mydev_operand),
                                 .name = "x",
                                 .dtypes = MYDEV_DTYPE_BIT(MYDEV_F32),
                                 .like = -1,
                                 .alias = -1,
                                 .rank_min = 1,
                                 .rank_max = 1,
                                 .flags = MYDEV_OPERAND_STRIDED};
static const mydev_operand kY = {.struct_size = sizeof(mydev_operand), .name = "y", .like = 0, .alias = -1};
static const mydev_operand* const kOperands[] = {&kX};
static const mydev_operand* const kResults[] = {&kY};
static const mydev_signature kSignature = {.struct_size = sizeof(mydev_signature),
                                           .operands = kOperands,
                                           .num_operands = 1,
                                           .num_results = 1,
                                           .results = kResults,
                                           .shapes = "(n)->(n)"};
static const mydev_kernel kTwice = {
    .struct_size = sizeof(mydev_kernel), .name = "c.twice", .entry = twice, .signature = &kSignature};
static const mydev_kernel kFail = {.struct_size = sizeof(mydev_kernel),
                                   .name = "c.fail",
                                   .kind = MYDEV_KIND_UNIFIED_HOST,
                                   .execute = (mydev_function)fail_with_opaque};
static const mydev_kernel* const kKernels[] = {&kTwice, &kFail};
static const mydev_library kLibrary = {.struct_size = sizeof(mydev_library),
                                       .version_major = MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                       .version_minor = MYDEV_CUSTOM_CALL_VERSION_MINOR,
                                       .name = "c library",
                                       .version = "1.2",
                                       .kernels = kKernels,
                                       .num_kernels = 2};

MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t major, uint32_t minor) {
  (void)minor;
  return major == MYDEV_CUSTOM_CALL_VERSION_MAJOR ? &kLibrary : NULL;
}
