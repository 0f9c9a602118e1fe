#include "cuda_driver/kernels/convolution_problem.h"

#include <algorithm>
#include <limits>
#include <span>
#include <utility>

#include "cuda_driver/library/cuda_error.h"

namespace mydev::cuda_driver {

namespace {

// Numbers of the attributes, in their order.
enum : uint32_t { kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups, kAttributes };

constexpr uint64_t kConvolutionDtypes =
    MYDEV_DTYPE_BIT(MYDEV_F16) | MYDEV_DTYPE_BIT(MYDEV_BF16) | MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64);

void decline_unless(bool condition, const char* what) {
  require(condition, MYDEV_UNIMPLEMENTED, "convolves by cuDNN, which takes ", what);
}

DnnType type_of(int16_t dtype) {
  switch (dtype) {
    case MYDEV_F16:
      return DnnType::kF16;
    case MYDEV_BF16:
      return DnnType::kBf16;
    case MYDEV_F64:
      return DnnType::kF64;
    default:
      return DnnType::kF32;
  }
}

int to_int(int64_t value) {
  decline_unless(value >= 0 && value <= std::numeric_limits<int>::max(), "sizes and strides of 31 bits");
  return static_cast<int>(value);
}

// The strides of dense memory: channels after all else, or before the spatial dimensions.
std::array<int, 5> dense_strides(const std::array<int, 5>& sizes, int rank, bool channels_last) {
  std::array<int, 5> strides{};
  int64_t elements = 1;
  const auto add = [&](int d) {
    const auto at = static_cast<size_t>(d);
    strides[at] = to_int(elements);
    elements *= sizes[at];
  };
  if (channels_last) add(1);
  for (int d = rank - 1; d > 1; --d) add(d);
  if (!channels_last) add(1);
  add(0);
  to_int(elements);
  return strides;
}

// An operand whose order is not known yet, since strides of dimensions of one element mean nothing.
struct GivenOperand {
  ConvolutionOperand operand;
  bool may_be_first = false, may_be_last = false;
};

GivenOperand given(const mydev_frame& frame, uint32_t index) {
  const mydev_buffer& buffer = frame.buffers[index];
  decline_unless(buffer.rank >= 3 && buffer.rank <= 5, "one to three spatial dimensions");
  // Two spatial dimensions are the least: the first of one is added.
  const int added = buffer.rank == 3 ? 1 : 0, rank = buffer.rank + added;
  // Tensor cores read so many bytes at once, and the heuristic does not know the addresses.
  decline_unless(reinterpret_cast<uintptr_t>(buffer.data) % 16 == 0, "operands at multiples of 16 bytes");
  GivenOperand result{.operand = {.buffer = index}};
  std::array<int64_t, 5> strides{};
  result.operand.sizes.fill(1);
  for (int d = 0; d < buffer.rank; ++d) {
    const auto at = static_cast<size_t>(d < 2 ? d : d + added);
    decline_unless(buffer.sizes[d] > 0, "operands that are not empty");
    result.operand.sizes[at] = to_int(buffer.sizes[d]);
    strides[at] = buffer.strides[d];
  }
  const auto lies = [&](bool channels_last) {
    const std::array<int, 5> dense = dense_strides(result.operand.sizes, rank, channels_last);
    for (size_t d = 0; d < static_cast<size_t>(rank); ++d) {
      if (result.operand.sizes[d] != 1 && strides[d] != dense[d]) return false;
    }
    return true;
  };
  result.may_be_first = lies(false);
  result.may_be_last = lies(true);
  decline_unless(result.may_be_first || result.may_be_last, "dense operands, channels first or last");
  return result;
}

// One order for all operands if there is one, and channels last only if one must be.
void choose_orders(const std::array<GivenOperand*, 3>& operands, int rank) {
  const bool all_last = std::ranges::all_of(operands, [](const auto* each) { return each->may_be_last; });
  const bool all_first = std::ranges::all_of(operands, [](const auto* each) { return each->may_be_first; });
  for (GivenOperand* each : operands) {
    ConvolutionOperand& operand = each->operand;
    operand.channels_last = !all_first && (all_last || !each->may_be_first);
    operand.strides = dense_strides(operand.sizes, rank, operand.channels_last);
  }
}

std::array<int, 3> numbers(const mydev_frame& frame, uint32_t attribute, int missing) {
  const mydev_attribute& list = frame.attributes[attribute];
  std::array<int, 3> result{};
  const size_t added = list.count == 1 ? 1 : 0;
  if (added == 1) result[0] = missing;
  for (size_t i = 0; i < list.count; ++i) result[i + added] = to_int(list.value.ints[i]);
  return result;
}

// The frame's buffers by what they are in a convolution that is not transposed.
struct Roles {
  uint32_t source, weights, destination, bias;  // bias: 0 without one
};

Roles roles_of(const mydev_frame& frame, ConvolutionKernel kernel, bool transposed) {
  const uint32_t inputs = frame.num_outputs;
  Roles roles{};
  if (kernel == ConvolutionKernel::kBackwardWeights) {
    roles = {inputs + 1, 0, inputs, frame.num_outputs == 2 ? 1U : 0};
  } else if (kernel == ConvolutionKernel::kBackwardData) {
    roles = {0, 2, 1, 0};
  } else {
    roles = {1, 2, 0, frame.num_inputs == 3 && frame.buffers[3].dtype != MYDEV_DTYPE_INVALID ? 3U : 0};
  }
  if (transposed) std::swap(roles.source, roles.destination);
  return roles;
}

void check_sizes(const ConvolutionProblem& problem) {
  const auto &x = problem.source.sizes, &w = problem.weights.sizes, &y = problem.destination.sizes;
  bool fits = problem.groups > 0 && x[0] == y[0] && w[0] == y[1] && int64_t{w[1]} * problem.groups == x[1] &&
              y[1] % problem.groups == 0;
  for (size_t d = 0; d + 2 < static_cast<size_t>(problem.rank); ++d) {
    const int64_t span = (int64_t{w[d + 2]} - 1) * problem.dilation[d] + 1;
    const int64_t reach = x[d + 2] + 2 * int64_t{problem.padding[d]} - span;
    fits = fits && problem.stride[d] > 0 && reach >= 0 && reach / problem.stride[d] + 1 == y[d + 2];
  }
  decline_unless(fits, "operands that fit together");
}

}  // namespace

