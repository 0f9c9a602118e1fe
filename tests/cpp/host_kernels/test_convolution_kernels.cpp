// The convolution kernels against plain loops: 1, 2 and 3 dimensions, both dense orders, groups, strides, dilation,
// transposed, with and without bias, forward and both gradients. Other dtypes are compared with f32.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <string>
#include <vector>

#include "conform/kernels/planned_launch.h"
#include "for_each_index.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/command/launch.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {
namespace {

// A dense f32 tensor in one of the two orders, filled with small reproducible numbers.
class Tensor {
 public:
  Tensor(Sizes sizes, bool channels_last, uint32_t seed) : sizes_(std::move(sizes)), strides_(sizes_.size()) {
    int64_t stride = 1;
    if (channels_last) {
      strides_[1] = 1;
      stride = sizes_[1];
    }
    for (size_t i = sizes_.size(); i-- > 0;) {
      if (i == 1 && channels_last) continue;
      strides_[i] = stride;
      stride *= sizes_[i];
    }
    storage_.resize(static_cast<size_t>(stride));
    for (float& value : storage_) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int32_t>(seed >> 16) % 17 - 8) / 8;
    }
  }
  float& operator[](const Sizes& index) {
    int64_t offset = 0;
    for (size_t i = 0; i < index.size(); ++i) offset += index[i] * strides_[i];
    return storage_[static_cast<size_t>(offset)];
  }
  mydev_buffer buffer() {
    return {storage_.data(), sizes_.data(), strides_.data(), static_cast<int32_t>(sizes_.size()), MYDEV_F32};
  }
  const Sizes& sizes() const { return sizes_; }
  const Sizes& strides() const { return strides_; }
  std::vector<float>& storage() { return storage_; }
  const std::vector<float>& storage() const { return storage_; }

 private:
  Sizes sizes_, strides_;
  std::vector<float> storage_;
};

struct Case {
  const char* name;
  Sizes x, weight;  // [N, C, ...], [O, C / groups, ...] or transposed [C, O / groups, ...]
  Sizes stride, padding, dilation;
  bool transposed = false;
  Sizes output_padding;
  int64_t groups = 1;

  int64_t out_channels() const { return transposed ? weight[1] * groups : weight[0]; }
  Sizes out() const {
    Sizes sizes = {x[0], out_channels()};
    for (size_t i = 0; i < stride.size(); ++i) {
      const int64_t span = (weight[i + 2] - 1) * dilation[i] + 1;
      sizes.push_back(transposed ? (x[i + 2] - 1) * stride[i] - 2 * padding[i] + span + output_padding[i]
                                 : (x[i + 2] + 2 * padding[i] - span) / stride[i] + 1);
    }
    return sizes;
  }
  // Calls body(x index, weight index, out index) for each product that the convolution sums.
  template <typename Body>
  void for_each_product(const Body& body) const {
    // of the untransposed convolution: transposed, the roles of x and out change places
    const Sizes source = transposed ? out() : x, destination = transposed ? x : out();
    const int64_t source_group = source[1] / groups, destination_group = destination[1] / groups;
    for_each_index(destination, [&](const Sizes& to) {
      Sizes kernel = weight;
      kernel[0] = 1;
      for_each_index(kernel, [&](const Sizes& k) {
        Sizes from = {to[0], to[1] / destination_group * source_group + k[1]}, at = k;
        at[0] = to[1];
        for (size_t i = 0; i < stride.size(); ++i) {
          from.push_back(to[i + 2] * stride[i] - padding[i] + k[i + 2] * dilation[i]);
          if (from.back() < 0 || from.back() >= source[i + 2]) return;
        }
        if (transposed) {
          body(to, at, from);
        } else {
          body(from, at, to);
        }
      });
    });
  }
  std::vector<mydev_attribute> attributes() const {
    return {int_array_attribute("stride", stride),
            int_array_attribute("padding", padding),
            int_array_attribute("dilation", dilation),
            bool_attribute("transposed", transposed),
            int_array_attribute("output_padding", output_padding),
            int_attribute("groups", groups)};
  }
};

mydev_code run_kernel(const char* name, const std::vector<mydev_buffer>& buffers, uint32_t outputs,
                      const std::vector<mydev_attribute>& attributes) {
  const mydev_kernel* kernel = find_kernel(name);
  mydev_frame frame = make_frame(buffers, outputs, attributes);
  return run_record(*kernel, frame);
}

