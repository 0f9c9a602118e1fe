// The collectives, each in terms of the engine's.
//
// If the host cannot reach device memory, large operands of collectives that work element by element are sent in pieces
// of kPieceBytes. While the engine has one piece, the next is copied to the host and the one before back to the device.
#include <ATen/ATen.h>

#include <algorithm>
#include <numeric>

#include "distributed/device_backend.h"
#include "distributed/machine_engine.h"
#include "distributed/operand_checks.h"
#include "distributed/reduction.h"
#include "runtime/driver/device.h"

namespace mydev {
namespace {

using c10d::OpType;
using Tensor = at::Tensor;
using Tensors = std::vector<at::Tensor>;

constexpr int64_t kPieceBytes = int64_t{4} << 20;

// Up to this size all_reduce gathers the operands, and each rank reduces them itself: half the steps of the engine's
// ring, in which small operands spend their time. Every rank adds in the same order.
constexpr size_t kGatheredReductionBytes = size_t{128} << 10;

// Calls body(begin, length) for the pieces in which `numel` elements are sent; once if nothing is copied.
template <typename Body>
void for_each_piece(const Tensor& tensor, int64_t numel, Body&& body) {
  const bool whole = device(tensor.get_device()).host_accessible() || !tensor.is_contiguous();
  const int64_t most = whole ? numel : std::max<int64_t>(1, kPieceBytes / tensor.element_size());
  int64_t begin = 0;
  do {
    const int64_t length = std::min(most, numel - begin);
    body(begin, length);
    begin += length;
  } while (begin < numel);
}

// A piece of a tensor's elements in order; the tensor itself if that is all of them.
Tensor piece_of(const Tensor& tensor, int64_t begin, int64_t length) {
  return length == tensor.numel() ? tensor : tensor.view(-1).narrow(0, begin, length);
}

// `count` equal parts of a dense tensor's elements.
Tensors equal_parts(const Tensor& tensor, int64_t count) {
  const Tensor flat = tensor.view(-1);
  const int64_t length = tensor.numel() / count;
  Tensors parts;
  for (int64_t part = 0; part < count; ++part) parts.push_back(flat.narrow(0, part * length, length));
  return parts;
}

Tensors all_read(HostOperands& operands, const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(as_movable(operands.read(tensor)));
  return result;
}

Tensors all_written(HostOperands& operands, const Tensors& tensors) {
  Tensors result;
  for (const Tensor& tensor : tensors) result.push_back(as_movable(operands.write(tensor)));
  return result;
}

std::vector<int64_t> lengths_of(const Tensors& tensors) {
  std::vector<int64_t> lengths;
  for (const Tensor& tensor : tensors) lengths.push_back(tensor.numel());
  return lengths;
}

int64_t sum_of(const std::vector<int64_t>& lengths) {
  return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
}

// All elements of all tensors.
Tensor flat(const Tensors& tensors) {
  Tensors parts;
  for (const Tensor& tensor : tensors) parts.push_back(tensor.view(-1));
  return at::cat(parts);
}

bool same_sizes(const Tensors& tensors) {
  return std::all_of(tensors.begin(), tensors.end(),
                     [&](const Tensor& tensor) { return tensor.numel() == tensors[0].numel(); });
}

// Checks the element counts of operands that are gathered into or scattered from one tensor.
void check_multiple(const char* name, const Tensor& whole, const Tensor& part, int size) {
  TORCH_CHECK(whole.numel() == part.numel() * size, name, ": the larger tensor has ", whole.numel(),
              " elements, expected ", part.numel(), " for each of ", size, " ranks");
  TORCH_CHECK(whole.is_contiguous(), name, ": the larger tensor must be contiguous");
}

// Called on the thread of the collective's caller. It checks the operation, and reads a factor that is on the device.
std::vector<Reduction> reductions_of(const Tensors& tensors, const c10d::ReduceOp& op, int size) {
  std::vector<Reduction> reductions;
  for (const Tensor& tensor : tensors) reductions.emplace_back(tensor.scalar_type(), op, size);
  return reductions;
}

Tensors joined(const std::vector<Tensors>& lists) {
  Tensors result;
  for (const Tensors& list : lists) result.insert(result.end(), list.begin(), list.end());
  return result;
}

}  // namespace

// --- broadcast -------------------------------------------------------------------------------------------------------

DeviceBackend::WorkPtr DeviceBackend::broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) {
  const int device = only_tensor("broadcast", tensors).get_device();
  const bool is_root = rank_ == options.rootRank;
  const auto issue = [=, this](Stages& stages, const Tensors& outputs, const Tensors& /*inputs*/) {
    const Tensor& tensor = outputs[0];
    for_each_piece(tensor, tensor.numel(), [&](int64_t begin, int64_t length) {
      HostOperands& operands = stages.add();
      const Tensor piece = piece_of(tensor, begin, length);
      Tensors operand{as_movable(is_root ? operands.read(piece) : operands.write(piece))};
      stages.start(engine_->broadcast(operand, options));
    });
  };
  return start(OpType::BROADCAST, "broadcast", device, tensors, {}, issue);
}

