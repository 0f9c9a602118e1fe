#include "aten/host/host_call.h"

#include <ATen/Functions.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/GradMode.h>

#include <algorithm>

#include "aten/device/generator.h"
#include "aten/launch/native_launch.h"

namespace mydev {

bool HostCall::aliasing() const {
  return mydev::device(device().index()).host_accessible();
}

c10::Device HostCall::device() const {
  return device_.has_index() ? device_ : c10::Device(kDeviceType, static_cast<c10::DeviceIndex>(current_device()));
}

at::Tensor HostCall::operand(const at::Tensor& tensor, bool written) {
  if (!on_device(tensor)) {
    if (tensor.defined() && tensor.is_cpu()) {
      if (tensor.dim() > 0) foreign_ = &tensor;
      if (tensor.has_storage()) {
        cpu_storages_.push_back(tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
      }
    }
    return tensor;
  }
  if (!device_.has_index()) device_ = tensor.device();
  TORCH_CHECK(tensor.device() == device_, record_.name(),
              ": expected all tensors to be on the same device, but found at least two devices, ", device_, " and ",
              tensor.device(), "; move one of them with .to()");
  if (C10_UNLIKELY(is_sparse(tensor))) return sparse_operand(tensor, written);
  TORCH_CHECK_NOT_IMPLEMENTED(tensor.has_storage(), record_.name(), ": a tensor of layout ", tensor.layout(), " on ",
                              tensor.device(), " cannot fall back to the CPU; convert it to a strided tensor first");
  if (aliasing()) {
    auto twin = host_twin(*tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl());
    operands_.push_back({tensor, alias_on(twin, tensor), std::move(twin), written});
  } else {
    at::Tensor copy = at::empty_like(tensor, tensor.options().device(c10::kCPU));
    copy.copy_(tensor);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) copy.unsafeGetTensorImpl()->set_wrapped_number(true);
    bytes_copied_ += copy.nbytes();
    operands_.push_back({tensor, std::move(copy), {}, written});
  }
  return operands_.back().stand_in;
}

at::Tensor HostCall::sparse_operand(const at::Tensor& tensor, bool written) {
  SparseComponents components = sparse_components(tensor);
  for (at::Tensor& component : components) component = operand(component, written);
  sparse_operands_.push_back({tensor, sparse_over(components, tensor), written});
  return sparse_operands_.back().stand_in;
}

c10::Storage HostCall::operand(const c10::Storage& storage) {
  if (!storage || storage.device_type() != kDeviceType) return storage;
  if (!device_.has_index()) device_ = storage.device();
  TORCH_CHECK_NOT_IMPLEMENTED(aliasing(), record_.name(), ": a storage on ", storage.device(),
                              " cannot fall back to the CPU: its memory is not accessible from the host");
  auto twin = host_twin(*storage.unsafeGetStorageImpl());
  storages_.emplace_back(twin, storage);
  return c10::Storage(std::move(twin));
}

at::Generator HostCall::operand(const at::Generator& generator) {
  if (!generator.defined() || generator.device().type() != kDeviceType) return generator;
  return host_generator(generator);
}

at::Generator HostCall::default_generator() {
  return host_generator(default_device_generator(device().index()));
}

// Some sparse kernels keep what a gradient needs only if an operand requires one.
void HostCall::mark_requires_grad() {
  if (sparse_operands_.empty() || !c10::GradMode::is_enabled()) return;
  const auto requires_grad = [](const auto& operand) { return operand.original.requires_grad(); };
  if (std::none_of(operands_.begin(), operands_.end(), requires_grad) &&
      std::none_of(sparse_operands_.begin(), sparse_operands_.end(), requires_grad)) {
    return;
  }
  for (const SparseOperand& operand : sparse_operands_) {
    if (operand.stand_in.is_floating_point() || operand.stand_in.is_complex()) operand.stand_in.set_requires_grad(true);
  }
}

HostCall::Running::Running(HostCall& call) : call_(call), trace_(call.record_.name(), c10::DispatchKey::CPU) {
  TORCH_CHECK(call.foreign_ == nullptr || call.operands_.empty() || call.cpu_operands_allowed_, call.record_.name(),
              ": expected all tensors to be on the same device, but found at least two devices, ", call.device(),
              " and cpu; move one of them with .to()");
  call.mark_requires_grad();
  call.record_.enter();
  begin_ = std::chrono::steady_clock::now();
  if (call.aliasing()) {
    scope_.emplace(call.device().index());
  } else {
    below_autograd_.emplace(c10::autograd_dispatch_keyset_with_ADInplaceOrView);
  }
}

HostCall::Running::~Running() {
  const auto elapsed = std::chrono::steady_clock::now() - begin_;
  call_.record_.leave(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count(), call_.bytes_copied_);
}

c10::Storage HostCall::device_storage_for(c10::StorageImpl* host) {
  for (const Operand& operand : operands_) {
    if (operand.twin.get() == host) return operand.original.storage();
  }
  for (const auto& [twin, storage] : storages_) {
    if (twin.get() == host) return storage;
  }
  HostAccess access(mydev::device(device().index()));
  c10::Storage adopted = adopt_storage(*host, device());
  storages_.emplace_back(c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(host), adopted);
  return adopted;
}

void HostCall::write_back_alias(Operand& operand) {
  c10::TensorImpl* alias = operand.stand_in.unsafeGetTensorImpl();
  c10::TensorImpl* original = operand.original.unsafeGetTensorImpl();
  c10::StorageImpl* host = alias->unsafe_storage().unsafeGetStorageImpl();
  if (C10_UNLIKELY(host != operand.twin.get())) {  // given another storage
    original->set_storage_keep_dtype(device_storage_for(host));
  } else {
    c10::StorageImpl* storage = original->unsafe_storage().unsafeGetStorageImpl();
    if (C10_UNLIKELY(host->data() != storage->data())) {  // reallocated by a resize
      // This frees the old block, and with it the cache's hold on the twin; operand.twin keeps it alive meanwhile.
      HostAccess access(mydev::device(device().index()));
      storage->set_data_ptr_noswap(adopt_host_memory(*host, device()));
    }
    if (C10_UNLIKELY(host->nbytes() != storage->nbytes())) storage->set_nbytes(host->nbytes());
  }
  if (C10_UNLIKELY(alias->sizes() != original->sizes() || alias->strides() != original->strides() ||
                   alias->storage_offset() != original->storage_offset())) {
    original->set_sizes_and_strides(alias->sizes(), alias->strides(), alias->storage_offset());
  }
}

void HostCall::write_back_copy(Operand& operand) {
  if (operand.stand_in.sizes() != operand.original.sizes()) {
    operand.original.resize_(operand.stand_in.sizes(), operand.stand_in.suggest_memory_format());
  }
  operand.original.copy_(operand.stand_in);
}

void HostCall::write_back() {
  const bool alias = aliasing();
  for (Operand& operand : operands_) {
    if (!operand.written) continue;
    if (alias) {
      write_back_alias(operand);
    } else {
      write_back_copy(operand);
    }
  }
  for (const SparseOperand& operand : sparse_operands_) {
    if (operand.written) set_sparse(operand.original, components_to_device(operand.stand_in), operand.stand_in);
  }
}

SparseComponents HostCall::components_to_device(const at::Tensor& sparse) {
  SparseComponents components = sparse_components(sparse);
  for (at::Tensor& component : components) component = to_device(std::move(component));
  return components;
}

at::Tensor HostCall::to_device(at::Tensor result, bool is_view) {
  if (!result.defined()) return result;
  c10::TensorImpl* impl = result.unsafeGetTensorImpl();
  for (const Operand& operand : operands_) {
    if (operand.stand_in.unsafeGetTensorImpl() == impl) return operand.original;
  }
  for (const SparseOperand& operand : sparse_operands_) {
    if (operand.stand_in.unsafeGetTensorImpl() == impl) return operand.original;
  }
  if (!result.device().is_cpu()) return result;
  if (C10_UNLIKELY(is_sparse(result))) return sparse_over(components_to_device(result), result);
  TORCH_CHECK_NOT_IMPLEMENTED(impl->has_storage(), record_.name(), ": the result has layout ", result.layout(),
                              ", which ", kDeviceType, " does not support; compute it on the CPU");
  c10::StorageImpl* host = impl->unsafe_storage().unsafeGetStorageImpl();
  for (const c10::StorageImpl* cpu : cpu_storages_) {
    if (cpu == host) return result;
  }
  if (!aliasing()) {
    TORCH_CHECK_NOT_IMPLEMENTED(!is_view, record_.name(), ": a view cannot fall back to the CPU on ", device(),
                                ", whose memory is not accessible from the host; register it for the device");
    return result.to(device());
  }
  become_device_tensor(result, device_storage_for(host), device());
  return result;
}

}  // namespace mydev
