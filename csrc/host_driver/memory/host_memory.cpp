#include "host_driver/memory/host_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iterator>
#include <string_view>
#include <system_error>

#include "host_driver/host_error.h"
#include "host_driver/host_options.h"

namespace mydev::host_driver {

namespace {

constexpr size_t kHugePage = size_t{2} << 20;
constexpr size_t kSmallestArena = size_t{64} << 30;
constexpr size_t kLargestArena = size_t{2} << 40;

size_t page_size() {
  static const auto size = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

constexpr uintptr_t round_up(uintptr_t value, size_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

void* as_pointer(uintptr_t address) {
  return reinterpret_cast<void*>(address);
}  // NOLINT(performance-no-int-to-ptr)

void* map_addresses(size_t bytes) {
  void* start = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return start == MAP_FAILED ? nullptr : start;
}

// --- stray access ----------------------------------------------------------------------------------------------------

// Read by the fault handler; entries are only ever added.
std::array<std::atomic<const HostMemory*>, kMaxHostDevices> guarded_memories{};
struct sigaction previous_action;

// Builds one line without allocating, as a signal handler must.
class SignalSafeLine {
 public:
  void text(std::string_view text) noexcept {
    const size_t count = std::min(text.size(), buffer_.size() - size_);
    std::memcpy(buffer_.data() + size_, text.data(), count);
    size_ += count;
  }
  void number(uint64_t value, unsigned base) noexcept {
    std::array<char, 20> digits;
    size_t first = digits.size();
    do {
      digits[--first] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    text({digits.data() + first, digits.size() - first});
  }
  void write() const noexcept {
    if (::write(STDERR_FILENO, buffer_.data(), size_) < 0) {
      return;  // nowhere left to complain to
    }
  }

 private:
  std::array<char, 512> buffer_;
  size_t size_ = 0;
};

void report_stray_access(const HostMemory& memory, uintptr_t address) noexcept {
  SignalSafeLine line;
  line.text("host driver: invalid access to memory of device ");
  line.number(static_cast<uint64_t>(memory.device()), 10);
  line.text(" at address 0x");
  line.number(address, 16);
  if (memory.accessible()) {
    line.text(": no allocation lies there (use after free, or an index out of range?)\n");
  } else {
    line.text(
        ": the host touched it outside a launch, a copy or a HostAccess scope; copy the tensor with .cpu() first\n");
  }
  line.write();
}

// Explains a fault in a guarded device's memory, then steps aside: the access is repeated and faults again under the
// handler that was there before.
void on_fault(int /*signal*/, siginfo_t* info, void* /*context*/) {
  const auto address = reinterpret_cast<uintptr_t>(info->si_addr);
  for (const auto& entry : guarded_memories) {
    const HostMemory* memory = entry.load(std::memory_order_acquire);
    if (memory != nullptr && memory->reserves(address)) {
      report_stray_access(*memory, address);
    }
  }
  ::sigaction(SIGSEGV, &previous_action, nullptr);
}

void install_fault_handler(const HostMemory& memory) {
  guarded_memories[static_cast<size_t>(memory.device())].store(&memory, std::memory_order_release);
  [[maybe_unused]] static const bool installed = [] {
    struct sigaction action{};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    return ::sigaction(SIGSEGV, &action, &previous_action) == 0;
  }();
}

}  // namespace

void HostMemory::configure(int32_t device, uint64_t limit, bool guarded, bool remote) {
  device_ = device;
  limit_ = limit;
  guarded_ = guarded;
  remote_ = remote;
  if (guarded) {
    install_fault_handler(*this);
  }
}

bool HostMemory::reserves(uintptr_t address) const noexcept {
  return address >= arena_begin_.load(std::memory_order_relaxed) &&
         address < arena_end_.load(std::memory_order_relaxed);
}

int HostMemory::protection() const noexcept {
  return guarded_ && !accessible() ? PROT_NONE : PROT_READ | PROT_WRITE;
}

// --- addresses -------------------------------------------------------------------------------------------------------

// Several times the limit, so that fragments of addresses do not matter; less where the system is strict.
void HostMemory::reserve_addresses() {
  reservation_tried_ = true;
  const size_t wanted =
      std::clamp(static_cast<size_t>(std::min<uint64_t>(limit_, kLargestArena)) * 4, kSmallestArena, kLargestArena);
  for (size_t bytes = wanted; bytes >= kSmallestArena / 8; bytes /= 2) {
    if (void* start = map_addresses(bytes)) {
      const auto address = reinterpret_cast<uintptr_t>(start);
      arena_begin_.store(address, std::memory_order_relaxed);
      arena_end_.store(address + bytes, std::memory_order_relaxed);
      free_addresses_[address] = bytes;
      return;
    }
  }
}

// The first free range that fits; 0 if there is none.
uintptr_t HostMemory::take_addresses(size_t bytes, size_t alignment) {
  for (auto range = free_addresses_.begin(); range != free_addresses_.end(); ++range) {
    const auto [begin, size] = *range;
    const uintptr_t start = round_up(begin, alignment);
    const uintptr_t end = begin + size;
    if (start + bytes > end) {
      continue;
    }
    free_addresses_.erase(range);
    if (start != begin) {
      free_addresses_[begin] = start - begin;
    }
    if (start + bytes != end) {
      free_addresses_[start + bytes] = end - start - bytes;
    }
    return start;
  }
  // No arena, or it is used up: a mapping of its own, cut to the alignment.
  void* mapped = map_addresses(bytes + alignment);
  if (mapped == nullptr) {
    return 0;
  }
  const auto begin = reinterpret_cast<uintptr_t>(mapped);
  const uintptr_t start = round_up(begin, alignment);
  if (start != begin) {
    ::munmap(mapped, start - begin);
  }
  if (start + bytes != begin + bytes + alignment) {
    ::munmap(as_pointer(start + bytes), begin + alignment - start);
  }
  return start;
}

void HostMemory::give_addresses(uintptr_t address, size_t bytes) {
  if (!reserves(address)) {
    ::munmap(as_pointer(address), bytes);
    return;
  }
  // Mapping anew drops the pages and their huge-page advice in one call.
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED;
  if (::mmap(as_pointer(address), bytes, PROT_NONE, kFlags, -1, 0) == MAP_FAILED) {
    ::madvise(as_pointer(address), bytes, MADV_DONTNEED);  // too many mappings: give back the pages at least
  }
  auto next = free_addresses_.lower_bound(address);
  if (next != free_addresses_.end() && address + bytes == next->first) {
    bytes += next->second;
    next = free_addresses_.erase(next);
  }
  if (next != free_addresses_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == address) {
      previous->second += bytes;
      return;
    }
  }
  free_addresses_[address] = bytes;
}

// --- allocations -----------------------------------------------------------------------------------------------------

void* HostMemory::allocate(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!reservation_tried_) {
    reserve_addresses();
  }
  const uint64_t used = allocated();
  require(bytes <= limit_ - used, MYDEV_RESOURCE_EXHAUSTED, "out of memory: ", bytes, " bytes asked for, ",
          limit_ - used, " of ", limit_, " bytes free");
  const size_t mapped = round_up(bytes, page_size());
  const bool huge = mapped >= kHugePage;
  const uintptr_t address = take_addresses(mapped, huge ? kHugePage : page_size());
  const bool usable = address != 0 && ::mprotect(as_pointer(address), mapped, protection()) == 0;
  if (!usable) {
    const int error = errno;
    if (address != 0) {
      give_addresses(address, mapped);
    }
    raise(MYDEV_RESOURCE_EXHAUSTED, "out of memory: the operating system refuses ", bytes,
          " bytes: ", std::generic_category().message(error));
  }
  if (huge) {
    ::madvise(as_pointer(address), mapped, MADV_HUGEPAGE);
  }
  live_.insert(as_pointer(address), mapped, bytes);
  allocated_.store(used + bytes, std::memory_order_relaxed);
  return as_pointer(address);
}

void HostMemory::free(void* data) {
  const std::lock_guard lock(mutex_);
  const auto allocation = live_.extract(data);
  if (!allocation.has_value()) raise(MYDEV_INVALID_ARGUMENT, "no allocation begins at ", data);
  allocated_.store(allocated() - allocation->value, std::memory_order_relaxed);
  give_addresses(reinterpret_cast<uintptr_t>(data), allocation->size);
}

bool HostMemory::find(const void* data, void*& out_base, uint64_t& out_bytes) {
  const std::lock_guard lock(mutex_);
  const auto allocation = live_.find(data);
  if (allocation == live_.end()) return false;
  out_base = as_pointer(allocation->first);
  out_bytes = allocation->second.value;
  return true;
}

void HostMemory::change_access(int by) {
  const std::lock_guard lock(mutex_);
  const int before = accessors_.load(std::memory_order_relaxed);
  require(before + by >= 0, MYDEV_INTERNAL, "host_access_end without a host_access_begin on device ", device_);
  accessors_.store(before + by, std::memory_order_relaxed);
  if (before == 0 || before + by == 0) {
    for (const auto& [address, allocation] : live_) {
      if (!opened_.contains(address)) ::mprotect(as_pointer(address), allocation.size, protection());
    }
  }
}

void HostMemory::change_access(void* data, uint64_t bytes, int by) {
  const std::lock_guard lock(mutex_);
  const auto allocation = live_.find(data);
  const bool lies_in_one = allocation != live_.end() &&
                           bytes <= allocation->second.size - (reinterpret_cast<uintptr_t>(data) - allocation->first);
  require(lies_in_one, MYDEV_INVALID_ARGUMENT, "the ", bytes, " bytes at ", data,
          " do not lie in one allocation of device ", device_);
  const int accessors = opened_[allocation->first] += by;
  require(accessors >= 0, MYDEV_INTERNAL, "host_access_end_range without a host_access_begin_range at ", data);
  if (accessors == 0) opened_.erase(allocation->first);
  if (guarded_ && !accessible()) {
    ::mprotect(as_pointer(allocation->first), allocation->second.size,
               accessors > 0 ? PROT_READ | PROT_WRITE : PROT_NONE);
  }
}

}  // namespace mydev::host_driver
