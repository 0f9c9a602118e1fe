// The PJRT C API: clients, devices, memories, topologies. base.h has what holds for all structs.
#pragma once

#include "pjrt/c_api/base.h"

// --- clients ---------------------------------------------------------------------------------------------------------

// The client's key-value store, for clients of one job in several processes. If a call of it fails, it returns an error
// that it has the plugin make.
typedef PJRT_Error* (*PJRT_CallbackError)(PJRT_Error_Code code, const char* message, size_t message_size);
PJRT_ARGS(PJRT_KeyValueGetCallback, const char* key, size_t key_size, int timeout_in_ms,
          PJRT_CallbackError callback_error, void* user_arg, /*out*/ char* value, size_t value_size,
          void (*value_deleter_callback)(char* value));
typedef PJRT_Error* (*PJRT_KeyValueGetCallback)(PJRT_KeyValueGetCallback_Args* args);
PJRT_ARGS(PJRT_KeyValuePutCallback, const char* key, size_t key_size, const char* value, size_t value_size,
          PJRT_CallbackError callback_error, void* user_arg);
typedef PJRT_Error* (*PJRT_KeyValuePutCallback)(PJRT_KeyValuePutCallback_Args* args);

PJRT_ARGS(PJRT_Client_Create, const PJRT_NamedValue* create_options, size_t num_options,
          PJRT_KeyValueGetCallback kv_get_callback, void* kv_get_user_arg, PJRT_KeyValuePutCallback kv_put_callback,
          void* kv_put_user_arg, /*out*/ PJRT_Client* client,
          /*in*/ void* kv_try_get_callback, void* kv_try_get_user_arg);  // not used here
PJRT_ARGS(PJRT_Client_Destroy, PJRT_Client* client);
PJRT_ARGS(PJRT_Client_PlatformName, PJRT_Client* client, /*out*/ const char* platform_name, size_t platform_name_size);
PJRT_ARGS(PJRT_Client_PlatformVersion, PJRT_Client* client, /*out*/ const char* platform_version,
          size_t platform_version_size);
PJRT_ARGS(PJRT_Client_ProcessIndex, PJRT_Client* client, /*out*/ int process_index);
PJRT_ARGS(PJRT_Client_Devices, PJRT_Client* client, /*out*/ PJRT_Device* const* devices, size_t num_devices);
PJRT_ARGS(PJRT_Client_AddressableDevices, PJRT_Client* client, /*out*/ PJRT_Device* const* addressable_devices,
          size_t num_addressable_devices);
PJRT_ARGS(PJRT_Client_LookupDevice, PJRT_Client* client, int id, /*out*/ PJRT_Device* device);
PJRT_ARGS(PJRT_Client_LookupAddressableDevice, PJRT_Client* client, int local_hardware_id,
          /*out*/ PJRT_Device* addressable_device);
PJRT_ARGS(PJRT_Client_AddressableMemories, PJRT_Client* client, /*out*/ PJRT_Memory* const* addressable_memories,
          size_t num_addressable_memories);
PJRT_ARGS(PJRT_Client_DefaultDeviceAssignment, PJRT_Client* client, int num_replicas, int num_partitions,
          size_t default_assignment_size,
          /*out*/ int* default_assignment);  // replicas x partitions device ids, into the caller's array
PJRT_ARGS(PJRT_Client_TopologyDescription, PJRT_Client* client,
          /*out*/ PJRT_TopologyDescription* topology);  // the client's

typedef struct PJRT_ProcessInfo PJRT_ProcessInfo;
PJRT_ARGS(PJRT_Client_UpdateGlobalProcessInfo, PJRT_Client* client, const PJRT_ProcessInfo* process_infos,
          size_t num_process_infos);  // not used here

// --- devices ---------------------------------------------------------------------------------------------------------

PJRT_ARGS(PJRT_DeviceDescription_Id, PJRT_DeviceDescription* device_description, /*out*/ int id);
PJRT_ARGS(PJRT_DeviceDescription_ProcessIndex, PJRT_DeviceDescription* device_description, /*out*/ int process_index);
PJRT_ARGS(PJRT_DeviceDescription_Attributes, PJRT_DeviceDescription* device_description, /*out*/ size_t num_attributes,
          const PJRT_NamedValue* attributes);
PJRT_ARGS(PJRT_DeviceDescription_Kind, PJRT_DeviceDescription* device_description, /*out*/ const char* device_kind,
          size_t device_kind_size);
PJRT_ARGS(PJRT_DeviceDescription_DebugString, PJRT_DeviceDescription* device_description,
          /*out*/ const char* debug_string, size_t debug_string_size);
PJRT_ARGS(PJRT_DeviceDescription_ToString, PJRT_DeviceDescription* device_description, /*out*/ const char* to_string,
          size_t to_string_size);
