// What a compiler makes of a program that a client gives: a description, and instances that run it on a device.
//
// A CompiledModule does not change and may be read by any thread. It knows no buffers: it is given addresses, of memory
// whose life and events the executable sees to. An instance belongs to one device. It is loaded at any time, whatever
// the device is busy with; the executable runs it in that device's turn, one run at a time, and parts of one run on
// several devices at the same time, each on a thread of its own, so that they may wait for each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "pjrt/base/error.h"
#include "pjrt/base/shape.h"
#include "pjrt/device/platform.h"
#include "pjrt/executable/compile_options.h"
#include "program/run/executor.h"
#include "runtime/stream/stream.h"

namespace mydev::pjrt {

struct ValueDescription {
  SharedShape shape;  // of what one device holds
  // A serialized OpSharding; none: not known, which JAX accepts where there is one device, or the caller says it.
  std::optional<std::string> sharding;
  bool donated = false;  // of a parameter: a run may write it where it is the device's, and takes it from the caller
  MemoryKind memory = MemoryKind::kDevice;
};

// In bytes, of one device.
struct ModuleMemory {
  int64_t code = 0, temporaries = 0;
};

struct ModuleDescription {
  std::string name;
  std::vector<ValueDescription> parameters, results;
  // For each result: the parameter in whose memory it is computed, a copy of the argument where that is not donated;
  // none: it has memory of its own. No parameter twice.
  std::vector<std::optional<size_t>> in_place_of;
  ModuleMemory memory;
};

// One run on one device.
struct ModuleRun {
  Stream& stream;
  uint64_t run_id;  // the same for all devices of one execution, and for no other
  // Of each parameter and each result. Memory of a result that is computed in place is its parameter's.
  std::span<const program::Binding> arguments, results;
};

class ModuleInstance {
 public:
  virtual ~ModuleInstance() = default;
  // Submits the work; what it raises is the run's failure. Later failures stick to the stream.
  virtual void run(const ModuleRun& run) = 0;
  // The number of a run that this device does by itself, while other devices' parts are started by calls of their own;
  // none: it needs none of them.
  virtual std::optional<uint64_t> run_of_its_own() { return std::nullopt; }
  // The part will not come to its end: an argument failed, or run() did. Others of the same run, on other devices, may
  // wait for it. Must not throw.
  virtual void cancel(uint64_t run_id, const Failure& failure) {}
};

// Where an instance is loaded.
struct ModulePlace {
  Stream& stream;  // of its device: for what loading copies; runs have theirs
  int64_t replica = 0, partition = 0;
};

class CompiledModule {
 public:
  virtual ~CompiledModule() = default;
  virtual const ModuleDescription& description() const = 0;
  // For a device: kernels are asked, constants uploaded, and waited for. Raises UNIMPLEMENTED, with reasons, where the
  // device cannot.
  virtual std::unique_ptr<ModuleInstance> load(const ModulePlace& place) const = 0;
  // Shows the program that the first device runs, for people and estimates.
  virtual void show(const std::function<void(const program::Program&)>& look) const = 0;
  // What each of several devices computes, in the format that the module came in; nullopt: what came.
  virtual std::optional<std::string> text() const { return std::nullopt; }
};
using SharedModule = std::shared_ptr<const CompiledModule>;

// The formats that clients may give:
//   "mlir"           StableHLO's portable bytecode
//   "mydev_program"  text of a program (program/text/text.h), one device's; the device's name begins it
// Raises INVALID_ARGUMENT for others, and what the compiler of the format raises.
SharedModule compile_module(std::string_view format, std::string_view code, const CompileOptions& options);

// The compilers.
SharedModule compile_stablehlo(std::string_view bytecode, const CompileOptions& options);
SharedModule compile_program_text(std::string_view text, const CompileOptions& options);

}  // namespace mydev::pjrt
