// The tools of a case of this suite: the driver of MYDEV_DRIVER, its device 0, memory, uploads, downloads and fills
// through the driver's own entries.
//
// Streams are the runtime's, and waits for them go through it: they raise the failures of work that the driver reports.
// Memory that a case has allocated is given back at its end, unless the case ends badly: work may still be using it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "conform/case.h"
#include "runtime/driver/device.h"
#include "runtime/stream/stream_table.h"

namespace mydev::conform {

using Bytes = std::vector<unsigned char>;

// How long a case waits for something that has to come, before it reports that it never came. This is less than `mydev
// conform` gives a case.
inline constexpr std::chrono::seconds kPatience{4};
// How long a case watches for something that must not come.
inline constexpr std::chrono::milliseconds kLookout{50};

// Bytes that tell where they belong.
Bytes pattern_bytes(size_t count, unsigned seed = 1);

class DeviceMemory;

class DriverCase {
 public:
  explicit DriverCase(Checks& recorder);  // ends the case where there is no device

  const mydev_driver_api& driver() const { return *device().driver; }
  Device& device() const { return mydev::device(0); }
  Stream& stream() const { return default_stream(0); }

  // Check that a driver's function returned MYDEV_OK. If it did not, both record the driver's message, and must() ends
  // the case.
  bool ok(mydev_code code, std::string_view call);
  void must(mydev_code code, std::string_view call);
  // Ends the case if the driver leaves out an optional entry.
  void needs(bool entry, std::string_view otherwise) {
    if (!entry) checks.skip(std::string(otherwise));
  }
  bool same_bytes(std::string_view what, const Bytes& got, const Bytes& expected);

  void upload(Stream& stream, const DeviceMemory& to, const Bytes& from);
  Bytes download(Stream& stream, const DeviceMemory& from);  // after all work on the stream
  void fill(Stream& stream, const DeviceMemory& memory, const Bytes& pattern);
  void copy_on_device(Stream& stream, const DeviceMemory& to, const DeviceMemory& from);
  bool done(Stream& stream);  // by stream_query

  // A check has failed, or something is being thrown: work may be pending that uses what the case has.
  bool ends_badly() const;

  Checks& checks;
};

class DeviceMemory {
 public:
  DeviceMemory(DriverCase& owner, uint64_t bytes, int index = 0);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  void* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }
  uintptr_t begin() const { return reinterpret_cast<uintptr_t>(data_); }
  uintptr_t end() const { return begin() + bytes_; }

 private:
  DriverCase& owner_;
  int index_;
  uint64_t bytes_;
  void* data_ = nullptr;
};

class DriverEvent {
 public:
  explicit DriverEvent(DriverCase& owner, uint32_t flags = 0);
  ~DriverEvent();
  DriverEvent(const DriverEvent&) = delete;
  DriverEvent& operator=(const DriverEvent&) = delete;

  mydev_event handle() const { return handle_; }
  void record(Stream& stream);
  bool done();  // by event_query

 private:
  DriverCase& owner_;
  mydev_event handle_ = nullptr;
};

// Rows of a group's table.
struct DriverCaseRow {
  std::string name;
  std::string promise;
  std::function<void(DriverCase&)> run;
  bool prerequisite = false;
};
// The row of a function under its own name.
#define MYDEV_CASE(function, promise) {#function, promise, function}
std::vector<Case> driver_cases(std::vector<DriverCaseRow> rows);

}  // namespace mydev::conform
