// Making, copying and printing frames (mydev/custom_call.h).
//
// make_frame borrows buffers and attributes from the caller; clone_frame makes a self-contained copy in one heap block,
// for work that runs later.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

inline constexpr int kMaxRank = 16;  // of a frame built on the stack; higher ranks fall back

MYDEV_API int64_t dtype_size(mydev_dtype dtype) noexcept;      // bytes; 0 if not a fixed-size element type
MYDEV_API const char* dtype_name(mydev_dtype dtype) noexcept;  // "f32", ...; "invalid"

inline bool is_scalar(const mydev_buffer& buffer) noexcept {
  return (buffer.flags & MYDEV_BUFFER_SCALAR) != 0;
}

inline mydev_attribute int_attribute(const char* name, int64_t value) noexcept {
  mydev_attribute a{name, MYDEV_ATTRIBUTE_INT, 0, 0, {}};
  a.value.i = value;
  return a;
}
inline mydev_attribute bool_attribute(const char* name, bool value) noexcept {
  mydev_attribute a{name, MYDEV_ATTRIBUTE_BOOL, 0, 0, {}};
  a.value.i = value ? 1 : 0;
  return a;
}
inline mydev_attribute float_attribute(const char* name, double value) noexcept {
  mydev_attribute a{name, MYDEV_ATTRIBUTE_FLOAT, 0, 0, {}};
  a.value.f = value;
  return a;
}
inline mydev_attribute complex_attribute(const char* name, double real, double imaginary) noexcept {
  mydev_attribute a{name, MYDEV_ATTRIBUTE_COMPLEX, 0, 0, {}};
  a.value.c[0] = real;
  a.value.c[1] = imaginary;
  return a;
}
inline mydev_attribute int_array_attribute(const char* name, std::span<const int64_t> values) noexcept {
  mydev_attribute a{name, MYDEV_ATTRIBUTE_INT_ARRAY, 0, static_cast<uint32_t>(values.size()), {}};
  a.value.ints = values.data();
  return a;
}

// A frame over buffers and attributes that the caller owns. Outputs first.
inline mydev_frame make_frame(std::span<const mydev_buffer> buffers, uint32_t num_outputs,
                              std::span<const mydev_attribute> attributes = {}) noexcept {
  mydev_frame frame{};
  frame.struct_size = sizeof(mydev_frame);
  frame.buffers = buffers.data();
  frame.num_outputs = num_outputs;
  frame.num_inputs = static_cast<uint32_t>(buffers.size()) - num_outputs;
  frame.attributes = attributes.data();
  frame.num_attributes = static_cast<uint32_t>(attributes.size());
  return frame;
}

struct MYDEV_API FrameDeleter {
  void operator()(mydev_frame* frame) const noexcept;
};
using OwnedFrame = std::unique_ptr<mydev_frame, FrameDeleter>;
// Deep copy: buffers, sizes, strides, scalar operands, attributes with their names and arrays. Scratch, device memory
// and the plan's decision are shared.
MYDEV_API OwnedFrame clone_frame(const mydev_frame& frame);
// The same into memory of the caller, aligned to 8, of at least cloned_bytes(). The frame lies at its start.
size_t cloned_bytes(const mydev_frame& frame) noexcept;
mydev_frame* clone_frame_into(const mydev_frame& frame, void* memory) noexcept;

// "mydev.add(out f32[2,3], f32[2,3]{1,0}, f32[2,3] {strides}; alpha=1)": kernel, operands, attributes.
MYDEV_API std::string describe_frame(const mydev_kernel& kernel, const mydev_frame& frame);

}  // namespace mydev
