// Groups of devices that the driver connects: that it is asked first, what it leaves to kernels and exchanges, what
// happens where it fails, and where a member does not come. The driver is tests/drivers/collectives.
#include "collectives/driver_links.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "built_files.h"
#include "collectives/communicator.h"
#include "collectives/local_exchange.h"
#include "error_fixture.h"
#include "runtime/command/transfer.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream.h"
#include "runtime/stream/stream_table.h"

namespace mydev::collectives {
namespace {

constexpr int kMembers = 3;
constexpr int64_t kCount = 9001;

const std::string& driver_path() {
  static const std::string path = built_file("drivers/collectives_driver.so");
  return path;
}

// The driver is chosen before any test uses a device, unless the caller has chosen its mode.
const int kChosen = ::setenv("MYDEV_DRIVER", (driver_path() + ":devices=3").c_str(), /*overwrite=*/0);

template <typename Function>
Function of_driver(const char* name) {
  device_count();  // loads it
  void* library = ::dlopen(driver_path().c_str(), RTLD_NOW | RTLD_LOCAL);
  return reinterpret_cast<Function>(::dlsym(library, name));
}
int64_t calls(const char* entry) {
  return of_driver<int64_t (*)(const char*)>("collectives_driver_calls")(entry);
}
void fail(const char* entry, mydev_code code) {
  of_driver<void (*)(const char*, mydev_code)>("collectives_driver_fail")(entry, code);
}

class DriverLinksTest : public ::testing::Test {
 protected:
  using Body = std::function<void(const Communicator& group, Stream& stream)>;

  // Calls `body` for each member on a thread of its own, in which errors may be raised.
  void in_a_group(const Body& body, uint64_t run = 1) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kMembers; ++rank) {
      Stream& stream = default_stream(rank);
      threads.emplace_back([&, rank] {
        const std::shared_ptr<DriverGroup> driver = links_.enter(stream.device(), members_, rank, run);
        ASSERT_NE(driver, nullptr);
        body({exchange_, members_, rank, {run, 0, "a test"}, driver.get()}, stream);
        stream.synchronize();
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  LocalExchange exchange_;
  DriverLinks links_;
  const std::vector<int> members_ = {0, 1, 2};
};

// Memory of the stream's device, with one number in all elements.
class Numbers {
 public:
  Numbers(Stream& stream, int number) : stream_(stream), block_(allocate(stream, kCount * sizeof(int))) {
    const std::vector<int> values(kCount, number);
    copy_bytes(stream, block_->data, values.data(), kCount * sizeof(int), MYDEV_COPY_HOST_TO_DEVICE);
    stream.synchronize();
  }
  ~Numbers() { release(*block_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;
  void* data() const { return block_->data; }
  std::vector<int> read() const {
    std::vector<int> values(kCount);
    copy_bytes(stream_, values.data(), block_->data, kCount * sizeof(int), MYDEV_COPY_DEVICE_TO_HOST);
    stream_.synchronize();
    return values;
  }

 private:
  Stream& stream_;
  Block* block_;
};

TEST_F(DriverLinksTest, AskTheDriverFirst) {
  const int64_t before = calls("all_reduce"), sends = calls("send");
  in_a_group([](const Communicator& group, Stream& stream) {
    const Numbers numbers(stream, group.rank() + 1);
    group.all_reduce(stream, numbers.data(), numbers.data(), MYDEV_S32, kCount, "mydev.add");
    EXPECT_EQ(numbers.read(), std::vector<int>(kCount, 6));
  });
  EXPECT_EQ(calls("all_reduce") - before, kMembers);
  EXPECT_EQ(calls("send"), sends);
}

TEST_F(DriverLinksTest, MakeWhatTheDriverLeavesOfTransfersAndKernels) {
  const int64_t sends = calls("send"), starts = calls("group_start");
  in_a_group([](const Communicator& group, Stream& stream) {
    const Numbers numbers(stream, group.rank() + 2);
    group.all_reduce(stream, numbers.data(), numbers.data(), MYDEV_S32, kCount, "mydev.mul");
    EXPECT_EQ(numbers.read(), std::vector<int>(kCount, 24));
  });
  EXPECT_EQ(calls("send") - sends, 2 * kMembers * (kMembers - 1));  // parts are reduced, then gathered
  EXPECT_EQ(calls("group_start") - starts, 2 * kMembers);
}

TEST_F(DriverLinksTest, RaiseTheDriversFailure) {
  fail("all_gather", MYDEV_UNAVAILABLE);
  std::atomic<int> failures{0};
  in_a_group([&](const Communicator& group, Stream& stream) {
    if (group.rank() != 0) return;  // the others would wait for it
    const Numbers numbers(stream, 1);
    expect_error(error_of([&] { group.all_gather(stream, numbers.data(), numbers.data(), 4); }), MYDEV_UNAVAILABLE,
                 "all_gather fails on request");
    ++failures;
  });
  EXPECT_EQ(failures, 1);
}

TEST_F(DriverLinksTest, AbortAGroupInWhichAMemberIsWaitedFor) {
  const int64_t aborts = calls("abort"), creations = calls("create");
  std::atomic<int> waiting{0};
  in_a_group([](const Communicator&, Stream&) {});
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    Stream& stream = default_stream(rank);
    threads.emplace_back([&, rank] {
      const std::shared_ptr<DriverGroup> driver = links_.enter(stream.device(), members_, rank, 7);
      const Communicator group(exchange_, members_, rank, {7, 0, "a test"}, driver.get());
      const Numbers numbers(stream, 1);
      ++waiting;
      expect_error(error_of([&] {
                     group.all_reduce(stream, numbers.data(), numbers.data(), MYDEV_S32, kCount, "mydev.add");
                     stream.synchronize();
                   }),
                   MYDEV_ABORTED, "the group of devices was aborted");
    });
  }
  while (waiting < 2) std::this_thread::yield();
  links_.cancel(7, "member 2 failed");
  for (std::thread& thread : threads) thread.join();
  expect_error(error_of([&] { links_.enter(device(2), members_, 2, 7); }), MYDEV_ABORTED, "member 2 failed");
  EXPECT_EQ(calls("abort") - aborts, kMembers);
  in_a_group(
      [](const Communicator& group, Stream& stream) {  // joined anew
        const Numbers numbers(stream, 2);
        group.all_reduce(stream, numbers.data(), numbers.data(), MYDEV_S32, kCount, "mydev.add");
        EXPECT_EQ(numbers.read(), std::vector<int>(kCount, 6));
      },
      8);
  EXPECT_EQ(calls("create") - creations, 2 * kMembers);
}

TEST_F(DriverLinksTest, CallOffJoiningWhereAMemberDoesNotCome) {
  std::thread other([&] { links_.cancel(7, "member 1 failed"); });
  expect_error(error_of([&] { links_.enter(device(0), members_, 0, 7); }), MYDEV_ABORTED, "member 1 failed");
  other.join();
}

}  // namespace
}  // namespace mydev::collectives
