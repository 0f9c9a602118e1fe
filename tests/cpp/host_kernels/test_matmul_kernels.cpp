// mydev.matmul against a triple loop in double, over shapes that reach each of its algorithms (own loops, dot products,
// oneDNN) and over the strides, dtypes and addends of the kernel contract; and the cache that keeps oneDNN's plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstddef>
#include <limits>
#include <string>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "conform/kernels/planned_launch.h"
#include "host_kernels/isa_variant.h"
#include "host_kernels/onednn/primitive_cache.h"
#include "host_kernels/small_gemm.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/base/one_thread.h"
#include "runtime/command/launch.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {
namespace {

enum class Layout { kRows, kColumns, kWideRows, kStepped, kReversed, kRepeatedRow };

const char* layout_name(Layout layout) {
  switch (layout) {
    case Layout::kRows:
      return "Rows";
    case Layout::kColumns:
      return "Columns";
    case Layout::kWideRows:
      return "WideRows";
    case Layout::kStepped:
      return "Stepped";
    case Layout::kReversed:
      return "Reversed";
    case Layout::kRepeatedRow:
      return "RepeatedRow";
  }
  return "";
}

// A batch of f32 matrices in one of the layouts, filled with small reproducible numbers.
class Operand {
 public:
  Operand(int64_t batch, int64_t rows, int64_t columns, Layout layout, uint32_t seed)
      : sizes_{batch, rows, columns}, storage_(static_cast<size_t>(4 * batch * (rows + 1) * (columns + 1) + 16)) {
    for (float& value : storage_) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(static_cast<int32_t>(seed >> 16) % 17 - 8) / 8;
    }
    switch (layout) {
      case Layout::kRows:
        strides_ = {rows * columns, columns, 1};
        break;
      case Layout::kColumns:
        strides_ = {rows * columns, 1, rows};
        break;
      case Layout::kWideRows:
        strides_ = {rows * (columns + 3), columns + 3, 1};
        break;
      case Layout::kStepped:
        strides_ = {2 * rows * (2 * columns), 2 * columns, 2};
        break;
      case Layout::kReversed:
        strides_ = {rows * columns, -columns, 1};
        offset_ = (rows > 0 ? rows - 1 : 0) * columns;
        break;
      case Layout::kRepeatedRow:
        strides_ = {0, 0, 1};
        break;
    }
  }

  float& at(int64_t index, int64_t row, int64_t column) {
    return storage_[static_cast<size_t>(offset_ + index * strides_[0] + row * strides_[1] + column * strides_[2])];
  }
  mydev_buffer buffer(int rank) {
    const int skip = 3 - rank;
    return {storage_.data() + offset_, sizes_ + skip, strides_.data() + skip, rank, MYDEV_F32};
  }

 private:
  int64_t sizes_[3];
  std::vector<int64_t> strides_;
  std::vector<float> storage_;
  int64_t offset_ = 0;
};

mydev_code run_matmul(const std::vector<mydev_buffer>& buffers, double alpha, double beta) {
  const mydev_kernel* kernel = find_kernel("mydev.matmul");
  const std::vector<mydev_attribute> attributes = {float_attribute("alpha", alpha), float_attribute("beta", beta)};
  mydev_frame frame = make_frame(buffers, 1, attributes);
  return run_record(*kernel, frame);
}

struct Shape {
  int64_t batch, m, n, k;
};

void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.batch << "x" << shape.m << "x" << shape.n << "x" << shape.k;
}

std::string shape_name(const Shape& shape) {
  return std::to_string(shape.batch) + "x" + std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" +
         std::to_string(shape.k);
}

