// Custom calls that are XLA's own operators of linear algebra, which clients send by name: in c128, matrix by matrix.
#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <numeric>

#include "stablehlo/evaluator/evaluators.h"
#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

namespace {

using Complex = std::complex<double>;

// A matrix, row by row.
class Matrix {
 public:
  Matrix(int64_t rows, int64_t columns)
      : rows(rows), columns(columns), values_(static_cast<size_t>(rows) * static_cast<size_t>(columns)) {}

  Complex& operator()(int64_t i, int64_t j) noexcept { return values_[static_cast<size_t>(i * columns + j)]; }
  const Complex& operator()(int64_t i, int64_t j) const noexcept {
    return values_[static_cast<size_t>(i * columns + j)];
  }

  const int64_t rows, columns;

 private:
  std::vector<Complex> values_;
};

// Reads one matrix of a tensor of matrices.
Matrix read(const Type& type, const std::byte* data, int64_t number) {
  Matrix matrix(type.dims[type.dims.size() - 2], type.dims.back());
  const int64_t base = number * matrix.rows * matrix.columns;
  for (int64_t i = 0; i < matrix.rows; ++i) {
    for (int64_t j = 0; j < matrix.columns; ++j) {
      const Number value = element(type, data, base + i * matrix.columns + j);
      matrix(i, j) = {value.real, value.imaginary};
    }
  }
  return matrix;
}

void write(const Type& type, std::byte* data, int64_t number, const Matrix& matrix) {
  const int64_t base = number * matrix.rows * matrix.columns;
  for (int64_t i = 0; i < matrix.rows; ++i) {
    for (int64_t j = 0; j < matrix.columns; ++j) {
      const Complex value = matrix(i, j);
      set_element(type, data, base + i * matrix.columns + j, {.real = value.real(), .imaginary = value.imag()});
    }
  }
}

int64_t matrices_in(const Type& type) {
  return count_of(Sizes(type.dims.begin(), type.dims.end() - 2));
}

// Multiplies the columns from `first` on by (I - tau v v*). v is 1, then the elements below the diagonal in `from`.
void reflect(Matrix& a, const Matrix& from, int64_t column, const Complex& tau, int64_t first) {
  for (int64_t j = first; j < a.columns; ++j) {
    Complex sum = a(column, j);
    for (int64_t i = column + 1; i < a.rows; ++i) sum += std::conj(from(i, column)) * a(i, j);
    sum *= tau;
    a(column, j) -= sum;
    for (int64_t i = column + 1; i < a.rows; ++i) a(i, j) -= from(i, column) * sum;
  }
}

// LAPACK's geqrf: R above, the reflectors' vectors below the diagonal, and their factors.
std::vector<Complex> factor_qr(Matrix& a) {
  std::vector<Complex> factors;
  for (int64_t k = 0; k < std::min(a.rows, a.columns); ++k) {
    double below = 0;
    for (int64_t i = k + 1; i < a.rows; ++i) below += std::norm(a(i, k));
    const Complex alpha = a(k, k);
    if (below == 0 && alpha.imag() == 0) {
      factors.emplace_back();
      continue;
    }
    const double beta = -std::copysign(std::sqrt(std::norm(alpha) + below), alpha.real());
    const Complex tau((beta - alpha.real()) / beta, -alpha.imag() / beta);
    for (int64_t i = k + 1; i < a.rows; ++i) a(i, k) /= alpha - beta;
    reflect(a, a, k, std::conj(tau), k + 1);
    a(k, k) = beta;
    factors.push_back(tau);
  }
  return factors;
}

Evaluation evaluate_qr(const Operation& op) {
  return [type = op.operand(0).type, factor_type = op.result_types()[1]](auto operands, auto results) {
    const int64_t count = matrices_in(*type);
    int64_t next = 0;
    for (int64_t n = 0; n < count; ++n) {
      Matrix a = read(*type, operands[0], n);
      for (const Complex& tau : factor_qr(a)) {
        set_element(*factor_type, results[1], next++, {.real = tau.real(), .imaginary = tau.imag()});
      }
      write(*type, results[0], n, a);
    }
  };
}

// LAPACK's orgqr: the first columns of the product of the reflectors.
Evaluation evaluate_householder_product(const Operation& op) {
  return [type = op.operand(0).type, factor_type = op.operand(1).type](auto operands, auto results) {
    const int64_t count = matrices_in(*type), factors = factor_type->dims.back();
    for (int64_t n = 0; n < count; ++n) {
      const Matrix a = read(*type, operands[0], n);
      Matrix q(a.rows, a.columns);
      for (int64_t i = 0; i < std::min(a.rows, a.columns); ++i) q(i, i) = 1;
      for (int64_t k = factors; k-- > 0;) {
        const Number tau = element(*factor_type, operands[1], n * factors + k);
        reflect(q, a, k, {tau.real, tau.imaginary}, k);
      }
      write(*type, results[0], n, q);
    }
  };
}

// Rotates the columns, and the rows, p and q of a so that a(p, q) is 0; v is rotated with them.
void rotate(Matrix& a, Matrix& v, int64_t p, int64_t q) {
  const double size = std::abs(a(p, q));
  const Complex phase = std::conj(a(p, q)) / size;
  const double theta = (a(q, q).real() - a(p, p).real()) / (2 * size);
  const double t = std::copysign(1 / (std::abs(theta) + std::hypot(theta, 1.0)), theta);
  const double c = 1 / std::hypot(t, 1.0), s = t * c;
  for (Matrix* matrix : {&a, &v}) {
    for (int64_t i = 0; i < matrix->rows; ++i) {
      const Complex x = (*matrix)(i, p), y = (*matrix)(i, q) * phase;
      (*matrix)(i, p) = c * x - s * y;
      (*matrix)(i, q) = s * x + c * y;
    }
  }
  for (int64_t j = 0; j < a.columns; ++j) {
    const Complex x = a(p, j), y = a(q, j) * std::conj(phase);
    a(p, j) = c * x - s * y;
    a(q, j) = s * x + c * y;
  }
}

// Jacobi's method, by rows: Golub and Van Loan, Matrix Computations, section 8.5.
void diagonalize(Matrix& a, Matrix& v) {
  constexpr int kMostSweeps = 60;
  double all = 0;
  for (int64_t i = 0; i < a.rows; ++i) {
    for (int64_t j = 0; j < a.rows; ++j) all += std::norm(a(i, j));
  }
  const double negligible = 1e-32 * all / static_cast<double>(std::max<int64_t>(a.rows * a.rows, 1));
  for (int sweep = 0, rotations = 1; sweep < kMostSweeps && rotations > 0; ++sweep) {
    rotations = 0;
    for (int64_t p = 0; p < a.rows; ++p) {
      for (int64_t q = p + 1; q < a.rows; ++q) {
        if (!(std::norm(a(p, q)) > negligible)) continue;
        rotate(a, v, p, q);
        ++rotations;
      }
    }
  }
}

// "lower,sorted,...": eigenvectors and eigenvalues of Hermitian matrices, of which one triangle is given.
Evaluation evaluate_eigh(const Operation& op) {
  const std::string& config = op.string("backend_config");
  const bool lower = config.empty() || config.front() != '0';
  return [lower, type = op.operand(0).type, value_type = op.result_types()[1]](auto operands, auto results) {
    for (int64_t number = 0, count = matrices_in(*type); number < count; ++number) {
      Matrix a = read(*type, operands[0], number);
      const int64_t n = a.rows;
      Matrix v(n, n), sorted(n, n);
      for (int64_t i = 0; i < n; ++i) {
        a(i, i) = a(i, i).real();
        v(i, i) = 1;
        for (int64_t j = 0; j < i; ++j) (lower ? a(j, i) : a(i, j)) = std::conj(lower ? a(i, j) : a(j, i));
      }
      diagonalize(a, v);
      std::vector<int64_t> order(static_cast<size_t>(n));
      std::iota(order.begin(), order.end(), 0);
      std::ranges::stable_sort(order, [&](int64_t i, int64_t j) { return a(i, i).real() < a(j, j).real(); });
      for (int64_t k = 0; k < n; ++k) {
        const int64_t from = order[static_cast<size_t>(k)];
        set_element(*value_type, results[1], number * n + k, {.real = a(from, from).real()});
        for (int64_t i = 0; i < n; ++i) sorted(i, k) = v(i, from);
      }
      write(*type, results[0], number, sorted);
    }
  };
}

// A vector for each matrix, with as many elements as its shorter side.
Type vectors_of(const Type& matrices, ElementType element) {
  Type vectors = matrices;
  vectors.element = element;
  vectors.dims.pop_back();
  vectors.dims.back() = std::min(vectors.dims.back(), matrices.dims.back());
  return vectors;
}

// The types of a target's results for such operands; empty if the target does not take them.
std::vector<Type> results_of_qr(const Operation& op) {
  const Type& a = *op.operand(0).type;
  return {a, vectors_of(a, a.element)};
}
std::vector<Type> results_of_householder_product(const Operation& op) {
  const Type &a = *op.operand(0).type, &factors = *op.operand(1).type;
  Type most = vectors_of(a, a.element);
  if (factors.rank() == most.rank()) most.dims.back() = std::min(most.dims.back(), factors.dims.back());
  return factors == most ? std::vector{a} : std::vector<Type>();
}
std::vector<Type> results_of_eigh(const Operation& op) {
  const Type& a = *op.operand(0).type;
  const ElementType real = a.element == ElementType::kC64    ? ElementType::kF32
                           : a.element == ElementType::kC128 ? ElementType::kF64
                                                             : a.element;
  const bool is_square = a.dims.back() == a.dims[a.dims.size() - 2];
  return is_square ? std::vector{a, vectors_of(a, real)} : std::vector<Type>();
}

}  // namespace

