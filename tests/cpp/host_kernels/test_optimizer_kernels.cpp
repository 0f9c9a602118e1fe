// The optimizer and list kernels against the update rules written out for one element.
#include <cmath>

#include "kernel_fixture.h"

namespace mydev::kernels {
namespace {

using OptimizerKernels = KernelTest;

const std::vector<int64_t> kLengths = {3, 1, 20000, 1025};

// A list of tensors of kLengths.
struct List {
  std::vector<Operand<float>> tensors;
  explicit List(uint32_t seed) {
    for (const int64_t length : kLengths) tensors.push_back(Operand<float>({length}, MYDEV_F32).fill(seed++));
  }
  void add_to(std::vector<mydev_buffer>& buffers) {
    for (Operand<float>& tensor : tensors) buffers.push_back(tensor.buffer());
  }
};

struct Element {
  double param, mean, square, grad;
};

// Adam's rule for one element.
void adam_rule(Element& e, double lr, double beta1, double beta2, double decay, double eps, double step,
               bool decoupled) {
  if (decoupled) e.param -= lr * decay * e.param;
  const double g = e.grad + (decoupled ? 0 : decay * e.param);
  e.mean = beta1 * e.mean + (1 - beta1) * g;
  e.square = beta2 * e.square + (1 - beta2) * g * g;
  const double mean = e.mean / (1 - std::pow(beta1, step)), square = e.square / (1 - std::pow(beta2, step));
  e.param -= lr * mean / (std::sqrt(square) + eps);
}

TEST_P(OptimizerKernels, AdamFollowsItsRule) {
  for (const bool decoupled : {false, true}) {
    List params(1), means(2), squares(3), grads(4);
    for (Operand<float>& tensor : squares.tensors) {
      for (float& value : tensor.values) value = std::abs(value);
    }
    const List before_params = params, before_means = means, before_squares = squares;
    Operand<float> step({}, MYDEV_F32);
    step.values = {3};
    std::vector<mydev_buffer> buffers;
    params.add_to(buffers);
    means.add_to(buffers);
    squares.add_to(buffers);
    for (size_t i = 0; i < kLengths.size(); ++i) buffers.push_back(absent_operand(MYDEV_F32));
    grads.add_to(buffers);
    for (int i = 0; i < 3; ++i) buffers.push_back(absent_operand(MYDEV_F32));
    for (size_t i = 0; i < kLengths.size(); ++i) buffers.push_back(step.buffer());
    ASSERT_EQ(run("mydev.fused_adam", buffers, static_cast<uint32_t>(5 * kLengths.size()),
                  {float_attribute("lr", 0.01), float_attribute("beta1", 0.9), float_attribute("beta2", 0.99),
                   float_attribute("weight_decay", 0.1), float_attribute("eps", 0.01),
                   bool_attribute("maximize", false), bool_attribute("decoupled", decoupled)}),
              MYDEV_OK);
    for (size_t t = 0; t < kLengths.size(); ++t) {
      for (size_t i = 0; i < params.tensors[t].values.size(); ++i) {
        Element e{before_params.tensors[t].values[i], before_means.tensors[t].values[i],
                  before_squares.tensors[t].values[i], grads.tensors[t].values[i]};
        adam_rule(e, 0.01, 0.9, 0.99, 0.1, 0.01, 3, decoupled);
        ASSERT_NEAR(params.tensors[t].values[i], e.param, 1e-5) << t << ", " << i;
        ASSERT_NEAR(means.tensors[t].values[i], e.mean, 1e-5);
        ASSERT_NEAR(squares.tensors[t].values[i], e.square, 1e-5);
      }
    }
  }
}

TEST_P(OptimizerKernels, SgdWithMomentumFollowsItsRule) {
  for (const bool nesterov : {false, true}) {
    List params(1), velocities(2), grads(3);
    const List before_params = params, before_velocities = velocities;
    std::vector<mydev_buffer> buffers;
    params.add_to(buffers);
    velocities.add_to(buffers);
    grads.add_to(buffers);
    for (int i = 0; i < 3; ++i) buffers.push_back(absent_operand(MYDEV_F32));
    ASSERT_EQ(run("mydev.fused_sgd", buffers, static_cast<uint32_t>(3 * kLengths.size()),
                  {float_attribute("lr", 0.1), float_attribute("weight_decay", 0.01), float_attribute("momentum", 0.9),
                   float_attribute("dampening", 0), bool_attribute("nesterov", nesterov),
                   bool_attribute("maximize", true), bool_attribute("first_step", false)}),
              MYDEV_OK);
    for (size_t t = 0; t < kLengths.size(); ++t) {
      for (size_t i = 0; i < params.tensors[t].values.size(); ++i) {
        const double param = before_params.tensors[t].values[i];
        const double g = -grads.tensors[t].values[i] + 0.01 * param;
        const double v = 0.9 * before_velocities.tensors[t].values[i] + g;
        ASSERT_NEAR(velocities.tensors[t].values[i], v, 1e-5);
        ASSERT_NEAR(params.tensors[t].values[i], param - 0.1 * (nesterov ? g + 0.9 * v : v), 1e-5);
      }
    }
  }
}

TEST_P(OptimizerKernels, NothingChangesWhenAnInfinityWasFound) {
  List params(1), grads(2);
  const List before = params;
  Operand<float> found({}, MYDEV_F32);
  found.values = {1};
  std::vector<mydev_buffer> buffers;
  params.add_to(buffers);
  for (size_t i = 0; i < kLengths.size(); ++i) buffers.push_back(absent_operand(MYDEV_F32));
  grads.add_to(buffers);
  buffers.push_back(absent_operand(MYDEV_F32));
  buffers.push_back(absent_operand(MYDEV_F32));
  buffers.push_back(found.buffer());
  ASSERT_EQ(run("mydev.fused_sgd", buffers, static_cast<uint32_t>(3 * kLengths.size()),
                {float_attribute("lr", 0.1), float_attribute("weight_decay", 0), float_attribute("momentum", 0),
                 float_attribute("dampening", 0), bool_attribute("nesterov", false), bool_attribute("maximize", false),
                 bool_attribute("first_step", true)}),
            MYDEV_OK);
  for (size_t t = 0; t < kLengths.size(); ++t) EXPECT_EQ(params.tensors[t].values, before.tensors[t].values);
}

TEST_P(OptimizerKernels, ForeachTakesOneScalarForEachTensor) {
  List out(1), in(2);
  std::vector<mydev_buffer> buffers;
  out.add_to(buffers);
  in.add_to(buffers);
  const std::vector<double> scalars = {1, 2, 3, 4};
  mydev_attribute attribute{"scalars", MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, 4, {}};
  attribute.value.floats = scalars.data();
  ASSERT_EQ(run("mydev.foreach_mul_scalar", buffers, 4, {attribute}), MYDEV_OK);
  for (size_t t = 0; t < kLengths.size(); ++t) {
    for (size_t i = 0; i < in.tensors[t].values.size(); ++i) {
      ASSERT_EQ(out.tensors[t].values[i], in.tensors[t].values[i] * static_cast<float>(scalars[t]));
    }
  }
}

TEST_P(OptimizerKernels, ForeachNormGivesOneNumberPerTensor) {
  List in(5);
  std::vector<Operand<float>> norms(kLengths.size(), Operand<float>({}, MYDEV_F32));
  std::vector<mydev_buffer> buffers;
  for (Operand<float>& norm : norms) buffers.push_back(norm.buffer());
  in.add_to(buffers);
  ASSERT_EQ(run("mydev.foreach_norm2", buffers, 4), MYDEV_OK);
  for (size_t t = 0; t < kLengths.size(); ++t) {
    double sum = 0;
    for (const double x : in.tensors[t].values) sum += x * x;
    EXPECT_NEAR(norms[t].values[0], std::sqrt(sum), 1e-6 * std::sqrt(sum));
  }
}

MYDEV_INSTANTIATE_FOR_INSTRUCTION_SETS(OptimizerKernels);

}  // namespace
}  // namespace mydev::kernels
