// all_reduce, all_gather, reduce_scatter, all_to_all, collective_permute, collective_broadcast; and moves of tensors
// between shards.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>
#include <utility>

#include "collectives/communicator.h"
#include "lowering/collectives/collectives.h"
#include "lowering/frame.h"
#include "lowering/operators/reduction_kernels.h"
#include "runtime/frame/frame.h"
#include "stablehlo/evaluator/scalar_program.h"
#include "stablehlo/evaluator/shapes.h"
#include "stablehlo/text/text.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

using collectives::Communicator;
using program::Operand;

// The devices of each rendezvous: each device is in one of the groups.
using Groups = std::vector<Sizes>;

Groups all_devices(const Frame& frame) {
  Sizes all(static_cast<size_t>(frame.context.devices.count()));
  std::iota(all.begin(), all.end(), 0);
  return {all};
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
void require_shards(const Operation& op, const Type& whole, const Type& shard, std::string_view dimension,
                    size_t shards) {
  const auto d = static_cast<size_t>(op.integer(dimension));
  const int64_t size = whole.dims[d], each = shard.dims[d], count = static_cast<int64_t>(shards);
  if (size % count == 0 && size / count == each) return;
  op.fail(MYDEV_INVALID_ARGUMENT, "along '", dimension, "', a ", whole.text(), " is not what ", shards,
          " devices have of it with a ", shard.text(), " each");
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

// A device's part of an operation, as its stream is given it: the result's buffer, then the operand's.
using Work = std::function<void(const Communicator& group, Stream& stream, std::span<const mydev_buffer> buffers)>;

// Adds a step in which the device's group does `work`. Both views are dense.
void add_step(Frame& frame, std::string_view name, const Groups& groups, Operand result, Operand operand, Work work) {
  if (is_empty(result.sizes) && is_empty(operand.sizes)) return;
  Context& context = frame.context;
  std::vector<std::vector<int>> members;
  for (const Sizes& group : groups) members.emplace_back(group.begin(), group.end());
  auto function = [all = context.rendezvous, number = ++context.collectives, name = std::string(name),
                   members = std::move(members), work = std::move(work)](Stream& stream, auto buffers) {
    (*all)->in_group(stream, number, name, members, [&](const Communicator& group) { work(group, stream, buffers); });
  };
  frame.emit.builder().collective(std::string(name), std::move(function), {std::move(result)}, {std::move(operand)});
}

uint64_t bytes_of(const mydev_buffer& buffer) {
  uint64_t bytes = static_cast<uint64_t>(dtype_size(static_cast<mydev_dtype>(buffer.dtype)));
  for (int32_t d = 0; d < buffer.rank; ++d) bytes *= static_cast<uint64_t>(buffer.sizes[d]);
  return bytes;
}

void gather(const Communicator& group, Stream& stream, std::span<const mydev_buffer> buffers) {
  group.all_gather(stream, buffers[0].data, buffers[1].data, bytes_of(buffers[1]));
}
void exchange_shards(const Communicator& group, Stream& stream, std::span<const mydev_buffer> buffers) {
  const auto size = static_cast<uint64_t>(group.size());
  group.all_to_all(stream, buffers[0].data, buffers[1].data, bytes_of(buffers[1]) / size);
}

// The elements as so many parts along a dimension: parts come first.
Operand parts_along(Operand view, size_t dimension, int64_t count) {
  const int64_t each = view.sizes[dimension] / count;
  view.sizes[dimension] = each;
  view.sizes.insert(view.sizes.begin(), count);
  view.strides.insert(view.strides.begin(), view.strides[dimension] * each);
  return view;
}

// Calls `add` with a dense view of the sizes of `view`, whose elements are then those of `view`.
void fill_view(Frame& frame, const Operand& view, const std::function<void(const Operand& dense)>& add) {
  if (is_row_major(view)) return add(view);
  const Operand dense = frame.emit.temporary(view.dtype, view.sizes);
  add(dense);
  frame.emit.copy(view, dense);
}

// --- reductions ------------------------------------------------------------------------------------------------------

// The kernel that reduces two tensors, as as_reduced() gives them; nullptr: there is none.
const char* binary_kernel(const ScalarProgram& body, ElementType type) {
  if (body.only_operation() == nullptr) return nullptr;
  const ReductionKernels* kernels = reduction_kernels(body.only_operation()->op, type);
  return kernels == nullptr ? nullptr : kernels->binary;
}

// Reduces the first `count` parts of the operand by a body, or in a type, that no kernel knows.
Operand reduced_on_host(Frame& frame, const Operation& op, const std::shared_ptr<const ScalarProgram>& body,
                        const Type& element, const Operand& parts, const Sizes& count_by_device) {
  const Sizes sizes(parts.sizes.begin() + 1, parts.sizes.end());
  const Operand result = frame.emit.temporary(parts.dtype, sizes);
  Type type = element;
  type.dims = sizes;
  frame.host_call(op.name(),
                  [body, type](auto given, auto results) {
                    int64_t count = 0;
                    std::memcpy(&count, given[1], sizeof count);
                    std::vector<Number> registers = body->make_registers();
                    const int64_t elements = type.element_count();
                    for (int64_t i = 0; i < elements; ++i) {
                      registers[0] = stablehlo::element(type, given[0], i);
                      for (int64_t part = 1; part < count; ++part) {
                        registers[1] = stablehlo::element(type, given[0] + part * type.bytes(), i);
                        body->run(registers);
                        registers[0] = body->result(registers, 0);
                      }
                      set_element(type, results[0], i, registers[0]);
                    }
                  },
                  {result}, {parts, frame.emit.device_integers(MYDEV_S64, {}, count_by_device).view});
  return result;
}

Sizes group_sizes(const Frame& frame, const Groups& groups) {
  Sizes sizes(static_cast<size_t>(frame.context.devices.count()));
  for (const Sizes& group : groups) {
    for (const int64_t device : group) sizes[static_cast<size_t>(device)] = std::ssize(group);
  }
  return sizes;
}

void lower_all_reduce(Frame& frame, const Operation& op) {
  note_collective(frame.context, op);
  const auto body = std::make_shared<const ScalarProgram>(frame.context.module, op.region());
  const Groups groups = groups_of(frame, op);
  for (size_t k = 0; k < op.results.size(); ++k) {
    const Type& type = *op.operand(k).type;
    const Operand& view = frame.view(op.operand(k));
    if (const char* kernel = binary_kernel(*body, type.element)) {
      const Operator reduction = body->only_operation()->op;
      const Operand from = frame.emit.dense(as_reduced(frame.emit, reduction, frame[op.operand(k)]).view);
      const Operand to = frame.emit.temporary(from.dtype, from.sizes);
      add_step(frame, op.name(), groups, to, from, [kernel](const Communicator& group, Stream& stream, auto buffers) {
        const auto dtype = static_cast<mydev_dtype>(buffers[0].dtype);
        const int64_t count = static_cast<int64_t>(bytes_of(buffers[0])) / dtype_size(dtype);
        group.all_reduce(stream, buffers[0].data, buffers[1].data, dtype, count, kernel);
      });
      frame.set(*op.results[k], from_reduced(frame.emit, reduction, {to}, view.dtype));
      continue;
    }
    const Sizes counts = group_sizes(frame, groups);
    Sizes all = type.dims;
    all.insert(all.begin(), *std::ranges::max_element(counts));
    const Operand parts = frame.emit.temporary(view.dtype, all);
    add_step(frame, op.name(), groups, parts, frame.emit.dense(view), gather);
    frame.set(*op.results[k], {reduced_on_host(frame, op, body, type, parts, counts)});
  }
}

void lower_reduce_scatter(Frame& frame, const Operation& op) {
  note_collective(frame.context, op);
  const auto body = std::make_shared<const ScalarProgram>(frame.context.module, op.region());
  const auto dimension = static_cast<size_t>(op.integer("scatter_dimension"));
  const Groups groups = groups_of(frame, op);
  for (const Sizes& group : groups) {
    require_shards(op, *op.operand(0).type, *op.result().type, "scatter_dimension", group.size());
  }
  const Type& type = *op.operand(0).type;
  const Operand& view = frame.view(op.operand(0));
  const int64_t count = std::ssize(groups.front());
  if (const char* kernel = binary_kernel(*body, type.element)) {
    const Operator reduction = body->only_operation()->op;
    const Operand whole = as_reduced(frame.emit, reduction, frame[op.operand(0)]).view;
    const Operand from = frame.emit.dense(parts_along(whole, dimension, count));
    const Operand to = frame.emit.temporary(from.dtype, {from.sizes.begin() + 1, from.sizes.end()});
    add_step(frame, op.name(), groups, to, from, [kernel](const Communicator& group, Stream& stream, auto buffers) {
      const auto dtype = static_cast<mydev_dtype>(buffers[0].dtype);
      const int64_t count = static_cast<int64_t>(bytes_of(buffers[0])) / dtype_size(dtype);
      group.reduce_scatter(stream, buffers[0].data, buffers[1].data, dtype, count, kernel);
    });
    frame.set(op.result(), from_reduced(frame.emit, reduction, {to}, view.dtype));
    return;
  }
  const Operand from = frame.emit.dense(parts_along(view, dimension, count));
  const Operand parts = frame.emit.temporary(from.dtype, from.sizes);
  add_step(frame, op.name(), groups, parts, from, exchange_shards);
  frame.set(op.result(), {reduced_on_host(frame, op, body, type, parts, group_sizes(frame, groups))});
}

// --- movement --------------------------------------------------------------------------------------------------------

void lower_all_gather(Frame& frame, const Operation& op) {
  note_collective(frame.context, op);
  const auto dimension = static_cast<size_t>(op.integer("all_gather_dim"));
  const Groups groups = groups_of(frame, op);
  for (const Sizes& group : groups) {
    for (size_t i = 0; i < op.results.size(); ++i) {
      require_shards(op, *op.result(i).type, *op.operand(i).type, "all_gather_dim", group.size());
    }
  }
  for (size_t k = 0; k < op.results.size(); ++k) {
    const Operand result = frame.result_of(op.result(k)), from = frame.emit.dense(frame.view(op.operand(k)));
    fill_view(frame, parts_along(result, dimension, std::ssize(groups.front())),
              [&](const Operand& to) { add_step(frame, op.name(), groups, to, from, gather); });
    frame.set(op.result(k), {result});
  }
}

// Raises unless the results are what so many devices give each other of the operands.
void require_exchange(const Operation& op, const Sizes& group, size_t split, size_t concat) {
  for (size_t i = 0; i < op.results.size(); ++i) {
    const Type &from = *op.operand(i).type, &to = *op.result(i).type;
    Type split_one = from;
    split_one.dims[split] = from.dims[split] / std::ssize(group);
    require_shards(op, from, split_one, "split_dimension", group.size());
    require_shards(op, to, split_one, "concat_dimension", group.size());
    if (split != concat && to.dims[split] != split_one.dims[split]) {
      op.fail(MYDEV_INVALID_ARGUMENT, "a ", to.text(), " does not follow from a ", from.text(), " on ", group.size(),
              " devices");
    }
  }
}

void lower_all_to_all(Frame& frame, const Operation& op) {
  note_collective(frame.context, op);
  const auto split = static_cast<size_t>(op.integer("split_dimension")),
             concat = static_cast<size_t>(op.integer("concat_dimension"));
  const Groups groups = groups_of(frame, op);
  for (const Sizes& group : groups) require_exchange(op, group, split, concat);
  const int64_t count = std::ssize(groups.front());
  for (size_t k = 0; k < op.results.size(); ++k) {
    const Operand result = frame.result_of(op.result(k));
    const Operand from = frame.emit.dense(parts_along(frame.view(op.operand(k)), split, count));
    fill_view(frame, parts_along(result, concat, count),
              [&](const Operand& to) { add_step(frame, op.name(), groups, to, from, exchange_shards); });
    frame.set(op.result(k), {result});
  }
}

// From the device that the pairs name for this one; zeros where they name none.
void lower_permute(Frame& frame, const Operation& op) {
  note_collective(frame.context, op);
  const Sizes pairs = op.integers("source_target_pairs");
  for (const size_t side : {0, 1}) require_devices(op, frame, pairs, side, 2);
  const auto count = static_cast<size_t>(frame.context.devices.count());
  std::vector<int> sources(count, -1), targets(count, -1);
  Sizes has_source(count, 0);
  for (size_t i = 0; i + 1 < pairs.size(); i += 2) {
    sources[static_cast<size_t>(pairs[i + 1])] = static_cast<int>(pairs[i]);
    targets[static_cast<size_t>(pairs[i])] = static_cast<int>(pairs[i + 1]);
    has_source[static_cast<size_t>(pairs[i + 1])] = 1;
  }
  const Operand to = frame.result_of(op.result());
  add_step(frame, op.name(), all_devices(frame), to, frame.emit.dense(frame.view(op.operand(0))),
           [sources, targets](const Communicator& group, Stream& stream, auto buffers) {
             const auto device = static_cast<size_t>(group.rank());
             group.permute(stream, buffers[0].data, sources[device], buffers[1].data, targets[device],
                           bytes_of(buffers[1]));
           });
  Tensor result{to};
  if (std::ranges::count(has_source, 0) != 0) {
    const std::vector<std::byte> zero(static_cast<size_t>(element_bytes(op.result().type->element)));
    const Operand condition = frame.emit.device_integers(MYDEV_PRED, {}, has_source).view;
    result = frame.emit.pointwise(
        "mydev.where", to.dtype,
        {{broadcast(condition, to.sizes, {})}, {to}, frame.emit.splat(to.dtype, to.sizes, mydev_scalar{}, zero)});
  }
  frame.set(op.result(), std::move(result));
}

void lower_broadcast(Frame& frame, const Operation& op) {
  note_collective(frame.context, op);
  const Operand to = frame.result_of(op.result());
  add_step(frame, op.name(), groups_of(frame, op), to, frame.emit.dense(frame.view(op.operand(0))),
           [](const Communicator& group, Stream& stream, auto buffers) {
             group.broadcast(stream, buffers[0].data, buffers[1].data, bytes_of(buffers[1]), 0);
           });
  frame.set(op.result(), {to});
}

// A dense tensor as its tiles, row-major: [shards..., sizes of a tile...].
Operand as_tiles(Operand view, const Sizes& shards) {
  Sizes sizes = shards, strides;
  for (size_t d = 0; d < shards.size(); ++d) {
    view.sizes[d] /= shards[d];
    strides.push_back(view.strides[d] * view.sizes[d]);
  }
  view.sizes.insert(view.sizes.begin(), sizes.begin(), sizes.end());
  view.strides.insert(view.strides.begin(), strides.begin(), strides.end());
  return view;
}

// Gathers a tensor of which each device has a shard: each tile comes from the first device that has it.
Tensor gathered(Frame& frame, const Tensor& shard, const Sharding& sharding, const Type& whole,
                const std::string& what) {
  frame.context.gathered.push_back(what + ", " + whole.text());
  frame.context.collectives_text += "gather of shards " + whole.text() + '\n';
  const auto devices = static_cast<size_t>(frame.context.devices.count());
  std::vector<std::vector<int>> sources(devices), targets(devices);  // of each device: of each tile; its tile's
  for (size_t device = 0; device < devices; ++device) {
    sources[device].resize(static_cast<size_t>(count_of(sharding.shards())));
    for (const int64_t holder : sharding.holders(static_cast<int64_t>(device))) {
      const Sizes start = sharding.shard_start(whole.dims, holder), box = sharding.shard_sizes(whole.dims);
      int64_t tile = 0;
      for (size_t d = 0; d < box.size(); ++d) {
        tile = tile * sharding.shards()[d] + (box[d] == 0 ? 0 : start[d] / box[d]);
      }
      sources[device][static_cast<size_t>(tile)] = static_cast<int>(holder);
      targets[static_cast<size_t>(holder)].push_back(static_cast<int>(device));
    }
  }
  const Operand result = frame.emit.temporary(shard.view.dtype, whole.dims);
  const Operand from = frame.emit.dense(shard.view);
  fill_view(frame, as_tiles(result, sharding.shards()), [&](const Operand& to) {
    add_step(frame, "gather of shards", all_devices(frame), to, from,
             [sources, targets](const Communicator& group, Stream& stream, auto buffers) {
               const auto device = static_cast<size_t>(group.rank());
               group.gather(stream, buffers[0].data, sources[device], buffers[1].data, targets[device],
                            bytes_of(buffers[1]));
             });
  });
  return {result};
}

// The place at which each device's shard of a tensor begins, along the dimensions that are split.
struct ShardStarts {
  ShardStarts(Frame& frame, const Sharding& sharding, const Sizes& whole) {
    for (size_t d = 0; d < whole.size(); ++d) {
      if (sharding.shards()[d] > 1) dims.push_back(static_cast<int64_t>(d));
    }
    Sizes starts;
    for (int64_t device = 0; device < sharding.devices(); ++device) {
      const Sizes start = sharding.shard_start(whole, device);
      for (const int64_t d : dims) starts.push_back(start[static_cast<size_t>(d)]);
    }
    if (!dims.empty()) index = frame.emit.device_integers(MYDEV_S64, {1, std::ssize(dims)}, starts).view;
  }

  Sizes dims;
  program::Operand index;  // [1, dims]
};

// Each device's shard of a whole tensor.
Tensor shard_of(Frame& frame, const Tensor& whole, const Sharding& sharding) {
  if (sharding.is_whole()) return whole;
  const Sizes &sizes = whole.sizes(), shard = sharding.shard_sizes(sizes);
  if (whole.splat || is_empty(shard)) {  // all shards are alike
    return {sliced(whole.view, Sizes(sizes.size(), 0), shard, Sizes(sizes.size(), 1)), whole.splat};
  }
  const ShardStarts starts(frame, sharding, sizes);
  const program::Operand out = frame.emit.temporary(whole.view.dtype, shard);
  const std::array attributes = {int_array_attribute("dims", starts.dims), int_attribute("from_end", 0)};
  frame.emit.launch("mydev.gather_slices", {dense_reshaped(out, as_one_part(shard))}, {whole.view, starts.index},
                    attributes);
  return {out, std::nullopt};
}

// A shard in its place among zeros, or zeros only.
Tensor summand_of(Frame& frame, const Tensor& shard, const Sharding& places, const Type& type) {
  const std::vector<std::byte> zero(static_cast<size_t>(element_bytes(type.element)));
  const auto zeros = [&](const Sizes& sizes) {
    return frame.emit.splat(shard.view.dtype, sizes, mydev_scalar{}, zero);
  };
  Sizes is_first;
  for (const int64_t summand : places.summands()) is_first.push_back(summand == 0 ? 1 : 0);
  const program::Operand condition = frame.emit.device_integers(MYDEV_PRED, {}, is_first).view;
  Tensor own = frame.emit.pointwise("mydev.where", shard.view.dtype,
                                    {{broadcast(condition, shard.sizes(), {})}, shard, zeros(shard.sizes())});
  if (places.is_whole() || is_empty(shard.sizes())) return own;
  Sizes sizes = shard.sizes();
  for (size_t d = 0; d < sizes.size(); ++d) sizes[d] *= places.shards()[d];
  const ShardStarts starts(frame, places, sizes);
  const program::Operand out = frame.emit.temporary(shard.view.dtype, sizes);
  const std::array attributes = {int_array_attribute("dims", starts.dims), bool_attribute("clamp", true),
                                 int_attribute("from_end", 0)};
  const program::Operand values = dense_reshaped(frame.emit.dense(own.view), as_one_part(shard.sizes()));
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
  if (move.sharded) tensor = shard_of(frame, tensor, *move.sharded);
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
