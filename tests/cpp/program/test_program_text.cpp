// Programs as text: what is printed is read back as it was, and what is no program is refused where it goes wrong.
#include <gtest/gtest.h>

#include <cmath>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "fuzz.h"
#include "program_fixture.h"

namespace mydev::program {
namespace {

// --- text that is printed as it was read
// ------------------------------------------------------------------------------

class PrintedText : public testing::TestWithParam<const char*> {};

TEST_P(PrintedText, IsReadBackAsItWas) {
  const std::string text = std::string("programs version 1\n\n") + GetParam();
  EXPECT_EQ(print(*parse(text)), text);
}

constexpr const char* kTexts[] = {
    "program nothing() -> () {\n}\n",
    R"(program layer(x: f32[128,256], donated state: f32[10]) -> (y: f32[128,10], state) {
  constant w: f32[2] = hex "0000803f00000040"
  temporary h: f32[128,10]
  h = launch mydev.matmul(x, x+512 f32[256,10])
  y = launch mydev.relu(h)
  state = launch mydev.add(state, h+40 f32[10]{10}; alpha=1.0)
}
)",
    // A constant that each of three devices has its own of.
    R"(program device() -> (y: u8[2]) {
  constant c: u8[2] = hex "0001", hex "0203", hex "0405"
  y = copy c
}
)",
    R"(program stream(host w: f32[4]) -> (host y: f32[4]) {
  temporary t: f32[4]
  t = copy w
  y = copy t
}
)",
    // Operands: views, numbers of each kind, absent ones, broadcast and reversed strides.
    R"(program operands(x: f32[2,3], z: c64[2]) -> (y: f32[2,3], n: s64[]) {
  y = launch a.b:c-d(x f32[2,3]{0,1}, x+20 f32[6]{-1}, none, f32 1.5, s64 -3, c64 (1.0,-0.5), f32[2,3] 1e+30)
  n = launch test.kernel(x+8 s64[], pred 1, f64 nan, f64 -inf)
}
)",
    // Attributes of each kind.
    R"(program attributes() -> () {
  launch test.kernel(; a=true, b=-7, c=0.1, d=(1.0,2.0), e="text \"\\\x0a\xff", f=[1,-2], g=[], h=[1.5,inf], i=[.])
  launch test.kernel(; a=s32 7, b=f32 hex "0000803f", c={x=1, "a b"={y=pred false}}, d={})
}
)",
    // Other commands.
    R"(program body(donated n: u8[], donated x: f32[4]) -> (n, x) {
  n = fill hex "00"
}

program other(donated n: u8[], donated x: f32[4]) -> (n, x) {
}

program commands(donated n: u8[], donated x: f32[4], donated v: f32[8]) -> (n, x, v, y: f32[4]) {
  temporary t: f32[4]
  y = copy v f32[4]{2}
  t = fill hex "0000803f"
  call body(n, x)
  repeat 10 body(n, t)
  repeat 2 body(n, v f32[4] by 16)
  repeat 2 body(n, v+16 f32[4] by -16)
  while n body(n, x)
  if n u8[1] then body else other(n, x)
  if n then body(n, x)
}
)",
    // Lanes: steps that are waited for have numbers.
    R"(program lanes(x: f32[4]) -> (y: f32[4], z: f32[4]) {
  0: y = copy x
  1: z = copy x lane 1
  y = launch mydev.add(y, z; alpha=1.0) lane 2 after 0, 1
}
)",
};
INSTANTIATE_TEST_SUITE_P(Text, PrintedText, testing::ValuesIn(kTexts));

TEST(Text, MayHaveCommentsAndSpaces) {
  const SharedProgram program = parse(
      "# what it is for\n programs version 1 # the version\n\nprogram p ( x : f32 [ 2 ] )->( y : f32[2] ) {\n\n"
      "  # a step\n 7 : y=launch mydev.exp( x )\n}\n\n");
  EXPECT_EQ(print(*program),
            "programs version 1\n\nprogram p(x: f32[2]) -> (y: f32[2]) {\n  y = launch mydev.exp(x)\n}\n");
}

TEST(Text, KeepsNumbersToTheLastBit) {
  const double value = std::nextafter(0.1, 1);
  ProgramBuilder builder("p");
  const mydev_attribute attribute = float_attribute("value", value);
  builder.launch("test.kernel", {}, {}, {&attribute, 1});
  const SharedProgram program = parse(print(*std::move(builder).build()));
  EXPECT_EQ(program->steps()[0].attributes.get()[0].value.f, value);
}

