// Kernels of XLA's API versions 1 to 3: their six forms, called through the registry and launch().
#include <atomic>
#include <stdexcept>

#include "built_files.h"
#include "ffi_fixture.h"
#include "kernels/custom_call/legacy_status.h"
#include "kernels/registry/kernel_library.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

template <typename Function>
mydev_kernel legacy_record(mydev_kernel_kind kind, Function function, uint32_t traits = 0) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = "test.legacy";
  kernel.kind = kind;
  kernel.traits = traits;
  kernel.execute = reinterpret_cast<mydev_function>(function);
  return kernel;
}

bool is_host(mydev_kernel_kind kind) {
  return kind == MYDEV_KIND_ORIGINAL_HOST || kind == MYDEV_KIND_STATUS_HOST || kind == MYDEV_KIND_UNIFIED_HOST;
}
bool has_status(mydev_kernel_kind kind) {
  return kind != MYDEV_KIND_ORIGINAL_HOST && kind != MYDEV_KIND_ORIGINAL_DEVICE;
}
bool has_opaque(mydev_kernel_kind kind) {
  return kind != MYDEV_KIND_ORIGINAL_HOST && kind != MYDEV_KIND_STATUS_HOST;
}

// The arguments that a kernel was called with, whatever its form.
struct Seen {
  void* out = nullptr;
  std::vector<const void*> in;
  void** buffers = nullptr;
  std::string opaque;
  void* stream = nullptr;
};
Seen seen;
size_t num_in;
void (*work)(const Seen& seen, LegacyStatus* status);

void note_host(void* out, const void** in, const char* opaque, size_t size, LegacyStatus* status) {
  seen = {out, std::vector<const void*>(in, in + num_in), nullptr, std::string(opaque, size), nullptr};
  work(seen, status);
}
void note_device(void* stream, void** buffers, const char* opaque, size_t size, LegacyStatus* status) {
  seen = {nullptr, std::vector<const void*>(buffers, buffers + num_in), buffers, std::string(opaque, size), stream};
  work(seen, status);
}
void original_host(void* out, const void** in) {
  note_host(out, in, "", 0, nullptr);
}
void original_device(void* stream, void** buffers, const char* opaque, size_t size) {
  note_device(stream, buffers, opaque, size, nullptr);
}
void status_host(void* out, const void** in, LegacyStatus* status) {
  note_host(out, in, "", 0, status);
}

mydev_kernel record_of(mydev_kernel_kind kind, uint32_t traits = 0) {
  switch (kind) {
    case MYDEV_KIND_ORIGINAL_HOST:
      return legacy_record(kind, original_host, traits);
    case MYDEV_KIND_ORIGINAL_DEVICE:
      return legacy_record(kind, original_device, traits);
    case MYDEV_KIND_STATUS_HOST:
      return legacy_record(kind, status_host, traits);
    case MYDEV_KIND_UNIFIED_HOST:
      return legacy_record(kind, note_host, traits);
    default:
      return legacy_record(kind, note_device, traits);
  }
}

class LegacyKinds : public testing::TestWithParam<mydev_kernel_kind> {
 protected:
  void SetUp() override {
    seen = {};
    num_in = 0;
    work = [](const Seen&, LegacyStatus*) {};
  }
  // The result's memory, wherever the form has it.
  static void* result(size_t index, bool tuple) {
    if (seen.buffers != nullptr) return seen.buffers[num_in + index];
    return tuple ? static_cast<void**>(seen.out)[index] : seen.out;
  }
};
INSTANTIATE_TEST_SUITE_P(Kinds, LegacyKinds,
                         testing::Values(MYDEV_KIND_ORIGINAL_HOST, MYDEV_KIND_ORIGINAL_DEVICE, MYDEV_KIND_STATUS_HOST,
                                         MYDEV_KIND_STATUS_DEVICE, MYDEV_KIND_UNIFIED_HOST, MYDEV_KIND_UNIFIED_DEVICE));

TEST_P(LegacyKinds, GetOperandsAndOneResult) {
  work = [](const Seen& call, LegacyStatus*) {
    *static_cast<float*>(result(0, false)) =
        *static_cast<const float*>(call.in[0]) - *static_cast<const float*>(call.in[1]);
  };
  num_in = 2;
  const ScopedKernel kernel(record_of(GetParam()));
  DeviceArray a({1}, 5), b({1}, 3), out({1});
  run_kernel(*kernel, {out.buffer(), a.buffer(), b.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{2}));
}

TEST_P(LegacyKinds, GetTwoResultsAsATuple) {
  work = [](const Seen&, LegacyStatus*) {
    *static_cast<float*>(result(0, true)) = 1;
    *static_cast<float*>(result(1, true)) = 2;
  };
  const ScopedKernel kernel(record_of(GetParam()));
  DeviceArray first({1}), second({1});
  run_kernel(*kernel, {first.buffer(), second.buffer()}, 2);
  EXPECT_EQ(first.values(), (std::vector<float>{1}));
  EXPECT_EQ(second.values(), (std::vector<float>{2}));
}

