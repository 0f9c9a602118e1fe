// fft, cholesky, triangular_solve, in f64 and c128.
#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <numbers>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

using Complex = std::complex<double>;

Complex complex_element(const Type& type, const std::byte* data, int64_t index) {
  const Number number = element(type, data, index);
  return {number.real, number.imaginary};
}
void set_complex(const Type& type, std::byte* data, int64_t index, const Complex& value) {
  set_element(type, data, index, {.real = value.real(), .imaginary = value.imag()});
}

// Cooley and Tukey's algorithm, by the smallest factor of the length; if the length is prime, by the definition.
void transform(std::span<Complex> x, double sign) {
  const size_t n = x.size();
  if (n < 2) return;
  size_t factor = 2;
  while (factor * factor <= n && n % factor != 0) ++factor;
  if (n % factor != 0) factor = n;
  const size_t m = n / factor;
  std::vector<Complex> parts(n);
  for (size_t f = 0; f < factor; ++f) {
    for (size_t i = 0; i < m; ++i) parts[f * m + i] = x[i * factor + f];
    transform(std::span(parts).subspan(f * m, m), sign);
  }
  for (size_t k = 0; k < n; ++k) {
    Complex sum;
    for (size_t f = 0; f < factor; ++f) {
      const double angle = sign * 2 * std::numbers::pi * static_cast<double>(f * k % n) / static_cast<double>(n);
      sum += parts[f * m + k % m] * std::polar(1.0, angle);
    }
    x[k] = sum;
  }
}

// Transforms along the last dimensions of a dense array, one after the other.
void transform_all(std::vector<Complex>& x, const Sizes& sizes, size_t dimensions, double sign, bool scaled) {
  const Sizes strides = row_major_strides(sizes);
  for (size_t d = sizes.size() - dimensions; d < sizes.size(); ++d) {
    Sizes lines = sizes;
    lines[d] = sizes[d] == 0 ? 0 : 1;
    std::vector<Complex> line(static_cast<size_t>(sizes[d]));
    for (Index at(lines); at; at.next()) {
      const int64_t base = at.offset(strides);
      for (int64_t i = 0; i < sizes[d]; ++i)
        line[static_cast<size_t>(i)] = x[static_cast<size_t>(base + i * strides[d])];
      transform(line, sign);
      const double scale = scaled ? 1.0 / static_cast<double>(sizes[d]) : 1.0;
      for (int64_t i = 0; i < sizes[d]; ++i) {
        x[static_cast<size_t>(base + i * strides[d])] = line[static_cast<size_t>(i)] * scale;
      }
    }
  }
}

}  // namespace

Evaluation evaluate_fft(const Operation& op) {
  return [&op, type = op.get<FftType>("fft_type"), length = op.integers("fft_length")](auto operands, auto results) {
    const Type &from = *op.operand(0).type, &to = *op.result().type;
    const size_t rank = from.dims.size(), n = length.size();
    Sizes sizes = from.dims;
    for (size_t i = 0; i < n; ++i) sizes[rank - n + i] = length[i];
    const Sizes strides = row_major_strides(sizes);
    const bool inverse = type == FftType::kIfft || type == FftType::kIrfft;
    std::vector<Complex> x(static_cast<size_t>(count_of(sizes)));
    int64_t next = 0;
    for (Index at(from.dims); at; at.next(), ++next) {
      x[static_cast<size_t>(at.offset(strides))] = complex_element(from, operands[0], next);
    }
    if (type == FftType::kIrfft) {
      // The other half of the spectrum: the conjugate of the element opposite in all transformed dimensions.
      const int64_t half = from.dims.back();
      for (Index at(sizes); at; at.next()) {
        if (at[rank - 1] < half) continue;
        int64_t opposite = 0;
        for (size_t d = 0; d < rank; ++d) {
          const bool transformed = d + n >= rank;
          opposite += (transformed && at[d] != 0 ? sizes[d] - at[d] : at[d]) * strides[d];
        }
        x[static_cast<size_t>(at.offset(strides))] = std::conj(x[static_cast<size_t>(opposite)]);
      }
      // Imaginary parts that the spectrum of a real signal cannot have are dropped.
      for (Index at(sizes); n == 1 && at; at.next()) {
        if (at[rank - 1] == 0 || 2 * at[rank - 1] == sizes[rank - 1]) {
          Complex& value = x[static_cast<size_t>(at.offset(strides))];
          value = value.real();
        }
      }
    }
    transform_all(x, sizes, n, inverse ? 1 : -1, inverse);
    next = 0;
    for (Index at(to.dims); at; at.next(), ++next) {
      set_complex(to, results[0], next, x[static_cast<size_t>(at.offset(strides))]);
    }
  };
}

