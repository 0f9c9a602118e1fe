// Several threads at once: on streams of their own, and on one that they share.
#include <string>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"

namespace mydev::conform {
namespace {

constexpr int kHostThreads = 4;
constexpr int kRounds = 20;

void fill_and_look(DriverCase& t, Stream& stream, uint64_t bytes, int number) {
  const auto value = static_cast<unsigned char>(number + 1);
  const DeviceMemory memory(t, bytes);
  for (int round = 0; round < kRounds; ++round) {
    t.fill(stream, memory, {value});
    const std::string what = "memory filled by thread " + std::to_string(number);
    if (!t.same_bytes(what, t.download(stream, memory), Bytes(bytes, value))) return;
  }
}

void threads_work_on_streams_of_their_own(DriverCase& t) {
  on_threads(kHostThreads, [&](int number) { fill_and_look(t, stream_from_pool(0, 0), 1 << 16, number); });
}

void threads_share_a_stream(DriverCase& t) {
  on_threads(kHostThreads, [&](int number) { fill_and_look(t, t.stream(), 1 << 12, number); });
}

}  // namespace

std::vector<Case> thread_cases() {
  return driver_cases({
      MYDEV_CASE(threads_work_on_streams_of_their_own, "each of four threads sees the work of its own stream"),
      MYDEV_CASE(threads_share_a_stream, "four threads that use one stream see their own work"),
  });
}

}  // namespace mydev::conform
