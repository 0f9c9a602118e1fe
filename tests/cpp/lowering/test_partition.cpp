// Programs for several devices as the program of one of them: which operations are computed in parts, and where devices
// meet. tests/pjrt/jax_partitioned.py compares what such programs compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lowering/partition/cuts.h"
#include "lowering/partition/partition.h"
#include "lowering_fixture.h"

namespace mydev::lowering {
namespace {

// Over four devices, two by two.
constexpr char kRows[] = " {mhlo.sharding = \"{devices=[2,1,2]<=[4] last_tile_dim_replicate}\"}";
constexpr char kColumns[] = " {mhlo.sharding = \"{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}\"}";

std::string program(const std::string& arguments, const std::string& result, const std::string& body) {
  return function(arguments, "(" + result + " {jax.result_info = \"\"})", body);
}

// The operations of the program of one device and the types of their results, a line each; those of bodies are left
// out. A reshard is shown by what devices do for it.
std::string in_parts(const std::string& text) {
  const stablehlo::Module module = module_of(text);
  if (!has_shardings(module, 4)) return "no shardings";
  const Partition partition = lowering::partition(module, 4);
  stablehlo::verify(partition.module);
  std::string lines;
  for (const stablehlo::Operation* op : partition.module.main().body->body().operations) {
    if (op->results.empty()) continue;
    const auto move = partition.moves.find(op);
    lines += move == partition.moves.end() ? std::string(op->row().short_name())
                                           : std::string(move->second.gathered ? "gather " : "") +
                                                 (move->second.part ? "part " : "") + "of " + move->second.what;
    lines += " " + op->result().type->text() + "\n";
  }
  return lines;
}

struct Case {
  const char* name;
  std::string text, lines;
};
void PrintTo(const Case& given, std::ostream* out) {
  *out << given.text;
}
class Partitioned : public testing::TestWithParam<Case> {};

TEST_P(Partitioned, ComputesWithParts) {
  EXPECT_EQ(in_parts(GetParam().text), GetParam().lines);
}

const std::string kX = "%x: tensor<8x4xf32>", kRowsOfX = kX + kRows, kColumnsOfX = kX + kColumns;
constexpr char kSumBody[] = R"( ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) )";

INSTANTIATE_TEST_SUITE_P(
    Program, Partitioned,
    testing::Values(
        Case{"WithoutShardings", program(kX, "tensor<8x4xf32>", "return %x : tensor<8x4xf32>"), "no shardings"},
        Case{"Pointwise", program(kRowsOfX + ", %y: tensor<8x4xf32>", "tensor<8x4xf32>", R"(
    %0 = stablehlo.add %y, %x : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>)"),
             "part of argument 1 tensor<4x4xf32>\nadd tensor<4x4xf32>\n"},
        Case{"TwoWays", program(kRowsOfX + ", %y: tensor<8x4xf32>" + kColumns, "tensor<8x4xf32>", R"(
    %0 = stablehlo.add %x, %y : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>)"),
             "part of argument 0 tensor<4x2xf32>\npart of argument 1 tensor<4x2xf32>\nadd tensor<4x2xf32>\n"},
        Case{"Rows", program(kRowsOfX + ", %w: tensor<4x6xf32>", "tensor<8x6xf32>", R"(
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>)"),
             "dot_general tensor<4x6xf32>\n"},
        Case{"WhatIsContracted", program(kColumnsOfX + ", %w: tensor<4x6xf32>", "tensor<8x6xf32>", R"(
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>)"),
             "part of argument 1 tensor<2x6xf32>\ndot_general tensor<8x6xf32>\nall_reduce tensor<8x6xf32>\n"},
        Case{"Sums",
             program(kRowsOfX, "tensor<4xf32>",
                     std::string(R"(
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce"(%x, %zero) <{dimensions = array<i64: 0>}>)") +
                         kSumBody + R"(: (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>)"),
             "constant tensor<f32>\nreduce tensor<4xf32>\nall_reduce tensor<4xf32>\n"},
        Case{"SumsFromOne",
             program(kRowsOfX, "tensor<4xf32>",
                     std::string(R"(
    %one = stablehlo.constant dense<1.0> : tensor<f32>
    %0 = "stablehlo.reduce"(%x, %one) <{dimensions = array<i64: 0>}>)") +
                         kSumBody + R"(: (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    return %0 : tensor<4xf32>)"),
             "constant tensor<f32>\ngather of argument 0 tensor<8x4xf32>\nreduce tensor<4xf32>\n"},
        Case{"MergedAndSplitDimensions", program(kRowsOfX, "tensor<2x4x4xf32>", R"(
    %0 = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<32xf32>
    %1 = stablehlo.reshape %0 : (tensor<32xf32>) -> tensor<2x4x4xf32>
    return %1 : tensor<2x4x4xf32>)"),
             "reshape tensor<16xf32>\nreshape tensor<1x4x4xf32>\n"},
        Case{"InnerDimensionsThatAreMerged", program(kColumnsOfX, "tensor<32xf32>", R"(
    %0 = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<32xf32>
    return %0 : tensor<32xf32>)"),
             "gather of argument 0 tensor<8x4xf32>\nreshape tensor<32xf32>\n"},
        Case{"SlicesOfWhatIsWhole", program(kRowsOfX, "tensor<8x2xf32>", R"(
    %0 = stablehlo.slice %x [0:8, 1:3] : (tensor<8x4xf32>) -> tensor<8x2xf32>
    return %0 : tensor<8x2xf32>)"),
             "slice tensor<4x2xf32>\n"},
        Case{"WhatNoRuleKnows", program(kRowsOfX, "tensor<8x4xf32>", R"(
    %0 = stablehlo.reverse %x, dims = [0] : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>)"),
             "gather of argument 0 tensor<8x4xf32>\nreverse tensor<8x4xf32>\n"},
        // What goes round comes in whole, and is cut from the first round on.
        Case{"Loops", program(kRowsOfX, "tensor<8x4xf32>", R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<8x4xf32>
    %0:2 = "stablehlo.while"(%zero, %none) ({
    ^bb0(%i: tensor<i32>, %s: tensor<8x4xf32>):
      %less = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }, {
    ^bb0(%i: tensor<i32>, %s: tensor<8x4xf32>):
      %next = stablehlo.add %i, %one : tensor<i32>
      %sum = stablehlo.add %s, %x : tensor<8x4xf32>
      stablehlo.return %next, %sum : tensor<i32>, tensor<8x4xf32>
    }) : (tensor<i32>, tensor<8x4xf32>) -> (tensor<i32>, tensor<8x4xf32>)
    return %0#1 : tensor<8x4xf32>)"),
             "constant tensor<i32>\nconstant tensor<i32>\nconstant tensor<8x4xf32>\n"
             "part of result 0 of stablehlo.constant (operation 2 of function 'main') tensor<4x4xf32>\n"
             "while tensor<i32>\n"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Partitioned, ResultsAreAsTheyAreAskedFor) {
  const stablehlo::Module module = module_of(function(kRowsOfX, std::string("(tensor<8x4xf32>") + kColumns + ")", R"(
    %0 = stablehlo.negate %x : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>)"));
  const Partition partition = lowering::partition(module, 4);
  EXPECT_EQ(partition.parameters.at(0).parts(), (Sizes{2, 1}));
  EXPECT_EQ(partition.results.at(0).parts(), (Sizes{1, 2}));
  EXPECT_EQ(partition.module.main().results.at(0).type->text(), "tensor<8x2xf32>");
}

TEST(Partitioned, ResultsAreWholeForClientsThatDoNotAsk) {
  const stablehlo::Module module = module_of(function(kRowsOfX, "tensor<8x4xf32>", "return %x : tensor<8x4xf32>"));
  EXPECT_TRUE(lowering::partition(module, 4).results.at(0).is_whole());
}

TEST(Cuts, AreIndependentWhereOneTensorCanHaveThemAll) {
  const Cut rows = {0, 0, 1, 1}, columns = {0, 1, 0, 1}, all = {0, 1, 2, 3};
  EXPECT_TRUE(are_independent(Cuts{rows, columns, {}}));
  EXPECT_FALSE(are_independent(Cuts{rows, rows}));
  EXPECT_FALSE(are_independent(Cuts{rows, all}));
  EXPECT_TRUE(are_independent(Cuts{{}, {}}));
}

TEST(Cuts, GroupsHaveEachPartOnce) {
  const Cut rows = {0, 0, 1, 1}, columns = {0, 1, 0, 1};
  using Groups = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(groups_over(Cuts{rows}, Cuts{columns}, 4), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups_over(Cuts{rows}, {}, 4), (Groups{{0, 2}, {1, 3}}));
  EXPECT_EQ(groups_over(Cuts{rows, columns}, {}, 4), (Groups{{0, 1, 2, 3}}));
}

}  // namespace
}  // namespace mydev::lowering
