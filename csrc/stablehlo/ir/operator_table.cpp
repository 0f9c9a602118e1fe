// The rows. Attributes are in the alphabetical order of their names, which is that of the properties in bytecode.
#include <algorithm>
#include <array>

#include "stablehlo/ir/operator.h"

namespace mydev::stablehlo {

namespace {

using A = AttributeRow;
using R = OperatorRow;
using Op = Operator;
using enum AttributeRow::Kind;

// clang-format off
constexpr A kAccuracy[] = {{"result_accuracy", kAny, true, 2}};
constexpr A kAllGather[] = {
    {"all_gather_dim", kInteger}, {"channel_id", kInteger}, {"replica_groups", kTensor},
    {"use_global_device_ids", kBool}};
constexpr A kAllReduce[] = {{"channel_id", kInteger}, {"replica_groups", kTensor}, {"use_global_device_ids", kBool}};
constexpr A kAllToAll[] = {
    {"channel_id", kInteger}, {"concat_dimension", kInteger}, {"replica_groups", kTensor}, {"split_count", kInteger},
    {"split_dimension", kInteger}};
constexpr A kBatchNorm[] = {{"epsilon", kFloat}, {"feature_index", kInteger}};
constexpr A kBroadcast[] = {{"broadcast_sizes", kIntegers}};
constexpr A kBroadcastInDim[] = {{"broadcast_dimensions", kIntegers}};
constexpr A kCall[] = {{"callee", kString}};
constexpr A kCholesky[] = {{"lower", kBool}};
constexpr A kCollectiveBroadcast[] = {{"channel_id", kInteger}, {"replica_groups", kTensor}};
constexpr A kCollectivePermute[] = {{"channel_id", kInteger}, {"source_target_pairs", kTensor}};
constexpr A kCompare[] = {{"compare_type", kEnumeration}, {"comparison_direction", kEnumeration}};
constexpr A kComposite[] = {
    {"composite_attributes", kDictionary}, {"decomposition", kString}, {"name", kString}, {"version", kInteger}};
constexpr A kConstant[] = {{"value", kTensor}};
constexpr A kConvolution[] = {
    {"batch_group_count", kInteger}, {"feature_group_count", kInteger}, {"input_batch_dimension", kInteger},
    {"input_feature_dimension", kInteger}, {"input_spatial_dimensions", kIntegers},
    {"kernel_input_feature_dimension", kInteger}, {"kernel_output_feature_dimension", kInteger},
    {"kernel_spatial_dimensions", kIntegers}, {"lhs_dilation", kIntegers}, {"output_batch_dimension", kInteger},
    {"output_feature_dimension", kInteger}, {"output_spatial_dimensions", kIntegers}, {"padding", kTensor},
    {"precision_config", kArray}, {"rhs_dilation", kIntegers}, {"window_reversal", kBools},
    {"window_strides", kIntegers}};
// The padding is an operand since the second version.
constexpr auto kDynamicConv = [] {
  std::array rows = std::to_array(kConvolution);
  *std::ranges::find(rows, "padding", &A::name) = {"padding", kTensor, true, 1, 1};
  return rows;
}();
constexpr A kCustomCall[] = {
    {"api_version", kEnumeration}, {"backend_config", kAny}, {"call_target_name", kString},
    {"called_computations", kArray}, {"has_side_effect", kBool}, {"operand_layouts", kArray},
    {"output_operand_aliases", kArray}, {"result_layouts", kArray}};
constexpr A kDimension[] = {{"dimension", kInteger}};
constexpr A kDimensions[] = {{"dimensions", kIntegers}};
constexpr A kDot[] = {{"precision_config", kArray}};
constexpr A kDotGeneral[] = {
    {"accumulation_type", kType, true, 2}, {"allow_imprecise_accumulation", kBool, true, 2},
    {"lhs_batching_dimensions", kIntegers}, {"lhs_component_count", kInteger, true, 2},
    {"lhs_contracting_dimensions", kIntegers}, {"lhs_precision_type", kType, true, 2},
    {"num_primitive_operations", kInteger, true, 2}, {"precision_config", kArray},
    {"rhs_batching_dimensions", kIntegers}, {"rhs_component_count", kInteger, true, 2},
    {"rhs_contracting_dimensions", kIntegers}, {"rhs_precision_type", kType, true, 2}};
constexpr A kDynamicBroadcastInDim[] = {
    {"broadcast_dimensions", kIntegers}, {"known_expanding_dimensions", kIntegers},
    {"known_nonexpanding_dimensions", kIntegers}};
constexpr A kDynamicGather[] = {
    {"collapsed_slice_dims", kIntegers}, {"index_vector_dim", kInteger}, {"indices_are_sorted", kBool},
    {"offset_dims", kIntegers}, {"operand_batching_dims", kIntegers, true, 2}, {"start_index_map", kIntegers},
    {"start_indices_batching_dims", kIntegers, true, 2}};
constexpr A kDynamicSlice[] = {{"slice_sizes", kIntegers}};
constexpr A kEinsum[] = {{"einsum_config", kString}};
constexpr A kFft[] = {{"fft_length", kIntegers}, {"fft_type", kEnumeration}};
constexpr A kGather[] = {
    {"collapsed_slice_dims", kIntegers}, {"index_vector_dim", kInteger}, {"indices_are_sorted", kBool},
    {"offset_dims", kIntegers}, {"operand_batching_dims", kIntegers, true, 2}, {"slice_sizes", kIntegers},
    {"start_index_map", kIntegers}, {"start_indices_batching_dims", kIntegers, true, 2}};
constexpr A kGetTupleElement[] = {{"index", kInteger}};
constexpr A kInfeed[] = {{"infeed_config", kString}, {"layout", kArray}};
constexpr A kIota[] = {{"iota_dimension", kInteger}};
constexpr A kOutfeed[] = {{"outfeed_config", kString}};
constexpr A kPad[] = {
    {"edge_padding_high", kIntegers}, {"edge_padding_low", kIntegers}, {"interior_padding", kIntegers}};
constexpr A kReducePrecision[] = {{"exponent_bits", kInteger}, {"mantissa_bits", kInteger}};
constexpr A kReduceScatter[] = {
    {"channel_id", kInteger}, {"replica_groups", kTensor}, {"scatter_dimension", kInteger},
    {"use_global_device_ids", kBool}};
constexpr A kReduceWindow[] = {
    {"base_dilations", kIntegers}, {"padding", kTensor}, {"window_dilations", kIntegers},
    {"window_dimensions", kIntegers}, {"window_strides", kIntegers}};
constexpr A kReplicaGroups[] = {{"replica_groups", kTensor}};
constexpr A kRng[] = {{"rng_distribution", kEnumeration}};
constexpr A kRngBitGenerator[] = {{"rng_algorithm", kEnumeration}};
constexpr A kScatter[] = {
    {"index_vector_dim", kInteger}, {"indices_are_sorted", kBool}, {"input_batching_dims", kIntegers, true, 2},
    {"inserted_window_dims", kIntegers}, {"scatter_dims_to_operand_dims", kIntegers},
    {"scatter_indices_batching_dims", kIntegers, true, 2}, {"unique_indices", kBool},
    {"update_window_dims", kIntegers}};
constexpr A kSelectAndScatter[] = {
    {"padding", kTensor}, {"window_dimensions", kIntegers}, {"window_strides", kIntegers}};
constexpr A kSendRecv[] = {
    {"channel_id", kInteger}, {"channel_type", kInteger}, {"is_host_transfer", kBool},
    {"source_target_pairs", kTensor, true, 2}};
constexpr A kSlice[] = {{"limit_indices", kIntegers}, {"start_indices", kIntegers}, {"strides", kIntegers}};
constexpr A kSort[] = {{"dimension", kInteger}, {"is_stable", kBool}};
constexpr A kTorchIndexSelect[] = {{"batch_dims", kInteger}, {"dim", kInteger}};
constexpr A kTranspose[] = {{"permutation", kIntegers}};
constexpr A kTriangularSolve[] = {
    {"left_side", kBool}, {"lower", kBool}, {"transpose_a", kEnumeration}, {"unit_diagonal", kBool}};

constexpr A kSdyAllGather[] = {{"gathering_axes", kAny}, {"out_sharding", kAny}};
constexpr A kSdyAllReduce[] = {{"out_sharding", kAny}, {"reduction_axes", kAny}};
constexpr A kSdyAllSlice[] = {{"out_sharding", kAny}, {"slicing_axes", kAny}};
constexpr A kSdyAllToAll[] = {{"out_sharding", kAny}, {"params", kAny}};
constexpr A kSdyAxes[] = {{"axes", kAny}, {"out_sharding", kAny}};
constexpr A kSdyGroup[] = {{"group_id", kInteger}};
constexpr A kSdyManualComputation[] = {{"in_shardings", kAny}, {"manual_axes", kAny}, {"out_shardings", kAny}};
constexpr A kSdyNamedComputation[] = {{"in_shardings", kAny, true}, {"name", kString}, {"out_shardings", kAny, true}};
constexpr A kSdyOutSharding[] = {{"out_sharding", kAny}};
constexpr A kSdyPropagationBarrier[] = {{"allowed_direction", kInteger}};
constexpr A kSdyReduceScatter[] = {{"out_sharding", kAny}, {"reduce_scatter_axes", kAny}};
constexpr A kSdySharding[] = {{"sharding", kAny}};
constexpr A kSdyMaybeSharding[] = {{"sharding", kAny, true}};
// clang-format on

constexpr R unary(Op op, std::string_view name) {
  return {op, name, "operand", "result", 0, kSameTypes | kElementwise, 1, {}};
}
constexpr R accurate(Op op, std::string_view name) {
  return {op, name, "operand", "result", 0, kSameTypes | kElementwise, 2, kAccuracy};
}
constexpr R binary(Op op, std::string_view name) {
  return {op, name, "lhs rhs", "result", 0, kSameTypes | kElementwise, 1, {}};
}
// The row of an operator of another dialect.
constexpr R sharding(Op op, std::string_view name, std::span<const A> attributes) {
  return {op, name, "operand", "result", 0, kSameTypes | kIdentity, 0, attributes};
}

// clang-format off
constexpr std::array kRows = {
    R{Op::kAbs, "stablehlo.abs", "operand", "result", 0, kSameShape | kElementwise, 1, {}},
    binary(Op::kAdd, "stablehlo.add"),
    R{Op::kAfterAll, "stablehlo.after_all", "inputs*", "result", 0, 0, 1, {}},
    R{Op::kAllGather, "stablehlo.all_gather", "operands*", "results*", 0, kSideEffects, 2, kAllGather},
    R{Op::kAllReduce, "stablehlo.all_reduce", "operands*", "results*", 1, kSideEffects, 2, kAllReduce},
    R{Op::kAllToAll, "stablehlo.all_to_all", "operands*", "results*", 0, kSideEffects, 2, kAllToAll},
    binary(Op::kAnd, "stablehlo.and"),
    binary(Op::kAtan2, "stablehlo.atan2"),
    R{Op::kBatchNormGrad, "stablehlo.batch_norm_grad", "operand scale mean variance grad_output",
      "grad_operand grad_scale grad_offset", 0, 0, 1, kBatchNorm},
    R{Op::kBatchNormInference, "stablehlo.batch_norm_inference", "operand scale offset mean variance", "result", 0, 0,
      1, kBatchNorm},
    R{Op::kBatchNormTraining, "stablehlo.batch_norm_training", "operand scale offset", "output batch_mean batch_var",
      0, 0, 1, kBatchNorm},
    R{Op::kBitcastConvert, "stablehlo.bitcast_convert", "operand", "result", 0, 0, 1, {}},
    R{Op::kBroadcast, "stablehlo.broadcast", "operand", "result", 0, 0, 1, kBroadcast},
    R{Op::kBroadcastInDim, "stablehlo.broadcast_in_dim", "operand", "result", 0, 0, 1, kBroadcastInDim},
    R{Op::kCase, "stablehlo.case", "index", "results*", -1, kRegionsAreBranches, 1, {}},
    accurate(Op::kCbrt, "stablehlo.cbrt"),
    unary(Op::kCeil, "stablehlo.ceil"),
    R{Op::kCholesky, "stablehlo.cholesky", "a", "result", 0, kSameTypes, 1, kCholesky},
    R{Op::kClamp, "stablehlo.clamp", "min operand max", "result", 0, kElementwise, 1, {}},
    R{Op::kCollectiveBroadcast, "stablehlo.collective_broadcast", "operand", "result", 0, kSameTypes | kSideEffects,
      1, kCollectiveBroadcast},
    R{Op::kCollectivePermute, "stablehlo.collective_permute", "operand", "result", 0, kSameTypes | kSideEffects, 1,
      kCollectivePermute},
    R{Op::kCompare, "stablehlo.compare", "lhs rhs", "result", 0, kSameShape | kElementwise, 1, kCompare},
    R{Op::kComplex, "stablehlo.complex", "lhs rhs", "result", 0, kSameShape | kElementwise, 1, {}},
    R{Op::kComposite, "stablehlo.composite", "inputs*", "results*", 0, 0, 1, kComposite},
    R{Op::kConcatenate, "stablehlo.concatenate", "inputs*", "result", 0, 0, 1, kDimension},
    R{Op::kConstant, "stablehlo.constant", "", "output", 0, 0, 1, kConstant},
    R{Op::kConvert, "stablehlo.convert", "operand", "result", 0, kSameShape | kElementwise, 1, {}},
    R{Op::kConvolution, "stablehlo.convolution", "lhs rhs", "result", 0, 0, 1, kConvolution},
    accurate(Op::kCosine, "stablehlo.cosine"),
    unary(Op::kCountLeadingZeros, "stablehlo.count_leading_zeros"),
    R{Op::kCreateToken, "stablehlo.create_token", "", "output", 0, 0, 1, {}},
    R{Op::kCrossReplicaSum, "stablehlo.cross-replica-sum", "operand", "result", 0, kSameTypes | kSideEffects, 1,
      kReplicaGroups},
    R{Op::kCustomCall, "stablehlo.custom_call", "inputs*", "results*", 0, 0, 1, kCustomCall},
    binary(Op::kDivide, "stablehlo.divide"),
    R{Op::kDot, "stablehlo.dot", "lhs rhs", "result", 0, 0, 1, kDot},
    R{Op::kDotGeneral, "stablehlo.dot_general", "lhs rhs", "result", 0, 0, 2, kDotGeneral},
    R{Op::kDynamicBroadcastInDim, "stablehlo.dynamic_broadcast_in_dim", "operand output_dimensions", "result", 0, 0,
      1, kDynamicBroadcastInDim},
    R{Op::kDynamicConv, "stablehlo.dynamic_conv", "lhs rhs padding", "result", 0, 0, 2, kDynamicConv},
    R{Op::kDynamicGather, "stablehlo.dynamic_gather", "operand start_indices slice_sizes", "result", 0, 0, 2,
      kDynamicGather},
    R{Op::kDynamicIota, "stablehlo.dynamic_iota", "output_shape", "result", 0, 0, 1, kIota},
    R{Op::kDynamicPad, "stablehlo.dynamic_pad",
      "operand padding_value edge_padding_low edge_padding_high interior_padding", "result", 0, 0, 1, {}},
    R{Op::kDynamicReshape, "stablehlo.dynamic_reshape", "operand output_shape", "result", 0, 0, 1, {}},
    R{Op::kDynamicSlice, "stablehlo.dynamic_slice", "operand start_indices*", "result", 0, 0, 1, kDynamicSlice},
    R{Op::kDynamicUpdateSlice, "stablehlo.dynamic_update_slice", "operand update start_indices*", "result", 0, 0, 1,
      {}},
    R{Op::kEinsum, "stablehlo.einsum", "lhs rhs", "result", 0, 0, 1, kEinsum},
    accurate(Op::kExponential, "stablehlo.exponential"),
    accurate(Op::kExponentialMinusOne, "stablehlo.exponential_minus_one"),
    R{Op::kFft, "stablehlo.fft", "operand", "result", 0, 0, 1, kFft},
    unary(Op::kFloor, "stablehlo.floor"),
    R{Op::kGather, "stablehlo.gather", "operand start_indices", "result", 0, 0, 2, kGather},
    R{Op::kGetDimensionSize, "stablehlo.get_dimension_size", "operand", "result", 0, 0, 1, kDimension},
    R{Op::kGetTupleElement, "stablehlo.get_tuple_element", "operand", "result", 0, 0, 1, kGetTupleElement},
    R{Op::kIf, "stablehlo.if", "pred", "results*", 2, kRegionsAreBranches, 1, {}},
    R{Op::kImag, "stablehlo.imag", "operand", "result", 0, kSameShape | kElementwise, 1, {}},
    R{Op::kInfeed, "stablehlo.infeed", "token", "results*", 0, kSideEffects, 1, kInfeed},
    R{Op::kIota, "stablehlo.iota", "", "output", 0, 0, 1, kIota},
    R{Op::kIsFinite, "stablehlo.is_finite", "x", "y", 0, kSameShape | kElementwise, 1, {}},
    accurate(Op::kLog, "stablehlo.log"),
    accurate(Op::kLogPlusOne, "stablehlo.log_plus_one"),
    accurate(Op::kLogistic, "stablehlo.logistic"),
    R{Op::kMap, "stablehlo.map", "inputs*", "result", 1, kSameShape, 1, kDimensions},
    binary(Op::kMaximum, "stablehlo.maximum"),
    binary(Op::kMinimum, "stablehlo.minimum"),
    binary(Op::kMultiply, "stablehlo.multiply"),
    unary(Op::kNegate, "stablehlo.negate"),
    unary(Op::kNot, "stablehlo.not"),
    R{Op::kOptimizationBarrier, "stablehlo.optimization_barrier", "operand*", "result*", 0, kResultsAreOperands, 1,
      {}},
    binary(Op::kOr, "stablehlo.or"),
    R{Op::kOutfeed, "stablehlo.outfeed", "inputs* token", "result", 0, kSideEffects, 1, kOutfeed},
    R{Op::kPad, "stablehlo.pad", "operand padding_value", "result", 0, 0, 1, kPad},
    R{Op::kPartitionId, "stablehlo.partition_id", "", "result", 0, 0, 1, {}},
    unary(Op::kPopcnt, "stablehlo.popcnt"),
    binary(Op::kPower, "stablehlo.power"),
    R{Op::kReal, "stablehlo.real", "operand", "result", 0, kSameShape | kElementwise, 1, {}},
    R{Op::kRealDynamicSlice, "stablehlo.real_dynamic_slice", "operand start_indices limit_indices strides", "result",
      0, 0, 1, {}},
    R{Op::kRecv, "stablehlo.recv", "token", "results*", 0, kSideEffects, 2, kSendRecv},
    R{Op::kReduce, "stablehlo.reduce", "inputs* init_values*", "results*", 1, 0, 1, kDimensions},
    R{Op::kReducePrecision, "stablehlo.reduce_precision", "operand", "output", 0, kSameTypes | kElementwise, 1,
      kReducePrecision},
    R{Op::kReduceScatter, "stablehlo.reduce_scatter", "operand", "result", 1, kSideEffects, 1, kReduceScatter},
    R{Op::kReduceWindow, "stablehlo.reduce_window", "inputs* init_values*", "results*", 1, 0, 1, kReduceWindow},
    binary(Op::kRemainder, "stablehlo.remainder"),
    R{Op::kReplicaId, "stablehlo.replica_id", "", "result", 0, 0, 1, {}},
    R{Op::kReshape, "stablehlo.reshape", "operand", "result", 0, 0, 1, {}},
    R{Op::kReturn, "stablehlo.return", "results*", "", 0, kTerminator, 1, {}},
    R{Op::kReverse, "stablehlo.reverse", "operand", "result", 0, kSameTypes, 1, kDimensions},
    R{Op::kRng, "stablehlo.rng", "a b shape", "result", 0, kSideEffects, 1, kRng},
    R{Op::kRngBitGenerator, "stablehlo.rng_bit_generator", "initial_state", "output_state output", 0, 0, 1,
      kRngBitGenerator},
    unary(Op::kRoundNearestAfz, "stablehlo.round_nearest_afz"),
    unary(Op::kRoundNearestEven, "stablehlo.round_nearest_even"),
    accurate(Op::kRsqrt, "stablehlo.rsqrt"),
    R{Op::kScatter, "stablehlo.scatter", "inputs* scatter_indices updates*", "results*", 1, 0, 2, kScatter},
    R{Op::kSelect, "stablehlo.select", "pred on_true on_false", "result", 0, kElementwise, 1, {}},
    R{Op::kSelectAndScatter, "stablehlo.select_and_scatter", "operand source init_value", "result", 2, 0, 1,
      kSelectAndScatter},
    R{Op::kSend, "stablehlo.send", "inputs* token", "result", 0, kSideEffects, 2, kSendRecv},
    R{Op::kSetDimensionSize, "stablehlo.set_dimension_size", "operand size", "result", 0, 0, 1, kDimension},
    binary(Op::kShiftLeft, "stablehlo.shift_left"),
    binary(Op::kShiftRightArithmetic, "stablehlo.shift_right_arithmetic"),
    binary(Op::kShiftRightLogical, "stablehlo.shift_right_logical"),
    unary(Op::kSign, "stablehlo.sign"),
    accurate(Op::kSine, "stablehlo.sine"),
    R{Op::kSlice, "stablehlo.slice", "operand", "result", 0, 0, 1, kSlice},
    R{Op::kSort, "stablehlo.sort", "inputs*", "results*", 1, kResultsAreOperands, 1, kSort},
    accurate(Op::kSqrt, "stablehlo.sqrt"),
    binary(Op::kSubtract, "stablehlo.subtract"),
    accurate(Op::kTan, "stablehlo.tan"),
    accurate(Op::kTanh, "stablehlo.tanh"),
    R{Op::kTorchIndexSelect, "stablehlo.torch_index_select", "operand index", "result", 0, 0, 1, kTorchIndexSelect},
    R{Op::kTranspose, "stablehlo.transpose", "operand", "result", 0, 0, 1, kTranspose},
    R{Op::kTriangularSolve, "stablehlo.triangular_solve", "a b", "result", 0, 0, 1, kTriangularSolve},
    R{Op::kTuple, "stablehlo.tuple", "val*", "result", 0, 0, 1, {}},
    R{Op::kUnaryEinsum, "stablehlo.unary_einsum", "operand", "result", 0, 0, 1, kEinsum},
    R{Op::kUniformDequantize, "stablehlo.uniform_dequantize", "operand", "result", 0, kSameShape, 1, {}},
    R{Op::kUniformQuantize, "stablehlo.uniform_quantize", "operand", "result", 0, kSameShape, 1, {}},
    R{Op::kWhile, "stablehlo.while", "operand*", "results*", 2, kResultsAreOperands, 1, {}},
    binary(Op::kXor, "stablehlo.xor"),

    R{Op::kCall, "func.call", "operands*", "results*", 0, 0, 1, kCall},

    sharding(Op::kSdyAllGather, "sdy.all_gather", kSdyAllGather),
    sharding(Op::kSdyAllReduce, "sdy.all_reduce", kSdyAllReduce),
    sharding(Op::kSdyAllSlice, "sdy.all_slice", kSdyAllSlice),
    sharding(Op::kSdyAllToAll, "sdy.all_to_all", kSdyAllToAll),
    sharding(Op::kSdyCollectivePermute, "sdy.collective_permute", kSdyOutSharding),
    sharding(Op::kSdyDataFlowEdge, "sdy.data_flow_edge", kSdyMaybeSharding),
    R{Op::kSdyManualComputation, "sdy.manual_computation", "tensors*", "results*", 1, 0, 0, kSdyManualComputation},
    R{Op::kSdyNamedComputation, "sdy.named_computation", "operands*", "results*", 1, 0, 0, kSdyNamedComputation},
    sharding(Op::kSdyPropagationBarrier, "sdy.propagation_barrier", kSdyPropagationBarrier),
    sharding(Op::kSdyReduceScatter, "sdy.reduce_scatter", kSdyReduceScatter),
    sharding(Op::kSdyReplicatedToUnreduced, "sdy.replicated_to_unreduced", kSdyAxes),
    sharding(Op::kSdyReshard, "sdy.reshard", kSdySharding),
    sharding(Op::kSdyShardedToUnreduced, "sdy.sharded_to_unreduced", kSdyAxes),
    sharding(Op::kSdyShardingConstraint, "sdy.sharding_constraint", kSdySharding),
    R{Op::kSdyShardingGroup, "sdy.sharding_group", "input", "", 0, 0, 0, kSdyGroup},
};
// clang-format on

// Rows are found by their operator's number, and attributes by their place.
static_assert([] {
  for (size_t i = 0; i < kRows.size(); ++i) {
    if (static_cast<size_t>(kRows[i].op) != i) return false;
    for (size_t a = 1; a < kRows[i].attributes.size(); ++a) {
      if (kRows[i].attributes[a].name <= kRows[i].attributes[a - 1].name) return false;
    }
  }
  return kRows.size() == static_cast<size_t>(Op::kSdyShardingGroup) + 1;
}());

// The next name of a list with spaces between them; "" at its end.
std::string_view next_group(std::string_view& groups) {
  const size_t end = std::min(groups.find(' '), groups.size());
  const std::string_view group = groups.substr(0, end);
  groups.remove_prefix(std::min(end + 1, groups.size()));
  return group;
}

struct GroupCounts {
  size_t starred = 0, single = 0;
};

GroupCounts count_groups(std::string_view groups) {
  GroupCounts counts;
  for (std::string_view group = next_group(groups); !group.empty(); group = next_group(groups)) {
    ++(group.back() == '*' ? counts.starred : counts.single);
  }
  return counts;
}

}  // namespace

const OperatorRow& operator_row(Operator op) noexcept {
  return kRows[static_cast<size_t>(op)];
}

std::span<const OperatorRow> operator_rows() noexcept {
  return kRows;
}

const OperatorRow* find_operator(std::string_view name) noexcept {
  // Rows by their names, in the order of the names.
  static constexpr auto kByName = [] {
    std::array<const OperatorRow*, kRows.size()> sorted{};
    for (size_t i = 0; i < kRows.size(); ++i) sorted[i] = &kRows[i];
    std::ranges::sort(sorted, {}, &OperatorRow::name);
    return sorted;
  }();
  const auto found = std::ranges::lower_bound(kByName, name, {}, &OperatorRow::name);
  return found != kByName.end() && (*found)->name == name ? *found : nullptr;
}

const AttributeRow* find_attribute(const OperatorRow& row, std::string_view name) noexcept {
  const auto found =
      std::ranges::find_if(row.attributes, [name](const AttributeRow& attribute) { return attribute.name == name; });
  return found != row.attributes.end() ? &*found : nullptr;
}

bool fits_groups(std::string_view groups, size_t count) noexcept {
  const auto [starred, single] = count_groups(groups);
  if (starred == 0) return count == single;
  return count >= single && (count - single) % starred == 0;
}

GroupRange group_range(std::string_view groups, std::string_view name, size_t count) noexcept {
  const auto [starred, single] = count_groups(groups);
  const size_t each = starred != 0 && count > single ? (count - single) / starred : 0;
  GroupRange range;
  for (std::string_view group = next_group(groups); !group.empty(); group = next_group(groups)) {
    const bool star = group.back() == '*';
    if (star) group.remove_suffix(1);
    range.count = star ? each : 1;
    if (group == name) return range;
    range.begin += range.count;
  }
  return {count, 0};
}

}  // namespace mydev::stablehlo
