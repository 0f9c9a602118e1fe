// The kernels of Fourier transforms against the definition: all three, in both precisions and directions, of one to
// three dimensions, of sizes that are 1, odd, even, prime and large, batched, strided, and empty.
#include <cmath>
#include <complex>
#include <numbers>
#include <type_traits>

#include "kernel_fixture.h"

namespace mydev::kernels {
namespace {

template <typename T>
constexpr mydev_dtype dtype_of() {
  if constexpr (std::is_same_v<T, float>) return MYDEV_F32;
  if constexpr (std::is_same_v<T, double>) return MYDEV_F64;
  return std::is_same_v<T, std::complex<float>> ? MYDEV_C64 : MYDEV_C128;
}

std::vector<mydev_attribute> attributes(bool forward, double scale) {
  return {bool_attribute("forward", forward), float_attribute("scale", scale)};
}

using Wide = std::vector<std::complex<double>>;

// Transforms a dense array along dimension d, by the definition.
Wide transformed(const Wide& x, const std::vector<int64_t>& sizes, size_t d, bool forward) {
  int64_t inner = 1;
  for (size_t i = d + 1; i < sizes.size(); ++i) inner *= sizes[i];
  const int64_t n = sizes[d], total = static_cast<int64_t>(x.size());
  Wide result(x.size()), roots;
  for (int64_t i = 0; i < n; ++i) {
    roots.push_back(
        std::polar(1.0, (forward ? -2 : 2) * std::numbers::pi * static_cast<double>(i) / static_cast<double>(n)));
  }
  for (int64_t at = 0; at < total; ++at) {
    const int64_t k = at / inner % n, base = at - k * inner;
    for (int64_t i = 0; i < n; ++i) {
      result[static_cast<size_t>(at)] +=
          x[static_cast<size_t>(base + i * inner)] * roots[static_cast<size_t>(i * k % n)];
    }
  }
  return result;
}
Wide spectrum(Wide x, const std::vector<int64_t>& sizes, bool forward, double scale) {
  for (size_t d = 1; d < sizes.size(); ++d) x = transformed(x, sizes, d, forward);
  for (auto& value : x) value *= scale;
  return x;
}

std::vector<int64_t> halved(std::vector<int64_t> sizes) {
  sizes.back() = sizes.back() / 2 + 1;
  return sizes;
}
// The elements of a dense array of which the last dimension has only the first `kept`.
Wide first_of_rows(const Wide& x, int64_t n, int64_t kept) {
  Wide result;
  for (size_t i = 0; i < x.size(); ++i) {
    if (static_cast<int64_t>(i) % n < kept) result.push_back(x[i]);
  }
  return result;
}

template <typename T>
void expect_near(const std::vector<T>& actual, const Wide& expected) {
  double largest = 1;
  for (const auto& value : expected) largest = std::max(largest, std::abs(value));
  const double tolerance = largest * (sizeof(T) / (std::is_arithmetic_v<T> ? 1 : 2) == 4 ? 1e-5 : 1e-13);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    ASSERT_LE(std::abs(std::complex<double>(actual[i]) - expected[i]), tolerance) << "element " << i;
  }
}

// The first size is the batch.
const std::vector<std::vector<int64_t>> kShapes = {{1, 1},       {3, 1},    {1, 2},       {2, 3},    {1, 8},
                                                   {3, 12},      {20, 13},  {1, 97},      {1, 1000}, {5, 127},
                                                   {1, 3, 5},    {2, 4, 6}, {17, 1, 9},   {2, 7, 1}, {1, 3, 4, 5},
                                                   {2, 1, 6, 3}, {1, 1021}, {40, 30, 31}, {1, 2048}};

class FftKernels : public KernelTest {
 protected:
  template <typename T, typename U>
  void expect_transform(const char* kernel, Operand<T>& in, const std::vector<int64_t>& out_sizes, bool forward,
                        const Wide& expected, double scale) {
    Operand<U> out(out_sizes, dtype_of<U>());
    ASSERT_EQ(run(kernel, {out.buffer(), in.buffer()}, 1, attributes(forward, scale)), MYDEV_OK);
    expect_near(out.values, expected);
  }

