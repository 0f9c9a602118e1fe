// The results that a frame must give: those of the contract's expression, or, if it has none, those of the host's own
// kernel on the same operands, dense and in host memory. Both give elements, whatever the layouts under test.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "conform/kernels/contract_frame.h"
#include "mydev/custom_call.h"

namespace mydev::conform {

// The elements of one result: its places in row-major order.
struct ExpectedResult {
  std::vector<unsigned char> elements;
  std::vector<bool> defined;  // the contract says what it is
};

struct Expected {
  std::vector<ExpectedResult> results;  // as in the frame; one that is absent has no places
  std::string unknown;                  // why nothing is known; "" if it is
};

// `reference`: the host's kernel of the contract's name, or nullptr. Frames that it refuses have no known results.
Expected expected_results(ContractFrame& frame, const mydev_kernel* reference);

}  // namespace mydev::conform
