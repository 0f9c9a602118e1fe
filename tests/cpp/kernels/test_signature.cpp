// Signatures: what is refused, the operator's schema, and checking operands.
#include <cmath>

#include "signature_fixture.h"

namespace mydev {
namespace {

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
                    Schema{"VariadicResult",
                           [] {
                             Record r = by_rule("(n),(n)->(n)", 2);
                             r.operands[1].flags = MYDEV_OPERAND_VARIADIC;
                             r.results = {result_like("x", 0), result_like("y", 1)};
                             r.results[1].flags = MYDEV_OPERAND_VARIADIC;
                             return r;
                           }(),
                           "test_op(Tensor a, Tensor[] b) -> (Tensor, Tensor[])"},
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

struct OperatorName {
  const char* kernel;
  const char* name;
};
class OperatorNames : public testing::TestWithParam<OperatorName> {};
INSTANTIATE_TEST_SUITE_P(Names, OperatorNames,
                         testing::Values(OperatorName{"2.my:lib-op", "_2_my_lib_op"}, OperatorName{"class", "class_"},
                                         OperatorName{"Ellipsis", "Ellipsis_"}, OperatorName{"name", "name_"},
                                         OperatorName{"__init__", "__init___"}, OperatorName{"_dir", "_dir_"}));

// Words of the schema language, of Python, and of what torch.ops gives to each namespace.
TEST_P(OperatorNames, AreIdentifiersThatNobodyKeepsForItself) {
  Record record = by_rule("->", 0, 0);
  record.name = GetParam().kernel;
  EXPECT_EQ(operator_name(record.kernel()), GetParam().name);
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
        Contradiction{"ReservedWord", [](Record& r) { r.operands[0].name = "lambda"; },
                      "operand 0 is named 'lambda'; give an identifier that is no reserved word"},
        Contradiction{"ReservedAttribute", [](Record& r) { r.attributes = {with_default(int_attribute("from", 1))}; },
                      "attribute 0 is named 'from'"},
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
        Contradiction{"ResultFlags", [](Record& r) { r.results[0].flags = 1; }, "has flags 1"},
        Contradiction{"VariadicResultFirst",
                      [](Record& r) {
                        r.operands[1].flags = MYDEV_OPERAND_VARIADIC;
                        r.results = {result_like("x", 1), result_like("y", 0)};
                        r.results[0].flags = MYDEV_OPERAND_VARIADIC;
                      },
                      "only the last one may be"},
        Contradiction{"VariadicResultOfOneOperand", [](Record& r) { r.results[0].flags = MYDEV_OPERAND_VARIADIC; },
                      "`like` the variadic operand"},
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
