// Contracts of kernels: what a frame of a kernel may hold, and what is computed of it, as data.
//
// A contract is written as text that people read, in four parts:
//
//   operands    "(out T) <- (a T|number, b T|number; alpha: number = 1)"
//   types       "T: pred ints floats complex"
//   expression  "a + alpha * b", see expression.h
//   notes       what the other three cannot say
//
// Operands:
//
//   contract  = [ layout ] "(" operands ")" "<-" "(" [ operands ] [ ";" attributes ] ")" [ "where" facts ]
//   operand   = [ "&" ] name [ "..." ] [ "?" ] [ layout ] dtype [ choice { "|" choice } ] | "[" operand "]"
//   dtype     = a variable (one capital letter) | a dtype's name | a set's name: each such operand has its own
//   choice    = "[" [ size { "," size } ] "]" | "number"
//   size      = ( number | name ) [ "*" ] | list "..." | "..."
//   attribute = name ":" kind [ low ".." [ high ] ] [ "=" default ]
//   kind      = bool | int | float | number | scalar | ( ints | floats ) "[" [ number | "..." ] "]"
//   fact      = ( list | operand ) ":" low ".." high | size "=" expression | result "may be" operand { "or" operand }
//             | "operands are not empty", but where the results are
//
// The frame has the results' buffers, then the operands', in the order of the text. `[x T]` may be left out at the end.
// `x?` may be absent: data NULL, rank 0. `x...` is a list of buffers; all lists of a frame have one length, and results
// that are lists come list by list. `&x` is a result whose old value is read. `number`: the operand may be one number
// (MYDEV_BUFFER_SCALAR).
//
// Layouts: without a word any strides. `dense`: row-major without gaps. `packed`: without gaps, in an order of
// dimensions that all operands of one shape share. `reduced`: a result that has the operand's sizes and stride 0 along
// the dimensions that are reduced. A layout before the results is that of all operands, but for `strided` ones.
//
// Sizes: a name is one size wherever it appears; a size that only lists of buffers have is each buffer's own. A list
// "x..." is any number of sizes, "..." one without a name; an operand without a shape is [...]. All lists of sizes in a
// contract have as many entries, between 0 and 64 unless a fact says otherwise. A fact "y = x - 1" computes one size of
// others and of attributes, entry by entry if it is a list. "n*" alone in a shape is any sizes whose product is n.
//
// Attributes come in the order of the text; those with a default may be left out from the end. `number` is INT, FLOAT
// or COMPLEX as the first variable's dtype is an integer (or pred), floating or complex; `scalar` is any of these or
// BOOL. `low..high`, there and of an operand, is what is defined. `ints[...]` has an entry for each entry of a list of
// sizes.
//
// Types: "T: f32 f64; S: T f32" gives each variable its set; a variable that names another may have that one's dtype.
// In "T: f32 | f64; S: T | f32(s8 u8)", dtypes behind the bar are taken only by records whose limits name them, and S
// is f32 beside T only where T is s8 or u8. Sets: pred; ints (s8 s16 s32 s64 u8); floats (f16 bf16 f32 f64); complex
// (c64 c128); any (all of these and the floats f8e4m3fn f8e5m2, but not token).
//
// Results may share memory with an operand only where a fact says so, and then are exactly it. Thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/spec/expression.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

enum class ContractLayout : uint8_t { kStrided, kDense, kPacked, kReduced };

struct ContractSize {
  enum Kind : uint8_t { kNumber, kName, kList };
  Kind kind;
  int64_t number = 0;
  int32_t name = -1;        // index in KernelContract::sizes
  bool is_product = false;  // of all sizes
};
using ContractShape = std::vector<ContractSize>;  // at most one list

// An operand or a result.
struct ContractOperand {
  std::string name;
  bool is_list = false;
  bool may_be_absent = false;
  bool may_be_left_out = false;
  bool may_be_number = false;
  bool is_updated = false;  // of a result: its old value is read
  ContractLayout layout = ContractLayout::kStrided;
  int32_t variable = -1;  // index in KernelContract::variables, or -1: `dtypes`
  uint64_t dtypes = 0;    // MYDEV_DTYPE_BIT of each; of the variable, if there is one
  std::vector<ContractShape> shapes;
  std::vector<int32_t> may_be;      // of a result: operands whose memory it may be
  std::optional<double> low, high;  // of the elements
};

