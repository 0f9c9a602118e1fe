#include "collectives/shared_memory.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

#include "runtime/base/status.h"

namespace mydev::collectives {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

namespace {

constexpr size_t kBoxBytes = size_t{512} << 10;  // two of them and what they are read into fit into a cache
constexpr size_t kHeaderBytes = size_t{64} << 10;
constexpr size_t kAlignment = 64;
constexpr int kLooks = 200;                // at the others' state, before a member sleeps
constexpr milliseconds kLongestSleep{50};  // between two looks at whether others have ended
constexpr int kNotWatched = -1, kUnwatchable = -2;

size_t memory_bytes(int size) {
  return kHeaderBytes + 2 * kBoxBytes * static_cast<size_t>(size);
}

void sleep_on(std::atomic<uint32_t>& word, uint32_t seen, milliseconds longest) {
  const timespec time{longest.count() / 1000, longest.count() % 1000 * 1000000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}
void wake_all(std::atomic<uint32_t>& word) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

// Numbers of processes mean something within one namespace of one running system. Processes that have networks of their
// own count as other machines.
std::string machine() {
  std::string name;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> name;
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    std::array<char, 64> target{};
    const ssize_t length = ::readlink(space, target.data(), target.size() - 1);
    name += " " + std::string(target.data(), length > 0 ? static_cast<size_t>(length) : 0);
  }
  return name;
}

size_t aligned(size_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

void move_bytes(std::byte* to, const std::byte* from, size_t bytes) {
  if (bytes != 0 && to != from) std::memcpy(to, from, bytes);
}

// The part [begin, begin + length) of the data, as far as there are any.
Shard piece_of(const Shard& data, size_t begin, size_t length) {
  if (begin >= data.bytes) return {data.data, 0};
  return {data.data + begin, std::min(length, data.bytes - begin)};
}

uint64_t pieces_of(size_t bytes, size_t piece) {
  return (bytes + piece - 1) / piece;
}

}  // namespace

struct alignas(128) SharedMemoryGroup::Member {
  std::atomic<int32_t> process{0};
  std::atomic<uint64_t> reached{0};   // how many rendezvous it has come to
  std::array<Subject, 2> subjects{};  // of its operations, in turn
};

struct SharedMemoryGroup::Header {
  uint64_t nonce = 0;
  alignas(64) std::atomic<uint32_t> changes{0};   // the word on which members sleep
  alignas(64) std::atomic<uint32_t> sleepers{0};  // some may have woken up since
  std::array<Member, kMostMembers> members;
};

std::unique_ptr<SharedMemoryGroup> SharedMemoryGroup::create(int size) {
  static_assert(sizeof(Header) <= kHeaderBytes);
  if (size > kMostMembers) return nullptr;
  const int file = ::memfd_create("mydev-collectives", MFD_CLOEXEC);
  if (file < 0) return nullptr;
  void* memory = MAP_FAILED;
  if (::ftruncate(file, static_cast<off_t>(memory_bytes(size))) == 0) {
    memory = ::mmap(nullptr, memory_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  if (memory == MAP_FAILED) {
    ::close(file);
    return nullptr;
  }
  auto* header = new (memory) Header;
  std::random_device random;
  header->nonce = (static_cast<uint64_t>(random()) << 32) | random();
  std::unique_ptr<SharedMemoryGroup> group(new SharedMemoryGroup(0, size, memory, file));
  std::ostringstream address;
  address << ::getpid() << ' ' << file << ' ' << header->nonce << ' ' << machine();
  group->address_ = address.str();
  group->enter();
  return group;
}

std::unique_ptr<SharedMemoryGroup> SharedMemoryGroup::open(const std::string& address, int rank, int size) {
  std::istringstream words(address);
  int process = 0, number = 0;
  uint64_t nonce = 0;
  std::string where;
  words >> process >> number >> nonce;
  words.ignore();
  std::getline(words, where);
  if (!words || where != machine()) return nullptr;
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(number);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) return nullptr;
  const bool whole = ::lseek(file, 0, SEEK_END) == static_cast<off_t>(memory_bytes(size));
  void* memory = whole ? ::mmap(nullptr, memory_bytes(size), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0) : MAP_FAILED;
  if (memory == MAP_FAILED) {
    ::close(file);
    return nullptr;
  }
  std::unique_ptr<SharedMemoryGroup> group(new SharedMemoryGroup(rank, size, memory, file));
  if (group->header_->nonce != nonce) return nullptr;
  group->enter();
  return group;
}

SharedMemoryGroup::SharedMemoryGroup(int rank, int size, void* memory, int file)
    : rank_(rank),
      size_(size),
      header_(static_cast<Header*>(memory)),
      file_(file),
      watched_(static_cast<size_t>(size), kNotWatched) {}

SharedMemoryGroup::~SharedMemoryGroup() {
  ::munmap(header_, memory_bytes(size_));
  ::close(file_);
  for (const int descriptor : watched_) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

void SharedMemoryGroup::enter() {
  header_->members[static_cast<size_t>(rank_)].process.store(::getpid(), std::memory_order_release);
}

std::byte* SharedMemoryGroup::box(int member) const noexcept {
  const size_t number = 2 * static_cast<size_t>(member) + turn_ % 2;
  return reinterpret_cast<std::byte*>(header_) + kHeaderBytes + number * kBoxBytes;
}

std::string SharedMemoryGroup::describe(int member) const {
  const int32_t process = header_->members[static_cast<size_t>(member)].process.load(std::memory_order_acquire);
  return "rank " + std::to_string(member) + " of " + std::to_string(size_) + " (process id " + std::to_string(process) +
         ")";
}

bool SharedMemoryGroup::has_ended(int member) {
  int& descriptor = watched_[static_cast<size_t>(member)];
  if (descriptor == kNotWatched) {
    const int32_t process = header_->members[static_cast<size_t>(member)].process.load(std::memory_order_acquire);
    if (process == 0) return false;
    descriptor = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    if (descriptor < 0 && errno == ESRCH) return true;
    if (descriptor < 0) descriptor = kUnwatchable;
  }
  if (descriptor == kUnwatchable) return false;
  pollfd state{descriptor, POLLIN, 0};
  return ::poll(&state, 1, 0) == 1;
}

// Waits until the member has come to the rendezvous that this process has come to.
void SharedMemoryGroup::wait_for(int member, const Operation& operation, Clock::time_point by) {
  const std::atomic<uint64_t>& reached = header_->members[static_cast<size_t>(member)].reached;
  const auto is_here = [&] { return reached.load(std::memory_order_acquire) >= rendezvous_; };
  for (int look = 0; look < kLooks; ++look) {
    if (is_here()) return;
    if (look % 16 == 15) std::this_thread::yield();
  }
  while (true) {
    // A member that comes changes the word after its own state, so one of the two is seen here.
    header_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = header_->changes.load(std::memory_order_seq_cst);
    if (!is_here()) sleep_on(header_->changes, seen, kLongestSleep);
    header_->sleepers.fetch_sub(1, std::memory_order_relaxed);
    if (is_here()) return;
    MYDEV_CHECK(!aborted_.load(std::memory_order_relaxed), MYDEV_ABORTED, operation.name, " was aborted");
    if (has_ended(member) && !is_here()) {
      raise(MYDEV_UNAVAILABLE, describe(member) + " has ended, and " + operation.name + " waits for it");
    }
    if (Clock::now() >= by && !is_here()) {
      std::ostringstream message;
      message << operation.name << " timed out: " << describe(member) << " did not come to it within "
              << std::chrono::duration<double>(operation.timeout).count() << " seconds";
      raise(MYDEV_DEADLINE_EXCEEDED, message.str());
    }
  }
}

void SharedMemoryGroup::rendezvous(const Operation& operation) {
  ++rendezvous_;
  header_->members[static_cast<size_t>(rank_)].reached.store(rendezvous_, std::memory_order_seq_cst);
  header_->changes.fetch_add(1, std::memory_order_seq_cst);
  if (header_->sleepers.load(std::memory_order_seq_cst) != 0) wake_all(header_->changes);
  const Clock::time_point by = Clock::now() + operation.timeout;
  for (int step = 1; step < size_; ++step) wait_for((rank_ + step) % size_, operation, by);
}

// Tells the others what this process has come to. After the rendezvous it compares.
uint64_t SharedMemoryGroup::begin(const Operation& operation, const Subject& subject) {
  const size_t at = operations_++ % 2;
  header_->members[static_cast<size_t>(rank_)].subjects[at] = subject;
  rendezvous(operation);
  uint64_t pieces = 0;
  for (int member = 0; member < size_; ++member) {
    const Subject& theirs = header_->members[static_cast<size_t>(member)].subjects[at];
    MYDEV_CHECK(theirs.kind == subject.kind && theirs.bytes == subject.bytes, MYDEV_FAILED_PRECONDITION,
                describe(member), " came to another operation than ", operation.name, ", or brings ", theirs.bytes,
                " bytes where this rank brings ", subject.bytes,
                ": all ranks must call the same operations in the same order");
    pieces = std::max(pieces, theirs.pieces);
  }
  return pieces;
}

namespace {
enum Kind : uint64_t { kBroadcast = 1, kGather = 2, kExchange = 3, kReduce = 4, kReduceScatter = 5 };
}

void SharedMemoryGroup::broadcast(const Operation& operation, Shard data, int root) {
  const uint64_t pieces =
      begin(operation, {kBroadcast | static_cast<uint64_t>(root) << 8, data.bytes, pieces_of(data.bytes, kBoxBytes)});
  for (uint64_t i = 0; i < pieces; ++i, turn()) {
    const Shard piece = piece_of(data, i * kBoxBytes, kBoxBytes);
    if (rank_ == root) move_bytes(box(root), piece.data, piece.bytes);
    rendezvous(operation);
    if (rank_ != root) move_bytes(piece.data, box(root), piece.bytes);
  }
}

void SharedMemoryGroup::all_gather(const Operation& operation, Shard operand, std::span<const Shard> results) {
  const uint64_t pieces = begin(operation, {kGather, operand.bytes, pieces_of(operand.bytes, kBoxBytes)});
  for (uint64_t i = 0; i < pieces; ++i, turn()) {
    const Shard own = piece_of(operand, i * kBoxBytes, kBoxBytes);
    move_bytes(box(rank_), own.data, own.bytes);
    rendezvous(operation);
    for (int step = 1; step < size_; ++step) {
      const int member = (rank_ + step) % size_;
      const Shard to = piece_of(results[static_cast<size_t>(member)], i * kBoxBytes, kBoxBytes);
      move_bytes(to.data, box(member), to.bytes);
    }
  }
  const Shard& own = results[static_cast<size_t>(rank_)];
  if (own.data != operand.data && own.bytes != 0) std::memmove(own.data, operand.data, own.bytes);
}

void SharedMemoryGroup::all_to_all(const Operation& operation, std::span<const Shard> sends,
                                   std::span<const Shard> receives) {
  // A box has a compartment for each member: the bytes of its whole shard, and a piece of it.
  const size_t compartment = kBoxBytes / static_cast<size_t>(size_) / kAlignment * kAlignment;
  const size_t each = compartment - kAlignment;
  uint64_t needed = 0;
  for (const std::span<const Shard> shards : {sends, receives}) {
    for (const Shard& shard : shards) needed = std::max(needed, pieces_of(shard.bytes, each));
  }
  const uint64_t pieces = begin(operation, {kExchange, 0, needed});
  for (uint64_t i = 0; i < pieces; ++i, turn()) {
    for (int member = 0; member < size_; ++member) {
      if (member == rank_) continue;
      const Shard& whole = sends[static_cast<size_t>(member)];
      const Shard piece = piece_of(whole, i * each, each);
      std::byte* const place = box(rank_) + compartment * static_cast<size_t>(member);
      std::memcpy(place, &whole.bytes, sizeof(whole.bytes));
      move_bytes(place + kAlignment, piece.data, piece.bytes);
    }
    rendezvous(operation);
    for (int step = 1; step < size_; ++step) {
      const int member = (rank_ + step) % size_;
      const Shard& whole = receives[static_cast<size_t>(member)];
      const std::byte* const place = box(member) + compartment * static_cast<size_t>(rank_);
      size_t brought = 0;
      std::memcpy(&brought, place, sizeof(brought));
      MYDEV_CHECK(brought == whole.bytes, MYDEV_FAILED_PRECONDITION, describe(member), " brings ", brought,
                  " bytes to ", operation.name, " for this rank, which expects ", whole.bytes);
      const Shard to = piece_of(whole, i * each, each);
      move_bytes(to.data, place + kAlignment, to.bytes);
    }
  }
  const auto own = static_cast<size_t>(rank_);
  MYDEV_CHECK(sends[own].bytes == receives[own].bytes, MYDEV_INVALID_ARGUMENT, operation.name, ": this rank keeps ",
              sends[own].bytes, " bytes, and has room for ", receives[own].bytes);
  move_bytes(receives[own].data, sends[own].data, sends[own].bytes);
}

void SharedMemoryGroup::all_reduce(const Operation& operation, Shard data, size_t width, const Reduce& reduce) {
  const uint64_t kind = kReduce | static_cast<uint64_t>(width) << 8;
  const uint64_t pieces = begin(operation, {kind, data.bytes, pieces_of(data.bytes, kBoxBytes)});
  for (uint64_t i = 0; i < pieces; ++i, turn()) {
    const Shard piece = piece_of(data, i * kBoxBytes, kBoxBytes);
    // Each member reduces a shard. The boxes have the shards where the piece has them.
    const size_t each = aligned((piece.bytes + static_cast<size_t>(size_) - 1) / static_cast<size_t>(size_));
    const auto shard_of = [&](int member) { return piece_of(piece, each * static_cast<size_t>(member), each); };
    for (int member = 0; member < size_; ++member) {
      const Shard shard = shard_of(member);
      if (member != rank_) move_bytes(box(rank_) + (shard.data - piece.data), shard.data, shard.bytes);
    }
    rendezvous(operation);
    const Shard own = shard_of(rank_);
    const size_t offset = static_cast<size_t>(own.data - piece.data);
    std::byte* const result = box(rank_) + offset;
    if (own.bytes != 0) {
      const auto brought = [&](int member) -> const std::byte* {
        return member == rank_ ? own.data : box(member) + offset;
      };
      for (int member = 1; member < size_; ++member) {
        reduce(result, member == 1 ? brought(0) : result, brought(member), own.bytes);
      }
      if (size_ > 1) move_bytes(own.data, result, own.bytes);
    }
    rendezvous(operation);
    for (int step = 1; step < size_; ++step) {
      const int member = (rank_ + step) % size_;
      const Shard shard = shard_of(member);
      move_bytes(shard.data, box(member) + (shard.data - piece.data), shard.bytes);
    }
  }
}

void SharedMemoryGroup::reduce_scatter(const Operation& operation, std::span<const Shard> shards, Shard result,
                                       size_t width, const Reduce& reduce) {
  // A box has a compartment for a piece of each member's shard.
  const size_t each = kBoxBytes / static_cast<size_t>(size_) / kAlignment * kAlignment;
  const auto own = static_cast<size_t>(rank_);
  MYDEV_CHECK(shards[own].bytes == result.bytes, MYDEV_INVALID_ARGUMENT, operation.name, ": this rank's shard has ",
              shards[own].bytes, " bytes, and its result ", result.bytes);
  uint64_t bytes = 0, needed = 0;
  for (const Shard& shard : shards) {
    bytes += shard.bytes;
    needed = std::max(needed, pieces_of(shard.bytes, each));
  }
  const uint64_t pieces = begin(operation, {kReduceScatter | static_cast<uint64_t>(width) << 8, bytes, needed});
  for (uint64_t i = 0; i < pieces; ++i, turn()) {
    for (size_t member = 0; member < shards.size(); ++member) {
      const Shard piece = piece_of(shards[member], i * each, each);
      if (member != own) move_bytes(box(rank_) + each * member, piece.data, piece.bytes);
    }
    rendezvous(operation);
    const Shard piece = piece_of(shards[own], i * each, each), to = piece_of(result, i * each, each);
    if (to.bytes == 0) continue;
    // The own piece is read after the first two have been reduced.
    std::byte* const reduced = to.data == piece.data ? box(rank_) + each * own : to.data;
    const auto brought = [&](int member) -> const std::byte* {
      return member == rank_ ? piece.data : box(member) + each * own;
    };
    for (int member = 1; member < size_; ++member) {
      reduce(reduced, member == 1 ? brought(0) : reduced, brought(member), to.bytes);
    }
    if (size_ == 1 || reduced != to.data) move_bytes(to.data, size_ == 1 ? piece.data : reduced, to.bytes);
  }
}

}  // namespace mydev::collectives
