// Fourier transforms, linear algebra and normalisation.
#include <string>

#include "stablehlo/verifier/checks.h"
#include "stablehlo/verifier/rules.h"

namespace mydev::stablehlo::verifier {

namespace {

bool is_inexact(ElementType type) {
  return is_float(type) || is_complex(type);
}

// If the signal is real, one half of the spectrum is given or taken.
void fft(const Operation& op) {
  const Type& from = operand(op);
  const Numbers lengths = op.integers("fft_length");
  require(op, !lengths.empty() && lengths.size() <= 3 && static_cast<int64_t>(lengths.size()) <= from.rank(),
          "it transforms ", lengths.size(), " dimensions of ", from.rank());
  for (const int64_t length : lengths) require(op, length >= 0, "'fft_length' has ", length);
  const auto type = op.get<FftType>("fft_type");
  const bool is_of_reals = type == FftType::kRfft;
  const bool is_known = from.element == ElementType::kC64 || from.element == ElementType::kC128 ||
                        (is_of_reals && (from.element == ElementType::kF32 || from.element == ElementType::kF64));
  require(op, is_known && is_complex(from.element) != is_of_reals, "it transforms ", from.text(), ", expected ",
          is_of_reals ? "f32 or f64" : "complex numbers");
  Numbers whole = from.dims, half;
  std::ranges::copy(lengths, whole.end() - std::ssize(lengths));
  half = whole;
  half.back() = whole.back() == 0 ? 0 : whole.back() / 2 + 1;
  require_type(op, from, from.element, type == FftType::kIrfft ? half : whole, "the operand");
  const bool is_wide = part_of(from.element) == ElementType::kF64;
  if (type == FftType::kIrfft) {
    require_result(op, part_of(from.element), whole);
  } else {
    require_result(op, is_wide ? ElementType::kC128 : ElementType::kC64, is_of_reals ? half : whole);
  }
}

// The operand must hold square matrices, in its last two dimensions.
const Type& matrices(const Operation& op) {
  const Type& type = operand(op);
  require(op, is_inexact(type.element), "it computes with ", type.text(), ", expected floats or complex numbers");
  require(op, type.rank() >= 2 && same_size(type.dims[type.dims.size() - 2], type.dims.back()),
          "it takes square matrices, found ", type.text());
  return type;
}

void cholesky(const Operation& op) {
  require_result(op, matrices(op).element, operand(op).dims);
}

void triangular_solve(const Operation& op) {
  const Type &a = matrices(op), &b = operand(op, 1);
  Numbers sizes = a.dims;
  require(op, b.rank() == a.rank(), "matrices of ranks ", a.rank(), " and ", b.rank());
  const bool left = op.boolean("left_side");
  const size_t free = sizes.size() - (left ? 1 : 2);
  sizes[free] = b.dims[free];
  require_type(op, b, a.element, sizes, "operand 1");
  require(op, op.get<Transpose>("transpose_a") != Transpose::kInvalid, "'transpose_a' says nothing");
  require_result(op, a.element, sizes);
}

// The first operand, the first result and the gradient's grad_output have one shape; all others have a number for each
// feature.
void batch_norm(const Operation& op) {
  const Type& x = operand(op);
  const int64_t feature = op.integer("feature_index");
  require(op, is_float(x.element), "it normalises ", x.text(), ", expected floats");
  require_dimension(op, "feature_index", feature, x.rank());
  const Numbers features = {x.dims[static_cast<size_t>(feature)]};
  const bool is_gradient = op.op == Operator::kBatchNormGrad;
  for (size_t i = 1; i < op.operands.size(); ++i) {
    const bool is_whole = is_gradient && i == 4;
    require_type(op, operand(op, i), x.element, is_whole ? x.dims : features, "operand " + std::to_string(i));
  }
  for (size_t i = 0; i < op.results.size(); ++i) require_result(op, x.element, i == 0 ? x.dims : features, i);
}

constexpr RuleRow kAlgebraRules[] = {
    {Operator::kFft, fft},
    {Operator::kCholesky, cholesky},
    {Operator::kTriangularSolve, triangular_solve},
    {Operator::kBatchNormGrad, batch_norm},
    {Operator::kBatchNormInference, batch_norm},
    {Operator::kBatchNormTraining, batch_norm},
};

}  // namespace

std::span<const RuleRow> algebra_rules() noexcept {
  return kAlgebraRules;
}

}  // namespace mydev::stablehlo::verifier
