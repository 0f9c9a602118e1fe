#include "lowering/sharding/sharding.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "runtime/base/status.h"

namespace mydev::lowering {

using stablehlo::AxisReference;
using stablehlo::Mesh;

namespace {

const Mesh& mesh_of(const stablehlo::Module& module, const stablehlo::TensorSharding& sharding) {
  if (sharding.mesh) return *sharding.mesh;
  const Mesh* mesh = module.find_mesh(sharding.mesh_name);
  MYDEV_CHECK(mesh != nullptr, MYDEV_INVALID_ARGUMENT, "a sharding names the mesh '", sharding.mesh_name,
              "', which the program does not have");
  return *mesh;
}

// The index of the device along an axis, or along a part of an axis.
int64_t coordinate(const Mesh& mesh, int64_t device, const AxisReference& reference) {
  const auto listed = std::ranges::find(mesh.device_ids, device);
  int64_t place = mesh.device_ids.empty() ? device : listed - mesh.device_ids.begin();
  for (size_t i = mesh.axes.size(); i-- > 0;) {
    const int64_t size = mesh.axes[i].size, at = place % size;
    place /= size;
    if (mesh.axes[i].name != reference.name) continue;
    if (!reference.part) return at;
    return at / (size / (reference.part->pre_size * reference.part->size)) % reference.part->size;
  }
  raise(MYDEV_INVALID_ARGUMENT, "a sharding names the axis '" + reference.name + "', which its mesh does not have");
}

int64_t size_of(const Mesh& mesh, const AxisReference& reference) {
  if (reference.part) return reference.part->size;
  const auto axis = std::ranges::find(mesh.axes, reference.name, &stablehlo::MeshAxis::name);
  return axis == mesh.axes.end() ? 1 : axis->size;
}

// Whether the axis is one of these axes. If none is named, all axes are meant.
bool is_among(std::span<const std::string> axes, const AxisReference& reference) {
  return axes.empty() || std::ranges::count(axes, reference.name) != 0;
}

}  // namespace

Sharding::Sharding(int64_t devices, size_t rank)
    : shards_(rank, 1),
      places_(static_cast<size_t>(devices), Sizes(rank, 0)),
      tensors_(static_cast<size_t>(devices), 0) {}

Sharding::Sharding(const stablehlo::Module& module, const stablehlo::TensorSharding& sharding, int64_t devices,
                   size_t rank, std::span<const std::string> axes, std::span<const std::string> apart)
    : Sharding(devices, rank) {
  const Mesh& mesh = mesh_of(module, sharding);
  if (mesh.axes.empty() || (sharding.dimensions.empty() && sharding.unreduced_axes.empty())) return;
  MYDEV_CHECK(mesh.device_count() == devices, MYDEV_UNIMPLEMENTED, "a sharding over a mesh of ", mesh.device_count(),
              " devices in a program for ", devices, "; meshes of all of them are supported");
  for (size_t d = 0; d < std::min(rank, sharding.dimensions.size()); ++d) {
    for (const AxisReference& reference : sharding.dimensions[d].axes) {  // the major one first
      if (!is_among(axes, reference)) continue;
      const int64_t size = size_of(mesh, reference);
      shards_[d] *= size;
      for (int64_t device = 0; device < devices; ++device) {
        int64_t& place = places_[static_cast<size_t>(device)][d];
        place = place * size + coordinate(mesh, device, reference);
      }
    }
  }
  const auto number = [&](std::vector<int64_t>& of_devices, const AxisReference& reference) {
    for (int64_t device = 0; device < devices; ++device) {
      int64_t& at = of_devices[static_cast<size_t>(device)];
      at = at * size_of(mesh, reference) + coordinate(mesh, device, reference);
    }
  };
  for (const std::string& axis : apart) number(tensors_, {axis, std::nullopt});
  for (const AxisReference& reference : sharding.unreduced_axes) {
    if (!is_among(axes, reference)) continue;
    summands_.resize(static_cast<size_t>(devices));
    number(summands_, reference);
  }
}

Sharding::Sharding(const HloSharding& sharding, int64_t devices, size_t rank) : Sharding(devices, rank) {
  if (sharding.kind != HloSharding::Kind::kTiled) return;
  const Sizes& tile = sharding.tile;
  MYDEV_CHECK(tile.size() == rank + sharding.subgroups.size(), MYDEV_INVALID_ARGUMENT, "a sharding of ",
              tile.size() - sharding.subgroups.size(), " dimensions of a tensor of ", rank);
  MYDEV_CHECK(static_cast<int64_t>(sharding.devices.size()) == devices, MYDEV_UNIMPLEMENTED, "a sharding over ",
              sharding.devices.size(), " devices in a program for ", devices, "; those over all of them are supported");
  std::copy_n(tile.begin(), rank, shards_.begin());
  for (int64_t i = 0; i < devices; ++i) {
    const auto device = static_cast<size_t>(sharding.devices[static_cast<size_t>(i)]);
    int64_t rest = i, tensors = 1, summands = 1;
    for (size_t d = tile.size(); d-- > 0; rest /= tile[d]) {
      const int64_t at = rest % tile[d];
      if (d < rank) {
        places_[device][d] = at;
      } else if (sharding.subgroups[d - rank] == HloSharding::Subgroup::kManual) {
        tensors_[device] += at * tensors;
        tensors *= tile[d];
      } else if (sharding.subgroups[d - rank] == HloSharding::Subgroup::kUnreduced) {
        summands_.resize(static_cast<size_t>(devices));
        summands_[device] += at * summands;
        summands *= tile[d];
      }
    }
  }
}

bool Sharding::is_whole() const noexcept {
  return std::ranges::all_of(shards_, [](int64_t shards) { return shards == 1; });
}

Sizes Sharding::shard_sizes(const Sizes& sizes) const {
  Sizes shard = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    MYDEV_CHECK(sizes[d] % shards_[d] == 0, MYDEV_UNIMPLEMENTED, "dimension ", d, " of size ", sizes[d], " in ",
                shards_[d], " shards; shards of one size are supported");
    shard[d] = sizes[d] / shards_[d];
  }
  return shard;
}

