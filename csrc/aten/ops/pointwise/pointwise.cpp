#include "aten/ops/pointwise/pointwise.h"

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

#include "aten/core/dtype.h"
#include "aten/core/number.h"
#include "kernels/spec/contract.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

using c10::ScalarType;

bool is_cpu_scalar(const at::Tensor& tensor) {
  return tensor.is_cpu() && tensor.dim() == 0;
}

// Contiguous operands that share some memory, but are not the same elements.
bool overlaps_partly(const at::Tensor& a, const at::Tensor& b) {
  const char* p = static_cast<const char*>(a.const_data_ptr());
  const char* q = static_cast<const char*>(b.const_data_ptr());
  return p < q + b.nbytes() && q < p + a.nbytes() && !(p == q && a.sizes() == b.sizes());
}

}  // namespace

DtypeSet contract_types(const KernelRef& kernel) {
  const uint64_t taken = contract_dtypes(kernel.name(), 'T');
  DtypeSet types = 0;
  for (int type = 0; type < static_cast<int>(ScalarType::NumOptions); ++type) {
    const mydev_dtype dtype = to_frame_dtype(static_cast<ScalarType>(type));
    if (dtype != MYDEV_DTYPE_INVALID && (taken & MYDEV_DTYPE_BIT(dtype)) != 0) types |= dtypes(ScalarType(type));
  }
  return types;
}

void PointwiseCall::take(const c10::Scalar& number) {
  if (C10_UNLIKELY(!has_attribute(number))) {
    representable_ = false;
  } else if (row_.number_is_operand) {
    number_ = number_attribute("", number);
    has_number_ = true;
    inputs_[static_cast<size_t>(num_inputs_++)] = nullptr;
  } else {
    number_arguments_ |= 1U << num_arguments_;
    add_argument(number_attribute(next_name(), number));
  }
}

void PointwiseCall::take(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate argument must be either none or tanh.");
  add_argument(bool_attribute(next_name(), approximate == "tanh"));
}

bool PointwiseCall::fit(int number_index, ScalarType common) {
  return fit_number(number_, common, /*round=*/!(row_.wide_number && number_index > 0));
}

bool PointwiseCall::fit_arguments(ScalarType common) {
  for (uint32_t left = number_arguments_; left != 0; left &= left - 1) {
    mydev_attribute& given = attributes_[static_cast<size_t>(__builtin_ctz(left))];
    mydev_attribute number = given;
    if (!fit_number(number, common, /*round=*/true)) return false;
    if (row_.rounds_arguments) given = number;
  }
  return true;
}

bool PointwiseCall::run(FallbackRecord& (*record)()) {
  try {
    return run();
  } catch (const KernelDeclined& declined) {
    record().note_declined(declined.what());
    return false;
  }
}

// --- the contiguous path ---------------------------------------------------------------------------------------------

namespace {

// Sizes and strides of contiguous operands that broadcast to one shape.
class ContiguousShape {
 public:
  explicit ContiguousShape(c10::IntArrayRef sizes) : rank_(static_cast<int>(sizes.size())) {
    std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  }
  // False if the sizes do not broadcast.
  bool expand(c10::IntArrayRef other) {
    const int rank = static_cast<int>(other.size());
    for (; rank_ < rank; ++rank_) {
      std::copy_backward(sizes_.begin(), sizes_.begin() + rank_, sizes_.begin() + rank_ + 1);
      sizes_[0] = 1;
    }
    for (int d = 0; d < rank; ++d) {
      int64_t& size = sizes_[static_cast<size_t>(rank_ - rank + d)];
      const int64_t wanted = other[static_cast<size_t>(d)];
      if (size != wanted && size != 1 && wanted != 1) return false;
      if (size == 1) size = wanted;
    }
    return true;
  }
  c10::IntArrayRef sizes() const { return {sizes_.data(), static_cast<size_t>(rank_)}; }
  // Strides that walk a contiguous operand of the given sizes over this shape.
  void strides_of(c10::IntArrayRef operand, int64_t* strides) const {
    int64_t stride = 1;
    const int missing = rank_ - static_cast<int>(operand.size());
    for (int d = rank_ - 1; d >= 0; --d) {
      const int64_t size = d < missing ? 1 : operand[static_cast<size_t>(d - missing)];
      strides[d] = size == 1 ? 0 : stride;
      stride *= size;
    }
  }

