// Gathers that take whole slices along one dimension.
#include <array>

#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

bool lower_indexing(Frame& frame, const Operation& op) {
  if (op.op != Operator::kGather) return false;
  const Type &operand = *op.operand(0).type, &indices = *op.operand(1).type;
  const Sizes map = op.integers("start_index_map"), offsets = op.integers("offset_dims"),
              slice = op.integers("slice_sizes");
  const int64_t vector_dim = op.integer("index_vector_dim");
  if (map.size() != 1 || op.integers("collapsed_slice_dims") != map || vector_dim < indices.rank() - 1 ||
      (vector_dim == indices.rank() - 1 && indices.dims.back() != 1) || is_empty(operand.dims) ||
      (indices.element != ElementType::kS32 && indices.element != ElementType::kS64) || !has_kernels(operand.element) ||
      !op.integers_or_none("operand_batching_dims").empty()) {
    return false;
  }
  // The slices' dimensions lie around those of the indices as they do around the one that is indexed.
  const auto d = static_cast<size_t>(map[0]);
  const int64_t batch_rank = vector_dim;
  int64_t outer = 1, inner = 1;
  for (size_t i = 0; i < operand.dims.size(); ++i) {
    if (i == d) continue;
    if (slice[i] != operand.dims[i]) return false;
    (i < d ? outer : inner) *= operand.dims[i];
    const int64_t expected = static_cast<int64_t>(i) + (i < d ? 0 : batch_rank - 1);
    if (offsets.at(i < d ? i : i - 1) != expected) return false;
  }
  Emitter& emit = frame.emit;
  const int64_t count = indices.element_count();
  const program::Operand result = frame.result_of(op.result());
  frame.set(op.result(), {result, std::nullopt});
  if (is_empty(result.sizes)) return true;
  const program::Operand places = emit.reshape(frame.view(op.operand(1)), {count});
  const program::Operand within = emit.temporary(places.dtype, places.sizes);
  const std::array attributes = {integer_attribute("min", 0), integer_attribute("max", operand.dims[d] - 1)};
  emit.launch("mydev.clamp", {within}, {places}, attributes);
  const program::Operand table = emit.reshape(emit.dense(frame.view(op.operand(0))), {outer, operand.dims[d], inner});
  emit.launch("mydev.index_select", {*reshaped(result, {outer, count, inner})}, {table, within});
  return true;
}

}  // namespace mydev::lowering
