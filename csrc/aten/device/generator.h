// The device's random state: Philox 4x32-10 behind PyTorch's Generator.
//
// State is (seed, offset): the same pair gives the same numbers on every device. A CPU kernel that falls back draws
// from a CPU generator seeded from the next block, so fallbacks follow the same state. Like all generators, it is not
// thread-safe by itself: hold mutex() while drawing.
//
// Numbers for a stream that captures a graph count from a state in two words of device memory. Each replay writes these
// words anew (begin_capture).
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <vector>

#include "runtime/base/philox.h"
#include "runtime/stream/capture.h"

namespace mydev {

// The beginning of a kernel's numbers: `first`, or, for a captured kernel, `first.offset` blocks behind the state that
// `state` holds. `state` is the kernel's operand of that name.
struct RandomDraw {
  PhiloxState first;
  at::Tensor state;
};

class DeviceGenerator final : public c10::GeneratorImpl {
 public:
  explicit DeviceGenerator(c10::DeviceIndex device, uint64_t seed = c10::default_rng_seed_val);

  void set_current_seed(uint64_t seed) override;  // offset becomes 0
  uint64_t current_seed() const override;
  uint64_t seed() override;                   // draws a non-deterministic seed and uses it
  void set_offset(uint64_t offset) override;  // in 32-bit words, a multiple of 4
  uint64_t get_offset() const override;
  // 16 bytes: seed, offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;
  static c10::DeviceType device_type();

  // The state to draw `blocks` blocks of four 32-bit words with; advances past them.
  RandomDraw reserve(uint64_t blocks);
  // Like reserve(), for callers that cannot read device memory. Raises if the current stream captures; `what` is the
  // error's subject.
  PhiloxState reserve_now(uint64_t blocks, const char* what);

  // Draws for streams of the capture refer to `state`, s64[2] on the device, until end_capture(), which gives the
  // number of blocks that were drawn.
  void begin_capture(const Capture& capture, at::Tensor state);
  uint64_t end_capture(const Capture& capture);

 private:
  DeviceGenerator* clone_impl() const override;
  struct Captured {
    const Capture* capture;
    at::Tensor state;
    uint64_t drawn;  // blocks
  };
  Captured* captured();  // of the current stream's capture, if there is one that draws from here

  PhiloxState state_;
  std::vector<Captured> captures_;
};

// The default generator of a device (index < 0: the current one). Made at first use.
const at::Generator& default_device_generator(c10::DeviceIndex device);
at::Generator make_device_generator(c10::DeviceIndex device);

// The given generator's state to draw with, or the device's default one's; takes the generator's mutex.
RandomDraw reserve_random(const std::optional<at::Generator>& generator, c10::DeviceIndex device, uint64_t blocks);

// A CPU generator seeded from the generator's next block.
at::Generator host_generator(const at::Generator& generator);

}  // namespace mydev
