#include "host_kernels/onednn/wide_convolution.h"

#include <algorithm>
#include <cstddef>

#include "host_kernels/isa_variant.h"
#include "host_kernels/nested_copy.h"
#include "host_kernels/wide_product.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

constexpr int64_t kForkMultiplications = 8192;  // from which a thread more is worth its start

const WideProductFunctions& product_functions() {
  static const WideProductFunctions& functions = MYDEV_ISA_VARIANT(instruction_set(), wide_product);
  return functions;
}

int64_t product_of(const int64_t* sizes, size_t count) {
  int64_t product = 1;
  for (size_t i = 0; i < count; ++i) product *= sizes[i];
  return product;
}

using Position = std::array<int64_t, 3>;

// The index of an element in row-major order as its position.
Position position_of(int64_t index, const int64_t* sizes, size_t count) {
  Position position{};
  for (size_t i = count; i-- > 0; index /= sizes[i]) position[i] = index % sizes[i];
  return position;
}

class WideConvolution {
 public:
  WideConvolution(const ConvolutionProblem& problem, const ConvolutionBuffers& buffers)
      : problem_(problem),
        source_(buffers[kSource]),
        weights_(buffers[kWeights]),
        destination_(buffers[kDestination]),
        bias_(buffers[kBias]),
        spatial_(static_cast<size_t>(problem.rank - 2)),
        rows_(product_of(destination_.sizes + 2, spatial_ - 1)),
        taps_(product_of(weights_.sizes + 2, spatial_)),
        group_(weights_.sizes[0] / problem.groups) {}

  // Parts of the result that are independent: rows, images or elements of the window, of one group each.
  int64_t items() const {
    return problem_.groups * (problem_.kind == PlanKind::kConvolution               ? images() * rows_
                              : problem_.kind == PlanKind::kConvolutionBackwardData ? images()
                                                                                    : taps_);
  }
  // The greatest product.
  uint64_t item_bytes() const { return product_functions().task_bytes(product({}, {}, {}, width())); }
  int64_t item_multiplications() const {
    return std::max<int64_t>(images() * rows_ * taps_ * weights_.sizes[0] * weights_.sizes[1] * width() / items(), 1);
  }

  void compute(int64_t item, void* memory) const {
    const int64_t group = item % problem_.groups, part = item / problem_.groups;
    if (problem_.kind == PlanKind::kConvolution) {
      for (int64_t tap = 0; tap < taps_; ++tap) add(part / rows_, group, part % rows_, tap, memory);
      return;
    }
    const bool of_data = problem_.kind == PlanKind::kConvolutionBackwardData;
    for (int64_t image = of_data ? part : 0; image < (of_data ? part + 1 : images()); ++image) {
      for (int64_t row = 0; row < rows_; ++row) {
        for (int64_t tap = of_data ? 0 : part; tap < (of_data ? taps_ : part + 1); ++tap) {
          add(image, group, row, tap, memory);
        }
        if (!of_data && part == 0 && bias_.data != nullptr) add_to_bias(image, group, row, memory);
      }
    }
  }

 private:
  int64_t images() const { return destination_.sizes[0]; }
  int64_t width() const { return destination_.sizes[spatial_ + 1]; }

  // The matrices of a group: its channels, and of images the positions of a row.
  WideProduct product(const WideMatrix& source, const WideMatrix& weights, const WideMatrix& destination,
                      int64_t width) const {
    const int64_t in = weights_.sizes[1];
    const auto turned = [](const WideMatrix& m) { return WideMatrix{m.data, m.col_stride, m.row_stride}; };
    switch (problem_.kind) {
      case PlanKind::kConvolution:
        return {problem_.compute, problem_.compute, group_, width, in, destination, weights, source, destination, 1, 1};
      case PlanKind::kConvolutionBackwardData:
        return {problem_.compute, problem_.compute, in,     width, group_, source,
                turned(weights),  destination,      source, 1,     1};
      default:
        return {problem_.compute, problem_.compute, group_,  in, width, weights,
                destination,      turned(source),   weights, 1,  1};
    }
  }

  static void run(const WideProduct& product, void* memory) {
    const WideProductFunctions& functions = product_functions();
    const int64_t tasks = functions.tasks(product);
    for (int64_t task = 0; task < tasks; ++task) functions.run(product, task, memory);
  }

  WideMatrix matrix(const mydev_buffer& buffer, int64_t offset, int64_t row_stride, int64_t col_stride) const {
    return {static_cast<char*>(buffer.data) + offset * dtype_size(problem_.compute), row_stride, col_stride};
  }

