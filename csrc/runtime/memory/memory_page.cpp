#include "runtime/memory/memory_page.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <mutex>
#include <new>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>

#include "runtime/base/config.h"
#include "runtime/base/device_name.h"
#include "runtime/base/log.h"
#include "runtime/base/status.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/memory/device_memory.h"

namespace mydev {

namespace {

constexpr std::chrono::milliseconds kPeriod{500};

std::string folder() {
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  if (runtime != nullptr && runtime[0] == '/') return std::string(runtime) + "/mydev";
  return "/tmp/mydev-" + std::to_string(::geteuid());
}

[[noreturn]] void fail(const std::string& what) {
  raise(MYDEV_UNAVAILABLE, what + ": " + std::generic_category().message(errno));
}

// Makes the folder, unless it is there. Raises if it is anyone else's, or open to others.
void need_folder(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) fail("making " + path);
  struct stat found{};
  if (::lstat(path.c_str(), &found) != 0) fail("looking at " + path);
  const bool own = S_ISDIR(found.st_mode) && found.st_uid == ::geteuid() && (found.st_mode & 077) == 0;
  MYDEV_CHECK(own, MYDEV_FAILED_PRECONDITION, path, " is not a folder of this user's alone; remove it");
}

// The time at which the process started, in ticks since the machine did: the 22nd field.
uint64_t start_ticks() {
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  const char* at = text.c_str() + std::min(text.rfind(')'), text.size());  // the name may have blanks
  for (int field = 2; field < 22 && *at != '\0'; ++field) {
    do ++at;
    while (*at != ' ' && *at != '\0');
  }
  return std::strtoull(at, nullptr, 10);
}

template <size_t kSize>
void set_text(std::array<char, kSize>& to, std::string_view text) {
  to.fill('\0');
  std::ranges::copy(text.substr(0, kSize - 1), to.begin());
}

double measured(const Device& device, mydev_measure what) {
  const auto* telemetry = extension_of<mydev_telemetry_extension>(*device.driver, MYDEV_TELEMETRY_EXTENSION);
  double value = 0;
  const bool known = telemetry != nullptr && telemetry->measure(device.index, what, &value) == MYDEV_OK;
  return known ? value : std::numeric_limits<double>::quiet_NaN();
}

// The page, the thread that writes it, and their end.
class PageWriter {
 public:
  PageWriter() {
    const std::string path = folder();
    need_folder(path);
    const uint64_t start = start_ticks();
    file_ = path + "/" + std::to_string(owner_) + "-" + std::to_string(start);
    const int file = ::open(file_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (file < 0) fail("making " + file_);
    void* memory = ::ftruncate(file, sizeof(MemoryPage)) != 0
                       ? MAP_FAILED
                       : ::mmap(nullptr, sizeof(MemoryPage), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    const int error = errno;
    ::close(file);
    if (memory == MAP_FAILED) {
      ::unlink(file_.c_str());
      errno = error;
      fail("mapping " + file_);
    }
    page_ = new (memory) MemoryPage{};
    page_->version = kMemoryPageVersion;
    page_->pid = owner_;
    page_->start_ticks = start;
    struct stat space{};
    if (::stat("/proc/self/ns/pid", &space) == 0) page_->pid_namespace = space.st_ino;
    set_text(page_->device_type, device_name());
    write();
    std::memcpy(page_->magic.data(), "MYDEVTOP", page_->magic.size());  // from now on it may be read
    start_thread();
  }

  // For exit. The forked child of the page's process has neither the thread nor a claim to the page.
  void stop() noexcept {
    if (::getpid() != owner_) return;
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_all();
    thread_.join();
    ::unlink(file_.c_str());
  }

 private:
  // Signals are for the program's own threads.
  void start_thread() {
    sigset_t all, before;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::pthread_setname_np(thread_.native_handle(), "mydev-top");
  }

  void run() noexcept {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, kPeriod, [this] { return stopped_; })) {
      try {
        write();
      } catch (const std::exception& error) {
        return log(MYDEV_LOG_DEBUG,
                   (std::string("mydev top is told no more of this process: ") + error.what()).c_str());
      }
    }
  }

  void write() {
    const uint64_t sequence = page_->sequence.load(std::memory_order_relaxed);
    page_->sequence.store(sequence + 1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    uint32_t count = 0;
    for (int index = 0; index < kMaxDevices && count < kMemoryPageDevices; ++index) {
      DeviceMemory* memory = DeviceMemory::existing(index);
      if (memory != nullptr) write_device(page_->devices[count++], *memory);
    }
    page_->device_count = count;
    page_->written = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    page_->sequence.store(sequence + 2, std::memory_order_release);
  }

  void write_device(MemoryPageDevice& row, DeviceMemory& memory) {
    const Device& device = memory.device();
    const AllocatorStats stats = memory.stats();
    set_text(page_->driver, device.driver->name);
    row.index = device.index;
    row.total_bytes = device.properties.total_memory;
    row.allocated_bytes = static_cast<uint64_t>(stats.allocated_bytes.all.current);
    row.reserved_bytes = static_cast<uint64_t>(stats.reserved_bytes.all.current);
    row.peak_bytes = static_cast<uint64_t>(stats.allocated_bytes.all.peak);
    row.utilization = measured(device, MYDEV_MEASURE_UTILIZATION);
    row.temperature = measured(device, MYDEV_MEASURE_TEMPERATURE);
    row.power = measured(device, MYDEV_MEASURE_POWER);
    set_text(row.name, device.properties.name);
  }

  const pid_t owner_ = ::getpid();
  std::string file_;
  MemoryPage* page_ = nullptr;
  std::mutex mutex_;
  std::condition_variable wake_;
  bool stopped_ = false;
  std::thread thread_;
};

// Never destroyed: it ends at exit, before the driver does.
PageWriter* writer = nullptr;

}  // namespace

void show_memory_page() noexcept {
  static std::once_flag once;
  std::call_once(once, [] {
    try {
      if (config_string("MYDEV_TOP") == "off") return;
      writer = new PageWriter;
      std::atexit([] { writer->stop(); });
    } catch (const std::exception& error) {
      log(MYDEV_LOG_DEBUG, (std::string("mydev top is not told of this process: ") + error.what()).c_str());
    }
  });
}

}  // namespace mydev
