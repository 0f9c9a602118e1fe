// Gradients of the operators of custom calls, from the records (mydev_gradient).
//
// One node for all of them. Backward calls the gradient kernel's own operator, so that a gradient that has a gradient
// can be differentiated again, and so that what torch.compile traces is that operator. A derivative that the record
// does not have is an error when backward asks for it, never a zero.
//
// A kernel that computes element by element by an expression needs no gradient kernel: backward differentiates
// PyTorch's operators that compute the same.
#include <torch/csrc/autograd/VariableTypeUtils.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include "aten/custom_call/custom_operator.h"
#include "aten/custom_call/expression_operators.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

using at::Tensor;
using torch::autograd::SavedVariable;
using torch::autograd::variable_list;
using torch::jit::Stack;

bool is_differentiable(const Tensor& tensor) {
  return tensor.defined() && (tensor.is_floating_point() || tensor.is_complex());
}

// The gradient kernel's operator. Its library may have been loaded just now.
c10::OperatorHandle gradient_operator(const mydev_kernel& kernel) {
  const char* name = kernel.gradient->kernel;
  const mydev_kernel* gradient = find_kernel(name);
  MYDEV_CHECK(gradient != nullptr, MYDEV_NOT_FOUND, "the gradient of kernel '", kernel.name, "' is kernel '", name,
              "', which there is not; load its library");
  MYDEV_CHECK(gradient->signature != nullptr, MYDEV_UNIMPLEMENTED, "the gradient of kernel '", kernel.name,
              "' is kernel '", name, "', which has no signature");
  const std::string full_name = "mydev_cc::" + operator_name(*gradient);
  sync_custom_operators();
  const auto handle = c10::Dispatcher::singleton().findSchema({full_name, ""});
  MYDEV_CHECK(handle.has_value(), MYDEV_NOT_FOUND, "kernel '", name, "', the gradient of '", kernel.name,
              "', has no operator: another kernel has taken its name");
  return *handle;
}

class CustomCallBackward final : public torch::autograd::Node {
 public:
  CustomCallBackward(const mydev_kernel& kernel, std::vector<c10::IValue> attributes)
      : kernel_(kernel),
        attributes_(std::move(attributes)),
        by_expression_(kernel.gradient == nullptr && compiled_signature(kernel)->is_pointwise()),
        saved_(kernel.gradient != nullptr ? kernel.gradient->num_saved : 0) {}

  std::string name() const override { return std::string("CustomCallBackward<") + kernel_.name + ">"; }

  // The operands that the gradient needs, before the kernel has run.
  void save_operands(const variable_list& operands) {
    if (by_expression_) {
      for (const Tensor& operand : operands) saved_.emplace_back(operand, /*is_output=*/false);
      return;
    }
    for (size_t i = 0; i < saved_.size(); ++i) {
      const int32_t value = kernel_.gradient->saved[i];
      if (value < 0) continue;
      const auto operand = static_cast<size_t>(value);
      if (is_variadic(*kernel_.signature->operands[operand])) {
        saves_variadic_ = true;
        for (size_t k = operand; k < operands.size(); ++k) saved_variadic_.emplace_back(operands[k], false);
      } else {
        saved_[i] = SavedVariable(operands[operand], /*is_output=*/false);
      }
    }
  }
  // The results that the gradient needs, once they have their history.
  void save_results(c10::ArrayRef<Tensor> results) {
    if (by_expression_) return;
    for (size_t i = 0; i < saved_.size(); ++i) {
      const int32_t value = kernel_.gradient->saved[i];
      if (value < 0) saved_[i] = SavedVariable(results[static_cast<size_t>(-1 - value)], /*is_output=*/true);
    }
  }

  void release_variables() override {
    const std::lock_guard lock(mutex_);
    for (SavedVariable& variable : saved_) variable.reset_data();
    for (SavedVariable& variable : saved_variadic_) variable.reset_data();
    released_ = true;
  }

