// A library of kernels whose signatures say everything that there is to say. Only the public header.
#include <cstring>

#include "mydev/custom_call.h"
#include "operator_functions.h"

namespace {

constexpr uint64_t kFloats = MYDEV_DTYPE_BIT(MYDEV_F32) | MYDEV_DTYPE_BIT(MYDEV_F64);

// --- signatures ------------------------------------------------------------------------------------------------------

constexpr mydev_operand operand(const char* name, uint64_t dtypes = kFloats, int32_t like = -1, uint32_t flags = 0,
                                int32_t rank_min = 0, int32_t rank_max = -1) {
  return {sizeof(mydev_operand), name, dtypes, like, -1, rank_min, rank_max, flags, nullptr};
}
constexpr mydev_operand result(const char* name, int32_t like, int32_t alias = -1) {
  return {sizeof(mydev_operand), name, 0, like, alias, 0, -1, 0, nullptr};
}
constexpr mydev_operand typed_result(const char* name, mydev_dtype dtype) {
  return {sizeof(mydev_operand), name, MYDEV_DTYPE_BIT(dtype), -1, -1, 0, -1, 0, nullptr};
}

constexpr mydev_operand kX = operand("x"), kY = operand("y", kFloats, 0), kZ = operand("z", kFloats, 0);
constexpr mydev_operand kStridedX = operand("x", kFloats, -1, MYDEV_OPERAND_STRIDED);
constexpr mydev_operand kStridedY = operand("y", kFloats, 0, MYDEV_OPERAND_STRIDED);
constexpr mydev_operand kWeight = operand("w", kFloats, 0, MYDEV_OPERAND_OPTIONAL);
constexpr mydev_operand kParts = operand("parts", MYDEV_DTYPE_BIT(MYDEV_F32), -1, MYDEV_OPERAND_VARIADIC);
constexpr mydev_operand kGrad = operand("grad", kFloats, 0);
constexpr mydev_operand kFloatParts = operand("parts", kFloats, -1, MYDEV_OPERAND_VARIADIC);
constexpr mydev_operand kPartsLikeX = operand("parts", kFloats, 0, MYDEV_OPERAND_VARIADIC);
constexpr mydev_operand kMatrix = operand("a", kFloats, -1, 0, 2, 2), kMatrix2 = operand("b", kFloats, 0, 0, 2, 2);
constexpr mydev_operand kMatrix3 = operand("grad", kFloats, 0, 0, 2, 2);
constexpr mydev_operand kF32 = operand("x", MYDEV_DTYPE_BIT(MYDEV_F32));
constexpr mydev_operand kOut = result("out", 0), kOut1 = result("out1", 0), kInPlace = result("out", 0, 0);
constexpr mydev_operand kInPlace1 = result("out1", 1, 1);
constexpr mydev_operand kIndex = typed_result("index", MYDEV_S64), kText = typed_result("text", MYDEV_U8);
constexpr mydev_operand kF32Out = typed_result("out", MYDEV_F32);

constexpr mydev_operand parts_like(const char* name, int32_t like) {
  return {sizeof(mydev_operand), name, 0, like, -1, 0, -1, MYDEV_OPERAND_VARIADIC, nullptr};
}
constexpr mydev_operand kPartsOut = parts_like("outs", 0), kGradParts = parts_like("grad_parts", 2);

constexpr const mydev_operand* kNone[] = {nullptr};
constexpr const mydev_operand* kXAndParts[] = {&kX, &kPartsLikeX};
constexpr const mydev_operand* kXGradAndParts[] = {&kX, &kGrad, &kPartsLikeX};
constexpr const mydev_operand* kOnlyParts[] = {&kFloatParts};
constexpr const mydev_operand* kOutAndParts[] = {&kOut, &kGradParts};
constexpr const mydev_operand* kPartsOuts[] = {&kPartsOut};
constexpr const mydev_operand* kSecondWritten[] = {&kInPlace1};
constexpr const mydev_operand* kX1[] = {&kX};
constexpr const mydev_operand* kXY[] = {&kX, &kY};
constexpr const mydev_operand* kXYZ[] = {&kX, &kY, &kZ};
constexpr const mydev_operand* kStrided[] = {&kStridedX, &kStridedY};
constexpr const mydev_operand* kWeighed[] = {&kX, &kWeight};
constexpr const mydev_operand* kVariadic[] = {&kParts};
constexpr const mydev_operand* kF32AndParts[] = {&kF32, &kParts};
constexpr const mydev_operand* kMatrices[] = {&kMatrix, &kMatrix2};
constexpr const mydev_operand* kMatricesAndGrad[] = {&kMatrix, &kMatrix2, &kMatrix3};
constexpr const mydev_operand* kF32Only[] = {&kF32};
constexpr const mydev_operand* kOuts[] = {&kOut, &kOut1};
constexpr const mydev_operand* kInPlaceOut[] = {&kInPlace};
constexpr const mydev_operand* kWrittenAndFresh[] = {&kInPlace, &kOut1};
constexpr const mydev_operand* kFreshAndWritten[] = {&kOut1, &kInPlace};
constexpr const mydev_operand* kBothWritten[] = {&kInPlace, &kInPlace1};
constexpr const mydev_operand* kValueAndIndex[] = {&kOut, &kIndex};
constexpr const mydev_operand* kTextOut[] = {&kText};
constexpr const mydev_operand* kF32Outs[] = {&kF32Out};

mydev_attribute_spec attribute(const char* name, mydev_attribute_kind kind, bool required, int64_t i = 0,
                               mydev_dtype dtype = MYDEV_DTYPE_INVALID) {
  mydev_attribute_spec spec{};
  spec.struct_size = sizeof(spec);
  spec.value.name = name;
  spec.value.kind = kind;
  spec.value.dtype = dtype;
  spec.value.value.i = i;
  spec.flags = required ? MYDEV_ATTRIBUTE_REQUIRED : 0;
  return spec;
}
mydev_attribute_spec real(const char* name, double value) {
  mydev_attribute_spec spec = attribute(name, MYDEV_ATTRIBUTE_FLOAT, false);
  spec.value.value.f = value;
  return spec;
}
mydev_attribute_spec text(const char* name, const char* value) {
  mydev_attribute_spec spec = attribute(name, MYDEV_ATTRIBUTE_STRING, false);
  spec.value.value.bytes = value;
  spec.value.count = static_cast<uint32_t>(std::strlen(value));
  return spec;
}

constexpr int64_t kInts[] = {1, 2};
mydev_attribute_spec ints(const char* name) {
  mydev_attribute_spec spec = attribute(name, MYDEV_ATTRIBUTE_INT_ARRAY, false);
  spec.value.value.ints = kInts;
  spec.value.count = 2;
  return spec;
}

const mydev_attribute_spec kAlpha = real("alpha", 1), kStep = real("step", 1);
const mydev_attribute_spec kTimes = attribute("times", MYDEV_ATTRIBUTE_INT, true);
const mydev_attribute_spec kSize = attribute("size", MYDEV_ATTRIBUTE_INT, true);
const mydev_attribute_spec kCode = attribute("code", MYDEV_ATTRIBUTE_INT, true), kMessage = text("message", "no luck");
const mydev_attribute_spec kFlag = attribute("flag", MYDEV_ATTRIBUTE_BOOL, true);
const mydev_attribute_spec kNarrow = attribute("narrow", MYDEV_ATTRIBUTE_INT, false, 5, MYDEV_S8);
const mydev_attribute_spec kScale = real("scale", 0.5), kName = text("name", "none"), kDims = ints("dims");
const mydev_attribute_spec kReals = attribute("reals", MYDEV_ATTRIBUTE_FLOAT_ARRAY, true);
const mydev_attribute_spec kComplex = attribute("z", MYDEV_ATTRIBUTE_COMPLEX, false);

const mydev_attribute_spec* const kAxpyAttributes[] = {&kAlpha};
const mydev_attribute_spec* const kScaledAttributes[] = {&kScale};
const mydev_attribute_spec* const kStepAttributes[] = {&kStep};
const mydev_attribute_spec* const kRepeatAttributes[] = {&kTimes};
const mydev_attribute_spec* const kFillAttributes[] = {&kSize};
const mydev_attribute_spec* const kFailAttributes[] = {&kCode, &kMessage};
const mydev_attribute_spec* const kAllAttributes[] = {&kFlag, &kNarrow, &kScale, &kName, &kDims, &kReals, &kComplex};

template <size_t kOperands, size_t kResults>
mydev_signature signature(const mydev_operand* const (&operands)[kOperands], uint32_t num_operands,
                          const mydev_operand* const (&results)[kResults], uint32_t num_results, const char* shapes,
                          const mydev_attribute_spec* const* attributes = nullptr, uint32_t num_attributes = 0) {
  mydev_signature signature{};
  signature.struct_size = sizeof(signature);
  signature.operands = operands;
  signature.num_operands = num_operands;
  signature.results = results;
  signature.num_results = num_results;
  signature.shapes = shapes;
  signature.attributes = attributes;
  signature.num_attributes = num_attributes;
  return signature;
}
mydev_signature inferred(mydev_code (*infer)(const mydev_frame*, mydev_shape*),
                         const mydev_attribute_spec* const* attributes, uint32_t num_attributes) {
  mydev_signature signature = ::signature(kF32Only, 1, kOuts, 1, nullptr, attributes, num_attributes);
  signature.infer_shapes = infer;
  return signature;
}

const mydev_signature kAxpy = signature(kStrided, 2, kOuts, 1, "(...),(...)->(...)", kAxpyAttributes, 1);
const mydev_signature kUnary = signature(kX1, 1, kOuts, 1, "(...)->(...)");
const mydev_signature kScaled = signature(kX1, 1, kOuts, 1, "(...)->(...)", kScaledAttributes, 1);
const mydev_signature kBinary = signature(kXY, 2, kOuts, 1, "(...),(...)->(...)");
const mydev_signature kTernary = signature(kXYZ, 3, kOuts, 2, "(...),(...),(...)->(...),(...)");
const mydev_signature kMatmul = signature(kMatrices, 2, kOuts, 1, "(m,k),(k,n)->(m,n)");
const mydev_signature kMatmulVjp = signature(kMatricesAndGrad, 3, kOuts, 2, "(m,k),(k,n),(m,n)->(m,k),(k,n)");
const mydev_signature kIncrement = signature(kX1, 1, kInPlaceOut, 1, "(...)->(...)", kStepAttributes, 1);
const mydev_signature kAccumulate = signature(kXY, 2, kWrittenAndFresh, 2, "(n),(n)->(n),(n)");
const mydev_signature kAccumulateLast = signature(kXY, 2, kFreshAndWritten, 2, "(n),(n)->(n),(n)");
const mydev_signature kAccumulateVjp = signature(kXY, 2, kOuts, 2, "(n),(n)->(n),(n)");
const mydev_signature kSwap = signature(kXY, 2, kBothWritten, 2, "(n),(n)->(n),(n)");
const mydev_signature kAddTo = signature(kXY, 2, kSecondWritten, 1, "(n),(n)->(n)");
const mydev_signature kWeighSquares = signature(kXAndParts, 2, kOuts, 1, "(...),(...)->(...)");
const mydev_signature kWeighSquaresVjp = signature(kXGradAndParts, 3, kOutAndParts, 2, "(...),(...),(...)->(...)");
const mydev_signature kDoubleEach = signature(kOnlyParts, 1, kPartsOuts, 1, nullptr);
const mydev_signature kWeigh = signature(kWeighed, 2, kOuts, 1, "(...),(...)->(...)");
const mydev_signature kTotal = signature(kVariadic, 1, kF32Outs, 1, "(n)->(n)");
const mydev_signature kHalfTotal = signature(kF32AndParts, 2, kF32Outs, 1, "(n),(n)->(n)");
const mydev_signature kMinimum = signature(kX1, 1, kValueAndIndex, 2, "(...,n)->(...),(...)");
const mydev_signature kAttributes = signature(kNone, 0, kTextOut, 1, "->(256)", kAllAttributes, 7);
const mydev_signature kFill = signature(kNone, 0, kF32Outs, 1, "->(@size)", kFillAttributes, 1);
const mydev_signature kReverse = signature(kF32Only, 1, kOuts, 1, "(n)->(n)");
const mydev_signature kFail = signature(kX1, 1, kOuts, 1, "(...)->(...)", kFailAttributes, 2);
const mydev_signature kRepeat = inferred(operators::infer_repeat, kRepeatAttributes, 1);
const mydev_signature kLie = inferred(operators::infer_lie, nullptr, 0);

constexpr int32_t kSaved0[] = {0}, kSaved01[] = {0, 1}, kSavedResult[] = {-1};
constexpr mydev_gradient kSquareGradient = {sizeof(mydev_gradient), "test.square_vjp", kSaved0, 1, 1, kSaved0};
constexpr mydev_gradient kSquareVjpGradient = {sizeof(mydev_gradient), "test.square_vjp_vjp", kSaved01, 2, 2, kSaved01};
constexpr mydev_gradient kExpGradient = {sizeof(mydev_gradient), "test.product", kSavedResult, 1, 1, kSaved0};
constexpr mydev_gradient kMatmulGradient = {sizeof(mydev_gradient), "test.matmul_vjp", kSaved01, 2, 2, kSaved01};
constexpr mydev_gradient kHalfGradient = {sizeof(mydev_gradient), "test.product", kSaved01 + 1, 1, 1, kSaved0};
constexpr mydev_gradient kScaledGradient = {sizeof(mydev_gradient), "typed.scale", nullptr, 0, 1, kSaved0};
constexpr mydev_gradient kHalfTotalGradient = {sizeof(mydev_gradient), "test.scaled", nullptr, 0, 1, kSaved0};
constexpr mydev_gradient kAccumulateGradient = {sizeof(mydev_gradient), "test.accumulate_vjp", nullptr, 0, 2, kSaved01};
constexpr mydev_gradient kWeighSquaresGradient = {
    sizeof(mydev_gradient), "test.weigh_squares_vjp", kSaved01, 2, 2, kSaved01};
constexpr mydev_gradient kUnlikelyGradient = {sizeof(mydev_gradient), "test.square_vjp", kSaved01, 2, 2, kSaved01};
constexpr mydev_gradient kLostGradient = {sizeof(mydev_gradient), "test.nowhere", kSaved0, 1, 1, kSaved0};

mydev_kernel kernel(const char* name, mydev_kernel_fn entry, const mydev_signature& signature,
                    const mydev_gradient* gradient = nullptr, mydev_batching batching = MYDEV_BATCHING_NONE) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.name = name;
  kernel.entry = entry;
  kernel.signature = &signature;
  kernel.gradient = gradient;
  kernel.batching = batching;
  return kernel;
}
mydev_kernel with_scratch(mydev_kernel kernel, uint64_t (*scratch)(const mydev_frame*)) {
  kernel.scratch_bytes = scratch;
  return kernel;
}

