// The values of a fused body (kernels/spec/fused_body.h): what its steps read and make, each named once.
//
// A place that is written several times has several values. Only the last is stored, after all that is read of the
// place has been read; other steps find what a step wrote as the value itself.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "device_kernels/base/bound_frame.h"
#include "device_kernels/text/expression_kernel.h"
#include "kernels/spec/fused_body.h"

namespace mydev::device_kernels {

using kernels::FusedBody;

// Elements of a buffer of the frame, for all places of the body.
struct FusedView {
  size_t buffer;
  int64_t offset;  // in bytes
  mydev_dtype dtype;
  std::vector<int64_t> strides;
  bool is_written = false;
  std::string name() const { return "m" + std::to_string(number); }
  size_t number = 0;
};

struct FusedValue {
  mydev_dtype dtype;
  bool is_outer;  // one for all reduced elements
  size_t depth;   // how many stages of reductions are done before it is known
  int view = -1;  // of which it is loaded; -1: a step makes it
  size_t step = 0;
  std::string name() const { return "t" + std::to_string(number); }
  size_t number = 0;
};

// A step, as its kernel's contract sees it.
struct FusedStep {
  FusedStep(const Request& request, const FusedBody& body, size_t index);

  std::vector<mydev_buffer> buffers;
  mydev_frame frame;
  BoundFrame bound;
  ExpressionForm form;
  std::vector<size_t> values;  // of the buffers, results first; those of numbers and absent ones say nothing
  size_t depth = 0;            // of its operands
  bool reduces;
};

class FusedValues {
 public:
  // Declines a body with a step that is not printed of an expression, or that writes a buffer which is also seen in
  // another way.
  FusedValues(const Request& request, const FusedBody& body);

  const std::vector<FusedView>& views() const noexcept { return views_; }
  const std::vector<FusedValue>& values() const noexcept { return values_; }
  const std::deque<FusedStep>& steps() const noexcept { return steps_; }
  // The value that a written view has in the end.
  size_t last_of(size_t view) const { return now_.at({true, view}); }

 private:
  size_t view_of(const FusedBody::Operand& operand);
  size_t read(const FusedBody::Operand& operand, const FusedBody& body);
  void check_views() const;

  std::vector<FusedView> views_;
  std::vector<FusedValue> values_;
  std::deque<FusedStep> steps_;
  std::map<std::pair<bool, size_t>, size_t> now_;  // of views (true) and temporaries: the last value so far
};

}  // namespace mydev::device_kernels
