// Services that the runtime offers to drivers and kernels: the log, and workspaces from the allocator. The tests run
// with whichever driver MYDEV_DRIVER names.
#include <gtest/gtest.h>

#include <string>
#include <thread>

#include "runtime/base/log.h"
#include "runtime/driver/device.h"
#include "runtime/driver/host_services.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/memory/workspace.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

const mydev_host_services& services() {
  return host_services();
}

// --- log -------------------------------------------------------------------------------------------------------------

std::string logged_to_stderr(mydev_log_level level, const char* message) {
  testing::internal::CaptureStderr();
  services().log(level, message);
  return testing::internal::GetCapturedStderr();
}

TEST(Log, WritesWarningsToStderrWithoutAReader) {
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_WARNING, "fan stopped"), "torch_mydev WARNING: fan stopped\n");
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_ERROR, "on fire"), "torch_mydev ERROR: on fire\n");
}

TEST(Log, IsQuietOfTheRestWithoutAReader) {
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_INFO, "found a device"), "");
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_DEBUG, "looking"), "");
}

TEST(Log, WritesWhatTheVariableSaysWithoutAReader) {
  ::setenv("MYDEV_LOG", "debug", 1);
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_DEBUG, "looking"), "torch_mydev DEBUG: looking\n");
  ::setenv("MYDEV_LOG", "error", 1);
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_WARNING, "fan stopped"), "");
  ::setenv("MYDEV_LOG", "loud", 1);
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_WARNING, "fan stopped"), "torch_mydev WARNING: fan stopped\n");
  ::unsetenv("MYDEV_LOG");
}

TEST(Log, TakesWhatIsNoText) {
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_WARNING, nullptr), "torch_mydev WARNING: \n");
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_WARNING, "\xff"), "torch_mydev WARNING: ?\n");
}

std::string last_seen;

TEST(Log, GoesToItsReader) {
  set_log_sink([](mydev_log_level level, const char* message) {
    last_seen = std::to_string(level) + " " + message;
    return true;
  });
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_ERROR, "on fire"), "");
  EXPECT_EQ(last_seen, "40 on fire");
  set_log_sink([](mydev_log_level, const char*) { return false; });
  EXPECT_EQ(logged_to_stderr(MYDEV_LOG_ERROR, "on fire"), "torch_mydev ERROR: on fire\n");
  set_log_sink(nullptr);
}

// --- workspaces ------------------------------------------------------------------------------------------------------

mydev_stream stream() {
  return default_stream(0).handle();
}

void* workspace(uint64_t bytes) {
  void* data = nullptr;
  EXPECT_EQ(services().device_alloc(0, stream(), bytes, &data), MYDEV_OK) << services().last_error();
  return data;
}

TEST(Workspace, IsOfTheAllocatorsMemory) {
  const int64_t before = allocator_stats(0).allocated_bytes.all.current;
  void* data = workspace(1 << 20);
  ASSERT_NE(data, nullptr);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(data) % 64, 0U);
  EXPECT_GE(allocator_stats(0).allocated_bytes.all.current, before + (1 << 20));
  EXPECT_EQ(services().device_free(0, stream(), data), MYDEV_OK);
  default_stream(0).synchronize();
  EXPECT_EQ(allocator_stats(0).allocated_bytes.all.current, before);
}

TEST(Workspace, OfALaunchIsReusedInTheOrderOfTheStream) {
  const LaunchScope launching;
  void* first = workspace(3 << 20);
  EXPECT_EQ(services().device_free(0, stream(), first), MYDEV_OK);
  void* second = workspace(3 << 20);
  EXPECT_EQ(second, first);
  EXPECT_EQ(services().device_free(0, stream(), second), MYDEV_OK);
}

TEST(Workspace, OfWorkThatRunsIsApartFromThatOfLaunches) {
  if (!device(0).asynchronous()) {
    GTEST_SKIP() << "needs an asynchronous driver";
  }
  void* of_launch = nullptr;
  {
    const LaunchScope launching;
    of_launch = workspace(3 << 20);
    EXPECT_EQ(services().device_free(0, stream(), of_launch), MYDEV_OK);  // work that is given already may use it
  }
  void* of_work = nullptr;
  std::thread([&] { of_work = workspace(3 << 20); }).join();
  EXPECT_NE(of_work, of_launch);
  EXPECT_EQ(services().device_free(0, stream(), of_work), MYDEV_OK);
}

TEST(Workspace, MayBeGivenBackOnAnotherStream) {
  void* data = workspace(4096);
  EXPECT_EQ(services().device_free(0, stream_from_pool(0, 0).handle(), data), MYDEV_OK);
}

TEST(Workspace, BeyondTheMemoryIsResourceExhausted) {
  void* data = &data;
  EXPECT_EQ(services().device_alloc(0, stream(), uint64_t{1} << 60, &data), MYDEV_RESOURCE_EXHAUSTED);
  EXPECT_NE(std::string(services().last_error()).find("out of memory on mydev:0"), std::string::npos);
  EXPECT_EQ(data, &data) << "a function that fails leaves its outputs alone";
}

TEST(Workspace, OfAnUnknownStreamIsRefused) {
  void* data = nullptr;
  EXPECT_EQ(services().device_alloc(0, reinterpret_cast<mydev_stream>(8), 64, &data), MYDEV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(services().last_error()).find("no stream of device 0"), std::string::npos);
  EXPECT_NE(services().device_alloc(99, stream(), 64, &data), MYDEV_OK);
  EXPECT_EQ(services().device_alloc(0, stream(), 0, &data), MYDEV_INVALID_ARGUMENT);
}

TEST(Workspace, ThatIsNoneIsNotFreed) {
  int number = 0;
  EXPECT_EQ(services().device_free(0, stream(), &number), MYDEV_INVALID_ARGUMENT);
  EXPECT_NE(std::string(services().last_error()).find("is not from device_alloc"), std::string::npos);
  void* data = workspace(64);
  EXPECT_EQ(services().device_free(0, stream(), data), MYDEV_OK);
  EXPECT_EQ(services().device_free(0, stream(), data), MYDEV_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace mydev
