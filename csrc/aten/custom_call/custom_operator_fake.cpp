// The operators of custom calls without their kernels: empty tensors of the results' shapes and dtypes.
//
// This is the fake kernel that compilers trace with and that meta tensors get. If a shape rule gives the results'
// sizes, sizes that are symbols stay symbols. A kernel that computes sizes in code is asked with numbers, and the
// program is then compiled for these numbers.
#include <ATen/Functions.h>
#include <c10/core/SymInt.h>

#include <algorithm>
#include <array>
#include <optional>

#include "aten/custom_call/custom_attributes.h"
#include "aten/custom_call/custom_operator.h"
#include "kernels/launch/launch_plan.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/shape_rule.h"
#include "runtime/base/status.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

template <>
struct SizeTraits<c10::SymInt> {
  static bool must_equal(const c10::SymInt& a, const c10::SymInt& b) {
    return a.sym_eq(b).expect_true(__FILE__, __LINE__);
  }
  static bool is_one(const c10::SymInt& size) { return TORCH_GUARD_OR_FALSE(size.sym_eq(1)); }
};

namespace {

using at::Tensor;
using torch::jit::Stack;

bool has_symbols(const Tensor& tensor) {
  const c10::SymIntArrayRef sizes = tensor.sym_sizes();
  return std::any_of(sizes.begin(), sizes.end(), [](const c10::SymInt& size) { return size.is_symbolic(); });
}

class FakeCall {
 public:
  FakeCall(const mydev_kernel& record, c10::ArrayRef<c10::IValue> arguments)
      : record_(record), signature_(*compiled_signature(record)) {
    for (uint32_t i = 0; i < signature_.num_operands; ++i) add_operand(arguments[i]);
    for (uint32_t i = 0; i < signature_.num_attributes; ++i) {
      attributes_.add(record, *signature_.attributes[i], arguments[signature_.num_operands + i]);
    }
    has_symbols_ = std::any_of(operands_.begin(), operands_.end(),
                               [](const Tensor& tensor) { return tensor.defined() && has_symbols(tensor); });
    keeps_symbols_ = has_symbols_ && (signature_.rule || (signature_.infer_shapes == nullptr && !signature_.text));
    describe_operands();
  }

  // One tensor per output of the kernel.
  CustomResults results() {
    const mydev_frame frame = make_frame({buffers_.data(), buffers_.size()}, 0, attributes_.values());
    check_operands(record_, frame);
    const uint32_t count = num_outputs(signature_, frame.num_inputs);
    if (keeps_symbols_) return symbolic_results(count);
    c10::SmallVector<mydev_shape, 2> shapes(count);
    infer_results(record_, frame, {shapes.data(), shapes.size()});
    CustomResults results;
    for (uint32_t i = 0; i < count; ++i) {
      const int32_t alias = result_of_output(signature_, i).alias;
      const c10::IntArrayRef sizes(shapes[i].sizes, static_cast<size_t>(shapes[i].rank));
      results.push_back(alias >= 0 ? operands_[static_cast<size_t>(alias)]
                                   : empty_like_result(c10::fromIntArrayRefSlow(sizes), shapes[i].dtype));
    }
    return results;
  }

  // Why none of the kernel's records takes the call, by pretended addresses; empty if one does.
  std::string refusal(const Launchable& kernel, Stream& stream) {
    if (has_symbols_) return "its sizes are symbols";
    const mydev_frame given = make_frame({buffers_.data(), buffers_.size()}, 0, attributes_.values());
    check_operands(record_, given);
    std::vector<mydev_shape> shapes(num_outputs(signature_, given.num_inputs));
    infer_results(record_, given, shapes);
    std::vector<c10::DimVector> strides;
    std::vector<mydev_buffer> buffers;
    for (const mydev_shape& shape : shapes) {
      const c10::IntArrayRef sizes(shape.sizes, static_cast<size_t>(shape.rank));
      strides.push_back(c10::contiguous_strides(sizes));
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      buffers.push_back(
          {nullptr, shapes[i].sizes, strides[i].data(), shapes[i].rank, static_cast<int16_t>(shapes[i].dtype)});
    }
    buffers.insert(buffers.end(), buffers_.begin(), buffers_.end());
    for (size_t i = 0; i < buffers.size(); ++i) {
      if (buffers[i].sizes != nullptr) buffers[i].data = pretended_address(i);
    }
    mydev_frame frame = make_frame(buffers, static_cast<uint32_t>(shapes.size()), attributes_.values());
    return refusal_of(kernel, frame, stream);
  }

 private:
  static void* pretended_address(size_t buffer) {
    return reinterpret_cast<void*>((buffer + 1) << 40);  // NOLINT(performance-no-int-to-ptr)
  }