PJRT_ARGS(PJRT_Device_GetDescription, PJRT_Device* device, /*out*/ PJRT_DeviceDescription* device_description);
PJRT_ARGS(PJRT_Device_IsAddressable, PJRT_Device* device, /*out*/ bool is_addressable);
PJRT_ARGS(PJRT_Device_LocalHardwareId, PJRT_Device* device, /*out*/ int local_hardware_id);
PJRT_ARGS(PJRT_Device_AddressableMemories, PJRT_Device* device, /*out*/ PJRT_Memory* const* memories,
          size_t num_memories);
PJRT_ARGS(PJRT_Device_DefaultMemory, PJRT_Device* device, /*out*/ PJRT_Memory* memory);
// Bytes, and counts of allocations.
PJRT_ARGS(PJRT_Device_MemoryStats, PJRT_Device* device, /*out*/ int64_t bytes_in_use, int64_t peak_bytes_in_use,
          bool peak_bytes_in_use_is_set, int64_t num_allocs, bool num_allocs_is_set, int64_t largest_alloc_size,
          bool largest_alloc_size_is_set, int64_t bytes_limit, bool bytes_limit_is_set, int64_t bytes_reserved,
          bool bytes_reserved_is_set, int64_t peak_bytes_reserved, bool peak_bytes_reserved_is_set,
          int64_t bytes_reservable_limit, bool bytes_reservable_limit_is_set, int64_t largest_free_block_bytes,
          bool largest_free_block_bytes_is_set, int64_t pool_bytes, bool pool_bytes_is_set, int64_t peak_pool_bytes,
          bool peak_pool_bytes_is_set);
PJRT_ARGS(PJRT_Device_GetAttributes, PJRT_Device* device, /*out*/ const PJRT_NamedValue* attributes,
          size_t num_attributes,
          void* device_attributes,  // what the deleter is called with
          void (*attributes_deleter)(void* device_attributes));

// --- memories --------------------------------------------------------------------------------------------------------

PJRT_ARGS(PJRT_Memory_Id, PJRT_Memory* memory, /*out*/ int id);
PJRT_ARGS(PJRT_Memory_Kind, PJRT_Memory* memory, /*out*/ const char* kind, size_t kind_size);
PJRT_ARGS(PJRT_Memory_Kind_Id, PJRT_Memory* memory, /*out*/ int kind_id);
PJRT_ARGS(PJRT_Memory_DebugString, PJRT_Memory* memory, /*out*/ const char* debug_string, size_t debug_string_size);
PJRT_ARGS(PJRT_Memory_ToString, PJRT_Memory* memory, /*out*/ const char* to_string, size_t to_string_size);
PJRT_ARGS(PJRT_Memory_AddressableByDevices, PJRT_Memory* memory, /*out*/ PJRT_Device* const* devices,
          size_t num_devices);

// --- topologies ------------------------------------------------------------------------------------------------------

PJRT_ARGS(PJRT_TopologyDescription_Destroy, PJRT_TopologyDescription* topology);
PJRT_ARGS(PJRT_TopologyDescription_PlatformName, PJRT_TopologyDescription* topology, /*out*/ const char* platform_name,
          size_t platform_name_size);
PJRT_ARGS(PJRT_TopologyDescription_PlatformVersion, PJRT_TopologyDescription* topology,
          /*out*/ const char* platform_version, size_t platform_version_size);
PJRT_ARGS(PJRT_TopologyDescription_GetDeviceDescriptions, PJRT_TopologyDescription* topology,
          /*out*/ PJRT_DeviceDescription* const* descriptions, size_t num_descriptions);
PJRT_ARGS(PJRT_TopologyDescription_Attributes, PJRT_TopologyDescription* topology,
          /*out*/ const PJRT_NamedValue* attributes, size_t num_attributes);

typedef struct PJRT_SerializedTopology PJRT_SerializedTopology;
PJRT_ARGS(PJRT_TopologyDescription_Create, const char* topology_name, size_t topology_name_size,
          const PJRT_NamedValue* create_options, size_t num_options, /*out*/ PJRT_TopologyDescription* topology);
PJRT_ARGS(PJRT_TopologyDescription_Serialize, PJRT_TopologyDescription* topology,
          /*out*/ const char* serialized_bytes, size_t serialized_bytes_size,  // serialized_topology's
          PJRT_SerializedTopology* serialized_topology,
          void (*serialized_topology_deleter)(PJRT_SerializedTopology* serialized));
PJRT_ARGS(PJRT_TopologyDescription_Deserialize, const char* serialized_topology, size_t serialized_topology_size,
          /*out*/ PJRT_TopologyDescription* topology);
PJRT_ARGS(PJRT_TopologyDescription_Fingerprint, PJRT_TopologyDescription* topology, /*out*/ uint64_t fingerprint);
