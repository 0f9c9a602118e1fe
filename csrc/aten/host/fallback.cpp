#include "aten/host/fallback.h"

#include <torch/library.h>

#include <array>
#include <string_view>

#include "aten/core/device_type.h"
#include "aten/host/composition.h"
#include "aten/host/host_call.h"
#include "aten/host/map_tensors.h"

namespace mydev {
namespace {

using c10::IValue;

// Indexing takes index tensors from the CPU, as CUDA does.
bool takes_cpu_operands(const c10::OperatorHandle& op) {
  const std::string_view name = op.schema().name();
  return name == "aten::index" || name == "aten::index_put" || name == "aten::index_put_" ||
         name == "aten::_index_put_impl_" || name == "aten::_unsafe_index" || name == "aten::_unsafe_index_put";
}

// Batch normalisation updates its running statistics, and two of its schemas do not say so.
bool hides_writes(const c10::FunctionSchema& schema) {
  return schema.name() == "aten::native_batch_norm" || schema.name() == "aten::batch_norm_update_stats";
}

bool is_written(const c10::FunctionSchema& schema, const c10::Argument& argument) {
  if (argument.alias_info() != nullptr) return argument.alias_info()->isWrite();
  return argument.name().starts_with("running_") && hides_writes(schema);
}

bool is_view(const c10::Argument& result) {
  return result.alias_info() != nullptr && !result.alias_info()->isWrite();
}

// Replaces the tensors among the arguments on the stack by their staging tensors.
void map_arguments(const c10::FunctionSchema& schema, HostCall& call, torch::jit::Stack& stack) {
  const auto& arguments = schema.arguments();
  const size_t base = stack.size() - arguments.size();
  std::optional<size_t> generator;
  for (size_t i = 0; i < arguments.size(); ++i) {
    IValue& value = stack[base + i];
    const bool written = is_written(schema, arguments[i]);
    call.begin_argument();
    if (value.isTensor() || value.isTensorList() || is_optional_tensor_list(value)) {
      const bool list = value.isTensorList();
      map_tensors(value, [&](const at::Tensor& tensor) {
        at::Tensor host = call.operand(tensor, written);
        // For lists, no kernel of autograd's counts the write; the CPU's kernel counts it on the staging tensor.
        if (list && written && on_device(tensor)) tensor.unsafeGetTensorImpl()->bump_version();
        return host;
      });
    } else if (value.isStorage()) {
      value = call.operand(value.toStorage());
    } else if (value.isDevice()) {
      call.set_device(value.toDevice());
      value = c10::Device(c10::kCPU);
    } else if (value.isGenerator() || (value.isNone() && arguments[i].name() == "generator")) {
      generator = base + i;
    }
  }
  if (!generator.has_value()) return;
  IValue& value = stack[*generator];
  value = value.isNone() ? call.default_generator() : call.operand(value.toGenerator());
}

void map_results(const c10::FunctionSchema& schema, HostCall& call, torch::jit::Stack& stack) {
  const auto& returns = schema.returns();
  const size_t base = stack.size() - returns.size();
  for (size_t i = 0; i < returns.size(); ++i) {
    map_tensors(stack[base + i],
                [&](at::Tensor result) { return call.to_device(std::move(result), is_view(returns[i])); });
  }
}

// Tensors that are made of dense ones, by their key: they have kernels of their own, of which the CPU has some.
struct ComposedKind {
  c10::DispatchKey key, host;
  const char *name, *instead;
};
constexpr ComposedKind kComposedKinds[] = {
    {c10::DispatchKey::SparseCsr, c10::DispatchKey::SparseCsrCPU, "compressed sparse",
     "convert them with to_dense(), or use their values()"},
    {c10::DispatchKey::Sparse, c10::DispatchKey::SparseCPU, "sparse COO",
     "convert them with to_dense(), or use their values()"},
    {c10::DispatchKey::NestedTensor, c10::DispatchKey::NestedTensorCPU, "nested",
     "convert them with to_padded_tensor(), or unbind() them"},
    {c10::DispatchKey::Quantized, c10::DispatchKey::QuantizedCPU, "quantized", "dequantize() them"},
};
constexpr c10::DispatchKeySet kComposedKeys({c10::DispatchKey::SparseCsr, c10::DispatchKey::Sparse,
                                             c10::DispatchKey::NestedTensor, c10::DispatchKey::Quantized});

void check_composed_kernel(const c10::OperatorHandle& op, c10::DispatchKeySet keys) {
  for (const ComposedKind& kind : kComposedKinds) {
    if (!keys.has(kind.key)) continue;
    TORCH_CHECK_NOT_IMPLEMENTED(op.hasComputedKernelForDispatchKey(kind.host), op.operator_name(), ": neither ",
                                kDeviceType, " nor the CPU has a kernel for ", kind.name, " tensors; ", kind.instead);
    return;
  }
}

bool compose(const c10::OperatorHandle& op, FallbackRecord& record, torch::jit::Stack* stack) {
  if (!record.is_composed()) return false;
  TraceRedispatch trace(record.name(), c10::DispatchKey::CompositeExplicitAutograd);
  if (!run_composition(op, stack)) return false;
  record.count_composition();
  return true;
}

void fall_back(const c10::OperatorHandle& op, FallbackRecord& record, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) {
  const bool composed = keys.has_any(kComposedKeys);
  if (!composed && compose(op, record, stack)) return;
  if (C10_UNLIKELY(composed)) check_composed_kernel(op, keys);
  HostCall call(record);
  if (C10_UNLIKELY(takes_cpu_operands(op))) call.allow_cpu_operands();
  map_arguments(op.schema(), call, *stack);
  {
    HostCall::Running running(call);
    if (C10_UNLIKELY(composed)) {
      op.callBoxed(stack);  // by the staging tensors' keys
    } else {
      op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    }
  }
  call.write_back();
  map_results(op.schema(), call, *stack);
}

// The fallback of one op: knows its record.
class OpFallback final : public c10::OperatorKernel {
 public:
  explicit OpFallback(FallbackRecord& record) : record_(record) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    fall_back(op, record_, keys, stack);
  }

