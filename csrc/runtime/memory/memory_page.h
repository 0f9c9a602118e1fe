// The page that a process shows to `mydev top`: what memory it uses, and how busy its devices are.
//
// The page is a file that the process maps: $XDG_RUNTIME_DIR/mydev/<pid>-<start>, or /tmp/mydev-<uid>/…, a folder of
// the user's alone. A thread writes it twice a second, from the allocator's figures, so that allocations pay nothing.
// It calls nothing of the driver but the telemetry extension, which waits for nothing. The page goes at exit; who reads
// one compares process and start, since a process that is killed leaves it. In a forked child there is none.
// MYDEV_TOP=off: no page and no thread. A page that cannot be made is a debug message, and all else goes on.
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace mydev {

// The contents, which mydev/top.py reads. Fields are only appended, at the end of each struct, with another version.
inline constexpr uint32_t kMemoryPageVersion = 1;
inline constexpr size_t kMemoryPageDevices = 32;  // of more, the first that have memory

struct MemoryPageDevice {
  int32_t index;
  uint32_t reserved;
  uint64_t total_bytes, allocated_bytes, reserved_bytes, peak_bytes;
  double utilization, temperature, power;  // percent, degrees Celsius, milliwatts; NaN: not known
  std::array<char, 40> name;
};

struct MemoryPage {
  std::array<char, 8> magic;  // "MYDEVTOP"
  uint32_t version, device_count;
  int64_t pid;
  uint64_t start_ticks;            // of the process, as in /proc/<pid>/stat
  uint64_t pid_namespace;          // inode of /proc/self/ns/pid: another's processes cannot be looked up
  std::atomic<uint64_t> sequence;  // odd while it is being written
  double written;                  // seconds since 1970
  std::array<char, 32> device_type, driver;
  std::array<MemoryPageDevice, kMemoryPageDevices> devices;
};
static_assert(sizeof(MemoryPage) <= 4096);

// Called when a device of the process gets its first memory; the first call makes the page.
void show_memory_page() noexcept;

}  // namespace mydev
