// Whether Python may still be called.
#pragma once

#include <Python.h>

namespace mydev {

inline bool interpreter_is_finalizing() noexcept {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

}  // namespace mydev
