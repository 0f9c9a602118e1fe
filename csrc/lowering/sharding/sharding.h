// How a tensor is split over the devices that run a program, by the attributes of Shardy ("sdy.sharding") and of GSPMD
// ("mhlo.sharding"). Immutable; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lowering/sharding/hlo_sharding.h"
#include "runtime/base/api.h"
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

using Sizes = std::vector<int64_t>;

// Each dimension is split into equal parts, so that the tensor is split into shards. One element for each device and
// dimension says which of them the device has.
class MYDEV_API Sharding {
 public:
  // A tensor that is whole on each of so many devices.
  Sharding(int64_t devices, size_t rank);
  // A sharding over the named axes of the mesh, or over all axes if none is named. Devices that differ along the axes
  // of `apart` have shards of different tensors. Raises UNIMPLEMENTED for a mesh that is not one of all devices.
  Sharding(const stablehlo::Module& module, const stablehlo::TensorSharding& sharding, int64_t devices, size_t rank,
           std::span<const std::string> axes = {}, std::span<const std::string> apart = {});
  // Raises UNIMPLEMENTED for a sharding that is not over all devices.
  Sharding(const HloSharding& sharding, int64_t devices, size_t rank);
  // `shards`: the number of shards along each dimension. By device, `places` has its place in them, and `tensors`
  // the number of the tensor that it has a shard of.
  Sharding(Sizes shards, std::vector<Sizes> places, std::vector<int64_t> tensors)
      : shards_(std::move(shards)), places_(std::move(places)), tensors_(std::move(tensors)) {}

  bool is_whole() const noexcept;
  bool operator==(const Sharding&) const = default;
  // The sizes of a shard. Raises UNIMPLEMENTED if a dimension cannot be split equally.
  Sizes shard_sizes(const Sizes& sizes) const;
  // The place in the tensor where the device's shard begins.
  Sizes shard_start(const Sizes& sizes, int64_t device) const;
  // Devices that together have each shard of the device's tensor once.
  std::vector<int64_t> holders(int64_t device) const;
  int64_t devices() const noexcept { return static_cast<int64_t>(places_.size()); }
  // The number of shards along each dimension.
  const Sizes& shards() const noexcept { return shards_; }
  // By dimension, the place of the device's shard.
  const Sizes& place(int64_t device) const noexcept { return places_[static_cast<size_t>(device)]; }
  // Whether all devices have shards of the same tensor.
  bool is_of_one_tensor() const noexcept { return std::ranges::count(tensors_, tensors_.front()) == devices(); }
  // By device, the summand of which it has a shard: the tensor is the sum of all summands. Empty: devices have shards
  // of the tensor itself.
  const std::vector<int64_t>& summands() const noexcept { return summands_; }
  void set_summands(std::vector<int64_t> summands) { summands_ = std::move(summands); }
  int64_t summand_count() const noexcept { return summands_.empty() ? 1 : *std::ranges::max_element(summands_) + 1; }
  // The devices in the row-major order of their shards. Devices with the same shard are in their own order, each time
  // one of each summand.
  std::vector<int64_t> devices_by_tile() const;

 private:
  Sizes shards_;                  // by dimension
  std::vector<Sizes> places_;     // by device, then dimension
  std::vector<int64_t> tensors_;  // by device: the number of the tensor that it has a shard of
  std::vector<int64_t> summands_;
};

// The sharding that the attributes of an argument, a result or an operation give to its one tensor. None if they give
// none, or say that it is unknown. Raises as parse_hlo_sharding() and the constructors do, and UNIMPLEMENTED for a
// tensor that is on one of several devices alone.
std::optional<Sharding> sharding_of(const stablehlo::Module& module, const stablehlo::Dictionary& attributes,
                                    int64_t devices, size_t rank);

}  // namespace mydev::lowering
