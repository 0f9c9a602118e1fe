// Functional and in-place forms of a structured operator, made of the kernel for its out= form: core's own composition
// computes the result's dtype, sizes and strides, raises what the CPU raises, and calls the out= form.
//
//   register_native<at::_ops::cumsum_out, &cumsum_out>(m);
//   register_composed_forms<cumsum_kernel, at::_ops::cumsum, at::_ops::cumsum_>(m);
#pragma once

#include "aten/host/composition.h"
#include "aten/host/native_or_host.h"

namespace mydev {
namespace detail {

template <class Op, KernelRef& kernel, class Schema = typename Op::schema>
struct ComposedForm;
template <class Op, KernelRef& kernel, class Result, class Self, class... Args>
struct ComposedForm<Op, kernel, Result(Self, Args...)> {
  using Native = std::conditional_t<std::is_reference_v<Result>, at::Tensor*, std::optional<at::Tensor>>;
  static Native try_native(Self self, Args... args) {
    if (!on_device(self) || kernel.on(self) == nullptr) return {};
    if constexpr (std::is_reference_v<Result>) {
      return &Op::redispatch(kCompositionKeys, self, std::forward<Args>(args)...);
    } else {
      return Op::redispatch(kCompositionKeys, self, std::forward<Args>(args)...);
    }
  }
};

}  // namespace detail

// For each of the ops, where the device has the kernel; elsewhere they fall back.
template <KernelRef& kernel, class... Ops>
void register_composed_forms(torch::Library& library) {
  (register_native<Ops, &detail::ComposedForm<Ops, kernel>::try_native>(library), ...);
}

}  // namespace mydev
