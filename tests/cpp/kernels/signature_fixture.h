// For tests of signatures: records that own their tables, operands without memory, and records registered for a test.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "error_fixture.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/signature.h"
#include "runtime/frame/frame.h"
#include "string_attribute.h"

namespace mydev {

inline constexpr uint64_t kFloats = MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64);
inline constexpr uint64_t kF32 = MYDEV_DTYPE_BIT(MYDEV_F32);

inline mydev_operand operand(const char* name, uint64_t dtypes = kFloats, uint32_t flags = 0) {
  return {sizeof(mydev_operand), name, dtypes, -1, -1, 0, -1, flags, nullptr};
}
inline mydev_operand result_like(const char* name, int32_t like, int32_t alias = -1) {
  return {sizeof(mydev_operand), name, 0, like, alias, 0, -1, 0, nullptr};
}
inline mydev_attribute_spec with_default(const mydev_attribute& value) {
  return {sizeof(mydev_attribute_spec), value, 0, nullptr};
}
inline mydev_attribute_spec required(const char* name, mydev_attribute_kind kind,
                                     mydev_dtype dtype = MYDEV_DTYPE_INVALID) {
  return {sizeof(mydev_attribute_spec),
          {name, static_cast<uint16_t>(kind), static_cast<uint16_t>(dtype), 0, {}},
          MYDEV_ATTRIBUTE_REQUIRED,
          nullptr};
}

inline mydev_code succeed(const mydev_frame*) {
  return MYDEV_OK;
}

// A record that owns its signature.
struct Record {
  std::vector<mydev_operand> operands, results;
  std::vector<mydev_attribute_spec> attributes;
  const char* shapes = nullptr;
  mydev_code (*infer_shapes)(const mydev_frame*, mydev_shape*) = nullptr;
  std::string name = "test.op";

  const mydev_kernel& kernel() {
    const auto point = [](auto& values, auto& pointers) {
      pointers.clear();
      for (auto& value : values) pointers.push_back(&value);
    };
    point(operands, operand_pointers_);
    point(results, result_pointers_);
    point(attributes, attribute_pointers_);
    signature_ = {sizeof(mydev_signature),
                  operand_pointers_.data(),
                  static_cast<uint32_t>(operands.size()),
                  static_cast<uint32_t>(results.size()),
                  result_pointers_.data(),
                  attribute_pointers_.data(),
                  static_cast<uint32_t>(attributes.size()),
                  shapes,
                  infer_shapes};
    kernel_ = {sizeof(mydev_kernel), name.c_str(), succeed, nullptr, nullptr, nullptr};
    kernel_.signature = &signature_;
    return kernel_;
  }

 private:
  std::vector<const mydev_operand*> operand_pointers_, result_pointers_;
  std::vector<const mydev_attribute_spec*> attribute_pointers_;
  mydev_signature signature_{};
  mydev_kernel kernel_{};
};

// A registered record, taken out at the end.
class Registered {
 public:
  explicit Registered(Record record) : record_(std::move(record)) {
    kernel_ = register_kernel(record_.kernel(), {"", "test"});
  }
  ~Registered() { unregister_kernel(kernel_->name); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  const mydev_kernel& operator*() const { return *kernel_; }

 private:
  Record record_;
  const mydev_kernel* kernel_;
};

// Operands without data.
struct Operands {
  std::vector<std::vector<int64_t>> sizes;
  std::vector<mydev_dtype> dtypes;
  std::vector<mydev_attribute> attributes;
  std::vector<mydev_buffer> buffers;

  mydev_frame frame() {
    buffers.clear();
    for (size_t i = 0; i < sizes.size(); ++i) {
      const mydev_dtype dtype = i < dtypes.size() ? dtypes[i] : MYDEV_F32;
      buffers.push_back({nullptr, sizes[i].data(), sizes[i].data(), static_cast<int32_t>(sizes[i].size()), dtype});
    }
    return make_frame(buffers, 0, attributes);
  }
};

inline std::vector<std::vector<int64_t>> infer(const mydev_kernel& kernel, Operands operands) {
  std::vector<mydev_shape> shapes(kernel.signature->num_results);
  infer_results(kernel, operands.frame(), shapes);
  std::vector<std::vector<int64_t>> sizes;
  for (const mydev_shape& shape : shapes) sizes.emplace_back(shape.sizes, shape.sizes + shape.rank);
  return sizes;
}

// "a,b -> out" of floats by a rule.
inline Record by_rule(const char* shapes, size_t num_operands, size_t num_results = 1) {
  static const std::array<const char*, 4> kNames = {"a", "b", "c", "d"};
  Record record;
  for (size_t i = 0; i < num_operands; ++i) record.operands.push_back(operand(kNames[i]));
  for (size_t i = 0; i < num_results; ++i) {
    record.results.push_back(num_operands != 0 ? result_like("out", 0) : operand("out", kF32));
  }
  record.shapes = shapes;
  return record;
}

}  // namespace mydev
