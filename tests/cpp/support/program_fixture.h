// For tests of programs: programs from text, memory of the device with values in it, and runs of one.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "error_fixture.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/registry/launchable.h"
#include "program/ir/builder.h"
#include "program/run/executor.h"
#include "program/text/text.h"
#include "runtime/command/transfer.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"

namespace mydev::program {

// Text without its first line, which is the same for all.
inline SharedProgram parsed(const std::string& programs) {
  return parse("programs version 1\n\n" + programs);
}

// Memory of device 0, which the host need not reach.
template <typename T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values, Stream& stream = default_stream(0))
      : count_(values.size()), block_(allocate(stream, values.size() * sizeof(T))) {
    write(values, stream);
  }
  ~DeviceArray() { release(*block_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  void write(const std::vector<T>& values, Stream& stream = default_stream(0)) {
    copy_bytes(stream, block_->data, values.data(), count_ * sizeof(T), MYDEV_COPY_HOST_TO_DEVICE);
    stream.synchronize();
  }
  // Returns the values that the stream's work has left there.
  std::vector<T> read(Stream& stream = default_stream(0)) const {
    std::vector<T> values(count_);
    copy_bytes(stream, values.data(), block_->data, count_ * sizeof(T), MYDEV_COPY_DEVICE_TO_HOST);
    stream.synchronize();
    return values;
  }
  Binding binding() const { return {block_->data, count_ * sizeof(T)}; }

 private:
  size_t count_;
  Block* block_;
};
using Floats = DeviceArray<float>;

inline Executor executor_of(const SharedProgram& program, Stream& stream = default_stream(0)) {
  return Executor(program, stream, caching_allocator_for(stream));
}

// Runs the program once on values. Returns the program's first own result, of `count` floats.
inline std::vector<float> run_once(const SharedProgram& program, const std::vector<std::vector<float>>& parameters,
                                   size_t count) {
  std::vector<std::unique_ptr<Floats>> arrays;
  std::vector<Binding> bindings;
  for (const std::vector<float>& values : parameters) {
    bindings.push_back(arrays.emplace_back(std::make_unique<Floats>(values))->binding());
  }
  const Floats result(std::vector<float>(count, -1));
  Executor executor = executor_of(program);
  executor.run(default_stream(0), bindings, std::vector<Binding>{result.binding()});
  return result.read();
}

// Whether fused steps are one function of the device's compiler. It may make one instruction of a product and a sum
// that are launches of their own otherwise, and so the last bits differ.
inline bool fuses_by_compiler() {
  const Launchable* kernel = resolve_step(device(0), "mydev.fused");
  return kernel != nullptr && kernel->candidates.front().portable;
}
// Whether two results are the same, but for such bits.
inline bool same_but_for_rounding(double value, double expected, double tolerance = 1e-5) {
  if (std::isnan(expected) || std::isinf(expected)) return std::isnan(expected) ? std::isnan(value) : value == expected;
  return std::abs(value - expected) <= tolerance * (1 + std::abs(expected));
}
// A fused program gives what its launches give: to the bit, unless a compiler makes one function of them.
inline void expect_same_values(const std::vector<float>& values, const std::vector<float>& expected) {
  if (!fuses_by_compiler()) {
    EXPECT_EQ(values, expected);
    return;
  }
  ASSERT_EQ(values.size(), expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_TRUE(same_but_for_rounding(values[i], expected[i])) << i << ": " << values[i] << ", not " << expected[i];
  }
}

// The device's memory with another content than any run leaves there.
inline void poison(std::span<std::byte> memory, Stream& stream = default_stream(0)) {
  const std::string bytes(memory.size(), '\xff');  // floats: NaN
  if (bytes.empty()) return;
  copy_bytes(stream, memory.data(), bytes.data(), bytes.size(), MYDEV_COPY_HOST_TO_DEVICE);
  stream.synchronize();
}

}  // namespace mydev::program
