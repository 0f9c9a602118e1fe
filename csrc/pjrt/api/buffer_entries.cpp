// Entries of buffers.
#include <string>
#include <utility>

#include "pjrt/api/entries.h"
#include "pjrt/base/arguments.h"
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

// --- made ------------------------------------------------------------------------------------------------------------

void make_from_host(PJRT_Client_BufferFromHostBuffer_Args& args) {
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

void make_uninitialized(PJRT_Client_CreateUninitializedBuffer_Args& args) {
  PJRT_Memory& memory = chosen_memory(args.device, args.memory);
  SharedShape shape = make_shape(element_type(args.shape_element_type), sizes_of(args.shape_dims, args.shape_num_dims));
  check_dense(args.shape_layout, *shape);
  args.buffer = new PJRT_Buffer(memory, shape, Storage::allocate(memory, shape->bytes), Completion::ready());
}

void make_view(PJRT_Client_CreateViewOfDeviceBuffer_Args& args) {
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

void make_failed(PJRT_Client_CreateErrorBuffer_Args& args) {
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

void get_type(PJRT_Buffer_ElementType_Args& args) {
  args.type = buffer_of(args.buffer).shape->type->type;
}
void get_dimensions(PJRT_Buffer_Dimensions_Args& args) {
  args.dims = buffer_of(args.buffer).shape->sizes.data();
  args.num_dims = args.buffer->shape->sizes.size();
}
void get_unpadded_dimensions(PJRT_Buffer_UnpaddedDimensions_Args& args) {
  args.unpadded_dims = buffer_of(args.buffer).shape->sizes.data();
  args.num_dims = args.buffer->shape->sizes.size();
}
void get_dynamic_dimensions(PJRT_Buffer_DynamicDimensionIndices_Args& args) {
  args.dynamic_dim_indices = nullptr;
  args.num_dynamic_dims = 0;
}
void get_layout(PJRT_Buffer_GetMemoryLayout_Args& args) {
  const Shape& shape = *buffer_of(args.buffer).shape;
  args.layout = {};
  args.layout.struct_size = sizeof args.layout;
  args.layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  args.layout.tiled.struct_size = sizeof args.layout.tiled;
  args.layout.tiled.minor_to_major = shape.minor_to_major.data();
  args.layout.tiled.minor_to_major_size = shape.minor_to_major.size();
}
void get_bytes(PJRT_Buffer_OnDeviceSizeInBytes_Args& args) {
  args.on_device_size_in_bytes = buffer_of(args.buffer).shape->bytes;
}
void get_device(PJRT_Buffer_Device_Args& args) {
  args.device = &buffer_of(args.buffer).device();
}
void get_memory(PJRT_Buffer_Memory_Args& args) {
  args.memory = &buffer_of(args.buffer).memory;
}
void is_deleted(PJRT_Buffer_IsDeleted_Args& args) {
  args.is_deleted = buffer_of(args.buffer).deleted();
}
// True for buffers whose memory the client may read in place once they are ready, without asking the device for access.
void is_on_cpu(PJRT_Buffer_IsOnCpu_Args& args) {
  args.is_on_cpu = buffer_of(args.buffer).memory.on_host();
}
void get_ready_event(PJRT_Buffer_ReadyEvent_Args& args) {
  args.event = new PJRT_Event{buffer_of(args.buffer).ready};
}

// --- released --------------------------------------------------------------------------------------------------------

void destroy(PJRT_Buffer_Destroy_Args& args) {
  delete args.buffer;
}
void delete_content(PJRT_Buffer_Delete_Args& args) {
  buffer_of(args.buffer).drop("deleted");
}
void add_reference(PJRT_Buffer_IncreaseExternalReferenceCount_Args& args) {
  buffer_of(args.buffer).add_external_reference();
}
void remove_reference(PJRT_Buffer_DecreaseExternalReferenceCount_Args& args) {
  buffer_of(args.buffer).remove_external_reference();
}

// --- read and copied -------------------------------------------------------------------------------------------------

void get_address(PJRT_Buffer_UnsafePointer_Args& args) {
  args.buffer_pointer = reinterpret_cast<uintptr_t>(buffer_of(args.buffer).hold("the address")->data());
  note_address(*args.buffer);
}
void get_data_pointer(PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args& args) {
  args.device_memory_ptr = buffer_of(args.buffer).hold("the address")->data();
}

void copy_to_host(PJRT_Buffer_ToHostBuffer_Args& args) {
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

void copy_bytes_to_host(PJRT_Buffer_CopyRawToHost_Args& args) {
  PJRT_Buffer& buffer = buffer_of(args.buffer);
  const uint64_t bytes = buffer.shape->bytes;
  MYDEV_CHECK(args.offset >= 0 && args.transfer_size >= 0 && static_cast<uint64_t>(args.offset) <= bytes &&
                  static_cast<uint64_t>(args.transfer_size) <= bytes - static_cast<uint64_t>(args.offset),
              MYDEV_INVALID_ARGUMENT, args.transfer_size, " bytes from ", args.offset, " on are not within ",
              describe(buffer), ", which has ", bytes);
  args.event = new PJRT_Event{
      download(buffer, args.dst, static_cast<uint64_t>(args.offset), static_cast<uint64_t>(args.transfer_size))};
}

void copy_to_device(PJRT_Buffer_CopyToDevice_Args& args) {
  args.dst_buffer =
      copy(buffer_of(args.buffer), chosen_memory(&required(args.dst_device, "the device"), nullptr)).release();
}
void copy_to_memory(PJRT_Buffer_CopyToMemory_Args& args) {
  args.dst_buffer = copy(buffer_of(args.buffer), required(args.dst_memory, "the memory")).release();
}

}  // namespace

void add_buffer_entries(PJRT_Api& api) {
  MYDEV_PJRT_ENTRY(api, PJRT_Client_BufferFromHostBuffer, make_from_host, buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_CreateUninitializedBuffer, make_uninitialized, buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_CreateViewOfDeviceBuffer, make_view, buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Client_CreateErrorBuffer, make_failed, buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_ElementType, get_type, type);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_Dimensions, get_dimensions, num_dims);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_UnpaddedDimensions, get_unpadded_dimensions, num_dims);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_DynamicDimensionIndices, get_dynamic_dimensions, num_dynamic_dims);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_GetMemoryLayout, get_layout, layout);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_OnDeviceSizeInBytes, get_bytes, on_device_size_in_bytes);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_Device, get_device, device);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_Memory, get_memory, memory);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_IsDeleted, is_deleted, is_deleted);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_IsOnCpu, is_on_cpu, is_on_cpu);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_ReadyEvent, get_ready_event, event);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_Destroy, destroy, buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_Delete, delete_content, buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_IncreaseExternalReferenceCount, add_reference, buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_DecreaseExternalReferenceCount, remove_reference, buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_UnsafePointer, get_address, buffer_pointer);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_OpaqueDeviceMemoryDataPointer, get_data_pointer, device_memory_ptr);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_ToHostBuffer, copy_to_host, dst_size);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_CopyRawToHost, copy_bytes_to_host, event);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_CopyToDevice, copy_to_device, dst_buffer);
  MYDEV_PJRT_ENTRY(api, PJRT_Buffer_CopyToMemory, copy_to_memory, dst_buffer);
}

}  // namespace mydev::pjrt
