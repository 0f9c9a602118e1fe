// An op as a native kernel with the CPU's kernel behind it.
//
//   std::optional<at::Tensor> try_native(const at::Tensor& self, int64_t dim, bool keepdim);
//   register_native<at::_ops::argmax, &try_native>(m);
//
// The function takes the op's arguments and either launches and returns the op's result, or returns empty, and then the
// op runs through the fallback, counted in the census. So it holds the common cases and refuses all others, wrong
// arguments among them: the CPU's kernel raises the CPU's own error. For ops that return a reference it returns a
// pointer; for ops that return nothing, a bool.
//
// A kernel may decline what it is given when it is launched, since a driver's own record takes what it takes
// (KernelDeclined, kernels/launch). Then, too, the op falls back, and the census keeps the reason; so a function
// launches before it changes anything that the fallback would read.
#pragma once

#include <ATen/ops/native_batch_norm_ops.h>
#include <torch/library.h>

#include <string>
#include <type_traits>

#include "aten/host/fallback.h"
#include "aten/host/host_op.h"
#include "aten/launch/native_launch.h"

namespace mydev {

// Returns the result of `native`, or something empty if a kernel declined; the record of Op then holds the reason.
template <class Op, class Native>
C10_ALWAYS_INLINE auto try_kernels(const Native& native) -> decltype(native()) {
  try {
    return native();
  } catch (const KernelDeclined& declined) {
    host_op_record<Op>().note_declined(declined.what());
    return {};
  }
}

namespace detail {

template <class T>
inline constexpr bool needs_boxing =
    std::is_same_v<T, at::TensorList> || std::is_same_v<T, const at::ITensorListRef&> ||
    std::is_same_v<T, std::optional<at::Generator>> || std::is_same_v<T, at::ArrayRef<at::Scalar>> ||
    std::is_same_v<T, const c10::List<std::optional<at::Tensor>>&>;

// Ops whose schema does not say which of their arguments they write; the boxed fallback knows.
template <class Op>
inline constexpr bool hides_writes = std::is_same_v<Op, at::_ops::native_batch_norm>;

template <class Op, class... Args>
typename std::invoke_result_t<decltype(&Op::call), Args...> fall_back(Args&&... args) {
  if constexpr ((hides_writes<Op> || ... || needs_boxing<Args>)) {
    return BoxedFallback<Op>::call(std::forward<Args>(args)...);
  } else {
    return HostOp<Op>::call(std::forward<Args>(args)...);
  }
}

template <class Op, auto try_native, class Schema = typename Op::schema>
struct NativeOrHost;

template <class Op, auto try_native, class Result, class... Args>
struct NativeOrHost<Op, try_native, Result(Args...)> {
  static Result call(Args... args) {
    if (auto result = try_kernels<Op>([&] { return try_native(args...); })) {
      if constexpr (std::is_void_v<Result>) {
        return;
      } else {
        return *std::move(result);
      }
    }
    return fall_back<Op, Args...>(std::forward<Args>(args)...);
  }
};

template <class Op, auto function, class Schema = typename Op::schema>
struct WithFallback;

template <class Op, auto function, class Result, class... Args>
struct WithFallback<Op, function, Result(Args...)> {
  static Result call(Args... args) {
    try {
      return function(args...);
    } catch (const KernelDeclined& declined) {
      host_op_record<Op>().note_declined(declined.what());
    }
    return fall_back<Op, Args...>(std::forward<Args>(args)...);
  }
};

}  // namespace detail

// A template of the function's type, and not of the op: there are far fewer.
template <class Function>
void register_function(torch::Library& library, const char* name, const char* overload, Function* function) {
  library.impl(full_op_name(name, overload).c_str(), function);
}
// For functions that call the op's fallback themselves, or need none.
template <class Op, class Function>
void register_op(torch::Library& library, Function* function) {
  register_function(library, Op::name, Op::overload_name, function);
}
template <class Op, auto try_native>
void register_native(torch::Library& library) {
  register_function(library, Op::name, Op::overload_name, &detail::NativeOrHost<Op, try_native>::call);
}
// For functions that call the op's fallback themselves if they see beforehand that no kernel applies.
template <class Op, auto function>
void register_with_fallback(torch::Library& library) {
  register_function(library, Op::name, Op::overload_name, &detail::WithFallback<Op, function>::call);
}

// Whether an out= operand of this dtype can be written as it is: no cast, no inner overlap, apart from the inputs.
inline bool writable_as(const at::Tensor& out, c10::ScalarType dtype, const at::Tensor& input) {
  return on_device(out) && out.device() == input.device() && out.scalar_type() == dtype &&
         out.is_non_overlapping_and_dense() && !out.is_alias_of(input);
}

inline bool is_half_type(c10::ScalarType type) {
  return type == at::kHalf || type == at::kBFloat16;
}
inline bool is_real_float(c10::ScalarType type) {
  return type == at::kFloat || type == at::kDouble || is_half_type(type);
}
// The integers and bool that kernels compute with in 64 bits.
inline bool is_small_integral(c10::ScalarType type) {
  return c10::isIntegralType(type, true);
}

}  // namespace mydev
