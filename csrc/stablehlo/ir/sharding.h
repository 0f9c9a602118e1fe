// Shardings as Shardy's attributes say them: how the dimensions of a tensor are split over the axes of a mesh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace mydev::stablehlo {

struct MeshAxis {
  std::string name;
  int64_t size = 0;
  bool operator==(const MeshAxis&) const = default;
};

// Devices in a grid. One without axes is a single device, or all of them without a grid.
struct Mesh {
  std::vector<MeshAxis> axes;
  std::vector<int64_t> device_ids;  // row-major; empty: 0, 1, 2, ...
  bool operator==(const Mesh&) const = default;

  int64_t device_count() const noexcept {
    int64_t count = 1;
    for (const MeshAxis& axis : axes) count *= axis.size;
    return count;
  }
};

// An axis of the mesh, or the part of one: "x":(pre_size)size.
struct AxisReference {
  struct Part {
    int64_t pre_size = 1, size = 1;
    bool operator==(const Part&) const = default;
  };
  std::string name;
  std::optional<Part> part;
  bool operator==(const AxisReference&) const = default;
};

struct DimensionSharding {
  std::vector<AxisReference> axes;  // the major one first
  bool is_closed = true;            // false: a partitioner may add axes
  std::optional<int64_t> priority;
  bool operator==(const DimensionSharding&) const = default;
};

struct TensorSharding {
  std::string mesh_name;     // of Module::meshes; empty where the mesh is inline
  std::optional<Mesh> mesh;  // inline
  std::vector<DimensionSharding> dimensions;
  std::vector<AxisReference> replicated_axes, unreduced_axes;
  bool operator==(const TensorSharding&) const = default;
};

// One for each operand, result, or argument.
struct TensorShardings {
  std::vector<TensorSharding> values;
  bool operator==(const TensorShardings&) const = default;
};

// The axes over which the body of a manual computation is given its shards.
struct ManualAxes {
  std::vector<std::string> names;
  bool operator==(const ManualAxes&) const = default;
};

}  // namespace mydev::stablehlo
