// The body of `mydev.fused`, read from the attributes that hold it (program/transform/fused_form.h).
//
// Whoever calls the kernel may have made them: each number is checked before anything is computed with it, and the
// operands of a step fit its kernel's contract.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

struct FusedBody {
  struct Operand {
    enum Kind : uint8_t { kMemory, kTemporary, kNumber, kAbsent };
    Kind kind;
    size_t index;                  // of the frame's buffer, or of the temporary
    int64_t offset;                // bytes from the buffer's data
    std::vector<int64_t> strides;  // of all dimensions, 0 in the reduced ones if it has the outer ones alone
    mydev_dtype dtype;
    mydev_scalar number;
  };
  struct Step {
    std::string kernel;
    uint32_t num_outputs;
    bool is_outer;  // over the outer dimensions alone
    std::vector<Operand> operands;
    OwnedFrame attributes;  // without buffers
  };
  // A value of the body alone, with its live range: from the step that writes it first to the last that reads it.
  struct Temporary {
    int64_t binding;  // in the form
    int64_t bytes;    // of an element
    bool is_outer;
    size_t first, last;
  };

  // Throws Error: INVALID_ARGUMENT, with the attribute or the step and its value, if the form makes no sense. Keeps
  // nothing of the frame.
  MYDEV_API static FusedBody read(const mydev_frame& frame);

  // The frame of a step: its operands with the body's sizes, its attributes, and data pointers that say no more than
  // that an operand is there; those of numbers point to them. Borrows from the body, and from `buffers`, which it
  // fills.
  MYDEV_API mydev_frame frame_of(const Step& step, std::vector<mydev_buffer>& buffers) const;

  std::vector<int64_t> sizes;
  size_t outer_rank = 0;  // outer dimensions; the dimensions behind are reduced
  uint64_t iterations = 1;
  bool apart = true;              // the iterations
  std::vector<int64_t> advances;  // of the frame's buffers from iteration to iteration, in bytes; empty: none moves
  std::vector<Step> steps;
  std::vector<Temporary> temporaries;

 private:
  FusedBody() = default;
  void read_head(const mydev_frame& frame);
  void add_step(const mydev_attribute& form, const mydev_frame& frame);
  void read_operand(const mydev_attribute& form, size_t i, const mydev_frame& frame);
  void check_in_buffer(const Operand& operand, const mydev_buffer& buffer) const;
};

}  // namespace mydev::kernels
