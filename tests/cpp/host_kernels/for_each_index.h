// A loop over all places of a tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mydev::kernels {

using Sizes = std::vector<int64_t>;

// Calls body(index) for every index below sizes, last dimension fastest.
template <typename Body>
void for_each_index(const Sizes& sizes, const Body& body) {
  for (int64_t size : sizes) {
    if (size == 0) return;
  }
  Sizes index(sizes.size(), 0);
  for (;;) {
    body(index);
    size_t i = sizes.size();
    while (i > 0 && ++index[i - 1] == sizes[i - 1]) index[--i] = 0;
    if (i == 0) return;
  }
}

}  // namespace mydev::kernels
