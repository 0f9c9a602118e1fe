/* The kernels of the device. A record's limits and plan say which frames it takes; all others run as if it were not
 * there. `mydev kernels info mydev.add` prints a contract, `mydev conform kernels` compares the kernels with theirs.
 *
 * A real card has code of its own for these, and the record's driver_data is the handle of it. The simulated card runs
 * C functions: their frames are copies, whose pointers are the card's.
 */
#include <stddef.h>

#include "acme.h"

static int64_t count(const mydev_buffer* buffer) {
  int64_t product = 1;
  for (int32_t d = 0; d < buffer->rank; ++d) product *= buffer->sizes[d];
  return product;
}

static const mydev_limits dense_floats = {
    .struct_size = sizeof(mydev_limits),
    .dtypes = MYDEV_DTYPE_BIT(MYDEV_F32),
    .rank_max = -1,
    .flags = MYDEV_LIMIT_DENSE | MYDEV_LIMIT_NO_SCALARS,
};

static const mydev_limits floats = {
    .struct_size = sizeof(mydev_limits),
    .dtypes = MYDEV_DTYPE_BIT(MYDEV_F32),
    .rank_max = -1,
    .flags = MYDEV_LIMIT_NO_SCALARS,
};

// [docs: relu]
static mydev_code relu(const mydev_frame* frame) {
  const float* from = (const float*)frame->buffers[1].data;
  float* to = (float*)frame->buffers[0].data;
  for (int64_t i = 0; i < count(&frame->buffers[0]); ++i) to[i] = from[i] < 0 ? 0 : from[i];
  return MYDEV_OK;
}

static const mydev_kernel relu_record = {
    .struct_size = sizeof(mydev_kernel),
    .name = "mydev.relu",
    .entry = relu,
    .runs = MYDEV_RUNS_DRIVER,
    .limits = &dense_floats,
};
// [docs: end]

/* out = a + alpha * b. Attributes with a default may be left out: JAX gives no alpha. */
static mydev_code add(const mydev_frame* frame) {
  const float *a = (const float*)frame->buffers[1].data, *b = (const float*)frame->buffers[2].data;
  const float alpha = frame->num_attributes == 0 ? 1 : (float)frame->attributes[0].value.f;
  float* out = (float*)frame->buffers[0].data;
  for (int64_t i = 0; i < count(&frame->buffers[0]); ++i) out[i] = a[i] + alpha * b[i];
  return MYDEV_OK;
}

static const mydev_kernel add_record = {
    .struct_size = sizeof(mydev_kernel),
    .name = "mydev.add",
    .entry = add,
    .runs = MYDEV_RUNS_DRIVER,
    .limits = &dense_floats,
};

// [docs: matmul]
/* The plan says what limits cannot: no batches. */
static mydev_code plan_matmul(const mydev_frame* frame, mydev_plan* out) {
  if (frame->buffers[0].rank == 2) return MYDEV_OK;
  frame->host->set_error(frame, "multiplies two matrices");
  return MYDEV_UNIMPLEMENTED;
}

static float* element(const mydev_buffer* matrix, int64_t row, int64_t column) {
  return (float*)matrix->data + row * matrix->strides[0] + column * matrix->strides[1];
}

/* out = alpha * a @ b + beta * addend, of any strides. */
static mydev_code matmul(const mydev_frame* frame) {
  const mydev_buffer *out = &frame->buffers[0], *a = &frame->buffers[1], *b = &frame->buffers[2];
  const mydev_buffer* addend = frame->num_inputs == 3 ? &frame->buffers[3] : out;
  const float alpha = (float)frame->attributes[0].value.f, beta = (float)frame->attributes[1].value.f;
  for (int64_t i = 0; i < out->sizes[0]; ++i) {
    for (int64_t j = 0; j < out->sizes[1]; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < a->sizes[1]; ++k) sum += *element(a, i, k) * *element(b, k, j);
      *element(out, i, j) = alpha * sum + (beta == 0 ? 0 : beta * *element(addend, i, j));
    }
  }
  return MYDEV_OK;
}

static const mydev_kernel matmul_record = {
    .struct_size = sizeof(mydev_kernel),
    .name = "mydev.matmul",
    .entry = matmul,
    .runs = MYDEV_RUNS_DRIVER,
    .limits = &floats,
    .plan = plan_matmul,
};
// [docs: end]

const mydev_kernel* const* acme_kernels(void) {
  static const mydev_kernel* const all[] = {
      &acme_conformance_scale, &acme_conformance_fail, &relu_record, &add_record, &matmul_record, NULL,
  };
  return all;
}
