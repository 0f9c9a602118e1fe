// The validation layer: each kind of fault, of the caller's and of the driver's, is found and named; a program that
// orders its work is left alone. Each case has a process of its own, since there is one layer in a process.
//
// FakeDevice is a driver whose work is done when a test says so, and that does wrong as asked. The faulty drivers of
// tests/drivers come through the loader.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "built_files.h"
#include "error_fixture.h"
#include "runtime/command/launch.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_loader.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"
#include "runtime/validation/validation.h"

namespace mydev {
namespace {

constexpr uint64_t kPage = 4096;
constexpr uint64_t kBytes = 16 * kPage;

// --- a driver that does as a test says -------------------------------------------------------------------------------

struct FakeDevice {
  uint32_t capabilities = MYDEV_CAPABILITY_ASYNC;
  mydev_code answer = MYDEV_OK;  // of launch, copy and fill
  int32_t done = 1;              // of queries
  std::vector<mydev_frame*> frames;
  mydev_host_function function = nullptr;
  void* context = nullptr;
  uint64_t misalign = 0;
  void* next_memory = nullptr;  // what memory_alloc gives; else something new
  bool completes_in_launch = false;
};
FakeDevice fake;
int handles = 0;
alignas(kPage) std::array<char, 64 * kPage> arena;

template <typename Handle>
mydev_code make_handle(Handle* out) {
  *out = reinterpret_cast<Handle>(static_cast<uintptr_t>(16 * ++handles));  // NOLINT(performance-no-int-to-ptr)
  return MYDEV_OK;
}

mydev_code allocate_fake(int32_t /*device*/, uint64_t /*bytes*/, void** out) {
  static uint64_t used = 0;
  *out = fake.next_memory != nullptr ? fake.next_memory : arena.data() + used + fake.misalign;
  used += kBytes;
  return MYDEV_OK;
}

mydev_code launch_fake(mydev_stream /*stream*/, const mydev_kernel* /*kernel*/, mydev_frame* frame) {
  fake.frames.push_back(frame);
  if (fake.completes_in_launch) frame->host->complete(frame, MYDEV_OK);
  return fake.answer;
}

mydev_driver_api fake_table() {
  mydev_driver_api table{};
  table.struct_size = sizeof(table);
  table.name = "fake";
  table.initialize = [](const char*, const mydev_host_services*) { return MYDEV_OK; };
  table.last_error = [] { return "the fake device fails on request"; };
  table.device_count = [](int32_t* out) {
    *out = 2;
    return MYDEV_OK;
  };
  table.device_properties = [](int32_t, mydev_device_properties* out) {
    out->total_memory = 3 * kBytes;
    out->alignment = 256;
    out->capabilities = fake.capabilities;
    return MYDEV_OK;
  };
  table.memory_alloc = allocate_fake;
  table.memory_free = [](int32_t, void*, uint64_t) { return MYDEV_OK; };
  table.copy = [](mydev_stream, void*, const void*, uint64_t, mydev_copy_kind) { return fake.answer; };
  table.copy_strided = [](mydev_stream, const mydev_buffer*, const mydev_buffer*, mydev_copy_kind) {
    return fake.answer;
  };
  table.fill = [](mydev_stream, void*, uint64_t, const void*, uint32_t) { return fake.answer; };
  table.stream_create = [](int32_t, int32_t, mydev_stream* out) { return make_handle(out); };
  table.stream_destroy = [](mydev_stream) { return MYDEV_OK; };
  table.stream_query = [](mydev_stream, int32_t* out) {
    *out = fake.done;
    return MYDEV_OK;
  };
  table.stream_synchronize = [](mydev_stream) { return MYDEV_OK; };
  table.stream_wait_event = [](mydev_stream, mydev_event) { return MYDEV_OK; };
  table.stream_host_call = [](mydev_stream, mydev_host_function function, void* context) {
    fake.function = function;
    fake.context = context;
    return MYDEV_OK;
  };
  table.event_create = [](int32_t, uint32_t, mydev_event* out) { return make_handle(out); };
  table.event_destroy = [](mydev_event) { return MYDEV_OK; };
  table.event_record = [](mydev_event, mydev_stream) { return MYDEV_OK; };
  table.event_query = [](mydev_event, int32_t* out) {
    *out = fake.done;
    return MYDEV_OK;
  };
  table.event_synchronize = [](mydev_event) { return MYDEV_OK; };
  table.event_elapsed = [](mydev_event, mydev_event, double*) { return MYDEV_OK; };
  table.launch = launch_fake;
  return table;
}

class Validation : public testing::Test {
 protected:
  explicit Validation(uint32_t capabilities = MYDEV_CAPABILITY_ASYNC) {
    fake.capabilities = capabilities;
    detail::validate_driver(api);
    EXPECT_EQ(api.initialize("", &host_services()), MYDEV_OK);
    data = allocate();
    stream = make_stream();
    other = make_stream();
  }