void check(const Shape& shape, Layout a_layout, Layout b_layout, Layout out_layout, const Layout* addend_layout,
           double alpha, double beta) {
  Operand a(shape.batch, shape.m, shape.k, a_layout, 1), b(shape.batch, shape.k, shape.n, b_layout, 2);
  Operand out(shape.batch, shape.m, shape.n, out_layout, 3);
  Operand addend(shape.batch, shape.m, shape.n, addend_layout != nullptr ? *addend_layout : Layout::kRows, 4);
  std::vector<double> expected;
  for (int64_t i = 0; i < shape.batch; ++i) {
    for (int64_t row = 0; row < shape.m; ++row) {
      for (int64_t column = 0; column < shape.n; ++column) {
        double sum = 0;
        for (int64_t p = 0; p < shape.k; ++p) sum += double{a.at(i, row, p)} * b.at(i, p, column);
        sum *= alpha;
        if (beta != 0) sum += beta * (addend_layout != nullptr ? addend : out).at(i, row, column);
        expected.push_back(sum);
      }
    }
  }
  const int rank = shape.batch == 1 ? 2 : 3;
  std::vector<mydev_buffer> buffers = {out.buffer(rank), a.buffer(rank), b.buffer(rank)};
  if (addend_layout != nullptr) buffers.push_back(addend.buffer(rank));
  ASSERT_EQ(run_matmul(buffers, alpha, beta), MYDEV_OK);
  size_t position = 0;
  for (int64_t i = 0; i < shape.batch; ++i) {
    for (int64_t row = 0; row < shape.m; ++row) {
      for (int64_t column = 0; column < shape.n; ++column) {
        const double want = expected[position++];
        ASSERT_NEAR(out.at(i, row, column), want, 1e-5 + 1.3e-6 * std::abs(want))
            << "at " << i << ", " << row << ", " << column;
      }
    }
  }
}

// small; small with tails; dot; oneDNN; thin; one row; one column; batches; nothing at all; nothing to sum
const Shape kShapes[] = {{1, 16, 16, 16},  {1, 13, 37, 29}, {1, 3, 70, 200}, {1, 67, 65, 66}, {1, 1, 300, 300},
                         {1, 300, 1, 300}, {5, 9, 17, 8},   {3, 65, 40, 50}, {1, 0, 4, 4},    {1, 4, 5, 0},
                         {2, 4, 5, 0},     {0, 4, 4, 4},    {1, 1, 1, 1},    {1, 1, 1, 500},  {4, 2, 40, 300},
                         {1, 7, 203, 300}, {2, 5, 203, 300}};

struct Layouts {
  Layout a, b, out;
};

class MatmulLayouts : public testing::TestWithParam<std::tuple<Shape, Layouts>> {};

