// Reflection and replication padding of one to three dimensions, and their gradients.
//
// Each dimension is padded by picking its elements (mydev.index_select); the gradient adds them up where they were
// picked (mydev.index_add). One vector for each dimension lists the elements to pick; it is made on the host and
// uploaded.
#include <ATen/Operators.h>

#include "aten/host/native_or_host.h"
#include "aten/ops/indexing/row_write.h"

namespace mydev {
namespace {

using at::Tensor;

enum class Padding { kReflection, kReplication };

// Returns the position from which the element at `position`, which may lie outside, comes.
int64_t origin(Padding kind, int64_t position, int64_t size) {
  if (kind == Padding::kReplication) return std::clamp<int64_t>(position, 0, size - 1);
  if (position < 0) return -position;
  return position >= size ? 2 * (size - 1) - position : position;
}

// A dimension's padding at its beginning and end, the last dimension's first, as operators are given them.
struct Pads {
  c10::SmallVector<int64_t, 6> sizes;
  int64_t rank() const { return static_cast<int64_t>(sizes.size()) / 2; }
  int64_t before(int64_t d) const { return sizes[static_cast<size_t>(2 * d)]; }
  int64_t after(int64_t d) const { return sizes[static_cast<size_t>(2 * d + 1)]; }
};

// Returns none if the op refuses the padding. `rank`: the number of dimensions that are padded.
std::optional<Pads> pads_of(Padding kind, const Tensor& self, c10::SymIntArrayRef given, int64_t rank) {
  if (static_cast<int64_t>(given.size()) != 2 * rank || (self.dim() != rank + 1 && self.dim() != rank + 2) ||
      self.numel() == 0) {
    return std::nullopt;
  }
  Pads pads;
  for (const c10::SymInt& pad : given) pads.sizes.push_back(pad.expect_int());
  for (int64_t d = 0; d < rank; ++d) {
    const int64_t size = self.size(-1 - d);
    const bool reflects = pads.before(d) < size && pads.after(d) < size;
    if ((kind == Padding::kReflection && !reflects) || pads.before(d) < -size || pads.after(d) < -size ||
        size + pads.before(d) + pads.after(d) < 1) {
      return std::nullopt;
    }
  }
  return pads;
}

Tensor origins(Padding kind, int64_t size, int64_t before, int64_t after, c10::Device device) {
  Tensor host = at::empty({before + size + after}, at::dtype(at::kLong));
  auto* const positions = host.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < host.numel(); ++i) positions[i] = origin(kind, i - before, size);
  return host.to(device);
}

bool can_pad(const Tensor& self) {
  return on_device(self) && row_select_kernel.on(self) != nullptr && row_add_kernel.on(self) != nullptr &&
         is_real_float(self.scalar_type());
}

c10::MemoryFormat suggested_format(const Tensor& self) {
  return self.dim() >= 4 ? self.suggest_memory_format() : c10::MemoryFormat::Contiguous;
}

template <Padding kind, int64_t rank>
std::optional<Tensor> pad(const Tensor& self, c10::SymIntArrayRef given) {
  if (!can_pad(self)) return std::nullopt;
  const std::optional<Pads> pads = pads_of(kind, self, given, rank);
  if (!pads.has_value()) return std::nullopt;
  Tensor padded = self;
  for (int64_t d = 0; d < rank; ++d) {
    const Tensor picked = origins(kind, self.size(-1 - d), pads->before(d), pads->after(d), self.device());
    padded = padded.index_select(-1 - d, picked);
  }
  return padded.contiguous(suggested_format(self));
}

template <Padding kind, int64_t rank>
std::optional<Tensor> pad_backward(const Tensor& grad, const Tensor& self, c10::SymIntArrayRef given) {
  if (!can_pad(self) || !on_device(grad) || grad.device() != self.device() || grad.dim() != self.dim() ||
      grad.scalar_type() != self.scalar_type()) {
    return std::nullopt;
  }
  const std::optional<Pads> pads = pads_of(kind, self, given, rank);
  if (!pads.has_value()) return std::nullopt;
  at::DimVector sizes(self.sizes());
  for (int64_t d = 0; d < rank; ++d) {
    sizes[sizes.size() - 1 - static_cast<size_t>(d)] += pads->before(d) + pads->after(d);
  }
  if (grad.sizes() != c10::IntArrayRef(sizes)) return std::nullopt;
  Tensor folded = grad;
  for (int64_t d = rank - 1; d >= 0; --d) {
    const int64_t size = self.size(-1 - d), dim = self.dim() - 1 - d;
    sizes[static_cast<size_t>(dim)] = size;
    const Tensor sum = at::zeros(sizes, grad.options());
    write_rows(*row_add_kernel.on(self), sum, RowShape(sizes, dim, dim + 1),
               origins(kind, size, pads->before(d), pads->after(d), self.device()), folded);
    folded = sum;
  }
  return folded.contiguous(suggested_format(self));
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  constexpr Padding kReflection = Padding::kReflection, kReplication = Padding::kReplication;
  register_native<at::_ops::reflection_pad1d, &pad<kReflection, 1>>(m);
  register_native<at::_ops::reflection_pad2d, &pad<kReflection, 2>>(m);
  register_native<at::_ops::reflection_pad3d, &pad<kReflection, 3>>(m);
  register_native<at::_ops::replication_pad1d, &pad<kReplication, 1>>(m);
  register_native<at::_ops::replication_pad2d, &pad<kReplication, 2>>(m);
  register_native<at::_ops::replication_pad3d, &pad<kReplication, 3>>(m);
  register_native<at::_ops::reflection_pad1d_backward, &pad_backward<kReflection, 1>>(m);
  register_native<at::_ops::reflection_pad2d_backward, &pad_backward<kReflection, 2>>(m);
  register_native<at::_ops::reflection_pad3d_backward, &pad_backward<kReflection, 3>>(m);
  register_native<at::_ops::replication_pad1d_backward, &pad_backward<kReplication, 1>>(m);
  register_native<at::_ops::replication_pad2d_backward, &pad_backward<kReplication, 2>>(m);
  register_native<at::_ops::replication_pad3d_backward, &pad_backward<kReplication, 3>>(m);
}

}  // namespace
}  // namespace mydev
