// The PJRT C API: the extensions that this plugin has. base.h has what holds for all structs.
#pragma once

#include "pjrt/c_api/base.h"
#include "pjrt/c_api/buffer.h"

// --- layouts: how elements lie in memory, as text such as "{1,0}", the dimension that varies fastest first ---------

typedef struct PJRT_Layouts_MemoryLayout PJRT_Layouts_MemoryLayout;
typedef struct PJRT_Layouts_SerializedLayout PJRT_Layouts_SerializedLayout;

PJRT_ARGS(PJRT_Layouts_MemoryLayout_Destroy, PJRT_Layouts_MemoryLayout* layout);
PJRT_ARGS(PJRT_Layouts_MemoryLayout_Serialize, PJRT_Layouts_MemoryLayout* layout, /*out*/ const char* serialized_bytes,
          size_t serialized_bytes_size, PJRT_Layouts_SerializedLayout* serialized_layout,
          void (*serialized_layout_deleter)(PJRT_Layouts_SerializedLayout* owner));
PJRT_ARGS(PJRT_Layouts_PJRT_Client_GetDefaultLayout, PJRT_Client* client, PJRT_Buffer_Type type, const int64_t* dims,
          size_t num_dims, /*out*/ PJRT_Layouts_MemoryLayout* layout);  // the caller's, as are all layouts
PJRT_ARGS(PJRT_Layouts_PJRT_Topology_GetDefaultLayout, PJRT_TopologyDescription* topology_description,
          PJRT_Buffer_Type type, const int64_t* dims, size_t num_dims, /*out*/ PJRT_Layouts_MemoryLayout* layout);
PJRT_ARGS(PJRT_Layouts_PJRT_Buffer_MemoryLayout, PJRT_Buffer* buffer, /*out*/ PJRT_Layouts_MemoryLayout* layout);
PJRT_ARGS(PJRT_Layouts_PJRT_Executable_GetOutputLayouts, PJRT_Executable* executable, /*out*/ size_t num_outputs,
          PJRT_Layouts_MemoryLayout** layouts);  // an array of the executable's
PJRT_ARGS(PJRT_Layouts_PJRT_Executable_GetParameterLayouts, PJRT_Executable* executable, /*out*/ size_t num_parameters,
          PJRT_Layouts_MemoryLayout** layouts);

typedef struct PJRT_Layouts_Extension {
  PJRT_Extension_Base base;
  PJRT_FUNCTION(PJRT_Layouts_MemoryLayout_Destroy);
  PJRT_FUNCTION(PJRT_Layouts_MemoryLayout_Serialize);
  PJRT_FUNCTION(PJRT_Layouts_PJRT_Client_GetDefaultLayout);
  PJRT_FUNCTION(PJRT_Layouts_PJRT_Buffer_MemoryLayout);
  PJRT_FUNCTION(PJRT_Layouts_PJRT_Topology_GetDefaultLayout);
  PJRT_FUNCTION(PJRT_Layouts_PJRT_Executable_GetOutputLayouts);
  PJRT_FUNCTION(PJRT_Layouts_PJRT_Executable_GetParameterLayouts);
} PJRT_Layouts_Extension;

// --- memory descriptions: which memories devices of a topology have --------------------------------------------------

PJRT_ARGS(PJRT_DeviceDescription_MemoryDescriptions, PJRT_DeviceDescription* device_description,
          /*out*/ const PJRT_MemoryDescription* const* memory_descriptions, size_t num_memory_descriptions,
          size_t default_memory_index);
PJRT_ARGS(PJRT_MemoryDescription_Kind, const PJRT_MemoryDescription* memory_description, /*out*/ const char* kind,
          size_t kind_size, int kind_id);

typedef struct PJRT_MemoryDescriptions_Extension {
  PJRT_Extension_Base base;
  PJRT_FUNCTION(PJRT_DeviceDescription_MemoryDescriptions);
  PJRT_FUNCTION(PJRT_MemoryDescription_Kind);
} PJRT_MemoryDescriptions_Extension;

// --- shardings: serialized OpSharding of each parameter and output; a NULL array where nothing is known --------------

PJRT_ARGS(PJRT_Shardings_PJRT_Executable_ParameterShardings, PJRT_Executable* executable, /*out*/ size_t num_parameters,
          const char* const* shardings, const size_t* sharding_sizes);
PJRT_ARGS(PJRT_Shardings_PJRT_Executable_OutputShardings, PJRT_Executable* executable, /*out*/ size_t num_outputs,
          const char* const* shardings, const size_t* sharding_sizes);

typedef struct PJRT_Shardings_Extension {
  PJRT_Extension_Base base;
  PJRT_FUNCTION(PJRT_Shardings_PJRT_Executable_ParameterShardings);
  PJRT_FUNCTION(PJRT_Shardings_PJRT_Executable_OutputShardings);
} PJRT_Shardings_Extension;

// --- cross-host transfers: arrays from a device of this process to one of another, and back --------------------------
//
// Both processes give the same key. Keys and devices are one for each array.

PJRT_ARGS(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers, PJRT_Client* client, size_t num_buffers,
          PJRT_Buffer** buffers, const int32_t* dst_global_device_ids, const int64_t* transfer_keys,
          /*out*/ PJRT_Event** send_events);  // one for each; the array is to be filled in
PJRT_ARGS(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers, PJRT_Client* client, size_t num_shapes,
          size_t* shape_num_dims,
          const int64_t** num_dims,  // sizes of each shape
          PJRT_Buffer_Type* element_types, PJRT_Buffer_MemoryLayout** layouts, PJRT_Device* device,
          const int32_t* src_global_device_ids, const int64_t* transfer_keys,
          /*out*/ PJRT_Buffer** buffers);  // one for each; the array is to be filled in

// An older way, which clients take where the functions above are not implemented.
PJRT_ARGS(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers);

typedef struct PJRT_CrossHostTransfers_Extension {
  PJRT_Extension_Base base;
  PJRT_FUNCTION(PJRT_Transfers_PJRT_Client_MakeCrossHostReceiveBuffers);
  void (*PJRT_Transfers_PJRT_Buffer_CopyToRemoteDevice)(void* args);  // of receivers that the former has made
  PJRT_FUNCTION(PJRT_Transfers_PJRT_Client_CrossHostReceiveBuffers);
  PJRT_FUNCTION(PJRT_Transfers_PJRT_Client_CrossHostSendBuffers);
} PJRT_CrossHostTransfers_Extension;
