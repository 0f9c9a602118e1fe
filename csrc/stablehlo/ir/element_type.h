// The element types of StableHLO, as rows of one table: what they are called, how they are stored, their codes in
// bytecode.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mydev/custom_call.h"

namespace mydev::stablehlo {

enum class ElementType : uint8_t {
  kPred,
  kS2,
  kS4,
  kS8,
  kS16,
  kS32,
  kS64,
  kU2,
  kU4,
  kU8,
  kU16,
  kU32,
  kU64,
  kF4E2M1FN,
  kF6E2M3FN,
  kF6E3M2FN,
  kF8E3M4,
  kF8E4M3,
  kF8E4M3B11FNUZ,
  kF8E4M3FN,
  kF8E4M3FNUZ,
  kF8E5M2,
  kF8E5M2FNUZ,
  kF8E8M0FNU,
  kBF16,
  kF16,
  kTF32,
  kF32,
  kF64,
  kC64,
  kC128,
  kIndex,  // stored as s64
  kNone,   // of a type that is no tensor
};

enum class ElementKind : uint8_t { kBool, kSigned, kUnsigned, kFloat, kComplex, kOther };

inline constexpr uint8_t kNoCode = 0xFF;  // it is encoded as something else

struct ElementRow {
  ElementType type;
  std::string_view name;       // "f32"
  std::string_view mlir_name;  // what MLIR's text calls it
  uint8_t bits;                // of a value. Pass element_bytes() for what one takes in memory
  ElementKind kind;
  mydev_dtype dtype;  // MYDEV_DTYPE_INVALID: there are no kernels of this type
  // The codes of the type's encoding in VHLO and in MLIR's builtin dialect.
  uint8_t vhlo_code, builtin_code;
};

inline constexpr std::array kElementTypes = {
    ElementRow{ElementType::kPred, "pred", "i1", 1, ElementKind::kBool, MYDEV_PRED, 0, kNoCode},
    ElementRow{ElementType::kS2, "s2", "i2", 2, ElementKind::kSigned, MYDEV_DTYPE_INVALID, 31, kNoCode},
    ElementRow{ElementType::kS4, "s4", "i4", 4, ElementKind::kSigned, MYDEV_DTYPE_INVALID, 10, kNoCode},
    ElementRow{ElementType::kS8, "s8", "i8", 8, ElementKind::kSigned, MYDEV_S8, 11, kNoCode},
    ElementRow{ElementType::kS16, "s16", "i16", 16, ElementKind::kSigned, MYDEV_S16, 12, kNoCode},
    ElementRow{ElementType::kS32, "s32", "i32", 32, ElementKind::kSigned, MYDEV_S32, 13, kNoCode},
    ElementRow{ElementType::kS64, "s64", "i64", 64, ElementKind::kSigned, MYDEV_S64, 14, kNoCode},
    ElementRow{ElementType::kU2, "u2", "ui2", 2, ElementKind::kUnsigned, MYDEV_DTYPE_INVALID, 32, kNoCode},
    ElementRow{ElementType::kU4, "u4", "ui4", 4, ElementKind::kUnsigned, MYDEV_DTYPE_INVALID, 15, kNoCode},
    ElementRow{ElementType::kU8, "u8", "ui8", 8, ElementKind::kUnsigned, MYDEV_U8, 16, kNoCode},
    ElementRow{ElementType::kU16, "u16", "ui16", 16, ElementKind::kUnsigned, MYDEV_U16, 17, kNoCode},
    ElementRow{ElementType::kU32, "u32", "ui32", 32, ElementKind::kUnsigned, MYDEV_U32, 18, kNoCode},
    ElementRow{ElementType::kU64, "u64", "ui64", 64, ElementKind::kUnsigned, MYDEV_U64, 19, kNoCode},
    ElementRow{ElementType::kF4E2M1FN, "f4e2m1fn", "f4E2M1FN", 4, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 37, 29},
    ElementRow{ElementType::kF6E2M3FN, "f6e2m3fn", "f6E2M3FN", 6, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 38, 30},
    ElementRow{ElementType::kF6E3M2FN, "f6e3m2fn", "f6E3M2FN", 6, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 39, 31},
    ElementRow{ElementType::kF8E3M4, "f8e3m4", "f8E3M4", 8, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 36, 28},
    ElementRow{ElementType::kF8E4M3, "f8e4m3", "f8E4M3", 8, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 35, 23},
    ElementRow{ElementType::kF8E4M3B11FNUZ, "f8e4m3b11fnuz", "f8E4M3B11FNUZ", 8, ElementKind::kFloat,
               MYDEV_DTYPE_INVALID, 29, 27},
    ElementRow{ElementType::kF8E4M3FN, "f8e4m3fn", "f8E4M3FN", 8, ElementKind::kFloat, MYDEV_F8E4M3FN, 6, 24},
    ElementRow{ElementType::kF8E4M3FNUZ, "f8e4m3fnuz", "f8E4M3FNUZ", 8, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 27,
               26},
    ElementRow{ElementType::kF8E5M2, "f8e5m2", "f8E5M2", 8, ElementKind::kFloat, MYDEV_F8E5M2, 7, 22},
    ElementRow{ElementType::kF8E5M2FNUZ, "f8e5m2fnuz", "f8E5M2FNUZ", 8, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 28,
               25},
    ElementRow{ElementType::kF8E8M0FNU, "f8e8m0fnu", "f8E8M0FNU", 8, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 40, 32},
    ElementRow{ElementType::kBF16, "bf16", "bf16", 16, ElementKind::kFloat, MYDEV_BF16, 2, 3},
    ElementRow{ElementType::kF16, "f16", "f16", 16, ElementKind::kFloat, MYDEV_F16, 3, 4},
    ElementRow{ElementType::kTF32, "tf32", "tf32", 19, ElementKind::kFloat, MYDEV_DTYPE_INVALID, 34, 21},
    ElementRow{ElementType::kF32, "f32", "f32", 32, ElementKind::kFloat, MYDEV_F32, 4, 5},
    ElementRow{ElementType::kF64, "f64", "f64", 64, ElementKind::kFloat, MYDEV_F64, 5, 6},
    ElementRow{ElementType::kC64, "c64", "complex<f32>", 64, ElementKind::kComplex, MYDEV_C64, kNoCode, kNoCode},
    ElementRow{ElementType::kC128, "c128", "complex<f64>", 128, ElementKind::kComplex, MYDEV_C128, kNoCode, kNoCode},
    ElementRow{ElementType::kIndex, "index", "index", 64, ElementKind::kSigned, MYDEV_S64, 9, 1},
    ElementRow{ElementType::kNone, "none", "none", 0, ElementKind::kOther, MYDEV_DTYPE_INVALID, kNoCode, kNoCode},
};

constexpr const ElementRow& element_row(ElementType type) noexcept {
  return kElementTypes[static_cast<size_t>(type)];
}

static_assert([] {
  for (size_t i = 0; i < kElementTypes.size(); ++i) {
    if (static_cast<size_t>(kElementTypes[i].type) != i) return false;
  }
  return kElementTypes.size() == static_cast<size_t>(ElementType::kNone) + 1;
}());

constexpr ElementKind kind_of(ElementType type) noexcept {
  return element_row(type).kind;
}
constexpr bool is_integer(ElementType type) noexcept {
  return kind_of(type) == ElementKind::kSigned || kind_of(type) == ElementKind::kUnsigned;
}
constexpr bool is_float(ElementType type) noexcept {
  return kind_of(type) == ElementKind::kFloat;
}
constexpr bool is_complex(ElementType type) noexcept {
  return kind_of(type) == ElementKind::kComplex;
}

// The bytes of an element in memory and in a literal: values of fewer than eight bits have a byte of their own.
constexpr int64_t element_bytes(ElementType type) noexcept {
  const int64_t bits = element_row(type).bits;
  return bits <= 8 ? (bits + 7) / 8 : bits <= 16 ? 2 : bits <= 32 ? 4 : bits <= 64 ? 8 : 16;
}

}  // namespace mydev::stablehlo
