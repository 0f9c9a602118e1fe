#include "runtime/stream/shared_event.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <ctime>
#include <fstream>
#include <random>

#include "runtime/base/source_location.h"
#include "runtime/base/status.h"
#include "runtime/stream/host_function_scope.h"

namespace mydev {

// The start of the shared memory. All processes that share it have the same layout.
struct SharedEvent::Page {
  uint64_t token;                  // of the event; in its handle too
  std::atomic<uint32_t> recorded;  // records so far; they wrap around
  std::atomic<uint32_t> done;      // the latest that is done
  std::atomic<int32_t> recorder;   // the process of the latest record, ...
  std::atomic<uint64_t> birth;     // ... and when it began, which distinguishes it from a later process of its number
};

namespace {

constexpr timespec kLookAtProcess = {.tv_sec = 0, .tv_nsec = 100'000'000};  // while waiting, in case it has ended

// Returns when a process began, in ticks since the machine did; 0 if it has ended, whether it was waited for or not.
uint64_t birth_of(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(file, text)) return 0;
  // After the name, which may hold anything: the state, and 18 numbers before the time.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos || name_end + 2 >= text.size()) return 0;
  const char state = text[name_end + 2];
  if (state == 'Z' || state == 'X') return 0;
  size_t place = name_end + 2;
  for (int field = 0; field < 19 && place != std::string::npos; ++field) place = text.find(' ', place + 1);
  uint64_t birth = 0;
  if (place != std::string::npos) std::from_chars(text.data() + place + 1, text.data() + text.size(), birth);
  return birth;
}

int futex(const std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  return static_cast<int>(::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0));
}

struct Handle {
  int owner = 0, file = 0;
  uint64_t token = 0;
};

Handle parse_handle(const std::string& text) {
  Handle handle;
  const char* const end = text.data() + text.size();
  const auto owner = std::from_chars(text.data(), end, handle.owner);
  const bool named = owner.ec == std::errc() && owner.ptr != end && *owner.ptr == ':';
  const auto file = named ? std::from_chars(owner.ptr + 1, end, handle.file) : owner;
  const bool numbered = named && file.ec == std::errc() && file.ptr != end && *file.ptr == ':';
  const auto token = numbered ? std::from_chars(file.ptr + 1, end, handle.token, 16) : file;
  MYDEV_CHECK(numbered && token.ec == std::errc() && token.ptr == end, MYDEV_INVALID_ARGUMENT, "'", text,
              "' is no handle of an event; Event.ipc_handle() gives one");
  return handle;
}

// Returns nullptr, with errno, if the page cannot be mapped.
void* map_page(int file, size_t bytes) {
  void* page = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  return page == MAP_FAILED ? nullptr : page;
}

}  // namespace

std::shared_ptr<SharedEvent> SharedEvent::create() {
  static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);
  const int file = ::memfd_create("event", MFD_CLOEXEC);
  const bool sized = file >= 0 && ::ftruncate(file, sizeof(Page)) == 0;
  auto* page = sized ? static_cast<Page*>(map_page(file, sizeof(Page))) : nullptr;
  if (page == nullptr) {
    const int problem = errno;
    if (file >= 0) ::close(file);
    raise(MYDEV_RESOURCE_EXHAUSTED, std::string("no memory file for an event: ") + std::strerror(problem));
  }
  std::random_device random;
  page->token = (static_cast<uint64_t>(random()) << 32) | random();
  return std::shared_ptr<SharedEvent>(new SharedEvent(page, ::getpid(), file));
}

std::shared_ptr<SharedEvent> SharedEvent::open(const std::string& text) {
  const Handle handle = parse_handle(text);
  const std::string path = "/proc/" + std::to_string(handle.owner) + "/fd/" + std::to_string(handle.file);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  MYDEV_CHECK(file >= 0, MYDEV_NOT_FOUND, "the event of process ", handle.owner,
              " cannot be opened: ", std::strerror(errno),
              "; the process that made it must live, and be the same user's");
  const bool long_enough = ::lseek(file, 0, SEEK_END) == static_cast<off_t>(sizeof(Page));
  auto* page = long_enough ? static_cast<Page*>(map_page(file, sizeof(Page))) : nullptr;
  ::close(file);
  if (page == nullptr || page->token != handle.token) {
    if (page != nullptr) ::munmap(page, sizeof(Page));
    raise(MYDEV_NOT_FOUND, "process " + std::to_string(handle.owner) + " has no such event any more");
  }
  return std::shared_ptr<SharedEvent>(new SharedEvent(page, handle.owner, handle.file));
}

SharedEvent::~SharedEvent() {
  ::munmap(page_, sizeof(Page));
  if (owner_ == ::getpid()) ::close(file_);
}

std::string SharedEvent::handle() const {
  char token[17] = {};
  std::to_chars(token, token + sizeof(token) - 1, page_->token, 16);
  return std::to_string(owner_) + ":" + std::to_string(file_) + ":" + token;
}

void SharedEvent::record(Stream& stream) {
  const int process = ::getpid();
  static const uint64_t birth = birth_of(process);  // a forked child of who has recorded cannot record
  page_->birth.store(birth);
  page_->recorder.store(process);
  const uint32_t record = page_->recorded.fetch_add(1) + 1;
  try {
    stream.host_call([self = shared_from_this(), record] { self->finish(record); }, "record of a shared event",
                     source_location());
  } catch (...) {
    finish(record);  // nobody waits for what was not given
    throw;
  }
}

void SharedEvent::finish(uint32_t record) {
  uint32_t done = page_->done.load();
  while (static_cast<int32_t>(record - done) > 0 && !page_->done.compare_exchange_weak(done, record)) {
  }
  futex(page_->done, FUTEX_WAKE, INT32_MAX, nullptr);
}

bool SharedEvent::done(uint32_t record) const {
  return static_cast<int32_t>(page_->done.load() - record) >= 0;
}

void SharedEvent::wait_for(uint32_t record) const {
  for (;;) {
    const uint32_t done_now = page_->done.load();
    if (static_cast<int32_t>(done_now - record) >= 0) return;
    futex(page_->done, FUTEX_WAIT, done_now, &kLookAtProcess);
    const int recorder = page_->recorder.load();
    const uint64_t birth = page_->birth.load();
    if (done(record) || birth_of(recorder) == birth) continue;
    raise(MYDEV_FAILED_PRECONDITION, "process " + std::to_string(recorder) +
                                         ", which recorded a shared event, has ended before the event was done");
  }
}

void SharedEvent::block(Stream& stream) {
  const uint32_t record = page_->recorded.load();
  if (done(record)) return;
  stream.host_call([self = shared_from_this(), record] { self->wait_for(record); }, "wait for a shared event",
                   source_location());
}

bool SharedEvent::query() const {
  return done(page_->recorded.load());
}

void SharedEvent::synchronize() const {
  HostFunctionScope::check_waits("waiting for an event");
  wait_for(page_->recorded.load());
}

}  // namespace mydev
