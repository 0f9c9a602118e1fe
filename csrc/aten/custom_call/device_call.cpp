#include "aten/custom_call/device_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <mutex>
#include <vector>

#include "aten/host/alias.h"
#include "aten/host/map_tensors.h"

namespace mydev {
namespace {

using at::Tensor;

// The device tensors behind one call's operands.
class DeviceOperands {
 public:
  // An operand that is not the device's memory stays as it is.
  Tensor to_device(const Tensor& host) {
    Tensor device = device_alias(host);
    if (!device.defined()) return host;
    operands_.emplace_back(device, host);
    return device;
  }
  // The operand itself where the operator returns one.
  Tensor to_host(const Tensor& device) const {
    for (const auto& [operand, host] : operands_) {
      if (operand.is_same(device)) return host;
    }
    return alias_of_result(device);
  }

 private:
  c10::SmallVector<std::pair<Tensor, Tensor>, 4> operands_;
};

// Maps the tensors in the last `count` values of the stack.
template <class Map>
void map_last(torch::jit::Stack& stack, size_t count, const Map& map) {
  for (size_t i = stack.size() - count; i < stack.size(); ++i) map_tensors(stack[i], map);
}

// Looks its operator up at each call, since the library that defined it may be gone, or have defined it anew.
class DeviceCall final : public c10::OperatorKernel {
 public:
  explicit DeviceCall(c10::OperatorName op) : op_(std::move(op)) {}

  void operator()(const c10::OperatorHandle& device_call, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = device_call.schema();
    TORCH_CHECK(inside_host_scope(), schema.name(), " runs inside compiled graphs only; call ", op_, " instead");
    const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(op_);
    TORCH_CHECK(op.has_value(), "a compiled graph calls ", op_, ", which is no longer defined; define it again, or ",
                "compile the function again without it");
    TORCH_CHECK(op->schema().arguments().size() == schema.arguments().size() &&
                    op->schema().returns().size() == schema.returns().size(),
                "a compiled graph calls ", op_, ", which has been defined anew as ", op->schema(),
                "; compile the function again");
    DeviceOperands operands;
    map_last(*stack, schema.arguments().size(), [&](const Tensor& tensor) { return operands.to_device(tensor); });
    op->callBoxed(stack);
    finish_device_work();
    map_last(*stack, schema.returns().size(), [&](const Tensor& tensor) { return operands.to_host(tensor); });
  }

 private:
  c10::OperatorName op_;
};

std::string device_call_name(const c10::OperatorName& op) {
  const size_t colons = op.name.find("::");
  return c10::str("mydev_call::", op.name.substr(0, colons), "_", op.name.substr(colons + 2), "_",
                  op.overload_name.empty() ? "default" : op.overload_name);
}

}  // namespace

std::string define_device_call(const std::string& name, const std::string& overload) {
  static std::mutex mutex;
  // Never freed: graphs hold the operators' names.
  static auto& defined = *new std::map<std::string, std::vector<c10::RegistrationHandleRAII>>;
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  const c10::OperatorHandle op = dispatcher.findSchemaOrThrow(name.c_str(), overload.c_str());
  const std::string base = device_call_name(op.operator_name());
  const std::lock_guard lock(mutex);
  // A schema that an earlier definition did not have gets a device call of its own.
  std::string call = base;
  for (int version = 2; defined.contains(call); ++version) {
    if (dispatcher.findSchemaOrThrow(call.c_str(), "").schema() == op.schema().cloneWithName(call, "")) return call;
    call = c10::str(base, "_", version);
  }
  auto& handles = defined[call];
  handles.push_back(dispatcher.registerDef(op.schema().cloneWithName(call, ""), "torch_mydev", op.getTags().vec()));
  // CompositeExplicitAutograd and not CPU, since factories have no operand to dispatch by.
  handles.push_back(dispatcher.registerImpl(
      {call, ""}, c10::DispatchKey::CompositeExplicitAutograd,
      c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<DeviceCall>(op.operator_name())), std::nullopt,
      nullptr, "torch_mydev"));
  return call;
}

}  // namespace mydev
