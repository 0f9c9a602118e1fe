// main of the test programs: GoogleTest's, with death tests that run in a process started anew. Many of them need one
// in which no driver is loaded yet, and the tests of a program share a process.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
