// Programs for several devices as the program of one of them: the operations that are computed in parts, and those at
// which devices rendezvous. tests/pjrt/programs/jax_partitioned.py compares the results of such programs.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lowering/sharding/partition/cuts.h"
#include "lowering/sharding/partition/partition.h"
#include "lowering_fixture.h"

namespace mydev::lowering {
namespace {

// Over four devices, two by two.
constexpr char kRows[] = " {mhlo.sharding = \"{devices=[2,1,2]<=[4] last_tile_dim_replicate}\"}";
// Over the same axis as kColumns.
constexpr char kRowsOfSecond[] = " {mhlo.sharding = \"{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}\"}";
constexpr char kColumns[] = " {mhlo.sharding = \"{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}\"}";

// In summands along the columns of the devices, and along both.
constexpr char kSummands[] = "{devices=[1,1,2,2]<=[4] last_tile_dims={replicated, unreduced}}";
constexpr char kRowsInSummands[] = "{devices=[2,1,2]<=[4] last_tile_dims={unreduced}}";
constexpr char kFourSummands[] = "{devices=[1,1,4]<=[4] last_tile_dims={unreduced}}";

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
    lines += move == partition.moves.end()
                 ? std::string(op->row().short_name())
                 : std::string(move->second.gathered ? "gather " : "") + (move->second.sharded ? "shard " : "") +
                       (move->second.summand ? "summand " : "") + "of " + move->second.what;
    lines += " " + op->result().type->text() + "\n";
  }
  return lines;
}

// An operation that says how its operand is to be spread.
std::string constrained(const std::string& result, const std::string& operand, const std::string& sharding,
                        const std::string& type = "tensor<8x6xf32>") {
  return "\n" + result + " = stablehlo.custom_call @Sharding(" + operand + ") {mhlo.sharding = \"" + sharding +
         "\"} : (" + type + ") -> " + type + "\n";
}
// Multiplies %x by %w along the columns of %x, which come in parts. The product has this sharding, then goes through
// the body.
std::string product(const std::string& sharding, const std::string& body) {
  return program("%x: tensor<8x4xf32>" + std::string(kColumns) + ", %w: tensor<4x6xf32>" + kRowsOfSecond,
                 "tensor<8x6xf32>",
                 "%0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) "
                 "-> tensor<8x6xf32>" +
                     constrained("%1", "%0", sharding) + body);
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
             "shard of argument 1 tensor<4x4xf32>\nadd tensor<4x4xf32>\n"},
        Case{"TwoWays", program(kRowsOfX + ", %y: tensor<8x4xf32>" + kColumns, "tensor<8x4xf32>", R"(
    %0 = stablehlo.add %x, %y : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>)"),
             "shard of argument 0 tensor<4x2xf32>\nshard of argument 1 tensor<4x2xf32>\nadd tensor<4x2xf32>\n"},
        Case{"Rows", program(kRowsOfX + ", %w: tensor<4x6xf32>", "tensor<8x6xf32>", R"(
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>)"),
             "dot_general tensor<4x6xf32>\n"},
        Case{"WhatIsContracted", program(kColumnsOfX + ", %w: tensor<4x6xf32>", "tensor<8x6xf32>", R"(
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<8x4xf32>, tensor<4x6xf32>) -> tensor<8x6xf32>
    return %0 : tensor<8x6xf32>)"),
             "shard of argument 1 tensor<2x6xf32>\ndot_general tensor<8x6xf32>\nall_reduce tensor<8x6xf32>\n"},
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
        // A carried value comes in whole, and is cut from the first iteration on.
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
             "shard of result 0 of stablehlo.constant (operation 2 of function 'main') tensor<4x4xf32>\n"
             "while tensor<i32>\n"}),
    [](const auto& info) { return std::string(info.param.name); });

