// The PJRT C API: compiling and executing. base.h has what holds for all structs.
#pragma once

#include "pjrt/c_api/base.h"
#include "pjrt/c_api/buffer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct PJRT_Program {
  PJRT_STRUCT_HEAD;
  char* code;        // PJRT_Executable_OptimizedProgram: NULL asks for code_size, else filled in
  size_t code_size;  // bytes
  const char* format;
  size_t format_size;
} PJRT_Program;

typedef struct PJRT_Client_Compile_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  const PJRT_Program* program;
  const char* compile_options;  // a serialized CompileOptionsProto
  size_t compile_options_size;
  PJRT_LoadedExecutable* executable;  // out
} PJRT_Client_Compile_Args;

// --- executables -----------------------------------------------------------------------------------------------------

typedef struct PJRT_Executable_Destroy_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
} PJRT_Executable_Destroy_Args;

typedef struct PJRT_Executable_Name_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  const char* executable_name;  // out
  size_t executable_name_size;  // out
} PJRT_Executable_Name_Args;

typedef struct PJRT_Executable_NumReplicas_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_replicas;  // out
} PJRT_Executable_NumReplicas_Args;

typedef struct PJRT_Executable_NumPartitions_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_partitions;  // out
} PJRT_Executable_NumPartitions_Args;

typedef struct PJRT_Executable_NumOutputs_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_outputs;  // out
} PJRT_Executable_NumOutputs_Args;

typedef struct PJRT_Executable_SizeOfGeneratedCodeInBytes_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  int64_t size_in_bytes;  // out
} PJRT_Executable_SizeOfGeneratedCodeInBytes_Args;

typedef struct PJRT_Executable_GetCostAnalysis_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_properties;              // out
  const PJRT_NamedValue* properties;  // out
} PJRT_Executable_GetCostAnalysis_Args;

typedef struct PJRT_Executable_OutputElementTypes_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  PJRT_Buffer_Type* output_types;  // out
  size_t num_output_types;         // out
} PJRT_Executable_OutputElementTypes_Args;

typedef struct PJRT_Executable_OutputDimensions_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_outputs;       // out
  const int64_t* dims;      // out: of all outputs, one after the other
  const size_t* dim_sizes;  // out: the rank of each output
} PJRT_Executable_OutputDimensions_Args;

typedef struct PJRT_Executable_OutputMemoryKinds_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_outputs;               // out
  const char* const* memory_kinds;  // out
  const size_t* memory_kind_sizes;  // out
} PJRT_Executable_OutputMemoryKinds_Args;

typedef struct PJRT_Executable_ParameterMemoryKinds_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  size_t num_parameters;            // out
  const char* const* memory_kinds;  // out
  const size_t* memory_kind_sizes;  // out
} PJRT_Executable_ParameterMemoryKinds_Args;

typedef struct PJRT_Executable_OptimizedProgram_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  PJRT_Program* program;  // filled in
} PJRT_Executable_OptimizedProgram_Args;

typedef struct PJRT_SerializedExecutable PJRT_SerializedExecutable;

typedef struct PJRT_Executable_Serialize_Args {
  PJRT_STRUCT_HEAD;
  const PJRT_Executable* executable;
  const char* serialized_bytes;                                             // out
  size_t serialized_bytes_size;                                             // out
  PJRT_SerializedExecutable* serialized_executable;                         // out: owns the bytes
  void (*serialized_executable_deleter)(PJRT_SerializedExecutable* owner);  // out
} PJRT_Executable_Serialize_Args;

typedef struct PJRT_Executable_DeserializeAndLoad_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Client* client;
  const char* serialized_executable;
  size_t serialized_executable_size;
  PJRT_LoadedExecutable* loaded_executable;           // out
  const char* overridden_serialized_compile_options;  // NULL: those that it was compiled with
  size_t overridden_serialized_compile_options_size;
} PJRT_Executable_DeserializeAndLoad_Args;

typedef struct PJRT_Executable_Fingerprint_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  const char* executable_fingerprint;  // out
  size_t executable_fingerprint_size;  // out
} PJRT_Executable_Fingerprint_Args;

typedef struct PJRT_Executable_GetCompiledMemoryStats_Args {  // all out, in bytes
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  int64_t generated_code_size_in_bytes;
  int64_t argument_size_in_bytes;
  int64_t output_size_in_bytes;
  int64_t alias_size_in_bytes;
  int64_t temp_size_in_bytes;
  int64_t host_generated_code_size_in_bytes;
  int64_t host_argument_size_in_bytes;
  int64_t host_output_size_in_bytes;
  int64_t host_alias_size_in_bytes;
  int64_t host_temp_size_in_bytes;
  int64_t peak_memory_in_bytes;
  int64_t total_size_in_bytes;
} PJRT_Executable_GetCompiledMemoryStats_Args;

