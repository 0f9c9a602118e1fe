#include "aten/host/host_call.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "aten/core/device_type.h"
#include "aten/device/generator.h"
#include "aten/host/sparse.h"
#include "aten/launch/native_launch.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

bool HostCall::aliasing() const {
  return mydev::device(device().index()).host_accessible();
}

c10::Device HostCall::device() const {
  return device_.has_index() ? device_ : torch_device(current_device());
}

// Copies of operands would be refused as well, but without the operator's name.
void HostCall::check_not_captured() const {
  const Stream& stream = current_stream(device().index());
  if (C10_UNLIKELY(stream.capture() != nullptr)) raise_not_captured(stream, record_.name().c_str());
}

bool HostCall::is_in_place() const {
  const std::string_view name = record_.name();
  return name.substr(0, name.find('.')).ends_with('_');
}

void HostCall::refuse(size_t argument, c10::Device found) const {
  raise_device_mismatch(record_.name(), device(), argument_name(record_.name(), argument), found);
}

at::Tensor HostCall::operand(const at::Tensor& tensor, bool written) {
  if (!on_device(tensor)) {
    if (tensor.defined() && tensor.is_cpu()) {
      // A number may come from the CPU, but no result goes there.
      if ((tensor.dim() > 0 || (written && !is_in_place())) && !cpu_argument_) cpu_argument_ = arguments_ - 1;
      if (tensor.has_storage()) {
        cpu_storages_.push_back(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
      }
    }
    return tensor;
  }
  if (!device_.has_index()) device_ = tensor.device();
  if (C10_UNLIKELY(tensor.device() != device_)) refuse(arguments_ - 1, tensor.device());
  for (Operand& known : operands_) {
    if (!known.origin.is_same(tensor)) continue;
    known.written |= written;
    return known.host;
  }
  if (C10_UNLIKELY(has_components(tensor))) return composed_operand(tensor, written);
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.has_storage(), record_.name(), ": a tensor of layout ", tensor.layout(), " on ",
                              tensor.device(), " cannot fall back to the CPU; convert it to a strided tensor first");
  if (!aliasing()) check_not_captured();
  operands_.push_back({stage(tensor, copies_), written});
  return operands_.back().host;
}

at::Tensor HostCall::composed_operand(const at::Tensor& tensor, bool written) {
  Components staged = components(tensor);
  for (at::Tensor& component : staged) component = operand(component, written);
  composed_operands_.push_back({{tensor, tensor_of(staged, tensor), {}}, written});
  return composed_operands_.back().host;
}

c10::Storage HostCall::operand(const c10::Storage& storage) {
  if (!storage || storage.device_type() != kDeviceType) return storage;
  if (!device_.has_index()) device_ = storage.device();
  TORCH_CHECK_NOT_IMPLEMENTED(aliasing(), record_.name(), ": a storage on ", storage.device(),
                              " cannot fall back to the CPU: its memory is not accessible from the host");
  auto alias = alias_storage(*storage.unsafeGetStorageImpl());
  storages_.add(alias, storage);
  return c10::Storage(std::move(alias));
}

at::Generator HostCall::operand(const at::Generator& generator) {
  if (!generator.defined()) return generator;
  const c10::DeviceType expected = names_device_ || !operands_.empty() ? kDeviceType : c10::DeviceType::CPU;
  TORCH_CHECK(generator.device().type() == expected, "Expected a '", expected,
              "' device type for generator but found '", generator.device().type(), "'");
  return expected == kDeviceType ? host_generator(generator) : generator;
}

at::Generator HostCall::default_generator() {
  return host_generator(default_device_generator(device().index()));
}

// Some sparse kernels keep what a gradient needs only if an operand requires one.
void HostCall::mark_requires_grad() {
  if (composed_operands_.empty() || !c10::GradMode::is_enabled()) return;
  const auto requires_grad = [](const auto& operand) { return operand.origin.requires_grad(); };
  if (std::none_of(operands_.begin(), operands_.end(), requires_grad) &&
      std::none_of(composed_operands_.begin(), composed_operands_.end(), requires_grad)) {
    return;
  }
  for (const Operand& operand : composed_operands_) {
    const bool differentiable = operand.host.is_floating_point() || operand.host.is_complex();
    if (differentiable && is_sparse(operand.host)) operand.host.set_requires_grad(true);
  }
}

HostCall::~HostCall() {
  if (!entered_) return;
  const std::chrono::nanoseconds elapsed = std::chrono::steady_clock::now() - begin_;
  const bool on_copies = kernel_end_ != std::chrono::steady_clock::time_point();
  const std::chrono::nanoseconds kernel = kernel_end_ - kernel_begin_;
  record_.leave(elapsed.count(), on_copies ? (elapsed - kernel).count() : 0, copies_.bytes() + bytes_copied_back_);
}

