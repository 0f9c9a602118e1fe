#include "aten/ops/pointwise.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ScalarOps.h>
#include <ATen/TensorIterator.h>
#include <ATen/native/Resize.h>
#include <ATen/native/TypeProperties.h>
#include <c10/core/DefaultDtype.h>

#include <algorithm>

#include "aten/core/number.h"
#include "runtime/stream_table.h"

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

void PointwiseCall::take(const c10::Scalar& number) {
  if (row_.number_is_operand) {
    attributes_[0] = number_attribute("scalar", number);
    has_number_ = true;
    inputs_[static_cast<size_t>(num_inputs_++)] = nullptr;
  } else {
    add_argument(number_attribute(next_name(), number));
  }
}

void PointwiseCall::take(std::string_view approximate) {
  TORCH_CHECK(approximate == "none" || approximate == "tanh", "approximate argument must be either none or tanh.");
  add_argument(bool_attribute(next_name(), approximate == "tanh"));
}

bool PointwiseCall::fit(int number_index, ScalarType common) {
  return fit_number(attributes_[0], common, /*round=*/!(row_.wide_number && number_index == 1));
}

bool PointwiseCall::run() {
  const at::Tensor* first = nullptr;
  for (int i = 0; i < num_inputs_ && first == nullptr; ++i) {
    const at::Tensor* input = inputs_[static_cast<size_t>(i)];
    if (input != nullptr && on_device(*input)) first = input;
  }
  if (first == nullptr) return false;
  const mydev_kernel* kernel = row_.kernel.on(*first);
  return kernel != nullptr && (run_contiguous(*kernel, *first) || run_strided(*kernel, *first));
}

// --- the short way ---------------------------------------------------------------------------------------------------

