#include "aten/ops/pointwise.h"

#include <algorithm>

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

bool PointwiseCall::arguments_fit(ScalarType common) const {
  for (uint32_t left = number_arguments_; left != 0; left &= left - 1) {
    mydev_attribute number = attributes_[static_cast<size_t>(__builtin_ctz(left))];
    if (!fit_number(number, common, /*round=*/true)) return false;
  }
  return true;
}

bool PointwiseCall::run() {
  if (C10_UNLIKELY(!representable_)) return false;
  const at::Tensor* first = nullptr;
  for (int i = 0; i < num_inputs_ && first == nullptr; ++i) {
    if (input(i) != nullptr && on_device(*input(i))) first = input(i);
  }
  if (first == nullptr) return false;
  const mydev_kernel* kernel = row_.kernel.on(*first);
  return kernel != nullptr && (run_contiguous(*kernel, *first) || run_strided(*kernel, *first));
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

  C10_ALWAYS_INLINE bool run(const mydev_kernel& kernel) {
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
    return call_.arguments_fit(common_);
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

  // Contiguous operands of one shape give a contiguous result. Where they broadcast, the CPU looks at their strides.
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

  C10_ALWAYS_INLINE void launch(const mydev_kernel& kernel, const ContiguousShape& shape, const at::Tensor& out,
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

bool PointwiseCall::run_contiguous(const mydev_kernel& kernel, const at::Tensor& first) {
  return ContiguousPath(*this, first).run(kernel);
}

}  // namespace mydev