extern const mydev_limits kConvolutionLimits = {sizeof(mydev_limits), kConvolutionDtypes, 5, MYDEV_LIMIT_NO_SCALARS};

const ConvolutionOperand& ConvolutionProblem::written() const {
  return operation == ConvolutionKernel::kForward        ? destination
         : operation == ConvolutionKernel::kBackwardData ? source
                                                         : weights;
}

std::vector<int64_t> ConvolutionProblem::key() const {
  std::vector<int64_t> all = {static_cast<int64_t>(operation), static_cast<int64_t>(type), rank, groups,
                              has_bias ? bias : -1};
  for (const ConvolutionOperand* operand : {&source, &weights, &destination}) {
    all.insert(all.end(), {operand->buffer, operand->channels_last ? 1 : 0});
    all.insert(all.end(), operand->sizes.begin(), operand->sizes.end());
  }
  for (const auto* list : {&padding, &stride, &dilation}) all.insert(all.end(), list->begin(), list->end());
  return all;
}

ConvolutionProblem convolution_problem(const mydev_frame& frame, ConvolutionKernel kernel) {
  const int16_t dtype = frame.buffers[0].dtype;
  const bool transposed = frame.attributes[kTransposed].value.i != 0;
  const Roles roles = roles_of(frame, kernel, transposed);
  ConvolutionProblem problem{.operation = kernel, .type = type_of(dtype)};
  if (transposed && kernel != ConvolutionKernel::kBackwardWeights) {
    problem.operation =
        kernel == ConvolutionKernel::kForward ? ConvolutionKernel::kBackwardData : ConvolutionKernel::kForward;
  }
  for (const mydev_buffer& buffer : std::span(frame.buffers, frame.num_outputs + frame.num_inputs)) {
    decline_unless(buffer.dtype == dtype || buffer.dtype == MYDEV_DTYPE_INVALID, "operands of one dtype");
  }
  GivenOperand source = given(frame, roles.source), weights = given(frame, roles.weights),
               destination = given(frame, roles.destination);
  const int32_t rank = frame.buffers[roles.source].rank;
  decline_unless(frame.buffers[roles.weights].rank == rank && frame.buffers[roles.destination].rank == rank,
                 "operands that fit together");
  problem.rank = std::max(rank, 4);
  choose_orders({&source, &weights, &destination}, problem.rank);
  problem.source = source.operand;
  problem.weights = weights.operand;
  problem.destination = destination.operand;
  problem.groups = to_int(frame.attributes[kGroups].value.i);
  problem.padding = numbers(frame, kPadding, 0);
  problem.stride = numbers(frame, kStride, 1);
  problem.dilation = numbers(frame, kDilation, 1);
  check_sizes(problem);
  problem.has_bias = roles.bias != 0;
  problem.bias = roles.bias;
  if (problem.has_bias) {
    const mydev_buffer& bias = frame.buffers[roles.bias];
    decline_unless(bias.rank == 1 && (bias.sizes[0] == 1 || bias.strides[0] == 1), "a dense bias");
  }
  return problem;
}

}  // namespace mydev::cuda_driver
