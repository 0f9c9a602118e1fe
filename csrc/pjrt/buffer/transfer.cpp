#include "pjrt/buffer/transfer.h"

#include <cstring>
#include <utility>

#include "pjrt/buffer/submission.h"
#include "pjrt/device/callback_scope.h"
#include "runtime/command/host_work.h"
#include "runtime/command/transfer.h"
#include "runtime/memory/host_memory.h"

namespace mydev::pjrt {

namespace {

constexpr uintptr_t kZeroCopyAlignment = 64;  // what kernels and clients count on

// Copies within a device and its host memories, on its stream.
void copy_on(Stream& stream, void* dst, bool dst_on_host, const void* src, bool src_on_host, uint64_t bytes) {
  if (bytes == 0) return;
  if (dst_on_host && src_on_host) {
    submit_host_call(stream, "copy within the host", [=] { std::memcpy(dst, src, bytes); });
    return;
  }
  const mydev_copy_kind kind = dst_on_host   ? MYDEV_COPY_DEVICE_TO_HOST
                               : src_on_host ? MYDEV_COPY_HOST_TO_DEVICE
                                             : MYDEV_COPY_DEVICE_TO_DEVICE;
  copy_bytes(stream, dst, src, bytes, kind);
}

bool may_alias_host(const PJRT_Memory& memory, const HostArray& array) {
  if (array.semantics != PJRT_HostBufferSemantics_kImmutableZeroCopy &&
      array.semantics != PJRT_HostBufferSemantics_kMutableZeroCopy) {
    return false;
  }
  const bool reachable =
      memory.kind == MemoryKind::kUnpinnedHost ||
      (!memory.on_host() && (memory.device->device.properties.capabilities & MYDEV_CAPABILITY_UNIFIED_MEMORY) != 0);
  return reachable && !array.strides && array.shape->bytes != 0 &&
         reinterpret_cast<uintptr_t>(array.data) % kZeroCopyAlignment == 0;
}

UploadedBuffer alias_of_host(PJRT_Memory& memory, const HostArray& array) {
  auto host_done = std::make_shared<Completion>();
  SharedStorage storage =
      Storage::of_others(const_cast<void*>(array.data), array.shape->bytes, [host_done] { host_done->set(); });
  return {std::make_unique<PJRT_Buffer>(memory, array.shape, std::move(storage), Completion::ready()), host_done};
}

void read_host(const HostArray& array, void* dense) {
  if (array.strides) {
    pack(*array.shape, dense, array.data, *array.strides);
  } else {
    std::memcpy(dense, array.data, array.shape->bytes);
  }
}

// Uploads directly from the host's memory. Returns nothing if the device is not idle.
std::optional<SharedCompletion> upload_at_once(LocalDevice& device, const HostArray& array, const Storage& storage) {
  std::optional<SharedCompletion> completion;
  device.queue.run_if_idle([&] {
    Failure failure =
        failure_of([&] { copy_on(device.stream, storage.data(), false, array.data, true, array.shape->bytes); });
    completion = failure.failed() ? Completion::failed(std::move(failure)) : Completion::ready();
  });
  return completion;
}

SharedCompletion upload_staged(PJRT_Memory& memory, const HostArray& array, SharedStorage storage) {
  LocalDevice& device = *memory.device;
  std::shared_ptr<void> staging = pinned_memory(device.device, array.shape->bytes);
  read_host(array, staging.get());
  Submission work{.name = "upload"};
  work.submit = [staging, to = storage.get(), bytes = array.shape->bytes](Stream& stream) {
    copy_on(stream, to->data(), false, staging.get(), true, bytes);
  };
  work.after = [staging] {};  // holds it until the copy is done
  work.storages = {std::move(storage)};
  return submit(device, std::move(work));
}

// Returns the storage, which is lent as long as someone holds it.
SharedStorage loan_of(const PJRT_Buffer& buffer, const char* what) {
  SharedStorage storage = buffer.lend(what);
  Storage* lent = storage.get();
  return {lent, [storage = std::move(storage)](Storage* storage_of_loan) { storage_of_loan->take_back(); }};
}

// Work that reads a buffer: in the device's order, or beside it in callbacks and if the work says so.
class Reading {
 public:
  Reading(const PJRT_Buffer& buffer, const char* what, bool beside)
      : buffer_(buffer),
        beside_(beside || CallbackScope::waiting_device()),
        storage_(beside_ ? loan_of(buffer, what) : buffer.hold(what)) {}
  // For the client, which may share the data that it has asked for with a callback of a program that comes in between.
  // Memory that others use as well is read in the device's order, in which they write it.
  static Reading to_client(const PJRT_Buffer& buffer) {
    constexpr const char* kWhat = "a transfer to the host";
    return Reading(buffer, kWhat, /*beside=*/!buffer.hold(kWhat)->lent());
  }