  void add_operand(const c10::IValue& value) {
    if (value.isTensorList()) {
      for (const Tensor& tensor : value.toTensorList()) operands_.push_back(tensor);
    } else {
      operands_.push_back(value.isTensor() ? value.toTensor() : Tensor());
    }
  }

  // Buffers without memory; their sizes are 0 where symbols stay symbols, since only their number counts then.
  void describe_operands() {
    numbers_.reserve(operands_.size());  // buffers point into it
    for (const Tensor& tensor : operands_) {
      if (!tensor.defined()) {
        buffers_.push_back({nullptr, nullptr, nullptr, 0, MYDEV_DTYPE_INVALID});
        continue;
      }
      const mydev_dtype dtype = to_frame_dtype(tensor.scalar_type());
      TORCH_CHECK_VALUE(dtype != MYDEV_DTYPE_INVALID, record_.name, ": an operand is ", tensor.scalar_type(),
                        ", a dtype that no kernel can be given");
      c10::DimVector& numbers = numbers_.emplace_back();
      for (const c10::SymInt& size : tensor.sym_sizes()) {
        numbers.push_back(keeps_symbols_ ? 0 : size.guard_int(__FILE__, __LINE__));
      }
      const size_t rank = numbers.size();
      const c10::DimVector strides = c10::contiguous_strides(numbers);
      numbers.append(strides.begin(), strides.end());
      buffers_.push_back({nullptr, numbers.data(), numbers.data() + rank, static_cast<int32_t>(rank), dtype});
    }
  }

  CustomResults symbolic_results(uint32_t count) {
    std::optional<ShapeBinding<c10::SymInt>> binding;
    if (signature_.rule) binding.emplace(*signature_.rule, record_, attributes_.values());
    for (uint32_t i = 0; binding && i < operands_.size(); ++i) {
      if (!operands_[i].defined()) continue;
      const c10::SymIntArrayRef sizes = operands_[i].sym_sizes();
      binding->take(i, {sizes.data(), sizes.size()});
    }
    const uint32_t num_single = num_single_results(signature_);
    CustomResults results;
    for (uint32_t i = 0; i < count; ++i) {
      const mydev_operand& result = result_of_output(signature_, i);
      if (result.alias >= 0) {
        results.push_back(operands_[static_cast<size_t>(result.alias)]);
      } else if (i >= num_single) {  // each of the shape of one of the variadic operand
        const uint32_t input = signature_.num_operands - 1 + i - num_single;
        results.push_back(empty_like_result(operands_[input].sym_sizes(), buffers_[input].dtype));
      } else {
        std::array<c10::SymInt, MYDEV_MAX_SHAPE_RANK> sizes;
        const auto rank = static_cast<size_t>(binding->give(i, std::span<c10::SymInt, MYDEV_MAX_SHAPE_RANK>(sizes)));
        results.push_back(empty_like_result({sizes.data(), rank}, declared_dtype(result, buffers_.data())));
      }
    }
    return results;
  }

  // Makes the tensor on the device of the operands; without operands, on the device where the kernel would run.
  Tensor empty_like_result(c10::SymIntArrayRef sizes, int32_t dtype) const {
    const auto operand =
        std::find_if(operands_.begin(), operands_.end(), [](const Tensor& tensor) { return tensor.defined(); });
    const c10::Device device = operand != operands_.end() ? operand->device() : c10::Device(kDeviceType);
    return at::empty_symint(sizes, at::TensorOptions(device).dtype(to_scalar_type(dtype)));
  }

  const mydev_kernel& record_;
  const CompiledSignature& signature_;
  CustomAttributes attributes_;
  c10::SmallVector<Tensor, 4> operands_;
  std::vector<c10::DimVector> numbers_;  // an operand's sizes, then its strides
  c10::SmallVector<mydev_buffer, 4> buffers_;
  bool has_symbols_ = false, keeps_symbols_ = false;
};

}  // namespace

void fake_custom_operator(CustomOperator& op, Stack* stack) {
  const CustomCallErrors errors;
  const mydev_kernel& record = op.record();
  const mydev_signature& signature = *record.signature;
  const size_t count = signature.num_operands + signature.num_attributes;
  CustomResults results = FakeCall(record, torch::jit::last(*stack, count)).results();
  torch::jit::drop(*stack, count);
  push_results(signature, std::move(results), stack);
}

std::string refusal_of_custom_operator(CustomOperator& op, const Stack& stack, int device) {
  const CustomCallErrors errors;
  const Launchable* kernel = resolve_step(mydev::device(device), op.kernel().name().c_str());
  if (kernel == nullptr) return "the device has no record of it";
  const mydev_kernel& record = op.record();
  const size_t count = record.signature->num_operands + record.signature->num_attributes;
  return FakeCall(record, torch::jit::last(stack, count)).refusal(*kernel, default_stream(device));
}

}  // namespace mydev
