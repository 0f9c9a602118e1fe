#include "kernels/spec/form_reader.h"

#include <algorithm>
#include <limits>

#include "kernels/spec/contract.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

std::span<const mydev_attribute> entries_of(const mydev_attribute& dictionary) {
  check(dictionary.kind == MYDEV_ATTRIBUTE_DICTIONARY, "'", dictionary.name, "' is no dictionary");
  return {dictionary.value.attributes, dictionary.count};
}

const mydev_attribute& find(std::span<const mydev_attribute> attributes, const char* name, int32_t kind) {
  const auto found = std::ranges::find_if(
      attributes, [&](const mydev_attribute& attribute) { return std::string_view(attribute.name) == name; });
  check(found != attributes.end(), "there is no '", name, "'");
  check(found->kind == kind, "'", name, "' is of another kind of attribute");
  return *found;
}

std::span<const int64_t> ints_of(std::span<const mydev_attribute> attributes, const char* name) {
  const mydev_attribute& found = find(attributes, name, MYDEV_ATTRIBUTE_INT_ARRAY);
  return {found.value.ints, found.count};
}

mydev_scalar scalar_of(const mydev_attribute& number) {
  mydev_scalar scalar{};
  if (number.kind == MYDEV_ATTRIBUTE_FLOAT) {
    scalar.f = number.value.f;
  } else if (number.kind == MYDEV_ATTRIBUTE_COMPLEX) {
    scalar.c[0] = number.value.c[0];
    scalar.c[1] = number.value.c[1];
  } else {
    check(number.kind == MYDEV_ATTRIBUTE_INT || number.kind == MYDEV_ATTRIBUTE_BOOL, "a number is none");
    scalar.i = number.value.i;
  }
  return scalar;
}

mydev_dtype dtype_of(int64_t dtype, size_t operand) {
  const bool is_dtype =
      dtype > 0 && dtype <= std::numeric_limits<int16_t>::max() && dtype_row(static_cast<int32_t>(dtype)).size != 0;
  check(is_dtype, "operand ", operand, " has the dtype ", dtype, ", which is none");
  return static_cast<mydev_dtype>(dtype);
}

bool is_empty(std::span<const int64_t> sizes) {
  return std::ranges::count(sizes, 0) != 0;
}

int64_t count_of(std::span<const int64_t> sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return count;
}

bool is_dense(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  int64_t expected = 1;
  for (size_t d = sizes.size(); d-- > 0; expected *= sizes[d]) {
    if (sizes[d] != 1 && strides[d] != expected) return false;
  }
  return true;
}

bool has_elements(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0 && strides[d] != 0) return false;
  }
  return true;
}

bool is_one_element(std::span<const int64_t> sizes, std::span<const int64_t> strides) {
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] != 1 && strides[d] != 0) return false;
  }
  return true;
}

std::optional<std::pair<int64_t, int64_t>> bytes_reached(std::span<const int64_t> sizes,
                                                         std::span<const int64_t> strides, int64_t element_bytes,
                                                         int64_t offset) {
  int64_t first = 0, last = 0;  // elements
  for (size_t d = 0; d < sizes.size(); ++d) {
    int64_t along = 0;
    if (__builtin_mul_overflow(std::max<int64_t>(sizes[d] - 1, 0), strides[d], &along)) return std::nullopt;
    int64_t& reach = along > 0 ? last : first;
    if (__builtin_add_overflow(reach, along, &reach)) return std::nullopt;
  }
  int64_t begin = 0, end = 0;
  if (__builtin_add_overflow(last, 1, &last) || __builtin_mul_overflow(first, element_bytes, &begin) ||
      __builtin_add_overflow(begin, offset, &begin) || __builtin_mul_overflow(last, element_bytes, &end) ||
      __builtin_add_overflow(end, offset, &end)) {
    return std::nullopt;
  }
  return std::pair(begin, end);
}

void check_contract(const char* kernel, std::span<const mydev_buffer> buffers, uint32_t num_outputs,
                    std::span<const mydev_attribute> attributes) {
  const KernelContract* contract = builtin_contract(kernel);
  if (contract == nullptr) return;
  const std::string why = contract_violation(*contract, make_frame(buffers, num_outputs, attributes));
  check(why.empty(), why);
}

}  // namespace mydev::kernels
