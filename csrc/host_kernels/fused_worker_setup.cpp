// What a worker prepares once for tiles: buffers, frames, streams and chains, whose addresses a tile then sets.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "host_kernels/fused_worker.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels {

namespace {

constexpr uintptr_t kLine = 64;
constexpr size_t kMostValueBytes = 16;

// Floats from line to line.
constexpr auto step_of = [](const auto& stream) { return stream.line_bytes / static_cast<int64_t>(sizeof(float)); };

char* aligned(std::vector<std::max_align_t>& memory, size_t bytes) {
  memory.resize((bytes + kLine) / sizeof(std::max_align_t) + 1);
  const auto address = reinterpret_cast<uintptr_t>(memory.data());
  return reinterpret_cast<char*>(memory.data()) + ((kLine - address % kLine) % kLine);
}

}  // namespace

void FusedTiles::Worker::allocate(const FusedTiles& tiles) {
  if (prepared_for_ == tiles.id_) return;
  prepared_for_ = 0;
  tiles_ = &tiles;
  char* const memory = aligned(memory_, tiles.workspace_);
  sizes_.assign(tiles.sizes_.begin() + static_cast<std::ptrdiff_t>(tiles.split_), tiles.sizes_.end());
  buffers_.clear();
  first_buffer_.clear();
  moving_.clear();
  placed_buffers_.clear();
  for (const Step& step : tiles.steps_) {
    first_buffer_.push_back(buffers_.size());
    for (const Operand& operand : step.operands) {
      const bool is_temporary = operand.kind == Operand::kTemporary;
      const size_t rank = (step.of_kept ? tiles.kept_ : tiles.sizes_.size()) - tiles.split_;
      mydev_buffer buffer{is_temporary ? memory + operand.offset : nullptr,
                          sizes_.data(),
                          operand.strides.data() + (is_temporary ? 0 : tiles.split_),
                          static_cast<int32_t>(rank),
                          static_cast<int16_t>(operand.dtype),
                          0};
      if (operand.kind == Operand::kNumber) {
        buffer.data = const_cast<mydev_scalar*>(&operand.number);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
        buffer.flags = MYDEV_BUFFER_SCALAR;
      } else if (operand.kind == Operand::kAbsent) {
        buffer.rank = 0;
      } else if (!is_temporary) {
        const int64_t tile_elements = tiles.chunk_ * operand.strides[tiles.split_];
        placed_buffers_.push_back({buffers_.size(), &operand, tile_elements * dtype_size(operand.dtype)});
        if (!tiles.advances_.empty() && tiles.advances_[operand.index] != 0) {
          moving_.emplace_back(buffers_.size(), tiles.advances_[operand.index]);
        }
      }
      buffers_.push_back(buffer);
    }
  }
  frames_.clear();
  std::span<const mydev_buffer> rest = buffers_;
  for (const Step& step : tiles.steps_) {
    frames_.push_back(make_frame(rest.first(step.operands.size()), step.num_outputs,
                                 {step.attributes->attributes, step.attributes->num_attributes}));
    frames_.back().kernel = step.record;
    rest = rest.subspan(step.operands.size());
  }
  make_streams();
  make_groups();
  prepared_for_ = tiles.id_;
}

// Numbers and what is one value along a line are as many values as a block has.
void FusedTiles::Worker::make_streams() {
  streams_.assign(buffers_.size(), Stream{});
  for (const Placed& placed : placed_buffers_) streams_[placed.buffer].tile_bytes = placed.tile_bytes;
  passes_ = std::max<int64_t>(1, std::ranges::count(tiles_->steps_, false, &Step::of_kept));
  size_t repeated = 0;
  for (size_t i = 0; i < frames_.size(); ++i) {
    const Step& step = tiles_->steps_[i];
    if (step.way == Step::kRows) {
      for (size_t k = 0; k < 2; ++k) {
        Stream& stream = streams_[first_buffer_[i] + k];
        stream.value_bytes = dtype_size(step.operands[k].dtype);
        stream.line_bytes =
            buffers_[first_buffer_[i] + k].strides[tiles_->kept_ - tiles_->split_ - 1] * stream.value_bytes;
      }
    }
    streams_[first_buffer_[i]].moves = step.way == Step::kRows && step.end_of_group != 0;  // the sum that a chain makes
    if (step.way != Step::kBlocks) continue;
    const bool is_one_value = elements(step.line, tiles_->end_of(step)) == 1;
    for (size_t k = 0; k < step.operands.size(); ++k) {
      const Operand& operand = step.operands[k];
      const mydev_buffer& buffer = buffers_[first_buffer_[i] + k];
      Stream& stream = streams_[first_buffer_[i] + k];
      stream.value_bytes = step.block.value_bytes[k];
      stream.ahead = operand.ahead;
      stream.streamed = operand.streamed;
      if (stream.streamed) drain_ = step.block.drain;
      if (operand.kind == Operand::kTemporary && tiles_->temporaries_[operand.index].in_block) {
        stream.values = static_cast<char*>(buffer.data);
      } else if (operand.kind == Operand::kNumber || (buffer.strides[buffer.rank - 1] == 0 && !is_one_value && k > 0)) {
        stream.is_uniform = operand.kind != Operand::kNumber;
        stream.repeats = true;
        stream.is_one = k == 2 && step.block.apply_by_one != nullptr;
        ++repeated;
      } else {
        stream.moves = true;
      }
      if (step.line > tiles_->split_ && operand.kind != Operand::kNumber) {
        stream.line_bytes = buffer.strides[step.line - tiles_->split_ - 1] * stream.value_bytes;
      }
    }
  }
  repeat_numbers(repeated);
}

