// Optional tensor arguments of ops: an undefined tensor counts as absent.
#pragma once

#include <ATen/core/Tensor.h>

#include <initializer_list>
#include <optional>

#include "aten/host/native_or_host.h"

namespace mydev {

using OptionalTensor = std::optional<at::Tensor>;

inline bool given(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}
// nullptr for an absent one.
inline const at::Tensor* pointer_to(const OptionalTensor& tensor) {
  return given(tensor) ? &*tensor : nullptr;
}

// Whether it is absent or a dense vector of the input's channels.
inline bool is_channel_vector(const at::Tensor* tensor, const at::Tensor& input) {
  return tensor == nullptr || (on_device(*tensor) && tensor->device() == input.device() && tensor->is_contiguous() &&
                               tensor->dim() == 1 && tensor->size(0) == input.size(1));
}
// The type that statistics and weights have: that of those given, f32 beside a half type or the input's. Empty if they
// disagree.
inline std::optional<at::ScalarType> parameter_type(const at::Tensor& input,
                                                    std::initializer_list<const at::Tensor*> vectors) {
  std::optional<at::ScalarType> type;
  for (const at::Tensor* vector : vectors) {
    if (vector == nullptr) continue;
    if (type.has_value() && *type != vector->scalar_type()) return std::nullopt;
    type = vector->scalar_type();
  }
  const bool mixed = is_half_type(input.scalar_type()) && type == at::kFloat;
  return mixed || !type.has_value() || type == input.scalar_type() ? type.value_or(input.scalar_type())
                                                                   : std::optional<at::ScalarType>();
}

}  // namespace mydev
