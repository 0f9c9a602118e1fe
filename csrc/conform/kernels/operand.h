// An operand or a result of a frame under test: a strided tensor in an image of its memory, or one number.
//
// The image is the host's copy of what the device holds: guards before and behind the tensor, and gaps between its
// elements, have a pattern that no kernel may change. A result begins with the pattern everywhere. No result is
// expected to have that value, so elements that are not written are seen.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "conform/kernels/element.h"
#include "kernels/spec/contract.h"
#include "mydev/custom_call.h"

namespace mydev::conform {

using Sizes = std::vector<int64_t>;

size_t element_count(const Sizes& sizes);

struct Operand {
  static constexpr size_t kGuard = 64;  // bytes; a multiple of every element's
  static constexpr unsigned char kPattern = 0x5A;

  const ContractOperand* contract = nullptr;
  size_t position = 0;  // in the list, if it is of one
  bool is_result = false;
  mydev_dtype dtype = MYDEV_DTYPE_INVALID;
  Sizes sizes, strides;
  int64_t offset = 0;  // of the first element, in elements behind the guard
  std::vector<unsigned char> image;
  bool absent = false;
  bool is_number = false;
  mydev_scalar number{};
  int alias = -1;  // of a result: the operand of the frame whose memory it is; its own image is then empty

  std::string name() const;  // "x", "x[1]" of a list
  bool is_reduced() const { return contract->layout == ContractLayout::kReduced; }
  size_t element_size() const;
  size_t count() const;  // of elements, those of stride 0 as often as they appear
  // Whether there is memory to point to: dimensions of stride 0 of a reduction's result may have size 0.
  bool has_elements() const;
  // Returns the position of an element, in bytes from the beginning of the image; `index` counts in row-major order.
  size_t byte_of(size_t index) const;
  size_t first_byte() const { return kGuard + static_cast<size_t>(offset) * element_size(); }
  // Returns an element from the image, or the number. The operand must be no alias.
  Value get(size_t index) const;
  // Makes the image, with the memory that the strides span, filled with the pattern.
  void make_image(int64_t elements);
  // Returns the operand as a kernel sees it, with `memory` in place of the image's first byte.
  mydev_buffer buffer(unsigned char* memory);
  // The places of a result, each once: its sizes with 1 along the dimensions that are reduced.
  Sizes places() const;
};

// Returns the operand in row-major order, without gaps; or as it is if it is packed, since then the order may matter.
// The copy has the elements of `from`, which are in `image`. A result whose old value is not read has the pattern
// instead.
Operand dense_copy(const Operand& from, const std::vector<unsigned char>& image);

}  // namespace mydev::conform
