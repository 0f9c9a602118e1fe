#include "program/executor.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/launch/kernel_launch.h"
#include "program/prepared_program.h"
#include "program/verify.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/command/transfer.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/event.h"

namespace mydev::program {

namespace {

// What body() raises, with the step that it was at.
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

}  // namespace

AllocateMemory caching_allocator_for(Stream& stream) {
  return [&stream](uint64_t bytes) {
    Block* block = allocate(stream, bytes);
    return std::shared_ptr<void>(block->data, [block](void*) { release(*block); });
  };
}

class Executor::Prepared {
 public:
  Prepared(SharedProgram program, Stream& stream, const AllocateMemory& allocate, Arena arena)
      : program_(std::move(program)),
        device_(stream.device()),
        arena_is_given_(arena == Arena::kGiven),
        bases_(kFirstBoundBase + program_->parameters().size() + program_->own_results().size()) {
    verify_kernels(*program_, &device_);
    Preparation preparation{stream, ConstantPool(device_.properties.alignment)};
    with_place(preparation.where, [&] { prepared_ = std::make_unique<PreparedProgram>(*program_, preparation); });
    if (plan().arena_bytes != 0 && !arena_is_given_) arena_ = allocate(plan().arena_bytes);
    upload(preparation.constants.bytes(), stream, allocate);
    place(preparation.constants);
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

  void run(Stream& stream, std::span<const Binding> parameters, std::span<const Binding> results, Binding arena) {
    check("parameter", program_->parameters(), parameters);
    check("result", program_->own_results(), results);
    check_homes("parameter", program_->parameters(), parameters);
    check_homes("result", program_->own_results(), results);
    if (arena_is_given_) {
      check_arena(arena);
      bases_.set(kArenaBase, arena.data);
    }
    if (last_stream_ != &stream) continue_on(stream);
    BaseIndex base = kFirstBoundBase;
    for (const Binding& binding : parameters) bases_.set(base++, binding.data);
    for (const Binding& binding : results) bases_.set(base++, binding.data);
    const char* where = "";
    with_place(where, [&] { prepared_->run(stream, where); });
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
    copy_bytes(stream, constants_.get(), constants.data(), constants.size(), MYDEV_COPY_HOST_TO_DEVICE);
    stream.synchronize();
  }

  void place(const ConstantPool& constants) {
    std::vector<Address> parameters, results;
    BaseIndex base = kFirstBoundBase;
    while (parameters.size() < program_->parameters().size()) parameters.push_back({base++, 0});
    while (results.size() < program_->own_results().size()) results.push_back({base++, 0});
    prepared_->place(bases_, constants, parameters, results, {kArenaBase, 0});
    bases_.set(kArenaBase, arena_.get());
    bases_.set(kConstantsBase, constants_.get());
    for (const std::vector<Placement>* placed : {&plan().slots, &plan().workspace}) {
      for (const Placement& placement : *placed) {
        if (placement.home < is_home_.size()) is_home_[placement.home] = true;
      }
    }
  }

  void check(const char* what, const std::vector<SlotIndex>& slots, std::span<const Binding> bindings) const {
    MYDEV_CHECK(bindings.size() == slots.size(), MYDEV_INVALID_ARGUMENT, "program '", program_->name(), "' has ",
                slots.size(), " ", what, slots.size() == 1 ? "" : "s", ", and is given ", bindings.size());
    for (size_t i = 0; i < slots.size(); ++i) {
      const uint64_t bytes = bytes_[slots[i]];
      MYDEV_CHECK(bindings[i].bytes >= bytes && (bytes == 0 || bindings[i].data != nullptr), MYDEV_INVALID_ARGUMENT,
                  "program '", program_->name(), "': ", what, " '", program_->slots()[slots[i]].name, "' has ", bytes,
                  " bytes, and is given ", bindings[i].bytes, bindings[i].data == nullptr ? " at NULL" : "");
    }
  }

  void check_homes(const char* what, const std::vector<SlotIndex>& slots, std::span<const Binding> bindings) const {
    for (size_t i = 0; i < slots.size(); ++i) {
      if (!is_home_[slots[i]]) continue;
      MYDEV_CHECK(reinterpret_cast<uintptr_t>(bindings[i].data) % plan().alignment == 0, MYDEV_INVALID_ARGUMENT,
                  "program '", program_->name(), "': ", what, " '", program_->slots()[slots[i]].name, "' lies at ",
                  bindings[i].data, ", and temporaries need an alignment of ", plan().alignment);
    }
  }

  void check_arena(const Binding& arena) const {
    MYDEV_CHECK(arena.bytes >= plan().arena_bytes && (plan().arena_bytes == 0 || arena.data != nullptr) &&
                    reinterpret_cast<uintptr_t>(arena.data) % plan().alignment == 0,
                MYDEV_INVALID_ARGUMENT, "program '", program_->name(), "' takes an arena of ", plan().arena_bytes,
                " bytes aligned to ", plan().alignment, ", and is given ", arena.bytes, " at ", arena.data);
  }

  void continue_on(Stream& stream) {
    MYDEV_CHECK(&stream.device() == &device_, MYDEV_INVALID_ARGUMENT, "program '", program_->name(),
                "' was prepared for device " MYDEV_DEVICE_NAME ":", device_.index,
                ", and is run on a stream of device " MYDEV_DEVICE_NAME ":", stream.device().index);
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
  Bases bases_;
  std::vector<uint64_t> bytes_ = bytes_of_slots(*program_);
  std::unique_ptr<PreparedProgram> prepared_;
  std::shared_ptr<void> arena_, constants_;
  uint64_t constant_bytes_ = 0;
  std::vector<bool> is_home_ = std::vector<bool>(program_->slots().size());  // temporaries are planned into the slot
  Stream* last_stream_ = nullptr;
};

Executor::Executor(SharedProgram program, Stream& stream, const AllocateMemory& allocate, Arena arena)
    : prepared_(std::make_unique<Prepared>(std::move(program), stream, allocate, arena)) {}

Executor::~Executor() = default;

void Executor::run(Stream& stream, std::span<const Binding> parameters, std::span<const Binding> results,
                   Binding arena) {
  prepared_->run(stream, parameters, results, arena);
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