TEST(Text, HasNoStridesOfDimensionsOfSizeOne) {
  const int64_t sizes[] = {1, 4}, strides[] = {99, 1};
  ProgramBuilder builder("p");
  const SlotIndex x = builder.parameter(MYDEV_F32, {1, 4}, false, "x"), y = builder.temporary(MYDEV_F32, {1, 4}, "y");
  builder.copy(builder.view(y), ProgramBuilder::view(x, 0, {nullptr, sizes, strides, 2, MYDEV_F32, 0}));
  const SharedProgram program = std::move(builder).build();
  EXPECT_EQ(print_step(*program, program->steps()[0]), "y = copy x");
}

// --- host calls
// -------------------------------------------------------------------------------------------------------

TEST(Text, ShowsHostCallsAndReadsNone) {
  ProgramBuilder builder("p");
  const SlotIndex x = builder.parameter(MYDEV_F32, {2}, false, "x");
  builder.host_call("log \"it\"", [](std::span<const mydev_buffer>) {}, {}, {builder.view(x)});
  const std::string text = print(*std::move(builder).build());
  EXPECT_NE(text.find("  host \"log \\\"it\\\"\"(x)\n"), std::string::npos) << text;
  expect_error(error_of([&] { parse(text); }), MYDEV_INVALID_ARGUMENT,
               "line 4, column 3: found 'host', expected a step that text can hold; a host call or a collective is a");
}

// --- text that is wrong
// -----------------------------------------------------------------------------------------------

struct WrongText {
  const char *what, *text, *problem;
};

class RefusedText : public testing::TestWithParam<WrongText> {};

TEST_P(RefusedText, SaysWhereAndWhatWasExpected) {
  expect_error(error_of([] { parse(GetParam().text); }), MYDEV_INVALID_ARGUMENT, GetParam().problem);
}

#define IN_PROGRAM(steps) \
  "programs version 1\nprogram p(x: f32[2,3], donated d: u8[]) -> (y: f32[2,3]) {\n" steps "\n}\n"

constexpr WrongText kWrongTexts[] = {
    {"Empty", "", "line 1, column 1: found the end of the text, expected 'programs version' and a number"},
    {"NoVersion", "programs version\n",
     "line 1, column 17: found the end of the line, expected the version of the text"},
    {"LaterVersion", "programs version 2\n", "line 1, column 18: found '2', expected version 1"},
    {"NoProgram", "programs version 1\n", "line 2, column 1: found the end of the text, expected 'program'"},
    {"NoName", "programs version 1\nprogram (", "line 2, column 9: found '(', expected the name of a program"},
    {"WordForAName", "programs version 1\nprogram copy(",
     "found 'copy', expected the name of a program that is no word"},
    {"SlotTwice", "programs version 1\nprogram p(x: f32[], x: f32[]) -> () {\n}\n",
     "line 2, column 21: found 'x', expected another name: there is a slot of this one"},
    {"ProgramTwice", "programs version 1\nprogram p() -> () {\n}\nprogram p() -> () {\n}\n",
     "line 4, column 9: found 'p', expected another name: there is a program of this one"},
    {"NoDtype", "programs version 1\nprogram p(x: f33[])",
     "line 2, column 14: found 'f33', expected a dtype, as in f32"},
    {"NoSizes", "programs version 1\nprogram p(x: f32)", "line 2, column 17: found ')', expected '['"},
    {"WrongSize", "programs version 1\nprogram p(x: f32[a])", "line 2, column 18: found 'a', expected a size"},
    {"SizeTooLarge", "programs version 1\nprogram p(x: f32[99999999999999999999])", "expected a size"},
    {"NotClosed", "programs version 1\nprogram p() -> () {\n", "line 3, column 1: found the end of the text"},
    {"TextBehind", "programs version 1\nprogram p() -> () {\n}\nmore",
     "line 4, column 1: found 'more', expected 'program'"},
    {"HexDigit", "programs version 1\nprogram p() -> () {\n  constant c: u8[1] = hex \"0g\"\n}\n",
     "line 3, column 28: found '0g', expected two hexadecimal digits, or '\"'"},
    {"NoHex", "programs version 1\nprogram p() -> () {\n  constant c: u8[1] = 0\n}\n", "found '0', expected 'hex'"},
    {"UnknownSlot", IN_PROGRAM("  y = copy z"), "line 3, column 12: found 'z', expected the name of a slot"},
    {"UnknownCommand", IN_PROGRAM("  y = move x"), "line 3, column 7: found 'move', expected a command: launch, copy"},
    {"NoCommand", IN_PROGRAM("  y"), "line 3, column 4: found the end of the line, expected ',' or '='"},
    {"TwoStepsInALine", IN_PROGRAM("  y = copy x y = copy x"), "found 'y', expected the end of the line"},
    {"NoKernel", IN_PROGRAM("  y = launch (x)"), "line 3, column 14: found '(', expected the name of a kernel"},
    {"NoOperand", IN_PROGRAM("  y = launch mydev.exp(,)"), "found ',', expected the name of a slot, a number with its"},
    {"NoComma", IN_PROGRAM("  y = launch mydev.exp(x x)"), "found 'x', expected ',', ';' or ')'"},
    {"NoOffset", IN_PROGRAM("  y = copy x+a f32[2]"), "line 3, column 14: found 'a', expected an offset in bytes"},
    {"NegativeOffset", IN_PROGRAM("  y = copy x+-4 f32[2]"), "found '-', expected an offset in bytes"},
    {"Strides", IN_PROGRAM("  y = copy x f32[2,3]{1}"), "expected as many strides as sizes, which are 2"},
    {"NumberWithoutValue", IN_PROGRAM("  y = launch k(f32 x)"), "found 'x', expected a number"},
    {"IntegerWithPoint", IN_PROGRAM("  y = launch k(s32 1.5)"), "found '1', expected an integer"},
    {"Complex", IN_PROGRAM("  y = launch k(c64 1.5)"), "found '1', expected '('"},
    {"AttributeWithoutValue", IN_PROGRAM("  y = launch k(x; a=)"), "found ')', expected the value of an attribute"},
    {"AttributeWithoutName", IN_PROGRAM("  y = launch k(x; 1)"), "found '1', expected the name of an attribute"},
    {"StringWithoutEnd", IN_PROGRAM("  y = launch k(x; a=\"b)"), "found the end of the line, expected '\"' at the end"},
    {"Escape", IN_PROGRAM("  y = launch k(x; a=\"\\q\")"), "found 'q', expected '\"', '\\' or 'x' and two"},
    {"PartOfAnElement", IN_PROGRAM("  y = launch k(x; a=s32 hex \"00\")"), "expected the bytes of whole elements"},
    {"DeepDictionary", IN_PROGRAM("  y = launch k(x; a={a={a={a={a={a={a={a={a={}}}}}}}}})"),
     "they are nested too deep"},
    {"CallOfItself", IN_PROGRAM("  call p(x, d)"),
     "line 3, column 8: found 'p', expected the name of a program above this one; no program calls itself"},
    {"NoThen", IN_PROGRAM("  if d p(x, d)"), "line 3, column 8: found 'p', expected 'then'"},
    {"WaitForLater", IN_PROGRAM("  y = copy x after 3"),
     "line 3, column 20: found '3', expected the number of a step above this one"},
    {"NumberTwice", IN_PROGRAM("  1: y = copy x\n  1: y = copy x"), "line 4, column 3: found '1', expected a number"},
    {"WrongProgram", IN_PROGRAM("  d = copy x"), "step 0 of program 'p' (copy): a copy is between views of one dtype"},
};
INSTANTIATE_TEST_SUITE_P(Text, RefusedText, testing::ValuesIn(kWrongTexts),
                         [](const auto& info) { return std::string(info.param.what); });

