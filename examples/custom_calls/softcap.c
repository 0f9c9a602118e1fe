/* softcap(x; cap) = cap * tanh(x / cap), which keeps the scores of large models within +-cap. In C, with its gradient.
 */
#include <math.h>

#include "records.h"

// [docs: softcap-kernel]
typedef struct softcap_loop {
  const void *x, *grad; /* without `grad` x is the operand, with it the result */
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
 * the operands are dense, since none is declared STRIDED. */
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
static const mydev_operand operand_x = {
    .struct_size = sizeof(mydev_operand),
    .name = "x",
    .dtypes = MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64),
    .like = -1,
    .alias = -1,
    .rank_min = 0,
    .rank_max = -1,
};
/* A result without dtypes has that of the operand `like`, here the first. */
static const mydev_operand result_out = {
    .struct_size = sizeof(mydev_operand), .name = "out", .like = 0, .alias = -1, .rank_max = -1};

static const mydev_attribute_spec attribute_cap = {
    .struct_size = sizeof(mydev_attribute_spec),
    .value = {.name = "cap", .kind = MYDEV_ATTRIBUTE_FLOAT, .value = {.f = 30.0}},
    .doc = "largest magnitude of a result",
};

static const mydev_operand* const operands[] = {&operand_x};
static const mydev_operand* const results[] = {&result_out};
static const mydev_attribute_spec* const attributes[] = {&attribute_cap};

static const mydev_signature signature = {
    .struct_size = sizeof(mydev_signature),
    .operands = operands,
    .num_operands = 1,
    .num_results = 1,
    .results = results,
    .attributes = attributes,
    .num_attributes = 1,
    .shapes = "(...)->(...)",
};
// [docs: end]

// [docs: softcap-gradient]
/* The gradient is another kernel. It is given what is saved, here result 0 (-1 - 0), then the gradient of the result.
 */
static const int32_t saved[] = {-1};
static const int32_t with_respect_to[] = {0};
static const mydev_gradient gradient = {
    .struct_size = sizeof(mydev_gradient),
    .kernel = "example.softcap_grad",
    .saved = saved,
    .num_saved = 1,
    .num_wrt = 1,
    .wrt = with_respect_to,
};
// [docs: end]

// [docs: softcap-record]
const mydev_kernel softcap = {
    .struct_size = sizeof(mydev_kernel),
    .name = "example.softcap",
    .entry = softcap_entry,
    .doc = "cap * tanh(x / cap)",
    .signature = &signature,
    .gradient = &gradient,
    .batching = MYDEV_BATCHING_EXPAND_DIMS,
};
// [docs: end]

/* --- the gradient: grad * (1 - (out / cap)^2) ------------------------------------------------------------------------
 */

static void softcap_grad_f32(void* context, int64_t begin, int64_t end) {
  const softcap_loop* loop = context;
  const float *x = loop->x, *grad = loop->grad, scale = (float)(1 / loop->cap);
  float* out = loop->out;
  for (int64_t i = begin; i < end; ++i) out[i] = grad[i] * (1 - (x[i] * scale) * (x[i] * scale));
}

static void softcap_grad_f64(void* context, int64_t begin, int64_t end) {
  const softcap_loop* loop = context;
  const double *x = loop->x, *grad = loop->grad, scale = 1 / loop->cap;
  double* out = loop->out;
  for (int64_t i = begin; i < end; ++i) out[i] = grad[i] * (1 - (x[i] * scale) * (x[i] * scale));
}

static mydev_code softcap_grad_entry(const mydev_frame* frame) {
  const mydev_buffer *grad_x = &frame->buffers[0], *out = &frame->buffers[1], *grad = &frame->buffers[2];
  softcap_loop loop = {out->data, grad->data, grad_x->data, frame->attributes[0].value.f};
  frame->host->parallel_for(element_count(out), /*grain=*/16384,
                            out->dtype == MYDEV_F32 ? softcap_grad_f32 : softcap_grad_f64, &loop);
  return MYDEV_OK;
}

static const mydev_operand operand_out = {
    .struct_size = sizeof(mydev_operand),
    .name = "out",
    .dtypes = MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64),
    .like = -1,
    .alias = -1,
    .rank_max = -1,
};
static const mydev_operand operand_grad = {
    .struct_size = sizeof(mydev_operand),
    .name = "grad",
    .dtypes = MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64),
    .like = 0,
    .alias = -1,
    .rank_max = -1,
};
static const mydev_operand result_grad_x = {
    .struct_size = sizeof(mydev_operand), .name = "grad_x", .like = 0, .alias = -1, .rank_max = -1};

static const mydev_operand* const grad_operands[] = {&operand_out, &operand_grad};
static const mydev_operand* const grad_results[] = {&result_grad_x};
static const mydev_signature grad_signature = {
    .struct_size = sizeof(mydev_signature),
    .operands = grad_operands,
    .num_operands = 2,
    .num_results = 1,
    .results = grad_results,
    .attributes = attributes,
    .num_attributes = 1,
    .shapes = "(...),(...)->(...)",
};

const mydev_kernel softcap_grad = {
    .struct_size = sizeof(mydev_kernel),
    .name = "example.softcap_grad",
    .entry = softcap_grad_entry,
    .doc = "the gradient of example.softcap",
    .signature = &grad_signature,
    .batching = MYDEV_BATCHING_EXPAND_DIMS,
};
