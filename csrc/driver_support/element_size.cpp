#include "driver_support/element_size.h"

#include "driver_support/errors.h"

namespace mydev::driver_support {

int64_t element_size(int16_t dtype) {
  switch (dtype) {
    case MYDEV_PRED:
    case MYDEV_S8:
    case MYDEV_U8:
    case MYDEV_F8E5M2:
    case MYDEV_F8E4M3FN:
    case MYDEV_S4:
    case MYDEV_U4:
    case MYDEV_F8E4M3B11FNUZ:
    case MYDEV_F8E5M2FNUZ:
    case MYDEV_F8E4M3FNUZ:
    case MYDEV_S2:
    case MYDEV_U2:
    case MYDEV_F8E4M3:
    case MYDEV_F8E3M4:
    case MYDEV_F4E2M1FN:
    case MYDEV_F8E8M0FNU:
      return 1;
    case MYDEV_S16:
    case MYDEV_U16:
    case MYDEV_F16:
    case MYDEV_BF16:
      return 2;
    case MYDEV_S32:
    case MYDEV_U32:
    case MYDEV_F32:
      return 4;
    case MYDEV_S64:
    case MYDEV_U64:
    case MYDEV_F64:
    case MYDEV_C64:
      return 8;
    case MYDEV_C128:
      return 16;
    default:
      raise(MYDEV_INVALID_ARGUMENT, "a strided copy of dtype ", dtype, ", which has no elements of a known size");
  }
}

}  // namespace mydev::driver_support
