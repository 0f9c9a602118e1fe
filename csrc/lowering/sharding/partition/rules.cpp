#include "lowering/sharding/partition/rules.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "stablehlo/evaluator/number.h"
#include "stablehlo/evaluator/scalar_program.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

bool has(const Sizes& listed, size_t dimension) {
  return std::ranges::count(listed, static_cast<int64_t>(dimension)) != 0;
}
const Sizes& sizes_of(const Value& value) {
  return value.type->dims;
}

// A rule by which nothing is cut.
Rule whole(const Operation& op) {
  Rule rule;
  for (const Value* operand : op.operands) rule.operands.emplace_back(operand->type->dims.size(), Rule::kWhole);
  for (const Value* result : op.results) rule.results.emplace_back(result->type->dims.size(), Rule::kWhole);
  return rule;
}

// The rule that cuts dimensions of all operands and results with the rank of the first result, if `in_parts` says so.
Rule along(const Operation& op, const std::function<bool(size_t)>& in_parts) {
  Rule rule = whole(op);
  const size_t rank = sizes_of(op.result()).size();
  for (size_t d = 0; d < rank; ++d) {
    if (!in_parts(d)) continue;
    const int factor = rule.add_factor();
    for (auto* of : {&rule.operands, &rule.results}) {
      for (std::vector<int>& factors : *of) {
        if (factors.size() == rank) factors[d] = factor;
      }
    }
  }
  return rule;
}
Rule along_all(const Operation& op) {
  return along(op, [](size_t) { return true; });
}
// Cuts all but the last `count` dimensions, over which one computation goes.
Rule along_batch(const Operation& op, size_t count) {
  return along(op, [kept = sizes_of(op.result()).size() - count](size_t d) { return d < kept; });
}

// --- movement --------------------------------------------------------------------------------------------------------

// Dimension i of the operand is dimension `to[i]` of the result.
Rule moved(const Operation& op, const Sizes& to) {
  Rule rule = whole(op);
  for (size_t i = 0; i < to.size(); ++i) {
    const auto d = static_cast<size_t>(to[i]);
    if (sizes_of(op.operand(0))[i] != sizes_of(op.result())[d]) continue;
    rule.operands[0][i] = rule.results[0][d] = rule.add_factor();
  }
  return rule;
}

Rule transposed_rule(const Operation& op) {
  const Sizes permutation = op.integers("permutation");
  Sizes to(permutation.size());
  for (size_t d = 0; d < to.size(); ++d) to[static_cast<size_t>(permutation[d])] = static_cast<int64_t>(d);
  return moved(op, to);
}

Rule broadcast_rule(const Operation& op) {
  if (op.op == Operator::kBroadcastInDim) return moved(op, op.integers("broadcast_dimensions"));
  Sizes to(sizes_of(op.operand(0)).size());  // the last ones
  std::iota(to.begin(), to.end(), static_cast<int64_t>(sizes_of(op.result()).size() - to.size()));
  return moved(op, to);
}

// Groups of dimensions have the same elements on both sides; the outermost of a group are one factor.
Rule reshaped_rule(const Operation& op) {
  Rule rule = whole(op);
  const Sizes &from = sizes_of(op.operand(0)), &to = sizes_of(op.result());
  if (is_empty(from)) return rule;
  for (size_t i = 0, j = 0; i < from.size() && j < to.size();) {
    if (from[i] == 1 || to[j] == 1) {
      (from[i] == 1 ? i : j) += 1;
      continue;
    }
    rule.operands[0][i] = rule.results[0][j] = rule.add_factor();
    int64_t left = from[i++], right = to[j++];
    while (left != right) {
      if (left < right) {
        left *= from[i++];
      } else {
        right *= to[j++];
      }
    }
  }
  return rule;
}

Rule slice_rule(const Operation& op) {
  const Sizes start = op.integers("start_indices"), limit = op.integers("limit_indices"),
              strides = op.integers("strides");
  Rule rule =
      along(op, [&](size_t d) { return start[d] == 0 && strides[d] == 1 && limit[d] == sizes_of(op.operand(0))[d]; });
  rule.sizes_attribute = "limit_indices";
  return rule;
}

Rule pad_rule(const Operation& op) {
  const Sizes low = op.integers("edge_padding_low"), high = op.integers("edge_padding_high"),
              interior = op.integers("interior_padding");
  return along(op, [&](size_t d) { return low[d] == 0 && high[d] == 0 && interior[d] == 0; });
}

