#include "aten/custom_call/device_call.h"

#include <ATen/core/dispatch/Dispatcher.h>

#include <map>
#include <mutex>
#include <vector>

#include "aten/host/alias.h"
#include "aten/launch/native_launch.h"

namespace mydev {
namespace {

using at::Tensor;
using c10::IValue;

// Tensors on their way to the device and back.
class Crossing {
 public:
  Tensor to_device(const Tensor& host) {
    if (!host.defined() || !host.is_cpu() || !host.has_storage()) return host;
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
    return on_device(device) ? host_alias(device) : device;
  }

 private:
  c10::SmallVector<std::pair<Tensor, Tensor>, 4> operands_;
};

template <class Map>
void map_value(IValue& value, const Map& map) {
  if (value.isTensor()) {
    value = map(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<Tensor> mapped;
    for (const Tensor& tensor : value.toTensorVector()) mapped.push_back(map(tensor));
    value = std::move(mapped);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<Tensor>> mapped;
    for (const std::optional<Tensor>& tensor : value.toOptionalTensorVector()) {
      mapped.push_back(tensor.has_value() ? std::optional(map(*tensor)) : std::nullopt);
    }
    value = std::move(mapped);
  }
}

// Maps the tensors in the last `count` values of the stack.
template <class Map>
void map_tensors(torch::jit::Stack& stack, size_t count, const Map& map) {
  for (size_t i = stack.size() - count; i < stack.size(); ++i) map_value(stack[i], map);
}

// Looks its operator up at each call, since the library that defined it may be gone, or have defined it anew.
class DeviceCall final : public c10::OperatorKernel {
 public:
  explicit DeviceCall(c10::OperatorName op) : op_(std::move(op)) {}

  void operator()(const c10::OperatorHandle& twin, c10::DispatchKeySet, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = twin.schema();
    TORCH_CHECK(inside_host_scope(), schema.name(), " runs inside compiled graphs only; call ", op_, " instead");
    const std::optional<c10::OperatorHandle> op = c10::Dispatcher::singleton().findSchema(op_);
    TORCH_CHECK(op.has_value(), "a compiled graph calls ", op_, ", which is no longer defined; define it again, or ",
                "compile the function again without it");
    TORCH_CHECK(op->schema().arguments().size() == schema.arguments().size() &&
                    op->schema().returns().size() == schema.returns().size(),
                "a compiled graph calls ", op_, ", which has been defined anew as ", op->schema(),
                "; compile the function again");
    Crossing crossing;
    map_tensors(*stack, schema.arguments().size(), [&](const Tensor& tensor) { return crossing.to_device(tensor); });
    op->callBoxed(stack);
    finish_device_work();
    map_tensors(*stack, schema.returns().size(), [&](const Tensor& tensor) { return crossing.to_host(tensor); });
  }

 private:
  c10::OperatorName op_;
};

std::string twin_name(const c10::OperatorName& op) {
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
  const std::string base = twin_name(op.operator_name());
  const std::lock_guard lock(mutex);
  // A schema that an earlier definition did not have gets a twin of its own.
  std::string twin = base;
  for (int version = 2; defined.contains(twin); ++version) {
    if (dispatcher.findSchemaOrThrow(twin.c_str(), "").schema() == op.schema().cloneWithName(twin, "")) return twin;
    twin = c10::str(base, "_", version);
  }
  auto& handles = defined[twin];
  handles.push_back(dispatcher.registerDef(op.schema().cloneWithName(twin, ""), "torch_mydev", op.getTags().vec()));
  // CompositeExplicitAutograd and not CPU, since factories have no operand to dispatch by.
  handles.push_back(dispatcher.registerImpl(
      {twin, ""}, c10::DispatchKey::CompositeExplicitAutograd,
      c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<DeviceCall>(op.operator_name())), std::nullopt,
      nullptr, "torch_mydev"));
  return twin;
}

}  // namespace mydev