void expect_equal(Tensor& actual, Tensor& expected) {
  for_each_index(actual.sizes(), [&](const Sizes& index) {
    ASSERT_NEAR(actual[index], expected[index], 1e-4 + 1e-5 * std::abs(expected[index]))
        << "at " << testing::PrintToString(index);
  });
}

// A tensor in another dtype, laid out alike; its numbers are eighths, which become integers.
template <typename T>
class Converted {
 public:
  Converted(const Tensor& from, mydev_dtype dtype) : from_(from), dtype_(dtype) {
    for (const float value : from.storage()) storage_.push_back(static_cast<T>(value * 8));
  }
  mydev_buffer buffer() {
    return {storage_.data(),
            from_.sizes().data(),
            from_.strides().data(),
            static_cast<int32_t>(from_.sizes().size()),
            static_cast<int16_t>(dtype_),
            0};
  }
  // `scale`: times what.
  void expect_equal(const Tensor& expected, double scale) const {
    for (size_t i = 0; i < storage_.size(); ++i) {
      const double number = std::round(expected.storage()[i] * scale);
      T wanted;
      if constexpr (std::is_integral_v<T>) {
        wanted = static_cast<T>(static_cast<int64_t>(number));  // wraps around
      } else {
        wanted = static_cast<T>(number);
      }
      ASSERT_EQ(storage_[i], wanted) << dtype_name(dtype_) << ", element " << i;
    }
  }

 private:
  const Tensor& from_;
  mydev_dtype dtype_;
  std::vector<T> storage_;
};

void clear(Tensor& tensor) {
  for_each_index(tensor.sizes(), [&](const Sizes& index) { tensor[index] = 0; });
}

const Case kCases[] = {
    {"digits", {4, 1, 8, 8}, {16, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}},
    {"wide", {2, 16, 9, 7}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}},
    {"strided", {2, 5, 11, 9}, {7, 5, 3, 2}, {2, 3}, {1, 0}, {1, 1}, false, {0, 0}},
    {"dilated", {2, 4, 12, 12}, {6, 4, 3, 3}, {1, 2}, {2, 3}, {2, 3}, false, {0, 0}},
    {"whole", {8, 6, 2, 3}, {5, 6, 2, 3}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}},
    {"wholeimage", {1, 6, 2, 3}, {5, 6, 2, 3}, {2, 2}, {0, 0}, {1, 1}, false, {0, 0}},
    {"pointwise", {2, 24, 5, 5}, {40, 24, 1, 1}, {1, 1}, {0, 0}, {1, 1}, false, {0, 0}},
    {"pointwisetransposed", {2, 24, 5, 5}, {24, 40, 1, 1}, {1, 1}, {0, 0}, {1, 1}, true, {0, 0}},
    {"grouped", {2, 8, 6, 6}, {12, 2, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 4},
    {"depthwise", {2, 20, 6, 6}, {20, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 20},
    {"depthmultiplier", {2, 6, 6, 6}, {12, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 6},
    {"depthwisewide", {2, 3, 5, 29}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}, 3},
    {"depthwisewidestrided", {2, 3, 19, 53}, {3, 1, 3, 3}, {3, 2}, {0, 2}, {1, 1}, false, {0, 0}, 3},
    {"depthwisewidepadded", {1, 3, 2, 1}, {3, 1, 3, 3}, {1, 1}, {4, 14}, {1, 1}, false, {0, 0}, 3},
    {"depthwisewidepaddedstrided", {1, 3, 1, 2}, {3, 1, 3, 3}, {2, 2}, {3, 27}, {1, 1}, false, {0, 0}, 3},
    {"line", {3, 4, 17}, {8, 4, 5}, {2}, {2}, {1}, false, {0}},
    {"volume", {2, 3, 5, 6, 4}, {4, 3, 3, 3, 2}, {1, 2, 1}, {1, 1, 0}, {1, 1, 1}, false, {0, 0, 0}},
    {"transposed", {2, 6, 5, 4}, {6, 8, 3, 3}, {2, 2}, {1, 1}, {1, 1}, true, {1, 0}},
    {"transposedgrouped", {2, 6, 5, 5}, {6, 2, 3, 3}, {1, 2}, {0, 1}, {2, 1}, true, {0, 1}, 3},
    {"transposedline", {2, 4, 6}, {4, 3, 4}, {3}, {1}, {1}, true, {2}},
    {"transposedvolume", {1, 3, 3, 3, 3}, {3, 2, 2, 3, 2}, {2, 1, 2}, {0, 1, 0}, {1, 1, 1}, true, {0, 0, 1}},
};

using Parameter = std::tuple<Case, bool>;

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.name;
}

