// Complex numbers as frames hold them. (std::complex would leave shared inline functions: see isa.h.)
#pragma once

#include <cmath>

#include "host_kernels/isa/isa.h"

namespace mydev::kernels::MYDEV_ISA {

template <typename T>
struct Complex {
  using Real = T;
  T re, im;

  Complex() = default;
  constexpr Complex(T real, T imaginary = 0) : re(real), im(imaginary) {}

  friend Complex operator-(Complex a) { return {-a.re, -a.im}; }
  friend Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
  friend Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
  friend Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }
  // Scaled by the larger part of b (Smith's method): no needless overflow.
  friend Complex operator/(Complex a, Complex b) {
    if (std::fabs(b.re) >= std::fabs(b.im)) {
      if (b.re == 0 && b.im == 0) return {a.re / std::fabs(b.re), a.im / std::fabs(b.im)};
      const T ratio = b.im / b.re, scale = 1 / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const T ratio = b.re / b.im, scale = 1 / (b.re * ratio + b.im);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
  friend bool operator==(Complex a, Complex b) { return a.re == b.re && a.im == b.im; }
};

}  // namespace mydev::kernels::MYDEV_ISA
