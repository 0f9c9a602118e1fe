// Random programs of steps that are fused: they give what their launches give.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fuzz.h"
#include "kernels/registry/kernel_registry.h"
#include "program/transform/fusible_run.h"
#include "program/transform/fusion.h"
#include "program/transform/reshape.h"
#include "program_fixture.h"
#include "runtime/command/launch.h"
#include "runtime/frame/dtype.h"

namespace mydev::program {
namespace {

using Sizes = std::vector<int64_t>;
using Random = std::mt19937;

int64_t below(Random& random, int64_t end) {
  return std::uniform_int_distribution<int64_t>(0, end - 1)(random);
}
template <typename T>
const T& one_of(Random& random, const std::vector<T>& from) {
  return from[static_cast<size_t>(below(random, static_cast<int64_t>(from.size())))];
}

// Launches over one shape, its rows, and what is reduced of them, each time in other dimensions.
class RandomProgram {
 public:
  explicit RandomProgram(Random& random) : random_(random), builder_("p") {
    dtype_ = one_of(random_, std::vector{MYDEV_F32, MYDEV_F32, MYDEV_F64, MYDEV_BF16, MYDEV_F16, MYDEV_S32});
    const std::vector<int64_t> some = {1, 2, 3, 4, 8, 17, 40, 130};
    for (int64_t rank = below(random_, 5); rank > 0; --rank) sizes_.push_back(one_of(random_, some));
    while (count_elements(sizes_) > 200000) sizes_.pop_back();
    if (below(random_, 20) == 0) sizes_.push_back(0);
    reduced_ = static_cast<size_t>(below(random_, static_cast<int64_t>(sizes_.size()) + 1));
    outer_sizes_ = {sizes_.begin(), sizes_.end() - static_cast<std::ptrdiff_t>(reduced_)};
    for (int i = 0; i < 2; ++i) whole_.push_back(builder_.parameter(dtype_, sizes_));
    row_ = builder_.parameter(dtype_, {sizes_.end() - static_cast<std::ptrdiff_t>(reduced_), sizes_.end()});
    column_ = builder_.parameter(dtype_, outer_sizes_);
    for (int64_t steps = 2 + below(random_, 10); steps > 0; --steps) add_step();
    for (const SlotIndex slot : made_) {
      if (slot == made_.back() || below(random_, 4) == 0) builder_.returns(slot);
    }
  }
  SharedProgram build() && { return std::move(builder_).build(); }

 private:
  bool is_floating() const { return dtype_ != MYDEV_S32; }

  // The same elements with neighbouring dimensions merged here and there.
  Operand in_other_dimensions(Operand view) {
    Sizes sizes;
    for (const int64_t size : view.sizes) {
      if (!sizes.empty() && below(random_, 2) == 0) {
        sizes.back() *= size;
      } else {
        sizes.push_back(size);
      }
    }
    view.sizes = sizes;
    view.strides = dense_strides(sizes);
    return view;
  }
  // Returns a view that broadcasts rows or columns over the whole shape.
  Operand broadcast(SlotIndex slot, bool of_row) {
    Operand view = builder_.view(slot);
    const Sizes own = view.strides;
    view.sizes = sizes_;
    view.strides.assign(sizes_.size(), 0);
    std::ranges::copy(own, of_row ? view.strides.end() - static_cast<std::ptrdiff_t>(reduced_) : view.strides.begin());
    return view;
  }
  Operand number(const Sizes& sizes) {
    mydev_scalar value{};
    if (is_floating()) {
      value.f = 0.5;
    } else {
      value.i = 3;
    }
    Operand operand = ProgramBuilder::number(dtype_, value);
    operand.sizes = sizes;
    operand.strides.assign(sizes.size(), 0);
    return operand;
  }

  SlotIndex make(std::vector<SlotIndex>& values, const Sizes& sizes) {
    if (!made_.empty() && below(random_, 6) == 0) {  // over what was there
      const SlotIndex old = one_of(random_, made_);
      if (std::ranges::count(values, old) != 0) return old;
    }
    const SlotIndex slot = builder_.temporary(dtype_, sizes);
    made_.push_back(slot);
    return slot;
  }

  void add_step() {
    switch (below(random_, 6)) {
      case 0:
        return add_reduction();
      case 1:
        return columns_.empty() ? add_reduction() : add_of_columns();
      case 2:
        return add_broadcast();
      default:
        return add_whole();
    }
  }