// Gives room to the streams that are repeated, so many, and fills in those that are numbers.
void FusedTiles::Worker::repeat_numbers(size_t repeated) {
  char* next = aligned(values_, repeated * kBlockValues * kMostValueBytes);
  for (size_t i = 0; i < frames_.size(); ++i) {
    for (size_t k = 0; k < tiles_->steps_[i].operands.size(); ++k) {
      Stream& stream = streams_[first_buffer_[i] + k];
      if (!stream.repeats) continue;
      stream.values = next;
      next += kBlockValues * kMostValueBytes;
      const Operand& operand = tiles_->steps_[i].operands[k];
      if (stream.is_uniform) continue;
      const PointwiseBlock& block = tiles_->steps_[i].block;
      block.fill(block, static_cast<int>(k), operand.number, stream.values, kBlockValues);
    }
  }
}

// What of each group lines move, and the chains.
void FusedTiles::Worker::make_groups() {
  followed_.assign(frames_.size(), {});
  chains_.assign(frames_.size(), {});
  rows_.assign(frames_.size(), {});
  for (size_t first = 0; first < frames_.size(); ++first) {
    const Step& step = tiles_->steps_[first];
    if (step.way != Step::kBlocks) continue;
    if (step.end_of_chain > first) chains_[first] = make_chain(first);
    if (first > 0 && tiles_->steps_[first - 1].end_of_group == step.end_of_group) continue;
    const size_t last = step.end_of_group - 1;
    for (size_t i = first_buffer_[first]; i < first_buffer_[last] + tiles_->steps_[last].operands.size(); ++i) {
      if (streams_[i].moves || streams_[i].is_uniform) followed_[first].push_back(i);
    }
  }
}

// The chain that begins with the step.
FusedTiles::Worker::Chain FusedTiles::Worker::make_chain(size_t first) {
  Chain chain;
  const size_t end = tiles_->steps_[first].end_of_chain, group = tiles_->steps_[first].end_of_group;
  chain.by_lines = end == group && (first == 0 || tiles_->steps_[first - 1].end_of_group != group);
  chain.start = first_buffer_[first] + 1;
  chain.lines.start_step = step_of(streams_[chain.start]);
  chain.lines.lookahead = &lookahead_;
  int64_t passes = 0;
  for (size_t i = first; i < end; ++i) {
    const Step& step = tiles_->steps_[i];
    passes += step.of_kept ? 0 : 1;
    if (step.way == Step::kRows) {  // the sum of what the others compute
      chain.totals = first_buffer_[i];
      chain.lines.total_step = step_of(streams_[*chain.totals]);
      chain.lines.total = step.reduction.total;
      break;
    }
    for (size_t k = 0; k < step.operands.size(); ++k) {
      const Stream& stream = streams_[first_buffer_[i] + k];
      if (stream.is_uniform && !stream.is_one) chain.by_lines = false;
    }
    const size_t result = first_buffer_[i];
    const bool goes_on = step.form == ChainCall::kAlone && i > first && tiles_->steps_[i - 1].is_passed_on;
    const int32_t both = goes_on ? step.block.joined(chain.calls.back(), step.block.chain_operation) : 0;
    if (both != 0) {
      chain.calls.back().operation = both;
    } else {
      chain.calls.push_back({step.block.chain_operation, step.form, nullptr, nullptr});
    }
    const size_t call = chain.calls.size() - 1;
    const auto floats_of = [&](size_t index, bool is_result) {
      const Stream& stream = streams_[index];
      if (stream.moves || stream.is_one) {
        chain.addresses.push_back({call, is_result, index});
        (is_result ? chain.calls[call].out_step : chain.calls[call].operand_step) = step_of(stream);
      }
      return reinterpret_cast<float*>(stream.values);
    };
    if (step.form == ChainCall::kSecond || step.form == ChainCall::kFirst) {
      const size_t other = result + (step.form == ChainCall::kFirst ? 1 : 2);
      chain.calls[call].operand = floats_of(other, false);
      if (streams_[other].is_one) chain.calls[call].form = ChainCall::kOne;
    }
    if (step.is_passed_on) continue;
    chain.calls[call].out = floats_of(result, true);
    chain.calls[call].streamed = streams_[result].streamed;
  }
  chain.lines.ahead = static_cast<double>(passes) / static_cast<double>(passes_);
  return chain;
}

bool FusedTiles::Worker::needs_scratch(const FusedTiles& tiles, int64_t entries) {
  allocate(tiles);
  sizes_[0] = entries;
  return std::ranges::any_of(frames_, [&](const mydev_frame& frame) {
    const Step& step = tiles.steps_[static_cast<size_t>(&frame - frames_.data())];
    return step.way == Step::kKernel && frame.kernel->scratch_bytes != nullptr &&
           frame.kernel->scratch_bytes(&frame) != 0;
  });
}

}  // namespace mydev::kernels
