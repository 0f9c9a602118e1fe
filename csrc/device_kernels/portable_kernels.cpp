// The records of the portable kernels. The registry loads this library as it does any other library of kernels.
#include <deque>
#include <vector>

#include "device_kernels/fused/fused_kernel.h"
#include "device_kernels/kernels/data_kernels.h"
#include "device_kernels/kernels/network_kernels.h"
#include "device_kernels/text/expression_kernel.h"

namespace mydev::device_kernels {
namespace {

struct Written {
  const char* name;
  PortableKernel::Plan plan;
  const mydev_limits* beyond = nullptr;
};

constexpr Written kWritten[] = {
    {"mydev.fused", plan_fused},
    {"mydev.small_steps", plan_small_steps},
    {"mydev.copy", plan_copy},
    {"mydev.cumsum", plan_cumulative},
    {"mydev.cumprod", plan_cumulative},
    {"mydev.cummax", plan_cumulative},
    {"mydev.cummin", plan_cumulative},
    {"mydev.index_select", plan_index_select},
    {"mydev.concatenate", plan_concatenate},
    {"mydev.arange", plan_arange},
    {"mydev.embedding_backward", plan_embedding_backward},
    {"mydev.softmax", plan_softmax},
    {"mydev.log_softmax", plan_softmax},
    {"mydev.softmax_backward", plan_softmax_backward},
    {"mydev.log_softmax_backward", plan_softmax_backward},
    {"mydev.matmul", plan_matmul, &kMatmulLimits},
    {"mydev.layer_norm", plan_layer_norm},
    {"mydev.layer_norm_backward", plan_layer_norm_backward},
    {"mydev.group_norm", plan_group_norm},
    {"mydev.group_norm_backward", plan_group_norm_backward},
    {"mydev.batch_norm_training", plan_batch_norm},
    {"mydev.batch_norm_inference", plan_batch_norm_inference},
    {"mydev.batch_norm_backward", plan_batch_norm_backward},
    {"mydev.convolution", plan_convolution, &kConvolutionLimits},
    {"mydev.convolution_backward_data", plan_convolution_backward_data, &kConvolutionLimits},
    {"mydev.convolution_backward_weights", plan_convolution_backward_weights, &kConvolutionLimits},
    {"mydev.max_pool2d", plan_pool},
    {"mydev.avg_pool2d", plan_pool},
    {"mydev.max_pool2d_backward", plan_pool_backward},
    {"mydev.avg_pool2d_backward", plan_pool_backward},
    {"mydev.fused_sgd", plan_fused_sgd},
    {"mydev.fused_adam", plan_fused_adam},
    {"mydev.nll_loss", plan_nll_loss},
    {"mydev.nll_loss_backward", plan_nll_loss_backward},
    {"mydev.isin", plan_isin},
    {"mydev.gather", plan_gather},
    {"mydev.scatter", plan_scatter},
    {"mydev.scatter_add", plan_scatter},
    {"mydev.index_copy", plan_index_copy},
    {"mydev.index_add", plan_index_add},
    {"mydev.flat_index", plan_flat_index},
    {"mydev.triangle", plan_triangle},
    {"mydev.gather_slices", plan_gather_slices},
    {"mydev.scatter_slices", plan_scatter_slices},
    {"mydev.scatter_slices_add", plan_scatter_slices},
    {"mydev.scatter_slices_mul", plan_scatter_slices},
    {"mydev.scatter_slices_max", plan_scatter_slices},
    {"mydev.scatter_slices_min", plan_scatter_slices},
    {"mydev.nonzero", plan_nonzero},
    {"mydev.sort", plan_sort},
    {"mydev.topk", plan_sort},
    {"mydev.logcumsumexp", plan_cumulative},
    {"mydev.random_uniform", plan_random},
    {"mydev.random_normal", plan_random},
    {"mydev.random_exponential", plan_random},
    {"mydev.random_integers", plan_random_integers},
    {"mydev.random_bernoulli", plan_random_integers},
    {"mydev.dropout", plan_dropout},
    {"mydev.threefry2x32", plan_threefry},
    {"mydev.rng_bit_generator", plan_random_bits},
    {"mydev.rms_norm", plan_rms_norm},
    {"mydev.rms_norm_backward", plan_rms_norm_backward},
    {"mydev.adaptive_avg_pool2d", plan_adaptive_pool},
    {"mydev.adaptive_avg_pool2d_backward", plan_adaptive_pool},
    {"mydev.upsample_nearest", plan_upsample},
    {"mydev.upsample_nearest_backward", plan_upsample},
    {"mydev.upsample_linear", plan_upsample},
    {"mydev.upsample_linear_backward", plan_upsample},
    {"mydev.attention", plan_attention},
    {"mydev.attention_backward", plan_attention_backward},
};

std::vector<const mydev_kernel*> make_records() {
  static auto& kernels = *new std::deque<PortableKernel>;
  for (const KernelContract& contract : builtin_contracts()) {
    if (!contract.expression.empty()) kernels.emplace_back(contract.name.c_str(), plan_expression);
  }
  for (const auto& [name, plan, beyond] : kWritten) kernels.emplace_back(name, plan, beyond);
  std::vector<const mydev_kernel*> records;
  records.reserve(kernels.size());
  for (const PortableKernel& kernel : kernels) records.push_back(&kernel);
  return records;
}

}  // namespace
}  // namespace mydev::device_kernels

extern "C" MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major,
                                                                     uint32_t /*version_minor*/) {
  if (version_major != MYDEV_CUSTOM_CALL_VERSION_MAJOR) return nullptr;
  static const auto& records = *new std::vector(mydev::device_kernels::make_records());
  static const mydev_library library = {.struct_size = sizeof(mydev_library),
                                        .version_major = MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                        .version_minor = MYDEV_CUSTOM_CALL_VERSION_MINOR,
                                        .name = "portable kernels",
                                        .version = nullptr,
                                        .kernels = records.data(),
                                        .num_kernels = static_cast<uint32_t>(records.size())};
  return &library;
}
