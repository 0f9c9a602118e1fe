#include "pjrt/python/dlpack.h"

#include <algorithm>
#include <array>

#include "runtime/base/status.h"

namespace mydev::pjrt {

namespace {

struct Row {
  PJRT_Buffer_Type type;
  DlType dl;
};

// Types smaller than a byte are left out: DLPack packs them, and buffers have a byte for each element.
constexpr uint8_t kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6;
constexpr std::array kRows = {
    Row{PJRT_Buffer_Type_PRED, {kBool, 8, 1}},      Row{PJRT_Buffer_Type_S8, {kInt, 8, 1}},
    Row{PJRT_Buffer_Type_S16, {kInt, 16, 1}},       Row{PJRT_Buffer_Type_S32, {kInt, 32, 1}},
    Row{PJRT_Buffer_Type_S64, {kInt, 64, 1}},       Row{PJRT_Buffer_Type_U8, {kUInt, 8, 1}},
    Row{PJRT_Buffer_Type_U16, {kUInt, 16, 1}},      Row{PJRT_Buffer_Type_U32, {kUInt, 32, 1}},
    Row{PJRT_Buffer_Type_U64, {kUInt, 64, 1}},      Row{PJRT_Buffer_Type_F16, {kFloat, 16, 1}},
    Row{PJRT_Buffer_Type_F32, {kFloat, 32, 1}},     Row{PJRT_Buffer_Type_F64, {kFloat, 64, 1}},
    Row{PJRT_Buffer_Type_BF16, {kBfloat, 16, 1}},   Row{PJRT_Buffer_Type_C64, {kComplex, 64, 1}},
    Row{PJRT_Buffer_Type_C128, {kComplex, 128, 1}}, Row{PJRT_Buffer_Type_F8E3M4, {7, 8, 1}},
    Row{PJRT_Buffer_Type_F8E4M3, {8, 8, 1}},        Row{PJRT_Buffer_Type_F8E4M3B11FNUZ, {9, 8, 1}},
    Row{PJRT_Buffer_Type_F8E4M3FN, {10, 8, 1}},     Row{PJRT_Buffer_Type_F8E4M3FNUZ, {11, 8, 1}},
    Row{PJRT_Buffer_Type_F8E5M2, {12, 8, 1}},       Row{PJRT_Buffer_Type_F8E5M2FNUZ, {13, 8, 1}},
    Row{PJRT_Buffer_Type_F8E8M0FNU, {14, 8, 1}},
};

}  // namespace

DlType dl_type(const ElementType& type) {
  const auto* const row = std::ranges::find(kRows, type.type, &Row::type);
  MYDEV_CHECK(row != kRows.end(), MYDEV_UNIMPLEMENTED, "arrays of ", type.name,
              " cannot be shared: DLPack has no number for it, or packs it");
  return row->dl;
}

}  // namespace mydev::pjrt
