// Kernel group convolution, in 1, 2 or 3 dimensions:
//
//   mydev.convolution(out, x, weight[, bias]; ...)
//   mydev.convolution_backward_data(grad_x, grad_out, weight; ...)
//   mydev.convolution_backward_weights(grad_weight[, grad_bias], grad_out, x; ...)
//
// each with the attributes stride[], padding[], dilation[], transposed, output_padding[], groups. x is [N, C,
// spatial...], weight [O, C / groups, kernel...] or, transposed, [C, O / groups, kernel...]; dilation 1 means none;
// output_padding is less than the stride. One dtype for all: f32, bf16 or f16. Every operand must have elements, or
// every result none. There is no grad_bias of a transposed convolution: it is a plain sum.
//
// Policy. Work is a plan of oneDNN primitives, but for 3 x 3 depthwise convolutions of wide channels-first f32 images,
// which would spend most of their time on reorders: these have loops of our own (depthwise_loops.h). A transposed
// convolution is the data gradient of the plain one that maps its result to its input, so three kinds of primitive
// serve all six cases. Where the activations lie channels-last they are used as they are; else oneDNN chooses (blocked)
// layouts and the plan reorders operands, which is cheaper than to convolve plain channels-first data. Two cases need
// no reorder: a pointwise convolution of such data is a matrix product per image, and one whose window covers the whole
// image is a matrix product. Weights are reordered in every call:
// nothing tells a kernel that they have not changed. Operands in neither dense order, f16, and bf16 where the processor
// lacks it, are copied to dense f32 first; results are rounded once.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "host_kernels/builtin_kernels.h"
#include "host_kernels/dense_order.h"
#include "host_kernels/depthwise_loops.h"
#include "runtime/instruction_set.h"
#include "host_kernels/nested_copy.h"
#include "host_kernels/onednn/primitive_cache.h"
#include "host_kernels/onednn/primitive_plan.h"
#include "kernels/registry/kernel_entry.h"
#include "runtime/frame.h"
#include "runtime/parallel.h"

namespace mydev::kernels {

namespace {

constexpr int kMaxConvolutionRank = 5;
using Dims = dnnl::memory::dims;
using Descriptor = dnnl::memory::desc;

// One operand: what the frame gives, and what the plan works on.
struct Operand {
  const mydev_buffer* buffer = nullptr;
  unsigned orders = kNeitherOrder;
  bool copied = false;       // the plan works on a dense copy in scratch
  uint64_t copy_offset = 0;  // of it

  bool present() const noexcept { return buffer != nullptr; }
  DenseOrder order() const noexcept { return (orders & kChannelsFirst) != 0 ? kChannelsFirst : kChannelsLast; }
};

// Operands of a plan, in this order. "src" and "dst" are those of the plain convolution.
enum Role : int32_t { kSource, kWeights, kDestination, kBias, kRoles };

struct Problem {
  const char* kernel;
  PlanKind kind;
  bool transposed;
  std::array<Operand, kRoles> operands;
  int rank;
  int64_t groups;
  std::array<int64_t, 3> stride, padding, dilation;
  mydev_dtype compute;

