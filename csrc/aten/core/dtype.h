// Element types of PyTorch and of frames, one to the other.
#pragma once

#include <ATen/core/Tensor.h>

#include "mydev/custom_call.h"

namespace mydev {

// MYDEV_DTYPE_INVALID for types that no frame can hold (quantized, sub-byte, ...).
constexpr mydev_dtype to_frame_dtype(c10::ScalarType type) noexcept {
  switch (type) {
    case c10::ScalarType::Bool:
      return MYDEV_PRED;
    case c10::ScalarType::Char:
      return MYDEV_S8;
    case c10::ScalarType::Short:
      return MYDEV_S16;
    case c10::ScalarType::Int:
      return MYDEV_S32;
    case c10::ScalarType::Long:
      return MYDEV_S64;
    case c10::ScalarType::Byte:
      return MYDEV_U8;
    case c10::ScalarType::UInt16:
      return MYDEV_U16;
    case c10::ScalarType::UInt32:
      return MYDEV_U32;
    case c10::ScalarType::UInt64:
      return MYDEV_U64;
    case c10::ScalarType::Half:
      return MYDEV_F16;
    case c10::ScalarType::Float:
      return MYDEV_F32;
    case c10::ScalarType::Double:
      return MYDEV_F64;
    case c10::ScalarType::ComplexFloat:
      return MYDEV_C64;
    case c10::ScalarType::ComplexDouble:
      return MYDEV_C128;
    case c10::ScalarType::BFloat16:
      return MYDEV_BF16;
    case c10::ScalarType::Float8_e5m2:
      return MYDEV_F8E5M2;
    case c10::ScalarType::Float8_e4m3fn:
      return MYDEV_F8E4M3FN;
    default:
      return MYDEV_DTYPE_INVALID;
  }
}

constexpr uint64_t dtype_bit(c10::ScalarType type) noexcept {
  return MYDEV_DTYPE_BIT(to_frame_dtype(type));
}

inline bool has_frame_type(const at::TensorBase& tensor) {
  return to_frame_dtype(tensor.scalar_type()) != MYDEV_DTYPE_INVALID;
}

// The type of elements of a dtype that a tensor of ours can have; Undefined for other dtypes.
constexpr c10::ScalarType to_scalar_type(int32_t dtype) noexcept {
  for (int8_t type = 0; type < static_cast<int8_t>(c10::ScalarType::NumOptions); ++type) {
    const auto candidate = static_cast<c10::ScalarType>(type);
    if (dtype != MYDEV_DTYPE_INVALID && to_frame_dtype(candidate) == dtype) return candidate;
  }
  return c10::ScalarType::Undefined;
}

}  // namespace mydev
