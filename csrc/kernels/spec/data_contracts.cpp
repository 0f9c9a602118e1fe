// Contracts of reductions, indexing, random numbers, lists of tensors, optimizers, copies and fills.
#include "kernels/spec/builtin_contracts.h"

namespace mydev {

namespace {

constexpr char kFloats[] = "T: floats";
constexpr char kReduction[] = "(out reduced T) <- (in U) where ...: 0..16";
constexpr char kSameReduction[] = "(out reduced T) <- (in T) where ...: 0..16";
constexpr char kArgReduction[] =
    "(values? reduced T, indices reduced s64) <- (in T) where ...: 0..16, operands are not empty";
constexpr char kNumberFromAny[] = "T: ints floats; U: pred ints floats";
constexpr char kTruthFromAny[] = "T: pred u8; U: pred ints floats";
constexpr char kFloatFromAny[] = "T: floats; U: pred ints floats";
constexpr char kWithPred[] = "T: pred ints floats";
constexpr char kArgNotes[] =
    "along one dimension; the first of equal elements, and of NaN, counts; the results have the same strides; reducing "
    "nothing is INVALID_ARGUMENT";

constexpr ContractRow kReductionRows[] = {
    {"mydev.sum", kReduction, kNumberFromAny, "sum(in)",
     "elements are read as s64 or floats, by T, and added in s64, which wraps round, or in double; no elements give 0"},
    {"mydev.mean", kReduction, kFloatFromAny, "mean(in)", "no elements give NaN"},
    {"mydev.prod", kReduction, kNumberFromAny, "prod(in)", "the same as mydev.sum; no elements give 1"},
    {"mydev.amax", kSameReduction, kWithPred, "amax(in)",
     "NaN if an element is; no elements give -inf, integers and pred undefined"},
    {"mydev.amin", kSameReduction, kWithPred, "amin(in)",
     "NaN if an element is; no elements give inf, integers and pred undefined"},
    {"mydev.any", kReduction, kTruthFromAny, "any(in)", "1 or 0; NaN is true; no elements give 0"},
    {"mydev.all", kReduction, kTruthFromAny, "all(in)", "1 or 0; NaN is true; no elements give 1"},
    {"mydev.norm1", kReduction, kFloatFromAny, "sum(abs(in))", "no elements give 0"},
    {"mydev.norm2", kReduction, kFloatFromAny, "sqrt(sum(in * in))", "no elements give 0"},
    {"mydev.norm_inf", kReduction, kFloatFromAny, "max(amax(abs(in)), 0)", "no elements give 0"},
    {"mydev.max_with_index", kArgReduction, kWithPred, "values = amax(in); indices = argmax(in)", kArgNotes},
    {"mydev.min_with_index", kArgReduction, kWithPred, "values = amin(in); indices = argmin(in)", kArgNotes},
    {"mydev.variance",
     "(var reduced T, mean? reduced T) <- (in T; correction: float, take_root: bool) where ...: 0..16", kFloats,
     "near = sum(in / count(in)); mean = near + mean(in - near); "
     "v = sum((in - mean) * (in - mean)) / max(count(in) - correction, 0); var = where(take_root, sqrt(v), v)",
     "in double; equal elements have none; the results have the same strides; no elements give NaN"},
};

constexpr ContractRow kIndexRows[] = {
    {"mydev.index_select", "dense (out T[o,n,i]) <- (in T[o,d,i], index strided I[n])", "T: any; I: s32 s64", "",
     "out[o,n,i] = in[o,index[n],i]; an index outside of 0..d-1 is OUT_OF_RANGE"},
    {"mydev.gather", "(out T[s...]) <- (in T[d...], index s64[s...]; dim: int 0..15) where s: 1..16", "T: any", "",
     "out[p] = in[p with index[p] along dim], a dimension of theirs; in has at least the sizes of out but along dim; "
     "an index outside of in "
     "is INVALID_ARGUMENT; pred becomes 0 or 1"},
    {"mydev.embedding_backward",
     "dense (grad_weight T[v,i]) <- (grad_out T[n,i], index strided I[n]; padding_idx: int, scale_by_frequency: bool)",
     "T: floats; I: s32 s64", "",
     "grad_weight[index[n]] is the sum of its grad_out[n], divided by their number with scale_by_frequency; 0 for "
     "padding_idx; half precision is added in float; an index outside of 0..v-1 is OUT_OF_RANGE"},
    {"mydev.concatenate", "dense (out T[o,n,i]) <- (in... T[o,d,i]) where n = sum(d)", "T: any", "", "in their order"},
    {"mydev.arange", "(out T[n]) <- (; start: number, step: number)", kWithPred, "",
     "out[i] = start + i * step; integers exactly, floats in double, rounded once"},
};

constexpr char kScatterSlices[] =
    "dense (out T[d...]) <- (in T[d...], index strided I[n,k], values strided T[n,w...]; dims: ints[], clamp: bool, "
    "from_end: int = 0) where d: 1..15, out may be in";
constexpr ContractRow kSliceRows[] = {
    {"mydev.gather_slices",
     "dense (out T[n,w...]) <- (in strided T[d...], index strided I[n,k]; dims: ints[], from_end: int = 0) "
     "where d: 1..15",
     "T: any; I: s32 s64", "",
     "out[i] is the part of in, of sizes w, that begins at index[i,j] along dimension dims[j], at 0 along the others; "
     "one that would not lie within is moved there; where bit j of from_end is set, the size of d is added to an "
     "index[i,j] below 0; dims has no dimension twice, no size of w is larger than that of d"},
    {"mydev.scatter_slices", kScatterSlices, "T: any; I: s32 s64", "",
     "in, with values[i] for the part that begins at index[i,j] along dimension dims[j], at 0 along the others, in the "
     "order of i; one that would not lie within is moved there with clamp, else left out; from_end, dims and w as for "
     "mydev.gather_slices"},
    {"mydev.scatter_slices_add", kScatterSlices, "T: pred ints floats complex; I: s32 s64", "",
     "the same as mydev.scatter_slices, but values are added, rounded each time; pred: or; integers wrap round"},
    {"mydev.scatter_slices_mul", kScatterSlices, "T: pred ints floats complex; I: s32 s64", "",
     "the same as mydev.scatter_slices, but multiplied by values, rounded each time; pred: and; integers wrap round"},
    {"mydev.scatter_slices_max", kScatterSlices, "T: pred ints floats; I: s32 s64", "",
     "the same as mydev.scatter_slices, but the larger of both; NaN if either is"},
    {"mydev.scatter_slices_min", kScatterSlices, "T: pred ints floats; I: s32 s64", "",
     "the same as mydev.scatter_slices, but the smaller of both; NaN if either is"},
};

constexpr ContractRow kSortRows[] = {
    {"mydev.sort", "(values T[o,k,i], indices s64[o,k,i]) <- (in T[o,d,i]; descending: bool)", kWithPred, "",
     "along d, and where in `in` each element was; of d the first k, which is at most d; equal elements stay in their "
     "order; NaN is greatest"},
    {"mydev.topk", "(values T[o,k,i], indices s64[o,k,i]) <- (in T[o,d,i]; largest: bool)", kWithPred, "",
     "the k largest or smallest along d, in this order, k at most d; which of equal elements, and their order, is "
     "undefined; NaN is greatest"},
};

constexpr ContractRow kIndexWriteRows[] = {
    {"mydev.index_copy", "dense (&out T[o,d,i]) <- (index strided I[n], values strided T[o,n,i])", "T: any; I: s32 s64",
     "",
     "out[o,index[n],i] = values[o,n,i], the last of those for one place; an index outside of 0..d-1 is OUT_OF_RANGE"},
    {"mydev.index_add", "dense (&out T[o,d,i]) <- (index strided I[n], values T[o,n,i])",
     "T: ints floats complex; I: s32 s64", "",
     "values[o,n,i] is added to out[o,index[n],i], in the order of n, half precision in float, rounded once; integers "
     "wrap round; an index outside of 0..d-1 is OUT_OF_RANGE"},
    {"mydev.scatter", "(&out T[d...]) <- (index s64[s...], src T[s...]; dim: int 0..15) where s: 1..16", "T: any", "",
     "out[p with index[p] along dim] = src[p], the last along dim of those for one place; index has at most the sizes "
     "of out but along dim; an index outside of out is INVALID_ARGUMENT"},
    {"mydev.scatter_add", "(&out T[d...]) <- (index s64[s...], src T[s...]; dim: int 0..15) where s: 1..16",
     "T: pred ints floats complex", "",
     "src[p] is added to out[p with index[p] along dim], in the order along dim, rounded each time; pred: or; integers "
     "wrap round; the rest as mydev.scatter"},
    {"mydev.flat_index", "(out s64) <- (outer? s64, index I; size: int 0.., dim: int)", "I: s32 s64", "",
     "out = outer * size + index, without outer: index; size is added to a negative index; one outside of -size to "
     "size - 1 is OUT_OF_RANGE, and dim is what the message calls the dimension"},
    {"mydev.nonzero", "dense (out s64[k]) <- (in T[n])", "T: pred ints floats", "",
     "the places of the elements that are not 0, in order; n where there are fewer than k"},
};

constexpr char kCumulative[] = "(out T[s...]) <- (in T[s...]; dim: int 0..15) where s: 1..16, out may be in";
constexpr char kCumulativeNotes[] =
    "covers the elements up to each along dim; integers wrap round; half precision in float, floats in double";
constexpr ContractRow kCumulativeRows[] = {
    {"mydev.cumsum", kCumulative, "T: ints floats", "", kCumulativeNotes},
    {"mydev.cumprod", kCumulative, "T: ints floats", "", kCumulativeNotes},
    {"mydev.cummax", kCumulative, "T: ints floats", "",
     "the largest of the elements up to each along dim; NaN if any is"},
    {"mydev.cummin", kCumulative, "T: ints floats", "",
     "the smallest of the elements up to each along dim; NaN if any is"},
    {"mydev.logcumsumexp", kCumulative, "T: floats", "",
     "the logarithm of the sum of the exponentials of the elements up to each along dim; half precision in float, "
     "floats "
     "in double"},
    {"mydev.triangle",
     "(out T[b...,n,m]) <- (in T[b...,n,m]; diagonal: int, upper: bool) where b: 0..14, out may be in", "T: any", "",
     "out[...,i,j] = in[...,i,j] with upper where j >= i + diagonal, else where j <= i + diagonal; else 0"},
};

#define MYDEV_STATE "; where there is a state, the seed is state[0], and offset counts from block state[1]"
constexpr char kDraws[] =
    "numbers of Philox 4x32-10, from block `offset` on, four elements to a block, or two of f64; the same on every "
    "processor" MYDEV_STATE;
constexpr ContractRow kRandomRows[] = {
    {"mydev.random_uniform", "packed (out T) <- ([state s64[2]]; seed: int, offset: int, low: float, high: float)",
     kFloats, "", "in [low, high)" MYDEV_STATE},
    {"mydev.random_normal", "packed (out T) <- ([state s64[2]]; seed: int, offset: int, mean: float, std: float)",
     kFloats, "", kDraws},
    {"mydev.random_exponential",
     "packed (out T) <- ([state s64[2]]; seed: int, offset: int, rate: float, unused: float = 0)", kFloats, "",
     "above 0" MYDEV_STATE},
    {"mydev.random_bernoulli",
     "packed (out T) <- ([state s64[2]]; seed: int, offset: int, p: float 0..1, unused: float = 0)", kWithPred, "",
     "1 with probability p, else 0" MYDEV_STATE},
    {"mydev.random_integers", "packed (out T) <- ([state s64[2]]; seed: int, offset: int, low: int, range: int)",
     kWithPred, "",
     "in [low, low + range), range as an unsigned number, 0 meaning 2^64; two elements to a block" MYDEV_STATE},
    {"mydev.dropout", "packed (out T, mask pred) <- (in T, [state s64[2]]; seed: int, offset: int, p: float 0..1)",
     kFloats, "", "mask is 1 with probability 1 - p, and out = in * mask / (1 - p), or 0 if p is 1" MYDEV_STATE},
    {"mydev.dropout_backward", "packed (grad_in T) <- (grad_out T, mask pred; scale: float)", kFloats,
     "grad_out * mask * scale", ""},
};
#undef MYDEV_STATE

constexpr ContractRow kRandomBitsRows[] = {
    {"mydev.threefry2x32", "(x u32, y u32) <- (key0 u32, key1 u32, count0 u32, count1 u32)", "", "",
     "the two words of Threefry 2x32 with 20 rounds, of the counter (count0, count1) under the key (key0, key1), "
     "element by element"},
    {"mydev.rng_bit_generator", "dense (advanced u64[w], out T[o,n,i]) <- (state u64[w]; threefry: bool)",
     "T: ints u16 u32 u64", "",
     "w is 2 or 3; the words of Threefry 2x32 (20 rounds) with threefry, else of Philox 4x32-10, block after block: an "
     "element has one, of which T keeps the low bits, or two in 64 bits, the low one first; with threefry, elements of "
     "less than 64 bits at 2k and 2k + 1 along n have the words of one block, and blocks are counted along o, k and i, "
     "a last word that has no element being left out; state[0] is the key and state[1] the first block's counter; "
     "Philox has a counter of 128 bits, whose high half is state[2], or state[0] where w is 2; advanced is the state "
     "of the first block that was not begun, where state[1] carries into state[2]"},
};

// Inputs of rank 0 stand for all elements. Kernels that do not use scalars take them all the same.
constexpr char kScaledList[] = "packed (out... T) <- (x... T[...]|[]; scalars: floats[]) where out may be x";
constexpr char kPlainList[] = "packed (out... T) <- (x... T[...]|[]; scalars: floats[] = 0) where out may be x";
constexpr char kTwoLists[] =
    "packed (out... T) <- (x... T[...]|[], y... T[...]|[]; scalars: floats[] = 0) where out may be x or y";
constexpr char kTwoScaledLists[] =
    "packed (out... T) <- (x... T[...]|[], y... T[...]|[]; scalars: floats[]) where out may be x or y";
constexpr char kThreeScaledLists[] =
    "packed (out... T) <- (x... T[...]|[], y... T[...]|[], z... T[...]|[]; scalars: floats[]) "
    "where out may be x or y or z";
constexpr char kNormList[] = "packed (out... T[]) <- (x... T)";
constexpr char kScalars[] = "scalars: one number for all tensors, or one for each";
constexpr char kUnused[] = "scalars: not used";
constexpr ContractRow kForeachRows[] = {
    {"mydev.foreach_add_scalar", kScaledList, kFloats, "x + scalars", kScalars},
    {"mydev.foreach_mul_scalar", kScaledList, kFloats, "x * scalars", kScalars},
    {"mydev.foreach_div_scalar", kScaledList, kFloats, "x / scalars", kScalars},
    {"mydev.foreach_add", kTwoScaledLists, kFloats, "x + scalars * y", kScalars},
    {"mydev.foreach_mul", kTwoLists, kFloats, "x * y", kUnused},
    {"mydev.foreach_div", kTwoLists, kFloats, "x / y", kUnused},
    {"mydev.foreach_maximum", kTwoLists, kFloats, "max(x, y)", "NaN if either is; scalars: not used"},
    {"mydev.foreach_minimum", kTwoLists, kFloats, "min(x, y)", "NaN if either is; scalars: not used"},
    {"mydev.foreach_lerp", kTwoScaledLists, kFloats,
     "d = y - x; where(abs(scalars) < 0.5, x + scalars * d, y - d * (1 - scalars))", kScalars},
    {"mydev.foreach_addcmul", kThreeScaledLists, kFloats, "x + scalars * y * z", kScalars},
    {"mydev.foreach_addcdiv", kThreeScaledLists, kFloats, "x + scalars * (y / z)", kScalars},
    {"mydev.foreach_sqrt", kPlainList, kFloats, "sqrt(x)", kUnused},
    {"mydev.foreach_neg", kPlainList, kFloats, "-x", kUnused},
    {"mydev.foreach_reciprocal", kPlainList, kFloats, "1 / x", kUnused},
    {"mydev.foreach_copy", kPlainList, kFloats, "x", kUnused},
    {"mydev.foreach_fill", "packed (out... T) <- (; scalars: floats[])", kFloats, "scalars", kScalars},
    {"mydev.foreach_norm1", kNormList, kFloats, "sum(abs(x))", "no elements give 0"},
    {"mydev.foreach_norm2", kNormList, kFloats, "sqrt(sum(x * x))", "no elements give 0"},
    {"mydev.foreach_norm_inf", kNormList, kFloats, "max(amax(abs(x)), 0)", "no elements give 0"},
};

constexpr char kOptimizerTypes[] = "T: floats; L: f32 f64; G: f32 f64; F: f32 f64";
constexpr ContractRow kOptimizerRows[] = {
    {"mydev.fused_sgd",
     "packed (&params... T, &momentum_buffers...? T, &grads... T) <- (rate? L[1*], grad_scale? G[1*], found_inf? "
     "F[1*]; lr: float, weight_decay: float, momentum: float, dampening: float, nesterov: bool, maximize: bool, "
     "first_step: bool)",
     kOptimizerTypes, "",
     "one step of SGD. rate counts in place of lr. momentum_buffers are there unless momentum is 0. Gradients are "
     "divided by grad_scale, and stored so. Nothing changes if found_inf is not 0"},
    {"mydev.fused_adam",
     "packed (&params... T, &exp_avgs... T, &exp_avg_sqs... T, &max_exp_avg_sqs...? T, &grads... T) <- (rate? L[1*], "
     "grad_scale? G[1*], found_inf? F[1*], steps... f32[1*]; lr: float, beta1: float, beta2: float, weight_decay: "
     "float, eps: float, maximize: bool, decoupled: bool)",
     kOptimizerTypes, "",
     "one step of Adam, decoupled: of AdamW; with max_exp_avg_sqs of AMSGrad. steps are counted already. The rest as "
     "mydev.fused_sgd"},
};

constexpr ContractRow kCopyRows[] = {
    {"mydev.copy", "(out T) <- (in U; conj: bool = false, neg: bool = false)", "T: any; U: any", "",
     "converted as C does, to pred by != 0, complex to real by its real part; then conjugated and negated; pred, u16, "
     "u32, u64 and 8-bit floats cannot be negated"},
    {"mydev.fill", "(out T) <- (; value: scalar)", "T: any", "value", "converted as mydev.copy does"},
};

constexpr ContractGroup kGroups[] = {{"reduction", kReductionRows},
                                     {"index, concatenate, range", kIndexRows},
                                     {"index write, scatter, position", kIndexWriteRows},
                                     {"slices", kSliceRows},
                                     {"sort", kSortRows},
                                     {"cumulative, triangle", kCumulativeRows},
                                     {"random", kRandomRows},
                                     {"random bits", kRandomBitsRows},
                                     {"foreach, optimizer", kForeachRows},
                                     {"foreach, optimizer", kOptimizerRows},
                                     {"copy, fill", kCopyRows}};

}  // namespace

std::span<const ContractGroup> data_contracts() {
  return kGroups;
}

}  // namespace mydev