namespace {

// Sizes and strides of contiguous operands that broadcast to one shape. One dimension if they have one shape already.
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

bool PointwiseCall::run_contiguous(const mydev_kernel& kernel, const at::Tensor& first) {
  const c10::Device device = first.device();
  const at::Tensor* typed = nullptr;
  bool one_shape = true;
  int number_index = -1;
  DtypeSet given = 0;
  for (int i = 0; i < num_inputs_; ++i) {
    const at::Tensor* input = inputs_[static_cast<size_t>(i)];
    if (input == nullptr) {
      number_index = i;
      continue;
    }
    given |= dtypes(input->scalar_type());
    if (!on_device(*input)) {
      const bool usable = number_index < 0 && !has_number_ && input->defined() && is_cpu_scalar(*input) &&
                          (first.dim() > 0 || input->unsafeGetTensorImpl()->is_wrapped_number());
      if (!usable || !read_number(*input, attributes_[0])) return false;
      number_index = i;
      continue;
    }
    if (input->device() != device || !input->is_contiguous()) return false;
    one_shape = one_shape && input->sizes() == first.sizes();
    if (row_.condition_first && i == 0) {
      if (input->scalar_type() != ScalarType::Bool) return false;
    } else if (typed == nullptr) {
      typed = input;
    } else if (input->scalar_type() != typed->scalar_type()) {
      return false;
    }
  }
  if (typed == nullptr || first.dim() > kMaxRank) return false;
  const ScalarType common = typed->scalar_type();
  if (!covers(common) || (row_.result == ResultDtype::kFloat && promotion_kind(common) < 2)) return false;
  if (number_index >= 0) {
    if (promotion_kind(attributes_[0]) > promotion_kind(common) || !fit(number_index, common)) return false;
  }
  if (row_.check != nullptr) row_.check(common, given, attributes_.data() + 1);

  ContiguousShape shape(first.sizes());
  if (!one_shape) {
    for (int i = 0; i < num_inputs_; ++i) {
      const at::Tensor* input = inputs_[static_cast<size_t>(i)];
      if (i != number_index && (input->dim() > kMaxRank || !shape.expand(input->sizes()))) return false;
    }
  }
  const c10::IntArrayRef sizes = shape.sizes();
  const ScalarType wanted = result_dtype(common);
  const at::Tensor* out = out_;
  if (out == nullptr) {
    result_ = empty_dense(sizes, wanted, device);
    out = &result_;
  } else {
    if (!on_device(*out) || out->device() != device || out->scalar_type() != wanted || !out->is_contiguous() ||
        out->sizes() != sizes) {
      return false;
    }
    for (int i = 0; i < num_inputs_; ++i) {
      const at::Tensor* input = inputs_[static_cast<size_t>(i)];
      if (i != number_index && input != out && overlaps_partly(*out, *input)) return false;
    }
  }
  const int64_t count = out->numel();
  if (count == 0) return true;

  static constexpr int64_t kOne = 1;
  std::array<std::array<int64_t, kMaxRank>, 1 + kMaxInputs> strides;
  std::array<mydev_buffer, 1 + kMaxInputs> buffers;
  const auto rank = static_cast<int32_t>(one_shape ? 1 : sizes.size());
  const int64_t* frame_sizes = one_shape ? &count : sizes.data();
  const auto add_buffer = [&](int index, void* data, const at::Tensor& operand, ScalarType type) {
    const auto k = static_cast<size_t>(index);
    if (!one_shape) shape.strides_of(operand.sizes(), strides[k].data());
    buffers[k] = {data, frame_sizes, one_shape ? &kOne : strides[k].data(), rank, to_frame_dtype(type)};
  };
  add_buffer(0, out->mutable_data_ptr(), *out, wanted);
  for (int i = 0; i < num_inputs_; ++i) {
    const at::Tensor* input = inputs_[static_cast<size_t>(i)];
    if (i == number_index) {
      add_buffer(i + 1, nullptr, *out, common);
    } else {
      add_buffer(i + 1, const_cast<void*>(input->const_data_ptr()), *input, input->scalar_type());
    }
  }
  launch_on(kernel, {buffers.data(), static_cast<size_t>(num_inputs_) + 1}, 1, attributes(number_index >= 0),
            current_stream(device.index()));
  return true;
}

// --- the general way -----------------------------------------------------------------------------------------------

bool PointwiseCall::run_strided(const mydev_kernel& kernel, const at::Tensor& first) {
  const c10::Device device = first.device();
  std::array<at::Tensor, kMaxInputs> owned;  // numbers as tensors, casts
  at::native::ResultTypeState promotion;
  DtypeSet given = 0;
  for (int i = 0; i < num_inputs_; ++i) {
    const auto k = static_cast<size_t>(i);
    if (inputs_[k] == nullptr) {
      owned[k] = c10::scalar_to_tensor(to_scalar(attributes_[0]));
      owned[k].unsafeGetTensorImpl()->set_wrapped_number(true);
    } else {
      if (!inputs_[k]->defined()) return false;
      owned[k] = *inputs_[k];
    }
    if (row_.condition_first && i == 0) {
      if (owned[k].scalar_type() != ScalarType::Bool) return false;
    } else {
      promotion = at::native::update_result_type_state(owned[k], promotion);
      given |= dtypes(owned[k].scalar_type());
    }
  }
  if (out_ != nullptr && !on_device(*out_)) return false;
  check_same_device(row_.kernel.name() + std::string_view("mydev.").size(), {owned[0], owned[1], owned[2]});
  ScalarType common = at::native::result_type(promotion);
  if (row_.result == ResultDtype::kFloat && c10::isIntegralType(common, /*includeBool=*/true)) {
    common = c10::get_default_dtype_as_scalartype();
  }
  if (!covers(common)) return false;
  if (row_.check != nullptr) row_.check(common, given, attributes_.data() + 1);

  int number_index = -1;
  for (int i = 0; i < num_inputs_; ++i) {
    at::Tensor& input = owned[static_cast<size_t>(i)];
    const bool condition = row_.condition_first && i == 0;
    if (!on_device(input)) {
      if (number_index < 0 && !condition && (inputs_[static_cast<size_t>(i)] == nullptr || !has_number_) &&
          read_number(input, attributes_[0]) && promotion_kind(attributes_[0]) <= promotion_kind(common) &&
          fit(i, common)) {
        number_index = i;
        continue;
      }
      if (inputs_[static_cast<size_t>(i)] == nullptr) return false;  // the CPU decides whether that is an error
      input = input.to(condition ? ScalarType::Bool : common).to(device);
    } else if (!condition && input.scalar_type() != common) {
      input = input.to(common);
    }
  }

  const ScalarType wanted = result_dtype(common);
  const bool cast_out = out_ != nullptr && out_->scalar_type() != wanted;
  if (cast_out) {
    TORCH_CHECK(c10::canCast(wanted, out_->scalar_type()), "result type ", wanted,
                " can't be cast to the desired output type ", out_->scalar_type());
  }
  at::Tensor target = out_ != nullptr && !cast_out ? *out_ : at::Tensor();
  at::TensorIteratorConfig config;
  config.set_check_mem_overlap(true)
      .allow_cpu_scalars(true)
      .check_all_same_dtype(false)
      .declare_static_dtype_and_device(wanted, device)
      .add_output(target);
  for (int i = 0; i < num_inputs_; ++i) config.add_const_input(owned[static_cast<size_t>(i)]);
  at::TensorIterator iterator = config.build();
  if (iterator.ndim() > kMaxRank) return false;
  const bool in_place = out_ != nullptr && inputs_[0] == out_;
  if (iterator.numel() > 0) {
    const auto rank = static_cast<size_t>(iterator.ndim());
    std::array<int64_t, kMaxRank> sizes;
    std::array<std::array<int64_t, kMaxRank>, 1 + kMaxInputs> strides;
    std::array<mydev_buffer, 1 + kMaxInputs> buffers;
    // The iterator's dimensions go from the innermost out, its strides are in bytes.
    for (size_t d = 0; d < rank; ++d) sizes[d] = iterator.shape()[rank - 1 - d];
    for (int k = 0; k <= num_inputs_; ++k) {
      const auto index = static_cast<size_t>(k);
      const bool number = k > 0 && k - 1 == number_index;
      const int64_t itemsize = iterator.element_size(k);
      for (size_t d = 0; d < rank; ++d) {
        strides[index][d] = number ? 0 : iterator.strides(k)[rank - 1 - d] / itemsize;
      }
      buffers[index] = {number ? nullptr : iterator.data_ptr(k), sizes.data(), strides[index].data(),
                        static_cast<int32_t>(rank), to_frame_dtype(number ? common : iterator.dtype(k))};
    }
    launch_on(kernel, {buffers.data(), static_cast<size_t>(num_inputs_) + 1}, 1, attributes(number_index >= 0),
              current_stream(device.index()));
  }
  if (out_ == nullptr) {
    result_ = iterator.output();
  } else if (cast_out) {
    const at::Tensor& computed = iterator.output();
    if (in_place) {
      TORCH_CHECK(computed.sizes() == out_->sizes(), "output with shape ", out_->sizes(),
                  " doesn't match the broadcast shape ", computed.sizes());
    } else {
      at::native::resize_output(*out_, computed.sizes());
    }
    out_->copy_(computed);
  }
  return true;
}

}  // namespace mydev