// --- reductions ------------------------------------------------------------------------------------------------------

void DeviceBackend::add_allreduce(Stages& stages, const Tensor& tensor, const Reduction& reduction,
                                  const c10d::AllreduceOptions& options) {
  c10d::AllreduceOptions engine_options = options;
  engine_options.reduceOp = reduction.engine_op();
  const bool gathered = size_ > 1 && tensor.numel() > 0 && tensor.nbytes() <= kGatheredReductionBytes;
  for_each_piece(tensor, tensor.numel(), [&](int64_t begin, int64_t length) {
    HostOperands& operands = stages.add();
    const Tensor host = operands.update(piece_of(tensor, begin, length));
    Tensors wire{reduction.to_wire(host)};
    if (gathered) {
      const Tensor rows = at::empty({size_, wire[0].numel()}, wire[0].options());
      operands.at_end([=] { reduction.from_wire(reduction.reduce_rows(rows).view_as(wire[0]), host); });
      std::vector<Tensors> lists{rows.unbind()};
      Tensors contribution{wire[0].view(-1)};
      stages.start(engine_->allgather(lists, contribution, {.timeout = options.timeout}));
      return;
    }
    if (reduction.needs_from_wire(wire[0], host)) {
      operands.at_end([=] { reduction.from_wire(wire[0], host); });
    }
    stages.start(engine_->allreduce(wire, engine_options));
  });
}

DeviceBackend::WorkPtr DeviceBackend::allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) {
  const Tensor& tensor = only_tensor("all_reduce", tensors);
  const Reduction reduction(tensor.scalar_type(), options.reduceOp, size_);
  const auto issue = [=, this](Stages& stages, const Tensors& outputs, const Tensors& /*inputs*/) {
    add_allreduce(stages, outputs[0], reduction, options);
  };
  return start(OpType::ALLREDUCE, "all_reduce", tensor.get_device(), tensors, {}, issue);
}

DeviceBackend::WorkPtr DeviceBackend::allreduce_coalesced(Tensors& tensors,
                                                          const c10d::AllreduceCoalescedOptions& options) {
  const int device = device_of("all_reduce_coalesced", tensors);
  const std::vector<Reduction> reductions = reductions_of(tensors, options.reduceOp, size_);
  const auto issue = [=, this](Stages& stages, const Tensors& outputs, const Tensors& /*inputs*/) {
    for (size_t i = 0; i < outputs.size(); ++i) add_allreduce(stages, outputs[i], reductions[i], options);
  };
  return start(OpType::ALLREDUCE_COALESCED, "all_reduce_coalesced", device, tensors, {}, issue);
}

