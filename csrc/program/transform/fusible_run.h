// Launches that follow each other and can be computed part by part: pointwise ones, and reductions of rows.
//
// Steps of a run have one shape, whatever dimensions their views are given in: [8192] is [64,128] too. A run has the
// coarsest sizes in which all its steps can be expressed. Two views are the same if they find the same elements in the
// same order. Other steps read what a step writes only as it was written. Reductions are over the last of those
// dimensions, all over the same ones. The *outer* dimensions are left; steps behind a reduction may have these alone.
// So a part of the outer dimensions, with all the reduced ones, can be computed before the next part.
//
// A reduction is taken only if a part of its rows gives, to the bit, the same as the whole launch. So rows are dense,
// and few long rows are left to the kernel, which cuts them itself (host_kernels/isa/reduction/reduction_plan.h).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "program/ir/program.h"

namespace mydev::program {

class FusibleRun {
 public:
  // A row that is reduced has fewer elements, and so has a part of several rows.
  static constexpr int64_t kLongestRow = 32768;

  // How the run uses a slot.
  struct Use {
    Operand view;             // one of it, in the fewest dimensions, over the whole shape
    bool several = false;     // there are others, that find other elements
    bool read_first = false;  // what it holds before the run is read
    bool written = false;
    bool covers = false;  // the run writes all of it
  };

  explicit FusibleRun(const Program& program) : program_(&program) {}
  // Returns the run of all steps of the program; nothing if they are not one run.
  static std::optional<FusibleRun> of(const Program& program);
  // True if executors treat the program, where it is repeated, like that of a fused step: it is one run, and has no
  // constants.
  static bool is_repeatable(const Program& program);

  // Appends the step, unless it does not go with those before it.
  bool add(const Step& step);
  // Adds the first step of a run, which need not go with any other.
  void begin_with(const Step& step);
  size_t steps() const noexcept { return steps_; }

  const std::map<SlotIndex, Use>& uses() const noexcept { return uses_; }
  // Returns the sizes of the run; none is 1.
  const std::vector<int64_t>& sizes() const noexcept { return sizes_; }
  // Returns the number of outer dimensions: the first ones, which are not reduced.
  size_t outer_rank() const noexcept { return outer_rank_; }
  // Returns a step of the run with views of sizes(), or of the outer ones of these.
  Step in_its_sizes(const Step& step) const;

 private:
  bool add_pointwise(const Step& step);
  bool add_reduction(const Step& step);
  bool refine(const std::vector<int64_t>& sizes);
  void keep(int64_t elements);
  bool use(const Operand& operand, bool writes);
  bool reduces() const noexcept { return outer_rank_ < sizes_.size(); }
  Operand without_reduced(const Operand& result) const;
  int64_t outer_elements() const;
  std::vector<int64_t> outer_sizes() const;
  std::vector<int64_t> shape_of(const Operand& operand) const;  // sizes(), or the outer ones

  const Program* program_;
  std::map<SlotIndex, Use> uses_;
  std::vector<int64_t> sizes_;
  size_t outer_rank_ = 0;
  size_t steps_ = 0;
  bool is_open_ = true;  // for more
};

}  // namespace mydev::program
