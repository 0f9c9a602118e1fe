// Copies between views whose strides differ (copy_strided): in each direction, of elements of each size.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"

namespace mydev::conform {
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

const std::vector<Views>& views() {
  static const std::vector<Views>& table = *new std::vector<Views>{
      {"dense", {4, 3, 5}, {{15, 5, 1}, 60}, {{15, 5, 1}, 60}},
      {"transposed", {4, 3, 5}, {{15, 5, 1}, 60}, {{1, 4, 12}, 60}},
      {"with_gaps", {4, 3, 5}, {{40, 10, 2}, 149}, {{1, 8, 24}, 116}},
      {"broadcast", {4, 3, 5}, {{15, 5, 1}, 60}, {{0, 1, 0}, 3}},
      {"of_one_element", {}, {{}, 1}, {{}, 1}},
      {"of_one_dimension", {7}, {{3}, 19}, {{2}, 13}},
      {"large_and_transposed", {300, 200}, {{200, 1}, 60000}, {{1, 300}, 60000}},
  };
  return table;
}

struct Element {
  const char* name;
  mydev_dtype dtype;
  size_t bytes;
};
constexpr std::array kElements = {Element{"u8", MYDEV_U8, 1}, Element{"bf16", MYDEV_BF16, 2},
                                  Element{"f32", MYDEV_F32, 4}, Element{"s64", MYDEV_S64, 8},
                                  Element{"c128", MYDEV_C128, 16}};

struct Direction {
  const char* name;
  mydev_copy_kind kind;
};
constexpr std::array kDirections = {Direction{"to_device", MYDEV_COPY_HOST_TO_DEVICE},
                                    Direction{"to_host", MYDEV_COPY_DEVICE_TO_HOST},
                                    Direction{"on_device", MYDEV_COPY_DEVICE_TO_DEVICE}};

// Returns the contents of dst after the copy, computed by plain loops.
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

// Returns false where the driver declines the views, which it may.
bool copies_elements_to_their_places(DriverCase& t, mydev_copy_kind kind, const Views& views, const Element& element) {
  Bytes from = pattern_bytes(views.src.span * element.bytes);
  Bytes to(views.dst.span * element.bytes, 0xee);
  Bytes expected = expected_copy(views, element.bytes, to, from);
  const DeviceMemory device_from(t, from.size());
  const DeviceMemory device_to(t, to.size());
  t.upload(t.stream(), device_from, from);
  t.upload(t.stream(), device_to, to);
  const bool from_host = kind == MYDEV_COPY_HOST_TO_DEVICE;
  const bool to_host = kind == MYDEV_COPY_DEVICE_TO_HOST;
  const auto buffer = [&](void* data, const Layout& layout) {
    return mydev_buffer{data,
                        views.sizes.data(),
                        layout.strides.data(),
                        static_cast<int32_t>(views.sizes.size()),
                        static_cast<int16_t>(element.dtype),
                        0};
  };
  const mydev_buffer dst = buffer(to_host ? to.data() : device_to.data(), views.dst);
  const mydev_buffer src = buffer(from_host ? from.data() : device_from.data(), views.src);
  std::string what = std::string("copy_strided of ") + element.name;
  const Bytes before = to;
  const mydev_code code = t.driver().copy_strided(t.stream().handle(), &dst, &src, kind);
  const bool declined = code == MYDEV_UNIMPLEMENTED;
  if (declined) {
    what += ", which was declined,";
    expected = before;
    t.stream().synchronize();  // behind the uploads, which a copy would have waited for
  } else {
    t.must(code, what);
  }
  if (to_host) {
    t.same_bytes(what + ", ordinary memory on return,", to, expected);
    return !declined;
  }
  std::fill(from.begin(), from.end(), 0);  // ordinary host memory may change once the copy has returned
  t.same_bytes(what, t.download(t.stream(), device_to), expected);
  return !declined;
}

}  // namespace

std::vector<Case> strided_copy_cases() {
  std::vector<DriverCaseRow> rows;
  for (const Direction& direction : kDirections) {
    for (const Views& layouts : views()) {
      rows.push_back({std::string("strided_") + direction.name + "_" + layouts.name,
                      "copy_strided puts elements of each size in their places, and writes nothing else",
                      [kind = direction.kind, &layouts](DriverCase& t) {
                        t.needs(t.driver().copy_strided != nullptr, "the driver leaves strided copies to the runtime");
                        bool copied = false;
                        for (const Element& element : kElements) {
                          copied = copies_elements_to_their_places(t, kind, layouts, element) || copied;
                        }
                        t.needs(copied, "the driver declines these views, and has written nothing");
                      }});
    }
  }
  return driver_cases(std::move(rows));
}

}  // namespace mydev::conform
