// An op as a native kernel with the CPU's kernel behind it.
//
//   std::optional<at::Tensor> try_native(const at::Tensor& self, int64_t dim, bool keepdim);
//   register_native<at::_ops::argmax, &try_native>(m);
//
// The function takes the op's arguments and either launches and returns the op's result, or returns empty, and then the
// op runs through the fallback, counted in the census. So it holds the common cases and refuses all others, wrong
// arguments among them: the CPU's kernel raises the CPU's own error. For ops that return a reference it gives a
// pointer, for those that return nothing bool.
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

template <class Op, auto try_native, class Schema = typename Op::schema>
struct NativeOrHost;

template <class Op, auto try_native, class Result, class... Args>
struct NativeOrHost<Op, try_native, Result(Args...)> {
  static Result call(Args... args) {
    if (auto result = try_native(args...)) {
      if constexpr (std::is_void_v<Result>) {
        return;
      } else {
        return *std::move(result);
      }
    }
    if constexpr ((needs_boxing<Args> || ...)) {
      return BoxedFallback<Op>::call(std::forward<Args>(args)...);
    } else {
      return HostOp<Op>::call(std::forward<Args>(args)...);
    }
  }
};

}  // namespace detail

template <class Op, auto try_native>
void register_native(torch::Library& library) {
  std::string name = Op::name;
  if (Op::overload_name[0] != '\0') name += std::string(".") + Op::overload_name;
  library.impl(name.c_str(), &detail::NativeOrHost<Op, try_native>::call);
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
