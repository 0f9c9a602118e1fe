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

// Any byte may be a truth. Its bits are made once: who asks for a copy's need not wait for memory.
void SmallProgram::Instructions::move_byte(const Move& move, int64_t to, int64_t from) {
  load_truth(move.from, from, 4);
  const Held truth = *find(move.from, from, 1, true);
  to_.load_byte(kRcx, address_of(move.from, from));
  to_.memory(false, 0x88, kRcx, address_of(move.to, to));
  overwritten(move.to, to, 1);
  hold(truth.reg, move.to, to, 1, true, truth.width);
}

bool SmallProgram::Instructions::convert(const Convert& convert) {
  const mydev_dtype from = convert.from_dtype, to = convert.to_dtype;
  const bool of_truths = from == MYDEV_PRED, of_integers = from == MYDEV_S32 || from == MYDEV_S64;
  const bool has_code = of_truths     ? to == MYDEV_PRED || to == MYDEV_S32 || to == MYDEV_F32
                        : of_integers ? to == MYDEV_S32 || (from == MYDEV_S32 && to == MYDEV_F32)
                                      : false;
  if (!has_code || convert.count > kMostScalars) return false;
  for (int64_t i = 0; i < convert.count; ++i) {
    pinned_ = 0;
    if (to == MYDEV_PRED) {
      store_truth(convert.to, i, load_truth(convert.from, i, 4), 4);
      continue;
    }
    uint8_t value = of_truths ? load_truth(convert.from, i, 4)
                              : load(convert.from, i * (from == MYDEV_S64 ? 8 : 4), from == MYDEV_S64 ? 8 : 4);
    const uint8_t result = new_register();
    if (of_truths) {
      to_.vector({1, 1, 0x72}, 2, result, value);  // VPSRLD: 0 or 1
      to_.byte(31);
      value = result;
    }
    const bool to_float = to == MYDEV_F32;
    to_.vector({0, 1, static_cast<uint8_t>(to_float ? 0x5B : 0x28)}, result, 0, value);  // VCVTDQ2PS or VMOVAPS
    store(convert.to, i * 4, 4, result);
  }
  return true;
}

}  // namespace mydev::kernels