 private:
  int rank_;
  std::array<int64_t, kMaxRank> sizes_;
};

}  // namespace

// The steps of a launch that small operators spend their time in: inlined into one function, whose state stays in
// registers.
class PointwiseCall::ContiguousPath {
 public:
  ContiguousPath(PointwiseCall& call, const at::Tensor& first) : call_(call), first_(first), device_(first.device()) {}

  C10_ALWAYS_INLINE bool run(const Launchable& kernel) {
    if (!read_operands() || !read_dtypes()) return false;
    ContiguousShape shape(first_.sizes());
    if (!broadcast(shape) || !result_is_contiguous()) return false;
    const ScalarType wanted = call_.result_dtype(common_);
    const at::Tensor* out = output(shape.sizes(), wanted);
    if (out == nullptr) return false;
    if (out->numel() > 0) launch(kernel, shape, *out, wanted);
    return true;
  }

 private:
  // Finds the operand that is a number, and the type of the others.
  C10_ALWAYS_INLINE bool read_operands() {
    for (int i = 0; i < call_.num_inputs_; ++i) {
      const at::Tensor* input = call_.input(i);
      if (input == nullptr) {
        number_index_ = i;
        number_broadcasts_ = call_.number_broadcasts(i);
        continue;
      }
      given_ |= dtypes(input->scalar_type());
      if (!on_device(*input)) {
        const bool usable = number_index_ < 0 && !call_.has_number_ && input->defined() && is_cpu_scalar(*input) &&
                            (first_.dim() > 0 || input->unsafeGetTensorImpl()->is_wrapped_number()) &&
                            (!call_.is_condition(i) || input->scalar_type() == ScalarType::Bool);
        if (!usable || !read_number(*input, call_.number_)) return false;
        if (!call_.row_.promotes && !input->unsafeGetTensorImpl()->is_wrapped_number() &&
            input->scalar_type() != first_.scalar_type()) {
          return false;
        }
        number_index_ = i;
        number_broadcasts_ = true;
        continue;
      }
      if (input->device() != device_ || !input->is_contiguous()) return false;
      one_shape_ = one_shape_ && input->sizes() == first_.sizes();
      if (call_.is_condition(i)) {
        if (input->scalar_type() != ScalarType::Bool) return false;
      } else if (typed_ == nullptr) {
        typed_ = input;
      } else if (input->scalar_type() != typed_->scalar_type()) {
        return false;
      }
    }
    return typed_ != nullptr && first_.dim() <= kMaxRank;
  }

  C10_ALWAYS_INLINE bool read_dtypes() {
    const PointwiseRow& row = call_.row_;
    common_ = typed_->scalar_type();
    if (!call_.covers(common_) || (row.result == ResultDtype::kFloat && promotion_kind(common_) < 2)) return false;
    if (number_index_ >= 0 &&
        (promotion_kind(call_.number_) > promotion_kind(common_) || !call_.fit(number_index_, common_))) {
      return false;
    }
    if (row.check != nullptr && !row.check(common_, given_, call_.attributes_.data())) return false;
    return call_.fit_arguments(common_);
  }

  C10_ALWAYS_INLINE bool broadcast(ContiguousShape& shape) const {
    if (one_shape_) return true;
    for (int i = 0; i < call_.num_inputs_; ++i) {
      if (i == number_index_) continue;
      const at::Tensor* input = call_.input(i);
      if (input->dim() > kMaxRank || !shape.expand(input->sizes())) return false;
    }
    return true;
  }

  // Contiguous operands of one shape give a contiguous result. If they broadcast, the CPU looks at their strides.
  C10_ALWAYS_INLINE bool result_is_contiguous() const {
    if (call_.out_ != nullptr || (one_shape_ && !number_broadcasts_)) return true;
    for (int i = 0; i < call_.num_inputs_; ++i) {
      if (i != number_index_ && !has_standard_strides(*call_.input(i))) return false;
    }
    return true;
  }

