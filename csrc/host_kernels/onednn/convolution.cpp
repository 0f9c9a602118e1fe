// Kernel group convolution, in 1, 2 or 3 dimensions:
//
//   mydev.convolution(out, x, weight[, bias]; ...)
//   mydev.convolution_backward_data(grad_x, grad_out, weight; ...)
//   mydev.convolution_backward_weights(grad_weight[, grad_bias], grad_out, x; ...)
//
// each with the attributes stride[], padding[], dilation[], transposed, output_padding[], groups. x is [N, C,
// spatial...], weight [O, C / groups, kernel...] or, transposed, [C, O / groups, kernel...]; dilation 1 means none;
// output_padding is less than the stride. Every operand must have elements, or every result none. There is no grad_bias
// of a transposed convolution: it is just a sum.
//
// Policy. Work is a plan of oneDNN primitives, but for three kinds of f32 work that have loops of our own. 3 x 3
// convolutions of channels-first images and their gradients, with many channels, stride 1 and no dilation, take half
// the multiplications (winograd.h). Two are depthwise (depthwise_loops.h). The first of these are 3 x 3 convolutions of
// wide channels-first images, which would spend most of their time on reorders. The others are weight gradients of
// larger windows over channels-last images, up to ten times as fast. A transposed convolution is the data gradient of
// the untransposed one that maps its result to its input, so three kinds of primitive serve all six cases. Activations
// that lie channels-last are used as they are. For others oneDNN chooses (blocked) layouts and the plan reorders
// operands, which is cheaper than to convolve unblocked channels-first data. Two cases need no reorder: a pointwise
// convolution of such data is a matrix product per image, and one whose window covers the whole image is a matrix
// product. Weights are reordered in every call, unless the kernel knows that they are constants: then their reordered
// form is kept. Operands in neither dense order, f16, 8-bit floats, and bf16 where the processor lacks it, are copied
// to dense f32 first; results are rounded once. f64, integers and complex numbers are those of wide_convolution.h.
#include <algorithm>
#include <array>
#include <string>

#include "host_kernels/builtin_kernels.h"
#include "host_kernels/dense_order.h"
#include "host_kernels/depthwise_loops.h"
#include "host_kernels/isa_variant.h"
#include "host_kernels/nested_copy.h"
#include "host_kernels/onednn/convolution_primitives.h"
#include "host_kernels/onednn/convolution_problem.h"
#include "host_kernels/onednn/primitive_plan.h"
#include "host_kernels/onednn/wide_convolution.h"
#include "host_kernels/winograd.h"
#include "kernels/registry/kernel_entry.h"
#include "runtime/base/config.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

// --- depthwise loops -------------------------------------------------------------------------------------------------

// Rows of results that are shorter go through oneDNN: reorders of small planes cost less than half-empty vectors.
constexpr int64_t kMinDepthwiseWidth = 24;

// The least taps of a window from which our loops give its gradient faster.
constexpr int64_t kMinGradientTaps = 10;

bool is_depthwise(const ConvolutionProblem& problem) noexcept {
  if (problem.transposed || problem.rank != 4 || problem.compute != MYDEV_F32 || problem.groups == 1) return false;
  for (const ConvolutionOperand& operand : problem.operands) {
    if (operand.copied) return false;
  }
  return problem.groups == problem[kSource].buffer->sizes[1];
}

bool has_depthwise_planes(const ConvolutionProblem& problem) noexcept {
  if (problem.kind != PlanKind::kConvolution || !is_depthwise(problem)) return false;
  for (const ConvolutionRole role : {kSource, kWeights, kDestination}) {
    if (problem[role].order() != kChannelsFirst) return false;
  }
  const int64_t* kernel = problem[kWeights].buffer->sizes;
  return kernel[2] == 3 && kernel[3] == 3 && problem.dilation[0] == 1 && problem.dilation[1] == 1 &&
         problem.stride[1] <= 2 && problem[kDestination].buffer->sizes[3] >= kMinDepthwiseWidth;
}

bool has_depthwise_gradient(const ConvolutionProblem& problem) noexcept {
  if (problem.kind != PlanKind::kConvolutionBackwardWeights || !is_depthwise(problem)) return false;
  const mydev_buffer& weights = *problem[kWeights].buffer;
  return (problem[kSource].orders & problem[kDestination].orders & kChannelsLast) != 0 &&
         problem[kWeights].order() == kChannelsFirst && weights.sizes[0] == problem.groups &&
         weights.sizes[2] * weights.sizes[3] >= kMinGradientTaps && weights.sizes[3] <= DepthwiseGradient::kMostTaps;
}

