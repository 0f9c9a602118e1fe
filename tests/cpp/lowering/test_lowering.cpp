// Programs of StableHLO, lowered and run: against numbers, in loops and branches.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lowering_fixture.h"
#include "program/text/text.h"
#include "program_fixture.h"

namespace mydev::lowering {
namespace {

TEST(Lowering, ComputesByKernels) {
  const std::string text = function("%x: tensor<2x3xf32>, %y: tensor<3x2xf32>", "tensor<2x2xf32>", R"(
    %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [0] : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>
    %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
    %2 = stablehlo.add %1, %1 : tensor<2x2xf32>
    return %2 : tensor<2x2xf32>)");
  EXPECT_EQ(run(text, {{1, 2, 3, 4, 5, 6}, {1, 0, 0, 1, 1, 1}}, 4), (Values{8, 20, 10, 22}));
}

// With a number or with a tensor: as one kernel, which rounds once.
TEST(Lowering, AddsAProductByANumberInOneKernel) {
  for (const char* other : {"%x", "%one"}) {
    const std::string text = function("%x: tensor<2xf32>, %y: tensor<2xf32>", "tensor<2xf32>", std::string(R"(
    %half = stablehlo.constant dense<0.5> : tensor<2xf32>
    %one = stablehlo.constant dense<1.0> : tensor<2xf32>
    %0 = stablehlo.multiply %y, %half : tensor<2xf32>
    %1 = stablehlo.add %0, )") + other + R"( : tensor<2xf32>
    return %1 : tensor<2xf32>)");
    const stablehlo::Module module = module_of(text);
    const LoweredProgram lowered = lower(module);
    const std::string printed = program::print(*lowered.program);
    EXPECT_NE(printed.find("alpha=0.5"), std::string::npos) << printed;
    EXPECT_EQ(printed.find("mydev.mul"), std::string::npos) << printed;
    EXPECT_EQ(run(text, {{1, 1}, {4, 6}}, 2), (Values{3, 4}));
  }
}

// Windows over the elements up to each one, or from each one on, are one launch, however many elements there are.
TEST(Lowering, ComputesCumulativeWindowsByKernels) {
  const auto text = [](const char* initial, const char* padding, const char* body) {
    return function("%x: tensor<4xf32>", "tensor<4xf32>",
                    std::string("%i = stablehlo.constant dense<") + initial + R"(> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: 4>, padding = dense<)" +
                        padding + R"(> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      )" + body + R"(
      stablehlo.return %r : tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>)");
  };
  const auto kernel_of = [](const std::string& program) {
    const stablehlo::Module module = module_of(program);
    const LoweredProgram lowered = lower(module);
    const std::string printed = program::print(*lowered.program);
    const size_t at = printed.find("launch mydev.");
    return at == std::string::npos ? printed : printed.substr(at + 7, printed.find('(', at) - at - 7);
  };
  const char *largest = "%r = stablehlo.maximum %a, %b : tensor<f32>", *lowest = "0xFF800000";
  const std::string up_to = text(lowest, "[[3, 0]]", largest), from = text(lowest, "[[0, 3]]", largest);
  EXPECT_EQ(kernel_of(up_to), "mydev.cummax");
  EXPECT_EQ(run(up_to, {{2, 1, 4, 3}}, 4), (Values{2, 2, 4, 4}));
  EXPECT_EQ(run(from, {{2, 1, 4, 3}}, 4), (Values{4, 4, 4, 3}));
  EXPECT_EQ(run(text("2.5", "[[3, 0]]", largest), {{2, 1, 4, 3}}, 4), (Values{2.5, 2.5, 4, 4}));

  const auto exponentials = [](const char* other) {
    return std::string(R"(%m = stablehlo.maximum %a, %b : tensor<f32>
      %d = stablehlo.subtract %a, %b : tensor<f32>
      %n = stablehlo.compare NE, %d, %d : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %s = stablehlo.add %a, %b : tensor<f32>
      %abs = stablehlo.abs %d : tensor<f32>
      %neg = stablehlo.negate %abs : tensor<f32>
      %e = stablehlo.exponential %neg : tensor<f32>
      %l = stablehlo.log_plus_one %e : tensor<f32>
      %t = stablehlo.add %m, %l : tensor<f32>
      %r = stablehlo.select %n, )") +
           other + ", %t : tensor<i1>, tensor<f32>";
  };
  const std::string logarithms = text(lowest, "[[3, 0]]", exponentials("%s").c_str());
  EXPECT_EQ(kernel_of(logarithms), "mydev.logcumsumexp");
  EXPECT_NEAR(run(logarithms, {{0, 0, 0, 0}}, 4)[3], std::log(4.0), 1e-6);
  // A body that is almost that one is computed as it says.
  EXPECT_NE(kernel_of(text(lowest, "[[3, 0]]", exponentials("%m").c_str())), "mydev.logcumsumexp");
  EXPECT_NE(kernel_of(text("0.0", "[[3, 0]]", exponentials("%s").c_str())), "mydev.logcumsumexp");

  const std::string other = text("0.0", "[[0, 3]]", R"(%p = stablehlo.multiply %a, %b : tensor<f32>
      %s = stablehlo.add %a, %b : tensor<f32>
      %r = stablehlo.add %p, %s : tensor<f32>)");
  EXPECT_EQ(run(other, {{1, 2, 3, 4}}, 4), (Values{119, 59, 19, 4}));
}

// A body may use constants that are defined before it.
TEST(Lowering, TakesConstantsIntoBodies) {
  const auto text = [](const std::string& definition) {
    return function("%x: tensor<2x3xf32>, %y: tensor<f32>", "tensor<2xf32>", definition + R"(
    %i = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%x init: %i) across dimensions = [1] : (tensor<2x3xf32>, tensor<f32>) -> tensor<2xf32>
     reducer(%a: tensor<f32>, %b: tensor<f32>) {
      %1 = stablehlo.add %c, %b : tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }
    return %0 : tensor<2xf32>)");
  };
  const std::vector<Values> arguments = {{1, 2, 3, 4, 5, 6}, {1}};
  EXPECT_EQ(run(text("%c = stablehlo.constant dense<7.0> : tensor<f32>"), arguments, 2), (Values{10, 13}));
  const stablehlo::Module module = module_of(text("%c = stablehlo.add %y, %y : tensor<f32>"));
  expect_error(error_of([&] { lower(module); }), MYDEV_UNIMPLEMENTED, "from outside of the body");
}

TEST(Lowering, NormalizesOverABatch) {
  const std::string types =
      "(tensor<2x3x2xf32>, tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x2xf32>, tensor<3xf32>, tensor<3xf32>)";
  const auto text = [&](int result, const std::string& type) {
    return function("%x: tensor<2x3x2xf32>, %s: tensor<3xf32>, %o: tensor<3xf32>", type,
                    R"(
    %0:3 = "stablehlo.batch_norm_training"(%x, %s, %o) {epsilon = 0.0 : f32, feature_index = 1 : i64} : )" +
                        types + "\n    return %0#" + std::to_string(result) + " : " + type);
  };
  const std::vector<Values> arguments = {{1, 3, 0, 0, 2, 2, 5, 7, 4, 4, 2, 6}, {1, 2, 1}, {0, 10, 0}};
  EXPECT_EQ(run(text(1, "tensor<3xf32>"), arguments, 3), (Values{4, 2, 3}));
  EXPECT_EQ(run(text(2, "tensor<3xf32>"), arguments, 3), (Values{5, 4, 3}));
  const Values normalized = run(text(0, "tensor<2x3x2xf32>"), arguments, 12);
  EXPECT_NEAR(normalized[0], -3 / std::sqrt(5.0), 1e-6);
  EXPECT_EQ(normalized[2], 8);   // (0 - 2) / 2 * 2 + 10
  EXPECT_EQ(normalized[8], 12);  // (4 - 2) / 2 * 2 + 10
}

TEST(Lowering, TakesCallsThatGiveTuples) {
  const std::string text = function("%x: tensor<2x2xf32>", "tensor<2xf32>", R"(
    %0 = stablehlo.custom_call @Eigh(%x) {backend_config = "1,1,100,0.000001"} : (tensor<2x2xf32>) -> tuple<tensor<2x2xf32>, tensor<2xf32>>
    %1 = stablehlo.get_tuple_element %0[1] : (tuple<tensor<2x2xf32>, tensor<2xf32>>) -> tensor<2xf32>
    return %1 : tensor<2xf32>)");
  const Values values = run(text, {{2, 77, 1, 2}}, 2);  // the lower triangle counts
  EXPECT_NEAR(values[0], 1, 1e-6);
  EXPECT_NEAR(values[1], 3, 1e-6);
}

// torch_xla makes such functions of `scan`.
TEST(Lowering, TakesFunctionsThatGiveTuples) {
  const std::string both = "tuple<tensor<2xf32>, tensor<2xf32>>",
                    types = std::string("(tensor<2xf32>, tensor<2xf32>) -> ") + both;
  const std::string text = function("%x: tensor<2xf32>, %q: tensor<f32>", "tensor<2xf32>", R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<f32>
    %p = stablehlo.compare GT, %q, %none : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %pair = func.call @both(%x, %x) : )" + types + R"(
    %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<2xf32>
     cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %outer = stablehlo.get_tuple_element %pair[0] : ()" + both + R"() -> tensor<2xf32>
      %inner = func.call @both(%a, %outer) : )" + types + R"(
      %kept = stablehlo.optimization_barrier %inner : )" + both + R"(
      %sum = stablehlo.get_tuple_element %kept[0] : ()" + both + R"() -> tensor<2xf32>
      stablehlo.return %next, %sum : tensor<i32>, tensor<2xf32>
    }
    %b = "stablehlo.if"(%p) ({
      %product = stablehlo.get_tuple_element %pair[1] : ()" + both + R"() -> tensor<2xf32>
      stablehlo.return %product : tensor<2xf32>
    }, {
      %last = func.call @both(%x, %r#1) : )" + types + R"(
      %again = func.call @second(%last) : ()" + both + R"() -> tensor<2xf32>
      stablehlo.return %again : tensor<2xf32>
    }) : (tensor<i1>) -> tensor<2xf32>
    return %b : tensor<2xf32>
  }
  func.func private @second(%t: )" + both + R"() -> tensor<2xf32> {
    %0 = stablehlo.get_tuple_element %t[1] : ()" + both + R"() -> tensor<2xf32>
    return %0 : tensor<2xf32>
  }
  func.func private @both(%x: tensor<2xf32>, %y: tensor<2xf32>) -> )" + both + R"( {
    %0 = stablehlo.add %x, %y : tensor<2xf32>
    %1 = stablehlo.multiply %x, %y : tensor<2xf32>
    %2 = stablehlo.tuple %0, %1 : )" + both + R"(
    return %2 : )" + both);
  EXPECT_EQ(run(text, {{2, 3}, {1}}, 2), (Values{4, 9}));    // x * x
  EXPECT_EQ(run(text, {{2, 3}, {0}}, 2), (Values{28, 63}));  // x * (x + 3 * 2 * x)
}

TEST(Lowering, UpdatesTheStateOfLoopsInOneStep) {
  // Two values change places: each iteration reads both before it writes either.
  const std::string text = function("%a: tensor<2xf32>, %b: tensor<2xf32>", "tensor<2xf32>", R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:3 = stablehlo.while(%i = %zero, %p = %a, %q = %b) : tensor<i32>, tensor<2xf32>, tensor<2xf32>
     cond {
      %three = stablehlo.constant dense<3> : tensor<i32>
      %c = stablehlo.compare LT, %i, %three : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %sum = stablehlo.add %p, %a : tensor<2xf32>
      stablehlo.return %next, %q, %sum : tensor<i32>, tensor<2xf32>, tensor<2xf32>
    }
    return %r#1 : tensor<2xf32>)");
  // (p, q): (1, 10) (10, 2) (2, 11) (11, 3)
  EXPECT_EQ(run(text, {{1, 1}, {10, 20}}, 2), (Values{11, 21}));
}

TEST(Lowering, UpdatesWhatALoopCarriesInPlace) {
  // a[i] = a[i] + 1 for two of three elements: one step, on elements that move; nothing reads the counter.
  const std::string text = function("%a: tensor<3xf32>", "tensor<3xf32>", R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %p = %a) : tensor<i32>, tensor<3xf32>
     cond {
      %two = stablehlo.constant dense<2> : tensor<i32>
      %c = stablehlo.compare LT, %i, %two : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %zero_again = stablehlo.constant dense<0> : tensor<i32>
      %three = stablehlo.constant dense<3> : tensor<i32>
      %negative = stablehlo.compare LT, %i, %zero_again : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %wrapped = stablehlo.add %i, %three : tensor<i32>
      %at = stablehlo.select %negative, %wrapped, %i : tensor<i1>, tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %i, %one : tensor<i32>
      %x = "stablehlo.dynamic_slice"(%p, %at) <{slice_sizes = array<i64: 1>}> : (tensor<3xf32>, tensor<i32>) -> tensor<1xf32>
      %step = stablehlo.constant dense<1.0> : tensor<1xf32>
      %y = stablehlo.add %x, %step : tensor<1xf32>
      %q = "stablehlo.dynamic_update_slice"(%p, %y, %at) : (tensor<3xf32>, tensor<1xf32>, tensor<i32>) -> tensor<3xf32>
      stablehlo.return %next, %q : tensor<i32>, tensor<3xf32>
    }
    return %r#1 : tensor<3xf32>)");
  EXPECT_EQ(run(text, {{1, 2, 3}}, 3), (Values{2, 3, 3}));
  const stablehlo::Module module = module_of(text);
  const LoweredProgram lowered = lower(module);
  EXPECT_EQ(program::programs_of(*lowered.program).front()->steps().size(), 1U) << program::print(*lowered.program);
}

TEST(Lowering, LeavesOutACounterThatOnlyCounts) {
  const std::string text = function("%a: tensor<2xf32>", "(tensor<2xf32>, tensor<i32>)", R"(
    %zero = stablehlo.constant dense<1> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %p = %a) : tensor<i32>, tensor<2xf32>
     cond {
      %limit = stablehlo.constant dense<6> : tensor<i32>
      %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %step = stablehlo.constant dense<2> : tensor<i32>
      %next = stablehlo.add %i, %step : tensor<i32>
      %q = stablehlo.add %p, %p : tensor<2xf32>
      stablehlo.return %next, %q : tensor<i32>, tensor<2xf32>
    }
    return %r#1, %r#0 : tensor<2xf32>, tensor<i32>)");
  const stablehlo::Module module = module_of(text);
  const LoweredProgram lowered = lower(module);
  EXPECT_EQ(program::programs_of(*lowered.program).front()->steps().size(), 1U) << program::print(*lowered.program);
  const DeviceArray<float> argument(Values{1, 3}), result(Values{0, 0});
  const DeviceArray<int32_t> counter(std::vector<int32_t>{0});
  program::Executor executor = program::executor_of(lowered.program);
  executor.run(default_stream(0), std::vector<program::Binding>{argument.binding()},
               std::vector<program::Binding>{result.binding(), counter.binding()});
  EXPECT_EQ(result.read(), (Values{8, 24}));
  EXPECT_EQ(counter.read(), (std::vector<int32_t>{7}));
}

// Loops while i < limit, with i + step as the next i. Returns i at the end, and the trip count.
template <typename Integer>
std::pair<Integer, float> counted_to(const std::string& type, Integer start, Integer limit, Integer step) {
  const auto number = [&](const std::string& name, Integer value) {
    return name + " = stablehlo.constant dense<" + std::to_string(value) + "> : tensor<" + type + ">\n";
  };
  const std::string text = function(
      "%a: tensor<f32>", "(tensor<" + type + ">, tensor<f32>)",
      number("%start", start) + "%r:2 = stablehlo.while(%i = %start, %p = %a) : tensor<" + type +
          ">, tensor<f32>\n cond {\n" + number("%limit", limit) + "%c = stablehlo.compare LT, %i, %limit : (tensor<" +
          type + ">, tensor<" + type + ">) -> tensor<i1>\n stablehlo.return %c : tensor<i1>\n } do {\n" +
          number("%step", step) + "%next = stablehlo.add %i, %step : tensor<" + type + R"(>
      %one = stablehlo.constant dense<1.0> : tensor<f32>
      %q = stablehlo.add %p, %one : tensor<f32>
      stablehlo.return %next, %q : tensor<)" +
          type + R"(>, tensor<f32>
    }
    return %r#0, %r#1 : tensor<)" +
          type + ">, tensor<f32>");
  const stablehlo::Module module = module_of(text);
  const LoweredProgram lowered = lower(module);
  const DeviceArray<float> argument(Values{0}), iterations(Values{-1});
  const DeviceArray<Integer> counter(std::vector<Integer>{0});
  program::Executor executor = program::executor_of(lowered.program);
  executor.run(default_stream(0), std::vector<program::Binding>{argument.binding()},
               std::vector<program::Binding>{counter.binding(), iterations.binding()});
  return {counter.read()[0], iterations.read()[0]};
}

