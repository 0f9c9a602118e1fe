// Streams and events of the runtime, with whichever driver MYDEV_DRIVER names.
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "runtime/base/status.h"
#include "runtime/command/launch.h"
#include "runtime/driver/device.h"
#include "runtime/stream/event.h"
#include "runtime/stream/recording_stream.h"
#include "runtime/stream/staging_stream.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

TEST(Stream, TheDefaultStreamIsCurrentAtFirst) {
  EXPECT_EQ(&current_stream(0), &default_stream(0));
  EXPECT_EQ(default_stream(0).id(), 0);
}

TEST(Stream, TheCurrentStreamIsTheThreadsOwn) {
  Stream& other = stream_from_pool(0, 0);
  Stream& previous = exchange_current_stream(other);
  EXPECT_EQ(&current_stream(0), &other);
  Stream* seen = nullptr;
  std::thread([&] { seen = &current_stream(0); }).join();
  EXPECT_EQ(seen, &default_stream(0));
  EXPECT_EQ(&exchange_current_stream(previous), &other);
  EXPECT_EQ(&current_stream(0), &previous);
}

TEST(Stream, TheCurrentStreamIsADevicesOwn) {
  if (device_count() < 2) {
    GTEST_SKIP() << "needs two devices";
  }
  Stream& previous = exchange_current_stream(stream_from_pool(1, 0));
  EXPECT_EQ(&current_stream(0), &default_stream(0));
  EXPECT_NE(&current_stream(1), &default_stream(1));
  exchange_current_stream(previous);
}

TEST(Stream, PoolsHandOutStreamsInTurn) {
  std::set<Stream*> seen;
  for (int i = 0; i < kPoolSize; ++i) {
    seen.insert(&stream_from_pool(0, 0));
  }
  EXPECT_EQ(seen.size(), static_cast<size_t>(kPoolSize));
  EXPECT_TRUE(seen.contains(&stream_from_pool(0, 0)));
}

TEST(Stream, ThoseForOneUseAreInNoPool) {
  std::set<Stream*> streams{&staging_stream(0), &recording_stream(0)};
  EXPECT_EQ(streams, (std::set<Stream*>{&staging_stream(0), &recording_stream(0)})) << "the same each time";
  streams.insert(&default_stream(0));
  EXPECT_EQ(streams.size(), 3U);
  for (int i = 0; i < kPoolSize; ++i) {
    EXPECT_FALSE(streams.contains(&stream_from_pool(0, 0)));
    EXPECT_FALSE(streams.contains(&stream_from_pool(0, -1)));
  }
}

TEST(Stream, ANegativePriorityIsTheHighPool) {
  Stream& high = stream_from_pool(0, -1);
  Stream& low = stream_from_pool(0, 0);
  EXPECT_EQ(high.priority(), device(0).properties.stream_priority_high);
  EXPECT_EQ(low.priority(), device(0).properties.stream_priority_low);
  EXPECT_GT(high.id(), kPoolSize);
}

TEST(Stream, IsFoundByItsId) {
  Stream& stream = stream_from_pool(0, 0);
  EXPECT_EQ(&stream_by_id(0, stream.id()), &stream);
}

class StreamId : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Unknown, StreamId, testing::Values(-1, 2 * kPoolSize + 4, 1 << 20));
TEST_P(StreamId, ThatNamesNoStreamIsRefused) {
  EXPECT_THROW(stream_by_id(0, GetParam()), Error);
}

TEST(Stream, OfAnInvalidDeviceIsRefused) {
  EXPECT_THROW(default_stream(device_count()), Error);
  EXPECT_THROW(current_stream(-1), Error);
  EXPECT_THROW(stream_from_pool(kMaxDevices, 0), Error);
}

class ExternalStream : public testing::Test {
 protected:
  void SetUp() override {
    check_driver(device(0), device(0).driver->stream_create(0, 0, &handle_), "creating a stream");
  }
  void TearDown() override { EXPECT_EQ(device(0).driver->stream_destroy(handle_), MYDEV_OK); }
  mydev_stream handle_ = nullptr;
};

TEST_F(ExternalStream, WrapsADriversHandle) {
  Stream& stream = register_external_stream(0, handle_);
  EXPECT_EQ(stream.handle(), handle_);
  EXPECT_EQ(&stream_by_id(0, stream.id()), &stream);
  stream.synchronize();
  release_external_stream(stream);
}

TEST_F(ExternalStream, IsClosedOnceReleased) {
  Stream& stream = register_external_stream(0, handle_);
  release_external_stream(stream);
  EXPECT_THROW(stream_by_id(0, stream.id()), Error);
  EXPECT_THROW(stream.synchronize(), Error);
  EXPECT_THROW(stream.query(), Error);
  EXPECT_THROW(exchange_current_stream(stream), Error);
  EXPECT_THROW(Event(0, false).record(stream), Error);
  EXPECT_THROW(release_external_stream(stream), Error);
}

TEST_F(ExternalStream, IsNoLongerCurrentOnceReleased) {
  Stream& stream = register_external_stream(0, handle_);
  Stream& previous = exchange_current_stream(stream);
  release_external_stream(stream);
  EXPECT_EQ(&current_stream(0), &default_stream(0));
  exchange_current_stream(previous);
}

