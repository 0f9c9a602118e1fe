// Optional tensor arguments of ops: an undefined tensor counts as absent.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace mydev {

using OptionalTensor = std::optional<at::Tensor>;

inline bool given(const OptionalTensor& tensor) {
  return tensor.has_value() && tensor->defined();
}

}  // namespace mydev
