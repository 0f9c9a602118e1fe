// The entries of CUDA's driver API and of NVRTC that this driver calls, in declarations of its own: nothing of CUDA is
// needed to build it. Names, numbers and layouts are those of cuda.h and nvrtc.h. Entries have CUDA's names; the suffix
// is that of the symbol that each stands for, the newest that CUDA 11.4 has.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mydev::cuda_driver {

// --- types -----------------------------------------------------------------------------------------------------------

using Result = int;              // CUresult
using Ordinal = int;             // CUdevice
using DevicePointer = uint64_t;  // CUdeviceptr
using Context = struct ContextHandle*;
using StreamRef = struct StreamHandle*;
using EventRef = struct EventHandle*;
using ModuleRef = struct ModuleHandle*;
using FunctionRef = struct FunctionHandle*;
using GraphRef = struct GraphHandle*;
using GraphExecRef = struct GraphExecHandle*;
using StreamCallback = void (*)(StreamRef stream, Result status, void* context);

struct Uuid {
  unsigned char bytes[16];
};

// CUDA_MEMCPY2D
struct Copy2D {
  size_t src_x, src_y;
  unsigned src_type;
  const void* src_host;
  DevicePointer src_device;
  void* src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  unsigned dst_type;
  void* dst_host;
  DevicePointer dst_device;
  void* dst_array;
  size_t dst_pitch;
  size_t width_bytes, height;
};

// --- numbers ---------------------------------------------------------------------------------------------------------

enum : Result {
  kSuccess = 0,
  kErrorInvalidValue = 1,
  kErrorOutOfMemory = 2,
  kErrorNotInitialized = 3,
  kErrorDeinitialized = 4,
  kErrorNoDevice = 100,
  kErrorInvalidDevice = 101,
  kErrorInvalidImage = 200,
  kErrorNoBinary = 209,
  kErrorInvalidPtx = 218,
  kErrorUnsupportedPtx = 222,
  kErrorInvalidSource = 300,
  kErrorInvalidHandle = 400,
  kErrorNotFound = 500,
  kErrorNotReady = 600,
  kErrorIllegalAddress = 700,
  kErrorLaunchOutOfResources = 701,
  kErrorPeerAlreadyEnabled = 704,
  kErrorAssert = 710,
  kErrorHostAlreadyRegistered = 712,
  kErrorHostNotRegistered = 713,
  kErrorHardwareStack = 714,
  kErrorLaunchFailed = 719,
  kErrorNotSupported = 801,
  kErrorCaptureFirst = 900,  // CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED
  kErrorCaptureLast = 908,   // CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD
};

// CUdevice_attribute
enum class Attribute : int {
  kMaxThreadsPerBlock = 1,
  kMaxBlockX = 2,
  kMaxBlockY = 3,
  kMaxBlockZ = 4,
  kMaxGridX = 5,
  kMaxGridY = 6,
  kMaxGridZ = 7,
  kWarpSize = 10,
  kMultiProcessors = 16,
  kMemoryClockKilohertz = 36,
  kMemoryBusBits = 37,
  kMajor = 75,
  kMinor = 76,
  kSharedPerMultiProcessor = 81,
  kMaxSharedPerBlock = 97,  // that a function may ask for
};

inline constexpr unsigned kMemoryTypeHost = 1, kMemoryTypeDevice = 2;  // CUmemorytype
inline constexpr int kPointerMemoryType = 2, kPointerOrdinal = 9, kPointerBegin = 11, kPointerBytes = 12;
inline constexpr unsigned kHostPortable = 1, kHostDeviceMap = 2;  // CU_MEMHOSTALLOC_, CU_MEMHOSTREGISTER_
inline constexpr unsigned kStreamNonBlocking = 1, kEventDisableTiming = 2;
inline constexpr int kCaptureRelaxed = 2, kCaptureNone = 0;    // CUstreamCaptureMode, CUstreamCaptureStatus
inline constexpr int kFunctionMaxDynamicShared = 8;            // CUfunction_attribute
inline constexpr int kJitErrorLog = 5, kJitErrorLogBytes = 6;  // CUjit_option

