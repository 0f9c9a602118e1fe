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

// What a collective holds of an operand from the call on, on asynchronous streams: a tensor over the same memory. The
// caller may resize or drop theirs as soon as the call has returned; and any thread may drop this one, since Python
// does not know it (which would take the interpreter's lock, while its owner waits for the device). Sparse tensors
// come as they are: what is made for one has no other owner.
at::Tensor held(const at::Tensor& tensor);
std::vector<at::Tensor> held(const std::vector<at::Tensor>& tensors);
std::vector<std::vector<at::Tensor>> held(const std::vector<std::vector<at::Tensor>>& lists);

class HostOperands {
 public:
  at::Tensor read(const at::Tensor& tensor);    // its values; not to be written
  at::Tensor update(const at::Tensor& tensor);  // its values; written back
  at::Tensor write(const at::Tensor& tensor);   // any values; written back

  // What is to be done with the staging tensors before they are written back, in the order given.
  void at_end(std::function<void()> step) { steps_.push_back(std::move(step)); }
  bool has_end() const noexcept { return !steps_.empty() || !written_.empty(); }
  void end();

 private:
  at::Tensor write_staged(const at::Tensor& tensor, bool with_values);

  std::vector<std::function<void()>> steps_;
  std::vector<StagingTensor> written_;  // those that are copies
};

}  // namespace mydev
