// all_reduce, all_gather, reduce_scatter, all_to_all, collective_permute, collective_broadcast; and moves of tensors
// between shards.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "lowering/frame.h"
#include "stablehlo/evaluator/box.h"
#include "stablehlo/evaluator/scalar_program.h"
#include "stablehlo/evaluator/shapes.h"
#include "stablehlo/text/text.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

using Pointers = Collectives::Pointers;
// Computes this device's results from the operands of each device of the group; `rank` is this device's place in the
// group.
using Combination = std::function<void(std::span<const Pointers> members, size_t rank, std::span<std::byte* const>)>;

// The devices that meet: each device is in one of the groups.
using Groups = std::vector<Sizes>;

Groups all_devices(const Frame& frame) {
  Sizes all(static_cast<size_t>(frame.context.devices.count()));
  std::iota(all.begin(), all.end(), 0);
  return {all};
}

// Returns the device's group, and its place there.
std::pair<const Sizes&, size_t> group_of(const Groups& groups, int64_t device) {
  for (const Sizes& group : groups) {
    const auto found = std::ranges::find(group, device);
    if (found != group.end()) return {group, static_cast<size_t>(found - group.begin())};
  }
  raise(MYDEV_INTERNAL, "device " + std::to_string(device) + " is in none of the groups");
}

// Raises unless each named device exists and is named once: otherwise devices would wait for each other for ever.
void require_devices(const Operation& op, const Frame& frame, const Sizes& ids, size_t first, size_t step) {
  std::vector<bool> is_named(static_cast<size_t>(frame.context.devices.count()));
  for (size_t i = first; i < ids.size(); i += step) {
    if (ids[i] < 0 || ids[i] >= std::ssize(is_named)) {
      op.fail(MYDEV_INVALID_ARGUMENT, "it names device ", ids[i], " of ", is_named.size());
    }
    if (is_named[static_cast<size_t>(ids[i])]) op.fail(MYDEV_INVALID_ARGUMENT, "it names device ", ids[i], " twice");
    is_named[static_cast<size_t>(ids[i])] = true;
  }
}

// The groups that are listed; all devices if none is.
Groups groups_of(const Frame& frame, const Operation& op) {
  const Sizes ids = op.integers("replica_groups");
  if (ids.empty()) return all_devices(frame);
  Sizes named = ids;
  std::erase(named, -1);  // groups may be of different sizes
  require_devices(op, frame, named, 0, 1);
  for (int64_t device = 0; device < frame.context.devices.count(); ++device) {
    if (std::ranges::count(named, device) == 0) {
      op.fail(MYDEV_INVALID_ARGUMENT, "device ", device, " is in none of the groups");
    }
  }
  const auto width = static_cast<size_t>(op.literal("replica_groups").type->dims.back());
  Groups groups;
  for (size_t begin = 0; begin + width <= ids.size(); begin += width) {
    Sizes& group = groups.emplace_back(ids.begin() + static_cast<int64_t>(begin),
                                       ids.begin() + static_cast<int64_t>(begin + width));
    std::erase(group, -1);
  }
  return groups;
}

// Raises unless a whole tensor is as long along a dimension as so many shards of it together.
void require_parts(const Operation& op, const Type& whole, const Type& part, std::string_view dimension, size_t parts) {
  const auto d = static_cast<size_t>(op.integer(dimension));
  const int64_t size = whole.dims[d], each = part.dims[d], count = static_cast<int64_t>(parts);
  if (size % count == 0 && size / count == each) return;
  op.fail(MYDEV_INVALID_ARGUMENT, "along '", dimension, "', a ", whole.text(), " is not what ", parts,
          " devices have of it with a ", part.text(), " each");
}