DepthwiseAxis depthwise_axis(const ConvolutionProblem& problem, size_t i) noexcept {
  return {problem[kSource].buffer->sizes[i + 2],
          problem[kDestination].buffer->sizes[i + 2],
          problem.stride[i],
          problem.padding[i],
          problem[kWeights].buffer->sizes[i + 2],
          problem.dilation[i]};
}

float* floats_of(const ConvolutionProblem& problem, ConvolutionRole role) noexcept {
  return problem[role].present() ? static_cast<float*>(problem[role].buffer->data) : nullptr;
}

const DepthwiseLoops& depthwise_loops_for_this_processor() {
  return MYDEV_ISA_VARIANT(instruction_set(), depthwise_loops);
}

void run_depthwise_planes(const ConvolutionProblem& problem) {
  const int64_t* destination = problem[kDestination].buffer->sizes;
  const DepthwiseGeometry geometry{destination[1], destination[1] / problem.groups, depthwise_axis(problem, 0),
                                   depthwise_axis(problem, 1)};
  const int64_t work = destination[2] * destination[3] * 9;
  parallel_for(destination[0] * destination[1], std::max<int64_t>(kGrainCheap / work, 1),
               [&](int64_t begin, int64_t end) {
                 depthwise_loops_for_this_processor().planes(geometry, floats_of(problem, kSource),
                                                             floats_of(problem, kWeights), floats_of(problem, kBias),
                                                             floats_of(problem, kDestination), begin, end);
               });
}

void run_depthwise_gradient(const ConvolutionProblem& problem) {
  const int64_t* destination = problem[kDestination].buffer->sizes;
  DepthwiseGradient gradient{.images = destination[0],
                             .channels = destination[1],
                             .height = depthwise_axis(problem, 0),
                             .width = depthwise_axis(problem, 1),
                             .rows_per_part = 1,
                             .grad_out = floats_of(problem, kDestination),
                             .x = floats_of(problem, kSource),
                             .grad_weight = floats_of(problem, kWeights),
                             .grad_bias = floats_of(problem, kBias)};
  const int64_t wanted_parts = (parallel_threads() + gradient.blocks() - 1) / gradient.blocks();
  const int64_t most_rows = DepthwiseGradient::kMostTaps / gradient.width.kernel;
  gradient.rows_per_part = std::clamp<int64_t>(gradient.height.kernel / wanted_parts, 1, most_rows);
  const int64_t work = gradient.images * gradient.height.out * gradient.width.out * gradient.rows_per_part *
                       gradient.width.kernel * std::min(gradient.channels, DepthwiseGradient::kBlock);
  parallel_for(gradient.items(), std::max<int64_t>(kGrainCheap / work, 1), [&](int64_t begin, int64_t end) {
    depthwise_loops_for_this_processor().gradient(gradient, begin, end);
  });
}

// --- 3 x 3 windows ---------------------------------------------------------------------------------------------------

// The least for which winograd.h takes less time than oneDNN: of channels, their products over their sums; of tiles;
// and of columns, since vectors hold tiles of one row.
constexpr int64_t kWinogradChannels = 24, kWinogradTiles = 192;
int64_t winograd_columns() {
  return instruction_set() == InstructionSet::kAvx512 ? 10 : 7;
}

const WinogradLoops& winograd_for_this_processor() {
  return MYDEV_ISA_VARIANT(instruction_set(), winograd_loops);
}

bool suits_winograd(const ConvolutionProblem& problem) {
  static const bool wanted = config_string("MYDEV_WINOGRAD") == "1";
  if (!wanted || problem.rank != 4 || problem.compute != MYDEV_F32 || problem.groups != 1) return false;
  for (const ConvolutionRole role : {kSource, kWeights, kDestination}) {
    if (problem[role].copied || problem[role].order() != kChannelsFirst) return false;
  }
  const int64_t *weights = problem[kWeights].buffer->sizes, *out = problem[kDestination].buffer->sizes;
  for (size_t i = 0; i < 2; ++i) {
    if (weights[i + 2] != 3 || problem.stride[i] != 1 || problem.dilation[i] != 1 || problem.padding[i] > 2)
      return false;
  }
  return weights[0] * weights[1] >= kWinogradChannels * (weights[0] + weights[1]) && out[3] >= winograd_columns() &&
         out[0] * ((out[2] + 1) / 2) * ((out[3] + 1) / 2) >= kWinogradTiles;
}

