// Operators that take sizes as operands, with results of known sizes: each with constants and with sizes that are
// computed, and refused where the sizes are not those of the result.
#include <gtest/gtest.h>

#include "lowering_fixture.h"

namespace mydev::lowering {
namespace {

using Integers = std::vector<int32_t>;

// One operator: %x is a tensor<2x3xi32> of 1 to 6, %s its sizes.
struct Case {
  const char *name, *result, *operation, *sizes_type;
  Integers sizes;
  const char* written;  // of a constant
  Integers expected;
  Integers wrong;  // sizes
  const char* message;
};
void PrintTo(const Case& given, std::ostream* out) {
  *out << given.operation;
}

const std::vector<Case> kCases = {
    {"Reshape",
     "tensor<3x2xi32>",
     "stablehlo.dynamic_reshape %x, %s : (tensor<2x3xi32>, tensor<2xi32>) -> tensor<3x2xi32>",
     "tensor<2xi32>",
     {3, 2},
     "[3, 2]",
     {1, 2, 3, 4, 5, 6},
     {2, 3},
     "its operand 1 is [2,3], and with a result of the type tensor<3x2xi32> it must be [3,2]"},
    {"Broadcast",
     "tensor<2x2x3xi32>",
     "stablehlo.dynamic_broadcast_in_dim %x, %s, dims = [1, 2] : (tensor<2x3xi32>, tensor<3xi32>) -> "
     "tensor<2x2x3xi32>",
     "tensor<3xi32>",
     {2, 2, 3},
     "[2, 2, 3]",
     {1, 2, 3, 4, 5, 6, 1, 2, 3, 4, 5, 6},
     {1, 2, 3},
     "its operand 1 is [1,2,3], and with a result of the type tensor<2x2x3xi32> it must be [2,2,3]"},
    {"Iota",
     "tensor<2x3xi32>",
     "stablehlo.dynamic_iota %s, dim = 1 : (tensor<2xi32>) -> tensor<2x3xi32>",
     "tensor<2xi32>",
     {2, 3},
     "[2, 3]",
     {0, 1, 2, 0, 1, 2},
     {2, 4},
     "its operand 0 is [2,4], and with a result of the type tensor<2x3xi32> it must be [2,3]"},
    {"Gather",
     "tensor<2x2xi32>",
     R"("stablehlo.dynamic_gather"(%x, %one, %s) <{dimension_numbers =
       #stablehlo.gather<offset_dims = [0, 1], start_index_map = [1]>, indices_are_sorted = false}> :
       (tensor<2x3xi32>, tensor<1xi32>, tensor<2xi32>) -> tensor<2x2xi32>)",
     "tensor<2xi32>",
     {2, 2},
     "[2, 2]",
     {2, 3, 5, 6},
     {2, 1},
     "its operand 2 is [2,1], and with a result of the type tensor<2x2xi32> it must be [2,2]"},
    {"Pad",
     "tensor<2x6xi32>",
     "stablehlo.dynamic_pad %x, %zero, %s, %low, %within : (tensor<2x3xi32>, tensor<i32>, tensor<2xi32>, "
     "tensor<2xi32>, tensor<2xi32>) -> tensor<2x6xi32>",
     "tensor<2xi32>",
     {0, 1},
     "[0, 1]",
     {0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0, 6},
     {0, 2},
     "dimension 1 of size 3 is padded by 2, 0 and 1 within, and the result has 6"},
    {"Slice",
     "tensor<1x2xi32>",
     "stablehlo.real_dynamic_slice %x, %s, %end, %steps : (tensor<2x3xi32>, tensor<2xi32>, tensor<2xi32>, "
     "tensor<2xi32>) -> tensor<1x2xi32>",
     "tensor<2xi32>",
     {1, 0},
     "[1, 0]",
     {4, 6},
     {1, 1},
     "elements 1 to 3 in steps of 2 of dimension 1, which has 3, are not the 2 of the result"},
    {"Convolution",
     "tensor<2x4xi32>",
     R"("stablehlo.dynamic_conv"(%rows, %ones, %s) <{batch_group_count = 1 : i64,
       feature_group_count = 1 : i64, dimension_numbers = #stablehlo.conv<[b, f, 0]x[i, o, 0]->[b, f, 0]>}> :
       (tensor<2x1x3xi32>, tensor<1x1x2xi32>, tensor<1x2xi32>) -> tensor<2x1x4xi32>
       %0 = stablehlo.reshape %conv : (tensor<2x1x4xi32>) -> tensor<2x4xi32>)",
     "tensor<1x2xi32>",
     {1, 1},
     "[[1, 1]]",
     {1, 3, 5, 3, 4, 9, 11, 6},
     {1, 0},
     "dimension 2 of size 3 is padded by 1 and 0, and the result has 4"},
    {"DimensionSize",
     "tensor<2x3xi32>",
     "stablehlo.set_dimension_size %x, %s, dim = 1 : (tensor<2x3xi32>, tensor<i32>) -> tensor<2x3xi32>",
     "tensor<i32>",
     {3},
     "3",
     {1, 2, 3, 4, 5, 6},
     {2},
     "its operand 1 is [2], and with a result of the type tensor<2x3xi32> it must be [3]"},
};

