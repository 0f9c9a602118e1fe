// Declaring what csrc/host_kernels/isa defines, once per instruction set; isa_variant.h chooses among the variants.
#pragma once

// In namespace mydev::kernels.
#define MYDEV_DECLARE_VARIANTS(...) \
  namespace baseline {              \
  __VA_ARGS__                       \
  }                                 \
  namespace avx2 {                  \
  __VA_ARGS__                       \
  }                                 \
  namespace avx512 {                \
  __VA_ARGS__                       \
  }
