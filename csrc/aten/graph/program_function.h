// A program as a function of tensors: one that JAX's compiler made, say (torch_mydev.jax.operator).
#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "program/ir/program.h"
#include "program/run/executor.h"
#include "runtime/base/api.h"

namespace mydev {

// Thread-safe: calls take turns.
class MYDEV_API ProgramFunction {
 public:
  // Raises INVALID_ARGUMENT for a program that writes its parameters, has memory of the host, or results of a dtype
  // that tensors do not have.
  explicit ProgramFunction(program::SharedProgram program);

  // Gives the program to the current stream of `device`, where all inputs lie, and returns its results, which are new
  // tensors. Each input has the dtype and the sizes of its parameter, and is dense and row-major. Raises for others,
  // and the errors of the steps.
  std::vector<at::Tensor> call(const std::vector<at::Tensor>& inputs, int device);

 private:
  class CallMemory;
  void check(const std::vector<at::Tensor>& inputs, int device) const;
  program::Executor& executor_for(Stream& stream);

  program::SharedProgram program_;
  std::mutex mutex_;
  std::map<int, std::unique_ptr<program::Executor>> executors_;  // by device
  // A graph uses constants and decisions of the capture at each replay, so each capture has an executor of its own.
  std::vector<std::unique_ptr<program::Executor>> captured_;
};

}  // namespace mydev
