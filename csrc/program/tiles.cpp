#include "program/tiles.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <new>
#include <numeric>
#include <span>
#include <utility>

#include "kernels/registry/kernel_choice.h"
#include "kernels/registry/kernel_registry.h"
#include "program/access.h"
#include "program/builder.h"
#include "program/fusion.h"
#include "program/text.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::program {

namespace {

// Of all that a tile touches: what a launch has written the next finds in the first or second level of the cache.
constexpr int64_t kTileBytes = 65536;
constexpr uint64_t kLine = 64;

// Where the buffer of a slot of the called program is in the frame.
std::optional<size_t> buffer_of_slot(const Program& program, SlotIndex slot) {
  const auto& results = program.own_results();
  const auto& parameters = program.parameters();
  if (const auto found = std::ranges::find(results, slot); found != results.end()) {
    return static_cast<size_t>(found - results.begin());
  }
  if (const auto found = std::ranges::find(parameters, slot); found != parameters.end()) {
    return results.size() + static_cast<size_t>(found - parameters.begin());
  }
  return std::nullopt;
}

// What the called program writes is given to it once.
bool gives_apart(const Step& step) {
  const Program& program = *step.program;
  for (size_t i = 0; i < step.operands.size(); ++i) {
    if (!program.slots()[program.parameters()[i]].donated) continue;
    if (std::ranges::count(step.operands, step.operands[i].slot, &program::Operand::slot) != 1) return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<const Tiles> Tiles::make(const Step& step, const Device& device) {
  const Program& program = *step.program;
  const bool repeats = step.kind == StepKind::kRepeat;
  if (!device.host_accessible() || program.steps().empty() || !is_fusible(program) || (repeats && !gives_apart(step))) {
    return nullptr;
  }
  static std::atomic<uint64_t> last_id{0};
  std::unique_ptr<Tiles> tiles(new Tiles);
  tiles->id_ = 1 + last_id.fetch_add(1, std::memory_order_relaxed);
  tiles->sizes_ = program.steps()[0].results[0].sizes;
  std::string body;
  for (const Step& launch : program.steps()) {
    if (!tiles->add_launch(launch, step, device)) return nullptr;
    body += (body.empty() ? "" : "; ") + print_step(program, launch);
  }
  if (repeats) tiles->rounds_ = step.count;
  tiles->body_ = (repeats ? std::to_string(step.count) + " times: " : "") + body;
  tiles->merge_dimensions();
  tiles->choose_tile();
  return tiles;
}

bool Tiles::add_launch(const Step& launch, const Step& step, const Device& device) {
  const mydev_kernel* record = resolve_kernel(device, launch.name.c_str());
  if (record == nullptr || as_choice(*record) != nullptr || record->scratch_bytes != nullptr ||
      record->entry == nullptr) {
    return false;
  }
  const Program& program = *step.program;
  Launch added{record, static_cast<uint32_t>(launch.results.size()), {}, launch.attributes.get()};
  for (const auto* operands : {&launch.results, &launch.operands}) {
    for (const program::Operand& given : *operands) {
      Operand& operand = added.operands.emplace_back(
          Operand{Operand::kNumber, 0, static_cast<int64_t>(given.offset), given.strides, given.dtype, given.number});
      if (given.kind == program::Operand::kNumber) {
        operand.strides.assign(sizes_.size(), 0);
      } else if (const std::optional<size_t> buffer = buffer_of_slot(program, given.slot)) {
        operand.kind = Operand::kMemory;
        operand.index = *buffer;
      } else if (program.slots()[given.slot].kind == SlotKind::kTemporary) {
        operand.kind = Operand::kTemporary;
        const auto found = std::ranges::find(temporaries_, given.slot, &Temporary::slot);
        operand.index = static_cast<size_t>(found - temporaries_.begin());
        const size_t now = launches_.size();
        if (found == temporaries_.end()) temporaries_.push_back({given.slot, dtype_size(given.dtype), now, now});
        temporaries_[operand.index].last = now;
      } else {
        return false;  // a constant of its own
      }
    }
  }
  launches_.push_back(std::move(added));
  return true;
}

// Makes one dimension of two wherever all views go through both as through one.
void Tiles::merge_dimensions() {
  for (size_t d = sizes_.size(); d-- > 1;) {
    const auto continues = [&](const Operand& operand) {
      return operand.kind == Operand::kTemporary || operand.strides[d - 1] == operand.strides[d] * sizes_[d];
    };
    const bool merges =
        sizes_[d - 1] == 1 || sizes_[d] == 1 || std::ranges::all_of(launches_, [&](const Launch& launch) {
          return std::ranges::all_of(launch.operands, continues);
        });
    if (!merges) continue;
    const auto gone = static_cast<std::ptrdiff_t>(sizes_[d] == 1 ? d : d - 1);  // whose strides are
    sizes_[d - 1] *= sizes_[d];
    sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(d));
    for (Launch& launch : launches_) {
      for (Operand& operand : launch.operands) operand.strides.erase(operand.strides.begin() + gone);
    }
  }
  if (sizes_.empty()) {
    sizes_ = {1};
    for (Launch& launch : launches_) {
      for (Operand& operand : launch.operands) operand.strides = {1};
    }
  }
}

// Gives each temporary a place that no other has while it lives: the bytes of an element of each place.
std::vector<int64_t> Tiles::share_places() {
  struct Place {
    int64_t bytes;
    size_t taken_until;
  };
  std::vector<Place> places;
  for (Temporary& temporary : temporaries_) {  // in the order of their first launches
    const auto free = std::ranges::find_if(places, [&](const Place& place) {
      return place.taken_until < temporary.first && place.bytes == temporary.bytes;
    });
    temporary.place = static_cast<size_t>(free - places.begin());
    if (free == places.end()) places.push_back({temporary.bytes, 0});
    places[temporary.place].taken_until = temporary.last;
  }
  std::vector<int64_t> bytes(places.size());
  std::ranges::transform(places, bytes.begin(), &Place::bytes);
  return bytes;
}

// Of an element, in each buffer that has one for each element of the shape.
int64_t Tiles::bytes_of_memory() const {
  std::map<size_t, int64_t> of_buffer;
  for (const Launch& launch : launches_) {
    for (const Operand& operand : launch.operands) {
      if (operand.kind != Operand::kMemory || operand.strides.back() == 0) continue;
      of_buffer[operand.index] = dtype_size(operand.dtype);
    }
  }
  int64_t bytes = 0;
  for (const auto& [buffer, size] : of_buffer) bytes += size;
  return bytes;
}

void Tiles::choose_tile() {
  const std::vector<int64_t> places = share_places();
  const int64_t bytes = std::accumulate(places.begin(), places.end(), bytes_of_memory());
  const int64_t most = kTileBytes / std::max<int64_t>(1, bytes);
  split_ = sizes_.size() - 1;
  while (split_ > 0 && inner_ * sizes_[split_] <= most) inner_ *= sizes_[split_--];
  const int64_t size = std::max<int64_t>(1, sizes_[split_]);
  chunk_ = std::clamp<int64_t>(most / std::max<int64_t>(1, inner_), 1, size);
  chunks_ = (size + chunk_ - 1) / chunk_;
  count_ = chunks_;
  for (size_t d = 0; d < split_; ++d) count_ *= sizes_[d];
  if (std::ranges::count(sizes_, 0) != 0) count_ = 0;

  // Temporaries are dense in a tile.
  std::vector<int64_t> strides =
      dense_strides({sizes_.begin() + static_cast<std::ptrdiff_t>(split_) + 1, sizes_.end()});
  strides.insert(strides.begin(), inner_);
  std::vector<int64_t> offsets;
  for (const int64_t place : places) {
    offsets.push_back(static_cast<int64_t>(workspace_));
    workspace_ += (static_cast<uint64_t>(chunk_ * inner_ * place) + kLine - 1) / kLine * kLine;
  }
  for (Launch& launch : launches_) {
    for (Operand& operand : launch.operands) {
      if (operand.kind != Operand::kTemporary) continue;
      operand.offset = offsets[temporaries_[operand.index].place];
      operand.strides = strides;
    }
  }
}

// What one thread needs to run tiles: frames, whose addresses and sizes it sets for each tile, and temporaries. Kept by
// the thread from run to run.
class Tiles::Worker {
 public:
  void prepare(const Tiles& tiles, const mydev_frame& outer) {
    if (prepared_for_ != tiles.id_) allocate(tiles);
    outer_ = &outer;
    for (mydev_frame& frame : frames_) {
      frame.device = outer.device;
      frame.stream = outer.stream;
      frame.host = outer.host;
    }
  }

  mydev_code run(int64_t tile) {
    place(tile);
    for (uint64_t round = 0; round < tiles_->rounds_; ++round) {
      for (const mydev_frame& frame : frames_) {
        const mydev_code code = frame.kernel->entry(&frame);
        if (code != MYDEV_OK) [[unlikely]]
          return fail(frame, code);
        forget_kernel_message(frame);
      }
    }
    return MYDEV_OK;
  }

 private:
  void allocate(const Tiles& tiles) {
    tiles_ = &tiles;
    prepared_for_ = 0;
    memory_.resize((tiles.workspace_ + kLine) / sizeof(std::max_align_t) + kLine);
    sizes_.assign(tiles.sizes_.begin() + static_cast<std::ptrdiff_t>(tiles.split_), tiles.sizes_.end());
    buffers_.clear();
    for (const Launch& launch : tiles.launches_) {
      for (const Operand& operand : launch.operands) {
        const bool whole = operand.kind != Operand::kTemporary;
        mydev_buffer buffer{temporary(operand),
                            sizes_.data(),
                            operand.strides.data() + (whole ? tiles.split_ : 0),
                            static_cast<int32_t>(sizes_.size()),
                            static_cast<int16_t>(operand.dtype),
                            0};
        if (operand.kind == Operand::kNumber) {
          buffer.data = const_cast<mydev_scalar*>(&operand.number);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
          buffer.flags = MYDEV_BUFFER_SCALAR;
        }
        buffers_.push_back(buffer);
      }
    }
    frames_.clear();
    std::span<const mydev_buffer> rest = buffers_;
    for (const Launch& launch : tiles.launches_) {
      frames_.push_back(make_frame(rest.first(launch.operands.size()), launch.num_outputs, launch.attributes));
      frames_.back().kernel = launch.record;
      rest = rest.subspan(launch.operands.size());
    }
    prepared_for_ = tiles.id_;
  }

  mydev_code fail(const mydev_frame& frame, mydev_code code) const {
    const std::optional<std::string> message = take_kernel_message(frame);
    const std::string text = std::string(frame.kernel->name) + ": " + message.value_or("it gave no message");
    outer_->host->set_error(outer_, text.c_str());
    return code;
  }

  void* temporary(const Operand& operand) noexcept {
    auto address = reinterpret_cast<uintptr_t>(memory_.data());
    address = (address + kLine - 1) / kLine * kLine;
    return reinterpret_cast<char*>(address) + operand.offset;  // NOLINT(performance-no-int-to-ptr)
  }

  // Sizes and addresses of the tile.
  void place(int64_t tile) {
    const std::vector<int64_t>& sizes = tiles_->sizes_;
    const int64_t begin = tile % tiles_->chunks_ * tiles_->chunk_;
    sizes_[0] = std::min(tiles_->chunk_, sizes[tiles_->split_] - begin);
    size_t next = 0;
    for (const Launch& launch : tiles_->launches_) {
      for (const Operand& operand : launch.operands) {
        mydev_buffer& buffer = buffers_[next++];
        if (operand.kind != Operand::kMemory) continue;
        int64_t elements = begin * operand.strides[tiles_->split_], rest = tile / tiles_->chunks_;
        for (size_t d = tiles_->split_; d-- > 0; rest /= sizes[d]) elements += rest % sizes[d] * operand.strides[d];
        buffer.data = static_cast<char*>(outer_->buffers[operand.index].data) + operand.offset +
                      elements * dtype_size(operand.dtype);
      }
    }
  }

  uint64_t prepared_for_ = 0;
  const Tiles* tiles_ = nullptr;
  const mydev_frame* outer_ = nullptr;
  std::vector<std::max_align_t> memory_;
  std::vector<int64_t> sizes_;  // of the tile
  std::vector<mydev_buffer> buffers_;
  std::vector<mydev_frame> frames_;  // one for each launch
};

mydev_code Tiles::run(const mydev_frame& frame) const noexcept {
  std::atomic<int> failure{MYDEV_OK};
  const auto rounds = static_cast<int64_t>(std::min<uint64_t>(rounds_, kGrainCheap));  // more do not matter here
  const int64_t work = chunk_ * inner_ * static_cast<int64_t>(launches_.size()) * rounds;
  parallel_for(count_, std::max<int64_t>(1, kGrainCheap / std::max<int64_t>(1, work)), [&](int64_t begin, int64_t end) {
    static thread_local Worker worker;
    mydev_code code = MYDEV_OK;
    try {
      worker.prepare(*this, frame);
      for (int64_t tile = begin; tile < end && code == MYDEV_OK; ++tile) code = worker.run(tile);
    } catch (const std::bad_alloc&) {
      frame.host->set_error(&frame, "no host memory for the temporaries of a tile");
      code = MYDEV_RESOURCE_EXHAUSTED;
    }
    if (code != MYDEV_OK) failure.store(code, std::memory_order_relaxed);
  });
  return static_cast<mydev_code>(failure.load(std::memory_order_relaxed));
}

}  // namespace mydev::program
