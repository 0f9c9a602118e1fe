// mydev.copy and mydev.fill, in every instruction set that this processor runs: conversions between all element types,
// layouts against a loop over indices, and the values where conversions are special.
#include <gtest/gtest.h>
#include <array>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "pointwise_fixture.h"

namespace mydev::kernels {
namespace {

// -1.5, 0, 1, 3, 100 as elements of a dtype, written by hand where C++ has no such type.
std::vector<uint8_t> encode(const std::vector<double>& values, mydev_dtype dtype) {
  std::vector<uint8_t> bytes(values.size() * static_cast<size_t>(dtype_size(dtype)));
  uint8_t* p = bytes.data();
  const auto put = [&p](auto element) {
    std::memcpy(p, &element, sizeof(element));
    p += sizeof(element);
  };
  for (const double v : values) {
    const auto f = static_cast<float>(v);
    uint32_t word = 0;
    std::memcpy(&word, &f, sizeof(word));
    switch (dtype) {
      case MYDEV_PRED:
        put(static_cast<uint8_t>(v != 0));
        break;
      case MYDEV_S8:
        put(static_cast<int8_t>(v));
        break;
      case MYDEV_S16:
        put(static_cast<int16_t>(v));
        break;
      case MYDEV_S32:
        put(static_cast<int32_t>(v));
        break;
      case MYDEV_S64:
        put(static_cast<int64_t>(v));
        break;
      case MYDEV_U8:
        put(static_cast<uint8_t>(static_cast<int>(v)));
        break;
      case MYDEV_U16:
        put(static_cast<uint16_t>(static_cast<int>(v)));
        break;
      case MYDEV_U32:
        put(static_cast<uint32_t>(static_cast<int>(v)));
        break;
      case MYDEV_U64:
        put(static_cast<uint64_t>(static_cast<int>(v)));
        break;
      case MYDEV_F16:
        put(static_cast<_Float16>(v));
        break;
      case MYDEV_BF16:
        put(static_cast<uint16_t>(word >> 16));  // the values are exact
        break;
      case MYDEV_F32:
        put(f);
        break;
      case MYDEV_F64:
        put(v);
        break;
      case MYDEV_C64:
        put(f);
        put(0.0f);
        break;
      default:
        put(v);
        put(0.0);
        break;
    }
  }
  return bytes;
}

constexpr mydev_dtype kAllDtypes[] = {MYDEV_PRED, MYDEV_S8,  MYDEV_S16, MYDEV_S32, MYDEV_S64,
                                      MYDEV_U8,   MYDEV_U16, MYDEV_U32, MYDEV_U64, MYDEV_F16,
                                      MYDEV_BF16, MYDEV_F32, MYDEV_F64, MYDEV_C64, MYDEV_C128};

class CopyBetween : public testing::TestWithParam<std::tuple<InstructionSet, mydev_dtype, mydev_dtype>> {};

TEST_P(CopyBetween, ConvertsEachValue) {
  const auto& [isa, from, to] = GetParam();
  const std::vector<double> values = {0, 1, 3, 100, 42, 0, 7};
  auto in = encode(values, from);
  const auto want = encode(from == MYDEV_PRED ? std::vector<double>{0, 1, 1, 1, 1, 0, 1} : values, to);
  std::vector<uint8_t> out(want.size(), 0xee);
  const int64_t size = 7, stride = 1;
  ASSERT_EQ(run_kernel(builtin_kernel("mydev.copy", isa),
                       {{out.data(), &size, &stride, 1, to}, {in.data(), &size, &stride, 1, from}}),
            MYDEV_OK);
  EXPECT_EQ(out, want);
}

INSTANTIATE_TEST_SUITE_P(Copy, CopyBetween,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kAllDtypes),
                                          testing::ValuesIn(kAllDtypes)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + dtype_name(std::get<1>(info.param)) +
                                  "_to_" + dtype_name(std::get<2>(info.param));
                         });

class CopyLayouts : public testing::TestWithParam<std::tuple<InstructionSet, Layout, mydev_dtype>> {};