// Notes a rendezvous: the operands of the devices and how they are combined, but not which of the devices this is.
void note_collective(Context& context, const Operation& op) {
  context.collectives_text += op.name();
  for (const NamedAttribute& attribute : op.attributes) {
    context.collectives_text += ' ' + std::string(attribute.name) + '=' + print(*attribute.value);
  }
  for (const Value* operand : op.operands) context.collectives_text += ' ' + operand->type->text();
  for (const Region* region : op.regions) {
    for (const Operation* inner : region->body().operations)
      context.collectives_text += ' ' + std::string(inner->name());
  }
  context.collectives_text += '\n';
}

// `bytes`: the size of each operand.
void lower_collective(Frame& frame, std::string_view name, Groups groups, const Combination& combine,
                      std::vector<program::Operand> results, std::vector<program::Operand> operands,
                      std::vector<size_t> bytes) {
  Context& context = frame.context;
  operands.push_back(frame.emit.device_integers(MYDEV_S64, {}, all_devices(frame).front()).view);
  Evaluation evaluation = [collectives = context.rendezvous, number = ++context.collectives, name = std::string(name),
                           groups = std::move(groups), bytes = std::move(bytes), combine](auto given, auto results) {
    int64_t device = 0;
    std::memcpy(&device, given.back(), sizeof device);
    const auto [group, rank] = group_of(groups, device);
    (*collectives)
        ->join(device, {number, name, group, bytes}, Pointers(given.begin(), given.end() - 1),
               [&, rank = rank](std::span<const Pointers> members) { combine(members, rank, results); });
  };
  frame.host_call(name, std::move(evaluation), std::move(results), std::move(operands));
}

void emit_collective(Frame& frame, const Operation& op, Groups groups, const Combination& combine) {
  note_collective(frame.context, op);
  std::vector<program::Operand> results, operands;
  std::vector<size_t> bytes;
  for (const Value* operand : op.operands) {
    operands.push_back(frame.view(*operand));
    bytes.push_back(static_cast<size_t>(operand->type->bytes()));
  }
  for (const Value* result : op.results) {
    results.push_back(frame.result_of(*result));
    frame.set(*result, {results.back(), std::nullopt});
  }
  lower_collective(frame, op.name(), std::move(groups), combine, std::move(results), std::move(operands),
                   std::move(bytes));
}

// Reduces elements [begin, end) of the members' k-th operands into `result`.
void reduce(const ScalarProgram& body, const Type& type, std::span<const Pointers> members, size_t k, int64_t begin,
            int64_t end, std::byte* result) {
  const int64_t bytes = element_bytes(type.element);
  if (type.element == ElementType::kF32 && body.only_operation() != nullptr &&
      body.only_operation()->op == Operator::kAdd) {
    auto* sums = reinterpret_cast<float*>(result);
    std::memcpy(result, members[0][k] + begin * bytes, static_cast<size_t>((end - begin) * bytes));
    for (const Pointers& member : members.subspan(1)) {
      const auto* values = reinterpret_cast<const float*>(member[k]) + begin;
      for (int64_t i = 0; i < end - begin; ++i) sums[i] += values[i];
    }
    return;
  }
  std::vector<Number> registers = body.make_registers();
  for (int64_t i = begin; i < end; ++i) {
    registers[0] = element(type, members[0][k], i);
    for (const Pointers& member : members.subspan(1)) {
      registers[1] = element(type, member[k], i);
      body.run(registers);
      registers[0] = body.result(registers, 0);
    }
    set_element(type, result, i - begin, registers[0]);
  }
}

// Copies a box of one tensor to a box of the same sizes in another, both row-major.
void move_box(const Sizes& box, const Sizes& from, const Sizes& from_start, const std::byte* source, const Sizes& to,
              const Sizes& to_start, std::byte* target, int64_t bytes) {
  const Sizes from_strides = row_major_strides(from), to_strides = row_major_strides(to);
  const auto offset = [bytes](const Sizes& start, const Sizes& strides) {
    int64_t sum = 0;
    for (size_t d = 0; d < start.size(); ++d) sum += start[d] * strides[d];
    return sum * bytes;
  };
  copy_box(box, source + offset(from_start, from_strides), from_strides, target + offset(to_start, to_strides),
           to_strides, bytes);
}

