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
#include "stablehlo/ir/module.h"

namespace mydev::lowering {

using Sizes = std::vector<int64_t>;

// Each dimension in equal parts; one element for each device and dimension says which part it has.
class Sharding {
 public:
  // Whole on each of so many devices.
  Sharding(int64_t devices, size_t rank);
  // Over the axes of the mesh that are named, of all axes where none is. Devices that differ along the axes of `apart`
  // have parts of different tensors. Raises UNIMPLEMENTED for a mesh that is not one of all devices.
  Sharding(const stablehlo::Module& module, const stablehlo::TensorSharding& sharding, int64_t devices, size_t rank,
           std::span<const std::string> axes = {}, std::span<const std::string> apart = {});
  // Raises UNIMPLEMENTED for one that is not of all devices.
  Sharding(const HloSharding& sharding, int64_t devices, size_t rank);
  // Of each dimension so many parts; by device, its part of each, and the number of the tensor that it has a part of.
  Sharding(Sizes parts, std::vector<Sizes> places, std::vector<int64_t> tensors)
      : parts_(std::move(parts)), places_(std::move(places)), tensors_(std::move(tensors)) {}

  bool is_whole() const noexcept;
  bool operator==(const Sharding&) const = default;
  // Raises UNIMPLEMENTED where a dimension has no equal parts.
  Sizes part_sizes(const Sizes& sizes) const;
  // Where the device's part begins.
  Sizes part_start(const Sizes& sizes, int64_t device) const;
  // Devices that between them have each part of the device's tensor once.
  std::vector<int64_t> holders(int64_t device) const;
  int64_t devices() const noexcept { return static_cast<int64_t>(places_.size()); }
  // Of each dimension, how many.
  const Sizes& parts() const noexcept { return parts_; }
  // By dimension, which part the device has.
  const Sizes& place(int64_t device) const noexcept { return places_[static_cast<size_t>(device)]; }
  // Whether all devices have parts of the same one.
  bool is_of_one_tensor() const noexcept { return std::ranges::count(tensors_, tensors_.front()) == devices(); }
  // By device, of which summand it has a part: the tensor is the sum of them. Empty: of the tensor itself.
  const std::vector<int64_t>& summands() const noexcept { return summands_; }
  void set_summands(std::vector<int64_t> summands) { summands_ = std::move(summands); }
  int64_t summand_count() const noexcept { return summands_.empty() ? 1 : *std::ranges::max_element(summands_) + 1; }
  // The devices in the row-major order of the parts that they have; those of one part in their order, each time one of
  // each summand.
  std::vector<int64_t> devices_by_tile() const;

 private:
  Sizes parts_;                   // by dimension
  std::vector<Sizes> places_;     // by device, then dimension
  std::vector<int64_t> tensors_;  // by device: the number of the tensor that it has a part of
  std::vector<int64_t> summands_;
};

// What the attributes of an argument, a result or an operation say about the one tensor that they are about; nothing
// where they say nothing, or that it is not known. Raises as parse_hlo_sharding() and the constructors do, and
// UNIMPLEMENTED for a tensor that is on one of several devices alone.
std::optional<Sharding> sharding_of(const stablehlo::Module& module, const stablehlo::Dictionary& attributes,
                                    int64_t devices, size_t rank);

}  // namespace mydev::lowering
