#include "aten/host/quantized.h"

#include <ATen/NativeFunctions.h>
#include <ATen/Operators.h>
#include <ATen/quantized/QTensorImpl.h>
#include <torch/library.h>

#include "aten/core/device_type.h"
#include "aten/host/fallback.h"

namespace mydev {
namespace {

using at::PerChannelAffineFloatQParamsQuantizer;
using at::PerChannelAffineQuantizer;
using at::Tensor;

constexpr c10::DispatchKey kQuantizedKey = c10::DispatchKey::QuantizedPrivateUse1;

at::QTensorImpl& impl_of(const Tensor& quantized) {
  return *at::get_qtensorimpl(quantized);
}

// nullptr unless quantized per channel.
const PerChannelAffineQuantizer* per_channel_quantizer(const Tensor& quantized) {
  return dynamic_cast<const PerChannelAffineQuantizer*>(impl_of(quantized).quantizer().get());
}

// The quantizer of `like` with other scales and zero points.
at::QuantizerPtr quantizer_over(const Tensor& like, Tensor scales, Tensor zero_points) {
  const PerChannelAffineQuantizer& quantizer = *per_channel_quantizer(like);
  const at::ScalarType type = quantizer.scalar_type();
  if (quantizer.qscheme() == at::kPerChannelAffineFloatQParams) {
    return c10::make_intrusive<PerChannelAffineFloatQParamsQuantizer>(type, std::move(scales), std::move(zero_points),
                                                                      quantizer.axis());
  }
  return c10::make_intrusive<PerChannelAffineQuantizer>(type, std::move(scales), std::move(zero_points),
                                                        quantizer.axis());
}

at::QuantizerPtr quantizer_over(const Tensor& like, const Components& components) {
  if (components.size() == 1) return impl_of(like).quantizer();
  const c10::Device device = components[0].device();
  return quantizer_over(like, components[1].to(device), components[2].to(device));
}

at::QuantizerPtr quantizer_on(c10::Device device, const Tensor& like) {
  const PerChannelAffineQuantizer* quantizer = per_channel_quantizer(like);
  if (quantizer == nullptr) return impl_of(like).quantizer();
  return quantizer_over(like, quantizer->scales().to(device), quantizer->zero_points().to(device));
}

// Several elements share a byte.
bool is_packed(const Tensor& quantized) {
  return quantized.scalar_type() == at::kQUInt4x2 || quantized.scalar_type() == at::kQUInt2x4;
}

Tensor quantized_on(const c10::Storage& storage, at::QuantizerPtr quantizer, const Tensor& like,
                    c10::BackendComponent backend) {
  return at::detail::make_tensor<at::QTensorImpl>(
      c10::Storage(storage), c10::DispatchKeySet(c10::DispatchKey::Quantized) | c10::DispatchKeySet(backend),
      like.dtype(), std::move(quantizer));
}

// The integers of a tensor as dense, which is a view of it. For tensors of packed elements, which must be contiguous,
// their bytes.
Tensor integers_of(const Tensor& quantized) {
  const auto type = c10::scalarTypeToTypeMeta(c10::toUnderlying(quantized.scalar_type()));
  Tensor result = whole_storage(quantized, type);
  c10::TensorImpl& impl = *result.unsafeGetTensorImpl();
  if (!is_packed(quantized)) {
    impl.set_sizes_and_strides(quantized.sizes(), quantized.strides(), quantized.storage_offset());
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(quantized.is_contiguous() && quantized.storage_offset() == 0, "copying a view of ",
                                quantized.scalar_type(), " elements on ", kDeviceType,
                                " is not supported; dequantize() the tensor first");
  }
  return result;
}

Tensor int_repr(const Tensor& self) {
  TORCH_CHECK_NOT_IMPLEMENTED(!is_packed(self), "int_repr: tensors of ", self.scalar_type(), " on ", kDeviceType,
                              " are not supported; move the tensor with .cpu()");
  return integers_of(self).clone(self.suggest_memory_format());
}

// Copies as the CPU does: strides that are not those of a memory format are not kept.
Tensor copy_to(c10::Device device, const Tensor& self, std::optional<at::MemoryFormat> memory_format,
               bool non_blocking) {
  at::MemoryFormat format = memory_format.value_or(at::MemoryFormat::Preserve);
  if (format == at::MemoryFormat::Preserve) format = self.suggest_memory_format();
  if (is_packed(self)) format = at::MemoryFormat::Contiguous;
  const Tensor copy =
      integers_of(self).to(device, c10::toUnderlying(self.scalar_type()), non_blocking, /*copy=*/true, format);
  Tensor result = quantized_on(copy.storage(), quantizer_on(device, self), self, copy.key_set().highestBackendKey());
  const Tensor& layout = is_packed(self) ? self : copy;
  result.unsafeGetTensorImpl()->set_sizes_and_strides(layout.sizes(), layout.strides());
  return result;
}

Tensor clone(const Tensor& self, std::optional<at::MemoryFormat> memory_format) {
  return copy_to(self.device(), self, memory_format.value_or(at::MemoryFormat::Contiguous), /*non_blocking=*/false);
}

Tensor to_copy(const Tensor& self, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
               std::optional<at::Device> device, std::optional<bool> /*pin_memory*/, bool non_blocking,
               std::optional<at::MemoryFormat> memory_format) {
  TORCH_CHECK(dtype.value_or(self.scalar_type()) == self.scalar_type(), "to: a tensor of ", self.scalar_type(),
              " cannot become one of ", dtype.value(), "; dequantize() it first");
  return copy_to(device.value_or(self.device()), self, memory_format, non_blocking);
}

// Scales and zero points may be on any device. If they are on this one, the call comes here whatever its target.
Tensor empty_per_channel(at::IntArrayRef sizes, const Tensor& scales, const Tensor& zero_points, int64_t axis,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                         std::optional<at::Device> device, std::optional<bool> pin_memory,
                         std::optional<at::MemoryFormat> memory_format) {
  const at::Device target = device.value_or(at::kCPU);
  const Tensor moved_scales = scales.to(target), moved_zero_points = zero_points.to(target);
  using Op = at::_ops::_empty_per_channel_affine_quantized;
  if (target.type() == kDeviceType) {
    return BoxedFallback<Op>::call_for(kQuantizedKey, c10::fromIntArrayRefSlow(sizes), moved_scales, moved_zero_points,
                                       axis, dtype, layout, target, pin_memory, memory_format);
  }
  return Op::call(c10::fromIntArrayRefSlow(sizes), moved_scales, moved_zero_points, axis, dtype, layout, target,
                  pin_memory, memory_format);
}

Tensor& copy_quantized_(Tensor& self, const Tensor& src, bool non_blocking) {
  TORCH_CHECK(self.is_quantized(), "copy_: a tensor of ", self.scalar_type(),
              " cannot be given the values of a quantized one; dequantize() it first");
  if (!src.is_quantized()) {
    return BoxedFallback<at::_ops::copy_>::call_for(kQuantizedKey, self, src.to(self.device()), non_blocking);
  }
  TORCH_CHECK(self.scalar_type() == src.scalar_type() && self.qscheme() == src.qscheme(),
              "copy_: expected quantized tensors of one dtype and scheme, got ", self.scalar_type(), " and ",
              src.scalar_type(), ", ", c10::toString(self.qscheme()), " and ", c10::toString(src.qscheme()));
  impl_of(self).set_quantizer_(quantizer_on(self.device(), src));
  integers_of(self).copy_(integers_of(src), non_blocking);
  return self;
}

}  // namespace

Components quantized_components(const Tensor& quantized) {
  const Tensor bytes = whole_storage(quantized, caffe2::TypeMeta::Make<uint8_t>());
  const PerChannelAffineQuantizer* quantizer = per_channel_quantizer(quantized);
  if (quantizer == nullptr) return {bytes};
  return {bytes, quantizer->scales(), quantizer->zero_points()};
}

Tensor quantized_over(const Components& components, const Tensor& quantized) {
  Tensor result = quantized_on(components[0].storage(), quantizer_over(quantized, components), quantized,
                               components[0].key_set().highestBackendKey());
  result.unsafeGetTensorImpl()->set_sizes_and_strides(quantized.sizes(), quantized.strides(),
                                                      quantized.storage_offset());
  return result;
}

void set_quantized(const Tensor& destination, const Components& components, const Tensor& like) {
  at::QTensorImpl& impl = impl_of(destination);
  if (!destination.is_alias_of(components[0])) impl.set_storage_keep_dtype(components[0].storage());
  impl.set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  impl.set_quantizer_(quantizer_over(like, components));
}

// A view never touches memory: core's own kernels serve any device.
TORCH_LIBRARY_IMPL(aten, QuantizedPrivateUse1, m) {
  m.impl("empty_quantized", &at::native::empty_quantized);
  m.impl("empty_like", &at::native::empty_like_quantized);
  m.impl("set_.source_Storage_storage_offset", &at::native::set_storage_quantized_);
  m.impl("as_strided", &at::native::as_strided_qtensorimpl);
  m.impl("view", &at::native::view);
  m.impl("_reshape_alias", &at::native::_reshape_alias);
  m.impl("unfold", &at::native::unfold);
  m.impl("squeeze", static_cast<Tensor (*)(const Tensor&)>(&at::native::squeeze_quantized));
  m.impl("squeeze.dim", static_cast<Tensor (*)(const Tensor&, int64_t)>(&at::native::squeeze_quantized));
  m.impl("squeeze.dims", static_cast<Tensor (*)(const Tensor&, at::IntArrayRef)>(&at::native::squeeze_quantized));
  m.impl("unsqueeze", &at::native::unsqueeze_quantized);
  m.impl("qscheme", &at::native::qscheme_quant);
  m.impl("q_scale", &at::native::q_scale_quant);
  m.impl("q_zero_point", &at::native::q_zero_point_quant);
  m.impl("q_per_channel_scales", &at::native::q_per_channel_scales);
  m.impl("q_per_channel_zero_points", &at::native::q_per_channel_zero_points);
  m.impl("q_per_channel_axis", &at::native::q_per_channel_axis);
  m.impl("int_repr", &int_repr);
  m.impl("clone", &clone);
  m.impl("_to_copy", &to_copy);
  m.impl("_empty_per_channel_affine_quantized", &empty_per_channel);
  m.impl("copy_", &copy_quantized_);
}

}  // namespace mydev
