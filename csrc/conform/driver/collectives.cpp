// The collectives extension: groups of all devices, each member on a thread of its own; sums, movement, and aborting.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "runtime/base/status.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev::conform {
namespace {

constexpr uint64_t kCount = 1003;  // elements of each part: no multiple of any number of devices
constexpr uint64_t kPart = kCount * sizeof(float);

// Small whole numbers, whose sums f32 has exactly.
float number(int member, uint64_t i) {
  return static_cast<float>((i * 7 + static_cast<uint64_t>(member) * 3) % 11);
}
Bytes bytes_of(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
Bytes numbers(int member, uint64_t begin, uint64_t count) {
  std::vector<float> values;
  for (uint64_t i = begin; i < begin + count; ++i) values.push_back(number(member, i));
  return bytes_of(values);
}
Bytes sums(int members, uint64_t begin, uint64_t count) {
  std::vector<float> values(count);
  for (int member = 0; member < members; ++member) {
    for (uint64_t i = 0; i < count; ++i) values[i] += number(member, begin + i);
  }
  return bytes_of(values);
}

// A group of all devices, and memory of each for an operand and a result.
class DeviceGroup {
 public:
  explicit DeviceGroup(DriverCase& owner) : owner_(owner), size_(device_count()) {
    table_ = extension_of<mydev_collectives_extension>(owner.driver(), MYDEV_COLLECTIVES_EXTENSION);
    owner.needs(table_ != nullptr, "the driver has no extension 'collectives'");
    auto id = std::make_unique<mydev_communicator_id>();
    owner.must(table_->unique_id(id.get()), "unique_id");
    communicators_.resize(static_cast<size_t>(size_));
    for (int i = 0; i < size_; ++i) {
      operands_.push_back(std::make_unique<DeviceMemory>(owner, kPart * static_cast<uint64_t>(size_), i));
      results_.push_back(std::make_unique<DeviceMemory>(owner, kPart * static_cast<uint64_t>(size_), i));
      owner.upload(default_stream(i), *operands_.back(), numbers(i, 0, kCount * static_cast<uint64_t>(size_)));
    }
    on_all([&](int rank) { return table_->create(rank, id.get(), size_, rank, &communicators_[size_t(rank)]); },
           "create");
  }
  ~DeviceGroup() {
    for (mydev_communicator communicator : communicators_) {
      if (communicator != nullptr) table_->destroy(communicator);
    }
  }
  DeviceGroup(const DeviceGroup&) = delete;
  DeviceGroup& operator=(const DeviceGroup&) = delete;

  int size() const { return size_; }
  const mydev_collectives_extension& table() const { return *table_; }
  mydev_communicator member(int rank) const { return communicators_[static_cast<size_t>(rank)]; }
  mydev_stream stream(int rank) const { return default_stream(rank).handle(); }
  void* operand(int rank) const { return operands_[static_cast<size_t>(rank)]->data(); }
  void* result(int rank) const { return results_[static_cast<size_t>(rank)]->data(); }
  Bytes result_of(int rank, uint64_t bytes) const {
    Bytes all = owner_.download(default_stream(rank), *results_[static_cast<size_t>(rank)]);
    all.resize(bytes);
    return all;
  }

  // Calls it for each member on a thread of its own. Ends the case where one fails, unless all say UNIMPLEMENTED: then
  // returns false.
  bool on_all(const std::function<mydev_code(int rank)>& call, const std::string& what) const {
    std::vector<mydev_code> codes(static_cast<size_t>(size_));
    std::vector<std::thread> threads;
    threads.reserve(codes.size());
    for (int rank = 0; rank < size_; ++rank) {
      threads.emplace_back([&, rank] { codes[static_cast<size_t>(rank)] = call(rank); });
    }
    for (std::thread& thread : threads) thread.join();
    if (std::ranges::all_of(codes, [](mydev_code code) { return code == MYDEV_UNIMPLEMENTED; })) return false;
    for (const mydev_code code : codes) owner_.must(code, what);
    return true;
  }

 private:
  DriverCase& owner_;
  const mydev_collectives_extension* table_ = nullptr;
  int size_;
  std::vector<mydev_communicator> communicators_;
  std::vector<std::unique_ptr<DeviceMemory>> operands_, results_;
};

// Adds up the operands of all members, into what `result_of` gives for each.
void add_up(DriverCase& t, const DeviceGroup& group, const std::function<void*(int rank)>& result_of) {
  const bool reduces = group.on_all(
      [&](int rank) {
        return group.table().all_reduce(group.member(rank), group.stream(rank), result_of(rank), group.operand(rank),
                                        kCount, MYDEV_F32, MYDEV_REDUCTION_ADD);
      },
      "all_reduce");
  if (!reduces) t.checks.skip("the driver leaves sums of f32 to the runtime");
}

// Gives each member the operands of all.
void gather(const DeviceGroup& group) {
  group.on_all(
      [&](int rank) {
        return group.table().all_gather(group.member(rank), group.stream(rank), group.result(rank), group.operand(rank),
                                        kPart);
      },
      "all_gather");
}

void groups_reduce(DriverCase& t) {
  const DeviceGroup group(t);
  add_up(t, group, [&](int rank) { return group.result(rank); });
  for (int rank = 0; rank < group.size(); ++rank) {
    t.same_bytes("the sums of member " + std::to_string(rank), group.result_of(rank, kPart),
                 sums(group.size(), 0, kCount));
  }
}

void groups_reduce_in_place(DriverCase& t) {
  const DeviceGroup group(t);
  add_up(t, group, [&](int rank) { return group.operand(rank); });
  gather(group);
  Bytes expected;
  for (int member = 0; member < group.size(); ++member) {
    const Bytes part = sums(group.size(), 0, kCount);
    expected.insert(expected.end(), part.begin(), part.end());
  }
  for (int rank = 0; rank < group.size(); ++rank) {
    t.same_bytes("the sums that member " + std::to_string(rank) + " gathers", group.result_of(rank, expected.size()),
                 expected);
  }
}

void groups_reduce_parts(DriverCase& t) {
  const DeviceGroup group(t);
  const bool reduces = group.on_all(
      [&](int rank) {
        return group.table().reduce_scatter(group.member(rank), group.stream(rank), group.result(rank),
                                            group.operand(rank), kCount, MYDEV_F32, MYDEV_REDUCTION_ADD);
      },
      "reduce_scatter");
  if (!reduces) t.checks.skip("the driver leaves sums of f32 to the runtime");
  for (int rank = 0; rank < group.size(); ++rank) {
    t.same_bytes("the part of member " + std::to_string(rank), group.result_of(rank, kPart),
                 sums(group.size(), kCount * static_cast<uint64_t>(rank), kCount));
  }
}

void groups_gather_and_broadcast(DriverCase& t) {
  const DeviceGroup group(t);
  Bytes all;
  for (int member = 0; member < group.size(); ++member) {
    const Bytes part = numbers(member, 0, kCount);
    all.insert(all.end(), part.begin(), part.end());
  }
  gather(group);
  for (int rank = 0; rank < group.size(); ++rank) {
    t.same_bytes("what member " + std::to_string(rank) + " gathers", group.result_of(rank, all.size()), all);
  }
  const int root = group.size() - 1;
  group.on_all(
      [&](int rank) {
        return group.table().broadcast(group.member(rank), group.stream(rank), group.result(rank), group.operand(rank),
                                       kPart, root);
      },
      "broadcast");
  for (int rank = 0; rank < group.size(); ++rank) {
    t.same_bytes("the broadcast at member " + std::to_string(rank), group.result_of(rank, kPart),
                 numbers(root, 0, kCount));
  }
}

void groups_send_in_a_circle(DriverCase& t) {
  const DeviceGroup group(t);
  t.needs(group.size() > 1, "there is one device");
  group.on_all(
      [&](int rank) {
        const mydev_collectives_extension& table = group.table();
        const int behind = (rank + 1) % group.size(), before = (rank + group.size() - 1) % group.size();
        for (const mydev_code code :
             {table.group_start(),
              table.send(group.member(rank), group.stream(rank), group.operand(rank), kPart, behind),
              table.receive(group.member(rank), group.stream(rank), group.result(rank), kPart, before)}) {
          if (code != MYDEV_OK) return code;
        }
        return table.group_end();
      },
      "a group of send and receive");
  for (int rank = 0; rank < group.size(); ++rank) {
    t.same_bytes("what member " + std::to_string(rank) + " received", group.result_of(rank, kPart),
                 numbers((rank + group.size() - 1) % group.size(), 0, kCount));
  }
}

void groups_abort(DriverCase& t) {
  const DeviceGroup group(t);
  t.needs(group.size() > 1, "there is one device");
  std::atomic<bool> ended{false};
  mydev_code code = MYDEV_OK;
  std::thread waiting([&] {
    code = group.table().all_gather(group.member(0), group.stream(0), group.result(0), group.operand(0), kPart);
    try {
      if (code == MYDEV_OK) default_stream(0).synchronize();
    } catch (const Error& error) {
      code = error.code();
    }
    ended = true;
  });
  std::this_thread::sleep_for(kLookout);
  t.checks.that(!ended, "all_gather ended although one member alone has called it");
  for (int rank = 0; rank < group.size(); ++rank) t.ok(group.table().abort(group.member(rank)), "abort");
  waiting.join();
  t.checks.that(code != MYDEV_OK, "all_gather succeeded although its group was aborted");
}

}  // namespace

std::vector<Case> collective_cases() {
  return driver_cases({
      MYDEV_CASE(groups_reduce, "all_reduce gives all members the same sums"),
      MYDEV_CASE(groups_reduce_in_place, "the result may be the operand, and later operations see it"),
      MYDEV_CASE(groups_reduce_parts, "reduce_scatter gives each member its part of the sums"),
      MYDEV_CASE(groups_gather_and_broadcast, "all_gather and broadcast move what members have"),
      MYDEV_CASE(groups_send_in_a_circle, "within a group of calls, sends do not wait for later receives"),
      MYDEV_CASE(groups_abort, "abort ends an operation that waits for another member, and it fails"),
  });
}

}  // namespace mydev::conform
