// The attention kernels' loops, in each instruction set, against plain loops in double: lengths that are no multiple of
// a block, shared heads, masks, strided operands, dropout. One test has operands that a kernel refuses.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "host_kernels/attention_loops.h"
#include "host_kernels/isa_variant.h"
#include "kernel_fixture.h"

namespace mydev::kernels {
namespace {

struct Case {
  const char* name;
  int64_t batch, heads, shared, queries, keys, width, value_width;
  bool is_causal = false, masked = false, strided = false;
  double dropout = 0;
};

const Case kCases[] = {
    {"small", 2, 3, 3, 5, 7, 8, 8},
    {"blocks", 1, 2, 2, 150, 130, 20, 20},
    {"causal", 1, 2, 2, 70, 70, 16, 16, true},
    {"causal_wide", 1, 1, 1, 5, 90, 3, 5, true},
    {"causal_tall", 1, 1, 1, 90, 5, 3, 5, true},
    {"grouped", 1, 6, 2, 9, 70, 8, 4, true},
    {"masked", 2, 2, 1, 33, 65, 7, 9, false, true},
    {"strided", 2, 2, 2, 6, 66, 5, 5, false, true, true},
    {"one_query", 1, 4, 2, 1, 200, 64, 64},
    {"dropped", 2, 2, 1, 37, 70, 8, 8, true, true, false, 0.3},
};

// [batch, heads, rows, width], the rows apart if strided.
template <typename T>
Operand<T> operand(int64_t batch, int64_t heads, int64_t rows, int64_t width, bool strided, mydev_dtype dtype,
                   uint32_t seed) {
  Operand<T> made({batch, heads, rows, width}, dtype);
  if (strided) {
    made.strides = {1, batch, batch * heads, batch * heads * rows};
  }
  std::mt19937 random(seed);
  for (T& value : made.values) value = static_cast<T>(std::normal_distribution<double>()(random));
  return made;
}
template <typename T>
T& element(Operand<T>& o, int64_t b, int64_t h, int64_t i, int64_t j) {
  return o.values[static_cast<size_t>(b * o.strides[0] + h * o.strides[1] + i * o.strides[2] + j * o.strides[3])];
}

// Returns the numbers by which the kernel multiplies the weights.
std::vector<double> kept_weights(const Case& c, InstructionSet isa) {
  const int64_t row = (c.keys + 3) / 4 * 4, rows = c.batch * c.heads * c.queries;
  Operand<float> drawn({rows * row}, MYDEV_F32);
  const mydev_kernel& kernel = builtin_kernel("mydev.random_bernoulli", isa);
  const std::vector<mydev_buffer> buffers = {drawn.buffer()};
  const std::vector<mydev_attribute> attributes = {int_attribute("seed", 3), int_attribute("offset", 5),
                                                   float_attribute("p", 1 - c.dropout), float_attribute("unused", 0)};
  mydev_frame frame = make_frame(buffers, 1, attributes);
  EXPECT_EQ(run_record(kernel, frame), MYDEV_OK);
  std::vector<double> kept;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < c.keys; ++k) {
      kept.push_back(drawn.values[static_cast<size_t>(r * row + k)] / (1 - c.dropout));
    }
  }
  return kept;
}

// The operands of a case, results of the kernels, and the same by plain loops.
template <typename T>
struct Attention {
  Case c;
  Operand<T> query, key, value, mask, grad_out, out, grad_query, grad_key, grad_value;
  Operand<T> logsumexp;
  Operand<int64_t> seed{{}, MYDEV_S64}, offset{{}, MYDEV_S64};
  double scale = 0.3;

