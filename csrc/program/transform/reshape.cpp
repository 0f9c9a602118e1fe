#include "program/transform/reshape.h"

#include <algorithm>
#include <functional>
#include <numeric>

namespace mydev::program {

std::vector<int64_t> without_ones(const std::vector<int64_t>& sizes) {
  std::vector<int64_t> rest = sizes;
  std::erase(rest, 1);
  return rest;
}

int64_t count_elements(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

std::optional<std::vector<int64_t>> common_refinement(const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
  std::vector<int64_t> left = without_ones(a);
  const std::vector<int64_t> right = without_ones(b);
  if (left == right) return left;
  const int64_t count = count_elements(left);
  if (count == 0 || count != count_elements(right)) return std::nullopt;
  std::vector<int64_t> refined;  // from the innermost
  size_t i = left.size(), j = right.size();
  int64_t x = 1, y = 1;  // what is left of the current size of each
  while (i > 0 || j > 0 || x > 1) {
    if (x == 1) x = left[--i];
    if (y == 1) y = right[--j];
    const int64_t smaller = std::min(x, y);
    if (std::max(x, y) % smaller != 0) return std::nullopt;
    refined.push_back(smaller);
    x /= smaller;
    y /= smaller;
  }
  std::ranges::reverse(refined);
  return refined;
}

Operand reshaped(const Operand& operand, const std::vector<int64_t>& sizes) {
  Operand view = operand;
  if (operand.kind == Operand::kAbsent || operand.sizes == sizes) return view;
  view.sizes = sizes;
  view.strides.assign(sizes.size(), 0);
  if (operand.kind == Operand::kNumber) return view;
  size_t from = operand.sizes.size();
  int64_t rest = 1, stride = 0;  // of the dimension that is being split
  for (size_t d = sizes.size(); d-- > 0;) {
    while (rest == 1) {
      rest = operand.sizes[--from];
      stride = operand.strides[from];
    }
    view.strides[d] = stride;
    rest = rest == sizes[d] ? 1 : rest / sizes[d];  // 0 is split into 0 alone
    if (rest != 1) stride *= sizes[d];
  }
  return view;
}

Operand flattened(const Operand& operand) {
  Operand view = operand;
  view.sizes.clear();
  view.strides.clear();
  if (operand.kind != Operand::kView) return view;
  for (size_t d = 0; d < operand.sizes.size(); ++d) {
    const int64_t size = operand.sizes[d], stride = operand.strides[d];
    if (size == 1) continue;
    if (!view.sizes.empty() && view.strides.back() == stride * size) {
      view.sizes.back() *= size;
      view.strides.back() = stride;
    } else {
      view.sizes.push_back(size);
      view.strides.push_back(stride);
    }
  }
  return view;
}

}  // namespace mydev::program