Sizes start_along(size_t rank, size_t dimension, int64_t start) {
  Sizes result(rank, 0);
  result[dimension] = start;
  return result;
}

void lower_all_reduce(Frame& frame, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(frame.context.module, op.region());
  emit_collective(frame, op, groups_of(frame, op), [&op, body](auto members, size_t, auto results) {
    for (size_t k = 0; k < results.size(); ++k) {
      const Type& type = *op.operand(k).type;
      reduce(*body, type, members, k, 0, type.element_count(), results[k]);
    }
  });
}

void lower_all_gather(Frame& frame, const Operation& op) {
  const auto dimension = static_cast<size_t>(op.integer("all_gather_dim"));
  const Groups groups = groups_of(frame, op);
  for (const Sizes& group : groups) {
    for (size_t i = 0; i < op.results.size(); ++i) {
      require_parts(op, *op.result(i).type, *op.operand(i).type, "all_gather_dim", group.size());
    }
  }
  emit_collective(frame, op, groups, [&op, dimension](auto members, size_t, auto results) {
    for (size_t k = 0; k < results.size(); ++k) {
      const Sizes &part = op.operand(k).type->dims, &whole = op.result(k).type->dims;
      const int64_t bytes = element_bytes(op.operand(k).type->element);
      for (size_t m = 0; m < members.size(); ++m) {
        const Sizes to = start_along(part.size(), dimension, static_cast<int64_t>(m) * part[dimension]);
        move_box(part, part, Sizes(part.size(), 0), members[m][k], whole, to, results[k], bytes);
      }
    }
  });
}

void lower_reduce_scatter(Frame& frame, const Operation& op) {
  auto body = std::make_shared<const ScalarProgram>(frame.context.module, op.region());
  const auto dimension = static_cast<size_t>(op.integer("scatter_dimension"));
  const Groups groups = groups_of(frame, op);
  for (const Sizes& group : groups) {
    require_parts(op, *op.operand(0).type, *op.result().type, "scatter_dimension", group.size());
  }
  emit_collective(frame, op, groups, [&op, body, dimension](auto members, size_t rank, auto results) {
    const Type &whole = *op.operand(0).type, &part = *op.result().type;
    int64_t outer = 1, run = part.dims[dimension];  // elements of the part that lie together
    for (size_t d = 0; d < dimension; ++d) outer *= part.dims[d];
    for (size_t d = dimension + 1; d < part.dims.size(); ++d) run *= part.dims[d];
    for (int64_t i = 0; i < outer; ++i) {
      const int64_t begin = (i * static_cast<int64_t>(members.size()) + static_cast<int64_t>(rank)) * run;
      reduce(*body, whole, members, 0, begin, begin + run, results[0] + i * run * element_bytes(whole.element));
    }
  });
}

// Raises unless the results are what so many devices give each other of the operands.
void require_exchange(const Operation& op, const Sizes& group, size_t split, size_t concat) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Type &from = *op.operand(i).type, &to = *op.result(i).type;
    Type split_one = from;
    split_one.dims[split] = from.dims[split] / std::ssize(group);
    require_parts(op, from, split_one, "split_dimension", group.size());
    require_parts(op, to, split_one, "concat_dimension", group.size());
    if (split != concat && to.dims[split] != split_one.dims[split]) {
      op.fail(MYDEV_INVALID_ARGUMENT, "a ", to.text(), " does not follow from a ", from.text(), " on ", group.size(),
              " devices");
    }
  }
}

