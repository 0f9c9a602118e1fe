// StableHLO programs as programs of kernels.
//
// Every operation becomes launches of the device's kernels where there are such for its element types and its form,
// views of memory where it only says how elements lie, sub-programs where it is control flow, and else an operation on
// the host (host_operation.h). Calls are inlined, constants are the program's own, pointwise neighbours are fused.
#pragma once

#include <memory>
#include <vector>

#include "lowering/collectives/collectives.h"
#include "lowering/host_operation.h"
#include "lowering/memory_kinds.h"
#include "lowering/sharding/partition/partition.h"
#include "lowering/sharding/sharding.h"
#include "program/ir/program.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

// Which of the devices that run the program at the same time this one is. `collectives` is the same for all of them.
struct Placement {
  int64_t replicas = 1, partitions = 1;
  int64_t replica = 0, partition = 0;
  std::shared_ptr<Collectives> collectives;

  int64_t devices() const noexcept { return replicas * partitions; }
  int64_t device() const noexcept { return replica * partitions + partition; }
};

// How the tensors that a program takes and returns are split over its devices.
struct Shardings {
  std::vector<Sharding> parameters, results;
};

struct LoweredProgram {
  program::SharedProgram program;
  Shardings shardings;
  MemoryKinds kinds;
  // Of each parameter: the caller may give it away. The program says it of those that it writes alone.
  std::vector<bool> donated;
  // For several devices, tensors of whose parts larger ones are gathered, for people: "argument 0, tensor<8x4xf32>".
  std::vector<std::string> gathered;
  // What the devices meet for, in order: the same text on all of them. "": for nothing.
  std::string meetings;
  std::shared_ptr<const Partition> partition;  // nullptr: the module was lowered as it is
  // What its launches refer to; they must be over before this goes, and this before the module and the partition.
  std::unique_ptr<const HostOperations> host_operations;
};

// The function that is run, with its arguments and results in order; tokens have no bytes. Donated
// parameters (donation.h) are the memory of results, where those can be computed in it without another copy. The module
// has passed verify() and outlives what is returned. Raises UNIMPLEMENTED, with the operation, for what is not
// supported.
//
// A program for several devices that has shardings becomes that of one of them (partition/partition.h): parameters and
// results are in parts as their shardings ("sdy.sharding", "mhlo.sharding") say. Arguments of which nothing is said are
// whole; results are as they come, if they have any attribute.
LoweredProgram lower(const stablehlo::Module& module, const Placement& placement = {});

}  // namespace mydev::lowering
