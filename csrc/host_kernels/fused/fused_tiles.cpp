#include "host_kernels/fused/fused_tiles.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <new>
#include <optional>
#include <span>
#include <utility>

#include "host_kernels/fused/fused_worker.h"
#include "host_kernels/isa_variant.h"
#include "kernels/spec/form_reader.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels {

namespace {

// Bytes that a tile touches in all. If rows are reduced, a step finds the results of the step before in the first-level
// cache, beside the operands of the next tile. If steps are kernels, which are called for several rows, it finds them
// in the second-level cache.
constexpr int64_t kTileBytes = 65536, kTileBytesOfRows = 24576, kTileBytesOfKernels = 262144;
// Elements of a tile with rows that are reduced: kernels cut longer rows (isa/reduction/reduction_plan.h), and need
// scratch.
constexpr int64_t kMostReduced = 32767;
// Buffers of kReadFromMemory bytes together are read from memory; results of kStreamed bytes have left the caches
// before they are read.
constexpr int64_t kReadFromMemory = 1 << 20, kStreamed = 8 << 20;
// Several lines that are shorter do not go block by block: the kernels gather them.
constexpr int64_t kShortestLine = 64;

// Row-major strides: `rank` entries, 0 in those beyond the sizes.
std::vector<int64_t> dense_strides(std::span<const int64_t> sizes, size_t rank) {
  std::vector<int64_t> strides(rank);
  int64_t stride = 1;
  for (size_t d = sizes.size(); d-- > 0; stride *= sizes[d]) strides[d] = stride;
  return strides;
}

}  // namespace

std::unique_ptr<const FusedTiles> FusedTiles::make(const mydev_frame& frame, Refusal& why) {
  static std::atomic<uint64_t> last_id{0};
  std::unique_ptr<FusedTiles> tiles(new FusedTiles);
  tiles->id_ = 1 + last_id.fetch_add(1, std::memory_order_relaxed);
  try {
    tiles->take(FusedBody::read(frame));
  } catch (const Error& problem) {
    why = {problem.code(), problem.what()};
    return nullptr;
  }
  tiles->merge_dimensions();
  tiles->find_groups();
  tiles->find_chains();
  tiles->choose_tile();
  if (!tiles->apart_ && tiles->count_ > 1) {
    why = {MYDEV_UNIMPLEMENTED, "iterations of several tiles see what others write"};
    return nullptr;
  }
  if (tiles->needs_scratch()) {
    why = {MYDEV_UNIMPLEMENTED, "a kernel needs scratch for a tile"};
    return nullptr;
  }
  return tiles;
}

void FusedTiles::take(FusedBody body) {
  iterations_ = body.iterations;
  apart_ = body.apart;
  advances_ = std::move(body.advances);
  sizes_ = std::move(body.sizes);
  outer_rank_ = body.outer_rank;
  for (FusedBody::Step& from : body.steps) {
    const mydev_kernel* record = record_of(from.kernel);
    require(record != nullptr && record->plan == nullptr, MYDEV_UNIMPLEMENTED, "step ", steps_.size(),
            " of mydev.fused (", from.kernel, ") is of no kernel of the host that runs in tiles");
    Step& step = steps_.emplace_back();
    step.record = record;
    step.num_outputs = from.num_outputs;
    step.is_outer = from.is_outer;
    for (FusedBody::Operand& operand : from.operands) step.operands.push_back({std::move(operand)});
    step.attributes = std::move(from.attributes);
  }
  for (const FusedBody::Temporary& temporary : body.temporaries) temporaries_.push_back({temporary});
}

// Makes one dimension of two if all views go through both as through one, and none or both are reduced.
void FusedTiles::merge_dimensions() {
  for (size_t d = sizes_.size(); d-- > 1;) {
    if (d == outer_rank_) continue;
    const auto continues = [&](const Operand& operand) {
      return operand.kind == Operand::kTemporary || operand.strides[d - 1] == operand.strides[d] * sizes_[d];
    };
    if (!std::ranges::all_of(steps_, [&](const Step& step) { return std::ranges::all_of(step.operands, continues); })) {
      continue;
    }
    sizes_[d] *= sizes_[d - 1];
    sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(d) - 1);
    for (Step& step : steps_) {
      for (Operand& operand : step.operands) {
        operand.strides.erase(operand.strides.begin() + static_cast<std::ptrdiff_t>(d) - 1);
      }
    }
    if (d < outer_rank_) --outer_rank_;
  }
  if (outer_rank_ != 0) return;
  outer_rank_ = 1;
  sizes_.insert(sizes_.begin(), 1);
  for (Step& step : steps_) {
    for (Operand& operand : step.operands) operand.strides.insert(operand.strides.begin(), 0);
  }
}

