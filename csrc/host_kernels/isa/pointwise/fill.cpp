// Kernel group fill: one value for all elements, of any layout.
#include <cstring>

#include "host_kernels/isa/simd/element_conversion.h"
#include "host_kernels/isa/simd/strided_runs.h"
#include "host_kernels/strided_layout.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kBufferBytes = 4096;

mydev_code fail(const mydev_frame* frame, mydev_code code, const char* message) {
  frame->host->set_error(frame, message);
  return code;
}

// The attribute as an element of `dtype`; false if there is no conversion.
bool make_pattern(const mydev_attribute& value, mydev_dtype dtype, char* pattern) {
  mydev_dtype source = MYDEV_S64;
  double complex[2];
  const void* data = &value.value.i;
  if (value.kind == MYDEV_ATTRIBUTE_FLOAT) {
    source = MYDEV_F64;
    data = &value.value.f;
  } else if (value.kind == MYDEV_ATTRIBUTE_COMPLEX) {
    source = MYDEV_C128;
    std::memcpy(complex, value.value.c, sizeof(complex));
    data = complex;
  }
  const Conversion conversion = find_conversion(source, dtype);
  if (conversion.count < 0) return false;
  alignas(16) char steps[2][16];
  for (int step = 0; step < conversion.count; ++step) {
    conversion.steps[step](steps[step & 1], data, 1);
    data = steps[step & 1];
  }
  std::memcpy(pattern, data, static_cast<size_t>(dtype_row(dtype).size));
  return true;
}

mydev_code fill_entry(const mydev_frame* frame) {
  if (frame->num_outputs != 1 || frame->num_inputs != 0 || frame->num_attributes < 1) {
    return fail(frame, MYDEV_INVALID_ARGUMENT, "needs one output, no input, and the attribute value");
  }
  const mydev_buffer& out = frame->buffers[0];
  StridedLayout layout;
  if (!make_layout(&out, 1, layout)) return fail(frame, MYDEV_INVALID_ARGUMENT, "more than 64 dimensions");
  alignas(16) char pattern[16];
  if (!make_pattern(frame->attributes[0], static_cast<mydev_dtype>(out.dtype), pattern)) {
    return fail(frame, MYDEV_UNIMPLEMENTED, "no conversion to this dtype");
  }
  if (layout.count == 0) return MYDEV_OK;
  char* const base = static_cast<char*>(out.data);
  const int64_t bytes = dtype_row(out.dtype).size;
  if (layout.dense(0, bytes)) {
    parallel_for(layout.count, kGrainCheap,
                 [&](int64_t begin, int64_t end) { fill_dense(base + begin * bytes, pattern, end - begin, bytes); });
    return MYDEV_OK;
  }
  parallel_for(layout.count, kGrainCheap, [&](int64_t begin, int64_t end) {
    alignas(64) char values[kBufferBytes];
    const int64_t chunk = kBufferBytes / bytes;
    fill_dense(values, pattern, chunk, bytes);
    for (int64_t position = begin; position < end; position += chunk) {
      scatter(values, layout, 0, base, position, end - position < chunk ? end - position : chunk, bytes);
    }
  });
  return MYDEV_OK;
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.fill", fill_entry),
};

}  // namespace

std::span<const mydev_kernel> fill() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