// The rule of slices that begin where operands say: only dimensions that the slice has in full can be cut.
Rule dynamic_slice_rule(const Operation& op, const Value& slice) {
  Rule rule = along(op, [&](size_t d) { return sizes_of(op.operand(0))[d] == sizes_of(slice)[d]; });
  if (op.op == Operator::kDynamicSlice) rule.sizes_attribute = "slice_sizes";
  return rule;
}

// --- sums ------------------------------------------------------------------------------------------------------------

// Whether all elements are this number.
bool is_constant(const Value& value, double expected) {
  const Operation* source = value.definition;
  while (source != nullptr && source->op == Operator::kBroadcastInDim) source = source->operand(0).definition;
  if (source == nullptr || source->op != Operator::kConstant) return false;
  const TensorLiteral& literal = source->literal("value");
  if (!literal.is_splat && literal.type->element_count() != 1) return false;
  const Number number = load(literal.type->element, literal.bytes.data());
  if (kind_of(literal.type->element) == ElementKind::kComplex) return number.real == expected && number.imaginary == 0;
  if (kind_of(literal.type->element) == ElementKind::kFloat) return number.real == expected;
  return number.integer == static_cast<int64_t>(expected);
}

// Whether the results of shards can be combined to the result of the whole. They can if one operator reduces them, and
// the initial value counts once or does not count.
bool is_sum_of_parts(const Module& module, const Region& body, const Value& initial) {
  if (body.arguments().size() != 2) return false;
  const Operation* only = ScalarProgram(module, body).only_operation();
  if (only == nullptr) return false;
  switch (only->op) {
    case Operator::kMaximum:
    case Operator::kMinimum:
    case Operator::kAnd:
    case Operator::kOr:
      return true;
    case Operator::kAdd:
    case Operator::kMultiply:
      break;
    default:
      return false;
  }
  return is_constant(initial, only->op == Operator::kAdd ? 0 : 1);
}

Rule reduce_rule(const Module& module, const Operation& op) {
  Rule rule = whole(op);
  const Sizes dimensions = op.integers("dimensions");
  const size_t count = op.results.size();
  const bool sums = count == 1 && is_sum_of_parts(module, op.region(), op.operand(1));
  size_t next = 0;
  for (size_t d = 0; d < sizes_of(op.operand(0)).size(); ++d) {
    const bool is_reduced = has(dimensions, d);
    const size_t at = is_reduced ? 0 : next++;
    if (is_reduced && !sums) continue;
    const int factor = rule.add_factor(is_reduced);
    for (size_t k = 0; k < count; ++k) {
      rule.operands[k][d] = factor;
      if (!is_reduced) rule.results[k][at] = factor;
    }
  }
  if (sums) rule.combination = &op.region();
  return rule;
}

Rule dot_rule(const Operation& op) {
  Rule rule = whole(op);
  const Sizes left_batch = op.integers("lhs_batching_dimensions"), right_batch = op.integers("rhs_batching_dimensions"),
              left_summed = op.integers("lhs_contracting_dimensions"),
              right_summed = op.integers("rhs_contracting_dimensions");
  const auto pair = [&rule](int64_t left, int64_t right, bool is_summed) {
    const int factor = rule.add_factor(is_summed);
    return rule.operands[0][static_cast<size_t>(left)] = rule.operands[1][static_cast<size_t>(right)] = factor;
  };
  size_t next = 0;
  for (size_t i = 0; i < left_batch.size(); ++i) rule.results[0][next++] = pair(left_batch[i], right_batch[i], false);
  for (size_t i = 0; i < left_summed.size(); ++i) pair(left_summed[i], right_summed[i], true);
  for (std::vector<int>& factors : rule.operands) {
    for (int& factor : factors) {
      if (factor == Rule::kWhole) factor = rule.results[0][next++] = rule.add_factor();
    }
  }
  return rule;
}

Rule convolution_rule(const Operation& op) {
  Rule rule = whole(op);
  const auto at = [&op](std::string_view name) { return static_cast<size_t>(op.integer(name)); };
  const bool in_groups = op.integer("feature_group_count") != 1;
  if (op.integer("batch_group_count") != 1) return rule;
  rule.operands[0][at("input_batch_dimension")] = rule.results[0][at("output_batch_dimension")] = rule.add_factor();
  if (in_groups) return rule;
  rule.operands[1][at("kernel_output_feature_dimension")] = rule.results[0][at("output_feature_dimension")] =
      rule.add_factor();
  rule.operands[0][at("input_feature_dimension")] = rule.operands[1][at("kernel_input_feature_dimension")] =
      rule.add_factor(true);
  return rule;
}

