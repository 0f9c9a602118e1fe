// Custom calls: kernels of the registry by their names, and targets that programs use to say things to a compiler.
#include <algorithm>
#include <array>
#include <deque>

#include "kernels/registry/kernel_registry.h"
#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

// About memories or layouts only: the result is the operand.
constexpr std::array<std::string_view, 2> kIdentities = {"annotate_device_placement", "LayoutConstraint"};

// A custom call's attributes as kernels take them. Refers to the module.
class CallAttributes {
 public:
  explicit CallAttributes(const Operation& op) : op_(op) {
    const Attribute* config = op.find("mhlo.backend_config");  // where JAX puts a typed call's
    if (config == nullptr) config = op.find("backend_config");
    if (config == nullptr) return;
    if (const auto* dictionary = config->get_if<Dictionary>()) {
      for (const NamedAttribute& entry : *dictionary) attributes_.push_back(convert(entry));
    } else if (const auto* text = config->get_if<std::string>(); text != nullptr && !text->empty()) {
      attributes_.push_back(text_attribute("opaque", *text));
    }
  }

  // In the order of the kernel's signature, if it has one.
  std::vector<mydev_attribute> of(const mydev_kernel& kernel) const {
    if (kernel.signature == nullptr || kernel.signature->num_attributes == 0) return attributes_;
    std::vector<mydev_attribute> ordered;
    for (uint32_t i = 0; i < kernel.signature->num_attributes; ++i) {
      const mydev_attribute_spec& spec = *kernel.signature->attributes[i];
      const auto found = std::ranges::find_if(attributes_, [&](const mydev_attribute& attribute) {
        return std::string_view(attribute.name) == spec.value.name;
      });
      if (found == attributes_.end() && (spec.flags & MYDEV_ATTRIBUTE_REQUIRED) != 0) {
        op_.fail(MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name, "' needs the attribute '", spec.value.name, "'");
      }
      ordered.push_back(found == attributes_.end() ? spec.value : *found);
    }
    return ordered;
  }

 private:
  mydev_attribute text_attribute(std::string_view name, const std::string& text) {
    mydev_attribute attribute{
        names_.emplace_back(name).c_str(), MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(text.size()), {}};
    attribute.value.bytes = text.data();
    return attribute;
  }

  mydev_attribute convert(const NamedAttribute& entry) {
    const char* name = names_.emplace_back(entry.name).c_str();
    const Attribute& value = *entry.value;
    if (const auto* flag = value.get_if<bool>()) return bool_attribute(name, *flag);
    if (const auto* integer = value.get_if<Integer>()) {
      mydev_attribute attribute = integer_attribute(name, integer->value);
      if (integer->type != nullptr) attribute.dtype = static_cast<uint16_t>(dtype_of(integer->type->element));
      return attribute;
    }
    if (const auto* number = value.get_if<Float>()) {
      mydev_attribute attribute = float_attribute(name, number->value);
      if (number->type != nullptr) attribute.dtype = static_cast<uint16_t>(dtype_of(number->type->element));
      return attribute;
    }
    if (const auto* text = value.get_if<std::string>()) return text_attribute(entry.name, *text);
    if (const auto* literal = value.get_if<TensorLiteral>()) {
      const ElementType type = literal->type->element;
      mydev_attribute attribute{name,
                                MYDEV_ATTRIBUTE_ARRAY,
                                static_cast<uint16_t>(dtype_of(type)),
                                static_cast<uint32_t>(literal->bytes.size() / static_cast<size_t>(element_bytes(type))),
                                {}};
      attribute.value.data = literal->bytes.data();
      return attribute;
    }
    op_.fail(MYDEV_UNIMPLEMENTED, "attribute '", entry.name, "' is ", value.kind_name(),
             "; kernels take numbers, strings and arrays of numbers");
  }

  const Operation& op_;
  std::deque<std::string> names_;
  std::vector<mydev_attribute> attributes_;
};

// Functions of the versions before the typed one are registered for each of them: "<target>:<version>".
const mydev_kernel* find_target(const Operation& op, const std::string& target) {
  if (const mydev_kernel* kernel = find_kernel(target)) return kernel;
  const auto* version = op.get_if<CustomCallVersion>("api_version");
  if (version == nullptr) return nullptr;
  return find_kernel(target + ":" + std::to_string(static_cast<int>(*version)));
}

