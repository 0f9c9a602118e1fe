// How the conformance suite compares elements.
#include "conform/kernels/element.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace mydev::conform {
namespace {

bool near(mydev_dtype dtype, uint8_t actual, uint8_t expected) {
  return is_near(dtype, &actual, &expected);
}

TEST(Element, EightBitNansAreTheSameWithEitherSign) {
  EXPECT_TRUE(near(MYDEV_F8E4M3FN, 0x7F, 0xFF));
  EXPECT_TRUE(near(MYDEV_F8E5M2, 0x7F, 0xFD));
  EXPECT_FALSE(near(MYDEV_F8E4M3FN, 0x7E, 0x7F));
  EXPECT_FALSE(near(MYDEV_F8E5M2, 0x7C, 0x7F)) << "an infinity";
  EXPECT_FALSE(near(MYDEV_F8E5M2, 0xFC, 0x7C)) << "infinities have signs";
  EXPECT_FALSE(near(MYDEV_S8, 0x7F, 0xFF)) << "no NaN";
}

}  // namespace
}  // namespace mydev::conform
