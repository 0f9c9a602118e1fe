#include "host_kernels/fused/fused_worker.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/frame/dtype.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::kernels {

void FusedTiles::Worker::prepare(const FusedTiles& tiles, const mydev_frame& outer) {
  allocate(tiles);
  outer_ = &outer;
  placed_ = next_ = -1;
  for (mydev_frame& frame : frames_) {
    frame.device = outer.device;
    frame.stream = outer.stream;
    frame.host = outer.host;
  }
}

void FusedTiles::Worker::finish() const {
  const auto streamed = std::ranges::find(streams_, true, &Stream::streamed);
  if (streamed != streams_.end()) drain_();
}

mydev_code FusedTiles::Worker::run(int64_t tile) {
  if (tile == next_) {
    run_further();
    return MYDEV_OK;
  }
  place(tile);
  if (tiles_->iterations_ > 1 && has_calls()) return run_iterations();
  for (uint64_t iteration = 0; iteration < tiles_->iterations_; ++iteration) {
    for (size_t step = 0; step < frames_.size();) {
      if (const mydev_code code = run_step(step); code != MYDEV_OK) [[unlikely]]
        return code;
    }
    for (const auto& [buffer, advance] : moving_) {
      buffers_[buffer].data = static_cast<char*>(buffers_[buffer].data) + advance;
    }
  }
  end_ = tile - tile % tiles_->chunks_ + tiles_->sizes_[tiles_->split_] / tiles_->chunk_;
  if (goes_further() && tile + 1 < end_) next_ = tile + 1;
  return MYDEV_OK;
}

// True if the calls that ran the tile can run any other of its size once their addresses have moved, all alike.
bool FusedTiles::Worker::goes_further() const {
  if (tiles_->iterations_ > 1 || !moving_.empty()) return false;
  for (size_t step = 0; step < frames_.size(); ++step) {
    const Step& what = tiles_->steps_[step];
    if (what.strategy == Step::kBlocks) {
      if (!chains_[step].is_whole) return false;
      step = what.end_of_group - 1;
    } else if (what.strategy != Step::kRows || !rows_[step].is_whole) {
      return false;
    }
  }
  return true;
}

// Runs the next tile: the calls of the last one, with addresses further on.
void FusedTiles::Worker::run_further() {
  next_ = next_ + 1 < end_ ? next_ + 1 : -1;
  for (size_t step = 0; step < frames_.size(); ++step) {
    if (tiles_->steps_[step].strategy == Step::kRows) {
      rows_[step].out += streams_[first_buffer_[step]].tile_bytes;
      rows_[step].in += streams_[first_buffer_[step] + 1].tile_bytes;
      reduce(step);
      continue;
    }
    Chain& chain = chains_[step];
    chain.visit_addresses([&](size_t index, auto*& values) {
      values += streams_[index].tile_bytes / static_cast<int64_t>(sizeof(float));
    });
    tiles_->steps_[step].block.run_chain(chain.lines, chain.calls);
    step = tiles_->steps_[step].end_of_group - 1;
  }
}

// Runs the step, or all of its group; `step` is then the one behind.
mydev_code FusedTiles::Worker::run_step(size_t& step) {
  const size_t first = step++;
  switch (tiles_->steps_[first].strategy) {
    case Step::kBlocks:
      step = tiles_->steps_[first].end_of_group;
      return run_group(first, step);
    case Step::kRows:
      run_rows(first);
      return MYDEV_OK;
    default:
      return run_kernel(first);
  }
}

mydev_code FusedTiles::Worker::run_kernel(size_t step) {
  const mydev_frame& frame = frames_[step];
  const mydev_code code = frame.kernel->entry(&frame);
  if (code != MYDEV_OK) [[unlikely]]
    return pass_on(frame, code, *outer_);
  forget_kernel_message(frame);
  return MYDEV_OK;
}

