// Portable kernels: built-in kernels that are written in the kernels' language (csrc/kernels/language) and made by the
// compiler of the device that they run on.
//
// A record is one of MYDEV_RUNS_HOST_ENQUEUE. Its plan looks at a frame, writes and compiles the functions that frames
// of that form need, unless there are such already, and decides on their launches. Its entry gives these to the driver.
// A plan declines what the device cannot do, or its compiler does not take: another record then has its turn.
//
// Functions are kept for the process, by device; their modules on disk (runtime/driver/binary_cache.h). Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/language/kernel_language.h"
#include "mydev/custom_call.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"
#include "runtime/driver/kernel_module.h"

namespace mydev::device_kernels {

// The launch of one function.
class Call {
 public:
  // A buffer of the frame, by its place; or scratch, by its first byte.
  struct Memory {
    int32_t buffer = -1;  // -1: scratch
    uint64_t offset = 0;  // in bytes, from the first element of the buffer, or from the beginning of the scratch
  };

  Call(std::shared_ptr<const CompiledKernel> function, const mydev_geometry& geometry)
      : launch_{std::move(function), geometry},
        numbers_(launch_.kernel->attributes().begin(), launch_.kernel->attributes().end()) {}

  // The memory and the numbers of the function's parameters, in their order.
  Call& give(Memory memory) {
    memory_.push_back(memory);
    return *this;
  }
  Call& give(int64_t number) {
    next().value.i = number;
    return *this;
  }
  Call& give_f64(double number) {
    next().value.f = number;
    return *this;
  }

  // Gives the launch to the driver. Raises its failure.
  void enqueue(const mydev_frame& frame, Stream& stream) const;

 private:
  mydev_attribute& next() {
    MYDEV_ASSERT(given_ < numbers_.size());
    return numbers_[given_++];
  }

  CompiledLaunch launch_;
  std::vector<mydev_attribute> numbers_;
  std::vector<Memory> memory_;
  size_t given_ = 0;
};

// The work of a kernel for one form of frame: its launches, in their order.
struct Work {
  std::vector<Call> calls;
  uint64_t scratch_bytes = 0;
  std::atomic<uint64_t>* launches = nullptr;  // of the kernel on its device, which are counted

  // Takes room for so many elements at the end of the scratch.
  Call::Memory take(int64_t count, mydev_dtype dtype);
};

// Declines the frame, unless the condition holds.
template <typename... Text>
void require(bool condition, const Text&... why) {
  MYDEV_CHECK(condition, MYDEV_UNIMPLEMENTED, why...);
}

// A frame that is planned, and the device that it is for.
struct Request {
  Device& device;
  const KernelLanguage& language;
  const mydev_frame& frame;

  const mydev_buffer& buffer(size_t i) const { return frame.buffers[i]; }
};

// How a function is made, the first time that it is asked for.
struct FunctionSource {
  std::function<std::string()> text;  // behind the language
  std::function<KernelParameters()> parameters;
};
// Returns the function of that name, which has a module of its own: one more dtype in it would be as long a wait again
// for a user who asks for one. `key` names it for the process: other text has another key. Declines if the compiler
// does not take the source, which is said once.
std::shared_ptr<const CompiledKernel> function_of(const Request& request, const std::string& key,
                                                  const std::string& name, const FunctionSource& source);

// Geometries of launches with a group, or a thread, for each of so many pieces of work.
mydev_geometry groups(const Request& request, int64_t number);
mydev_geometry rows_of(const Request& request, int64_t rows, int64_t length, uint32_t piece);
// So many groups keep the whole device at work: two for each multiprocessor.
int64_t groups_to_fill(const Device& device) noexcept;
// Returns into how many parts the elements of each result are divided, on GPUs, for work that has so many groups
// without that. Each thread of a part has some elements: all of the part (`threads` is 1) or a share of them. Returns 1
// elsewhere, and where there are groups enough.
int64_t parts_of(const Request& request, int64_t groups, int64_t elements, int64_t threads);

// A record.
class PortableKernel : public mydev_kernel {
 public:
  using Plan = Work (*)(const Request& request);

  // `doc` and `name` are static. `limits`, which may be nullptr, are what of the contract the record takes beyond what
  // others take.
  PortableKernel(const char* kernel, Plan plan_work, const mydev_limits* beyond = nullptr);
  Plan plan_work;
};

}  // namespace mydev::device_kernels