class Convolution : public testing::TestWithParam<Parameter> {
 protected:
  const Case& c() const { return std::get<0>(GetParam()); }
  bool channels_last() const { return std::get<1>(GetParam()); }
};

TEST_P(Convolution, ForwardAgreesWithPlainLoops) {
  Tensor x(c().x, channels_last(), 1), weight(c().weight, false, 2), out(c().out(), channels_last(), 3);
  Tensor bias({c().out_channels()}, false, 4), expected(c().out(), false, 0);
  for_each_index(expected.sizes(), [&](const Sizes& index) { expected[index] = bias[{index[1]}]; });
  c().for_each_product(
      [&](const Sizes& from, const Sizes& at, const Sizes& to) { expected[to] += x[from] * weight[at]; });
  ASSERT_EQ(
      run_kernel("mydev.convolution", {out.buffer(), x.buffer(), weight.buffer(), bias.buffer()}, 1, c().attributes()),
      MYDEV_OK);
  expect_equal(out, expected);
}

TEST_P(Convolution, ForwardWorksWithoutBias) {
  Tensor x(c().x, channels_last(), 1), weight(c().weight, channels_last(), 2), out(c().out(), channels_last(), 3);
  Tensor expected(c().out(), false, 0);
  clear(expected);
  c().for_each_product(
      [&](const Sizes& from, const Sizes& at, const Sizes& to) { expected[to] += x[from] * weight[at]; });
  ASSERT_EQ(run_kernel("mydev.convolution", {out.buffer(), x.buffer(), weight.buffer()}, 1, c().attributes()),
            MYDEV_OK);
  expect_equal(out, expected);
}

TEST_P(Convolution, DataGradientAgreesWithPlainLoops) {
  Tensor grad_x(c().x, channels_last(), 1), weight(c().weight, false, 2), grad_out(c().out(), channels_last(), 3);
  Tensor expected(c().x, false, 0);
  clear(expected);
  c().for_each_product(
      [&](const Sizes& from, const Sizes& at, const Sizes& to) { expected[from] += grad_out[to] * weight[at]; });
  ASSERT_EQ(run_kernel("mydev.convolution_backward_data", {grad_x.buffer(), grad_out.buffer(), weight.buffer()}, 1,
                       c().attributes()),
            MYDEV_OK);
  expect_equal(grad_x, expected);
}

TEST_P(Convolution, WeightAndBiasGradientsAgreeWithPlainLoops) {
  Tensor x(c().x, channels_last(), 1), grad_weight(c().weight, false, 2), grad_out(c().out(), channels_last(), 3);
  Tensor grad_bias({c().out_channels()}, false, 4), expected(c().weight, false, 0), expected_bias(grad_bias);
  clear(expected);
  clear(expected_bias);
  for_each_index(grad_out.sizes(), [&](const Sizes& to) { expected_bias[{to[1]}] += grad_out[to]; });
  c().for_each_product(
      [&](const Sizes& from, const Sizes& at, const Sizes& to) { expected[at] += grad_out[to] * x[from]; });
  if (c().transposed) {  // whose bias gradient the kernel leaves to a sum
    ASSERT_EQ(run_kernel("mydev.convolution_backward_weights", {grad_weight.buffer(), grad_out.buffer(), x.buffer()}, 1,
                         c().attributes()),
              MYDEV_OK);
    expect_equal(grad_weight, expected);
    EXPECT_EQ(
        run_kernel("mydev.convolution_backward_weights",
                   {grad_weight.buffer(), grad_bias.buffer(), grad_out.buffer(), x.buffer()}, 2, c().attributes()),
        MYDEV_INVALID_ARGUMENT);
    return;
  }
  ASSERT_EQ(run_kernel("mydev.convolution_backward_weights",
                       {grad_weight.buffer(), grad_bias.buffer(), grad_out.buffer(), x.buffer()}, 2, c().attributes()),
            MYDEV_OK);
  expect_equal(grad_weight, expected);
  expect_equal(grad_bias, expected_bias);
}