  char* allocate(int32_t device = 0) {
    void* memory = nullptr;
    EXPECT_EQ(api.memory_alloc(device, kBytes, &memory), MYDEV_OK) << api.last_error();
    return static_cast<char*>(memory);
  }
  mydev_stream make_stream(int32_t device = 0) {
    mydev_stream made = nullptr;
    EXPECT_EQ(api.stream_create(device, 0, &made), MYDEV_OK);
    return made;
  }
  mydev_event make_event(int32_t device = 0, uint32_t flags = 0) {
    mydev_event made = nullptr;
    EXPECT_EQ(api.event_create(device, flags, &made), MYDEV_OK);
    return made;
  }
  mydev_code fill(mydev_stream on, char* dst, uint64_t bytes = kPage) { return api.fill(on, dst, bytes, "", 1); }
  mydev_code read(mydev_stream on, const char* src, uint64_t bytes = kPage) {
    return api.copy(on, data + 8 * kPage, src, bytes, MYDEV_COPY_DEVICE_TO_DEVICE);
  }
  void order(mydev_stream earlier, mydev_stream later) {
    const mydev_event event = make_event();
    EXPECT_EQ(api.event_record(event, earlier), MYDEV_OK);
    EXPECT_EQ(api.stream_wait_event(later, event), MYDEV_OK);
  }

  // A launch of "test.kernel" with one result of `count` numbers, a column of which `stride` tells.
  mydev_code launch(mydev_stream on, char* result, int64_t count = 8, int64_t stride = 1) {
    launched.push_back(std::make_unique<Launched>());
    Launched& it = *launched.back();
    it.size = count;
    it.stride = stride;
    it.buffer = {result, &it.size, &it.stride, 1, MYDEV_F32, 0};
    it.frame = make_frame({&it.buffer, 1}, 1);
    it.frame.stream = on;
    it.frame.host = &counting;
    it.frame.launch = &it;
    return api.launch(on, &kernel, &it.frame);
  }

  void expect_found(mydev_code code, mydev_code expected, const std::vector<std::string>& parts) const {
    EXPECT_EQ(code, expected);
    const std::string message = api.last_error();
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find("validate: "), 0U) << message;
    EXPECT_GT(validation::findings(), 0U);
  }
  void expect_status(mydev_stream of, const std::string& part) const {
    mydev_code status = MYDEV_OK;
    EXPECT_EQ(api.stream_status(of, &status), MYDEV_OK);
    expect_found(status, MYDEV_FAILED_PRECONDITION, {part});
  }