  void add_pointwise(std::vector<SlotIndex>& values, const Sizes& sizes) {
    const Operand a = in_other_dimensions(builder_.view(one_of(random_, values)));
    Operand b = builder_.view(one_of(random_, values));
    b.sizes = a.sizes;
    b.strides = dense_strides(b.sizes);
    if (below(random_, 4) == 0) b = number(a.sizes);
    Operand result = builder_.view(make(values, sizes));
    result.sizes = a.sizes;
    result.strides = dense_strides(a.sizes);
    if (below(random_, 2) == 0) {
      builder_.launch(
          is_floating() ? one_of(random_, std::vector<const char*>{"mydev.sigmoid", "mydev.relu"}) : "mydev.abs",
          {result}, {a});
    } else {
      builder_.launch(one_of(random_, std::vector<const char*>{"mydev.mul", "mydev.maximum"}), {result}, {a, b});
    }
    note(values, result.slot);
  }
  void add_whole() { add_pointwise(whole_, sizes_); }
  void add_of_columns() { add_pointwise(columns_, outer_sizes_); }

  void add_broadcast() {
    const Operand a = builder_.view(one_of(random_, whole_));
    const bool of_row = columns_.empty() || below(random_, 2) == 0;
    const SlotIndex other = of_row ? row_ : below(random_, 3) == 0 ? column_ : one_of(random_, columns_);
    const Operand b = broadcast(other, of_row);
    const Operand result = builder_.view(make(whole_, sizes_));
    if (below(random_, 2) == 0) {
      const mydev_attribute alpha = is_floating() ? float_attribute("alpha", one_of(random_, std::vector{1.0, 0.3}))
                                                  : int_attribute("alpha", 1 + static_cast<int64_t>(below(random_, 3)));
      builder_.launch("mydev.add", {result}, {a, b}, std::span(&alpha, 1));
    } else {
      builder_.launch("mydev.mul", {result}, {a, b});
    }
    note(whole_, result.slot);
  }

  void add_reduction() {
    const Operand in = builder_.view(one_of(random_, whole_));
    const SlotIndex slot = make(columns_, outer_sizes_);
    note(columns_, slot);
    if (is_floating() && below(random_, 4) == 0) return add_variance(slot, in);
    builder_.launch(one_of(random_, std::vector<const char*>{"mydev.sum", "mydev.amax", "mydev.prod"}),
                    {broadcast(slot, false)}, {in});
  }

  // With its mean, or without.
  void add_variance(SlotIndex slot, const Operand& in) {
    std::array<mydev_attribute, 2> attributes{};
    attributes[0] = {"correction", MYDEV_ATTRIBUTE_FLOAT, 0, 0, {.f = 0.5}};
    attributes[1] = {"take_root", MYDEV_ATTRIBUTE_BOOL, 0, 0, {.i = below(random_, 2)}};
    Operand mean = ProgramBuilder::absent();
    if (below(random_, 2) == 0) {
      const SlotIndex means = builder_.temporary(dtype_, outer_sizes_);
      made_.push_back(means);
      note(columns_, means);
      mean = broadcast(means, false);
    }
    builder_.launch("mydev.variance", {broadcast(slot, false), mean}, {in}, attributes);
  }

  static void note(std::vector<SlotIndex>& values, SlotIndex slot) {
    if (std::ranges::count(values, slot) == 0) values.push_back(slot);
  }