// The forward convolution of T into R, and the gradients in R.
template <typename T, typename R>
void expect_same_in(const Case& c, bool channels_last, mydev_dtype dtype, mydev_dtype wide) {
  Tensor x(c.x, channels_last, 1), weight(c.weight, channels_last, 2), out(c.out(), channels_last, 3);
  Tensor bias({c.out_channels()}, false, 4), grad_x(c.x, channels_last, 5), grad_weight(c.weight, false, 6);
  Tensor grad_out(out), grad_bias(bias);
  const auto attributes = c.attributes();
  const bool biased = !c.transposed;
  const auto run = [&](const char* name, const std::vector<mydev_buffer>& buffers, uint32_t outputs) {
    ASSERT_EQ(run_kernel(name, buffers, outputs, attributes), MYDEV_OK);
  };
  Converted<T> narrow_x(x, dtype), narrow_weight(weight, dtype);
  Converted<R> wide_x(x, wide), wide_weight(weight, wide), wide_out(out, wide), wide_bias(bias, wide),
      wide_grad(grad_out, wide), wide_grad_x(grad_x, wide), wide_grad_weight(grad_weight, wide),
      wide_grad_bias(grad_bias, wide);
  for (float& value : bias.storage()) value /= 8;  // as the products of eighths
  run("mydev.convolution", {out.buffer(), x.buffer(), weight.buffer(), bias.buffer()}, 1);
  run("mydev.convolution", {wide_out.buffer(), narrow_x.buffer(), narrow_weight.buffer(), wide_bias.buffer()}, 1);
  wide_out.expect_equal(out, 64);
  run("mydev.convolution_backward_data", {grad_x.buffer(), grad_out.buffer(), weight.buffer()}, 1);
  run("mydev.convolution_backward_data", {wide_grad_x.buffer(), wide_grad.buffer(), wide_weight.buffer()}, 1);
  wide_grad_x.expect_equal(grad_x, 64);
  std::vector<mydev_buffer> buffers = {grad_weight.buffer(), grad_bias.buffer(), grad_out.buffer(), x.buffer()};
  std::vector<mydev_buffer> wide_buffers = {wide_grad_weight.buffer(), wide_grad_bias.buffer(), wide_grad.buffer(),
                                            wide_x.buffer()};
  for (auto* list : {&buffers, &wide_buffers}) {
    if (!biased) list->erase(list->begin() + 1);
    run("mydev.convolution_backward_weights", *list, biased ? 2 : 1);
  }
  wide_grad_weight.expect_equal(grad_weight, 64);
  if (biased) wide_grad_bias.expect_equal(grad_bias, 8);
}

TEST_P(Convolution, OtherDtypesAgreeWithSinglePrecision) {
  expect_same_in<double, double>(c(), channels_last(), MYDEV_F64, MYDEV_F64);
  expect_same_in<int8_t, int32_t>(c(), channels_last(), MYDEV_S8, MYDEV_S32);
  expect_same_in<int64_t, int64_t>(c(), channels_last(), MYDEV_S64, MYDEV_S64);
  expect_same_in<int8_t, int8_t>(c(), channels_last(), MYDEV_S8, MYDEV_S8);  // which wrap around
  expect_same_in<std::complex<float>, std::complex<float>>(c(), channels_last(), MYDEV_C64, MYDEV_C64);
  expect_same_in<std::complex<double>, std::complex<double>>(c(), channels_last(), MYDEV_C128, MYDEV_C128);
}

TEST_P(Convolution, ComputesTheSameWithConstantWeights) {
  Tensor x(c().x, channels_last(), 1), weight(c().weight, false, 2), out(c().out(), channels_last(), 3);
  const auto attributes = c().attributes();
  Tensor expected(out), grad_x(x), expected_grad_x(x);
  const auto expect_same = [&](const char* name, Tensor& result, Tensor& wanted, Tensor& operand) {
    ASSERT_EQ(run_kernel(name, {wanted.buffer(), operand.buffer(), weight.buffer()}, 1, attributes), MYDEV_OK);
    const std::vector<mydev_buffer> buffers = {result.buffer(), operand.buffer(), weight.buffer()};
    mydev_frame frame = make_frame(buffers, 1, attributes);
    const PlannedRecord kept(*find_kernel(name), frame, uint64_t{1} << 2);
    for (int run = 0; run < 2; ++run) {
      clear(result);
      frame = make_frame(buffers, 1, attributes);
      ASSERT_EQ(kept.run(frame), MYDEV_OK);
      expect_equal(result, wanted);
    }
  };
  expect_same("mydev.convolution", out, expected, x);
  expect_same("mydev.convolution_backward_data", grad_x, expected_grad_x, out);
}