  Attention(const Case& a, mydev_dtype type)
      : c(a),
        query(operand<T>(c.batch, c.heads, c.queries, c.width, c.strided, type, 1)),
        key(operand<T>(c.batch, c.shared, c.keys, c.width, c.strided, type, 2)),
        value(operand<T>(c.batch, c.shared, c.keys, c.value_width, c.strided, type, 3)),
        mask(operand<T>(c.batch, c.heads, c.queries, c.keys, c.strided, type, 4)),
        grad_out(operand<T>(c.batch, c.heads, c.queries, c.value_width, c.strided, type, 5)),
        out(operand<T>(c.batch, c.heads, c.queries, c.value_width, c.strided, type, 6)),
        grad_query(operand<T>(c.batch, c.heads, c.queries, c.width, c.strided, type, 7)),
        grad_key(operand<T>(c.batch, c.shared, c.keys, c.width, c.strided, type, 8)),
        grad_value(operand<T>(c.batch, c.shared, c.keys, c.value_width, c.strided, type, 9)),
        logsumexp({c.batch, c.heads, c.queries}, type) {
    seed.values = {3};
    offset.values = {5};
    for (T& m : mask.values) m = m > T{1} ? -std::numeric_limits<T>::infinity() : m;
    for (int64_t k = 0; k < c.keys; ++k) element(mask, 0, 0, 0, k) = -std::numeric_limits<T>::infinity();
  }
  mydev_buffer mask_buffer() { return c.masked ? mask.buffer() : absent_operand(mask.dtype); }

  void check(InstructionSet isa, double tolerance) {
    const std::vector<double> kept = kept_weights(c, isa);
    std::vector<double> key_sum(key.values.size()), value_sum(value.values.size());
    const auto position = [](Operand<T>& o, int64_t b, int64_t h, int64_t i, int64_t j) {
      return static_cast<size_t>(&element(o, b, h, i, j) - o.values.data());
    };
    for (int64_t row = 0; row < c.batch * c.heads * c.queries; ++row) {
      const int64_t b = row / c.queries / c.heads, h = row / c.queries % c.heads, q = row % c.queries;
      const int64_t g = h / (c.heads / c.shared);
      std::vector<double> weight(static_cast<size_t>(c.keys)), slope(weight.size());
      double largest = -std::numeric_limits<double>::infinity(), sum = 0, delta = 0;
      for (int64_t k = 0; k < c.keys; ++k) {
        double score = 0;
        for (int64_t d = 0; d < c.width; ++d) score += scale * element(query, b, h, q, d) * element(key, b, g, k, d);
        if (c.masked) score += element(mask, b, h, q, k);
        if (c.is_causal && k > q) score = -std::numeric_limits<double>::infinity();
        weight[static_cast<size_t>(k)] = score;
        largest = std::max(largest, score);
      }
      const bool hidden = std::isinf(largest);
      for (double& w : weight) sum += w = hidden ? 0 : std::exp(w - largest);
      ASSERT_NEAR(logsumexp.values[static_cast<size_t>(row)], hidden ? 0 : largest + std::log(sum), tolerance);
      for (double& w : weight) w = hidden ? 0 : w / sum;
      const auto factor = [&](int64_t k) { return kept[static_cast<size_t>(row * c.keys + k)]; };
      for (int64_t e = 0; e < c.value_width; ++e) {
        double expected = 0;
        for (int64_t k = 0; k < c.keys; ++k) {
          expected += weight[static_cast<size_t>(k)] * factor(k) * element(value, b, g, k, e);
        }
        ASSERT_NEAR(element(out, b, h, q, e), expected, tolerance);
        delta += expected * element(grad_out, b, h, q, e);
      }
      for (int64_t k = 0; k < c.keys; ++k) {
        const double w = weight[static_cast<size_t>(k)];
        double product = 0;
        for (int64_t e = 0; e < c.value_width; ++e) {
          product += element(grad_out, b, h, q, e) * element(value, b, g, k, e);
          value_sum[position(value, b, g, k, e)] += w * factor(k) * element(grad_out, b, h, q, e);
        }
        slope[static_cast<size_t>(k)] = scale * w * (product * factor(k) - delta);
      }
      for (int64_t d = 0; d < c.width; ++d) {
        double expected = 0;
        for (int64_t k = 0; k < c.keys; ++k) {
          expected += slope[static_cast<size_t>(k)] * element(key, b, g, k, d);
          key_sum[position(key, b, g, k, d)] += slope[static_cast<size_t>(k)] * element(query, b, h, q, d);
        }
        ASSERT_NEAR(element(grad_query, b, h, q, d), expected, tolerance);
      }
    }
    for (size_t i = 0; i < key_sum.size(); ++i) ASSERT_NEAR(grad_key.values[i], key_sum[i], tolerance);
    for (size_t i = 0; i < value_sum.size(); ++i) ASSERT_NEAR(grad_value.values[i], value_sum[i], tolerance);
  }
};

const AttentionLoops& loops_of(InstructionSet isa) {
  return MYDEV_ISA_VARIANT(isa, attention_loops);
}