TEST_P(MatmulLayouts, AgreesWithTheTripleLoop) {
  const auto& [shape, layouts] = GetParam();
  check(shape, layouts.a, layouts.b, layouts.out, nullptr, 1, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, MatmulLayouts,
    testing::Combine(testing::ValuesIn(kShapes),
                     testing::Values(Layouts{Layout::kRows, Layout::kRows, Layout::kRows},
                                     Layouts{Layout::kRows, Layout::kColumns, Layout::kRows},
                                     Layouts{Layout::kColumns, Layout::kRows, Layout::kColumns},
                                     Layouts{Layout::kWideRows, Layout::kWideRows, Layout::kWideRows},
                                     Layouts{Layout::kWideRows, Layout::kColumns, Layout::kStepped},
                                     Layouts{Layout::kStepped, Layout::kStepped, Layout::kRows},
                                     Layouts{Layout::kReversed, Layout::kRows, Layout::kRows},
                                     Layouts{Layout::kRows, Layout::kReversed, Layout::kColumns},
                                     Layouts{Layout::kRepeatedRow, Layout::kRepeatedRow, Layout::kRows})),
    [](const auto& info) {
      const Layouts& layouts = std::get<1>(info.param);
      return shape_name(std::get<0>(info.param)) + layout_name(layouts.a) + layout_name(layouts.b) +
             layout_name(layouts.out);
    });

class MatmulAddends : public testing::TestWithParam<std::tuple<Shape, Layout, Layout, double>> {};

TEST_P(MatmulAddends, AddsTheAddend) {
  const auto& [shape, out, addend, beta] = GetParam();
  check(shape, Layout::kRows, Layout::kColumns, out, &addend, 1, beta);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatmulAddends,
                         testing::Combine(testing::ValuesIn(kShapes), testing::Values(Layout::kRows, Layout::kColumns),
                                          testing::Values(Layout::kRows, Layout::kColumns, Layout::kRepeatedRow),
                                          testing::Values(1.0, -2.0)));

class MatmulAccumulates : public testing::TestWithParam<std::tuple<Shape, Layout, double>> {};

TEST_P(MatmulAccumulates, IntoTheResult) {
  const auto& [shape, out, beta] = GetParam();
  check(shape, Layout::kRows, Layout::kRows, out, nullptr, 0.5, beta);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatmulAccumulates,
                         testing::Combine(testing::ValuesIn(kShapes),
                                          testing::Values(Layout::kRows, Layout::kColumns, Layout::kStepped),
                                          testing::Values(1.0, -2.0)));

TEST(Matmul, IgnoresTheResultsOldContentsWithoutBeta) {
  Operand a(1, 65, 65, Layout::kRows, 1), b(1, 65, 65, Layout::kRows, 2), out(1, 65, 65, Layout::kRows, 3);
  out.at(0, 2, 3) = NAN;
  ASSERT_EQ(run_matmul({out.buffer(2), a.buffer(2), b.buffer(2)}, 1, 0), MYDEV_OK);
  EXPECT_FALSE(std::isnan(out.at(0, 2, 3)));
}

TEST(Matmul, RefusesSizesThatDoNotFit) {
  Operand a(1, 4, 5, Layout::kRows, 1), b(1, 6, 4, Layout::kRows, 2), out(1, 4, 4, Layout::kRows, 3);
  EXPECT_EQ(run_matmul({out.buffer(2), a.buffer(2), b.buffer(2)}, 1, 0), MYDEV_INVALID_ARGUMENT);
}

TEST(Matmul, RefusesDtypesThatItDoesNotKnow) {
  Operand a(1, 4, 4, Layout::kRows, 1), b(1, 4, 4, Layout::kRows, 2), out(1, 4, 4, Layout::kRows, 3);
  std::vector<mydev_buffer> buffers = {out.buffer(2), a.buffer(2), b.buffer(2)};
  for (mydev_buffer& buffer : buffers) buffer.dtype = MYDEV_PRED;
  EXPECT_EQ(run_matmul(buffers, 1, 0), MYDEV_UNIMPLEMENTED);
}

// Products of f64, integers and complex numbers, and into wider dtypes. All values are small whole numbers, so that
// sums are exact but for those that wrap around; integers of 8 and 16 bits are any, often the lowest.
template <typename Factor, typename Out>
class WideMatmul {
 public:
  WideMatmul(mydev_dtype factors, mydev_dtype out) : factors_(factors), out_(out) {}

  void check(const Shape& shape, bool transposed, bool b_transposed, double alpha, double beta, bool with_addend) {
    SCOPED_TRACE(shape_name(shape) + (transposed ? ", transposed" : "") + (b_transposed ? ", b transposed" : "") +
                 ", beta " + std::to_string(beta));
    const std::vector<Factor> a = values<Factor>(shape.batch * shape.m * shape.k, 1),
                              b = values<Factor>(shape.batch * shape.k * shape.n, 2);
    const std::vector<Out> addend = values<Out>(shape.batch * shape.m * shape.n, 3);
    std::vector<Out> out = values<Out>(shape.batch * shape.m * shape.n, 4);
    const std::vector<Out> old = out;
    std::vector<Buffer> operands = {{out.data(), shape.batch, shape.m, shape.n, false, out_},
                                    {a.data(), shape.batch, shape.m, shape.k, transposed, factors_},
                                    {b.data(), shape.batch, shape.k, shape.n, b_transposed, factors_}};
    if (with_addend) operands.emplace_back(addend.data(), shape.batch, shape.m, shape.n, transposed, out_);
    std::vector<mydev_buffer> buffers;
    for (const Buffer& operand : operands) buffers.push_back(operand.buffer());
    ASSERT_EQ(run_matmul(buffers, alpha, beta), MYDEV_OK);
    for (int64_t i = 0; i < shape.batch; ++i) {
      for (int64_t row = 0; row < shape.m; ++row) {
        for (int64_t column = 0; column < shape.n; ++column) {
          Out sum = 0;
          for (int64_t p = 0; p < shape.k && alpha != 0; ++p) {
            sum = static_cast<Out>(sum + static_cast<Out>(a[operands[1].at(i, row, p)]) *
                                             static_cast<Out>(b[operands[2].at(i, p, column)]));
          }
          sum = static_cast<Out>(factor(alpha) * sum);
          const size_t at = operands[0].at(i, row, column);
          const Out added = with_addend ? addend[operands.back().at(i, row, column)] : old[at];
          if (beta != 0) sum = static_cast<Out>(sum + factor(beta) * added);
          ASSERT_EQ(out[at], sum) << i << ", " << row << ", " << column;
        }
      }
    }
  }

  void check_all() {
    // Within one vector and one block; a row; nothing to sum.
    for (const Shape& shape :
         {Shape{1, 1, 1, 1}, Shape{2, 3, 5, 7}, Shape{2, 1, 300, 40}, Shape{1, 4, 3, 0}, Shape{3, 7, 41, 99}}) {
      for (const auto& [transposed, b_transposed] : {std::pair(false, false), {false, true}, {true, true}}) {
        check(shape, transposed, b_transposed, 1, 0, false);
        check(shape, transposed, b_transposed, -2, 3, true);
        check(shape, transposed, b_transposed, 2, 1, false);
        check(shape, transposed, b_transposed, 0, 2, true);
      }
    }
    // Over several blocks of each dimension.
    const Shape large{1, 100, 170, 1101};
    check(large, /*transposed=*/false, /*b_transposed=*/false, -2, 3, /*with_addend=*/true);
    check(large, /*transposed=*/false, /*b_transposed=*/true, 1, 0, /*with_addend=*/false);
    check(large, /*transposed=*/true, /*b_transposed=*/true, 2, 1, /*with_addend=*/false);
  }

 private:
  class Buffer {
   public:
    Buffer(const void* data, int64_t batch, int64_t rows, int64_t columns, bool transposed, mydev_dtype dtype)
        : data_(const_cast<void*>(data)),
          sizes_{batch, rows, columns},
          strides_{rows * columns, transposed ? 1 : columns, transposed ? rows : 1},
          dtype_(dtype) {}
    size_t at(int64_t index, int64_t row, int64_t column) const {
      return static_cast<size_t>(index * strides_[0] + row * strides_[1] + column * strides_[2]);
    }
    mydev_buffer buffer() const { return {data_, sizes_, strides_, 3, static_cast<int16_t>(dtype_), 0}; }

   private:
    void* data_;
    int64_t sizes_[3], strides_[3];
    mydev_dtype dtype_;
  };

  static Out factor(double value) { return static_cast<Out>(static_cast<int8_t>(value)); }

  template <typename T>
  static std::vector<T> values(int64_t count, uint32_t seed) {
    std::vector<T> result(static_cast<size_t>(std::max<int64_t>(count, 1)));
    for (T& value : result) {
      const auto next = [&seed] {
        seed = seed * 1664525u + 1013904223u;
        return static_cast<int32_t>(seed >> 16) % 7 - 3;
      };
      if constexpr (std::is_integral_v<T> && sizeof(T) <= 2) {
        value = next() < 0 ? std::numeric_limits<T>::min() : static_cast<T>(seed >> 8);
      } else if constexpr (requires { value.imag(); }) {
        using Real = typename T::value_type;
        const auto real = static_cast<Real>(next());
        value = T(real, static_cast<Real>(next()));
      } else {
        value = static_cast<T>(next());
      }
    }
    return result;
  }

  mydev_dtype factors_, out_;
};

TEST(Matmul, MultipliesWideNumbers) {
  WideMatmul<double, double>(MYDEV_F64, MYDEV_F64).check_all();
  WideMatmul<std::complex<float>, std::complex<float>>(MYDEV_C64, MYDEV_C64).check_all();
  WideMatmul<std::complex<double>, std::complex<double>>(MYDEV_C128, MYDEV_C128).check_all();
}

TEST(Matmul, MultipliesIntegersThatWrapAround) {
  WideMatmul<int8_t, int8_t>(MYDEV_S8, MYDEV_S8).check_all();
  WideMatmul<uint8_t, uint8_t>(MYDEV_U8, MYDEV_U8).check_all();
  WideMatmul<int16_t, int16_t>(MYDEV_S16, MYDEV_S16).check_all();
  WideMatmul<int32_t, int32_t>(MYDEV_S32, MYDEV_S32).check_all();
  WideMatmul<int64_t, int64_t>(MYDEV_S64, MYDEV_S64).check_all();
}

TEST(Matmul, MultipliesIntoWiderNumbers) {
  WideMatmul<int8_t, int32_t>(MYDEV_S8, MYDEV_S32).check_all();
  WideMatmul<uint8_t, int32_t>(MYDEV_U8, MYDEV_S32).check_all();
}

const SmallGemmFunctions& small_gemm_of(InstructionSet isa) {
  return MYDEV_ISA_VARIANT(isa, small_gemm);
}

class SmallGemmVariants : public testing::TestWithParam<InstructionSet> {};

// The elements of b as they lie in memory. Both narrow types hold them exactly.
std::vector<std::byte> elements_of(Operand& b, int64_t rows, int64_t columns, bool by_column, mydev_dtype dtype) {
  std::vector<std::byte> elements;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const float value = by_column ? b.at(0, i % rows, i / rows) : b.at(0, i / columns, i % columns);
    const auto half = static_cast<_Float16>(value);
    const uint32_t word = std::bit_cast<uint32_t>(value) >> (dtype == MYDEV_BF16 ? 16 : 0);
    const void* const from = dtype == MYDEV_F16 ? static_cast<const void*>(&half) : &word;
    const auto* const bytes = static_cast<const std::byte*>(from);
    elements.insert(elements.end(), bytes, bytes + dtype_size(dtype));
  }
  return elements;
}

