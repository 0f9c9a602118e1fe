// Typed-FFI kernels: handlers written by hand against the binary layout, called through the registry and launch().
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <random>
#include <stdexcept>
#include <thread>

#include "ffi_fixture.h"
#include "kernels/custom_call/ffi_attributes.h"
#include "kernels/parallel.h"

namespace mydev {
namespace {

using ffi::CallFrame;

// Answers the handshake as a handler of version 0.kMinor does; true if the frame was a question.
bool answer(CallFrame* frame, int minor = 3, int major = 0, uint32_t traits = 0) {
  if (frame->extension_start == nullptr || frame->extension_start->type != ffi::kMetadataExtension) return false;
  auto* extension = reinterpret_cast<ffi::MetadataExtension*>(frame->extension_start);
  extension->metadata->api_version.major = major;
  extension->metadata->api_version.minor = minor;
  extension->metadata->traits = traits;
  return true;
}

ffi::Error* fail(const CallFrame* frame, int code, const char* message) {
  ffi::ErrorCreateArgs args{ffi::kErrorCreateArgsSize, nullptr, message, code};
  return frame->api->error_create(&args);
}

ffi::Buffer& argument(const CallFrame* frame, size_t index) {
  return *static_cast<ffi::Buffer*>(frame->arguments.values[index]);
}
ffi::Buffer& result(const CallFrame* frame, size_t index) {
  return *static_cast<ffi::Buffer*>(frame->results.values[index]);
}

// A handler whose body is a lambda without captures.
template <int kMinor, typename Body>
ffi::Handler handler(Body) {
  return [](CallFrame* frame) -> ffi::Error* { return answer(frame, kMinor) ? nullptr : Body{}(frame); };
}
template <typename Body>
ffi::Handler handler(Body body) {
  return handler<3>(body);
}

ffi::Error* succeed(CallFrame* frame) {
  answer(frame);
  return nullptr;
}

// out[i] = a[i] + b[i]; returns an error if anything about the frame is not as it should be.
ffi::Error* add(CallFrame* frame) {
  if (answer(frame)) return nullptr;
  if (frame->struct_size != ffi::kCallFrameSize) return fail(frame, 13, "struct_size of the frame");
  if (frame->stage != ffi::kExecute) return fail(frame, 13, "stage");
  if (frame->arguments.size != 2 || frame->results.size != 1) return fail(frame, 3, "count");
  if (frame->arguments.types[0] != ffi::kBuffer || frame->results.types[0] != ffi::kBuffer) {
    return fail(frame, 13, "types");
  }
  int64_t count = 1;
  for (int64_t d = 0; d < argument(frame, 0).rank; ++d) count *= argument(frame, 0).dims[d];
  const auto* a = static_cast<const float*>(argument(frame, 0).data);
  const auto* b = static_cast<const float*>(argument(frame, 1).data);
  auto* out = static_cast<float*>(result(frame, 0).data);
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
  return nullptr;
}

// --- frames ----------------------------------------------------------------------------------------------------------

TEST(TypedFfi, GetsOperandsAndResults) {
  const ScopedKernel kernel(ffi_record("test.add", add));
  DeviceArray a({2, 3}, 1), b({2, 3}, 10), out({2, 3});
  run_kernel(*kernel, {out.buffer(), a.buffer(), b.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{11, 13, 15, 17, 19, 21}));
}

TEST(TypedFfi, TakesManyOperandsAfterFew) {
  const ScopedKernel few(ffi_record("test.add", add));
  const ScopedKernel many(ffi_record("test.many", handler([](CallFrame* frame) -> ffi::Error* {
                                       float sum = 0;
                                       for (int64_t i = 0; i < frame->arguments.size; ++i) {
                                         sum += static_cast<float*>(argument(frame, static_cast<size_t>(i)).data)[0];
                                       }
                                       static_cast<float*>(result(frame, 0).data)[0] = sum;
                                       return nullptr;
                                     })));
  DeviceArray a({1}, 1), b({1}, 2), out({1});
  run_kernel(*few, {out.buffer(), a.buffer(), b.buffer()}, 1);
  std::vector<mydev_buffer> buffers(101, b.buffer());
  buffers[0] = out.buffer();
  run_kernel(*many, buffers, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{200}));
}

TEST(TypedFfi, TakesNoOperandsAndNoResults) {
  static std::atomic<int> calls;
  calls = 0;
  const ScopedKernel kernel(ffi_record("test.nothing", handler([](CallFrame* frame) -> ffi::Error* {
                                         if (frame->arguments.size != 0 || frame->results.size != 0 ||
                                             frame->attributes.size != 0) {
                                           return fail(frame, 3, "not empty");
                                         }
                                         ++calls;
                                         return nullptr;
                                       })));
  run_kernel(*kernel);
  EXPECT_EQ(calls, 1);
}

TEST(TypedFfi, TakesTwoResults) {
  const ScopedKernel kernel(ffi_record("test.two", handler([](CallFrame* frame) -> ffi::Error* {
                                         static_cast<float*>(result(frame, 0).data)[0] = 1;
                                         static_cast<float*>(result(frame, 1).data)[0] = 2;
                                         return nullptr;
                                       })));
  DeviceArray first({1}), second({1});
  run_kernel(*kernel, {first.buffer(), second.buffer()}, 2);
  EXPECT_EQ(first.values(), (std::vector<float>{1}));
  EXPECT_EQ(second.values(), (std::vector<float>{2}));
}

TEST(TypedFfi, TakesEmptyBuffersOfAnyStrides) {
  const ScopedKernel kernel(ffi_record("test.empty", handler([](CallFrame* frame) -> ffi::Error* {
                                         const ffi::Buffer& buffer = argument(frame, 0);
                                         return buffer.rank == 2 && buffer.dims[0] == 0 && buffer.dims[1] == 5
                                                    ? nullptr
                                                    : fail(frame, 3, "dims");
                                       })));
  const int64_t sizes[] = {0, 5}, strides[] = {7, 9};
  run_kernel(*kernel, {{nullptr, sizes, strides, 2, MYDEV_F32}});
}

TEST(TypedFfi, GivesTokensAsNull) {
  const ScopedKernel kernel(ffi_record("test.token", handler([](CallFrame* frame) -> ffi::Error* {
                                         return argument(frame, 0).data == nullptr &&
                                                        argument(frame, 0).dtype == MYDEV_TOKEN
                                                    ? nullptr
                                                    : fail(frame, 3, "no token");
                                       })));
  char anything = 0;
  run_kernel(*kernel, {{&anything, nullptr, nullptr, 0, MYDEV_TOKEN}});
}

TEST(TypedFfi, LeavesOutAbsentOperandsAtTheEnd) {
  const ScopedKernel kernel(ffi_record("test.absent", handler([](CallFrame* frame) -> ffi::Error* {
                                         return frame->arguments.size == 1 ? nullptr : fail(frame, 3, "count");
                                       })));
  DeviceArray a({1});
  const mydev_buffer absent{nullptr, nullptr, nullptr, 0, MYDEV_DTYPE_INVALID};
  run_kernel(*kernel, {a.buffer(), absent, absent});
}

TEST(TypedFfi, RefusesStridedOperandsByName) {
  const ScopedKernel kernel(ffi_record("test.add", add));
  DeviceArray a({2, 3}), out({2, 3});
  const int64_t sizes[] = {2, 3}, strides[] = {1, 2};
  const mydev_buffer transposed{a.data(), sizes, strides, 2, MYDEV_F32};
  expect_error(error_of([&] { run_kernel(*kernel, {out.buffer(), a.buffer(), transposed}, 1); }),
               MYDEV_INVALID_ARGUMENT, "operand 1 is not dense");
  expect_error(error_of([&] { run_kernel(*kernel, {transposed, a.buffer(), a.buffer()}, 1); }), MYDEV_INVALID_ARGUMENT,
               "result 0 is not dense");
}

// The offset of each element, in row-major order: 0, 1, 2, ... where the buffer is dense.
bool is_dense_by_offsets(const mydev_buffer& buffer) {
  std::vector<int64_t> offsets = {0};
  for (int32_t d = 0; d < buffer.rank; ++d) {
    std::vector<int64_t> longer;
    for (const int64_t offset : offsets) {
      for (int64_t i = 0; i < buffer.sizes[d]; ++i) longer.push_back(offset + i * buffer.strides[d]);
    }
    offsets = longer;
  }
  for (size_t i = 0; i < offsets.size(); ++i) {
    if (offsets[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

// Whatever the buffers' shapes, those that are dense are passed on as they are and the others are refused.
TEST(TypedFfi, SurvivesBuffersOfAnyShape) {
  static std::vector<std::vector<int64_t>> shapes;
  const ScopedKernel kernel(ffi_record("test.shapes", handler([](CallFrame* frame) -> ffi::Error* {
                                         shapes.clear();
                                         for (int64_t i = 0; i < frame->arguments.size; ++i) {
                                           const ffi::Buffer& buffer = argument(frame, static_cast<size_t>(i));
                                           shapes.emplace_back(buffer.dims, buffer.dims + buffer.rank);
                                         }
                                         return nullptr;
                                       })));
  std::mt19937 random(20240614);
  int refused = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::vector<int64_t>> sizes(random() % 4), strides(sizes.size());
    std::vector<mydev_buffer> buffers;
    bool dense = true;
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i].resize(random() % 4);
      strides[i].resize(sizes[i].size());
      int64_t expected = 1;
      for (size_t d = sizes[i].size(); d-- > 0;) {
        sizes[i][d] = static_cast<int64_t>(random() % 4);
        strides[i][d] = random() % 8 == 0 ? static_cast<int64_t>(random() % 7) - 3 : expected;
        expected *= sizes[i][d];
      }
      buffers.push_back(
          {nullptr, sizes[i].data(), strides[i].data(), static_cast<int32_t>(sizes[i].size()), MYDEV_F32});
      dense = dense && is_dense_by_offsets(buffers.back());
    }
    mydev_frame frame = make_frame(buffers, 0);
    frame.kernel = &*kernel;
    frame.host = &host_services();
    ASSERT_EQ((*kernel).entry(&frame), dense ? MYDEV_OK : MYDEV_INVALID_ARGUMENT);
    if (dense) {
      ASSERT_EQ(shapes, sizes);
    }
    refused += dense ? 0 : 1;
  }
  EXPECT_GT(refused, 0);
}

// --- errors ----------------------------------------------------------------------------------------------------------

class ErrorCodes : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Codes, ErrorCodes, testing::Range(1, 17));

TEST_P(ErrorCodes, ArePassedOn) {
  static std::atomic<int> code;
  code = GetParam();
  const ScopedKernel kernel(ffi_record(
      "test.fail", handler([](CallFrame* frame) -> ffi::Error* { return fail(frame, code, "it went wrong"); })));
  expect_error(error_of([&] { run_kernel(*kernel); }), static_cast<mydev_code>(GetParam()), "it went wrong");
}

TEST(TypedFfi, AnErrorOfUnknownCodeIsUnknown) {
  const ScopedKernel kernel(
      ffi_record("test.fail", handler([](CallFrame* frame) -> ffi::Error* { return fail(frame, 99, "odd"); })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNKNOWN, "odd");
}

TEST(TypedFfi, SurvivesAThrowingHandler) {
  const ScopedKernel kernel(ffi_record(
      "test.throw", handler([](CallFrame*) -> ffi::Error* { throw std::runtime_error("out of patience"); })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNKNOWN, "the handler threw: out of patience");
  const ScopedKernel odd(ffi_record("test.throw_int", handler([](CallFrame*) -> ffi::Error* { throw 3; })));
  expect_error(error_of([&] { run_kernel(*odd); }), MYDEV_UNKNOWN, "no std::exception");
}

TEST(TypedFfi, ErrorsTellTheirMessageAndCode) {
  const ScopedKernel kernel(ffi_record("test.errors", handler<4>([](CallFrame* frame) -> ffi::Error* {
                                         if (frame->api->struct_size < sizeof(ffi::Api))
                                           return fail(frame, 13, "the table is too short");
                                         ffi::Error* made = fail(frame, 5, "text");
                                         ffi::ErrorGetMessageArgs message{sizeof(message), nullptr, made, nullptr};
                                         frame->api->error_get_message(&message);
                                         ffi::ErrorGetCodeArgs code{ffi::kErrorGetCodeArgsSize, nullptr, made, 0};
                                         frame->api->error_get_code(&code);
                                         const bool right = std::strcmp(message.message, "text") == 0 && code.code == 5;
                                         ffi::ErrorDestroyArgs destroy{sizeof(destroy), nullptr, made};
                                         frame->api->error_destroy(&destroy);
                                         return right ? nullptr : fail(frame, 13, "message or code");
                                       })));
  run_kernel(*kernel);
}

// --- handshake -------------------------------------------------------------------------------------------------------

template <int kMajor, int kMinor>
ffi::Error* versioned(CallFrame* frame) {
  answer(frame, kMinor, kMajor);
  return nullptr;
}

struct Version {
  const char* name;
  ffi::Handler handler;
  bool accepted;
};
class Versions : public testing::TestWithParam<Version> {};
INSTANTIATE_TEST_SUITE_P(Handshake, Versions,
                         testing::Values(Version{"v0_0", versioned<0, 0>, false},
                                         Version{"v0_1", versioned<0, 1>, true}, Version{"v0_2", versioned<0, 2>, true},
                                         Version{"v0_3", versioned<0, 3>, true}, Version{"v0_4", versioned<0, 4>, true},
                                         Version{"v0_5", versioned<0, 5>, false},
                                         Version{"v1_0", versioned<1, 0>, false},
                                         Version{"negative", versioned<0, -1>, false}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Versions, AreAcceptedFromTheOldestToTheHosts) {
  const Error error = error_of([&] { const ScopedKernel kernel(ffi_record("test.version", GetParam().handler)); });
  if (GetParam().accepted) {
    EXPECT_EQ(error.code(), MYDEV_OK) << error.what();
  } else {
    expect_error(error, MYDEV_FAILED_PRECONDITION, "XLA's FFI");
  }
}

TEST(Handshake, AppliesToEachStage) {
  expect_error(
      error_of([] { const ScopedKernel kernel(ffi_record("test.stage_version", succeed, nullptr, versioned<0, 9>)); }),
      MYDEV_FAILED_PRECONDITION, "its prepare handler is built with version 0.9");
}

TEST(Handshake, PassesOnARefusal) {
  expect_error(error_of([] {
                 const ScopedKernel kernel(ffi_record("test.refuse", [](CallFrame* frame) -> ffi::Error* {
                   return fail(frame, 9, "register the type first");
                 }));
               }),
               MYDEV_FAILED_PRECONDITION, "refuses to be registered: register the type first");
}

TEST(Handshake, SurvivesAThrow) {
  expect_error(error_of([] {
                 const ScopedKernel kernel(
                     ffi_record("test.thrower", [](CallFrame*) -> ffi::Error* { throw std::runtime_error("no"); }));
               }),
               MYDEV_FAILED_PRECONDITION, "threw: no");
}

TEST(Handshake, TakesTheTraits) {
  const ScopedKernel kernel(ffi_record("test.traits", [](CallFrame* frame) -> ffi::Error* {
    answer(frame, 3, 0, ffi::kCommandBufferCompatible);
    return nullptr;
  }));
  EXPECT_EQ((*kernel).traits, MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE);
}

TEST(Handshake, AsksWithAFrameOfTheSizeThatHandlersInsistOn) {
  static std::atomic<bool> right;
  right = false;
  const ScopedKernel kernel(ffi_record("test.question", [](CallFrame* frame) -> ffi::Error* {
    right = frame->struct_size == 168 && frame->api != nullptr && frame->extension_start->struct_size >= 32 &&
            reinterpret_cast<ffi::MetadataExtension*>(frame->extension_start)->metadata->struct_size == 48;
    answer(frame);
    return nullptr;
  }));
  EXPECT_TRUE(right);
}

// --- attributes ------------------------------------------------------------------------------------------------------

template <typename T>
T scalar(const ffi::Attributes& attributes, size_t index) {
  T value;
  std::memcpy(&value, static_cast<const ffi::Scalar*>(attributes.values[index])->value, sizeof(T));
  return value;
}
int32_t scalar_dtype(const ffi::Attributes& attributes, size_t index) {
  return static_cast<const ffi::Scalar*>(attributes.values[index])->dtype;
}
std::string name_of(const ffi::Attributes& attributes, size_t index) {
  return {attributes.names[index]->data, attributes.names[index]->size};
}

TEST(Attributes, AreSortedByName) {
  const std::vector<mydev_attribute> given = {int_attribute("zeta", 1), int_attribute("alpha", 2),
                                              int_attribute("alp", 3)};
  const ffi::AttributeTable table(given);
  ASSERT_EQ(table.table().size, 3);
  EXPECT_EQ(name_of(table.table(), 0), "alp");
  EXPECT_EQ(name_of(table.table(), 1), "alpha");
  EXPECT_EQ(name_of(table.table(), 2), "zeta");
  EXPECT_EQ(scalar<int64_t>(table.table(), 2), 1);
}

TEST(Attributes, HaveTheirDefaultWidths) {
  const std::vector<mydev_attribute> given = {bool_attribute("a", true), int_attribute("b", -2),
                                              float_attribute("c", 0.5), complex_attribute("d", 1, 2)};
  const ffi::AttributeTable table(given);
  EXPECT_EQ(scalar_dtype(table.table(), 0), MYDEV_PRED);
  EXPECT_EQ(scalar<uint8_t>(table.table(), 0), 1);
  EXPECT_EQ(scalar_dtype(table.table(), 1), MYDEV_S64);
  EXPECT_EQ(scalar<int64_t>(table.table(), 1), -2);
  EXPECT_EQ(scalar_dtype(table.table(), 2), MYDEV_F64);
  EXPECT_EQ(scalar<double>(table.table(), 2), 0.5);
  EXPECT_EQ(scalar_dtype(table.table(), 3), MYDEV_C128);
  EXPECT_EQ((scalar<std::array<double, 2>>(table.table(), 3)), (std::array<double, 2>{1, 2}));
}

struct Width {
  mydev_dtype dtype;
  int64_t fits, too_large;
};
class IntegerWidths : public testing::TestWithParam<Width> {};
INSTANTIATE_TEST_SUITE_P(Attributes, IntegerWidths,
                         testing::Values(Width{MYDEV_S8, -128, 128}, Width{MYDEV_S16, -32768, 32768},
                                         Width{MYDEV_S32, INT32_MIN, int64_t{1} << 31}, Width{MYDEV_U8, 255, -1},
                                         Width{MYDEV_U16, 65535, 65536},
                                         Width{MYDEV_U32, 0xFFFFFFFF, int64_t{1} << 32}),
                         [](const auto& test) { return std::string(dtype_name(test.param.dtype)); });

TEST_P(IntegerWidths, AreKeptAndChecked) {
  const std::vector<mydev_attribute> given = {typed(int_attribute("n", GetParam().fits), GetParam().dtype)};
  const ffi::AttributeTable table(given);
  EXPECT_EQ(scalar_dtype(table.table(), 0), GetParam().dtype);
  int64_t bits = 0;
  const auto bytes = static_cast<size_t>(dtype_size(GetParam().dtype));
  std::memcpy(&bits, static_cast<const ffi::Scalar*>(table.table().values[0])->value, bytes);
  EXPECT_EQ(bits, GetParam().fits & ((int64_t{1} << (8 * bytes)) - 1));
  const std::vector<mydev_attribute> bad = {typed(int_attribute("n", GetParam().too_large), GetParam().dtype)};
  expect_error(error_of([&] { ffi::AttributeTable refused(bad); }), MYDEV_INVALID_ARGUMENT,
               "its value is " + std::to_string(GetParam().too_large));
}

struct Rounding {
  double value;
  uint16_t f16, bf16;
};
class SixteenBits : public testing::TestWithParam<Rounding> {};
INSTANTIATE_TEST_SUITE_P(Attributes, SixteenBits,
                         testing::Values(Rounding{0.0, 0x0000, 0x0000}, Rounding{-0.0, 0x8000, 0x8000},
                                         Rounding{1.0, 0x3C00, 0x3F80}, Rounding{-2.5, 0xC100, 0xC020},
                                         Rounding{65504, 0x7BFF, 0x4780}, Rounding{65520, 0x7C00, 0x4780},
                                         Rounding{6e-8, 0x0001, 0x3381}, Rounding{1e-50, 0x0000, 0x0000},
                                         Rounding{1e300, 0x7C00, 0x7F80}, Rounding{1.0 / 3, 0x3555, 0x3EAB},
                                         Rounding{2049, 0x6800, 0x4500}, Rounding{2051, 0x6802, 0x4500}));

TEST_P(SixteenBits, RoundToEven) {
  const std::vector<mydev_attribute> given = {typed(float_attribute("b", GetParam().value), MYDEV_BF16),
                                              typed(float_attribute("h", GetParam().value), MYDEV_F16)};
  const ffi::AttributeTable table(given);
  EXPECT_EQ(scalar<uint16_t>(table.table(), 0), GetParam().bf16);
  EXPECT_EQ(scalar<uint16_t>(table.table(), 1), GetParam().f16);
}

TEST(Attributes, StringsArraysAndDictionariesAreBorrowed) {
  const std::string text("a\0b", 3);
  const int64_t ints[] = {1, 2};
  const float floats[] = {0.5F};
  mydev_attribute array{"c", MYDEV_ATTRIBUTE_ARRAY, MYDEV_F32, 1, {}};
  array.value.data = floats;
  const std::vector<mydev_attribute> inner = {int_attribute("y", 1), bool_attribute("x", true)};
  mydev_attribute dictionary{"d", MYDEV_ATTRIBUTE_DICTIONARY, 0, 2, {}};
  dictionary.value.attributes = inner.data();
  const std::vector<mydev_attribute> given = {string_attribute("a", text), int_array_attribute("b", ints), array,
                                              dictionary};
  const ffi::AttributeTable table(given);
  const ffi::Attributes& attributes = table.table();
  EXPECT_EQ((std::vector<int32_t>(attributes.types, attributes.types + 4)),
            (std::vector<int32_t>{ffi::kString, ffi::kArray, ffi::kArray, ffi::kDictionary}));
  const auto* string = static_cast<const ffi::ByteSpan*>(attributes.values[0]);
  EXPECT_EQ(std::string(string->data, string->size), text);
  EXPECT_EQ(static_cast<const ffi::Array*>(attributes.values[1])->dtype, MYDEV_S64);
  EXPECT_EQ(static_cast<const ffi::Array*>(attributes.values[1])->data, ints);
  EXPECT_EQ(static_cast<const ffi::Array*>(attributes.values[2])->dtype, MYDEV_F32);
  const auto* nested = static_cast<const ffi::Attributes*>(attributes.values[3]);
  EXPECT_EQ(name_of(*nested, 0), "x");
}

TEST(Attributes, OfOneNameAreRefused) {
  const std::vector<mydev_attribute> given = {int_attribute("n", 1), int_attribute("n", 2)};
  expect_error(error_of([&] { ffi::AttributeTable table(given); }), MYDEV_INVALID_ARGUMENT, "two attributes 'n'");
}

TEST(Attributes, NestedTooDeeplyAreRefused) {
  std::vector<mydev_attribute> levels(20, {"d", MYDEV_ATTRIBUTE_DICTIONARY, 0, 1, {}});
  for (size_t i = 0; i + 1 < levels.size(); ++i) levels[i].value.attributes = &levels[i + 1];
  levels.back() = int_attribute("n", 1);
  const ScopedKernel kernel(ffi_record("test.deep", succeed));
  expect_error(error_of([&] { run_kernel(*kernel, {}, 0, {levels[0]}); }), MYDEV_INVALID_ARGUMENT, "8 deep");
}

TEST(Attributes, ReachTheHandler) {
  const ScopedKernel kernel(ffi_record("test.scale", handler([](CallFrame* frame) -> ffi::Error* {
                                         if (frame->attributes.size != 1) return fail(frame, 3, "count");
                                         static_cast<float*>(result(frame, 0).data)[0] =
                                             scalar<float>(frame->attributes, 0);
                                         return nullptr;
                                       })));
  DeviceArray out({1});
  run_kernel(*kernel, {out.buffer()}, 1, {typed(float_attribute("factor", 2.5), MYDEV_F32)});
  EXPECT_EQ(out.values(), (std::vector<float>{2.5}));
  run_kernel(*kernel, {out.buffer()}, 1, {typed(float_attribute("factor", 3.5), MYDEV_F32)});
  EXPECT_EQ(out.values(), (std::vector<float>{3.5}));
}

// Whatever the frame's attributes, the call ends with success or INVALID_ARGUMENT.
TEST(Attributes, OfAnyShapeAreSurvived) {
  const ScopedKernel kernel(ffi_record("test.any", succeed));
  std::mt19937 random(20240613);
  const char* const names[] = {"a", "b", "c", "dd", ""};
  const int64_t data[4] = {1, -1, 300, INT64_MIN};
  int accepted = 0;
  for (int round = 0; round < 5000; ++round) {
    std::vector<mydev_attribute> inner(random() % 3), given(random() % 5);
    const auto make = [&](mydev_attribute& attribute, bool nested) {
      attribute.name = random() % 40 == 0 ? nullptr : names[random() % 5];
      attribute.kind = static_cast<uint16_t>(random() % (nested ? 8 : 11));
      attribute.dtype = static_cast<uint16_t>(random() % 3 == 0 ? random() % 24 : 0);
      attribute.count = 0;
      if (attribute.kind >= MYDEV_ATTRIBUTE_STRING) {
        attribute.count = static_cast<uint32_t>(random() % 2);
        attribute.value.data = random() % 20 == 0 ? nullptr : data;
      } else {
        attribute.value.c[0] = attribute.value.c[1] = 1;
        if (random() % 2 == 0) attribute.value.i = data[random() % 4];
      }
      if (attribute.kind == MYDEV_ATTRIBUTE_DICTIONARY) {
        attribute.count = static_cast<uint32_t>(inner.size());
        attribute.value.attributes = inner.data();
      }
    };
    for (mydev_attribute& attribute : inner) make(attribute, true);
    for (mydev_attribute& attribute : given) make(attribute, false);
    mydev_frame frame = make_frame({}, 0, given);
    frame.kernel = &*kernel;
    frame.host = &host_services();
    const mydev_code code = (*kernel).entry(&frame);
    ASSERT_TRUE(code == MYDEV_OK || code == MYDEV_INVALID_ARGUMENT) << code;
    accepted += code == MYDEV_OK ? 1 : 0;
  }
  EXPECT_GT(accepted, 0);
}

// --- stages and states -----------------------------------------------------------------------------------------------

std::atomic<int> states_alive;
std::atomic<int> instantiations;
void delete_state(void* state) {
  --states_alive;
  delete static_cast<int*>(state);
}

int64_t state_type() {
  static const int64_t id = [] {
    ffi::TypeId type{0};
    const ffi::TypeInfo info{sizeof(ffi::TypeInfo), nullptr, delete_state};
    EXPECT_EQ(ffi::register_type("test.state", type, &info), nullptr);
    return type.id;
  }();
  return id;
}

ffi::Error* set_state(const CallFrame* frame, int value) {
  const ffi::TypeId type{state_type()};
  ffi::StateSetArgs3 args{sizeof(args), nullptr, frame->context, frame->stage, &type, new int(value)};
  ++states_alive;
  return frame->api->state_set(&args);
}
ffi::Error* get_state(const CallFrame* frame, ffi::Stage stage, int& value) {
  const ffi::TypeId type{state_type()};
  ffi::StateGetArgs3 args{sizeof(args), nullptr, frame->context, stage, &type, nullptr};
  if (ffi::Error* error = frame->api->state_get(&args)) return error;
  value = *static_cast<int*>(args.state);
  return nullptr;
}

const ffi::Handler instantiate_counting = handler([](CallFrame* frame) -> ffi::Error* {
  if (frame->arguments.size != 0 || frame->results.size != 0) return fail(frame, 13, "operands while instantiating");
  return set_state(frame, ++instantiations);
});
const ffi::Handler give_instance_state = handler([](CallFrame* frame) -> ffi::Error* {
  int value = 0;
  if (ffi::Error* error = get_state(frame, ffi::kInstantiate, value)) return error;
  static_cast<float*>(result(frame, 0).data)[0] = static_cast<float>(value);
  return nullptr;
});

TEST(Stages, InstantiateRunsOncePerAttributes) {
  instantiations = 0;
  const ScopedKernel kernel(ffi_record("test.instance", give_instance_state, instantiate_counting));
  DeviceArray out({1});
  const auto run = [&](int64_t n) {
    run_kernel(*kernel, {out.buffer()}, 1, {int_attribute("n", n)});
    return out.values()[0];
  };
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(run(2), 2);
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(instantiations, 2);
}

TEST(Stages, InstancesAreBounded) {
  instantiations = 0;
  const int before = states_alive;
  const ScopedKernel kernel(ffi_record("test.bounded", give_instance_state, instantiate_counting));
  DeviceArray out({1});
  for (int64_t n = 0; n < 200; ++n) run_kernel(*kernel, {out.buffer()}, 1, {int_attribute("n", n)});
  EXPECT_EQ(instantiations, 200);
  EXPECT_LE(states_alive - before, static_cast<int>(ffi::InstanceCache::kCapacity));
}

TEST(Stages, AFailedInstantiationIsTriedAgain) {
  static std::atomic<int> attempts;
  attempts = 0;
  const ScopedKernel kernel(ffi_record("test.retry", succeed, handler([](CallFrame* frame) -> ffi::Error* {
                                         return ++attempts == 1 ? fail(frame, 14, "not yet") : nullptr;
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNAVAILABLE, "instantiate: not yet");
  run_kernel(*kernel);
  run_kernel(*kernel);
  EXPECT_EQ(attempts, 2);
}

TEST(Stages, RunInOrderBeforeEachExecution) {
  static std::vector<int> order;
  order.clear();
  const auto note = handler([](CallFrame* frame) -> ffi::Error* {
    order.push_back(frame->stage);
    return nullptr;
  });
  const ScopedKernel kernel(ffi_record("test.order", note, note, note, note));
  run_kernel(*kernel);
  run_kernel(*kernel);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 1, 2, 3}));
}

TEST(Stages, PrepareAndInitializeSeeTheOperandsAndMayStopTheCall) {
  const ScopedKernel kernel(ffi_record("test.prepare", succeed, nullptr, handler([](CallFrame* frame) -> ffi::Error* {
                                         return frame->arguments.size == 1 ? fail(frame, 8, "no room")
                                                                           : fail(frame, 13, "count");
                                       })));
  DeviceArray a({1});
  expect_error(error_of([&] { run_kernel(*kernel, {a.buffer()}); }), MYDEV_RESOURCE_EXHAUSTED, "prepare: no room");
}

TEST(Stages, LeaveStatesToLaterOnesForOneCall) {
  const int before = states_alive;
  const auto leave = handler([](CallFrame* frame) -> ffi::Error* { return set_state(frame, 10 + frame->stage); });
  const ScopedKernel kernel(ffi_record("test.states", handler([](CallFrame* frame) -> ffi::Error* {
                                         int prepared = 0, initialized = 0;
                                         if (ffi::Error* error = get_state(frame, ffi::kPrepare, prepared))
                                           return error;
                                         if (ffi::Error* error = get_state(frame, ffi::kInitialize, initialized)) {
                                           return error;
                                         }
                                         return prepared == 11 && initialized == 12 ? nullptr
                                                                                    : fail(frame, 13, "state");
                                       }),
                                       nullptr, leave, leave));
  run_kernel(*kernel);
  EXPECT_EQ(states_alive, before);
}

struct Misuse {
  const char* name;
  ffi::Handler handler;
  mydev_code code;
  const char* message;
};
class StateMisuse : public testing::TestWithParam<Misuse> {};
INSTANTIATE_TEST_SUITE_P(
    States, StateMisuse,
    testing::Values(Misuse{"Missing", handler([](CallFrame* frame) -> ffi::Error* {
                             int value = 0;
                             return get_state(frame, ffi::kInstantiate, value);
                           }),
                           MYDEV_NOT_FOUND, "no state"},
                    Misuse{"SetWhileExecuting", handler([](CallFrame* frame) -> ffi::Error* {
                             const ffi::TypeId type{state_type()};
                             ffi::StateSetArgs3 args{sizeof(args), nullptr, frame->context,
                                                     frame->stage, &type,   nullptr};
                             return frame->api->state_set(&args);
                           }),
                           MYDEV_FAILED_PRECONDITION, "cannot be set in stage 3"},
                    Misuse{"UnknownType", handler([](CallFrame* frame) -> ffi::Error* {
                             const ffi::TypeId type{987654};
                             ffi::StateSetArgs3 args{sizeof(args), nullptr, frame->context,
                                                     frame->stage, &type,   nullptr};
                             return frame->api->state_set(&args);
                           }),
                           MYDEV_FAILED_PRECONDITION, "not registered with this host"},
                    Misuse{"ShortArguments", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::StateGetArgs3 args{
                                 sizeof(ffi::StateGetArgs2), nullptr, frame->context, 0, nullptr, nullptr};
                             return frame->api->state_get(&args);
                           }),
                           MYDEV_INVALID_ARGUMENT, "struct_size of at least 48"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(StateMisuse, IsRefused) {
  const ScopedKernel kernel(ffi_record("test.misuse", GetParam().handler));
  expect_error(error_of([&] { run_kernel(*kernel); }), GetParam().code, GetParam().message);
}

// Version 0.1 gives the deleter with the state; 0.2 has it from the type, but no stage.
ffi::Error* set_state_1(CallFrame* frame) {
  if (answer(frame, 1)) return nullptr;
  const ffi::TypeId type{4711};
  ffi::StateSetArgs1 args{sizeof(args), nullptr, frame->context, &type, new int(41), delete_state};
  ++states_alive;
  return frame->api->state_set(&args);
}
ffi::Error* set_state_2(CallFrame* frame) {
  if (answer(frame, 2)) return nullptr;
  const ffi::TypeId type{state_type()};
  ffi::StateSetArgs2 args{sizeof(args), nullptr, frame->context, &type, new int(42)};
  ++states_alive;
  return frame->api->state_set(&args);
}
template <int kMinor>
ffi::Error* get_state_2(CallFrame* frame) {
  if (answer(frame, kMinor)) return nullptr;
  const ffi::TypeId type{kMinor == 1 ? 4711 : state_type()};
  ffi::StateGetArgs2 args{sizeof(args), nullptr, frame->context, &type, nullptr};
  if (ffi::Error* error = frame->api->state_get(&args)) return error;
  return *static_cast<int*>(args.state) == 40 + kMinor ? nullptr : fail(frame, 13, "value");
}

TEST(States, HaveTheLayoutOfTheHandlersVersion) {
  const ScopedKernel first(ffi_record("test.state1", get_state_2<1>, set_state_1));
  run_kernel(*first);
  const ScopedKernel second(ffi_record("test.state2", get_state_2<2>, set_state_2));
  run_kernel(*second);
}

// --- the table's functions -------------------------------------------------------------------------------------------

TEST(FfiHost, GivesStreamDeviceAndOneRunIdPerCall) {
  static std::vector<int64_t> run_ids;
  run_ids.clear();
  const auto look = handler([](CallFrame* frame) -> ffi::Error* {
    ffi::StreamGetArgs stream{sizeof(stream), nullptr, frame->context, nullptr};
    if (ffi::Error* error = frame->api->stream_get(&stream)) return error;
    ffi::DeviceOrdinalGetArgs ordinal{ffi::kDeviceOrdinalGetArgsSize, nullptr, frame->context, -1};
    if (ffi::Error* error = frame->api->device_ordinal_get(&ordinal)) return error;
    ffi::RunIdGetArgs run{sizeof(run), nullptr, frame->context, 0};
    if (ffi::Error* error = frame->api->run_id_get(&run)) return error;
    run_ids.push_back(run.run_id);
    const bool right = stream.stream == default_stream(0).handle() && ordinal.ordinal == 0;
    return right ? nullptr : fail(frame, 13, "stream or device");
  });
  const ScopedKernel kernel(ffi_record("test.look", look, nullptr, look));
  run_kernel(*kernel);
  run_kernel(*kernel);
  ASSERT_EQ(run_ids.size(), 4U);
  EXPECT_EQ(run_ids[0], run_ids[1]);
  EXPECT_NE(run_ids[1], run_ids[2]);
}

TEST(FfiHost, HasNoDeviceWhileInstantiating) {
  const ScopedKernel kernel(ffi_record("test.early", succeed, handler([](CallFrame* frame) -> ffi::Error* {
                                         ffi::StreamGetArgs args{sizeof(args), nullptr, frame->context, nullptr};
                                         return frame->api->stream_get(&args);
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_FAILED_PRECONDITION, "while a handler is instantiated");
}

TEST(FfiHost, GivesDeviceMemoryAndTakesItBack) {
  static std::atomic<size_t> free_after;
  const ScopedKernel kernel(
      ffi_record("test.memory", handler([](CallFrame* frame) -> ffi::Error* {
                   void* kept = nullptr;
                   for (int i = 0; i < 2; ++i) {
                     ffi::MemoryAllocateArgs args{sizeof(args), nullptr, frame->context, 1000, 16, nullptr};
                     if (ffi::Error* error = frame->api->memory_allocate(&args)) return error;
                     std::memset(args.data, 1, 1000);
                     if (i == 0) {
                       kept = args.data;
                       continue;
                     }
                     if (args.data == kept) return fail(frame, 13, "the same memory twice");
                     ffi::MemoryFreeArgs free{sizeof(free), nullptr, frame->context, 1000, args.data};
                     if (ffi::Error* error = frame->api->memory_free(&free)) return error;
                   }
                   return nullptr;
                 })));
  run_kernel(*kernel);
  const int64_t before = allocator_stats(0).allocated_bytes.all.current;
  run_kernel(*kernel);
  EXPECT_EQ(allocator_stats(0).allocated_bytes.all.current, before);
}

class MemoryMisuse : public testing::TestWithParam<Misuse> {};
INSTANTIATE_TEST_SUITE_P(
    FfiHost, MemoryMisuse,
    testing::Values(Misuse{"Alignment", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::MemoryAllocateArgs args{sizeof(args), nullptr, frame->context, 8, 24, nullptr};
                             return frame->api->memory_allocate(&args);
                           }),
                           MYDEV_INVALID_ARGUMENT, "an alignment of 24"},
                    Misuse{"TooMuch", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::MemoryAllocateArgs args{sizeof(args), nullptr, frame->context, SIZE_MAX, 8, nullptr};
                             return frame->api->memory_allocate(&args);
                           }),
                           MYDEV_RESOURCE_EXHAUSTED, "more than any device has"},
                    Misuse{"OutOfMemory", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::MemoryAllocateArgs args{sizeof(args),    nullptr, frame->context,
                                                          size_t{1} << 50, 8,       nullptr};
                             return frame->api->memory_allocate(&args);
                           }),
                           MYDEV_RESOURCE_EXHAUSTED, "out of memory"},
                    Misuse{"FreeUnknown", handler([](CallFrame* frame) -> ffi::Error* {
                             int mine = 0;
                             ffi::MemoryFreeArgs args{sizeof(args), nullptr, frame->context, 4, &mine};
                             return frame->api->memory_free(&args);
                           }),
                           MYDEV_INVALID_ARGUMENT, "was not allocated"},
                    Misuse{"NullContext", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::MemoryAllocateArgs args{sizeof(args), nullptr, nullptr, 4, 4, nullptr};
                             return frame->api->memory_allocate(&args);
                           }),
                           MYDEV_INVALID_ARGUMENT, "the context is NULL"},
                    Misuse{"UnknownUserData", handler([](CallFrame* frame) -> ffi::Error* {
                             const ffi::TypeId type{123456};
                             ffi::ContextGetArgs args{sizeof(args), nullptr, frame->context, &type, nullptr};
                             return frame->api->context_get(&args);
                           }),
                           MYDEV_NOT_FOUND, "no user data of type 123456"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(MemoryMisuse, IsRefused) {
  const ScopedKernel kernel(ffi_record("test.misuse", GetParam().handler));
  expect_error(error_of([&] { run_kernel(*kernel); }), GetParam().code, GetParam().message);
}

TEST(FfiHost, GivesUserData) {
  static int data = 5;
  ffi::TypeId type{0};
  ASSERT_EQ(ffi::register_type("test.user_data", type, nullptr), nullptr);
  ffi::set_user_data(type, &data);
  static std::atomic<int64_t> id;
  id = type.id;
  const ScopedKernel kernel(ffi_record("test.user", handler([](CallFrame* frame) -> ffi::Error* {
                                         const ffi::TypeId wanted{id};
                                         ffi::ContextGetArgs args{sizeof(args), nullptr, frame->context, &wanted,
                                                                  nullptr};
                                         if (ffi::Error* error = frame->api->context_get(&args)) return error;
                                         return args.data == &data ? nullptr : fail(frame, 13, "data");
                                       })));
  run_kernel(*kernel);
  ffi::set_user_data(type, nullptr);
  EXPECT_EQ(error_of([&] { run_kernel(*kernel); }).code(), MYDEV_NOT_FOUND);
}

TEST(FfiHost, RegistersTypesOnce) {
  const ffi::Api& api = ffi::api_table(3);
  const ffi::TypeInfo info{sizeof(ffi::TypeInfo), nullptr, delete_state};
  ffi::TypeId type{0}, again{0};
  const std::string name = "test.type";
  ffi::TypeRegisterArgs args{ffi::kTypeRegisterArgsSize, nullptr, {name.data(), name.size()}, &type, &info};
  ASSERT_EQ(api.type_register(&args), nullptr);
  EXPECT_GT(type.id, 0);
  EXPECT_EQ(api.type_register(&args), nullptr) << "the same again";
  args.type_id = &again;
  std::unique_ptr<ffi::Error> error(api.type_register(&args));
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, MYDEV_ALREADY_EXISTS);
}

TEST(FfiHost, RegistersHandlers) {
  const ffi::Api& api = ffi::api_table(3);
  const std::string name = "test.from_table", platform = "Host";
  ffi::HandlerRegisterArgs args{ffi::kHandlerRegisterArgsSize,
                                nullptr,
                                {name.data(), name.size()},
                                {platform.data(), platform.size()},
                                {{nullptr, nullptr, nullptr, succeed}},
                                ffi::kCommandBufferCompatible};
  ASSERT_EQ(api.handler_register(&args), nullptr);
  const mydev_kernel* kernel = find_kernel(name);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->traits, MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE);
  run_kernel(*kernel);
  unregister_kernel(name);
}

TEST(FfiHost, GivesVersion01NoFutures) {
  const ScopedKernel kernel(ffi_record("test.old", handler<1>([](CallFrame* frame) -> ffi::Error* {
                                         ffi::FutureCreateArgs args{ffi::kFutureCreateArgsSize, nullptr, nullptr};
                                         return frame->api->future_create(&args);
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNIMPLEMENTED, "0.1");
  const ScopedKernel threads(ffi_record("test.old_threads", handler<1>([](CallFrame* frame) -> ffi::Error* {
                                          int64_t count = 0;
                                          ffi::ThreadPoolNumThreadsArgs args{sizeof(args), nullptr, frame->context,
                                                                             &count};
                                          return frame->api->thread_pool_num_threads(&args);
                                        })));
  run_kernel(*threads);
}

// --- threads ---------------------------------------------------------------------------------------------------------

TEST(ThreadPool, RunsEachTaskOnce) {
  static std::atomic<int> done;
  done = 0;
  const ScopedKernel kernel(ffi_record(
      "test.tasks", handler([](CallFrame* frame) -> ffi::Error* {
        int64_t threads = 0;
        ffi::ThreadPoolNumThreadsArgs count{sizeof(count), nullptr, frame->context, &threads};
        if (ffi::Error* error = frame->api->thread_pool_num_threads(&count)) return error;
        if (threads != parallel_threads() && threads < 1) return fail(frame, 13, "threads");
        for (int i = 0; i < 100; ++i) {
          ffi::ThreadPoolScheduleArgs args{sizeof(args), nullptr, frame->context,
                                           [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &done};
          if (ffi::Error* error = frame->api->thread_pool_schedule(&args)) return error;
        }
        return nullptr;
      })));
  run_kernel(*kernel);  // on the thread itself
  EXPECT_EQ(done, 100);
  run_kernel(*kernel);  // with the pool
  EXPECT_EQ(done, 200);
}

TEST(ThreadPool, IsReportedToBeMissingInBadArguments) {
  const ScopedKernel kernel(ffi_record("test.no_task", handler([](CallFrame* frame) -> ffi::Error* {
                                         ffi::ThreadPoolScheduleArgs args{sizeof(args), nullptr, frame->context,
                                                                          nullptr, nullptr};
                                         return frame->api->thread_pool_schedule(&args);
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_INVALID_ARGUMENT, "the task is NULL");
}

// --- futures ---------------------------------------------------------------------------------------------------------

class ScopedTimeout {
 public:
  explicit ScopedTimeout(const char* seconds) { ::setenv("MYDEV_CUSTOM_CALL_TIMEOUT", seconds, 1); }
  ~ScopedTimeout() { ::unsetenv("MYDEV_CUSTOM_CALL_TIMEOUT"); }
  ScopedTimeout(const ScopedTimeout&) = delete;
  ScopedTimeout& operator=(const ScopedTimeout&) = delete;
};

ffi::Future* create_future(const CallFrame* frame) {
  ffi::FutureCreateArgs args{ffi::kFutureCreateArgsSize, nullptr, nullptr};
  EXPECT_EQ(frame->api->future_create(&args), nullptr);
  return args.future;
}
void complete(const ffi::Api* api, ffi::Future* future) {
  ffi::FutureSetAvailableArgs args{sizeof(args), nullptr, future};
  EXPECT_EQ(api->future_set_available(&args), nullptr);
}
ffi::Error* complete_with_error(const ffi::Api* api, ffi::Future* future, ffi::Error* error) {
  ffi::FutureSetErrorArgs args{sizeof(args), nullptr, future, error};
  return api->future_set_error(&args);
}

// Threads that handlers start; joined at the end of a test.
std::vector<std::thread>& workers() {
  static std::vector<std::thread> threads;
  return threads;
}
class Futures : public testing::Test {
 protected:
  void TearDown() override {
    for (std::thread& thread : workers()) thread.join();
    workers().clear();
  }
};

TEST_F(Futures, AreAwaited) {
  const ScopedKernel kernel(ffi_record("test.later", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         workers().emplace_back([api = frame->api, future = frame->future,
                                                                 out = static_cast<float*>(result(frame, 0).data)] {
                                           *out = 7;
                                           complete(api, future);
                                         });
                                         return nullptr;
                                       })));
  DeviceArray out({1});
  run_kernel(*kernel, {out.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{7}));
}

TEST_F(Futures, MayBeCompletedBeforeTheHandlerReturns) {
  const ScopedKernel kernel(ffi_record("test.at_once", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         complete(frame->api, frame->future);
                                         return nullptr;
                                       })));
  run_kernel(*kernel);
}

TEST_F(Futures, PassOnErrors) {
  const ScopedKernel kernel(
      ffi_record("test.late_error", handler([](CallFrame* frame) -> ffi::Error* {
                   frame->future = create_future(frame);
                   workers().emplace_back([api = frame->api, future = frame->future] {
                     ffi::ErrorCreateArgs args{ffi::kErrorCreateArgsSize, nullptr, "late", MYDEV_DATA_LOSS};
                     EXPECT_EQ(complete_with_error(api, future, api->error_create(&args)), nullptr);
                   });
                   return nullptr;
                 })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_DATA_LOSS, "late");
}

TEST_F(Futures, TogetherWithAnErrorAreInternalErrors) {
  const ScopedKernel kernel(ffi_record("test.both", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         workers().emplace_back(
                                             [api = frame->api, future = frame->future] { complete(api, future); });
                                         return fail(frame, 3, "and an error");
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_INTERNAL, "an error together with a future: and an error");
}

TEST_F(Futures, ThatTheHostDidNotMakeAreInternalErrors) {
  const ScopedKernel kernel(ffi_record("test.invented", handler([](CallFrame* frame) -> ffi::Error* {
                                         static int anything;
                                         frame->future = reinterpret_cast<ffi::Future*>(&anything);
                                         return nullptr;
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_INTERNAL, "that this host did not make");
}

TEST_F(Futures, AreCompletedOnce) {
  static std::atomic<int> second;
  second = 0;
  const ScopedKernel kernel(ffi_record("test.twice", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         complete(frame->api, frame->future);
                                         ffi::FutureSetAvailableArgs args{sizeof(args), nullptr, frame->future};
                                         const std::unique_ptr<ffi::Error> error(
                                             frame->api->future_set_available(&args));
                                         second = error != nullptr ? error->code : MYDEV_OK;
                                         return nullptr;
                                       })));
  run_kernel(*kernel);
  EXPECT_EQ(second, MYDEV_FAILED_PRECONDITION);
}

TEST_F(Futures, NeverCompletedAreTimedOutAndKeepWhatTheyMayTouch) {
  const ScopedTimeout timeout("0.01");
  static std::atomic<bool> go;
  static std::atomic<bool> done;
  go = done = false;
  const ScopedKernel kernel(ffi_record("test.never", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         workers().emplace_back([frame, api = frame->api, future = frame->future] {
                                           go.wait(false);
                                           {
                                             const HostAccess access(device(0));  // the launch is over
                                             static_cast<float*>(result(frame, 0).data)[result(frame, 0).dims[0] - 1] =
                                                 1;
                                           }
                                           ffi::StreamGetArgs args{sizeof(args), nullptr, frame->context, nullptr};
                                           EXPECT_EQ(frame->api->stream_get(&args), nullptr);
                                           complete(api, future);
                                           done = true;
                                         });
                                         return nullptr;
                                       })));
  const int64_t before = allocator_stats(0).allocated_bytes.all.current;
  {
    DeviceArray out({1000});
    mydev_buffer part = out.buffer();
    const int64_t sizes[] = {900};
    part.data = out.data() + 100;
    part.sizes = sizes;
    expect_error(error_of([&] { run_kernel(*kernel, {part}, 1); }), MYDEV_DEADLINE_EXCEEDED,
                 "did not complete it within 0.01");
  }
  EXPECT_GT(allocator_stats(0).allocated_bytes.all.current, before) << "the result must stay";
  go = true;
  go.notify_all();
  workers().back().join();
  workers().pop_back();
  EXPECT_TRUE(done);
  EXPECT_EQ(allocator_stats(0).allocated_bytes.all.current, before);
}

TEST_F(Futures, ABadTimeoutIsNamed) {
  const ScopedTimeout timeout("soon");
  const ScopedKernel kernel(ffi_record("test.bad_timeout", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         complete(frame->api, frame->future);
                                         return nullptr;
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_INVALID_ARGUMENT, "MYDEV_CUSTOM_CALL_TIMEOUT='soon'");
}

// --- concurrency -----------------------------------------------------------------------------------------------------

TEST(Concurrency, CallsOfOneKernelShareItsInstances) {
  instantiations = 0;
  static std::atomic<int> sum;
  sum = 0;
  const ScopedKernel kernel(ffi_record("test.concurrent", handler([](CallFrame* frame) -> ffi::Error* {
                                         int value = 0;
                                         if (ffi::Error* error = get_state(frame, ffi::kInstantiate, value)) {
                                           return error;
                                         }
                                         ++sum;
                                         return nullptr;
                                       }),
                                       instantiate_counting));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t n = 0; n < 300; ++n) {
        const std::vector<mydev_attribute> attributes = {int_attribute("n", n % 3)};
        mydev_frame frame = make_frame({}, 0, attributes);
        frame.kernel = &*kernel;
        frame.host = &host_services();
        ASSERT_EQ((*kernel).entry(&frame), MYDEV_OK);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 1200);
  EXPECT_EQ(instantiations, 3);
}

TEST(Concurrency, HandlersMayRunOtherKernels) {
  static const mydev_kernel* inner;
  const ScopedKernel first(ffi_record("test.inner", add));
  inner = &*first;
  const ScopedKernel outer(ffi_record("test.outer", handler([](CallFrame* frame) -> ffi::Error* {
                                        float* data = static_cast<float*>(argument(frame, 0).data);
                                        const int64_t one = 1;
                                        const mydev_buffer operand{data, &one, &one, 1, MYDEV_F32};
                                        const std::vector<mydev_buffer> buffers = {
                                            {result(frame, 0).data, &one, &one, 1, MYDEV_F32}, operand, operand};
                                        mydev_frame nested = make_frame(buffers, 1);
                                        nested.kernel = inner;
                                        nested.host = &host_services();
                                        return inner->entry(&nested) == MYDEV_OK ? nullptr : fail(frame, 13, "nested");
                                      })));
  DeviceArray a({1}, 4), out({1});
  run_kernel(*outer, {out.buffer(), a.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{8}));
}

}  // namespace
}  // namespace mydev