  void add(int64_t image, int64_t group, int64_t row, int64_t tap, void* memory) const {
    Position to = position_of(row, destination_.sizes + 2, spatial_ - 1);
    const Position at = position_of(tap, weights_.sizes + 2, spatial_);
    int64_t source = image * source_.strides[0] + group * weights_.sizes[1] * source_.strides[1];
    int64_t weights = group * group_ * weights_.strides[0];
    int64_t destination = image * destination_.strides[0] + group * group_ * destination_.strides[1];
    int64_t end = 0;
    for (size_t i = 0; i < spatial_; ++i) {
      // The positions whose window has an element of the source at this tap.
      const int64_t stride = problem_.stride[i], shift = at[i] * problem_.dilation[i] - problem_.padding[i];
      const int64_t last = source_.sizes[i + 2] - 1 - shift;
      const int64_t begin = shift >= 0 ? 0 : (stride - 1 - shift) / stride;
      end = last < 0 ? 0 : std::min(destination_.sizes[i + 2], last / stride + 1);
      if (i + 1 == spatial_) to[i] = begin;
      if (to[i] < begin || to[i] >= end) return;
      source += (to[i] * stride + shift) * source_.strides[i + 2];
      weights += at[i] * weights_.strides[i + 2];
      destination += to[i] * destination_.strides[i + 2];
    }
    const size_t d = spatial_ + 1;
    run(product(matrix(source_, source, source_.strides[1], source_.strides[d] * problem_.stride[spatial_ - 1]),
                matrix(weights_, weights, weights_.strides[0], weights_.strides[1]),
                matrix(destination_, destination, destination_.strides[1], destination_.strides[d]),
                end - to[spatial_ - 1]),
        memory);
  }

  // Adds a row of the destination, as its product with ones.
  void add_to_bias(int64_t image, int64_t group, int64_t row, void* memory) const {
    const Position to = position_of(row, destination_.sizes + 2, spatial_ - 1);
    int64_t at = image * destination_.strides[0] + group * group_ * destination_.strides[1];
    for (size_t i = 0; i + 1 < spatial_; ++i) at += to[i] * destination_.strides[i + 2];
    const WideMatrix bias = matrix(bias_, group * group_ * bias_.strides[0], bias_.strides[0], 0);
    const WideMatrix values = matrix(destination_, at, destination_.strides[1], destination_.strides[spatial_ + 1]);
    const mydev_dtype dtype = problem_.compute;
    run({dtype, dtype, group_, 1, width(), bias, values, {const_cast<std::byte*>(one()), 0, 0}, bias, 1, 1}, memory);
  }

  // The number 1.
  const std::byte* one() const {
    static constexpr double kDoubles[] = {1, 0};
    static constexpr float kFloats[] = {1, 0};
    static constexpr int64_t kInteger = 1;  // whose first bytes are narrower ones
    const mydev_dtype dtype = problem_.compute;
    const void* number = dtype == MYDEV_F64 || dtype == MYDEV_C128 ? static_cast<const void*>(kDoubles)
                         : dtype == MYDEV_C64                      ? static_cast<const void*>(kFloats)
                                                                   : static_cast<const void*>(&kInteger);
    return static_cast<const std::byte*>(number);
  }

  const ConvolutionProblem& problem_;
  const mydev_buffer &source_, &weights_, &destination_, &bias_;
  size_t spatial_;
  int64_t rows_, taps_;
  int64_t group_;  // channels of the destination
};

int64_t pieces_of(const WideConvolution& convolution) {
  return std::min<int64_t>(convolution.items(), parallel_threads());
}

// Fills a result with what is added to: the bias of its channels, or zeros.
void fill_with_start(const mydev_frame& frame, const char* kernel, const mydev_buffer& result,
                     const mydev_buffer* bias) {
  alignas(16) static std::array<std::byte, 16> zero{};
  std::array<int64_t, kMaxConvolutionRank> strides{};
  if (bias != nullptr) strides[1] = bias->strides[0];
  nested_copy(frame, kernel, result,
              {bias != nullptr ? bias->data : zero.data(), result.sizes, strides.data(), result.rank, result.dtype, 0});
}

}  // namespace

uint64_t wide_convolution_bytes(const ConvolutionProblem& problem) {
  ConvolutionBuffers buffers{};
  for (const ConvolutionRole role : {kSource, kWeights, kDestination}) buffers[role] = *problem[role].buffer;
  const WideConvolution convolution(problem, buffers);
  return static_cast<uint64_t>(pieces_of(convolution)) * convolution.item_bytes();
}

void run_wide_convolution(const mydev_frame& frame, const ConvolutionProblem& problem,
                          const ConvolutionBuffers& buffers, char* memory) {
  for (const ConvolutionRole role : {kSource, kWeights, kDestination, kBias}) {
    if (buffers[role].data == nullptr || !problem.is_output(role)) continue;
    const bool adds_bias = buffers[kBias].data != nullptr && !problem.is_output(kBias);
    fill_with_start(frame, problem.kernel, buffers[role], adds_bias ? &buffers[kBias] : nullptr);
  }
  const WideConvolution convolution(problem, buffers);
  const int64_t items = convolution.items(), pieces = pieces_of(convolution);
  const int64_t grain =
      std::max<int64_t>(1, kForkMultiplications * pieces / items / convolution.item_multiplications());
  parallel_for(pieces, grain, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      void* const own = memory + static_cast<uint64_t>(piece) * convolution.item_bytes();
      for (int64_t item = items * piece / pieces; item < items * (piece + 1) / pieces; ++item) {
        convolution.compute(item, own);
      }
    }
  });
}

}  // namespace mydev::kernels