  Random& random_;
  ProgramBuilder builder_;
  mydev_dtype dtype_;
  Sizes sizes_, outer_sizes_;
  size_t reduced_;
  std::vector<SlotIndex> whole_, columns_, made_;
  SlotIndex row_, column_;
};

using Bytes = std::vector<uint8_t>;

Bytes some_elements(Random& random, const Slot& slot) {
  Bytes bytes(slot.bytes());
  const size_t size = dtype_size(slot.dtype);
  for (size_t at = 0; at < bytes.size(); at += size) {
    const float value = static_cast<float>(below(random, 2000)) / 500 - 2;
    uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof(bits));
    const double wide = value;
    const auto whole = static_cast<int32_t>(value * 4);
    const auto upper = static_cast<uint16_t>(bits >> 16);  // of f16 a number too
    switch (slot.dtype) {
      case MYDEV_F64:
        std::memcpy(&bytes[at], &wide, size);
        break;
      case MYDEV_S32:
        std::memcpy(&bytes[at], &whole, size);
        break;
      case MYDEV_F32:
        std::memcpy(&bytes[at], &value, size);
        break;
      default:
        std::memcpy(&bytes[at], &upper, size);
    }
  }
  return bytes;
}

std::vector<Bytes> results_of(const SharedProgram& program, const std::vector<Bytes>& parameters) {
  std::vector<std::unique_ptr<DeviceArray<uint8_t>>> arrays;
  std::vector<Binding> given, results;
  for (const Bytes& bytes : parameters) {
    given.push_back(arrays.emplace_back(std::make_unique<DeviceArray<uint8_t>>(bytes))->binding());
  }
  for (const SlotIndex slot : program->own_results()) {
    const Bytes empty(program->slots()[slot].bytes(), 0xff);
    results.push_back(arrays.emplace_back(std::make_unique<DeviceArray<uint8_t>>(empty))->binding());
  }
  Executor executor = executor_of(program);
  poison(executor.arena());
  executor.run(default_stream(0), given, results);
  std::vector<Bytes> values;
  for (size_t i = given.size(); i < arrays.size(); ++i) values.push_back(arrays[i]->read());
  return values;
}

double element_of(const Bytes& bytes, size_t at, mydev_dtype dtype) {
  const auto read = [&]<typename T>(T value) {
    std::memcpy(&value, &bytes[at], sizeof(value));
    return static_cast<double>(value);
  };
  switch (dtype) {
    case MYDEV_F64:
      return read(double{});
    case MYDEV_S32:
      return read(int32_t{});
    case MYDEV_F32:
      return read(float{});
    case MYDEV_F16:
      return read(_Float16{});
    default: {
      float value = 0;  // of bf16, the upper half
      std::memcpy(reinterpret_cast<uint8_t*>(&value) + 2, &bytes[at], 2);
      return value;
    }
  }
}

void expect_same_results(const SharedProgram& fused, const SharedProgram& program,
                         const std::vector<Bytes>& parameters) {
  const std::vector<Bytes> results = results_of(fused, parameters), expected = results_of(program, parameters);
  if (!fuses_by_compiler()) {
    ASSERT_EQ(results, expected) << print(*fused);
    return;
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const mydev_dtype dtype = program->slots()[program->own_results()[r]].dtype;
    const double tolerance = dtype == MYDEV_S32 ? 0 : dtype == MYDEV_F64 ? 1e-10 : dtype == MYDEV_F32 ? 1e-4 : 0.05;
    for (size_t at = 0; at < results[r].size(); at += static_cast<size_t>(dtype_size(dtype))) {
      const double value = element_of(results[r], at, dtype), wanted = element_of(expected[r], at, dtype);
      ASSERT_TRUE(same_but_for_rounding(value, wanted, tolerance))
          << value << ", not " << wanted << ", of " << dtype_name(dtype) << "\n"
          << print(*fused);
    }
  }
}

Bytes bytes_of(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// A row's first part is of numbers in the middle of the range, and the other of all that there are.
TEST(FusedReductions, DivideByWhatIsTheSameInARow) {
  if (resolve_kernel(device(0), "mydev.fused") == nullptr) GTEST_SKIP() << "needs the kernel mydev.fused";
  const SharedProgram program = parsed(R"(program p(x: f32[300,700], s: f32[300]) -> (y: f32[300,700]) {
  temporary q: f32[300,700]
  q = launch mydev.div(x, s f32[300,700]{1,0})
  y = launch mydev.neg(q)
})");
  constexpr float kEnds[] = {0.0F,    -0.0F, 1e-45F,    -1e-40F,    0x1p-126F, 0x1p-64F,
                             0x1p65F, 3e38F, HUGE_VALF, -HUGE_VALF, NAN};
  Random random(0);
  const auto number = [&](int64_t exponents) {
    const auto mantissa = static_cast<float>((1 << 23) + below(random, 1 << 23)) * (below(random, 2) == 0 ? 1 : -1);
    return std::ldexp(mantissa, static_cast<int>(below(random, exponents) - exponents / 2) - 23);
  };
  std::vector<float> x(size_t{300} * 700), divisors(300);
  for (size_t i = 0; i < x.size(); ++i) x[i] = number(i % 700 < 500 ? 120 : 250);
  for (size_t i = 500; i < x.size(); i += 700) std::ranges::copy(kEnds, &x[i]);
  for (float& divisor : divisors) divisor = number(200);
  std::ranges::copy(kEnds, divisors.begin());
  const std::vector<Bytes> parameters = {bytes_of(x), bytes_of(divisors)};
  expect_same_results(fuse_runs(program), program, parameters);
}

TEST(RandomPrograms, GiveWhatTheirLaunchesGive) {
  if (resolve_kernel(device(0), "mydev.prod") == nullptr) GTEST_SKIP() << "needs the kernel mydev.prod";
  size_t fused_steps = 0;
  fuzz(fuses_by_compiler() ? 8 : 60, 1, [&](Random& random) {
    const SharedProgram program = RandomProgram(random).build(), fused = fuse_runs(program);
    std::vector<Bytes> parameters;
    for (const SlotIndex slot : program->parameters()) {
      parameters.push_back(some_elements(random, program->slots()[slot]));
    }
    fused_steps += program->steps().size() - fused->steps().size();
    expect_same_results(fused, program, parameters);
  });
  EXPECT_GT(fused_steps, 0U);
}

}  // namespace
}  // namespace mydev::program