HostCall::Running::Running(HostCall& call) : call_(call), trace_(call.record_.name(), c10::DispatchKey::CPU) {
  if (C10_UNLIKELY(call.cpu_argument_.has_value() && !call.operands_.empty() && !call.cpu_operands_allowed_)) {
    call.refuse(*call.cpu_argument_, c10::Device(c10::kCPU));
  }
  call.mark_requires_grad();
  call.record_.enter();
  call.entered_ = true;
  if (call.aliasing()) {
    scope_.emplace(call.device().index(), call.record_.name().c_str());
  } else {
    call.copies_.wait();
    on_copies_.emplace(call.record_.name().c_str(), current_stream(call.device().index()));
    below_autograd_.emplace(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
    call.kernel_begin_ = std::chrono::steady_clock::now();
  }
}

HostCall::Running::~Running() {
  if (on_copies_) call_.kernel_end_ = std::chrono::steady_clock::now();
}

c10::Storage HostCall::device_storage_for(c10::StorageImpl* host) {
  for (const Operand& operand : operands_) {
    if (operand.alias.get() == host) return operand.origin.storage();
  }
  HostAccess access(mydev::device(device().index()));
  return storages_.of(*host, device());
}

void HostCall::write_back_alias(Operand& operand) {
  c10::TensorImpl* alias = operand.host.unsafeGetTensorImpl();
  c10::TensorImpl* original = operand.origin.unsafeGetTensorImpl();
  c10::StorageImpl* host = alias->unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(host != operand.alias.get())) {  // given another storage
    original->set_storage_keep_dtype(device_storage_for(host));
  } else {
    c10::StorageImpl* storage = original->unsafe_storage().unsafeGetStorageImpl();
    if (C10_UNLIKELY(host->data() != storage->data())) {  // reallocated by a resize
      // This frees the old block, and with it the reference that it caches; operand.alias keeps the storage alive.
      HostAccess access(mydev::device(device().index()));
      storage->set_data_ptr_noswap(take_host_memory(*host, device()));
    }
    if (C10_UNLIKELY(host->nbytes() != storage->nbytes())) storage->set_nbytes(host->nbytes());
  }
  if (C10_UNLIKELY(alias->sizes() != original->sizes() || alias->strides() != original->strides() ||
                   alias->storage_offset() != original->storage_offset())) {
    original->set_sizes_and_strides(alias->sizes(), alias->strides(), alias->storage_offset());
  }
  // Some kernels conjugate their results by the bit.
  if (C10_UNLIKELY(alias->is_conj() != original->is_conj())) original->_set_conj(alias->is_conj());
  if (C10_UNLIKELY(alias->is_neg() != original->is_neg())) original->_set_neg(alias->is_neg());
}

void HostCall::write_back() {
  for (Operand& operand : operands_) {
    if (!operand.written) continue;
    if (operand.alias != nullptr) {
      write_back_alias(operand);
    } else {
      copy_back(operand.origin, operand.host);
      bytes_copied_back_ += operand.host.nbytes();
    }
  }
  for (const Operand& operand : composed_operands_) {
    if (operand.written) set_components(operand.origin, components_to_device(operand.host), operand.host);
  }
}

Components HostCall::components_to_device(const at::Tensor& host) {
  Components parts = components(host);
  for (at::Tensor& part : parts) {
    // The part may be that of a copied operand, seen through another tensor.
    const auto copied = std::find_if(operands_.begin(), operands_.end(), [&part](const Operand& operand) {
      return operand.alias == nullptr && operand.host.is_alias_of(part) && operand.host.is_same_size(part) &&
             operand.host.strides() == part.strides() && operand.host.storage_offset() == part.storage_offset();
    });
    part = copied == operands_.end() ? to_device(std::move(part)) : copied->origin;
  }
  return parts;
}

at::Tensor HostCall::to_device(at::Tensor result, bool is_view) {
  if (!result.defined()) return result;
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  for (const Operand& operand : operands_) {
    if (operand.host.unsafeGetTensorImpl() == impl) return operand.origin;
  }
  for (const Operand& operand : composed_operands_) {
    if (operand.host.unsafeGetTensorImpl() == impl) return operand.origin;
  }
  if (!result.device().is_cpu()) return result;
  if (C10_UNLIKELY(has_components(result))) return tensor_of(components_to_device(result), result);
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage(), record_.name(), ": the result has layout ", result.layout(),
                              ", which ", kDeviceType, " does not support; compute it on the CPU");
  c10::StorageImpl* host = impl->unsafe_storage().unsafeGetStorageImpl();
  for (const c10::StorageImpl* cpu : cpu_storages_) {
    if (cpu == host) return result;
  }
  if (!aliasing()) {
    TORCH_CHECK_NOT_IMPLEMENTED(!is_view, record_.name(), ": a view cannot fall back to the CPU on ", device(),
                                ", whose memory is not accessible from the host; register it for the device");
    bytes_copied_back_ += result.nbytes();
    if (result.is_non_overlapping_and_dense() || at::has_internal_overlap(result) == at::MemOverlap::Yes) {
      return result.to(device());
    }
    return empty_strided_on(result.sizes(), result.strides(), result.scalar_type(), device()).copy_(result);
  }
  become_device_tensor(result, device_storage_for(host), device());
  return result;
}

}  // namespace mydev