TEST(Lowering, CountsExactly) {
  constexpr int64_t kBeyondDoubles = (int64_t{1} << 53) + 1;
  EXPECT_EQ(counted_to<int64_t>("i64", kBeyondDoubles, kBeyondDoubles + 4, 2), (std::pair{kBeyondDoubles + 4, 2.0F}));
  EXPECT_EQ(counted_to<uint8_t>("ui8", 0, 250, 10), (std::pair{uint8_t{250}, 25.0F}));
  EXPECT_EQ(counted_to<uint8_t>("ui8", 0, 255, 7), (std::pair{uint8_t{255}, 73.0F}));  // 7 * 73 = 511: it wraps, once
  EXPECT_EQ(counted_to<int8_t>("i8", 0, 127, 7), (std::pair{int8_t{127}, 201.0F}));    // 7 * 201 = 1407
}

TEST(Lowering, ReturnsWhatIsNoSlotOfItsOwn) {
  const std::string text = function("%x: tensor<2x2xf32>", "tensor<2x2xf32>", R"(
    %0 = stablehlo.transpose %x, dims = [1, 0] : (tensor<2x2xf32>) -> tensor<2x2xf32>
    return %0 : tensor<2x2xf32>)");
  EXPECT_EQ(run(text, {{1, 2, 3, 4}}, 4), (Values{1, 3, 2, 4}));
  EXPECT_EQ(run(function("%x: tensor<2xf32>", "tensor<2xf32>", "return %x : tensor<2xf32>"), {{1, 2}}, 2),
            (Values{1, 2}));
}