  // A fresh result, or the given one; nullptr if that cannot be written as it is.
  C10_ALWAYS_INLINE const at::Tensor* output(c10::IntArrayRef sizes, ScalarType wanted) {
    const at::Tensor* out = call_.out_;
    if (out == nullptr) {
      call_.result_ = empty_dense(sizes, wanted, device_);
      return &call_.result_;
    }
    if (!on_device(*out) || out->device() != device_ || out->scalar_type() != wanted || !out->is_contiguous() ||
        out->sizes() != sizes) {
      return nullptr;
    }
    for (int i = 0; i < call_.num_inputs_; ++i) {
      const at::Tensor* input = call_.input(i);
      if (i != number_index_ && input != out && overlaps_partly(*out, *input)) return nullptr;
    }
    return out;
  }

  C10_ALWAYS_INLINE void launch(const Launchable& kernel, const ContiguousShape& shape, const at::Tensor& out,
                                ScalarType wanted) {
    static constexpr int64_t kOne = 1;
    const int64_t count = out.numel();
    std::array<std::array<int64_t, kMaxRank>, 1 + kMaxInputs> strides;
    std::array<mydev_buffer, 1 + kMaxInputs> buffers;
    const auto rank = static_cast<int32_t>(one_shape_ ? 1 : shape.sizes().size());
    const int64_t* sizes = one_shape_ ? &count : shape.sizes().data();
    static constexpr std::array<int64_t, kMaxRank> kNoStrides = {};
    const auto add_buffer = [&](int index, void* data, const at::Tensor& operand,
                                ScalarType type) __attribute__((always_inline)) {
      const auto k = static_cast<size_t>(index);
      if (!one_shape_) shape.strides_of(operand.sizes(), strides[k].data());
      buffers[k] = {data, sizes, one_shape_ ? &kOne : strides[k].data(), rank, to_frame_dtype(type), 0};
    };
    add_buffer(0, out.mutable_data_ptr(), out, wanted);
    for (int i = 0; i < call_.num_inputs_; ++i) {
      if (i == number_index_) {
        const ScalarType type = call_.is_condition(i) ? ScalarType::Bool : common_;
        buffers[static_cast<size_t>(i) + 1] = call_.number_buffer(type, sizes, kNoStrides.data(), rank);
      } else {
        const at::Tensor& input = *call_.input(i);
        add_buffer(i + 1, const_cast<void*>(input.const_data_ptr()), input, input.scalar_type());
      }
    }
    launch_on(kernel, {buffers.data(), static_cast<size_t>(call_.num_inputs_) + 1}, 1, call_.attributes(common_),
              current_stream(device_.index()));
  }

  PointwiseCall& call_;
  const at::Tensor& first_;
  const c10::Device device_;
  const at::Tensor* typed_ = nullptr;  // has the operands' dtype
  ScalarType common_ = ScalarType::Undefined;
  DtypeSet given_ = 0;
  int number_index_ = -1;
  bool number_broadcasts_ = false;
  bool one_shape_ = true;
};

// --- any operands, through a TensorIterator: promotion, broadcasting, casts ------------------------------------------

class PointwiseCall::StridedPath {
 public:
  StridedPath(PointwiseCall& call, const at::Tensor& first) : call_(call), device_(first.device()) {}

  bool run(const Launchable& kernel) {
    if (!promote() || !place_operands()) return false;
    const ScalarType computed = call_.result_dtype(common_), wanted = narrow_.value_or(computed);
    const at::Tensor* out = call_.out_;
    const bool cast_out = out != nullptr && out->scalar_type() != computed;
    if (cast_out && !call_.row_.casts_out) return false;
    at::Tensor target = out != nullptr && !cast_out ? *out : at::Tensor();
    check_out();
    at::TensorIterator iterator = build_iterator(target, computed);
    TORCH_CHECK(!cast_out || c10::canCast(wanted, out->scalar_type()), "result type ", wanted,
                " can't be cast to the desired output type ", out->scalar_type());
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
    if (!call_.fit_arguments(common_)) return false;
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

  void launch(const Launchable& kernel, at::TensorIterator& iterator) {
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

bool PointwiseCall::run() {
  if (C10_UNLIKELY(!representable_)) return false;
  const at::Tensor* first = nullptr;
  for (int i = 0; i < num_inputs_ && first == nullptr; ++i) {
    if (input(i) != nullptr && on_device(*input(i))) first = input(i);
  }
  if (first == nullptr) return false;
  const Launchable* kernel = row_.kernel.on(*first);
  return kernel != nullptr && (ContiguousPath(*this, *first).run(*kernel) || StridedPath(*this, *first).run(*kernel));
}

}  // namespace mydev
