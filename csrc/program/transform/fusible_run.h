// Launches that follow each other and can be computed part by part: pointwise ones, and reductions of rows.
//
// Steps of a run have one shape, whatever dimensions their views are given in: [8192] is [64,128] too. A run keeps the
// coarsest sizes in which all its steps can be said, and a view is the same as another if it finds the same elements in
// the same order. What a step writes the others read only as it was written. Reductions are over the last of those
// dimensions, all over the same ones; what is left, the *kept* dimensions, is a shape of steps behind a reduction too.
// So a part of the kept dimensions, with all the reduced ones, can be computed before the next.
//
// Reductions are taken where a part of their rows gives, to the bit, what the whole launch gives: rows are dense, and
// few long rows are left to the kernel, which cuts them itself (host_kernels/isa/reduction/reduction_plan.h).
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
  // Elements of a row that is reduced, and of a part of several rows, are fewer.
  static constexpr int64_t kLongestRow = 32768;

  // What the run does with a slot.
  struct Use {
    Operand view;             // one of it, in the fewest dimensions, over the whole shape
    bool several = false;     // there are others, that find other elements
    bool read_first = false;  // what it holds before the run is read
    bool written = false;
    bool covers = false;  // what is written is all of it
  };

  explicit FusibleRun(const Program& program) : program_(&program) {}
  // Of all steps of the program; nothing where they are no one run.
  static std::optional<FusibleRun> of(const Program& program);

  // Appends the step, unless it does not go with those before it.
  bool add(const Step& step);
  // Of a run without steps: a step that need not go with any other.
  void begin_with(const Step& step);
  size_t steps() const noexcept { return steps_; }

  const std::map<SlotIndex, Use>& uses() const noexcept { return uses_; }
  // None is 1.
  const std::vector<int64_t>& sizes() const noexcept { return sizes_; }
  // How many of the dimensions, the first ones, are not reduced.
  size_t kept() const noexcept { return kept_; }
  // A step of the run, in views of sizes(), or of the kept ones of these.
  Step in_its_sizes(const Step& step) const;

 private:
  bool add_pointwise(const Step& step);
  bool add_reduction(const Step& step);
  bool refine(const std::vector<int64_t>& sizes);
  void keep(int64_t elements);
  bool use(const Operand& operand, bool writes);
  bool reduces() const noexcept { return kept_ < sizes_.size(); }
  Operand without_reduced(const Operand& result) const;
  int64_t kept_elements() const;
  std::vector<int64_t> kept_sizes() const;
  std::vector<int64_t> shape_of(const Operand& operand) const;  // sizes(), or the kept ones

  const Program* program_;
  std::map<SlotIndex, Use> uses_;
  std::vector<int64_t> sizes_;
  size_t kept_ = 0;
  size_t steps_ = 0;
  bool is_open_ = true;  // for more
};

}  // namespace mydev::program
