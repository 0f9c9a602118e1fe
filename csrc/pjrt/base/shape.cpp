#include "pjrt/base/shape.h"

#include <algorithm>
#include <array>

#include "runtime/base/status.h"

namespace mydev::pjrt {

namespace {

constexpr std::array kTypes = {
    ElementType{PJRT_Buffer_Type_PRED, "pred", 1, MYDEV_PRED},
    ElementType{PJRT_Buffer_Type_S8, "s8", 1, MYDEV_S8},
    ElementType{PJRT_Buffer_Type_S16, "s16", 2, MYDEV_S16},
    ElementType{PJRT_Buffer_Type_S32, "s32", 4, MYDEV_S32},
    ElementType{PJRT_Buffer_Type_S64, "s64", 8, MYDEV_S64},
    ElementType{PJRT_Buffer_Type_U8, "u8", 1, MYDEV_U8},
    ElementType{PJRT_Buffer_Type_U16, "u16", 2, MYDEV_U16},
    ElementType{PJRT_Buffer_Type_U32, "u32", 4, MYDEV_U32},
    ElementType{PJRT_Buffer_Type_U64, "u64", 8, MYDEV_U64},
    ElementType{PJRT_Buffer_Type_F16, "f16", 2, MYDEV_F16},
    ElementType{PJRT_Buffer_Type_F32, "f32", 4, MYDEV_F32},
    ElementType{PJRT_Buffer_Type_F64, "f64", 8, MYDEV_F64},
    ElementType{PJRT_Buffer_Type_BF16, "bf16", 2, MYDEV_BF16},
    ElementType{PJRT_Buffer_Type_C64, "c64", 8, MYDEV_C64},
    ElementType{PJRT_Buffer_Type_C128, "c128", 16, MYDEV_C128},
    ElementType{PJRT_Buffer_Type_F8E5M2, "f8e5m2", 1, MYDEV_F8E5M2},
    ElementType{PJRT_Buffer_Type_F8E4M3FN, "f8e4m3fn", 1, MYDEV_F8E4M3FN},
    ElementType{PJRT_Buffer_Type_F8E4M3B11FNUZ, "f8e4m3b11fnuz", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_F8E5M2FNUZ, "f8e5m2fnuz", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_F8E4M3FNUZ, "f8e4m3fnuz", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_S4, "s4", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_U4, "u4", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_TOKEN, "token", 0, MYDEV_TOKEN},
    ElementType{PJRT_Buffer_Type_S2, "s2", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_U2, "u2", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_F8E4M3, "f8e4m3", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_F8E3M4, "f8e3m4", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_F8E8M0FNU, "f8e8m0fnu", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_F4E2M1FN, "f4e2m1fn", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_S1, "s1", 1, MYDEV_DTYPE_INVALID},
    ElementType{PJRT_Buffer_Type_U1, "u1", 1, MYDEV_DTYPE_INVALID},
};

constexpr bool in_order_of_the_enumeration() {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].type != static_cast<PJRT_Buffer_Type>(i + 1)) return false;
  }
  return true;
}
static_assert(in_order_of_the_enumeration());

}  // namespace

const ElementType& element_type(PJRT_Buffer_Type type) {
  const auto index = static_cast<size_t>(type) - 1;  // INVALID wraps
  MYDEV_CHECK(index < kTypes.size(), MYDEV_INVALID_ARGUMENT, "element type ", static_cast<int64_t>(type),
              " is not known; types are numbered from 1 (PRED) to ", kTypes.size());
  return kTypes[index];
}

const ElementType& element_type(std::string_view name) {
  const auto found = std::ranges::find(kTypes, name, &ElementType::name);
  MYDEV_CHECK(found != kTypes.end(), MYDEV_UNIMPLEMENTED, "element type ", name, " has no number in the C API");
  return *found;
}

const ElementType& element_type(mydev_dtype dtype) {
  for (const ElementType& row : kTypes) {
    if (row.dtype == dtype && dtype != MYDEV_DTYPE_INVALID) return row;
  }
  raise(MYDEV_INVALID_ARGUMENT, "dtype " + std::to_string(dtype) + " has no counterpart in the PJRT C API");
}

SharedShape make_shape(const ElementType& type, std::span<const int64_t> sizes) {
  auto shape = std::make_shared<Shape>();
  shape->type = &type;
  shape->sizes.assign(sizes.begin(), sizes.end());
  int64_t bytes = type.bytes;
  bool empty = false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    MYDEV_CHECK(sizes[i] >= 0, MYDEV_INVALID_ARGUMENT, "dimension ", i, " of ", describe(*shape), " is negative");
    empty = empty || sizes[i] == 0;
    MYDEV_CHECK(sizes[i] == 0 || !__builtin_mul_overflow(bytes, sizes[i], &bytes), MYDEV_INVALID_ARGUMENT,
                describe(*shape), " has more bytes than a machine can address");
    shape->minor_to_major.push_back(static_cast<int64_t>(sizes.size() - 1 - i));
  }
  shape->bytes = empty ? 0 : static_cast<uint64_t>(bytes);
  return shape;
}

std::string describe(const Shape& shape) {
  std::string text = std::string(shape.type->name) + "[";
  for (size_t i = 0; i < shape.sizes.size(); ++i) text += (i == 0 ? "" : ",") + std::to_string(shape.sizes[i]);
  return text + "]";
}

}  // namespace mydev::pjrt
