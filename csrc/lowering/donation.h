// Arguments that are donated to a program, and the results that shall lie in their memory.
//
// Programs donate by an attribute of an argument, "tf.aliasing_output" with the result or "jax.buffer_donor" without
// one, or by the module's attribute "mhlo.input_output_alias".
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "lowering/emitter.h"
#include "lowering/memory_kinds.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

struct Donations {
  std::vector<bool> donated;                       // of each argument
  std::vector<std::optional<size_t>> argument_of;  // of each result: the donated argument that it takes the place of
};
// Raises INVALID_ARGUMENT if the program names an argument or a result that does not exist, or names one twice.
Donations donations_of(const stablehlo::Module& module);

// Gives donated arguments that are named for no result the first one that fits. Leaves out those that do not fit: of
// another dtype or other sizes, as `parameters` and `results` are on this device, without bytes, or on the host.
void finalize(Donations& donations, const MemoryKinds& kinds, std::span<const program::Operand> parameters,
              std::span<const program::Operand> results);

// Returns the results, in order, each once: in slots of their own, or in the parameters of `donations`, to which they
// are copied at the end; simplify() leaves out the copies that need not be.
void return_results(Emitter& emit, std::span<const program::Operand> parameters, const Donations& donations,
                    std::vector<program::Operand> results);

}  // namespace mydev::lowering
