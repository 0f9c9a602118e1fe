// The conformance suite for drivers, continued: copies between views whose strides differ (copy_strided). See
// test_driver_conformance.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <tuple>
#include <vector>

#include "driver_conformance_fixture.h"

namespace mydev::conformance {
namespace {

// Strides in elements, and how many of these the view spans.
struct Layout {
  std::vector<int64_t> strides;
  size_t span;
};

struct Views {
  const char* name;
  std::vector<int64_t> sizes;
  Layout dst, src;
};

const std::array kViews = {
    Views{"dense", {4, 3, 5}, {{15, 5, 1}, 60}, {{15, 5, 1}, 60}},
    Views{"transposed", {4, 3, 5}, {{15, 5, 1}, 60}, {{1, 4, 12}, 60}},
    Views{"with_gaps", {4, 3, 5}, {{40, 10, 2}, 149}, {{1, 8, 24}, 116}},
    Views{"broadcast", {4, 3, 5}, {{15, 5, 1}, 60}, {{0, 1, 0}, 3}},
    Views{"of_one_element", {}, {{}, 1}, {{}, 1}},
    Views{"of_one_dimension", {7}, {{3}, 19}, {{2}, 13}},
    Views{"large_and_transposed", {300, 200}, {{200, 1}, 60000}, {{1, 300}, 60000}},
};

struct Element {
  mydev_dtype dtype;
  size_t bytes;
};
constexpr std::array kElements = {Element{MYDEV_U8, 1}, Element{MYDEV_BF16, 2}, Element{MYDEV_F32, 4},
                                  Element{MYDEV_S64, 8}, Element{MYDEV_C128, 16}};

using Case = std::tuple<mydev_copy_kind, Views, Element>;

std::string case_name(const testing::TestParamInfo<Case>& test) {
  constexpr std::array kKinds = {"to_device_", "to_host_", "on_device_"};
  const auto& [kind, views, element] = test.param;
  return std::string(kKinds[kind]) + views.name + "_" + std::to_string(element.bytes);
}

// What dst holds after the copy, by plain loops.
Bytes expected_copy(const Views& views, size_t element, Bytes dst, const Bytes& src) {
  std::vector<int64_t> index(views.sizes.size(), 0);
  while (true) {
    int64_t to = 0;
    int64_t from = 0;
    for (size_t i = 0; i < index.size(); ++i) {
      to += index[i] * views.dst.strides[i];
      from += index[i] * views.src.strides[i];
    }
    std::memcpy(&dst[static_cast<size_t>(to) * element], &src[static_cast<size_t>(from) * element], element);
    size_t dimension = index.size();
    while (dimension > 0 && ++index[dimension - 1] == views.sizes[dimension - 1]) index[--dimension] = 0;
    if (dimension == 0) return dst;
  }
}

class DriverConformanceStrided : public DriverConformance, public testing::WithParamInterface<Case> {
 protected:
  void SetUp() override {
    DriverConformance::SetUp();
    if (driver().copy_strided == nullptr) {
      GTEST_SKIP() << "the driver leaves strided copies to the runtime";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(Views, DriverConformanceStrided,
                         testing::Combine(testing::Values(MYDEV_COPY_HOST_TO_DEVICE, MYDEV_COPY_DEVICE_TO_HOST,
                                                          MYDEV_COPY_DEVICE_TO_DEVICE),
                                          testing::ValuesIn(kViews), testing::ValuesIn(kElements)),
                         case_name);

TEST_P(DriverConformanceStrided, CopiesElementsToTheirPlaces) {
  const auto& [kind, views, element] = GetParam();
  Bytes from = pattern_bytes(views.src.span * element.bytes);
  Bytes to(views.dst.span * element.bytes, 0xee);
  const Bytes expected = expected_copy(views, element.bytes, to, from);
  const DeviceMemory device_from(from.size());
  const DeviceMemory device_to(to.size());
  upload(stream(), device_from, from);
  upload(stream(), device_to, to);
  const auto rank = static_cast<int32_t>(views.sizes.size());
  const bool from_host = kind == MYDEV_COPY_HOST_TO_DEVICE;
  const bool to_host = kind == MYDEV_COPY_DEVICE_TO_HOST;
  const mydev_buffer dst = {to_host ? to.data() : device_to.data(),
                            views.sizes.data(),
                            views.dst.strides.data(),
                            rank,
                            static_cast<int16_t>(element.dtype),
                            0};
  const mydev_buffer src = {from_host ? from.data() : device_from.data(),
                            views.sizes.data(),
                            views.src.strides.data(),
                            rank,
                            static_cast<int16_t>(element.dtype),
                            0};
  ASSERT_EQ(driver().copy_strided(stream().handle(), &dst, &src, kind), MYDEV_OK) << driver().last_error();
  if (to_host) {
    EXPECT_EQ(to, expected) << "copies to ordinary host memory are done on return";
    return;
  }
  std::fill(from.begin(), from.end(), 0);  // ordinary host memory may change once the copy has returned
  EXPECT_EQ(download(stream(), device_to), expected);
}

}  // namespace
}  // namespace mydev::conformance
