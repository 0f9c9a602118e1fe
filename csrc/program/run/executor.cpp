#include "program/run/executor.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/launch/kernel_launch.h"
#include "program/ir/verify.h"
#include "program/plan/live_ranges.h"
#include "program/run/graph_instances.h"
#include "program/run/offer.h"
#include "program/run/prepared_program.h"
#include "runtime/base/device_name.h"
#include "runtime/base/one_thread.h"
#include "runtime/base/status.h"
#include "runtime/command/transfer.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/event.h"

namespace mydev::program {

namespace {

// Runs body(). An error that it raises is raised again, with the step that it was at.
template <typename Body>
void with_place(const char* const& where, const Body& body) {
  mydev_code code = MYDEV_UNIMPLEMENTED;
  std::string problem;
  try {
    const RaiserBypass bypass;
    body();
    return;
  } catch (const Error& error) {
    code = error.code();
    problem = error.what();
  } catch (const KernelDeclined& declined) {
    problem = declined.what();
  }
  raise(code, (*where != '\0' ? std::string(where) + ": " : "") + problem);
}

std::vector<uint64_t> bytes_of_slots(const Program& program) {
  std::vector<uint64_t> bytes;
  for (const Slot& slot : program.slots()) bytes.push_back(slot.bytes());
  return bytes;
}

SharedProgram offered(const SharedProgram& program, Device& device) {
  verify_kernels(*program, &device);
  return offer(program, device);
}

}  // namespace

AllocateMemory caching_allocator_for(Stream& stream) {
  return [&stream](uint64_t bytes) {
    Block* block = allocate(stream, bytes);
    return std::shared_ptr<void>(block->data, [block](void*) { release(*block); });
  };
}

class Executor::Prepared {
 public:
  Prepared(const SharedProgram& program, Stream& stream, const AllocateMemory& allocate, Arena arena, uint32_t position,
           Fusing fusing)
      : program_(offered(program, stream.device())), device_(stream.device()), arena_is_given_(arena == Arena::kGiven) {
    Preparation preparation{stream, ConstantPool(device_.properties.alignment, position),
                            arena_is_given_ ? Given::kWhenNeeded : Given::kWhole};
    preparation.fuses = fusing == Fusing::kFused;
    with_place(preparation.where, [&] { prepared_ = std::make_unique<PreparedProgram>(*program_, preparation); });
    if (plan().arena_bytes != 0 && !arena_is_given_) arena_ = allocate(plan().arena_bytes);
    upload(preparation.constants.bytes(), stream, allocate);
    place(preparation.constants);
    if (arena_is_given_) {
      find_changes();
    } else if (prepared_->is_repeatable()) {
      graphs_ = GraphInstances::make(*program_, device_);
    }
  }

  // Decisions and the arena are in use until the last run is over.
  ~Prepared() {
    if (last_stream_ == nullptr || !last_stream_->asynchronous()) return;
    try {
      Event event(device_.index, false);
      event.record_uncaptured(*last_stream_);
      event.wait_until_done();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): a process that must not use the device
    }
  }
  Prepared(const Prepared&) = delete;
  Prepared& operator=(const Prepared&) = delete;

  void run(Stream& stream, std::span<const Binding> parameters, std::span<const Binding> results) {
    MYDEV_ASSERT(!arena_is_given_);
    check("result", program_->own_results(), results);
    begin(stream, parameters);
    BindingIndex entry = first_result();
    for (const Binding& binding : results) table_.set(entry++, binding.data);
    if (graphs_ != nullptr && run_as_graph(stream)) return;
    run_steps(stream, 0, num_steps());
  }

  void run(Stream& stream, std::span<const Binding> parameters, RunMemory& memory) {
    MYDEV_ASSERT(arena_is_given_);
    begin(stream, parameters);
    StepIndex next = 0;
    for (const Change& change : changes_) {
      run_steps(stream, next, change.before);
      next = change.before;
      apply(change, memory);
    }
    run_steps(stream, next, num_steps());
  }

  const Program& program() const noexcept { return *program_; }
  const MemoryPlan& plan() const noexcept { return prepared_->plan(); }
  uint64_t constant_bytes() const noexcept { return constant_bytes_; }
  std::span<std::byte> arena() const noexcept {
    return {static_cast<std::byte*>(arena_.get()), arena_is_given_ ? 0 : plan().arena_bytes};
  }