// Entries of the outer dimensions.
int64_t FusedTiles::entries() const {
  int64_t entries = 1;
  for (size_t d = 0; d < outer_rank_; ++d) entries *= sizes_[d];
  return entries;
}

// Elements that are reduced into one.
int64_t FusedTiles::row() const {
  int64_t elements = 1;
  for (size_t d = outer_rank_; d < sizes_.size(); ++d) elements *= sizes_[d];
  return elements;
}

// Returns the end of the dimensions that the step's elements have.
size_t FusedTiles::end_of(const Step& step) const {
  return step.is_outer ? outer_rank_ : sizes_.size();
}

// Whether the kernel has blocks, and all operands lie dense along the last dimension, or are one value there.
bool FusedTiles::has_block(Step& step) const {
  const size_t last = end_of(step) - 1;
  const bool is_one_line = std::ranges::all_of(std::span(sizes_).first(last), [](int64_t size) { return size == 1; });
  if (!step.is_outer && sizes_[last] < kShortestLine && !is_one_line) return false;
  for (const Operand& operand : step.operands) {
    if (operand.kind == Operand::kAbsent) return false;
    if (operand.kind != Operand::kMemory || operand.strides[last] == 1 || sizes_[last] == 1) continue;
    if (operand.strides[last] != 0 || &operand == step.operands.data()) return false;
  }
  std::vector<mydev_buffer> buffers;
  for (const Operand& operand : step.operands) {
    mydev_buffer& buffer = buffers.emplace_back();
    buffer.dtype = static_cast<int16_t>(operand.dtype);
    buffer.flags = operand.kind == Operand::kNumber ? MYDEV_BUFFER_SCALAR : 0;
  }
  const mydev_frame frame =
      make_frame(buffers, step.num_outputs, {step.attributes->attributes, step.attributes->num_attributes});
  return MYDEV_ISA_VARIANT(instruction_set(), find_block)(step.record->name, frame, step.block);
}

// Whether the kernel reduces each row into one element, and rows lie dense.
bool FusedTiles::has_rows(Step& step) const {
  if (step.operands.size() != 2) return false;
  const Operand &out = step.operands[0], &in = step.operands[1];
  if (out.dtype != in.dtype) return false;
  step.reduction = MYDEV_ISA_VARIANT(instruction_set(), find_row_reduction)(step.record->name, in.dtype);
  if (step.reduction.run == nullptr) return false;
  int64_t stride = 1;
  for (size_t d = sizes_.size(); d-- > outer_rank_; stride *= sizes_[d]) {
    if (out.strides[d] != 0 || (in.kind == Operand::kMemory && in.strides[d] != stride)) return false;
  }
  const auto is_there = [](const Operand& operand) {
    return operand.kind == Operand::kMemory || operand.kind == Operand::kTemporary;
  };
  return outer_rank_ < sizes_.size() && !step.is_outer && is_there(out) && is_there(in);
}

// Finds how each step runs, which consecutive steps go block by block together, and which temporaries only these need.
void FusedTiles::find_groups() {
  for (Step& step : steps_) {
    step.strategy = has_block(step) ? Step::kBlocks : has_rows(step) ? Step::kRows : Step::kKernel;
  }
  for (size_t first = 0; first < steps_.size();) {
    size_t end = first;
    while (end < steps_.size() && steps_[end].strategy == Step::kBlocks &&
           steps_[end].is_outer == steps_[first].is_outer) {
      ++end;
    }
    for (size_t i = first; i < end; ++i) steps_[i].end_of_group = end;
    for (Temporary& temporary : temporaries_) {
      temporary.in_block |= temporary.first >= first && temporary.last < end;
    }
    first = std::max(end, first + 1);
  }
}