TEST(Stream, TheDevicesOwnAreNeverReleased) {
  EXPECT_THROW(release_external_stream(default_stream(0)), Error);
}

TEST(Stream, HostCallsRunInOrder) {
  Stream& stream = stream_from_pool(0, 0);
  std::vector<int> order;
  stream.host_call([&] { order.push_back(1); }, "a call", "");
  stream.host_call([&] { order.push_back(2); }, "a call", "");
  stream.synchronize();
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(Stream, AnErrorThatAHostCallThrowsIsTheStreams) {
  Stream& stream = stream_from_pool(0, 0);
  stream.host_call([] { raise(MYDEV_OUT_OF_RANGE, "no such page"); }, "a call", "");
  try {
    stream.synchronize();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MYDEV_OUT_OF_RANGE);
    EXPECT_NE(std::string(error.what()).find("the host call a call failed: no such page [OUT_OF_RANGE on stream"),
              std::string::npos)
        << error.what();
  }
  stream.synchronize();
}

TEST(Stream, WhateverAHostCallThrowsIsTheStreamsError) {
  Stream& stream = stream_from_pool(0, 0);
  stream.host_call([] { throw std::runtime_error("odd"); }, "a call", "");
  EXPECT_THROW(stream.synchronize(), Error);
  stream.host_call([] { throw 7; }, "a call", "");
  EXPECT_THROW(stream.synchronize(), Error);
  stream.synchronize();
}

TEST(Stream, TheFirstErrorSticksUntilAWaitRaisesIt) {
  Stream& stream = stream_from_pool(0, 0);
  stream.set_error(MYDEV_OUT_OF_RANGE, "first");
  stream.set_error(MYDEV_INTERNAL, "second");
  try {
    stream.synchronize();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MYDEV_OUT_OF_RANGE);
    EXPECT_STREQ(error.what(), "first");
  }
  EXPECT_NO_THROW(stream.synchronize());
}

TEST(Stream, AnErrorIsRaisedAsThatOfItsOwner) {
  set_raiser([](mydev_code, const std::string& message, ErrorOwner owner) {
    if (owner == ErrorOwner::kCustomCall) throw std::domain_error(message);
  });
  Stream& stream = stream_from_pool(0, 0);
  stream.set_error(MYDEV_INVALID_ARGUMENT, "of a user's kernel", ErrorOwner::kCustomCall);
  EXPECT_THROW(stream.synchronize(), std::domain_error);
  stream.set_error(MYDEV_INVALID_ARGUMENT, "of our own");
  EXPECT_THROW(stream.synchronize(), Error);
  set_raiser(nullptr);
}

TEST(Stream, SynchronizingTheDeviceRaisesAndClearsTheErrorsOfAllStreams) {
  Stream& first = stream_from_pool(0, 0);
  Stream& second = stream_from_pool(0, 0);
  first.set_error(MYDEV_INTERNAL, "one");
  second.set_error(MYDEV_INTERNAL, "two");
  EXPECT_THROW(synchronize_device(device(0)), Error);
  EXPECT_NO_THROW(synchronize_device(device(0)));
  EXPECT_NO_THROW(first.synchronize());
  EXPECT_NO_THROW(second.synchronize());
}

TEST(Event, IsDoneBeforeItsFirstRecord) {
  const Event event(0, false);
  EXPECT_FALSE(event.recorded());
  EXPECT_TRUE(event.query());
  EXPECT_NO_THROW(event.synchronize());
  EXPECT_NO_THROW(event.block(default_stream(0)));
}

TEST(Event, IsDoneAfterSynchronize) {
  Event event(0, false);
  event.record(default_stream(0));
  event.synchronize();
  EXPECT_TRUE(event.recorded());
  EXPECT_TRUE(event.query());
}

TEST(Event, SynchronizeRaisesTheErrorOfItsStream) {
  Stream& stream = stream_from_pool(0, 0);
  Event event(0, false);
  event.record(stream);
  stream.set_error(MYDEV_INTERNAL, "broken");
  EXPECT_THROW(event.synchronize(), Error);
}

TEST(Event, TellsTheTimeBetweenTwoRecords) {
  Event start(0, true);
  Event end(0, true);
  start.record(default_stream(0));
  end.record(default_stream(0));
  end.synchronize();
  EXPECT_GE(start.elapsed(end), 0);
}

TEST(Event, ElapsedNeedsTiming) {
  Event start(0, false);
  Event end(0, true);
  start.record(default_stream(0));
  end.record(default_stream(0));
  EXPECT_THROW(start.elapsed(end), Error);
}

TEST(Event, ElapsedNeedsRecords) {
  Event start(0, true);
  const Event end(0, true);
  start.record(default_stream(0));
  EXPECT_THROW(start.elapsed(end), Error);
}

TEST(Event, IsNotRecordedOnAnotherDevicesStream) {
  if (device_count() < 2) {
    GTEST_SKIP() << "needs two devices";
  }
  Event event(0, false);
  EXPECT_THROW(event.record(default_stream(1)), Error);
}

TEST(Event, OfAnInvalidDeviceIsRefused) {
  EXPECT_THROW(Event(device_count(), false), Error);
}

}  // namespace
}  // namespace mydev
