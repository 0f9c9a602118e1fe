// Operations of the program that is written.
#include <algorithm>
#include <cstring>

#include "lowering/sharding/partition/partitioner.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

const Value* Partitioner::add_value(const Type* type, Block& block, const Operation* definition, size_t index) {
  Value& value = result_.module.contents().values.emplace_back();
  value = {type, definition, &block, static_cast<uint32_t>(index), main_->value_count++};
  return &value;
}

Block& Partitioner::add_region(const Operation* owner) {
  Region& region = result_.module.contents().regions.emplace_back();
  Block& block = result_.module.contents().blocks.emplace_back();
  region.owner = owner;
  region.function = main_;
  region.blocks.push_back(&block);
  block.region = &region;
  return block;
}

Operation& Partitioner::add(Operator op, const Operation& like, std::vector<const Value*> operands, Block& to) {
  Operation& added = result_.module.contents().operations.emplace_back();
  added.op = op;
  added.index = like.index;
  added.location = like.location;
  added.function = main_;
  added.block = &to;
  added.operands = std::move(operands);
  added.attributes = without_shardings(like.attributes);
  if (op == Operator::kCustomCall) keep_called(like);
  to.operations.push_back(&added);
  ++main_->operation_count;
  return added;
}

// Calls are inlined, but for those of custom calls, which compute with functions as they are.
void Partitioner::keep_called(const Operation& op) {
  const auto* called = op.get_if<ArrayAttribute>("called_computations");
  if (called == nullptr) return;
  for (const Attribute* name : *called) {
    const auto* symbol = name->get_if<Symbol>();
    const auto* text = name->get_if<std::string>();
    if (symbol == nullptr && text == nullptr) continue;
    if (const Function* function = from_.find_function(symbol != nullptr ? symbol->path : *text)) keep(*function);
  }
}

void Partitioner::keep(const Function& function) {
  Module::Contents& contents = result_.module.contents();
  if (!contents.functions_by_name.emplace(function.name, &function).second) return;
  contents.function_order.push_back(&function);
  for (const Operation* op : function.body->body().operations) {
    if (op->op == Operator::kCall) keep(from_.callee(*op));
  }
}

const Value* Partitioner::add_result(Operation& op, const Type* type) {
  const Value* value = add_value(type, *const_cast<Block*>(op.block), &op, op.results.size());
  op.results.push_back(value);
  return value;
}

void Partitioner::add_return(const Region& region, std::vector<const Value*> values, Block& to) {
  add(Operator::kReturn, region.body().terminator(), std::move(values), to);
}

std::vector<Partitioner::Placed> Partitioner::add_partitioned_region(Operation& owner, const Region& region,
                                                                     const std::vector<Placed>& arguments,
                                                                     const std::vector<Spread>* results, Scope& scope) {
  Block& block = add_region(&owner);
  owner.regions.push_back(block.region);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const Value& argument = *region.arguments()[i];
    const Spread& spread = arguments[i].spread;
    block.arguments.push_back(add_value(shard_type(*argument.type, spread.cuts), block, nullptr, i));
    scope[&argument] = {block.arguments.back(), spread, arguments[i].is_manual};
  }
  write_block(region.body(), scope, block);
  std::vector<Placed> placed;
  std::vector<const Value*> values;
  for (size_t i = 0; i < region.results().size(); ++i) {
    const Value& value = *region.results()[i];
    placed.push_back(scope.at(&value));
    if (results != nullptr) placed.back() = moved(placed.back(), (*results)[i], *value.type, describe(value), block);
    values.push_back(placed.back().value);
  }
  add_return(region, std::move(values), block);
  return placed;
}

const Type* Partitioner::shard_type(const Type& type, const Cuts& cuts) {
  if (is_whole(cuts)) return &type;
  Type shard = type;
  shard.dims = shard_sizes(type.dims, cuts);
  return result_.module.contents().add(std::move(shard));
}

const Attribute* Partitioner::integers(const Sizes& values, const Sizes& sizes) {
  Module::Contents& contents = result_.module.contents();
  std::vector<std::byte>& bytes = contents.literals.emplace_back(values.size() * sizeof(int64_t));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  const Type* type = contents.add(Type{TypeKind::kTensor, ElementType::kS64, sizes});
  return contents.add(Attribute{TensorLiteral{type, bytes, false}});
}

const Value* Partitioner::add_move(const Value& value, Move move, const Type* type, Block& to) {
  Operation& op = add(Operator::kCustomCall, *at_, {&value}, to);
  if (move_attributes_.empty()) {
    Module::Contents& contents = result_.module.contents();
    const Attribute* none = contents.add(Attribute{ArrayAttribute()});
    move_attributes_ = {{"api_version", contents.add(Attribute{CustomCallVersion::kOriginal})},
                        {"backend_config", contents.add(Attribute{std::string()})},
                        {"call_target_name", contents.add(Attribute{std::string("shards")})},
                        {"called_computations", none},
                        {"has_side_effect", contents.add(Attribute{false})},
                        {"operand_layouts", none},
                        {"output_operand_aliases", none},
                        {"result_layouts", none}};
  }
  op.attributes = move_attributes_;
  result_.moves.emplace(&op, std::move(move));
  return add_result(op, type);
}

Partitioner::Placed Partitioner::moved(const Placed& value, const Spread& to, const Type& whole, std::string what,
                                       Block& block) {
  if (value.is_manual || value.spread == to) return value;
  const Value*& found = moved_[{value.value, &block, to}];
  if (found != nullptr) return {found, to};
  const Placed given = reduced(value, common_summands(value.spread.summands, to.summands), to.cuts, block);
  found = given.value;
  if (given.spread == to) return {found, to};
  const bool become_more = given.spread.summands != to.summands;
  const size_t rank = to.cuts.size();
  Cuts undone(rank), between = given.spread.cuts, done(rank);
  Spread parts = given.spread;  // before they are summands
  for (size_t d = 0; d < rank; ++d) {
    const Cut& cut = given.spread.cuts[d];
    if (cut == to.cuts[d] || (become_more && become_summands(cut, to.cuts[d], to.summands))) continue;
    undone[d].swap(between[d]);
    parts.cuts[d] = done[d] = to.cuts[d];
  }
  Move move{std::nullopt, std::nullopt, std::nullopt, shard_type(whole, between), std::move(what)};
  between.push_back(given.spread.summands);
  if (!is_whole(undone)) move.gathered = sharding_of(undone, devices_, between);
  if (!is_whole(done)) move.sharded = sharding_of(done, devices_);
  if (become_more) move.summand = places_of_summands(parts, to, devices_);
  found = add_move(*found, std::move(move), shard_type(whole, to.cuts), block);
  return {found, to};
}

}  // namespace mydev::lowering
