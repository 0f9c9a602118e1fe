// The kernels' language: what kernels that are made for a device's compiler are written in. docs/kernel-language.md is
// its description.
//
// A dialect is a table of spellings, a text of definitions that each source begins with (the .inc files here). The
// properties of a device's compiler decide the sizes of groups, and some definitions. Whoever writes kernels reads the
// language here: torch.compile's generator and the portable kernels (csrc/device_kernels). Thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "mydev/driver_extensions.h"
#include "runtime/base/api.h"
#include "runtime/driver/device.h"

namespace mydev {

// A dialect: for devices of which nothing is known, or for one device.
struct MYDEV_API KernelLanguage {
  std::string name;   // that drivers give the dialect: "c++", "opencl-c", "cuda-c"
  std::string text;   // of the dialect
  uint32_t elements;  // of a group, without reductions
  uint32_t block;     // results of a group whose threads each reduce alone
  uint32_t lanes;     // threads of a group that reduces together; a power of two
  bool loops;         // a group is a loop, of one thread
  std::array<uint32_t, 2> groups = {UINT32_MAX, UINT32_MAX};  // of a launch, at most, in two dimensions
  bool offsets = false;                                       // a buffer is a base and an offset in bytes
  bool fault_word = false;
  bool f64 = true;
  bool atomic_f32 = true;
  bool atomic_s64 = true;
  bool scalar_math = false;
  bool gpu = false;  // many threads run at once, in step, in groups of 256 or more

  // The beginning of each source.
  std::string source() const;
  // The dialect for a device whose compiler has these properties.
  KernelLanguage fitted(const mydev_compiler_properties& properties) const;
  // Threads of a group of so many elements, block or lanes.
  uint32_t threads(uint32_t size) const noexcept { return loops ? 1 : size; }
  // At least so many groups, 1 or more, in two dimensions where one has not room: kernels pass over those that are
  // more. Raises INVALID_ARGUMENT if the device cannot run so many.
  std::array<uint32_t, 3> grid(uint64_t wanted) const;
};

// All dialects.
MYDEV_API std::span<const KernelLanguage> kernel_languages();
// The best dialect of the device's compiler, for its properties; nullptr if it has no compiler, or one for languages
// that are not here. Lives as long as the process. Raises the driver's failure.
MYDEV_API const KernelLanguage* kernel_language(const Device& device);

}  // namespace mydev
