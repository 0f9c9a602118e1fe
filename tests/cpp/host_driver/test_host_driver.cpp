// The host driver: its options, its memory, and the modes that imitate real devices.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <latch>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/host_error.h"
#include "host_driver/host_options.h"
#include "host_driver/memory/host_memory.h"
#include "host_driver/observe/profiler.h"
#include "host_driver/observe/telemetry.h"
#include "host_driver/stream/host_stream.h"
#include "runtime/base/status.h"
#include "runtime/command/launch.h"
#include "runtime/driver/device.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

using host_driver::DriverError;
using host_driver::FaultKind;
using host_driver::FaultPlan;
using host_driver::Faults;
using host_driver::HostEvent;
using host_driver::HostMemory;
using host_driver::HostOptions;
using host_driver::HostStream;
using host_driver::MemoryAccess;
using host_driver::parse_host_options;

constexpr uint64_t kMiB = uint64_t{1} << 20;

// --- options ---------------------------------------------------------------------------------------------------------

TEST(HostOptions, FaultsAreASeedAndFailures) {
  EXPECT_FALSE(parse_host_options("").faults.delays);
  EXPECT_TRUE(parse_host_options("faults").faults.delays);
  const FaultPlan plan = parse_host_options("async,faults=7:copy@3:launch@1,guarded").faults;
  EXPECT_TRUE(plan.delays);
  EXPECT_EQ(plan.seed, 7U);
  ASSERT_EQ(plan.failures.size(), 2U);
  EXPECT_EQ(plan.failures[0].kind, FaultKind::kCopy);
  EXPECT_EQ(plan.failures[0].number, 3U);
  EXPECT_FALSE(parse_host_options("faults=copy@3").faults.delays);
  for (const char* wrong : {"faults=", "faults=x", "faults=copy@", "faults=copy@0", "faults=sort@1", "faults=1:"}) {
    EXPECT_THROW(parse_host_options(wrong), DriverError) << wrong;
  }
}

TEST(HostOptions, DefaultToOneInlineDevice) {
  const HostOptions options = parse_host_options("");
  EXPECT_EQ(options.devices, 1);
  EXPECT_EQ(options.memory, 0U);
  EXPECT_FALSE(options.asynchronous);
  EXPECT_FALSE(options.guarded);
  EXPECT_FALSE(options.remote);
}

TEST(HostOptions, CombineInAnyOrder) {
  const HostOptions options = parse_host_options("guarded,memory=3M,devices=2,async,remote");
  EXPECT_EQ(options.devices, 2);
  EXPECT_EQ(options.memory, 3 * kMiB);
  EXPECT_TRUE(options.asynchronous);
  EXPECT_TRUE(options.guarded);
  EXPECT_TRUE(options.remote);
}

struct SizeCase {
  const char* text;
  uint64_t bytes;
};
class HostOptionsSize : public testing::TestWithParam<SizeCase> {};
INSTANTIATE_TEST_SUITE_P(Sizes, HostOptionsSize,
                         testing::Values(SizeCase{"memory=1", 1}, SizeCase{"memory=5K", 5 << 10},
                                         SizeCase{"memory=7M", 7 * kMiB}, SizeCase{"memory=2G", 2048 * kMiB}));
TEST_P(HostOptionsSize, TakesSuffixes) {
  EXPECT_EQ(parse_host_options(GetParam().text).memory, GetParam().bytes);
}

class HostOptionsRefusal : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Texts, HostOptionsRefusal,
                         testing::Values("devices", "devices=", "devices=x", "devices=-1", "devices=17", "devices=2x",
                                         "memory=", "memory=0", "memory=3X", "memory=M", "memory=99999999999999G",
                                         "async=1", "guarded=yes", "kernels", "kernels=some", "color=red", "Async",
                                         " async"));
TEST_P(HostOptionsRefusal, NamesTheOption) {
  try {
    parse_host_options(GetParam());
    FAIL() << "accepted";
  } catch (const DriverError& error) {
    EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("option '" + std::string(GetParam())), std::string::npos) << error.what();
  }
}

TEST(HostOptions, AnUnknownOneIsToldTheValidOnes) {
  try {
    parse_host_options("devices=2,asinc");
    FAIL() << "accepted";
  } catch (const DriverError& error) {
    EXPECT_NE(std::string(error.what()).find("devices=N, memory=SIZE, async, guarded, remote"), std::string::npos);
  }
}

// --- memory ----------------------------------------------------------------------------------------------------------

class HostMemoryTest : public testing::Test {
 protected:
  HostMemoryTest() { memory_.configure(0, 64 * kMiB, false, /*remote=*/false); }
  HostMemory memory_;
};

