// The PJRT C API: compiling and executing. base.h has what holds for all structs.
#pragma once

#include "pjrt/c_api/base.h"
#include "pjrt/c_api/buffer.h"

PJRT_STRUCT(PJRT_Program, PJRT_STRUCT_HEAD,
            char* code,        // PJRT_Executable_OptimizedProgram: NULL asks for code_size, else filled in
            size_t code_size,  // bytes
            const char* format, size_t format_size);
PJRT_ARGS(PJRT_Client_Compile, PJRT_Client* client, const PJRT_Program* program,
          const char* compile_options,  // a serialized CompileOptionsProto
          size_t compile_options_size, /*out*/ PJRT_LoadedExecutable* executable);

// --- executables -----------------------------------------------------------------------------------------------------

PJRT_ARGS(PJRT_Executable_Destroy, PJRT_Executable* executable);
PJRT_ARGS(PJRT_Executable_Name, PJRT_Executable* executable, /*out*/ const char* executable_name,
          size_t executable_name_size);
PJRT_ARGS(PJRT_Executable_NumReplicas, PJRT_Executable* executable, /*out*/ size_t num_replicas);
PJRT_ARGS(PJRT_Executable_NumPartitions, PJRT_Executable* executable, /*out*/ size_t num_partitions);
PJRT_ARGS(PJRT_Executable_NumOutputs, PJRT_Executable* executable, /*out*/ size_t num_outputs);
PJRT_ARGS(PJRT_Executable_SizeOfGeneratedCodeInBytes, PJRT_Executable* executable, /*out*/ int64_t size_in_bytes);
PJRT_ARGS(PJRT_Executable_GetCostAnalysis, PJRT_Executable* executable, /*out*/ size_t num_properties,
          const PJRT_NamedValue* properties);
PJRT_ARGS(PJRT_Executable_OutputElementTypes, PJRT_Executable* executable, /*out*/ PJRT_Buffer_Type* output_types,
          size_t num_output_types);
PJRT_ARGS(PJRT_Executable_OutputDimensions, PJRT_Executable* executable, /*out*/ size_t num_outputs,
          const int64_t* dims,       // of all outputs, one after the other
          const size_t* dim_sizes);  // the rank of each output
PJRT_ARGS(PJRT_Executable_OutputMemoryKinds, PJRT_Executable* executable, /*out*/ size_t num_outputs,
          const char* const* memory_kinds, const size_t* memory_kind_sizes);
PJRT_ARGS(PJRT_Executable_ParameterMemoryKinds, PJRT_Executable* executable, /*out*/ size_t num_parameters,
          const char* const* memory_kinds, const size_t* memory_kind_sizes);
PJRT_ARGS(PJRT_Executable_OptimizedProgram, PJRT_Executable* executable, PJRT_Program* program);  // filled in

typedef struct PJRT_SerializedExecutable PJRT_SerializedExecutable;
PJRT_ARGS(PJRT_Executable_Serialize, const PJRT_Executable* executable, /*out*/ const char* serialized_bytes,
          size_t serialized_bytes_size,
          PJRT_SerializedExecutable* serialized_executable,  // owns the bytes
          void (*serialized_executable_deleter)(PJRT_SerializedExecutable* owner));
PJRT_ARGS(PJRT_Executable_DeserializeAndLoad, PJRT_Client* client, const char* serialized_executable,
          size_t serialized_executable_size, /*out*/ PJRT_LoadedExecutable* loaded_executable,
          /*in*/ const char* overridden_serialized_compile_options,  // NULL: those that it was compiled with
          size_t overridden_serialized_compile_options_size);
PJRT_ARGS(PJRT_Executable_Fingerprint, PJRT_Executable* executable, /*out*/ const char* executable_fingerprint,
          size_t executable_fingerprint_size);
