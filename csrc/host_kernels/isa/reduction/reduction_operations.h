// The operations of reductions, on lanes (scalars or vectors) of a type A, with results of a type W.
#pragma once

#include <cmath>
#include <limits>

#include "host_kernels/isa/simd/dense_values.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

// An operation whose results are among its (mapped) elements says how it chooses.
enum class Choice { kNone, kLargest, kSmallest };

struct Sum {
  static constexpr Choice kChoice = Choice::kNone;
  template <typename A>
  static A identity() {
    return A{0};
  }
  static auto map(auto x) { return x; }
  static auto combine(auto a, auto b) { return a + b; }
  template <typename W>
  static W finish(W w, int64_t) {
    return w;
  }
};

struct Mean : Sum {
  template <typename W>
  static W finish(W w, int64_t count) {
    return w / static_cast<W>(count);
  }
};

struct Prod : Sum {
  template <typename A>
  static A identity() {
    return A{1};
  }
  static auto combine(auto a, auto b) { return a * b; }
};

struct Amax : Sum {
  static constexpr Choice kChoice = Choice::kLargest;
  template <typename A>
  static A identity() {
    if constexpr (std::numeric_limits<A>::has_infinity) return -std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::lowest();
  }
  static auto combine(auto a, auto b) { return kLarger(a, b); }
};

struct Amin : Sum {
  static constexpr Choice kChoice = Choice::kSmallest;
  template <typename A>
  static A identity() {
    if constexpr (std::numeric_limits<A>::has_infinity) return std::numeric_limits<A>::infinity();
    return std::numeric_limits<A>::max();
  }
  static auto combine(auto a, auto b) { return kSmaller(a, b); }
};

struct Any : Sum {  // of 0 and 1
  static auto combine(auto a, auto b) { return a | b; }
};

struct All : Prod {
  static auto combine(auto a, auto b) { return a & b; }
};

struct Norm1 : Sum {
  static auto map(auto x) { return x < 0 ? -x : x; }
};

struct Norm2 : Sum {
  static auto map(auto x) { return x * x; }
  template <typename W>
  static W finish(W w, int64_t) {
    return std::sqrt(w);
  }
};

struct NormInf : Norm1 {
  static constexpr Choice kChoice = Choice::kLargest;
  static auto combine(auto a, auto b) { return kLarger(a, b); }
};

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