// A data gradient is a convolution, too: of the result's gradient, with windows that are turned half around. Gradients
// of weights have the images of the convolution itself.
WinogradConvolution winograd_convolution(const ConvolutionProblem& problem) noexcept {
  const bool forward = problem.kind != PlanKind::kConvolutionBackwardData;
  const int64_t* x = problem[forward ? kSource : kDestination].buffer->sizes;
  const int64_t* out = problem[forward ? kDestination : kSource].buffer->sizes;
  const int64_t* weights = problem[kWeights].buffer->sizes;
  const float* first = floats_of(problem, kWeights);
  const int64_t sign = forward ? 1 : -1, outermost = weights[1] * 9;
  return {.images = x[0],
          .in_channels = x[1],
          .out_channels = out[1],
          .in_height = x[2],
          .in_width = x[3],
          .out_height = out[2],
          .out_width = out[3],
          .padding_top = forward ? problem.padding[0] : 2 - problem.padding[0],
          .padding_left = forward ? problem.padding[1] : 2 - problem.padding[1],
          .x = floats_of(problem, forward ? kSource : kDestination),
          .weights = forward ? first : first + 8,
          .weight_out = forward ? outermost : 9,
          .weight_in = forward ? 9 : outermost,
          .weight_row = sign * 3,
          .weight_column = sign,
          .bias = problem.kind == PlanKind::kConvolution ? floats_of(problem, kBias) : nullptr,
          .out = floats_of(problem, forward ? kDestination : kSource)};
}

// Memory that is aligned to 64 bytes, for the weights and for as many tasks as run side by side.
struct WinogradMemory {
  int64_t pieces;
  uint64_t weights, piece;
  explicit WinogradMemory(const WinogradConvolution& convolution)
      : pieces(std::min<int64_t>(winograd_for_this_processor().tasks(convolution), parallel_threads())),
        weights((winograd_for_this_processor().weight_bytes(convolution) + 63) / 64 * 64),
        piece((winograd_for_this_processor().task_bytes(convolution) + 63) / 64 * 64) {}
  uint64_t bytes() const noexcept { return weights + static_cast<uint64_t>(pieces) * piece; }
};

void run_winograd(const ConvolutionProblem& problem, char* memory, int64_t pieces) {
  const WinogradConvolution convolution = winograd_convolution(problem);
  const WinogradLoops& loops = winograd_for_this_processor();
  const WinogradMemory sizes(convolution);
  parallel_for(loops.weight_parts(convolution), 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) loops.transform_weights(convolution, part, memory);
  });
  const int64_t tasks = loops.tasks(convolution);
  parallel_for(pieces, 1, [&](int64_t first, int64_t last) {
    for (int64_t piece = first; piece < last; ++piece) {
      char* const own = memory + sizes.weights + static_cast<uint64_t>(piece) * sizes.piece;
      for (int64_t task = tasks * piece / pieces; task < tasks * (piece + 1) / pieces; ++task) {
        loops.run(convolution, task, memory, own);
      }
    }
  });
}

const WinogradGradientLoops& winograd_gradient_for_this_processor() {
  return MYDEV_ISA_VARIANT(instruction_set(), winograd_gradient_loops);
}

WinogradGradient winograd_gradient(const ConvolutionProblem& problem) noexcept {
  constexpr int64_t kFewTiles = 96, kManyTiles = 320;
  const WinogradConvolution convolution = winograd_convolution(problem);
  return {convolution, floats_of(problem, kWeights), floats_of(problem, kBias),
          std::clamp(convolution.tiles() / parallel_threads(), kFewTiles, kManyTiles)};
}

// Pieces of a gradient, each of which has sums of its own; 0 if these take too much memory.
int64_t winograd_gradient_pieces(const WinogradGradient& gradient) {
  constexpr uint64_t kMostBytes = uint64_t{1} << 27;
  const WinogradGradientLoops& loops = winograd_gradient_for_this_processor();
  const int64_t pieces = std::min<int64_t>(loops.tasks(gradient), parallel_threads());
  return static_cast<uint64_t>(pieces) * loops.piece_bytes(gradient) <= kMostBytes ? pieces : 0;
}

void run_winograd_gradient(const ConvolutionProblem& problem, char* memory, int64_t pieces) {
  const WinogradGradient gradient = winograd_gradient(problem);
  const WinogradGradientLoops& loops = winograd_gradient_for_this_processor();
  const uint64_t bytes = loops.piece_bytes(gradient);
  const int64_t tasks = loops.tasks(gradient);
  parallel_for(pieces, 1, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = tasks * piece / pieces;
      for (int64_t task = first; task < tasks * (piece + 1) / pieces; ++task) {
        loops.run(gradient, task, task == first, memory + static_cast<uint64_t>(piece) * bytes);
      }
    }
  });
  const int64_t grain = std::max<int64_t>(kGrainHeavy / (gradient.convolution.in_channels * 9), 1);
  parallel_for(gradient.convolution.out_channels, grain,
               [&](int64_t begin, int64_t end) { loops.finish(gradient, pieces, begin, end, memory); });
}

