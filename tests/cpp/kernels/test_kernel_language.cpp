// The kernels' language: sizes of groups and grids for the properties of a device's compiler.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "error_fixture.h"
#include "kernels/language/kernel_language.h"

namespace mydev {
namespace {

mydev_compiler_properties usual() {
  return {.struct_size = sizeof(mydev_compiler_properties),
          .max_group = {1024, 1024, 64},
          .max_group_threads = 1024,
          .max_grid = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
          .features = MYDEV_COMPILER_F64 | MYDEV_COMPILER_ATOMIC_F32 | MYDEV_COMPILER_ATOMIC_S64};
}

const KernelLanguage& dialect(const std::string& name) {
  return *std::ranges::find(kernel_languages(), name, &KernelLanguage::name);
}

struct Sizes {
  uint32_t preferred, subgroup, most;
  uint32_t elements, lanes;
};

TEST(KernelLanguage, GroupsAreAsTheDevicePrefers) {
  constexpr std::array kCases = {
      Sizes{0, 0, 1024, 64, 64},  Sizes{256, 0, 1024, 256, 256}, Sizes{1024, 0, 1024, 1024, 256},
      Sizes{96, 0, 1024, 64, 64}, Sizes{0, 128, 1024, 128, 128}, Sizes{0, 0, 32, 32, 32},
      Sizes{0, 1, 1, 1, 1}};
  for (const Sizes& sizes : kCases) {
    mydev_compiler_properties properties = usual();
    properties.preferred_group_threads = sizes.preferred;
    properties.subgroup_size = sizes.subgroup;
    properties.max_group_threads = sizes.most;
    const KernelLanguage fitted = dialect("opencl-c").fitted(properties);
    EXPECT_EQ(fitted.elements, sizes.elements);
    EXPECT_EQ(fitted.block, sizes.elements);
    EXPECT_EQ(fitted.lanes, sizes.lanes);
    const std::string text = "ELEMENTS = " + std::to_string(sizes.elements) +
                             ", BLOCK = " + std::to_string(sizes.elements) + ", LANES = " + std::to_string(sizes.lanes);
    EXPECT_NE(fitted.source().find(text), std::string::npos);
  }
}

TEST(KernelLanguage, GroupsThatAreLoopsStayAsTheyAre) {
  mydev_compiler_properties properties = usual();
  properties.preferred_group_threads = 8;
  const KernelLanguage fitted = dialect("c++").fitted(properties);
  EXPECT_EQ(fitted.elements, dialect("c++").elements);
  EXPECT_EQ(fitted.lanes, dialect("c++").lanes);
  EXPECT_EQ(fitted.threads(fitted.elements), 1U);
}

TEST(KernelLanguage, AGpuRunsLargeGroupsInStep) {
  struct Case {
    const char* name;
    uint32_t subgroup, most;
    uint64_t features;
    bool gpu;
  };
  constexpr std::array kCases = {
      Case{"cuda-c", 32, 1024, 0, true},
      Case{"opencl-c", 0, 1024, 0, true},
      Case{"opencl-c", 0, 4096, MYDEV_COMPILER_SCALAR_MATH, false},
      Case{"opencl-c", 16, 1024, MYDEV_COMPILER_SCALAR_MATH, true},
      Case{"cuda-c", 1, 1024, 0, false},
      Case{"cuda-c", 32, 128, 0, false},
      Case{"c++", 32, 1024, 0, false},
  };
  for (const Case& device : kCases) {
    mydev_compiler_properties properties = usual();
    properties.subgroup_size = device.subgroup;
    properties.max_group_threads = device.most;
    properties.features |= device.features;
    EXPECT_EQ(dialect(device.name).fitted(properties).gpu, device.gpu) << device.name << " " << device.subgroup;
  }
}

TEST(KernelLanguage, FeaturesAreWordsOfTheSource) {
  mydev_compiler_properties properties = usual();
  properties.features = MYDEV_COMPILER_SCALAR_MATH;
  properties.parameters = MYDEV_PARAMETERS_BASE_AND_OFFSET;
  properties.fault_word = 1;
  const std::string source = dialect("opencl-c").fitted(properties).source();
  for (const char* word : {"BASE_AND_OFFSET 1", "FAULT_WORD 1", "HAS_F64 0", "HAS_ATOMIC_S64 0", "SCALAR_MATH 1"}) {
    EXPECT_NE(source.find(std::string("#define ") + word + "\n"), std::string::npos) << word;
  }
}

TEST(KernelLanguage, AGridHasRoomForAllGroups) {
  mydev_compiler_properties properties = usual();
  properties.max_grid[0] = properties.max_grid[1] = 10;
  const KernelLanguage fitted = dialect("opencl-c").fitted(properties);
  using Grid = std::array<uint32_t, 3>;
  EXPECT_EQ(fitted.grid(1), (Grid{1, 1, 1}));
  EXPECT_EQ(fitted.grid(10), (Grid{10, 1, 1}));
  EXPECT_EQ(fitted.grid(11), (Grid{6, 2, 1}));
  EXPECT_EQ(fitted.grid(95), (Grid{10, 10, 1}));
  EXPECT_EQ(fitted.grid(100), (Grid{10, 10, 1}));
  expect_error(error_of([&] { fitted.grid(101); }), MYDEV_INVALID_ARGUMENT,
               "needs 101 groups, and the device runs 10 x 10");
}

}  // namespace
}  // namespace mydev
