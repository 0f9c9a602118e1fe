// The records of the portable kernels. The registry loads this library as it does any other library of kernels.
#include <algorithm>
#include <deque>
#include <vector>

#include "device_kernels/data_kernels.h"
#include "device_kernels/expression_kernel.h"
#include "device_kernels/fused_kernel.h"
#include "device_kernels/network_kernels.h"

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
    {"mydev.matmul", plan_matmul, &kProductLimits},
    {"mydev.layer_norm", plan_layer_norm},
    {"mydev.layer_norm_backward", plan_layer_norm_backward},
    {"mydev.group_norm", plan_group_norm},
    {"mydev.group_norm_backward", plan_group_norm_backward},
    {"mydev.batch_norm_training", plan_batch_norm},
    {"mydev.batch_norm_inference", plan_batch_norm_inference},
    {"mydev.batch_norm_backward", plan_batch_norm_backward},
    {"mydev.convolution", plan_convolution, &kProductLimits},
    {"mydev.convolution_backward_data", plan_convolution_backward_data, &kProductLimits},
    {"mydev.convolution_backward_weights", plan_convolution_backward_weights, &kProductLimits},
    {"mydev.max_pool2d", plan_pool},
    {"mydev.avg_pool2d", plan_pool},
    {"mydev.max_pool2d_backward", plan_pool_backward},
    {"mydev.avg_pool2d_backward", plan_pool_backward},
    {"mydev.fused_sgd", plan_fused_sgd},
    {"mydev.fused_adam", plan_fused_adam},
    {"mydev.nll_loss", plan_nll_loss},
    {"mydev.nll_loss_backward", plan_nll_loss_backward},
};

std::vector<const mydev_kernel*> make_records() {
  static auto& kernels = *new std::deque<PortableKernel>;
  for (const KernelContract& contract : builtin_contracts()) {
    if (is_printed(contract)) kernels.emplace_back(contract.name.c_str(), plan_expression);
  }
  for (const auto& [name, plan, beyond] : kWritten) kernels.emplace_back(name, plan, beyond);
  std::vector<const mydev_kernel*> records;
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