// Finds the steps of a group that each compute with the result of the step before.
void FusedTiles::find_chains() {
  // Returns how the step computes with the value; nothing if it does not.
  const auto form_of = [](const Step& step, const Operand& value) -> std::optional<ChainCall::Form> {
    const auto is_it = [&](size_t k) {
      const Operand& operand = step.operands[k];
      return operand.kind == value.kind && operand.index == value.index && operand.offset == value.offset &&
             operand.strides == value.strides;
    };
    if (step.block.inputs == 1) return is_it(1) ? std::optional(ChainCall::kAlone) : std::nullopt;
    if (is_it(1)) return is_it(2) ? ChainCall::kItself : ChainCall::kSecond;
    return is_it(2) ? std::optional(ChainCall::kFirst) : std::nullopt;
  };
  for (size_t i = 0; i < steps_.size();) {
    const size_t first = i++;
    if (steps_[first].strategy != Step::kBlocks || steps_[first].block.chain_operation == 0) continue;
    steps_[first].form = steps_[first].block.inputs == 1 ? ChainCall::kAlone : ChainCall::kSecond;
    for (; i < steps_[first].end_of_group && steps_[i].block.chain_operation != 0; ++i) {
      const Operand& value = steps_[i - 1].operands[0];
      const std::optional<ChainCall::Form> form = form_of(steps_[i], value);
      if (!form) break;
      steps_[i].form = *form;
      steps_[i - 1].is_passed_on = value.kind == Operand::kTemporary && temporaries_[value.index].last == i;
    }
    if (i == steps_[first].end_of_group && is_sum_of(i, steps_[i - 1])) {
      Temporary& value = temporaries_[steps_[i - 1].operands[0].index];
      steps_[i - 1].is_passed_on = value.last == i;
      value.in_block |= value.last == i && steps_[value.first].end_of_group == i;
      steps_[i].end_of_group = i;
      for (Step& step : steps_) step.end_of_group += step.end_of_group == i ? 1 : 0;
      ++i;
    }
    steps_[first].end_of_chain = i;
  }
}

// True if the step sums rows, each a block, of a temporary that the step before it computes.
bool FusedTiles::is_sum_of(size_t step, const Step& before) const {
  if (step == steps_.size() || steps_[step].strategy != Step::kRows || iterations_ > 1) return false;
  const Operand &value = before.operands[0], &in = steps_[step].operands[1];
  const bool is_value = value.kind == Operand::kTemporary && in.kind == value.kind && in.index == value.index;
  return steps_[step].reduction.total != RowReduction::kOther && is_value && !before.is_outer &&
         sizes_.size() == outer_rank_ + 1 && row() >= kShortestSum && row() <= kBlockValues;
}

// Makes the lines of each group as long as possible: over all dimensions that its operands go through in a tile as
// through one.
void FusedTiles::find_lines() {
  for (size_t first = 0; first < steps_.size();) {
    const size_t end = std::max(steps_[first].end_of_group, first + 1);
    const std::span<Step> group = std::span(steps_).subspan(first, end - first);
    first = end;
    if (group[0].strategy != Step::kBlocks) continue;
    size_t line = end_of(group[0]) - 1;
    const auto continues = [&](const Operand& operand) {
      if (operand.kind == Operand::kNumber) return true;
      if (operand.kind == Operand::kTemporary && temporaries_[operand.index].in_block) return true;
      const int64_t* stride = &operand.strides[line - (operand.kind == Operand::kTemporary ? split_ : 0)];
      return sizes_[line - 1] == 1 || stride[-1] == *stride * sizes_[line];
    };
    while (line > split_ && std::ranges::all_of(group, [&](const Step& step) {
             return std::ranges::all_of(step.operands, continues);
           })) {
      --line;
    }
    for (Step& step : group) step.line = line;
  }
}

// Gives each temporary memory that no other temporary has in its live range.
std::vector<FusedTiles::Memory> FusedTiles::share_memory() {
  std::vector<Memory> memories;
  for (Temporary& temporary : temporaries_) {  // in the order of their first steps
    const bool in_block = temporary.in_block;
    const int64_t bytes = temporary.bytes * (temporary.is_outer || in_block ? 1 : row());
    // A step that goes block by block may write over its operands.
    const bool in_place = steps_[temporary.first].strategy == Step::kBlocks;
    const auto free = std::ranges::find_if(memories, [&](const Memory& memory) {
      const bool is_free = memory.taken_until < temporary.first || (in_place && memory.taken_until == temporary.first);
      return is_free && memory.bytes == bytes && memory.in_block == in_block;
    });
    temporary.memory = static_cast<size_t>(free - memories.begin());
    if (free == memories.end()) memories.push_back({bytes, in_block, 0});
    memories[temporary.memory].taken_until = temporary.last;
  }
  return memories;
}

// Bytes for one entry of the outer dimensions, in all buffers that have a value for each element of the shape.
int64_t FusedTiles::bytes_of_buffers() const {
  std::map<size_t, int64_t> of_buffer;
  for (const Step& step : steps_) {
    for (const Operand& operand : step.operands) {
      if (operand.kind != Operand::kMemory || operand.strides.back() == 0 || operand.strides[outer_rank_ - 1] == 0)
        continue;
      of_buffer[operand.index] = dtype_size(operand.dtype) * row();
    }
  }
  int64_t bytes = 0;
  for (const auto& [buffer, size] : of_buffer) bytes += size;
  return bytes;
}

