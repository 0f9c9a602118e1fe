// The tensors in a boxed value.
#pragma once

#include <ATen/core/ivalue.h>

#include <optional>
#include <utility>
#include <vector>

namespace mydev {

// Replaces each tensor of a Tensor, Tensor?, Tensor[] or Tensor?[] by map(tensor); leaves other values as they are.
template <class Map>
void map_tensors(c10::IValue& value, const Map& map) {
  if (value.isTensor()) {
    value = map(std::move(value).toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> mapped;
    std::vector<at::Tensor> tensors = value.toTensorVector();
    mapped.reserve(tensors.size());
    for (at::Tensor& tensor : tensors) mapped.push_back(map(std::move(tensor)));
    value = std::move(mapped);
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> mapped;
    std::vector<std::optional<at::Tensor>> tensors = value.toOptionalTensorVector();
    mapped.reserve(tensors.size());
    for (std::optional<at::Tensor>& tensor : tensors) {
      mapped.push_back(tensor.has_value() ? std::optional<at::Tensor>(map(*std::move(tensor))) : std::nullopt);
    }
    value = std::move(mapped);
  }
}

}  // namespace mydev
