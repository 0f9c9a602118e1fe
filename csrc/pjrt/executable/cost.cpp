#include "pjrt/executable/cost.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "kernels/spec/contract.h"
#include "runtime/frame/dtype.h"

namespace mydev::pjrt {

namespace {

using program::Operand;
using program::Step;
using program::StepKind;

constexpr std::array<std::string_view, 31> kTranscendentals = {
    "exp",  "exp2",   "expm1",  "log",     "log1p", "log2",  "log10", "sin",     "cos",     "tan", "sinh",
    "cosh", "tanh",   "asin",   "acos",    "atan",  "asinh", "acosh", "atanh",   "atan2",   "pow", "erf",
    "erfc", "erfinv", "lgamma", "digamma", "sqrt",  "rsqrt", "cbrt",  "sigmoid", "softplus"};

double elements_of(const Operand& view) {
  double count = view.kind == Operand::kView ? 1 : 0;
  for (const int64_t size : view.sizes) count *= static_cast<double>(size);
  return count;
}

// Elements that are broadcast lie in memory once.
double bytes_of(const Operand& view) {
  double count = view.kind == Operand::kView ? static_cast<double>(dtype_size(view.dtype)) : 0;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.strides[d] != 0 || view.sizes[d] == 0) count *= static_cast<double>(view.sizes[d]);
  }
  return count;
}

bool is_transposed(const Step& step) {
  return std::ranges::any_of(step.attributes.get(), [](const mydev_attribute& attribute) {
    return std::string_view(attribute.name) == "transposed" && attribute.value.i != 0;
  });
}

// Returns the multiplications and additions of a convolution: each element of the image without padding needs a row of
// the weight.
double convolution_flops(const Operand& unpadded, const Operand& weight) {
  return weight.sizes.empty() || weight.sizes[0] == 0
             ? 0
             : 2 * elements_of(unpadded) * elements_of(weight) / static_cast<double>(weight.sizes[0]);
}

// Returns the operations of kernels whose contract has no expression.
double product_flops(const Step& step) {
  const std::vector<Operand>&in = step.operands, &out = step.results;
  if (step.name == "mydev.matmul") return 2 * elements_of(out[0]) * static_cast<double>(in[0].sizes.back());
  if (step.name == "mydev.convolution") return convolution_flops(is_transposed(step) ? in[0] : out[0], in[1]);
  if (step.name == "mydev.convolution_backward_data")
    return convolution_flops(is_transposed(step) ? out[0] : in[0], in[1]);
  if (step.name == "mydev.convolution_backward_weights")
    return convolution_flops(is_transposed(step) ? in[1] : in[0], out[0]);
  if (step.name == "mydev.attention")
    return 4 * elements_of(in[0]) * static_cast<double>(in[1].sizes[in[1].sizes.size() - 2]);
  return 0;
}

bool is_one(const ContractAttribute& attribute, const Step& step) {
  for (const mydev_attribute& given : step.attributes.get()) {
    if (attribute.name != given.name) continue;
    return given.kind == MYDEV_ATTRIBUTE_FLOAT ? given.value.f == 1 : given.value.i == 1;
  }
  return attribute.otherwise == 1;
}

// A factor that is 1, as alpha in "a + alpha * b" is mostly, costs nothing.
bool multiplies_by_one(const KernelContract& contract, const Expression::Node& node, const Step& step) {
  if (std::string_view(node.function->name) != "*") return false;
  const Expression& expression = contract.expression;
  return std::ranges::any_of(node.arguments, [&](int32_t argument) {
    const int32_t name = expression.nodes()[static_cast<size_t>(argument)].name;
    return name >= 0 && std::ranges::any_of(contract.attributes, [&](const ContractAttribute& attribute) {
             return attribute.name == expression.names()[static_cast<size_t>(name)] && is_one(attribute, step);
           });
  });
}

double bytes_of_views(const Step& step) {
  double bytes = 0;
  for (const Operand& view : step.results) bytes += bytes_of(view);
  for (const Operand& view : step.operands) bytes += bytes_of(view);
  return bytes;
}

Cost launch_cost(const Step& step) {
  Cost cost{.flops = product_flops(step), .bytes = bytes_of_views(step)};
  double most = 0;
  for (const std::vector<Operand>* views : {&step.results, &step.operands}) {
    for (const Operand& view : *views) most = std::max(most, elements_of(view));
  }
  const KernelContract* contract = builtin_contract(step.name);
  if (contract == nullptr) return cost;
  for (const Expression::Node& node : contract->expression.nodes()) {
    if (node.function == nullptr || multiplies_by_one(*contract, node, step)) continue;
    (std::ranges::count(kTranscendentals, node.function->name) != 0 ? cost.transcendentals : cost.flops) += most;
  }
  return cost;
}

void add(Cost& to, const Cost& cost, double times = 1) {
  to.flops += times * cost.flops;
  to.transcendentals += times * cost.transcendentals;
  to.bytes += times * cost.bytes;
}

Cost step_cost(const Step& step) {
  switch (step.kind) {
    case StepKind::kLaunch:
      return launch_cost(step);
    case StepKind::kCopy:
    case StepKind::kFill:
    case StepKind::kHostCall:
    case StepKind::kCollective:
      return {.bytes = bytes_of_views(step)};
    case StepKind::kCall:
    case StepKind::kWhile:
      return cost_of(*step.program);
    case StepKind::kFused: {
      Cost cost = cost_of(*step.program);
      cost.bytes = bytes_of_views(step);
      return cost;
    }
    case StepKind::kRepeat: {
      Cost cost;
      add(cost, cost_of(*step.program), static_cast<double>(step.count));
      return cost;
    }
    case StepKind::kIf: {
      const Cost taken = cost_of(*step.program),
                 otherwise = step.otherwise == nullptr ? Cost{} : cost_of(*step.otherwise);
      return {std::max(taken.flops, otherwise.flops), std::max(taken.transcendentals, otherwise.transcendentals),
              std::max(taken.bytes, otherwise.bytes)};
    }
  }
  return {};
}

}  // namespace

Cost cost_of(const program::Program& program) {
  Cost cost;
  for (const Step& step : program.steps()) add(cost, step_cost(step));
  return cost;
}

}  // namespace mydev::pjrt