TEST_P(CopyLayouts, MovesEachElementToItsPlace) {
  const auto& [isa, layout, to] = GetParam();
  auto in = strided<float>(layout.sizes, layout.a, MYDEV_F32, 2);
  const auto check = [&](auto out) {
    auto want = out;
    for (const auto& index : indices_of(layout)) want.at(index) = in.at(index);
    ASSERT_EQ(run_kernel(builtin_kernel("mydev.copy", isa), {out.buffer(), in.buffer()}), MYDEV_OK);
    EXPECT_EQ(out.memory, want.memory);
  };
  if (to == MYDEV_F32) {
    check(strided<float>(layout.sizes, layout.out, to, 1));
  } else {
    check(strided<double>(layout.sizes, layout.out, to, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Copy, CopyLayouts,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kLayouts),
                                          testing::Values(MYDEV_F32, MYDEV_F64)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + std::get<1>(info.param).name + "_to_" +
                                  dtype_name(std::get<2>(info.param));
                         });

class CopyValues : public PerInstructionSet {};
INSTANTIATE_TEST_SUITE_P(Copy, CopyValues, testing::ValuesIn(all_instruction_sets()),
                         [](const auto& info) { return isa_name(info.param); });

TEST_P(CopyValues, CopyAppliesTheLazyBits) {
  auto in = dense<float>({1, 2, 3, -4}, MYDEV_C64);
  in.sizes = {2};
  auto out = dense(std::vector<float>(4), MYDEV_C64);
  out.sizes = {2};
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {out.buffer(), in.buffer()},
                       {bool_attribute("conj", true), bool_attribute("neg", true)}),
            MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<float>{-1, 2, -3, -4}));
}

TEST_P(CopyValues, CopyConjugatesWhatItTransposes) {
  constexpr int64_t kRows = 41, kColumns = 75;
  std::vector<float> values(2 * kRows * kColumns), want(values.size());
  for (int64_t r = 0; r < kRows; ++r) {
    for (int64_t c = 0; c < kColumns; ++c) {
      const auto from = static_cast<size_t>(2 * (c * kRows + r)), to = static_cast<size_t>(2 * (r * kColumns + c));
      values[from] = want[to] = static_cast<float>(from);
      values[from + 1] = static_cast<float>(c);
      want[to + 1] = -static_cast<float>(c);
    }
  }
  std::vector<float> out(values.size());
  const std::array<int64_t, 2> sizes = {kRows, kColumns}, dense = {kColumns, 1}, transposed = {1, kRows};
  ASSERT_EQ(run_kernel(kernel("mydev.copy"),
                       {{out.data(), sizes.data(), dense.data(), 2, MYDEV_C64},
                        {values.data(), sizes.data(), transposed.data(), 2, MYDEV_C64}},
                       {bool_attribute("conj", true), bool_attribute("neg", false)}),
            MYDEV_OK);
  EXPECT_EQ(out, want);
}

TEST_P(CopyValues, CopyNegatesWhatItConverted) {
  auto in = dense<uint8_t>({0, 5, 251}, MYDEV_U8);
  auto out = dense(std::vector<float>(3), MYDEV_F32);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {out.buffer(), in.buffer()},
                       {bool_attribute("conj", false), bool_attribute("neg", true)}),
            MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<float>{-0.0f, -5, -251}));
  EXPECT_TRUE(std::signbit(out.memory[0]));
}

TEST_P(CopyValues, CopyNegatesBfloat16) {
  auto in = dense<uint16_t>({0x3f80, 0xbf80, 0x0000}, MYDEV_BF16);
  auto out = dense(std::vector<uint16_t>(3), MYDEV_BF16);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {out.buffer(), in.buffer()},
                       {bool_attribute("conj", false), bool_attribute("neg", true)}),
            MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint16_t>{0xbf80, 0x3f80, 0x8000}));
}

TEST_P(CopyValues, CopyRefusesToNegateTruths) {
  auto in = dense<uint8_t>({0, 1}, MYDEV_PRED);
  auto out = dense(std::vector<uint8_t>(2), MYDEV_PRED);
  EXPECT_EQ(run_kernel(kernel("mydev.copy"), {out.buffer(), in.buffer()},
                       {bool_attribute("conj", false), bool_attribute("neg", true)}),
            MYDEV_UNIMPLEMENTED);
}

TEST_P(CopyValues, AnyByteButZeroIsTrue) {
  auto in = dense<uint8_t>({0, 1, 2, 255}, MYDEV_PRED);
  auto truths = dense(std::vector<uint8_t>(4), MYDEV_PRED);
  auto numbers = dense(std::vector<float>(4), MYDEV_F32);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {truths.buffer(), in.buffer()}), MYDEV_OK);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {numbers.buffer(), in.buffer()}), MYDEV_OK);
  EXPECT_EQ(truths.memory, (std::vector<uint8_t>{0, 1, 1, 1}));
  EXPECT_EQ(numbers.memory, (std::vector<float>{0, 1, 1, 1}));
}

