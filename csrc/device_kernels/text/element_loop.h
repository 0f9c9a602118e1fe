// A loop over the elements of some buffers that share their dimensions, in the kernels' language: a row of elements, in
// pieces, for each group.
//
// A function is made for a form: the number of dimensions, and which buffers have elements side by side along the
// innermost one. Sizes and strides are numbers that each launch gives. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "device_kernels/base/extents.h"
#include "device_kernels/base/portable_kernel.h"
#include "device_kernels/text/function_text.h"

namespace mydev::device_kernels {

class ElementLoop {
 public:
  // `extents`: of the buffers that `names` names, in their order. A piece has so many elements as the language's word
  // `piece` says, ELEMENTS or BLOCK.
  ElementLoop(const Request& request, Extents extents, std::vector<std::string> names, const char* piece = "ELEMENTS");

  // A text that tells functions of this loop from others.
  std::string form() const;
  int64_t count() const noexcept { return extents_.count(); }

  // Declares the loop's numbers.
  void declare(FunctionText& function) const;
  // Gives them to a call.
  void give(Call& call) const;
  mydev_geometry geometry() const;

  // Text: the beginning of the loop over rows, that of the loop over the places of a row, their ends. Between the first
  // two, at_row() of the buffers is known.
  std::string open_rows() const;
  std::string open_places() const;
  std::string close() const;
  // The loop's index type; a name's element, which in a row is the same for all places if is_of_row().
  std::string index_type() const { return is_wide_ ? "index_i64" : "index_i32"; }
  std::string element(size_t buffer) const;
  // The place of the buffer's element, in elements.
  std::string place(size_t buffer) const;
  bool is_of_row(size_t buffer) const noexcept { return inner_[buffer] == '0' && !is_flat_; }

 private:
  std::string size(size_t d) const { return "s" + std::to_string(d); }
  std::string stride(size_t buffer, size_t d) const { return names_[buffer] + "_" + std::to_string(d); }
  std::string count_text(size_t end) const;
  std::string places(const std::string& index, size_t end) const;
  int64_t rows() const;
  int64_t length() const;

  const Request& request_;
  Extents extents_;
  std::vector<std::string> names_;
  std::string piece_;
  std::string inner_;  // a letter for each buffer: elements side by side (1), one for the row (0), another stride (s)
  bool is_flat_;       // each place is taken apart into its dimensions
  bool is_wide_;       // places need 64 bits
};

}  // namespace mydev::device_kernels
