// A program made ready for a device: kernels looked up and asked, frames built, memory planned, constants uploaded.
//
// A run binds the caller's memory and submits each step by the runtime's own launch, copies, fills and host calls. So
// hooks, traces and errors treat them like all others. It allocates nothing, except what submitting does on an
// asynchronous device, host calls, and kernels that have to be asked at each launch (host records where the host does
// not reach the memory, driver records without a plan). It calls the driver only for the commands, with two exceptions.
// Loops and conditions on a byte wait for it. And a run on another asynchronous stream than the last run's waits for
// that stream, since the arena is the same.
//
// Lanes: all steps run on the one stream, in order.
//
// If the driver records graphs and the executor keeps its arena, the steps are recorded once and then launched as one
// (graph_instances.h).
//
// Errors. An error that a step raises names the step, its program and the kernel. Later steps have not been submitted,
// and the executor may run again. On an asynchronous stream the failure sticks to the stream, as each launch's does,
// and names the step as the place where it was submitted.
//
// One thread at a time. The destructor waits for the last run, on a stream that must still be there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "program/ir/program.h"
#include "program/plan/plan.h"
#include "runtime/base/api.h"
#include "runtime/stream/stream.h"

namespace mydev::program {

// Memory that the caller gives to a run: for a parameter, or to be filled with a result.
struct Binding {
  void* data = nullptr;  // may be NULL if the slot has no bytes
  uint64_t bytes = 0;    // at least the slot's
};

// Allocates device memory of so many bytes (never 0), aligned as the device's allocations are. It is free again when
// the last reference is gone. Errors are passed on. Called in the executor's constructor, for an arena and for
// constants.
using AllocateMemory = std::function<std::shared_ptr<void>(uint64_t bytes)>;
// Allocates from the caching allocator, for that stream.
MYDEV_API AllocateMemory caching_allocator_for(Stream& stream);

// Whether temporaries lie in memory that the executor keeps, or in memory that each run is given.
enum class Arena : uint8_t { kKept, kGiven };

// The memory of a run with Arena::kGiven. It comes when it is needed, and goes when it is not, so that parameters can
// make room for results. The functions are called between steps, in the order of the steps as they are submitted:
// memory that is released is free for later work of the stream. Their errors are passed on, and the run ends there.
class RunMemory {
 public:
  virtual ~RunMemory() = default;
  virtual Binding arena(size_t block, uint64_t bytes) = 0;  // of MemoryPlan::arena, each once; aligned
  virtual void release_arena(size_t block) noexcept = 0;    // never, if the last step needs it
  virtual Binding result(size_t index) = 0;                 // of Program::own_results(), each once
  virtual void release(size_t parameter) noexcept = 0;  // of Program::parameters(); never, if the last step needs it
};

// Whether steps that a kernel computes as one are one launch. A stream that captures records what the program says
// instead, since such a launch does not tell what it writes.
enum class Fusing : uint8_t { kFused, kStepByStep };

class MYDEV_API Executor {
 public:
  // For the stream's device, which is number `position` of those that run the program at the same time; constants are
  // uploaded on the stream. Raises what verify_kernels and allocate raise, and
  // UNIMPLEMENTED, with reasons, for a step whose kernel declines its frame.
  Executor(const SharedProgram& program, Stream& stream, const AllocateMemory& allocate, Arena arena = Arena::kKept,
           uint32_t position = 0, Fusing fusing = Fusing::kFused);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // `parameters` for Program::parameters(), `results` for Program::own_results(), in order. Memory of parameters that
  // are donated and no results, and of results, is aligned as plan().alignment says. Raises INVALID_ARGUMENT, before
  // any step, for too few or too small ones.
  void run(Stream& stream, std::span<const Binding> parameters, std::span<const Binding> results = {});
  // With Arena::kGiven. Results that do not fit are INVALID_ARGUMENT when they are given.
  void run(Stream& stream, std::span<const Binding> parameters, RunMemory& memory);

  const Program& program() const noexcept;
  const MemoryPlan& plan() const noexcept;      // with the scratch of kernels and the arenas of what is called
  uint64_t constant_bytes() const noexcept;     // uploaded, those of called programs too
  std::span<std::byte> arena() const noexcept;  // on the device, of Arena::kKept

 private:
  class Prepared;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace mydev::program
