/* A library of custom calls: kernels that are no part of PyTorch or JAX. Each is an operator of PyTorch
 * (torch.ops.mydev_cc.acme_softcap), with a gradient, and a name that jax.ffi.ffi_call knows.
 *
 * The record is for the platform "acme": its entry enqueues the work on the stream and returns.
 */
#include <math.h>

#include "acme.h"
#include "card.h"

// [docs: softcap]
static mydev_code softcap_on_card(const mydev_frame* frame) {
  const mydev_buffer* x = &frame->buffers[1];
  const float cap = (float)frame->attributes[0].value.f, *from = (const float*)x->data;
  float* to = (float*)frame->buffers[0].data;
  int64_t count = 1;
  for (int32_t d = 0; d < x->rank; ++d) count *= x->sizes[d];
  for (int64_t i = 0; i < count; ++i) to[i] = cap * tanhf(from[i] / cap);
  return MYDEV_OK;
}

static mydev_code softcap(const mydev_frame* frame) {
  const mydev_code code = card_launch((card_queue*)frame->stream, softcap_on_card, frame);
  if (code != MYDEV_OK) frame->host->set_error(frame, card_error());
  return code;
}

static const mydev_signature signature = {
    .struct_size = sizeof(mydev_signature),
    .contract = "dense (out T) <- (x T; cap: float = 30)",
    .types = "T: f32",
    .expression = "cap * tanh(x / cap)",
};

static const mydev_kernel softcap_record = {
    .struct_size = sizeof(mydev_kernel),
    .name = "acme.softcap",
    .entry = softcap,
    .doc = "cap * tanh(x / cap)",
    .platform = "acme",
    .signature = &signature,
};
// [docs: end]

static const mydev_kernel* const kernels[] = {&softcap_record};

static const mydev_library library = {
    .struct_size = sizeof(mydev_library),
    .version_major = MYDEV_CUSTOM_CALL_VERSION_MAJOR,
    .version_minor = MYDEV_CUSTOM_CALL_VERSION_MINOR,
    .name = "acme",
    .version = "1.0",
    .kernels = kernels,
    .num_kernels = sizeof(kernels) / sizeof(kernels[0]),
};

MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major, uint32_t version_minor) {
  return version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR ? &library : NULL;
}
