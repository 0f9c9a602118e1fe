// OpenCL's functions, found at run time: the loader (libOpenCL) is opened when the driver starts, so that nothing of
// this project depends on it.
#pragma once

#include "opencl_driver/api/opencl_types.h"

namespace mydev::opencl_driver {

// Functions of OpenCL 1.2, which each loader has: name, result, parameters.
#define MYDEV_OPENCL_FUNCTIONS(F)                                                                                      \
  F(clGetPlatformIDs, cl_int, cl_uint, cl_platform_id*, cl_uint*)                                                      \
  F(clGetPlatformInfo, cl_int, cl_platform_id, cl_uint, size_t, void*, size_t*)                                        \
  F(clGetDeviceIDs, cl_int, cl_platform_id, cl_bitfield, cl_uint, cl_device_id*, cl_uint*)                             \
  F(clGetDeviceInfo, cl_int, cl_device_id, cl_uint, size_t, void*, size_t*)                                            \
  F(clCreateSubDevices, cl_int, cl_device_id, const intptr_t*, cl_uint, cl_device_id*, cl_uint*)                       \
  F(clCreateContext, cl_context, const intptr_t*, cl_uint, const cl_device_id*, cl_context_notify, void*, cl_int*)     \
  F(clGetExtensionFunctionAddressForPlatform, void*, cl_platform_id, const char*)                                      \
  F(clCreateCommandQueue, cl_command_queue, cl_context, cl_device_id, cl_bitfield, cl_int*)                            \
  F(clReleaseCommandQueue, cl_int, cl_command_queue)                                                                   \
  F(clFlush, cl_int, cl_command_queue)                                                                                 \
  F(clFinish, cl_int, cl_command_queue)                                                                                \
  F(clCreateBuffer, cl_mem, cl_context, cl_bitfield, size_t, void*, cl_int*)                                           \
  F(clReleaseMemObject, cl_int, cl_mem)                                                                                \
  F(clEnqueueReadBuffer, cl_int, cl_command_queue, cl_mem, cl_bool, size_t, size_t, void*, cl_uint, const cl_event*,   \
    cl_event*)                                                                                                         \
  F(clEnqueueWriteBuffer, cl_int, cl_command_queue, cl_mem, cl_bool, size_t, size_t, const void*, cl_uint,             \
    const cl_event*, cl_event*)                                                                                        \
  F(clEnqueueCopyBuffer, cl_int, cl_command_queue, cl_mem, cl_mem, size_t, size_t, size_t, cl_uint, const cl_event*,   \
    cl_event*)                                                                                                         \
  F(clEnqueueReadBufferRect, cl_int, cl_command_queue, cl_mem, cl_bool, const size_t*, const size_t*, const size_t*,   \
    size_t, size_t, size_t, size_t, void*, cl_uint, const cl_event*, cl_event*)                                        \
  F(clEnqueueWriteBufferRect, cl_int, cl_command_queue, cl_mem, cl_bool, const size_t*, const size_t*, const size_t*,  \
    size_t, size_t, size_t, size_t, const void*, cl_uint, const cl_event*, cl_event*)                                  \
  F(clEnqueueCopyBufferRect, cl_int, cl_command_queue, cl_mem, cl_mem, const size_t*, const size_t*, const size_t*,    \
    size_t, size_t, size_t, size_t, cl_uint, const cl_event*, cl_event*)                                               \
  F(clEnqueueFillBuffer, cl_int, cl_command_queue, cl_mem, const void*, size_t, size_t, size_t, cl_uint,               \
    const cl_event*, cl_event*)                                                                                        \
  F(clEnqueueMapBuffer, void*, cl_command_queue, cl_mem, cl_bool, cl_bitfield, size_t, size_t, cl_uint,                \
    const cl_event*, cl_event*, cl_int*)                                                                               \
  F(clEnqueueUnmapMemObject, cl_int, cl_command_queue, cl_mem, void*, cl_uint, const cl_event*, cl_event*)             \
  F(clCreateProgramWithSource, cl_program, cl_context, cl_uint, const char**, const size_t*, cl_int*)                  \
  F(clCreateProgramWithBinary, cl_program, cl_context, cl_uint, const cl_device_id*, const size_t*,                    \
    const unsigned char**, cl_int*, cl_int*)                                                                           \
  F(clBuildProgram, cl_int, cl_program, cl_uint, const cl_device_id*, const char*, cl_program_notify, void*)           \
  F(clReleaseProgram, cl_int, cl_program)                                                                              \
  F(clGetProgramInfo, cl_int, cl_program, cl_uint, size_t, void*, size_t*)                                             \
  F(clGetProgramBuildInfo, cl_int, cl_program, cl_device_id, cl_uint, size_t, void*, size_t*)                          \
  F(clCreateKernel, cl_kernel, cl_program, const char*, cl_int*)                                                       \
  F(clReleaseKernel, cl_int, cl_kernel)                                                                                \
  F(clGetKernelInfo, cl_int, cl_kernel, cl_uint, size_t, void*, size_t*)                                               \
  F(clSetKernelArg, cl_int, cl_kernel, cl_uint, size_t, const void*)                                                   \
  F(clEnqueueNDRangeKernel, cl_int, cl_command_queue, cl_kernel, cl_uint, const size_t*, const size_t*, const size_t*, \
    cl_uint, const cl_event*, cl_event*)                                                                               \
  F(clEnqueueMarkerWithWaitList, cl_int, cl_command_queue, cl_uint, const cl_event*, cl_event*)                        \
  F(clEnqueueBarrierWithWaitList, cl_int, cl_command_queue, cl_uint, const cl_event*, cl_event*)                       \
  F(clCreateUserEvent, cl_event, cl_context, cl_int*)                                                                  \
  F(clSetUserEventStatus, cl_int, cl_event, cl_int)                                                                    \
  F(clWaitForEvents, cl_int, cl_uint, const cl_event*)                                                                 \
  F(clGetEventInfo, cl_int, cl_event, cl_uint, size_t, void*, size_t*)                                                 \
  F(clGetEventProfilingInfo, cl_int, cl_event, cl_uint, size_t, void*, size_t*)                                        \
  F(clRetainEvent, cl_int, cl_event)                                                                                   \
  F(clReleaseEvent, cl_int, cl_event)

// Functions of OpenCL 2.0 and later, which a loader may lack.
#define MYDEV_OPENCL_LATER_FUNCTIONS(F)                                                                          \
  F(clSVMAlloc, void*, cl_context, cl_bitfield, size_t, cl_uint)                                                 \
  F(clSVMFree, void, cl_context, void*)                                                                          \
  F(clSetKernelArgSVMPointer, cl_int, cl_kernel, cl_uint, const void*)                                           \
  F(clEnqueueSVMMemcpy, cl_int, cl_command_queue, cl_bool, void*, const void*, size_t, cl_uint, const cl_event*, \
    cl_event*)                                                                                                   \
  F(clEnqueueSVMMemFill, cl_int, cl_command_queue, void*, const void*, size_t, size_t, cl_uint, const cl_event*, \
    cl_event*)                                                                                                   \
  F(clGetDeviceAndHostTimer, cl_int, cl_device_id, cl_ulong*, cl_ulong*)

// Functions of cl_intel_unified_shared_memory, which the platform is asked for.
#define MYDEV_OPENCL_USM_FUNCTIONS(F)                                                                              \
  F(clDeviceMemAllocINTEL, void*, cl_context, cl_device_id, const cl_properties*, size_t, cl_uint, cl_int*)        \
  F(clMemFreeINTEL, cl_int, cl_context, void*)                                                                     \
  F(clSetKernelArgMemPointerINTEL, cl_int, cl_kernel, cl_uint, const void*)                                        \
  F(clEnqueueMemcpyINTEL, cl_int, cl_command_queue, cl_bool, void*, const void*, size_t, cl_uint, const cl_event*, \
    cl_event*)                                                                                                     \
  F(clEnqueueMemFillINTEL, cl_int, cl_command_queue, void*, const void*, size_t, size_t, cl_uint, const cl_event*, \
    cl_event*)

struct OpenclApi {
#define MYDEV_DECLARE(name, result, ...) result (*name)(__VA_ARGS__) = nullptr;
  MYDEV_OPENCL_FUNCTIONS(MYDEV_DECLARE)
  MYDEV_OPENCL_LATER_FUNCTIONS(MYDEV_DECLARE)
  MYDEV_OPENCL_USM_FUNCTIONS(MYDEV_DECLARE)
#undef MYDEV_DECLARE
};

// The functions; those of 1.2 are there once load_opencl() has returned.
const OpenclApi& cl();
// Opens the loader. Raises NOT_FOUND where there is none, and FAILED_PRECONDITION where it is older than 1.2.
void load_opencl();
// Looks for the platform's functions of cl_intel_unified_shared_memory. Returns whether all are there.
bool load_usm(cl_platform_id platform);

}  // namespace mydev::opencl_driver
