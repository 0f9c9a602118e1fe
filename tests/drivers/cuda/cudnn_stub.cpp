// cuDNN for machines without a GPU, for csrc/cuda_driver: it convolves on the processor, in the order of the stream of
// cuda_stub. It offers transforms and algorithms of no fixed order before those that the driver may take, and refuses
// f32 that tensor cores may round, filters that do not lie as tensors do, and workspace that is too small.
//
// stub_dnn_heuristics() counts the questions for an algorithm, stub_convolutions() the convolutions. Environment:
// CUDA_STUB_FAIL=ENTRY:STATUS, of an entry that always fails.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "cuda_driver/library/cudnn_api.h"
#include "stub_memory.h"
#include "stub_numbers.h"
#include "stub_stream.h"

namespace cuda = mydev::cuda_driver;
using cuda::DnnAlgorithm;
using cuda::DnnMath;
using cuda::DnnStatus;
using cuda::DnnType;

namespace {

std::atomic<int64_t> heuristics{0}, convolutions{0};

constexpr size_t kWorkspaceBytes = 512;
constexpr int kTakes = 1;  // the one algorithm that runs

// A tensor, or a filter, whose strides are those of its format.
struct StubTensor {
  DnnType type{};
  int rank = 0;
  std::array<int64_t, 5> sizes{}, strides{};
  bool is_filter = false, channels_last = false;

  int64_t elements() const {
    int64_t all = 1;
    for (int d = 0; d < rank; ++d) all *= sizes[static_cast<size_t>(d)];
    return all;
  }
  LtType number() const {
    return type == DnnType::kF16    ? LtType::kF16
           : type == DnnType::kBf16 ? LtType::kBf16
           : type == DnnType::kF64  ? LtType::kF64
                                    : LtType::kF32;
  }
  // The offset of element `index`, counted in the order of the sizes, in elements.
  int64_t offset(int64_t index) const {
    int64_t at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const auto dimension = static_cast<size_t>(d);
      at += index % sizes[dimension] * strides[dimension];
      index /= sizes[dimension];
    }
    return at;
  }
  int64_t index(const std::array<int64_t, 5>& position) const {
    int64_t at = 0;
    for (int d = 0; d < rank; ++d) at = at * sizes[static_cast<size_t>(d)] + position[static_cast<size_t>(d)];
    return at;
  }
  double read_at(const void* data, int64_t index) const {
    return read(number(), static_cast<const char*>(data) + offset(index) * static_cast<int64_t>(bytes_of(number())))
        .real();
  }
  void write_at(void* data, int64_t index, double value) const {
    write(number(), static_cast<char*>(data) + offset(index) * static_cast<int64_t>(bytes_of(number())), value);
  }
};

struct StubConvolution {
  int dimensions = 0, groups = 1, mode = 0;
  std::array<int64_t, 3> padding{}, stride{}, dilation{};
  DnnType compute{};
  DnnMath math{};
};

template <typename Stub, typename Handle>
Stub& as(Handle handle) {
  return *reinterpret_cast<Stub*>(handle);
}

cuda::StreamRef current_stream = nullptr;

DnnStatus failure(const char* entry) {
  return static_cast<DnnStatus>(forced(entry));
}

struct Operands {
  StubTensor x, w, y;
  StubConvolution convolution;

  bool fit() const {
    bool fits = x.rank == w.rank && x.rank == y.rank && x.rank == convolution.dimensions + 2 && x.type == w.type &&
                x.type == y.type && convolution.mode == cuda::kDnnCrossCorrelation && w.is_filter;
    fits = fits && x.sizes[0] == y.sizes[0] && w.sizes[0] == y.sizes[1] &&
           w.sizes[1] * convolution.groups == x.sizes[1] && y.sizes[1] % convolution.groups == 0;
    for (size_t d = 0; fits && d < static_cast<size_t>(convolution.dimensions); ++d) {
      const int64_t reach =
          x.sizes[d + 2] + 2 * convolution.padding[d] - (w.sizes[d + 2] - 1) * convolution.dilation[d] - 1;
      fits = reach >= 0 && reach / convolution.stride[d] + 1 == y.sizes[d + 2];
    }
    return fits && convolution.compute == (x.type == DnnType::kF64 ? DnnType::kF64 : DnnType::kF32);
  }
  bool known() const {
    if (x.type == DnnType::kF32 && convolution.math != DnnMath::kFma) return false;
    if (w.channels_last && (x.strides[1] != 1 || y.strides[1] != 1)) return false;
    return x.type != DnnType::kF64 || !w.channels_last;
  }

