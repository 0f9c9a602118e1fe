// The product of a compiler, made from a client's program: a description, and instances that run it on a device.
//
// A CompiledModule does not change and may be read by any thread. It knows no buffers: it is given addresses, and the
// executable takes care of the memory and its events. An instance belongs to one device. It is loaded at any time,
// whatever the device is busy with. The executable runs it in that device's turn, one run at a time. If a run needs
// several devices, they run at the same time, each on a thread of its own, so that they may wait for each other.
#pragma once

#include <cstdint>
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
  // A serialized OpSharding; none: not known, which JAX accepts if there is one device, or if the caller gives it.
  std::optional<std::string> sharding;
  bool donated = false;  // of a parameter: a run may write it where it is the device's, and takes it from the caller
  MemoryKind memory = MemoryKind::kDevice;
};

// Memory in bytes, on one device.
struct ModuleMemory {
  int64_t code = 0, temporaries = 0;
};

struct ModuleDescription {
  std::string name;
  std::vector<ValueDescription> parameters, results;
  // For each result, the parameter in whose memory it is computed; none: it has memory of its own. If the argument is
  // not donated, a copy of it is used. No parameter occurs twice.
  std::vector<std::optional<size_t>> in_place_of;
  ModuleMemory memory;
};

// One run on one device.
struct ModuleRun {
  Stream& stream;
  uint64_t run_id;  // the same for all devices of one execution, and for no other
  // The memory of each parameter and each result. A result that is computed in place has its parameter's memory.
  std::span<const program::Binding> arguments, results;
};

class ModuleInstance {
 public:
  virtual ~ModuleInstance() = default;
  // Submits the work; an error that it raises is the run's failure. Later failures stick to the stream.
  virtual void run(const ModuleRun& run) = 0;
  // Returns the number of a run in which the other devices are started by calls of their own; none: the run needs no
  // other device.
  virtual std::optional<uint64_t> run_of_its_own() { return std::nullopt; }
  // Cancels the run on this device, since an argument or run() failed. The other devices of the run may wait for it.
  // Must not throw.
  virtual void cancel(uint64_t run_id, const Failure& failure) {}
};

// The device that an instance is loaded for.
struct ModulePlace {
  Stream& stream;         // of the device: for what loading copies; runs have theirs
  uint32_t position = 0;  // of the device among those that run the module: replica * number of partitions + partition
};

class CompiledModule {
 public:
  virtual ~CompiledModule() = default;
  virtual const ModuleDescription& description() const = 0;
  // Loads an instance for a device: asks the kernels, uploads constants and waits for them. Raises UNIMPLEMENTED, with
  // reasons, if the device cannot run it.
  virtual std::unique_ptr<ModuleInstance> load(const ModulePlace& place) const = 0;
  // Returns the program that the first device runs.
  virtual program::SharedProgram program() const = 0;
  // Returns the program of each of several devices, in the format that the module came in; nullopt: the program that
  // came.
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