TEST_F(HostMemoryTest, LimitsWhatIsAllocated) {
  void* most = memory_.allocate(60 * kMiB);
  EXPECT_THROW(memory_.allocate(4 * kMiB + 1), DriverError);
  void* remainder = memory_.allocate(4 * kMiB);
  EXPECT_EQ(memory_.allocated(), memory_.limit());
  memory_.free(most);
  memory_.free(remainder);
  EXPECT_EQ(memory_.allocated(), 0U);
}

TEST_F(HostMemoryTest, SaysHowMuchIsFree) {
  try {
    memory_.allocate(65 * kMiB);
    FAIL() << "allocated";
  } catch (const DriverError& error) {
    EXPECT_EQ(error.code(), MYDEV_RESOURCE_EXHAUSTED);
    EXPECT_STREQ(error.what(), "out of memory: 68157440 bytes asked for, 67108864 of 67108864 bytes free");
  }
}

TEST_F(HostMemoryTest, RefusesToFreeWhatItDidNotGive) {
  int local = 0;
  EXPECT_THROW(memory_.free(&local), DriverError);
}

TEST_F(HostMemoryTest, AlignsLargePiecesToHugePages) {
  void* small = memory_.allocate(100);
  void* large = memory_.allocate(3 * kMiB);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(large) % (2 * kMiB), 0U);
  memory_.free(small);
  memory_.free(large);
}

TEST_F(HostMemoryTest, ReusesAddressesInAnyOrderOfFreeing) {
  std::vector<void*> pieces;
  for (int i = 0; i < 8; ++i) {
    pieces.push_back(memory_.allocate(2 * kMiB));
  }
  for (const size_t i : {3U, 0U, 7U, 1U, 2U, 6U, 4U, 5U}) {
    memory_.free(pieces[i]);
  }
  void* whole = memory_.allocate(16 * kMiB);
  EXPECT_EQ(whole, pieces[0]);
  memory_.free(whole);
}

TEST_F(HostMemoryTest, GivesFreedPagesBack) {
  auto* first = static_cast<char*>(memory_.allocate(kMiB));
  std::memset(first, 1, kMiB);
  memory_.free(first);
  auto* second = static_cast<char*>(memory_.allocate(kMiB));
  ASSERT_EQ(first, second);
  EXPECT_EQ(second[0], 0) << "a fresh page, not the old one";
  memory_.free(second);
}

TEST_F(HostMemoryTest, ServesThreads) {
  std::vector<std::jthread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&] {
      for (int round = 0; round < 100; ++round) {
        void* piece = memory_.allocate(kMiB);
        static_cast<char*>(piece)[round] = 1;
        memory_.free(piece);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(memory_.allocated(), 0U);
}

// --- guarded memory --------------------------------------------------------------------------------------------------

TEST(GuardedMemoryDeathTest, AStrayAccessDiesWithTheAddressAndTheRemedy) {
  EXPECT_DEATH(
      {
        static HostMemory memory;
        memory.configure(3, kMiB, true, /*remote=*/false);
        *static_cast<volatile char*>(memory.allocate(100)) = 1;
      },
      "host driver: invalid access to memory of device 3 at address 0x[0-9a-f]+: the host touched it outside a launch");
}

TEST(GuardedMemoryDeathTest, AnAccessToFreedMemoryDiesEvenInsideAScope) {
  EXPECT_DEATH(
      {
        static HostMemory memory;
        memory.configure(3, kMiB, true, /*remote=*/false);
        void* data = memory.allocate(100);
        memory.free(data);
        const MemoryAccess access(memory);
        *static_cast<volatile char*>(data) = 1;
      },
      "no allocation lies there");
}

TEST(GuardedMemory, IsAccessibleInNestedScopes) {
  static HostMemory memory;
  memory.configure(4, kMiB, true, /*remote=*/false);
  auto* data = static_cast<char*>(memory.allocate(100));
  {
    const MemoryAccess outer(memory);
    {
      const MemoryAccess inner(memory);
    }
    data[0] = 1;
    auto* more = static_cast<char*>(memory.allocate(100));
    more[0] = 2;
    EXPECT_EQ(data[0] + more[0], 3);
    memory.free(more);
  }
  EXPECT_FALSE(memory.accessible());
  memory.free(data);
}

TEST(GuardedMemory, StaysAccessibleWhileAnyThreadIsInAScope) {
  static HostMemory memory;
  memory.configure(5, kMiB, true, /*remote=*/false);
  auto* data = static_cast<char*>(memory.allocate(100));
  std::vector<std::jthread> threads;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      for (int round = 0; round < 200; ++round) {
        const MemoryAccess access(memory);
        data[number] = static_cast<char>(round);
      }
    });
  }
  threads.clear();
  memory.free(data);
}

