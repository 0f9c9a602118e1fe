// The PJRT C API: buffers. base.h has what holds for all structs.
#pragma once

#include "pjrt/c_api/base.h"

typedef enum PJRT_Buffer_Type PJRT_ENUM_TYPE {
  PJRT_Buffer_Type_INVALID = 0,
  PJRT_Buffer_Type_PRED = 1,
  PJRT_Buffer_Type_S8 = 2,
  PJRT_Buffer_Type_S16 = 3,
  PJRT_Buffer_Type_S32 = 4,
  PJRT_Buffer_Type_S64 = 5,
  PJRT_Buffer_Type_U8 = 6,
  PJRT_Buffer_Type_U16 = 7,
  PJRT_Buffer_Type_U32 = 8,
  PJRT_Buffer_Type_U64 = 9,
  PJRT_Buffer_Type_F16 = 10,
  PJRT_Buffer_Type_F32 = 11,
  PJRT_Buffer_Type_F64 = 12,
  PJRT_Buffer_Type_BF16 = 13,
  PJRT_Buffer_Type_C64 = 14,
  PJRT_Buffer_Type_C128 = 15,
  PJRT_Buffer_Type_F8E5M2 = 16,
  PJRT_Buffer_Type_F8E4M3FN = 17,
  PJRT_Buffer_Type_F8E4M3B11FNUZ = 18,
  PJRT_Buffer_Type_F8E5M2FNUZ = 19,
  PJRT_Buffer_Type_F8E4M3FNUZ = 20,
  PJRT_Buffer_Type_S4 = 21,
  PJRT_Buffer_Type_U4 = 22,
  PJRT_Buffer_Type_TOKEN = 23,
  PJRT_Buffer_Type_S2 = 24,
  PJRT_Buffer_Type_U2 = 25,
  PJRT_Buffer_Type_F8E4M3 = 26,
  PJRT_Buffer_Type_F8E3M4 = 27,
  PJRT_Buffer_Type_F8E8M0FNU = 28,
  PJRT_Buffer_Type_F4E2M1FN = 29,
  PJRT_Buffer_Type_S1 = 30,
  PJRT_Buffer_Type_U1 = 31
} PJRT_Buffer_Type;

typedef enum PJRT_HostBufferSemantics PJRT_ENUM_TYPE {
  PJRT_HostBufferSemantics_kImmutableOnlyDuringCall = 0,
  PJRT_HostBufferSemantics_kImmutableUntilTransferCompletes = 1,
  PJRT_HostBufferSemantics_kImmutableZeroCopy = 2,  // the buffer may live in the host's memory until it is destroyed
  PJRT_HostBufferSemantics_kMutableZeroCopy = 3     // and may be written there
} PJRT_HostBufferSemantics;

typedef enum PJRT_Buffer_MemoryLayout_Type PJRT_ENUM_TYPE {
  PJRT_Buffer_MemoryLayout_Type_Tiled = 0,
  PJRT_Buffer_MemoryLayout_Type_Strides = 1
} PJRT_Buffer_MemoryLayout_Type;

PJRT_STRUCT(PJRT_Buffer_MemoryLayout_Tiled, PJRT_STRUCT_HEAD,
            const int64_t* minor_to_major,  // dimensions, the one that varies fastest first
            size_t minor_to_major_size, const int64_t* tile_dims, const size_t* tile_dim_sizes, size_t num_tiles);
PJRT_STRUCT(PJRT_Buffer_MemoryLayout_Strides, PJRT_STRUCT_HEAD, const int64_t* byte_strides, size_t num_byte_strides);

typedef struct PJRT_Buffer_MemoryLayout {
  PJRT_STRUCT_HEAD;
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  PJRT_Buffer_MemoryLayout_Type type;
} PJRT_Buffer_MemoryLayout;

PJRT_ARGS(PJRT_Client_BufferFromHostBuffer, PJRT_Client* client, const void* data, PJRT_Buffer_Type type,
          const int64_t* dims, size_t num_dims,
          const int64_t* byte_strides,  // NULL: dense, row-major
          size_t num_byte_strides, PJRT_HostBufferSemantics host_buffer_semantics, PJRT_Device* device,
          PJRT_Memory* memory,                      // NULL: the device's default
          PJRT_Buffer_MemoryLayout* device_layout,  // NULL: dense, row-major
          /*out*/ PJRT_Event* done_with_host_buffer, PJRT_Buffer* buffer);
PJRT_ARGS(PJRT_Client_CreateUninitializedBuffer, PJRT_Client* client, const int64_t* shape_dims, size_t shape_num_dims,
          PJRT_Buffer_Type shape_element_type, PJRT_Buffer_MemoryLayout* shape_layout, PJRT_Device* device,
          PJRT_Memory* memory, /*out*/ PJRT_Buffer* buffer);
