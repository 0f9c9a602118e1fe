// The entries of cuDNN 9 that this driver calls, in declarations of its own. Names, numbers and layouts are those of
// cudnn_graph.h, cudnn_ops.h and cudnn_cnn.h. Descriptors are opaque: the library creates them.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda_driver/library/cuda_api.h"

namespace mydev::cuda_driver {

using DnnHandle = struct DnnHandleStruct*;            // cudnnHandle_t
using DnnTensor = struct DnnTensorStruct*;            // cudnnTensorDescriptor_t
using DnnFilter = struct DnnFilterStruct*;            // cudnnFilterDescriptor_t
using DnnConvolution = struct DnnConvolutionStruct*;  // cudnnConvolutionDescriptor_t

// cudnnStatus_t: a thousand for each kind.
enum class DnnStatus : int {
  kSuccess = 0,
  kNotInitialized = 1001,
  kBadParameter = 2000,
  kNotSupported = 3000,
  kInternalError = 4000,
  kHostAllocationFailed = 4003,
  kDeviceAllocationFailed = 4004,
};

enum class DnnType : int { kF32 = 0, kF64 = 1, kF16 = 2, kBf16 = 9 };  // cudnnDataType_t
enum class DnnFormat : int { kChannelsFirst = 0, kChannelsLast = 1 };  // cudnnTensorFormat_t
// cudnnMathType_t. kFma is without tensor cores, and so without TF32.
enum class DnnMath : int { kDefault = 0, kTensor = 1, kTensorConverting = 2, kFma = 3 };
inline constexpr int kDnnCrossCorrelation = 1;  // cudnnConvolutionMode_t
inline constexpr int kDnnDeterministic = 1;     // cudnnDeterminism_t

// cudnnConvolutionFwdAlgo_t, cudnnConvolutionBwdDataAlgo_t, cudnnConvolutionBwdFilterAlgo_t: those that sum the
// elements of a window, and no transforms.
inline constexpr int kDnnLastForwardSum = 3;  // from 0 on
inline constexpr int kDnnLastBackwardDataSum = 1;
inline constexpr int kDnnLastBackwardFilterSum = 1;

struct DnnAlgorithm {  // cudnnConvolutionFwdAlgoPerf_t, and those of the gradients
  int algorithm;
  DnnStatus status;
  float time;
  size_t workspace_bytes;
  int determinism;
  DnnMath math;
  int reserved[3];
};
static_assert(sizeof(DnnAlgorithm) == 48);

#define MYDEV_CUDNN_ENTRIES(ENTRY)                                                                                    \
  ENTRY(cudnnCreate, (DnnHandle * handle))                                                                            \
  ENTRY(cudnnSetStream, (DnnHandle handle, StreamRef stream))                                                         \
  ENTRY(cudnnCreateTensorDescriptor, (DnnTensor * tensor))                                                            \
  ENTRY(cudnnDestroyTensorDescriptor, (DnnTensor tensor))                                                             \
  ENTRY(cudnnSetTensorNdDescriptor, (DnnTensor tensor, DnnType type, int rank, const int* sizes, const int* strides)) \
  ENTRY(cudnnCreateFilterDescriptor, (DnnFilter * filter))                                                            \
  ENTRY(cudnnDestroyFilterDescriptor, (DnnFilter filter))                                                             \
  ENTRY(cudnnSetFilterNdDescriptor, (DnnFilter filter, DnnType type, DnnFormat format, int rank, const int* sizes))   \
  ENTRY(cudnnCreateConvolutionDescriptor, (DnnConvolution * convolution))                                             \
  ENTRY(cudnnDestroyConvolutionDescriptor, (DnnConvolution convolution))                                              \
  ENTRY(cudnnSetConvolutionNdDescriptor, (DnnConvolution convolution, int dimensions, const int* padding,             \
                                          const int* stride, const int* dilation, int mode, DnnType compute))         \
  ENTRY(cudnnSetConvolutionMathType, (DnnConvolution convolution, DnnMath math))                                      \
  ENTRY(cudnnSetConvolutionGroupCount, (DnnConvolution convolution, int groups))                                      \
  ENTRY(cudnnGetConvolutionForwardAlgorithm_v7,                                                                       \
        (DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution, DnnTensor y, int requested,          \
         int* returned, DnnAlgorithm* results))                                                                       \
  ENTRY(cudnnGetConvolutionBackwardDataAlgorithm_v7,                                                                  \
        (DnnHandle handle, DnnFilter w, DnnTensor dy, DnnConvolution convolution, DnnTensor dx, int requested,        \
         int* returned, DnnAlgorithm* results))                                                                       \
  ENTRY(cudnnGetConvolutionBackwardFilterAlgorithm_v7,                                                                \
        (DnnHandle handle, DnnTensor x, DnnTensor dy, DnnConvolution convolution, DnnFilter dw, int requested,        \
         int* returned, DnnAlgorithm* results))                                                                       \
  ENTRY(cudnnGetConvolutionForwardWorkspaceSize,                                                                      \
        (DnnHandle handle, DnnTensor x, DnnFilter w, DnnConvolution convolution, DnnTensor y, int algorithm,          \
         size_t* bytes))                                                                                              \
  ENTRY(cudnnGetConvolutionBackwardDataWorkspaceSize,                                                                 \
        (DnnHandle handle, DnnFilter w, DnnTensor dy, DnnConvolution convolution, DnnTensor dx, int algorithm,        \
         size_t* bytes))                                                                                              \
  ENTRY(cudnnGetConvolutionBackwardFilterWorkspaceSize,                                                               \
        (DnnHandle handle, DnnTensor x, DnnTensor dy, DnnConvolution convolution, DnnFilter dw, int algorithm,        \
         size_t* bytes))                                                                                              \
  ENTRY(cudnnConvolutionForward, (DnnHandle handle, const void* alpha, DnnTensor x, const void* x_data, DnnFilter w,  \
                                  const void* w_data, DnnConvolution convolution, int algorithm, void* workspace,     \
                                  size_t workspace_bytes, const void* beta, DnnTensor y, void* y_data))               \
  ENTRY(cudnnConvolutionBackwardData,                                                                                 \
        (DnnHandle handle, const void* alpha, DnnFilter w, const void* w_data, DnnTensor dy, const void* dy_data,     \
         DnnConvolution convolution, int algorithm, void* workspace, size_t workspace_bytes, const void* beta,        \
         DnnTensor dx, void* dx_data))                                                                                \
  ENTRY(cudnnConvolutionBackwardFilter,                                                                               \
        (DnnHandle handle, const void* alpha, DnnTensor x, const void* x_data, DnnTensor dy, const void* dy_data,     \
         DnnConvolution convolution, int algorithm, void* workspace, size_t workspace_bytes, const void* beta,        \
         DnnFilter dw, void* dw_data))                                                                                \
  ENTRY(cudnnAddTensor, (DnnHandle handle, const void* alpha, DnnTensor a, const void* a_data, const void* beta,      \
                         DnnTensor c, void* c_data))                                                                  \
  ENTRY(cudnnConvolutionBackwardBias, (DnnHandle handle, const void* alpha, DnnTensor dy, const void* dy_data,        \
                                       const void* beta, DnnTensor db, void* db_data))

struct CudnnApi {
#define MYDEV_DECLARE(name, parameters) DnnStatus(*name) parameters;  // NOLINT(bugprone-macro-parentheses)
  MYDEV_CUDNN_ENTRIES(MYDEV_DECLARE)
#undef MYDEV_DECLARE
  const char* (*cudnnGetErrorString)(DnnStatus status);
};

}  // namespace mydev::cuda_driver