// --- the plan --------------------------------------------------------------------------------------------------------

// How a frame will be computed.
struct ConvolutionPlan {
  ConvolutionProblem problem{};
  void (*depthwise_loops)(const ConvolutionProblem& problem) = nullptr;  // instead of primitives
  bool wide = false;                                                     // by wide_convolution.h
  int64_t winograd_pieces = 0;                                           // if not 0, by winograd.h
  std::shared_ptr<PrimitivePlan> primitives;  // null, but for the other two: there is nothing to compute
  std::shared_ptr<KeptOperands> kept;         // constant weights, if they are not used as they lie
  uint64_t primitives_offset = 0, scratch_bytes = 0;
};

// The order that a copy of neither order is made in: that in which it reads the buffer best.
DenseOrder order_of_copy(const mydev_buffer& buffer) noexcept {
  return buffer.rank > 1 && buffer.strides[1] == 1 && buffer.sizes[1] > 1 ? kChannelsLast : kChannelsFirst;
}

ConvolutionPlan plan_convolution(const mydev_frame& frame, const char* kernel, PlanKind kind, uint64_t constants) {
  ConvolutionPlan plan;
  ConvolutionProblem& problem = plan.problem;
  problem = convolution_problem_of(frame, kernel, kind);
  bool nothing = true, all = true;
  for (const ConvolutionRole role : {kSource, kWeights, kDestination, kBias}) {
    const ConvolutionOperand& operand = problem[role];
    if (!operand.present()) continue;
    const bool empty = count_elements(*operand.buffer) == 0;
    all &= !empty;
    if (problem.is_output(role)) nothing &= empty;
  }
  if (nothing) return plan;
  if (!all) refuse_convolution(kernel, "an operand has no elements");
  plan.wide = !is_computed_in_f32(problem.compute);
  for (ConvolutionOperand& operand : problem.operands) {
    if (!operand.present()) continue;
    const mydev_buffer& buffer = *operand.buffer;
    operand.orders = dense_orders_of(buffer);
    operand.copied = (operand.orders == kNeitherOrder && !plan.wide) || buffer.dtype != problem.compute;
    if (!operand.copied) continue;
    if (operand.orders == kNeitherOrder) operand.orders = order_of_copy(buffer);
    operand.copy_offset = plan.scratch_bytes;
    const int64_t bytes = count_elements(buffer) * dtype_size(problem.compute);
    plan.scratch_bytes += (static_cast<uint64_t>(bytes) + 63) / 64 * 64;
  }
  plan.primitives_offset = plan.scratch_bytes;
  if (plan.wide) {
    plan.scratch_bytes += wide_convolution_bytes(problem);
    return plan;
  }
  if (works_channels_last(problem)) {  // then so do images of one position or one channel, which lie both ways
    problem[kSource].orders = problem[kDestination].orders = kChannelsLast;
  }
  if (has_depthwise_planes(problem)) plan.depthwise_loops = run_depthwise_planes;
  if (has_depthwise_gradient(problem)) plan.depthwise_loops = run_depthwise_gradient;
  if (plan.depthwise_loops != nullptr) return plan;
  if (suits_winograd(problem)) {
    if (kind == PlanKind::kConvolutionBackwardWeights) {
      const WinogradGradient gradient = winograd_gradient(problem);
      plan.winograd_pieces = winograd_gradient_pieces(gradient);
      plan.scratch_bytes =
          static_cast<uint64_t>(plan.winograd_pieces) * winograd_gradient_for_this_processor().piece_bytes(gradient);
    } else {
      const WinogradMemory memory(winograd_convolution(problem));
      plan.winograd_pieces = memory.pieces;
      plan.scratch_bytes = memory.bytes();
    }
    if (plan.winograd_pieces != 0) return plan;
  }
  problem.constant_weights = (constants >> problem[kWeights].index & 1) != 0 && !problem.is_output(kWeights);
  plan.primitives = find_convolution_primitives(problem);
  const uint64_t kept_bytes = plan.primitives->kept_bytes();
  if (kept_bytes != 0) plan.kept = std::make_shared<KeptOperands>(kept_bytes);
  plan.scratch_bytes += plan.primitives->scratch_bytes();
  return plan;
}

