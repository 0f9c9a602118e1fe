// What every file in csrc/host_kernels/isa must keep to.
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

// A row of a file's table of kernels.
constexpr mydev_kernel kernel_record(const char* name, mydev_kernel_fn entry, const char* doc,
                                     uint64_t (*scratch_bytes)(const mydev_frame*) = nullptr) {
  return {sizeof(mydev_kernel), name, entry, scratch_bytes, doc, nullptr};
}

}  // namespace mydev::kernels::MYDEV_ISA
