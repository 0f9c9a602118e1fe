/* softcap(x; cap) = cap * tanh(x / cap), which keeps the scores of large models within +-cap. In C.
 */
#include <math.h>

#include "records.h"

// [docs: softcap-kernel]
typedef struct softcap_loop {
  const void* x;
  void* out;
  double cap;
} softcap_loop;

static void softcap_f32(void* context, int64_t begin, int64_t end) {
  const softcap_loop* loop = context;
  const float *x = loop->x, cap = (float)loop->cap;
  float* out = loop->out;
  for (int64_t i = begin; i < end; ++i) out[i] = cap * tanhf(x[i] / cap);
}
// [docs: end]

static void softcap_f64(void* context, int64_t begin, int64_t end) {
  const softcap_loop* loop = context;
  const double *x = loop->x, cap = loop->cap;
  double* out = loop->out;
  for (int64_t i = begin; i < end; ++i) out[i] = cap * tanh(x[i] / cap);
}

static int64_t element_count(const mydev_buffer* buffer) {
  int64_t count = 1;
  for (int32_t i = 0; i < buffer->rank; ++i) count *= buffer->sizes[i];
  return count;
}

// [docs: softcap-entry]
/* The buffers are the results, then the operands. Types, ranks and sizes have been checked against the signature, and
 * the operands are dense, since the signature says so. */
static mydev_code softcap_entry(const mydev_frame* frame) {
  const mydev_buffer *out = &frame->buffers[0], *x = &frame->buffers[1];
  const double cap = frame->attributes[0].value.f;
  if (!(cap > 0)) {
    frame->host->set_error(frame, "cap must be positive");
    return MYDEV_INVALID_ARGUMENT;
  }
  softcap_loop loop = {.x = x->data, .out = out->data, .cap = cap};
  frame->host->parallel_for(element_count(x), /*grain=*/4096, x->dtype == MYDEV_F32 ? softcap_f32 : softcap_f64, &loop);
  return MYDEV_OK;
}
// [docs: end]

// [docs: softcap-signature]
static const mydev_signature signature = {
    .struct_size = sizeof(mydev_signature),
    .contract = "dense (out T) <- (x T; cap: float = 30)",
    .types = "T: f32 f64",
    .expression = "cap * tanh(x / cap)",
};
// [docs: end]

// [docs: softcap-record]
const mydev_kernel softcap = {
    .struct_size = sizeof(mydev_kernel),
    .name = "example.softcap",
    .entry = softcap_entry,
    .doc = "cap * tanh(x / cap)",
    .signature = &signature,
};
// [docs: end]
