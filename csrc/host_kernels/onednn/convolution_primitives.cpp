#include "host_kernels/onednn/convolution_primitives.h"

#include <cstring>
#include <utility>
#include <vector>

#include "host_kernels/onednn/primitive_plan.h"

namespace mydev::kernels {

namespace {

using Dims = dnnl::memory::dims;
using Descriptor = dnnl::memory::desc;

// The operand as oneDNN sees it: weights in groups, a bias as it is.
Descriptor descriptor_of(const ConvolutionProblem& problem, ConvolutionRole role) {
  const ConvolutionOperand& operand = problem[role];
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

// Steps around one primitive: operands in its layouts.
class PlanBuilder {
 public:
  PlanBuilder(const ConvolutionProblem& problem, PrimitivePlan& plan) : problem_(problem), plan_(plan) {}

  // An operand for the primitive, which wants it as `wanted`.
  void use(ConvolutionRole role, int32_t argument, const Descriptor& wanted) {
    const Descriptor given = descriptor_of(problem_, role);
    PrimitivePlan::Argument place{argument, role, 0, wanted};
    if (role == kWeights && problem_.constant_weights && (given != wanted || problem_[role].copied)) {
      place = plan_.keep(argument, role, given, wanted);
    } else if (given != wanted) {
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
  const ConvolutionProblem& problem_;
  PrimitivePlan& plan_;
  std::vector<PrimitivePlan::Argument> arguments_;
  std::vector<std::pair<PrimitivePlan::Argument, PrimitivePlan::Argument>> after_;
};

// [C] as [1, C, 1...]
Descriptor per_channel(const ConvolutionProblem& problem) {
  Dims sizes(static_cast<size_t>(problem.rank), 1), strides(sizes.size(), 1);
  sizes[1] = strides[0] = problem[kBias].buffer->sizes[0];
  return {sizes, onednn_dtype(problem.compute), strides};
}

dnnl::primitive_attr attributes_for_plan() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

// A transposed convolution's bias: its result is the untransposed one's source.
void add_bias_step(const ConvolutionProblem& problem, PrimitivePlan& plan) {
  const Descriptor result = descriptor_of(problem, kSource), bias = per_channel(problem);
  const dnnl::binary::primitive_desc descriptor(onednn_engine(), dnnl::algorithm::binary_add, result, bias, result,
                                                attributes_for_plan());
  plan.add_step(
      dnnl::binary(descriptor), descriptor,
      {{DNNL_ARG_SRC_0, kSource, 0, result}, {DNNL_ARG_SRC_1, kBias, 0, bias}, {DNNL_ARG_DST, kSource, 0, result}});
}

// Whether the convolution, or its data gradient, is a matrix product per image of channels-first data.
bool is_pointwise(const ConvolutionProblem& problem) noexcept {
  if (problem.kind == PlanKind::kConvolutionBackwardWeights || problem.groups != 1) return false;
  for (int i = 0; i + 2 < problem.rank; ++i) {
    const size_t d = static_cast<size_t>(i);
    if (problem[kWeights].buffer->sizes[i + 2] != 1 || problem.stride[d] != 1 || problem.padding[d] != 0) return false;
  }
  return problem[kSource].order() == kChannelsFirst && problem[kDestination].order() == kChannelsFirst;
}

// Null if oneDNN has no fast kernel for it.
std::shared_ptr<PrimitivePlan> make_pointwise_plan(const ConvolutionProblem& problem) {
  const bool forward = problem.kind == PlanKind::kConvolution;
  const ConvolutionRole from = forward ? kSource : kDestination, to = forward ? kDestination : kSource;
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
bool is_whole_window(const ConvolutionProblem& problem) noexcept {
  if (problem.groups != 1 || problem[kSource].order() != problem[kWeights].order()) return false;
  for (int i = 0; i + 2 < problem.rank; ++i) {
    const int64_t window = problem[kWeights].buffer->sizes[i + 2], image = problem[kSource].buffer->sizes[i + 2];
    const size_t d = static_cast<size_t>(i);
    if (window != image || problem.padding[d] != 0 || problem.dilation[d] != 1) return false;
  }
  return problem[kDestination].order() == kChannelsFirst && (!problem.transposed || !problem[kBias].present());
}

std::shared_ptr<PrimitivePlan> make_whole_window_plan(const ConvolutionProblem& problem) {
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

std::shared_ptr<PrimitivePlan> make_plan(const ConvolutionProblem& problem) {
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

}  // namespace

bool works_channels_last(const ConvolutionProblem& problem) noexcept {
  const unsigned source = problem[kSource].orders, destination = problem[kDestination].orders;
  return (source & destination & kChannelsLast) != 0 && (source & destination & kChannelsFirst) == 0;
}

std::shared_ptr<PrimitivePlan> find_convolution_primitives(const ConvolutionProblem& problem) {
  PlanKey key(problem.kind);
  key.add(problem.transposed ? 1 : 0);
  key.add(problem.compute);
  key.add(problem.rank);
  key.add(problem.groups);
  key.add(problem[kBias].present() ? 1 : 0);
  key.add(!problem.constant_weights ? 0 : problem[kWeights].copied ? 2 : 1);
  for (const ConvolutionRole role : {kSource, kWeights, kDestination}) {
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

}  // namespace mydev::kernels
