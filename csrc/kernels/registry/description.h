// Describes a record as a tree of values: for the command line, and for comparing two records.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/registry/launchable.h"
#include "kernels/spec/contract.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev {

// A value of a kind that Python and JSON have words for. Numbers that JSON lacks are strings: "nan", "inf", "-inf".
struct MYDEV_API Description {
  using List = std::vector<Description>;
  using Dictionary = std::vector<std::pair<std::string, Description>>;
  std::variant<std::nullptr_t, bool, int64_t, uint64_t, double, std::string, List, Dictionary> value = nullptr;

  // An entry of a dictionary; nullptr if there is none.
  const Description* find(std::string_view key) const noexcept;
  friend bool operator==(const Description& a, const Description& b);
};
MYDEV_API bool operator==(const Description& a, const Description& b);

MYDEV_API const char* kind_name(int32_t kind) noexcept;  // "frame", "typed_ffi", "original_host", ...

// Text that is no UTF-8 has a character for each of its bytes.
MYDEV_API std::string as_json(const Description& description);

// A dictionary of what the record itself says, without where it comes from. The record must be of full size, with its
// signature compiled.
Description::Dictionary describe_record(const mydev_kernel& kernel);
// The limits of a candidate: "dtypes", null for all of its contract or signature, "rank_max", "dense", "numbers", and
// the same for each of "operands" that has limits of its own.
Description describe_limits(const KernelCandidate& candidate);
// The parts of a contract as text, and the dtypes of its variables.
MYDEV_API Description describe(const KernelContract& contract);
// The parts of a contract as data, for programs (docs/kernels.md): variables, results, operands, attributes, sizes and
// facts, and expressions as trees.
Description parsed(const KernelContract& contract);
// All built-in contracts as JSON, each as text and as data.
MYDEV_API std::string contracts_as_json();

}  // namespace mydev
