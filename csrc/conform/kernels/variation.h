// The variations of a contract to try: the dtypes, and the properties of a frame that the contract leaves open.
#pragma once

#include <string>
#include <vector>

#include "kernels/spec/contract.h"
#include "mydev/custom_call.h"

namespace mydev::conform {

// The contents of floating operands besides ordinary numbers, and of integers besides small ones.
enum class Content { kOrdinary, kNan, kInfinities, kExtremes };

// Which buffers lie in the reversed order of their dimensions, the last with the greatest stride.
enum class Reversed { kNone, kAll, kOperands, kResults };  // kOperands: each other of them

struct Variation {
  std::string name = "plain";
  int rank = 2;               // entries of lists of sizes, as far as the contract allows
  bool many = false;          // elements: more than a vector, and no multiple of one
  bool empty = false;         // no elements
  bool gaps = false;          // between elements, and a negative stride
  bool broadcast = false;     // operands have stride 0 in their first dimension
  bool absent = false;        // what may be absent is, what may be left out is
  bool flags = false;         // attributes that are bool are true
  bool defaults = false;      // attributes that have a default are left out
  bool other_shapes = false;  // the last shape of each operand, the greatest int attributes
  bool next_choice = false;   // with other shapes: the least int attributes but one
  int number = -1;            // this operand is a number
  int alias = -1;             // results that may be this operand's memory are
  int reduced = -1;           // -1: all dimensions, else this one
  Reversed reversed = Reversed::kNone;
  Content content = Content::kOrdinary;
};

// Each choice of dtypes for the variables of a contract.
std::vector<std::vector<mydev_dtype>> dtype_choices(const KernelContract& contract);
std::vector<Variation> variations_of(const KernelContract& contract);

// Whether the contract's expression uses one of the functions.
bool uses(const KernelContract& contract, std::initializer_list<std::string_view> functions);

}  // namespace mydev::conform