 private:
  void upload(std::span<const std::byte> constants, Stream& stream, const AllocateMemory& allocate) {
    constant_bytes_ = constants.size();
    if (constants.empty()) return;
    constants_ = allocate(constants.size());
    const OneThread alone;
    copy_bytes(stream, constants_.get(), constants.data(), constants.size(), MYDEV_COPY_HOST_TO_DEVICE);
    stream.synchronize();
  }

  void place(const ConstantPool& constants) {
    table_ = BindingTable(first_result() + program_->own_results().size() + plan().arena.size());
    std::vector<Address> parameters, results;
    BindingIndex entry = kFirstRunBinding;
    while (parameters.size() < program_->parameters().size()) parameters.push_back({entry++, 0});
    while (results.size() < program_->own_results().size()) results.push_back({entry++, 0});
    std::vector<Address> arena(plan().arena.size());
    for (size_t i = 0; i < arena.size(); ++i) arena[i] = {arena_binding(i), 0};
    prepared_->place(table_, constants, parameters, results, arena);
    table_.set(kArenaBinding, arena_.get());
    table_.set(kConstantsBinding, constants_.get());
    for (const std::vector<Placement>* placed : {&plan().slots, &plan().workspace}) {
      for (const Placement& placement : *placed) {
        if (placement.home < is_home_.size()) is_home_[placement.home] = true;
      }
    }
  }

  // A change of the memory that a run is given or gives back between its steps.
  struct Change {
    StepIndex before;
    enum Kind : uint8_t { kReleaseArena, kReleaseParameter, kArena, kResult } kind;
    size_t index;  // of the parameter or result
  };

  void find_changes() {
    const auto add = [&](int64_t before, Change::Kind kind, size_t index) {
      const bool last = before >= num_steps() && kind <= Change::kReleaseParameter;  // as the run itself
      if (!last) changes_.push_back({static_cast<StepIndex>(before), kind, index});
    };
    const MemoryPlan& memory = plan();
    for (size_t i = 0; i < memory.arena.size(); ++i) {
      add(memory.arena[i].needed.first, Change::kArena, i);
      add(memory.arena[i].needed.last + 1, Change::kReleaseArena, i);
    }
    const std::vector<LiveRange> live_ranges = live_ranges_of(*program_);
    for (size_t i = 0; i < program_->parameters().size(); ++i) {
      const SlotIndex slot = program_->parameters()[i];
      if (program_->is_result(slot)) continue;
      add(std::max(live_ranges[slot].last, memory.needed[slot].last) + 1, Change::kReleaseParameter, i);
    }
    for (size_t i = 0; i < program_->own_results().size(); ++i) {
      add(memory.needed[program_->own_results()[i]].first, Change::kResult, i);
    }
    std::ranges::stable_sort(changes_, [](const Change& a, const Change& b) {
      return std::pair(a.before, a.kind) < std::pair(b.before, b.kind);
    });
  }

  void apply(const Change& change, RunMemory& memory) {
    switch (change.kind) {
      case Change::kReleaseArena:
        return memory.release_arena(change.index);
      case Change::kReleaseParameter:
        return memory.release(change.index);
      case Change::kArena: {
        const uint64_t bytes = plan().arena[change.index].bytes;
        const Binding block = memory.arena(change.index, bytes);
        check_arena(block, bytes);
        return table_.set(arena_binding(change.index), block.data);
      }
      case Change::kResult: {
        const Binding result = memory.result(change.index);
        check("result", program_->own_results()[change.index], result);
        return table_.set(first_result() + static_cast<BindingIndex>(change.index), result.data);
      }
    }
  }

  void begin(Stream& stream, std::span<const Binding> parameters) {
    check("parameter", program_->parameters(), parameters);
    if (last_stream_ != &stream) continue_on(stream);
    BindingIndex entry = kFirstRunBinding;
    for (const Binding& binding : parameters) table_.set(entry++, binding.data);
  }

  bool run_as_graph(Stream& stream) {
    table_.memory_of(first_result() + program_->own_results().size(), memory_);
    return graphs_->run(stream, memory_, [&](Stream& recorded) { run_steps(recorded, 0, num_steps()); });
  }

  void run_steps(Stream& stream, StepIndex first, StepIndex end) {
    const char* where = "";
    with_place(where, [&] { prepared_->run(stream, where, first, end); });
  }