void lower_all_to_all(Frame& frame, const Operation& op) {
  const auto split = static_cast<size_t>(op.integer("split_dimension")),
             concat = static_cast<size_t>(op.integer("concat_dimension"));
  const Groups groups = groups_of(frame, op);
  for (const Sizes& group : groups) require_exchange(op, group, split, concat);
  emit_collective(frame, op, groups, [&op, split, concat](auto members, size_t rank, auto results) {
    for (size_t k = 0; k < results.size(); ++k) {
      const Sizes &given = op.operand(k).type->dims, &whole = op.result(k).type->dims;
      const int64_t bytes = element_bytes(op.operand(k).type->element);
      Sizes box = given;
      box[split] /= static_cast<int64_t>(members.size());
      const Sizes from = start_along(box.size(), split, static_cast<int64_t>(rank) * box[split]);
      for (size_t m = 0; m < members.size(); ++m) {
        const Sizes to = start_along(box.size(), concat, static_cast<int64_t>(m) * box[concat]);
        move_box(box, given, from, members[m][k], whole, to, results[k], bytes);
      }
    }
  });
}

// From the device that the pairs name for this one; zeros where they name none.
void lower_permute(Frame& frame, const Operation& op) {
  const Sizes pairs = op.integers("source_target_pairs");
  Sizes sources(static_cast<size_t>(frame.context.devices.count()), -1);
  for (const size_t side : {0, 1}) require_devices(op, frame, pairs, side, 2);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) sources[static_cast<size_t>(pairs[i + 1])] = pairs[i];
  emit_collective(frame, op, all_devices(frame), [&op, sources](auto members, size_t device, auto results) {
    const auto bytes = static_cast<size_t>(op.operand(0).type->bytes());
    const int64_t source = sources[device];
    if (source < 0) {
      std::memset(results[0], 0, bytes);
    } else {
      std::memcpy(results[0], members[static_cast<size_t>(source)][0], bytes);
    }
  });
}

void lower_broadcast(Frame& frame, const Operation& op) {
  emit_collective(frame, op, groups_of(frame, op), [&op](auto members, size_t, auto results) {
    std::memcpy(results[0], members[0][0], static_cast<size_t>(op.operand(0).type->bytes()));
  });
}

// Gathers a tensor of which each device has a shard.
Tensor gathered(Frame& frame, const Tensor& part, const Sharding& sharding, const Type& whole,
                const std::string& what) {
  frame.context.gathered.push_back(what + ", " + whole.text());
  frame.context.collectives_text += "gather of parts " + whole.text() + '\n';
  const program::Operand result = frame.emit.temporary(part.view.dtype, whole.dims);
  int64_t bytes = element_bytes(whole.element);
  for (const int64_t size : sharding.part_sizes(whole.dims)) bytes *= size;
  lower_collective(frame, "gather of parts", all_devices(frame),
                   [sharding, &whole](auto members, size_t rank, auto results) {
                     const Sizes box = sharding.part_sizes(whole.dims);
                     for (const int64_t device : sharding.holders(static_cast<int64_t>(rank))) {
                       move_box(box, box, Sizes(box.size(), 0), members[static_cast<size_t>(device)][0], whole.dims,
                                sharding.part_start(whole.dims, device), results[0], element_bytes(whole.element));
                     }
                   },
                   {result}, {part.view}, {static_cast<size_t>(bytes)});
  return {result, std::nullopt};
}

// The place at which each device's shard of a tensor begins, along the dimensions that are split.
struct ShardStarts {
  ShardStarts(Frame& frame, const Sharding& sharding, const Sizes& whole) {
    for (size_t d = 0; d < whole.size(); ++d) {
      if (sharding.parts()[d] > 1) dims.push_back(static_cast<int64_t>(d));
    }
    Sizes starts;
    for (int64_t device = 0; device < sharding.devices(); ++device) {
      const Sizes start = sharding.part_start(whole, device);
      for (const int64_t d : dims) starts.push_back(start[static_cast<size_t>(d)]);
    }
    if (!dims.empty()) index = frame.emit.device_integers(MYDEV_S64, {1, std::ssize(dims)}, starts).view;
  }

