// index and index_put by tensors and masks.
//
// The dimensions that are indexed are brought next to each other, their indices broadcast and made one place in what
// these dimensions span (mydev.flat_index), and rows are picked there (mydev.index_select) or written
// (mydev.index_copy, mydev.index_add). Masks become the indices of what they select, whose number the host waits for,
// except where one value is written. Errors in shapes are the CPU's; an index out of range is found by the kernel, so
// on an asynchronous device it is reported when the stream is waited for, as by CUDA.
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/Operators.h>
#include <ATen/native/IndexingUtils.h>
#include <ATen/native/Resize.h>

#include "aten/host/composition.h"
#include "aten/host/native_or_host.h"
#include "aten/ops/indexing/row_write.h"

namespace mydev {
namespace {

using at::Tensor;
using Indices = c10::List<std::optional<Tensor>>;

KernelRef flat_kernel("mydev.flat_index", policy::kAdvancedIndex);

bool is_mask(const Tensor& index) {
  return index.defined() && index.scalar_type() == at::kBool;
}

// Indices lie beside what they index, or on the CPU.
void check_devices(const Tensor& self, const Indices& given) {
  for (size_t i = 0; i < given.size(); ++i) {
    const std::optional<Tensor> index = given.get(i);
    const bool placed = !index.has_value() || !index->defined() || index->is_cpu() || index->device() == self.device();
    TORCH_CHECK(placed, "indices should be either on cpu or on the same device as the indexed tensor (", self.device(),
                "), but the index of dimension ", i, " is on ", index->device(), "; move it with .to()");
  }
}

// Indices on the device, masks expanded, one for each dimension of `self`, undefined where a dimension is not indexed.
// None if the CPU refuses them, or warns.
std::optional<std::vector<Tensor>> expanded(const Tensor& self, const Indices& given) {
  if (static_cast<int64_t>(given.size()) > self.dim()) return std::nullopt;
  bool any = false;
  for (const std::optional<Tensor>& index : given) {
    if (!index.has_value() || !index->defined()) continue;
    any = true;
    const c10::ScalarType type = index->scalar_type();
    const bool placed = index->is_cpu() || (on_device(*index) && index->device() == self.device());
    if (!placed || (type != at::kLong && type != at::kInt && type != at::kBool)) return std::nullopt;
  }
  if (!any) return std::nullopt;
  std::vector<Tensor> indices = at::native::expandTensors(self, given, /*ensure_same_device=*/true);
  if (static_cast<int64_t>(indices.size()) > self.dim()) return std::nullopt;
  indices.resize(static_cast<size_t>(self.dim()));
  return indices;
}

// A tensor and its indices, those of neighbouring dimensions.
struct Indexed {
  Tensor self;
  std::vector<Tensor> indices;
  int64_t first = 0, last = 0;  // dimensions of self that are indexed
  at::DimVector picked;         // the shape of the indices
  at::DimVector shape;          // of the result
};

std::optional<Indexed> indexed(const Tensor& self, const Indices& given) {
  std::optional<std::vector<Tensor>> indices = expanded(self, given);
  if (!indices.has_value()) return std::nullopt;
  Indexed result{self, *std::move(indices), 0, 0, {}, {}};
  if (!at::native::hasContiguousSubspace(result.indices)) {
    std::tie(result.self, result.indices) = at::native::transposeToFront(self, result.indices);
  }
  while (!result.indices[static_cast<size_t>(result.first)].defined()) ++result.first;
  result.last = result.first;
  for (int64_t d = result.first; d < self.dim() && result.indices[static_cast<size_t>(d)].defined(); ++d) {
    const Tensor& index = result.indices[static_cast<size_t>(d)];
    if (!at::are_expandable(result.picked, index.sizes())) return std::nullopt;
    result.picked = at::infer_size_dimvector(result.picked, index.sizes());
    result.last = d + 1;
  }
  const c10::IntArrayRef sizes = result.self.sizes();
  result.shape.append(sizes.begin(), sizes.begin() + result.first);
  result.shape.append(result.picked.begin(), result.picked.end());
  result.shape.append(sizes.begin() + result.last, sizes.end());
  return result;
}

// One place for each set of indices, in what the dimensions that they index span; a vector.
Tensor places_of(const Launchable& flat, const Indexed& indexed) {
  Tensor places;
  for (int64_t d = indexed.first; d < indexed.last; ++d) {
    const Tensor index = indexed.indices[static_cast<size_t>(d)].expand(indexed.picked);
    const Tensor next = empty_dense(indexed.picked, at::kLong, index.device());
    OpFrame<3, 2> frame;
    frame.add(next).add_optional(places, MYDEV_S64).add(index);
    frame.attribute(int_attribute("size", indexed.self.size(d))).attribute(int_attribute("dim", d - indexed.first));
    frame.launch(flat, 1);
    places = next;
  }
  return places.view({places.numel()});
}

// Whether the only index is a mask with self's own shape.
bool has_mask_of_elements(const Tensor& self, const Indices& given) {
  const std::optional<Tensor> mask = given.size() == 1 ? given.get(0) : std::nullopt;
  return mask.has_value() && is_mask(*mask) && self.dim() > 0 && mask->sizes() == self.sizes() && on_device(self) &&
         mask->device() == self.device();
}

// Sizes, strides and errors are those of core's own composition over index_out.
std::optional<Tensor> index(const Tensor& self, const Indices& given) {
  check_devices(self, given);
  if (has_mask_of_elements(self, given)) return at::masked_select(self, *given.get(0));
  if (!on_device(self) || row_select_kernel.on(self) == nullptr || flat_kernel.on(self) == nullptr) return std::nullopt;
  const bool masked = std::any_of(given.begin(), given.end(), [](const std::optional<Tensor>& index) {
    return index.has_value() && is_mask(*index);
  });
  if (!masked) return at::_ops::index_Tensor::redispatch(kCompositionKeys, self, given);
  const std::optional<std::vector<Tensor>> indices = expanded(self, given);  // once, not once for sizes and once more
  if (!indices.has_value()) return std::nullopt;
  return at::_ops::index_Tensor::redispatch(kCompositionKeys, self, at::native::toListOfOptionalTensors(*indices));
}

Tensor* index_out(const Tensor& self, const Indices& given, Tensor& out) {
  check_devices(self, given);
  const Launchable* select = on_device(self) ? row_select_kernel.on(self) : nullptr;
  const Launchable* flat = select != nullptr ? flat_kernel.on(self) : nullptr;
  if (flat == nullptr || !has_frame_type(self) || !writable_as(out, self.scalar_type(), self)) return nullptr;
  const std::optional<Indexed> source = indexed(self, given);
  if (!source.has_value()) return nullptr;
  for (const Tensor& index : source->indices) {
    if (index.defined() && out.is_alias_of(index)) return nullptr;
  }
  const RowShape shape(source->self.sizes(), source->first, source->last);
  const int64_t count = c10::multiply_integers(source->shape);
  if (count > 0 && shape.places == 0) return nullptr;  // whatever the index, it is out of range
  if (count == 0) {
    at::native::resize_output(out, source->shape);
    return &out;
  }
  const Tensor dense = source->self.contiguous(), places = places_of(*flat, *source);
  at::native::resize_output(out, source->shape);
  const Tensor target = out.is_contiguous() ? out : empty_dense(source->shape, self);
  read_rows(*select, target, dense, shape, places);
  if (!target.is_same(out)) out.copy_(target);
  return &out;
}

// Writes one value where a mask says so: nothing to wait for.
bool fill_masked(Tensor& self, const Indices& given, const Tensor& value) {
  if (value.numel() != 1 || given.size() != 1) return false;
  const std::optional<Tensor> index = given.get(0);
  if (!index.has_value() || !is_mask(*index) || index->device() != self.device() || index->dim() > self.dim() ||
      index->sizes() != self.sizes().slice(0, static_cast<size_t>(index->dim()))) {
    return false;
  }
  Tensor mask = *index;
  while (mask.dim() < self.dim()) mask = mask.unsqueeze(-1);
  if (value.is_cpu()) {
    self.masked_fill_(mask, value.item());
  } else {
    self.copy_(at::where(mask, value.reshape({}), self));
  }
  return true;
}

Tensor* index_put(Tensor& self, const Indices& given, const Tensor& given_values, bool accumulate, bool /*unsafe*/) {
  check_devices(self, given);
  if (given_values.dim() > 0 && given_values.device() != self.device()) {
    raise_device_mismatch("aten::index_put_", self.device(), "values", given_values.device());
  }
  const Launchable* kernel = on_device(self) ? (accumulate ? row_add_kernel : row_copy_kernel).on(self) : nullptr;
  const Launchable* flat = kernel != nullptr ? flat_kernel.on(self) : nullptr;
  const bool is_number = given_values.is_cpu() && given_values.dim() == 0;
  if (flat == nullptr || given_values.scalar_type() != self.scalar_type() ||
      (!is_number && given_values.device() != self.device()) || given_values.is_alias_of(self) ||
      at::has_internal_overlap(self) == at::MemOverlap::Yes ||
      (accumulate ? !is_addable(self.scalar_type()) : !has_frame_type(self))) {
    return nullptr;
  }
  for (const std::optional<Tensor>& index : given) {
    if (index.has_value() && index->defined() && index->is_alias_of(self)) return nullptr;
  }
  if (!accumulate && fill_masked(self, given, given_values)) return &self;
  const std::optional<Indexed> target = indexed(self, given);
  if (!target.has_value() || !at::is_expandable_to(given_values.sizes(), target->shape)) return nullptr;
  const RowShape shape(target->self.sizes(), target->first, target->last);
  const int64_t count = c10::multiply_integers(target->shape);
  if (count == 0) return &self;
  if (shape.places == 0) return nullptr;
  const Tensor values = is_number ? given_values.to(self.device()) : given_values;
  write_rows(*kernel, target->self, shape, places_of(*flat, *target), values.expand(target->shape));
  return &self;
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_native<at::_ops::index_Tensor, &index>(m);
  register_native<at::_ops::index_Tensor_out, &index_out>(m);
  register_native<at::_ops::_index_put_impl_, &index_put>(m);
}

}  // namespace
}  // namespace mydev