  const Operand& operator[](Role role) const noexcept { return operands[role]; }
  Operand& operator[](Role role) noexcept { return operands[role]; }
  bool is_output(Role role) const noexcept {
    switch (kind) {
      case PlanKind::kConvolution:
        return role == kDestination;
      case PlanKind::kConvolutionBackwardData:
        return role == kSource;
      default:
        return role == kWeights || role == kBias;
    }
  }
};

// Numbers of the attributes, in their order.
enum Attribute : uint32_t { kStride, kPadding, kDilation, kTransposed, kOutputPadding, kGroups, kAttributes };

[[noreturn]] void refuse(const char* kernel, const std::string& why) {
  throw Error(MYDEV_INVALID_ARGUMENT, std::string(kernel) + ": " + why);
}

// Whether sizes of source, weights and destination fit the parameters.
void check_sizes(const Problem& problem) {
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
  if (!fits) refuse(problem.kernel, "sizes of the operands do not fit together");
}

Problem problem_of(const mydev_frame& frame, const char* kernel, PlanKind kind) {
  const uint32_t num_buffers = frame.num_outputs + frame.num_inputs;
  const bool weights_gradient = kind == PlanKind::kConvolutionBackwardWeights;
  const bool has_bias = num_buffers == 4;
  const uint32_t outputs = weights_gradient && has_bias ? 2 : 1;
  if (num_buffers < 3 || num_buffers > 4 || frame.num_outputs != outputs || frame.num_attributes != kAttributes ||
      (has_bias && kind == PlanKind::kConvolutionBackwardData)) {
    refuse(kernel, "takes other operands or attributes; see its doc");
  }
  const mydev_attribute* attributes = frame.attributes;
  Problem problem{};
  problem.kernel = kernel;
  problem.transposed = attributes[kTransposed].value.i != 0;
  problem.groups = attributes[kGroups].value.i;
  // The plain convolution's operands. Transposed, it maps the result to the input.
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
  problem.rank = x->rank;
  if (x->rank < 3 || x->rank > kMaxConvolutionRank || weights->rank != x->rank || out->rank != x->rank ||
      (bias != nullptr && bias->rank != 1)) {
    refuse(kernel, "operands must have 3, 4 or 5 dimensions, all the same, and a bias one");
  }
  const size_t spatial = static_cast<size_t>(x->rank - 2);
  for (const Attribute list : {kStride, kPadding, kDilation, kOutputPadding}) {
    if (attributes[list].kind != MYDEV_ATTRIBUTE_INT_ARRAY || attributes[list].count != spatial) {
      refuse(kernel, "stride, padding, dilation and output_padding need one number per spatial dimension");
    }
  }
  for (size_t i = 0; i < spatial; ++i) {
    problem.stride[i] = attributes[kStride].value.ints[i];
    problem.padding[i] = attributes[kPadding].value.ints[i];
    problem.dilation[i] = attributes[kDilation].value.ints[i];
  }
  const mydev_dtype dtype = static_cast<mydev_dtype>(x->dtype);
  if (dtype != MYDEV_F32 && dtype != MYDEV_BF16 && dtype != MYDEV_F16) {
    throw Error(MYDEV_UNIMPLEMENTED, std::string(kernel) + ": takes f32, bf16 and f16, got " + dtype_name(dtype));
  }
  for (const Operand& operand : problem.operands) {
    if (operand.present() && operand.buffer->dtype != x->dtype) refuse(kernel, "operands must have one dtype");
  }
  if (bias != nullptr && weights_gradient && problem.transposed) {
    refuse(kernel, "gives no bias gradient of a transposed convolution; sum grad_out over all but its channels");
  }
  // The bias of a transposed convolution is added to its result, which must not be rounded yet.
  const bool rounds_early = problem.transposed && bias != nullptr;
  problem.compute = onednn_supports(dtype) && !rounds_early ? dtype : MYDEV_F32;
  check_sizes(problem);
  if (bias != nullptr && bias->sizes[0] != (problem.transposed ? x : out)->sizes[1]) {
    refuse(kernel, "the bias must have one element per output channel");
  }
  return problem;
}

// --- the plan --------------------------------------------------------------------------------------------------------

// The operand as oneDNN sees it: weights in groups, a bias as it is.
Descriptor descriptor_of(const Problem& problem, Role role) {
  const Operand& operand = problem[role];
  const mydev_buffer& buffer = *operand.buffer;
  const auto type = onednn_dtype(problem.compute);
  if (role == kBias) return {{buffer.sizes[0]}, type, Dims{1}};
  Dims sizes(buffer.sizes, buffer.sizes + buffer.rank), strides(sizes.size());
  dense_strides(buffer.rank, buffer.sizes, operand.order(), strides.data());
  if (role == kWeights && problem.groups > 1) {
    sizes[0] /= problem.groups;
    strides.insert(strides.begin(), sizes[0] * strides[0]);
    sizes.insert(sizes.begin(), problem.groups);
  }
  return {sizes, type, strides};
}

Descriptor any_like(const Descriptor& descriptor) {
  return {descriptor.get_dims(), descriptor.get_data_type(), dnnl::memory::format_tag::any};
}

// Activations that all lie channels-last are used so.
bool works_channels_last(const Problem& problem) noexcept {
  const unsigned source = problem[kSource].orders, destination = problem[kDestination].orders;
  return (source & destination & kChannelsLast) != 0 && (source & destination & kChannelsFirst) == 0;
}

// Steps around one primitive: operands in its layouts.
class PlanBuilder {
 public:
  PlanBuilder(const Problem& problem, PrimitivePlan& plan) : problem_(problem), plan_(plan) {}