INSTANTIATE_TEST_SUITE_P(Cases, Convolution, testing::Combine(testing::ValuesIn(kCases), testing::Bool()),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) +
                                  (std::get<1>(info.param) ? "ChannelsLast" : "ChannelsFirst");
                         });

// Constant weights are read by the first run alone: what is written there afterwards, against the promise, is not seen.
TEST(ConvolutionConstants, AreKeptInTheLayoutOfThePrimitive) {
  const Case& c = kCases[1];
  const auto attributes = c.attributes();
  Tensor x(c.x, false, 1), weight(c.weight, false, 2), out(c.out(), false, 3);
  const std::vector<mydev_buffer> buffers = {out.buffer(), x.buffer(), weight.buffer()};
  mydev_frame frame = make_frame(buffers, 1, attributes);
  const PlannedRecord kept(*find_kernel("mydev.convolution"), frame, uint64_t{1} << 2);
  ASSERT_EQ(kept.run(frame), MYDEV_OK);
  Tensor expected(out);
  clear(weight);
  clear(out);
  frame = make_frame(buffers, 1, attributes);
  ASSERT_EQ(kept.run(frame), MYDEV_OK);
  expect_equal(out, expected);
}

// The kernel chooses Winograd's way for these.
TEST(Winograd, AgreesWithPlainLoopsInBothDirections) {
  const Case c{"windows", {2, 48, 18, 24}, {50, 48, 3, 3}, {1, 1}, {1, 1}, {1, 1}, false, {0, 0}};
  Tensor x(c.x, false, 1), weight(c.weight, false, 2), out(c.out(), false, 4), expected(c.out(), false, 5);
  clear(expected);
  c.for_each_product([&](const Sizes& from, const Sizes& k, const Sizes& to) { expected[to] += x[from] * weight[k]; });
  ASSERT_EQ(run_kernel("mydev.convolution", {out.buffer(), x.buffer(), weight.buffer()}, 1, c.attributes()), MYDEV_OK);
  expect_equal(out, expected);
  Tensor grad_x(c.x, false, 6), expected_grad(c.x, false, 7);
  clear(expected_grad);
  c.for_each_product(
      [&](const Sizes& from, const Sizes& k, const Sizes& to) { expected_grad[from] += out[to] * weight[k]; });
  ASSERT_EQ(run_kernel("mydev.convolution_backward_data", {grad_x.buffer(), out.buffer(), weight.buffer()}, 1,
                       c.attributes()),
            MYDEV_OK);
  for_each_index(
      c.x, [&](const Sizes& at) { ASSERT_NEAR(grad_x[at], expected_grad[at], 2e-3) << testing::PrintToString(at); });
}

TEST(ConvolutionErrors, RefusesSizesThatDoNotFit) {
  const Case c = kCases[0];
  Tensor x(c.x, false, 1), weight(c.weight, false, 2), out({4, 16, 7, 8}, false, 3);
  EXPECT_EQ(run_kernel("mydev.convolution", {out.buffer(), x.buffer(), weight.buffer()}, 1, c.attributes()),
            MYDEV_INVALID_ARGUMENT);
}

TEST(ConvolutionErrors, RefusesDtypesThatDoNotFitTogetherAndThatNoContractHas) {
  const Case c = kCases[0];
  Tensor x(c.x, false, 1), weight(c.weight, false, 2), out(c.out(), false, 3);
  std::vector<mydev_buffer> buffers = {out.buffer(), x.buffer(), weight.buffer()};
  buffers[2].dtype = MYDEV_BF16;
  EXPECT_EQ(run_kernel("mydev.convolution", buffers, 1, c.attributes()), MYDEV_INVALID_ARGUMENT);
  for (mydev_buffer& buffer : buffers) buffer.dtype = MYDEV_PRED;
  EXPECT_EQ(run_kernel("mydev.convolution", buffers, 1, c.attributes()), MYDEV_UNIMPLEMENTED);
}

TEST(ConvolutionErrors, HasNothingToDoForAnEmptyResult) {
  Case c = kCases[0];
  c.x[0] = 0;
  Tensor x(c.x, false, 1), weight(c.weight, false, 2), out(c.out(), false, 3);
  EXPECT_EQ(run_kernel("mydev.convolution", {out.buffer(), x.buffer(), weight.buffer()}, 1, c.attributes()), MYDEV_OK);
}

}  // namespace
}  // namespace mydev::kernels