// --- windows ---------------------------------------------------------------------------------------------------------

// The dimensions along which windows are single elements.
Rule window_rule(const Operation& op) {
  const Sizes window = op.integers("window_dimensions"), padding = op.integers("padding"),
              strides = op.integers("window_strides"), dilations = op.integers_or_none("base_dilations");
  return along(op, [&](size_t d) {
    return window[d] == 1 && strides[d] == 1 && (dilations.empty() || dilations[d] == 1) && padding[2 * d] == 0 &&
           padding[2 * d + 1] == 0;
  });
}

// --- indexing --------------------------------------------------------------------------------------------------------

// Indices have a dimension for the coordinates of one place, or none; the others, in their order.
std::vector<size_t> places_dimensions(const Operation& op, const Value& indices) {
  std::vector<size_t> dimensions;
  for (size_t d = 0; d < sizes_of(indices).size(); ++d) {
    if (static_cast<int64_t>(d) != op.integer("index_vector_dim")) dimensions.push_back(d);
  }
  return dimensions;
}

Rule gather_rule(const Operation& op) {
  Rule rule = whole(op);
  const Sizes offsets = op.integers("offset_dims"), collapsed = op.integers("collapsed_slice_dims"),
              sizes = op.integers("slice_sizes"), batching = op.integers_or_none("operand_batching_dims"),
              index_batching = op.integers_or_none("start_indices_batching_dims");
  std::vector<int>&operand = rule.operands[0], &indices = rule.operands[1], &result = rule.results[0];
  const std::vector<size_t> places = places_dimensions(op, op.operand(1));
  size_t place = 0;
  for (size_t d = 0; d < result.size(); ++d) {
    if (!has(offsets, d)) result[d] = indices[places.at(place++)] = rule.add_factor();
  }
  for (size_t i = 0; i < batching.size(); ++i) {
    operand[static_cast<size_t>(batching[i])] = indices[static_cast<size_t>(index_batching[i])];
  }
  size_t offset = 0;
  for (size_t d = 0; d < operand.size(); ++d) {
    if (has(collapsed, d) || has(batching, d)) continue;
    const auto to = static_cast<size_t>(offsets.at(offset++));
    if (sizes[d] == sizes_of(op.operand(0))[d]) operand[d] = result[to] = rule.add_factor();
  }
  rule.sizes_attribute = "slice_sizes";
  return rule;
}

Rule scatter_rule(const Module& module, const Operation& op) {
  Rule rule = whole(op);
  const Sizes windows = op.integers("update_window_dims"), inserted = op.integers("inserted_window_dims"),
              batching = op.integers_or_none("input_batching_dims"),
              index_batching = op.integers_or_none("scatter_indices_batching_dims");
  const size_t count = op.results.size();
  const bool sums = count == 1 && is_sum_of_parts(module, op.region(), op.operand(0));
  const Value& updates = op.operand(count + 1);
  std::vector<int>& indices = rule.operands[count];
  const std::vector<size_t> places = places_dimensions(op, op.operand(count));
  const auto set = [&rule, count](size_t input, size_t update, int factor) {
    for (size_t k = 0; k < count; ++k) {
      rule.operands[k][input] = rule.results[k][input] = rule.operands[count + 1 + k][update] = factor;
    }
  };
  size_t place = 0, window = 0;
  for (size_t d = 0; d < sizes_of(updates).size(); ++d) {
    if (has(windows, d)) continue;
    const size_t at = places.at(place++);
    const auto batch = std::ranges::find(index_batching, static_cast<int64_t>(at));
    if (batch != index_batching.end()) {
      indices[at] = rule.add_factor();
      set(static_cast<size_t>(batching[static_cast<size_t>(batch - index_batching.begin())]), d, indices[at]);
    } else if (sums) {
      indices[at] = rule.operands[count + 1][d] = rule.add_factor(true);
    }
  }
  for (size_t d = 0; d < sizes_of(op.operand(0)).size(); ++d) {
    if (has(inserted, d) || has(batching, d)) continue;
    const auto update = static_cast<size_t>(windows.at(window++));
    if (sizes_of(updates)[update] == sizes_of(op.operand(0))[d]) set(d, update, rule.add_factor());
  }
  if (sums) rule.combination = &op.region();
  return rule;
}

bool keeps_shape(const Operation& op) {
  const OperatorRow& row = op.row();
  return row.has(kSameShape) || row.has(kSameTypes);
}

}  // namespace

