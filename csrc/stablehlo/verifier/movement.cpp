// Operators that only say where elements go.
#include <string>

#include "stablehlo/verifier/checks.h"
#include "stablehlo/verifier/rules.h"

namespace mydev::stablehlo::verifier {

namespace {

// If the width changes, an innermost dimension is added or removed.
void bitcast_convert(const Operation& op) {
  const Type &from = operand(op), &to = result(op);
  if ((from.element == ElementType::kPred) != (to.element == ElementType::kPred)) {
    op.fail(MYDEV_UNIMPLEMENTED, "takes the bits of a ", from.text(), " for a ", to.text(),
            "; those of i1 are not supported");
  }
  const int64_t had = element_row(from.element).bits, has = element_row(to.element).bits;
  Numbers sizes = from.dims;
  if (has < had) {
    require(op, had % has == 0, from.text(), " and ", to.text(), " are not of as many bits");
    sizes.push_back(had / has);
  } else if (has > had) {
    require(op, !sizes.empty() && has % had == 0 && same_size(sizes.back(), has / had), from.text(), " and ", to.text(),
            " are not of as many bits");
    sizes.pop_back();
  }
  require_result(op, to.element, sizes);
}

void broadcast(const Operation& op) {
  const Type& from = operand(op);
  Numbers sizes = op.integers("broadcast_sizes");
  for (const int64_t size : sizes) require(op, size >= 0, "'broadcast_sizes' has ", size);
  sizes.insert(sizes.end(), from.dims.begin(), from.dims.end());
  require_result(op, from.element, sizes);
}

void broadcast_in_dim(const Operation& op) {
  const Type &from = operand(op), &to = result(op);
  const Numbers places = dimensions(op, "broadcast_dimensions", to.rank());
  require(op, static_cast<int64_t>(places.size()) == from.rank(), "'broadcast_dimensions' has ", places.size(),
          " dimensions of an operand of rank ", from.rank());
  Numbers sizes = to.dims;
  for (size_t d = 0; d < places.size(); ++d) {
    int64_t& size = sizes[static_cast<size_t>(places[d])];
    require(op, from.dims[d] == 1 || same_size(from.dims[d], size), "dimension ", d, " of size ", from.dims[d],
            " does not broadcast to size ", size);
  }
  require_result(op, from.element, sizes);
}

void concatenate(const Operation& op) {
  require(op, !op.operands.empty(), "it has no operands");
  const Type& first = operand(op);
  const int64_t along = op.integer("dimension");
  require_dimension(op, "dimension", along, first.rank());
  Numbers sizes = first.dims;
  int64_t& total = sizes[static_cast<size_t>(along)] = 0;
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const Type& type = operand(op, i);
    Numbers others = first.dims;
    require(op, type.rank() == first.rank(), "operand ", i, " is of the type ", type.text(), ", and operand 0 of ",
            first.text());
    const int64_t size = others[static_cast<size_t>(along)] = type.dims[static_cast<size_t>(along)];
    require_type(op, type, first.element, others, "operand " + std::to_string(i));
    if (total == kDynamic || size == kDynamic) {
      total = kDynamic;
    } else {
      require(op, !__builtin_add_overflow(total, size, &total), "its operands have more elements than there can be");
    }
  }
  require_result(op, first.element, sizes);
}

void constant(const Operation& op) {
  const Type& written = *op.literal("value").type;
  require_result(op, written.element, written.dims);
}

void get_dimension_size(const Operation& op) {
  require_dimension(op, "dimension", op.integer("dimension"), operand(op).rank());
  require_result(op, ElementType::kS32, {});
}

// The result has the operand's sizes; a size may be known only when the program runs.
void set_dimension_size(const Operation& op) {
  const Type& from = operand(op);
  require_dimension(op, "dimension", op.integer("dimension"), from.rank());
  require_result(op, from.element, from.dims);
}

void get_tuple_element(const Operation& op) {
  const Type& tuple = *op.operand(0).type;
  const int64_t index = op.integer("index");
  require(op, tuple.kind == TypeKind::kTuple, "it takes a tuple, found ", tuple.text());
  require(op, index >= 0 && index < static_cast<int64_t>(tuple.inputs.size()), "element ", index, " of ", tuple.text());
  require(op, *tuple.inputs[static_cast<size_t>(index)] == *op.result().type, "element ", index, " of ", tuple.text(),
          " is a ", op.result().type->text());
}

void tuple(const Operation& op) {
  const Type& to = *op.result().type;
  const bool is_of_operands = to.kind == TypeKind::kTuple && to.inputs.size() == op.operands.size() &&
                              std::ranges::equal(to.inputs, op.operands, [](const Type* element, const Value* given) {
                                return *element == *given->type;
                              });
  require(op, is_of_operands, "it makes a ", to.text(), " of ", op.operands.size(), " operands of other types");
}

void iota(const Operation& op) {
  const Type& to = result(op);
  require_dimension(op, "iota_dimension", op.integer("iota_dimension"), to.rank());
  require(op, to.element != ElementType::kPred, "it counts in ", to.text(), ", and i1 has no numbers to count in");
}

void pad(const Operation& op) {
  const Type& from = operand(op);
  require_type(op, operand(op, 1), from.element, {}, "the padding");
  const Numbers low = numbers(op, "edge_padding_low", from.rank());
  const Numbers high = numbers(op, "edge_padding_high", from.rank());
  const Numbers interior = numbers(op, "interior_padding", from.rank());
  Numbers sizes(low.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    require(op, interior[d] >= 0, "'interior_padding' has ", interior[d]);
    int64_t inner = 0;
    const bool overflows = from.dims[d] > 0 && (__builtin_mul_overflow(from.dims[d] - 1, interior[d], &inner) ||
                                                __builtin_add_overflow(inner, from.dims[d], &inner));
    require(op, !overflows && is_bounded(inner) && is_bounded(low[d]) && is_bounded(high[d]) && is_bounded(interior[d]),
            "the padding of dimension ", d, " is larger than any tensor");
    sizes[d] = from.dims[d] == kDynamic ? kDynamic : inner + low[d] + high[d];
  }
  require_result(op, from.element, sizes);
}

void reshape(const Operation& op) {
  const Type &from = operand(op), &to = result(op);
  require(op, from.element == to.element && same_size(from.element_count(), to.element_count()), from.text(), " and ",
          to.text(), " are not of as many elements");
}

void reverse(const Operation& op) {
  dimensions(op, "dimensions", operand(op).rank());
}

void slice(const Operation& op) {
  const Type& from = operand(op);
  const Numbers starts = numbers(op, "start_indices", from.rank());
  const Numbers limits = numbers(op, "limit_indices", from.rank());
  const Numbers strides = positive_numbers(op, "strides", from.rank());
  Numbers sizes(starts.size());
  for (size_t d = 0; d < sizes.size(); ++d) {
    require(op, starts[d] >= 0 && starts[d] <= limits[d] && (from.dims[d] == kDynamic || limits[d] <= from.dims[d]),
            "elements ", starts[d], " to ", limits[d], " of dimension ", d, ", which has ", from.dims[d]);
    const int64_t length = limits[d] - starts[d];
    sizes[d] = length / strides[d] + (length % strides[d] != 0 ? 1 : 0);
  }
  require_result(op, from.element, sizes);
}

void transpose(const Operation& op) {
  const Type& from = operand(op);
  const Numbers permutation = dimensions(op, "permutation", from.rank());
  require(op, static_cast<int64_t>(permutation.size()) == from.rank(), "'permutation' has ", permutation.size(),
          " dimensions of ", from.rank());
  Numbers sizes;
  for (const int64_t dimension : permutation) sizes.push_back(from.dims[static_cast<size_t>(dimension)]);
  require_result(op, from.element, sizes);
}

constexpr RuleRow kMovementRules[] = {
    {Operator::kBitcastConvert, bitcast_convert},
    {Operator::kBroadcast, broadcast},
    {Operator::kBroadcastInDim, broadcast_in_dim},
    {Operator::kDynamicBroadcastInDim, broadcast_in_dim},
    {Operator::kConcatenate, concatenate},
    {Operator::kConstant, constant},
    {Operator::kGetDimensionSize, get_dimension_size},
    {Operator::kSetDimensionSize, set_dimension_size},
    {Operator::kGetTupleElement, get_tuple_element},
    {Operator::kTuple, tuple},
    {Operator::kIota, iota},
    {Operator::kDynamicIota, iota},
    {Operator::kPad, pad},
    {Operator::kReshape, reshape},
    {Operator::kDynamicReshape, reshape},
    {Operator::kReverse, reverse},
    {Operator::kSlice, slice},
    {Operator::kTranspose, transpose},
};

}  // namespace

std::span<const RuleRow> movement_rules() noexcept {
  return kMovementRules;
}

}  // namespace mydev::stablehlo::verifier