  variable_list apply(variable_list&& grads) override {
    const CustomCallErrors errors;
    if (by_expression_) return differentiate_expression(grads);
    check_derivatives();
    if (std::none_of(grads.begin(), grads.end(), [](const Tensor& grad) { return grad.defined(); })) {
      return variable_list(num_outputs());
    }
    const mydev_gradient& gradient = *kernel_.gradient;
    const c10::OperatorHandle op = gradient_operator(kernel_);
    Stack stack;
    c10::List<Tensor> variadic;
    {
      const auto self = c10::intrusive_ptr<Node>::reclaim_copy(this);
      const std::lock_guard lock(mutex_);
      TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
      for (size_t i = 0; i < saved_.size(); ++i) {
        if (!is_variadic_operand(gradient.saved[i])) push(stack, saved_[i].unpack(self));
      }
      for (const SavedVariable& variable : saved_variadic_) variadic.push_back(variable.unpack(self));
    }
    for (size_t i = 0; i < grads.size(); ++i) {
      push(stack, grads[i].defined() ? std::move(grads[i]) : input_metadata(i).zeros_like());
    }
    if (saves_variadic_) stack.emplace_back(std::move(variadic));
    push_attributes(op.schema(), stack);
    op.callBoxed(&stack);
    TORCH_CHECK(stack.size() == gradient.num_wrt, "kernel '", gradient.kernel, "' has ", stack.size(),
                " results, but as the gradient of '", kernel_.name, "' it needs ", gradient.num_wrt);
    variable_list result(num_outputs());
    for (uint32_t i = 0; i < gradient.num_wrt; ++i) {
      const auto operand = static_cast<size_t>(gradient.wrt[i]);
      std::vector<Tensor> parts =
          stack[i].isTensorList() ? stack[i].toTensorVector() : std::vector<Tensor>{stack[i].toTensor()};
      const size_t expected = is_variadic_operand(gradient.wrt[i]) ? num_outputs() - operand : 1;
      TORCH_CHECK(stack[i].isTensorList() == is_variadic_operand(gradient.wrt[i]) && parts.size() == expected,
                  "kernel '", gradient.kernel, "', the gradient of '", kernel_.name, "', gives ", parts.size(),
                  " gradients for operand '", kernel_.signature->operands[operand]->name, "', which has ", expected,
                  "; a variadic operand needs a variadic result");
      for (size_t k = 0; k < expected; ++k) {
        if (task_should_compute_output(operand + k)) result[operand + k] = std::move(parts[k]);
      }
    }
    return result;
  }

 private:
  // Differentiates anew, with a graph of its own for each call. Operands that were computed from one another count as
  // apart here.
  variable_list differentiate_expression(const variable_list& grads) {
    const bool again = at::GradMode::is_enabled();  // the gradient is differentiated in turn
    const at::AutoGradMode recording(true);
    variable_list operands, wanted;
    for (size_t i = 0; i < saved_.size(); ++i) {
      Tensor operand = unpack(i);
      if (operand.defined()) operand = again ? operand.view_as(operand) : operand.detach();
      if (task_should_compute_output(i)) {
        if (!again) operand.requires_grad_();
        wanted.push_back(operand);
      }
      operands.push_back(std::move(operand));
    }
    variable_list results, given;
    const std::vector<Tensor> computed = compute_expression(*compiled_signature(kernel_)->text, operands, attributes_);
    for (size_t i = 0; i < computed.size(); ++i) {
      if (!grads[i].defined() || !computed[i].requires_grad()) continue;
      results.push_back(computed[i]);
      given.push_back(grads[i]);
    }
    variable_list found(num_outputs());
    if (results.empty() || wanted.empty()) return found;
    variable_list gradients = torch::autograd::grad(results, wanted, given, /*retain_graph=*/again,
                                                    /*create_graph=*/again, /*allow_unused=*/true);
    for (size_t i = 0, next = 0; i < found.size(); ++i) {
      if (task_should_compute_output(i)) found[i] = std::move(gradients[next++]);
    }
    return found;
  }
  Tensor unpack(size_t i) {
    const auto self = c10::intrusive_ptr<Node>::reclaim_copy(this);
    const std::lock_guard lock(mutex_);
    TORCH_CHECK(!released_, torch::autograd::ERR_BACKWARD_TWICE);
    return saved_[i].unpack(self);
  }

  bool is_variadic_operand(int32_t value) const {
    return value >= 0 && is_variadic(*kernel_.signature->operands[value]);
  }

  static void push(Stack& stack, Tensor tensor) {
    if (tensor.defined()) {
      stack.emplace_back(std::move(tensor));
    } else {
      stack.emplace_back();  // an optional operand that was absent
    }
  }

  // Raises for an operand whose derivative is asked for and that the record does not have.
  void check_derivatives() const {
    const mydev_signature& signature = *kernel_.signature;
    MYDEV_CHECK(kernel_.gradient != nullptr, MYDEV_UNIMPLEMENTED, "kernel '", kernel_.name,
                "' has no gradient: its record names none; give it one, or wrap the call in torch.autograd.Function");
    const std::span wrt(kernel_.gradient->wrt, kernel_.gradient->num_wrt);
    for (size_t i = 0; i < num_outputs(); ++i) {
      if (!task_should_compute_output(i)) continue;
      const uint32_t operand = operand_of_input(signature, static_cast<uint32_t>(i));
      MYDEV_CHECK(std::find(wrt.begin(), wrt.end(), static_cast<int32_t>(operand)) != wrt.end(), MYDEV_UNIMPLEMENTED,
                  "kernel '", kernel_.name, "' has no gradient for operand '", signature.operands[operand]->name,
                  "'; detach it, or give the record one");
    }
  }

