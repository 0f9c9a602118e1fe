// The host tensors that stand for a collective's device tensors while the engine works on them.
//
// On a host-accessible device a stand-in is an alias (aten/alias.h): the engine sends from and receives into the
// device's very memory. Elsewhere it is a copy in pinned memory. Either way it is dense, so operands that are not get a
// copy as well; end() brings back what was written. Whoever holds a stand-in keeps the memory of its tensor alive.
//
// The caller orders all this after the device's earlier work, and opens the memory (HostAccess). Copies from and to
// other memory wait. Not thread-safe: used by one thread at a time.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <utility>
#include <vector>

#include "runtime/device.h"

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
  explicit HostOperands(const Device& device) : device_(&device) {}

  at::Tensor read(const at::Tensor& tensor);    // its values; not to be written
  at::Tensor update(const at::Tensor& tensor);  // its values; written back
  at::Tensor write(const at::Tensor& tensor);   // any values; written back

  // What is to be done with the stand-ins before they are written back, in the order given.
  void at_end(std::function<void()> step) { steps_.push_back(std::move(step)); }
  bool has_end() const noexcept { return !steps_.empty() || !written_.empty(); }
  void end();

 private:
  at::Tensor stand_in(const at::Tensor& tensor, bool with_values, bool written);

  const Device* device_;
  std::vector<std::function<void()>> steps_;
  std::vector<std::pair<at::Tensor, at::Tensor>> written_;  // where to, from where
};

}  // namespace mydev
