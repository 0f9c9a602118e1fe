// Processes of one machine that exchange data in memory that they share.
//
// One process makes the memory, an anonymous file, and tells the others its address, by which they open it. Each
// process has two boxes there, in turn: it writes its part of a piece of the data into one, waits until all others have
// done so, and reads theirs. So one wait is enough for a piece. Processes sleep while they wait, after a short look.
//
// Calls block. All members make the same calls in the same order, one thread at a time in each. If a member ends, does
// not come within the time-out, or comes to another operation, the waiting members raise one error that names it, and
// the group is of no more use. A process that leaves after its last operation disturbs nobody.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "runtime/base/api.h"

namespace mydev::collectives {

// Memory that an operation of a member reads or writes.
struct Shard {
  std::byte* data = nullptr;
  size_t bytes = 0;
};

class MYDEV_API SharedMemoryGroup {
 public:
  static constexpr int kMostMembers = 64;

  // Makes the memory of a group, as its member 0; nullptr if the system gives none.
  static std::unique_ptr<SharedMemoryGroup> create(int size);
  // The address, for other processes of this machine. It is good as long as the object.
  const std::string& address() const noexcept { return address_; }
  // Opens the memory of another process; nullptr if the address is not one of this machine, or may not be opened.
  static std::unique_ptr<SharedMemoryGroup> open(const std::string& address, int rank, int size);

  ~SharedMemoryGroup();
  SharedMemoryGroup(const SharedMemoryGroup&) = delete;
  SharedMemoryGroup& operator=(const SharedMemoryGroup&) = delete;

  int rank() const noexcept { return rank_; }
  int size() const noexcept { return size_; }

  // Computes `out` of two operands of so many bytes; it may be either of them.
  using Reduce = std::function<void(std::byte* out, const std::byte* first, const std::byte* second, size_t bytes)>;
  struct Operation {
    const char* name;                   // for people
    std::chrono::milliseconds timeout;  // that others may take
  };

  // Each raises UNAVAILABLE if a member has ended, DEADLINE_EXCEEDED, ABORTED, and FAILED_PRECONDITION if a member is
  // at something else.
  void broadcast(const Operation& operation, Shard data, int root);
  // `results`: one for each member, of the operand's size; the operand may lie in this member's.
  void all_gather(const Operation& operation, Shard operand, std::span<const Shard> results);
  // Shard i of `sends` goes to member i, and becomes shard `rank` of that one's `receives`.
  void all_to_all(const Operation& operation, std::span<const Shard> sends, std::span<const Shard> receives);
  // In place. Each element is reduced by one member, in the order of the members. `width`: bytes of an element.
  void all_reduce(const Operation& operation, Shard data, size_t width, const Reduce& reduce);
  // Shard i of `shards` is member i's. `result` is the reduction of the members' shards for this one, in the order of
  // the members; it may be this member's own shard.
  void reduce_scatter(const Operation& operation, std::span<const Shard> shards, Shard result, size_t width,
                      const Reduce& reduce);
  // Calls that wait, and later ones, raise ABORTED. From any thread.
  void abort() noexcept { aborted_.store(true, std::memory_order_relaxed); }

 private:
  struct Header;
  struct Member;
  // The operation that a member has come to.
  struct Subject {
    uint64_t kind = 0, bytes = 0;
    uint64_t pieces = 0;  // that it needs; members may need different numbers of them
  };

  SharedMemoryGroup(int rank, int size, void* memory, int file);
  void enter();  // says that this process is there
  uint64_t begin(const Operation& operation, const Subject& subject);
  void rendezvous(const Operation& operation);
  void wait_for(int member, const Operation& operation, std::chrono::steady_clock::time_point by);
  bool has_ended(int member);
  std::string describe(int member) const;
  std::byte* box(int member) const noexcept;
  void turn() noexcept { ++turn_; }

  const int rank_, size_;
  Header* header_;
  int file_;
  std::string address_;
  uint64_t rendezvous_ = 0, operations_ = 0, turn_ = 0;
  std::vector<int> watched_;  // a descriptor of each member's process; -1: none yet, -2: it cannot be watched
  std::atomic<bool> aborted_{false};
};

}  // namespace mydev::collectives
