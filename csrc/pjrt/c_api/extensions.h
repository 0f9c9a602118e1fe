// The PJRT C API: the extensions that this plugin has. base.h has what holds for all structs.
#pragma once

#include "pjrt/c_api/base.h"
#include "pjrt/c_api/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

// --- layouts: how elements lie in memory, as text such as "{1,0}", the dimension that varies fastest first ---------

typedef struct PJRT_Layouts_MemoryLayout PJRT_Layouts_MemoryLayout;
typedef struct PJRT_Layouts_SerializedLayout PJRT_Layouts_SerializedLayout;

typedef struct PJRT_Layouts_MemoryLayout_Destroy_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Layouts_MemoryLayout* layout;
} PJRT_Layouts_MemoryLayout_Destroy_Args;

typedef struct PJRT_Layouts_MemoryLayout_Serialize_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Layouts_MemoryLayout* layout;
  const char* serialized_bytes;                                             // out
  size_t serialized_bytes_size;                                             // out
  PJRT_Layouts_SerializedLayout* serialized_layout;                         // out
  void (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout* owner);  // out
} PJRT_Layouts_MemoryLayout_Serialize_Args;

typedef struct PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;  // out; the caller's, as are all layouts
} PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args;

typedef struct PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args {
  PJRT_STRUCT_HEAD;
  PJRT_TopologyDescription* topology_description;
  PJRT_Buffer_Type type;
  const int64_t* dims;
  size_t num_dims;
  PJRT_Layouts_MemoryLayout* layout;  // out
} PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args;

typedef struct PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Buffer* buffer;
  PJRT_Layouts_MemoryLayout* layout;  // out
} PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args;

typedef struct PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_outputs;                   // out
  PJRT_Layouts_MemoryLayout** layouts;  // out: an array of the executable's
} PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args;

typedef struct PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_parameters;                // out
  PJRT_Layouts_MemoryLayout** layouts;  // out
} PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args;

typedef struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Layouts_MemoryLayout_Destroy)(PJRT_Layouts_MemoryLayout_Destroy_Args* args);
  PJRT_Error* (*PJRT_Layouts_MemoryLayout_Serialize)(PJRT_Layouts_MemoryLayout_Serialize_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Client_GetDefaultLayout)(PJRT_Layouts_PJRT_Client_GetDefaultLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Buffer_MemoryLayout)(PJRT_Layouts_PJRT_Buffer_MemoryLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Topology_GetDefaultLayout)(PJRT_Layouts_PJRT_Topology_GetDefaultLayout_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Executable_GetOutputLayouts)(
      PJRT_Layouts_PJRT_Executable_GetOutputLayouts_Args* args);
  PJRT_Error* (*PJRT_Layouts_PJRT_Executable_GetParameterLayouts)(
      PJRT_Layouts_PJRT_Executable_GetParameterLayouts_Args* args);
} PJRT_Layouts_Extension;

// --- memory descriptions: which memories devices of a topology have --------------------------------------------------

typedef struct PJRT_DeviceDescription_MemoryDescriptions_Args {
  PJRT_STRUCT_HEAD;
  PJRT_DeviceDescription* device_description;
  const PJRT_MemoryDescription* const* memory_descriptions;  // out
  size_t num_memory_descriptions;                            // out
  size_t default_memory_index;                               // out
} PJRT_DeviceDescription_MemoryDescriptions_Args;

typedef struct PJRT_MemoryDescription_Kind_Args {
  PJRT_STRUCT_HEAD;
  const PJRT_MemoryDescription* memory_description;
  const char* kind;  // out
  size_t kind_size;  // out
  int kind_id;       // out
} PJRT_MemoryDescription_Kind_Args;

typedef struct PJRT_MemoryDescriptions_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_DeviceDescription_MemoryDescriptions)(PJRT_DeviceDescription_MemoryDescriptions_Args* args);
  PJRT_Error* (*PJRT_MemoryDescription_Kind)(PJRT_MemoryDescription_Kind_Args* args);
} PJRT_MemoryDescriptions_Extension;

// --- shardings: serialized OpSharding of each parameter and output; a NULL array where nothing is known --------------

typedef struct PJRT_Shardings_PJRT_Executable_ParameterShardings_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_parameters;         // out
  const char* const* shardings;  // out
  const size_t* sharding_sizes;  // out
} PJRT_Shardings_PJRT_Executable_ParameterShardings_Args;

typedef struct PJRT_Shardings_PJRT_Executable_OutputShardings_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_outputs;            // out
  const char* const* shardings;  // out
  const size_t* sharding_sizes;  // out
} PJRT_Shardings_PJRT_Executable_OutputShardings_Args;

typedef struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Shardings_PJRT_Executable_ParameterShardings)(
      PJRT_Shardings_PJRT_Executable_ParameterShardings_Args* args);
  PJRT_Error* (*PJRT_Shardings_PJRT_Executable_OutputShardings)(
      PJRT_Shardings_PJRT_Executable_OutputShardings_Args* args);
} PJRT_Shardings_Extension;

// --- cross-host transfers: arrays from a device of this process to one of another, and back --------------------------
//
// Both processes give the same key. Keys and devices are one for each array.

typedef struct PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  size_t num_buffers;
  PJRT_Buffer** buffers;
  const int32_t* dst_global_device_ids;
  const int64_t* transfer_keys;
  PJRT_Event** send_events;  // out, one for each; the array is to be filled in
} PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args;

typedef struct PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  size_t num_shapes;
  size_t* shape_num_dims;
  const int64_t** num_dims;  // sizes of each shape
  PJRT_Buffer_Type* element_types;
  PJRT_Buffer_MemoryLayout** layouts;
  PJRT_Device* device;
  const int32_t* src_global_device_ids;
  const int64_t* transfer_keys;
  PJRT_Buffer** buffers;  // out, one for each; the array is to be filled in
} PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args;

// An older way, which clients take where the functions above are not implemented.
typedef struct PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args {
  PJRT_STRUCT_HEAD;
} PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args;

typedef struct PJRT_CrossHostTransfers_Extension {
  PJRT_Extension_Base base;
  PJRT_Error* (*PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers)(
      PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers_Args* args);
  void (*PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice)(void* args);  // of receivers that the former has made
  PJRT_Error* (*PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers)(
      PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers_Args* args);
  PJRT_Error* (*PJRT_Transfers_PJRT_Client_CrossHostSendBuffers)(
      PJRT_Transfers_PJRT_Client_CrossHostSendBuffers_Args* args);
} PJRT_CrossHostTransfers_Extension;

#ifdef __cplusplus
}  // extern "C"
#endif
