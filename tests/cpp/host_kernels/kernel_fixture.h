// For tests of kernels by their entries: operands with memory of their own, and a launch in each instruction set.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "conform/kernels/planned_launch.h"
#include "host_kernels/builtin_kernels.h"
#include "runtime/base/instruction_set.h"
#include "runtime/command/launch.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

// A strided operand; dense in its sizes unless given strides.
template <typename T>
struct Operand {
  std::vector<T> values;
  std::vector<int64_t> sizes, strides;
  mydev_dtype dtype;

  Operand(std::vector<int64_t> shape, mydev_dtype type) : sizes(std::move(shape)), dtype(type) {
    strides.resize(sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= sizes[d];
    }
    values.resize(static_cast<size_t>(stride));
  }
  // Small reproducible values, quarters in [-4, 4).
  Operand& fill(uint32_t seed) {
    for (T& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<T>(static_cast<int32_t>(seed >> 16 & 31) - 16) / T{4};
    }
    return *this;
  }
  mydev_buffer buffer() {
    return {values.data(), sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), dtype};
  }
};

inline mydev_buffer absent_operand(mydev_dtype dtype) {
  return {nullptr, nullptr, nullptr, 0, dtype};
}

class KernelTest : public testing::TestWithParam<InstructionSet> {
 protected:
  // Runs the kernel's entry in the instruction set under test, with the scratch that it asks for.
  static mydev_code run(const std::string& name, const std::vector<mydev_buffer>& buffers, uint32_t num_outputs,
                        const std::vector<mydev_attribute>& attributes = {}) {
    const mydev_kernel& kernel = builtin_kernel(name, GetParam());
    mydev_frame frame = make_frame(buffers, num_outputs, attributes);
    return run_record(kernel, frame);
  }
};

inline std::vector<InstructionSet> all_instruction_sets() {
  const auto supported = supported_instruction_sets();
  return {supported.begin(), supported.end()};
}

#define MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(fixture)                                         \
  INSTANTIATE_TEST_SUITE_P(InstructionSets, fixture, testing::ValuesIn(all_instruction_sets()), \
                           [](const auto& info) { return std::string(instruction_set_name(info.param)); })

}  // namespace mydev::kernels
