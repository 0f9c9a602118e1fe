// StableHLO programs that say which arguments they may write over: which results lie in their memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "lowering_fixture.h"

namespace mydev::lowering {
namespace {

constexpr char kTwo[] = "(tensor<4xf32>, tensor<4xf32>)";
constexpr char kBody[] = R"(
    %sum = stablehlo.add %b, %b : tensor<4xf32>
    %product = stablehlo.multiply %a, %a : tensor<4xf32>
    return %sum, %product : tensor<4xf32>, tensor<4xf32>)";

// For each result the parameter that it is, or "own".
std::string places(const std::string& text) {
  const stablehlo::Module module = module_of(text);
  const LoweredProgram lowered = lower(module);
  const program::Program& program = *lowered.program;
  std::string result;
  for (const program::SlotIndex slot : program.results()) {
    const auto found = std::ranges::find(program.parameters(), slot);
    result += found == program.parameters().end() ? "own " : std::to_string(found - program.parameters().begin()) + " ";
  }
  return result;
}

struct Said {
  const char *what, *arguments, *places;
};
class DonatedArguments : public testing::TestWithParam<Said> {};

TEST_P(DonatedArguments, AreTheMemoryOfResults) {
  EXPECT_EQ(places(function(GetParam().arguments, kTwo, kBody)), GetParam().places);
}

constexpr Said kSaid[] = {
    {"None", "%a: tensor<4xf32>, %b: tensor<4xf32>", "own own "},
    {"OfTheResultThatTheyName",
     "%a: tensor<4xf32> {tf.aliasing_output = 1 : i32}, %b: tensor<4xf32> {tf.aliasing_output = 0 : i32}", "1 0 "},
    {"OfTheFirstThatFits", "%a: tensor<4xf32>, %b: tensor<4xf32> {jax.buffer_donor = true}", "1 own "},
    {"OfWhatOthersLeave",
     "%a: tensor<4xf32> {jax.buffer_donor = true}, %b: tensor<4xf32> {tf.aliasing_output = 0 : i32}", "1 0 "},
};
// In memory of the host an argument and a result do not take each other's place.
TEST(DonationOnTheHost, GivesNoMemoryToResults) {
  const std::string donor = "%a: tensor<4xf32>, %b: tensor<4xf32> {jax.buffer_donor = true, mhlo.memory_kind = ";
  EXPECT_EQ(places(function(donor + "\"pinned_host\"}", kTwo, kBody)), "own own ");
  EXPECT_EQ(places(function(donor + "\"device\"}", kTwo, kBody)), "1 own ");
  constexpr char kFirstOnHost[] = "(tensor<4xf32> {mhlo.memory_kind = \"pinned_host\"}, tensor<4xf32>)";
  EXPECT_EQ(places(function(donor + "\"device\"}", kFirstOnHost, kBody)), "own 1 ");
}

INSTANTIATE_TEST_SUITE_P(Programs, DonatedArguments, testing::ValuesIn(kSaid),
                         [](const auto& info) { return std::string(info.param.what); });

// Attributes of the module, as converters from HLO write them.
std::string with_aliases(const std::string& aliases, const std::string& results, const std::string& body) {
  return "module @m attributes {mhlo.input_output_alias = [" + aliases +
         "]} {\n func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> " + results + " {\n" + body + "\n }\n}";
}
std::string alias(const std::string& number, const std::string& output) {
  return R"({alias = {kind = "may_alias", parameter_index = array<i64>, parameter_number = )" + number +
         " : i64}, output_index = array<i64" + output + ">}";
}

TEST(DonationOfModules, NamesTheResult) {
  EXPECT_EQ(places(with_aliases(alias("1", ": 0"), kTwo, kBody)), "1 own ");
  EXPECT_EQ(places(with_aliases(alias("0", ": 1") + ", " + alias("1", ": 0"), kTwo, kBody)), "1 0 ");
}

TEST(DonationOfModules, NamesTheOnlyResultWithNoIndex) {
  constexpr char kSum[] = R"(
    %sum = stablehlo.add %a, %b : tensor<4xf32>
    return %sum : tensor<4xf32>)";
  EXPECT_EQ(places(with_aliases(alias("0", ""), "tensor<4xf32>", kSum)), "0 ");
}

TEST(DonationOfModules, OfWhatIsNotThereIsAnError) {
  const auto problem = [](const std::string& aliases) {
    return error_of([&] { places(with_aliases(aliases, kTwo, kBody)); });
  };
  expect_error(problem(alias("2", ": 0")), MYDEV_INVALID_ARGUMENT, "names argument 2, and there are 2");
  expect_error(problem(alias("-1", ": 0")), MYDEV_INVALID_ARGUMENT, "names argument -1, and there are 2");
  expect_error(problem(alias("0", ": 2")), MYDEV_INVALID_ARGUMENT, "the memory of result 2, and there are 2");
  expect_error(problem(alias("0", ": 0") + ", " + alias("0", ": 1")), MYDEV_INVALID_ARGUMENT, "already");
  expect_error(problem(alias("0", ": 0") + ", " + alias("1", ": 0")), MYDEV_INVALID_ARGUMENT, "already");
  expect_error(problem("3 : i64"), MYDEV_INVALID_ARGUMENT, "mhlo.input_output_alias is not of the form");
}

struct Computed {
  const char *what, *body, *place;
};
class DonatedMemory : public testing::TestWithParam<Computed> {};

TEST_P(DonatedMemory, IsTakenWhereTheProgramNeedsItNoMore) {
  EXPECT_EQ(places(function("%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}", "tensor<4xf32>", GetParam().body)),
            GetParam().place);
}

constexpr Computed kComputed[] = {
    {"Returned", "return %a : tensor<4xf32>", "0 "},
    {"ElementByElement", R"(
      %r = stablehlo.add %a, %a : tensor<4xf32>
      return %r : tensor<4xf32>)",
     "0 "},
    {"ReadBefore", R"(
      %m = stablehlo.reshape %a : (tensor<4xf32>) -> tensor<2x2xf32>
      %p = stablehlo.dot_general %m, %m, contracting_dims = [1] x [0] : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
      %r = stablehlo.reshape %p : (tensor<2x2xf32>) -> tensor<4xf32>
      %s = stablehlo.add %r, %r : tensor<4xf32>
      return %s : tensor<4xf32>)",
     "0 "},
    {"NotWhileOtherElementsAreRead", R"(
      %v = stablehlo.reverse %a, dims = [0] : tensor<4xf32>
      %r = stablehlo.add %a, %v : tensor<4xf32>
      return %r : tensor<4xf32>)",
     "own "},
};
INSTANTIATE_TEST_SUITE_P(Programs, DonatedMemory, testing::ValuesIn(kComputed),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(Donation, LeavesOutWhatDoesNotFit) {
  const std::string text = function("%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}", "tensor<2xf32>", R"(
    %r = stablehlo.slice %a [0:2] : (tensor<4xf32>) -> tensor<2xf32>
    return %r : tensor<2xf32>)");
  EXPECT_EQ(places(text), "own ");
  EXPECT_EQ(run<float>(text, {{1, 2, 3, 4}}, 2), (Values{1, 2}));
}

}  // namespace
}  // namespace mydev::lowering