DeviceBackend::WorkPtr DeviceBackend::reduce(Tensors& tensors, const c10d::ReduceOptions& options) {
  const int device = only_tensor("reduce", tensors).get_device();
  const Reduction reduction(tensors[0].scalar_type(), options.reduceOp, size_);
  const bool is_root = rank_ == options.rootRank;
  const auto issue = [=, this](Stages& stages, const Tensors& outputs, const Tensors& /*inputs*/) {
    const Tensor& tensor = outputs[0];
    c10d::ReduceOptions engine_options = options;
    engine_options.reduceOp = reduction.engine_op();
    for_each_piece(tensor, tensor.numel(), [&](int64_t begin, int64_t length) {
      HostOperands& operands = stages.add();
      const Tensor piece = piece_of(tensor, begin, length);
      const Tensor host = is_root ? operands.update(piece) : operands.read(piece);
      Tensors wire{reduction.to_wire(host)};
      if (!is_root) {  // the engine uses every rank's operand for partial results
        if (wire[0].const_data_ptr() == host.const_data_ptr()) wire[0] = wire[0].clone();
      } else if (reduction.needs_from_wire(wire[0], host)) {
        operands.at_end([=] { reduction.from_wire(wire[0], host); });
      }
      stages.start(engine_->reduce(wire, engine_options));
    });
  };
  return start(OpType::REDUCE, "reduce", device, tensors, {}, issue);
}

// Each rank gets its shard of the others' operands and reduces them: half the traffic of reducing everything
// everywhere. `parts` are the shards, each a run of elements; `whole`: all of them, if they lie one after the other.
void DeviceBackend::add_reduce_scatter(Stages& stages, HostOperands& operands, const Tensor& output,
                                       const Tensors& parts, const Tensor& whole, const Reduction& reduction,
                                       const c10d::ReduceScatterOptions& options) {
  const Tensor host = operands.write(output);
  const Tensor& own = parts[static_cast<size_t>(rank_)];
  const auto put = [=](const Tensor& reduced) {
    reduction.from_wire(host.is_complex() ? reduced.view_as(at::view_as_real(host)) : reduced.view_as(host), host);
  };
  const bool rounds_once = c10::isReducedFloatingType(own.scalar_type()) && size_ > 2;
  if (dynamic_cast<MachineEngine*>(engine_.get()) != nullptr && MachineEngine::reduces(reduction.engine_op()) &&
      !rounds_once) {
    const bool in_place = host.scalar_type() == own.scalar_type() && host.is_contiguous();
    const Tensor reduced = in_place ? host.view(-1) : at::empty_like(own);
    if (reduction.needs_from_wire(reduced, host)) operands.at_end([=] { put(reduced); });
    Tensors outputs{reduced};
    std::vector<Tensors> inputs{parts};
    c10d::ReduceScatterOptions engine_options = options;
    engine_options.reduceOp = reduction.engine_op();
    stages.start(engine_->reduce_scatter(outputs, inputs, engine_options));
    return;
  }
  std::vector<int64_t> lengths = lengths_of(parts);
  const int64_t length = own.numel();
  const Tensor rows = at::empty({size_, length}, own.options());
  operands.at_end([=] { put(reduction.reduce_rows(rows)); });
  Tensor received = rows.view(-1), input = whole.defined() ? whole : flat(parts);
  std::vector<int64_t> received_lengths(static_cast<size_t>(size_), length);
  stages.start(engine_->alltoall_base(received, input, received_lengths, lengths, {.timeout = options.timeout}));
}

void DeviceBackend::add_reduce_scatter_list(Stages& stages, const Tensor& output, const Tensors& inputs,
                                            const Reduction& reduction, const c10d::ReduceScatterOptions& options) {
  HostOperands& operands = stages.add();
  Tensors parts;
  for (const Tensor& input : inputs) parts.push_back(reduction.to_wire(operands.read(input)).view(-1));
  add_reduce_scatter(stages, operands, output, parts, /*whole=*/{}, reduction, options);
}