  Sizes dims;
  program::Operand index;  // [1, dims]
};

// Each device's shard of a whole tensor.
Tensor part_of(Frame& frame, const Tensor& whole, const Sharding& sharding) {
  if (sharding.is_whole()) return whole;
  const Sizes &sizes = whole.sizes(), part = sharding.part_sizes(sizes);
  if (whole.splat || is_empty(part)) {  // all shards are alike
    return {sliced(whole.view, Sizes(sizes.size(), 0), part, Sizes(sizes.size(), 1)), whole.splat};
  }
  const ShardStarts starts(frame, sharding, sizes);
  const program::Operand out = frame.emit.temporary(whole.view.dtype, part);
  const std::array attributes = {integers_attribute("dims", starts.dims), integer_attribute("from_end", 0)};
  frame.emit.launch("mydev.gather_slices", {dense_reshaped(out, as_one_part(part))}, {whole.view, starts.index},
                    attributes);
  return {out, std::nullopt};
}

// A shard in its place among zeros, or zeros only.
Tensor summand_of(Frame& frame, const Tensor& part, const Sharding& places, const Type& type) {
  const std::vector<std::byte> zero(static_cast<size_t>(element_bytes(type.element)));
  const auto zeros = [&](const Sizes& sizes) { return frame.emit.splat(part.view.dtype, sizes, mydev_scalar{}, zero); };
  Sizes is_first;
  for (const int64_t summand : places.summands()) is_first.push_back(summand == 0 ? 1 : 0);
  const program::Operand condition = frame.emit.device_integers(MYDEV_PRED, {}, is_first).view;
  Tensor own = frame.emit.pointwise("mydev.where", part.view.dtype,
                                    {{broadcast(condition, part.sizes(), {})}, part, zeros(part.sizes())});
  if (places.is_whole() || is_empty(part.sizes())) return own;
  Sizes sizes = part.sizes();
  for (size_t d = 0; d < sizes.size(); ++d) sizes[d] *= places.parts()[d];
  const ShardStarts starts(frame, places, sizes);
  const program::Operand out = frame.emit.temporary(part.view.dtype, sizes);
  const std::array attributes = {integers_attribute("dims", starts.dims), bool_attribute("clamp", true),
                                 integer_attribute("from_end", 0)};
  const program::Operand values = dense_reshaped(frame.emit.dense(own.view), as_one_part(part.sizes()));
  frame.emit.launch("mydev.scatter_slices", {out}, {frame.emit.dense(zeros(sizes).view), starts.index, values},
                    attributes);
  return {out, std::nullopt};
}

}  // namespace

bool lower_move(Frame& frame, const Operation& op) {
  if (frame.context.moves == nullptr) return false;
  const auto found = frame.context.moves->find(&op);
  if (found == frame.context.moves->end()) return false;
  const Move& move = found->second;
  Tensor tensor = frame[op.operand(0)];
  if (move.gathered) tensor = gathered(frame, tensor, *move.gathered, *move.between, move.what);
  if (move.part) tensor = part_of(frame, tensor, *move.part);
  if (move.summand) tensor = summand_of(frame, tensor, *move.summand, *op.result().type);
  frame.set(op.result(), std::move(tensor));
  return true;
}

bool lower_collective(Frame& frame, const Operation& op) {
  switch (op.op) {
    case Operator::kAllReduce:
      lower_all_reduce(frame, op);
      return true;
    case Operator::kAllGather:
      lower_all_gather(frame, op);
      return true;
    case Operator::kReduceScatter:
      lower_reduce_scatter(frame, op);
      return true;
    case Operator::kAllToAll:
      lower_all_to_all(frame, op);
      return true;
    case Operator::kCollectivePermute:
      lower_permute(frame, op);
      return true;
    case Operator::kCollectiveBroadcast:
      lower_broadcast(frame, op);
      return true;
    default:
      return false;
  }
}

}  // namespace mydev::lowering