TEST_P(LegacyKinds, GetATupleOfOneWhereTheRecordSaysSo) {
  if (!is_host(GetParam())) {
    expect_error(error_of([] { const ScopedKernel kernel(record_of(GetParam(), MYDEV_TRAIT_TUPLE_RESULT)); }),
                 MYDEV_INVALID_ARGUMENT, "legacy host kinds");
    return;
  }
  work = [](const Seen&, LegacyStatus*) { *static_cast<float*>(result(0, true)) = 3; };
  const ScopedKernel kernel(record_of(GetParam(), MYDEV_TRAIT_TUPLE_RESULT));
  DeviceArray out({1});
  run_kernel(*kernel, {out.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{3}));
}

TEST_P(LegacyKinds, TakeNoOperandsAndNoResults) {
  static std::atomic<int> calls;
  calls = 0;
  work = [](const Seen&, LegacyStatus*) { ++calls; };
  const ScopedKernel kernel(record_of(GetParam()));
  run_kernel(*kernel);
  EXPECT_EQ(calls, 1);
}

TEST_P(LegacyKinds, TakeMoreOperandsThanFitOnTheStack) {
  work = [](const Seen& call, LegacyStatus*) {
    float sum = 0;
    for (const void* operand : call.in) sum += *static_cast<const float*>(operand);
    *static_cast<float*>(result(0, false)) = sum;
  };
  num_in = 40;
  const ScopedKernel kernel(record_of(GetParam()));
  DeviceArray a({1}, 2), out({1});
  std::vector<mydev_buffer> buffers(41, a.buffer());
  buffers[0] = out.buffer();
  run_kernel(*kernel, buffers, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{80}));
}

TEST_P(LegacyKinds, GetOpaqueBytesWithNuls) {
  const ScopedKernel kernel(record_of(GetParam()));
  const std::string opaque("a\0b\0", 4);
  run_kernel(*kernel, {}, 0, {int_attribute("other", 1), string_attribute("opaque", opaque)});
  EXPECT_EQ(seen.opaque, has_opaque(GetParam()) ? opaque : "");
}

TEST_P(LegacyKinds, GetTokensAndEmptyBuffers) {
  num_in = 2;
  const ScopedKernel kernel(record_of(GetParam()));
  char anything = 0;
  const int64_t sizes[] = {0}, strides[] = {4};
  run_kernel(*kernel, {{&anything, nullptr, nullptr, 0, MYDEV_TOKEN}, {&anything, sizes, strides, 1, MYDEV_F32}});
  EXPECT_EQ(seen.in[0], nullptr);
  EXPECT_EQ(seen.in[1], &anything);
}

TEST_P(LegacyKinds, GetTheDevicesStream) {
  const ScopedKernel kernel(record_of(GetParam()));
  run_kernel(*kernel);
  EXPECT_EQ(seen.stream, is_host(GetParam()) ? nullptr : default_stream(0).handle());
}

TEST_P(LegacyKinds, ReportErrorsWhereTheyCan) {
  work = [](const Seen&, LegacyStatus* status) {
    if (status != nullptr) status->message = "bad shape";
  };
  const ScopedKernel kernel(record_of(GetParam()));
  const Error error = error_of([&] { run_kernel(*kernel); });
  if (has_status(GetParam())) {
    expect_error(error, MYDEV_INTERNAL, "the custom call failed: bad shape");
  } else {
    EXPECT_EQ(error.code(), MYDEV_OK);
  }
}

TEST_P(LegacyKinds, AreSurvivedWhenTheyThrow) {
  work = [](const Seen&, LegacyStatus*) { throw std::runtime_error("thrown"); };
  const ScopedKernel kernel(record_of(GetParam()));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNKNOWN, "the custom call threw: thrown");
}

TEST_P(LegacyKinds, RefuseStridedOperands) {
  num_in = 1;
  const ScopedKernel kernel(record_of(GetParam()));
  DeviceArray a({4});
  const int64_t sizes[] = {2}, strides[] = {2};
  expect_error(error_of([&] { run_kernel(*kernel, {{a.data(), sizes, strides, 1, MYDEV_F32}}); }),
               MYDEV_INVALID_ARGUMENT, "operand 0 is not dense");
}

TEST(LegacyStatus, IsSetByTheFunctionsThatTheHostProvides) {
  load_kernel_library(built_file("kernels/c_library.so"));
  const std::string opaque("up to the NUL\0not this", 22);
  const mydev_kernel* kernel = find_kernel("c.fail");
  ASSERT_NE(kernel, nullptr);
  const Error error = error_of([&] { run_kernel(*kernel, {}, 0, {string_attribute("opaque", opaque)}); });
  expect_error(error, MYDEV_INTERNAL, "the custom call failed: up to the NUL [");
}

}  // namespace
}  // namespace mydev