// Sets the sizes and addresses of the tile.
void FusedTiles::Worker::place(int64_t tile) {
  const std::vector<int64_t>& sizes = tiles_->sizes_;
  const int64_t begin = tile % tiles_->chunks_ * tiles_->chunk_;
  sizes_[0] = std::min(tiles_->chunk_, sizes[tiles_->split_] - begin);
  const bool is_next = placed_ >= 0 && tile == placed_ + 1 && begin != 0;
  placed_ = moving_.empty() ? tile : -1;
  for (const Placed& placed : placed_buffers_) {
    mydev_buffer& buffer = buffers_[placed.buffer];
    if (is_next) {
      buffer.data = static_cast<char*>(buffer.data) + placed.tile_bytes;
      continue;
    }
    const Operand& operand = *placed.operand;
    int64_t elements = begin * operand.strides[tiles_->split_], rest = tile / tiles_->chunks_;
    for (size_t d = tiles_->split_; d-- > 0; rest /= sizes[d]) elements += rest % sizes[d] * operand.strides[d];
    buffer.data =
        static_cast<char*>(outer_->buffers[operand.index].data) + operand.offset + elements * dtype_size(operand.dtype);
  }
}

// Returns the number of the tile's elements in dimensions [first, end) of the shape; `first` is not before the split
// one.
int64_t FusedTiles::Worker::elements(size_t first, size_t end) const {
  int64_t count = 1;
  for (size_t d = first; d < end; ++d) count *= sizes_[d - tiles_->split_];
  return count;
}

// True if an iteration is one block of all steps, and has no repeated value that an iteration could change.
bool FusedTiles::Worker::has_calls() const {
  const std::vector<Step>& steps = tiles_->steps_;
  return steps[0].strategy == Step::kBlocks && steps[0].end_of_group == steps.size() &&
         steps[0].line == tiles_->split_ && elements(tiles_->split_, tiles_->end_of(steps[0])) <= kBlockValues &&
         std::ranges::none_of(streams_, &Stream::is_uniform);
}

// Runs iterations of few values: all but the computation itself is done once.
mydev_code FusedTiles::Worker::run_iterations() {
  calls_.clear();
  for (size_t i = 0; i < frames_.size(); ++i) {
    const Step& step = tiles_->steps_[i];
    PointwiseCall& call = calls_.emplace_back(PointwiseCall{&step.block, &frames_[i], {}, {}, false, false});
    for (size_t k = 0; k < step.operands.size(); ++k) {
      const Operand& operand = step.operands[k];
      const Stream& stream = streams_[first_buffer_[i] + k];
      call.by_one |= stream.is_one;
      call.operands[k] = stream.moves ? buffers_[first_buffer_[i] + k].data : stream.values;
      if (operand.kind != Operand::kMemory || tiles_->advances_.empty()) continue;
      call.advance[k] = tiles_->advances_[operand.index];
      call.moves |= call.advance[k] != 0;
    }
  }
  const int64_t values = elements(tiles_->split_, tiles_->end_of(tiles_->steps_[0]));
  const PointwiseCall* failed = calls_[0].block->run_iterations(calls_, values, tiles_->iterations_);
  return failed == nullptr ? MYDEV_OK : pass_on(*failed->frame, MYDEV_FAILED_PRECONDITION, *outer_);
}

// Reduces each row of the tile into one element.
void FusedTiles::Worker::run_rows(size_t step) {
  const mydev_buffer &out = buffers_[first_buffer_[step]], &in = buffers_[first_buffer_[step] + 1];
  const size_t last = tiles_->outer_rank_ - tiles_->split_ - 1;  // of the outer dimensions
  const int64_t lines = elements(tiles_->split_, tiles_->outer_rank_ - 1);
  const int64_t out_size = streams_[first_buffer_[step]].value_bytes,
                in_size = streams_[first_buffer_[step] + 1].value_bytes;
  for (int64_t line = 0; line < lines; ++line) {
    int64_t out_elements = 0, in_elements = 0, rest = line;
    for (size_t d = last; d-- > 0; rest /= sizes_[d]) {
      out_elements += rest % sizes_[d] * out.strides[d];
      in_elements += rest % sizes_[d] * in.strides[d];
    }
    rows_[step] = {static_cast<char*>(out.data) + out_elements * out_size,
                   static_cast<const char*>(in.data) + in_elements * in_size, sizes_[last], lines == 1};
    reduce(step);
  }
}