Rule rule_of(const Module& module, const Operation& op) {
  if (op.results.empty() || !op.result().type->is_tensor() || op.row().has(kSideEffects)) return whole(op);
  switch (op.op) {
    case Operator::kBroadcast:
    case Operator::kBroadcastInDim:
      return broadcast_rule(op);
    case Operator::kTranspose:
      return transposed_rule(op);
    case Operator::kReshape:
      return reshaped_rule(op);
    case Operator::kSlice:
      return slice_rule(op);
    case Operator::kPad:
      return pad_rule(op);
    case Operator::kDynamicSlice:
      return dynamic_slice_rule(op, op.result());
    case Operator::kDynamicUpdateSlice:
      return dynamic_slice_rule(op, op.operand(1));
    case Operator::kConcatenate:
    case Operator::kSort:
      return along(op, [&op](size_t d) { return static_cast<int64_t>(d) != op.integer("dimension"); });
    case Operator::kReverse:
      return along(op, [&op](size_t d) { return !has(op.integers("dimensions"), d); });
    case Operator::kClamp:  // whose bounds, like the predicate of a selection, may be single ones
    case Operator::kSelect:
      return along_all(op);
    case Operator::kReduce:
      return reduce_rule(module, op);
    case Operator::kDotGeneral:
      return dot_rule(op);
    case Operator::kConvolution:
      return convolution_rule(op);
    case Operator::kReduceWindow:
    case Operator::kSelectAndScatter:
      return window_rule(op);
    case Operator::kGather:
      return gather_rule(op);
    case Operator::kScatter:
      return scatter_rule(module, op);
    case Operator::kCholesky:
    case Operator::kTriangularSolve:
      return along_batch(op, 2);
    case Operator::kFft:
      return along_batch(op, op.integers("fft_length").size());
    case Operator::kCustomCall:
      return op.string("call_target_name") == "mydev.threefry2x32" ? along_all(op) : whole(op);
    case Operator::kBitcastConvert:
      return sizes_of(op.operand(0)).size() == sizes_of(op.result()).size() ? along_all(op) : whole(op);
    default:
      return keeps_shape(op) ? along_all(op) : whole(op);
  }
}

bool adds(const Module& module, const Region& region) {
  if (region.arguments().size() != 2) return false;
  const Operation* only = ScalarProgram(module, region).only_operation();
  return only != nullptr && only->op == Operator::kAdd;
}

bool is_linear(const Module& module, const Operation& op, const std::vector<bool>& in_summands) {
  const auto count = std::ranges::count(in_summands, true);
  const auto only_first = [&](int64_t operands) {  // all of them, and no other
    return count == operands && std::all_of(in_summands.begin(), in_summands.begin() + operands, std::identity());
  };
  const auto is_zero_or_in_summands = [&](size_t i) { return in_summands[i] || is_constant(op.operand(i), 0); };
  switch (op.op) {
    case Operator::kBroadcast:
    case Operator::kBroadcastInDim:
    case Operator::kImag:
    case Operator::kNegate:
    case Operator::kReal:
    case Operator::kReshape:
    case Operator::kReverse:
    case Operator::kSlice:
    case Operator::kTranspose:
      return true;
    case Operator::kConvert: {
      const ElementKind from = kind_of(op.operand(0).type->element), to = kind_of(op.result().type->element);
      const bool rounds = from == ElementKind::kFloat && (to == ElementKind::kSigned || to == ElementKind::kUnsigned);
      return from != ElementKind::kBool && to != ElementKind::kBool && !rounds;
    }
    case Operator::kAdd:
    case Operator::kComplex:
    case Operator::kConcatenate:
    case Operator::kSubtract:
      return count == static_cast<int64_t>(in_summands.size());
    case Operator::kConvolution:
    case Operator::kDotGeneral:
    case Operator::kMultiply:
      return count == 1;
    case Operator::kDivide:
    case Operator::kDynamicSlice:
    case Operator::kGather:
      return only_first(1);
    case Operator::kDynamicUpdateSlice:
      return only_first(2);
    case Operator::kPad:
      return in_summands[0] && is_zero_or_in_summands(1);
    case Operator::kReduce:
      return only_first(1) && op.results.size() == 1 && is_constant(op.operand(1), 0) && adds(module, op.region());
    case Operator::kScatter:
      return in_summands.size() == 3 && !in_summands[1] && in_summands[2] && is_zero_or_in_summands(0) &&
             adds(module, op.region());
    case Operator::kSelect:
      return !in_summands[0] && count == 2;
    default:
      return false;
  }
}

}  // namespace mydev::lowering
