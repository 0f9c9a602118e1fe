// Contracts of the kernels of neural networks' layers, of their gradients and of losses.
#include "kernels/spec/builtin_contracts.h"

namespace mydev {

namespace {

constexpr char kFloats[] = "T: floats";

constexpr char kSoftmax[] = "dense (out T[o,d,i]) <- (in T[o,d,i])";
constexpr char kSoftmaxBackward[] =
    "dense (grad_in T[o,d,i]) <- (grad_out T[o,d,i], out T[o,d,i]) where grad_in may be grad_out";
constexpr ContractRow kSoftmaxRows[] = {
    {"mydev.softmax", kSoftmax, kFloats, "", "along d: e / sum(e), where e = exp(in - amax(in))"},
    {"mydev.log_softmax", kSoftmax, kFloats, "", "along d: x - log(sum(exp(x))), where x = in - amax(in)"},
    {"mydev.softmax_backward", kSoftmaxBackward, kFloats, "", "along d: (grad_out - sum(grad_out * out)) * out"},
    {"mydev.log_softmax_backward", kSoftmaxBackward, kFloats, "", "along d: grad_out - exp(out) * sum(grad_out)"},
};

constexpr char kReductions[] = "reduction: 0 none, 1 mean, 2 sum; without one the loss has the operands' sizes";
constexpr ContractRow kLossRows[] = {
    {"mydev.nll_loss",
     "(out T[n,s]|[1,1], total_weight T[]) <- (in T[n,c,s], target s64[n,s], weight? T[c]; reduction: int 0..2, "
     "ignore_index: int)",
     kFloats, "",
     "reduction: 0 none, 1 mean by weight, 2 sum. The loss is -weight[t] * in[n,t,s], t = target[n,s], and 0 where t "
     "is "
     "ignore_index; another t outside of 0..c-1 is OUT_OF_RANGE. total_weight is the sum of the weights that counted, "
     "0 without reduction"},
    {"mydev.nll_loss_backward",
     "(grad_in dense T[n,c,s]) <- (grad_out T[n,s]|[1,1], target s64[n,s], weight? T[c], total_weight T[1*]; "
     "reduction: int 0..2, ignore_index: int)",
     kFloats, "", "0 but at the targets that count. The rest as mydev.nll_loss"},
    {"mydev.mse_loss", "packed (out T[...]|[]) <- (in T, target T; reduction: int 0..2)", kFloats,
     "e = (in - target) * (in - target); where(reduction == 0, e, where(reduction == 1, mean(e), sum(e)))",
     kReductions},
    {"mydev.mse_loss_backward", "packed (grad_in T) <- (grad_out T[...]|[], in T, target T; reduction: int 0..2)",
     kFloats, "d = 2 * (in - target) * grad_out; where(reduction == 1, d / count(in), d)", kReductions},
    {"mydev.bce_loss",
     "packed (out T[...]|[]) <- (in T, target T, [weight? T]; reduction: int 0..2) where in: 0..1, "
     "target: 0..1",
     kFloats,
     "e = weight * ((target - 1) * max(log1p(-in), -100) - target * max(log(in), -100)); "
     "where(reduction == 0, e, where(reduction == 1, mean(e), sum(e)))",
     "in or target outside of 0..1 is INVALID_ARGUMENT; reduction: 0 none, 1 mean, 2 sum"},
    {"mydev.bce_loss_backward",
     "packed (grad_in T) <- (grad_out T[...]|[], in T, target T, [weight? T]; reduction: int 0..2)", kFloats,
     "d = weight * (in - target) / max((1 - in) * in, 1e-12) * grad_out; where(reduction == 1, d / count(in), d)",
     kReductions},
};

constexpr char kWithStatistics[] = "T: floats; S: T f32";
constexpr ContractRow kNormalizationRows[] = {
    {"mydev.batch_norm_training",
     "dense (out T[n,c,s], mean S[c], invstd S[c], &running_mean? S[c], &running_var? S[c]) <- (in T[n,c,s], "
     "weight? S[c], bias? S[c]; momentum: float, eps: float)",
     kWithStatistics, "",
     "out = (in - mean) * invstd * weight + bias for each c, invstd = 1 / sqrt(var + eps), var without correction. "
     "running = (1 - momentum) * running + momentum * new, of the corrected var"},
    {"mydev.batch_norm_inference",
     "dense (out T[n,c,s]) <- (in T[n,c,s], weight? S[c], bias? S[c], running_mean S[c], running_var S[c]; eps: float)",
     kWithStatistics, "", "out = (in - running_mean) / sqrt(running_var + eps) * weight + bias for each c"},
    {"mydev.batch_norm_backward",
     "dense (grad_in? T[n,c,s], grad_weight? S[c], grad_bias? S[c]) <- (grad_out G[n,c,s], in T[n,c,s], weight? S[c], "
     "mean S[c], invstd S[c]; training: bool, eps: float)",
     "T: floats; S: T f32; G: floats", "",
     "without training, mean and invstd are the running mean and the running variance"},
    {"mydev.layer_norm",
     "dense (out T[m,n], mean S[m*], rstd S[m*]) <- (in T[m,n], weight? S[n*], bias? S[n*]; eps: float)",
     kWithStatistics, "",
     "out = (in - mean) * rstd * weight + bias for each m, rstd = 1 / sqrt(var + eps), var without correction"},
    {"mydev.layer_norm_backward",
     "dense (grad_in? T[m,n], grad_weight? S[n*], grad_bias? S[n*]) <- (grad_out T[m,n], in T[m,n], mean S[m*], rstd "
     "S[m*], weight? S[n*])",
     kWithStatistics, "", ""},
    {"mydev.group_norm",
     "dense (out strided T[n,g,d,s], mean S[n,g], rstd S[n,g]) <- (in strided T[n,g,d,s], weight? S[g,d], bias? "
     "S[g,d]; "
     "eps: float)",
     kWithStatistics, "",
     "out = (in - mean) * rstd * weight + bias for each n and g, rstd = 1 / sqrt(var + eps), var without correction"},
    {"mydev.group_norm_backward",
     "dense (grad_in? strided T[n,g,d,s], grad_weight? S[g,d], grad_bias? S[g,d]) <- (grad_out strided T[n,g,d,s], in "
     "strided T[n,g,d,s], mean S[n,g], rstd S[n,g], weight? S[g,d])",
     kWithStatistics, "", ""},
    {"mydev.rms_norm", "dense (out T[m,n], inverse_rms T[m*]) <- (x T[m,n], weight? T[n*]; eps: float)", "T: f32 f64",
     "", "out = x * inverse_rms * weight for each m, inverse_rms = 1 / sqrt(mean(x * x) + eps)"},
    {"mydev.rms_norm_backward",
     "dense (grad_x T[m,n], grad_weight? T[n*]) <- (grad T[m,n], x T[m,n], inverse_rms T[m*], weight? T[n*])",
     "T: f32 f64", "", ""},
    {"mydev.swiglu", "packed (out T) <- (gate T, up T)", "T: f32 f64", "gate / (1 + exp(-gate)) * up", ""},
    {"mydev.swiglu_backward", "packed (grad_gate T, grad_up T) <- (grad T, gate T, up T)", "T: f32 f64",
     "s = 1 / (1 + exp(-gate)); grad_gate = grad * up * s * (1 + gate * (1 - s)); grad_up = grad * gate * s", ""},
};

constexpr char kProductTypes[] =
    "T: f16 bf16 f32 | ints f64 complex f8e4m3fn f8e5m2; R: T | f32(f16 bf16 f8e4m3fn f8e5m2) f16(f8e4m3fn f8e5m2) "
    "bf16(f8e4m3fn f8e5m2) s32(s8 u8)";
constexpr ContractRow kMatmulRows[] = {
    {"mydev.matmul",
     "(&out R[batch...,m,n]) <- (a T[batch...,m,k], b T[batch...,k,n], [addend R[batch...,m,n]]; alpha: float, beta: "
     "float) where batch: 0..1, out may be addend",
     kProductTypes, "",
     "out = alpha * (a @ b) + beta * addend, summed in R, narrower floats in f32 and rounded once. Integers wrap "
     "around, "
     "and alpha and beta are whole numbers then. Without addend, out's old value is it. With beta == 0 the addend is "
     "not read, with alpha == 0 neither a nor b"},
};

constexpr char kAttentionNotes[] =
    "softmax(scale * query @ key^T + mask) @ value, and the logarithm of the sums; g divides h, and h / g heads of the "
    "query share one of key and value; a false element of a mask of pred, and with is_causal a key beyond the query's "
    "position, is -inf; a row of -inf alone is 0, and so is its logsumexp. dropout: element [b,h,l,s] of the softmax "
    "takes word s % 4 of block ((b * H + h) * L + l) * ceil(S / 4) + s / 4 of Philox 4x32-10 from block offset on, and "
    "is divided by 1 - dropout if that is below 2^32 * (1 - dropout), else 0; where there is a state, the seed is "
    "state[0], and offset counts from block state[1]";
constexpr ContractRow kAttentionRows[] = {
    {"mydev.attention",
     "(out T[b,h,l,e], logsumexp S[b,h,l]) <- (query T[b,h,l,d], key T[b,g,s,d], value T[b,g,s,e], mask? M[b,h,l,s], "
     "[state s64[2]]; is_causal: bool, scale: float, dropout: float 0..1, seed: int, offset: int)",
     "T: floats; S: T f32; M: T f32 pred", "", kAttentionNotes},
    {"mydev.attention_backward",
     "(grad_query T[b,h,l,d], grad_key T[b,g,s,d], grad_value T[b,g,s,e]) <- (grad_out T[b,h,l,e], query T[b,h,l,d], "
     "key "
     "T[b,g,s,d], value T[b,g,s,e], out T[b,h,l,e], logsumexp S[b,h,l], mask? M[b,h,l,s], seed? s64[], offset? s64[]; "
     "is_causal: bool, scale: float, dropout: float 0..1)",
     "T: floats; S: T f32; M: T f32 pred", "",
     "out and logsumexp are those of mydev.attention, and the rest as there; "
     "seed and offset are there unless dropout is 0"},
};

#define MYDEV_CONVOLUTION                                                                                         \
  "; stride: ints[...] 1.., padding: ints[...] 0.., dilation: ints[...] 1.., transposed: bool, output_padding: "  \
  "ints[...] 0.., groups: int 1..) where u: 1..3, operands are not empty, p = where(transposed, c, o), "          \
  "q = where(transposed, o, c) / groups, v = where(transposed, (u - 1) * stride - 2 * padding + dilation * (k - " \
  "1) + output_padding + 1, floor((u + 2 * padding - dilation * (k - 1) - 1) / stride) + 1)"
constexpr char kConvolutionNotes[] =
    "n images of c channels become n of o channels; groups divides both; output_padding is less than stride; summed in "
    "the result's dtype, narrower floats in f32 and rounded once; integers wrap around";
constexpr char kConvolutionGradientTypes[] = "T: f16 bf16 f32 | ints f64 complex f8e4m3fn f8e5m2";
constexpr ContractRow kConvolutionRows[] = {
    {"mydev.convolution", "(out R[n,o,v...]) <- (x T[n,c,u...], weight T[p,q,k...], [bias R[o]]" MYDEV_CONVOLUTION,
     kProductTypes, "", kConvolutionNotes},
    {"mydev.convolution_backward_data",
     "(grad_x T[n,c,u...]) <- (grad_out T[n,o,v...], weight T[p,q,k...]" MYDEV_CONVOLUTION, kConvolutionGradientTypes,
     "", kConvolutionNotes},
    {"mydev.convolution_backward_weights",
     "(grad_weight T[p,q,k...], [grad_bias T[o]]) <- (grad_out T[n,o,v...], x T[n,c,u...]" MYDEV_CONVOLUTION,
     kConvolutionGradientTypes, "",
     "n images of c channels become n of o channels; groups divides both; output_padding is less than stride; summed "
     "as by mydev.convolution; there is no grad_bias if transposed"},
};
#undef MYDEV_CONVOLUTION

constexpr char kWindows[] = "each window has an element of x; what of it lies beyond x is left out";
constexpr char kAverages[] =
    "each window has an element of x; divided by divisor, or if that is 0 by the number of elements, with "
    "count_include_pad also of padding";
constexpr char kSplits[] = "the windows split x evenly: from floor(i h / p) up to ceil((i + 1) h / p)";
constexpr ContractRow kPoolingRows[] = {
    {"mydev.max_pool2d",
     "(out T[n,c,p,q], indices s64[n,c,p,q]) <- (x T[n,c,h,w]; kernel: ints[2] 1.., stride: ints[2] 1.., padding: "
     "ints[2] 0.., dilation: ints[2] 1..)",
     kFloats, "", "indices are positions in the plane of x: row * w + column; NaN is largest"},
    {"mydev.max_pool2d_backward", "(grad_x T[n,c,h,w]) <- (grad_out T[n,c,p,q], indices s64[n,c,p,q])", kFloats, "",
     "an index outside of the plane is undefined"},
    {"mydev.avg_pool2d",
     "(out T[n,c,p,q]) <- (x T[n,c,h,w]; kernel: ints[2] 1.., stride: ints[2] 1.., padding: ints[2] 0.., "
     "count_include_pad: bool, divisor: int)",
     kFloats, "", kAverages},
    {"mydev.avg_pool2d_backward",
     "(grad_x T[n,c,h,w]) <- (grad_out T[n,c,p,q]; kernel: ints[2] 1.., stride: ints[2] 1.., padding: ints[2] 0.., "
     "count_include_pad: bool, divisor: int)",
     kFloats, "", kAverages},
    {"mydev.adaptive_avg_pool2d", "(out T[n,c,p,q]) <- (x T[n,c,h,w])", kFloats, "", kSplits},
    {"mydev.adaptive_avg_pool2d_backward", "(grad_x T[n,c,h,w]) <- (grad_out T[n,c,p,q])", kFloats, "", kSplits},
};

constexpr char kNearestNotes[] =
    "along each dimension position i of v is position floor(i * step) of u, exact: floor((i + 0.5) * step), at most u "
    "- 1";
constexpr char kLinearNotes[] =
    "along each dimension position i of v is position x = max((i + 0.5) * step - 0.5, 0) of u, with align_corners x = "
    "i "
    "* step, between the neighbours floor(x) and floor(x) + 1, at most u - 1, by its distance; where u is v, x = i";
constexpr ContractRow kUpsampleRows[] = {
    {"mydev.upsample_nearest",
     "(out T[n,c,v...]) <- (in T[n,c,u...]; step: floats[...], exact: bool) where u: 1..3, operands are not empty",
     "T: u8 floats", "", kNearestNotes},
    {"mydev.upsample_nearest_backward",
     "(grad_in T[n,c,u...]) <- (grad_out T[n,c,v...]; step: floats[...], exact: bool) where u: 1..3", kFloats, "",
     kNearestNotes},
    {"mydev.upsample_linear",
     "(out T[n,c,v...]) <- (in T[n,c,u...]; step: floats[...], align_corners: bool) where u: 1..3, operands are not "
     "empty",
     kFloats, "", kLinearNotes},
    {"mydev.upsample_linear_backward",
     "(grad_in T[n,c,u...]) <- (grad_out T[n,c,v...]; step: floats[...], align_corners: bool) where u: 1..3", kFloats,
     "", kLinearNotes},
};

constexpr ContractGroup kGroups[] = {
    {"softmax, loss", kSoftmaxRows}, {"softmax, loss", kLossRows},  {"normalisation, gating", kNormalizationRows},
    {"matmul", kMatmulRows},         {"attention", kAttentionRows}, {"convolution", kConvolutionRows},
    {"pooling", kPoolingRows},       {"upsampling", kUpsampleRows}};

}  // namespace

std::span<const ContractGroup> network_contracts() {
  return kGroups;
}

}  // namespace mydev
