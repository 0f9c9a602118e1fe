// Signatures: what is refused, the operator's schema, checking operands, and the shapes of results.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "error_fixture.h"
#include "fuzz.h"
#include "kernels/custom_call/signature.h"
#include "kernels/kernel_registry.h"
#include "runtime/frame.h"
#include "runtime/status.h"

namespace mydev {
namespace {

constexpr uint64_t kFloats = MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64);
constexpr uint64_t kF32 = MYDEV_DTYPE_BIT(MYDEV_F32);

mydev_operand operand(const char* name, uint64_t dtypes = kFloats, uint32_t flags = 0) {
  return {sizeof(mydev_operand), name, dtypes, -1, -1, 0, -1, flags, nullptr};
}
mydev_operand result_like(const char* name, int32_t like, int32_t alias = -1) {
  return {sizeof(mydev_operand), name, 0, like, alias, 0, -1, 0, nullptr};
}
mydev_attribute_spec with_default(const mydev_attribute& value) {
  return {sizeof(mydev_attribute_spec), value, 0, nullptr};
}
mydev_attribute_spec required(const char* name, mydev_attribute_kind kind, mydev_dtype dtype = MYDEV_DTYPE_INVALID) {
  return {sizeof(mydev_attribute_spec),
          {name, static_cast<uint16_t>(kind), static_cast<uint16_t>(dtype), 0, {}},
          MYDEV_ATTRIBUTE_REQUIRED,
          nullptr};
}
mydev_attribute string_attribute(const char* name, std::string_view text) {
  mydev_attribute attribute{name, MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(text.size()), {}};
  attribute.value.bytes = text.data();
  return attribute;
}

mydev_code succeed(const mydev_frame*) {
  return MYDEV_OK;
}

// A record that owns its signature.
struct Record {
  std::vector<mydev_operand> operands, results;
  std::vector<mydev_attribute_spec> attributes;
  const char* shapes = nullptr;
  mydev_code (*infer_shapes)(const mydev_frame*, mydev_shape*) = nullptr;
  std::string name = "test.op";

  const mydev_kernel& kernel() {
    const auto point = [](auto& values, auto& pointers) {
      pointers.clear();
      for (auto& value : values) pointers.push_back(&value);
    };
    point(operands, operand_pointers_);
    point(results, result_pointers_);
    point(attributes, attribute_pointers_);
    signature_ = {sizeof(mydev_signature),
                  operand_pointers_.data(),
                  static_cast<uint32_t>(operands.size()),
                  static_cast<uint32_t>(results.size()),
                  result_pointers_.data(),
                  attribute_pointers_.data(),
                  static_cast<uint32_t>(attributes.size()),
                  shapes,
                  infer_shapes};
    kernel_ = {sizeof(mydev_kernel), name.c_str(), succeed, nullptr, nullptr, nullptr};
    kernel_.signature = &signature_;
    return kernel_;
  }

 private:
  std::vector<const mydev_operand*> operand_pointers_, result_pointers_;
  std::vector<const mydev_attribute_spec*> attribute_pointers_;
  mydev_signature signature_{};
  mydev_kernel kernel_{};
};

// A registered record, taken out at the end.
class Registered {
 public:
  explicit Registered(Record record) : record_(std::move(record)) {
    kernel_ = register_kernel(record_.kernel(), {"", "test"});
  }
  ~Registered() { unregister_kernel(kernel_->name); }
  Registered(const Registered&) = delete;
  Registered& operator=(const Registered&) = delete;
  const mydev_kernel& operator*() const { return *kernel_; }

 private:
  Record record_;
  const mydev_kernel* kernel_;
};

// Operands without data.
struct Operands {
  std::vector<std::vector<int64_t>> sizes;
  std::vector<mydev_dtype> dtypes;
  std::vector<mydev_attribute> attributes;
  std::vector<mydev_buffer> buffers;

