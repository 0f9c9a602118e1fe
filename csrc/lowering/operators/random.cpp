// Random bits from a state, as the kernel mydev.rng_bit_generator gives them.
#include <array>

#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

bool lower_random(Frame& frame, const Operation& op) {
  if (op.op != Operator::kRngBitGenerator) return false;
  const Type &state = *op.operand(0).type, &output = *op.result(1).type;
  if (state.element != ElementType::kU64 || !is_integer(output.element) || element_row(output.element).bits < 8) {
    return false;
  }
  const std::array attributes = {
      bool_attribute("threefry", op.get<RngAlgorithm>("rng_algorithm") == RngAlgorithm::kThreeFry)};
  const program::Operand advanced = frame.result_of(op.result(0)), bits = frame.result_of(op.result(1));
  frame.set(op.result(0), {advanced});
  frame.set(op.result(1), {bits});
  const auto shape = threefry_shape(output);
  frame.emit.launch("mydev.rng_bit_generator", {advanced, dense_reshaped(bits, Sizes(shape.begin(), shape.end()))},
                    {frame.emit.dense(frame.view(op.operand(0)))}, attributes);
  return true;
}

}  // namespace mydev::lowering
