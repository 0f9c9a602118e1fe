// StableHLO programs as programs of kernels.
//
// An operation becomes launches of the device's kernels if these support its element types and its form. It becomes
// views of memory if it only says how elements lie, and sub-programs if it is control flow. All others run on the host
// as calls of the program. Calls are inlined, constants are the program's own, pointwise neighbours are fused.
#pragma once

#include <memory>
#include <vector>

#include "lowering/memory_kinds.h"
#include "lowering/sharding/partition/partition.h"
#include "lowering/sharding/sharding.h"
#include "program/ir/program.h"
#include "runtime/base/api.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

class Collectives;

// How many devices run the program at the same time. Partition p of replica r is device r * partitions + p.
struct Devices {
  int64_t replicas = 1, partitions = 1;

  int64_t count() const noexcept { return replicas * partitions; }
};

// How the tensors that a program takes and returns are split over its devices.
struct Shardings {
  std::vector<Sharding> parameters, results;
};

struct LoweredProgram {
  program::SharedProgram program;  // of each of the devices; what is a device's own is in its constants
  Shardings shardings;
  MemoryKinds kinds;
  // For each parameter, whether the caller may give it away. In the program itself, only parameters that it writes are
  // donated.
  std::vector<bool> donated;
  // For several devices, the tensors that are gathered from shards, for people: "argument 0, tensor<8x4xf32>".
  std::vector<std::string> gathered;
  // The operations that need a rendezvous of the devices, in order: the same text on all of them. "": there are none.
  std::string collectives_text;
  // The rendezvous of these operations. Whoever runs the program may set another, before the first run.
  std::shared_ptr<std::shared_ptr<Collectives>> collectives;
  std::shared_ptr<const Partition> partition;  // nullptr: the module was lowered as it is
};

// Lowers the function that is run, with its arguments and results in order; tokens have no bytes. Donated parameters
// (donation.h) become the memory of results that can be computed in it without another copy. The module has passed
// verify(); steps that need it keep it. Raises UNIMPLEMENTED, with the operation, for unsupported ones.
//
// A program for several devices that has shardings becomes the program of each of them (partition/partition.h):
// parameters and results are split into shards as their shardings ("sdy.sharding", "mhlo.sharding") say. An argument
// without a sharding is split as its only user asks, or else whole. A result without one is split as it comes if it has
// any attribute, or else whole.
MYDEV_API LoweredProgram lower(const std::shared_ptr<const stablehlo::Module>& module, const Devices& devices = {});

}  // namespace mydev::lowering
