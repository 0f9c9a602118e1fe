// The PJRT C API: the table of functions, in the order of the interface, and the symbol that a plugin exports.
#pragma once

#include "pjrt/c_api/base.h"

// All functions of version 0.104. `FUNCTION(name)` gives an error, NULL for success; `PROCEDURE(name)` gives nothing.
// `STUB(name)` is a function that this plugin does not implement: it gives the error UNIMPLEMENTED, with its name.
#define PJRT_FUNCTIONS(FUNCTION, PROCEDURE, STUB)             \
  PROCEDURE(PJRT_Error_Destroy)                               \
  PROCEDURE(PJRT_Error_Message)                               \
  FUNCTION(PJRT_Error_GetCode)                                \
  FUNCTION(PJRT_Plugin_Initialize)                            \
  FUNCTION(PJRT_Plugin_Attributes)                            \
  FUNCTION(PJRT_Event_Destroy)                                \
  FUNCTION(PJRT_Event_IsReady)                                \
  FUNCTION(PJRT_Event_Error)                                  \
  FUNCTION(PJRT_Event_Await)                                  \
  FUNCTION(PJRT_Event_OnReady)                                \
  FUNCTION(PJRT_Client_Create)                                \
  FUNCTION(PJRT_Client_Destroy)                               \
  FUNCTION(PJRT_Client_PlatformName)                          \
  FUNCTION(PJRT_Client_ProcessIndex)                          \
  FUNCTION(PJRT_Client_PlatformVersion)                       \
  FUNCTION(PJRT_Client_Devices)                               \
  FUNCTION(PJRT_Client_AddressableDevices)                    \
  FUNCTION(PJRT_Client_LookupDevice)                          \
  FUNCTION(PJRT_Client_LookupAddressableDevice)               \
  FUNCTION(PJRT_Client_AddressableMemories)                   \
  FUNCTION(PJRT_Client_Compile)                               \
  FUNCTION(PJRT_Client_DefaultDeviceAssignment)               \
  FUNCTION(PJRT_Client_BufferFromHostBuffer)                  \
  FUNCTION(PJRT_DeviceDescription_Id)                         \
  FUNCTION(PJRT_DeviceDescription_ProcessIndex)               \
  FUNCTION(PJRT_DeviceDescription_Attributes)                 \
  FUNCTION(PJRT_DeviceDescription_Kind)                       \
  FUNCTION(PJRT_DeviceDescription_DebugString)                \
  FUNCTION(PJRT_DeviceDescription_ToString)                   \
  FUNCTION(PJRT_Device_GetDescription)                        \
  FUNCTION(PJRT_Device_IsAddressable)                         \
  FUNCTION(PJRT_Device_LocalHardwareId)                       \
  FUNCTION(PJRT_Device_AddressableMemories)                   \
  FUNCTION(PJRT_Device_DefaultMemory)                         \
  FUNCTION(PJRT_Device_MemoryStats)                           \
  FUNCTION(PJRT_Memory_Id)                                    \
  FUNCTION(PJRT_Memory_Kind)                                  \
  FUNCTION(PJRT_Memory_DebugString)                           \
  FUNCTION(PJRT_Memory_ToString)                              \
  FUNCTION(PJRT_Memory_AddressableByDevices)                  \
  FUNCTION(PJRT_Executable_Destroy)                           \
  FUNCTION(PJRT_Executable_Name)                              \
  FUNCTION(PJRT_Executable_NumReplicas)                       \
  FUNCTION(PJRT_Executable_NumPartitions)                     \
  FUNCTION(PJRT_Executable_NumOutputs)                        \
  FUNCTION(PJRT_Executable_SizeOfGeneratedCodeInBytes)        \
  FUNCTION(PJRT_Executable_GetCostAnalysis)                   \
  FUNCTION(PJRT_Executable_OutputMemoryKinds)                 \
  FUNCTION(PJRT_Executable_OptimizedProgram)                  \
  FUNCTION(PJRT_Executable_Serialize)                         \
  FUNCTION(PJRT_LoadedExecutable_Destroy)                     \
  FUNCTION(PJRT_LoadedExecutable_GetExecutable)               \
  FUNCTION(PJRT_LoadedExecutable_AddressableDevices)          \
  FUNCTION(PJRT_LoadedExecutable_Delete)                      \
  FUNCTION(PJRT_LoadedExecutable_IsDeleted)                   \
  FUNCTION(PJRT_LoadedExecutable_Execute)                     \
  FUNCTION(PJRT_Executable_DeserializeAndLoad)                \
  FUNCTION(PJRT_LoadedExecutable_Fingerprint)                 \
  FUNCTION(PJRT_Buffer_Destroy)                               \
  FUNCTION(PJRT_Buffer_ElementType)                           \
  FUNCTION(PJRT_Buffer_Dimensions)                            \
  FUNCTION(PJRT_Buffer_UnpaddedDimensions)                    \
  FUNCTION(PJRT_Buffer_DynamicDimensionIndices)               \
  FUNCTION(PJRT_Buffer_GetMemoryLayout)                       \
  FUNCTION(PJRT_Buffer_OnDeviceSizeInBytes)                   \
  FUNCTION(PJRT_Buffer_Device)                                \
  FUNCTION(PJRT_Buffer_Memory)                                \
  FUNCTION(PJRT_Buffer_Delete)                                \
  FUNCTION(PJRT_Buffer_IsDeleted)                             \
  FUNCTION(PJRT_Buffer_CopyToDevice)                          \
  FUNCTION(PJRT_Buffer_ToHostBuffer)                          \
  FUNCTION(PJRT_Buffer_IsOnCpu)                               \
  FUNCTION(PJRT_Buffer_ReadyEvent)                            \
  FUNCTION(PJRT_Buffer_UnsafePointer)                         \
  FUNCTION(PJRT_Buffer_IncreaseExternalReferenceCount)        \
  FUNCTION(PJRT_Buffer_DecreaseExternalReferenceCount)        \
  FUNCTION(PJRT_Buffer_OpaqueDeviceMemoryDataPointer)         \
  STUB(PJRT_CopyToDeviceStream_Destroy)                       \
  STUB(PJRT_CopyToDeviceStream_AddChunk)                      \
  STUB(PJRT_CopyToDeviceStream_TotalBytes)                    \
  STUB(PJRT_CopyToDeviceStream_GranuleSize)                   \
  STUB(PJRT_CopyToDeviceStream_CurrentBytes)                  \
  FUNCTION(PJRT_TopologyDescription_Create)                   \
  FUNCTION(PJRT_TopologyDescription_Destroy)                  \
  FUNCTION(PJRT_TopologyDescription_PlatformName)             \
  FUNCTION(PJRT_TopologyDescription_PlatformVersion)          \
  FUNCTION(PJRT_TopologyDescription_GetDeviceDescriptions)    \
  FUNCTION(PJRT_TopologyDescription_Serialize)                \
  FUNCTION(PJRT_TopologyDescription_Attributes)               \
  STUB(PJRT_Compile)                                          \
  FUNCTION(PJRT_Executable_OutputElementTypes)                \
  FUNCTION(PJRT_Executable_OutputDimensions)                  \
  FUNCTION(PJRT_Buffer_CopyToMemory)                          \
  FUNCTION(PJRT_Client_CreateViewOfDeviceBuffer)              \
  FUNCTION(PJRT_Executable_Fingerprint)                       \
  FUNCTION(PJRT_Client_TopologyDescription)                   \
  FUNCTION(PJRT_Executable_GetCompiledMemoryStats)            \
  FUNCTION(PJRT_Memory_Kind_Id)                               \
  FUNCTION(PJRT_ExecuteContext_Create)                        \
  FUNCTION(PJRT_ExecuteContext_Destroy)                       \
  FUNCTION(PJRT_Buffer_CopyRawToHost)                         \
  STUB(PJRT_AsyncHostToDeviceTransferManager_Destroy)         \
  STUB(PJRT_AsyncHostToDeviceTransferManager_TransferData)    \
  STUB(PJRT_Client_CreateBuffersForAsyncHostToDevice)         \
  STUB(PJRT_AsyncHostToDeviceTransferManager_RetrieveBuffer)  \
  STUB(PJRT_AsyncHostToDeviceTransferManager_Device)          \
  STUB(PJRT_AsyncHostToDeviceTransferManager_BufferCount)     \
  STUB(PJRT_AsyncHostToDeviceTransferManager_BufferSize)      \
  STUB(PJRT_AsyncHostToDeviceTransferManager_SetBufferError)  \
  STUB(PJRT_AsyncHostToDeviceTransferManager_AddMetadata)     \
  STUB(PJRT_Client_DmaMap)                                    \
  STUB(PJRT_Client_DmaUnmap)                                  \
  FUNCTION(PJRT_Client_CreateUninitializedBuffer)             \
  FUNCTION(PJRT_Client_UpdateGlobalProcessInfo)               \
  FUNCTION(PJRT_TopologyDescription_Deserialize)              \
  STUB(PJRT_Client_CreateAliasBuffer)                         \
  STUB(PJRT_Client_FulfillAliasBuffer)                        \
  FUNCTION(PJRT_LoadedExecutable_GetDeviceAssignment)         \
  FUNCTION(PJRT_Client_CreateErrorBuffer)                     \
  STUB(PJRT_AsyncHostToDeviceTransferManager_TransferLiteral) \
  STUB(PJRT_Buffer_CopyRawToHostFuture)                       \
  STUB(PJRT_Device_PoisonExecution)                           \
  STUB(PJRT_Device_CreateAsyncTrackingEvent)                  \
  STUB(PJRT_AsyncTrackingEvent_Destroy)                       \
  FUNCTION(PJRT_Executable_GetCompileOptions)                 \
  STUB(PJRT_Buffer_DonateWithControlDependency)               \
  FUNCTION(PJRT_Event_Create)                                 \
  FUNCTION(PJRT_Event_Set)                                    \
  FUNCTION(PJRT_Device_GetAttributes)                         \
  STUB(PJRT_Client_Load)                                      \
  FUNCTION(PJRT_LoadedExecutable_AddressableDeviceLogicalIds) \
  STUB(PJRT_Buffer_Bitcast)                                   \
  FUNCTION(PJRT_Error_ForEachPayload)                         \
  FUNCTION(PJRT_TopologyDescription_Fingerprint)              \
  FUNCTION(PJRT_Executable_ParameterMemoryKinds)

#define PJRT_DECLARE_ARGS(name) struct name##_Args;
PJRT_FUNCTIONS(PJRT_DECLARE_ARGS, PJRT_DECLARE_ARGS, PJRT_DECLARE_ARGS)
#undef PJRT_DECLARE_ARGS

typedef struct PJRT_Api {
  PJRT_STRUCT_HEAD;
  PJRT_Api_Version pjrt_api_version;
#define PJRT_FUNCTION_ENTRY(name) PJRT_FUNCTION(name);
#define PJRT_PROCEDURE_ENTRY(name) void (*name)(struct name##_Args * args);
  PJRT_FUNCTIONS(PJRT_FUNCTION_ENTRY, PJRT_PROCEDURE_ENTRY, PJRT_FUNCTION_ENTRY)
#undef PJRT_FUNCTION_ENTRY
#undef PJRT_PROCEDURE_ENTRY
} PJRT_Api;

#ifdef __cplusplus
extern "C" {
#endif

// The table lives as long as the library. The one symbol that the library exports.
__attribute__((visibility("default"))) const PJRT_Api* GetPjrtApi(void);

#ifdef __cplusplus
}  // extern "C"
#endif