// In bytes.
PJRT_ARGS(PJRT_Executable_GetCompiledMemoryStats, PJRT_Executable* executable,
          /*out*/ int64_t generated_code_size_in_bytes, int64_t argument_size_in_bytes, int64_t output_size_in_bytes,
          int64_t alias_size_in_bytes, int64_t temp_size_in_bytes, int64_t host_generated_code_size_in_bytes,
          int64_t host_argument_size_in_bytes, int64_t host_output_size_in_bytes, int64_t host_alias_size_in_bytes,
          int64_t host_temp_size_in_bytes, int64_t peak_memory_in_bytes, int64_t total_size_in_bytes);

typedef struct PJRT_SerializedCompileOptions PJRT_SerializedCompileOptions;
PJRT_ARGS(PJRT_Executable_GetCompileOptions, PJRT_Executable* executable, /*out*/ const char* serialized_bytes,
          size_t serialized_bytes_size, PJRT_SerializedCompileOptions* serialized_compile_options,
          void (*serialized_compile_options_deleter)(PJRT_SerializedCompileOptions* owner));

// --- loaded executables ----------------------------------------------------------------------------------------------

PJRT_ARGS(PJRT_LoadedExecutable_Destroy, PJRT_LoadedExecutable* executable);
PJRT_ARGS(PJRT_LoadedExecutable_GetExecutable, PJRT_LoadedExecutable* loaded_executable,
          /*out*/ PJRT_Executable* executable);  // the caller's
PJRT_ARGS(PJRT_LoadedExecutable_AddressableDevices, PJRT_LoadedExecutable* executable,
          /*out*/ PJRT_Device* const* addressable_devices, size_t num_addressable_devices);
PJRT_STRUCT(PJRT_LogicalDeviceIds, int replica, int partition);
PJRT_ARGS(PJRT_LoadedExecutable_AddressableDeviceLogicalIds, PJRT_LoadedExecutable* executable,
          /*out*/ PJRT_LogicalDeviceIds* addressable_device_logical_ids, size_t num_addressable_device_logical_ids);

typedef struct PJRT_DeviceAssignmentSerialized PJRT_DeviceAssignmentSerialized;
PJRT_ARGS(PJRT_LoadedExecutable_GetDeviceAssignment, PJRT_LoadedExecutable* executable,
          /*out*/ const char* serialized_bytes,  // DeviceAssignmentProto
          size_t serialized_bytes_size, PJRT_DeviceAssignmentSerialized* serialized_device_assignment,
          void (*serialized_device_assignment_deleter)(PJRT_DeviceAssignmentSerialized* owner));
PJRT_ARGS(PJRT_LoadedExecutable_Delete, PJRT_LoadedExecutable* executable);
PJRT_ARGS(PJRT_LoadedExecutable_IsDeleted, PJRT_LoadedExecutable* executable, /*out*/ bool is_deleted);
PJRT_ARGS(PJRT_LoadedExecutable_Fingerprint, PJRT_LoadedExecutable* executable,
          /*out*/ const char* executable_fingerprint, size_t executable_fingerprint_size);

PJRT_STRUCT(PJRT_ExecuteOptions, PJRT_STRUCT_HEAD,
            void** send_callbacks,  // [device][send]; not supported
            void** recv_callbacks, size_t num_send_ops, size_t num_recv_ops, int launch_id,
            const int64_t* non_donatable_input_indices,  // of arguments that live on, whatever the program donates
            size_t num_non_donatable_input_indices, PJRT_ExecuteContext* context);
PJRT_ARGS(PJRT_LoadedExecutable_Execute, PJRT_LoadedExecutable* executable, PJRT_ExecuteOptions* options,
          PJRT_Buffer* const* const* argument_lists,  // [device][argument]
          size_t num_devices, size_t num_args,
          PJRT_Buffer** const* output_lists,    // [device][output], filled in
          PJRT_Event** device_complete_events,  // [device], filled in; or NULL
          PJRT_Device* execute_device);         // of a portable executable; or NULL
PJRT_ARGS(PJRT_ExecuteContext_Create, /*out*/ PJRT_ExecuteContext* context);
PJRT_ARGS(PJRT_ExecuteContext_Destroy, PJRT_ExecuteContext* context);
