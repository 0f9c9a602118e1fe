// Entries of buffers.
#include <string>
#include <utility>

#include "pjrt/api/entries.h"
#include "pjrt/buffer/submission.h"
#include "pjrt/buffer/transfer.h"
#include "pjrt/python/sharing.h"

namespace mydev::pjrt {

namespace {

PJRT_Buffer& buffer_of(PJRT_Buffer* buffer) {
  return required(buffer, "the buffer");
}

std::span<const int64_t> sizes_of(const int64_t* dims, size_t count) {
  MYDEV_CHECK(dims != nullptr || count == 0, MYDEV_INVALID_ARGUMENT, "the dimensions of an array of rank ", count,
              " are NULL");
  return {dims, count};
}

PJRT_HostBufferSemantics checked(PJRT_HostBufferSemantics semantics) {
  MYDEV_CHECK(static_cast<unsigned>(semantics) <= PJRT_HostBufferSemantics_kMutableZeroCopy, MYDEV_INVALID_ARGUMENT,
              "host buffer semantics ", static_cast<int>(semantics), " are not known; there are 0 to 3");
  return semantics;
}

}  // namespace

// --- made ------------------------------------------------------------------------------------------------------------

MYDEV_PJRT_ENTRY(PJRT_Client_BufferFromHostBuffer, buffer) {
  PJRT_Memory& memory = chosen_memory(args.device, args.memory);
  SharedShape shape = make_shape(element_type(args.type), sizes_of(args.dims, args.num_dims));
  check_dense(args.device_layout, *shape);
  HostArray array{args.data, shape, std::nullopt, checked(args.host_buffer_semantics)};
  if (args.byte_strides != nullptr && args.num_byte_strides != 0) {
    array.strides = strides_unless_dense(*shape, {args.byte_strides, args.num_byte_strides});
  }
  UploadedBuffer uploaded = upload(memory, array);
  args.done_with_host_buffer = new PJRT_Event{std::move(uploaded.host_done)};
  args.buffer = uploaded.buffer.release();
}

MYDEV_PJRT_ENTRY(PJRT_Client_CreateUninitializedBuffer, buffer) {
  PJRT_Memory& memory = chosen_memory(args.device, args.memory);
  SharedShape shape = make_shape(element_type(args.shape_element_type), sizes_of(args.shape_dims, args.shape_num_dims));
  check_dense(args.shape_layout, *shape);
  args.buffer = new PJRT_Buffer(memory, shape, Storage::allocate(memory, shape->bytes), Completion::ready());
}

MYDEV_PJRT_ENTRY(PJRT_Client_CreateViewOfDeviceBuffer, buffer) {
  PJRT_Memory& memory = chosen_memory(args.device, MYDEV_PJRT_HAS(args, memory) ? args.memory : nullptr);
  SharedShape shape = make_shape(element_type(args.element_type), sizes_of(args.dims, args.num_dims));
  check_dense(args.layout, *shape);
  MYDEV_CHECK(args.device_buffer_ptr != nullptr || shape->bytes == 0, MYDEV_INVALID_ARGUMENT, "the memory of ",
              describe(*shape), " is NULL");
  std::function<void()> release;
  if (args.on_delete_callback != nullptr) {
    release = [callback = args.on_delete_callback, data = args.device_buffer_ptr, user = args.on_delete_callback_arg] {
      callback(data, user);
    };
  }
  SharedStorage storage = Storage::of_others(args.device_buffer_ptr, shape->bytes, std::move(release));
  storage->lend();  // for good: its owner may write it, in the device's order
  // Work that the device's order has been made to wait for (python/sharing.cpp) may still have to fill the memory.
  SharedCompletion ready = Completion::ready();
  if (memory.device->stream.asynchronous()) {
    check_not_awaited(*memory.device, "a view of its memory");
    ready = submit(*memory.device, {.name = "view of memory", .submit = [](Stream&) {}});
  }
  args.buffer = new PJRT_Buffer(memory, shape, std::move(storage), std::move(ready));
}

MYDEV_PJRT_ENTRY(PJRT_Client_CreateErrorBuffer, buffer) {
  PJRT_Memory& memory = chosen_memory(nullptr, args.memory);
  SharedShape shape = make_shape(element_type(args.shape_element_type), sizes_of(args.shape_dims, args.shape_num_dims));
  MYDEV_CHECK(args.error_code != PJRT_Error_Code_OK, MYDEV_INVALID_ARGUMENT,
              "a buffer with an error was asked for, and the code is OK");
  Failure failure{static_cast<mydev_code>(args.error_code),
                  std::string(text_of(args.error_message, args.error_message_size))};
  args.buffer =
      new PJRT_Buffer(memory, shape, Storage::of_others(nullptr, 0, nullptr), Completion::failed(std::move(failure)));
}

// --- asked -----------------------------------------------------------------------------------------------------------

MYDEV_PJRT_GIVE(PJRT_Buffer_ElementType, type, buffer_of(args.buffer).shape->type->type);
MYDEV_PJRT_GIVE_LIST(PJRT_Buffer_Dimensions, dims, buffer_of(args.buffer).shape->sizes);
MYDEV_PJRT_DO(PJRT_Buffer_UnpaddedDimensions, num_dims,
              give_list(buffer_of(args.buffer).shape->sizes, args.unpadded_dims, args.num_dims));
MYDEV_PJRT_ENTRY(PJRT_Buffer_DynamicDimensionIndices, num_dynamic_dims) {
  args.dynamic_dim_indices = nullptr;
  args.num_dynamic_dims = 0;
}
MYDEV_PJRT_ENTRY(PJRT_Buffer_GetMemoryLayout, layout) {
  const Shape& shape = *buffer_of(args.buffer).shape;
  args.layout = {};
  args.layout.struct_size = sizeof args.layout;
  args.layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args.layout.tiled.struct_size = sizeof args.layout.tiled;
  args.layout.tiled.minor_to_major = shape.minor_to_major.data();
  args.layout.tiled.minor_to_major_size = shape.minor_to_major.size();
}
MYDEV_PJRT_GIVE(PJRT_Buffer_OnDeviceSizeInBytes, on_device_size_in_bytes, buffer_of(args.buffer).shape->bytes);
MYDEV_PJRT_GIVE(PJRT_Buffer_Device, device, &buffer_of(args.buffer).device());
MYDEV_PJRT_GIVE(PJRT_Buffer_Memory, memory, &buffer_of(args.buffer).memory);
MYDEV_PJRT_GIVE(PJRT_Buffer_IsDeleted, is_deleted, buffer_of(args.buffer).deleted());
// True for buffers whose memory the client may read in place once they are ready, without asking the device for access.
MYDEV_PJRT_GIVE(PJRT_Buffer_IsOnCpu, is_on_cpu, buffer_of(args.buffer).memory.on_host());
MYDEV_PJRT_GIVE(PJRT_Buffer_ReadyEvent, event, new PJRT_Event{buffer_of(args.buffer).ready});

// --- released --------------------------------------------------------------------------------------------------------

MYDEV_PJRT_DO(PJRT_Buffer_Destroy, buffer, delete args.buffer);
MYDEV_PJRT_DO(PJRT_Buffer_Delete, buffer, buffer_of(args.buffer).drop("deleted"));
MYDEV_PJRT_DO(PJRT_Buffer_IncreaseExternalReferenceCount, buffer, buffer_of(args.buffer).add_external_reference());
MYDEV_PJRT_DO(PJRT_Buffer_DecreaseExternalReferenceCount, buffer, buffer_of(args.buffer).remove_external_reference());

// --- read and copied -------------------------------------------------------------------------------------------------

MYDEV_PJRT_ENTRY(PJRT_Buffer_UnsafePointer, buffer_pointer) {
  args.buffer_pointer = reinterpret_cast<uintptr_t>(buffer_of(args.buffer).hold("the address")->data());
  note_address(*args.buffer);
}
MYDEV_PJRT_GIVE(PJRT_Buffer_OpaqueDeviceMemoryDataPointer, device_memory_ptr,
                buffer_of(args.buffer).hold("the address")->data());

MYDEV_PJRT_ENTRY(PJRT_Buffer_ToHostBuffer, dst_size) {
  PJRT_Buffer& buffer = buffer_of(args.src);
  const Shape& shape = *buffer.shape;
  const std::optional<ByteStrides> strides = strides_of(args.host_layout, shape);
  const uint64_t bytes = strides ? extent(shape, *strides) : shape.bytes;
  if (args.dst == nullptr) {
    args.dst_size = bytes;
    if (MYDEV_PJRT_HAS(args, event)) args.event = nullptr;
    return;
  }
  MYDEV_CHECK(MYDEV_PJRT_HAS(args, event), MYDEV_INVALID_ARGUMENT,
              "PJRT_Buffer_ToHostBuffer: struct_size leaves no place for the event");
  MYDEV_CHECK(args.dst_size >= bytes, MYDEV_INVALID_ARGUMENT, "the host's memory for ", describe(buffer), " has ",
              args.dst_size, " bytes, and ", bytes, " are needed");
  args.event = new PJRT_Event{strides ? download_strided(buffer, args.dst, *strides)
                                      : download(buffer, args.dst, 0, shape.bytes)};
}

MYDEV_PJRT_ENTRY(PJRT_Buffer_CopyRawToHost, event) {
  PJRT_Buffer& buffer = buffer_of(args.buffer);
  const uint64_t bytes = buffer.shape->bytes;
  MYDEV_CHECK(args.offset >= 0 && args.transfer_size >= 0 && static_cast<uint64_t>(args.offset) <= bytes &&
                  static_cast<uint64_t>(args.transfer_size) <= bytes - static_cast<uint64_t>(args.offset),
              MYDEV_INVALID_ARGUMENT, args.transfer_size, " bytes from ", args.offset, " on are not within ",
              describe(buffer), ", which has ", bytes);
  args.event = new PJRT_Event{
      download(buffer, args.dst, static_cast<uint64_t>(args.offset), static_cast<uint64_t>(args.transfer_size))};
}

MYDEV_PJRT_GIVE(
    PJRT_Buffer_CopyToDevice, dst_buffer,
    copy(buffer_of(args.buffer), chosen_memory(&required(args.dst_device, "the device"), nullptr)).release());
MYDEV_PJRT_GIVE(PJRT_Buffer_CopyToMemory, dst_buffer,
                copy(buffer_of(args.buffer), required(args.dst_memory, "the memory")).release());

}  // namespace mydev::pjrt