 private:
  FallbackRecord& record_;
};

// A composite that works on the CPU and CUDA only, and says so.
bool refuses_other_devices(const c10::OperatorHandle& op) {
  return op.operator_name() == c10::OperatorName("aten::mode", "values");
}

// The kernels of the CPU that win against composites, and where they are called from.
struct HostKernels {
  c10::DispatchKey device, host;
  bool wins(const c10::OperatorHandle& op) const {
    using c10::DispatchKey;
    if (host == DispatchKey::CPU && refuses_other_devices(op)) return true;
    return op.hasKernelForDispatchKey(host) && !op.hasKernelForDispatchKey(device) &&
           (host != DispatchKey::CPU || op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
            op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional));
  }
};

constexpr HostKernels kHostKernels[] = {
    {kDispatchKey, c10::DispatchKey::CPU},
    {c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCPU},
    {c10::DispatchKey::SparseCsrPrivateUse1, c10::DispatchKey::SparseCsrCPU},
    {c10::DispatchKey::NestedTensorPrivateUse1, c10::DispatchKey::NestedTensorCPU},
    {c10::DispatchKey::QuantizedPrivateUse1, c10::DispatchKey::QuantizedCPU},
};

}  // namespace

void boxed_fallback(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  fall_back(op, fallback_record(op), keys, stack);
}

const c10::BoxedKernel& boxed_fallback_kernel() {
  static const c10::BoxedKernel kernel = c10::BoxedKernel::makeFromFunction<&boxed_fallback>();
  return kernel;
}

const c10::OperatorHandle& immortal_op(const char* name, const char* overload) {
  return *new c10::OperatorHandle(c10::Dispatcher::singleton().findSchemaOrThrow(name, overload));
}

void register_fallbacks() {
  static std::array<torch::Library*, std::size(kHostKernels)> libraries;
  for (size_t i = 0; i < libraries.size(); ++i) {
    libraries[i] = new torch::Library(torch::Library::IMPL, "aten", kHostKernels[i].device, __FILE__, __LINE__);
  }
  register_host_ops(*libraries[0]);
  c10::Dispatcher& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findOp(name);
    if (!op.has_value() || !op->hasSchema()) continue;
    const auto record = [&]() -> FallbackRecord& {
      return fallback_record(name.name.c_str(), name.overload_name.c_str());
    };
    if (is_composed(*op)) record().set_composed();
    for (size_t i = 0; i < libraries.size(); ++i) {
      if (!kHostKernels[i].wins(*op)) continue;
      libraries[i]->impl(c10::toString(name).c_str(),
                         torch::CppFunction::makeFromBoxedFunctor(std::make_unique<OpFallback>(record())));
    }
  }
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

TORCH_LIBRARY_IMPL(_, NestedTensorPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

TORCH_LIBRARY_IMPL(_, QuantizedPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&boxed_fallback>());
}

}  // namespace mydev
