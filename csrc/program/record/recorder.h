// Recording a program: the commands that streams are given while they capture become steps.
//
// So an operator's own code is its lowering. Memory is identified by its addresses. Each range of memory that steps
// touch is a parameter of the program; if it is written, it is donated and a result. The recording says where the range
// lies. Memory that the streams' pool gave out during the capture is reused by later steps as the allocator reuses it;
// other blocks are held, so that they outlive the capture and the recording. A host function is a step without
// operands.
//
// A function is recorded with addresses alone (runtime/memory/address_space.h): the caller says which of them are
// parameters and results, and all others become temporaries of the program.
//
// Lanes: each captured stream is one. At the end the first must have waited for all others. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "program/ir/program.h"
#include "program/record/recorded_memory.h"
#include "program/run/executor.h"
#include "runtime/base/api.h"
#include "runtime/command/host_function.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/memory_pool.h"
#include "runtime/stream/capture.h"

namespace mydev::program {

// References to blocks of memory.
class MYDEV_API HeldBlocks {
 public:
  HeldBlocks() = default;
  HeldBlocks(HeldBlocks&&) noexcept = default;
  HeldBlocks& operator=(HeldBlocks&& other) noexcept;
  ~HeldBlocks() { drop(); }
  void hold(Block& block);
  bool holds(const void* data) const noexcept;  // an address in one of them
  void drop() noexcept;

 private:
  std::map<const void*, Block*, std::greater<>> blocks_;  // by where they begin
};

struct Recording {
  SharedProgram program;
  // The memory of the parameters that the signature does not name. In the program they follow the parameters that it
  // names.
  std::vector<Binding> parameters;
  std::vector<size_t> results;  // which of the signature's results the program writes: its own results, in order
  HeldBlocks memory;            // of the parameters, but for what the pool has
};

// Whether the user's functions that a captured stream is to call on the host are refused or recorded
// (runtime/command/host_function.h).
enum class HostFunctions : uint8_t { kRefused, kRecorded };

class MYDEV_API Recorder final : public Capture, public HostFunctionCapture {
 public:
  // For the device's streams. Memory comes from the pool, which lives as long as the recorder.
  Recorder(std::string name, std::shared_ptr<MemoryPool> pool, HostFunctions host_functions = HostFunctions::kRefused)
      : name_(std::move(name)), pool_(std::move(pool)), host_functions_(host_functions) {}
  ~Recorder() override { cancel(); }

  // Begins the capture of the first lane. Raises FAILED_PRECONDITION if the stream captures already.
  void begin(Stream& stream);
  // Ends the capture of all streams. Raises FAILED_PRECONDITION, naming the stream, if one that joined was not waited
  // for.
  Recording end(const Signature& signature = {});
  void cancel() noexcept;

  void launch(Stream& stream, const mydev_kernel& kernel, const mydev_frame& frame,
              const CompiledLaunch* compiled) override;
  void copy(Stream& stream, const mydev_buffer& dst, const mydev_buffer& src) override;
  void fill(Stream& stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) override;
  void collective(Stream& stream, const std::string& name, std::span<const mydev_buffer> written,
                  std::span<const mydev_buffer> read, CollectiveFunction function) override;
  uint64_t mark(Stream& stream) override;
  void wait(Stream& stream, uint64_t point) override;
  void keep(Block& block) override;
  bool host_function(Stream& stream, const std::string& name, std::function<void()> function) override;

 private:
  using Seen = std::vector<uint32_t>;  // of each lane, how many of its steps come before
  struct Lane {
    Stream* stream = nullptr;
    uint32_t steps = 0;
    Seen seen;
    std::vector<StepIndex> after;  // what the next step waits for
    StepIndex last = 0;
  };
  struct Point {
    Seen seen;
    std::vector<StepIndex> after;
  };

  std::vector<Step> take_steps();  // of all lanes, which are over
  uint32_t lane_of(const Stream& stream) const;
  uint32_t join(Stream& stream);
  Operand operand(Stream& stream, const mydev_buffer& buffer, bool written);
  void add(Stream& stream, Step step);

  std::mutex mutex_;
  const std::string name_;
  const std::shared_ptr<MemoryPool> pool_;
  const HostFunctions host_functions_;
  std::vector<Lane> lanes_;
  std::vector<Point> points_;
  std::vector<Step> steps_;  // operands are views of slot 0, which begins at address 0
  HeldBlocks memory_, until_end_;
};

}  // namespace mydev::program