  // An operand for the primitive, which wants it as `wanted`.
  void use(Role role, int32_t argument, const Descriptor& wanted) {
    const Descriptor given = descriptor_of(problem_, role);
    PrimitivePlan::Argument place{argument, role, 0, wanted};
    if (given != wanted) {
      place = {argument, PrimitivePlan::kScratch, plan_.reserve(wanted.get_size()), wanted};
      const PrimitivePlan::Argument at_home{0, role, 0, given};
      if (problem_.is_output(role)) {
        after_.push_back({place, at_home});
      } else {
        plan_.add_reorder(at_home, place);
      }
    }
    arguments_.push_back(place);
  }
  void run(const dnnl::primitive& primitive, const dnnl::primitive_desc_base& descriptor) {
    plan_.add_step(primitive, descriptor, arguments_);
    for (const auto& [from, to] : after_) plan_.add_reorder(from, to);
  }

 private:
  const Problem& problem_;
  PrimitivePlan& plan_;
  std::vector<PrimitivePlan::Argument> arguments_;
  std::vector<std::pair<PrimitivePlan::Argument, PrimitivePlan::Argument>> after_;
};

// [C] as [1, C, 1...]
Descriptor per_channel(const Problem& problem) {
  Dims sizes(static_cast<size_t>(problem.rank), 1), strides(sizes.size(), 1);
  sizes[1] = strides[0] = problem[kBias].buffer->sizes[0];
  return {sizes, onednn_dtype(problem.compute), strides};
}

dnnl::primitive_attr attributes_for_plan() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// A transposed convolution's bias: its result is the plain one's source.
void add_bias_step(const Problem& problem, PrimitivePlan& plan) {
  const Descriptor result = descriptor_of(problem, kSource), bias = per_channel(problem);
  const dnnl::binary::primitive_desc descriptor(onednn_engine(), dnnl::algorithm::binary_add, result, bias, result,
                                                attributes_for_plan());
  plan.add_step(
      dnnl::binary(descriptor), descriptor,
      {{DNNL_ARG_SRC_0, kSource, 0, result}, {DNNL_ARG_SRC_1, kBias, 0, bias}, {DNNL_ARG_DST, kSource, 0, result}});
}

// Whether the convolution, or its data gradient, is a matrix product per image of channels-first data.
bool is_pointwise(const Problem& problem) noexcept {
  if (problem.kind == PlanKind::kConvolutionBackwardWeights || problem.groups != 1) return false;
  for (int i = 0; i + 2 < problem.rank; ++i) {
    const size_t d = static_cast<size_t>(i);
    if (problem[kWeights].buffer->sizes[i + 2] != 1 || problem.stride[d] != 1 || problem.padding[d] != 0) return false;
  }
  return problem[kSource].order() == kChannelsFirst && problem[kDestination].order() == kChannelsFirst;
}

// Null if oneDNN has no fast kernel for it.
std::shared_ptr<PrimitivePlan> make_pointwise_plan(const Problem& problem) {
  const bool forward = problem.kind == PlanKind::kConvolution;
  const Role from = forward ? kSource : kDestination, to = forward ? kDestination : kSource;
  const mydev_buffer &from_buffer = *problem[from].buffer, &to_buffer = *problem[to].buffer;
  const auto type = onednn_dtype(problem.compute);
  const int64_t images = to_buffer.sizes[0], positions = count_elements(to_buffer) / (images * to_buffer.sizes[1]);
  const auto image_descriptor = [&](int64_t channels) {
    return Descriptor({images, channels, positions}, type, Dims{channels * positions, positions, 1});
  };
  const int64_t to_channels = to_buffer.sizes[1], from_channels = from_buffer.sizes[1];
  const Descriptor weights({1, to_channels, from_channels}, type,
                           forward ? Dims{to_channels * from_channels, from_channels, 1}
                                   : Dims{to_channels * from_channels, 1, to_channels});
  const Descriptor input = image_descriptor(from_channels), output = image_descriptor(to_channels);
  const Descriptor bias({1, to_channels, 1}, type, Dims{to_channels, 1, 1});
  dnnl::primitive_attr attributes = attributes_for_plan();
  dnnl::post_ops post_ops;
  if (problem[kBias].present()) post_ops.append_binary(dnnl::algorithm::binary_add, bias);
  attributes.set_post_ops(post_ops);
  const dnnl::matmul::primitive_desc descriptor(onednn_engine(), weights, input, output, attributes);
  if (std::strncmp(descriptor.impl_info_str(), "ref", 3) == 0) return nullptr;
  std::vector<PrimitivePlan::Argument> arguments = {
      {DNNL_ARG_SRC, kWeights, 0, weights}, {DNNL_ARG_WEIGHTS, from, 0, input}, {DNNL_ARG_DST, to, 0, output}};
  if (problem[kBias].present()) {
    arguments.push_back({DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1, kBias, 0, bias});
  }
  auto plan = std::make_shared<PrimitivePlan>();
  plan->add_step(dnnl::matmul(descriptor), descriptor, std::move(arguments));
  return plan;
}

// Whether the window covers each image, so that every output is one position: images and weights are rows of matrices.
bool is_whole_window(const Problem& problem) noexcept {
  if (problem.groups != 1 || problem[kSource].order() != problem[kWeights].order()) return false;
  for (int i = 0; i + 2 < problem.rank; ++i) {
    const int64_t window = problem[kWeights].buffer->sizes[i + 2], image = problem[kSource].buffer->sizes[i + 2];
    const size_t d = static_cast<size_t>(i);
    if (window != image || problem.padding[d] != 0 || problem.dilation[d] != 1) return false;
  }
  return problem[kDestination].order() == kChannelsFirst && (!problem.transposed || !problem[kBias].present());
}

std::shared_ptr<PrimitivePlan> make_whole_window_plan(const Problem& problem) {
  const auto type = onednn_dtype(problem.compute);
  const int64_t images = problem[kSource].buffer->sizes[0], channels = problem[kDestination].buffer->sizes[1];
  const int64_t pixels = count_elements(*problem[kSource].buffer) / images;
  const Descriptor source({images, pixels}, type, Dims{pixels, 1}),
      destination({images, channels}, type, Dims{channels, 1});
  const Descriptor weights({channels, pixels}, type, Dims{pixels, 1}), bias({1, channels}, type, Dims{channels, 1});
  const Descriptor weights_transposed({pixels, channels}, type, Dims{1, pixels});
  const Descriptor destination_transposed({channels, images}, type, Dims{1, channels});
  const dnnl::engine& engine = onednn_engine();
  const dnnl::primitive_attr attributes = attributes_for_plan();
  const bool has_bias = problem[kBias].present();
  auto plan = std::make_shared<PrimitivePlan>();
  switch (problem.kind) {
    case PlanKind::kConvolution: {
      const dnnl::matmul::primitive_desc product(engine, source, weights_transposed, has_bias ? bias : Descriptor(),
                                                 destination, attributes);
      std::vector<PrimitivePlan::Argument> arguments = {{DNNL_ARG_SRC, kSource, 0, source},
                                                        {DNNL_ARG_WEIGHTS, kWeights, 0, weights_transposed},
                                                        {DNNL_ARG_DST, kDestination, 0, destination}};
      if (has_bias) arguments.push_back({DNNL_ARG_BIAS, kBias, 0, bias});
      plan->add_step(dnnl::matmul(product), product, std::move(arguments));
      break;
    }
    case PlanKind::kConvolutionBackwardData: {
      const dnnl::matmul::primitive_desc product(engine, destination, weights, source, attributes);
      plan->add_step(dnnl::matmul(product), product,
                     {{DNNL_ARG_SRC, kDestination, 0, destination},
                      {DNNL_ARG_WEIGHTS, kWeights, 0, weights},
                      {DNNL_ARG_DST, kSource, 0, source}});
      break;
    }
    default: {
      const dnnl::matmul::primitive_desc product(engine, destination_transposed, source, weights, attributes);
      plan->add_step(dnnl::matmul(product), product,
                     {{DNNL_ARG_SRC, kDestination, 0, destination_transposed},
                      {DNNL_ARG_WEIGHTS, kSource, 0, source},
                      {DNNL_ARG_DST, kWeights, 0, weights}});
      if (!has_bias) break;
      if (images == 1) {  // which a reduction refuses
        plan->add_reorder({0, kDestination, 0, destination}, {0, kBias, 0, bias});
        break;
      }
      const dnnl::reduction::primitive_desc sum(engine, dnnl::algorithm::reduction_sum, destination, bias, 0, 0,
                                                attributes);
      plan->add_step(dnnl::reduction(sum), sum,
                     {{DNNL_ARG_SRC, kDestination, 0, destination}, {DNNL_ARG_DST, kBias, 0, bias}});
      break;
    }
  }
  return plan;
}

std::shared_ptr<PrimitivePlan> make_plan(const Problem& problem) {
  if (is_whole_window(problem)) return make_whole_window_plan(problem);
  if (is_pointwise(problem)) {
    if (auto plan = make_pointwise_plan(problem)) return plan;
  }
  const int spatial = problem.rank - 2;
  const mydev_buffer &source_buffer = *problem[kSource].buffer, &weights_buffer = *problem[kWeights].buffer,
                     &destination_buffer = *problem[kDestination].buffer;
  Dims stride, dilation, padding_before, padding_after;
  for (int i = 0; i < spatial; ++i) {
    const size_t d = static_cast<size_t>(i);
    const int64_t span = (weights_buffer.sizes[i + 2] - 1) * problem.dilation[d] + 1;
    stride.push_back(problem.stride[d]);
    dilation.push_back(problem.dilation[d] - 1);  // oneDNN counts the gaps
    padding_before.push_back(problem.padding[d]);
    padding_after.push_back((destination_buffer.sizes[i + 2] - 1) * problem.stride[d] + span -
                            source_buffer.sizes[i + 2] - problem.padding[d]);
  }
  Descriptor source = descriptor_of(problem, kSource), destination = descriptor_of(problem, kDestination);
  const Descriptor weights = any_like(descriptor_of(problem, kWeights));
  if (!works_channels_last(problem)) {
    source = any_like(source);
    destination = any_like(destination);
  }
  const bool native_bias = problem[kBias].present() && !problem.transposed;
  const Descriptor bias = native_bias ? descriptor_of(problem, kBias) : Descriptor();
  const auto algorithm = dnnl::algorithm::convolution_direct;
  const auto propagation =
      problem.kind == PlanKind::kConvolution ? dnnl::prop_kind::forward_inference : dnnl::prop_kind::forward_training;
  const dnnl::primitive_attr attributes = attributes_for_plan();
  const dnnl::engine& engine = onednn_engine();
  const dnnl::convolution_forward::primitive_desc forward(engine, propagation, algorithm, source, weights, bias,
                                                          destination, stride, dilation, padding_before, padding_after,
                                                          attributes);
  auto plan = std::make_shared<PrimitivePlan>();
  PlanBuilder builder(problem, *plan);
  switch (problem.kind) {
    case PlanKind::kConvolution: {
      builder.use(kSource, DNNL_ARG_SRC, forward.src_desc());
      builder.use(kWeights, DNNL_ARG_WEIGHTS, forward.weights_desc());
      if (native_bias) builder.use(kBias, DNNL_ARG_BIAS, forward.bias_desc());
      builder.use(kDestination, DNNL_ARG_DST, forward.dst_desc());
      builder.run(dnnl::convolution_forward(forward), forward);
      break;
    }
    case PlanKind::kConvolutionBackwardData: {
      const dnnl::convolution_backward_data::primitive_desc backward(engine, algorithm, source, weights, destination,
                                                                     stride, dilation, padding_before, padding_after,
                                                                     forward, attributes);
      builder.use(kDestination, DNNL_ARG_DIFF_DST, backward.diff_dst_desc());
      builder.use(kWeights, DNNL_ARG_WEIGHTS, backward.weights_desc());
      builder.use(kSource, DNNL_ARG_DIFF_SRC, backward.diff_src_desc());
      builder.run(dnnl::convolution_backward_data(backward), backward);
      if (problem[kBias].present()) add_bias_step(problem, *plan);
      break;
    }
    default: {
      const dnnl::convolution_backward_weights::primitive_desc backward(engine, algorithm, source, weights, bias,
                                                                        destination, stride, dilation, padding_before,
                                                                        padding_after, forward, attributes);
      builder.use(kSource, DNNL_ARG_SRC, backward.src_desc());
      builder.use(kDestination, DNNL_ARG_DIFF_DST, backward.diff_dst_desc());
      builder.use(kWeights, DNNL_ARG_DIFF_WEIGHTS, backward.diff_weights_desc());
      if (native_bias) builder.use(kBias, DNNL_ARG_DIFF_BIAS, backward.diff_bias_desc());
      builder.run(dnnl::convolution_backward_weights(backward), backward);
      break;
    }
  }
  return plan;
}

std::shared_ptr<PrimitivePlan> find_plan(const Problem& problem) {
  PlanKey key(problem.kind);
  key.add(problem.transposed ? 1 : 0);
  key.add(problem.compute);
  key.add(problem.rank);
  key.add(problem.groups);
  key.add(problem[kBias].present() ? 1 : 0);
  for (const Role role : {kSource, kWeights, kDestination}) {
    key.add(problem[role].order() | (problem[role].orders << 2));
    for (int i = 0; i < problem.rank; ++i) key.add(problem[role].buffer->sizes[i]);
  }
  for (size_t i = 0; i + 2 < static_cast<size_t>(problem.rank); ++i) {
    key.add(problem.stride[i]);
    key.add(problem.padding[i]);
    key.add(problem.dilation[i]);
  }
  return find_or_create_plan(key,
                             [&] { return with_onednn_errors(problem.kernel, [&] { return make_plan(problem); }); });
}

// --- depthwise loops ------------------------------------------------------------------------------------------------

DepthwiseFunction depthwise_planes() {
  switch (instruction_set()) {
#ifdef MYDEV_HAVE_AVX512
    case InstructionSet::kAvx512:
      return avx512::depthwise_planes;
#endif
#ifdef MYDEV_HAVE_AVX2
    case InstructionSet::kAvx2:
      return avx2::depthwise_planes;
#endif
    default:
      return baseline::depthwise_planes;
  }
}

// Rows of results that are shorter go through oneDNN: reorders of small planes cost less than half-empty vectors.
constexpr int64_t kMinDepthwiseWidth = 24;

bool has_depthwise_loops(const Problem& problem) noexcept {
  if (problem.kind != PlanKind::kConvolution || problem.transposed || problem.rank != 4) return false;
  if (problem.compute != MYDEV_F32 || problem.groups == 1) return false;
  for (const Role role : {kSource, kWeights, kDestination}) {
    if (problem[role].copied || problem[role].order() != kChannelsFirst) return false;
  }
  const int64_t* kernel = problem[kWeights].buffer->sizes;
  return problem.groups == problem[kSource].buffer->sizes[1] && kernel[2] == 3 && kernel[3] == 3 &&
         problem.dilation[0] == 1 && problem.dilation[1] == 1 && problem.stride[1] <= 2 &&
         problem[kDestination].buffer->sizes[3] >= kMinDepthwiseWidth && !problem[kBias].copied;
}

void run_depthwise_loops(const Problem& problem) {
  const int64_t* source = problem[kSource].buffer->sizes;
  const int64_t* destination = problem[kDestination].buffer->sizes;
  const auto axis = [&](size_t i) {
    return DepthwiseAxis{source[i + 2], destination[i + 2], problem.stride[i], problem.padding[i]};
  };
  const DepthwiseGeometry geometry{destination[1], destination[1] / source[1], axis(0), axis(1)};
  const int64_t work = destination[2] * destination[3] * 9;
  const float* bias = problem[kBias].present() ? static_cast<const float*>(problem[kBias].buffer->data) : nullptr;
  const DepthwiseFunction planes = depthwise_planes();
  parallel_for(destination[0] * destination[1], std::max<int64_t>(kGrainCheap / work, 1),
               [&](int64_t begin, int64_t end) {
                 planes(geometry, static_cast<const float*>(problem[kSource].buffer->data),
                        static_cast<const float*>(problem[kWeights].buffer->data), bias,
                        static_cast<float*>(problem[kDestination].buffer->data), begin, end);
               });
}

// --- the run ---------------------------------------------------------------------------------------------------------

// How a frame will be computed; the same for scratch_bytes and for the run.
struct Way {
  Problem problem{};
  bool depthwise_loops = false;
  std::shared_ptr<PrimitivePlan> plan;  // null, without depthwise_loops: there is nothing to compute
  uint64_t plan_offset = 0, scratch_bytes = 0;
};

// The order that a copy of neither order is made in: that in which it reads the buffer best.
DenseOrder order_of_copy(const mydev_buffer& buffer) noexcept {
  return buffer.rank > 1 && buffer.strides[1] == 1 && buffer.sizes[1] > 1 ? kChannelsLast : kChannelsFirst;
}

Way choose_way(const mydev_frame& frame, const char* kernel, PlanKind kind) {
  Way way;
  Problem& problem = way.problem;
  problem = problem_of(frame, kernel, kind);
  bool nothing = true, all = true;
  for (const Role role : {kSource, kWeights, kDestination, kBias}) {
    const Operand& operand = problem[role];
    if (!operand.present()) continue;
    const bool empty = count_elements(*operand.buffer) == 0;
    all &= !empty;
    if (problem.is_output(role)) nothing &= empty;
  }
  if (nothing) return way;
  if (!all) refuse(kernel, "an operand has no elements");
  for (Operand& operand : problem.operands) {
    if (!operand.present()) continue;
    const mydev_buffer& buffer = *operand.buffer;
    operand.orders = dense_orders_of(buffer);
    operand.copied = operand.orders == kNeitherOrder || buffer.dtype != problem.compute;
    if (!operand.copied) continue;
    if (operand.orders == kNeitherOrder) operand.orders = order_of_copy(buffer);
    operand.copy_offset = way.scratch_bytes;
    const int64_t bytes = count_elements(buffer) * dtype_size(problem.compute);
    way.scratch_bytes += (static_cast<uint64_t>(bytes) + 63) / 64 * 64;
  }
  if (works_channels_last(problem)) {  // then so do images of one position or one channel, which lie both ways
    problem[kSource].orders = problem[kDestination].orders = kChannelsLast;
  }
  way.depthwise_loops = has_depthwise_loops(problem);
  if (way.depthwise_loops) return way;
  way.plan = find_plan(problem);
  way.plan_offset = way.scratch_bytes;
  way.scratch_bytes += way.plan->scratch_bytes();
  return way;
}

void run(const mydev_frame& frame, const char* kernel, PlanKind kind) {
  const Way way = choose_way(frame, kernel, kind);
  if (way.depthwise_loops) return run_depthwise_loops(way.problem);
  if (way.plan == nullptr) return;
  if (frame.scratch_bytes < way.scratch_bytes) {
    throw Error(MYDEV_INTERNAL, std::string(kernel) + ": was given less scratch than it asked for");
  }
  const Problem& problem = way.problem;
  char* const scratch = static_cast<char*>(frame.scratch);
  std::array<void*, kRoles> data{};
  std::array<std::array<int64_t, kMaxConvolutionRank>, kRoles> strides;
  const auto dense_copy = [&](Role role) {
    const mydev_buffer& buffer = *problem[role].buffer;
    return mydev_buffer{data[role], buffer.sizes, strides[role].data(), buffer.rank, problem.compute};
  };
  for (const Role role : {kSource, kWeights, kDestination, kBias}) {
    const Operand& operand = problem[role];
    if (!operand.present()) continue;
    data[role] = operand.copied ? scratch + operand.copy_offset : operand.buffer->data;
    if (!operand.copied) continue;
    dense_strides(operand.buffer->rank, operand.buffer->sizes, operand.order(), strides[role].data());
    if (!problem.is_output(role)) nested_copy(frame, kernel, dense_copy(role), *operand.buffer);
  }
  with_onednn_errors(kernel, [&] { way.plan->run(data, scratch + way.plan_offset); });
  for (const Role role : {kSource, kWeights, kDestination, kBias}) {
    const Operand& operand = problem[role];
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
mydev_code convolution_entry(const mydev_frame* frame) {
  return run_entry(*frame, [&] { run(*frame, name_of<kind>(), kind); });
}

template <PlanKind kind>
uint64_t convolution_scratch_bytes(const mydev_frame* frame) {
  try {
    return choose_way(*frame, name_of<kind>(), kind).scratch_bytes;
  } catch (const std::exception&) {
    return 0;  // the entry meets the same error and reports it
  }
}

template <PlanKind kind>
constexpr mydev_kernel record(const char* doc) {
  return {
      sizeof(mydev_kernel), name_of<kind>(), convolution_entry<kind>, convolution_scratch_bytes<kind>, doc, nullptr};
}

#define MYDEV_CONVOLUTION_ATTRIBUTES \
  "all f32, bf16 or f16; stride[], padding[], dilation[], transposed, output_padding[], groups"
constexpr mydev_kernel kRecords[] = {
    record<PlanKind::kConvolution>(
        "out [N,O,...], x [N,C,...], weight [O,C/groups,...], bias? [O], " MYDEV_CONVOLUTION_ATTRIBUTES),
    record<PlanKind::kConvolutionBackwardData>(
        "grad_x [N,C,...], grad_out [N,O,...], weight [O,C/groups,...], " MYDEV_CONVOLUTION_ATTRIBUTES),
    record<PlanKind::kConvolutionBackwardWeights>(
        "grad_weight [O,C/groups,...], grad_bias? [O], grad_out [N,O,...], x [N,C,...], " MYDEV_CONVOLUTION_ATTRIBUTES),
};
#undef MYDEV_CONVOLUTION_ATTRIBUTES

}  // namespace

std::span<const mydev_kernel> convolution() {
  return kRecords;
}

}  // namespace mydev::kernels