INSTANTIATE_TEST_SUITE_P(
    Summands, Partitioned,
    testing::Values(
        Case{"AreAddedOnce",
             product(kSummands, R"(
    %2 = stablehlo.add %1, %1 : tensor<8x6xf32>
    %3 = stablehlo.transpose %2, dims = [1, 0] : (tensor<8x6xf32>) -> tensor<6x8xf32>
    %4 = stablehlo.reshape %3 : (tensor<6x8xf32>) -> tensor<8x6xf32>)" +
                                    constrained("%5", "%4", "{replicated}") + "return %5 : tensor<8x6xf32>"),
             "dot_general tensor<8x6xf32>\nadd tensor<8x6xf32>\ntranspose tensor<6x8xf32>\nreshape tensor<8x6xf32>\n"
             "all_reduce tensor<8x6xf32>\n"},
        Case{"AreAddedBeforeWhatIsNotLinear", product(kSummands, R"(
    %2 = stablehlo.tanh %1 : tensor<8x6xf32>
    return %2 : tensor<8x6xf32>)"),
             "dot_general tensor<8x6xf32>\nall_reduce tensor<8x6xf32>\ntanh tensor<8x6xf32>\n"},
        Case{"AreAddedBeforeWhatIsNone", product(kSummands, R"(
    %one = stablehlo.constant dense<1.0> : tensor<8x6xf32>
    %2 = stablehlo.add %1, %one : tensor<8x6xf32>
    return %2 : tensor<8x6xf32>)"),
             "dot_general tensor<8x6xf32>\nconstant tensor<8x6xf32>\nall_reduce tensor<8x6xf32>\n"
             "add tensor<8x6xf32>\n"},
        Case{"AreMultipliedByWhatIsNone", product(kSummands, R"(
    %two = stablehlo.constant dense<2.0> : tensor<8x6xf32>
    %2 = stablehlo.multiply %1, %two : tensor<8x6xf32>
    %3 = stablehlo.multiply %2, %1 : tensor<8x6xf32>
    return %3 : tensor<8x6xf32>)"),
             "dot_general tensor<8x6xf32>\nconstant tensor<8x6xf32>\nmultiply tensor<8x6xf32>\n"
             "all_reduce tensor<8x6xf32>\nall_reduce tensor<8x6xf32>\nmultiply tensor<8x6xf32>\n"},
        Case{"AreScattered",
             product(kSummands, constrained("%2", "%1", "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}") +
                                    "return %2 : tensor<8x6xf32>"),
             "dot_general tensor<8x6xf32>\nreduce_scatter tensor<4x6xf32>\n"},
        Case{"AreScatteredAtOnce",
             product("{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dim_replicate}", "return %1 : tensor<8x6xf32>"),
             "dot_general tensor<8x6xf32>\nreduce_scatter tensor<8x3xf32>\n"},
        Case{"AreAddedWhereTheirDevicesHaveOneAndTheSamePart",
             product(kSummands, constrained("%2", "%1", "{devices=[2,1,2]<=[4] last_tile_dim_replicate}") +
                                    "return %2 : tensor<8x6xf32>"),
             "dot_general tensor<8x6xf32>\nall_reduce tensor<8x6xf32>\nshard of result 0 of stablehlo.custom_call "
             "(operation 1 of function 'main') tensor<4x6xf32>\n"},
        Case{"BecomeMore", product(kFourSummands, "return %1 : tensor<8x6xf32>"),
             "dot_general tensor<8x6xf32>\nsummand of result 0 of stablehlo.dot_general (operation 0 of function "
             "'main') tensor<8x6xf32>\nall_reduce tensor<8x6xf32>\n"},
        Case{"AreMadeOfParts",
             program(kRowsOfX, "tensor<8x4xf32>",
                     constrained("%0", "%x", kFourSummands, "tensor<8x4xf32>") + "return %0 : tensor<8x4xf32>"),
             "summand of argument 0 tensor<8x4xf32>\nall_reduce tensor<8x4xf32>\n"},
        // Rows over one axis of the devices, summands over the other.
        Case{"AreOfParts",
             program(kX, "tensor<8x4xf32>",
                     constrained("%0", "%x", kRowsInSummands, "tensor<8x4xf32>") +
                         constrained("%1", "%0", "{devices=[2,2]<=[4]}", "tensor<8x4xf32>") +
                         "return %1 : tensor<8x4xf32>"),
             "summand of argument 0 tensor<4x4xf32>\nreduce_scatter tensor<4x2xf32>\n"},
        Case{"GoRound", product(kSummands, R"(
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %2:2 = "stablehlo.while"(%zero, %1) ({
    ^bb0(%i: tensor<i32>, %s: tensor<8x6xf32>):
      %less = stablehlo.compare LT, %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %less : tensor<i1>
    }, {
    ^bb0(%i: tensor<i32>, %s: tensor<8x6xf32>):
      %next = stablehlo.add %i, %one : tensor<i32>
      %sum = stablehlo.add %s, %1 : tensor<8x6xf32>
      stablehlo.return %next, %sum : tensor<i32>, tensor<8x6xf32>
    }) : (tensor<i32>, tensor<8x6xf32>) -> (tensor<i32>, tensor<8x6xf32>)
    return %2#1 : tensor<8x6xf32>)"),
             "dot_general tensor<8x6xf32>\nconstant tensor<i32>\nconstant tensor<i32>\nwhile tensor<i32>\n"
             "all_reduce tensor<8x6xf32>\n"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST(Partitioned, SummandsAreResultsWhereTheyAreAskedFor) {
  const std::string asked = std::string("(tensor<8x4xf32> {mhlo.sharding = \"") + kFourSummands + "\"})";
  const stablehlo::Module module = module_of(function(kRowsOfX, asked, "return %x : tensor<8x4xf32>"));
  EXPECT_EQ(lowering::partition(module, 4).results.at(0).summand_count(), 4);
}

TEST(Partitioned, ResultsAreAsTheyAreAskedFor) {
  const stablehlo::Module module = module_of(function(kRowsOfX, std::string("(tensor<8x4xf32>") + kColumns + ")", R"(
    %0 = stablehlo.negate %x : tensor<8x4xf32>
    return %0 : tensor<8x4xf32>)"));
  const Partition partition = lowering::partition(module, 4);
  EXPECT_EQ(partition.parameters.at(0).shards(), (Sizes{2, 1}));
  EXPECT_EQ(partition.results.at(0).shards(), (Sizes{1, 2}));
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

TEST(Cuts, SummandsAreNumberedByTheirFirstDevices) {
  const Cut rows = {0, 0, 1, 1}, columns = {1, 0, 1, 0};
  EXPECT_EQ(summands_of(Cuts{columns}, 4), (Cut{0, 1, 0, 1}));
  EXPECT_EQ(summands_of(Cuts{rows, columns}, 4), (Cut{0, 1, 2, 3}));
  EXPECT_EQ(summands_of(Cuts{{}, {0, 0, 0, 0}}, 4), Cut{});
}

TEST(Cuts, CommonSummandsAreSumsOfBoth) {
  const Cut rows = {0, 0, 1, 1}, columns = {0, 1, 0, 1}, all = {0, 1, 2, 3};
  EXPECT_EQ(common_summands(all, rows), rows);
  EXPECT_EQ(common_summands(columns, columns), columns);
  EXPECT_EQ(common_summands(rows, columns), Cut{});
  EXPECT_EQ(common_summands(all, {}), Cut{});
}

TEST(Cuts, SumsAreScatteredWhereAGroupHasEachPartEquallyOften) {
  const Cut rows = {0, 0, 1, 1}, columns = {1, 0, 1, 0}, all = {0, 1, 2, 3};
  const std::optional<Scatter> of_all = scatter({{0, 1, 2, 3}}, {}, columns);
  ASSERT_TRUE(of_all);
  EXPECT_EQ(of_all->groups, (Groups{{1, 0}, {3, 2}}));
  EXPECT_EQ(of_all->left, (Groups{{1, 3}, {0, 2}}));
  EXPECT_EQ(scatter({{0, 1}, {2, 3}}, rows, all)->groups, (Groups{{0, 1}, {2, 3}}));
  EXPECT_FALSE(scatter({{0, 1}, {2, 3}}, {}, rows));
  EXPECT_FALSE(scatter({{0, 1}, {2, 3}}, columns, all));
}

TEST(Cuts, PartsBecomeSummandsAmongZeros) {
  const Cut rows = {0, 0, 1, 1}, all = {0, 1, 2, 3};
  EXPECT_TRUE(become_summands(rows, {}, all));
  EXPECT_FALSE(become_summands(all, {}, rows));
  const Sharding places = places_of_summands({{rows}}, {{{}}, all}, 4);
  EXPECT_EQ(places.shards(), (Sizes{2}));
  EXPECT_EQ(places.place(3), (Sizes{1}));
  EXPECT_EQ(places.summands(), (std::vector<int64_t>{0, 1, 0, 1}));
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
