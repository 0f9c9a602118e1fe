// Writes the program of one device: partition(). One thread, one use.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "lowering/sharding/partition/cuts.h"
#include "lowering/sharding/partition/partition.h"
#include "lowering/sharding/partition/rules.h"

namespace mydev::lowering {

// The attributes of a program for several devices that stay in the program of one: all but shardings.
stablehlo::Dictionary without_shardings(stablehlo::Dictionary attributes);

class Partitioner {
 public:
  Partitioner(const stablehlo::Module& from, int64_t devices);
  Partition run();

 private:
  // The value in the written program that stands for a value of the original one.
  struct Placed {
    const stablehlo::Value* value = nullptr;
    Spread spread;
    bool is_manual = false;  // of a manual computation: each device has a tensor of its own
  };
  using Scope = std::map<const stablehlo::Value*, Placed>;  // of one call of a function

  // --- partitioner.cpp ---
  void note_users(const stablehlo::Region& region);
  void write_block(const stablehlo::Block& block, Scope& scope, stablehlo::Block& to);  // without its terminator
  void write(const stablehlo::Operation& op, Scope& scope, stablehlo::Block& to);
  static std::vector<Placed> operands_of(const stablehlo::Operation& op, const Scope& scope);
  void write_inline(const stablehlo::Operation& op, const stablehlo::Region& region, Scope& outer, Scope& inner,
                    stablehlo::Block& to);
  void write_in_parts(const stablehlo::Operation& op, Scope& scope, stablehlo::Block& to);
  // Writes the operation as it is: its operands are of a manual computation, or whole.
  void write_as_it_is(const stablehlo::Operation& op, Scope& scope, stablehlo::Block& to);
  std::vector<Cut> cuts_of_factors(const Rule& rule, const stablehlo::Operation& op,
                                   const std::vector<Placed>& operands, const Cut& summands) const;
  bool is_manual(const stablehlo::Operation& op, const Scope& scope) const;
  Cuts cuts_of_only_user(const stablehlo::Value& argument) const;

  // --- summands.cpp ---
  // The summands of the operands, if the operation takes them as they are.
  Cut summands_through(const stablehlo::Operation& op, const std::vector<Placed>& operands) const;
  // The result of a reduction over shards.
  Placed summed(const stablehlo::Operation& op, const Rule& rule, const std::vector<Cut>& cuts, Placed shard,
                stablehlo::Block& to);
  // Whether the user of the value says how its sums are to be made, or that they are not.
  bool are_sums_left(const stablehlo::Value& value) const;
  // The value with the sums within these summands made; they are made in parts of `wanted` where that is possible.
  Placed reduced(Placed shard, const Cut& left, const Cuts& wanted, stablehlo::Block& to);
  // `combination`: nullptr: a sum. `scattered`: the dimension of which each device of a group is left with a part.
  const stablehlo::Value* add_reduction(const stablehlo::Value& value, const Groups& groups,
                                        const stablehlo::Region* combination, std::optional<size_t> scattered,
                                        stablehlo::Block& to);

  // --- partitioned_control.cpp ---
  void write_loop(const stablehlo::Operation& op, Scope& scope, stablehlo::Block& to);
  void write_branches(const stablehlo::Operation& op, Scope& scope, stablehlo::Block& to);
  void write_manual_computation(const stablehlo::Operation& op, Scope& scope, stablehlo::Block& to);
  // The spread that an operation about shardings asks of an operand. nullopt: it asks for none, or for one that is not
  // understood or does not divide the operand. It is only a wish: values are the same without it.
  std::optional<Spread> wanted_spread(const stablehlo::Operation& op, const stablehlo::Value& operand) const;
  // The sharding of a manual computation of Shardy's: over its own axes only, and apart along the axes of those around
  // it.
  Sharding manual_sharding(const stablehlo::Operation& op, std::string_view attribute, size_t i,
                           const stablehlo::Type& type) const;
  void write_sharding_call(const stablehlo::Operation& op, ShardingCall call, Scope& scope, stablehlo::Block& to);
  Placed into_manual(const Placed& value, const Sharding& sharding, const stablehlo::Type& whole,
                     const stablehlo::Type& shard, const std::string& what, stablehlo::Block& to);
  Placed out_of_manual(const Placed& shard, const Sharding& sharding, const stablehlo::Type& whole, std::string what,
                       stablehlo::Block& to);

  // --- module_writing.cpp ---
  const stablehlo::Value* add_value(const stablehlo::Type* type, stablehlo::Block& block,
                                    const stablehlo::Operation* definition, size_t index);
  stablehlo::Block& add_region(const stablehlo::Operation* owner);
  // Adds an operation at the end of the block, with the attributes and the location of `like`, without results and
  // regions.
  stablehlo::Operation& add(stablehlo::Operator op, const stablehlo::Operation& like,
                            std::vector<const stablehlo::Value*> operands, stablehlo::Block& to);
  void keep_called(const stablehlo::Operation& op);
  void keep(const stablehlo::Function& function);
  const stablehlo::Value* add_result(stablehlo::Operation& op, const stablehlo::Type* type);
  // Adds a region with arguments that are spread in this way. `results`: the spreads that its results get; nullptr:
  // those that they come with. Returns its results as they are then spread.
  std::vector<Placed> add_partitioned_region(stablehlo::Operation& owner, const stablehlo::Region& region,
                                             const std::vector<Placed>& arguments, const std::vector<Spread>* results,
                                             Scope& scope);
  void add_return(const stablehlo::Region& region, std::vector<const stablehlo::Value*> values, stablehlo::Block& to);
  const stablehlo::Type* shard_type(const stablehlo::Type& type, const Cuts& cuts);
  const stablehlo::Attribute* integers(const Sizes& values, const Sizes& sizes);  // a literal
  // The value spread in another way.
  Placed moved(const Placed& value, const Spread& to, const stablehlo::Type& whole, std::string what,
               stablehlo::Block& block);
  const stablehlo::Value* add_move(const stablehlo::Value& value, Move move, const stablehlo::Type* type,
                                   stablehlo::Block& to);

  const stablehlo::Module& from_;
  int64_t devices_;
  Partition result_;
  stablehlo::Function* main_ = nullptr;
  const stablehlo::Operation* at_ = nullptr;  // that is being written, for the place of what it needs besides
  // The axes of the manual computations that the writing is in; their operations are written as they are.
  std::vector<std::string> manual_axes_;
  int manual_depth_ = 0;
  stablehlo::Dictionary move_attributes_;  // of all custom calls that are moves
  // Values spread in another way, by the block that they are in.
  std::map<std::tuple<const stablehlo::Value*, const stablehlo::Block*, Spread>, const stablehlo::Value*> moved_;
  // The one operation that takes a value of the program as it came; nullptr: several do.
  std::map<const stablehlo::Value*, const stablehlo::Operation*> only_users_;
};

}  // namespace mydev::lowering