void FusedTiles::Worker::reduce(size_t step) {
  const Rows& rows = rows_[step];
  const Stream &out = streams_[first_buffer_[step]], &in = streams_[first_buffer_[step] + 1];
  tiles_->steps_[step].reduction.run(rows.out, out.line_bytes, rows.in, in.line_bytes, rows.rows, tiles_->row());
}

// Runs steps [first, end), line by line.
mydev_code FusedTiles::Worker::run_group(size_t first, size_t end) {
  const Step& group = tiles_->steps_[first];
  const size_t outer_rank = group.line - tiles_->split_;
  const int64_t lines = elements(tiles_->split_, group.line), length = elements(group.line, tiles_->end_of(group));
  const int64_t row = outer_rank == 0 ? 1 : sizes_[outer_rank - 1];  // of lines
  chains_[first].is_whole = false;
  if (chains_[first].by_lines && length <= kBlockValues) {
    chains_[first].is_whole = lines == row;
    for (int64_t line = 0; line < lines; line += row) {
      seek(first, line);
      run_chain(first, 0, length, row);
    }
    return MYDEV_OK;
  }
  for (int64_t line = 0; line < lines; ++line) {
    if (line % row == 0) {
      seek(first, line);
    } else {
      for (const size_t i : followed_[first]) streams_[i].line += streams_[i].line_bytes;
    }
    for (const size_t i : followed_[first]) {
      if (streams_[i].is_uniform && !streams_[i].is_one) repeat(streams_[i], length);
    }
    if (const mydev_code code = run_line(first, end, length); code != MYDEV_OK) [[unlikely]]
      return code;
  }
  return MYDEV_OK;
}

// Puts the streams that lines move to where the line begins.
void FusedTiles::Worker::seek(size_t group, int64_t line) {
  for (const size_t i : followed_[group]) {
    int64_t elements = 0, rest = line;
    for (size_t d = tiles_->steps_[group].line - tiles_->split_; rest != 0; rest /= sizes_[d]) {
      --d;
      elements += rest % sizes_[d] * buffers_[i].strides[d];
    }
    streams_[i].line = static_cast<char*>(buffers_[i].data) + elements * streams_[i].value_bytes;
  }
}

// Runs all steps on one block before the next.
mydev_code FusedTiles::Worker::run_line(size_t first, size_t end, int64_t length) {
  for (int64_t begin = 0; begin < length; begin += kBlockValues) {
    const int64_t n = std::min(kBlockValues, length - begin);
    for (size_t i = first; i < end;) {
      const Step& step = tiles_->steps_[i];
      const size_t end_of_chain = step.end_of_chain;
      if (end_of_chain > i + 1 || streams_[first_buffer_[i]].streamed) {
        run_chain(i, begin, n, 1);
        i = end_of_chain;
        continue;
      }
      const Stream* const streams = &streams_[first_buffer_[i]];
      const void* in[kMaxBlockInputs] = {};
      for (int32_t k = 0; k < step.block.inputs; ++k) in[k] = values_at(streams[1 + k], begin);
      const bool by_one = streams[step.block.inputs].is_one;
      if (!step.block.run(step.block, frames_[i], values_at(streams[0], begin), in, n, by_one)) [[unlikely]]
        return pass_on(frames_[i], MYDEV_FAILED_PRECONDITION, *outer_);
      ++i;
    }
  }
  return MYDEV_OK;
}

// Runs the chain that begins with the step, on n values of each of `lines` lines, from the current line on.
void FusedTiles::Worker::run_chain(size_t first, int64_t begin, int64_t n, int64_t lines) {
  Chain& chain = chains_[first];
  chain.lines.count = lines;
  chain.lines.values = n;
  chain.visit_addresses([&]<typename Value>(size_t stream, Value*& values) {
    values = reinterpret_cast<Value*>(values_at(streams_[stream], begin));
  });
  tiles_->steps_[first].block.run_chain(chain.lines, chain.calls);
}

