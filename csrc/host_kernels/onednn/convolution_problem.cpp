#include "host_kernels/onednn/convolution_problem.h"

#include <utility>

#include "host_kernels/onednn/primitive_plan.h"
#include "host_kernels/wide_product.h"
#include "runtime/base/status.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

// Numbers of the attributes, in their order.
enum Attribute : uint32_t { kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups, kAttributes };

// Whether sizes of source, weights and destination fit the parameters.
void check_sizes(const ConvolutionProblem& problem) {
  const int64_t* source = problem[kSource].buffer->sizes;
  const int64_t* weights = problem[kWeights].buffer->sizes;
  const int64_t* destination = problem[kDestination].buffer->sizes;
  bool fits = source[0] == destination[0] && weights[0] == destination[1] && weights[1] * problem.groups == source[1] &&
              problem.groups > 0 && destination[1] % problem.groups == 0;
  for (int i = 0; i + 2 < problem.rank; ++i) {
    const size_t d = static_cast<size_t>(i);
    const int64_t span = (weights[i + 2] - 1) * problem.dilation[d] + 1;
    const int64_t reach = source[i + 2] + 2 * problem.padding[d] - span;
    fits &= problem.stride[d] > 0 && problem.dilation[d] > 0 && problem.padding[d] >= 0;
    fits = fits && reach / problem.stride[d] + 1 == destination[i + 2];
  }
  if (!fits) refuse_convolution(problem.kernel, "sizes of the operands do not fit together");
}

}  // namespace

ConvolutionProblem convolution_problem_of(const mydev_frame& frame, const char* kernel, PlanKind kind) {
  const uint32_t num_buffers = frame.num_outputs + frame.num_inputs;
  const bool weights_gradient = kind == PlanKind::kConvolutionBackwardWeights;
  const bool has_bias = num_buffers == 4;
  const uint32_t outputs = weights_gradient && has_bias ? 2 : 1;
  if (num_buffers < 3 || num_buffers > 4 || frame.num_outputs != outputs || frame.num_attributes != kAttributes ||
      (has_bias && kind == PlanKind::kConvolutionBackwardData)) {
    refuse_convolution(kernel, "takes other operands or attributes; see its contract");
  }
  const mydev_attribute* attributes = frame.attributes;
  ConvolutionProblem problem{};
  problem.kernel = kernel;
  problem.transposed = attributes[kTransposed].value.i != 0;
  problem.groups = attributes[kGroups].value.i;
  // The untransposed convolution's operands. Transposed, it maps the result to the input.
  const mydev_buffer *x, *out, *weights, *bias = nullptr;
  const mydev_buffer* buffers = frame.buffers;
  if (weights_gradient) {
    weights = buffers;
    bias = has_bias ? buffers + 1 : nullptr;
    out = buffers + outputs;
    x = buffers + outputs + 1;
    problem.kind = kind;
  } else {
    const bool data_gradient = kind == PlanKind::kConvolutionBackwardData;
    out = buffers + (data_gradient ? 1 : 0);
    x = buffers + (data_gradient ? 0 : 1);
    weights = buffers + 2;
    bias = has_bias ? buffers + 3 : nullptr;
    problem.kind = data_gradient != problem.transposed ? PlanKind::kConvolutionBackwardData : PlanKind::kConvolution;
  }
  if (problem.transposed) std::swap(x, out);
  problem[kSource].buffer = x;
  problem[kWeights].buffer = weights;
  problem[kDestination].buffer = out;
  problem[kBias].buffer = bias;
  for (ConvolutionOperand& operand : problem.operands) {
    if (operand.present()) operand.index = static_cast<uint32_t>(operand.buffer - frame.buffers);
  }
  problem.rank = x->rank;
  if (x->rank < 3 || x->rank > kMaxConvolutionRank || weights->rank != x->rank || out->rank != x->rank ||
      (bias != nullptr && bias->rank != 1)) {
    refuse_convolution(kernel, "operands must have 3, 4 or 5 dimensions, all the same, and a bias one");
  }
  const size_t spatial = static_cast<size_t>(x->rank - 2);
  for (const Attribute list : {kStride, kPadding, kDilation, kOutputPadding}) {
    if (attributes[list].kind != MYDEV_ATTRIBUTE_INT_ARRAY || attributes[list].count != spatial) {
      refuse_convolution(kernel, "stride, padding, dilation and output_padding need one number per spatial dimension");
    }
  }
  for (size_t i = 0; i < spatial; ++i) {
    problem.stride[i] = attributes[kStride].value.ints[i];
    problem.padding[i] = attributes[kPadding].value.ints[i];
    problem.dilation[i] = attributes[kDilation].value.ints[i];
  }
  const auto dtype = static_cast<mydev_dtype>(buffers[0].dtype),
             factors = static_cast<mydev_dtype>(buffers[outputs].dtype);
  for (const mydev_dtype known : {dtype, factors}) {
    if (!is_computed_in_f32(known) && (kWideDtypes & MYDEV_DTYPE_BIT(known)) == 0) {
      throw Error(MYDEV_UNIMPLEMENTED, std::string(kernel) + ": convolves no " + dtype_name(known));
    }
  }
  if (buffers[outputs + 1].dtype != factors || (bias != nullptr && bias->dtype != dtype)) {
    refuse_convolution(kernel, "the dtypes of its operands do not fit together; see its contract");
  }
  if (bias != nullptr && weights_gradient && problem.transposed) {
    refuse_convolution(kernel,
                       "gives no bias gradient of a transposed convolution; sum grad_out over all but its channels");
  }
  // The bias of a transposed convolution is added to its result, which must not be rounded yet.
  const bool rounds_early = problem.transposed && bias != nullptr;
  problem.compute = !is_computed_in_f32(dtype)                                    ? dtype
                    : onednn_supports(dtype) && factors == dtype && !rounds_early ? dtype
                                                                                  : MYDEV_F32;
  check_sizes(problem);
  if (bias != nullptr && bias->sizes[0] != (problem.transposed ? x : out)->sizes[1]) {
    refuse_convolution(kernel, "the bias must have one element per output channel");
  }
  return problem;
}

void refuse_convolution(const char* kernel, const std::string& why) {
  throw Error(MYDEV_INVALID_ARGUMENT, std::string(kernel) + ": " + why);
}

}  // namespace mydev::kernels
