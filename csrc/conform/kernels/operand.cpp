#include "conform/kernels/operand.h"

#include <algorithm>
#include <cstring>

#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::conform {

size_t element_count(const Sizes& sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return static_cast<size_t>(count);
}

std::string Operand::name() const {
  return contract->is_list ? contract->name + "[" + std::to_string(position) + "]" : contract->name;
}

size_t Operand::element_size() const {
  return static_cast<size_t>(std::max<int64_t>(dtype_size(dtype), 1));
}

size_t Operand::count() const {
  return element_count(sizes);
}

bool Operand::has_elements() const {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0 && !(is_reduced() && strides[d] == 0)) return false;
  }
  return true;
}

size_t Operand::byte_of(size_t index) const {
  auto rest = static_cast<int64_t>(index);
  int64_t element = offset;
  for (size_t d = sizes.size(); d-- > 0;) {
    element += rest % sizes[d] * strides[d];
    rest /= sizes[d];
  }
  return kGuard + static_cast<size_t>(element) * element_size();
}

Value Operand::get(size_t index) const {
  if (!is_number) return load_element(dtype, image.data() + byte_of(index));
  switch (scalar_kind(dtype)) {
    case ScalarKind::kInteger:
      return value_of(number.i);
    case ScalarKind::kFloat:
      return {0, number.f};
    case ScalarKind::kComplex:
      return {0, {number.c[0], number.c[1]}};
  }
  return {};
}

void Operand::make_image(int64_t elements) {
  image.assign(2 * kGuard + static_cast<size_t>(elements) * element_size(), kPattern);
}

mydev_buffer Operand::buffer(unsigned char* memory) {
  if (absent) return {nullptr, nullptr, nullptr, 0, MYDEV_DTYPE_INVALID, 0};
  void* data = is_number ? static_cast<void*>(&number) : has_elements() ? memory + first_byte() : nullptr;
  const auto flags = static_cast<uint16_t>(is_number ? MYDEV_BUFFER_SCALAR : 0);
  return {data, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), static_cast<int16_t>(dtype), flags};
}

Sizes Operand::places() const {
  Sizes kept = sizes;
  for (size_t d = 0; d < kept.size(); ++d) kept[d] = is_reduced() && strides[d] == 0 ? 1 : kept[d];
  return kept;
}

Operand dense_copy(const Operand& from, const std::vector<unsigned char>& image) {
  Operand copy = from;
  if (from.is_number || from.absent) return copy;
  copy.alias = -1;
  if (from.contract->layout == ContractLayout::kPacked) {
    copy.image = image;
    if (from.is_result && !from.contract->is_updated)
      std::fill(copy.image.begin(), copy.image.end(), Operand::kPattern);
    return copy;
  }
  copy.offset = 0;
  const Sizes places = from.places();
  int64_t stride = 1;
  for (size_t d = places.size(); d-- > 0;) {
    const bool reduced = from.is_reduced() && from.strides[d] == 0;
    copy.strides[d] = reduced ? 0 : stride;
    stride *= std::max<int64_t>(places[d], 1);
  }
  copy.make_image(stride);
  const bool has_values = !from.is_result || from.contract->is_updated;
  for (size_t i = 0; i < from.count() && has_values; ++i) {
    std::memcpy(copy.image.data() + copy.byte_of(i), image.data() + from.byte_of(i), from.element_size());
  }
  return copy;
}

}  // namespace mydev::conform
