// A loop over results, each of which is reduced from elements. Few results with many elements have a group each, whose
// threads share the elements. Many results with few elements, or with elements that lie side by side for neighbouring
// results, have a thread each, a lane.
//
// part() parts the elements of few long results, on GPUs: each of parts() parts has groups of its own, which leave what
// they have in memory, and a last call adds the parts of a result.
//
// A function is made for a form: the numbers of dimensions, and which buffers have elements side by side along the
// innermost one. Sizes and strides are numbers that each launch gives. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "device_kernels/base/extents.h"
#include "device_kernels/base/portable_kernel.h"
#include "device_kernels/text/function_text.h"

namespace mydev::device_kernels {

class ReductionLoop {
 public:
  // The dimensions of the results, and of the elements of one, in the buffers that `names` names. `first`: the buffer
  // whose elements are reduced first.
  ReductionLoop(const Request& request, Extents outer, Extents reduced, std::vector<std::string> names, size_t first);

  void part();
  bool by_group() const noexcept { return by_group_; }
  int64_t results() const noexcept { return outer_.count(); }
  int64_t elements() const noexcept { return reduced_.count(); }
  int64_t parts() const noexcept { return parts_; }  // 1: they are not parted
  // A text that tells functions of this loop from others.
  std::string form() const;

  // A function goes through the elements of each result, or through those of each part of a result.
  enum class Range { kAll, kPart };

  // Declares the loop's numbers.
  void declare(FunctionText& function) const;
  // Gives them to a call.
  void give(Call& call) const;
  mydev_geometry geometry(Range range = Range::kAll) const;
  std::string count_text() const;

  // Text, from the outside to the inside: the results, the elements of one. By lanes, the lanes are within both.
  std::string open_results(Range range = Range::kAll) const;
  std::string close_results() const;
  std::string open_elements(Range range = Range::kAll) const;
  std::string close_elements(Range range = Range::kAll) const;
  // The parts of a result, `part_at`; and the place of what a part of the result leaves.
  std::string open_parts() const;
  std::string close_parts() const;
  std::string place_in_parts(const std::string& part) const;
  std::string open_lanes() const;
  std::string close_lanes() const;
  std::string place_of_element() const;

  // An element that is reduced, within open_elements; and a result's.
  std::string element(size_t b) const;
  std::string result(size_t b) const;

 private:
  std::string inner_stride(size_t b, const std::string& kind) const;
  std::string lane(size_t b) const;
  template <typename Function>
  void for_each_size(const Function& function) const;
  std::string places(const std::string& kind, const std::string& index, size_t end, const std::string& base) const;

  const Request& request_;
  std::vector<std::string> names_;
  Extents outer_, reduced_;
  bool by_group_ = false;
  int64_t parts_ = 1;
  std::string inner_;
};

}  // namespace mydev::device_kernels
