// The rows. Attributes are in the alphabetical order of their names, which is that of the properties in bytecode.
#include <algorithm>
#include <array>

#include "stablehlo/ir/operator.h"

namespace mydev::stablehlo {

namespace {

using A = AttributeRow;
using Op = Operator;

constexpr A kAccuracy[] = {{"result_accuracy", A::kAny, true, 2}};
constexpr A kAllGather[] = {{"all_gather_dim", A::kInteger},
                            {"channel_id", A::kInteger},
                            {"replica_groups", A::kTensor},
                            {"use_global_device_ids", A::kBool}};
constexpr A kAllReduce[] = {
    {"channel_id", A::kInteger}, {"replica_groups", A::kTensor}, {"use_global_device_ids", A::kBool}};
constexpr A kAllToAll[] = {{"channel_id", A::kInteger},
                           {"concat_dimension", A::kInteger},
                           {"replica_groups", A::kTensor},
                           {"split_count", A::kInteger},
                           {"split_dimension", A::kInteger}};
constexpr A kBatchNorm[] = {{"epsilon", A::kFloat}, {"feature_index", A::kInteger}};
constexpr A kBroadcast[] = {{"broadcast_sizes", A::kIntegers}};
constexpr A kBroadcastInDim[] = {{"broadcast_dimensions", A::kIntegers}};
constexpr A kCall[] = {{"callee", A::kString}};
constexpr A kCholesky[] = {{"lower", A::kBool}};
constexpr A kCollectiveBroadcast[] = {{"channel_id", A::kInteger}, {"replica_groups", A::kTensor}};
constexpr A kCollectivePermute[] = {{"channel_id", A::kInteger}, {"source_target_pairs", A::kTensor}};
constexpr A kCompare[] = {{"compare_type", A::kEnumeration}, {"comparison_direction", A::kEnumeration}};
constexpr A kComposite[] = {{"composite_attributes", A::kDictionary},
                            {"decomposition", A::kString},
                            {"name", A::kString},
                            {"version", A::kInteger}};
constexpr A kConstant[] = {{"value", A::kTensor}};
constexpr A kConvolution[] = {{"batch_group_count", A::kInteger},
                              {"feature_group_count", A::kInteger},
                              {"input_batch_dimension", A::kInteger},
                              {"input_feature_dimension", A::kInteger},
                              {"input_spatial_dimensions", A::kIntegers},
                              {"kernel_input_feature_dimension", A::kInteger},
                              {"kernel_output_feature_dimension", A::kInteger},
                              {"kernel_spatial_dimensions", A::kIntegers},
                              {"lhs_dilation", A::kIntegers},
                              {"output_batch_dimension", A::kInteger},
                              {"output_feature_dimension", A::kInteger},
                              {"output_spatial_dimensions", A::kIntegers},
                              {"padding", A::kTensor},
                              {"precision_config", A::kArray},
                              {"rhs_dilation", A::kIntegers},
                              {"window_reversal", A::kBools},
                              {"window_strides", A::kIntegers}};
constexpr A kDynamicConv[] = {{"batch_group_count", A::kInteger},
                              {"feature_group_count", A::kInteger},
                              {"input_batch_dimension", A::kInteger},
                              {"input_feature_dimension", A::kInteger},
                              {"input_spatial_dimensions", A::kIntegers},
                              {"kernel_input_feature_dimension", A::kInteger},
                              {"kernel_output_feature_dimension", A::kInteger},
                              {"kernel_spatial_dimensions", A::kIntegers},
                              {"lhs_dilation", A::kIntegers},
                              {"output_batch_dimension", A::kInteger},
                              {"output_feature_dimension", A::kInteger},
                              {"output_spatial_dimensions", A::kIntegers},
                              {"padding", A::kTensor, true, 1, 1},
                              {"precision_config", A::kArray},
                              {"rhs_dilation", A::kIntegers},
                              {"window_reversal", A::kBools},
                              {"window_strides", A::kIntegers}};
constexpr A kCustomCall[] = {{"api_version", A::kEnumeration},      {"backend_config", A::kAny},
                             {"call_target_name", A::kString},      {"called_computations", A::kArray},
                             {"has_side_effect", A::kBool},         {"operand_layouts", A::kArray},
                             {"output_operand_aliases", A::kArray}, {"result_layouts", A::kArray}};
constexpr A kDimension[] = {{"dimension", A::kInteger}};
constexpr A kDimensions[] = {{"dimensions", A::kIntegers}};
constexpr A kDot[] = {{"precision_config", A::kArray}};
constexpr A kDotGeneral[] = {
    {"accumulation_type", A::kType, true, 2},           {"allow_imprecise_accumulation", A::kBool, true, 2},
    {"lhs_batching_dimensions", A::kIntegers},          {"lhs_component_count", A::kInteger, true, 2},
    {"lhs_contracting_dimensions", A::kIntegers},       {"lhs_precision_type", A::kType, true, 2},
    {"num_primitive_operations", A::kInteger, true, 2}, {"precision_config", A::kArray},
    {"rhs_batching_dimensions", A::kIntegers},          {"rhs_component_count", A::kInteger, true, 2},
    {"rhs_contracting_dimensions", A::kIntegers},       {"rhs_precision_type", A::kType, true, 2}};
constexpr A kDynamicBroadcastInDim[] = {{"broadcast_dimensions", A::kIntegers},
                                        {"known_expanding_dimensions", A::kIntegers},
                                        {"known_nonexpanding_dimensions", A::kIntegers}};
constexpr A kDynamicGather[] = {{"collapsed_slice_dims", A::kIntegers},
                                {"index_vector_dim", A::kInteger},
                                {"indices_are_sorted", A::kBool},
                                {"offset_dims", A::kIntegers},
                                {"operand_batching_dims", A::kIntegers, true, 2},
                                {"start_index_map", A::kIntegers},
                                {"start_indices_batching_dims", A::kIntegers, true, 2}};
constexpr A kDynamicSlice[] = {{"slice_sizes", A::kIntegers}};
constexpr A kEinsum[] = {{"einsum_config", A::kString}};
constexpr A kFft[] = {{"fft_length", A::kIntegers}, {"fft_type", A::kEnumeration}};
constexpr A kGather[] = {{"collapsed_slice_dims", A::kIntegers},
                         {"index_vector_dim", A::kInteger},
                         {"indices_are_sorted", A::kBool},
                         {"offset_dims", A::kIntegers},
                         {"operand_batching_dims", A::kIntegers, true, 2},
                         {"slice_sizes", A::kIntegers},
                         {"start_index_map", A::kIntegers},
                         {"start_indices_batching_dims", A::kIntegers, true, 2}};
constexpr A kGetTupleElement[] = {{"index", A::kInteger}};
constexpr A kInfeed[] = {{"infeed_config", A::kString}, {"layout", A::kArray}};
constexpr A kIota[] = {{"iota_dimension", A::kInteger}};
constexpr A kOutfeed[] = {{"outfeed_config", A::kString}};
constexpr A kPad[] = {
    {"edge_padding_high", A::kIntegers}, {"edge_padding_low", A::kIntegers}, {"interior_padding", A::kIntegers}};
constexpr A kReducePrecision[] = {{"exponent_bits", A::kInteger}, {"mantissa_bits", A::kInteger}};
constexpr A kReduceScatter[] = {{"channel_id", A::kInteger},
                                {"replica_groups", A::kTensor},
                                {"scatter_dimension", A::kInteger},
                                {"use_global_device_ids", A::kBool}};
constexpr A kReduceWindow[] = {{"base_dilations", A::kIntegers},
                               {"padding", A::kTensor},
                               {"window_dilations", A::kIntegers},
                               {"window_dimensions", A::kIntegers},
                               {"window_strides", A::kIntegers}};
constexpr A kReplicaGroups[] = {{"replica_groups", A::kTensor}};
constexpr A kRng[] = {{"rng_distribution", A::kEnumeration}};
constexpr A kRngBitGenerator[] = {{"rng_algorithm", A::kEnumeration}};
constexpr A kScatter[] = {{"index_vector_dim", A::kInteger},
                          {"indices_are_sorted", A::kBool},
                          {"input_batching_dims", A::kIntegers, true, 2},
                          {"inserted_window_dims", A::kIntegers},
                          {"scatter_dims_to_operand_dims", A::kIntegers},
                          {"scatter_indices_batching_dims", A::kIntegers, true, 2},
                          {"unique_indices", A::kBool},
                          {"update_window_dims", A::kIntegers}};
constexpr A kSelectAndScatter[] = {
    {"padding", A::kTensor}, {"window_dimensions", A::kIntegers}, {"window_strides", A::kIntegers}};
constexpr A kSendRecv[] = {{"channel_id", A::kInteger},
                           {"channel_type", A::kInteger},
                           {"is_host_transfer", A::kBool},
                           {"source_target_pairs", A::kTensor, true, 2}};
constexpr A kSlice[] = {{"limit_indices", A::kIntegers}, {"start_indices", A::kIntegers}, {"strides", A::kIntegers}};
constexpr A kSort[] = {{"dimension", A::kInteger}, {"is_stable", A::kBool}};
constexpr A kTorchIndexSelect[] = {{"batch_dims", A::kInteger}, {"dim", A::kInteger}};
constexpr A kTranspose[] = {{"permutation", A::kIntegers}};
constexpr A kTriangularSolve[] = {
    {"left_side", A::kBool}, {"lower", A::kBool}, {"transpose_a", A::kEnumeration}, {"unit_diagonal", A::kBool}};

constexpr A kSdyAllGather[] = {{"gathering_axes", A::kAny}, {"out_sharding", A::kAny}};
constexpr A kSdyAllReduce[] = {{"out_sharding", A::kAny}, {"reduction_axes", A::kAny}};
constexpr A kSdyAllSlice[] = {{"out_sharding", A::kAny}, {"slicing_axes", A::kAny}};
constexpr A kSdyAllToAll[] = {{"out_sharding", A::kAny}, {"params", A::kAny}};
constexpr A kSdyAxes[] = {{"axes", A::kAny}, {"out_sharding", A::kAny}};
constexpr A kSdyGroup[] = {{"group_id", A::kInteger}};
constexpr A kSdyManualComputation[] = {{"in_shardings", A::kAny}, {"manual_axes", A::kAny}, {"out_shardings", A::kAny}};
constexpr A kSdyNamedComputation[] = {
    {"in_shardings", A::kAny, true}, {"name", A::kString}, {"out_shardings", A::kAny, true}};
constexpr A kSdyOutSharding[] = {{"out_sharding", A::kAny}};
constexpr A kSdyPropagationBarrier[] = {{"allowed_direction", A::kInteger}};
constexpr A kSdyReduceScatter[] = {{"out_sharding", A::kAny}, {"reduce_scatter_axes", A::kAny}};
constexpr A kSdySharding[] = {{"sharding", A::kAny}};
constexpr A kSdyMaybeSharding[] = {{"sharding", A::kAny, true}};

constexpr OperatorRow unary(Op op, std::string_view name) {
  return {op, name, "operand", "result", 0, kSameTypes | kElementwise, 1, {}};
}
constexpr OperatorRow accurate(Op op, std::string_view name) {
  return {op, name, "operand", "result", 0, kSameTypes | kElementwise, 2, kAccuracy};
}
constexpr OperatorRow binary(Op op, std::string_view name) {
  return {op, name, "lhs rhs", "result", 0, kSameTypes | kElementwise, 1, {}};
}
// The row of an operator of another dialect.
constexpr OperatorRow sharding(Op op, std::string_view name, std::span<const A> attributes) {
  return {op, name, "operand", "result", 0, kSameTypes | kIdentity, 0, attributes};
}

constexpr std::array kRows = {
    OperatorRow{Op::kAbs, "stablehlo.abs", "operand", "result", 0, kSameShape | kElementwise, 1, {}},
    binary(Op::kAdd, "stablehlo.add"),
    OperatorRow{Op::kAfterAll, "stablehlo.after_all", "inputs*", "result", 0, 0, 1, {}},
    OperatorRow{Op::kAllGather, "stablehlo.all_gather", "operands*", "results*", 0, kSideEffects, 2, kAllGather},
    OperatorRow{Op::kAllReduce, "stablehlo.all_reduce", "operands*", "results*", 1, kSideEffects, 2, kAllReduce},
    OperatorRow{Op::kAllToAll, "stablehlo.all_to_all", "operands*", "results*", 0, kSideEffects, 2, kAllToAll},
    binary(Op::kAnd, "stablehlo.and"),
    binary(Op::kAtan2, "stablehlo.atan2"),
    OperatorRow{Op::kBatchNormGrad, "stablehlo.batch_norm_grad", "operand scale mean variance grad_output",
                "grad_operand grad_scale grad_offset", 0, 0, 1, kBatchNorm},
    OperatorRow{Op::kBatchNormInference, "stablehlo.batch_norm_inference", "operand scale offset mean variance",
                "result", 0, 0, 1, kBatchNorm},
    OperatorRow{Op::kBatchNormTraining, "stablehlo.batch_norm_training", "operand scale offset",
                "output batch_mean batch_var", 0, 0, 1, kBatchNorm},
    OperatorRow{Op::kBitcastConvert, "stablehlo.bitcast_convert", "operand", "result", 0, 0, 1, {}},
    OperatorRow{Op::kBroadcast, "stablehlo.broadcast", "operand", "result", 0, 0, 1, kBroadcast},
    OperatorRow{Op::kBroadcastInDim, "stablehlo.broadcast_in_dim", "operand", "result", 0, 0, 1, kBroadcastInDim},
    OperatorRow{Op::kCase, "stablehlo.case", "index", "results*", -1, kRegionsAreBranches, 1, {}},
    accurate(Op::kCbrt, "stablehlo.cbrt"),
    unary(Op::kCeil, "stablehlo.ceil"),
    OperatorRow{Op::kCholesky, "stablehlo.cholesky", "a", "result", 0, kSameTypes, 1, kCholesky},
    OperatorRow{Op::kClamp, "stablehlo.clamp", "min operand max", "result", 0, kElementwise, 1, {}},
    OperatorRow{Op::kCollectiveBroadcast, "stablehlo.collective_broadcast", "operand", "result", 0,
                kSameTypes | kSideEffects, 1, kCollectiveBroadcast},
    OperatorRow{Op::kCollectivePermute, "stablehlo.collective_permute", "operand", "result", 0,
                kSameTypes | kSideEffects, 1, kCollectivePermute},
    OperatorRow{Op::kCompare, "stablehlo.compare", "lhs rhs", "result", 0, kSameShape | kElementwise, 1, kCompare},
    OperatorRow{Op::kComplex, "stablehlo.complex", "lhs rhs", "result", 0, kSameShape | kElementwise, 1, {}},
    OperatorRow{Op::kComposite, "stablehlo.composite", "inputs*", "results*", 0, 0, 1, kComposite},
    OperatorRow{Op::kConcatenate, "stablehlo.concatenate", "inputs*", "result", 0, 0, 1, kDimension},
    OperatorRow{Op::kConstant, "stablehlo.constant", "", "output", 0, 0, 1, kConstant},
    OperatorRow{Op::kConvert, "stablehlo.convert", "operand", "result", 0, kSameShape | kElementwise, 1, {}},
    OperatorRow{Op::kConvolution, "stablehlo.convolution", "lhs rhs", "result", 0, 0, 1, kConvolution},
    accurate(Op::kCosine, "stablehlo.cosine"),
    unary(Op::kCountLeadingZeros, "stablehlo.count_leading_zeros"),
    OperatorRow{Op::kCreateToken, "stablehlo.create_token", "", "output", 0, 0, 1, {}},
    OperatorRow{Op::kCrossReplicaSum, "stablehlo.cross-replica-sum", "operand", "result", 0, kSameTypes | kSideEffects,
                1, kReplicaGroups},
    OperatorRow{Op::kCustomCall, "stablehlo.custom_call", "inputs*", "results*", 0, 0, 1, kCustomCall},
    binary(Op::kDivide, "stablehlo.divide"),
    OperatorRow{Op::kDot, "stablehlo.dot", "lhs rhs", "result", 0, 0, 1, kDot},
    OperatorRow{Op::kDotGeneral, "stablehlo.dot_general", "lhs rhs", "result", 0, 0, 2, kDotGeneral},
    OperatorRow{Op::kDynamicBroadcastInDim, "stablehlo.dynamic_broadcast_in_dim", "operand output_dimensions", "result",
                0, 0, 1, kDynamicBroadcastInDim},
    OperatorRow{Op::kDynamicConv, "stablehlo.dynamic_conv", "lhs rhs padding", "result", 0, 0, 2, kDynamicConv},
    OperatorRow{Op::kDynamicGather, "stablehlo.dynamic_gather", "operand start_indices slice_sizes", "result", 0, 0, 2,
                kDynamicGather},
    OperatorRow{Op::kDynamicIota, "stablehlo.dynamic_iota", "output_shape", "result", 0, 0, 1, kIota},
    OperatorRow{Op::kDynamicPad,
                "stablehlo.dynamic_pad",
                "operand padding_value edge_padding_low edge_padding_high interior_padding",
                "result",
                0,
                0,
                1,
                {}},
    OperatorRow{Op::kDynamicReshape, "stablehlo.dynamic_reshape", "operand output_shape", "result", 0, 0, 1, {}},
    OperatorRow{Op::kDynamicSlice, "stablehlo.dynamic_slice", "operand start_indices*", "result", 0, 0, 1,
                kDynamicSlice},
    OperatorRow{Op::kDynamicUpdateSlice,
                "stablehlo.dynamic_update_slice",
                "operand update start_indices*",
                "result",
                0,
                0,
                1,
                {}},
    OperatorRow{Op::kEinsum, "stablehlo.einsum", "lhs rhs", "result", 0, 0, 1, kEinsum},
    accurate(Op::kExponential, "stablehlo.exponential"),
    accurate(Op::kExponentialMinusOne, "stablehlo.exponential_minus_one"),
    OperatorRow{Op::kFft, "stablehlo.fft", "operand", "result", 0, 0, 1, kFft},
    unary(Op::kFloor, "stablehlo.floor"),
    OperatorRow{Op::kGather, "stablehlo.gather", "operand start_indices", "result", 0, 0, 2, kGather},
    OperatorRow{Op::kGetDimensionSize, "stablehlo.get_dimension_size", "operand", "result", 0, 0, 1, kDimension},
    OperatorRow{Op::kGetTupleElement, "stablehlo.get_tuple_element", "operand", "result", 0, 0, 1, kGetTupleElement},
    OperatorRow{Op::kIf, "stablehlo.if", "pred", "results*", 2, kRegionsAreBranches, 1, {}},
    OperatorRow{Op::kImag, "stablehlo.imag", "operand", "result", 0, kSameShape | kElementwise, 1, {}},
    OperatorRow{Op::kInfeed, "stablehlo.infeed", "token", "results*", 0, kSideEffects, 1, kInfeed},
    OperatorRow{Op::kIota, "stablehlo.iota", "", "output", 0, 0, 1, kIota},
    OperatorRow{Op::kIsFinite, "stablehlo.is_finite", "x", "y", 0, kSameShape | kElementwise, 1, {}},
    accurate(Op::kLog, "stablehlo.log"),
    accurate(Op::kLogPlusOne, "stablehlo.log_plus_one"),
    accurate(Op::kLogistic, "stablehlo.logistic"),
    OperatorRow{Op::kMap, "stablehlo.map", "inputs*", "result", 1, kSameShape, 1, kDimensions},
    binary(Op::kMaximum, "stablehlo.maximum"),
    binary(Op::kMinimum, "stablehlo.minimum"),
    binary(Op::kMultiply, "stablehlo.multiply"),
    unary(Op::kNegate, "stablehlo.negate"),
    unary(Op::kNot, "stablehlo.not"),
    OperatorRow{Op::kOptimizationBarrier,
                "stablehlo.optimization_barrier",
                "operand*",
                "result*",
                0,
                kResultsAreOperands,
                1,
                {}},
    binary(Op::kOr, "stablehlo.or"),
    OperatorRow{Op::kOutfeed, "stablehlo.outfeed", "inputs* token", "result", 0, kSideEffects, 1, kOutfeed},
    OperatorRow{Op::kPad, "stablehlo.pad", "operand padding_value", "result", 0, 0, 1, kPad},
    OperatorRow{Op::kPartitionId, "stablehlo.partition_id", "", "result", 0, 0, 1, {}},
    unary(Op::kPopcnt, "stablehlo.popcnt"),
    binary(Op::kPower, "stablehlo.power"),
    OperatorRow{Op::kReal, "stablehlo.real", "operand", "result", 0, kSameShape | kElementwise, 1, {}},
    OperatorRow{Op::kRealDynamicSlice,
                "stablehlo.real_dynamic_slice",
                "operand start_indices limit_indices strides",
                "result",
                0,
                0,
                1,
                {}},
    OperatorRow{Op::kRecv, "stablehlo.recv", "token", "results*", 0, kSideEffects, 2, kSendRecv},
    OperatorRow{Op::kReduce, "stablehlo.reduce", "inputs* init_values*", "results*", 1, 0, 1, kDimensions},
    OperatorRow{Op::kReducePrecision, "stablehlo.reduce_precision", "operand", "output", 0, kSameTypes | kElementwise,
                1, kReducePrecision},
    OperatorRow{Op::kReduceScatter, "stablehlo.reduce_scatter", "operand", "result", 1, kSideEffects, 1,
                kReduceScatter},
    OperatorRow{Op::kReduceWindow, "stablehlo.reduce_window", "inputs* init_values*", "results*", 1, 0, 1,
                kReduceWindow},
    binary(Op::kRemainder, "stablehlo.remainder"),
    OperatorRow{Op::kReplicaId, "stablehlo.replica_id", "", "result", 0, 0, 1, {}},
    OperatorRow{Op::kReshape, "stablehlo.reshape", "operand", "result", 0, 0, 1, {}},
    OperatorRow{Op::kReturn, "stablehlo.return", "results*", "", 0, kTerminator, 1, {}},
    OperatorRow{Op::kReverse, "stablehlo.reverse", "operand", "result", 0, kSameTypes, 1, kDimensions},
    OperatorRow{Op::kRng, "stablehlo.rng", "a b shape", "result", 0, kSideEffects, 1, kRng},
    OperatorRow{Op::kRngBitGenerator, "stablehlo.rng_bit_generator", "initial_state", "output_state output", 0, 0, 1,
                kRngBitGenerator},
    unary(Op::kRoundNearestAfz, "stablehlo.round_nearest_afz"),
    unary(Op::kRoundNearestEven, "stablehlo.round_nearest_even"),
    accurate(Op::kRsqrt, "stablehlo.rsqrt"),
    OperatorRow{Op::kScatter, "stablehlo.scatter", "inputs* scatter_indices updates*", "results*", 1, 0, 2, kScatter},
    OperatorRow{Op::kSelect, "stablehlo.select", "pred on_true on_false", "result", 0, kElementwise, 1, {}},
    OperatorRow{Op::kSelectAndScatter, "stablehlo.select_and_scatter", "operand source init_value", "result", 2, 0, 1,
                kSelectAndScatter},
    OperatorRow{Op::kSend, "stablehlo.send", "inputs* token", "result", 0, kSideEffects, 2, kSendRecv},
    OperatorRow{Op::kSetDimensionSize, "stablehlo.set_dimension_size", "operand size", "result", 0, 0, 1, kDimension},
    binary(Op::kShiftLeft, "stablehlo.shift_left"),
    binary(Op::kShiftRightArithmetic, "stablehlo.shift_right_arithmetic"),
    binary(Op::kShiftRightLogical, "stablehlo.shift_right_logical"),
    unary(Op::kSign, "stablehlo.sign"),
    accurate(Op::kSine, "stablehlo.sine"),
    OperatorRow{Op::kSlice, "stablehlo.slice", "operand", "result", 0, 0, 1, kSlice},
    OperatorRow{Op::kSort, "stablehlo.sort", "inputs*", "results*", 1, kResultsAreOperands, 1, kSort},
    accurate(Op::kSqrt, "stablehlo.sqrt"),
    binary(Op::kSubtract, "stablehlo.subtract"),
    accurate(Op::kTan, "stablehlo.tan"),
    accurate(Op::kTanh, "stablehlo.tanh"),
    OperatorRow{Op::kTorchIndexSelect, "stablehlo.torch_index_select", "operand index", "result", 0, 0, 1,
                kTorchIndexSelect},
    OperatorRow{Op::kTranspose, "stablehlo.transpose", "operand", "result", 0, 0, 1, kTranspose},
    OperatorRow{Op::kTriangularSolve, "stablehlo.triangular_solve", "a b", "result", 0, 0, 1, kTriangularSolve},
    OperatorRow{Op::kTuple, "stablehlo.tuple", "val*", "result", 0, 0, 1, {}},
    OperatorRow{Op::kUnaryEinsum, "stablehlo.unary_einsum", "operand", "result", 0, 0, 1, kEinsum},
    OperatorRow{Op::kUniformDequantize, "stablehlo.uniform_dequantize", "operand", "result", 0, kSameShape, 1, {}},
    OperatorRow{Op::kUniformQuantize, "stablehlo.uniform_quantize", "operand", "result", 0, kSameShape, 1, {}},
    OperatorRow{Op::kWhile, "stablehlo.while", "operand*", "results*", 2, kResultsAreOperands, 1, {}},
    binary(Op::kXor, "stablehlo.xor"),

    OperatorRow{Op::kCall, "func.call", "operands*", "results*", 0, 0, 1, kCall},

    sharding(Op::kSdyAllGather, "sdy.all_gather", kSdyAllGather),
    sharding(Op::kSdyAllReduce, "sdy.all_reduce", kSdyAllReduce),
    sharding(Op::kSdyAllSlice, "sdy.all_slice", kSdyAllSlice),
    sharding(Op::kSdyAllToAll, "sdy.all_to_all", kSdyAllToAll),
    sharding(Op::kSdyCollectivePermute, "sdy.collective_permute", kSdyOutSharding),
    sharding(Op::kSdyDataFlowEdge, "sdy.data_flow_edge", kSdyMaybeSharding),
    OperatorRow{Op::kSdyManualComputation, "sdy.manual_computation", "tensors*", "results*", 1, 0, 0,
                kSdyManualComputation},
    OperatorRow{Op::kSdyNamedComputation, "sdy.named_computation", "operands*", "results*", 1, 0, 0,
                kSdyNamedComputation},
    sharding(Op::kSdyPropagationBarrier, "sdy.propagation_barrier", kSdyPropagationBarrier),
    sharding(Op::kSdyReduceScatter, "sdy.reduce_scatter", kSdyReduceScatter),
    sharding(Op::kSdyReplicatedToUnreduced, "sdy.replicated_to_unreduced", kSdyAxes),
    sharding(Op::kSdyReshard, "sdy.reshard", kSdySharding),
    sharding(Op::kSdyShardedToUnreduced, "sdy.sharded_to_unreduced", kSdyAxes),
    sharding(Op::kSdyShardingConstraint, "sdy.sharding_constraint", kSdySharding),
    OperatorRow{Op::kSdyShardingGroup, "sdy.sharding_group", "input", "", 0, 0, 0, kSdyGroup},
};

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
