// For tests of the pointwise kernels and copies: operands of any strides, the layouts they are tried in, and each
// instruction set that this processor runs.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "kernel_fixture.h"

namespace mydev::kernels {

inline constexpr float kInfinity = std::numeric_limits<float>::infinity();
inline constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A strided operand over memory of its own, larger than needed so that it can be walked backwards and with gaps.
template <typename T>
struct StridedOperand {
  std::vector<T> memory;
  std::vector<int64_t> sizes, strides;
  int64_t offset = 0;
  mydev_dtype dtype;

  mydev_buffer buffer() {
    return {memory.data() + offset, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), dtype};
  }
  T& at(const std::vector<int64_t>& index) {
    int64_t position = offset;
    for (size_t d = 0; d < sizes.size(); ++d) position += index[d] * strides[d];
    return memory[static_cast<size_t>(position)];
  }
};

template <typename T>
StridedOperand<T> dense(std::vector<T> values, mydev_dtype dtype) {
  const auto n = static_cast<int64_t>(values.size());
  return {std::move(values), {n}, {1}, 0, dtype};
}

inline mydev_code run_kernel(const mydev_kernel& kernel, std::vector<mydev_buffer> buffers,
                             std::vector<mydev_attribute> attributes = {}) {
  mydev_frame frame = make_frame(buffers, 1, attributes);
  frame.host = &host_services();
  return kernel.entry(&frame);
}

inline std::string isa_name(InstructionSet isa) {
  return instruction_set_name(isa);
}

struct Layout {
  const char* name;
  std::vector<int64_t> sizes;
  std::vector<int64_t> out, a, b;  // strides
};

inline const Layout kLayouts[] = {
    {"Scalar", {}, {}, {}, {}},
    {"Empty", {3, 0, 2}, {0, 2, 1}, {0, 2, 1}, {0, 2, 1}},
    {"Short", {5}, {1}, {1}, {1}},
    {"OneElementOfManyDimensions", {1, 1, 1}, {7, 3, 1}, {1, 1, 1}, {0, 0, 0}},
    {"LongerThanABuffer", {5000}, {1}, {1}, {1}},
    {"BroadcastScalar", {5000}, {1}, {1}, {0}},
    {"Backwards", {700}, {1}, {-1}, {1}},
    {"EveryThird", {700}, {2}, {3}, {1}},
    {"Transposed", {70, 90}, {90, 1}, {1, 70}, {90, 1}},
    {"TransposedInTiles", {2, 41, 300}, {12300, 300, 1}, {12300, 1, 41}, {0, 1, 41}},
    {"TransposedBesideAColumn", {40, 200}, {200, 1}, {1, 40}, {1, 0}},
    {"TransposedFromFar", {9, 300}, {300, 1}, {1, 1024}, {300, 1}},
    {"TransposedAndBackwards", {16, 130}, {130, 1}, {1, -16}, {130, 1}},
    {"BothTransposed", {70, 90}, {1, 70}, {1, 70}, {1, 70}},
    {"TransposedOut", {70, 90}, {1, 70}, {90, 1}, {90, 1}},
    {"RowBroadcast", {33, 100}, {100, 1}, {100, 1}, {0, 1}},
    {"ColumnBroadcast", {33, 100}, {100, 1}, {100, 1}, {1, 0}},
    {"ShortRowsBroadcast", {300, 3}, {3, 1}, {3, 1}, {0, 1}},
    {"RowsWithGaps", {40, 64}, {80, 1}, {64, 1}, {100, 1}},
    {"OuterProduct", {80, 90}, {90, 1}, {1, 0}, {0, 1}},
    {"FiveDimensionsPermuted", {2, 3, 4, 5, 6}, {360, 120, 30, 6, 1}, {1, 2, 6, 24, 120}, {30, 360, 6, 120, 1}},
};

// Every index of a layout's elements, the last dimension fastest.
inline std::vector<std::vector<int64_t>> indices_of(const Layout& layout) {
  const int64_t count = std::accumulate(layout.sizes.begin(), layout.sizes.end(), int64_t{1}, std::multiplies<>());
  std::vector<std::vector<int64_t>> indices(static_cast<size_t>(count), std::vector<int64_t>(layout.sizes.size()));
  for (int64_t position = 0; position < count; ++position) {
    int64_t remaining = position;
    for (size_t d = layout.sizes.size(); d-- > 0; remaining /= layout.sizes[d]) {
      indices[static_cast<size_t>(position)][d] = remaining % layout.sizes[d];
    }
  }
  return indices;
}

template <typename T>
StridedOperand<T> strided(const std::vector<int64_t>& sizes, const std::vector<int64_t>& strides, mydev_dtype dtype,
                          int seed) {
  int64_t low = 0, high = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    const int64_t reach = std::max<int64_t>(sizes[d] - 1, 0) * strides[d];
    (reach < 0 ? low : high) += reach;
  }
  StridedOperand<T> operand{std::vector<T>(static_cast<size_t>(high - low + 1)), sizes, strides, -low, dtype};
  for (size_t i = 0; i < operand.memory.size(); ++i) {
    operand.memory[i] = static_cast<T>(static_cast<int>(i * 7 + static_cast<size_t>(seed)) % 50);
  }
  return operand;
}

// A test in each instruction set.
class PerInstructionSet : public testing::TestWithParam<InstructionSet> {
 protected:
  const mydev_kernel& kernel(const std::string& name) const { return builtin_kernel(name, GetParam()); }
};

}  // namespace mydev::kernels