Evaluation evaluate_cholesky(const Operation& op) {
  return [&op, lower = op.boolean("lower", true)](auto operands, auto results) {
    const Type& type = *op.result().type;
    const int64_t n = type.dims.back();
    std::memset(results[0], 0, static_cast<size_t>(type.bytes()));
    for (int64_t base = 0; base < type.element_count(); base += n * n) {
      std::vector<Complex> l(static_cast<size_t>(n * n));
      const auto at = [n](int64_t i, int64_t j) { return static_cast<size_t>(i * n + j); };
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
          // Reads the triangle that counts; the other one is its adjoint.
          Complex sum = lower ? complex_element(type, operands[0], base + i * n + j)
                              : std::conj(complex_element(type, operands[0], base + j * n + i));
          for (int64_t k = 0; k < j; ++k) sum -= l[at(i, k)] * std::conj(l[at(j, k)]);
          l[at(i, j)] = i == j ? (sum.real() > 0 ? std::sqrt(sum.real()) : std::numeric_limits<double>::quiet_NaN())
                               : sum / l[at(j, j)];
        }
      }
      for (int64_t i = 0; i < n; ++i) {
        for (int64_t j = 0; j <= i; ++j) {
          const Complex value = l[at(i, j)];
          if (lower) set_complex(type, results[0], base + i * n + j, value);
          if (!lower) set_complex(type, results[0], base + j * n + i, std::conj(value));
        }
      }
    }
  };
}

Evaluation evaluate_triangular_solve(const Operation& op) {
  return [&op](auto operands, auto results) {
    const Type &a_type = *op.operand(0).type, &b_type = *op.operand(1).type;
    const bool left = op.boolean("left_side"), unit = op.boolean("unit_diagonal");
    const auto transpose = op.get<Transpose>("transpose_a");
    const bool turned = transpose == Transpose::kTranspose || transpose == Transpose::kAdjoint;
    // Solves op(a) x = b by substitution. From the right, x op(a) = b is the same for rows, with a transposed.
    const bool swaps = turned == left;  // the element (i, j) of what is solved is (j, i) of a
    const bool forward = op.boolean("lower") != swaps;
    const int64_t n = a_type.dims.back(), rows = b_type.dims[b_type.dims.size() - 2], columns = b_type.dims.back();
    const int64_t lines = left ? columns : rows;
    std::vector<Complex> x(static_cast<size_t>(n));
    for (int64_t batch = 0; n > 0 && batch < a_type.element_count() / (n * n); ++batch) {
      const auto a = [&](int64_t i, int64_t j) {
        const Complex value = complex_element(a_type, operands[0], batch * n * n + (swaps ? j * n + i : i * n + j));
        return transpose == Transpose::kAdjoint ? std::conj(value) : value;
      };
      for (int64_t line = 0; line < lines; ++line) {
        const auto place = [&](int64_t i) {
          return batch * rows * columns + (left ? i * columns + line : line * columns + i);
        };
        for (int64_t step = 0; step < n; ++step) {
          const int64_t i = forward ? step : n - 1 - step;
          Complex sum = complex_element(b_type, operands[1], place(i));
          for (int64_t j = forward ? 0 : i + 1; j < (forward ? i : n); ++j) sum -= a(i, j) * x[static_cast<size_t>(j)];
          x[static_cast<size_t>(i)] = unit ? sum : sum / a(i, i);
        }
        for (int64_t i = 0; i < n; ++i) set_complex(b_type, results[0], place(i), x[static_cast<size_t>(i)]);
      }
    }
  };
}

}  // namespace mydev::stablehlo
