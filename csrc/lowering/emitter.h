// Steps of a program that is being built, in terms of tensors.
//
// A Tensor is a view: slices, transposes and broadcasts of one are other views of its slot. Results of steps are new
// temporaries, dense and row-major. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "program/ir/builder.h"
#include "runtime/frame/frame.h"
#include "stablehlo/evaluator/number.h"
#include "stablehlo/ir/element_type.h"
#include "stablehlo/ir/type.h"

namespace mydev::lowering {

using Sizes = std::vector<int64_t>;
using stablehlo::count_of;

// Integers from the least to the greatest.
struct Range {
  int64_t least, greatest;
};

struct Tensor {
  program::Operand view;
  std::optional<mydev_scalar> splat = std::nullopt;  // all elements are this constant
  std::optional<Range> range = std::nullopt;         // of integers: what they can be, where more is known than the type

  const Sizes& sizes() const noexcept { return view.sizes; }
};

// The dtype by which kernels know the type. U8 for types that they do not know, whose elements have a byte each: these
// are only moved.
mydev_dtype dtype_of(stablehlo::ElementType type) noexcept;
// The signed type of the same bits for u16, u32 and u64; others as they are. Kernels know no more than the bits of
// these three.
mydev_dtype signed_dtype(mydev_dtype dtype) noexcept;
bool is_complex(mydev_dtype dtype) noexcept;
bool has_kernels(stablehlo::ElementType type) noexcept;
bool has_float_kernels(stablehlo::ElementType type) noexcept;  // f16, bf16, f32, f64

bool is_empty(const Sizes& sizes) noexcept;
// The numbers that an attribute lists, or `otherwise` for each of `count` if it lists nothing.
Sizes listed_or(const Sizes& listed, size_t count, int64_t otherwise);
bool is_row_major(const program::Operand& view) noexcept;
// [1, sizes...]: the sizes of one part, as the kernels of slices have them.
Sizes as_one_part(Sizes sizes);

// --- views ---
program::Operand with_dtype(program::Operand view, mydev_dtype dtype);  // of the same size
program::Operand transposed(const program::Operand& view, const Sizes& permutation);
program::Operand sliced(const program::Operand& view, const Sizes& start, const Sizes& sizes, const Sizes& steps);
program::Operand reversed(program::Operand view, const Sizes& dimensions);
// Dimension i of the view is dimension `dimensions[i]` of the result; of size 1 it may be repeated.
program::Operand broadcast(const program::Operand& view, const Sizes& sizes, const Sizes& dimensions);
// Reshapes a view whose elements are dense.
program::Operand dense_reshaped(program::Operand dense, const Sizes& sizes);
// None if no strides describe where the elements lie in these sizes.
std::optional<program::Operand> reshaped(const program::Operand& view, const Sizes& sizes);
// The real or imaginary parts of complex elements.
program::Operand real_part(const program::Operand& view);
program::Operand imaginary_part(const program::Operand& view);
// Both, along one more dimension behind the others; and the complex elements of such a view.
program::Operand both_parts(const program::Operand& view);
program::Operand of_both_parts(program::Operand view);

class Emitter {
 public:
  explicit Emitter(program::ProgramBuilder& builder) : builder_(builder) {}
  program::ProgramBuilder& builder() noexcept { return builder_; }

  // The results of earlier operations, by keys that differ if operations compute something else. Loops update memory in
  // place, so these are forgotten after one.
  const std::vector<Tensor>* find(const std::string& key) const;
  void remember(const std::string& key, std::vector<Tensor> results) { known_[key] = std::move(results); }
  void forget() noexcept;

  // The elements of a view, row-major, if they are few and known: those of constants and of noted indices.
  std::optional<std::vector<std::byte>> known_elements(const program::Operand& view) const;
  // Says that a temporary has the elements 0, 1, 2, ..., which are integers.
  void note_indices(const program::Operand& temporary);

  program::Operand temporary(mydev_dtype dtype, const Sizes& sizes);
  Tensor constant(mydev_dtype dtype, const Sizes& sizes, std::span<const std::byte> data);
  // All elements are one number; `bytes` are one element.
  Tensor splat(mydev_dtype dtype, const Sizes& sizes, mydev_scalar value, std::span<const std::byte> bytes);
  Tensor splat(mydev_dtype dtype, const Sizes& sizes, const stablehlo::Number& value);
  Tensor splat(mydev_dtype dtype, const Sizes& sizes, double value);           // rounded to the type
  Tensor integer_splat(mydev_dtype dtype, const Sizes& sizes, int64_t value);  // of an integer type, exactly
  // Integers of which each device has its own, `numbers.size() / count_of(sizes)` devices: those of the first device,
  // then of the second.
  Tensor device_integers(mydev_dtype dtype, const Sizes& sizes, const Sizes& numbers);
  void copy(const program::Operand& to, const program::Operand& from);
  program::Operand dense(const program::Operand& view);      // the view itself, or a copy
  program::Operand duplicate(const program::Operand& view);  // a dense copy in a slot of its own
  program::Operand reshape(const program::Operand& view, const Sizes& sizes);
  // Joins parts one behind the other along a dimension. joined_apart() uses a temporary in which that dimension is the
  // outermost.
  void join(const program::Operand& result, std::span<const program::Operand> parts, size_t dimension);
  program::Operand joined_apart(std::span<const program::Operand> parts, size_t dimension);
  // Merges groups of neighbouring dimensions, each into one.
  program::Operand merge(const program::Operand& view, std::span<const size_t> groups);

  // Launches a kernel over tensors of one shape. Constants become numbers, unless all operands are constants.
  Tensor pointwise(const char* kernel, mydev_dtype result, std::vector<Tensor> operands,
                   std::span<const mydev_attribute> attributes = {});
  // Launches a kernel whose operands are views only.
  Tensor unary(const char* kernel, mydev_dtype result, const program::Operand& operand);
  Tensor converted(const Tensor& tensor, mydev_dtype dtype);  // as mydev.copy converts
  void launch(const char* kernel, std::vector<program::Operand> results, std::vector<program::Operand> operands,
              std::span<const mydev_attribute> attributes = {});
  // Puts the tensor into a larger one: XLA's padding, which may be negative.
  program::Operand pad(const Tensor& tensor, const Tensor& value, const Sizes& low, const Sizes& high,
                       const Sizes& interior);

 private:
  void note_elements(program::SlotIndex slot, std::span<const std::byte> data);

  program::ProgramBuilder& builder_;
  std::unordered_map<std::string, std::vector<Tensor>> known_;
  std::unordered_map<program::SlotIndex, std::vector<std::byte>> elements_;
};

}  // namespace mydev::lowering
