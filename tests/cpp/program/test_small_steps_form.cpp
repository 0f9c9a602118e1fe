// Forms of `mydev.small_steps`, as text: those that make no sense are refused with what is wrong.
#include <gtest/gtest.h>

#include <string>

#include "small_steps_fixture.h"

namespace mydev::program {
namespace {

// t = x + 1; y[i] = t[0] + x[i].
constexpr const char* kGood =
    R"(program p(x: f32[2]) -> (y: f32[2]) {
  y = launch mydev.small_steps(x; body="b", memory=[0, 8, 0, 2, 0, 0, 2, 1, 0], constants={}, steps={)"
    R"("mydev.add"={results=1, bindings=[2, 1, -1], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
    R"(sizes=[2, 2, 2], strides=[1, 1, 0], numbers={number=1.0}, attributes={alpha=1.0}}, )"
    R"("repeat"={count=2, moves=[3, 4, 4, 4], end=3}, )"
    R"("mydev.add"={results=1, bindings=[3, 2, 4], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
    R"(sizes=[1, 1, 1], strides=[1, 1, 1], numbers={}, attributes={alpha=1.0}}})
})";

void expect_good() {
  EXPECT_EQ(run_once(parsed(kGood), {{1, 5}}, 2), (Values{3, 7}));
}

struct Mistake {
  const char *name, *from, *to;  // in the text
  mydev_code code;
  const char* message;
};
class SmallForm : public testing::TestWithParam<Mistake> {};

TEST_P(SmallForm, IsRefusedWithWhatIsWrong) {
  if (!has_kernel()) GTEST_SKIP() << "needs the kernel mydev.small_steps";
  std::string text = kGood;
  const size_t at = text.find(GetParam().from);
  ASSERT_NE(at, std::string::npos);
  text.replace(at, std::string(GetParam().from).size(), GetParam().to);
  expect_error(error_of([&] { run_once(parsed(text), {{1, 5}}, 2); }), GetParam().code, GetParam().message);
  expect_good();
}

constexpr Mistake kMistakes[] = {
    {"NoMemory", "memory=[0", "others=[0", MYDEV_INVALID_ARGUMENT, "there is no 'memory'"},
    {"MemoryInTwos", "2, 1, 0]", "2, 1]", MYDEV_INVALID_ARGUMENT, "'memory' has 8 numbers"},
    {"MemoryOfNoKind", "2, 1, 0]", "5, 1, 0]", MYDEV_INVALID_ARGUMENT, "binding 4 is of kind 5"},
    {"HugeTemporary", "0, 8, 0", "0, 88888888888, 0", MYDEV_INVALID_ARGUMENT, "binding 2 has 88888888888 bytes"},
    {"MissingConstant", "0, 8, 0", "1, 8, 0", MYDEV_INVALID_ARGUMENT, "binding 2 is constant 0, of 0"},
    {"MovesAlongItself", "2, 1, 0]", "2, 4, 0]", MYDEV_INVALID_ARGUMENT, "binding 4 moves along binding 4"},
    {"NoSteps", ", steps={", ", others={", MYDEV_INVALID_ARGUMENT, "there is no 'steps'"},
    {"UnknownKernel", "\"mydev.add\"={results=1, bindings=[2", "\"mydev.ad\"={results=1, bindings=[2",
     MYDEV_UNIMPLEMENTED, "step 0 of mydev.small_steps (mydev.ad)"},
    {"EndsTooLate", "end=3", "end=4", MYDEV_INVALID_ARGUMENT, "'end' is step 4"},
    {"EndsBeforeItself", "end=3", "end=1", MYDEV_INVALID_ARGUMENT, "'end' is step 1"},
    {"NegativeCount", "count=2", "count=-2", MYDEV_INVALID_ARGUMENT, "repeated -2 times"},
    {"MovesAFixedBinding", "moves=[3, 4, 4, 4]", "moves=[2, 4]", MYDEV_INVALID_ARGUMENT, "binding 2 does not move"},
    {"MovingBindingOutsideItsLoop", "bindings=[2, 1, -1]", "bindings=[2, 3, -1]", MYDEV_INVALID_ARGUMENT,
     "binding 3 moves in a loop, and is used outside of it"},
    {"MovesAlongWhatMovesElsewhere", "2, 1, 0]", "2, 3, 0]", MYDEV_INVALID_ARGUMENT, "binding 3 moves in a loop"},
    {"UnknownBinding", "bindings=[2, 1, -1]", "bindings=[9, 1, -1]", MYDEV_INVALID_ARGUMENT, "there is no binding 9"},
    {"BeyondTheTemporary", "offsets=[0, 0, 0], ranks=[1, 1, 1], sizes=[2",
     "offsets=[4, 0, 0], ranks=[1, 1, 1], sizes=[2", MYDEV_INVALID_ARGUMENT,
     "operand 0 of f32, 4 bytes into binding 2, reaches beyond it"},
    {"BeforeTheBuffer", "offsets=[0, 0, 0], ranks=[1, 1, 1], sizes=[2", "offsets=[0, -4, 0], ranks=[1, 1, 1], sizes=[2",
     MYDEV_INVALID_ARGUMENT, "operand 1 of f32, -4 bytes into binding 1, reaches beyond it"},
    {"NegativeSize", "sizes=[2, 2, 2]", "sizes=[-2, 2, 2]", MYDEV_INVALID_ARGUMENT, "a dimension of size -2"},
    {"LargeArray", "sizes=[2, 2, 2]", "sizes=[2, 4611686018427387904, 2]", MYDEV_INVALID_ARGUMENT, "no small array"},
    {"RankBeyondTheSizes", "ranks=[1, 1, 1], sizes=[2", "ranks=[1, 7, 1], sizes=[2", MYDEV_INVALID_ARGUMENT,
     "operand 1 has rank 7"},
    {"SizesTooMany", "sizes=[2, 2, 2], strides=[1, 1, 0]", "sizes=[2, 2, 2, 2], strides=[1, 1, 0, 0]",
     MYDEV_INVALID_ARGUMENT, "there are 4 sizes, of 3 dimensions"},
    {"UnknownDtype", "dtypes=[11, 11, 11]", "dtypes=[11, 99, 11]", MYDEV_INVALID_ARGUMENT, "the dtype 99"},
    {"MissingNumber", "numbers={number=1.0}", "numbers={}", MYDEV_INVALID_ARGUMENT, "operand 2 is no number"},
    {"ShapesThatDoNotFit", "sizes=[1, 1, 1]", "sizes=[1, 2, 1]", MYDEV_INVALID_ARGUMENT,
     "step 2 of mydev.small_steps (mydev.add)"},
    {"AnotherDtypeThanTheKernels", "dtypes=[11, 11, 11]", "dtypes=[11, 4, 11]", MYDEV_INVALID_ARGUMENT,
     "step 0 of mydev.small_steps (mydev.add)"},
};
INSTANTIATE_TEST_SUITE_P(Mistakes, SmallForm, testing::ValuesIn(kMistakes),
                         [](const auto& info) { return std::string(info.param.name); });

// t = x + 1; y[0] = t[0] + x[0]; t[0] = t[0] * 2, by a binding that moves along t; y[1] = t[0] + x[1].
TEST(SmallFormText, ReadsWhatAPlaceThatMovesHasWritten) {
  if (!has_kernel()) GTEST_SKIP() << "needs the kernel mydev.small_steps";
  const char* const text =
      R"(program p(x: f32[2]) -> (y: f32[2]) {
  y = launch mydev.small_steps(x; body="b", memory=[0, 8, 0, 2, 2, 0], constants={}, steps={)"
      R"("mydev.add"={results=1, bindings=[2, 1, -1], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
      R"(sizes=[2, 2, 2], strides=[1, 1, 0], numbers={number=1.0}, attributes={alpha=1.0}}, )"
      R"("repeat"={count=1, moves=[3, 4], end=5}, )"
      R"("mydev.add"={results=1, bindings=[0, 2, 1], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
      R"(sizes=[1, 1, 1], strides=[1, 1, 1], numbers={}, attributes={alpha=1.0}}, )"
      R"("mydev.mul"={results=1, bindings=[3, 3, -1], dtypes=[11, 11, 11], offsets=[0, 0, 0], ranks=[1, 1, 1], )"
      R"(sizes=[1, 1, 1], strides=[1, 1, 0], numbers={number=2.0}, attributes={}}, )"
      R"("mydev.add"={results=1, bindings=[0, 2, 1], dtypes=[11, 11, 11], offsets=[4, 0, 4], ranks=[1, 1, 1], )"
      R"(sizes=[1, 1, 1], strides=[1, 1, 1], numbers={}, attributes={alpha=1.0}}})
})";
  EXPECT_EQ(run_once(parsed(text), {{1, 5}}, 2), (Values{3, 9}));
}

TEST(SmallFormText, MayBeWrittenAsText) {
  if (!has_kernel()) GTEST_SKIP() << "needs the kernel mydev.small_steps";
  expect_good();
}

}  // namespace
}  // namespace mydev::program