TEST_P(SmallGemmVariants, ComputeTheSameProduct) {
  constexpr int64_t m = 11, n = 43, k = 37;
  Operand a(1, m, k, Layout::kRows, 1), b(1, k, n, Layout::kColumns, 2);
  const SmallGemmFunctions& functions = small_gemm_of(GetParam());
  const auto check = [&](const char* which, bool by_column, mydev_dtype dtype, const auto& run) {
    SCOPED_TRACE(std::string(which) + " of " + dtype_name(dtype));
    const std::vector<std::byte> elements = elements_of(b, k, n, by_column, dtype);
    const GemmFactor factor{reinterpret_cast<const char*>(elements.data()), by_column ? 1 : n, by_column ? k : 1,
                            dtype};
    Operand out(1, m, n, Layout::kRows, 3);
    run(SmallGemm{m, n, k, {&out.at(0, 0, 0), n, 1}, {&a.at(0, 0, 0), k, 1}, factor, {}, 2, 0});
    for (int64_t row = 0; row < m; ++row) {
      for (int64_t column = 0; column < n; ++column) {
        double want = 0;
        for (int64_t p = 0; p < k; ++p) want += 2.0 * a.at(0, row, p) * b.at(0, p, column);
        ASSERT_NEAR(out.at(0, row, column), want, 1e-5) << row << ", " << column;
      }
    }
  };
  check("small", /*by_column=*/true, MYDEV_F32, functions.small);
  for (const mydev_dtype dtype : {MYDEV_F32, MYDEV_F16, MYDEV_BF16}) {
    check("dot", /*by_column=*/true, dtype, [&](const SmallGemm& gemm) { functions.dot(gemm, 0, n); });
    check("rows", /*by_column=*/false, dtype, [&](const SmallGemm& gemm) { functions.rows(gemm, 0, n); });
  }
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, SmallGemmVariants, testing::ValuesIn(supported_instruction_sets()),
                         [](const auto& info) { return std::string(instruction_set_name(info.param)); });

