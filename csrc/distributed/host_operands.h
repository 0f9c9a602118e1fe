// The dense staging tensors (aten/host/staging.h) of a collective's operands, on which the engine works.
//
// On a host-accessible device the engine sends from and receives into the device's very memory; elsewhere it works on
// copies in pinned memory, and so it does for operands that are not dense; end() copies back what was written. Whoever
// holds a staging tensor keeps the memory of its tensor alive.
//
// The caller orders all this after the device's earlier work, and opens the memory (HostAccess). Copies from and to
// other memory wait. Not thread-safe: used by one thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

#include "aten/host/staging.h"

namespace mydev {

// Returns the tensor that a collective holds for an operand from the call on. On asynchronous streams it is another
// tensor over the same memory, so the caller may resize or drop their own as soon as the call has returned. Any thread
// may drop it, since Python does not know it. (To drop a tensor that Python knows takes the interpreter's lock, and its
// owner may be waiting for the device.) Sparse tensors are returned as they are: the tensors that are made for one have
// no other owner.
at::Tensor held(const at::Tensor& tensor);
std::vector<at::Tensor> held(const std::vector<at::Tensor>& tensors);
std::vector<std::vector<at::Tensor>> held(const std::vector<std::vector<at::Tensor>>& lists);

class HostOperands {
 public:
  at::Tensor read(const at::Tensor& tensor);    // its values; not to be written
  at::Tensor update(const at::Tensor& tensor);  // its values; written back
  at::Tensor write(const at::Tensor& tensor);   // any values; written back

  // Adds a step on the staging tensors: end() runs the steps in the order given, before it writes the tensors back.
  void at_end(std::function<void()> step) { steps_.push_back(std::move(step)); }
  bool has_end() const noexcept { return !steps_.empty() || !written_.empty(); }
  void end();

 private:
  at::Tensor write_staged(const at::Tensor& tensor, bool with_values);

  std::vector<std::function<void()>> steps_;
  std::vector<StagingTensor> written_;  // those that are copies
};

}  // namespace mydev
