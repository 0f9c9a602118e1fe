// A program describes work of a device as data: commands over slots, in a valid order.
//
// A *slot* is memory that a program names: a parameter (given at each run), a constant (the program's own bytes), a
// temporary (planned into one arena), or a result (memory that the caller gives at each run, to be filled). A *step* is
// a command over views of slots: a launch, a copy, a fill, a host call, a collective, or a call of another program. A
// program is called once, a number of times, while a byte is not zero, or depending on a byte.
//
// Donation. A parameter that is donated may be written: by steps, and after its last use by temporaries that are
// planned into its memory. After a run it holds what the program left there. A donated parameter that is also a result
// is updated in place: it holds that result.
//
// Host memory. Parameters and results may be memory of the host. Only copies between it and the device's memory read
// and write it. So the device needs memory for its data only as long as steps use them.
//
// Lanes. A step records its stream, if there were several (`lane`), and the steps of other lanes that it waits for
// (`after`). The order of the steps agrees with all waits, so that one stream may run them in order.
//
// A Program does not change once it is built (builder.h), and its structure is valid: verify.h has the rules. Share it
// by shared_ptr; any thread may read it. text/text.h prints and parses programs.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/frame/frame.h"

namespace mydev {
struct CompiledLaunch;
class Executable;
class Stream;
}  // namespace mydev

namespace mydev::program {

class Program;
using SharedProgram = std::shared_ptr<const Program>;

using SlotIndex = uint32_t;  // in Program::slots()
using StepIndex = uint32_t;  // in Program::steps()

enum class SlotKind : uint8_t { kParameter, kConstant, kTemporary, kResult };

struct MYDEV_API Slot {
  std::string name;  // an identifier, which no other slot of the program has
  SlotKind kind = SlotKind::kTemporary;
  bool donated = false;  // of a parameter
  bool on_host = false;  // of a parameter that is not donated, or of a result
  // The elements of the slot, dense and row-major. Views may see its bytes otherwise.
  mydev_dtype dtype = MYDEV_U8;
  std::vector<int64_t> sizes;
  // All bytes of a constant. If it differs between the devices that run the program at the same time, `data` has the
  // bytes of each device, one after the other.
  std::vector<std::byte> data;
  uint32_t devices = 1;  // that have bytes in `data`

  // The bytes of one device. Raises INVALID_ARGUMENT for a device that has none.
  std::span<const std::byte> data_of(uint32_t device) const;

  uint64_t bytes() const noexcept;
};

// An operand or a result of a step.
struct Operand {
  enum Kind : uint8_t {
    kView,    // elements of a slot
    kNumber,  // one number, MYDEV_BUFFER_SCALAR; of `sizes`, as far as the kernel cares
    kAbsent   // an optional operand that is not given
  };
  Kind kind = kAbsent;
  SlotIndex slot = 0;
  uint64_t offset = 0;  // of the first element in the slot, in bytes
  mydev_dtype dtype = MYDEV_DTYPE_INVALID;
  std::vector<int64_t> sizes, strides;  // strides in elements, as in mydev_buffer
  mydev_scalar number{};
};

// True if a view has elements. The result of a reduction over no elements has a dimension of size 0 and stride 0, and
// an element there.
MYDEV_API bool has_elements(const Operand& view) noexcept;
// Returns the operand as the buffer that a kernel is given. `memory` is the beginning of its slot, and matters for
// views only. Borrows the operand's sizes, strides and number.
mydev_buffer buffer_of(const Operand& operand, void* memory) noexcept;
// Returns the bytes of the slot that a view touches, [first, second), counted from the slot's beginning; may be
// negative. Empty for operands that are no views or have no elements.
std::pair<int64_t, int64_t> bytes_touched(const Operand& operand) noexcept;

// A copy of attributes, with their names, arrays and dictionaries. Copies of it share it.
class MYDEV_API Attributes {
 public:
  Attributes() = default;
  explicit Attributes(std::span<const mydev_attribute> attributes);
  std::span<const mydev_attribute> get() const noexcept;

