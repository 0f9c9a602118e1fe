// Failures that come later: of kernels, and of copies and fills at addresses that are no memory. Each is reported to
// somebody, once, and the stream works on.
//
// An asynchronous driver may offer "conformance.fail": no operands; attribute code (int): the work fails with that code
// and a message when the stream comes to it. A HOST_ACCESSIBLE device gets it from the suite.
#include <array>
#include <string>

#include "conform/driver/calls.h"
#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "runtime/base/status.h"
#include "runtime/command/launch.h"

namespace mydev::conform {
namespace {

mydev_code host_fail(const mydev_frame* frame) {
  frame->host->set_error(frame, "conformance.fail does as it is told");
  return static_cast<mydev_code>(frame->attributes[0].value.i);
}

constexpr mydev_kernel kHostFail = {sizeof(mydev_kernel), "conformance.fail", host_fail, nullptr, nullptr, nullptr};

class FailKernel {
 public:
  explicit FailKernel(DriverCase& t) {
    if (t.driver().find_kernel != nullptr) record_ = t.driver().find_kernel(0, kHostFail.name);
    of_driver_ = record_ != nullptr;
    if (record_ == nullptr && t.device().host_accessible()) record_ = &kHostFail;
    t.needs(t.device().asynchronous(), "work of this device is done when a call returns");
    t.needs(record_ != nullptr, "the driver offers no conformance.fail, and its memory is not host-accessible");
  }

  void launch(Stream& stream, mydev_code code) const {
    const mydev_attribute attribute = int_attribute("code", code);
    mydev_frame frame = make_frame({}, 0, {&attribute, 1});
    launch_or_decline(*record_, frame, stream, {.of_driver = of_driver_});
  }

