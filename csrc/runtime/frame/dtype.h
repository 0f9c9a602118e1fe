// The table of element types: names, sizes and kinds of mydev_dtype.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "mydev/custom_call.h"

namespace mydev {

enum class DtypeKind : uint8_t { kBool, kSigned, kUnsigned, kFloat, kNarrowFloat, kComplex, kToken, kBits };

struct DtypeRow {
  mydev_dtype dtype;
  const char* name;         // in messages and descriptions, XLA's
  const char* python_name;  // that torch and numpy give it. nullptr: they have no such type
  int64_t size;             // bytes of an element
  DtypeKind kind;
};

// In the order of the enumeration, which has gaps.
inline constexpr std::array kDtypes = {
    DtypeRow{MYDEV_PRED, "pred", "bool", 1, DtypeKind::kBool},
    DtypeRow{MYDEV_S8, "s8", "int8", 1, DtypeKind::kSigned},
    DtypeRow{MYDEV_S16, "s16", "int16", 2, DtypeKind::kSigned},
    DtypeRow{MYDEV_S32, "s32", "int32", 4, DtypeKind::kSigned},
    DtypeRow{MYDEV_S64, "s64", "int64", 8, DtypeKind::kSigned},
    DtypeRow{MYDEV_U8, "u8", "uint8", 1, DtypeKind::kUnsigned},
    DtypeRow{MYDEV_U16, "u16", "uint16", 2, DtypeKind::kUnsigned},
    DtypeRow{MYDEV_U32, "u32", "uint32", 4, DtypeKind::kUnsigned},
    DtypeRow{MYDEV_U64, "u64", "uint64", 8, DtypeKind::kUnsigned},
    DtypeRow{MYDEV_F16, "f16", "float16", 2, DtypeKind::kFloat},
    DtypeRow{MYDEV_F32, "f32", "float32", 4, DtypeKind::kFloat},
    DtypeRow{MYDEV_F64, "f64", "float64", 8, DtypeKind::kFloat},
    DtypeRow{MYDEV_C64, "c64", "complex64", 8, DtypeKind::kComplex},
    DtypeRow{MYDEV_BF16, "bf16", "bfloat16", 2, DtypeKind::kFloat},
    DtypeRow{MYDEV_TOKEN, "token", nullptr, 0, DtypeKind::kToken},
    DtypeRow{MYDEV_C128, "c128", "complex128", 16, DtypeKind::kComplex},
    DtypeRow{MYDEV_F8E5M2, "f8e5m2", "float8_e5m2", 1, DtypeKind::kNarrowFloat},
    DtypeRow{MYDEV_F8E4M3FN, "f8e4m3fn", "float8_e4m3fn", 1, DtypeKind::kNarrowFloat},
    // Bytes to those who compute in none of them: no contract has them.
    DtypeRow{MYDEV_S4, "s4", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_U4, "u4", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_F8E4M3B11FNUZ, "f8e4m3b11fnuz", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_F8E5M2FNUZ, "f8e5m2fnuz", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_F8E4M3FNUZ, "f8e4m3fnuz", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_S2, "s2", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_U2, "u2", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_F8E4M3, "f8e4m3", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_F8E3M4, "f8e3m4", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_F4E2M1FN, "f4e2m1fn", nullptr, 1, DtypeKind::kBits},
    DtypeRow{MYDEV_F8E8M0FNU, "f8e8m0fnu", nullptr, 1, DtypeKind::kBits},
};

// The set of all element types of a kind, as operands declare it.
constexpr uint64_t dtypes_of(DtypeKind kind) noexcept {
  uint64_t bits = 0;
  for (const DtypeRow& row : kDtypes) {
    if (row.kind == kind) bits |= MYDEV_DTYPE_BIT(row.dtype);
  }
  return bits;
}

namespace detail {
// By value of the enumeration; gaps are invalid.
inline constexpr auto kDtypeByValue = [] {
  std::array<DtypeRow, MYDEV_F8E8M0FNU + 1> table{};
  table.fill({MYDEV_DTYPE_INVALID, "invalid", nullptr, 0, DtypeKind::kToken});
  for (const DtypeRow& row : kDtypes) table[row.dtype] = row;
  return table;
}();
}  // namespace detail

// The row of any number; "invalid" for one that is no element type.
constexpr const DtypeRow& dtype_row(int32_t dtype) noexcept {
  const auto value = static_cast<size_t>(dtype);
  return detail::kDtypeByValue[value < detail::kDtypeByValue.size() ? value : 0];
}

// Which member of mydev_scalar holds a number of this dtype.
enum class ScalarKind : uint8_t { kInteger, kFloat, kComplex };
constexpr ScalarKind scalar_kind(int32_t dtype) noexcept {
  switch (dtype_row(dtype).kind) {
    case DtypeKind::kFloat:
    case DtypeKind::kNarrowFloat:
      return ScalarKind::kFloat;
    case DtypeKind::kComplex:
      return ScalarKind::kComplex;
    default:
      return ScalarKind::kInteger;
  }
}

// Whether a boolean or an integer of this type can have the value; true for other types.
constexpr bool can_hold(int32_t dtype, int64_t value) noexcept {
  const DtypeRow& row = dtype_row(dtype);
  const int64_t bits = 8 * row.size;
  switch (row.kind) {
    case DtypeKind::kBool:
      return value == 0 || value == 1;
    case DtypeKind::kUnsigned:
      return value >= 0 && (bits == 64 || value >> bits == 0);
    case DtypeKind::kSigned:
      return bits == 64 || value >> (bits - 1) == 0 || value >> (bits - 1) == -1;
    default:
      return true;
  }
}

// MYDEV_DTYPE_INVALID for a name that is not in the table.
constexpr mydev_dtype dtype_of_python_name(std::string_view name) noexcept {
  for (const DtypeRow& row : kDtypes) {
    if (row.python_name != nullptr && name == row.python_name) return row.dtype;
  }
  return MYDEV_DTYPE_INVALID;
}

}  // namespace mydev