void DeviceBackend::add_reduce_scatter_base(Stages& stages, const Tensor& output, const Tensor& input,
                                            const Reduction& reduction, const c10d::ReduceScatterOptions& options) {
  const Tensors parts = equal_parts(input, size_);
  for_each_piece(output, output.numel(), [&](int64_t begin, int64_t length) {
    if (length == output.numel()) {
      HostOperands& operands = stages.add();
      const Tensor whole = reduction.to_wire(operands.read(input)).view(-1);
      add_reduce_scatter(stages, operands, output, equal_parts(whole, size_), whole, reduction, options);
      return;
    }
    Tensors pieces;
    for (const Tensor& part : parts) pieces.push_back(piece_of(part, begin, length));
    add_reduce_scatter_list(stages, piece_of(output, begin, length), pieces, reduction, options);
  });
}

DeviceBackend::WorkPtr DeviceBackend::reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                                     const c10d::ReduceScatterOptions& options) {
  const Tensor& output = only_tensor("reduce_scatter", outputs);
  TORCH_CHECK(inputs.size() == 1, "reduce_scatter: expected one list of inputs, got ", inputs.size());
  check_count("reduce_scatter", "inputs", inputs[0].size(), static_cast<size_t>(size_));
  const Tensors& list = inputs[0];
  const int device = device_of("reduce_scatter", outputs, list);
  TORCH_CHECK(list[static_cast<size_t>(rank_)].numel() == output.numel(), "reduce_scatter: input ", rank_, " has ",
              list[static_cast<size_t>(rank_)].numel(), " elements, the output ", output.numel());
  const Reduction reduction(output.scalar_type(), options.reduceOp, size_);
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    add_reduce_scatter_list(stages, written[0], read, reduction, options);
  };
  return start(OpType::REDUCE_SCATTER, "reduce_scatter", device, outputs, list, issue);
}

DeviceBackend::WorkPtr DeviceBackend::_reduce_scatter_base(Tensor& output, Tensor& input,
                                                           const c10d::ReduceScatterOptions& options) {
  Tensors outputs{output}, inputs{input};
  return reduce_scatter_tensor_coalesced(outputs, inputs, options);
}

DeviceBackend::WorkPtr DeviceBackend::reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::ReduceScatterOptions& options) {
  constexpr const char* kName = "reduce_scatter_tensor";
  TORCH_CHECK(outputs.size() == inputs.size(), kName, ": ", outputs.size(), " outputs for ", inputs.size(), " inputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    device_of(kName, outputs[i], inputs[i]);
    check_multiple(kName, inputs[i], outputs[i], size_);
  }
  const std::vector<Reduction> reductions = reductions_of(outputs, options.reduceOp, size_);
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    for (size_t i = 0; i < written.size(); ++i) {
      add_reduce_scatter_base(stages, written[i], read[i], reductions[i], options);
    }
  };
  return start(OpType::_REDUCE_SCATTER_BASE, kName, device_of(kName, outputs), outputs, inputs, issue);
}

// --- gathering -------------------------------------------------------------------------------------------------------

void DeviceBackend::add_allgather(Stages& stages, const Tensors& outputs, const Tensor& input,
                                  const c10d::AllgatherOptions& options) {
  HostOperands& operands = stages.add();
  Tensors inputs{as_movable(operands.read(input))};
  if (same_sizes(outputs)) {
    std::vector<Tensors> lists{all_written(operands, outputs)};
    stages.start(engine_->allgather(lists, inputs, options));
    return;
  }
  // Tensors of several sizes: one broadcast for each rank.
  for (int root = 0; root < size_; ++root) {
    Tensors operand{as_movable(operands.write(outputs[static_cast<size_t>(root)]))};
    if (root == rank_) operand[0].copy_(inputs[0].view_as(operand[0]));
    stages.start(engine_->broadcast(operand, {.rootRank = root, .timeout = options.timeout}));
  }
}