const mydev_kernel kKernels[] = {
    kernel("test.axpy", operators::axpy, kAxpy, nullptr, MYDEV_BATCHING_BROADCAST_ALL),
    kernel("test.square", operators::square, kUnary, &kSquareGradient, MYDEV_BATCHING_EXPAND_DIMS),
    kernel("test.square_vjp", operators::square_vjp, kBinary, &kSquareVjpGradient, MYDEV_BATCHING_BROADCAST_ALL),
    kernel("test.square_vjp_vjp", operators::square_vjp_vjp, kTernary),
    kernel("test.exp", operators::exponential, kUnary, &kExpGradient),
    kernel("test.scaled", operators::scaled, kScaled, &kScaledGradient),
    kernel("test.product", operators::product, kBinary),
    kernel("test.half_gradient", operators::product, kBinary, &kHalfGradient),
    kernel("test.lost_gradient", operators::square, kUnary, &kLostGradient),
    kernel("test.matmul", operators::matmul, kMatmul, &kMatmulGradient, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.matmul_vjp", operators::matmul_vjp, kMatmulVjp),
    kernel("test.increment", operators::increment, kIncrement, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.accumulate", operators::accumulate<0>, kAccumulate, &kAccumulateGradient),
    kernel("test.accumulate_vjp", operators::accumulate_vjp, kAccumulateVjp),
    kernel("test.accumulate_last", operators::accumulate<1>, kAccumulateLast),
    kernel("test.swap", operators::swap, kSwap, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.add_to", operators::add_to, kAddTo, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("class", operators::square, kUnary),  // a word that Python keeps for itself
    kernel("test.weigh", operators::weigh, kWeigh),
    kernel("test.total", operators::total, kTotal),
    kernel("test.weigh_squares", operators::weigh_squares, kWeighSquares, &kWeighSquaresGradient,
           MYDEV_BATCHING_BROADCAST_ALL),
    kernel("test.weigh_squares_vjp", operators::weigh_squares_vjp, kWeighSquaresVjp, nullptr,
           MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.unlikely_gradient", operators::weigh_squares, kWeighSquares, &kUnlikelyGradient),
    kernel("test.double_each", operators::double_each, kDoubleEach, nullptr, MYDEV_BATCHING_SEQUENTIAL),
    kernel("test.half_total", operators::half_total, kHalfTotal, &kHalfTotalGradient),
    kernel("test.minimum", operators::minimum, kMinimum, nullptr, MYDEV_BATCHING_EXPAND_DIMS),
    kernel("test.attributes", operators::attributes_text, kAttributes),
    kernel("test.fill", operators::fill, kFill),
    with_scratch(kernel("test.reverse", operators::reverse, kReverse), operators::reverse_scratch),
    with_scratch(kernel("test.greedy", operators::reverse, kReverse), operators::greedy_scratch),
    with_scratch(kernel("test.scratch_throws", operators::reverse, kReverse), operators::throwing_scratch),
    kernel("test.fail", operators::fail, kFail),
    kernel("test.throw", operators::crash_softly, kUnary),
    kernel("test.repeat", operators::repeat, kRepeat),
    kernel("test.lie", operators::lie, kLie),
};

}  // namespace

extern "C" MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major, uint32_t) {
  static const auto* const table = [] {
    constexpr size_t kCount = sizeof(kKernels) / sizeof(kKernels[0]);
    static const mydev_kernel* pointers[kCount];
    for (size_t i = 0; i < kCount; ++i) pointers[i] = &kKernels[i];
    static const mydev_library library = {sizeof(mydev_library),
                                          MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                          MYDEV_CUSTOM_CALL_VERSION_MINOR,
                                          "operator_kernels",
                                          "1.0",
                                          pointers,
                                          kCount};
    return &library;
  }();
  return version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR ? table : nullptr;
}
