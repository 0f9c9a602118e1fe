// The table of element types.
#include <gtest/gtest.h>

#include <limits>

#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {
namespace {

TEST(Dtype, NamesAndSizesAreThoseOfTheTable) {
  EXPECT_STREQ(dtype_name(MYDEV_BF16), "bf16");
  EXPECT_EQ(dtype_size(MYDEV_C128), 16);
  EXPECT_STREQ(dtype_name(static_cast<mydev_dtype>(13)), "invalid");  // a gap of the enumeration
  EXPECT_EQ(dtype_size(static_cast<mydev_dtype>(-1)), 0);
}

TEST(Dtype, IsFoundByItsNameInPython) {
  EXPECT_EQ(dtype_of_python_name("float8_e5m2"), MYDEV_F8E5M2);
  EXPECT_EQ(dtype_of_python_name("bool"), MYDEV_PRED);
  EXPECT_EQ(dtype_of_python_name("token"), MYDEV_DTYPE_INVALID);
}

TEST(Dtype, KindsAreDisjoint) {
  EXPECT_EQ(dtypes_of(DtypeKind::kFloat) & dtypes_of(DtypeKind::kNarrowFloat), 0U);
  EXPECT_EQ(dtypes_of(DtypeKind::kComplex), MYDEV_DTYPE_BIT(MYDEV_C64) | MYDEV_DTYPE_BIT(MYDEV_C128));
}

struct Range {
  const char* name;
  mydev_dtype dtype;
  int64_t least, most;
};
class DtypeRange : public testing::TestWithParam<Range> {};
INSTANTIATE_TEST_SUITE_P(
    Dtypes, DtypeRange,
    testing::Values(Range{"pred", MYDEV_PRED, 0, 1}, Range{"s8", MYDEV_S8, -128, 127}, Range{"u8", MYDEV_U8, 0, 255},
                    Range{"s16", MYDEV_S16, -32768, 32767}, Range{"u16", MYDEV_U16, 0, 65535},
                    Range{"s32", MYDEV_S32, std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max()},
                    Range{"u32", MYDEV_U32, 0, std::numeric_limits<uint32_t>::max()}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(DtypeRange, HoldsItsEndsAndNothingBeyond) {
  const Range& range = GetParam();
  EXPECT_TRUE(can_hold(range.dtype, range.least));
  EXPECT_TRUE(can_hold(range.dtype, range.most));
  EXPECT_FALSE(can_hold(range.dtype, range.least - 1));
  EXPECT_FALSE(can_hold(range.dtype, range.most + 1));
}

TEST(Dtype, WidestIntegersHoldWhatTheirSignAllows) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min(), kMost = std::numeric_limits<int64_t>::max();
  EXPECT_TRUE(can_hold(MYDEV_S64, kLeast));
  EXPECT_TRUE(can_hold(MYDEV_U64, kMost));
  EXPECT_FALSE(can_hold(MYDEV_U64, -1));
}

}  // namespace
}  // namespace mydev