void DeviceBackend::add_allgather_base(Stages& stages, const Tensor& output, const Tensor& input,
                                       const c10d::AllgatherOptions& options) {
  const Tensors parts = equal_parts(output, size_);
  for_each_piece(input, input.numel(), [&](int64_t begin, int64_t length) {
    HostOperands& operands = stages.add();
    Tensors inputs{as_movable(operands.read(piece_of(input, begin, length)).view(-1))};
    Tensors pieces;
    for (const Tensor& part : parts) pieces.push_back(piece_of(part, begin, length));
    std::vector<Tensors> lists{all_written(operands, pieces)};
    stages.start(engine_->allgather(lists, inputs, options));
  });
}

DeviceBackend::WorkPtr DeviceBackend::allgather(std::vector<Tensors>& outputs, Tensors& inputs,
                                                const c10d::AllgatherOptions& options) {
  const Tensor& input = only_tensor("all_gather", inputs);
  TORCH_CHECK(outputs.size() == 1, "all_gather: expected one list of outputs, got ", outputs.size());
  check_count("all_gather", "outputs", outputs[0].size(), static_cast<size_t>(size_));
  const Tensors& list = outputs[0];
  const int device = device_of("all_gather", list, inputs);
  TORCH_CHECK(list[static_cast<size_t>(rank_)].numel() == input.numel(), "all_gather: output ", rank_, " has ",
              list[static_cast<size_t>(rank_)].numel(), " elements, the input ", input.numel());
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    add_allgather(stages, written, read[0], options);
  };
  return start(OpType::ALLGATHER, "all_gather", device, list, inputs, issue);
}

DeviceBackend::WorkPtr DeviceBackend::_allgather_base(Tensor& output, Tensor& input,
                                                      const c10d::AllgatherOptions& options) {
  Tensors outputs{output}, inputs{input};
  return allgather_into_tensor_coalesced(outputs, inputs, options);
}

DeviceBackend::WorkPtr DeviceBackend::allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                                                      const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_into_tensor";
  TORCH_CHECK(outputs.size() == inputs.size(), kName, ": ", outputs.size(), " outputs for ", inputs.size(), " inputs");
  for (size_t i = 0; i < outputs.size(); ++i) {
    device_of(kName, outputs[i], inputs[i]);
    check_multiple(kName, outputs[i], inputs[i], size_);
  }
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    for (size_t i = 0; i < written.size(); ++i) add_allgather_base(stages, written[i], read[i], options);
  };
  return start(OpType::_ALLGATHER_BASE, kName, device_of(kName, outputs), outputs, inputs, issue);
}

DeviceBackend::WorkPtr DeviceBackend::allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                                                          const c10d::AllgatherOptions& options) {
  constexpr const char* kName = "all_gather_coalesced";
  check_count(kName, "lists of outputs", outputs.size(), static_cast<size_t>(size_));
  for (const Tensors& list : outputs) {
    TORCH_CHECK(list.size() == inputs.size(), kName, ": ", list.size(), " outputs for ", inputs.size(), " inputs");
  }
  const int device = device_of(kName, joined(outputs), inputs);
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    for (size_t i = 0; i < read.size(); ++i) {
      Tensors column;
      for (size_t j = i; j < written.size(); j += read.size()) column.push_back(written[j]);
      add_allgather(stages, column, read[i], options);
    }
  };
  return start(OpType::ALLGATHER_COALESCED, kName, device, joined(outputs), inputs, issue);
}

DeviceBackend::WorkPtr DeviceBackend::gather(std::vector<Tensors>& outputs, Tensors& inputs,
                                             const c10d::GatherOptions& options) {
  only_tensor("gather", inputs);
  const bool is_root = rank_ == options.rootRank;
  TORCH_CHECK(outputs.size() == (is_root ? 1U : 0U), "gather: expected ",
              is_root ? "one list of outputs on the destination" : "no outputs but on the destination", ", got ",
              outputs.size());
  const Tensors list = is_root ? outputs[0] : Tensors{};
  if (is_root) check_count("gather", "outputs", list.size(), static_cast<size_t>(size_));
  const int device = device_of("gather", list, inputs);
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    HostOperands& operands = stages.add();
    Tensors host_inputs{as_movable(operands.read(read[0]))};
    std::vector<Tensors> host_outputs;
    if (is_root) host_outputs.push_back(all_written(operands, written));
    stages.start(engine_->gather(host_outputs, host_inputs, options));
  };
  return start(OpType::GATHER, "gather", device, list, inputs, issue);
}

