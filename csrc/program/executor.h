// A program made ready for a device: kernels looked up and asked, frames built, memory planned, constants uploaded.
//
// A run binds the caller's memory and submits each step by the runtime's own launch, copies, fills and host calls, so
// hooks, traces and errors see them as they see all others. It allocates nothing, except what submitting does on an
// asynchronous device, host calls, and kernels that have to be asked at each launch (host records where the host does
// not reach the memory, driver records without a plan). It calls the driver for nothing but the commands, except that
// loops and conditions on a byte wait for it, and that a run on another asynchronous stream than the last one waits for
// that one, since the arena is the same.
//
// Lanes: all steps run on the one stream, in order.
//
// Errors. What a step raises names the step, its program and the kernel; steps behind it have not been submitted, and
// the executor may run again. On an asynchronous stream the failure sticks to the stream, as each launch's does, and
// names the step as the place where it was submitted.
//
// One thread at a time. The destructor waits for the last run, on a stream that must still be there.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "program/plan.h"
#include "program/program.h"
#include "runtime/stream/stream.h"

namespace mydev::program {

// Memory that the caller gives to a run: for a parameter, or to be filled with a result.
struct Binding {
  void* data = nullptr;  // may be NULL if the slot has no bytes
  uint64_t bytes = 0;    // at least the slot's
};

// Device memory of so many bytes (never 0), aligned as the device's allocations are, which is free again when the last
// reference is gone. What it raises is passed on. Called in the executor's constructor: for an arena, for constants.
using AllocateMemory = std::function<std::shared_ptr<void>(uint64_t bytes)>;
// From the caching allocator, for that stream.
AllocateMemory caching_allocator_for(Stream& stream);

// Where temporaries lie: in memory that the executor keeps, or in what each run is given.
enum class Arena : uint8_t { kKept, kGiven };

class Executor {
 public:
  // For the stream's device; constants are uploaded on the stream. Raises what verify_kernels and allocate raise, and
  // UNIMPLEMENTED, with reasons, for a step whose kernel declines its frame.
  Executor(SharedProgram program, Stream& stream, const AllocateMemory& allocate, Arena arena = Arena::kKept);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // `parameters` for Program::parameters(), `results` for Program::own_results(), in order. Memory of parameters that
  // are donated and no results, and of results, is aligned as plan().alignment says, as the `arena` is, of
  // Arena::kGiven: plan().arena_bytes that are the run's alone. Raises INVALID_ARGUMENT, before any step, for too few
  // or too small ones.
  void run(Stream& stream, std::span<const Binding> parameters, std::span<const Binding> results = {},
           Binding arena = {});

  const Program& program() const noexcept;
  const MemoryPlan& plan() const noexcept;      // with the scratch of kernels and the arenas of what is called
  uint64_t constant_bytes() const noexcept;     // uploaded, those of called programs too
  std::span<std::byte> arena() const noexcept;  // on the device, of Arena::kKept

 private:
  class Prepared;
  std::unique_ptr<Prepared> prepared_;
};

}  // namespace mydev::program
