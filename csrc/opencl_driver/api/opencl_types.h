// The part of OpenCL's C interface that this driver uses, so that no headers of it are needed to build. The
// names are the specification's, in a namespace of the driver's own.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mydev::opencl_driver {

using cl_int = int32_t;
using cl_uint = uint32_t;
using cl_ulong = uint64_t;
using cl_bool = cl_uint;
using cl_bitfield = cl_ulong;
using cl_properties = cl_ulong;

using cl_platform_id = struct _cl_platform_id*;
using cl_device_id = struct _cl_device_id*;
using cl_context = struct _cl_context*;
using cl_command_queue = struct _cl_command_queue*;
using cl_mem = struct _cl_mem*;
using cl_program = struct _cl_program*;
using cl_kernel = struct _cl_kernel*;
using cl_event = struct _cl_event*;

using cl_context_notify = void (*)(const char* text, const void* data, size_t bytes, void* context);
using cl_program_notify = void (*)(cl_program program, void* context);

inline constexpr cl_bool CL_FALSE = 0, CL_TRUE = 1;

// --- codes -----------------------------------------------------------------------------------------------------------

inline constexpr cl_int CL_SUCCESS = 0;
inline constexpr cl_int CL_DEVICE_NOT_FOUND = -1;
inline constexpr cl_int CL_MEM_OBJECT_ALLOCATION_FAILURE = -4;
inline constexpr cl_int CL_OUT_OF_RESOURCES = -5;
inline constexpr cl_int CL_OUT_OF_HOST_MEMORY = -6;
inline constexpr cl_int CL_INVALID_KERNEL_NAME = -46;
inline constexpr cl_int CL_INVALID_WORK_GROUP_SIZE = -54;
inline constexpr cl_int CL_INVALID_WORK_ITEM_SIZE = -55;
inline constexpr cl_int CL_PLATFORM_NOT_FOUND_KHR = -1001;

// --- platforms and devices -------------------------------------------------------------------------------------------

inline constexpr cl_uint CL_PLATFORM_NAME = 0x0902;

inline constexpr cl_bitfield CL_DEVICE_TYPE_CPU = 1 << 1;
inline constexpr cl_bitfield CL_DEVICE_TYPE_ALL = 0xFFFFFFFF;

inline constexpr cl_uint CL_DEVICE_TYPE = 0x1000;
inline constexpr cl_uint CL_DEVICE_MAX_COMPUTE_UNITS = 0x1002;
inline constexpr cl_uint CL_DEVICE_MAX_WORK_GROUP_SIZE = 0x1004;
inline constexpr cl_uint CL_DEVICE_MAX_WORK_ITEM_SIZES = 0x1005;
inline constexpr cl_uint CL_DEVICE_ADDRESS_BITS = 0x100D;
inline constexpr cl_uint CL_DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010;
inline constexpr cl_uint CL_DEVICE_SINGLE_FP_CONFIG = 0x101B;
inline constexpr cl_uint CL_DEVICE_GLOBAL_MEM_SIZE = 0x101F;
inline constexpr cl_uint CL_DEVICE_LOCAL_MEM_SIZE = 0x1023;
inline constexpr cl_uint CL_DEVICE_NAME = 0x102B;
inline constexpr cl_uint CL_DRIVER_VERSION = 0x102D;
inline constexpr cl_uint CL_DEVICE_VERSION = 0x102F;
inline constexpr cl_uint CL_DEVICE_EXTENSIONS = 0x1030;
inline constexpr cl_uint CL_DEVICE_DOUBLE_FP_CONFIG = 0x1032;
inline constexpr cl_uint CL_DEVICE_PARTITION_MAX_SUB_DEVICES = 0x1043;
inline constexpr cl_uint CL_DEVICE_SVM_CAPABILITIES = 0x1053;
inline constexpr cl_uint CL_DEVICE_UUID_KHR = 0x106A;

inline constexpr cl_bitfield CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT = 1 << 7;
inline constexpr cl_bitfield CL_DEVICE_SVM_COARSE_GRAIN_BUFFER = 1 << 0;
inline constexpr cl_bitfield CL_DEVICE_SVM_FINE_GRAIN_BUFFER = 1 << 1;
inline constexpr intptr_t CL_DEVICE_PARTITION_EQUALLY = 0x1086;
inline constexpr intptr_t CL_CONTEXT_PLATFORM = 0x1084;

// --- memory ----------------------------------------------------------------------------------------------------------

inline constexpr cl_bitfield CL_MEM_READ_WRITE = 1 << 0;
inline constexpr cl_bitfield CL_MEM_ALLOC_HOST_PTR = 1 << 4;
inline constexpr cl_bitfield CL_MEM_SVM_FINE_GRAIN_BUFFER = 1 << 10;
inline constexpr cl_bitfield CL_MAP_READ = 1 << 0;
inline constexpr cl_bitfield CL_MAP_WRITE = 1 << 1;

// --- queues, programs, events ----------------------------------------------------------------------------------------

inline constexpr cl_bitfield CL_QUEUE_PROFILING_ENABLE = 1 << 1;

inline constexpr cl_uint CL_PROGRAM_BINARY_SIZES = 0x1165;
inline constexpr cl_uint CL_PROGRAM_BINARIES = 0x1166;
inline constexpr cl_uint CL_PROGRAM_NUM_DEVICES = 0x1162;
inline constexpr cl_uint CL_PROGRAM_BUILD_LOG = 0x1183;
inline constexpr cl_uint CL_KERNEL_NUM_ARGS = 0x1191;

inline constexpr cl_uint CL_EVENT_COMMAND_EXECUTION_STATUS = 0x11D3;
inline constexpr cl_int CL_COMPLETE = 0;  // of an event's status; below it are codes of failures
inline constexpr cl_uint CL_PROFILING_COMMAND_START = 0x1282;
inline constexpr cl_uint CL_PROFILING_COMMAND_END = 0x1283;

}  // namespace mydev::opencl_driver