  mydev_frame frame() {
    buffers.clear();
    for (size_t i = 0; i < sizes.size(); ++i) {
      const mydev_dtype dtype = i < dtypes.size() ? dtypes[i] : MYDEV_F32;
      buffers.push_back({nullptr, sizes[i].data(), sizes[i].data(), static_cast<int32_t>(sizes[i].size()), dtype});
    }
    return make_frame(buffers, 0, attributes);
  }
};

std::vector<std::vector<int64_t>> infer(const mydev_kernel& kernel, Operands operands) {
  std::vector<mydev_shape> shapes(kernel.signature->num_results);
  infer_results(kernel, operands.frame(), shapes);
  std::vector<std::vector<int64_t>> sizes;
  for (const mydev_shape& shape : shapes) sizes.emplace_back(shape.sizes, shape.sizes + shape.rank);
  return sizes;
}

// "a,b -> out" of floats by a rule.
Record by_rule(const char* shapes, size_t num_operands, size_t num_results = 1) {
  static const std::array<const char*, 4> kNames = {"a", "b", "c", "d"};
  Record record;
  for (size_t i = 0; i < num_operands; ++i) record.operands.push_back(operand(kNames[i]));
  for (size_t i = 0; i < num_results; ++i) {
    record.results.push_back(num_operands != 0 ? result_like("out", 0) : operand("out", kF32));
  }
  record.shapes = shapes;
  return record;
}

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

TEST(InferResults, TakesTheDtypeOfAnOperand) {
  const Registered kernel(by_rule("(n)->(n)", 1));
  mydev_shape shape;
  Operands operands{{{3}}, {MYDEV_F64}};
  infer_results(*kernel, operands.frame(), {&shape, 1});
  EXPECT_EQ(shape.dtype, MYDEV_F64);
}

// --- schemas ---------------------------------------------------------------------------------------------------------

const std::array<int64_t, 2> kDims = {0, -1};
const std::array<float, 2> kHalves = {0.5F, 1.5F};

struct Schema {
  const char* name;
  Record record;
  const char* schema;
};
class Schemas : public testing::TestWithParam<Schema> {};
INSTANTIATE_TEST_SUITE_P(
    Schemas, Schemas,
    testing::Values(Schema{"Plain", by_rule("(n),(n)->(n)", 2), "test_op(Tensor a, Tensor b) -> Tensor"},
                    Schema{"Results", by_rule("(n)->(n),(n)", 1, 2), "test_op(Tensor a) -> (Tensor, Tensor)"},
                    Schema{"Nothing", by_rule("->", 0, 0), "test_op() -> ()"},
                    Schema{"Attributes",
                           [] {
                             Record r = by_rule("(n)->(n)", 1);
                             mydev_attribute halves{"halves", MYDEV_ATTRIBUTE_ARRAY, MYDEV_F32, 2, {}};
                             halves.value.data = kHalves.data();
                             r.attributes = {with_default(float_attribute("eps", 1e-5)),
                                             with_default(float_attribute("scale", 2)),
                                             with_default(int_array_attribute("dims", kDims)),
                                             with_default(bool_attribute("flag", true)),
                                             with_default(int_attribute("count", -3)),
                                             with_default(halves),
                                             required("mode", MYDEV_ATTRIBUTE_STRING),
                                             required("masks", MYDEV_ATTRIBUTE_ARRAY, MYDEV_PRED)};
                             return r;
                           }(),
                           "test_op(Tensor a, *, float eps=1e-05, float scale=2.0, int[] dims=[0, -1], bool flag=True, "
                           "int count=-3, float[] halves=[0.5, 1.5], str mode, bool[] masks) -> Tensor"},
                    Schema{
                        "DefaultsThatSchemasCannotSay",
                        [] {
                          static const std::string kBytes("a\0b", 3);
                          Record r = by_rule("->", 0, 0);
                          r.attributes = {with_default(complex_attribute("z", 1, 2)),
                                          with_default(float_attribute("bound", INFINITY)),
                                          with_default(string_attribute("opaque", kBytes)),
                                          with_default(string_attribute("plain", "text"))};
                          return r;
                        }(),
                        "test_op(*, complex? z=None, float? bound=None, str? opaque=None, str plain=\"text\") -> ()"},
                    Schema{"OptionalLast",
                           [] {
                             Record r = by_rule("(n),(n),(n)->(n)", 3);
                             r.operands[1].flags = r.operands[2].flags = MYDEV_OPERAND_OPTIONAL;
                             return r;
                           }(),
                           "test_op(Tensor a, Tensor? b=None, Tensor? c=None) -> Tensor"},
                    Schema{"OptionalInTheMiddle",
                           [] {
                             Record r = by_rule("(n),(n),(n)->(n)", 3);
                             r.operands[1].flags = MYDEV_OPERAND_OPTIONAL;
                             return r;
                           }(),
                           "test_op(Tensor a, Tensor? b, Tensor c) -> Tensor"},
                    Schema{"Variadic",
                           [] {
                             Record r = by_rule("(n),(n)->(n)", 2);
                             r.operands[1].flags = MYDEV_OPERAND_VARIADIC;
                             return r;
                           }(),
                           "test_op(Tensor a, Tensor[] b) -> Tensor"},
                    Schema{"Aliases",
                           [] {
                             Record r = by_rule("(n),(n),(n)->(n),(n),(n)", 3);
                             r.results = {result_like("x", 2, 2), result_like("y", 0), result_like("z", 0, 0)};
                             return r;
                           }(),
                           "test_op(Tensor(a!) a, Tensor b, Tensor(b!) c) -> Tensor"},
                    Schema{"InPlace",
                           [] {
                             Record r = by_rule("(n),(n)->(n)", 2);
                             r.results = {result_like("x", 0, 0)};
                             return r;
                           }(),
                           "test_op(Tensor(a!) a, Tensor b) -> Tensor(a!)"},
                    Schema{"OnlyWritten",
                           [] {
                             Record r = by_rule("(n),(n)->(n)", 2);
                             r.results = {result_like("x", 1, 1)};
                             return r;
                           }(),
                           "test_op(Tensor a, Tensor(a!) b) -> ()"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(Schemas, SayWhatTheRecordSays) {
  Record record = GetParam().record;
  const Registered kernel(record);
  EXPECT_EQ(operator_schema(*kernel), GetParam().schema);
}

TEST(OperatorName, IsAnIdentifier) {
  Record record = by_rule("->", 0, 0);
  record.name = "2.my:lib-op";
  EXPECT_EQ(operator_name(record.kernel()), "_2_my_lib_op");
}

TEST(Description, SaysDtypesAndRanks) {
  Record record = by_rule("(n),(n)->(n)", 2);
  record.operands[0].rank_min = 1;
  record.operands[0].rank_max = 3;
  record.operands[1] = operand("b", kF32, MYDEV_OPERAND_OPTIONAL);
  record.operands[1].rank_max = 0;
  mydev_attribute eps = float_attribute("eps", 0.5);
  eps.dtype = MYDEV_F32;
  record.attributes = {with_default(eps)};
  EXPECT_EQ(describe_signature(record.kernel()),
            "test.op(a f32|f64[1..3], b? f32[0]; eps: float (f32) = 0.5) -> (out like a), shapes (n),(n)->(n)");
}

// --- signatures that contradict themselves ---------------------------------------------------------------------------

struct Contradiction {
  const char* name;
  void (*spoil)(Record& record);
  const char* message;
};
class Contradictions : public testing::TestWithParam<Contradiction> {};
INSTANTIATE_TEST_SUITE_P(
    Signature, Contradictions,
    testing::Values(
        Contradiction{"OperandName", [](Record& r) { r.operands[0].name = "a b"; }, "operand 0 is named 'a b'"},
        Contradiction{"NullName", [](Record& r) { r.operands[0].name = nullptr; }, "'(null)'"},
        Contradiction{"DigitFirst", [](Record& r) { r.operands[0].name = "1a"; }, "give an identifier"},
        Contradiction{"SameName", [](Record& r) { r.operands[1].name = "a"; }, "the name 'a' is there twice"},
        Contradiction{"NameOfAttribute", [](Record& r) { r.attributes = {with_default(int_attribute("a", 1))}; },
                      "the name 'a' is there twice"},
        Contradiction{"NoDtypes", [](Record& r) { r.operands[0].dtypes = 0; }, "no dtypes"},
        Contradiction{"UnknownDtype", [](Record& r) { r.operands[0].dtypes = UINT64_C(1) << 40; }, "unknown ones"},
        Contradiction{"LikeItself", [](Record& r) { r.operands[1].like = 1; }, "like = 1"},
        Contradiction{"LikeNothing", [](Record& r) { r.operands[1].like = 2; }, "like = 2"},
        Contradiction{"LikeOptional",
                      [](Record& r) {
                        r.operands[1].flags = MYDEV_OPERAND_OPTIONAL;
                        r.operands[0].like = 1;
                      },
                      "like = 1"},
        Contradiction{"Ranks", [](Record& r) { r.operands[0].rank_min = 3, r.operands[0].rank_max = 2; },
                      "ranks 3 to 2"},
        Contradiction{"NegativeRank", [](Record& r) { r.operands[0].rank_min = -1; }, "ranks -1"},
        Contradiction{"UnknownFlag", [](Record& r) { r.operands[0].flags = 8; }, "unknown flags 8"},
        Contradiction{"VariadicFirst", [](Record& r) { r.operands[0].flags = MYDEV_OPERAND_VARIADIC; },
                      "only the last one may be"},
        Contradiction{"VariadicOptional",
                      [](Record& r) { r.operands[1].flags = MYDEV_OPERAND_VARIADIC | MYDEV_OPERAND_OPTIONAL; },
                      "both variadic and optional"},
        Contradiction{"OperandAlias", [](Record& r) { r.operands[1].alias = 0; }, "it is results that alias"},
        Contradiction{"TwoDtypesOfResult", [](Record& r) { r.results[0].dtypes = kFloats; }, "exactly one dtype"},
        Contradiction{"NoDtypeOfResult", [](Record& r) { r.results[0].like = -1; }, "exactly one dtype"},
        Contradiction{"ResultAlias", [](Record& r) { r.results[0].alias = 5; }, "alias = 5"},
        Contradiction{"TwoAliases",
                      [](Record& r) {
                        r.results = {result_like("x", 0, 0), result_like("y", 0, 0)};
                        r.shapes = "(n),(n)->(n),(n)";
                      },
                      "two results alias operand 0"},
        Contradiction{"ResultFlags", [](Record& r) { r.results[0].flags = 1; }, "has flags"},
        Contradiction{"NoShapes", [](Record& r) { r.shapes = nullptr; }, "neither a shape rule nor infer_shapes"},
        Contradiction{"Dictionary", [](Record& r) { r.attributes = {required("d", MYDEV_ATTRIBUTE_DICTIONARY)}; },
                      "an operator takes no dictionaries"},
        Contradiction{"ArrayWithoutDtype", [](Record& r) { r.attributes = {required("v", MYDEV_ATTRIBUTE_ARRAY)}; },
                      "has dtype invalid"},
        Contradiction{"FloatOfIntegers",
                      [](Record& r) { r.attributes = {required("f", MYDEV_ATTRIBUTE_FLOAT, MYDEV_S32)}; },
                      "has dtype s32, which its kind cannot have"},
        Contradiction{"NullDefault",
                      [](Record& r) {
                        mydev_attribute text{"text", MYDEV_ATTRIBUTE_STRING, 0, 4, {}};
                        text.value.bytes = nullptr;
                        r.attributes = {with_default(text)};
                      },
                      "is NULL; set MYDEV_ATTRIBUTE_REQUIRED"},
        Contradiction{"ShortOperand", [](Record& r) { r.operands[0].struct_size = 8; }, "struct_size 8"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(Contradictions, AreRefused) {
  Record record = by_rule("(n),(n)->(n)", 2);
  GetParam().spoil(record);
  expect_error(error_of([&] { register_kernel(record.kernel()); }), MYDEV_INVALID_ARGUMENT, GetParam().message);
}

TEST(Signature, RefusesAnAbsurdCount) {
  Record record = by_rule("(n)->(n)", 1);
  mydev_kernel kernel = record.kernel();
  mydev_signature signature = *kernel.signature;
  signature.num_operands = 1U << 30;
  kernel.signature = &signature;
  expect_error(error_of([&] { register_kernel(kernel); }), MYDEV_INVALID_ARGUMENT, "there are 1073741824");
}

// --- operands --------------------------------------------------------------------------------------------------------

// scale(a f32|f64[1..], b? like a; eps: float, dims: int[])
Record scale() {
  Record record = by_rule("(...,n),(n)->(...,n)", 2);
  record.operands[0].rank_min = 1;
  record.operands[1].like = 0;
  record.operands[1].flags = MYDEV_OPERAND_OPTIONAL;
  record.attributes = {with_default(float_attribute("eps", 1e-5)), required("n", MYDEV_ATTRIBUTE_INT)};
  record.name = "test.scale";
  return record;
}

TEST(CheckOperands, AcceptsWhatTheSignatureAsksFor) {
  const Registered kernel(scale());
  Operands operands{{{2, 3}, {3}}, {}, {float_attribute("eps", 1), int_attribute("n", 1)}};
  EXPECT_EQ(error_of([&] { check_operands(*kernel, operands.frame()); }).code(), MYDEV_OK);
}

struct BadOperands {
  const char* name;
  Operands operands;
  const char* message;
};
const std::vector<mydev_attribute> kGoodAttributes = {float_attribute("eps", 1), int_attribute("n", 1)};
class OperandMistakes : public testing::TestWithParam<BadOperands> {};
INSTANTIATE_TEST_SUITE_P(
    Operands, OperandMistakes,
    testing::Values(BadOperands{"TooFew", {{{3}}, {}, kGoodAttributes}, "takes 2 operands, not 1"},
                    BadOperands{"TooMany", {{{3}, {3}, {3}}, {}, kGoodAttributes}, "takes 2 operands, not 3"},
                    BadOperands{"Dtype", {{{3}, {3}}, {MYDEV_S32, MYDEV_F32}, kGoodAttributes}, "operand 'a' is s32"},
                    BadOperands{"AbsentRequired",
                                {{{}, {3}}, {MYDEV_DTYPE_INVALID, MYDEV_F32}, kGoodAttributes},
                                "operand 'a' is absent"},
                    BadOperands{"NotAlike",
                                {{{3}, {3}}, {MYDEV_F32, MYDEV_F64}, kGoodAttributes},
                                "operand 'b' is f64, but 'a' is f32"},
                    BadOperands{"Rank", {{{}, {3}}, {}, kGoodAttributes}, "operand 'a' has rank 0"},
                    BadOperands{"NoAttributes", {{{3}, {3}}, {}, {}}, "takes 2 attributes, not 0"},
                    BadOperands{"AttributeName",
                                {{{3}, {3}}, {}, {float_attribute("epsilon", 1), int_attribute("n", 1)}},
                                "attribute 'epsilon' where 'eps' should be"},
                    BadOperands{"AttributeKind",
                                {{{3}, {3}}, {}, {int_attribute("eps", 1), int_attribute("n", 1)}},
                                "attribute 'eps' has kind 1 and not 2"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(OperandMistakes, AreNamedWithTheSignature) {
  const Registered kernel(scale());
  Operands operands = GetParam().operands;
  const Error error = error_of([&] { check_operands(*kernel, operands.frame()); });
  expect_error(error, MYDEV_INVALID_ARGUMENT, GetParam().message);
  expect_error(error, MYDEV_INVALID_ARGUMENT, "test.scale(a f32|f64[1..], b? f32|f64 like a; eps: float = 1e-05");
}

}  // namespace
}  // namespace mydev
