// Pointwise calls of any operands, through a TensorIterator: type promotion, broadcasting, casts of operands and
// results.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "aten/core/number.h"
#include "aten/ops/pointwise.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

using c10::ScalarType;

class PointwiseCall::StridedPath {
 public:
  StridedPath(PointwiseCall& call, const at::Tensor& first) : call_(call), device_(first.device()) {}

  bool run(const mydev_kernel& kernel) {
    if (!promote() || !place_operands()) return false;
    const ScalarType computed = call_.result_dtype(common_), wanted = narrow_.value_or(computed);
    const at::Tensor* out = call_.out_;
    const bool cast_out = out != nullptr && out->scalar_type() != computed;
    if (cast_out) {
      if (!call_.row_.casts_out) return false;
      TORCH_CHECK(c10::canCast(wanted, out->scalar_type()), "result type ", wanted,
                  " can't be cast to the desired output type ", out->scalar_type());
    }
    at::Tensor target = out != nullptr && !cast_out ? *out : at::Tensor();
    check_out();
    at::TensorIterator iterator = build_iterator(target, computed);
    if (iterator.ndim() > kMaxRank) return false;
    if (iterator.numel() > 0) launch(kernel, iterator);
    const at::Tensor result = narrow_.has_value() ? iterator.output().to(*narrow_) : iterator.output();
    if (out == nullptr) {
      call_.result_ = result;
    } else if (cast_out || narrow_.has_value()) {
      cast_into_out(result);
    }
    return true;
  }

 private:
  // Finds the type that is computed in.
  bool promote() {
    at::native::ResultTypeState promotion;
    DtypeSet given = 0, given_tensors = 0;
    for (int i = 0; i < call_.num_inputs_; ++i) {
      at::Tensor& operand = operands_[static_cast<size_t>(i)];
      if (call_.input(i) == nullptr) {
        operand = c10::scalar_to_tensor(to_scalar(call_.number_));
        operand.unsafeGetTensorImpl()->set_wrapped_number(true);
      } else {
        if (!call_.input(i)->defined()) return false;
        operand = *call_.input(i);
      }
      if (call_.is_condition(i)) {
        if (operand.scalar_type() != ScalarType::Bool) return false;
      } else {
        promotion = at::native::update_result_type_state(operand, promotion);
        given |= dtypes(operand.scalar_type());
        if (call_.input(i) != nullptr) given_tensors |= dtypes(operand.scalar_type());
      }
    }
    const PointwiseRow& row = call_.row_;
    if (call_.out_ != nullptr && !on_device(*call_.out_)) return false;
    check_same_device(row.kernel.name() + std::string_view("mydev.").size(),
                      {operands_[0], operands_[1], operands_[2]});
    common_ = at::native::result_type(promotion);
    if (row.result == ResultDtype::kFloat && c10::isIntegralType(common_, /*includeBool=*/true)) {
      common_ = c10::get_default_dtype_as_scalartype();
    }
    if (!row.promotes && given_tensors != dtypes(common_)) return false;
    if (!call_.covers(common_)) return false;
    if (row.check != nullptr && !row.check(common_, given, call_.attributes_.data())) return false;
    if (!call_.arguments_fit(common_)) return false;
    if (row.wide_number && is_wide_scalar(1)) narrow_ = std::exchange(common_, ScalarType::Float);
    return true;
  }

  // Whether an operand in half precision's company is one element of another type: the CPU does not round it either.
  bool is_wide_scalar(int i) const {
    const at::Tensor& operand = operands_[static_cast<size_t>(i)];
    return (common_ == ScalarType::Half || common_ == ScalarType::BFloat16) && on_device(operand) &&
           operand.numel() == 1 && operand.scalar_type() != common_;
  }

  // Brings the operands to the device and the common type; one number stays a number.
  bool place_operands() {
    for (int i = 0; i < call_.num_inputs_; ++i) {
      at::Tensor& operand = operands_[static_cast<size_t>(i)];
      const bool condition = call_.is_condition(i), is_number = call_.input(i) == nullptr;
      if (!on_device(operand)) {
        mydev_attribute& number = call_.number_;
        if (number_index_ < 0 && !condition && (is_number || !call_.has_number_) && read_number(operand, number) &&
            promotion_kind(number) <= promotion_kind(common_) && call_.fit(i, common_)) {
          number_index_ = i;
          continue;
        }
        if (is_number) return false;  // the CPU decides whether that is an error
        operand = operand.to(condition ? ScalarType::Bool : common_).to(device_);
      } else if (!condition && operand.scalar_type() != common_) {
        operand = operand.to(common_);
      }
    }
    return true;
  }