 private:
  const mydev_kernel* record_ = nullptr;
  bool of_driver_ = false;
};

// Returns the error that the next wait raises; MYDEV_OK if there is none.
Error waited(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const Error& error) {
    return error;
  }
  return {MYDEV_OK, ""};
}

void expect_wait(DriverCase& t, std::string_view what, mydev_code code) {
  t.checks.equal("what " + std::string(what) + " reports", code_name(waited(t.stream()).code()), code_name(code));
}

void a_late_failure_is_reported_once(DriverCase& t) {
  const FailKernel fail(t);
  fail.launch(t.stream(), MYDEV_DATA_LOSS);
  const Error error = waited(t.stream());
  t.checks.equal("what the next wait reports", code_name(error.code()), code_name(MYDEV_DATA_LOSS));
  t.checks.that(error.what()[0] != '\0', "the failure has no message");
  expect_wait(t, "the wait after that", MYDEV_OK);
}

void the_first_of_several_is_reported(DriverCase& t) {
  const FailKernel fail(t);
  fail.launch(t.stream(), MYDEV_DATA_LOSS);
  fail.launch(t.stream(), MYDEV_OUT_OF_RANGE);
  expect_wait(t, "the next wait", MYDEV_DATA_LOSS);
  expect_wait(t, "the wait after that", MYDEV_OK);
}

void a_late_failure_leaves_the_stream_usable(DriverCase& t) {
  const FailKernel fail(t);
  fail.launch(t.stream(), MYDEV_DATA_LOSS);
  const DeviceMemory memory(t, 100);
  t.fill(t.stream(), memory, {3});
  expect_wait(t, "the next wait", MYDEV_DATA_LOSS);
  t.same_bytes("memory filled after work that failed", t.download(t.stream(), memory), Bytes(100, 3));
}

void synchronizing_the_device_finds_failures(DriverCase& t) {
  const FailKernel fail(t);
  fail.launch(t.stream(), MYDEV_DATA_LOSS);
  mydev_code reported = MYDEV_OK;
  try {
    synchronize_device(t.device());
  } catch (const Error& error) {
    reported = error.code();
  }
  t.checks.equal("what synchronizing the device reports", code_name(reported), code_name(MYDEV_DATA_LOSS));
  expect_wait(t, "the wait after that", MYDEV_OK);
}

void a_host_call_comes_after_failed_work(DriverCase& t) {
  const FailKernel fail(t);
  t.needs(t.driver().stream_host_call != nullptr, "the driver leaves host calls to the runtime");
  Calls& calls = Calls::make();
  fail.launch(t.stream(), MYDEV_DATA_LOSS);
  t.must(t.driver().stream_host_call(t.stream().handle(), Calls::count, &calls), "stream_host_call");
  expect_one_call(t, "the function given to stream_host_call, after work that failed,", calls);
  expect_wait(t, "the next wait", MYDEV_DATA_LOSS);
}

// --- copies and fills of what is no memory ---------------------------------------------------------------------------

constexpr uint64_t kSomeBytes = 4096;

// An address of neither a processor nor of a device that numbers its bytes from 0.
void* no_memory() {
  return reinterpret_cast<void*>(uintptr_t{0x7fff'ffff'f000'0000});
}

struct StrayAccess {
  const char* name;
  const char* what;
  mydev_code (*run)(const mydev_driver_api& driver, mydev_stream stream, void* device, void* host);
};

constexpr std::array kStrayAccesses = {
    StrayAccess{"copy_from_the_host", "a copy from the host to an address that is no memory",
                [](const auto& driver, mydev_stream stream, void* /*device*/, void* host) {
                  return driver.copy(stream, no_memory(), host, kSomeBytes, MYDEV_COPY_HOST_TO_DEVICE);
                }},
    StrayAccess{"copy_to_the_host", "a copy to the host from an address that is no memory",
                [](const auto& driver, mydev_stream stream, void* /*device*/, void* host) {
                  return driver.copy(stream, host, no_memory(), kSomeBytes, MYDEV_COPY_DEVICE_TO_HOST);
                }},
    StrayAccess{"copy_on_the_device", "a copy on the device to an address that is no memory",
                [](const auto& driver, mydev_stream stream, void* device, void* /*host*/) {
                  return driver.copy(stream, no_memory(), device, kSomeBytes, MYDEV_COPY_DEVICE_TO_DEVICE);
                }},
    StrayAccess{"fill", "a fill of an address that is no memory",
                [](const auto& driver, mydev_stream stream, void* /*device*/, void* /*host*/) {
                  const unsigned char pattern = 1;
                  return driver.fill(stream, no_memory(), kSomeBytes, &pattern, 1);
                }},
};

void expect_reported(DriverCase& t, const StrayAccess& access) {
  t.needs(!t.device().host_accessible() && (t.device().properties.capabilities & MYDEV_CAPABILITY_UNIFIED_MEMORY) == 0,
          "the device works on the host's memory, where a stray address ends the process");
  const DeviceMemory memory(t, kSomeBytes);
  Bytes host(kSomeBytes, 1);
  mydev_stream stream = t.stream().handle();
  mydev_code code = access.run(t.driver(), stream, memory.data(), host.data());
  if (code == MYDEV_OK) code = t.driver().stream_synchronize(stream);
  if (code == MYDEV_OK && t.driver().stream_status != nullptr) {
    t.must(t.driver().stream_status(stream, &code), "stream_status");
  }
  if (code == MYDEV_OK) {
    t.checks.fail(std::string(access.what) +
                  " returned OK, and neither stream_synchronize nor stream_status reports that it failed");
    return;
  }
  t.checks.that(t.driver().last_error()[0] != '\0', std::string(access.what) + " failed and last_error is empty");
}

std::vector<DriverCaseRow> stray_access_rows() {
  std::vector<DriverCaseRow> rows;
  rows.reserve(kStrayAccesses.size());
  for (const StrayAccess& access : kStrayAccesses) {
    rows.push_back({std::string("a_stray_") + access.name + "_is_reported",
                    std::string(access.what) + " fails, at once or with the stream",
                    [&access](DriverCase& t) { expect_reported(t, access); }});
  }
  return rows;
}

}  // namespace

std::vector<Case> failure_cases() {
  std::vector<DriverCaseRow> rows = {
      MYDEV_CASE(a_late_failure_is_reported_once,
                 "the next wait raises it, with a message, and the one after does not"),
      MYDEV_CASE(the_first_of_several_is_reported, "of several failures of a stream the first is reported"),
      MYDEV_CASE(a_late_failure_leaves_the_stream_usable, "work after a failure is done"),
      MYDEV_CASE(synchronizing_the_device_finds_failures, "waiting for the device reports a stream's failure"),
      MYDEV_CASE(a_host_call_comes_after_failed_work, "the function is called whether or not earlier work failed"),
  };
  for (DriverCaseRow& row : stray_access_rows()) rows.push_back(std::move(row));
  return driver_cases(std::move(rows));
}

}  // namespace mydev::conform
