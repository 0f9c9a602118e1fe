// The plans of kernels of neural networks' layers, of their gradients and of losses. Thread-safe.
#pragma once

#include "device_kernels/base/portable_kernel.h"

namespace mydev::device_kernels {

Work plan_softmax(const Request& request);           // mydev.softmax and mydev.log_softmax
Work plan_softmax_backward(const Request& request);  // of both
Work plan_matmul(const Request& request);
extern const mydev_limits kMatmulLimits;       // all dtypes
extern const mydev_limits kConvolutionLimits;  // all dtypes but complex ones and f8
Work plan_layer_norm(const Request& request);
Work plan_layer_norm_backward(const Request& request);
Work plan_group_norm(const Request& request);
Work plan_group_norm_backward(const Request& request);
Work plan_batch_norm(const Request& request);  // in training
Work plan_batch_norm_inference(const Request& request);
Work plan_batch_norm_backward(const Request& request);
Work plan_convolution(const Request& request);
Work plan_convolution_backward_data(const Request& request);
Work plan_convolution_backward_weights(const Request& request);
Work plan_pool(const Request& request);           // mydev.max_pool2d and mydev.avg_pool2d
Work plan_pool_backward(const Request& request);  // of both
Work plan_fused_sgd(const Request& request);
Work plan_fused_adam(const Request& request);
Work plan_nll_loss(const Request& request);
Work plan_nll_loss_backward(const Request& request);
Work plan_rms_norm(const Request& request);
Work plan_rms_norm_backward(const Request& request);
Work plan_adaptive_pool(const Request& request);  // and its gradient
Work plan_upsample(const Request& request);       // by the nearest element or linearly, and the gradients
Work plan_attention(const Request& request);
Work plan_attention_backward(const Request& request);

}  // namespace mydev::device_kernels
