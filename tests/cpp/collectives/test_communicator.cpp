// Communicators over devices of this process: every operation, in every dtype and by every reduction that a contract
// has, of odd sizes, on several streams, in several groups at once, and where a member does not come.
//
// Members are threads with a stream each. If there are fewer devices than members, several have one device.
#include "collectives/communicator.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "collectives/local_exchange.h"
#include "error_fixture.h"
#include "kernels/spec/contract.h"
#include "runtime/command/transfer.h"
#include "runtime/frame/frame.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream.h"
#include "runtime/stream/stream_table.h"

namespace mydev::collectives {
namespace {

// Memory of a member's device.
class DeviceBytes {
 public:
  DeviceBytes(Stream& stream, size_t bytes) : stream_(stream), block_(allocate(stream, bytes)), bytes_(bytes) {}
  DeviceBytes(Stream& stream, const std::vector<std::byte>& data) : DeviceBytes(stream, data.size()) {
    copy_bytes(stream, block_->data, data.data(), bytes_, MYDEV_COPY_HOST_TO_DEVICE);
    stream.synchronize();
  }
  ~DeviceBytes() { release(*block_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  void* data() const { return block_->data; }
  std::vector<std::byte> read() const {
    std::vector<std::byte> data(bytes_);
    copy_bytes(stream_, data.data(), block_->data, bytes_, MYDEV_COPY_DEVICE_TO_HOST);
    stream_.synchronize();
    return data;
  }

 private:
  Stream& stream_;
  Block* block_;
  size_t bytes_;
};

Stream& stream_of(int member) {
  return stream_from_pool(member % device_count(), 0);
}

template <typename T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}
template <typename T>
std::vector<T> values_of(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

using Body = std::function<void(const Communicator& group, Stream& stream)>;

// Calls `body` for each member of a group of all, on a thread of its own.
void in_a_group(int size, const Body& body, uint64_t run = 1) {
  LocalExchange exchange;
  DriverLinks links;
  std::vector<int> members(static_cast<size_t>(size));
  std::iota(members.begin(), members.end(), 0);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    Stream& stream = stream_of(rank);
    threads.emplace_back([&, rank] {
      const auto driver = links.enter(stream.device(), members, rank, run);
      const Communicator group(exchange, members, rank, {run, 0, "a test"}, driver.get());
      body(group, stream);
      stream.synchronize();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// --- reductions ------------------------------------------------------------------------------------------------------

// Whole numbers that each dtype has, and so have their sums and products; as the dtype's elements.
template <typename T>
std::vector<std::byte> elements_as(const std::vector<double>& values) {
  return bytes_of(std::vector<T>(values.begin(), values.end()));
}
// The upper bits of a float, or those of a half, of small whole numbers.
std::vector<std::byte> bfloats(const std::vector<double>& values) {
  std::vector<uint16_t> bits;
  for (const double value : values) {
    bits.push_back(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
  }
  return bytes_of(bits);
}
std::vector<std::byte> halves(const std::vector<double>& values) {
  std::vector<uint16_t> bits;
  for (const double value : values) {
    int exponent = 0;
    const double fraction = std::frexp(std::fabs(value), &exponent);  // in [0.5, 1)
    const auto mantissa = static_cast<uint16_t>((fraction * 2 - 1) * 1024);
    const auto sign = static_cast<uint16_t>(value < 0 ? 0x8000 : 0);
    bits.push_back(value == 0 ? uint16_t{0} : static_cast<uint16_t>(sign | ((exponent - 1 + 15) << 10) | mantissa));
  }
  return bytes_of(bits);
}

std::vector<std::byte> elements(mydev_dtype dtype, const std::vector<double>& values) {
  switch (dtype) {
    case MYDEV_PRED:
    case MYDEV_U8:
      return elements_as<uint8_t>(values);
    case MYDEV_S8:
      return elements_as<int8_t>(values);
    case MYDEV_S16:
      return elements_as<int16_t>(values);
    case MYDEV_S32:
      return elements_as<int32_t>(values);
    case MYDEV_S64:
      return elements_as<int64_t>(values);
    case MYDEV_F16:
      return halves(values);
    case MYDEV_BF16:
      return bfloats(values);
    case MYDEV_F32:
      return elements_as<float>(values);
    default:
      return elements_as<double>(values);
  }
}

struct Reduction {
  const char* kernel;
  double (*combine)(double, double);
};
constexpr std::array kReductions = {
    Reduction{"mydev.add", [](double a, double b) { return a + b; }},
    Reduction{"mydev.mul", [](double a, double b) { return a * b; }},
    Reduction{"mydev.maximum", [](double a, double b) { return std::max(a, b); }},
    Reduction{"mydev.minimum", [](double a, double b) { return std::min(a, b); }},
    Reduction{"mydev.bitwise_and", [](double a, double b) { return double(int64_t(a) & int64_t(b)); }},
    Reduction{"mydev.bitwise_or", [](double a, double b) { return double(int64_t(a) | int64_t(b)); }},
    Reduction{"mydev.bitwise_xor", [](double a, double b) { return double(int64_t(a) ^ int64_t(b)); }}};
constexpr std::array kDtypes = {MYDEV_PRED, MYDEV_U8,  MYDEV_S8,   MYDEV_S16, MYDEV_S32,
                                MYDEV_S64,  MYDEV_F16, MYDEV_BF16, MYDEV_F32, MYDEV_F64};

class Reductions : public ::testing::TestWithParam<std::tuple<Reduction, mydev_dtype>> {
 protected:
  // A member's element.
  double number(int member, int64_t i) const {
    const bool is_truth = dtype() == MYDEV_PRED;
    return static_cast<double>((member * 5 + i * 3 + i / 7) % (is_truth ? 2 : 3)) + (is_truth ? 0 : 1);
  }
  std::vector<double> numbers(int member, int64_t count) const {
    std::vector<double> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(number(member, i));
    return values;
  }
  std::vector<double> reduced(int size, int64_t count) const {
    std::vector<double> values = numbers(0, count);
    for (int member = 1; member < size; ++member) {
      for (int64_t i = 0; i < count; ++i) {
        double& value = values[static_cast<size_t>(i)];
        value = std::get<0>(GetParam()).combine(value, number(member, i));
        if (dtype() == MYDEV_PRED) value = value != 0 ? 1 : 0;
      }
    }
    return values;
  }
  const char* kernel() const { return std::get<0>(GetParam()).kernel; }
  mydev_dtype dtype() const { return std::get<1>(GetParam()); }
};

// All pairs that a contract has.
std::vector<std::tuple<Reduction, mydev_dtype>> reductions() {
  std::vector<std::tuple<Reduction, mydev_dtype>> pairs;
  for (const Reduction& reduction : kReductions) {
    for (const mydev_dtype dtype : kDtypes) {
      if ((contract_dtypes(reduction.kernel, 'T') & MYDEV_DTYPE_BIT(dtype)) != 0) pairs.emplace_back(reduction, dtype);
    }
  }
  return pairs;
}

TEST_P(Reductions, OfAllMembersAreTheSameEverywhere) {
  for (const int size : {1, 2, 3, 4}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{37}, int64_t{20011}}) {
      const std::vector<std::byte> expected = elements(dtype(), reduced(size, count));
      in_a_group(size, [&](const Communicator& group, Stream& stream) {
        const std::vector<std::byte> given = elements(dtype(), numbers(group.rank(), count));
        const DeviceBytes operand(stream, given), result(stream, given.size()), own(stream, given);
        group.all_reduce(stream, result.data(), operand.data(), dtype(), count, kernel());
        EXPECT_EQ(result.read(), expected) << size << " members, " << count << " elements";
        EXPECT_EQ(operand.read(), given);
        group.all_reduce(stream, own.data(), own.data(), dtype(), count, kernel());
        EXPECT_EQ(own.read(), expected) << "in place, " << size << " members, " << count << " elements";
      });
    }
  }
}

TEST_P(Reductions, OfPartsGoToTheMemberOfEach) {
  for (const int size : {1, 2, 3}) {
    for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{5003}}) {
      const std::vector<std::byte> expected = elements(dtype(), reduced(size, count * size));
      in_a_group(size, [&](const Communicator& group, Stream& stream) {
        const DeviceBytes operand(stream, elements(dtype(), numbers(group.rank(), count * size)));
        const auto bytes = static_cast<ptrdiff_t>(count * dtype_size(dtype()));
        const DeviceBytes result(stream, static_cast<size_t>(bytes));
        group.reduce_scatter(stream, result.data(), operand.data(), dtype(), count, kernel());
        const auto begin = expected.begin() + bytes * group.rank();
        EXPECT_EQ(result.read(), std::vector<std::byte>(begin, begin + bytes));
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Communicator, Reductions, ::testing::ValuesIn(reductions()), [](const auto& info) {
  return std::string(std::get<0>(info.param).kernel + sizeof("mydev.") - 1) + "_" + dtype_name(std::get<1>(info.param));
});

// --- movement --------------------------------------------------------------------------------------------------------

std::vector<int> own_numbers(int rank, int count) {
  std::vector<int> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), rank * 1000000);
  return numbers;
}

class Movement : public ::testing::TestWithParam<std::tuple<int, int>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  int count() const { return std::get<1>(GetParam()); }
  size_t bytes() const { return static_cast<size_t>(count()) * sizeof(int); }
};

TEST_P(Movement, GathersInTheOrderOfTheMembers) {
  std::vector<int> expected;
  for (int rank = 0; rank < size(); ++rank) {
    const std::vector<int> own = own_numbers(rank, count());
    expected.insert(expected.end(), own.begin(), own.end());
  }
  in_a_group(size(), [&](const Communicator& group, Stream& stream) {
    const DeviceBytes operand(stream, bytes_of(own_numbers(group.rank(), count())));
    const DeviceBytes result(stream, bytes() * static_cast<size_t>(size()));
    group.all_gather(stream, result.data(), operand.data(), bytes());
    EXPECT_EQ(values_of<int>(result.read()), expected);
  });
}

TEST_P(Movement, ExchangesParts) {
  in_a_group(size(), [&](const Communicator& group, Stream& stream) {
    const DeviceBytes operand(stream, bytes_of(own_numbers(group.rank(), count() * size())));
    const DeviceBytes result(stream, bytes() * static_cast<size_t>(size()));
    group.all_to_all(stream, result.data(), operand.data(), bytes());
    std::vector<int> expected;
    for (int rank = 0; rank < size(); ++rank) {
      const std::vector<int> theirs = own_numbers(rank, count() * size());
      const auto begin = theirs.begin() + count() * group.rank();
      expected.insert(expected.end(), begin, begin + count());
    }
    EXPECT_EQ(values_of<int>(result.read()), expected);
  });
}

TEST_P(Movement, BroadcastsFromAnyMember) {
  for (int root = 0; root < size(); ++root) {
    in_a_group(size(), [&](const Communicator& group, Stream& stream) {
      const DeviceBytes operand(stream, bytes_of(own_numbers(group.rank(), count()))), result(stream, bytes());
      group.broadcast(stream, result.data(), operand.data(), bytes(), root);
      EXPECT_EQ(values_of<int>(result.read()), own_numbers(root, count()));
    });
  }
}

TEST_P(Movement, PermutesInACircle) {
  in_a_group(size(), [&](const Communicator& group, Stream& stream) {
    const DeviceBytes operand(stream, bytes_of(own_numbers(group.rank(), count()))), result(stream, bytes());
    const int before = (group.rank() + size() - 1) % size(), behind = (group.rank() + 1) % size();
    group.permute(stream, result.data(), before, operand.data(), behind, bytes());
    EXPECT_EQ(values_of<int>(result.read()), own_numbers(before, count()));
  });
}

INSTANTIATE_TEST_SUITE_P(Communicator, Movement,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::Values(0, 1, 7, 10007)),
                         [](const auto& info) {
                           return std::to_string(std::get<0>(info.param)) + "_members_" +
                                  std::to_string(std::get<1>(info.param)) + "_elements";
                         });

TEST(Communicator, SendsInTheOrderInWhichTheOtherReceives) {
  in_a_group(2, [&](const Communicator& group, Stream& stream) {
    for (int i = 0; i < 20; ++i) {
      if (group.rank() == 0) {
        const DeviceBytes operand(stream, bytes_of(own_numbers(i, 100)));
        group.send(stream, operand.data(), 400, 1);
      } else {
        const DeviceBytes result(stream, 400);
        group.receive(stream, result.data(), 400, 0);
        EXPECT_EQ(values_of<int>(result.read()), own_numbers(i, 100));
      }
    }
  });
}

TEST(Communicator, KeepsTheOrderOfAStream) {
  in_a_group(3, [&](const Communicator& group, Stream& stream) {
    const DeviceBytes values(stream, bytes_of(std::vector<int>(9000, group.rank() + 1)));
    for (int round = 0; round < 5; ++round) {  // in place, with nothing that waits in between
      group.all_reduce(stream, values.data(), values.data(), MYDEV_S32, 9000, "mydev.add");
    }
    group.barrier(stream);
    EXPECT_EQ(values_of<int>(values.read()), std::vector<int>(9000, 6 * 81));
  });
}

TEST(Communicator, OfSeveralGroupsAtOnceDoNotDisturbEachOther) {
  LocalExchange exchange;
  DriverLinks links;
  const std::vector<std::vector<int>> groups = {{0, 1, 2, 3}, {3, 1}, {2, 0}};
  std::vector<std::thread> threads;
  for (int member = 0; member < 4; ++member) {
    Stream &first = stream_of(member), &second = stream_of(member);
    threads.emplace_back([&, member] {
      std::vector<std::unique_ptr<Communicator>> joined;
      std::vector<std::shared_ptr<DriverGroup>> by_driver;
      for (size_t g = 0; g < groups.size(); ++g) {
        const auto found = std::ranges::find(groups[g], member);
        if (found == groups[g].end()) continue;
        const ExchangeKey key{g, 0, "a test"};
        const auto rank = static_cast<int>(found - groups[g].begin());
        by_driver.push_back(links.enter(device(member % device_count()), groups[g], rank, g));
        joined.push_back(std::make_unique<Communicator>(exchange, groups[g], rank, key, by_driver.back().get()));
      }
      for (int round = 0; round < 20; ++round) {
        const std::vector<int> own(7001, member + round);
        const DeviceBytes of_all(first, bytes_of(own)), of_pair(second, bytes_of(own));
        joined[0]->all_reduce(first, of_all.data(), of_all.data(), MYDEV_S32, 7001, "mydev.add");
        joined[1]->all_reduce(second, of_pair.data(), of_pair.data(), MYDEV_S32, 7001, "mydev.add");
        EXPECT_EQ(values_of<int>(of_all.read()), std::vector<int>(7001, 6 + 4 * round));
        EXPECT_EQ(values_of<int>(of_pair.read()), std::vector<int>(7001, (member % 2 == 0 ? 2 : 4) + 2 * round));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, RaisesWhereAMemberDoesNotCome) {
  LocalExchange exchange;
  const std::vector<int> members = {0, 1, 2};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    Stream& stream = stream_of(rank);
    threads.emplace_back([&, rank] {
      const Communicator group(exchange, members, rank, {7, 0, "a test"});
      const DeviceBytes values(stream, bytes_of(std::vector<int>(9000, 1)));
      expect_error(
          error_of([&] { group.all_reduce(stream, values.data(), values.data(), MYDEV_S32, 9000, "mydev.add"); }),
          MYDEV_ABORTED, "the other devices of this run were waited for in vain: member 2 failed");
      stream.synchronize();
    });
  }
  exchange.cancel(7, "member 2 failed");
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, RemembersTheRunThatWasCancelledLast) {
  LocalExchange exchange;
  for (uint64_t run = 100; run < 200; ++run) exchange.cancel(run, "another run");
  exchange.cancel(7, "member 1 failed");
  const std::vector<int> members = {0, 1};
  const Communicator group(exchange, members, 0, {7, 0, "a test"});
  expect_error(error_of([&] { group.barrier(stream_of(0)); }), MYDEV_ABORTED, "member 1 failed");
}

TEST(Communicator, RaisesWhereMembersBringOtherSizes) {
  LocalExchange exchange;
  const std::vector<int> members = {0, 1};
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    Stream& stream = stream_of(rank);
    threads.emplace_back([&, rank] {
      const Communicator group(exchange, members, rank, {1, 0, "a test"});
      const DeviceBytes values(stream, 16);
      const Error error = error_of([&] {
        if (rank == 0) {
          group.send(stream, values.data(), 8, 1);
        } else {
          group.receive(stream, values.data(), 12, 0);
        }
      });
      EXPECT_NE(std::string(error.what()).find("member 0 brings 8 bytes to a test, and member 1 expects 12"),
                std::string::npos)
          << error.what();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Communicator, RefusesRanksThatAreNotThere) {
  LocalExchange exchange;
  const std::vector<int> members = {0, 1};
  expect_error(error_of([&] { Communicator(exchange, members, 2, {}); }), MYDEV_INVALID_ARGUMENT,
               "a communicator names rank 2 of a group of 2");
  const Communicator group(exchange, members, 0, {});
  expect_error(error_of([&] { group.send(stream_of(0), nullptr, 0, -1); }), MYDEV_INVALID_ARGUMENT,
               "send names rank -1 of a group of 2");
}

}  // namespace
}  // namespace mydev::collectives
