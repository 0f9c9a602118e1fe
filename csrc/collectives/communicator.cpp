#include "collectives/communicator.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <vector>

#include "kernels/launch/kernel_launch.h"
#include "kernels/registry/kernel_registry.h"
#include "runtime/base/status.h"
#include "runtime/command/transfer.h"
#include "runtime/frame/frame.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream.h"

namespace mydev::collectives {

namespace {

// Operands up to this size are sent whole to every member, which is one exchange in place of two.
constexpr uint64_t kSentWhole = 16 << 10;

// Memory of the stream for as long as an operation gives it work.
class Scratch {
 public:
  Scratch(Stream& stream, uint64_t bytes) : block_(allocate(stream, bytes)) {}
  ~Scratch() { release(*block_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  char* data() const noexcept { return static_cast<char*>(block_->data); }

 private:
  Block* block_;
};

void copy(Stream& stream, void* to, const void* from, uint64_t bytes) {
  if (to != from) copy_bytes(stream, to, from, bytes, MYDEV_COPY_DEVICE_TO_DEVICE);
}

void launch_reduction(Stream& stream, const char* kernel, mydev_dtype dtype, int64_t count, void* result,
                      const void* first, const void* second) {
  const Launchable* found = resolve_step(stream.device(), kernel);
  MYDEV_CHECK(found != nullptr, MYDEV_UNIMPLEMENTED, "no kernel '", kernel, "' for a reduction over devices");
  const int64_t stride = 1;
  const auto buffer = [&](const void* data) {
    return mydev_buffer{const_cast<void*>(data), &count, &stride, 1, static_cast<int16_t>(dtype), 0};
  };
  const std::array buffers = {buffer(result), buffer(first), buffer(second)};
  mydev_frame frame = make_frame(buffers, 1);
  try {
    launch_kernel(*found, frame, stream);
  } catch (const KernelDeclined& declined) {
    raise(MYDEV_UNIMPLEMENTED, std::string("a reduction over devices: ") + declined.what());
  }
}

// Reduces the members' shards in their order: that of `rank` is `own`, the others lie in `others`, one behind the
// other. The memory of `others` is used for what is computed.
void reduce_members(Stream& stream, int size, int rank, char* result, const char* own, char* others, mydev_dtype dtype,
                    int64_t count, const char* kernel) {
  const int64_t bytes = count * dtype_size(dtype);
  const auto shard_of = [&](int member) -> const char* {
    return member == rank ? own : others + bytes * (member < rank ? member : member - 1);
  };
  const char* so_far = shard_of(0);
  for (int member = 1; member < size; ++member) {
    char* to = member == size - 1 ? result : others;  // the first of them has been read by then
    launch_reduction(stream, kernel, dtype, count, to, so_far, shard_of(member));
    so_far = to;
  }
}

}  // namespace

Communicator::Communicator(Exchange& exchange, std::span<const int> members, int rank, const ExchangeKey& key,
                           DriverGroup* driver)
    : exchange_(exchange), members_(members), rank_(rank), key_(key), driver_(driver) {
  check_rank(rank, "a communicator");
}

void Communicator::check_rank(int rank, const char* what) const {
  MYDEV_CHECK(rank >= 0 && rank < size(), MYDEV_INVALID_ARGUMENT, what, " names rank ", rank, " of a group of ",
              size());
}

void Communicator::exchange(Stream& stream, std::span<Transfer> sends, std::span<Transfer> receives) const {
  if (driver_ != nullptr) return driver_->exchange(stream, key_, rank_, sends, receives);
  for (const auto transfers : {sends, receives}) {
    for (Transfer& transfer : transfers) transfer.peer = members_[static_cast<size_t>(transfer.peer)];
  }
  exchange_.exchange(stream, key_, members_[static_cast<size_t>(rank_)], sends, receives);
}

void Communicator::all_reduce(Stream& stream, void* result, const void* operand, mydev_dtype dtype, int64_t count,
                              const char* kernel) const {
  const auto width = dtype_size(dtype);
  auto* to = static_cast<char*>(result);
  const auto* from = static_cast<const char*>(operand);
  if (size() == 1 || count == 0) return copy(stream, to, from, static_cast<uint64_t>(count * width));
  if (driver_ != nullptr && driver_->all_reduce(stream, to, from, dtype, count, kernel)) return;
  const auto bytes = static_cast<uint64_t>(count * width);
  if (bytes <= kSentWhole) {  // every member reduces everything
    return reduce(stream, to, [&](int /*member*/) { return std::span(from, bytes); }, dtype, kernel);
  }
  std::vector<int64_t> begins;
  for (int member = 0; member <= size(); ++member) begins.push_back(shard_begin(count, member));
  const auto shard = [&](char* data, int member) {
    const int64_t begin = begins[static_cast<size_t>(member)], end = begins[static_cast<size_t>(member) + 1];
    return Transfer{0, data + begin * width, static_cast<uint64_t>((end - begin) * width)};
  };
  reduce_shard(stream, static_cast<char*>(shard(to, rank_).data), from, dtype, begins, kernel);
  std::vector<Transfer> sends, receives;
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    sends.push_back(shard(to, rank_));
    sends.back().peer = peer;
    receives.push_back(shard(to, peer));
    receives.back().peer = peer;
  }
  exchange(stream, sends, receives);
}

void Communicator::reduce_scatter(Stream& stream, void* result, const void* operand, mydev_dtype dtype, int64_t count,
                                  const char* kernel) const {
  if (size() == 1 || count == 0) {
    return copy(stream, result, operand, static_cast<uint64_t>(count * dtype_size(dtype)));
  }
  if (driver_ != nullptr && driver_->reduce_scatter(stream, result, operand, dtype, count, kernel)) return;
  std::vector<int64_t> begins;
  for (int member = 0; member <= size(); ++member) begins.push_back(count * member);
  reduce_shard(stream, static_cast<char*>(result), static_cast<const char*>(operand), dtype, begins, kernel);
}

void Communicator::reduce_shard(Stream& stream, char* result, const char* operand, mydev_dtype dtype,
                                std::span<const int64_t> begins, const char* kernel) const {
  const int64_t width = dtype_size(dtype);
  const auto shard_of = [&](int member) {
    const auto at = static_cast<size_t>(member);
    return std::span(operand + begins[at] * width, static_cast<size_t>((begins[at + 1] - begins[at]) * width));
  };
  reduce(stream, result, shard_of, dtype, kernel);
}

void Communicator::reduce(Stream& stream, char* result,
                          const std::function<std::span<const char>(int member)>& shard_for, mydev_dtype dtype,
                          const char* kernel) const {
  const std::span<const char> own = shard_for(rank_);
  const Scratch others(stream, own.size() * static_cast<uint64_t>(size() - 1));
  std::vector<Transfer> sends, receives;
  for (int step = 1; step < size(); ++step) {
    const int peer = (rank_ + step) % size();
    const std::span<const char> theirs = shard_for(peer);
    sends.push_back({peer, const_cast<char*>(theirs.data()), theirs.size()});
    const int place = peer < rank_ ? peer : peer - 1;
    receives.push_back({peer, others.data() + own.size() * static_cast<uint64_t>(place), own.size()});
  }
  exchange(stream, sends, receives);
  const int64_t count = static_cast<int64_t>(own.size()) / dtype_size(dtype);
  reduce_members(stream, size(), rank_, result, own.data(), others.data(), dtype, count, kernel);
}

void Communicator::all_gather(Stream& stream, void* result, const void* operand, uint64_t bytes) const {
  if (driver_ != nullptr && driver_->all_gather(stream, result, operand, bytes)) return;
  std::vector<int> all(members_.size());
  std::iota(all.begin(), all.end(), 0);
  gather(stream, result, all, operand, all, bytes);
}

void Communicator::gather(Stream& stream, void* result, std::span<const int> from, const void* operand,
                          std::span<const int> to, uint64_t bytes) const {
  std::vector<Transfer> sends, receives;
  for (const int peer : to) {
    check_rank(peer, "gather");
    if (peer != rank_) sends.push_back({peer, const_cast<void*>(operand), bytes});
  }
  void* own = nullptr;
  for (size_t i = 0; i < from.size(); ++i) {
    check_rank(from[i], "gather");
    char* place = static_cast<char*>(result) + bytes * i;
    if (from[i] == rank_) {
      own = place;
    } else {
      receives.push_back({from[i], place, bytes});
    }
  }
  // Each member begins with the one behind it, so that not all write to one.
  std::ranges::sort(sends, {}, [&](const Transfer& send) { return (send.peer - rank_ + size()) % size(); });
  exchange(stream, sends, receives);
  if (own != nullptr) copy(stream, own, operand, bytes);
}

void Communicator::all_to_all(Stream& stream, void* result, const void* operand, uint64_t bytes) const {
  if (driver_ != nullptr && driver_->all_to_all(stream, result, operand, bytes)) return;
  auto* to = static_cast<char*>(result);
  auto* from = static_cast<char*>(const_cast<void*>(operand));
  std::vector<Transfer> sends, receives;
  for (int step = 1; step < size(); ++step) {
    const auto peer = (rank_ + step) % size();
    sends.push_back({peer, from + bytes * static_cast<uint64_t>(peer), bytes});
    receives.push_back({peer, to + bytes * static_cast<uint64_t>(peer), bytes});
  }
  exchange(stream, sends, receives);
  copy(stream, to + bytes * static_cast<uint64_t>(rank_), from + bytes * static_cast<uint64_t>(rank_), bytes);
}

void Communicator::broadcast(Stream& stream, void* result, const void* operand, uint64_t bytes, int root) const {
  check_rank(root, "broadcast");
  if (driver_ != nullptr && driver_->broadcast(stream, result, operand, bytes, root)) return;
  if (rank_ != root) return receive(stream, result, bytes, root);
  std::vector<Transfer> sends;
  for (int step = 1; step < size(); ++step) {
    sends.push_back({(rank_ + step) % size(), const_cast<void*>(operand), bytes});
  }
  exchange(stream, sends, {});
  copy(stream, result, operand, bytes);
}

void Communicator::permute(Stream& stream, void* result, int from, const void* operand, int to, uint64_t bytes) const {
  const auto ranks = [](const int& rank) { return std::span<const int>(&rank, rank < 0 ? 0U : 1U); };
  gather(stream, result, ranks(from), operand, ranks(to), bytes);
}

void Communicator::send(Stream& stream, const void* operand, uint64_t bytes, int to) const {
  check_rank(to, "send");
  Transfer transfer{to, const_cast<void*>(operand), bytes};
  exchange(stream, {&transfer, 1}, {});
}

void Communicator::receive(Stream& stream, void* result, uint64_t bytes, int from) const {
  check_rank(from, "receive");
  Transfer transfer{from, result, bytes};
  exchange(stream, {}, {&transfer, 1});
}

void Communicator::barrier(Stream& stream) const {
  std::vector<Transfer> sends, receives;
  for (int step = 1; step < size(); ++step) {
    sends.push_back({(rank_ + step) % size(), nullptr, 0});
    receives.push_back(sends.back());
  }
  exchange(stream, sends, receives);
}

}  // namespace mydev::collectives
