// The _foreach_ ops that optimizers and gradient clipping use: one launch per list instead of one per tensor.
//
// A row is a kernel and what it does with scalars. The overloads (functional, in-place; Scalar, ScalarList, List,
// Tensor) are derived from it by the types of their arguments. A tensor without dimensions in another list than the
// first stands for all elements. Lists of mixed dtypes or layouts, integers, and lists that are written where they
// share memory are done tensor by tensor (host/composition.h).
#include <ATen/Operators.h>

#include "aten/core/number.h"
#include "aten/host/native_or_host.h"
#include "aten/launch/tensor_list_frame.h"

namespace mydev {
namespace {

using at::Tensor;
using at::TensorList;

namespace ops = at::_ops;

struct ForeachRow {
  KernelRef scalar_kernel;      // x and scalars
  KernelRef list_kernel;        // x, other lists, and scalars
  bool negates = false;         // the scalars: x - y is x + (-1) y
  bool rounds_scalars = false;  // to the tensors' type, as the CPU's kernel does
  bool reads_self = true;       // x is an operand of the kernel; else only its place
};

ForeachRow foreach_add_row{
    .scalar_kernel = KernelRef("mydev.foreach_add_scalar"),
    .list_kernel = KernelRef("mydev.foreach_add"),
    .rounds_scalars = true,
};
ForeachRow foreach_sub_row{
    .scalar_kernel = KernelRef("mydev.foreach_add_scalar"),
    .list_kernel = KernelRef("mydev.foreach_add"),
    .negates = true,
    .rounds_scalars = true,
};
ForeachRow foreach_mul_row{KernelRef("mydev.foreach_mul_scalar"), KernelRef("mydev.foreach_mul")};
ForeachRow foreach_div_row{KernelRef("mydev.foreach_div_scalar"), KernelRef("mydev.foreach_div")};
ForeachRow foreach_maximum_row{KernelRef(""), KernelRef("mydev.foreach_maximum")};
ForeachRow foreach_minimum_row{KernelRef(""), KernelRef("mydev.foreach_minimum")};
ForeachRow foreach_lerp_row{KernelRef(""), KernelRef("mydev.foreach_lerp")};
ForeachRow foreach_addcmul_row{KernelRef(""), KernelRef("mydev.foreach_addcmul")};
ForeachRow foreach_addcdiv_row{KernelRef(""), KernelRef("mydev.foreach_addcdiv")};
ForeachRow foreach_sqrt_row{KernelRef("mydev.foreach_sqrt"), KernelRef("")};
ForeachRow foreach_neg_row{KernelRef("mydev.foreach_neg"), KernelRef("")};
ForeachRow foreach_reciprocal_row{KernelRef("mydev.foreach_reciprocal"), KernelRef("")};
ForeachRow foreach_zero_row{
    .scalar_kernel = KernelRef("mydev.foreach_fill"), .list_kernel = KernelRef(""), .reads_self = false};
ForeachRow foreach_copy_row{
    .scalar_kernel = KernelRef(""), .list_kernel = KernelRef("mydev.foreach_copy"), .reads_self = false};

// The arguments of any overload after the first list, told apart by their types.
struct ForeachRequest {
  c10::SmallVector<TensorList, 2> lists;
  const Tensor* scalar_tensor = nullptr;
  c10::SmallVector<double, 8> scalars;
  bool one_each = false;  // a scalar for each tensor, else at most one for all
  bool real = true;

  void take(TensorList list) { lists.push_back(list); }
  void take(const at::Scalar& scalar) { push(scalar); }
  void take(at::ArrayRef<at::Scalar> values) {
    one_each = true;
    for (const at::Scalar& value : values) push(value);
  }
  void take(const Tensor& tensor) { scalar_tensor = &tensor; }
  void take(bool) {}  // non_blocking: the copy is ordered on the stream

