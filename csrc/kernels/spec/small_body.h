// The body of `mydev.small_steps`, read from the attributes that hold it (program/transform/small_steps.h).
//
// Whoever calls the kernel may have made them: each number is checked before anything is computed with it, and the
// operands of a step fit its kernel's contract.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev::kernels {

// Borrows from the frame that it is read from.
struct SmallBody {
  // Bytes of all temporaries of a body, at most.
  static constexpr int64_t kMostTemporary = 1 << 20;

  // Memory that operands lie in: first the frame's buffers, then the bindings of the form.
  struct Binding {
    enum Kind : uint8_t { kBuffer, kTemporary, kConstant, kMoving };
    Kind kind;
    int64_t begin = 0, end = 0;         // bytes that views may reach; not known of moving bindings
    std::span<const std::byte> data{};  // of a constant
    size_t base = 0;                    // of a moving binding: the binding that it moves along,
    int64_t offset = 0;                 // and where it is there in the first iteration
  };
  struct View {
    enum Kind : uint8_t { kMemory, kNumber, kAbsent } kind;
    size_t binding = 0;
    int64_t offset = 0;  // in bytes
    mydev_dtype dtype = MYDEV_DTYPE_INVALID;
    std::span<const int64_t> sizes, strides;
    mydev_scalar number{};
  };
  struct Step {
    enum Kind : uint8_t { kLaunch, kFill, kRepeat, kWhile, kIf };
    Kind kind;
    const char* name;
    // A launch and a fill have these.
    std::vector<View> views;  // results first
    uint32_t results = 0;
    std::span<const mydev_attribute> attributes;
    std::span<const std::byte> pattern;
    // A loop or a condition has these. Its steps stand behind it, up to `end`; from `otherwise` on, for a byte that is
    // 0.
    int64_t count = 0;
    std::vector<std::pair<size_t, int64_t>> moves;  // bindings, and the bytes that each moves by in an iteration
    size_t binding = 0;                             // of the byte
    int64_t offset = 0;
    size_t otherwise = 0, end = 0;
  };

  // Throws Error: INVALID_ARGUMENT, with the attribute or the step and its value, if the form makes no sense;
  // UNIMPLEMENTED for too many loops in each other.
  MYDEV_API static SmallBody read(const mydev_frame& frame);

  // The buffers of a step's views, whose data pointers tell bindings apart and are nothing else; those of numbers point
  // to them. Borrows from the step.
  MYDEV_API static std::vector<mydev_buffer> buffers_of(const Step& step);

  std::vector<Binding> bindings;
  std::vector<Step> steps;
};

// "step 3 of mydev.small_steps (mydev.add): "
MYDEV_API std::string name_of(const SmallBody& body, size_t step);

}  // namespace mydev::kernels
