// Moves of values, and conversions that are moves, as instructions.
#include <vector>

#include "host_kernels/fused/small_instructions.h"

namespace mydev::kernels {

namespace {

constexpr int64_t kMostMoved = 16;  // values, one after the other

}  // namespace

bool SmallProgram::Instructions::move(const Move& move) {
  const int64_t width = move.value_bytes, run = move.run;
  const bool by_bytes = width == 1;
  if ((width != 4 && width != 8 && !by_bytes) || move.count > (by_bytes ? kMostScalars : kMostFloats)) return false;
  pinned_ = 0;
  if (run == move.count && !by_bytes) {
    move_dense(move);
  } else if (move.count > kMostScalars && repeats_one(move)) {
    const uint8_t many = broadcast(load(move.from, move.from_offsets[0], width), width);
    for (int64_t at = 0, bytes = move.count * width; at < bytes;) {
      const int64_t step = step_of(bytes - at);
      store(move.to, at, step, many);
      at += step;
    }
  } else {
    const bool by_vectors = run > kMostScalars && !by_bytes;
    if (!by_vectors && move.count > kMostMoved) return false;
    for (size_t i = 0; i < move.to_offsets.size(); ++i) {
      for (int64_t at = 0, bytes = run * width; at < bytes;) {
        const int64_t to = move.to_offsets[i] + at, from = move.from_offsets[i] + at;
        const int64_t step = by_vectors ? step_of(bytes - at) : width;
        pinned_ = 0;
        if (by_bytes) {
          move_byte(move, to, from);
        } else {
          store(move.to, to, step, load(move.from, from, step));
        }
        at += step;
      }
    }
  }
  return true;
}

// All values are read before any is written.
void SmallProgram::Instructions::move_dense(const Move& move) {
  const int64_t bytes = move.count * move.value_bytes;
  struct Part {
    int64_t at, bytes;
    uint8_t reg;
  };
  std::vector<Part> parts;
  for (int64_t at = 0; at < bytes; at += parts.back().bytes) {
    const int64_t step = move.count <= kMostScalars ? move.value_bytes : step_of(bytes - at);
    parts.push_back({at, step, load(move.from, at, step)});
  }
  for (const Part& part : parts) store(move.to, part.at, part.bytes, part.reg);
}

// One value, as often as a dense result has values.
bool SmallProgram::Instructions::repeats_one(const Move& move) {
  for (size_t i = 0; i < move.to_offsets.size(); ++i) {
    if (move.to_offsets[i] != static_cast<int64_t>(i) * move.value_bytes) return false;
    if (move.from_offsets[i] != move.from_offsets[0]) return false;
  }
  return move.run == 1;
}

void SmallProgram::Instructions::move_byte(const Move& move, int64_t to, int64_t from) {
  const Held* const found = find(move.from, from, 1, true);
  const Held held = found != nullptr ? *found : Held{};
  to_.load_byte(kRcx, address_of(move.from, from));
  to_.memory(false, 0x88, kRcx, address_of(move.to, to));
  overwritten(move.to, to, 1);
  if (held.truth) hold(held.reg, move.to, to, 1, true, held.width);
}

bool SmallProgram::Instructions::convert(const Convert& convert) {
  if (convert.count > kMostScalars || !convert.is_of_truths) return false;
  for (int64_t i = 0; i < convert.count; ++i) {
    pinned_ = 0;
    const uint8_t reg = load_truth(convert.from, i, 4);
    store_truth(convert.to, i, reg, 4);
  }
  return true;
}

}  // namespace mydev::kernels
