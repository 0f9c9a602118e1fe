// The meaning of a signature (mydev/custom_call.h): checking operands against it, and the shapes of the results.
//
// A signature is compiled once, when its record is registered (kernels/registry/kernel_registry.h), and then only read.
// check_operands and infer_results take records that the registry gave; the others take any of full size. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/spec/contract.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

// The declarative shape rule, "(m,k),(k,n)->(m,n)", compiled.
class ShapeRule {
 public:
  static constexpr size_t kMaxNames = 64;
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

  // Raises INVALID_ARGUMENT with the position of the mistake. A list per operand and per single result of the
  // signature.
  ShapeRule(const char* rule, const mydev_signature& signature);

  const std::vector<List>& operands() const noexcept { return operands_; }
  const std::vector<List>& results() const noexcept { return results_; }
  const std::vector<std::string>& names() const noexcept { return names_; }

  // Sizes and ranks, but not dtypes, of the single results. `frame` as for infer_results. Raises INVALID_ARGUMENT that
  // names the operand and the size that does not fit. For other sizes than numbers see shape_rule.h.
  void apply(const mydev_kernel& kernel, const mydev_frame& frame, std::span<mydev_shape> results) const;

 private:
  std::vector<List> operands_, results_;
  std::vector<std::string> names_;
};

// A signature with all structs in full size, whatever its writer knew, and its rule. Fields of the base point to the
// vectors. Does not move.
struct MYDEV_API CompiledSignature : mydev_signature {
  // Raises INVALID_ARGUMENT for a signature that contradicts itself: names, dtypes, indices, flags, attributes, rule,
  // contract.
  explicit CompiledSignature(const mydev_kernel& kernel);
  CompiledSignature(const CompiledSignature&) = delete;
  CompiledSignature& operator=(const CompiledSignature&) = delete;

  // All operands have one shape, against which the caller broadcasts them.
  bool is_broadcast() const noexcept { return text && text->has_one_shape(); }
  // Each result is an expression over the elements of operands of one shape.
  bool is_pointwise() const noexcept { return is_broadcast() && text->is_pointwise(); }

  std::optional<KernelContract> text;  // of a signature that is given as text; the tables below are made of it
  std::vector<mydev_operand> operand_values, result_values;
  std::vector<mydev_attribute_spec> attribute_values;
  std::vector<const mydev_operand*> operand_pointers, result_pointers;
  std::vector<const mydev_attribute_spec*> attribute_pointers;
  std::string rule_text;  // of the text's shapes
  std::optional<ShapeRule> rule;

 private:
  void read_text(const mydev_kernel& kernel);
};

// The signature of a record that the registry gave; nullptr without one.
inline const CompiledSignature* compiled_signature(const mydev_kernel& kernel) noexcept {
  return static_cast<const CompiledSignature*>(kernel.signature);
}

// The contract of a record that the registry gave, be it built-in or a user's; nullptr without one.
MYDEV_API const KernelContract* contract_of(const mydev_kernel& kernel);

// Words that cannot name an operand, since Python or PyTorch's schema language keeps them for itself.
bool is_reserved_word(std::string_view name) noexcept;
// The name of the operator that the record becomes: the record's with '_' for what an identifier cannot have, and one
// at the end of a reserved word or of a name that torch.ops gives a meaning of its own.
MYDEV_API std::string operator_name(const mydev_kernel& kernel);
// "scale(Tensor x, Tensor? w=None, *, float eps=1e-05, int[] dims=[0, 1]) -> Tensor": the schema of that operator,
// without a namespace. A result that aliases an operand makes both `Tensor(a!)`, and is returned only by an operator in
// place: others with such schemas no compiler of PyTorch takes. A default that schemas cannot say (a
// complex number, infinities, NaN, a string of other than printable characters) makes the attribute optional, `complex?
// z=None`: None stands for the default.
MYDEV_API std::string operator_schema(const mydev_kernel& kernel);
// The same with dtypes and ranks, for messages: "scale(x f32|f64[2..4], w? f32[1]; eps: float = 1e-05) -> (like x)".
MYDEV_API std::string describe_signature(const mydev_kernel& kernel);

// The operand that an input belongs to: a variadic one has all that are left.
inline uint32_t operand_of_input(const mydev_signature& signature, uint32_t input) noexcept {
  return input < signature.num_operands ? input : signature.num_operands - 1;
}

inline bool is_variadic(const mydev_operand& operand) noexcept {
  return (operand.flags & MYDEV_OPERAND_VARIADIC) != 0;
}
inline bool has_variadic_operand(const mydev_signature& signature) noexcept {
  return signature.num_operands != 0 && is_variadic(*signature.operands[signature.num_operands - 1]);
}
inline bool has_variadic_result(const mydev_signature& signature) noexcept {
  return signature.num_results != 0 && is_variadic(*signature.results[signature.num_results - 1]);
}
// Results that are one buffer each; the others are the variadic one's.
inline uint32_t num_single_results(const mydev_signature& signature) noexcept {
  return signature.num_results - (has_variadic_result(signature) ? 1 : 0);
}
// Buffers that the results have, where the operands have `num_inputs`, which are enough.
inline uint32_t num_outputs(const mydev_signature& signature, uint32_t num_inputs) noexcept {
  if (!has_variadic_result(signature)) return signature.num_results;
  return num_single_results(signature) + num_inputs - (signature.num_operands - 1);
}
// The result that an output belongs to.
inline const mydev_operand& result_of_output(const mydev_signature& signature, uint32_t output) noexcept {
  return *signature.results[output < signature.num_results ? output : signature.num_results - 1];
}

// The only result is operand 0, written in place.
inline bool is_in_place(const mydev_signature& signature) noexcept {
  return signature.num_results == 1 && signature.results[0]->alias == 0;
}
// Whether the operator returns the result; the caller has those that are written into its operands.
inline bool is_returned(const mydev_signature& signature, uint32_t result) noexcept {
  return signature.results[result]->alias < 0 || is_in_place(signature);
}

// The dtype of a single result; `inputs` are the buffers of the operands.
inline int32_t declared_dtype(const mydev_operand& result, const mydev_buffer* inputs) noexcept {
  return result.dtypes != 0 ? __builtin_ctzll(result.dtypes) : inputs[result.like].dtype;
}

// Raises INVALID_ARGUMENT, with operand, what it is, and describe_signature, unless the inputs' count, dtypes and ranks
// and the attributes are what the record's signature asks for.
MYDEV_API void check_operands(const mydev_kernel& kernel, const mydev_frame& frame);
// dtypes and sizes of the outputs, by the shape rule or by infer_shapes; results.size() == num_outputs(). Inputs are
// the frame's, after its num_outputs outputs. Raises INVALID_ARGUMENT, also for a result that would not fit the operand
// that it aliases; INTERNAL if infer_shapes gives a shape that cannot be (rank, negative or overflowing size).
MYDEV_API void infer_results(const mydev_kernel& kernel, const mydev_frame& frame, std::span<mydev_shape> results);

}  // namespace mydev
