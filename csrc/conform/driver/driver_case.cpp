#include "conform/driver/driver_case.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "runtime/base/status.h"
#include "runtime/driver/driver_life_cycle.h"

namespace mydev::conform {

Bytes pattern_bytes(size_t count, unsigned seed) {
  Bytes bytes(count);
  for (size_t i = 0; i < count; ++i) {
    bytes[i] = static_cast<unsigned char>((i * 131 + seed * 17) >> (i & 3));
  }
  return bytes;
}

DriverCase::DriverCase(Checks& recorder) : checks(recorder) {
  checks.require(driver_error()[0] == '\0', driver_error());
  checks.require(device_count() >= 1, "the driver has no device: device_count gave 0");
}

bool DriverCase::ends_badly() const {
  return checks.failed() || std::uncaught_exceptions() > 0;
}

bool DriverCase::ok(mydev_code code, std::string_view call) {
  if (code == MYDEV_OK) return true;
  checks.fail(std::string(call) + " failed: " + driver().last_error() + " [" + code_name(code) + "]");
  return false;
}

void DriverCase::must(mydev_code code, std::string_view call) {
  if (!ok(code, call)) checks.end();
}

bool DriverCase::same_bytes(std::string_view what, const Bytes& got, const Bytes& expected) {
  if (!checks.equal(std::string(what) + ": the number of bytes", got.size(), expected.size())) return false;
  if (got == expected) return true;
  const auto text = [](unsigned char byte) { return std::to_string(static_cast<int>(byte)); };
  size_t wrong = 0;
  for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != expected[i] ? 1 : 0;
  const auto first = std::mismatch(got.begin(), got.end(), expected.begin());
  checks.fail(std::string(what) + ": " + std::to_string(wrong) + " of " + std::to_string(got.size()) +
              " bytes are wrong, the first at " + std::to_string(first.first - got.begin()) + ": " +
              text(*first.first) + "; expected " + text(*first.second));
  return false;
}

void DriverCase::upload(Stream& stream, const DeviceMemory& to, const Bytes& from) {
  must(driver().copy(stream.handle(), to.data(), from.data(), from.size(), MYDEV_COPY_HOST_TO_DEVICE),
       "copy from the host to the device");
}

Bytes DriverCase::download(Stream& stream, const DeviceMemory& from) {
  Bytes to(from.bytes());
  must(driver().copy(stream.handle(), to.data(), from.data(), to.size(), MYDEV_COPY_DEVICE_TO_HOST),
       "copy from the device to the host");
  stream.synchronize();
  return to;
}

void DriverCase::fill(Stream& stream, const DeviceMemory& memory, const Bytes& pattern) {
  must(driver().fill(stream.handle(), memory.data(), memory.bytes(), pattern.data(),
                     static_cast<uint32_t>(pattern.size())),
       "fill");
}

void DriverCase::copy_on_device(Stream& stream, const DeviceMemory& to, const DeviceMemory& from) {
  must(driver().copy(stream.handle(), to.data(), from.data(), from.bytes(), MYDEV_COPY_DEVICE_TO_DEVICE),
       "copy on the device");
}

bool DriverCase::done(Stream& stream) {
  int32_t done = -1;
  must(driver().stream_query(stream.handle(), &done), "stream_query");
  checks.that(done == 0 || done == 1, "stream_query gives 0 or 1, and gave " + std::to_string(done));
  return done == 1;
}

DeviceMemory::DeviceMemory(DriverCase& owner, uint64_t bytes, int index) : owner_(owner), index_(index), bytes_(bytes) {
  owner.must(owner.driver().memory_alloc(index, bytes, &data_), "memory_alloc of " + std::to_string(bytes) + " bytes");
}

DeviceMemory::~DeviceMemory() {
  if (owner_.ends_badly()) return;
  owner_.ok(owner_.driver().memory_free(index_, data_, bytes_), "memory_free of " + std::to_string(bytes_) + " bytes");
}

DriverEvent::DriverEvent(DriverCase& owner, uint32_t flags) : owner_(owner) {
  owner.must(owner.driver().event_create(0, flags, &handle_), "event_create");
}

DriverEvent::~DriverEvent() {
  if (owner_.ends_badly()) return;
  owner_.ok(owner_.driver().event_destroy(handle_), "event_destroy");
}

void DriverEvent::record(Stream& stream) {
  owner_.must(owner_.driver().event_record(handle_, stream.handle()), "event_record");
}

bool DriverEvent::done() {
  int32_t done = -1;
  owner_.must(owner_.driver().event_query(handle_, &done), "event_query");
  owner_.checks.that(done == 0 || done == 1, "event_query gives 0 or 1, and gave " + std::to_string(done));
  return done == 1;
}

std::vector<Case> driver_cases(std::vector<DriverCaseRow> rows) {
  std::vector<Case> cases;
  cases.reserve(rows.size());
  for (DriverCaseRow& row : rows) {
    cases.push_back({.name = std::move(row.name),
                     .promise = std::move(row.promise),
                     .run =
                         [run = std::move(row.run)](Checks& checks) {
                           DriverCase driver_case(checks);
                           run(driver_case);
                         },
                     .prerequisite = row.prerequisite});
  }
  return cases;
}

}  // namespace mydev::conform
