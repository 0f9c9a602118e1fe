// The errors of the host's mydev.fused for attributes that are not those of its form (program/transform/fused_form.h).
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program_fixture.h"

namespace mydev::program {
namespace {

// y = -exp(x), then m = the sums of its rows. The binding table: y, m, x, a temporary.
constexpr const char* kGood =
    R"(program p(x: f32[4,8]) -> (y: f32[4,8], m: f32[4]) {
  y, m = launch mydev.fused(x; body="b", sizes=[4, 8], outer_rank=1, iterations=1, advances=[], apart=true, steps={)"
    R"("mydev.exp"={results=1, is_outer=false, bindings=[3, 2], dtypes=[11, 11], offsets=[0, 0], strides=[8, 1, 8, 1], )"
    R"(numbers={}, attributes={}}, )"
    R"("mydev.mul"={results=1, is_outer=false, bindings=[0, 3, -1], dtypes=[11, 11, 11], offsets=[0, 0, 0], )"
    R"(strides=[8, 1, 8, 1, 0, 0], numbers={number=-1.0}, attributes={}}, )"
    R"("mydev.sum"={results=1, is_outer=false, bindings=[1, 0], dtypes=[11, 11], offsets=[0, 0], strides=[1, 0, 8, 1], )"
    R"(numbers={}, attributes={}}})
})";

bool has_kernel() {
  return resolve_kernel(device(0), "mydev.fused") != nullptr;
}

std::vector<Floats*> arrays() {
  static auto& x = *new Floats(std::vector<float>(32, 1));
  static auto& y = *new Floats(std::vector<float>(32, 0));
  static auto& m = *new Floats(std::vector<float>(4, 0));
  return {&x, &y, &m};
}

void run(const std::string& text) {
  Executor executor = executor_of(parsed(text));
  const std::vector<Floats*> all = arrays();
  executor.run(default_stream(0), std::vector{all[0]->binding()}, std::vector{all[1]->binding(), all[2]->binding()});
  default_stream(0).synchronize();
}

void expect_good() {
  run(kGood);
  EXPECT_FLOAT_EQ(arrays()[1]->read()[31], -std::exp(1.F));
  EXPECT_FLOAT_EQ(arrays()[2]->read()[3], -8 * std::exp(1.F));
}

struct Mistake {
  const char *name, *from, *to;  // in the text
  mydev_code code;
  const char* message;
};

constexpr Mistake kMistakes[] = {
    {"NoSizes", "sizes=[4, 8], ", "", MYDEV_INVALID_ARGUMENT, "there is no 'sizes'"},
    {"NoSteps", ", steps={", ", others={", MYDEV_INVALID_ARGUMENT, "there is no 'steps'"},
    {"SizesOfAnotherKind", "sizes=[4, 8]", "sizes=4", MYDEV_INVALID_ARGUMENT, "'sizes' is of another kind"},
    {"NegativeSize", "sizes=[4, 8]", "sizes=[4, -8]", MYDEV_INVALID_ARGUMENT,
     "a size of the body of mydev.fused is -8"},
    {"TooManyElements", "sizes=[4, 8]", "sizes=[4611686018427387904, 8]", MYDEV_INVALID_ARGUMENT, "no array's"},
    {"ReducesAMissingDimension", "outer_rank=1", "outer_rank=3", MYDEV_INVALID_ARGUMENT,
     "has 3 outer dimensions, of 2"},
    {"HasLessThanNoOuterDimension", "outer_rank=1", "outer_rank=-1", MYDEV_INVALID_ARGUMENT,
     "has -1 outer dimensions, of 2"},
    {"NegativeIterations", "iterations=1", "iterations=-5", MYDEV_INVALID_ARGUMENT, "-5 iterations"},
    {"TooFewAdvances", "advances=[]", "advances=[4]", MYDEV_INVALID_ARGUMENT, "of 1 buffers how they move, and has 3"},
    {"UnknownKernel", "mydev.exp\"=", "mydev.expo\"=", MYDEV_UNIMPLEMENTED, "step 0 of mydev.fused (mydev.expo)"},
    {"StepThatIsNoDictionary", "steps={", "steps={\"mydev.neg\"=1, ", MYDEV_INVALID_ARGUMENT,
     "'mydev.neg' is no dictionary"},
    {"NoBindings", "bindings=[3, 2], ", "", MYDEV_INVALID_ARGUMENT,
     "step 0 of mydev.fused (mydev.exp): there is no 'bindings'"},
    {"BindingBelowAll", "bindings=[3, 2]", "bindings=[3, -7]", MYDEV_INVALID_ARGUMENT, "operand 1 has the binding -7"},
    {"ReadsBeforeItIsWritten", "bindings=[3, 2]", "bindings=[3, 9]", MYDEV_INVALID_ARGUMENT,
     "operand 1 reads binding 9"},
    {"ReadsWhatALaterStepWrites", "bindings=[3, 2]", "bindings=[4, 2]", MYDEV_INVALID_ARGUMENT,
     "operand 1 reads binding 3"},
    {"WritesANumber", "bindings=[3, 2]", "bindings=[-1, 2]", MYDEV_INVALID_ARGUMENT, "are numbers, and there are 0"},
    {"WritesNothing", "bindings=[3, 2]", "bindings=[-2, 2]", MYDEV_INVALID_ARGUMENT, "is absent"},
    {"TooManyNumbers", "numbers={}, attributes={}}, \"mydev.mul", "numbers={number=1.0}, attributes={}}, \"mydev.mul",
     MYDEV_INVALID_ARGUMENT, "0 operands are numbers, and there are 1"},
    {"NumberThatIsText", "number=-1.0", "number=\"-1\"", MYDEV_INVALID_ARGUMENT, "a number is none"},
    {"NoResults", "{results=1, is_outer=false, bindings=[3", "{results=0, is_outer=false, bindings=[3",
     MYDEV_INVALID_ARGUMENT, "writes 0 of its 2 operands"},
    {"MoreResultsThanOperands", "{results=1, is_outer=false, bindings=[3", "{results=3, is_outer=false, bindings=[3",
     MYDEV_INVALID_ARGUMENT, "writes 3 of its 2 operands"},
    {"MoreResultsThanTheKernelHas", "{results=1, is_outer=false, bindings=[0",
     "{results=2, is_outer=false, bindings=[0", MYDEV_INVALID_ARGUMENT, "step 1 of mydev.fused (mydev.mul)"},
    {"FewerOperandsThanTheKernelTakes",
     "bindings=[0, 3, -1], dtypes=[11, 11, 11], offsets=[0, 0, 0], strides=[8, 1, 8, 1, 0, 0], numbers={number=-1.0}",
     "bindings=[0, 3], dtypes=[11, 11], offsets=[0, 0], strides=[8, 1, 8, 1], numbers={}", MYDEV_INVALID_ARGUMENT,
     "step 1 of mydev.fused (mydev.mul)"},
    {"MissingDtype", "dtypes=[11, 11], offsets", "dtypes=[11], offsets", MYDEV_INVALID_ARGUMENT,
     "2 bindings and 1 dtypes"},
    {"UnknownDtype", "dtypes=[11, 11], offsets", "dtypes=[11, 900], offsets", MYDEV_INVALID_ARGUMENT, "the dtype 900"},
    {"NegativeDtype", "dtypes=[11, 11], offsets", "dtypes=[11, -3], offsets", MYDEV_INVALID_ARGUMENT, "the dtype -3"},
    {"AnotherDtypeThanTheKernels", "dtypes=[11, 11], offsets", "dtypes=[11, 4], offsets", MYDEV_INVALID_ARGUMENT,
     "step 0 of mydev.fused (mydev.exp)"},
    {"WiderTemporaryThanWasWritten", "dtypes=[11, 11, 11]", "dtypes=[11, 12, 11]", MYDEV_INVALID_ARGUMENT,
     "not of the size of binding 3"},
    {"MissingStride", "strides=[8, 1, 8, 1], ", "strides=[8, 1, 8], ", MYDEV_INVALID_ARGUMENT,
     "3 strides of 2 operands in 2 dimensions"},
    {"BeyondTheBuffer", "strides=[8, 1, 8, 1], ", "strides=[8, 1, 8, 2], ", MYDEV_INVALID_ARGUMENT,
     "buffer 2, reaches beyond it"},
    {"BeforeTheBuffer", "strides=[8, 1, 8, 1], ", "strides=[8, 1, -8, 1], ", MYDEV_INVALID_ARGUMENT,
     "buffer 2, reaches beyond it"},
    {"OffsetBeyondTheBuffer", "offsets=[0, 0], strides=[8", "offsets=[0, 4], strides=[8", MYDEV_INVALID_ARGUMENT,
     "4 bytes into buffer 2, reaches beyond it"},
    {"NegativeOffset", "offsets=[0, 0], strides=[8", "offsets=[0, -4], strides=[8", MYDEV_INVALID_ARGUMENT,
     "-4 bytes into buffer 2, reaches beyond it"},
    {"OffsetIntoATemporary", "offsets=[0, 0], strides=[8", "offsets=[64, 0], strides=[8", MYDEV_INVALID_ARGUMENT,
     "64 bytes into a temporary"},
    {"StridesWithoutEnd", "strides=[8, 1, 8, 1], ", "strides=[8, 1, 9223372036854775807, 1], ", MYDEV_INVALID_ARGUMENT,
     "buffer 2, reaches beyond it"},
};

class FusedForm : public testing::TestWithParam<Mistake> {};

TEST_P(FusedForm, IsRefusedWithWhatIsWrong) {
  if (!has_kernel()) GTEST_SKIP() << "needs the kernel mydev.fused";
  std::string text = kGood;
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  expect_error(error_of([&] { run(text); }), GetParam().code, GetParam().message);
  expect_good();
}

INSTANTIATE_TEST_SUITE_P(Mistakes, FusedForm, testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(FusedFormText, MayBeWrittenAsText) {
  if (!has_kernel()) GTEST_SKIP() << "needs the kernel mydev.fused";
  expect_good();
}

// The text is cut off, like a file that ends too early.
TEST(FusedFormText, IsNotReadInPart) {
  std::string whole = "programs version 1\n\n";
  whole += kGood;
  for (size_t length = whole.find("steps="); length < whole.size() - 1; length += 7) {
    expect_error(error_of([&] { parse(whole.substr(0, length)); }), MYDEV_INVALID_ARGUMENT, "line ");
  }
}

}  // namespace
}  // namespace mydev::program
