// The interface of the library of Fourier transforms, libmydev_fft_<instruction set>. It is a library of its own
// because its code is ducc0's: templates of the standard library in it would be merged with ours, whatever instructions
// they use. Only the component for JAX has it (cmake/ducc.cmake).
#pragma once

#include <cstdint>

namespace mydev::kernels {

// Transforms along all dimensions but the first, which is the batch. Sizes are 1 or more, strides are in elements.
// The spectrum of real numbers has the half n / 2 + 1 of its last dimension of n.
struct FourierTransform {
  enum Kind : uint8_t { kComplex, kFromReal, kToReal };

  Kind kind;
  bool is_double;  // else of float
  bool forward;    // the exponent's sign is -1, else 1
  double scale;    // of the results
  uint32_t rank;
  const void* in;
  const int64_t *in_sizes, *in_strides;
  void* out;
  const int64_t *out_sizes, *out_strides;
};

// The library's one function. Thread-safe. Raises std::bad_alloc.
using TransformFn = void (*)(const FourierTransform& transform);
inline constexpr char kTransformSymbol[] = "mydev_fourier_transform";

}  // namespace mydev::kernels