enum class ContractKind : uint8_t { kBool, kInt, kFloat, kNumber, kScalar, kInts, kFloats };

struct ContractAttribute {
  static constexpr int64_t kAnyLength = -1, kListLength = -2;

  std::string name;
  ContractKind kind = ContractKind::kInt;
  int64_t length = kAnyLength;  // of ints and floats; kListLength: as lists of sizes
  std::optional<double> low, high;
  std::optional<double> otherwise;  // the default; without one it is required
};

struct MYDEV_API ContractVariable {
  char name;
  uint64_t dtypes;          // with those of `like`
  int32_t like = -1;        // another variable whose dtype it may have
  uint64_t own = 0;         // beside that
  uint64_t on_request = 0;  // of `dtypes`, those that a record takes only if its limits name them
  // Dtypes of `own` that it has only where `like` has one of others.
  std::vector<std::pair<uint64_t, uint64_t>> conditions;

  // Whether it may be `dtype` where `like` is `other`.
  bool takes(mydev_dtype dtype, mydev_dtype other) const noexcept;
};

// A name in shapes.
struct ContractSizeName {
  std::string name;
  bool is_list = false;
  bool is_own = false;  // each buffer of a list has its own
};

struct SizeFact {
  int32_t size;  // index in KernelContract::sizes
  Expression value;
};

struct MYDEV_API KernelContract {
  std::string name;
  const char* group;  // of kernels that belong together: "unary", "pooling"
  const char *operands_text, *types_text, *notes;
  std::vector<ContractOperand> results, operands;
  std::vector<ContractAttribute> attributes;
  std::vector<ContractVariable> variables;
  std::vector<ContractSizeName> sizes;
  std::vector<SizeFact> facts;
  int64_t least_list = 0, greatest_list = 64;  // entries of the lists of sizes
  bool may_be_empty = true;                    // operands may have no elements where results have some
  Expression expression;                       // empty: none. Over operands, then attributes

  // The dtypes that a frame of the kernel may have, and those of them that a record takes which says nothing of dtypes.
  uint64_t all_dtypes() const noexcept;
  uint64_t usual_dtypes() const noexcept;
  // One shape for everything, element by element.
  bool is_pointwise() const noexcept;
  // With results that are `reduced`.
  bool is_reduction() const noexcept;
  // No operand or result has a shape of its own, so that all have the same.
  bool has_one_shape() const noexcept;
};

// Parses a contract. Raises INVALID_ARGUMENT with the part, the position and what was expected there.
MYDEV_API KernelContract parse_contract(const char* name, const char* group, const char* operands, const char* types,
                                        const char* expression, const char* notes);

// The contracts of the built-in kernels, by group, each parsed once. They live as long as the process.
MYDEV_API std::span<const KernelContract> builtin_contracts();
MYDEV_API const KernelContract* builtin_contract(std::string_view name);  // nullptr: there is no such kernel

// The dtypes that a built-in kernel's variable stands for; 0 if there is no such kernel or variable.
MYDEV_API uint64_t contract_dtypes(std::string_view kernel, char variable);

// Why the frame is not one that the contract allows, with the contract; "" if it is. Looks at counts, dtypes, shapes,
// dense layouts and attributes; reads no data of buffers.
MYDEV_API std::string contract_violation(const KernelContract& contract, const mydev_frame& frame);

// The same for a frame that has no results and no data: of operands, their dtypes and sizes, and all attributes. Fills
// in the sizes of the results, but not of lists, if the frame is one that the contract allows.
std::string infer_by_contract(const KernelContract& contract, const mydev_frame& frame, std::span<mydev_shape> results);

// "mydev.add: (out T) <- (a T|number, b T|number; alpha: number = 1), T: pred ints floats complex".
MYDEV_API std::string describe_contract(const KernelContract& contract);
// "s8 s16 f32": names of dtypes.
MYDEV_API std::string dtype_list(uint64_t dtypes);

}  // namespace mydev
