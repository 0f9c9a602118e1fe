// What a signature (mydev/custom_call.h) means: checking operands against it, and the shapes of the results.
//
// A signature is compiled once, when its record is registered, and then only read. Thread-safe.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mydev/custom_call.h"

namespace mydev {

// The declarative shape rule, "(m,k),(k,n)->(m,n)", compiled.
class ShapeRule {
 public:
  struct Size {
    enum Kind : uint8_t { kName, kNumber, kAttribute };
    Kind kind;
    int32_t name;       // kName: index of the name in the rule
    int64_t number;     // kNumber
    int32_t attribute;  // kAttribute: index of the attribute in the signature
  };
  struct List {
    bool ellipsis;  // "..." comes first
    std::vector<Size> sizes;
  };

  // Raises INVALID_ARGUMENT with the position of the mistake. A list per operand and per result of the signature.
  ShapeRule(const char* rule, const mydev_signature& signature);

  const std::vector<List>& operands() const noexcept { return operands_; }
  const std::vector<List>& results() const noexcept { return results_; }
  const std::vector<std::string>& names() const noexcept { return names_; }

  // Sizes of the results. `frame` as for mydev_signature.infer_shapes. Raises INVALID_ARGUMENT that names the operand
  // and the size that does not fit. Writes sizes and rank, not dtype.
  void apply(const mydev_kernel& kernel, const mydev_frame& frame, std::span<mydev_shape> results) const;

 private:
  std::vector<List> operands_, results_;
  std::vector<std::string> names_;
};

// Raises INVALID_ARGUMENT for a signature that contradicts itself: names, dtypes, indices, flags, attributes, rule.
void check_signature(const mydev_kernel& kernel);

// "scale(Tensor x, Tensor? w=None, *, float eps=1e-05, int[] dims=[0, 1]) -> Tensor": the schema of the operator that
// the record becomes, without a namespace. A result that aliases operand 0 makes that one `Tensor(a!)`.
std::string operator_schema(const mydev_kernel& kernel);
// The same with dtypes and ranks, for messages: "scale(x f32|f64[*,n], ...)".
std::string describe_signature(const mydev_kernel& kernel);

// Raises INVALID_ARGUMENT, with operand, what it is, and describe_signature, unless the inputs' count, dtypes and ranks
// and the attributes are what the record's signature asks for. `operand_of[i]` is the operand that input i belongs to
// (variadic: several); empty: one each.
void check_operands(const mydev_kernel& kernel, const mydev_frame& frame);
// dtypes and sizes of the results, by the shape rule or by infer_shapes; results.size() == num_results. Raises
// INVALID_ARGUMENT; INTERNAL if infer_shapes gives a shape that cannot be (rank, negative or overflowing size).
void infer_results(const mydev_kernel& kernel, const mydev_frame& frame, std::span<mydev_shape> results);

}  // namespace mydev
