// The _foreach_ ops that optimizers and gradient clipping use: one launch per list instead of one per tensor.
//
// A row is a kernel and what it does with scalars. The overloads (functional, in-place; Scalar, ScalarList, List,
// Tensor) are derived from it by the types of their arguments. Lists of mixed dtypes or layouts, and integers, fall
// back.
#include <ATen/Operators.h>

#include "aten/host/native_or_host.h"
#include "aten/launch/tensor_list_frame.h"

namespace mydev {
namespace {

using at::Tensor;
using at::TensorList;

struct ForeachRow {
  KernelRef scalar_kernel;  // x and scalars
  KernelRef list_kernel;    // x, other lists, and scalars
  bool negates = false;     // the scalars: x - y is x + (-1) y
};

ForeachRow add_row{KernelRef("mydev.foreach_add_scalar"), KernelRef("mydev.foreach_add")};
ForeachRow sub_row{KernelRef("mydev.foreach_add_scalar"), KernelRef("mydev.foreach_add"), true};
ForeachRow mul_row{KernelRef("mydev.foreach_mul_scalar"), KernelRef("mydev.foreach_mul")};
ForeachRow div_row{KernelRef("mydev.foreach_div_scalar"), KernelRef("mydev.foreach_div")};
ForeachRow maximum_row{KernelRef(""), KernelRef("mydev.foreach_maximum")};
ForeachRow minimum_row{KernelRef(""), KernelRef("mydev.foreach_minimum")};
ForeachRow lerp_row{KernelRef(""), KernelRef("mydev.foreach_lerp")};
ForeachRow addcmul_row{KernelRef(""), KernelRef("mydev.foreach_addcmul")};
ForeachRow addcdiv_row{KernelRef(""), KernelRef("mydev.foreach_addcdiv")};
ForeachRow sqrt_row{KernelRef("mydev.foreach_sqrt"), KernelRef("")};
ForeachRow neg_row{KernelRef("mydev.foreach_neg"), KernelRef("")};
ForeachRow reciprocal_row{KernelRef("mydev.foreach_reciprocal"), KernelRef("")};
ForeachRow zero_row{KernelRef("mydev.foreach_fill"), KernelRef("")};
ForeachRow copy_row{KernelRef(""), KernelRef("mydev.foreach_copy")};

// The arguments of any overload after the first list, told apart by their types.
struct Request {
  c10::SmallVector<TensorList, 2> lists;
  const Tensor* scalar_tensor = nullptr;
  c10::SmallVector<double, 8> scalars;
  bool real = true;

  void take(TensorList list) { lists.push_back(list); }
  void take(const at::Scalar& scalar) { push(scalar); }
  void take(at::ArrayRef<at::Scalar> values) {
    for (const at::Scalar& value : values) push(value);
  }
  void take(const Tensor& tensor) { scalar_tensor = &tensor; }
  void take(bool) {}  // non_blocking: the copy is ordered on the stream

