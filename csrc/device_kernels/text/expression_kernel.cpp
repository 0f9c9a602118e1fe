#include "device_kernels/text/expression_kernel.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "device_kernels/templates/texts.h"
#include "device_kernels/text/template_kernel.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

bool uses(const KernelContract& contract, std::initializer_list<std::string_view> functions) {
  return std::ranges::any_of(contract.expression.nodes(), [&](const Expression::Node& node) {
    return node.function != nullptr &&
           std::ranges::find(functions, std::string_view(node.function->name)) != functions.end();
  });
}

Domain domain_for(const ExpressionForm& form) {
  if (uses(*form.contract, {"any", "all"})) {  // whether an element is 0 is asked of the element itself
    const auto operand = std::ranges::find(form.operands, false, &BoundOperand::is_result);
    return domain_of(operand->dtype);
  }
  const Domain own = domain_of(form.dtype);
  // Squares of distances from a mean may be beyond the range of an f32 whose root is not.
  return own == Domain::kF32 && form.has_f64 && uses(*form.contract, {"count"}) && form.contract->expression.reduces()
             ? Domain::kF64
             : own;
}

bool chooses(const ContractAttribute& attribute) {
  return attribute.kind == ContractKind::kBool || attribute.kind == ContractKind::kInt;
}

void check_divisor(const ExpressionForm& form, const BoundFrame& frame) {
  if (form.domain != Domain::kI64 || !uses(*form.contract, {"trunc_div", "floor_div", "remainder", "fmod"})) return;
  const BoundOperand* divisor = frame.find("b");
  const bool is_zero =
      divisor != nullptr && divisor->is_number && static_cast<const mydev_scalar*>(frame.buffer(*divisor).data)->i == 0;
  require(!is_zero, "divide integers by no 0");
}

}  // namespace

ExpressionForm::ExpressionForm(const Request& request, const BoundFrame& frame)
    : contract(&frame.contract()),
      operands(frame.operands()),
      dtype(frame.first_dtype() == MYDEV_DTYPE_INVALID ? MYDEV_F32 : frame.first_dtype()),
      domain(Domain::kF32),
      count(1),
      has_f64(request.language.f64) {
  domain = domain_for(*this);
  const bool wide = domain == Domain::kF64 || domain == Domain::kC128;
  const bool given_f64 = std::ranges::any_of(operands, [](const BoundOperand& operand) {
    return !operand.is_absent() && (operand.dtype == MYDEV_F64 || operand.dtype == MYDEV_C128);
  });
  require(has_f64 || !(wide || given_f64), "compute in no f64 on this device");
  for (const ContractAttribute& attribute : contract->attributes) {
    if (chooses(attribute)) choices[attribute.name] = static_cast<double>(frame.integer(attribute.name));
  }
  for (const BoundOperand& operand : operands) {
    if (operand.is_absent()) continue;
    memory_type(operand.dtype);
    const mydev_buffer& buffer = frame.buffer(operand);
    if (!operand.is_result && buffer.rank != 0) count = count_of(buffer);
  }
  check_divisor(*this, frame);
}

namespace {

// The dtype of a variable in the form; nothing if no operand has it.
mydev_dtype dtype_of(const ExpressionForm& form, size_t variable) {
  const auto found = std::ranges::find_if(form.operands, [&](const BoundOperand& operand) {
    return !operand.is_absent() && operand.contract->variable == static_cast<int32_t>(variable);
  });
  return found == form.operands.end() ? MYDEV_DTYPE_INVALID : found->dtype;
}

}  // namespace

std::string ExpressionForm::function_name() const {
  std::string name = contract->name.substr(contract->name.find('.') + 1);
  for (size_t v = 0; v < contract->variables.size(); ++v) name += std::string("_") + dtype_name(dtype_of(*this, v));
  return name;
}

std::string ExpressionForm::key() const {
  std::string key = contract->name;
  for (size_t v = 0; v < contract->variables.size(); ++v) key += std::string("/") + dtype_name(dtype_of(*this, v));
  key += '/';
  for (const BoundOperand& operand : operands) key += operand.is_absent() ? 'a' : operand.is_number ? 'n' : 'b';
  for (const auto& [name, value] : choices) key += "/" + std::to_string(static_cast<int64_t>(value));
  return key;
}

