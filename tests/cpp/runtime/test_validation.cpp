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
#include "validation_fixture.h"

namespace mydev {
namespace {

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
  EXPECT_EQ(api.stream_synchronize(stream), MYDEV_OK) << "reported once";
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
