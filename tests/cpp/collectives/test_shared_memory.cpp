// Processes that share memory: each operation in odd sizes, beyond a box and empty; and what happens where a member
// ends, is killed at any moment, is late, calls something else, or is not of this machine.
#include "collectives/shared_memory.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "error_fixture.h"
#include "fuzz.h"

namespace mydev::collectives {
namespace {

using std::chrono::milliseconds;
using Group = SharedMemoryGroup;
constexpr Group::Operation kOperation{"a test", milliseconds(20000)};

// Runs `member` in `size` processes. Forked ones end with 0 if it returns true; rank 0 is this process.
void in_processes(int size, const std::function<bool(Group&)>& member, const std::vector<int>& ending = {}) {
  const std::unique_ptr<Group> own = Group::create(size);
  ASSERT_NE(own, nullptr);
  std::vector<pid_t> others;
  for (int rank = 1; rank < size; ++rank) {
    const pid_t process = ::fork();
    if (process == 0) {
      const std::unique_ptr<Group> group = Group::open(own->address(), rank, size);
      ::_exit(group != nullptr && member(*group) ? 0 : 1);
    }
    others.push_back(process);
  }
  EXPECT_TRUE(member(*own));
  for (size_t i = 0; i < others.size(); ++i) {
    int status = 0;
    ::waitpid(others[i], &status, 0);
    const bool ends = std::ranges::find(ending, static_cast<int>(i) + 1) != ending.end();
    EXPECT_TRUE(status == 0 || ends) << "rank " << i + 1 << " of " << size << " ended with " << status;
  }
}

std::vector<int> numbers_of(int rank, size_t count) {
  std::vector<int> numbers(count);
  for (size_t i = 0; i < count; ++i) numbers[i] = static_cast<int>(i * 7) + rank * 1000003;
  return numbers;
}
Shard shard_of(std::vector<int>& numbers, size_t begin, size_t count) {
  return {reinterpret_cast<std::byte*>(numbers.data() + begin), count * sizeof(int)};
}
Shard shard_of(std::vector<int>& numbers) {
  return shard_of(numbers, 0, numbers.size());
}
void add(std::byte* out, const std::byte* first, const std::byte* second, size_t bytes) {
  for (size_t at = 0; at < bytes; at += sizeof(int)) {
    int a = 0, b = 0;
    std::memcpy(&a, first + at, sizeof a);
    std::memcpy(&b, second + at, sizeof b);
    a += b;
    std::memcpy(out + at, &a, sizeof a);
  }
}

class Operations : public ::testing::TestWithParam<std::tuple<int, size_t>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  size_t count() const { return std::get<1>(GetParam()); }
};

TEST_P(Operations, Reduce) {
  std::vector<int> sums(count());
  for (int rank = 0; rank < size(); ++rank) {
    const std::vector<int> theirs = numbers_of(rank, count());
    for (size_t i = 0; i < count(); ++i) sums[i] += theirs[i];
  }
  in_processes(size(), [&](Group& group) {
    for (int round = 0; round < 3; ++round) {
      std::vector<int> numbers = numbers_of(group.rank(), count());
      group.all_reduce(kOperation, shard_of(numbers), sizeof(int), add);
      if (numbers != sums) return false;
    }
    return true;
  });
}

TEST_P(Operations, Gather) {
  in_processes(size(), [&](Group& group) {
    std::vector<int> own = numbers_of(group.rank(), count()), all(count() * static_cast<size_t>(size())), expected;
    std::vector<Shard> results;
    for (int rank = 0; rank < size(); ++rank) {
      results.push_back(shard_of(all, count() * static_cast<size_t>(rank), count()));
      const std::vector<int> theirs = numbers_of(rank, count());
      expected.insert(expected.end(), theirs.begin(), theirs.end());
    }
    group.all_gather(kOperation, shard_of(own), results);
    return all == expected;
  });
}

TEST_P(Operations, Broadcast) {
  in_processes(size(), [&](Group& group) {
    for (int root = 0; root < size(); ++root) {
      std::vector<int> numbers = numbers_of(group.rank(), count());
      group.broadcast(kOperation, shard_of(numbers), root);
      if (numbers != numbers_of(root, count())) return false;
    }
    return true;
  });
}

TEST_P(Operations, ExchangePartsOfDifferentSizes) {
  // Rank i sends rank j `count + 3 * i + j` numbers.
  const auto length = [&](int from, int to) { return count() + static_cast<size_t>(3 * from + to); };
  in_processes(size(), [&](Group& group) {
    std::vector<std::vector<int>> sent, received;
    for (int rank = 0; rank < size(); ++rank) {
      sent.push_back(numbers_of(100 * group.rank() + rank, length(group.rank(), rank)));
      received.emplace_back(length(rank, group.rank()));
    }
    std::vector<Shard> sends, receives;
    for (int rank = 0; rank < size(); ++rank) {
      sends.push_back(shard_of(sent[static_cast<size_t>(rank)]));
      receives.push_back(shard_of(received[static_cast<size_t>(rank)]));
    }
    group.all_to_all(kOperation, sends, receives);
    for (int rank = 0; rank < size(); ++rank) {
      const auto expected = numbers_of(100 * rank + group.rank(), length(rank, group.rank()));
      if (received[static_cast<size_t>(rank)] != expected) return false;
    }
    return true;
  });
}

TEST_P(Operations, ReducePartsOfDifferentSizes) {
  // Member i's shard has `count + 5 * i` numbers.
  const auto length = [&](int member) { return count() + static_cast<size_t>(5 * member); };
  in_processes(size(), [&](Group& group) {
    const auto own = static_cast<size_t>(group.rank());
    std::vector<int> expected(length(group.rank()));
    for (int rank = 0; rank < size(); ++rank) {
      const std::vector<int> theirs = numbers_of(100 * rank + group.rank(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) expected[i] += theirs[i];
    }
    for (const bool in_place : {false, true}) {
      std::vector<std::vector<int>> sent;
      std::vector<Shard> shards;
      for (int rank = 0; rank < size(); ++rank) sent.push_back(numbers_of(100 * group.rank() + rank, length(rank)));
      for (std::vector<int>& shard : sent) shards.push_back(shard_of(shard));
      std::vector<int> result(expected.size());
      group.reduce_scatter(kOperation, shards, in_place ? shards[own] : shard_of(result), sizeof(int), add);
      if ((in_place ? sent[own] : result) != expected) return false;
    }
    return true;
  });
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, Operations,
                         ::testing::Combine(::testing::Values(2, 3, 4),
                                            ::testing::Values(size_t{0}, size_t{1}, size_t{33}, size_t{131072},
                                                              size_t{400009})),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_processes_" +
                                  std::to_string(std::get<1>(info.param)) + "_elements";
                         });

TEST(SharedMemory, NamesAMemberThatHasEnded) {
  in_processes(3,
               [](Group& group) {
                 std::vector<int> numbers = numbers_of(group.rank(), 200000);
                 group.all_reduce(kOperation, shard_of(numbers), sizeof(int), add);
                 if (group.rank() == 1) ::raise(SIGKILL);
                 const Error error =
                     error_of([&] { group.all_reduce(kOperation, shard_of(numbers), sizeof(int), add); });
                 return error.code() == MYDEV_UNAVAILABLE &&
                        std::string(error.what()).find("rank 1 of 3 (process id ") != std::string::npos &&
                        std::string(error.what()).find("has ended, and a test waits for it") != std::string::npos;
               },
               {1});
}

// --- members that are killed -----------------------------------------------------------------------------------------

// Takes part in an operation; true if the result is right.
using TakePart = bool (*)(Group& group, size_t count);

bool reduces(Group& group, size_t count) {
  std::vector<int> numbers(count, group.rank() + 1);
  group.all_reduce(kOperation, shard_of(numbers), sizeof(int), add);
  return std::ranges::count(numbers, group.size() * (group.size() + 1) / 2) == static_cast<std::ptrdiff_t>(count);
}

bool gathers(Group& group, size_t count) {
  const auto size = static_cast<size_t>(group.size());
  std::vector<int> own = numbers_of(group.rank(), count), all(count * size), expected;
  std::vector<Shard> results;
  for (size_t rank = 0; rank < size; ++rank) {
    results.push_back(shard_of(all, count * rank, count));
    const std::vector<int> theirs = numbers_of(static_cast<int>(rank), count);
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  group.all_gather(kOperation, shard_of(own), results);
  return all == expected;
}

bool broadcasts(Group& group, size_t count) {
  std::vector<int> numbers = numbers_of(group.rank(), count);
  group.broadcast(kOperation, shard_of(numbers), 1);
  return numbers == numbers_of(1, count);
}

bool exchanges(Group& group, size_t count) {
  const auto size = static_cast<size_t>(group.size());
  std::vector<int> sent, received(count * size), expected;
  std::vector<Shard> sends, receives;
  for (size_t rank = 0; rank < size; ++rank) {
    const std::vector<int> shard = numbers_of(10 * group.rank() + static_cast<int>(rank), count);
    const std::vector<int> theirs = numbers_of(10 * static_cast<int>(rank) + group.rank(), count);
    sent.insert(sent.end(), shard.begin(), shard.end());
    expected.insert(expected.end(), theirs.begin(), theirs.end());
  }
  for (size_t rank = 0; rank < size; ++rank) {
    sends.push_back(shard_of(sent, count * rank, count));
    receives.push_back(shard_of(received, count * rank, count));
  }
  group.all_to_all(kOperation, sends, receives);
  return received == expected;
}

bool reduces_parts(Group& group, size_t count) {
  std::vector<int> sent(3 * count, group.rank() + 1), result(count);
  const std::vector<Shard> shards = {shard_of(sent, 0, count), shard_of(sent, count, count),
                                     shard_of(sent, 2 * count, count)};
  group.reduce_scatter(kOperation, shards, shard_of(result), sizeof(int), add);
  return std::ranges::count(result, 6) == static_cast<std::ptrdiff_t>(count);
}

class Kills : public ::testing::TestWithParam<std::tuple<TakePart, size_t>> {};

// Member 1 is killed at some moment after its first operation. The others finish what it has finished, with right
// results, and then have one error that names it, well within the time-out.
TEST_P(Kills, AtAnyMomentAreOneError) {
  const auto [take_part, count] = GetParam();
  fuzz(5, 47, [&](std::mt19937& random) {
    const auto delay = std::chrono::microseconds(random() % 1500);
    in_processes(3,
                 [&](Group& group) {
                   if (!take_part(group, count)) return false;
                   if (group.rank() == 1) {
                     std::thread([=, self = ::getpid()] {
                       std::this_thread::sleep_for(delay);
                       ::kill(self, SIGKILL);
                     }).detach();
                   }
                   const auto begin = std::chrono::steady_clock::now();
                   const Error error = error_of([&] {
                     for (;;) {
                       if (!take_part(group, count)) ::_exit(2);
                     }
                   });
                   const bool in_time = std::chrono::steady_clock::now() - begin < kOperation.timeout / 2;
                   return in_time && error.code() == MYDEV_UNAVAILABLE &&
                          std::string(error.what()).find("rank 1 of 3 (process id ") != std::string::npos;
                 },
                 {1});
  });
}

INSTANTIATE_TEST_SUITE_P(SharedMemory, Kills,
                         ::testing::Combine(::testing::Values(reduces, gathers, broadcasts, exchanges, reduces_parts),
                                            ::testing::Values(size_t{10}, size_t{100000}, size_t{700001})));

TEST(SharedMemory, LetsAMemberLeaveAfterItsLastOperation) {
  in_processes(2, [](Group& group) {
    std::vector<int> numbers = numbers_of(group.rank(), 200000);
    group.all_reduce(kOperation, shard_of(numbers), sizeof(int), add);
    if (group.rank() == 0) ::usleep(100000);  // the other has ended by then
    return numbers[0] == 1000003;
  });
}

TEST(SharedMemory, NamesAMemberThatIsLate) {
  const std::unique_ptr<Group> own = Group::create(2);
  const std::unique_ptr<Group> other = Group::open(own->address(), 1, 2);
  ASSERT_NE(other, nullptr);
  std::vector<int> numbers(10);
  expect_error(error_of([&] { own->broadcast({"a test", milliseconds(50)}, shard_of(numbers), 0); }),
               MYDEV_DEADLINE_EXCEEDED, ") did not come to it within 0.05 seconds");
  own->abort();
  expect_error(error_of([&] { own->broadcast(kOperation, shard_of(numbers), 0); }), MYDEV_ABORTED,
               "a test was aborted");
}

TEST(SharedMemory, RefusesPartsOfAnotherLengthThanTheirReceiverExpects) {
  in_processes(2, [](Group& group) {
    std::vector<int> sent(8), received(8);
    const size_t expected = group.rank() == 0 ? 5 : 4;  // of the 4 that the other sends
    const auto place = [&](int rank) { return rank == group.rank() ? size_t{4} : expected; };
    const std::vector<Shard> sends = {shard_of(sent, 0, 4), shard_of(sent, 4, 4)};
    std::vector<Shard> receives;
    for (int rank = 0; rank < 2; ++rank) receives.push_back(shard_of(received, 0, place(rank)));
    try {
      group.all_to_all(kOperation, sends, receives);
    } catch (const Error& error) {
      return group.rank() == 0 &&
             std::string(error.what()).find("brings 16 bytes to a test for this rank, which expects 20") !=
                 std::string::npos;
    }
    return group.rank() == 1;
  });
}

TEST(SharedMemory, NamesAMemberThatIsAtSomethingElse) {
  in_processes(2, [](Group& group) {
    std::vector<int> numbers(group.rank() == 0 ? 10 : 11);
    const Error error = error_of([&] { group.broadcast(kOperation, shard_of(numbers), 0); });
    return error.code() == MYDEV_FAILED_PRECONDITION &&
           std::string(error.what()).find("came to another operation than a test") != std::string::npos;
  });
}

TEST(SharedMemory, IsOfOneMachineAndOneGroup) {
  const std::unique_ptr<Group> own = Group::create(2);
  EXPECT_EQ(Group::open("none", 1, 2), nullptr);
  EXPECT_EQ(Group::open("1 2 3 another machine", 1, 2), nullptr);
  EXPECT_EQ(Group::open(own->address(), 1, 3), nullptr);
  std::string other = own->address();
  other.insert(other.find(' ', other.find(' ') + 1) + 1, "1");  // another number of the group
  EXPECT_EQ(Group::open(other, 1, 2), nullptr);
  EXPECT_EQ(Group::create(Group::kMostMembers + 1), nullptr);
}

}  // namespace
}  // namespace mydev::collectives
