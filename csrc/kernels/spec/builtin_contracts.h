// The contracts of the built-in kernels as text, by kernel group. contract.h has the language.
#pragma once

#include <span>

namespace mydev {

struct ContractRow {
  const char *name, *operands, *types, *expression, *notes;
};
struct ContractGroup {
  const char* name;
  std::span<const ContractRow> rows;
};

std::span<const ContractGroup> pointwise_contracts();
std::span<const ContractGroup> network_contracts();  // of layers, their gradients and losses
std::span<const ContractGroup> data_contracts();     // reductions, indexing, random numbers, lists, copies
std::span<const ContractGroup> fft_contracts();

}  // namespace mydev