  void push_attributes(const c10::FunctionSchema& schema, Stack& stack) const {
    const mydev_signature& signature = *kernel_.signature;
    const auto& arguments = schema.arguments();
    TORCH_CHECK(
        stack.size() <= arguments.size() && (stack.size() == arguments.size() || arguments[stack.size()].kwarg_only()),
        "kernel '", kernel_.gradient->kernel, "', the gradient of '", kernel_.name, "', is given ", stack.size(),
        " operands: the saved values, then a gradient per result of floating type; its schema is ", schema);
    for (size_t i = stack.size(); i < arguments.size(); ++i) {
      const c10::IValue* value = nullptr;
      for (uint32_t a = 0; a < signature.num_attributes; ++a) {
        if (arguments[i].name() == signature.attributes[a]->value.name) value = &attributes_[a];
      }
      if (value == nullptr && arguments[i].default_value().has_value()) value = &*arguments[i].default_value();
      TORCH_CHECK(value != nullptr, "kernel '", kernel_.gradient->kernel, "' needs attribute '", arguments[i].name(),
                  "', which '", kernel_.name, "', whose gradient it is, does not have");
      stack.push_back(*value);
    }
  }

  const mydev_kernel& kernel_;
  const std::vector<c10::IValue> attributes_;
  const bool by_expression_;                   // then all operands are saved
  std::vector<SavedVariable> saved_;           // by their places in the record's list
  std::vector<SavedVariable> saved_variadic_;  // the buffers of a variadic operand
  bool saves_variadic_ = false;
  bool released_ = false;
};

// The tensors among the operands, one per node output: an undefined one for an absent operand.
variable_list operands_of(const mydev_signature& signature, c10::ArrayRef<c10::IValue> arguments) {
  variable_list operands;
  for (uint32_t i = 0; i < signature.num_operands; ++i) {
    if (arguments[i].isTensorList()) {
      for (const Tensor& tensor : arguments[i].toTensorList()) operands.push_back(tensor);
    } else {
      operands.push_back(arguments[i].isTensor() ? arguments[i].toTensor() : Tensor());
    }
  }
  return operands;
}

}  // namespace

void record_custom_operator(CustomOperator& op, const c10::OperatorHandle& handle, c10::DispatchKeySet keys,
                            Stack* stack) {
  const CustomCallErrors errors;
  const mydev_kernel& kernel = op.record();
  const mydev_signature& signature = *kernel.signature;
  const c10::ArrayRef<c10::IValue> arguments =
      torch::jit::last(*stack, signature.num_operands + signature.num_attributes);
  const variable_list operands = operands_of(signature, arguments);
  for (const Tensor& operand : operands) {
    TORCH_CHECK_NOT_IMPLEMENTED(!operand.defined() || !torch::autograd::isFwGradDefined(operand), "kernel '",
                                kernel.name, "' has no forward-mode derivative");
  }
  std::vector<Tensor> written;
  for (uint32_t i = 0; i < signature.num_results; ++i) {
    if (signature.results[i]->alias >= 0) written.push_back(operands[static_cast<size_t>(signature.results[i]->alias)]);
  }
  c10::intrusive_ptr<CustomCallBackward> node;
  if (at::GradMode::is_enabled() && torch::autograd::any_variable_requires_grad(operands)) {
    for (const Tensor& tensor : written) torch::autograd::check_inplace(tensor, /*requires_grad=*/true);
    node = c10::make_intrusive<CustomCallBackward>(kernel, arguments.slice(signature.num_operands).vec());
    node->set_next_edges(torch::autograd::collect_next_edges(operands));
    node->save_operands(operands);
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    handle.redispatchBoxed(keys & c10::after_autograd_keyset, stack);
  }
  for (const Tensor& tensor : written) {
    if (!tensor.is_inference()) torch::autograd::impl::bump_version(tensor);
  }
  if (!node) return;
  const uint32_t num_single = num_single_results(signature);
  variable_list results(num_single);
  auto position = stack->size();
  if (has_variadic_result(signature)) {
    for (const Tensor& tensor : (*stack)[--position].toTensorVector()) results.push_back(tensor);
  }
  for (uint32_t i = num_single; i-- > 0;) {
    const int32_t alias = signature.results[i]->alias;
    results[i] = alias >= 0 ? operands[static_cast<size_t>(alias)] : (*stack)[--position].toTensor();
  }
  for (uint32_t i = 0; i < results.size(); ++i) {
    if (!is_differentiable(results[i])) continue;
    if (result_of_output(signature, i).alias >= 0) {
      torch::autograd::rebase_history(results[i], node);
    } else {
      torch::autograd::set_history(results[i], node);
    }
  }
  node->save_results(results);
}

}  // namespace mydev