// --- entries: name, suffix of the symbol, parameters -----------------------------------------------------------------

#define MYDEV_CUDA_ENTRIES(ENTRY)                                                                                     \
  ENTRY(cuInit, "", (unsigned flags))                                                                                 \
  ENTRY(cuDriverGetVersion, "", (int* version))                                                                       \
  ENTRY(cuGetErrorName, "", (Result result, const char** name))                                                       \
  ENTRY(cuGetErrorString, "", (Result result, const char** text))                                                     \
  ENTRY(cuDeviceGetCount, "", (int* count))                                                                           \
  ENTRY(cuDeviceGet, "", (Ordinal * device, int ordinal))                                                             \
  ENTRY(cuDeviceGetName, "", (char* name, int length, Ordinal device))                                                \
  ENTRY(cuDeviceGetAttribute, "", (int* value, Attribute attribute, Ordinal device))                                  \
  ENTRY(cuDeviceGetUuid, "_v2", (Uuid * uuid, Ordinal device))                                                        \
  ENTRY(cuDeviceTotalMem, "_v2", (size_t* bytes, Ordinal device))                                                     \
  ENTRY(cuDeviceCanAccessPeer, "", (int* can, Ordinal device, Ordinal peer))                                          \
  ENTRY(cuDevicePrimaryCtxRetain, "", (Context * context, Ordinal device))                                            \
  ENTRY(cuCtxGetCurrent, "", (Context * context))                                                                     \
  ENTRY(cuCtxSetCurrent, "", (Context context))                                                                       \
  ENTRY(cuCtxEnablePeerAccess, "", (Context peer, unsigned flags))                                                    \
  ENTRY(cuMemAlloc, "_v2", (DevicePointer * pointer, size_t bytes))                                                   \
  ENTRY(cuMemFree, "_v2", (DevicePointer pointer))                                                                    \
  ENTRY(cuMemGetInfo, "_v2", (size_t* free, size_t* total))                                                           \
  ENTRY(cuMemHostAlloc, "", (void** pointer, size_t bytes, unsigned flags))                                           \
  ENTRY(cuMemFreeHost, "", (void* pointer))                                                                           \
  ENTRY(cuMemHostRegister, "_v2", (void* pointer, size_t bytes, unsigned flags))                                      \
  ENTRY(cuMemHostUnregister, "", (void* pointer))                                                                     \
  ENTRY(cuPointerGetAttribute, "", (void* data, int attribute, DevicePointer pointer))                                \
  ENTRY(cuMemcpyHtoDAsync, "_v2", (DevicePointer dst, const void* src, size_t bytes, StreamRef stream))               \
  ENTRY(cuMemcpyDtoHAsync, "_v2", (void* dst, DevicePointer src, size_t bytes, StreamRef stream))                     \
  ENTRY(cuMemcpyDtoDAsync, "_v2", (DevicePointer dst, DevicePointer src, size_t bytes, StreamRef stream))             \
  ENTRY(cuMemcpyPeerAsync, "",                                                                                        \
        (DevicePointer dst, Context dst_context, DevicePointer src, Context src_context, size_t bytes,                \
         StreamRef stream))                                                                                           \
  ENTRY(cuMemcpy2DAsync, "_v2", (const Copy2D* copy, StreamRef stream))                                               \
  ENTRY(cuMemsetD8Async, "", (DevicePointer dst, unsigned char value, size_t count, StreamRef stream))                \
  ENTRY(cuMemsetD16Async, "", (DevicePointer dst, unsigned short value, size_t count, StreamRef stream))              \
  ENTRY(cuMemsetD32Async, "", (DevicePointer dst, unsigned value, size_t count, StreamRef stream))                    \
  ENTRY(cuStreamCreateWithPriority, "", (StreamRef * stream, unsigned flags, int priority))                           \
  ENTRY(cuStreamDestroy, "_v2", (StreamRef stream))                                                                   \
  ENTRY(cuStreamQuery, "", (StreamRef stream))                                                                        \
  ENTRY(cuStreamSynchronize, "", (StreamRef stream))                                                                  \
  ENTRY(cuStreamWaitEvent, "", (StreamRef stream, EventRef event, unsigned flags))                                    \
  ENTRY(cuStreamAddCallback, "", (StreamRef stream, StreamCallback callback, void* context, unsigned flags))          \
  ENTRY(cuStreamIsCapturing, "", (StreamRef stream, int* status))                                                     \
  ENTRY(cuStreamBeginCapture, "_v2", (StreamRef stream, int mode))                                                    \
  ENTRY(cuStreamEndCapture, "", (StreamRef stream, GraphRef * graph))                                                 \
  ENTRY(cuEventCreate, "", (EventRef * event, unsigned flags))                                                        \
  ENTRY(cuEventDestroy, "_v2", (EventRef event))                                                                      \
  ENTRY(cuEventRecord, "", (EventRef event, StreamRef stream))                                                        \
  ENTRY(cuEventQuery, "", (EventRef event))                                                                           \
  ENTRY(cuEventSynchronize, "", (EventRef event))                                                                     \
  ENTRY(cuEventElapsedTime, "", (float* milliseconds, EventRef start, EventRef end))                                  \
  ENTRY(cuModuleLoadDataEx, "",                                                                                       \
        (ModuleRef * module, const void* image, unsigned num_options, int* options, void** values))                   \
  ENTRY(cuModuleUnload, "", (ModuleRef module))                                                                       \
  ENTRY(cuModuleGetFunction, "", (FunctionRef * function, ModuleRef module, const char* name))                        \
  ENTRY(cuFuncSetAttribute, "", (FunctionRef function, int attribute, int value))                                     \
  ENTRY(cuLaunchKernel, "",                                                                                           \
        (FunctionRef function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y, \
         unsigned block_z, unsigned shared_bytes, StreamRef stream, void** parameters, void** extra))                 \
  ENTRY(cuGraphInstantiateWithFlags, "", (GraphExecRef * exec, GraphRef graph, unsigned long long flags))             \
  ENTRY(cuGraphLaunch, "", (GraphExecRef exec, StreamRef stream))                                                     \
  ENTRY(cuGraphDestroy, "", (GraphRef graph))                                                                         \
  ENTRY(cuGraphExecDestroy, "", (GraphExecRef exec))