  const std::byte* data() const noexcept { return static_cast<const std::byte*>(storage_->data()); }
  SharedCompletion submit(Submission work) {
    work.inputs.push_back(buffer_.ready);
    work.storages.push_back(std::move(storage_));
    return beside_ ? submit_reading(buffer_.device(), std::move(work))
                   : pjrt::submit(buffer_.device(), std::move(work));
  }

 private:
  const PJRT_Buffer& buffer_;
  bool beside_;
  SharedStorage storage_;
};

// Copies to host memory that the driver knows, and from there by `deliver`.
SharedCompletion download_by(const PJRT_Buffer& buffer, uint64_t offset, uint64_t bytes,
                             std::function<void(const void* dense)> deliver) {
  Reading reading = Reading::to_client(buffer);
  const void* src = reading.data() + offset;
  Submission work{.name = "download"};
  if (buffer.memory.on_host()) {
    work.submit = [](Stream&) {};
    work.after = [src, deliver = std::move(deliver)] { deliver(src); };
    return reading.submit(std::move(work));
  }
  auto staging = std::make_shared<std::shared_ptr<void>>();
  work.submit = [staging, src, bytes](Stream& stream) {
    *staging = pinned_memory(stream.device(), bytes);  // here, where the driver may be used
    copy_on(stream, staging->get(), true, src, false, bytes);
  };
  work.after = [staging, deliver = std::move(deliver)] { deliver(staging->get()); };
  return reading.submit(std::move(work));
}

// Returns the buffer of a copy to `storage`. In a callback it waits for the copy, since later work takes what is not
// ready for something that is before it in order.
std::unique_ptr<PJRT_Buffer> copy_of(const PJRT_Buffer& buffer, PJRT_Memory& destination, SharedStorage storage,
                                     SharedCompletion completion) {
  finish_in_callback(*completion);
  return std::make_unique<PJRT_Buffer>(destination, buffer.shape, std::move(storage), std::move(completion));
}

// Copies to host memory of the device.
std::unique_ptr<PJRT_Buffer> copy_to_host_memory(const PJRT_Buffer& buffer, PJRT_Memory& destination) {
  const uint64_t bytes = buffer.shape->bytes;
  Reading reading(buffer, "a copy", /*beside=*/false);
  SharedStorage to = Storage::allocate(destination, bytes);
  Submission work{.name = "copy of a buffer"};
  work.submit = [src = reading.data(), dst = to->data(), from_host = buffer.memory.on_host(), bytes](Stream& stream) {
    copy_on(stream, dst, true, src, from_host, bytes);
  };
  work.storages = {to};
  return copy_of(buffer, destination, to, reading.submit(std::move(work)));
}

// Copies to the device's own memory.
std::unique_ptr<PJRT_Buffer> copy_to_device_memory(const PJRT_Buffer& buffer, PJRT_Memory& destination) {
  check_not_awaited(*destination.device, "a copy of " + describe(buffer));
  const uint64_t bytes = buffer.shape->bytes;
  const SharedStorage from = buffer.hold("a copy"), to = Storage::allocate(destination, bytes);
  Submission work{.name = "copy of a buffer"};
  work.submit = [src = from->data(), dst = to->data(), from_host = buffer.memory.on_host(), bytes](Stream& stream) {
    copy_on(stream, dst, false, src, from_host, bytes);
  };
  work.inputs = {buffer.ready};
  work.storages = {from, to};
  return copy_of(buffer, destination, to, submit(*destination.device, std::move(work)));
}

// Submits work that is of no device's order until `before`, which is another device's, is ready.
SharedCompletion submit_behind(LocalDevice& device, const SharedCompletion& before, Submission work) {
  return before->is_ready() ? submit(device, std::move(work)) : submit_after(device, before, std::move(work));
}

// Copies on a stream of the source, without the host's memory between them.
std::unique_ptr<PJRT_Buffer> copy_to_peer_device(const PJRT_Buffer& buffer, PJRT_Memory& destination) {
  LocalDevice &source = buffer.device(), &device = *destination.device;
  const uint64_t bytes = buffer.shape->bytes;
  SharedStorage to = Storage::allocate(destination, bytes);
  // Earlier work of the destination may still use that memory.
  const SharedCompletion reached = submit(device, {.name = "copy between devices", .submit = [](Stream&) {}});
  Submission work{.name = "copy between devices"};
  SharedStorage from = loan_of(buffer, "a copy");
  work.submit = [src = from->data(), dst = to->data(), &peer = device.device, bytes](Stream& stream) {
    copy_to_peer(stream, dst, peer, src, bytes);
  };
  work.inputs = {buffer.ready};
  work.storages = {std::move(from)};
  const SharedCompletion copied = submit_behind(source, reached, std::move(work));
  Submission arrive{.name = "copy from another device", .submit = [](Stream&) {}};
  arrive.inputs = {copied};
  arrive.storages = {to};
  return copy_of(buffer, destination, to, submit_behind(device, copied, std::move(arrive)));
}

std::unique_ptr<PJRT_Buffer> copy_between_devices(const PJRT_Buffer& buffer, PJRT_Memory& destination) {
  check_not_awaited(*destination.device, "a copy of " + describe(buffer));
  const bool on_devices = !buffer.memory.on_host() && !destination.on_host();
  if (on_devices && buffer.device().device.reaches(destination.device->device) && !CallbackScope::waiting_device()) {
    return copy_to_peer_device(buffer, destination);
  }
  const uint64_t bytes = buffer.shape->bytes;
  const bool from_host = buffer.memory.on_host(), to_host = destination.on_host();
  Reading reading(buffer, "a copy", /*beside=*/false);
  SharedStorage to = Storage::allocate(destination, bytes);
  std::shared_ptr<void> staging = pinned_memory(buffer.device().device, bytes);
  Submission leave{.name = "copy to another device"};
  leave.submit = [staging, src = reading.data(), from_host, bytes](Stream& stream) {
    copy_on(stream, staging.get(), true, src, from_host, bytes);
  };
  SharedCompletion left = reading.submit(std::move(leave));
  Submission arrive{.name = "copy from another device"};
  arrive.submit = [staging, dst = to->data(), to_host, bytes](Stream& stream) {
    copy_on(stream, dst, to_host, staging.get(), true, bytes);
  };
  arrive.after = [staging] {};
  arrive.inputs = {left};
  arrive.storages = {to};
  return copy_of(buffer, destination, to, submit_behind(*destination.device, left, std::move(arrive)));
}

// The connections to the process of a device.
transport::Processes& processes_of(const PJRT_Device& device) {
  const Platform& platform = Platform::get();
  MYDEV_CHECK(!platform.is_local(device), MYDEV_INVALID_ARGUMENT, device.description.to_string,
              " is a device of this process, and a copy to or from another was asked for");
  return *platform.processes();
}

}  // namespace

UploadedBuffer upload(PJRT_Memory& memory, const HostArray& array) {
  MYDEV_CHECK(array.data != nullptr || array.shape->bytes == 0, MYDEV_INVALID_ARGUMENT, "the data of ",
              describe(*array.shape), " is NULL");
  if (may_alias_host(memory, array)) return alias_of_host(memory, array);
  if (!memory.on_host()) check_not_awaited(*memory.device, "a copy of " + describe(*array.shape) + " to it");
  SharedStorage storage = Storage::allocate(memory, array.shape->bytes);
  SharedCompletion ready = Completion::ready();
  if (array.shape->bytes != 0) {
    if (memory.on_host()) {
      read_host(array, storage->data());  // fresh memory, which no work of the device knows
    } else {
      std::optional<SharedCompletion> done;
      if (!memory.device->stream.asynchronous() && !array.strides)
        done = upload_at_once(*memory.device, array, *storage);
      ready = done ? std::move(*done) : upload_staged(memory, array, storage);
    }
  }
  finish_in_callback(*ready);
  auto buffer = std::make_unique<PJRT_Buffer>(memory, array.shape, std::move(storage), std::move(ready));
  return {std::move(buffer), Completion::ready()};
}

SharedCompletion download(const PJRT_Buffer& buffer, void* dst, uint64_t offset, uint64_t bytes) {
  if (!buffer.device().stream.asynchronous() &&
      !buffer.memory.on_host()) {  // whatever host memory is as good as pinned
    Reading reading = Reading::to_client(buffer);
    Submission work{.name = "download"};
    work.submit = [src = reading.data() + offset, dst, bytes](Stream& stream) {
      copy_on(stream, dst, true, src, false, bytes);
    };
    return reading.submit(std::move(work));
  }
  return download_by(buffer, offset, bytes, [dst, bytes](const void* dense) { std::memcpy(dst, dense, bytes); });
}

SharedCompletion download_strided(const PJRT_Buffer& buffer, void* dst, const ByteStrides& strides) {
  return download_by(buffer, 0, buffer.shape->bytes,
                     [shape = buffer.shape, dst, strides](const void* dense) { unpack(*shape, dst, strides, dense); });
}

std::unique_ptr<PJRT_Buffer> copy(const PJRT_Buffer& buffer, PJRT_Memory& destination) {
  if (&buffer.device() != destination.device) return copy_between_devices(buffer, destination);
  return destination.on_host() ? copy_to_host_memory(buffer, destination) : copy_to_device_memory(buffer, destination);
}

SharedCompletion send(const PJRT_Buffer& buffer, const PJRT_Device& destination, uint64_t key) {
  transport::Processes& processes = processes_of(destination);
  const uint64_t bytes = buffer.shape->bytes;
  const transport::Transfer transfer{buffer.device().id(), destination.id(), key};
  SharedCompletion sent = download_by(buffer, 0, bytes, [&processes, transfer, bytes](const void* dense) {
    processes.send_transfer(transfer, {static_cast<const std::byte*>(dense), bytes});
  });
  sent->on_ready([&processes, transfer](const Failure& failure) {
    if (failure.failed()) processes.fail_transfer(transfer, failure.message);
  });
  return sent;
}

std::unique_ptr<PJRT_Buffer> receive(PJRT_Memory& memory, SharedShape shape, const PJRT_Device& source, uint64_t key) {
  transport::Processes& processes = processes_of(source);
  check_not_awaited(*memory.device, "a copy of " + describe(*shape) + " from another process");
  SharedStorage storage = Storage::allocate(memory, shape->bytes);
  const transport::Transfer transfer{source.id(), memory.device->id(), key};
  auto staging = std::make_shared<std::shared_ptr<void>>();
  Submission work{.name = "copy from another process"};
  work.submit = [&processes, transfer, staging, to = storage.get(), shape, to_host = memory.on_host()](Stream& stream) {
    const transport::Message message = processes.receive_transfer(transfer);
    MYDEV_CHECK(message.size == shape->bytes, MYDEV_FAILED_PRECONDITION, "device ", transfer.from, " has sent ",
                message.size, " bytes to device ", transfer.to, ", which waits for ", describe(*shape),
                ": all processes must run the same program");
    *staging = pinned_memory(stream.device(), message.size);
    std::memcpy(staging->get(), message.data.get(), message.size);
    copy_on(stream, to->data(), to_host, staging->get(), true, message.size);
  };
  work.after = [staging] {};
  work.storages = {storage};
  SharedCompletion completion = submit_on_thread(*memory.device, std::move(work));
  return std::make_unique<PJRT_Buffer>(memory, std::move(shape), std::move(storage), std::move(completion));
}

}  // namespace mydev::pjrt
