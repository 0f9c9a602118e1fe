// Operations that a device may have instructions for compute, as part of small steps, what their kernels compute.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "small_steps_fixture.h"

namespace mydev::program {
namespace {

class SmallStepsOperation : public testing::TestWithParam<SmallCase> {};

TEST_P(SmallStepsOperation, IsThatOfTheKernel) {
  expect_same(GetParam());
  expect_one_launch();
}

const SmallCase kCases[] = {
    {"NumbersAndConversions",
     R"(program p(x: f32[5]) -> (y: f32[5]) {
  temporary p: pred[5]
  temporary i: s32[5]
  temporary h: f16[5]
  temporary s: s32[]
  p = launch mydev.gt(x, f32[5] 0.0)
  i = launch mydev.copy(p; conj=false, neg=false)
  s s32[5]{0} = launch mydev.sum(i)
  h = launch mydev.copy(x; conj=false, neg=true)
  i = launch mydev.mul(i, s s32[5]{0})
  y = launch mydev.copy(i; conj=false, neg=false)
  y+4 f32[2] = launch mydev.copy(h+4 f16[2]; conj=false, neg=false)
}
)",
     {5},
     5},
    {"FillsCopiesAndConcatenations",
     R"(program p(x: f32[4], w: f32[2]) -> (y: f32[8]) {
  temporary c: f32[6]
  c f32[1,6,1] = launch mydev.concatenate(x f32[1,4,1], w f32[1,2,1])
  y = fill hex "0000803f"
  y+8 f32[3] = copy c f32[3]{2}
  y+24 f32[2]{1} = launch mydev.mul(y+24 f32[2], w)
}
)",
     {4, 2},
     8},
    {"ReductionsOfRows",
     R"(program p(x: f32[4,3]) -> (y: f32[32]) {
  temporary n: f32[4,3]
  n = launch mydev.log(x)
  y f32[4,3]{1,0} = launch mydev.sum(x)
  y+16 f32[4,3]{1,0} = launch mydev.amax(n)
  y+32 f32[4,3]{1,0} = launch mydev.amin(n)
  y+48 f32[4,3]{1,0} = launch mydev.prod(x)
  y+64 f32[4,3]{1,0} = launch mydev.mean(x)
  y+80 f32[4,3]{0,0} = launch mydev.norm2(x)
  y+84 f32[4,3]{0,0} = launch mydev.norm1(x)
  y+88 f32[4,3]{0,0} = launch mydev.norm_inf(n)
  y+92 f32[1,1]{0,0} = launch mydev.amax(x+4 f32[1,1])
  y+96 f32[4,2]{1,0} = launch mydev.sum(x f32[4,2]{3,1})
  y+112 f32[3,4]{1,0} = launch mydev.amin(x f32[3,4]{1,3})
  y+124 f32[5]{0} = launch mydev.prod(x f32[5]{0})
}
)",
     {12},
     32},
    {"ReductionsOfWholeNumbersAndTruths",
     R"(program p(x: f32[2,3]) -> (y: f32[11]) {
  temporary i: s32[2,3]
  temporary l: s64[2,3]
  temporary p: pred[2,3]
  temporary si: s32[2]
  temporary sl: s64[4]
  temporary sp: pred[5]
  i = launch mydev.copy(x; conj=false, neg=false)
  l = launch mydev.copy(i; conj=false, neg=false)
  p = launch mydev.gt(x, f32[2,3] -1.0)
  si s32[2,3]{1,0} = launch mydev.amax(i)
  sl s64[2,3]{1,0} = launch mydev.sum(l)
  sl+16 s64[2,3]{1,0} = launch mydev.amin(l)
  sp pred[2,3]{1,0} = launch mydev.any(p)
  sp+2 pred[2,3]{1,0} = launch mydev.all(p)
  sp+4 pred[2,3]{0,0} = launch mydev.all(p)
  y f32[2] = launch mydev.copy(si; conj=false, neg=false)
  y+8 f32[4] = launch mydev.copy(sl; conj=false, neg=false)
  y+24 f32[5] = launch mydev.copy(sp; conj=false, neg=false)
}
)",
     {6},
     11},
    {"TruthsAreCombined",
     R"(program p(x: f32[6], w: f32[6]) -> (y: f32[30]) {
  temporary a: pred[6]
  temporary b: pred[6]
  temporary c: pred[30]
  a = launch mydev.gt(x, f32[6] 0.0)
  b = launch mydev.lt(w, f32[6] 0.0)
  c pred[6] = launch mydev.bitwise_and(a, b)
  c+6 pred[6] = launch mydev.bitwise_or(a, b)
  c+12 pred[6] = launch mydev.bitwise_xor(a, pred[6] 1)
  c+18 pred[6] = launch mydev.bitwise_not(b)
  c+24 pred[6] = launch mydev.where(a, b, c pred[6])
  y = launch mydev.copy(c; conj=false, neg=false)
}
)",
     {6, 6},
     30},
    {"ConcatenationsInTheMiddleAndOfNothing",
     R"(program p(x: f32[2,2,2], w: f32[2,1,2]) -> (y: f32[2,5,2]) {
  temporary s: f32[1]
  temporary c: f32[3]
  s = launch mydev.mul(x f32[1], w f32[1])
  c f32[1,3,1] = launch mydev.concatenate(s f32[1,1,1], x f32[1,0,1], s f32[1,1,1], w f32[1,1,1])
  y = launch mydev.concatenate(x, w, w f32[2,0,2]{0,2,1}, x)
  y f32[3] = launch mydev.add(c, y f32[3]; alpha=1.0)
}
)",
     {8, 4},
     20},
    {"SumsOfScaledValues",
     R"(program p(x: f32[3,3], w: f32[9]) -> (y: f32[24]) {
  y f32[9] = launch mydev.add(x f32[9], w; alpha=0.3)
  y+36 f32[3] = launch mydev.sub(x f32[3], w+12 f32[3]; alpha=1.7)
  y+48 f32[1] = launch mydev.add(x f32[1], w+32 f32[1]; alpha=-2.1)
  y+52 f32[9] = launch mydev.sub(x f32[9], w; alpha=0.1)
  y+88 f32[2] = launch mydev.sub(x f32[2], w+4 f32[2]{0}; alpha=0.7)
}
)",
     {9, 9},
     24},
    {"ReductionsOfFewAndOfZeros",
     R"(program p(x: f32[8]) -> (y: f32[11]) {
  temporary d: f64[8]
  temporary e: f64[4]
  temporary z: f32[8]
  d = launch mydev.copy(x; conj=false, neg=false)
  z = launch mydev.mul(x, f32[8] 0.0)
  y f32[8]{0} = launch mydev.sum(x)
  y+4 f32[7]{0} = launch mydev.sum(x+4 f32[7])
  y+8 f32[5]{0} = launch mydev.amax(x f32[5])
  y+12 f32[8]{0} = launch mydev.amin(x)
  y+16 f32[8]{0} = launch mydev.amax(z)
  y+20 f32[7]{0} = launch mydev.amin(z+4 f32[7])
  y+24 f32[2]{0} = launch mydev.sum(z f32[2])
  e f64[8]{0} = launch mydev.sum(d)
  e+8 f64[4]{0} = launch mydev.amax(d f64[4])
  e+16 f64[3]{0} = launch mydev.amin(d+8 f64[3])
  e+24 f64[3]{0} = launch mydev.sum(d f64[3])
  y+28 f32[4] = launch mydev.copy(e; conj=false, neg=false)
}
)",
     {8},
     11},
    {"ProductsOfSmallMatrices",
     R"(program p(x: f32[3,4], w: f32[4,5]) -> (y: f32[103]) {
  temporary t: f32[12]
  t f32[3,4] = launch mydev.neg(x)
  y f32[3,5] = launch mydev.matmul(x, w; alpha=1.0, beta=0.0)
  y+60 f32[3,3] = launch mydev.matmul(t f32[3,4], x f32[4,3]{1,4}; alpha=1.0, beta=0.0)
  y+96 f32[4,4] = launch mydev.matmul(x f32[4,3]{1,4}, t f32[3,4]; alpha=1.0, beta=0.0)
  y+160 f32[1,5] = launch mydev.matmul(t f32[1,4], w; alpha=1.0, beta=0.0)
  y+180 f32[3,1] = launch mydev.matmul(x, w f32[4,1]{5,1}; alpha=1.0, beta=0.0)
  y+192 f32[1,1] = launch mydev.matmul(x f32[1,4], w f32[4,1]{5,1}; alpha=1.0, beta=0.0)
  y+196 f32[2,2,2] = launch mydev.matmul(x f32[2,2,3]{6,3,1}, w f32[2,3,2]{0,2,1}; alpha=1.0, beta=0.0)
  y+228 f32[3,3]{1,3} = launch mydev.matmul(x, x f32[4,3]{1,4}; alpha=0.5, beta=0.0)
  y+264 f32[3,3] = launch mydev.matmul(x, x f32[4,3]{1,4}, w f32[3,3]{0,1}; alpha=1.0, beta=2.0)
  y+300 f32[3,3] = launch mydev.matmul(x f32[3,0]{4,1}, w f32[0,3]{5,1}; alpha=1.0, beta=0.0)
  y+336 f32[5,1] = launch mydev.matmul(w f32[5,4]{1,5}, t f32[4,1]; alpha=1.0, beta=0.0)
  y+356 f32[7,2]{1,7} = launch mydev.matmul(w f32[7,2]{1,7}, x f32[2,2]; alpha=1.0, beta=0.0)
}
)",
     {12, 20},
     103},
    {"ProductsOfDoublesAndWholeNumbers",
     R"(program p(x: f32[2,3], w: f32[3,2]) -> (y: f32[20]) {
  temporary a: f64[2,3]
  temporary b: f64[3,2]
  temporary i: s32[2,3]
  temporary j: s32[3,2]
  temporary k: s32[2,2]
  temporary h: f16[2,3]
  temporary g: f16[3,2]
  temporary f: f16[2,2]
  a = launch mydev.copy(x; conj=false, neg=false)
  b = launch mydev.copy(w; conj=false, neg=false)
  a = launch mydev.div(a, f64[2,3] 3.0)
  b = launch mydev.div(b, f64[3,2] 7.0)
  y f64[2,2] = launch mydev.matmul(a, b; alpha=1.0, beta=0.0)
  y+32 f64[2,1] = launch mydev.matmul(a, b f64[3,1]{2,1}; alpha=1.0, beta=0.0)
  i = launch mydev.copy(x; conj=false, neg=false)
  j = launch mydev.copy(w; conj=false, neg=false)
  k = launch mydev.matmul(i, j; alpha=1.0, beta=0.0)
  h = launch mydev.copy(x; conj=false, neg=false)
  g = launch mydev.copy(w; conj=false, neg=false)
  f = launch mydev.matmul(h, g; alpha=1.0, beta=0.0)
  y+48 f32[2,2] = launch mydev.copy(k; conj=false, neg=false)
  y+64 f32[2,2] = launch mydev.copy(f; conj=false, neg=false)
}
)",
     {6, 6},
     20},
    {"PartsThatIndicesTell",
     R"(program step(donated i: s32[], donated y: f32[5,2], donated s: f32[2], x: f32[5,2]) -> (i, y, s) {
  temporary t: f32[2]
  temporary j: s32[2]
  t f32[1,1,2] = launch mydev.gather_slices(x, i s32[1,1]; dims=[0], from_end=1)
  s = launch mydev.add(s, t; alpha=1.0)
  y = launch mydev.scatter_slices(y, i s32[1,1], s f32[1,1,2]; dims=[0], clamp=false, from_end=0)
  j s32[1] = copy i s32[1]
  j+4 s32[1] = copy i s32[1]
  s f32[1,1,1] = launch mydev.gather_slices(x, j s32[1,2]; dims=[1,0], from_end=0)
  y = launch mydev.scatter_slices_add(y, j s32[1,2], s f32[1,1,1]; dims=[0,1], clamp=true, from_end=3)
  i = launch mydev.add(i, s32 2; alpha=1)
}
program p(x: f32[5,2]) -> (y: f32[5,2]) {
  temporary i: s32[]
  temporary s: f32[2]
  i = fill hex "faffffff"
  s = fill hex "00"
  y = fill hex "00"
  repeat 8 step(i, y, s, x)
}
)",
     {10},
     10},
    {"PartsInAnotherResult",
     R"(program p(x: f32[4,3], w: f32[3]) -> (y: f32[2,4,3]) {
  temporary i: s64[2]
  temporary c: s64[]
  c = fill hex "ffffffffffffffff"
  i s64[1] = copy c s64[1]
  i+8 s64[1] = launch mydev.neg(i s64[1])
  y f32[4,3] = launch mydev.scatter_slices(x, i+8 s64[1,1], w f32[1,1,3]; dims=[0], clamp=false, from_end=0)
  y+48 f32[4,3] = launch mydev.scatter_slices(x, i s64[2,1], w f32[2,4,1]{0,0,0}; dims=[1], clamp=true, from_end=1)
  y+48 f32[1,1,3] = launch mydev.gather_slices(x, i s64[1,1]; dims=[0], from_end=1)
  y+60 f32[1,2,4] = launch mydev.gather_slices(x f32[3,4]{1,3}, i+8 s64[1,1]; dims=[1], from_end=0)
}
)",
     {12, 3},
     24},
    {"CopiesOfRuns",
     R"(program p(x: f32[18,40], w: f32[18,40]) -> (y: f32[720]) {
  temporary t: f32[6,8]
  temporary p: pred[2,6]
  temporary i: s32[12]
  temporary d: f64[4,4]
  temporary e: f64[2,3]
  temporary q: pred[2,3]
  y = copy w f32[720]
  t = fill hex "00"
  t f32[3,6]{8,1} = copy x f32[3,6]{40,1}
  t+24 f32[3,2]{8,1} = copy x+24 f32[3,2]{40,1}
  t+96 f32[3,4,2]{8,2,1} = copy x f32[3,4,2]{5,40,1}
  y f32[2,3,4]{50,16,1} = copy t f32[2,3,4]{24,8,1}
  y+20 f32[2,1,8]{50,9,1} = copy t+8 f32[2,1,8]{24,3,1}
  y+1000 f32[10,30]{40,1} = copy x+12 f32[10,30]{40,1}
  y+160 f32[4,4] = copy x f32[4,4]{1,4}
  d = launch mydev.copy(x f32[4,4]{40,1}; conj=false, neg=false)
  e = copy d+8 f64[2,3]{4,1}
  p = launch mydev.gt(x f32[2,6]{40,1}, f32[2,6] 0.0)
  q = copy p+3 pred[2,3]{6,1}
  i = launch mydev.copy(p pred[12]; conj=false, neg=false)
  y+2500 f32[12] = launch mydev.copy(i; conj=false, neg=false)
  y+2600 f32[2,3] = launch mydev.copy(e; conj=false, neg=false)
  i s32[2,3] = launch mydev.copy(q; conj=false, neg=false)
  y+2700 f32[6] = launch mydev.copy(i s32[6]; conj=false, neg=false)
}
)",
     {720, 720},
     720},
    {"PartsOfDoublesAndWholeNumbers",
     R"(program step(donated i: s32[2], donated n: s32[9], donated d: f64[3,3], x: s32[9]) -> (i, n, d) {
  temporary t: s32[1,6]
  temporary v: f64[1,2,2]
  temporary f: f64[1,1]
  v f64[1,2,2] = launch mydev.gather_slices(d, i s32[1,2]; dims=[0,1], from_end=2)
  v = launch mydev.add(v, v f64[1,2,2]{4,1,2}; alpha=0.5)
  d = launch mydev.scatter_slices(d, i s32[1,2], v; dims=[1,0], clamp=false, from_end=1)
  t = launch mydev.gather_slices(x, i+4 s32[1,1]; dims=[0], from_end=1)
  n = launch mydev.scatter_slices_add(n, i s32[1,1], t; dims=[0], clamp=true, from_end=0)
  f f64[1,1,1] = launch mydev.gather_slices(d, i s32[1,2]; dims=[0,1], from_end=3)
  d = launch mydev.scatter_slices_add(d, i s32[1,2], f f64[1,1,1]; dims=[1,0], clamp=false, from_end=0)
  i s32[1] = launch mydev.add(i s32[1], s32[1] 1; alpha=1)
  i+4 s32[1] = launch mydev.sub(i+4 s32[1], s32[1] 2; alpha=1)
}
program p(x: f32[9]) -> (y: f32[18]) {
  temporary i: s32[2]
  temporary n: s32[9]
  temporary m: s32[9]
  temporary d: f64[3,3]
  i = fill hex "fdffffff04000000"
  n = launch mydev.copy(x; conj=false, neg=false)
  m = copy n
  d = launch mydev.copy(x f32[3,3]; conj=false, neg=false)
  repeat 7 step(i, n, d, m)
  y f32[9] = launch mydev.copy(n; conj=false, neg=false)
  y+36 f32[3,3] = launch mydev.copy(d; conj=false, neg=false)
}
)",
     {9},
     18},
    {"ReductionsOfColumns",
     R"(program p(x: f32[9,8]) -> (y: f32[120]) {
  temporary l: f32[9,8]
  temporary z: f32[9,8]
  temporary d: f64[9,8]
  temporary e: f64[12]
  temporary i: s64[24]
  l = launch mydev.log(x)
  z = launch mydev.mul(x, f32[9,8] -0.0)
  d = launch mydev.copy(x; conj=false, neg=false)
  y f32[9,8]{0,1} = launch mydev.sum(x)
  y+32 f32[5,4]{0,1} = launch mydev.amax(x f32[5,4]{8,1})
  y+48 f32[3,8]{0,1} = launch mydev.amin(x f32[3,8])
  y+80 f32[4,7]{0,1} = launch mydev.sum(l f32[4,7]{8,1})
  y+108 f32[9,8]{0,1} = launch mydev.amax(l)
  y+140 f32[6,6]{0,1} = launch mydev.amin(l+8 f32[6,6]{8,1})
  y+164 f32[2,8]{0,1} = launch mydev.sum(z f32[2,8])
  y+196 f32[4,8]{0,1} = launch mydev.amax(z f32[4,8])
  y+228 f32[5,3]{0,1} = launch mydev.sum(x f32[5,3]{8,1})
  e f64[7,4]{0,1} = launch mydev.sum(d f64[7,4]{8,1})
  e+32 f64[9,8]{0,1} = launch mydev.amax(d)
  y+240 f32[12] = launch mydev.copy(e; conj=false, neg=false)
  y+288 f32[9,8]{0,1}, i s64[9,8]{0,1} = launch mydev.max_with_index(x)
  y+320 f32[9,4]{0,1}, i+64 s64[9,4]{0,1} = launch mydev.min_with_index(l f32[9,4]{8,1})
  y+336 f32[3,8]{0,1}, i+96 s64[3,8]{0,1} = launch mydev.max_with_index(z f32[3,8])
  y+368 f32[5,4]{0,1}, i+160 s64[5,4]{0,1} = launch mydev.max_with_index(l f32[5,4]{8,1})
  y+384 f32[24] = launch mydev.copy(i; conj=false, neg=false)
}
)",
     {72},
     120},
    {"WholeNumbersDividedByConstants",
     R"(program p(x: f32[4]) -> (y: f32[40]) {
  constant all: s32[5] = hex "00000080ffffff7ff9ffffff0700000000000000"
  constant divisors: s32[5] = hex "0300000000000080faffffff0700000002000000"
  temporary i: s32[4]
  temporary t: s32[5]
  y = fill hex "00"
  t = copy all
  i = launch mydev.copy(x; conj=false, neg=false)
  i = launch mydev.mul(i, s32[4] 100000001)
  y s32[4] = launch mydev.div_trunc(i, s32[4] 7)
  y+16 s32[4] = launch mydev.fmod(i, s32[4] -10)
  y+32 s32[3] = launch mydev.div_trunc(t s32[3], divisors s32[3])
  y+44 s32[3] = launch mydev.fmod(t+4 s32[3], divisors+4 s32[3])
  y+56 s32[2] = launch mydev.fmod(t+12 s32[2], divisors+12 s32[2])
  y+64 s32[1] = launch mydev.div_trunc(t s32[1], s32[1] 1)
  y+68 s32[4] = launch mydev.div_trunc(t s32[4], s32[4] -3)
  y+88 s32[4] = launch mydev.sign(t s32[4])
  y+104 s32[1] = launch mydev.sign(t+16 s32[1])
  y+108 s32[3] = launch mydev.fmod(t s32[3], s32[3] -2147483648)
  y+120 s32[2] = launch mydev.fmod(t+4 s32[2], s32[2] -1)
}
)",
     {4},
     40},
    {"ConversionsOfFew",
     R"(program p(x: f32[4]) -> (y: f32[32]) {
  temporary l: f32[4]
  temporary d: f64[4]
  temporary e: f64[4]
  temporary p: pred[4]
  temporary q: pred[4]
  temporary i: s32[4]
  temporary j: s64[4]
  y = fill hex "00"
  l = launch mydev.log(x)
  l f32[1] = launch mydev.div(x f32[1], f32[1] 0.0)
  d = launch mydev.copy(x; conj=false, neg=false)
  e = launch mydev.div(d, f64[4] 0.0)
  p = launch mydev.isfinite(l)
  q = launch mydev.isfinite(e)
  q pred[2] = launch mydev.isfinite(d+16 f64[2])
  y f32[4] = launch mydev.copy(p; conj=false, neg=false)
  y+16 s32[4] = launch mydev.copy(q; conj=false, neg=false)
  p = launch mydev.bitwise_xor(p, q)
  y+32 s32[4] = launch mydev.copy(p; conj=false, neg=false)
  i = launch mydev.copy(x; conj=false, neg=false)
  i = launch mydev.mul(i, s32[4] 700000001)
  y+48 f32[4] = launch mydev.copy(i; conj=false, neg=false)
  j = launch mydev.copy(i; conj=false, neg=false)
  j = launch mydev.mul(j, j)
  y+64 s32[4] = launch mydev.copy(j; conj=false, neg=false)
  i s32[2] = launch mydev.copy(j s64[2]; conj=false, neg=false)
  y+80 s32[4] = launch mydev.add(i, i; alpha=1)
  i = launch mydev.copy(p; conj=false, neg=false)
  y+96 f32[4] = launch mydev.copy(i; conj=false, neg=false)
}
)",
     {4},
     32},
};
INSTANTIATE_TEST_SUITE_P(, SmallStepsOperation, testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.what); });