// Returns the address of the stream's values from `begin` on.
char* FusedTiles::Worker::values_at(const Stream& stream, int64_t begin) {
  if (stream.is_one && stream.is_uniform) return stream.line;
  return stream.moves ? stream.line + begin * stream.value_bytes : stream.values;
}

void FusedTiles::Worker::repeat(const Stream& stream, int64_t length) {
  const auto bytes = static_cast<size_t>(stream.value_bytes);
  const auto count = static_cast<size_t>(std::min(kBlockValues, length));
  std::memcpy(stream.values, stream.line, bytes);
  for (size_t done = 1; done < count; done *= 2) {
    std::memcpy(stream.values + done * bytes, stream.values, std::min(done, count - done) * bytes);
  }
}

// --- what is prepared once for tiles: buffers, frames, streams and chains, whose addresses a tile then sets ----------

namespace {

constexpr uintptr_t kLine = 64;
constexpr size_t kMostValueBytes = 16;

// Returns the number of floats from line to line.
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
      const size_t rank = (step.is_outer ? tiles.outer_rank_ : tiles.sizes_.size()) - tiles.split_;
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

// Sets up the streams. Numbers, and operands with one value along a line, are repeated as often as a block has values.
void FusedTiles::Worker::make_streams() {
  streams_.assign(buffers_.size(), Stream{});
  for (const Placed& placed : placed_buffers_) streams_[placed.buffer].tile_bytes = placed.tile_bytes;
  size_t repeated = 0;
  for (size_t i = 0; i < frames_.size(); ++i) {
    const Step& step = tiles_->steps_[i];
    if (step.strategy == Step::kRows) {
      for (size_t k = 0; k < 2; ++k) {
        Stream& stream = streams_[first_buffer_[i] + k];
        stream.value_bytes = dtype_size(step.operands[k].dtype);
        stream.line_bytes =
            buffers_[first_buffer_[i] + k].strides[tiles_->outer_rank_ - tiles_->split_ - 1] * stream.value_bytes;
      }
    }
    streams_[first_buffer_[i]].moves =
        step.strategy == Step::kRows && step.end_of_group != 0;  // the sum that a chain makes
    if (step.strategy != Step::kBlocks) continue;
    const bool is_one_value = elements(step.line, tiles_->end_of(step)) == 1;
    for (size_t k = 0; k < step.operands.size(); ++k) {
      const Operand& operand = step.operands[k];
      const mydev_buffer& buffer = buffers_[first_buffer_[i] + k];
      Stream& stream = streams_[first_buffer_[i] + k];
      stream.value_bytes = step.block.value_bytes[k];
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

// Gives memory to the `repeated` streams that are repeated, and fills in those that are numbers.
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

// Finds the streams of each group that lines move, and makes the chains.
void FusedTiles::Worker::make_groups() {
  followed_.assign(frames_.size(), {});
  chains_.assign(frames_.size(), {});
  rows_.assign(frames_.size(), {});
  for (size_t first = 0; first < frames_.size(); ++first) {
    const Step& step = tiles_->steps_[first];
    if (step.strategy != Step::kBlocks) continue;
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
  for (size_t i = first; i < end; ++i) {
    const Step& step = tiles_->steps_[i];
    if (step.strategy == Step::kRows) {  // the sum of what the others compute
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
  return chain;
}

bool FusedTiles::Worker::needs_scratch(const FusedTiles& tiles, int64_t entries) {
  allocate(tiles);
  sizes_[0] = entries;
  return std::ranges::any_of(frames_, [&](const mydev_frame& frame) {
    const Step& step = tiles.steps_[static_cast<size_t>(&frame - frames_.data())];
    return step.strategy == Step::kKernel && frame.kernel->scratch_bytes != nullptr &&
           frame.kernel->scratch_bytes(&frame) != 0;
  });
}

}  // namespace mydev::kernels