Evaluation make_evaluation_of_target(const Operation& op) {
  struct Row {
    std::string_view target;
    size_t operands;
    std::vector<Type> (*results)(const Operation&);
    Evaluation (*make)(const Operation&);
  };
  constexpr std::array kRows = {
      Row{"Qr", 1, results_of_qr, evaluate_qr},
      Row{"ProductOfElementaryHouseholderReflectors", 2, results_of_householder_product, evaluate_householder_product},
      Row{"Eigh", 1, results_of_eigh, evaluate_eigh},
  };
  const auto row = std::ranges::find(kRows, std::string_view(op.string("call_target_name")), &Row::target);
  if (row == kRows.end()) return nullptr;
  const auto is_matrices = [](const Type& type) {
    return type.is_tensor() && type.is_static() && type.rank() >= 2 &&
           (is_float(type.element) || is_complex(type.element));
  };
  if (op.operands.size() != row->operands || !is_matrices(*op.operand(0).type)) {
    op.fail(MYDEV_UNIMPLEMENTED, "calls '", row->target, "' with ", op.operands.size(),
            " operands; it is supported with ", row->operands, ", the first one matrices of floats or complex numbers");
  }
  const std::vector<Type> expected = row->results(op);
  const auto is_of_type = [](const Type& type, const Type* given) { return type == *given; };
  if (expected.empty() || !std::ranges::equal(expected, op.result_types(), is_of_type)) {
    op.fail(MYDEV_INVALID_ARGUMENT, "calls '", row->target, "' of a ", op.operand(0).type->text(),
            " for results of other types than it gives, or with operands that it does not take");
  }
  return row->make(op);
}

}  // namespace mydev::stablehlo
