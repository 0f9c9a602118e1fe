// Stub kernels: special functions through PyTorch's own structured classes and dispatch stubs.
//
// Many ops of PyTorch are a structured class (shapes, types, iterator) that ends in a dispatch stub, a table with one
// kernel per device type. A backend that registers a kernel in the stub and sends the op to the class gets everything
// around the loop for nothing: broadcasting, out=, in place, memory overlap checks, error messages. The kernels
// registered here are the CPU's, run over the device's own memory where the host can reach it, so they count in the
// census under the name of their op. `python tools/list_stubs.py` prints the stubs that the installed torch offers.
//
// The iterator converts element types on the CPU only: operands of mixed types, and devices whose memory the host
// cannot reach, go to the op's CPU kernel through HostOp instead.
#include <ATen/NativeFunctions.h>
#include <ATen/Operators.h>
#include <ATen/native/BinaryOps.h>
#include <ATen/native/Resize.h>
#include <ATen/native/UnaryOps.h>
#include <torch/library.h>

#include <chrono>

#include "aten/core/operator_policy.h"
#include "aten/host/host_op.h"
#include "aten/launch/native_launch.h"
#include "aten/trace/dispatch_trace.h"

namespace mydev {
namespace {

using at::Tensor;

// [docs: structured]
// A structured class whose output is fresh (given none) or the caller's.
template <class Structured>
class WithOutput final : public Structured {
 public:
  WithOutput() = default;
  explicit WithOutput(const Tensor& given) : output_(given), given_(true) {}

  void set_output_raw_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                              c10::TensorOptions options) override {
    if (!given_) {
      const c10::ScalarType dtype = c10::typeMetaToScalarType(options.dtype());
      output_ = strides.empty() ? empty_dense(sizes, dtype, options.device())
                                : empty_strided_on(sizes, strides, dtype, options.device());
      if (strides.empty()) restride(options);
    } else if (at::native::resize_output(output_, sizes)) {
      strides.empty() ? restride(options) : void(output_.as_strided_(sizes, strides));
    }
    Structured::set_output_raw_strided(index, sizes, strides, options);
  }
  void set_output_strided(int64_t index, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                          c10::TensorOptions options) override {
    set_output_raw_strided(index, sizes, strides, options);
  }
  const Tensor& maybe_get_output(int64_t /*index*/) override { return output_; }

 private:
  // Without strides, the options say how the output is laid out.
  void restride(const c10::TensorOptions& options) {
    const auto format = options.memory_format_opt();
    if (format.has_value()) output_.unsafeGetTensorImpl()->empty_tensor_restride(*format);
  }

  Tensor output_;
  bool given_ = false;
};
// [docs: end]

bool stub_takes(const Tensor& first, std::initializer_list<std::reference_wrapper<const Tensor>> others) {
  const auto same = [&](const Tensor& other) {
    return other.device() == first.device() && other.scalar_type() == first.scalar_type();
  };
  return on_device(first) && first.is_floating_point() && device(first.device().index()).host_accessible() &&
         std::all_of(others.begin(), others.end(), [&](const Tensor& other) { return same(other); });
}

// Runs the class over the operands, counted under the name of Op.
template <class Op, class Structured, class... Inputs>
Tensor run(WithOutput<Structured> op, const Inputs&... inputs) {
  FallbackRecord& record = host_op_record<Op>();
  record.enter();
  const auto begin = std::chrono::steady_clock::now();
  op.meta(inputs...);
  {
    const TraceRedispatch trace(record.name(), c10::DispatchKey::CPU);
    op.impl(inputs..., op.maybe_get_output(0));
  }
  record.leave(std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count(),
               0, 0);
  return op.maybe_get_output(0);
}

// The three forms of one op, as kernels for the dispatcher.
template <class Structured, class Op, class Schema = typename Op::schema>
struct Functional;
template <class Structured, class Op, class... Inputs>
struct Functional<Structured, Op, Tensor(Inputs...)> {
  static Tensor call(Inputs... inputs) {
    return stub_takes(std::get<0>(std::tie(inputs...)), {inputs...}) ? run<Op>(WithOutput<Structured>(), inputs...)
                                                                     : HostOp<Op>::call(inputs...);
  }
};

template <class Structured, class Op, class Schema = typename Op::schema>
struct Out;
template <class Structured, class Op>
struct Out<Structured, Op, Tensor&(const Tensor&, Tensor&)> {
  static Tensor& call(const Tensor& self, Tensor& out) {
    if (!stub_takes(self, {out})) return HostOp<Op>::call(self, out);
    run<Op>(WithOutput<Structured>(out), self);
    return out;
  }
};
template <class Structured, class Op>
struct Out<Structured, Op, Tensor&(const Tensor&, const Tensor&, Tensor&)> {
  static Tensor& call(const Tensor& self, const Tensor& other, Tensor& out) {
    if (!stub_takes(self, {other, out})) return HostOp<Op>::call(self, other, out);
    run<Op>(WithOutput<Structured>(out), self, other);
    return out;
  }
};

template <class Structured, class Op, class Schema = typename Op::schema>
struct InPlace;
template <class Structured, class Op, class... Others>
struct InPlace<Structured, Op, Tensor&(Tensor&, Others...)> {
  static Tensor& call(Tensor& self, Others... others) {
    if (!stub_takes(self, {others...})) return HostOp<Op>::call(self, others...);
    run<Op>(WithOutput<Structured>(self), self, others...);
    return self;
  }
};

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  const auto add = [&m](const char* name, const char* overload, torch::CppFunction&& kernel) {
    m.impl(overload[0] == '\0' ? std::string(name).c_str() : (std::string(name) + "." + overload).c_str(),
           std::move(kernel));
  };
#define MYDEV_ADD(form, op, structured)                \
  add(at::_ops::op::name, at::_ops::op::overload_name, \
      torch::CppFunction(&form<at::native::structured, at::_ops::op>::call));
#define MYDEV_ADD_STUB(op, stub)                   \
  MYDEV_ADD(Functional, op, structured_##op##_out) \
  MYDEV_ADD(Out, op##_out, structured_##op##_out)
#define MYDEV_ADD_IN_PLACE(op, stub) MYDEV_ADD(InPlace, op##_, structured_##op##_out)
  MYDEV_IN_PLACE_STUBS(MYDEV_ADD_STUB)
  MYDEV_IN_PLACE_STUBS(MYDEV_ADD_IN_PLACE)
  MYDEV_OTHER_STUBS(MYDEV_ADD_STUB)
#undef MYDEV_ADD_IN_PLACE
#undef MYDEV_ADD_STUB
#undef MYDEV_ADD
}

}  // namespace
}  // namespace mydev

// The kernels: the CPU's own, on the device's memory, after the work that it depends on.
namespace at::native {
// [docs: register]
#define MYDEV_REGISTER_STUB(op, stub)                                                         \
  static void op##_on_device(TensorIteratorBase& iterator) {                                  \
    const mydev::HostScope scope(iterator.device(iterator.noutputs()).index(), "aten::" #op); \
    stub(c10::kCPU, iterator);                                                                \
  }                                                                                           \
  REGISTER_PRIVATEUSE1_DISPATCH(stub, &op##_on_device)
MYDEV_IN_PLACE_STUBS(MYDEV_REGISTER_STUB)
MYDEV_OTHER_STUBS(MYDEV_REGISTER_STUB)
#undef MYDEV_REGISTER_STUB
// [docs: end]
}  // namespace at::native
