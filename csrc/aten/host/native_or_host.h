// An op as a native attempt with the CPU's kernel behind it.
//
//   std::optional<at::Tensor> attempt(const at::Tensor& self, int64_t dim, bool keepdim);
//   register_native<at::_ops::argmax, &attempt>(m);
//
// The attempt takes the op's arguments and either launches and returns the op's result, or returns empty, and then the
// op runs through the fallback, counted in the census. So an attempt holds the common cases and refuses all others,
// wrong arguments among them: the CPU's kernel raises the CPU's own error. Attempts of ops that return a reference give
// a pointer, those of ops that return nothing give bool.
#pragma once

#include <torch/library.h>

#include <string>
#include <type_traits>

#include "aten/host/fallback.h"
#include "aten/host/host_op.h"
#include "aten/launch/native_launch.h"

namespace mydev {

namespace detail {

template <class T>
inline constexpr bool needs_boxing =
    std::is_same_v<T, at::TensorList> || std::is_same_v<T, const at::ITensorListRef&> ||
    std::is_same_v<T, std::optional<at::Generator>> || std::is_same_v<T, at::ArrayRef<at::Scalar>>;

template <class Op, class Schema = typename Op::schema>
struct BoxedOp;

template <class Op, class Result, class... Args>
struct BoxedOp<Op, Result(Args...)> {
  static Result call(Args... args) {
    static const c10::OperatorHandle handle =
        c10::Dispatcher::singleton().findSchemaOrThrow(Op::name, Op::overload_name);
    static const c10::BoxedKernel kernel = c10::BoxedKernel::makeFromFunction<&boxed_fallback>();
    return c10::impl::BoxedKernelWrapper<Result(Args...)>::call(kernel, handle, c10::DispatchKeySet(kDispatchKey),
                                                                std::forward<Args>(args)...);
  }
};

template <class Op, auto attempt, class Schema = typename Op::schema>
struct NativeOrHost;

template <class Op, auto attempt, class Result, class... Args>
struct NativeOrHost<Op, attempt, Result(Args...)> {
  static Result call(Args... args) {
    if (auto result = attempt(args...)) {
      if constexpr (std::is_void_v<Result>) {
        return;
      } else {
        return *std::move(result);
      }
    }
    if constexpr ((needs_boxing<Args> || ...)) {
      return BoxedOp<Op>::call(std::forward<Args>(args)...);
    } else {
      return HostOp<Op>::call(std::forward<Args>(args)...);
    }
  }
};

}  // namespace detail

template <class Op, auto attempt>
void register_native(torch::Library& library) {
  std::string name = Op::name;
  if (Op::overload_name[0] != '\0') name += std::string(".") + Op::overload_name;
  library.impl(name.c_str(), &detail::NativeOrHost<Op, attempt>::call);
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