  template <typename Real>
  void expect_spectra(const std::vector<int64_t>& sizes, bool forward) {
    using Complex = std::complex<Real>;
    const double scale = forward ? 1 : 0.25;
    Operand<Complex> x(sizes, dtype_of<Complex>());
    Operand<Real> real(sizes, dtype_of<Real>()), other(sizes, dtype_of<Real>());
    real.fill(1);
    other.fill(2);
    for (size_t i = 0; i < x.values.size(); ++i) x.values[i] = {real.values[i], other.values[i]};
    const Wide wide(x.values.begin(), x.values.end()), reals(real.values.begin(), real.values.end());
    expect_transform<Complex, Complex>("mydev.fft_c2c", x, sizes, forward, spectrum(wide, sizes, forward, scale),
                                       scale);
    const Wide half = first_of_rows(spectrum(reals, sizes, forward, scale), sizes.back(), sizes.back() / 2 + 1);
    expect_transform<Real, Complex>("mydev.fft_r2c", real, halved(sizes), forward, half, scale);
    // The half of a real signal's spectrum, with imaginary parts that do not count where there is one dimension.
    Operand<Complex> given(halved(sizes), dtype_of<Complex>());
    const Wide exact = first_of_rows(spectrum(reals, sizes, !forward, 1), sizes.back(), sizes.back() / 2 + 1);
    const int64_t row = sizes.back() / 2 + 1;
    for (size_t i = 0; i < exact.size(); ++i) {
      const int64_t k = static_cast<int64_t>(i) % row;
      const bool is_real = sizes.size() == 2 && (k == 0 || 2 * k == sizes.back());
      given.values[i] = Complex(exact[i]) + Complex(0, is_real ? Real{7} : Real{0});
    }
    double count = 1;
    for (size_t d = 1; d < sizes.size(); ++d) count *= static_cast<double>(sizes[d]);
    expect_transform<Complex, Real>("mydev.fft_c2r", given, sizes, forward, reals, 1 / count);
  }
};

TEST_P(FftKernels, ComputeTheDefinition) {
  for (const auto& sizes : kShapes) {
    for (const bool forward : {true, false}) {
      SCOPED_TRACE(testing::PrintToString(sizes) + (forward ? " forward" : " backward"));
      expect_spectra<float>(sizes, forward);
      expect_spectra<double>(sizes, forward);
    }
  }
}

// Long lines and many lines are computed on several threads.
TEST_P(FftKernels, FindTheOneFrequencyOfLargeSignals) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{1, 1 << 18}, {64, 4096}, {1, 512, 512}}) {
    SCOPED_TRACE(testing::PrintToString(sizes));
    Operand<std::complex<float>> x(sizes, MYDEV_C64), out(sizes, MYDEV_C64);
    const int64_t n = sizes.back();
    for (size_t i = 0; i < x.values.size(); ++i) {
      const double angle =
          2 * std::numbers::pi * static_cast<double>(5 * static_cast<int64_t>(i) % n) / static_cast<double>(n);
      x.values[i] = std::complex<float>(std::polar(1.0, angle));
    }
    ASSERT_EQ(run("mydev.fft_c2c", {out.buffer(), x.buffer()}, 1, attributes(true, 1)), MYDEV_OK);
    const int64_t lines = static_cast<int64_t>(out.values.size()) / n;
    for (size_t i = 0; i < out.values.size(); ++i) {
      const bool is_first_line = sizes.size() == 2 || static_cast<int64_t>(i) / n == 0;
      const bool is_found = static_cast<int64_t>(i) % n == 5 && is_first_line;
      const float expected = is_found ? static_cast<float>(sizes.size() == 2 ? n : n * lines) : 0;
      ASSERT_NEAR(std::abs(out.values[i] - expected), 0, static_cast<float>(n * lines) * 2e-6F) << "element " << i;
    }
  }
}