 private:
  void push(const at::Scalar& scalar) {
    real = real && !scalar.isComplex();
    if (real) scalars.push_back(scalar.toDouble());
  }
};

bool is_usable(TensorList self, Request& request) {
  if (self.empty() || !on_device(self[0]) || !is_real_float(self[0].scalar_type()) || !request.real ||
      !corresponds(self, self)) {
    return false;
  }
  for (const TensorList list : request.lists) {
    if (!corresponds(list, self) || list[0].scalar_type() != self[0].scalar_type()) return false;
  }
  if (request.scalar_tensor != nullptr) {
    const Tensor& scalar = *request.scalar_tensor;
    if (scalar.dim() != 0 || c10::isComplexType(scalar.scalar_type())) return false;
    if (scalar.is_cpu()) {  // alpha, if any, scales it
      const double value = scalar.item<double>() * (request.scalars.empty() ? 1 : request.scalars[0]);
      request.scalars.assign(1, value);
      request.scalar_tensor = nullptr;
    } else if (scalar.device() != self[0].device() || scalar.scalar_type() != self[0].scalar_type()) {
      return false;
    }
  }
  return request.scalars.size() <= 1 || request.scalars.size() == self.size();
}

Tensor empty_like_dense(const Tensor& like) {
  if (like.is_contiguous()) return empty_dense(like.sizes(), like);
  return empty_strided_on(like.sizes(), like.strides(), like.scalar_type(), like.device());
}

// Launches into out, which is self for in-place forms. kInputs: whether the kernel reads self.
bool launch_foreach(ForeachRow& row, TensorList self, TensorList out, Request& request, bool reads_self) {
  const bool with_lists = !request.lists.empty() || request.scalar_tensor != nullptr;
  const mydev_kernel* kernel = (with_lists ? row.list_kernel : row.scalar_kernel).on(self[0]);
  if (kernel == nullptr) return false;
  ListFrame frame;
  frame.add(out);
  if (reads_self) frame.add(self);
  for (const TensorList list : request.lists) frame.add(list);
  if (request.scalar_tensor != nullptr) {
    for (size_t i = 0; i < self.size(); ++i) frame.add(*request.scalar_tensor);
  }
  if (request.scalars.empty()) request.scalars.push_back(with_lists ? 1 : 0);
  if (row.negates) {
    for (double& scalar : request.scalars) scalar = -scalar;
  }
  mydev_attribute scalars{"scalars", MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, static_cast<uint32_t>(request.scalars.size()), {}};
  scalars.value.floats = request.scalars.data();
  frame.launch(*kernel, out.size(), {&scalars, 1}, self[0].device());
  return true;
}

template <auto& row, class Result, class... Args>
auto try_native(TensorList self, Args... args) {
  Request request;
  (request.take(std::forward<Args>(args)), ...);
  const bool usable = is_usable(self, request);
  if constexpr (std::is_void_v<Result>) {
    const bool reads_self = &row != &zero_row && &row != &copy_row;
    if (!usable || !launch_foreach(row, self, self, request, reads_self)) return false;
    // No kernel of autograd's does this for lists.
    for (const Tensor& tensor : self) tensor.unsafeGetTensorImpl()->bump_version();
    return true;
  } else {
    std::optional<Result> result;
    if (usable) {
      Result out;
      out.reserve(self.size());
      for (const Tensor& tensor : self) out.push_back(empty_like_dense(tensor));
      if (launch_foreach(row, self, out, request, true)) result = std::move(out);
    }
    return result;
  }
}

template <class Op, auto& row, class Schema = typename Op::schema>
struct Overload;
template <class Op, auto& row, class Result, class... Args>
struct Overload<Op, row, Result(TensorList, Args...)> {
  static void add(torch::Library& library) { register_native<Op, &try_native<row, Result, Args...>>(library); }
};

// --- norms ---------------------------------------------------------------------------------------------------------

KernelRef norm1_kernel("mydev.foreach_norm1");
KernelRef norm2_kernel("mydev.foreach_norm2");
KernelRef norm_inf_kernel("mydev.foreach_norm_inf");

KernelRef* norm_kernel(const at::Scalar& order) {
  if (order.isComplex()) return nullptr;
  if (order.toDouble() == 1) return &norm1_kernel;
  if (order.toDouble() == 2) return &norm2_kernel;
  return order.toDouble() == std::numeric_limits<double>::infinity() ? &norm_inf_kernel : nullptr;
}

std::optional<std::vector<Tensor>> norm(TensorList self, const at::Scalar& order, std::optional<at::ScalarType> dtype) {
  Request request;
  KernelRef* ref = norm_kernel(order);
  if (ref == nullptr || !is_usable(self, request) || dtype.value_or(self[0].scalar_type()) != self[0].scalar_type()) {
    return std::nullopt;
  }
  const mydev_kernel* kernel = ref->on(self[0]);
  if (kernel == nullptr) return std::nullopt;
  std::vector<Tensor> out;
  out.reserve(self.size());
  for (const Tensor& tensor : self) {
    if (tensor.numel() == 0) return std::nullopt;
    out.push_back(empty_dense({}, tensor));
  }
  ListFrame frame;
  frame.add(out);
  frame.add(self);
  frame.launch(*kernel, out.size(), {}, self[0].device());
  return out;
}

// clang-format off
#define MYDEV_FOREACH(X)                                                                                               \
  X(_foreach_add_Scalar, add_row) X(_foreach_add__Scalar, add_row) X(_foreach_add_ScalarList, add_row)                 \
  X(_foreach_add__ScalarList, add_row) X(_foreach_add_List, add_row) X(_foreach_add__List, add_row)                    \
  X(_foreach_add_Tensor, add_row) X(_foreach_add__Tensor, add_row)                                                     \
  X(_foreach_sub_Scalar, sub_row) X(_foreach_sub__Scalar, sub_row) X(_foreach_sub_ScalarList, sub_row)                 \
  X(_foreach_sub__ScalarList, sub_row) X(_foreach_sub_List, sub_row) X(_foreach_sub__List, sub_row)                    \
  X(_foreach_mul_Scalar, mul_row) X(_foreach_mul__Scalar, mul_row) X(_foreach_mul_ScalarList, mul_row)                 \
  X(_foreach_mul__ScalarList, mul_row) X(_foreach_mul_List, mul_row) X(_foreach_mul__List, mul_row)                    \
  X(_foreach_mul_Tensor, mul_row) X(_foreach_mul__Tensor, mul_row)                                                     \
  X(_foreach_div_Scalar, div_row) X(_foreach_div__Scalar, div_row) X(_foreach_div_ScalarList, div_row)                 \
  X(_foreach_div__ScalarList, div_row) X(_foreach_div_List, div_row) X(_foreach_div__List, div_row)                    \
  X(_foreach_div_Tensor, div_row) X(_foreach_div__Tensor, div_row)                                                     \
  X(_foreach_maximum_List, maximum_row) X(_foreach_maximum__List, maximum_row)                                         \
  X(_foreach_minimum_List, minimum_row) X(_foreach_minimum__List, minimum_row)                                         \
  X(_foreach_lerp_Scalar, lerp_row) X(_foreach_lerp__Scalar, lerp_row)                                                 \
  X(_foreach_addcmul_Scalar, addcmul_row) X(_foreach_addcmul__Scalar, addcmul_row)                                     \
  X(_foreach_addcmul_ScalarList, addcmul_row) X(_foreach_addcmul__ScalarList, addcmul_row)                             \
  X(_foreach_addcdiv_Scalar, addcdiv_row) X(_foreach_addcdiv__Scalar, addcdiv_row)                                     \
  X(_foreach_addcdiv_ScalarList, addcdiv_row) X(_foreach_addcdiv__ScalarList, addcdiv_row)                             \
  X(_foreach_sqrt, sqrt_row) X(_foreach_sqrt_, sqrt_row) X(_foreach_neg, neg_row) X(_foreach_neg_, neg_row)            \
  X(_foreach_reciprocal, reciprocal_row) X(_foreach_reciprocal_, reciprocal_row)                                       \
  X(_foreach_zero_, zero_row) X(_foreach_copy_, copy_row)
// clang-format on

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
#define MYDEV_ADD(op, row) Overload<at::_ops::op, row>::add(m);
  MYDEV_FOREACH(MYDEV_ADD)
#undef MYDEV_ADD
  register_native<at::_ops::_foreach_norm_Scalar, &norm>(m);
}

}  // namespace
}  // namespace mydev
