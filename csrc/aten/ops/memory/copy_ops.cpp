// Copies in every direction, dtype and stride pattern, and the ops that read a tensor back.
//
// Between a device and the host, bytes travel in the destination's dtype: casts from the host happen on the host, those
// to the host on the device. Layouts change on the way where the driver copies strided views; else in the same places
// as dtypes, and bytes travel dense. A copy to the host waits unless non_blocking is set and the host memory is pinned;
// a copy from the host waits under the same rule. Copies between devices are ordered after earlier work of both current
// streams and before later work of the destination's.
#include <ATen/Dispatch_v2.h>
#include <ATen/ExpandUtils.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/ops/item_native.h>
#include <ATen/record_function.h>
#include <torch/library.h>

#include <array>

#include "aten/core/sync_debug.h"
#include "aten/host/native_or_host.h"
#include "aten/memory/device_allocator.h"
#include "aten/memory/storage.h"
#include "aten/memory/strided_copy.h"
#include "runtime/command/transfer.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

KernelRef copy_kernel("mydev.copy");

// Whether the two have the same elements at the same places, so that bytes can be copied as they lie. (Contiguous
// tensors may differ in the strides of dimensions of one element.)
bool same_bytes(const at::Tensor& a, const at::Tensor& b) {
  return a.scalar_type() == b.scalar_type() && a.is_conj() == b.is_conj() && a.is_neg() == b.is_neg() &&
         ((a.is_contiguous() && b.is_contiguous()) || (a.strides() == b.strides() && a.is_non_overlapping_and_dense()));
}

// Whether the tensor's memory is its elements in order, without lazy conjugation or negation.
bool holds_values_in_order(const at::Tensor& tensor) {
  return tensor.is_contiguous() && !tensor.is_conj() && !tensor.is_neg();
}

at::Tensor empty_on_host(const at::Tensor& like, c10::ScalarType dtype) {
  return at::empty(like.sizes(), at::TensorOptions().dtype(dtype).device(c10::kCPU));
}

bool is_pinned(const at::Tensor& host) {
  return host.is_pinned();
}

// Tells the pinned-memory allocator that `stream` uses the tensor's memory.
void note_pinned_use(const at::Tensor& host, Stream& stream) {
  const c10::DataPtr& data = host.storage().data_ptr();
  at::getHostAllocator(kDeviceType)
      ->record_event(host.mutable_data_ptr(), data.get_context(),
                     c10::Stream(c10::Stream::UNSAFE,
                                 {kDeviceType, static_cast<c10::DeviceIndex>(stream.device().index)}, stream.id()));
}

void copy_on_one_device(const at::Tensor& dst, const at::Tensor& src);

// A copy from the host waits unless it is told not to and the memory is pinned. (The driver waits for ordinary memory.)
void finish_copy_from_host(const at::Tensor& src, Stream& stream, bool non_blocking) {
  if (!non_blocking) about_to_wait("a copy from the host");
  if (!stream.asynchronous() || !is_pinned(src)) return;
  if (non_blocking) {
    note_pinned_use(src, stream);
  } else {
    stream.synchronize();
  }
}

void copy_from_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  Stream& stream = current_stream(dst.device().index());
  if (!same_bytes(dst, src)) {
    if (try_copy_strided(dst, src, stream, MYDEV_COPY_HOST_TO_DEVICE)) {
      finish_copy_from_host(src, stream, non_blocking);
      return;
    }
    at::Tensor staged = src;
    if (src.scalar_type() != dst.scalar_type() || !holds_values_in_order(src)) {
      staged = empty_on_host(dst, dst.scalar_type());
      staged.copy_(src);
    }
    if (!holds_values_in_order(dst)) {
      const at::Tensor arrived = empty_dense(dst.sizes(), dst);
      copy_from_host(arrived, staged, non_blocking);
      copy_on_one_device(dst, arrived);
      return;
    }
    copy_from_host(dst, staged, non_blocking);
    return;
  }
  copy_bytes(stream, dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), MYDEV_COPY_HOST_TO_DEVICE);
  finish_copy_from_host(src, stream, non_blocking);
}

// Returns the values of `src`, which is on a device, in order and in the destination's dtype, so that bytes can travel.
at::Tensor packed_values(const at::Tensor& src, c10::ScalarType dtype) {
  if (src.scalar_type() == dtype && holds_values_in_order(src)) return src;
  const at::Tensor packed = empty_dense(src.sizes(), dtype, src.device());
  copy_on_one_device(packed, src);
  return packed;
}

