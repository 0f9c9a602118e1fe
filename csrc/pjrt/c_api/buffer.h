// The PJRT C API: buffers. base.h has what holds for all structs.
#pragma once

#include "pjrt/c_api/base.h"

#ifdef __cplusplus
extern "C" {
#endif

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

typedef struct PJRT_Buffer_MemoryLayout_Tiled {
  PJRT_STRUCT_HEAD;
  const int64_t* minor_to_major;  // dimensions, the one that varies fastest first
  size_t minor_to_major_size;
  const int64_t* tile_dims;
  const size_t* tile_dim_sizes;
  size_t num_tiles;
} PJRT_Buffer_MemoryLayout_Tiled;

typedef struct PJRT_Buffer_MemoryLayout_Strides {
  PJRT_STRUCT_HEAD;
  const int64_t* byte_strides;
  size_t num_byte_strides;
} PJRT_Buffer_MemoryLayout_Strides;

typedef struct PJRT_Buffer_MemoryLayout {
  PJRT_STRUCT_HEAD;
  union {
    PJRT_Buffer_MemoryLayout_Tiled tiled;
    PJRT_Buffer_MemoryLayout_Strides strides;
  };
  PJRT_Buffer_MemoryLayout_Type type;
} PJRT_Buffer_MemoryLayout;

typedef struct PJRT_Client_BufferFromHostBuffer_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  const void* data;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  const int64_t* byte_strides;  // NULL: dense, row-major
  size_t num_byte_strides;
  PJRT_HostBufferSemantics host_buffer_semantics;
  PJRT_Device* device;
  PJRT_Memory* memory;                      // NULL: the device's default
  PJRT_Buffer_MemoryLayout* device_layout;  // NULL: dense, row-major
  PJRT_Event* done_with_host_buffer;        // out
  PJRT_Buffer* buffer;                      // out
} PJRT_Client_BufferFromHostBuffer_Args;

typedef struct PJRT_Client_CreateUninitializedBuffer_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Device* device;
  PJRT_Memory* memory;
  PJRT_Buffer* buffer;  // out
} PJRT_Client_CreateUninitializedBuffer_Args;

typedef struct PJRT_Client_CreateViewOfDeviceBuffer_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  void* device_buffer_ptr;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Buffer_Type element_type;
  PJRT_Buffer_MemoryLayout* layout;
  PJRT_Device* device;
  void (*on_delete_callback)(void* device_buffer_ptr, void* user_arg);  // optional
  void* on_delete_callback_arg;
  intptr_t stream;      // whose work so far writes the memory; 0: none
  PJRT_Buffer* buffer;  // out
  PJRT_Memory* memory;
} PJRT_Client_CreateViewOfDeviceBuffer_Args;

typedef struct PJRT_Client_CreateErrorBuffer_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  PJRT_Error_Code error_code;
  const char* error_message;
  size_t error_message_size;
  const int64_t* shape_dims;
  size_t shape_num_dims;
  PJRT_Buffer_Type shape_element_type;
  PJRT_Buffer_MemoryLayout* shape_layout;
  PJRT_Memory* memory;
  PJRT_Buffer* buffer;  // out
} PJRT_Client_CreateErrorBuffer_Args;

typedef struct PJRT_Buffer_Destroy_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
} PJRT_Buffer_Destroy_Args;

typedef struct PJRT_Buffer_ElementType_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  PJRT_Buffer_Type type;  // out
} PJRT_Buffer_ElementType_Args;

typedef struct PJRT_Buffer_Dimensions_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  const int64_t* dims;  // out
  size_t num_dims;      // out
} PJRT_Buffer_Dimensions_Args;

typedef struct PJRT_Buffer_UnpaddedDimensions_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  const int64_t* unpadded_dims;  // out
  size_t num_dims;               // out
} PJRT_Buffer_UnpaddedDimensions_Args;

typedef struct PJRT_Buffer_DynamicDimensionIndices_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  const size_t* dynamic_dim_indices;  // out
  size_t num_dynamic_dims;            // out
} PJRT_Buffer_DynamicDimensionIndices_Args;

typedef struct PJRT_Buffer_GetMemoryLayout_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  PJRT_Buffer_MemoryLayout layout;  // out; arrays are the buffer's
} PJRT_Buffer_GetMemoryLayout_Args;

typedef struct PJRT_Buffer_OnDeviceSizeInBytes_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  size_t on_device_size_in_bytes;  // out
} PJRT_Buffer_OnDeviceSizeInBytes_Args;

typedef struct PJRT_Buffer_Device_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  PJRT_Device* device;  // out
} PJRT_Buffer_Device_Args;

typedef struct PJRT_Buffer_Memory_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  PJRT_Memory* memory;  // out
} PJRT_Buffer_Memory_Args;

typedef struct PJRT_Buffer_Delete_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
} PJRT_Buffer_Delete_Args;

typedef struct PJRT_Buffer_IsDeleted_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  bool is_deleted;  // out
} PJRT_Buffer_IsDeleted_Args;

typedef struct PJRT_Buffer_IsOnCpu_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  bool is_on_cpu;  // out
} PJRT_Buffer_IsOnCpu_Args;

typedef struct PJRT_Buffer_CopyToDevice_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  PJRT_Device* dst_device;
  PJRT_Buffer* dst_buffer;  // out
} PJRT_Buffer_CopyToDevice_Args;

typedef struct PJRT_Buffer_CopyToMemory_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  PJRT_Memory* dst_memory;
  PJRT_Buffer* dst_buffer;  // out
} PJRT_Buffer_CopyToMemory_Args;

typedef struct PJRT_Buffer_ToHostBuffer_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* src;
  PJRT_Buffer_MemoryLayout* host_layout;  // NULL: dense, row-major
  void* dst;                              // NULL: only dst_size is asked for
  size_t dst_size;                        // in, and out where dst is NULL
  PJRT_Event* event;                      // out
} PJRT_Buffer_ToHostBuffer_Args;

typedef struct PJRT_Buffer_CopyRawToHost_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  void* dst;
  int64_t offset;
  int64_t transfer_size;
  PJRT_Event* event;  // out
} PJRT_Buffer_CopyRawToHost_Args;

typedef struct PJRT_Buffer_ReadyEvent_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  PJRT_Event* event;  // out
} PJRT_Buffer_ReadyEvent_Args;

typedef struct PJRT_Buffer_UnsafePointer_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  uintptr_t buffer_pointer;  // out
} PJRT_Buffer_UnsafePointer_Args;

typedef struct PJRT_Buffer_IncreaseExternalReferenceCount_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
} PJRT_Buffer_IncreaseExternalReferenceCount_Args;

typedef struct PJRT_Buffer_DecreaseExternalReferenceCount_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
} PJRT_Buffer_DecreaseExternalReferenceCount_Args;

typedef struct PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  void* device_memory_ptr;  // out
} PJRT_Buffer_OpaqueDeviceMemoryDataPointer_Args;

#ifdef __cplusplus
}  // extern "C"
#endif