bool is_fusible(const KernelContract& contract) {
  const auto has_range = [](const ContractOperand& operand) { return operand.low || operand.high; };
  return !contract.expression.empty() && std::ranges::none_of(contract.operands, has_range);
}

std::pair<std::string, Printed> load(const BoundOperand& operand, const std::string& element, Domain domain) {
  const bool is_truth = operand.dtype == MYDEV_PRED;
  const std::string type = is_truth ? "bool" : domain_type(domain), name = "x_" + operand.contract->name;
  const std::string value = is_truth ? "(" + element + " != 0)" : loaded(element, operand.dtype, domain);
  return {"const " + type + " " + name + " = " + value + ";\n", {name, is_truth, {}}};
}

std::string stored(const ExpressionText& text, const Printed& result, mydev_dtype dtype) {
  const bool is_truth = result.is_truth && (dtype == MYDEV_PRED || dtype == MYDEV_U8);
  return is_truth ? "(u8)" + result.text : stored(text.value(result), dtype, text.domain());
}

namespace {

// The names that are given as numbers, in their order, with what gives them.
template <typename Attribute, typename Operand>
void for_each_number(const ExpressionForm& form, const Attribute& of_attribute, const Operand& of_operand) {
  for (const ContractAttribute& attribute : form.contract->attributes) {
    if (!chooses(attribute) && form.contract->expression.reads(attribute.name)) of_attribute(attribute);
  }
  for (const BoundOperand& operand : form.operands) {
    if (operand.is_number) of_operand(operand);
  }
}

}  // namespace

void ExpressionForm::declare_numbers(FunctionText& function) const {
  if (uses(*contract, {"count"})) function.add_integer(numbers + "count");
  for_each_number(
      *this, [&](const ContractAttribute& attribute) { function.add_number(numbers + attribute.name, domain); },
      [&](const BoundOperand& operand) { function.add_number(numbers + operand.contract->name, domain); });
}

namespace {

// A number in all domains.
struct Number {
  double real, imaginary;
  int64_t integer;

  static Number of(double real, double imaginary = 0) { return {real, imaginary, static_cast<int64_t>(real)}; }
  static Number of(const BoundFrame& frame, const ContractAttribute& attribute) {
    const mydev_attribute found = frame.attribute(attribute.name);
    if (found.kind == MYDEV_ATTRIBUTE_COMPLEX) return of(found.value.c[0], found.value.c[1]);
    if (found.kind == MYDEV_ATTRIBUTE_INT || found.kind == MYDEV_ATTRIBUTE_BOOL) {
      return {static_cast<double>(found.value.i), 0, found.value.i};
    }
    return of(frame.number(attribute.name));
  }
  static Number of(const BoundFrame& frame, const BoundOperand& operand) {
    const auto& scalar = *static_cast<const mydev_scalar*>(frame.buffer(operand).data);
    switch (domain_of(operand.dtype)) {
      case Domain::kI64:
        return {static_cast<double>(scalar.i), 0, scalar.i};
      case Domain::kC64:
      case Domain::kC128:
        return of(scalar.c[0], scalar.c[1]);
      default:
        return of(scalar.f);
    }
  }
  std::string text(Domain domain) const {
    if (domain == Domain::kI64) return literal(integer);
    if (!is_complex(domain)) return literal(real, domain);
    const Domain part = real_part(domain);
    return std::string("make_") + domain_type(domain) + "(" + literal(real, part) + ", " + literal(imaginary, part) +
           ")";
  }
};

}  // namespace

void ExpressionForm::bind_known(ExpressionText& text, const std::string& known_count) const {
  const std::vector<Expression::Node>& nodes = contract->expression.nodes();
  for (size_t i = 0; i < nodes.size(); ++i) {
    const bool counts = nodes[i].function != nullptr && std::string_view(nodes[i].function->name) == "count";
    if (counts)
      text.know(static_cast<int32_t>(i),
                {std::string("((") + domain_type(domain) + ")" + known_count + ")", false, {}});
  }
  for (const auto& [name, value] : choices) text.bind(name, {literal(value, domain), false, value});
  for (const BoundOperand& operand : operands) {  // what is left out counts as 1
    if (!operand.is_result && operand.is_absent()) text.bind(operand.contract->name, {literal(1, domain), false, 1.0});
  }
}