  at::TensorIterator build_iterator(at::Tensor& target, ScalarType wanted) {
    at::TensorIteratorConfig config;
    config.set_check_mem_overlap(true)
        .allow_cpu_scalars(true)
        .check_all_same_dtype(false)
        .declare_static_dtype_and_device(wanted, device_)
        .add_output(target);
    for (int position = 0; position < call_.num_inputs_; ++position) {
      const int i = input_at(position);
      if (i != number_index_ || call_.number_broadcasts(i)) config.add_const_input(operands_[static_cast<size_t>(i)]);
    }
    return config.build();
  }

  // The order of the inputs in the iterator, which lays the result out as the first of them.
  int input_at(int position) const { return call_.row_.second_input_first && position < 2 ? 1 - position : position; }

  void launch(const mydev_kernel& kernel, at::TensorIterator& iterator) {
    const auto rank = static_cast<size_t>(iterator.ndim());
    std::array<int64_t, kMaxRank> sizes;
    std::array<std::array<int64_t, kMaxRank>, 1 + kMaxInputs> strides;
    std::array<mydev_buffer, 1 + kMaxInputs> buffers;
    // The iterator's dimensions go from the innermost out, its strides are in bytes.
    for (size_t d = 0; d < rank; ++d) sizes[d] = iterator.shape()[rank - 1 - d];
    const auto add_buffer = [&](size_t index, int operand) {
      const int64_t itemsize = iterator.element_size(operand);
      for (size_t d = 0; d < rank; ++d) strides[index][d] = iterator.strides(operand)[rank - 1 - d] / itemsize;
      buffers[index] = {iterator.data_ptr(operand),
                        sizes.data(),
                        strides[index].data(),
                        static_cast<int32_t>(rank),
                        to_frame_dtype(iterator.dtype(operand)),
                        0};
    };
    add_buffer(0, 0);
    int operand = 0;
    for (int position = 0; position < call_.num_inputs_; ++position) {
      const int i = input_at(position);
      const auto index = static_cast<size_t>(i) + 1;
      if (i == number_index_) {
        std::fill_n(strides[index].begin(), rank, 0);
        buffers[index] = call_.number_buffer(common_, sizes.data(), strides[index].data(), static_cast<int32_t>(rank));
        operand += call_.number_broadcasts(i) ? 1 : 0;
      } else {
        add_buffer(index, ++operand);
      }
    }
    launch_on(kernel, {buffers.data(), static_cast<size_t>(call_.num_inputs_) + 1}, 1, call_.attributes(common_),
              current_stream(device_.index()));
  }

  void cast_into_out(const at::Tensor& computed) const {
    const at::Tensor& out = *call_.out_;
    if (at::native::resize_output(out, computed.sizes())) out.as_strided_(computed.sizes(), computed.strides());
    out.copy_(computed);
  }

  // Raises what a TensorIterator would, had it the tensors of the call and not their casts: no element is written twice
  // or read after it was written, and a result that is an operand never grows.
  void check_out() const {
    const at::Tensor* out = call_.out_;
    if (out == nullptr) return;
    at::assert_no_internal_overlap(*out);
    bool is_operand = false;
    for (int i = 0; i < call_.num_inputs_; ++i) {
      if (call_.input(i) == nullptr) continue;
      at::assert_no_partial_overlap(*out, *call_.input(i));
      is_operand = is_operand || call_.input(i)->is_same(*out);
    }
    TORCH_CHECK(!is_operand || out->sizes() == broadcast_sizes(), "output with shape ", out->sizes(),
                " doesn't match the broadcast shape ", broadcast_sizes());
  }

  at::DimVector broadcast_sizes() const {
    at::DimVector sizes;
    for (int i = 0; i < call_.num_inputs_; ++i) {
      if (call_.input(i) != nullptr) sizes = at::infer_size_dimvector(sizes, call_.input(i)->sizes());
    }
    return sizes;
  }

  PointwiseCall& call_;
  const c10::Device device_;
  std::array<at::Tensor, kMaxInputs> operands_;  // numbers as tensors, casts
  ScalarType common_ = ScalarType::Undefined;
  std::optional<ScalarType> narrow_;  // what is computed in common_ is rounded to this
  int number_index_ = -1;
};

bool PointwiseCall::run_strided(const mydev_kernel& kernel, const at::Tensor& first) {
  return StridedPath(*this, first).run(kernel);
}

}  // namespace mydev