// --- asynchronous streams --------------------------------------------------------------------------------------------

class AsynchronousStream : public testing::Test {
 protected:
  AsynchronousStream() { memory_.configure(0, kMiB, false, /*remote=*/false); }
  HostMemory memory_;
  Faults faults_;
};

TEST_F(AsynchronousStream, RunsTasksLaterInOrder) {
  HostStream stream(memory_, true, faults_);
  std::latch start(1);
  std::vector<int> order;
  stream.run([&] { start.wait(); });
  for (int i = 0; i < 100; ++i) {
    stream.run([&order, i] { order.push_back(i); });
  }
  EXPECT_FALSE(stream.idle());
  EXPECT_TRUE(order.empty());
  start.count_down();
  stream.wait();
  EXPECT_TRUE(stream.idle());
  ASSERT_EQ(order.size(), 100U);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

// Returns the activities that are reported to a profile, in the order in which they ran.
std::vector<mydev_activity> flushed(int32_t device) {
  std::vector<mydev_activity> all;
  host_driver::profiler().flush(
      device,
      [](void* context, const mydev_activity* activity) {
        static_cast<std::vector<mydev_activity>*>(context)->push_back(*activity);
      },
      &all);
  return all;
}

TEST_F(AsynchronousStream, TellsAProfileWhenItsWorkRan) {
  const mydev_profiler_extension& extension = host_driver::profiler_extension();
  const int32_t device = memory_.device();
  HostStream stream(memory_, /*asynchronous=*/true, faults_);
  const auto ran = [&](uint64_t id, mydev_activity_kind kind) {
    extension.set_launch_id(id);
    stream.run([] {}, {kind, nullptr, 3});
  };
  ran(1, MYDEV_ACTIVITY_COPY);  // before it starts
  ASSERT_EQ(extension.start(device), MYDEV_OK);
  ran(2, MYDEV_ACTIVITY_FILL);
  stream.run([] { throw std::runtime_error("fails, and has run all the same"); }, {MYDEV_ACTIVITY_HOST_CALL});
  stream.wait();
  ASSERT_EQ(extension.stop(device), MYDEV_OK);
  ran(3, MYDEV_ACTIVITY_COPY);  // after it has ended
  extension.set_launch_id(0);
  stream.wait();
  const std::vector<mydev_activity> all = flushed(device);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].kind, MYDEV_ACTIVITY_FILL);
  EXPECT_EQ(all[0].launch_id, 2U);
  EXPECT_EQ(all[0].bytes, 3U);
  EXPECT_EQ(all[0].stream, reinterpret_cast<mydev_stream>(&stream));
  EXPECT_EQ(all[1].kind, MYDEV_ACTIVITY_HOST_CALL);
  EXPECT_LE(all[0].begin, all[0].end);
  EXPECT_LE(all[0].end, all[1].begin);
  EXPECT_TRUE(flushed(device).empty());
}

TEST_F(AsynchronousStream, StartsItsThreadAgainAfterAStop) {
  HostStream stream(memory_, true, faults_);
  std::atomic<int> runs{0};
  stream.run([&] { ++runs; });
  stream.stop_thread();
  EXPECT_EQ(runs, 1);
  stream.run_and_wait([&] { ++runs; }, {MYDEV_ACTIVITY_HOST_CALL});
  EXPECT_EQ(runs, 2);
}

TEST_F(AsynchronousStream, AnEventIsPendingUntilItsTurn) {
  HostStream stream(memory_, true, faults_);
  std::latch start(1);
  HostEvent event;
  stream.run([&] { start.wait(); });
  event.record(stream);
  EXPECT_FALSE(event.done());
  start.count_down();
  event.wait();
  EXPECT_TRUE(event.done());
}

TEST_F(AsynchronousStream, AnEventMayBeDestroyedWhileAStreamWaitsForIt) {
  HostStream producer(memory_, true, faults_);
  HostStream consumer(memory_, true, faults_);
  std::latch start(1);
  bool produced = false;
  bool seen = false;
  {
    HostEvent event;
    producer.run([&] {
      start.wait();
      produced = true;
    });
    event.record(producer);
    event.make_wait(consumer);
  }
  consumer.run([&] { seen = produced; });
  start.count_down();
  consumer.wait();
  EXPECT_TRUE(seen);
}

// --- the driver as a whole, each in a process of its own -------------------------------------------------------------