// One is computed by this thread, the other by all: each with a plan of its own, and the next has all threads again.
TEST(Matmul, ComputesOnOneThreadWhatTakesMicroseconds) {
  const int threads = onednn_threads();
  for (const Shape& shape : {Shape{1, 32, 100, 100}, Shape{1, 120, 110, 100}}) {
    check(shape, Layout::kRows, Layout::kColumns, Layout::kRows, nullptr, 1, 0);
    EXPECT_EQ(onednn_threads(), threads);
  }
  {
    const OneThread one;
    EXPECT_EQ(onednn_threads(), 1);
    const OneThread as_it_is(false);
    EXPECT_EQ(onednn_threads(), 1);
  }
  EXPECT_EQ(onednn_threads(), threads);
}

// A constant b is read by the first run alone, where oneDNN wants it otherwise than it lies or in another dtype: what
// is written there afterwards, against the promise, is not seen.
TEST(Matmul, KeepsAConstantInItsOwnForm) {
  const mydev_kernel& kernel = *find_kernel("mydev.matmul");
  const mydev_kernel& copy = *find_kernel("mydev.copy");
  const std::vector<mydev_attribute> attributes = {float_attribute("alpha", 1), float_attribute("beta", 0)};
  const Shape shape{1, 40, 500, 300};  // of more rows than own loops take
  for (const mydev_dtype dtype : {MYDEV_BF16, MYDEV_F16}) {
    // Eighths below 2: exact in both dtypes.
    Operand a(1, shape.m, shape.k, Layout::kRows, 1), b(1, shape.k, shape.n, Layout::kRows, 2),
        out(1, shape.m, shape.n, Layout::kRows, 3);
    std::vector<std::vector<uint16_t>> halves;
    const auto half_buffer = [&](Operand& operand, int64_t elements) {
      halves.emplace_back(static_cast<size_t>(elements));
      mydev_buffer half = operand.buffer(2);
      half.data = halves.back().data();
      half.dtype = dtype;
      return half;
    };
    const auto copied = [&](mydev_buffer to, mydev_buffer from) {
      const std::vector<mydev_buffer> buffers = {to, from};
      mydev_frame frame = make_frame(buffers, 1);
      ASSERT_EQ(run_record(copy, frame), MYDEV_OK);
    };
    halves.reserve(3);
    const std::vector<mydev_buffer> buffers = {half_buffer(out, shape.m * shape.n), half_buffer(a, shape.m * shape.k),
                                               half_buffer(b, shape.k * shape.n)};
    copied(buffers[1], a.buffer(2));
    copied(buffers[2], b.buffer(2));
    mydev_frame planned = make_frame(buffers, 1, attributes);
    const PlannedRecord kept(kernel, planned, uint64_t{1} << 2);
    const auto check_product = [&] {
      mydev_frame frame = make_frame(buffers, 1, attributes);
      ASSERT_EQ(kept.run(frame), MYDEV_OK);
      copied(out.buffer(2), buffers[0]);
      for (int64_t row = 0; row < shape.m; ++row) {
        for (int64_t column = 0; column < shape.n; ++column) {
          double want = 0;
          for (int64_t p = 0; p < shape.k; ++p) want += double{a.at(0, row, p)} * b.at(0, p, column);
          ASSERT_NEAR(out.at(0, row, column), want, std::abs(want) / 128) << row << ", " << column;
        }
      }
    };
    check_product();
    halves[2].assign(halves[2].size(), 0);
    check_product();
  }
}