  // Calls with the indices of the elements of x, w and y that meet.
  void for_each(const std::function<void(int64_t, int64_t, int64_t)>& meet) const {
    const int64_t per_group = y.sizes[1] / convolution.groups;
    StubTensor taps = w;  // positions within a window
    taps.sizes[0] = 1;
    for (int64_t at = 0; at < y.elements(); ++at) {
      std::array<int64_t, 5> to{};
      for (int64_t d = y.rank - 1, rest = at; d >= 0; --d) {
        to[static_cast<size_t>(d)] = rest % y.sizes[static_cast<size_t>(d)];
        rest /= y.sizes[static_cast<size_t>(d)];
      }
      for (int64_t tap = 0; tap < taps.elements(); ++tap) {
        std::array<int64_t, 5> window{}, from{};
        for (int64_t d = w.rank - 1, rest = tap; d >= 1; --d) {
          window[static_cast<size_t>(d)] = rest % w.sizes[static_cast<size_t>(d)];
          rest /= w.sizes[static_cast<size_t>(d)];
        }
        from[0] = to[0];
        from[1] = to[1] / per_group * w.sizes[1] + window[1];
        bool inside = true;
        for (size_t d = 2; d < static_cast<size_t>(x.rank); ++d) {
          from[d] =
              to[d] * convolution.stride[d - 2] - convolution.padding[d - 2] + window[d] * convolution.dilation[d - 2];
          inside = inside && from[d] >= 0 && from[d] < x.sizes[d];
        }
        window[0] = to[1];
        if (inside) meet(x.index(from), w.index(window), at);
      }
    }
  }
};

Operands operands_of(cuda::DnnTensor x, cuda::DnnFilter w, cuda::DnnConvolution convolution, cuda::DnnTensor y) {
  return {as<StubTensor>(x), as<StubTensor>(w), as<StubTensor>(y), as<StubConvolution>(convolution)};
}

DnnStatus offer(const char* entry, const Operands& operands, int last, int requested, int* returned,
                DnnAlgorithm* results) {
  if (const DnnStatus status = failure(entry); status != DnnStatus::kSuccess) return status;
  ++heuristics;
  if (!operands.fit()) return DnnStatus::kBadParameter;
  const DnnMath math = operands.convolution.math;
  const DnnStatus status = operands.known() ? DnnStatus::kSuccess : DnnStatus::kNotSupported;
  const DnnAlgorithm offers[] = {{last + 1, status, 0, 0, 1, math, {}},
                                 {0, status, 0, 0, 0, math, {}},
                                 {kTakes, status, 0, kWorkspaceBytes, 1, math, {}}};
  *returned = std::min<int>(requested, static_cast<int>(std::size(offers)));
  std::copy_n(offers, *returned, results);
  return DnnStatus::kSuccess;
}

DnnStatus workspace_of(int algorithm, size_t* bytes) {
  *bytes = kWorkspaceBytes;
  return algorithm == kTakes ? DnnStatus::kSuccess : DnnStatus::kNotSupported;
}

enum class Written { kX, kW, kY };

struct Call {
  Operands operands;
  void *x, *w, *y;
  Written written;
  char* workspace;

  void run() const {
    std::fill_n(workspace, kWorkspaceBytes, static_cast<char>(0x7f));
    const StubTensor& result = written == Written::kX ? operands.x : written == Written::kW ? operands.w : operands.y;
    std::vector<double> sums(static_cast<size_t>(result.elements()));
    operands.for_each([&](int64_t x_at, int64_t w_at, int64_t y_at) {
      switch (written) {
        case Written::kX:
          sums[static_cast<size_t>(x_at)] += operands.w.read_at(w, w_at) * operands.y.read_at(y, y_at);
          break;
        case Written::kW:
          sums[static_cast<size_t>(w_at)] += operands.x.read_at(x, x_at) * operands.y.read_at(y, y_at);
          break;
        case Written::kY:
          sums[static_cast<size_t>(y_at)] += operands.x.read_at(x, x_at) * operands.w.read_at(w, w_at);
      }
    });
    void* const data = written == Written::kX ? x : written == Written::kW ? w : y;
    for (size_t i = 0; i < sums.size(); ++i) result.write_at(data, static_cast<int64_t>(i), sums[i]);
  }
};

