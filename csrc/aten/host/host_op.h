// An op's CPU kernel for device tensors, typed: host_call.h without boxing.
//
//   at::Tensor y = HostOp<at::_ops::sort>::call(self, dim, descending);      // from a kernel of ours, as a fallback
//   m.impl("sort", &HostOp<at::_ops::sort>::call);                           // as the op's registration
//
// Tensor& arguments count as written; const Tensor& is read, except where the op returns const Tensor& (resize_ and
// the like). Operands that are lists, storages or generators need the boxed fallback.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>

#include "aten/host/host_call.h"

namespace mydev {

template <class Op>
inline FallbackRecord& host_op_record() {
  static FallbackRecord& record = fallback_record(Op::name, Op::overload_name);
  return record;
}

namespace detail {

template <class T>
struct HostArgument {
  static T&& map(HostCall&, T&& value) { return std::forward<T>(value); }
};
template <>
struct HostArgument<const at::Tensor&> {
  static at::Tensor map(HostCall& call, const at::Tensor& tensor) { return call.operand(tensor, false); }
};
template <>
struct HostArgument<at::Tensor&> {
  static at::Tensor map(HostCall& call, at::Tensor& tensor) { return call.operand(tensor, true); }
};
template <>
struct HostArgument<const std::optional<at::Tensor>&> {
  static std::optional<at::Tensor> map(HostCall& call, const std::optional<at::Tensor>& tensor) {
    return tensor.has_value() && tensor->defined() ? std::optional(call.operand(*tensor, false)) : tensor;
  }
};

template <class T>
inline constexpr bool is_written_tensor = std::is_same_v<T, at::Tensor&>;
template <class T>
struct IsWrittenTuple : std::false_type {};
template <class... T>
struct IsWrittenTuple<std::tuple<T...>> : std::bool_constant<(is_written_tensor<T> && ...)> {};

template <class T>
T to_device_value(HostCall& call, T&& value) {
  if constexpr (std::is_same_v<T, at::Tensor>) {
    return call.to_device(std::move(value));
  } else if constexpr (std::is_same_v<T, std::vector<at::Tensor>>) {
    for (at::Tensor& tensor : value) tensor = call.to_device(std::move(tensor));
    return std::move(value);
  } else {
    return std::move(value);
  }
}

}  // namespace detail

template <class Op, class Schema = typename Op::schema>
struct HostOp;

template <class Op, class Result, class... Args>
struct HostOp<Op, Result(Args...)> {
  static Result call(Args... args) {
    HostCall call(host_op_record<Op>());
    // The staging tensors live in this tuple, in the order of the arguments.
    std::tuple staged{(call.begin_argument(), detail::HostArgument<Args>::map(call, std::forward<Args>(args)))...};
    constexpr bool returns_arguments = is_reference_result;
    if constexpr (returns_arguments || std::is_void_v<Result>) {
      {
        HostCall::Running running(call);
        std::apply([](auto&... a) { (void)Op::redispatch(kCpu, static_cast<Args>(a)...); }, staged);
      }
      call.write_back();
      if constexpr (returns_arguments) return written_arguments(args...);
    } else {
      Result result = [&] {
        HostCall::Running running(call);
        return std::apply([](auto&... a) { return Op::redispatch(kCpu, static_cast<Args>(a)...); }, staged);
      }();
      call.write_back();
      return to_device(call, std::move(result));
    }
  }

 private:
  static constexpr c10::DispatchKeySet kCpu{c10::DispatchKey::CPU};
  static constexpr bool is_reference_result =
      std::is_lvalue_reference_v<Result> || detail::IsWrittenTuple<Result>::value;

  template <class T>
  static T to_device(HostCall& call, T&& result) {
    return detail::to_device_value<T>(call, std::move(result));
  }
  template <class... T>
  static std::tuple<T...> to_device(HostCall& call, std::tuple<T...>&& result) {
    return std::apply([&](auto&&... x) { return std::tuple<T...>(detail::to_device_value<T>(call, std::move(x))...); },
                      std::move(result));
  }
  // The written arguments that the op returns: the last ones (out= comes last; an in-place op has one).
  static Result written_arguments(Args... args) {
    auto written = std::tuple_cat([](auto& argument) {
      if constexpr (std::is_same_v<decltype(argument), at::Tensor&>) {
        return std::tuple<at::Tensor&>(argument);
      } else {
        return std::tuple<>();
      }
    }(args)...);
    constexpr size_t count = std::tuple_size_v<decltype(written)>;
    if constexpr (std::is_lvalue_reference_v<Result>) {
      return std::get<count - 1>(written);
    } else {
      constexpr size_t returned = std::tuple_size_v<Result>;
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return Result(std::get<count - returned + I>(written)...);
      }(std::make_index_sequence<returned>());
    }
  }
};

}  // namespace mydev