TEST_P(FftKernels, ReadAndWriteAnyStrides) {
  const std::vector<int64_t> sizes = {3, 4, 5};
  Operand<std::complex<float>> dense(sizes, MYDEV_C64), out(sizes, MYDEV_C64);
  Operand<std::complex<float>> turned({5, 4, 3}, MYDEV_C64), turned_out({5, 4, 3}, MYDEV_C64);
  for (int64_t b = 0; b < 3; ++b) {
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 5; ++j) {
        const std::complex<float> value(static_cast<float>(b * 7 + i), static_cast<float>(j * j - i));
        dense.values[static_cast<size_t>(b * 20 + i * 5 + j)] = value;
        turned.values[static_cast<size_t>(b + i * 3 + j * 12)] = value;
      }
    }
  }
  const std::vector<int64_t> strides = {1, 3, 12};
  for (Operand<std::complex<float>>* operand : {&turned, &turned_out}) {
    operand->sizes = sizes;
    operand->strides = strides;
  }
  ASSERT_EQ(run("mydev.fft_c2c", {out.buffer(), dense.buffer()}, 1, attributes(true, 1)), MYDEV_OK);
  ASSERT_EQ(run("mydev.fft_c2c", {turned_out.buffer(), turned.buffer()}, 1, attributes(true, 1)), MYDEV_OK);
  for (int64_t i = 0; i < 60; ++i) {
    const std::complex<float> value = turned_out.values[static_cast<size_t>(i / 20 + i / 5 % 4 * 3 + i % 5 * 12)];
    ASSERT_LE(std::abs(value - out.values[static_cast<size_t>(i)]), 1e-4F) << "element " << i;
  }
  // One element, read for all: only the sum is not 0.
  turned.strides = {0, 0, 0};
  turned.values[0] = {2, 1};
  ASSERT_EQ(run("mydev.fft_c2c", {out.buffer(), turned.buffer()}, 1, attributes(true, 1)), MYDEV_OK);
  for (int64_t i = 0; i < 60; ++i) {
    const std::complex<float> expected = i % 20 == 0 ? std::complex<float>(40, 20) : 0;
    ASSERT_LE(std::abs(out.values[static_cast<size_t>(i)] - expected), 1e-4F) << "element " << i;
  }
}

TEST_P(FftKernels, KeepNaNWithinItsLine) {
  Operand<float> x({2, 6}, MYDEV_F32);
  x.fill(3);
  x.values[1] = NAN;
  Operand<std::complex<float>> out({2, 4}, MYDEV_C64);
  ASSERT_EQ(run("mydev.fft_r2c", {out.buffer(), x.buffer()}, 1, attributes(true, 1)), MYDEV_OK);
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(std::isnan(out.values[i].real()), i < 4) << i;
}

TEST_P(FftKernels, DoNothingWithoutElements) {
  Operand<std::complex<double>> none({0, 4}, MYDEV_C128), empty({3, 0}, MYDEV_C128);
  EXPECT_EQ(run("mydev.fft_c2c", {none.buffer(), none.buffer()}, 1, attributes(true, 1)), MYDEV_OK);
  EXPECT_EQ(run("mydev.fft_c2c", {empty.buffer(), empty.buffer()}, 1, attributes(false, 1)), MYDEV_OK);
}

TEST_P(FftKernels, RefuseOtherOperands) {
  Operand<float> x({2, 6}, MYDEV_F32);
  Operand<double> wide({2, 6}, MYDEV_F64);
  Operand<std::complex<float>> half({2, 4}, MYDEV_C64), whole({2, 6}, MYDEV_C64), line({6}, MYDEV_C64);
  const auto code = [&](const char* kernel, const mydev_buffer& out, const mydev_buffer& in) {
    return run(kernel, {out, in}, 1, attributes(true, 1));
  };
  EXPECT_EQ(code("mydev.fft_r2c", half.buffer(), wide.buffer()), MYDEV_UNIMPLEMENTED);
  EXPECT_EQ(code("mydev.fft_c2c", whole.buffer(), x.buffer()), MYDEV_UNIMPLEMENTED);
  EXPECT_EQ(code("mydev.fft_r2c", whole.buffer(), x.buffer()), MYDEV_INVALID_ARGUMENT);
  EXPECT_EQ(code("mydev.fft_c2r", x.buffer(), whole.buffer()), MYDEV_INVALID_ARGUMENT);
  EXPECT_EQ(code("mydev.fft_c2c", line.buffer(), line.buffer()), MYDEV_INVALID_ARGUMENT);
  Operand<float> nothing({2, 0}, MYDEV_F32);
  Operand<std::complex<float>> one({2, 1}, MYDEV_C64);
  EXPECT_EQ(code("mydev.fft_r2c", one.buffer(), nothing.buffer()), MYDEV_INVALID_ARGUMENT);
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(FftKernels);

}  // namespace
}  // namespace mydev::kernels