PJRT_ARGS(PJRT_Client_CreateViewOfDeviceBuffer, PJRT_Client* client, void* device_buffer_ptr, const int64_t* dims,
          size_t num_dims, PJRT_Buffer_Type element_type, PJRT_Buffer_MemoryLayout* layout, PJRT_Device* device,
          void (*on_delete_callback)(void* device_buffer_ptr, void* user_arg),  // optional
          void* on_delete_callback_arg,
          intptr_t stream,  // its work so far writes the memory; 0: none
          /*out*/ PJRT_Buffer* buffer, /*in*/ PJRT_Memory* memory);
PJRT_ARGS(PJRT_Client_CreateErrorBuffer, PJRT_Client* client, PJRT_Error_Code error_code, const char* error_message,
          size_t error_message_size, const int64_t* shape_dims, size_t shape_num_dims,
          PJRT_Buffer_Type shape_element_type, PJRT_Buffer_MemoryLayout* shape_layout, PJRT_Memory* memory,
          /*out*/ PJRT_Buffer* buffer);

PJRT_ARGS(PJRT_Buffer_Destroy, PJRT_Buffer* buffer);
PJRT_ARGS(PJRT_Buffer_ElementType, PJRT_Buffer* buffer, /*out*/ PJRT_Buffer_Type type);
PJRT_ARGS(PJRT_Buffer_Dimensions, PJRT_Buffer* buffer, /*out*/ const int64_t* dims, size_t num_dims);
PJRT_ARGS(PJRT_Buffer_UnpaddedDimensions, PJRT_Buffer* buffer, /*out*/ const int64_t* unpadded_dims, size_t num_dims);
PJRT_ARGS(PJRT_Buffer_DynamicDimensionIndices, PJRT_Buffer* buffer, /*out*/ const size_t* dynamic_dim_indices,
          size_t num_dynamic_dims);
PJRT_ARGS(PJRT_Buffer_GetMemoryLayout, PJRT_Buffer* buffer,
          /*out*/ PJRT_Buffer_MemoryLayout layout);  // arrays are the buffer's
PJRT_ARGS(PJRT_Buffer_OnDeviceSizeInBytes, PJRT_Buffer* buffer, /*out*/ size_t on_device_size_in_bytes);
PJRT_ARGS(PJRT_Buffer_Device, PJRT_Buffer* buffer, /*out*/ PJRT_Device* device);
PJRT_ARGS(PJRT_Buffer_Memory, PJRT_Buffer* buffer, /*out*/ PJRT_Memory* memory);
PJRT_ARGS(PJRT_Buffer_Delete, PJRT_Buffer* buffer);
PJRT_ARGS(PJRT_Buffer_IsDeleted, PJRT_Buffer* buffer, /*out*/ bool is_deleted);
PJRT_ARGS(PJRT_Buffer_IsOnCpu, PJRT_Buffer* buffer, /*out*/ bool is_on_cpu);
PJRT_ARGS(PJRT_Buffer_CopyToDevice, PJRT_Buffer* buffer, PJRT_Device* dst_device, /*out*/ PJRT_Buffer* dst_buffer);
PJRT_ARGS(PJRT_Buffer_CopyToMemory, PJRT_Buffer* buffer, PJRT_Memory* dst_memory, /*out*/ PJRT_Buffer* dst_buffer);
PJRT_ARGS(PJRT_Buffer_ToHostBuffer, PJRT_Buffer* src,
          PJRT_Buffer_MemoryLayout* host_layout,  // NULL: dense, row-major
          void* dst,                              // NULL: only dst_size is asked for
          size_t dst_size,                        // in, and out where dst is NULL
          /*out*/ PJRT_Event* event);
PJRT_ARGS(PJRT_Buffer_CopyRawToHost, PJRT_Buffer* buffer, void* dst, int64_t offset, int64_t transfer_size,
          /*out*/ PJRT_Event* event);
PJRT_ARGS(PJRT_Buffer_ReadyEvent, PJRT_Buffer* buffer, /*out*/ PJRT_Event* event);
PJRT_ARGS(PJRT_Buffer_UnsafePointer, PJRT_Buffer* buffer, /*out*/ uintptr_t buffer_pointer);
PJRT_ARGS(PJRT_Buffer_IncreaseExternalReferenceCount, PJRT_Buffer* buffer);
PJRT_ARGS(PJRT_Buffer_DecreaseExternalReferenceCount, PJRT_Buffer* buffer);
PJRT_ARGS(PJRT_Buffer_OpaqueDeviceMemoryDataPointer, PJRT_Buffer* buffer, /*out*/ void* device_memory_ptr);
