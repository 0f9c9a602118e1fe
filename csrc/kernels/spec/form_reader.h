// Reading the attributes of kernels whose body is data. Whoever calls such a kernel may have made them: each number is
// checked before anything is computed with it. Functions throw Error: INVALID_ARGUMENT if the attributes make no sense.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>

#include "mydev/custom_call.h"
#include "runtime/base/api.h"
#include "runtime/base/status.h"

namespace mydev::kernels {

inline constexpr int64_t kNumberBinding = -1, kAbsentBinding = -2;

template <typename... Parts>
void require(bool holds, mydev_code code, const Parts&... parts) {
  if (holds) [[likely]]
    return;
  std::ostringstream text;
  (text << ... << parts);
  throw Error(code, text.str());
}
template <typename... Parts>
void check(bool holds, const Parts&... parts) {
  require(holds, MYDEV_INVALID_ARGUMENT, parts...);
}

MYDEV_API std::span<const mydev_attribute> entries_of(const mydev_attribute& dictionary);
// The entry of that name, which is of that kind.
MYDEV_API const mydev_attribute& find(std::span<const mydev_attribute> attributes, const char* name, int32_t kind);
MYDEV_API std::span<const int64_t> ints_of(std::span<const mydev_attribute> attributes, const char* name);
MYDEV_API mydev_scalar scalar_of(const mydev_attribute& number);
// Refuses what is no dtype of a present operand.
MYDEV_API mydev_dtype dtype_of(int64_t dtype, size_t operand);

MYDEV_API bool is_empty(std::span<const int64_t> sizes);
MYDEV_API int64_t count_of(std::span<const int64_t> sizes);
// The result of a reduction over no elements has a dimension of size 0 and stride 0, and an element there.
MYDEV_API bool has_elements(std::span<const int64_t> sizes, std::span<const int64_t> strides);
// True if the elements lie one behind the other, in order.
MYDEV_API bool is_dense(std::span<const int64_t> sizes, std::span<const int64_t> strides);
MYDEV_API bool is_one_element(std::span<const int64_t> sizes, std::span<const int64_t> strides);
// The bytes from the first element that a view touches to behind the last; nothing if they are no numbers of bytes.
MYDEV_API std::optional<std::pair<int64_t, int64_t>> bytes_reached(std::span<const int64_t> sizes,
                                                                   std::span<const int64_t> strides,
                                                                   int64_t element_bytes, int64_t offset);
// Refuses a step whose operands do not fit the contract of its kernel. Data pointers are not looked at.
MYDEV_API void check_contract(const char* kernel, std::span<const mydev_buffer> buffers, uint32_t num_outputs,
                              std::span<const mydev_attribute> attributes);

}  // namespace mydev::kernels