#if MYDEV_TORCH_HAS(14)
DeviceBackend::WorkPtr DeviceBackend::gather_into_tensor(Tensor& output, Tensor& input,
                                                         const c10d::GatherOptions& options) {
  Tensors inputs{input};
  std::vector<Tensors> outputs;
  if (rank_ == options.rootRank) {
    check_multiple("gather_single", output, input, size_);
    outputs.push_back(equal_parts(output, size_));
    for (Tensor& part : outputs[0]) part = part.view(input.sizes());
  }
  return gather(outputs, inputs, options);
}
#endif

DeviceBackend::WorkPtr DeviceBackend::scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                                              const c10d::ScatterOptions& options) {
  only_tensor("scatter", outputs);
  const bool is_root = rank_ == options.rootRank;
  TORCH_CHECK(inputs.size() == (is_root ? 1U : 0U), "scatter: expected ",
              is_root ? "one list of inputs on the source" : "no inputs but on the source", ", got ", inputs.size());
  const Tensors list = is_root ? inputs[0] : Tensors{};
  if (is_root) check_count("scatter", "inputs", list.size(), static_cast<size_t>(size_));
  const int device = device_of("scatter", outputs, list);
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    HostOperands& operands = stages.add();
    Tensors host_outputs{as_movable(operands.write(written[0]))};
    std::vector<Tensors> host_inputs;
    if (is_root) host_inputs.push_back(all_read(operands, read));
    stages.start(engine_->scatter(host_outputs, host_inputs, options));
  };
  return start(OpType::SCATTER, "scatter", device, outputs, list, issue);
}

// --- all to all ------------------------------------------------------------------------------------------------------

DeviceBackend::WorkPtr DeviceBackend::alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                                                    std::vector<int64_t>& input_splits,
                                                    const c10d::AllToAllOptions& options) {
  const int device = device_of("all_to_all_single", output, input);
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    HostOperands& operands = stages.add();
    Tensor host_output = as_movable(operands.write(written[0]));
    Tensor host_input = as_movable(operands.read(read[0]));
    std::vector<int64_t> to = input_splits, from = output_splits;
    stages.start(engine_->alltoall_base(host_output, host_input, from, to, options));
  };
  return start(OpType::ALLTOALL_BASE, "all_to_all_single", device, {output}, {input}, issue);
}

DeviceBackend::WorkPtr DeviceBackend::alltoall(Tensors& outputs, Tensors& inputs,
                                               const c10d::AllToAllOptions& options) {
  check_count("all_to_all", "outputs", outputs.size(), static_cast<size_t>(size_));
  check_count("all_to_all", "inputs", inputs.size(), static_cast<size_t>(size_));
  const int device = device_of("all_to_all", outputs, inputs);
  const auto issue = [=, this](Stages& stages, const Tensors& written, const Tensors& read) {
    // Each list is sent as one tensor: the engine's own form for lists takes tensors of one size only.
    HostOperands& operands = stages.add();
    const Tensors host_inputs = all_read(operands, read), host_outputs = all_written(operands, written);
    std::vector<int64_t> sent = lengths_of(host_inputs), received = lengths_of(host_outputs);
    Tensor from = flat(host_inputs), to = at::empty({sum_of(received)}, from.options());
    operands.at_end([=] {
      const Tensors parts = to.split_with_sizes(received);
      for (size_t i = 0; i < parts.size(); ++i) Tensor(host_outputs[i]).copy_(parts[i].view_as(host_outputs[i]));
    });
    stages.start(engine_->alltoall_base(to, from, received, sent, options));
  };
  return start(OpType::ALLTOALL, "all_to_all", device, outputs, inputs, issue);
}

}  // namespace mydev