struct CudaApi {
#define MYDEV_DECLARE(name, suffix, parameters) Result(*name) parameters;  // NOLINT(bugprone-macro-parentheses)
  MYDEV_CUDA_ENTRIES(MYDEV_DECLARE)
};

using Program = struct ProgramHandle*;  // nvrtcProgram

#define MYDEV_NVRTC_ENTRIES(ENTRY)                                                                             \
  ENTRY(nvrtcVersion, "", (int* major, int* minor))                                                            \
  ENTRY(nvrtcGetNumSupportedArchs, "", (int* count))                                                           \
  ENTRY(nvrtcGetSupportedArchs, "", (int* architectures))                                                      \
  ENTRY(nvrtcCreateProgram, "",                                                                                \
        (Program * program, const char* source, const char* name, int num_headers, const char* const* headers, \
         const char* const* header_names))                                                                     \
  ENTRY(nvrtcDestroyProgram, "", (Program * program))                                                          \
  ENTRY(nvrtcCompileProgram, "", (Program program, int num_options, const char* const* options))               \
  ENTRY(nvrtcGetProgramLogSize, "", (Program program, size_t* bytes))                                          \
  ENTRY(nvrtcGetProgramLog, "", (Program program, char* log))                                                  \
  ENTRY(nvrtcGetCUBINSize, "", (Program program, size_t* bytes))                                               \
  ENTRY(nvrtcGetCUBIN, "", (Program program, char* cubin))                                                     \
  ENTRY(nvrtcGetPTXSize, "", (Program program, size_t* bytes))                                                 \
  ENTRY(nvrtcGetPTX, "", (Program program, char* ptx))

struct NvrtcApi {
  MYDEV_NVRTC_ENTRIES(MYDEV_DECLARE)
  const char* (*nvrtcGetErrorString)(Result result);
#undef MYDEV_DECLARE
};

}  // namespace mydev::cuda_driver
