// Rules for every file in csrc/host_kernels/isa.
//
// These files are compiled once per instruction set into one library. Whatever they define must lie in namespace
// mydev::kernels::MYDEV_ISA or be local to the file; else the linker merges the variants of an inline function and may
// pick the one that this processor cannot run. So: no standard containers or algorithms beyond what inlines to nothing
// (std::min, std::bit_cast, the functions of <cmath>), and inline helpers in headers of csrc/host_kernels/isa only.
#pragma once

#ifndef MYDEV_ISA
#error "files of csrc/host_kernels/isa are compiled with -DMYDEV_ISA=<instruction set>; see CMakeLists.txt"
#endif

#include <cstddef>
#include <cstdint>
#include <span>

#include "mydev/custom_call.h"

namespace mydev::kernels::MYDEV_ISA {

// A row of a file's table of kernels. The contracts in csrc/kernels/spec say what kernels take.
constexpr mydev_kernel kernel_record(const char* name, mydev_kernel_fn entry,
                                     uint64_t (*scratch_bytes)(const mydev_frame*) = nullptr) {
  return {sizeof(mydev_kernel), name, entry, scratch_bytes, nullptr, nullptr};
}

// Whether the operands [first, last), as far as they are there, have the dtype.
inline bool have_dtype(const mydev_frame* frame, uint32_t first, uint32_t last, int32_t dtype) {
  for (uint32_t i = first; i < last; ++i) {
    if (frame->buffers[i].data != nullptr && frame->buffers[i].dtype != dtype) return false;
  }
  return true;
}
inline bool is_floating(int32_t dtype) {
  return dtype == MYDEV_F16 || dtype == MYDEV_BF16 || dtype == MYDEV_F32 || dtype == MYDEV_F64;
}
// Whether all operands have one floating dtype.
inline bool have_one_floating_dtype(const mydev_frame* frame) {
  const int32_t dtype = frame->buffers[0].dtype;
  return is_floating(dtype) && have_dtype(frame, 0, frame->num_outputs + frame->num_inputs, dtype);
}
// Whether each operand that is there has a floating dtype.
inline bool have_floating_dtypes(const mydev_frame* frame) {
  for (uint32_t i = 0; i < frame->num_outputs + frame->num_inputs; ++i) {
    if (frame->buffers[i].data != nullptr && !is_floating(frame->buffers[i].dtype)) return false;
  }
  return true;
}

// The entry of a kernel of any floating dtypes, which computes in f64 if buffer `kDecides`, which is never absent, is
// f64, and else in f32.
template <mydev_kernel_fn kFloat, mydev_kernel_fn kDouble, size_t kDecides>
mydev_code floating_entry(const mydev_frame* frame) {
  if (!have_floating_dtypes(frame)) return MYDEV_UNIMPLEMENTED;
  return frame->buffers[kDecides].dtype == MYDEV_F64 ? kDouble(frame) : kFloat(frame);
}

// The entry of a kernel all of whose operands are f32, or all f64.
template <mydev_code (*kFloat)(const mydev_frame&), mydev_code (*kDouble)(const mydev_frame&)>
mydev_code f32_or_f64_entry(const mydev_frame* frame) {
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  switch (frame->buffers[0].dtype) {
    case MYDEV_F32:
      return kFloat(*frame);
    case MYDEV_F64:
      return kDouble(*frame);
    default:
      return MYDEV_UNIMPLEMENTED;
  }
}

}  // namespace mydev::kernels::MYDEV_ISA