TEST(SmallStepsOperationDeathTest, IsInterpretedWhereNoMemoryMayRun) {
  expect_same_without_executable_memory(kCases);
}

// Each operation of two or of one operand, on numbers of the dtype.
struct Operations {
  const char *dtype, *scale;  // of sums
  std::vector<const char*> of_two, of_one;
};
std::string each_operation(const Operations& operations, int count) {
  const std::string type = std::string(operations.dtype) + "[" + std::to_string(count) + "]";
  const std::string floats = " f32[" + std::to_string(count) + "]", truths = "pred[" + std::to_string(count) + "]";
  std::string temporaries, steps, copies;
  int results = 0;
  const auto add = [&](const std::string& result, const std::string& launch) {
    const std::string name = "r" + std::to_string(results);
    temporaries += "  temporary " + name + ": " + result + "\n";
    steps += "  " + name + " = launch mydev." + launch + "\n";
    copies += "  y+" + std::to_string(4 * count * results++) + floats + " = launch mydev.copy(" + name +
              "; conj=false, neg=false)\n";
  };
  for (const char* sum : {"add", "sub"}) add(type, std::string(sum) + "(a, b; alpha=" + operations.scale + ")");
  for (const char* name : operations.of_two) add(type, std::string(name) + "(a, b)");
  for (const char* name : operations.of_one) add(type, std::string(name) + "(a)");
  for (const char* name : {"eq", "ne", "lt", "le", "gt", "ge"}) {
    add(truths, std::string(name) + "(a, b)");
    add(type, "where(r" + std::to_string(results - 1) + ", a, b)");
  }
  const std::string all = std::to_string(count * results);
  return "program p(x:" + floats + ", w:" + floats + ") -> (y: f32[" + all + "]) {\n  temporary a: " + type +
         "\n  temporary b: " + type + "\n" + temporaries + "  a = launch mydev.copy(x; conj=false, neg=false)\n" +
         "  b = launch mydev.copy(w; conj=false, neg=false)\n" + steps + copies + "}\n";
}
const Operations kOperations[] = {
    {"f32", "1.0", {"mul", "div", "maximum", "minimum"}, {"sqrt", "neg", "abs"}},
    {"f64", "1.0", {"mul", "div", "maximum", "minimum"}, {"sqrt", "neg", "abs"}},
    {"s32", "1", {"mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"}, {"neg"}},
    {"s64", "1", {"mul", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"}, {"neg"}}};

class SmallStepsOperations : public testing::TestWithParam<int> {};

TEST_P(SmallStepsOperations, AreThoseOfTheKernels) {
  const auto count = static_cast<size_t>(GetParam());
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Values left = {0, 1.5F, nan, -infinity, -0.0F, nan, 3, infinity, -7.25F},
               right = {-0.0F, -2, 1, infinity, 0, nan, 3, infinity, 1e-40F};
  for (const Operations& operations : kOperations) {
    const bool has_all = operations.dtype[0] == 'f';
    for (size_t first = 0; first + count <= left.size(); ++first) {
      Values x(left.begin() + static_cast<int64_t>(first), left.begin() + static_cast<int64_t>(first + count));
      Values w(right.begin() + static_cast<int64_t>(first), right.begin() + static_cast<int64_t>(first + count));
      const auto is_finite = [](float value) { return std::isfinite(value); };
      if (!has_all && (!std::ranges::all_of(x, is_finite) || !std::ranges::all_of(w, is_finite))) {
        x = some_values(count);
        w = Values(x.rbegin(), x.rend());
      }
      SCOPED_TRACE(std::string(operations.dtype) + " from " + std::to_string(first) + " on");
      const size_t results = 2 + operations.of_two.size() + operations.of_one.size() + 12;
      expect_same(parsed(each_operation(operations, GetParam())), {x, w}, count * results);
    }
  }
}
INSTANTIATE_TEST_SUITE_P(, SmallStepsOperations, testing::Values(1, 3, 7, 9));

}  // namespace
}  // namespace mydev::program