double scale(DnnType type, const void* value) {
  return type == DnnType::kF64 ? read_as<double>(value) : read_as<float>(value);
}

DnnStatus convolve(const char* entry, const Call& call, const void* alpha, const void* beta, int algorithm,
                   size_t workspace_bytes) {
  if (const DnnStatus status = failure(entry); status != DnnStatus::kSuccess) return status;
  const DnnType type = call.operands.x.type;
  const bool valid = call.operands.fit() && call.operands.known() && algorithm == kTakes &&
                     workspace_bytes >= kWorkspaceBytes && reinterpret_cast<uintptr_t>(call.workspace) % 256 == 0 &&
                     scale(type, alpha) == 1 && scale(type, beta) == 0 && current_stream != nullptr;
  if (!valid) return DnnStatus::kBadParameter;
  ++convolutions;
  reinterpret_cast<StubStream*>(current_stream)->run([call] { call.run(); });
  return DnnStatus::kSuccess;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int64_t stub_dnn_heuristics() {
  return heuristics;
}
EXPORT int64_t stub_convolutions() {
  return convolutions;
}

EXPORT const char* cudnnGetErrorString(DnnStatus status) {
  switch (status) {
    case DnnStatus::kNotInitialized:
      return "CUDNN_STATUS_NOT_INITIALIZED";
    case DnnStatus::kNotSupported:
      return "CUDNN_STATUS_NOT_SUPPORTED";
    case DnnStatus::kInternalError:
      return "CUDNN_STATUS_INTERNAL_ERROR";
    default:
      return "CUDNN_STATUS_OF_THE_STUB";
  }
}
EXPORT DnnStatus cudnnCreate(cuda::DnnHandle* handle) {
  if (const DnnStatus status = failure("cudnnCreate"); status != DnnStatus::kSuccess) return status;
  *handle = reinterpret_cast<cuda::DnnHandle>(&current_stream);
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnSetStream(cuda::DnnHandle /*handle*/, cuda::StreamRef stream) {
  current_stream = stream;
  return DnnStatus::kSuccess;
}

EXPORT DnnStatus cudnnCreateTensorDescriptor(cuda::DnnTensor* tensor) {
  *tensor = reinterpret_cast<cuda::DnnTensor>(new StubTensor);
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnDestroyTensorDescriptor(cuda::DnnTensor tensor) {
  delete &as<StubTensor>(tensor);
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnSetTensorNdDescriptor(cuda::DnnTensor tensor, DnnType type, int rank, const int* sizes,
                                            const int* strides) {
  if (rank < 4 || rank > 5) return DnnStatus::kBadParameter;
  auto& stub = as<StubTensor>(tensor);
  stub.type = type;
  stub.rank = rank;
  std::copy_n(sizes, rank, stub.sizes.begin());
  std::copy_n(strides, rank, stub.strides.begin());
  const bool valid = std::all_of(strides, strides + rank, [](int stride) { return stride > 0; });
  return valid ? DnnStatus::kSuccess : DnnStatus::kBadParameter;
}
EXPORT DnnStatus cudnnCreateFilterDescriptor(cuda::DnnFilter* filter) {
  *filter = reinterpret_cast<cuda::DnnFilter>(new StubTensor);
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnDestroyFilterDescriptor(cuda::DnnFilter filter) {
  delete &as<StubTensor>(filter);
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnSetFilterNdDescriptor(cuda::DnnFilter filter, DnnType type, cuda::DnnFormat format, int rank,
                                            const int* sizes) {
  if (rank < 4 || rank > 5) return DnnStatus::kBadParameter;
  auto& stub = as<StubTensor>(filter);
  stub = {.type = type, .rank = rank, .is_filter = true, .channels_last = format == cuda::DnnFormat::kChannelsLast};
  std::copy_n(sizes, rank, stub.sizes.begin());
  int64_t elements = 1;
  const auto add = [&](int d) {
    stub.strides[static_cast<size_t>(d)] = elements;
    elements *= stub.sizes[static_cast<size_t>(d)];
  };
  if (stub.channels_last) add(1);
  for (int d = rank - 1; d > 1; --d) add(d);
  if (!stub.channels_last) add(1);
  add(0);
  return DnnStatus::kSuccess;
}

EXPORT DnnStatus cudnnCreateConvolutionDescriptor(cuda::DnnConvolution* convolution) {
  *convolution = reinterpret_cast<cuda::DnnConvolution>(new StubConvolution);
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnDestroyConvolutionDescriptor(cuda::DnnConvolution convolution) {
  delete &as<StubConvolution>(convolution);
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnSetConvolutionNdDescriptor(cuda::DnnConvolution convolution, int dimensions, const int* padding,
                                                 const int* stride, const int* dilation, int mode, DnnType compute) {
  if (dimensions < 2 || dimensions > 3) return DnnStatus::kBadParameter;
  auto& stub = as<StubConvolution>(convolution);
  stub = {.dimensions = dimensions, .mode = mode, .compute = compute};
  std::copy_n(padding, dimensions, stub.padding.begin());
  std::copy_n(stride, dimensions, stub.stride.begin());
  std::copy_n(dilation, dimensions, stub.dilation.begin());
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnSetConvolutionMathType(cuda::DnnConvolution convolution, DnnMath math) {
  as<StubConvolution>(convolution).math = math;
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnSetConvolutionGroupCount(cuda::DnnConvolution convolution, int groups) {
  as<StubConvolution>(convolution).groups = groups;
  return DnnStatus::kSuccess;
}

EXPORT DnnStatus cudnnGetConvolutionForwardAlgorithm_v7(cuda::DnnHandle /*handle*/, cuda::DnnTensor x,
                                                        cuda::DnnFilter w, cuda::DnnConvolution convolution,
                                                        cuda::DnnTensor y, int requested, int* returned,
                                                        DnnAlgorithm* results) {
  return offer(__func__, operands_of(x, w, convolution, y), cuda::kDnnLastForwardSum, requested, returned, results);
}
EXPORT DnnStatus cudnnGetConvolutionBackwardDataAlgorithm_v7(cuda::DnnHandle /*handle*/, cuda::DnnFilter w,
                                                             cuda::DnnTensor dy, cuda::DnnConvolution convolution,
                                                             cuda::DnnTensor dx, int requested, int* returned,
                                                             DnnAlgorithm* results) {
  return offer(__func__, operands_of(dx, w, convolution, dy), cuda::kDnnLastBackwardDataSum, requested, returned,
               results);
}
EXPORT DnnStatus cudnnGetConvolutionBackwardFilterAlgorithm_v7(cuda::DnnHandle /*handle*/, cuda::DnnTensor x,
                                                               cuda::DnnTensor dy, cuda::DnnConvolution convolution,
                                                               cuda::DnnFilter dw, int requested, int* returned,
                                                               DnnAlgorithm* results) {
  return offer(__func__, operands_of(x, dw, convolution, dy), cuda::kDnnLastBackwardFilterSum, requested, returned,
               results);
}
EXPORT DnnStatus cudnnGetConvolutionForwardWorkspaceSize(cuda::DnnHandle /*handle*/, cuda::DnnTensor /*x*/,
                                                         cuda::DnnFilter /*w*/, cuda::DnnConvolution /*convolution*/,
                                                         cuda::DnnTensor /*y*/, int algorithm, size_t* bytes) {
  return workspace_of(algorithm, bytes);
}
EXPORT DnnStatus cudnnGetConvolutionBackwardDataWorkspaceSize(cuda::DnnHandle /*handle*/, cuda::DnnFilter /*w*/,
                                                              cuda::DnnTensor /*dy*/,
                                                              cuda::DnnConvolution /*convolution*/,
                                                              cuda::DnnTensor /*dx*/, int algorithm, size_t* bytes) {
  return workspace_of(algorithm, bytes);
}
EXPORT DnnStatus cudnnGetConvolutionBackwardFilterWorkspaceSize(cuda::DnnHandle /*handle*/, cuda::DnnTensor /*x*/,
                                                                cuda::DnnTensor /*dy*/,
                                                                cuda::DnnConvolution /*convolution*/,
                                                                cuda::DnnFilter /*dw*/, int algorithm, size_t* bytes) {
  return workspace_of(algorithm, bytes);
}

EXPORT DnnStatus cudnnConvolutionForward(cuda::DnnHandle /*handle*/, const void* alpha, cuda::DnnTensor x,
                                         const void* x_data, cuda::DnnFilter w, const void* w_data,
                                         cuda::DnnConvolution convolution, int algorithm, void* workspace,
                                         size_t workspace_bytes, const void* beta, cuda::DnnTensor y, void* y_data) {
  const Call call{
      operands_of(x, w, convolution, y), const_cast<void*>(x_data), const_cast<void*>(w_data), y_data, Written::kY,
      static_cast<char*>(workspace)};
  return convolve(__func__, call, alpha, beta, algorithm, workspace_bytes);
}
EXPORT DnnStatus cudnnConvolutionBackwardData(cuda::DnnHandle /*handle*/, const void* alpha, cuda::DnnFilter w,
                                              const void* w_data, cuda::DnnTensor dy, const void* dy_data,
                                              cuda::DnnConvolution convolution, int algorithm, void* workspace,
                                              size_t workspace_bytes, const void* beta, cuda::DnnTensor dx,
                                              void* dx_data) {
  const Call call{operands_of(dx, w, convolution, dy), dx_data,     const_cast<void*>(w_data),
                  const_cast<void*>(dy_data),          Written::kX, static_cast<char*>(workspace)};
  return convolve(__func__, call, alpha, beta, algorithm, workspace_bytes);
}
EXPORT DnnStatus cudnnConvolutionBackwardFilter(cuda::DnnHandle /*handle*/, const void* alpha, cuda::DnnTensor x,
                                                const void* x_data, cuda::DnnTensor dy, const void* dy_data,
                                                cuda::DnnConvolution convolution, int algorithm, void* workspace,
                                                size_t workspace_bytes, const void* beta, cuda::DnnFilter dw,
                                                void* dw_data) {
  const Call call{
      operands_of(x, dw, convolution, dy), const_cast<void*>(x_data), dw_data, const_cast<void*>(dy_data), Written::kW,
      static_cast<char*>(workspace)};
  return convolve(__func__, call, alpha, beta, algorithm, workspace_bytes);
}

// The channel of an element of a tensor.
static int64_t channel_of(const StubTensor& tensor, int64_t index) {
  for (int d = tensor.rank - 1; d > 1; --d) index /= tensor.sizes[static_cast<size_t>(d)];
  return index % tensor.sizes[1];
}
EXPORT DnnStatus cudnnAddTensor(cuda::DnnHandle /*handle*/, const void* alpha, cuda::DnnTensor a, const void* a_data,
                                const void* beta, cuda::DnnTensor c, void* c_data) {
  if (const DnnStatus status = failure("cudnnAddTensor"); status != DnnStatus::kSuccess) return status;
  const StubTensor added = as<StubTensor>(a), to = as<StubTensor>(c);
  const bool valid = added.elements() == to.sizes[1] && added.type == to.type && added.rank == to.rank &&
                     scale(to.type, alpha) == 1 && scale(to.type, beta) == 1;
  if (!valid) return DnnStatus::kBadParameter;
  reinterpret_cast<StubStream*>(current_stream)->run([=] {
    for (int64_t i = 0; i < to.elements(); ++i) {
      to.write_at(c_data, i, to.read_at(c_data, i) + added.read_at(a_data, channel_of(to, i)));
    }
  });
  return DnnStatus::kSuccess;
}
EXPORT DnnStatus cudnnConvolutionBackwardBias(cuda::DnnHandle /*handle*/, const void* alpha, cuda::DnnTensor dy,
                                              const void* dy_data, const void* beta, cuda::DnnTensor db,
                                              void* db_data) {
  const StubTensor from = as<StubTensor>(dy), to = as<StubTensor>(db);
  const bool valid =
      to.elements() == from.sizes[1] && from.type == to.type && scale(to.type, alpha) == 1 && scale(to.type, beta) == 0;
  if (!valid) return DnnStatus::kBadParameter;
  reinterpret_cast<StubStream*>(current_stream)->run([=] {
    std::vector<double> sums(static_cast<size_t>(to.elements()));
    for (int64_t i = 0; i < from.elements(); ++i) {
      sums[static_cast<size_t>(channel_of(from, i))] += from.read_at(dy_data, i);
    }
    for (size_t i = 0; i < sums.size(); ++i) to.write_at(db_data, static_cast<int64_t>(i), sums[i]);
  });
  return DnnStatus::kSuccess;
}