TEST(Lowering, NamesTheOperationThatIsNotSupported) {
  const stablehlo::Module module = module_of(function("%x: tensor<2xf32>", "tensor<2xf32>", R"(
    %0 = "stablehlo.custom_call"(%x) <{call_target_name = "nobody.knows"}> : (tensor<2xf32>) -> tensor<2xf32>
    return %0 : tensor<2xf32>)"));
  expect_error(error_of([&] { lower(module); }), MYDEV_UNIMPLEMENTED,
               "stablehlo.custom_call (operation 0 of function 'main'): there is no kernel 'nobody.knows' to "
               "call; load the library that has it (MYDEV_CUSTOM_CALLS)");
}

struct ExchangeCase {
  const char *name, *operation;
};
class Exchange : public ::testing::TestWithParam<ExchangeCase> {};
TEST_P(Exchange, IsRefusedByNameAndPlace) {
  const stablehlo::Module module =
      module_of(function("%x: tensor<2xf32>", "tensor<2xf32>",
                         "%t = stablehlo.create_token : !stablehlo.token\n" + std::string(GetParam().operation) +
                             "\n return %x : tensor<2xf32>"));
  expect_error(error_of([&] { lower(module); }), MYDEV_UNIMPLEMENTED,
               "stablehlo." + std::string(GetParam().name) +
                   " (operation 1 of function 'main'): exchanges data with the host while the program runs; "
                   "io_callback is what is supported for that");
}
INSTANTIATE_TEST_SUITE_P(
    Lowering, Exchange,
    ::testing::Values(ExchangeCase{"infeed", R"(%0:2 = "stablehlo.infeed"(%t) <{infeed_config = "", layout = [[0]]}> :
          (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token))"},
                      ExchangeCase{"outfeed", R"(%0 = "stablehlo.outfeed"(%x, %t) <{outfeed_config = ""}> :
          (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token)"},
                      ExchangeCase{"send", R"(%0 = "stablehlo.send"(%x, %t) <{channel_handle =
          #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}> :
          (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token)"},
                      ExchangeCase{"recv", R"(%0:2 = "stablehlo.recv"(%t) <{channel_handle =
          #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true}> :
          (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token))"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Lowering, RefusesAnApproxTopKWhoseResultIsNone) {
  const stablehlo::Module module = module_of(R"(module @m {
   func.func @less(%a: tensor<f32>, %b: tensor<f32>) -> tensor<i1> {
    %0 = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
    return %0 : tensor<i1>
   }
   func.func @main(%x: tensor<4xf32>, %i: tensor<f32>) -> tensor<5xf32> {
    %0 = stablehlo.custom_call @ApproxTopK(%x, %i) {called_computations = [@less],
      mhlo.backend_config = {reduction_dim = 0 : i64}} : (tensor<4xf32>, tensor<f32>) -> tensor<5xf32>
    return %0 : tensor<5xf32>
   }
  })");
  expect_error(
      error_of([&] { lower(module); }), MYDEV_INVALID_ARGUMENT,
      "stablehlo.custom_call (operation 0 of function 'main'): a tensor<5xf32> is not of the first elements of a "
      "tensor<4xf32> along dimension 0");
}

}  // namespace
}  // namespace mydev::lowering
