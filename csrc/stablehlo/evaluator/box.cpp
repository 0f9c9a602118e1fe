#include "stablehlo/evaluator/box.h"

#include <cstring>

#include "stablehlo/evaluator/shapes.h"

namespace mydev::stablehlo {

void copy_box(const Sizes& sizes, const std::byte* from, const Sizes& from_strides, std::byte* to,
              const Sizes& to_strides, int64_t element_bytes) {
  // If both arrays are dense along the last dimension, a run along it is copied at once.
  const size_t rank = sizes.size();
  const bool has_runs = rank > 0 && from_strides[rank - 1] == 1 && to_strides[rank - 1] == 1;
  Sizes outer = sizes;
  if (has_runs) outer.back() = sizes.back() == 0 ? 0 : 1;
  const auto length = static_cast<size_t>((has_runs ? sizes.back() : 1) * element_bytes);
  for (Index at(outer); at; at.next()) {
    std::memcpy(to + at.offset(to_strides) * element_bytes, from + at.offset(from_strides) * element_bytes, length);
  }
}

}  // namespace mydev::stablehlo
