// The owner of a frame when an asynchronous driver copies what it needs (MYDEV_CAPABILITY_LAUNCH_COPIES), and failures
// that such a driver reports with the stream. The driver is made here, and notes what it is given.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <utility>

#include "error_fixture.h"
#include "runtime/command/launch.h"
#include "runtime/driver/device.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream.h"

namespace mydev {
namespace {

mydev_kernel record(const char* name) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  return kernel;
}

const mydev_kernel kOwn = record("driver.own");
const mydev_kernel kOfHost = record("host.other");

// The frames and calls that the driver has seen, and the codes that it is to return.
struct Seen {
  const mydev_frame* frame = nullptr;
  bool completes = false;
  int synchronized = 0;
  mydev_code launch_code = MYDEV_OK;
  mydev_code status_code = MYDEV_OK;  // of the call
  mydev_code status = MYDEV_OK;       // of the stream
};
Seen seen;

mydev_code launch_and_note(mydev_stream /*stream*/, const mydev_kernel* /*kernel*/, mydev_frame* frame) {
  seen.frame = frame;
  seen.completes = frame->launch != nullptr;
  if (seen.completes && seen.launch_code == MYDEV_OK) frame->host->complete(frame, MYDEV_OK);
  return seen.launch_code;
}

mydev_driver_api make_driver() {
  mydev_driver_api api{};
  api.struct_size = sizeof(api);
  api.name = "noting";
  api.version = "1";
  api.last_error = [] { return "the card is warm"; };
  api.stream_synchronize = [](mydev_stream) {
    ++seen.synchronized;
    return MYDEV_OK;
  };
  api.stream_query = [](mydev_stream, int32_t* out_done) {
    *out_done = 1;
    return MYDEV_OK;
  };
  api.launch = launch_and_note;
  api.find_kernel = [](int32_t, const char* name) -> const mydev_kernel* {
    return std::string(name) == kOwn.name ? &kOwn : nullptr;
  };
  api.stream_status = [](mydev_stream, mydev_code* out_status) {
    if (seen.status_code == MYDEV_OK) *out_status = std::exchange(seen.status, MYDEV_OK);
    return seen.status_code;
  };
  return api;
}

class LaunchCopies : public testing::Test {
 protected:
  void SetUp() override { seen = {}; }
  static Device make_device(const mydev_driver_api& api, uint32_t capabilities) {
    mydev_device_properties properties{};
    properties.capabilities = capabilities;
    return {0, &api, properties, 0};
  }
  static void launch_on(Stream& stream, const mydev_kernel& kernel, mydev_frame& frame) {
    launch_or_decline(kernel, frame, stream, {.of_driver = &kernel == &kOwn});
  }

  mydev_driver_api api_ = make_driver();
  Device device_ = make_device(api_, MYDEV_CAPABILITY_ASYNC | MYDEV_CAPABILITY_LAUNCH_COPIES);
  Stream stream_{device_, nullptr, 3, 0};
  mydev_frame frame_ = make_frame({}, 0);
};

TEST_F(LaunchCopies, OwnRecordsBorrowTheFrame) {
  launch_on(stream_, kOwn, frame_);
  EXPECT_EQ(seen.frame, &frame_);
  EXPECT_FALSE(seen.completes);
}

TEST_F(LaunchCopies, OtherRecordsHandTheFrameOver) {
  launch_on(stream_, kOfHost, frame_);
  EXPECT_NE(seen.frame, &frame_);
  EXPECT_TRUE(seen.completes);
}

TEST_F(LaunchCopies, WithoutTheCapabilityFramesAreHandedOver) {
  Device device = make_device(api_, MYDEV_CAPABILITY_ASYNC);
  Stream stream(device, nullptr, 0, 0);
  launch_on(stream, kOwn, frame_);
  EXPECT_NE(seen.frame, &frame_);
  EXPECT_TRUE(seen.completes);
}

TEST_F(LaunchCopies, ALaunchThatFailsAtOnceNamesTheKernel) {
  seen.launch_code = MYDEV_INVALID_ARGUMENT;
  expect_error(error_of([&] { launch_on(stream_, kOwn, frame_); }), MYDEV_INVALID_ARGUMENT,
               "the card is warm [INVALID_ARGUMENT in driver.own()");
}

// --- stream_status ---------------------------------------------------------------------------------------------------

TEST_F(LaunchCopies, AFailureOfTheStreamIsRaisedByTheNextWaitOnce) {
  seen.status = MYDEV_DATA_LOSS;
  launch_on(stream_, kOwn, frame_);
  expect_error(error_of([&] { stream_.synchronize(); }), MYDEV_DATA_LOSS,
               "the card is warm [DATA_LOSS in work of stream 3 on device mydev:0]");
  stream_.synchronize();
}

TEST_F(LaunchCopies, AFailureOfTheStreamIsFoundByAQuery) {
  seen.status = MYDEV_DATA_LOSS;
  EXPECT_EQ(error_of([&] { stream_.query(); }).code(), MYDEV_DATA_LOSS);
  EXPECT_TRUE(stream_.query());
}

TEST_F(LaunchCopies, AnEarlierErrorOfTheStreamIsTheOneRaised) {
  stream_.set_error(MYDEV_ABORTED, "earlier");
  seen.status = MYDEV_DATA_LOSS;
  EXPECT_EQ(error_of([&] { stream_.synchronize(); }).code(), MYDEV_ABORTED);
  stream_.synchronize();
}

TEST_F(LaunchCopies, AStatusThatCannotBeHadIsAnError) {
  seen.status_code = MYDEV_UNAVAILABLE;
  expect_error(error_of([&] { stream_.synchronize(); }), MYDEV_UNAVAILABLE,
               "asking for the status of a stream failed on device mydev:0: the card is warm [UNAVAILABLE]");
}

TEST_F(LaunchCopies, ADriverWithoutAStatusIsNotAsked) {
  api_.stream_status = nullptr;
  seen.status = MYDEV_DATA_LOSS;
  stream_.synchronize();
}

// --- host calls of a driver without them -----------------------------------------------------------------------------

TEST_F(LaunchCopies, AHostCallThatTheDriverCannotMakeWaitsForTheStream) {
  int synchronized_before = -1;
  stream_.host_call([&] { synchronized_before = seen.synchronized; }, "a call", "");
  EXPECT_EQ(synchronized_before, 1);
}

}  // namespace
}  // namespace mydev
