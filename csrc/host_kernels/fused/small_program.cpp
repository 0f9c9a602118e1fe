#include "host_kernels/fused/small_program.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <span>

#include "runtime/driver/host_services.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::kernels {

namespace {

// Runs of the size of a value, which takes no call.
template <typename Value>
void move_values(char* to, const char* from, std::span<const int32_t> to_offsets, const int32_t* from_offsets) {
  for (size_t i = 0; i < to_offsets.size(); ++i) {
    Value value;
    std::memcpy(&value, from + from_offsets[i], sizeof value);
    std::memcpy(to + to_offsets[i], &value, sizeof value);
  }
}

}  // namespace

mydev_code SmallProgram::run(const mydev_frame& frame) const noexcept {
  static thread_local std::vector<char*> addresses;
  static thread_local std::vector<void*> table;
  static thread_local std::vector<mydev_buffer> buffers;
  try {
    addresses.resize(bindings_.size());
    table.resize(pointers_.size());
  } catch (const std::bad_alloc&) {
    frame.host->set_error(&frame, "no host memory for the addresses of the steps");
    return MYDEV_RESOURCE_EXHAUSTED;
  }
  for (size_t i = 0; i < bindings_.size(); ++i) {
    const Binding& binding = bindings_[i];
    if (binding.kind == Binding::kBuffer) addresses[i] = static_cast<char*>(frame.buffers[i].data);
    if (binding.kind == Binding::kScratch) addresses[i] = static_cast<char*>(frame.scratch) + binding.offset;
    if (binding.kind == Binding::kConstant) addresses[i] = constant(binding.offset);
  }
  for (size_t i = 0; i < pointers_.size(); ++i) {
    const Pointer& pointer = pointers_[i];
    if (bindings_[pointer.binding].kind != Binding::kMoving) table[i] = addresses[pointer.binding] + pointer.offset;
  }
  Run run{frame, addresses, table, buffers};
  if (code_.data() == nullptr) return run_items(0, items_.size(), run);
  using Function = mydev_code (*)(void* scratch, void** table, char** addresses, const SmallProgram*, Run*);
  return reinterpret_cast<Function>(code_.data())(frame.scratch, table.data(), addresses.data(), this, &run);
}

mydev_code SmallProgram::run_calls(size_t first, size_t count, Run& run) const {
  const PointwiseTableCall* const failed = run_calls_(std::span(calls_).subspan(first, count), run.table.data());
  return failed == nullptr ? MYDEV_OK : pass_on(*failed->frame, MYDEV_FAILED_PRECONDITION, run.outer);
}

mydev_code SmallProgram::run_items(size_t begin, size_t end, Run& run) const {
  mydev_code code = MYDEV_OK;
  for (size_t i = begin; i < end && code == MYDEV_OK;) {
    const Item& item = items_[i];
    size_t next = i + 1;
    switch (item.kind) {
      case Item::kCalls:
        code = run_calls(item.first, item.count, run);
        break;
      case Item::kMove:
        move(moves_[item.first], run.table.data());
        break;
      case Item::kConvert: {
        const Convert& convert = converts_[item.first];
        convert.apply(run.table[convert.to], run.table[convert.from], convert.count);
        break;
      }
      case Item::kRows: {
        const Rows& rows = rows_[item.first];
        rows.run(static_cast<char*>(run.table[rows.to]), rows.value_bytes,
                 static_cast<const char*>(run.table[rows.from]), rows.length * rows.value_bytes, rows.rows,
                 rows.length);
        break;
      }
      case Item::kKernel:
        code = run_kernel(kernels_[item.first], run);
        break;
      case Item::kRepeat:
        code = repeat(i, run);
        next = item.end;
        break;
      case Item::kWhile:
        while (code == MYDEV_OK && *static_cast<const uint8_t*>(run.table[item.first]) != 0) {
          code = run_items(i + 1, item.end, run);
        }
        next = item.end;
        break;
      case Item::kIf:
        code = *static_cast<const uint8_t*>(run.table[item.first]) != 0 ? run_items(i + 1, item.otherwise, run)
                                                                        : run_items(item.otherwise, item.end, run);
        next = item.end;
        break;
    }
    i = next;
  }
  return code;
}

void SmallProgram::begin_repeat(const Item& item, Run& run) const {
  for (const Advance& advance : std::span(advances_).subspan(item.first, item.count)) {
    const Binding& binding = bindings_[advance.binding];
    run.addresses[advance.binding] = run.addresses[binding.base] + binding.offset;
    for (const size_t pointer : advance.pointers) {
      run.table[pointer] = run.addresses[advance.binding] + pointers_[pointer].offset;
    }
  }
}

mydev_code SmallProgram::repeat(size_t index, Run& run) const {
  const Item& item = items_[index];
  const std::span<const Advance> advances = std::span(advances_).subspan(item.first, item.count);
  begin_repeat(item, run);
  for (int64_t iteration = 0; iteration < item.iterations; ++iteration) {
    if (iteration != 0) {
      for (const Advance& advance : advances) {
        run.addresses[advance.binding] += advance.bytes;
        for (const size_t pointer : advance.pointers) {
          run.table[pointer] = static_cast<char*>(run.table[pointer]) + advance.bytes;
        }
      }
    }
    const mydev_code code = run_items(index + 1, item.end, run);
    if (code != MYDEV_OK) return code;
  }
  return MYDEV_OK;
}

void SmallProgram::move(const Move& move, void* const* table) const {
  char* const to = static_cast<char*>(table[move.to]);
  const char* const from = static_cast<const char*>(table[move.from]);
  struct Sixteen {
    uint64_t halves[2];
  };
  const std::span<const int32_t> to_offsets = move.to_offsets;
  const int32_t* const from_offsets = move.from_offsets.data();
  const int64_t bytes = move.run * move.value_bytes;
  switch (bytes) {
    case 1:
      return move_values<uint8_t>(to, from, to_offsets, from_offsets);
    case 2:
      return move_values<uint16_t>(to, from, to_offsets, from_offsets);
    case 4:
      return move_values<uint32_t>(to, from, to_offsets, from_offsets);
    case 8:
      return move_values<uint64_t>(to, from, to_offsets, from_offsets);
    case 16:
      return move_values<Sixteen>(to, from, to_offsets, from_offsets);
    default:
      for (size_t i = 0; i < to_offsets.size(); ++i) {
        std::memmove(to + to_offsets[i], from + from_offsets[i], static_cast<size_t>(bytes));
      }
  }
}

mydev_code SmallProgram::run_kernel(const Kernel& kernel, Run& run) const {
  mydev_frame frame = *kernel.frame;
  run.buffers.assign(frame.buffers, frame.buffers + kernel.pointers.size());
  for (size_t i = 0; i < kernel.pointers.size(); ++i) {
    if (kernel.pointers[i] != kNoPointer) run.buffers[i].data = run.table[kernel.pointers[i]];
  }
  frame.buffers = run.buffers.data();
  frame.device = run.outer.device;
  frame.stream = run.outer.stream;
  frame.host = &host_services();
  frame.decision = kernel.decision.get();
  if (frame.scratch_bytes != 0) frame.scratch = static_cast<char*>(run.outer.scratch) + kernel_scratch_;
  const mydev_code code = frame.kernel->entry(&frame);
  if (code != MYDEV_OK) [[unlikely]]
    return pass_on(frame, code, run.outer);
  forget_kernel_message(frame);
  return MYDEV_OK;
}

}  // namespace mydev::kernels
