// The struct of DLPack (version 0.x, which capsules named "dltensor" hold), in our words. Array libraries in one
// process pass it to each other. The standard fixes the layouts.
#pragma once

#include <cstdint>

#include "pjrt/base/shape.h"

namespace mydev::pjrt {

struct DlDevice {
  int32_t type;
  int32_t index;
};
inline constexpr int32_t kDlExtensionDevice = 12;  // what PyTorch takes for the one device that a package brings

struct DlType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct DlTensor {
  void* data;
  DlDevice device;
  int32_t rank;
  DlType type;
  const int64_t* sizes;
  const int64_t* strides;  // in elements; nullptr: dense and row-major
  uint64_t byte_offset;
};

struct DlManagedTensor {
  DlTensor tensor;
  void* owner;
  void (*deleter)(DlManagedTensor* self);  // called once, by any thread
};
static_assert(sizeof(DlManagedTensor) == 64);

// Raises UNIMPLEMENTED, naming it, for a type that DLPack has no number for.
DlType dl_type(const ElementType& type);

}  // namespace mydev::pjrt
