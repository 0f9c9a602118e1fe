// multinomial without replacement, or of one sample: the race of exponential numbers that the CPU holds too, of
// operators with kernels. With replacement, or if the operand is no distribution, the CPU's kernel runs.
#include <ATen/Functions.h>
#include <ATen/Operators.h>

#include <limits>

#include "aten/host/native_or_host.h"

namespace mydev {
namespace {

using at::Tensor;

KernelRef noise_kernel("mydev.random_exponential", policy::kDraws);
KernelRef argmax_kernel("mydev.max_with_index");

bool are_weights(const Tensor& self) {
  const Tensor bounded = at::logical_and(self.max() < std::numeric_limits<double>::infinity(), self.min() >= 0);
  return at::logical_and(bounded, (self.sum(-1) > 0).all()).item<bool>();
}

std::optional<Tensor> multinomial(const Tensor& self, c10::SymInt num_samples, bool replacement,
                                  std::optional<at::Generator> generator) {
  const auto count = num_samples.maybe_as_int();
  const bool fits = on_device(self) && (self.dim() == 1 || self.dim() == 2) && self.numel() > 0 && count.has_value() &&
                    *count > 0 && *count <= self.size(-1) && (!replacement || *count == 1);
  if (!fits || noise_kernel.for_operand(self) == nullptr || argmax_kernel.on(self) == nullptr || !are_weights(self)) {
    return std::nullopt;
  }
  Tensor race = at::empty_like(self, at::MemoryFormat::Contiguous);
  race.exponential_(1, std::move(generator));
  at::div_out(race, self, race);
  return *count == 1 ? race.argmax(-1, /*keepdim=*/true) : std::get<1>(race.topk(*count, -1));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::multinomial, &multinomial>(m);
}

}  // namespace
}  // namespace mydev
