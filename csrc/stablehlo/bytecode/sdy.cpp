// Attributes of Shardy that say how values are sharded. Its other attributes (rules of operators, parameters of
// collectives between shardings) are read past.
#include "stablehlo/bytecode/attributes.h"

namespace mydev::stablehlo {

namespace {

enum AttributeCode : uint8_t {
  kManualAxes,
  kMeshAxis,
  kMesh,
  kSubAxis,
  kAxisReference,
  kDimensionSharding,
  kTensorSharding,
  kTensorShardings,
  kTensorShardingWithUnreducedAxes = 15,
  kTensorShardingsWithUnreducedAxes,
};

// The attributes of a list that begins with its length.
template <typename T>
std::vector<T> list_of(Cursor& cursor, BytecodeAttributes& table, std::string_view what) {
  std::vector<T> list(cursor.count("attributes"));
  for (T& element : list) element = table.attribute_of<T>(cursor, what);
  return list;
}

Attribute mesh(Cursor& cursor, BytecodeAttributes& table) {
  Mesh mesh;
  mesh.axes = list_of<MeshAxis>(cursor, table, "an axis of a mesh");
  mesh.device_ids = table.signed_integers(cursor);
  return {std::move(mesh)};
}

Attribute axis_reference(Cursor& cursor, BytecodeAttributes& table) {
  AxisReference axis;
  axis.name = table.string(cursor);
  const size_t offset = cursor.offset();
  if (const Attribute* part = table.optional_attribute(cursor)) {
    const auto* sub_axis = part->get_if<AxisReference::Part>();
    if (sub_axis == nullptr) Cursor::fail_at(offset, "expected a part of an axis, found ", part->kind_name());
    axis.part = *sub_axis;
  }
  return {std::move(axis)};
}

Attribute dimension_sharding(Cursor& cursor, BytecodeAttributes& table) {
  DimensionSharding dimension;
  dimension.axes = list_of<AxisReference>(cursor, table, "an axis");
  dimension.is_closed = cursor.byte() != 0;
  const uint64_t priority = cursor.varint();
  if ((priority & 1) != 0) dimension.priority = static_cast<int64_t>(priority >> 1);
  return {std::move(dimension)};
}

Attribute tensor_sharding(Cursor& cursor, BytecodeAttributes& table, bool has_unreduced_axes) {
  TensorSharding sharding;
  const size_t offset = cursor.offset();
  const Attribute* mesh = table.attribute(cursor);
  if (const auto* symbol = mesh->get_if<Symbol>()) {
    sharding.mesh_name = symbol->path;
  } else if (const auto* written = mesh->get_if<Mesh>()) {
    sharding.mesh = *written;
  } else {
    Cursor::fail_at(offset, "expected a mesh or its name, found ", mesh->kind_name());
  }
  sharding.dimensions = list_of<DimensionSharding>(cursor, table, "the sharding of a dimension");
  sharding.replicated_axes = list_of<AxisReference>(cursor, table, "an axis");
  if (has_unreduced_axes) sharding.unreduced_axes = list_of<AxisReference>(cursor, table, "an axis");
  return {std::move(sharding)};
}

}  // namespace

Attribute decode_sdy_attribute(Cursor& cursor, BytecodeAttributes& table) {
  const uint64_t code = cursor.varint();
  switch (code) {
    case kManualAxes:
      return {ManualAxes{list_of<std::string>(cursor, table, "the name of an axis")}};
    case kMeshAxis: {
      MeshAxis axis;
      axis.name = table.string(cursor);
      axis.size = cursor.signed_varint();
      return {std::move(axis)};
    }
    case kMesh:
      return mesh(cursor, table);
    case kSubAxis: {
      AxisReference::Part part;
      part.pre_size = cursor.signed_varint();
      part.size = cursor.signed_varint();
      return {part};
    }
    case kAxisReference:
      return axis_reference(cursor, table);
    case kDimensionSharding:
      return dimension_sharding(cursor, table);
    case kTensorSharding:
    case kTensorShardingWithUnreducedAxes:
      return tensor_sharding(cursor, table, code == kTensorShardingWithUnreducedAxes);
    case kTensorShardings:
    case kTensorShardingsWithUnreducedAxes:
      return {TensorShardings{list_of<TensorSharding>(cursor, table, "a sharding")}};
    default:
      return {UnknownAttribute{"attribute " + std::to_string(code) + " of Shardy"}};
  }
}

}  // namespace mydev::stablehlo
