// Operators that compute element by element, choices, tokens, and random numbers.
#include <string>

#include "stablehlo/verifier/checks.h"
#include "stablehlo/verifier/rules.h"

namespace mydev::stablehlo::verifier {

namespace {

void parts(const Operation& op) {  // abs, real, imag
  const Type& from = operand(op);
  require_result(op, part_of(from.element), from.dims);
}

void complex(const Operation& op) {
  const Type &from = operand(op), &other = operand(op, 1);
  const ElementType element = from.element;
  require(op, element == ElementType::kF32 || element == ElementType::kF64, "it makes complex numbers of ", from.text(),
          ", expected f32 or f64");
  require_type(op, other, element, from.dims, "operand 1");
  require_result(op, element == ElementType::kF32 ? ElementType::kC64 : ElementType::kC128, from.dims);
}

void compare(const Operation& op) {
  const Type &from = operand(op), &other = operand(op, 1);
  require_type(op, other, from.element, from.dims, "operand 1");
  require_element(op, result(op), ElementType::kPred);
  require_result(op, ElementType::kPred, from.dims);
}

void is_finite(const Operation& op) {
  require(op, is_float(operand(op).element), "it asks of ", operand(op).text(), ", expected floats");
  require_result(op, ElementType::kPred, operand(op).dims);
}

void clamp(const Operation& op) {
  const Type& from = operand(op, 1);
  for (const size_t i : {0, 2}) {
    const Type& bound = operand(op, i);
    require_type(op, bound, from.element, bound.rank() == 0 ? Numbers() : from.dims, i == 0 ? "'min'" : "'max'");
  }
  require_result(op, from.element, from.dims);
}

void select(const Operation& op) {
  const Type &condition = operand(op), &from = operand(op, 1);
  require_element(op, condition, ElementType::kPred);
  require(op, condition.rank() == 0 || same_sizes(condition.dims, from.dims), "a condition of the type ",
          condition.text(), " chooses elements of ", from.text());
  require_type(op, operand(op, 2), from.element, from.dims, "'on_false'");
  require_result(op, from.element, from.dims);
}

void case_or_if(const Operation& op) {
  require_single(op, operand(op), "what it chooses by");
  require_element(op, operand(op), op.op == Operator::kIf ? ElementType::kPred : ElementType::kS32);
}

void reduce_precision(const Operation& op) {
  const int64_t exponent = op.integer("exponent_bits"), mantissa = op.integer("mantissa_bits");
  require(op, is_float(operand(op).element), "it rounds ", operand(op).text(), ", expected floats");
  require(op, exponent >= 1 && mantissa >= 0, "a format of ", exponent, " bits of exponent and ", mantissa,
          " of mantissa, expected at least 1 and 0");
}

// --- tokens and numbers of the device --------------------------------------------------------------------------------

void tokens(const Operation& op) {
  for (const auto* values : {&op.operands, &op.results}) {
    for (const Value* value : *values) {
      require(op, value->type->kind == TypeKind::kToken, "it takes and gives tokens, found ", value->type->text());
    }
  }
}

void device_number(const Operation& op) {
  require_result(op, ElementType::kU32, {});
}

// --- random numbers --------------------------------------------------------------------------------------------------

void rng(const Operation& op) {
  const Type& to = result(op);
  require(op, is_float(to.element) || is_integer(to.element), "it draws ", to.text(), ", expected numbers");
  const bool is_normal = op.get<RngDistribution>("rng_distribution") == RngDistribution::kNormal;
  require(op, !is_normal || is_float(to.element), "a normal distribution of ", to.text(), ", expected floats");
  for (const size_t i : {0, 1}) require_type(op, operand(op, i), to.element, {}, "operand " + std::to_string(i));
}

// Result 0 is the next state: two or three words of 64 bits.
void rng_bit_generator(const Operation& op) {
  const Type &state = operand(op), &bits = result(op, 1);
  const bool is_words = state.element == ElementType::kU64 || state.element == ElementType::kU32;
  const int64_t bytes = is_words && state.rank() == 1 && state.is_static() ? state.bytes() : 0;
  require(op, bytes == 16 || bytes == 24, "its state is of the type ", state.text(),
          ", expected two or three words of 64 bits, as ui64 or ui32");
  require_result(op, state.element, state.dims);
  require(op, is_integer(bits.element), "it gives bits as ", bits.text(), ", expected integers");
}

constexpr RuleRow kElementRules[] = {
    {Operator::kAbs, parts},
    {Operator::kReal, parts},
    {Operator::kImag, parts},
    {Operator::kComplex, complex},
    {Operator::kCompare, compare},
    {Operator::kIsFinite, is_finite},
    {Operator::kClamp, clamp},
    {Operator::kSelect, select},
    {Operator::kCase, case_or_if},
    {Operator::kIf, case_or_if},
    {Operator::kReducePrecision, reduce_precision},
    {Operator::kAfterAll, tokens},
    {Operator::kCreateToken, tokens},
    {Operator::kPartitionId, device_number},
    {Operator::kReplicaId, device_number},
    {Operator::kRng, rng},
    {Operator::kRngBitGenerator, rng_bit_generator},
};

}  // namespace

std::span<const RuleRow> element_rules() noexcept {
  return kElementRules;
}

}  // namespace mydev::stablehlo::verifier
