// How a reduction walks its operands.
//
// Operands have one rank and the same sizes; outputs have stride 0 along reduced dimensions. A plan splits the
// dimensions into outer and reduced ones, each sorted by the input's stride and merged where they lie back to back.
//   horizontal: an output's elements are read run by run, each run a chunk of the innermost reduced dimension
//   vertical:   the innermost outer dimension has the smaller stride: a block of outputs takes one row after another
// Work is cut into tasks by the shape alone, so results do not depend on the number of threads.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "host_kernels/isa/isa.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

inline constexpr int kMaxPlanRank = 16;
inline constexpr int64_t kColumnBlock = 512;      // outputs of a vertical task
inline constexpr int64_t kReductionTask = 16384;  // elements below which a task is not worth a thread
inline constexpr int64_t kMaxPieces = 64;         // pieces that a long reduction of few outputs is cut into

struct PlanDimension {
  int64_t size, in, out;  // strides in elements
};

struct ReductionPlan {
  PlanDimension outer[kMaxPlanRank], reduced[kMaxPlanRank];
  int outer_rank = 0, reduced_rank = 0;
  int64_t outputs = 1, count = 1;  // outputs, and elements that go into each
  bool vertical = false;
  int split = 0;       // index of the reduced dimension that pieces cut
  int64_t pieces = 1;  // > 1: partial results per piece, combined at the end
};

inline int merge_dimensions(PlanDimension* dims, int rank) {
  for (int i = 1; i < rank; ++i) {  // insertion sort by the input's stride
    for (int j = i; j > 0 && std::abs(dims[j].in) < std::abs(dims[j - 1].in); --j) std::swap(dims[j], dims[j - 1]);
  }
  int merged = 0;
  for (int i = 1; i < rank; ++i) {
    PlanDimension& last = dims[merged];
    if (dims[i].in == last.in * last.size && dims[i].out == last.out * last.size) {
      last.size *= dims[i].size;
    } else {
      dims[++merged] = dims[i];
    }
  }
  return rank == 0 ? 0 : merged + 1;
}

// False if the rank is beyond what plans hold.
inline bool make_reduction_plan(const mydev_buffer& out, const mydev_buffer& in, ReductionPlan& plan) {
  if (in.rank > kMaxPlanRank || out.rank != in.rank) return false;
  for (int d = 0; d < in.rank; ++d) {
    if (in.sizes[d] == 1) continue;
    const PlanDimension dimension{in.sizes[d], in.strides[d], out.strides[d]};
    if (out.strides[d] == 0) {
      plan.count *= dimension.size;
      plan.reduced[plan.reduced_rank++] = dimension;
    } else {
      plan.outputs *= dimension.size;
      plan.outer[plan.outer_rank++] = dimension;
    }
  }
  if (plan.outputs == 0 || plan.count == 0) {  // nothing to read
    plan.reduced_rank = 0;
    plan.outer_rank = merge_dimensions(plan.outer, plan.outer_rank);
    return true;
  }
  plan.outer_rank = merge_dimensions(plan.outer, plan.outer_rank);
  plan.reduced_rank = merge_dimensions(plan.reduced, plan.reduced_rank);
  plan.vertical = plan.outer_rank > 0 && plan.reduced_rank > 0 && plan.outer[0].size >= 4 &&
                  std::abs(plan.outer[0].in) < std::abs(plan.reduced[0].in);
  for (int i = 1; i < plan.reduced_rank; ++i) {
    if (plan.reduced[i].size > plan.reduced[plan.split].size) plan.split = i;
  }
  const int64_t tasks = plan.vertical ? plan.outputs / std::min(plan.outer[0].size, kColumnBlock) : plan.outputs;
  if (tasks < kMaxPieces / 4 && plan.outputs * plan.count >= 2 * kReductionTask) {
    const int64_t size = plan.reduced[plan.split].size;
    plan.pieces = std::clamp<int64_t>(plan.outputs * plan.count / kReductionTask, 1, std::min(kMaxPieces, size));
    // Partial results must stay few against the elements read.
    if (plan.count / plan.pieces < 64) plan.pieces = 1;
  }
  return true;
}

// Steps through all but the first `skip` of some dimensions, tracking the input's and the output's offsets.
class Odometer {
 public:
  Odometer(const PlanDimension* dims, int rank, int skip) : dims_(dims), rank_(rank), skip_(skip) {
    for (int i = 0; i < rank; ++i) index_[i] = 0;
  }
  void seek(int64_t position) {
    in_ = out_ = 0;
    for (int i = skip_; i < rank_; ++i) {
      index_[i] = position % dims_[i].size;
      position /= dims_[i].size;
      in_ += index_[i] * dims_[i].in;
      out_ += index_[i] * dims_[i].out;
    }
  }
  void next() {
    for (int i = skip_; i < rank_; ++i) {
      in_ += dims_[i].in;
      out_ += dims_[i].out;
      if (++index_[i] < dims_[i].size) return;
      in_ -= dims_[i].in * dims_[i].size;
      out_ -= dims_[i].out * dims_[i].size;
      index_[i] = 0;
    }
  }
  int64_t in() const { return in_; }
  int64_t out() const { return out_; }

 private:
  const PlanDimension* dims_;
  int rank_, skip_;
  int64_t in_ = 0, out_ = 0;
  int64_t index_[kMaxPlanRank];
};

// On all threads, calls columns(outer, column, count) for blocks of a vertical plan's outputs, else line(outer) for
// each output; `outer` stands at the output or, vertically, at the first of its columns. Reductions are not cut into
// pieces.
template <typename Line, typename Columns>
void for_each_output(const ReductionPlan& plan, const Line& line, const Columns& columns) {
  const int64_t width = plan.vertical ? plan.outer[0].size : 1;
  const int64_t blocks = (width + kColumnBlock - 1) / kColumnBlock;
  const int64_t per_task = std::min(width, kColumnBlock) * std::max<int64_t>(plan.count, 1);
  const int64_t tasks = plan.outputs / width * blocks;
  parallel_for(tasks, std::max<int64_t>(kReductionTask / per_task, 1), [&](int64_t first, int64_t last) {
    Odometer outer(plan.outer, plan.outer_rank, plan.vertical ? 1 : 0);
    for (int64_t task = first; task < last; ++task) {
      outer.seek(task / blocks);
      const int64_t column = task % blocks * kColumnBlock;
      if (plan.vertical) {
        columns(outer, column, std::min(kColumnBlock, width - column));
      } else {
        line(outer);
      }
    }
  });
}

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