class AttentionKernels : public KernelTest {
 protected:
  template <typename T>
  static void check(mydev_dtype dtype, double tolerance) {
    const AttentionFunctions& functions = dtype == MYDEV_F64 ? loops_of(GetParam()).f64 : loops_of(GetParam()).f32;
    for (const Case& c : kCases) {
      SCOPED_TRACE(c.name);
      Attention<T> a(c, dtype);
      std::vector<mydev_buffer> b = {
          a.query.buffer(),     a.key.buffer(),      a.value.buffer(),      a.mask_buffer(),     a.out.buffer(),
          a.logsumexp.buffer(), a.grad_out.buffer(), a.grad_query.buffer(), a.grad_key.buffer(), a.grad_value.buffer()};
      const AttentionProblem problem{
          c.batch, c.heads, c.shared, c.queries, c.keys, c.width, c.value_width, c.is_causal, a.scale, c.dropout, 3, 5,
          &b[0],   &b[1],   &b[2],    &b[3],     &b[4],  &b[5],   &b[6],         &b[7],       &b[8],   &b[9]};
      run(problem, functions.forward_tasks(problem), functions.forward_bytes(problem), functions.forward);
      run(problem, functions.backward_tasks(problem), functions.backward_bytes(problem), functions.backward);
      a.check(GetParam(), tolerance);
    }
  }

 private:
  // In two pieces, with memory that holds what was there.
  static void run(const AttentionProblem& problem, int64_t tasks, uint64_t bytes,
                  void (*loops)(const AttentionProblem&, int64_t, int64_t, void*)) {
    std::vector<char> memory(bytes + 64, '\x7f');
    char* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
    loops(problem, 0, tasks / 2, aligned);
    loops(problem, tasks / 2, tasks, aligned);
  }
};

TEST_P(AttentionKernels, AgreeWithPlainLoopsInF32) {
  check<float>(MYDEV_F32, 2e-4);
}
TEST_P(AttentionKernels, AgreeWithPlainLoopsInF64) {
  check<double>(MYDEV_F64, 1e-11);
}
TEST(AttentionKernel, RefusesHeadsThatNoGroupsShare) {
  Attention<float> a({"odd", 1, 3, 2, 4, 4, 4, 4}, MYDEV_F32);
  const std::vector<mydev_buffer> buffers = {a.out.buffer(), a.logsumexp.buffer(), a.query.buffer(),
                                             a.key.buffer(), a.value.buffer(),     absent_operand(MYDEV_F32)};
  const std::vector<mydev_attribute> attributes = {bool_attribute("is_causal", false), float_attribute("scale", 1),
                                                   float_attribute("dropout", 0), int_attribute("seed", 0),
                                                   int_attribute("offset", 0)};
  mydev_frame frame = make_frame(buffers, 2, attributes);
  EXPECT_EQ(run_record(builtin_kernel("mydev.attention", instruction_set()), frame), MYDEV_INVALID_ARGUMENT);
}

TEST(AttentionKernel, DropsWhatAStateInMemorySays) {
  const auto out = [](int64_t seed, int64_t offset, std::vector<int64_t> state) {
    Attention<float> a({"dropped", 2, 2, 1, 37, 70, 8, 8}, MYDEV_F32);
    Operand<int64_t> begin({2}, MYDEV_S64);
    std::vector<mydev_buffer> buffers = {a.out.buffer(), a.logsumexp.buffer(), a.query.buffer(),
                                         a.key.buffer(), a.value.buffer(),     absent_operand(MYDEV_F32)};
    if (!state.empty()) {
      begin.values = std::move(state);
      buffers.push_back(begin.buffer());
    }
    const std::vector<mydev_attribute> attributes = {bool_attribute("is_causal", false), float_attribute("scale", 1),
                                                     float_attribute("dropout", 0.5), int_attribute("seed", seed),
                                                     int_attribute("offset", offset)};
    mydev_frame frame = make_frame(buffers, 2, attributes);
    EXPECT_EQ(run_record(builtin_kernel("mydev.attention", instruction_set()), frame), MYDEV_OK);
    return a.out.values;
  };
  EXPECT_EQ(out(7, 100, {}), out(1, 40, {7, 60}));
  EXPECT_NE(out(7, 100, {}), out(7, 100, {7, 60}));
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(AttentionKernels);

}  // namespace
}  // namespace mydev::kernels