constexpr const char* kConstants = R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<1xi32>
    %low = stablehlo.constant dense<0> : tensor<2xi32>
    %within = stablehlo.constant dense<[0, 1]> : tensor<2xi32>
    %end = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
    %steps = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
    %rows = stablehlo.reshape %x : (tensor<2x3xi32>) -> tensor<2x1x3xi32>
    %ones = stablehlo.constant dense<1> : tensor<1x1x2xi32>
)";

// `%s` is an argument, or the constant that is written.
std::string text_of(const Case& given, const char* constant) {
  const std::string argument = constant == nullptr ? "%s" : "%unused";
  std::string body = kConstants;
  if (constant != nullptr) body += "%s = stablehlo.constant dense<" + std::string(constant) + "> : " + given.sizes_type;
  body += (std::string(given.name) == "Convolution" ? "\n%conv = " : "\n%0 = ") + std::string(given.operation);
  body += "\nreturn %0 : " + std::string(given.result);
  return function("%x: tensor<2x3xi32>, " + argument + ": " + given.sizes_type, given.result, body);
}

const Integers kX = {1, 2, 3, 4, 5, 6};

class DynamicShape : public ::testing::TestWithParam<Case> {};

TEST_P(DynamicShape, OfConstantsIsComputed) {
  const Case& given = GetParam();
  EXPECT_EQ(run<int32_t>(text_of(given, given.written), {kX, given.sizes}, given.expected.size()), given.expected);
}

TEST_P(DynamicShape, OfComputedSizesIsComputed) {
  const Case& given = GetParam();
  EXPECT_EQ(run<int32_t>(text_of(given, nullptr), {kX, given.sizes}, given.expected.size()), given.expected);
}

TEST_P(DynamicShape, IsRefusedWhereTheSizesAreOthers) {
  const Case& given = GetParam();
  const Error error =
      error_of([&] { run<int32_t>(text_of(given, nullptr), {kX, given.wrong}, given.expected.size()); });
  EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.what()).find(given.message), std::string::npos) << error.what();
}

INSTANTIATE_TEST_SUITE_P(Lowering, DynamicShape, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(DynamicShapes, OfConstantsAreRefusedBeforeTheProgramRuns) {
  const stablehlo::Module module = module_of(text_of(kCases[0], "[2, 3]"));
  const Error error = error_of([&] { lower(module); });
  EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.what()).find("stablehlo.dynamic_reshape (operation 9 of function 'main'): its operand 1"),
            std::string::npos)
      << error.what();
}

TEST(DynamicShapes, OfResultsThatAreNotKnownAreRefused) {
  const stablehlo::Module module = module_of(function("%s: tensor<1xi32>", "tensor<?xf32>", R"(
    %0 = stablehlo.dynamic_iota %s, dim = 0 : (tensor<1xi32>) -> tensor<?xf32>
    return %0 : tensor<?xf32>)"));
  expect_error(
      error_of([&] { lower(module); }), MYDEV_UNIMPLEMENTED,
      "stablehlo.dynamic_iota (operation 0 of function 'main'): gives a tensor<?xf32>; tensors whose sizes are "
      "known are supported");
}

struct Misfit {
  const char *name, *operation, *message;
};
class DynamicShapeMisfit : public ::testing::TestWithParam<Misfit> {};

TEST_P(DynamicShapeMisfit, IsNoProgram) {
  const Misfit& given = GetParam();
  const std::string text = function("%x: tensor<4xf32>, %s: tensor<2xi32>, %f: tensor<1xf32>", "tensor<4xf32>",
                                    "%0 = " + std::string(given.operation) + "\nreturn %0 : tensor<4xf32>");
  const Error error = error_of([&] { module_of(text); });
  EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(error.what()).find(given.message), std::string::npos) << error.what();
}

INSTANTIATE_TEST_SUITE_P(
    Lowering, DynamicShapeMisfit,
    ::testing::Values(
        Misfit{"Count", "stablehlo.dynamic_reshape %x, %s : (tensor<4xf32>, tensor<2xi32>) -> tensor<4xf32>",
               "operand 1 is of the type tensor<2xi32>, expected 1 integers, one for each dimension"},
        Misfit{"Kind", "stablehlo.dynamic_iota %f, dim = 0 : (tensor<1xf32>) -> tensor<4xf32>",
               "operand 0 is of the type tensor<1xf32>, expected 1 integers, one for each dimension"},
        Misfit{"Element", "stablehlo.dynamic_reshape %s, %f : (tensor<2xi32>, tensor<1xf32>) -> tensor<4xf32>",
               "it makes a tensor<4xf32> of a tensor<2xi32>"},
        Misfit{"Scalar",
               "stablehlo.set_dimension_size %x, %f, dim = 0 : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>",
               "operand 1 is of the type tensor<1xf32>, expected an integer"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace mydev::lowering