TEST(Matmul, KeepsAConstantForThreadsThatComeAtOnce) {
  Operand a(2, 40, 300, Layout::kRows, 1), b(2, 300, 70, Layout::kWideRows, 2);
  Operand expected(2, 40, 70, Layout::kRows, 3);
  ASSERT_EQ(run_matmul({expected.buffer(3), a.buffer(3), b.buffer(3)}, 1, 0), MYDEV_OK);
  const std::vector<mydev_attribute> attributes = {float_attribute("alpha", 1), float_attribute("beta", 0)};
  const std::vector<mydev_buffer> planned_buffers = {expected.buffer(3), a.buffer(3), b.buffer(3)};
  mydev_frame planned = make_frame(planned_buffers, 1, attributes);
  const PlannedRecord kept(*find_kernel("mydev.matmul"), planned, uint64_t{1} << 2);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      Operand out(2, 40, 70, Layout::kRows, 4);
      const std::vector<mydev_buffer> buffers = {out.buffer(3), a.buffer(3), b.buffer(3)};
      mydev_frame frame = make_frame(buffers, 1, attributes);
      ASSERT_EQ(kept.run(frame), MYDEV_OK);
      for (int64_t row = 0; row < 40; ++row) {
        ASSERT_NEAR(out.at(1, row, 69), expected.at(1, row, 69), 1e-4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(PrimitiveCache, MakesAPlanOnce) {
  const Shape shape{1, 71, 72, 73};
  check(shape, Layout::kRows, Layout::kRows, Layout::kRows, nullptr, 1, 0);
  const PrimitiveCacheStatistics before = primitive_cache_statistics();
  check(shape, Layout::kRows, Layout::kRows, Layout::kRows, nullptr, 1, 0);
  const PrimitiveCacheStatistics after = primitive_cache_statistics();
  EXPECT_EQ(after.misses, before.misses);
  EXPECT_GT(after.hits, before.hits);
}

TEST(PrimitiveCache, StaysWithinItsCapacity) {
  for (size_t i = 0; i < kPrimitiveCacheCapacity + 10; ++i) {
    PlanKey key(PlanKind::kMatmul);
    key.add(-1 - static_cast<int64_t>(i));
    find_or_create_plan(key, [] { return std::shared_ptr<PrimitivePlan>(); });
  }
  EXPECT_EQ(primitive_cache_statistics().size, kPrimitiveCacheCapacity);
  EXPECT_GE(primitive_cache_statistics().evictions, 10u);
}

TEST(PrimitiveCache, ServesThreadsThatRunOnePlanAtOnce) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] {
      for (int round = 0; round < 20; ++round) {
        check({1, 40, 41, 42}, Layout::kRows, Layout::kRows, Layout::kRows, nullptr, 1, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace mydev::kernels
