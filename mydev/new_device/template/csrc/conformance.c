/* Two kernels that `mydev conform driver` launches. Keep them: they find mistakes in launches before your own kernels
 * hide them. */
#include "acme.h"

// [docs: scale]
/* out = factor * in, of one dimension, f32. */
static mydev_code scale(const mydev_frame* frame) {
  const mydev_buffer *out = &frame->buffers[0], *in = &frame->buffers[1];
  const float factor = (float)frame->attributes[0].value.f, *from = (const float*)in->data;
  float* to = (float*)out->data;
  for (int64_t i = 0; i < out->sizes[0]; ++i) to[i * out->strides[0]] = factor * from[i * in->strides[0]];
  return MYDEV_OK;
}

static const mydev_limits floats = {
    .struct_size = sizeof(mydev_limits), .dtypes = MYDEV_DTYPE_BIT(MYDEV_F32), .rank_max = 1, .flags = 0};

const mydev_kernel acme_conformance_scale = {
    .struct_size = sizeof(mydev_kernel),
    .name = "conformance.scale",
    .entry = scale,
    .doc = "out f32[n], in f32[n]; factor: out = factor * in",
    .runs = MYDEV_RUNS_DRIVER,
    .limits = &floats,
};
// [docs: end]

static mydev_code fail(const mydev_frame* frame) {
  frame->host->set_error(frame, "conformance.fail does as it is told");
  return (mydev_code)frame->attributes[0].value.i;
}

const mydev_kernel acme_conformance_fail = {
    .struct_size = sizeof(mydev_kernel),
    .name = "conformance.fail",
    .entry = fail,
    .doc = "code: fails with it when the stream comes to it",
    .runs = MYDEV_RUNS_DRIVER,
};