 private:
  std::shared_ptr<const mydev_frame> frame_;  // without buffers
};

// Called when the stream comes to the step, with the results' buffers, then the operands': on copies of them if the
// host does not reach the device's memory. It writes all elements of the results. An exception that it throws is the
// step's failure. It must not give work to a device.
using HostFunction = std::function<void(std::span<const mydev_buffer> buffers)>;

// Called when the step is submitted, with the same buffers in the device's memory. It gives the stream the device's
// part of what several devices do together, and waits for the others to come to it, but not for the device.
using CollectiveFunction = std::function<void(Stream& stream, std::span<const mydev_buffer> buffers)>;

enum class StepKind : uint8_t { kLaunch, kCopy, kFill, kHostCall, kCollective, kCall, kFused, kRepeat, kWhile, kIf };

struct Step {
  StepKind kind = StepKind::kLaunch;
  std::string name;  // kLaunch: the kernel; kHostCall, kCollective: what errors call it
  // kCopy: one of each, of the same dtype and sizes. kFill: one result, without gaps. Calls: `operands` for the
  // program's parameters and `results` for its results that are no parameters, each without gaps. The operand of a
  // donated parameter is written.
  std::vector<Operand> results, operands;
  Attributes attributes;                           // kLaunch, in the order of the kernel
  std::shared_ptr<const CompiledLaunch> compiled;  // kLaunch of a kernel that was compiled at run time: compiled_step.h
  std::vector<std::byte> pattern;                  // kFill: 1, 2, 4, 8 or 16 bytes
  std::shared_ptr<const HostFunction> function;    // kHostCall
  std::shared_ptr<const CollectiveFunction> collective;  // kCollective
  SharedProgram program;                                 // calls: what is called; kIf: if the byte is not zero
  std::shared_ptr<const Executable> executable;          // kCall of a program that the device's compiler has compiled
  SharedProgram otherwise;                               // kIf: if it is, or nullptr: then nothing is
  uint64_t count = 0;                                    // kRepeat
  // kRepeat: by how many bytes each operand moves from iteration to iteration; empty: none moves. No operand sees what
  // the same iteration writes through another operand.
  std::vector<int64_t> advances;
  Operand predicate;  // kWhile, kIf: one byte, which the host waits for
  uint32_t lane = 0;
  std::vector<StepIndex> after;  // earlier steps, of other lanes, that it waits for

  int64_t advance(size_t operand) const noexcept { return advances.empty() ? 0 : advances[operand]; }
};

class Program {
 public:
  const std::string& name() const noexcept { return name_; }
  const std::vector<Slot>& slots() const noexcept { return slots_; }
  const std::vector<Step>& steps() const noexcept { return steps_; }
  const std::vector<SlotIndex>& parameters() const noexcept { return parameters_; }  // in the order of a run's
  const std::vector<SlotIndex>& results() const noexcept { return results_; }        // of kind kResult or kParameter
  // The results of kind kResult, in the order of results(). A run is given memory for them.
  const std::vector<SlotIndex>& own_results() const noexcept { return own_results_; }
  bool is_result(SlotIndex slot) const noexcept;

 private:
  friend class ProgramBuilder;
  Program() = default;

  std::string name_;
  std::vector<Slot> slots_;
  std::vector<Step> steps_;
  std::vector<SlotIndex> parameters_, results_, own_results_;
};

// Returns the program and all programs that it calls, each once, and before the programs that call it.
MYDEV_API std::vector<const Program*> programs_of(const Program& program);
const char* step_kind_name(StepKind kind) noexcept;  // as the text has it: "launch", "copy", "fill", "host", ...
// "step 3 of program 'main' (launch mydev.add)", for errors.
std::string describe_step(const Program& program, StepIndex step);

}  // namespace mydev::program