  struct Launched {
    int64_t size, stride;
    mydev_buffer buffer;
    mydev_frame frame;
  };
  inline static int completed = 0;
  mydev_driver_api api = fake_table();
  mydev_kernel kernel{.struct_size = sizeof(mydev_kernel), .name = "test.kernel"};
  mydev_host_services counting = [] {
    mydev_host_services services = host_services();
    services.complete = [](mydev_frame*, mydev_code) { ++completed; };
    return services;
  }();
  std::vector<std::unique_ptr<Launched>> launched;
  char* data;
  mydev_stream stream, other;
};

class InlineValidation : public Validation {
 protected:
  InlineValidation() : Validation(0) {}
};

// --- unordered use ---------------------------------------------------------------------------------------------------

TEST_F(Validation, FindsAReadThatWaitsForNoWrite) {
  ASSERT_EQ(launch(stream, data), MYDEV_OK);
  expect_found(read(other, data), MYDEV_FAILED_PRECONDITION,
               {"copy on the device on stream 1 of device 0", "reads its source", "test.kernel on stream 0 of device 0",
                "writes its result 0"});
}

TEST_F(Validation, FindsAWriteThatWaitsForNoRead) {
  ASSERT_EQ(read(stream, data), MYDEV_OK);
  expect_found(fill(other, data), MYDEV_FAILED_PRECONDITION, {"fill on stream 1", "reads its source"});
}

TEST_F(Validation, FindsAnOverlapOfOneByte) {
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  expect_found(fill(other, data + kPage - 1), MYDEV_FAILED_PRECONDITION, {"nothing orders them"});
}

TEST_F(Validation, ReadersNeedNoOrder) {
  ASSERT_EQ(read(stream, data), MYDEV_OK);
  EXPECT_EQ(api.copy(other, data + 10 * kPage, data, kPage, MYDEV_COPY_DEVICE_TO_DEVICE), MYDEV_OK);
}

TEST_F(Validation, AnEventOrders) {
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  order(stream, other);
  EXPECT_EQ(read(other, data), MYDEV_OK) << api.last_error();
}

TEST_F(Validation, AnEventOrdersWhatCameBeforeItAlone) {
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  order(stream, other);
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  expect_found(read(other, data), MYDEV_FAILED_PRECONDITION, {"fill on stream 0"});
}

TEST_F(Validation, OrderPassesThroughAThirdStream) {
  const mydev_stream third = make_stream();
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  order(stream, third);
  order(third, other);
  EXPECT_EQ(read(other, data), MYDEV_OK) << api.last_error();
}

TEST_F(Validation, AWaitOrders) {
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  ASSERT_EQ(api.stream_synchronize(stream), MYDEV_OK);
  EXPECT_EQ(read(other, data), MYDEV_OK) << api.last_error();
}

TEST_F(Validation, AQueryOrdersWhenItSaysDone) {
  int32_t done = 0;
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  fake.done = 0;
  ASSERT_EQ(api.stream_query(stream, &done), MYDEV_OK);
  expect_found(read(other, data), MYDEV_FAILED_PRECONDITION, {"nothing orders them"});
  fake.done = 1;
  ASSERT_EQ(api.stream_query(stream, &done), MYDEV_OK);
  EXPECT_EQ(read(other, data), MYDEV_OK) << api.last_error();
}

TEST_F(Validation, ARefusedCommandUsesNothing) {
  fake.answer = MYDEV_UNIMPLEMENTED;
  EXPECT_EQ(fill(stream, data), MYDEV_UNIMPLEMENTED);
  EXPECT_STREQ(api.last_error(), "the fake device fails on request");
  fake.answer = MYDEV_OK;
  EXPECT_EQ(read(other, data), MYDEV_OK) << api.last_error();
}

TEST_F(Validation, ColumnsThatLieBetweenEachOtherAreApart) {
  ASSERT_EQ(launch(stream, data, 100, 2), MYDEV_OK);
  EXPECT_EQ(launch(other, data + 4, 100, 2), MYDEV_OK) << api.last_error();
  expect_found(launch(other, data + 8, 100, 2), MYDEV_FAILED_PRECONDITION, {"nothing orders them"});
}

TEST_F(Validation, AHostCallThatHasNotReturnedMayOrder) {
  ASSERT_EQ(api.stream_host_call(other, [](void*) {}, nullptr), MYDEV_OK);
  ASSERT_EQ(fill(other, data), MYDEV_OK);
  EXPECT_EQ(fill(stream, data), MYDEV_OK) << api.last_error();
  ASSERT_EQ(api.stream_synchronize(stream), MYDEV_OK);
  fake.function(fake.context);
  EXPECT_EQ(fill(other, data), MYDEV_OK) << api.last_error();
  expect_found(fill(stream, data), MYDEV_FAILED_PRECONDITION, {"nothing orders them"});
}

TEST_F(InlineValidation, WorkThatIsDoneAtOnceIsOrdered) {
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  EXPECT_EQ(read(other, data), MYDEV_OK) << api.last_error();
}

// --- parameters and life times ---------------------------------------------------------------------------------------

TEST_F(Validation, FindsARangeBeyondItsAllocation) {
  expect_found(fill(stream, data, kBytes + 1), MYDEV_INVALID_ARGUMENT, {"reaches 1 bytes beyond its allocation"});
}

TEST_F(Validation, FindsMemoryOfAnotherDevice) {
  expect_found(fill(stream, allocate(1)), MYDEV_INVALID_ARGUMENT, {"it is memory of device 1"});
}

TEST_F(Validation, FindsFreedMemory) {
  expect_found(api.memory_free(0, data, kPage), MYDEV_INVALID_ARGUMENT, {"has 65536 bytes, not 4096"});
  ASSERT_EQ(api.memory_free(0, data, kBytes), MYDEV_OK);
  expect_found(fill(stream, data), MYDEV_INVALID_ARGUMENT, {"was freed"});
  expect_found(api.memory_free(0, data, kBytes), MYDEV_INVALID_ARGUMENT, {"no live allocation", "was freed"});
}

TEST_F(Validation, FindsMemoryFreedWithWorkPending) {
  ASSERT_EQ(launch(stream, data), MYDEV_OK);
  expect_found(api.memory_free(0, data, kBytes), MYDEV_FAILED_PRECONDITION, {"test.kernel on stream 0", "result 0"});
  fake.frames[0]->host->complete(fake.frames[0], MYDEV_OK);
  EXPECT_EQ(api.memory_free(0, data, kBytes), MYDEV_OK) << api.last_error();
}

TEST_F(Validation, FindsADestroyedStream) {
  ASSERT_EQ(api.stream_destroy(other), MYDEV_OK);
  expect_found(fill(other, data), MYDEV_INVALID_ARGUMENT, {"no live stream", "it was destroyed"});
}

TEST_F(Validation, FindsADestroyedEvent) {
  const mydev_event event = make_event();
  ASSERT_EQ(api.event_destroy(event), MYDEV_OK);
  expect_found(api.event_record(event, stream), MYDEV_INVALID_ARGUMENT, {"no live event", "it was destroyed"});
  expect_found(api.event_destroy(event), MYDEV_INVALID_ARGUMENT, {"no live event"});
}

TEST_F(Validation, FindsAnEventOfAnotherDevice) {
  expect_found(api.event_record(make_event(1), stream), MYDEV_INVALID_ARGUMENT, {"an event of device 1"});
}

TEST_F(Validation, FindsTimingOfEventsThatHaveNone) {
  double milliseconds = 0;
  const mydev_event event = make_event();
  expect_found(api.event_elapsed(event, event, &milliseconds), MYDEV_INVALID_ARGUMENT, {"MYDEV_EVENT_TIMING"});
  const mydev_event timed = make_event(0, MYDEV_EVENT_TIMING);
  expect_found(api.event_elapsed(timed, timed, &milliseconds), MYDEV_FAILED_PRECONDITION, {"never recorded"});
}

TEST_F(Validation, FindsWhatTheHeaderForbidsOfCopiesAndFills) {
  expect_found(api.fill(stream, data, kPage, "", 3), MYDEV_INVALID_ARGUMENT, {"the pattern has 3 bytes"});
  expect_found(api.fill(stream, data, 6, "", 4), MYDEV_INVALID_ARGUMENT, {"no multiple of the pattern's 4"});
  expect_found(fill(stream, data, 0), MYDEV_INVALID_ARGUMENT, {"bytes 0"});
  expect_found(api.copy(stream, data, data + 8, 16, MYDEV_COPY_DEVICE_TO_DEVICE), MYDEV_INVALID_ARGUMENT, {"overlap"});
  expect_found(api.copy(stream, data, data, 16, static_cast<mydev_copy_kind>(3)), MYDEV_INVALID_ARGUMENT, {"kind 3"});
}

TEST_F(Validation, FindsAStridedCopyOntoOneElement) {
  const int64_t size = 4, stride = 1, none = 0;
  const mydev_buffer dst{data, &size, &none, 1, MYDEV_F32, 0}, src{data + kPage, &size, &stride, 1, MYDEV_F32, 0};
  expect_found(api.copy_strided(stream, &dst, &src, MYDEV_COPY_DEVICE_TO_DEVICE), MYDEV_INVALID_ARGUMENT,
               {"the stride 0"});
}

TEST_F(Validation, FindsAnOperandWithoutData) {
  expect_found(launch(stream, nullptr), MYDEV_INVALID_ARGUMENT, {"result 0 has 8 elements and no data"});
}

// --- what the driver does --------------------------------------------------------------------------------------------

TEST_F(Validation, FindsACompletionTwice) {
  ASSERT_EQ(launch(stream, data), MYDEV_OK);
  mydev_frame* frame = fake.frames[0];
  const mydev_host_services* host = frame->host;
  host->complete(frame, MYDEV_OK);
  host->complete(frame, MYDEV_OK);
  EXPECT_EQ(completed, 1);
  EXPECT_EQ(validation::findings(), 1U);
}

TEST_F(Validation, FindsACompletionThatNeverCame) {
  ASSERT_EQ(launch(stream, data), MYDEV_OK);
  expect_found(api.stream_synchronize(stream), MYDEV_FAILED_PRECONDITION,
               {"has not completed test.kernel on stream 0"});
  EXPECT_EQ(api.stream_synchronize(stream), MYDEV_OK) << "told once";
}

TEST_F(Validation, FindsCompletionsOutOfOrder) {
  ASSERT_EQ(launch(stream, data), MYDEV_OK);
  ASSERT_EQ(launch(stream, data), MYDEV_OK);
  fake.frames[1]->host->complete(fake.frames[1], MYDEV_OK);
  expect_status(stream, "before test.kernel on stream 0");
}

TEST_F(Validation, FindsACompletionBeforeItsTurn) {
  ASSERT_EQ(api.stream_host_call(stream, [](void*) {}, nullptr), MYDEV_OK);
  ASSERT_EQ(launch(stream, data), MYDEV_OK);
  fake.frames[0]->host->complete(fake.frames[0], MYDEV_OK);
  expect_status(stream, "a host call that its stream was given before had not returned");
}

TEST_F(Validation, FindsACompletionOfARefusedLaunch) {
  fake.completes_in_launch = true;
  fake.answer = MYDEV_INTERNAL;
  expect_found(launch(stream, data), MYDEV_FAILED_PRECONDITION, {"refused test.kernel", "completed its frame"});
  EXPECT_EQ(completed, 0);
}

TEST_F(Validation, AcceptsACompletionDuringLaunch) {
  fake.completes_in_launch = true;
  EXPECT_EQ(launch(stream, data), MYDEV_OK) << api.last_error();
  EXPECT_EQ(completed, 1);
}

TEST_F(InlineValidation, FindsACompletionOfABorrowedFrame) {
  fake.completes_in_launch = true;
  expect_found(launch(stream, data), MYDEV_FAILED_PRECONDITION, {"which it only borrowed"});
  EXPECT_EQ(completed, 0);
}

TEST_F(InlineValidation, FindsPendingWorkWithoutAsync) {
  int32_t done = 1;
  fake.done = 0;
  expect_found(api.stream_query(stream, &done), MYDEV_FAILED_PRECONDITION, {"does not claim ASYNC"});
}

TEST_F(Validation, FindsAnUnknownCode) {
  fake.answer = static_cast<mydev_code>(31);  // the largest that the enum can hold
  expect_found(fill(stream, data), MYDEV_FAILED_PRECONDITION, {"returned 31, which is no mydev_code"});
}

TEST_F(Validation, FindsMemoryThatIsNotAligned) {
  fake.misalign = 64;
  void* memory = nullptr;
  expect_found(api.memory_alloc(0, kBytes, &memory), MYDEV_FAILED_PRECONDITION, {"not aligned to the promised 256"});
}

TEST_F(Validation, FindsMemoryThatIsGivenTwice) {
  fake.next_memory = data + kPage;
  void* memory = nullptr;
  expect_found(api.memory_alloc(0, kBytes, &memory), MYDEV_FAILED_PRECONDITION, {"overlaps a live allocation"});
}

TEST_F(Validation, FindsMoreMemoryThanThereIs) {
  allocate();
  allocate();
  void* memory = nullptr;
  expect_found(api.memory_alloc(0, kBytes, &memory), MYDEV_FAILED_PRECONDITION, {"and has given out"});
}

TEST_F(Validation, FindsAHostCallThatWasMadeTwice) {
  static int calls = 0;
  ASSERT_EQ(api.stream_host_call(stream, [](void*) { ++calls; }, nullptr), MYDEV_OK);
  fake.function(fake.context);
  fake.function(fake.context);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(validation::findings(), 1U);
}

TEST_F(Validation, FindsAtExitWhatNeverCame) {
  ASSERT_EQ(launch(stream, data), MYDEV_OK);
  ASSERT_EQ(api.stream_host_call(stream, [](void*) {}, nullptr), MYDEV_OK);
  testing::internal::CaptureStderr();
  api.finalize();
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_NE(said.find("has not completed test.kernel"), std::string::npos) << said;
  EXPECT_NE(said.find("has not made 1 calls"), std::string::npos) << said;
  EXPECT_NE(said.find("validate: findings: 2"), std::string::npos) << said;
}

// --- through the loader ----------------------------------------------------------------------------------------------

TEST(ValidationLoader, WrapsADriverByNameAndKeepsItsName) {
  const OpenDriver& driver = load_driver("validate:host:async");
  EXPECT_STREQ(driver.api.name, "host");
  mydev_stream stream = nullptr;
  ASSERT_EQ(driver.api.stream_create(0, 0, &stream), MYDEV_OK);
  EXPECT_EQ(driver.api.fill(stream, nullptr, 4, "", 1), MYDEV_INVALID_ARGUMENT);
}

TEST(ValidationLoader, ThereIsOneLayerInAProcess) {
  load_driver("validate:host");
  expect_error(error_of([] { load_driver("validate:host"); }), MYDEV_FAILED_PRECONDITION, "one validation layer");
}

// The host of a faulty driver with one launch given, and the error of the wait for it.
Error error_with_fault(const std::string& fault) {
  const std::string driver = "validate:" + built_file("drivers/faulty_host_driver.so") + ":async,fault=" + fault;
  ::setenv("MYDEV_DRIVER", driver.c_str(), 1);
  mydev_kernel kernel{.struct_size = sizeof(mydev_kernel), .name = "test.kernel"};
  kernel.entry = [](const mydev_frame*) { return MYDEV_OK; };
  mydev_frame frame = make_frame({}, 0);
  Stream& stream = default_stream(0);
  launch(kernel, frame, stream);
  return error_of([&] { stream.synchronize(); });
}

TEST(FaultyDriver, ThatCompletesTwiceIsFound) {
  expect_error(error_with_fault("completion_twice"), MYDEV_OK, "");
  EXPECT_EQ(validation::findings(), 1U);
}

TEST(FaultyDriver, ThatNeverCompletesIsFound) {
  expect_error(error_with_fault("completion_never"), MYDEV_FAILED_PRECONDITION, "has not completed test.kernel");
}

}  // namespace
}  // namespace mydev
