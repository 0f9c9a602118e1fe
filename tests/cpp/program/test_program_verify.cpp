// Errors that say what is wrong with a program, and where: rules of its structure, and of its kernels.
#include "program/ir/verify.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program_fixture.h"
#include "runtime/driver/device.h"

namespace mydev::program {
namespace {

struct WrongProgram {
  const char *what, *text, *problem;
};
std::string name_of(const testing::TestParamInfo<WrongProgram>& info) {
  return info.param.what;
}

// --- structure
// --------------------------------------------------------------------------------------------------------

class RefusedStructure : public testing::TestWithParam<WrongProgram> {};

TEST_P(RefusedStructure, IsRefusedWithItsPlace) {
  expect_error(error_of([] { parsed(GetParam().text); }), MYDEV_INVALID_ARGUMENT, GetParam().problem);
}

#define PROGRAM(steps) "program p(x: f32[2,3], donated d: f32[6], n: u8[]) -> (y: f32[2,3]) {\n" steps "\n}\n"
// Programs to call: what it is donated it returns, or does not; or it has a result.
#define UPDATE "program update(donated a: f32[6], b: f32[2,3]) -> (a) {\n}\n"
#define PAIR "program pair(donated a: f32[1], b: f32[1]) -> (a) {\n}\n"
#define CONSUME "program consume(donated a: f32[6], b: f32[2,3]) -> () {\n}\n"
#define COMPUTE "program compute(a: f32[6], b: f32[2,3]) -> (c: f32[2,3]) {\n c = copy b\n}\n"

constexpr WrongProgram kWrongStructures[] = {
    {"ViewBehindItsSlot", PROGRAM("y = copy x+4 f32[2,3]"),
     "step 0 of program 'p' (copy): the view touches bytes 4 to 28 of 'x', which has 24"},
    {"ViewBeforeItsSlot", PROGRAM("y = copy x f32[2,3]{3,-1}"), "touches bytes -8 to 16 of 'x', which has 24"},
    {"OffsetBehindItsSlot", PROGRAM("y = launch k(x+28 f32[0])"), "touches bytes 0 to 0 of 'x', which has 24"},
    {"ViewOfTooLargeStrides", PROGRAM("y = copy x f32[2,3]{4611686018427387904,4}"), "reaches further than any memory"},
    {"MisalignedView", PROGRAM("y = launch k(x+2 f32[2])"), "the view of 'x' begins at byte 2, where no f32 may lie"},
    {"TooManyBytes", "program p(x: f32[4611686018427387904,8]) -> () {\n}\n", "slot 'x' has more bytes than there can"},
    {"TokensInMemory", "program p(x: token[2]) -> () {\n}\n", "slot 'x' has a dtype that memory does not hold"},
    {"ConstantOfFewBytes", PROGRAM("constant c: f32[2] = hex \"00\"\ny = copy x"),
     "program 'p': constant 'c' has 1 bytes of data, and takes 8"},
    {"ReadBeforeWritten", PROGRAM("temporary t: f32[2,3]\ny = copy t\nt = copy x"),
     "step 0 of program 'p' (copy): 't' is read before a step has written it"},
    {"ResultNotWritten", PROGRAM(""), "program 'p': result 'y' is written by no step"},
    {"ConstantOfOneDeviceOfTwo", PROGRAM("constant c: u8[2] = hex \"0102\", hex \"03\"\ny = copy x"),
     "constant 'c' has 3 bytes of data, and takes 4"},
    {"ConstantWritten", PROGRAM("constant c: u8[1] = hex \"00\"\nc = fill hex \"00\""), "constant 'c' is written"},
    {"ParameterWritten", PROGRAM("x = fill hex \"00\""), "(fill): parameter 'x' is written, but not donated"},
    {"LaunchOnTheHost", "program p(host h: f32[2]) -> (y: f32[2]) {\n y = launch k(h)\n}\n",
     "'h' is on the host, where copies alone read and write"},
    {"CopyWithinTheHost", "program p(host h: f32[2]) -> (host y: f32[2]) {\n y = copy h\n}\n",
     "a copy is from 'h' to 'y', and both are on the host"},
    {"CopyOfStridesToTheHost", "program p(x: f32[4]) -> (host y: f32[2]) {\n y = copy x f32[2]{2}\n}\n",
     "a copy between the host and the device is of views without gaps"},
    {"DonatedOnTheHost", "program p(donated host h: f32[2]) -> (h) {\n}\n",
     "slot 'h' is on the host: parameters that are not donated, and results, can be there"},
    {"NumberWritten", PROGRAM("f32 1 = launch k(x)"), "a number is written"},
    {"CopyBetweenDtypes", PROGRAM("y = copy x s32[2,3]"), "a copy is between views of one dtype and sizes"},
    {"CopyOntoItself", PROGRAM("d f32[4] = copy d+8 f32[4]"), "a copy within 'd' overlaps itself"},
    {"CopyOfNothing", PROGRAM("y = copy none"), "a copy has one view to write and one to read"},
    {"FillOfStrides", PROGRAM("y f32[3]{2} = fill hex \"00\""), "a fill has one dense view to write"},
    {"FillOfThreeBytes", PROGRAM("y = fill hex \"000000\""), "the pattern of a fill has 3 bytes; give 1, 2, 4, 8 or"},
    {"FillOfAPart", PROGRAM("y f32[1] = fill hex \"0000000000000000\""), "a pattern of 8 bytes does not fill 4"},
    {"CallOfFewOperands", UPDATE PROGRAM("call update(d)"),
     "(call update): program 'update' has 2 parameters, and is given 1"},
    {"CallOfManyResults", UPDATE PROGRAM("y = call update(d, x)"), "'update' has 0 results, and is given 1"},
    {"CallOfOtherSizes", UPDATE PROGRAM("call update(d, x f32[3,2])"),
     "parameter 'b' of program 'update' is given no dense view of its dtype and sizes"},
    {"CallThatWritesAParameter", UPDATE PROGRAM("call update(x f32[6], x)"), "'x' is given twice, and written"},
    {"CallThatWritesWhatIsNotDonated", UPDATE PROGRAM("call update(x f32[6], d f32[2,3])"),
     "parameter 'x' is written, but not donated"},
    {"ReadAfterItWasConsumed", CONSUME PROGRAM("call consume(d, x)\ny = copy d f32[2,3]"),
     "step 1 of program 'p' (copy): 'd' is read before a step has written it"},
    {"LoopWithResults", COMPUTE PROGRAM("y = repeat 2 compute(d, x)"),
     "the body of a loop may not run at all, so that it has no results of its own; give 'c' as a parameter"},
    {"OperandThatMovesOutOfItsSlot", UPDATE PROGRAM("repeat 2 update(d, x by 8)"),
     "the view touches bytes 0 to 32 of 'x' in its iterations, which has 24"},
    {"OperandThatMovesBeforeItsSlot", UPDATE PROGRAM("repeat 3 update(d, x by -4)"), "touches bytes -8 to 24 of 'x'"},
    {"OperandThatMovesTooFar", UPDATE PROGRAM("repeat 4611686018427387904 update(d, x by 4611686018427387904)"),
     "the view of 'x' moves further than any memory"},
    {"OperandThatMovesByHalf", UPDATE PROGRAM("repeat 2 update(d, x by 2)"),
     "the view of 'x' moves by 2 bytes, to where no f32 may lie"},
    {"OperandThatMeetsWhatIsWritten", PAIR PROGRAM("repeat 3 pair(d f32[1] by 4, d+16 f32[1] by -4)\ny = copy x"),
     "'d' is given twice, and written"},
    {"LoopThatConsumes", CONSUME PROGRAM("repeat 2 consume(d, x)"), "the body of a loop reads parameter 'a' again"},
    {"PredicateOfManyBytes", UPDATE PROGRAM("while x update(d, x)"), "it goes by a view of 24 bytes; give one byte"},
    {"PredicateThatIsANumber", UPDATE PROGRAM("if pred 1 then update(d, x)"), "it goes by a view of 0 bytes"},
    {"ResultsOfOneBranch", COMPUTE PROGRAM("y = if n then compute(d, x)"),
     "there are results, and nothing that gives them if the byte is zero"},
    {"BranchThatConsumes", CONSUME PROGRAM("if n then consume(d, x)"), "parameter 'a' is donated and not returned"},
    {"BranchesThatDiffer", UPDATE CONSUME PROGRAM("if n then update else consume(d, x)"),
     "parameter 0 is donated or returned by one of 'update' and 'consume' and not by the other"},
    {"BranchesOfOtherResults", UPDATE COMPUTE PROGRAM("y = if n then compute else update(d, x)"),
     "program 'update' has 0 results, and is given 1"},
};
INSTANTIATE_TEST_SUITE_P(Program, RefusedStructure, testing::ValuesIn(kWrongStructures), name_of);

// The text has no words for these errors.
TEST(Program, RefusesSlotsThatAreNotThere) {
  ProgramBuilder builder("p");
  Operand nowhere = builder.view(builder.temporary(MYDEV_F32, {2}));
  nowhere.slot = 7;
  builder.fill(nowhere, std::vector<std::byte>(4));
  expect_error(error_of([&] { std::move(builder).build(); }), MYDEV_INVALID_ARGUMENT,
               "step 0 of program 'p' (fill): there is no slot 7; the program has 1");
}

TEST(Program, RefusesWaitsThatGoInACircle) {
  ProgramBuilder builder("p");
  const SlotIndex t = builder.temporary(MYDEV_U8, {1});
  builder.fill(builder.view(t), std::vector<std::byte>(1), {.lane = 0, .after = {1}});
  builder.fill(builder.view(t), std::vector<std::byte>(1), {.lane = 1, .after = {0}});
  expect_error(error_of([&] { std::move(builder).build(); }), MYDEV_INVALID_ARGUMENT,
               "step 0 of program 'p' (fill): it waits for step 1, which is not before it");
}

TEST(Program, RefusesTwoProgramsOfOneName) {
  ProgramBuilder builder("p");
  builder.call(parsed("program body() -> () {\n}\n"), {}, {});
  builder.call(parsed("program body() -> () {\n}\n"), {}, {});
  expect_error(error_of([&] { std::move(builder).build(); }), MYDEV_INVALID_ARGUMENT, "two programs are called 'body'");
}

TEST(Program, RefusesConstantsAndRepeatedSlotsAsResults) {
  ProgramBuilder builder("p"), twice("p");
  builder.returns(builder.constant(MYDEV_U8, {1}, std::vector<std::byte>(1), "c"));
  expect_error(error_of([&] { std::move(builder).build(); }), MYDEV_INVALID_ARGUMENT, "result 'c' is a constant");
  const SlotIndex x = twice.parameter(MYDEV_U8, {1}, false, "x");
  twice.returns(x);
  twice.returns(x);
  expect_error(error_of([&] { std::move(twice).build(); }), MYDEV_INVALID_ARGUMENT, "slot 'x' is a result twice");
}

TEST(Program, RefusesToDonateWhatIsNoParameter) {
  ProgramBuilder builder("p");
  const SlotIndex t = builder.temporary(MYDEV_U8, {1});
  expect_error(error_of([&] { builder.donate(t); }), MYDEV_INVALID_ARGUMENT, "only parameters are donated");
}

// --- kernels
// ----------------------------------------------------------------------------------------------------------

mydev_code do_nothing(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}

// "out f32[n] <- x f32[n], scale: float", with a signature.
void register_scale() {
  static const mydev_operand x{sizeof x, "x", MYDEV_DTYPE_BIT(MYDEV_F32), -1, -1, 1, 1, 0, nullptr};
  static const mydev_operand out{sizeof out, "out", MYDEV_DTYPE_BIT(MYDEV_F32), -1, -1, 0, 0, 0, nullptr};
  static const mydev_operand *operands[] = {&x}, *results[] = {&out};
  static mydev_signature signature{};
  signature.struct_size = sizeof signature;
  signature.operands = operands;
  signature.num_operands = 1;
  signature.results = results;
  signature.num_results = 1;
  signature.shapes = "(n)->(n)";
  mydev_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = "test.scale";
  kernel.entry = do_nothing;
  kernel.signature = &signature;
  register_kernel(kernel);
}

class RefusedKernels : public testing::TestWithParam<WrongProgram> {};

TEST_P(RefusedKernels, AreRefusedWithTheirStep) {
  register_scale();
  const SharedProgram program = parsed(GetParam().text);
  expect_error(error_of([&] { verify_kernels(*program); }), MYDEV_INVALID_ARGUMENT, GetParam().problem);
}

#define KERNELS(steps) "program p(x: f32[2,3], donated d: f32[6], i: s64[3]) -> (y: f32[2,3]) {\n" steps "\n}\n"

constexpr WrongProgram kWrongKernels[] = {
    {"Dtype", KERNELS("y = launch mydev.exp(x s32[2,3])"), "mydev.exp: 'in' is s32, and may be f16 f32 f64 bf16"},
    {"Sizes", KERNELS("y = launch mydev.exp(x f32[3])"), "mydev.exp: 'in' of sizes [3] does not fit the others"},
    {"Operands", KERNELS("y = launch mydev.exp()"), "mydev.exp: there are 0 operands, where 1 fit"},
    {"Attribute", KERNELS("y = launch mydev.add(x, x; alpha=1)"), "attribute 'alpha' has the kind INT"},
    {"AbsentOperand", KERNELS("y = launch mydev.exp(none)"), "'in' is absent"},
    {"ResultOverlapsOperand", KERNELS("d f32[4] = launch mydev.exp(d+8 f32[4])\ny = copy x"),
     "result 'out' of mydev.exp overlaps operand 'in'"},
    {"ResultThatMayNotBeItsOperand", KERNELS("d f32[2,3] = launch mydev.softmax(d f32[2,3]; dim=1)\ny = copy x"),
     "mydev.softmax"},
    {"ResultsThatOverlap",
     KERNELS("temporary g: f32[8]\ng f32[6], g+8 f32[6] = launch mydev.swiglu_backward(d, d, d)\ny = copy x"),
     "result 'grad_gate' of mydev.swiglu_backward overlaps result 'grad_up'"},
    {"InACalledProgram",
     "program body(a: f32[2]) -> (b: f32[2]) {\nb = launch mydev.exp(a s32[2])\n}\n"
     "program p(a: f32[2]) -> (b: f32[2]) {\nb = call body(a)\n}\n",
     "step 0 of program 'body' (launch mydev.exp): mydev.exp: 'in' is s32"},
    {"SignatureOfAUser", KERNELS("y f32[6] = launch test.scale(x)"), "test.scale: operand 'x' has rank 2"},
    {"ShapeRuleOfAUser", KERNELS("y = launch test.scale(d)"), "result 0 has not the dtype and sizes that test.scale("},
};
INSTANTIATE_TEST_SUITE_P(Program, RefusedKernels, testing::ValuesIn(kWrongKernels), name_of);

TEST(Program, TakesResultsInThePlaceOfOperandsWhereTheContractDoes) {
  verify_kernels(
      *parsed("program p(donated d: f32[6]) -> (d) {\n"
              "d = launch mydev.exp(d)\n"
              "d f32[3]{2} = launch mydev.exp(d+4 f32[3]{2})\n"  // elements that lie between each other
              "}\n"));
}

TEST(Program, KnowsNoKernelThatNobodyHas) {
  const SharedProgram program = parsed("program p() -> () {\nlaunch mydev.no_such()\n}\n");
  expect_error(error_of([&] { verify_kernels(*program); }), MYDEV_NOT_FOUND,
               "step 0 of program 'p' (launch mydev.no_such): there is no kernel 'mydev.no_such'; load the library");
}

TEST(Program, AsksTheDeviceForItsKernels) {
  const SharedProgram program = parsed("program p() -> () {\nlaunch test.of_nobody()\n}\n");
  expect_error(error_of([&] { verify_kernels(*program, &device(0)); }), MYDEV_NOT_FOUND,
               "step 0 of program 'p' (launch test.of_nobody): device mydev:0 has no kernel 'test.of_nobody'");
}

TEST(Program, NamesSlotsByNoWordOfTheText) {
  ProgramBuilder builder("p");
  constexpr int kSlots = 130;  // "c64" and "c128" are among their names
  for (int i = 0; i < kSlots; ++i) builder.constant(MYDEV_U8, {}, std::vector<std::byte>(1));
  const SharedProgram program = std::move(builder).build();
  EXPECT_EQ(program->slots()[64].name, "c64_");
  EXPECT_EQ(print(*parse(print(*program))), print(*program));
}

TEST(Program, NeedsNobodyToWriteWhatHasNoBytes) {
  ProgramBuilder builder("p");
  builder.returns(builder.temporary(MYDEV_F32, {2, 0}));
  EXPECT_EQ(std::move(builder).build()->own_results().size(), 1U);
}

}  // namespace
}  // namespace mydev::program