TEST_P(CopyValues, CopyRoundsEightBitFloatsToNearestEven) {
  const std::vector<float> values = {0.0f, -1.0f, 1.0625f, 1.1875f, 448.0f, 480.0f, 0x1p-9f, 0x1p-16f, kInfinity};
  auto in = dense<float>(values, MYDEV_F32);
  auto e4m3 = dense(std::vector<uint8_t>(values.size()), MYDEV_F8E4M3FN);
  auto e5m2 = dense(std::vector<uint8_t>(values.size()), MYDEV_F8E5M2);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {e4m3.buffer(), in.buffer()}), MYDEV_OK);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {e5m2.buffer(), in.buffer()}), MYDEV_OK);
  EXPECT_EQ(e4m3.memory, (std::vector<uint8_t>{0, 0xB8, 0x38, 0x3A, 0x7E, 0x7E, 0x01, 0x00, 0x7E}));
  EXPECT_EQ(e5m2.memory, (std::vector<uint8_t>{0, 0xBC, 0x3C, 0x3D, 0x5F, 0x60, 0x18, 0x01, 0x7C}));
}

// The copy there and back is the identity on all bytes that are numbers.
TEST_P(CopyValues, CopyOfEightBitFloatsIsExact) {
  for (const auto& [dtype, last] : {std::pair{MYDEV_F8E4M3FN, 0x7E}, std::pair{MYDEV_F8E5M2, 0x7C}}) {
    std::vector<uint8_t> bytes;
    for (int magnitude = 0; magnitude <= last; ++magnitude) {
      bytes.push_back(static_cast<uint8_t>(magnitude));
      bytes.push_back(static_cast<uint8_t>(magnitude | 0x80));
    }
    auto in = dense<uint8_t>(bytes, dtype);
    auto wide = dense(std::vector<float>(bytes.size()), MYDEV_F32);
    auto back = dense(std::vector<uint8_t>(bytes.size()), dtype);
    ASSERT_EQ(run_kernel(kernel("mydev.copy"), {wide.buffer(), in.buffer()}), MYDEV_OK);
    ASSERT_EQ(run_kernel(kernel("mydev.copy"), {back.buffer(), wide.buffer()}), MYDEV_OK);
    EXPECT_EQ(back.memory, bytes);
  }
}

TEST_P(CopyValues, CopyRoundsBfloat16ToNearestEven) {
  auto in = dense<float>({1.00390625f, 1.01171875f, kNan, kInfinity, 3.4e38f}, MYDEV_F32);
  auto out = dense(std::vector<uint16_t>(5), MYDEV_BF16);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {out.buffer(), in.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint16_t>{0x3f80, 0x3f82, 0x7fc0, 0x7f80, 0x7f80}));
}

TEST_P(CopyValues, CopyWrapsNegativeFloatsIntoUnsigned) {
  auto in = dense<float>({-1.5f, 300.0f}, MYDEV_F32);
  auto out = dense(std::vector<uint8_t>(2), MYDEV_U8);
  auto wide = dense(std::vector<uint64_t>(2), MYDEV_U64);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {out.buffer(), in.buffer()}), MYDEV_OK);
  ASSERT_EQ(run_kernel(kernel("mydev.copy"), {wide.buffer(), in.buffer()}), MYDEV_OK);
  EXPECT_EQ(out.memory, (std::vector<uint8_t>{255, 44}));
  EXPECT_EQ(wide.memory, (std::vector<uint64_t>{UINT64_MAX, 300}));
}

class Fill : public testing::TestWithParam<std::tuple<InstructionSet, mydev_dtype>> {};

TEST_P(Fill, WritesTheValueAndNothingBetween) {
  const auto& [isa, dtype] = GetParam();
  const int64_t sizes[] = {3, 5}, strides[] = {16, 2}, size = 48;
  const auto bytes = static_cast<size_t>(dtype_size(dtype));
  std::vector<uint8_t> out(static_cast<size_t>(size) * bytes, 0xee);
  const auto element = encode({3}, dtype);
  auto want = out;
  for (int64_t i = 0; i < 3; ++i) {
    for (int64_t j = 0; j < 5; ++j) {
      std::copy(element.begin(), element.end(), want.begin() + static_cast<int64_t>(bytes) * (i * 16 + j * 2));
    }
  }
  ASSERT_EQ(run_kernel(builtin_kernel("mydev.fill", isa), {{out.data(), sizes, strides, 2, dtype}},
                       {float_attribute("value", 3)}),
            MYDEV_OK);
  EXPECT_EQ(out, want);
}

INSTANTIATE_TEST_SUITE_P(Copy, Fill,
                         testing::Combine(testing::ValuesIn(all_instruction_sets()), testing::ValuesIn(kAllDtypes)),
                         [](const auto& info) {
                           return isa_name(std::get<0>(info.param)) + "_" + dtype_name(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace mydev::kernels