void FusedTiles::choose_tile() {
  const std::vector<Memory> memories = share_memory();
  int64_t bytes = bytes_of_buffers();
  for (const Memory& memory : memories) bytes += memory.in_block ? 0 : memory.bytes;
  const bool reduces = outer_rank_ < sizes_.size();
  const bool by_kernels = std::ranges::count(steps_, Step::kKernel, &Step::strategy) != 0;
  const int64_t budget = !reduces ? kTileBytes : by_kernels ? kTileBytesOfKernels : kTileBytesOfRows;
  int64_t most = budget / std::max<int64_t>(1, bytes);
  if (reduces) most = std::min(most, kMostReduced / row());
  split_ = outer_rank_ - 1;
  while (split_ > 0 && inner_ * sizes_[split_] <= most) inner_ *= sizes_[split_--];
  const int64_t size = std::max<int64_t>(1, sizes_[split_]);
  chunk_ = std::clamp<int64_t>(most / std::max<int64_t>(1, inner_), 1, size);
  chunks_ = (size + chunk_ - 1) / chunk_;
  count_ = chunks_;
  for (size_t d = 0; d < split_; ++d) count_ *= sizes_[d];
  if (std::ranges::count(sizes_, 0) != 0) count_ = 0;
  place_temporaries(memories);
  find_lines();
  find_traffic();
}

// Finds the results that are so large that no cache holds them. They go past the caches: a cache reads a line before it
// writes it, which would be late and for nothing.
void FusedTiles::find_traffic() {
  if (iterations_ > 1 || bytes_of_buffers() * entries() < kReadFromMemory) return;
  std::map<size_t, int> uses;
  for (const Step& step : steps_) {
    for (const Operand& operand : step.operands) {
      if (operand.kind == Operand::kMemory) ++uses[operand.index];
    }
  }
  const auto is_everywhere = [&](const Operand& operand) {
    for (size_t d = 0; d < sizes_.size(); ++d) {
      if (operand.strides[d] == 0 && sizes_[d] != 1) return false;
    }
    return operand.strides.back() == 1;
  };
  for (Step& step : steps_) {
    Operand& result = step.operands.front();
    result.streamed = result.kind == Operand::kMemory && is_everywhere(result) && step.block.chain_operation != 0 &&
                      uses[result.index] == 1 && entries() * row() * dtype_size(result.dtype) >= kStreamed;
  }
}

// Temporaries are dense in a tile.
void FusedTiles::place_temporaries(const std::vector<Memory>& memories) {
  constexpr uint64_t kLine = 64;
  const std::span<const int64_t> sizes = std::span(sizes_).subspan(split_);
  std::vector<int64_t> offsets;
  for (const Memory& memory : memories) {
    offsets.push_back(static_cast<int64_t>(workspace_));
    const int64_t entries = memory.in_block ? kBlockValues : chunk_ * inner_;
    workspace_ += (static_cast<uint64_t>(entries * memory.bytes) + kLine - 1) / kLine * kLine;
  }
  for (Step& step : steps_) {
    for (Operand& operand : step.operands) {
      if (operand.kind != Operand::kTemporary) continue;
      const Temporary& temporary = temporaries_[operand.index];
      operand.offset = offsets[temporary.memory];
      operand.strides = dense_strides(temporary.is_outer ? sizes.first(outer_rank_ - split_) : sizes, sizes.size());
    }
  }
}

bool FusedTiles::needs_scratch() const {
  Worker worker;
  const int64_t last = sizes_[split_] - (chunks_ - 1) * chunk_;
  return worker.needs_scratch(*this, chunk_) || worker.needs_scratch(*this, last);
}

mydev_code FusedTiles::run(const mydev_frame& frame) const noexcept {
  std::atomic<int> failure{MYDEV_OK};
  const auto iterations =
      static_cast<int64_t>(std::min<uint64_t>(iterations_, kGrainCheap));  // more do not matter here
  const int64_t work = chunk_ * inner_ * row() * static_cast<int64_t>(steps_.size()) * iterations;
  parallel_for(count_, std::max<int64_t>(1, kGrainCheap / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    // Bodies that take turns, as those of one program, find what the thread prepared for them.
    static thread_local std::array<Worker, 8> workers;
    Worker& worker = workers[id_ % workers.size()];
    mydev_code code = MYDEV_OK;
    try {
      worker.prepare(*this, frame);
      for (int64_t tile = begin; tile < end && code == MYDEV_OK; ++tile) code = worker.run(tile);
      worker.finish();
    } catch (const std::bad_alloc&) {
      frame.host->set_error(&frame, "no host memory for the temporaries of a tile");
      code = MYDEV_RESOURCE_EXHAUSTED;
    }
    if (code != MYDEV_OK) failure.store(code, std::memory_order_relaxed);
  });
  return static_cast<mydev_code>(failure.load(std::memory_order_relaxed));
}

}  // namespace mydev::kernels