void copy_from_device(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  Stream& stream = current_stream(src.device().index());
  const bool wait = !(non_blocking && stream.asynchronous() && is_pinned(dst));
  if (!same_bytes(dst, src)) {
    if (try_copy_strided(dst, src, stream, MYDEV_COPY_DEVICE_TO_HOST)) {
      if (!wait) {
        note_pinned_use(dst, stream);
        return;
      }
      about_to_wait("a copy to the host");
      if (stream.asynchronous()) stream.synchronize();
      return;
    }
    const at::Tensor ready = packed_values(src, dst.scalar_type());
    if (holds_values_in_order(dst)) {
      copy_from_device(dst, ready, non_blocking);
    } else {
      const at::Tensor arrived = empty_on_host(dst, dst.scalar_type());
      copy_from_device(arrived, ready, /*non_blocking=*/false);
      dst.copy_(arrived);
    }
    return;
  }
  if (wait) {
    copy_to_host(dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), stream);
    return;
  }
  copy_bytes(stream, dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), MYDEV_COPY_DEVICE_TO_HOST);
  note_pinned_use(dst, stream);
}

// Makes `later` wait for what `earlier` was given so far.
void order_after(Stream& later, Stream& earlier) {
  if (!later.asynchronous() && !earlier.asynchronous()) return;
  Event event(earlier.device().index, /*timing=*/false);
  event.record(earlier);
  event.block(later);
}

void copy_between_devices(const at::Tensor& dst, const at::Tensor& src) {
  if (!same_bytes(dst, src)) {
    const at::Tensor ready = packed_values(src, dst.scalar_type());
    if (holds_values_in_order(dst)) {
      copy_between_devices(dst, ready);
    } else {
      const at::Tensor arrived = empty_dense(dst.sizes(), dst);
      copy_between_devices(arrived, ready);
      copy_on_one_device(dst, arrived);
    }
    return;
  }
  Stream& from = current_stream(src.device().index());
  Stream& to = current_stream(dst.device().index());
  const mydev_driver_api& driver = *from.device().driver;
  const bool direct = driver.peer_access == nullptr || from.device().reaches(to.device());
  if (driver.copy_peer == nullptr || !direct) {
    const at::Tensor staged = at::empty_like(src, src.options().device(c10::kCPU));
    copy_to_host(staged.mutable_data_ptr(), src.const_data_ptr(), src.nbytes(), from);
    copy_bytes(to, dst.mutable_data_ptr(), staged.const_data_ptr(), dst.nbytes(), MYDEV_COPY_HOST_TO_DEVICE);
    return;
  }
  order_after(from, to);
  copy_to_peer(from, dst.mutable_data_ptr(), to.device(), src.const_data_ptr(), dst.nbytes());
  order_after(to, from);
}

// False if the device has no kernel for these tensors.
bool copy_by_kernel(const at::Tensor& dst, const at::Tensor& src) {
  const Launchable* kernel = copy_kernel.on(dst);
  const bool known = has_frame_type(dst) && has_frame_type(src);
  if (kernel == nullptr || !known) return false;
  OpFrame<2> frame;
  frame.add(dst).add(src);
  frame.attribute(bool_attribute("conj", src.is_complex() && dst.is_conj() != src.is_conj()));
  frame.attribute(bool_attribute("neg", dst.is_neg() != src.is_neg()));
  frame.launch(*kernel, 1);
  return true;
}

// The host converts. The storages travel whole, so that strides stay as they are.
void copy_by_host(const at::Tensor& dst, const at::Tensor& src, Stream& stream) {
  const auto on_host = [&](const at::Tensor& tensor) {
    const c10::Storage& storage = tensor.storage();
    at::Tensor bytes = at::empty({static_cast<int64_t>(storage.nbytes())}, at::kByte);
    copy_to_host(bytes.mutable_data_ptr(), storage.data(), storage.nbytes(), stream);
    at::Tensor host = at::empty({0}, tensor.options().device(c10::kCPU));
    host.set_(bytes.storage(), tensor.storage_offset(), tensor.sizes(), tensor.strides());
    if (tensor.is_conj()) host._set_conj(true);
    if (tensor.is_neg()) host._set_neg(true);
    return host;
  };
  const at::Tensor host = on_host(dst);
  host.copy_(on_host(src));
  copy_bytes(stream, dst.storage().mutable_data(), host.storage().data(), host.storage().nbytes(),
             MYDEV_COPY_HOST_TO_DEVICE);
}

void copy_on_one_device(const at::Tensor& dst, const at::Tensor& src) {
  const auto by_kernel = [&] { return try_kernels<at::_ops::copy_>([&] { return copy_by_kernel(dst, src); }); };
  Stream& stream = current_stream(dst.device().index());
  const bool kernel_comes_last = copy_kernel.is_for_graphs(stream.device().index);
  if (!kernel_comes_last && by_kernel()) return;
  if (same_bytes(dst, src)) {
    copy_bytes(stream, dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), MYDEV_COPY_DEVICE_TO_DEVICE);
  } else if (!try_copy_strided(dst, src, stream, MYDEV_COPY_DEVICE_TO_DEVICE) && !(kernel_comes_last && by_kernel())) {
    copy_by_host(dst, src, stream);
  }
}

