// The shapes of results: by a rule, and by a kernel's own infer_shapes.
#include <limits>

#include "fuzz.h"
#include "signature_fixture.h"

namespace mydev {
namespace {

// --- shape rules -----------------------------------------------------------------------------------------------------

struct Shapes {
  const char* name;
  const char* rule;
  std::vector<std::vector<int64_t>> operands;
  std::vector<std::vector<int64_t>> results;
};
class ShapeRules : public testing::TestWithParam<Shapes> {};
INSTANTIATE_TEST_SUITE_P(
    Rules, ShapeRules,
    testing::Values(Shapes{"MatrixProduct", "(m,k),(k,n)->(m,n)", {{2, 3}, {3, 4}}, {{2, 4}}},
                    Shapes{"Spaces", " ( m , k ) , ( k , n ) -> ( m , n ) ", {{2, 3}, {3, 4}}, {{2, 4}}},
                    Shapes{"Pointwise", "(...),(...)->(...)", {{5, 1, 3}, {4, 1}}, {{5, 4, 3}}},
                    Shapes{"PointwiseShorterFirst", "(...),(...)->(...)", {{4, 1}, {5, 1, 3}}, {{5, 4, 3}}},
                    Shapes{"PointwiseScalars", "(...),(...)->(...)", {{}, {}}, {{}}},
                    Shapes{"PointwiseEmpty", "(...),(...)->(...)", {{0, 3}, {1, 3}}, {{0, 3}}},
                    Shapes{"Rows", "(...,n),(n)->(...,n)", {{7, 2, 5}, {5}}, {{7, 2, 5}}},
                    Shapes{"RowsWithoutBatch", "(...,n),(n)->(...,n)", {{5}, {5}}, {{5}}},
                    Shapes{"Reduction", "(...,n)->(...),(2,n)", {{4, 3}}, {{4}, {2, 3}}},
                    Shapes{"Number", "(3,n)->(n)", {{3, 8}}, {{8}}},
                    Shapes{"SameNameTwice", "(n,n)->(n)", {{3, 3}}, {{3}}},
                    Shapes{"NoOperands", "->(2,3)", {}, {{2, 3}}}, Shapes{"NoResults", "(n)->", {{3}}, {}},
                    Shapes{"Scalar", "(...)->()", {{3, 4}}, {{}}}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(ShapeRules, GiveTheShapesOfTheResults) {
  const Registered kernel(by_rule(GetParam().rule, GetParam().operands.size(), GetParam().results.size()));
  EXPECT_EQ(infer(*kernel, {GetParam().operands}), GetParam().results);
}

struct Misfit {
  const char* name;
  const char* rule;
  std::vector<std::vector<int64_t>> operands;
  const char* message;
};
class ShapeRuleMisfits : public testing::TestWithParam<Misfit> {};
INSTANTIATE_TEST_SUITE_P(
    Rules, ShapeRuleMisfits,
    testing::Values(Misfit{"Inner",
                           "(m,k),(k,n)->(m,n)",
                           {{2, 3}, {4, 5}},
                           "operand 'b' has size 4 in dimension 0, where 'k' is 3"},
                    Misfit{"RankTooLow", "(m,k),(k,n)->(m,n)", {{2, 3}, {3}}, "operand 'b' has rank 1"},
                    Misfit{"RankTooHigh", "(n)->(n)", {{2, 3}}, "operand 'a' has rank 2"},
                    Misfit{"RankTooLowForEllipsis", "(...,m,n)->(n)", {{3}}, "asks for at least 2"},
                    Misfit{"Broadcast", "(...),(...)->(...)", {{3}, {4}}, "does not broadcast with 3"},
                    Misfit{"Number", "(3)->(3)", {{4}}, "where '3' is 3"},
                    Misfit{"TooFew", "(n),(n)->(n)", {{4}}, "takes 2 operands, not 1"},
                    Misfit{"TooMany", "(n)->(n)", {{4}, {4}}, "takes 1 operands, not 2"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(ShapeRuleMisfits, AreNamed) {
  const auto commas = std::string(GetParam().rule).find("),(") == std::string::npos ? 1U : 2U;
  const Registered kernel(by_rule(GetParam().rule, commas));
  expect_error(error_of([&] { infer(*kernel, {GetParam().operands}); }), MYDEV_INVALID_ARGUMENT, GetParam().message);
}

struct BadRule {
  const char* name;
  const char* rule;
  const char* message;
};
class BadRules : public testing::TestWithParam<BadRule> {};
INSTANTIATE_TEST_SUITE_P(
    Rules, BadRules,
    testing::Values(BadRule{"Empty", "", "expected '->' at position 0"}, BadRule{"NoArrow", "(n),(n)", "expected '->'"},
                    BadRule{"HalfArrow", "(n),(n)-(n)", "expected '->'"},
                    BadRule{"Unclosed", "(n,(n)->(n)", "expected a size"},
                    BadRule{"UnclosedAtEnd", "(n),(n)->(n", "expected ',' or ')' at position 11"},
                    BadRule{"Trailing", "(n),(n)->(n) x", "expected the end at position 13"},
                    BadRule{"TrailingComma", "(n),(n)->(n),", "expected '('"},
                    BadRule{"EmptySize", "(n,),(n)->(n)", "expected a size"},
                    BadRule{"Negative", "(n),(n)->(-1)", "expected a size"},
                    BadRule{"Huge", "(n),(n)->(99999999999999999999)", "too large"},
                    BadRule{"EllipsisLast", "(n,...),(n)->(n)", "expected a size"},
                    BadRule{"EllipsisOnlyInResult", "(n),(n)->(...,n)", "in a result and in no operand"},
                    BadRule{"NameOnlyInResult", "(n),(n)->(m)", "size 'm' of a result is in no operand"},
                    BadRule{"UnknownAttribute", "(n),(n)->(@groups)", "no attribute 'groups'"},
                    BadRule{"AttributeOfOtherKind", "(n),(n)->(@eps)", "is not of kind INT"},
                    BadRule{"TooFewLists", "(n)->(n)", "1 lists for 2 operands"},
                    BadRule{"TooManyLists", "(n),(n),(n)->(n)", "3 lists for 2 operands"},
                    BadRule{"TooManyResults", "(n),(n)->(n),(n)", "2 lists for 1 results"},
                    BadRule{"Nul", "(n),(n)->(n)\x01", "expected the end"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(BadRules, AreRefusedWithThePosition) {
  Record record = by_rule(GetParam().rule, 2);
  record.attributes = {with_default(float_attribute("eps", 1e-5))};
  expect_error(error_of([&] { register_kernel(record.kernel()); }), MYDEV_INVALID_ARGUMENT, GetParam().message);
}

TEST(ShapeRule, TakesSizesFromAttributes) {
  Record record = by_rule("(n)->(2,@groups)", 1);
  record.attributes = {required("groups", MYDEV_ATTRIBUTE_INT)};
  const Registered kernel(record);
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(infer(*kernel, {{{3}}, {}, {int_attribute("groups", 7)}}), (Sizes{{2, 7}}));
  expect_error(error_of([&] { infer(*kernel, {{{3}}, {}, {int_attribute("groups", -1)}}); }), MYDEV_INVALID_ARGUMENT,
               "attribute '@groups' is -1");
  expect_error(
      error_of([&] { infer(*kernel, {{{3}}, {}, {int_attribute("groups", std::numeric_limits<int64_t>::max())}}); }),
      MYDEV_INVALID_ARGUMENT, "more bytes than there can be");
}

TEST(ShapeRule, AppliesToEachBufferOfAVariadicOperand) {
  Record record = by_rule("(m),(n,m)->(n)", 2);
  record.operands[1].flags = MYDEV_OPERAND_VARIADIC;
  const Registered kernel(record);
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(infer(*kernel, {{{3}, {2, 3}, {2, 3}}}), (Sizes{{2}}));
  expect_error(error_of([&] { infer(*kernel, {{{3}, {2, 3}, {4, 3}}}); }), MYDEV_INVALID_ARGUMENT, "where 'n' is 2");
  expect_error(error_of([&] { infer(*kernel, {{{3}}}); }), MYDEV_INVALID_ARGUMENT, "size 'n' of result 0 is not known");
}

TEST(ShapeRule, PassesOverAnAbsentOperand) {
  Record record = by_rule("(n),(m)->(n)", 2);
  record.operands[1].flags = MYDEV_OPERAND_OPTIONAL;
  const Registered kernel(record);
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(infer(*kernel, {{{3}, {}}, {MYDEV_F32, MYDEV_DTYPE_INVALID}}), (Sizes{{3}}));
}

TEST(ShapeRule, RefusesAResultOfTooHighRank) {
  const Registered kernel(by_rule("(...)->(...,2)", 1));
  expect_error(error_of([&] { infer(*kernel, {{std::vector<int64_t>(32, 1)}}); }), MYDEV_INVALID_ARGUMENT,
               "would have rank 33");
  expect_error(error_of([&] { infer(*kernel, {{std::vector<int64_t>(40, 1)}}); }), MYDEV_INVALID_ARGUMENT,
               "has rank 40; the limit is 32");
}

// Whatever the text, parsing ends with a rule or with INVALID_ARGUMENT.
TEST(ShapeRule, SurvivesArbitraryText) {
  const std::string alphabet = "(),->.@nmk12 \t_x";
  int accepted = 0;
  fuzz(20000, 20240611, [&](std::mt19937& random) {
    std::string rule = "(n),(n)->(n)";
    const auto edits = 1 + random() % 6;
    for (unsigned edit = 0; edit < edits; ++edit) {
      const size_t at = random() % (rule.size() + 1);
      const char c = alphabet[random() % alphabet.size()];
      if (at < rule.size() && random() % 3 != 0) {
        rule[at] = c;
      } else if (at < rule.size() && random() % 2 != 0) {
        rule.erase(at, 1);
      } else {
        rule.insert(at, 1, c);
      }
    }
    Record record = by_rule(rule.c_str(), 2);
    const Error error = error_of([&] { CompiledSignature signature(record.kernel()); });
    ASSERT_TRUE(error.code() == MYDEV_OK || error.code() == MYDEV_INVALID_ARGUMENT) << rule << ": " << error.what();
    accepted += error.code() == MYDEV_OK ? 1 : 0;
  });
  EXPECT_GT(accepted, 0);
}

// Whatever the sizes, applying ends with valid shapes or with INVALID_ARGUMENT.
TEST(ShapeRule, SurvivesArbitraryOperands) {
  const Registered kernel(by_rule("(...,m,k),(...,k,n)->(...,m,n)", 2));
  int accepted = 0;
  fuzz(20000, 20240612, [&](std::mt19937& random) {
    Operands operands;
    for (int i = 0; i < 2; ++i) {
      std::vector<int64_t> sizes(random() % 5);
      for (int64_t& size : sizes) size = static_cast<int64_t>(random() % 3);
      operands.sizes.push_back(sizes);
    }
    std::vector<mydev_shape> shapes(1);
    const Error error = error_of([&] { infer_results(*kernel, operands.frame(), shapes); });
    ASSERT_TRUE(error.code() == MYDEV_OK || error.code() == MYDEV_INVALID_ARGUMENT) << error.what();
    if (error.code() == MYDEV_OK) {
      ++accepted;
      ASSERT_GE(shapes[0].rank, 2);
      ASSERT_LE(shapes[0].rank, 4);
    }
  });
  EXPECT_GT(accepted, 0);
}

// --- infer_shapes ----------------------------------------------------------------------------------------------------

Record inferred(mydev_code (*infer_shapes)(const mydev_frame*, mydev_shape*)) {
  Record record = by_rule(nullptr, 1);
  record.infer_shapes = infer_shapes;
  return record;
}

TEST(InferShapes, SeesOperandsAndNoOutputs) {
  const Registered kernel(inferred([](const mydev_frame* frame, mydev_shape* results) {
    if (frame->num_outputs != 0 || frame->num_inputs != 1) return MYDEV_INTERNAL;
    results[0].rank = 1;
    results[0].sizes[0] = frame->buffers[0].sizes[0] * 2;
    return MYDEV_OK;
  }));
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(infer(*kernel, {{{3}}}), (Sizes{{6}}));
}

TEST(InferShapes, ItsCodeAndMessageArePassedOn) {
  const Registered kernel(inferred([](const mydev_frame* frame, mydev_shape*) {
    frame->host->set_error(frame, "n must be even");
    return MYDEV_OUT_OF_RANGE;
  }));
  expect_error(error_of([&] { infer(*kernel, {{{3}}}); }), MYDEV_OUT_OF_RANGE, "test.op: n must be even");
}

struct Mistake {
  const char* name;
  mydev_code (*infer_shapes)(const mydev_frame*, mydev_shape*);
  const char* message;
};
class InferShapesMistakes : public testing::TestWithParam<Mistake> {};
INSTANTIATE_TEST_SUITE_P(Mistakes, InferShapesMistakes,
                         testing::Values(Mistake{"Nothing", [](const mydev_frame*, mydev_shape*) { return MYDEV_OK; },
                                                 "a rank of -1"},
                                         Mistake{"Rank",
                                                 [](const mydev_frame*, mydev_shape* results) {
                                                   results->rank = 33;
                                                   return MYDEV_OK;
                                                 },
                                                 "a rank of 33"},
                                         Mistake{"Negative",
                                                 [](const mydev_frame*, mydev_shape* results) {
                                                   results->rank = 1;
                                                   results->sizes[0] = -5;
                                                   return MYDEV_OK;
                                                 },
                                                 "negative size"},
                                         Mistake{"Overflow",
                                                 [](const mydev_frame*, mydev_shape* results) {
                                                   results->rank = 2;
                                                   results->sizes[0] = results->sizes[1] = int64_t{1} << 40;
                                                   return MYDEV_OK;
                                                 },
                                                 "more bytes than there can be"},
                                         Mistake{"Dtype",
                                                 [](const mydev_frame*, mydev_shape* results) {
                                                   results->rank = 0;
                                                   results->dtype = MYDEV_S8;
                                                   return MYDEV_OK;
                                                 },
                                                 "the dtype s8"},
                                         Mistake{"Throws",
                                                 [](const mydev_frame*, mydev_shape*) -> mydev_code {
                                                   throw std::runtime_error("thrown by a kernel");
                                                 },
                                                 "thrown by a kernel"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(InferShapesMistakes, AreInternalErrors) {
  const Registered kernel(inferred(GetParam().infer_shapes));
  expect_error(error_of([&] { infer(*kernel, {{{3}}}); }), MYDEV_INTERNAL, GetParam().message);
}

TEST(InferResults, HoldsAnAliasedResultToItsOperand) {
  Record record = by_rule("(...),(...)->(...)", 2);
  record.results = {result_like("out", 0, 0)};
  const Registered kernel(record);
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(infer(*kernel, {{{2, 3}, {3}}}), (Sizes{{2, 3}}));
  expect_error(error_of([&] { infer(*kernel, {{{3}, {2, 3}}}); }), MYDEV_INVALID_ARGUMENT,
               "operand 'a' is written in place by a result of f32[2,3]");
}

TEST(InferResults, AResultThatIsAnOperandNeedsNoRule) {
  Record record = by_rule(nullptr, 1);
  record.results = {result_like("out", 0, 0)};
  const Registered kernel(record);
  using Sizes = std::vector<std::vector<int64_t>>;
  EXPECT_EQ(infer(*kernel, {{{2, 3}}}), (Sizes{{2, 3}}));
}

TEST(InferResults, AVariadicResultHasTheShapesOfItsOperand) {
  Record record = by_rule("(n),(...)->(n)", 2);
  record.operands[1].flags = MYDEV_OPERAND_VARIADIC;
  record.results = {result_like("x", 0), result_like("y", 1)};
  record.results[1].flags = MYDEV_OPERAND_VARIADIC;
  const Registered kernel(record);
  Operands operands{{{3}, {4}, {2, 1}}, {MYDEV_F32, MYDEV_F64, MYDEV_F32}, {}};
  std::vector<mydev_shape> results(3);
  infer_results(*kernel, operands.frame(), results);
  EXPECT_EQ(results[0].sizes[0], 3);
  EXPECT_EQ(results[1].dtype, MYDEV_F64);
  EXPECT_EQ(results[1].sizes[0], 4);
  EXPECT_EQ(results[2].rank, 2);
  EXPECT_EQ(results[2].sizes[0], 2);
}

TEST(InferResults, TakesTheDtypeOfAnOperand) {
  const Registered kernel(by_rule("(n)->(n)", 1));
  mydev_shape shape;
  Operands operands{{{3}}, {MYDEV_F64}};
  infer_results(*kernel, operands.frame(), {&shape, 1});
  EXPECT_EQ(shape.dtype, MYDEV_F64);
}

}  // namespace
}  // namespace mydev
