// A communicator: what a group of devices does together, as commands of their streams.
//
// Each member of the group calls the same operations in the same order, each on a thread of its own, with a stream of
// its device. A call waits until the other members have come to the operation, but not for the device. Sums and the
// like are computed by kernels, by whatever record of their contract takes them, and each element of a result by one
// member, from the members' elements in their order: all members get the same bits.
//
// Data are dense and in the memory of the stream's device. A result may be the operand itself; else they do not
// overlap. Raises INVALID_ARGUMENT for members that are not there, what Exchange::exchange and launch_kernel raise.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "collectives/driver_links.h"
#include "collectives/exchange.h"
#include "mydev/custom_call.h"
#include "runtime/base/api.h"

namespace mydev::collectives {

// `rank` is a member's place in the group.
class MYDEV_API Communicator {
 public:
  // The group's members, by their numbers in the exchange. `driver`: the group as the driver connects it, which is
  // asked first; nullptr: it does not. Borrows them.
  Communicator(Exchange& exchange, std::span<const int> members, int rank, const ExchangeKey& key,
               DriverGroup* driver = nullptr);

  int size() const noexcept { return static_cast<int>(members_.size()); }
  int rank() const noexcept { return rank_; }

  // `kernel`: the contract of two elements that reduces them, such as mydev.add. `count`: elements of the operand.
  void all_reduce(Stream& stream, void* result, const void* operand, mydev_dtype dtype, int64_t count,
                  const char* kernel) const;
  // Member r gets the r-th shard of `count` elements; the operand has size() shards.
  void reduce_scatter(Stream& stream, void* result, const void* operand, mydev_dtype dtype, int64_t count,
                      const char* kernel) const;
  // The operands of `bytes` each, in the order of the members.
  void all_gather(Stream& stream, void* result, const void* operand, uint64_t bytes) const;
  // The r-th shard of `bytes` goes to member r, and comes from there. The result is not the operand.
  void all_to_all(Stream& stream, void* result, const void* operand, uint64_t bytes) const;
  void broadcast(Stream& stream, void* result, const void* operand, uint64_t bytes, int root) const;
  // Sends the operand to rank `to`, and takes the result from rank `from`; -1: no rank. The result is not the operand.
  void permute(Stream& stream, void* result, int from, const void* operand, int to, uint64_t bytes) const;
  // The operands of the ranks `from`, one behind the other. This member's goes to the ranks `to`.
  void gather(Stream& stream, void* result, std::span<const int> from, const void* operand, std::span<const int> to,
              uint64_t bytes) const;
  void send(Stream& stream, const void* operand, uint64_t bytes, int to) const;
  void receive(Stream& stream, void* result, uint64_t bytes, int from) const;
  // Later work of each member's stream runs after the earlier work of all.
  void barrier(Stream& stream) const;

 private:
  // Shards of `count` elements, one for each member.
  int64_t shard_begin(int64_t count, int rank) const noexcept { return count * rank / size(); }

  void exchange(Stream& stream, std::span<Transfer> sends, std::span<Transfer> receives) const;
  // Reduces the members' elements from this member's place in `begins` to the next, into `result`.
  void reduce_shard(Stream& stream, char* result, const char* operand, mydev_dtype dtype,
                    std::span<const int64_t> begins, const char* kernel) const;
  // Reduces what the members have for this one. `shard_for`: what this one has for a member.
  void reduce(Stream& stream, char* result, const std::function<std::span<const char>(int member)>& shard_for,
              mydev_dtype dtype, const char* kernel) const;
  void check_rank(int rank, const char* what) const;

  Exchange& exchange_;
  std::span<const int> members_;
  int rank_;
  ExchangeKey key_;
  DriverGroup* driver_;
};

}  // namespace mydev::collectives