Sizes Sharding::shard_start(const Sizes& sizes, int64_t device) const {
  Sizes start = shard_sizes(sizes);
  for (size_t d = 0; d < sizes.size(); ++d) start[d] *= places_[static_cast<size_t>(device)][d];
  return start;
}

std::vector<int64_t> Sharding::holders(int64_t device) const {
  std::vector<int64_t> holders;
  std::set<Sizes> seen;
  for (int64_t other = 0; other < devices(); ++other) {
    const auto at = static_cast<size_t>(other);
    if (tensors_[at] != tensors_[static_cast<size_t>(device)]) continue;
    if (seen.insert(places_[at]).second) holders.push_back(other);
  }
  return holders;
}

std::vector<int64_t> Sharding::devices_by_tile() const {
  using Shard = std::pair<int64_t, int64_t>;  // of the tensor, and of which summand
  std::map<Shard, int64_t> copies;
  std::vector<std::tuple<int64_t, int64_t, int64_t, int64_t>> in_order;
  for (int64_t device = 0; device < devices(); ++device) {
    int64_t tile = 0;
    for (size_t d = 0; d < shards_.size(); ++d) tile = tile * shards_[d] + places_[static_cast<size_t>(device)][d];
    const int64_t summand = summands_.empty() ? 0 : summands_[static_cast<size_t>(device)];
    in_order.emplace_back(tile, copies[{tile, summand}]++, summand, device);
  }
  std::ranges::sort(in_order);
  std::vector<int64_t> ids;
  ids.reserve(in_order.size());
  for (const auto& [tile, copy, summand, device] : in_order) ids.push_back(device);
  return ids;
}

std::optional<Sharding> sharding_of(const stablehlo::Module& module, const stablehlo::Dictionary& attributes,
                                    int64_t devices, size_t rank) {
  if (devices == 1) return std::nullopt;
  const stablehlo::Attribute* shardy = find(attributes, "sdy.sharding");
  if (shardy != nullptr) {
    if (const auto* sharding = shardy->get_if<stablehlo::TensorSharding>())
      return Sharding(module, *sharding, devices, rank);
  }
  const stablehlo::Attribute* gspmd = find(attributes, "mhlo.sharding");
  const auto* text = gspmd != nullptr ? gspmd->get_if<std::string>() : nullptr;
  if (text == nullptr) return std::nullopt;
  const std::vector<HloSharding> shardings = parse_hlo_sharding(*text);
  MYDEV_CHECK(shardings.size() == 1, MYDEV_UNIMPLEMENTED, "the sharding '", *text, "' is of ", shardings.size(),
              " tensors, and of one tensor here");
  const HloSharding& sharding = shardings.front();
  if (sharding.kind == HloSharding::Kind::kUnknown) return std::nullopt;
  MYDEV_CHECK(sharding.kind == HloSharding::Kind::kReplicated || sharding.kind == HloSharding::Kind::kTiled,
              MYDEV_UNIMPLEMENTED, "the sharding '", *text,
              "' does not say which shard of the tensor each device has; tiled and replicated ones are supported");
  return Sharding(sharding, devices, rank);
}

}  // namespace mydev::lowering
