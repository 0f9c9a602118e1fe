// Contracts of Fourier transforms.
#include "kernels/spec/builtin_contracts.h"

namespace mydev {

namespace {

constexpr ContractRow kFftRows[] = {
    {"mydev.fft_c2c", "(out T[b,s...]) <- (in T[b,s...]; forward: bool, scale: float) where s: 1..3", "T: complex", "",
     "out[b,k...] is scale times the sum over all j of in[b,j...] * exp(-2 pi i * t), and without forward exp(2 pi i * "
     "t), where t is the sum of j * k / s over the dimensions of s"},
    {"mydev.fft_r2c",
     "(out C[b,s...,h]) <- (in T[b,s...,n]; forward: bool, scale: float) where s: 0..2, h = floor(n / 2) + 1",
     "C: complex; T: f32 f64", "",
     "the first h elements along the last dimension of what mydev.fft_c2c gives for real numbers; c64 of f32, c128 of "
     "f64"},
    {"mydev.fft_c2r",
     "(out T[b,s...,n]) <- (in C[b,s...,h]; forward: bool, scale: float) where s: 0..2, h = floor(n / 2) + 1",
     "T: f32 f64; C: complex", "",
     "mydev.fft_c2c of a spectrum of real numbers, of which in has the first h elements along the last dimension. The "
     "other dimensions come first. Along the last, the imaginary parts of element 0, and of element n / 2 of an even "
     "n, are taken for 0. f32 of c64, f64 of c128"},
};

constexpr ContractGroup kFftGroups[] = {{"fft", kFftRows}};

}  // namespace

std::span<const ContractGroup> fft_contracts() {
  return kFftGroups;
}

}  // namespace mydev
