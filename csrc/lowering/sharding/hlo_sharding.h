// Shardings as GSPMD's attributes say them: the text of XLA's HloSharding, in "mhlo.sharding".
//
//   {replicated}  {manual}  {unknown}  {maximal device=0}
//   {devices=[2,1,2]<=[4] last_tile_dim_replicate}  {devices=[2,2]<=[2,2]T(1,0)}  {devices=[2]1,0}
//   {devices=[1,2,2]<=[4] last_tile_dims={manual, replicated}}  {devices=[2,1,2]<=[4] last_tile_dims={unreduced}}
//
// The text of a tuple lists the shardings of its elements. The parser skips fields that only concern a partitioner's
// choices: metadata, shard_as, shard_like. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "runtime/base/api.h"

namespace mydev::lowering {

struct HloSharding {
  enum class Kind : uint8_t { kReplicated, kManual, kUnknown, kMaximal, kTiled };
  enum class Subgroup : uint8_t { kReplicated, kManual, kUnreduced };

  Kind kind = Kind::kReplicated;
  // For a tiled sharding: the number of parts of each dimension, then the sizes of the subgroups.
  std::vector<int64_t> tile;
  std::vector<Subgroup> subgroups;
  std::vector<int64_t> devices;  // in row-major order of `tile`; of a maximal one, the device
};

// The sharding of one tensor, or those of a tuple's elements. Raises INVALID_ARGUMENT for text that is no sharding, and
// UNIMPLEMENTED for an unknown kind, with the text and the place in it.
MYDEV_API std::vector<HloSharding> parse_hlo_sharding(std::string_view text);

}  // namespace mydev::lowering