typedef struct PJRT_SerializedCompileOptions PJRT_SerializedCompileOptions;

typedef struct PJRT_Executable_GetCompileOptions_Args {
  PJRT_STRUCT_HEAD;
  PJRT_Executable* executable;
  const char* serialized_bytes;                                                      // out
  size_t serialized_bytes_size;                                                      // out
  PJRT_SerializedCompileOptions* serialized_compile_options;                         // out
  void (*serialized_compile_options_deleter)(PJRT_SerializedCompileOptions* owner);  // out
} PJRT_Executable_GetCompileOptions_Args;

// --- loaded executables ----------------------------------------------------------------------------------------------

typedef struct PJRT_LoadedExecutable_Destroy_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* executable;
} PJRT_LoadedExecutable_Destroy_Args;

typedef struct PJRT_LoadedExecutable_GetExecutable_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* loaded_executable;
  PJRT_Executable* executable;  // out; the caller's
} PJRT_LoadedExecutable_GetExecutable_Args;

typedef struct PJRT_LoadedExecutable_AddressableDevices_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* executable;
  PJRT_Device* const* addressable_devices;  // out
  size_t num_addressable_devices;           // out
} PJRT_LoadedExecutable_AddressableDevices_Args;

typedef struct PJRT_LogicalDeviceIds {
  int replica;
  int partition;
} PJRT_LogicalDeviceIds;

typedef struct PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* executable;
  PJRT_LogicalDeviceIds* addressable_device_logical_ids;  // out
  size_t num_addressable_device_logical_ids;              // out
} PJRT_LoadedExecutable_AddressableDeviceLogicalIds_Args;

typedef struct PJRT_DeviceAssignmentSerialized PJRT_DeviceAssignmentSerialized;

typedef struct PJRT_LoadedExecutable_GetDeviceAssignment_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* executable;
  const char* serialized_bytes;                                                          // out: DeviceAssignmentProto
  size_t serialized_bytes_size;                                                          // out
  PJRT_DeviceAssignmentSerialized* serialized_device_assignment;                         // out
  void (*serialized_device_assignment_deleter)(PJRT_DeviceAssignmentSerialized* owner);  // out
} PJRT_LoadedExecutable_GetDeviceAssignment_Args;

typedef struct PJRT_LoadedExecutable_Delete_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* executable;
} PJRT_LoadedExecutable_Delete_Args;

typedef struct PJRT_LoadedExecutable_IsDeleted_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* executable;
  bool is_deleted;  // out
} PJRT_LoadedExecutable_IsDeleted_Args;

typedef struct PJRT_LoadedExecutable_Fingerprint_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* executable;
  const char* executable_fingerprint;  // out
  size_t executable_fingerprint_size;  // out
} PJRT_LoadedExecutable_Fingerprint_Args;

typedef struct PJRT_ExecuteOptions {
  PJRT_STRUCT_HEAD;
  void** send_callbacks;  // [device][send]; not supported
  void** recv_callbacks;
  size_t num_send_ops;
  size_t num_recv_ops;
  int launch_id;
  const int64_t* non_donatable_input_indices;  // of arguments that live on, whatever the program donates
  size_t num_non_donatable_input_indices;
  PJRT_ExecuteContext* context;
} PJRT_ExecuteOptions;

typedef struct PJRT_LoadedExecutable_Execute_Args {
  PJRT_STRUCT_HEAD;
  PJRT_LoadedExecutable* executable;
  PJRT_ExecuteOptions* options;
  PJRT_Buffer* const* const* argument_lists;  // [device][argument]
  size_t num_devices;
  size_t num_args;
  PJRT_Buffer** const* output_lists;    // [device][output], filled in
  PJRT_Event** device_complete_events;  // [device], filled in; or NULL
  PJRT_Device* execute_device;          // of a portable executable; or NULL
} PJRT_LoadedExecutable_Execute_Args;

typedef struct PJRT_ExecuteContext_Create_Args {
  PJRT_STRUCT_HEAD;
  PJRT_ExecuteContext* context;  // out
} PJRT_ExecuteContext_Create_Args;

typedef struct PJRT_ExecuteContext_Destroy_Args {
  PJRT_STRUCT_HEAD;
  PJRT_ExecuteContext* context;
} PJRT_ExecuteContext_Destroy_Args;

#ifdef __cplusplus
}  // extern "C"
#endif