  StepIndex num_steps() const noexcept { return static_cast<StepIndex>(program_->steps().size()); }
  BindingIndex first_result() const noexcept {
    return kFirstRunBinding + static_cast<BindingIndex>(program_->parameters().size());
  }

  // In the binding table, blocks after the first follow the memory that a run binds.
  BindingIndex arena_binding(size_t block) const noexcept {
    if (block == 0) return kArenaBinding;
    return first_result() + static_cast<BindingIndex>(program_->own_results().size() + block - 1);
  }

  void check(const char* what, const std::vector<SlotIndex>& slots, std::span<const Binding> bindings) const {
    MYDEV_CHECK(bindings.size() == slots.size(), MYDEV_INVALID_ARGUMENT, "program '", program_->name(), "' has ",
                slots.size(), " ", what, slots.size() == 1 ? "" : "s", ", and is given ", bindings.size());
    for (size_t i = 0; i < slots.size(); ++i) check(what, slots[i], bindings[i]);
  }

  void check(const char* what, SlotIndex slot, const Binding& binding) const {
    const uint64_t bytes = bytes_[slot];
    MYDEV_CHECK(binding.bytes >= bytes && (bytes == 0 || binding.data != nullptr), MYDEV_INVALID_ARGUMENT, "program '",
                program_->name(), "': ", what, " '", program_->slots()[slot].name, "' has ", bytes,
                " bytes, and is given ", binding.bytes, binding.data == nullptr ? " at NULL" : "");
    MYDEV_CHECK(!is_home_[slot] || reinterpret_cast<uintptr_t>(binding.data) % plan().alignment == 0,
                MYDEV_INVALID_ARGUMENT, "program '", program_->name(), "': ", what, " '", program_->slots()[slot].name,
                "' lies at ", binding.data, ", and temporaries need an alignment of ", plan().alignment);
  }

  void check_arena(const Binding& block, uint64_t bytes) const {
    const bool aligned = reinterpret_cast<uintptr_t>(block.data) % plan().alignment == 0;
    MYDEV_CHECK(block.bytes >= bytes && block.data != nullptr && aligned, MYDEV_INVALID_ARGUMENT, "program '",
                program_->name(), "' takes an arena of ", bytes, " bytes aligned to ", plan().alignment,
                ", and is given ", block.bytes, " at ", block.data);
  }

  void continue_on(Stream& stream) {
    MYDEV_CHECK(&stream.device() == &device_, MYDEV_INVALID_ARGUMENT, "program '", program_->name(),
                "' was prepared for device ", device_text(device_.index), ", and is run on a stream of device ",
                device_text(stream.device().index));
    if (last_stream_ != nullptr && last_stream_->asynchronous()) {
      Event event(device_.index, false);
      event.record_uncaptured(*last_stream_);
      event.block(stream);
    }
    last_stream_ = &stream;
  }

  SharedProgram program_;
  Device& device_;
  const bool arena_is_given_;
  BindingTable table_{0};
  std::vector<uint64_t> bytes_ = bytes_of_slots(*program_);
  std::unique_ptr<PreparedProgram> prepared_;
  std::shared_ptr<void> arena_, constants_;
  uint64_t constant_bytes_ = 0;
  std::vector<Change> changes_;                                              // in their order
  std::vector<bool> is_home_ = std::vector<bool>(program_->slots().size());  // temporaries are planned into the slot
  Stream* last_stream_ = nullptr;
  std::unique_ptr<GraphInstances> graphs_;  // have what the commands have given
  std::vector<void*> memory_;               // of the run
};

Executor::Executor(const SharedProgram& program, Stream& stream, const AllocateMemory& allocate, Arena arena,
                   uint32_t position, Fusing fusing)
    : prepared_(std::make_unique<Prepared>(program, stream, allocate, arena, position, fusing)) {}

Executor::~Executor() = default;

void Executor::run(Stream& stream, std::span<const Binding> parameters, std::span<const Binding> results) {
  prepared_->run(stream, parameters, results);
}

void Executor::run(Stream& stream, std::span<const Binding> parameters, RunMemory& memory) {
  prepared_->run(stream, parameters, memory);
}

const Program& Executor::program() const noexcept {
  return prepared_->program();
}

const MemoryPlan& Executor::plan() const noexcept {
  return prepared_->plan();
}

uint64_t Executor::constant_bytes() const noexcept {
  return prepared_->constant_bytes();
}

std::span<std::byte> Executor::arena() const noexcept {
  return prepared_->arena();
}

}  // namespace mydev::program