void run(const mydev_frame& frame, const char* kernel) {
  const auto& plan = planned<ConvolutionPlan>(frame);
  ConvolutionProblem problem = plan.problem;
  problem.move_to(frame);
  if (plan.depthwise_loops != nullptr) return plan.depthwise_loops(problem);
  if (plan.winograd_pieces != 0) {
    const bool of_weights = problem.kind == PlanKind::kConvolutionBackwardWeights;
    return (of_weights ? run_winograd_gradient : run_winograd)(problem, static_cast<char*>(frame.scratch),
                                                               plan.winograd_pieces);
  }
  if (plan.primitives == nullptr && !plan.wide) return;
  char* const scratch = static_cast<char*>(frame.scratch);
  std::array<void*, kRoles> data{};
  std::array<std::array<int64_t, kMaxConvolutionRank>, kRoles> strides;
  const auto dense_copy = [&](ConvolutionRole role) {
    const mydev_buffer& buffer = *problem[role].buffer;
    return mydev_buffer{
        data[role], buffer.sizes, strides[role].data(), buffer.rank, static_cast<int16_t>(problem.compute), 0};
  };
  for (const ConvolutionRole role : {kSource, kWeights, kDestination, kBias}) {
    const ConvolutionOperand& operand = problem[role];
    if (!operand.present()) continue;
    data[role] = operand.copied ? scratch + operand.copy_offset : operand.buffer->data;
    if (!operand.copied) continue;
    dense_strides(operand.buffer->rank, operand.buffer->sizes, operand.order(), strides[role].data());
    const bool read_once = role == kWeights && plan.kept != nullptr;
    if (!problem.is_output(role) && !read_once) nested_copy(frame, kernel, dense_copy(role), *operand.buffer);
  }
  char* const primitives_scratch = scratch + plan.primitives_offset;
  void* kept = nullptr;
  if (plan.kept != nullptr) {
    kept = plan.kept->filled([&](void* memory) {
      if (problem[kWeights].copied) nested_copy(frame, kernel, dense_copy(kWeights), *problem[kWeights].buffer);
      with_onednn_errors(kernel, [&] { plan.primitives->prepare(data, primitives_scratch, memory); });
    });
  }
  if (plan.wide) {
    ConvolutionBuffers buffers{};
    for (const ConvolutionRole role : {kSource, kWeights, kDestination, kBias}) {
      if (problem[role].present()) buffers[role] = problem[role].copied ? dense_copy(role) : *problem[role].buffer;
    }
    run_wide_convolution(frame, problem, buffers, primitives_scratch);
  } else {
    with_onednn_errors(kernel, [&] { plan.primitives->run(data, primitives_scratch, kept); });
  }
  for (const ConvolutionRole role : {kSource, kWeights, kDestination, kBias}) {
    const ConvolutionOperand& operand = problem[role];
    if (operand.copied && problem.is_output(role)) nested_copy(frame, kernel, *operand.buffer, dense_copy(role));
  }
}

constexpr const char* kNames[] = {"mydev.convolution", "mydev.convolution_backward_data",
                                  "mydev.convolution_backward_weights"};

template <PlanKind kind>
constexpr const char* name_of() {
  return kNames[static_cast<int>(kind) - static_cast<int>(PlanKind::kConvolution)];
}

template <PlanKind kind>
ConvolutionPlan plan_of_kind(const mydev_frame& frame, uint64_t constants) {
  return plan_convolution(frame, name_of<kind>(), kind, constants);
}

template <PlanKind kind>
mydev_code convolution_entry(const mydev_frame* frame) {
  return run_entry(*frame, [&] { run(*frame, name_of<kind>()); });
}

constexpr mydev_limits kAnyDtypes = {sizeof(mydev_limits), ~uint64_t{0}, -1, 0};

template <PlanKind kind>
constexpr mydev_kernel record() {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name_of<kind>();
  kernel.entry = convolution_entry<kind>;
  kernel.limits = &kAnyDtypes;
  kernel.plan = plan_entry<ConvolutionPlan, plan_of_kind<kind>>;
  return kernel;
}

constexpr mydev_kernel kConvolutionRecords[] = {record<PlanKind::kConvolution>(),
                                                record<PlanKind::kConvolutionBackwardData>(),
                                                record<PlanKind::kConvolutionBackwardWeights>()};

}  // namespace

std::span<const mydev_kernel> convolution() {
  return kConvolutionRecords;
}

}  // namespace mydev::kernels