void ExpressionForm::bind_numbers(ExpressionText& text) const {
  bind_known(text, numbers + "count");
  for_each_number(
      *this,
      [&](const ContractAttribute& attribute) { text.bind(attribute.name, {numbers + attribute.name, false, {}}); },
      [&](const BoundOperand& operand) {
        text.bind(operand.contract->name, {numbers + operand.contract->name, false, {}});
      });
}

void ExpressionForm::bind_literals(ExpressionText& text, const BoundFrame& frame) const {
  bind_known(text, literal(count));
  for_each_number(
      *this,
      [&](const ContractAttribute& attribute) {
        text.bind(attribute.name, {Number::of(frame, attribute).text(domain), false, {}});
      },
      [&](const BoundOperand& operand) {
        text.bind(operand.contract->name, {Number::of(frame, operand).text(domain), false, {}});
      });
}

void ExpressionForm::give_numbers(Call& call, const BoundFrame& frame) const {
  if (uses(*contract, {"count"})) call.give(count);
  const auto give = [&](const Number& number) {
    give_number(call, domain, number.real, number.imaginary, number.integer);
  };
  for_each_number(
      *this, [&](const ContractAttribute& attribute) { give(Number::of(frame, attribute)); },
      [&](const BoundOperand& operand) { give(Number::of(frame, operand)); });
}

std::shared_ptr<const CompiledKernel> expression_function(
    const Request& request, const ExpressionForm& form, const std::string& loop,
    const std::function<std::pair<std::string, KernelParameters>()>& text) {
  return function_of(request, form.key() + "/" + loop, form.function_name(),
                     {[&] { return text().first; }, [&] { return text().second; }});
}

namespace {

// Whether there is a reduction in the formula that the attributes choose.
bool reduces(const ExpressionForm& form) {
  if (form.choices.empty() || !form.contract->expression.reduces()) return form.contract->expression.reduces();
  ExpressionText text(form.contract->expression, form.domain, form.dtype);
  form.bind_numbers(text);
  for (const BoundOperand* operand : memory_of(form.operands)) {
    if (!operand->is_result) continue;
    for (const int32_t node : text.reductions_of(text.node_of(operand->contract->name))) {
      const auto& reduction = form.contract->expression.nodes()[static_cast<size_t>(node)];
      if (std::string_view(reduction.function->name) != "count") return true;
    }
  }
  return false;
}

}  // namespace

namespace {

// Operands whose elements must be in a range are looked at before anything is computed.
void add_range_checks(const Request& request, const BoundFrame& frame, Work& work) {
  for (const BoundOperand& operand : frame.operands()) {
    const std::optional<double> low = operand.contract->low, high = operand.contract->high;
    if (operand.is_absent() || !low || !high) continue;
    const int64_t count = count_of(frame.buffer(operand));
    if (count == 0) continue;
    require(operand.contract->layout == ContractLayout::kPacked, "look at ranges of packed operands only");
    TemplateUse use(request, kRangeCheckText, "range_check");
    use.type('T', operand.dtype);
    Call& call = work.calls.emplace_back(use.call(rows_of(request, 1, count, request.language.elements)));
    call.give(Call::Memory{0}).give(Call::Memory{operand.buffer}).give(count);
    use.give_number(call, *low);
    use.give_number(call, *high);
  }
}

}  // namespace

Work plan_expression(const Request& request) {
  const KernelContract& contract = contract_of(request);
  Work work;
  for (size_t i = 0; i < BoundFrame::list_length(contract, request.frame); ++i) {
    const BoundFrame frame(contract, request.frame, i);
    add_range_checks(request, frame, work);
    const ExpressionForm form(request, frame);
    if (reduces(form)) {
      add_reduction(request, frame, form, work);
    } else {
      add_pointwise(request, frame, form, work);
    }
  }
  return work;
}

}  // namespace mydev::device_kernels