// For each operand or result, its dimensions from the major one on; empty where they are in order.
std::vector<Sizes> orders_of(const Operation& op, std::string_view attribute, size_t count) {
  std::vector<Sizes> orders(count);
  const auto* layouts = op.get_if<ArrayAttribute>(attribute);
  for (size_t i = 0; layouts != nullptr && i < std::min(count, layouts->size()); ++i) {
    const auto* literal = (*layouts)[i]->get_if<TensorLiteral>();
    if (literal == nullptr) continue;
    Sizes order = integers_of(*literal);  // from the minor one on
    std::ranges::reverse(order);
    if (!std::ranges::is_sorted(order)) orders[i] = std::move(order);
  }
  return orders;
}

// Gives a call's tensors, one for each of its result_types(), to its results.
void set_results(Frame& frame, const Operation& op, const std::vector<Tensor>& tensors) {
  size_t next = 0;
  for (const Value* result : op.results) {
    const size_t count = result->type->kind == TypeKind::kTuple ? result->type->inputs.size() : 1;
    const auto begin = tensors.begin() + static_cast<ptrdiff_t>(next);
    if (result->type->kind == TypeKind::kTuple) {
      frame.set_tuple(*result, {begin, begin + static_cast<ptrdiff_t>(count)});
    } else {
      frame.set(*result, *begin);
    }
    next += count;
  }
}

// A target that is computed without a kernel of its name.
bool lower_known_target(Frame& frame, const Operation& op, const std::string& target) {
  if (std::ranges::count(kIdentities, target) != 0 && op.operands.size() == op.results.size()) {
    for (size_t i = 0; i < op.results.size(); ++i) frame.set(op.result(i), frame[op.operand(i)]);
    return true;
  }
  if (target == "mhlo.erf" && op.operands.size() == 1 && has_float_kernels(op.operand(0).type->element)) {
    const Tensor& x = frame[op.operand(0)];
    frame.set(op.result(), frame.emit.pointwise("mydev.erf", x.view.dtype, {x}));
    return true;
  }
  Evaluation evaluation = make_evaluation_of_target(op);
  if (!evaluation) return false;
  std::vector<program::Operand> results, operands;
  std::vector<Tensor> tensors;
  for (const Value* operand : op.operands) operands.push_back(frame.view(*operand));
  for (const Type* type : op.result_types()) {
    results.push_back(frame.emit.temporary(dtype_of(type->element), type->dims));
    tensors.push_back({results.back(), std::nullopt});
  }
  set_results(frame, op, tensors);
  frame.context.host.launch(frame.emit, target, std::move(evaluation), std::move(results), std::move(operands));
  return true;
}

// Kernels know no layouts: memory in another order is given as if it were row-major.
program::Operand as_row_major(program::Operand memory, const Sizes& sizes) {
  return dense_reshaped(std::move(memory), sizes);
}

}  // namespace

bool lower_custom_call(Frame& frame, const Operation& op) {
  if (const ShardingCall call = sharding_call_of(op); call != ShardingCall::kNone) {
    lower_sharding_call(frame, op, call);
    return true;
  }
  const std::string& target = op.string("call_target_name");
  if (target == kApproxTopK) return false;
  const mydev_kernel* kernel = find_target(op, target);
  if (kernel == nullptr) {
    if (lower_known_target(frame, op, target)) return true;
    op.fail(MYDEV_UNIMPLEMENTED, "there is no kernel '", target,
            "' to call; load the library that has it (MYDEV_CUSTOM_CALLS)");
  }
  std::vector<program::Operand> results, operands;
  const std::vector<Sizes> operand_orders = orders_of(op, "operand_layouts", op.operands.size());
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Value& value = op.operand(i);
    if (!value.type->is_tensor()) continue;
    const program::Operand& view = frame.view(value);
    const Sizes& order = operand_orders[i];
    operands.push_back(order.empty() ? frame.emit.dense(view)
                                     : as_row_major(frame.emit.dense(transposed(view, order)), value.type->dims));
  }
  const std::vector<const Type*> types = op.result_types();
  const std::vector<Sizes> result_orders = orders_of(op, "result_layouts", types.size());
  std::vector<Tensor> tensors(types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    if (!types[i]->is_tensor()) continue;
    const Sizes &order = result_orders[i], &sizes = types[i]->dims;
    program::Operand memory = frame.emit.temporary(dtype_of(types[i]->element), sizes);
    results.push_back(memory);
    if (!order.empty()) {
      Sizes in_memory, back(order.size());
      for (const int64_t d : order) in_memory.push_back(sizes[static_cast<size_t>(d)]);
      for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
      memory = transposed(dense_reshaped(memory, in_memory), back);
    }
    tensors[i] = {memory, std::nullopt};
  }
  set_results(frame, op, tensors);
  const CallAttributes attributes(op);
  frame.emit.launch(kernel->name, std::move(results), std::move(operands), attributes.of(*kernel));
  return true;
}

}  // namespace mydev::lowering
