#include "aten/device/generator.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Utils.h>
#include <ATen/core/GeneratorForPrivateuseone.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <mutex>
#include <utility>

#include "aten/core/device_type.h"
#include "runtime/driver/device.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

DeviceGenerator::DeviceGenerator(c10::DeviceIndex device, uint64_t seed)
    : c10::GeneratorImpl({kDeviceType, device}, c10::DispatchKeySet(kDispatchKey)), state_{seed, 0} {}

void DeviceGenerator::set_current_seed(uint64_t seed) {
  state_ = {seed, 0};
}

uint64_t DeviceGenerator::current_seed() const {
  return state_.seed;
}

uint64_t DeviceGenerator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_.seed;
}

void DeviceGenerator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % 4 == 0, "the offset of a generator on ", device(), " must be a multiple of 4, got ", offset);
  state_.offset = offset / 4;
}

uint64_t DeviceGenerator::get_offset() const {
  return state_.offset * 4;
}

void DeviceGenerator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == sizeof(PhiloxState), "the random state of ", device(), " has ", sizeof(PhiloxState),
              " bytes (seed, offset), but the given one has ", state.numel(),
              "; was it taken from another device type?");
  std::memcpy(&state_, state.data(), sizeof(PhiloxState));
}

c10::intrusive_ptr<c10::TensorImpl> DeviceGenerator::get_state() const {
  at::Tensor state = at::detail::empty_cpu({static_cast<int64_t>(sizeof(PhiloxState))}, at::kByte);
  std::memcpy(state.mutable_data_ptr(), &state_, sizeof(PhiloxState));
  return state.getIntrusivePtr();
}

void DeviceGenerator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& state) {
  const auto other = c10::dynamic_intrusive_pointer_cast<DeviceGenerator>(state);
  TORCH_CHECK(other, "the state of a generator on ", device(), " must come from a generator of the same device type");
  state_ = other->state_;
}

c10::intrusive_ptr<c10::GeneratorImpl> DeviceGenerator::graphsafe_get_state() const {
  return c10::intrusive_ptr<c10::GeneratorImpl>::reclaim(clone_impl());
}

c10::DeviceType DeviceGenerator::device_type() {
  return kDeviceType;
}

DeviceGenerator::Captured* DeviceGenerator::captured() {
  if (C10_LIKELY(captures_.empty())) return nullptr;
  const Capture* current = current_stream(device().index()).capture();
  const auto found = std::find_if(captures_.begin(), captures_.end(),
                                  [&](const Captured& captured) { return captured.capture == current; });
  return found == captures_.end() ? nullptr : &*found;
}

RandomDraw DeviceGenerator::reserve(uint64_t blocks) {
  if (Captured* captured = this->captured()) {
    return {{0, std::exchange(captured->drawn, captured->drawn + blocks)}, captured->state};
  }
  TORCH_CHECK(
      current_stream(device().index()).capture() == nullptr, "this generator of ", device(),
      " cannot be drawn from while the current stream captures a graph; register_generator_state() of the graph "
      "before the capture lets it");
  return {{state_.seed, std::exchange(state_.offset, state_.offset + blocks)}, {}};
}

PhiloxState DeviceGenerator::reserve_now(uint64_t blocks, const char* what) {
  TORCH_CHECK(captured() == nullptr, what, " cannot be captured: the state of the generator of ", device(),
              " is known at each replay only");
  return reserve(blocks).first;
}

void DeviceGenerator::begin_capture(const Capture& capture, at::Tensor state) {
  captures_.push_back({&capture, std::move(state), 0});
}

uint64_t DeviceGenerator::end_capture(const Capture& capture) {
  const auto found = std::find_if(captures_.begin(), captures_.end(),
                                  [&](const Captured& captured) { return captured.capture == &capture; });
  if (found == captures_.end()) return 0;
  const uint64_t drawn = found->drawn;
  captures_.erase(found);
  return drawn;
}

DeviceGenerator* DeviceGenerator::clone_impl() const {
  auto* clone = new DeviceGenerator(device().index(), state_.seed);
  clone->state_ = state_;
  return clone;
}

const at::Generator& default_device_generator(c10::DeviceIndex index) {
  static auto* generators = [] {
    auto* made = new std::vector<at::Generator>;
    for (int i = 0; i < device_count(); ++i) {
      made->push_back(at::make_generator<DeviceGenerator>(static_cast<c10::DeviceIndex>(i)));
    }
    return made;
  }();
  const int device_index = index < 0 ? current_device() : index;
  device(device_index);  // raises for an index that is none
  return (*generators)[static_cast<size_t>(device_index)];
}

at::Generator make_device_generator(c10::DeviceIndex index) {
  const int device_index = index < 0 ? current_device() : index;
  device(device_index);
  return at::make_generator<DeviceGenerator>(static_cast<c10::DeviceIndex>(device_index));
}

RandomDraw reserve_random(const std::optional<at::Generator>& generator, c10::DeviceIndex device_index,
                          uint64_t blocks) {
  auto* impl = at::get_generator_or_default<DeviceGenerator>(generator, default_device_generator(device_index));
  std::lock_guard<std::mutex> lock(impl->mutex_);
  return impl->reserve(blocks);
}

at::Generator host_generator(const at::Generator& generator) {
  auto* impl = at::check_generator<DeviceGenerator>(generator);
  const PhiloxState state = [&] {
    const std::lock_guard<std::mutex> lock(impl->mutex_);
    return impl->reserve_now(1, "drawing random numbers on the CPU");
  }();
  const std::array<uint32_t, 4> words = philox4x32_10(state.seed, state.offset);
  return at::detail::createCPUGenerator(uint64_t{words[0]} | uint64_t{words[1]} << 32);
}

}  // namespace mydev