 private:
  void push(const at::Scalar& scalar) {
    real = real && !scalar.isComplex() && !scalar.isBoolean();
    if (real) scalars.push_back(scalar.toDouble());
  }
};

// Whether a kernel can read a list beside that of `self`.
bool is_operand(TensorList list, TensorList self) {
  if (list.size() != self.size()) return false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!on_device(list[i]) || list[i].device() != self[0].device() || list[i].scalar_type() != self[0].scalar_type() ||
        !(list[i].dim() == 0 || laid_out_alike(list[i], self[i]))) {
      return false;
    }
  }
  return true;
}

bool is_usable(TensorList self, ForeachRequest& request) {
  if (self.empty() || !on_device(self[0]) || !is_real_float(self[0].scalar_type()) || !request.real ||
      !corresponds(self, self)) {
    return false;
  }
  for (const TensorList list : request.lists) {
    if (!is_operand(list, self)) return false;
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
  return request.one_each ? request.scalars.size() == self.size() : request.scalars.size() <= 1;
}

// `keeps_strides`: of dimensions of one element, too, as the CPU's operators with a number do.
Tensor empty_like_dense(const Tensor& like, bool keeps_strides) {
  if (keeps_strides ? has_standard_strides(like) : like.is_contiguous()) return empty_dense(like.sizes(), like);
  return empty_strided_on(like.sizes(), like.strides(), like.scalar_type(), like.device());
}

// Launches into out, which is self for in-place forms.
bool launch_foreach(ForeachRow& row, TensorList self, TensorList out, ForeachRequest& request) {
  const bool with_lists = !request.lists.empty() || request.scalar_tensor != nullptr;
  const Launchable* kernel = (with_lists ? row.list_kernel : row.scalar_kernel).on(self[0]);
  if (kernel == nullptr) return false;
  ListFrame frame;
  frame.add(out);
  if (row.reads_self) frame.add(self);
  for (const TensorList list : request.lists) frame.add(list);
  if (request.scalar_tensor != nullptr) {
    for (size_t i = 0; i < self.size(); ++i) frame.add(*request.scalar_tensor);
  }
  if (request.scalars.empty()) request.scalars.push_back(with_lists ? 1 : 0);
  for (double& scalar : request.scalars) {
    mydev_attribute number = float_attribute("", scalar);
    if (!fit_number(number, self[0].scalar_type(), row.rounds_scalars)) return false;
    scalar = row.negates ? -number.value.f : number.value.f;
  }
  mydev_attribute scalars{"scalars", MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, static_cast<uint32_t>(request.scalars.size()), {}};
  scalars.value.floats = request.scalars.data();
  frame.launch(*kernel, out.size(), {&scalars, 1}, self[0].device());
  return true;
}

template <class Op, ForeachRow& row, class Schema = typename Op::schema>
struct ForeachForm;
template <class Op, ForeachRow& row, class Result, class... Args>
struct ForeachForm<Op, row, Result(TensorList, Args...)> {
  static auto try_native(TensorList self, Args... args) {
    ForeachRequest request;
    (request.take(std::forward<Args>(args)), ...);
    const bool usable = is_usable(self, request);
    if constexpr (std::is_void_v<Result>) {
      if (!usable || !are_independent({self}, request.lists, request.scalar_tensor) ||
          !launch_foreach(row, self, self, request)) {
        return false;
      }
      // No kernel of autograd's does this for lists.
      for (const Tensor& tensor : self) tensor.unsafeGetTensorImpl()->bump_version();
      return true;
    } else {
      std::optional<Result> result;
      if (usable) {
        Result out;
        out.reserve(self.size());
        for (const Tensor& tensor : self)
          out.push_back(empty_like_dense(tensor, request.lists.empty() && !request.scalars.empty()));
        if (launch_foreach(row, self, out, request)) result = std::move(out);
      }
      return result;
    }
  }
};

// Registers each of the ops as an overload of the row.
template <ForeachRow& row, class... Ops>
void register_foreach(torch::Library& library) {
  (register_native<Ops, &ForeachForm<Ops, row>::try_native>(library), ...);
}

// --- norms ---------------------------------------------------------------------------------------------------------

KernelRef norm1_kernel("mydev.foreach_norm1");
KernelRef norm2_kernel("mydev.foreach_norm2");
KernelRef norm_inf_kernel("mydev.foreach_norm_inf");

KernelRef* kernel_for_norm(const at::Scalar& order) {
  if (order.isComplex()) return nullptr;
  if (order.toDouble() == 1) return &norm1_kernel;
  if (order.toDouble() == 2) return &norm2_kernel;
  return order.toDouble() == std::numeric_limits<double>::infinity() ? &norm_inf_kernel : nullptr;
}

std::optional<std::vector<Tensor>> norm(TensorList self, const at::Scalar& order, std::optional<at::ScalarType> dtype) {
  ForeachRequest request;
  KernelRef* ref = kernel_for_norm(order);
  if (ref == nullptr || !is_usable(self, request) || dtype.value_or(self[0].scalar_type()) != self[0].scalar_type()) {
    return std::nullopt;
  }
  const Launchable* kernel = ref->on(self[0]);
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

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_foreach<foreach_add_row, ops::_foreach_add_Scalar, ops::_foreach_add__Scalar, ops::_foreach_add_ScalarList,
                   ops::_foreach_add__ScalarList, ops::_foreach_add_List, ops::_foreach_add__List,
                   ops::_foreach_add_Tensor, ops::_foreach_add__Tensor>(m);
  register_foreach<foreach_sub_row, ops::_foreach_sub_Scalar, ops::_foreach_sub__Scalar, ops::_foreach_sub_ScalarList,
                   ops::_foreach_sub__ScalarList, ops::_foreach_sub_List, ops::_foreach_sub__List>(m);
  register_foreach<foreach_mul_row, ops::_foreach_mul_Scalar, ops::_foreach_mul__Scalar, ops::_foreach_mul_ScalarList,
                   ops::_foreach_mul__ScalarList, ops::_foreach_mul_List, ops::_foreach_mul__List,
                   ops::_foreach_mul_Tensor, ops::_foreach_mul__Tensor>(m);
  register_foreach<foreach_div_row, ops::_foreach_div_Scalar, ops::_foreach_div__Scalar, ops::_foreach_div_ScalarList,
                   ops::_foreach_div__ScalarList, ops::_foreach_div_List, ops::_foreach_div__List,
                   ops::_foreach_div_Tensor, ops::_foreach_div__Tensor>(m);
  register_foreach<foreach_maximum_row, ops::_foreach_maximum_List, ops::_foreach_maximum__List>(m);
  register_foreach<foreach_minimum_row, ops::_foreach_minimum_List, ops::_foreach_minimum__List>(m);
  register_foreach<foreach_lerp_row, ops::_foreach_lerp_Scalar, ops::_foreach_lerp__Scalar>(m);
  register_foreach<foreach_addcmul_row, ops::_foreach_addcmul_Scalar, ops::_foreach_addcmul__Scalar,
                   ops::_foreach_addcmul_ScalarList, ops::_foreach_addcmul__ScalarList>(m);
  register_foreach<foreach_addcdiv_row, ops::_foreach_addcdiv_Scalar, ops::_foreach_addcdiv__Scalar,
                   ops::_foreach_addcdiv_ScalarList, ops::_foreach_addcdiv__ScalarList>(m);
  register_foreach<foreach_sqrt_row, ops::_foreach_sqrt, ops::_foreach_sqrt_>(m);
  register_foreach<foreach_neg_row, ops::_foreach_neg, ops::_foreach_neg_>(m);
  register_foreach<foreach_reciprocal_row, ops::_foreach_reciprocal, ops::_foreach_reciprocal_>(m);
  register_foreach<foreach_zero_row, ops::_foreach_zero_>(m);
  register_foreach<foreach_copy_row, ops::_foreach_copy_>(m);
  register_native<ops::_foreach_norm_Scalar, &norm>(m);
}

}  // namespace
}  // namespace mydev
