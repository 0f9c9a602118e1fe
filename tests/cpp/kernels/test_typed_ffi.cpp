// Typed-FFI kernels: frames, errors and the handshake, called through the registry and launch().
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "ffi_handlers.h"
#include "fuzz.h"
#include "kernels/ffi/ffi_attributes.h"
#include "runtime/driver/host_services.h"

namespace mydev {
namespace {

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
  int refused = 0;
  fuzz(20000, 20240614, [&](std::mt19937& random) {
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
  });
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

// Handlers of versions up to 0.3 get the message alone; the memory behind their arguments is theirs.
template <int kMinor>
ffi::Error* ask_for_details(CallFrame* frame) {
  ffi::Error* made = fail(frame, 5, "text");
  const bool has_code = kMinor >= 4;
  ffi::ErrorGetDetailsArgs args{has_code ? ffi::kErrorGetDetailsArgsSize : ffi::kErrorGetMessageArgsSize, nullptr, made,
                                nullptr, -1};
  frame->api->error_get_details(&args);
  const bool right = std::strcmp(args.message, "text") == 0 && args.code == (has_code ? 5 : -1);
  ffi::ErrorDestroyArgs destroy{sizeof(destroy), nullptr, made};
  frame->api->error_destroy(&destroy);
  return right ? nullptr : fail(frame, 13, "message or code");
}

template <int kMinor>
void expect_details() {
  const ScopedKernel kernel(
      ffi_record("test.errors", handler<kMinor>([](CallFrame* frame) { return ask_for_details<kMinor>(frame); })));
  run_kernel(*kernel);
}

TEST(TypedFfi, ErrorsTellTheirMessageAndCode) {
  expect_details<1>();
  expect_details<3>();
  expect_details<4>();
  expect_details<5>();
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
                                         Version{"v0_5", versioned<0, 5>, true},
                                         Version{"v0_6", versioned<0, 6>, false},
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

}  // namespace
}  // namespace mydev
