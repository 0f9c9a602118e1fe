// Extending torch_mydev from C++: kernels, operators, gradients and fallbacks of your own, in a library that Python
// loads with torch.ops.load_library. docs/extending.md walks through the marked parts;
// tests/custom_call/test_extending.py runs them.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include "aten/host/fallback.h"
#include "aten/launch/native_launch.h"

namespace {

using at::Tensor;

// [docs: kernel]
// A kernel sees buffers: outputs first, each with pointer, element type, sizes and strides. These are dense f32.
mydev_code squared_relu_kernel(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &x = frame->buffers[1];
  if (x.dtype != MYDEV_F32) return MYDEV_UNIMPLEMENTED;
  const auto* from = static_cast<const float*>(x.data);
  auto* to = static_cast<float*>(out.data);
  for (int64_t i = 0; i < x.sizes[0]; ++i) to[i] = from[i] > 0 ? from[i] * from[i] : 0;
  return MYDEV_OK;
}

const mydev_kernel kSquaredRelu = {
    sizeof(mydev_kernel), "example.squared_relu", squared_relu_kernel, nullptr, "out f32[n]; x f32[n]", nullptr};

const bool kernel_registered = (mydev::register_kernel(kSquaredRelu), true);
// [docs: end]

// [docs: operator]
Tensor squared_relu(const Tensor& x) {
  static mydev::KernelRef kernel("example.squared_relu");
  const mydev::Launchable* record = kernel.on(x);  // a driver may bring its own, or none
  if (record == nullptr || x.scalar_type() != at::kFloat) return at::relu(x).square();
  const Tensor flat = x.contiguous().view(-1);
  const Tensor out = mydev::empty_dense(flat.sizes(), flat);
  mydev::OpFrame<2>().add(out).add(flat).launch(*record, /*num_outputs=*/1);
  return out.view(x.sizes());
}

TORCH_LIBRARY(example, m) {
  m.def("squared_relu(Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(example, PrivateUse1, m) {
  m.impl("squared_relu", &squared_relu);
}
// [docs: end]

// [docs: gradient]
class SquaredRelu : public torch::autograd::Function<SquaredRelu> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x) {
    const at::AutoDispatchBelowADInplaceOrView below_autograd;
    context->save_for_backward({x});
    static const auto op =
        c10::Dispatcher::singleton().findSchemaOrThrow("example::squared_relu", "").typed<Tensor(const Tensor&)>();
    return op.call(x);
  }

  // Made of differentiable operators, so that the gradient has gradients too.
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grads) {
    const Tensor x = context->get_saved_variables()[0];
    return {grads[0] * 2 * at::relu(x)};
  }
};

TORCH_LIBRARY_IMPL(example, AutogradPrivateUse1, m) {
  m.impl("squared_relu", [](const Tensor& x) { return SquaredRelu::apply(x); });
}
// [docs: end]

// [docs: meta]
// Shapes without values: what torch.compile and FakeTensor run.
TORCH_LIBRARY_IMPL(example, Meta, m) {
  m.impl("squared_relu", [](const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); });
}
// [docs: end]

// [docs: existing-namespace]
// A namespace that another library defines is extended by a fragment. This operator is a composite: it works on every
// device, and differentiates through its parts.
TORCH_LIBRARY_FRAGMENT(mydev, m) {
  m.def("geglu(Tensor gate, Tensor up) -> Tensor",
        [](const Tensor& gate, const Tensor& up) { return at::gelu(gate) * up; });
}
// [docs: end]

// [docs: aten-operator]
// PyTorch's own operators are in the namespace aten: a kernel for the key PrivateUse1 replaces the fallback.
Tensor logit(const Tensor& x, std::optional<double> eps) {
  TORCH_CHECK_TYPE(x.is_floating_point(), "logit: expected a floating dtype, got ", x.scalar_type());
  const Tensor p = eps.has_value() ? x.clamp(*eps, 1 - *eps) : x;
  return p.log() - (-p).log1p();
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("logit", &logit);
}
// [docs: end]

// [docs: fallback]
// Only the CPU has a kernel of this operator. On the device the backend's global fallback takes it: nothing to
// register.
Tensor count_inversions(const Tensor& x) {
  const Tensor values = x.contiguous();
  const auto* data = values.const_data_ptr<float>();
  int64_t count = 0;
  for (int64_t i = 0; i < values.numel(); ++i) {
    for (int64_t j = i + 1; j < values.numel(); ++j) count += data[i] > data[j] ? 1 : 0;
  }
  return at::scalar_tensor(count, at::TensorOptions(at::kLong).device(x.device()));
}

// This one also has a composite for all devices, which would win over the global fallback. Registering the fallback for
// this very operator sends it to the CPU's kernel.
Tensor sum_of_squares(const Tensor& x) {
  return x.square().sum();
}
Tensor sum_of_squares_cpu(const Tensor& x) {
  return at::dot(x.reshape(-1), x.reshape(-1));
}

TORCH_LIBRARY_FRAGMENT(example, m) {
  m.def("count_inversions(Tensor x) -> Tensor");
  m.def("sum_of_squares(Tensor x) -> Tensor");
}
TORCH_LIBRARY_IMPL(example, CPU, m) {
  m.impl("count_inversions", &count_inversions);
  m.impl("sum_of_squares", &sum_of_squares_cpu);
}
TORCH_LIBRARY_IMPL(example, CompositeExplicitAutograd, m) {
  m.impl("sum_of_squares", &sum_of_squares);
}
TORCH_LIBRARY_IMPL(example, PrivateUse1, m) {
  m.impl("sum_of_squares", torch::CppFunction::makeFromBoxedFunction<&mydev::boxed_fallback>());
}
// [docs: end]

// [docs: fallthrough]
// A count has no gradient: autograd need not look at the operator at all.
TORCH_LIBRARY_IMPL(example, AutogradPrivateUse1, m) {
  m.impl("count_inversions", torch::CppFunction::makeFallthrough());
}
// [docs: end]

}  // namespace
