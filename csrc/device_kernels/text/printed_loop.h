// Functions that are printed round a loop over elements: gather, scatter and the like, where an element's own place, or
// a line of elements, is computed in the loop.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "device_kernels/text/element_loop.h"
#include "device_kernels/text/function_text.h"

namespace mydev::device_kernels {

// A buffer that a loop goes through by strides of its own.
class Steps {
 public:
  explicit Steps(std::vector<int64_t> strides) : strides_(std::move(strides)) {}
  // The strides of a buffer from dimension `first` on.
  explicit Steps(const mydev_buffer& buffer, int32_t first = 0)
      : strides_(buffer.strides + first, buffer.strides + buffer.rank) {}
  Steps& set(size_t d, int64_t stride) {
    strides_[d] = stride;
    return *this;
  }
  mydev_buffer buffer() const { return {.strides = strides_.data(), .rank = static_cast<int32_t>(strides_.size())}; }

 private:
  std::vector<int64_t> strides_;
};

// A loop over `sizes`, by the steps of each name.
ElementLoop loop_over(const Request& request, std::span<const int64_t> sizes, const std::vector<std::string>& names,
                      const std::vector<Steps>& steps);

// The launch of the function of that name, which tells all that `body` depends on, but for the loop's form. The
// caller gives memory, the loop's numbers and its own.
Call printed_call(const Request& request, const ElementLoop& loop, const FunctionText& function,
                  const std::string& name, const std::string& body);

// The statement by which an element gets a value, of memory of the dtype: combined by a function of the language,
// "sum", or, if that is "", as it is.
std::string put(const std::string& element, const std::string& value, const std::string& function, mydev_dtype dtype);

}  // namespace mydev::device_kernels
