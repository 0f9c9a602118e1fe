// The tensors in a boxed value.
#pragma once

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace mydev {

// Whether it is a Tensor?[]. Lists that TorchScript makes have an element type of their own.
inline bool is_optional_tensor_list(const c10::IValue& value) {
  if (value.isOptionalTensorList()) return true;
  if (!value.isList()) return false;
  const c10::ArrayRef<c10::IValue> elements = value.toListRef();
  return !elements.empty() && std::ranges::all_of(elements, [](const c10::IValue& element) {
    return element.isTensor() || element.isNone();
  });
}

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
  } else if (is_optional_tensor_list(value)) {
    c10::List<std::optional<at::Tensor>> mapped;
    const c10::ArrayRef<c10::IValue> elements = value.toListRef();
    mapped.reserve(elements.size());
    for (const c10::IValue& element : elements) {
      mapped.push_back(element.isTensor() ? std::optional<at::Tensor>(map(element.toTensor())) : std::nullopt);
    }
    value = std::move(mapped);
  }
}

}  // namespace mydev