// --- text that may be anything
// ----------------------------------------------------------------------------------------

constexpr const char* kPieces[] = {"(",
                                   ")",
                                   "{",
                                   "}",
                                   "[",
                                   "]",
                                   ",",
                                   ";",
                                   ":",
                                   "=",
                                   "+",
                                   "-",
                                   "\"",
                                   "\n",
                                   " ",
                                   "0",
                                   "7",
                                   "1.5",
                                   "9999999999999999999",
                                   "4611686018427387904",
                                   "x",
                                   "y",
                                   "none",
                                   "f32",
                                   "s64[]",
                                   "f32[2]",
                                   "donated",
                                   "hex \"00\"",
                                   "launch",
                                   "copy",
                                   "fill",
                                   "call",
                                   "body",
                                   "after 0",
                                   "lane 1",
                                   "a={",
                                   "\\x",
                                   "#",
                                   "inf",
                                   "1e400"};

TEST(Text, SurvivesWhatItMayHoldAndReadsBackWhatItTakes) {
  unsigned taken = 0;
  fuzz(3000, 1, [&](std::mt19937& random) {
    std::string text = std::string("programs version 1\n\n") + kTexts[random() % std::size(kTexts)];
    for (unsigned change = 1 + random() % 3; change > 0; --change) {
      const size_t at = random() % text.size(), length = random() % 3 == 0 ? 1 + random() % 8 : 0;
      text.replace(at, length, random() % 4 == 0 ? "" : kPieces[random() % std::size(kPieces)]);
    }
    SharedProgram program;
    if (error_of([&] { program = parse(text); }).code() != MYDEV_OK) return;
    ++taken;
    const std::string printed = print(*program);
    ASSERT_EQ(print(*parse(printed)), printed) << text;
  });
  EXPECT_GT(taken, 0U);
}

}  // namespace
}  // namespace mydev::program