mydev_code do_nothing(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}
constexpr mydev_kernel kNothing = {sizeof(mydev_kernel), "test.nothing", do_nothing, nullptr, nullptr, nullptr};

void use_driver(const char* spec) {
  ::setenv("MYDEV_DRIVER", spec, 1);
}

size_t count_stream_threads() {
  size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::getline(std::ifstream(task.path() / "comm"), name);
    count += name == HostStream::kThreadName;
  }
  return count;
}

[[noreturn]] void check_that_threads_start_at_first_use() {
  use_driver("host:async");
  Stream& stream = default_stream(0);
  const bool lazy = count_stream_threads() == 0;
  mydev_frame frame = make_frame({}, 0);
  launch(kNothing, frame, stream);
  stream.synchronize();
  std::exit(lazy && count_stream_threads() == 1 ? 0 : 1);
}

TEST(HostDriver, StartsAThreadAtTheFirstUseOfAStream) {
  EXPECT_EXIT(check_that_threads_start_at_first_use(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void exit_with_pending_work() {
  use_driver("host:async");
  mydev_frame frame = make_frame({}, 0);
  for (int i = 0; i < 1000; ++i) {
    launch(kNothing, frame, default_stream(0));
  }
  std::exit(0);
}

TEST(HostDriver, ExitsCleanlyWithWorkPending) {
  EXPECT_EXIT(exit_with_pending_work(), testing::ExitedWithCode(0), "");
}

[[noreturn]] void check_memory_limit() {
  use_driver("host:memory=8M");
  uint64_t free_bytes = 0;
  uint64_t total = 0;
  memory_info(0, free_bytes, total);
  void* data = nullptr;
  const mydev_code refused = device(0).driver->memory_alloc(0, 9 * kMiB, &data);
  const mydev_code given = device(0).driver->memory_alloc(0, 8 * kMiB, &data);
  device(0).driver->memory_free(0, data, 8 * kMiB);
  std::exit(total == 8 * kMiB && free_bytes == total && refused == MYDEV_RESOURCE_EXHAUSTED && given == MYDEV_OK ? 0
                                                                                                                 : 1);
}

TEST(HostDriver, ReportsAndEnforcesItsMemoryOption) {
  EXPECT_EXIT(check_memory_limit(), testing::ExitedWithCode(0), "");
}

// --- telemetry -------------------------------------------------------------------------------------------------------

TEST(Telemetry, ProcessorsAreBusyUnlessTheyIdleOrWait) {
  std::istringstream statistics("cpu  10 20 30 400 50 6 7 8 9 10\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  const auto time = host_driver::processor_time(statistics);
  ASSERT_TRUE(time.has_value());
  EXPECT_EQ(time->busy, 10U + 20U + 30U + 6U + 7U + 8U);  // guests are among the first two
  EXPECT_EQ(time->all, time->busy + 400U + 50U);
}

TEST(Telemetry, OtherFormsAreNoTime) {
  for (const char* text : {"", "intr 1 2 3", "cpu 1 2 3", "cpu a b c d e f g h"}) {
    std::istringstream statistics(text);
    EXPECT_FALSE(host_driver::processor_time(statistics).has_value()) << text;
  }
}

TEST(Telemetry, UtilizationIsOfTheTimeSinceTheLastQuestion) {
  using host_driver::Utilization;
  const Utilization::Clock::time_point start;
  Utilization utilization({100, 1000}, start);
  EXPECT_EQ(utilization.percent({150, 1100}, start + Utilization::kPeriod / 2), 0) << "a period has not passed";
  EXPECT_EQ(utilization.percent({150, 1200}, start + Utilization::kPeriod), 25);
  EXPECT_EQ(utilization.percent({190, 1240}, start + Utilization::kPeriod * 3 / 2), 25) << "the same answer again";
  EXPECT_EQ(utilization.percent({350, 1400}, start + 2 * Utilization::kPeriod), 100);
  EXPECT_EQ(utilization.percent({349, 1500}, start + 3 * Utilization::kPeriod), 0) << "sums may step back";
  EXPECT_EQ(utilization.percent({349, 1500}, start + 4 * Utilization::kPeriod), 0) << "no tick has passed";
}

[[noreturn]] void touch_guarded_memory() {
  use_driver("host:guarded");
  void* data = nullptr;
  device(0).driver->memory_alloc(0, 100, &data);
  {
    const HostAccess access(device(0));
  }
  std::exit(*static_cast<volatile char*>(data));
}

TEST(HostDriverDeathTest, GuardsMemoryOutsideItsScopes) {
  EXPECT_DEATH(touch_guarded_memory(), "host driver: invalid access to memory of device 0");
}

}  // namespace
}  // namespace mydev