at::Tensor& copy_(at::Tensor& self, const at::Tensor& src, bool non_blocking) {
  TORCH_CHECK(src.defined(), "copy_: expected a tensor to copy from, got an undefined one");
  if (self.is_same(src)) return self;
  TORCH_CHECK(!self._is_zerotensor(), "copy_: a ZeroTensor has no memory to write to; clone() it first");
  TORCH_CHECK_NOT_IMPLEMENTED(!src.is_meta(), "Cannot copy out of meta tensor; no data!");
  const c10::MaybeOwned<at::Tensor> expanded = at::expand_inplace(self, src, "copy_");
  if (self.numel() == 0) return self;
  if (C10_UNLIKELY(src._is_zerotensor())) return self.zero_();
  at::assert_no_internal_overlap(self);
  if (src.is_complex() && !self.is_complex()) {
    TORCH_WARN_ONCE("Casting complex values to real discards the imaginary part");
  }
  if (!on_device(self)) {
    TORCH_CHECK_NOT_IMPLEMENTED(self.is_cpu(), "copy_: cannot copy from ", src.device(), " to ", self.device());
    copy_from_device(self, *expanded, non_blocking);
  } else if (!on_device(src)) {
    TORCH_CHECK_NOT_IMPLEMENTED(src.is_cpu(), "copy_: cannot copy from ", src.device(), " to ", self.device());
    copy_from_host(self, *expanded, non_blocking);
  } else if (self.device() != src.device()) {
    copy_between_devices(self, *expanded);
  } else {
    at::assert_no_partial_overlap(self, *expanded);
    copy_on_one_device(self, *expanded);
  }
  return self;
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& dst, bool non_blocking) {
  at::Tensor target = dst;
  copy_(target, self, non_blocking);
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& dst) {
  dst.resize_(self.sizes());
  return copy_from(self, dst, /*non_blocking=*/false);
}

c10::Scalar local_scalar_dense(const at::Tensor& self) {
  alignas(16) std::array<std::byte, 16> bytes{};
  const size_t itemsize = self.dtype().itemsize();
  TORCH_CHECK(self.numel() > 0, "_local_scalar_dense: Empty tensor not supported");
  TORCH_INTERNAL_ASSERT(itemsize <= bytes.size());
  copy_to_host(bytes.data(), self.const_data_ptr(), itemsize, current_stream(self.device().index()));
  return AT_DISPATCH_V2(self.scalar_type(), "item",
                        AT_WRAP([&]() -> c10::Scalar { return *reinterpret_cast<const scalar_t*>(bytes.data()); }),
                        AT_EXPAND(AT_ALL_TYPES_AND_COMPLEX), AT_EXPAND(AT_BAREBONES_UNSIGNED_TYPES),
                        AT_EXPAND(AT_FLOAT8_TYPES), at::kComplexHalf, at::kHalf, at::kBool, at::kBFloat16);
}

// item() is called often, and a number has no derivative: where nobody looks on (a mode, a transform, a profiler), its
// composite form's second way through the dispatcher leads to the kernel above all the same.
c10::Scalar item(c10::DispatchKeySet keys, const at::Tensor& self) {
  constexpr c10::DispatchKeySet kPlain({c10::DispatchKey::PrivateUse1, c10::DispatchKey::AutogradPrivateUse1,
                                        c10::DispatchKey::BackendSelect, c10::DispatchKey::ADInplaceOrView,
                                        c10::DispatchKey::AutocastPrivateUse1});
  const bool plain = kPlain.has_all(keys) && self.numel() == 1;
  if (!plain || at::getStepCallbacksUnlessEmpty(at::RecordScope::FUNCTION).has_value()) return at::native::item(self);
  return local_scalar_dense(self);
}

// Core's composite ends in a kernel that only the CPU and CUDA have.
at::Tensor& conj_physical_(at::Tensor& self) {
  return self.is_complex() ? self.copy_(self.conj()) : self;
}

void record_stream_(at::Tensor& self, c10::Stream stream) {
  device_allocator()->recordStream(self.storage().data_ptr(), stream);
}

// `tensor.data = other` and Module.to() change a tensor in place, and keep its identity, where this says that the two
// may hold each other's data: dense tensors of the CPU and of the device may.
bool has_compatible_shallow_copy_type(const at::Tensor& self, const at::Tensor& from) {
  const auto dense = [](const at::Tensor& tensor) {
    return tensor.layout() == at::kStrided && (tensor.is_cpu() || on_device(tensor)) && tensor.has_storage();
  };
  return dense(self) && dense(from);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("copy_", &copy_);
  m.impl("_copy_from", &copy_from);
  m.impl("_copy_from_and_resize", &copy_from_and_resize);
  m.impl("_local_scalar_dense", &local_scalar_dense);
  m.impl("conj_physical_", &conj_physical_);
  m.impl("record_stream", &record_stream_);
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
}
TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) {
  m.impl("_has_compatible_shallow_copy_type", &has_compatible_shallow_copy_type);
  m.impl("item", TORCH_FN(item));
}
// The generic handlers of these bits would clone first, and a clone copies: without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace mydev
