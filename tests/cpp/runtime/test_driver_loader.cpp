// Loading drivers: refusals that say what is wrong, and a process that survives a driver which fails in any call.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "built_files.h"
#include "runtime/base/status.h"
#include "runtime/command/launch.h"
#include "runtime/driver/device.h"
#include "runtime/driver/device_properties.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/driver/driver_loader.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

const std::string kBrokenDriver = built_file("drivers/broken_driver.so");

// An environment variable for the time of a scope.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~ScopedVariable() { ::unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

Error error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error;
  }
  return {MYDEV_OK, "no error"};
}

void expect_refusal(const std::string& spec, mydev_code code, const std::string& part_of_message) {
  const Error error = error_of([&] { load_driver(spec); });
  EXPECT_EQ(error.code(), code) << error.what();
  EXPECT_NE(std::string(error.what()).find(part_of_message), std::string::npos) << error.what();
}

TEST(DriverLoader, LoadsTheHostDriver) {
  EXPECT_STREQ(load_driver("host").api.name, "host");
}

TEST(DriverLoader, LoadsASharedObject) {
  EXPECT_STREQ(load_driver(kBrokenDriver).api.name, "broken");
}

TEST(DriverLoader, RefusesAMissingFile) {
  expect_refusal("/no/such/driver.so", MYDEV_NOT_FOUND, "'/no/such/driver.so': no such file");
}

TEST(DriverLoader, RefusesAFileThatIsNoSharedObject) {
  const std::string path = testing::TempDir() + "/text.so";
  std::ofstream(path) << "not an ELF file";
  expect_refusal(path, MYDEV_FAILED_PRECONDITION, "cannot be loaded");
}

TEST(DriverLoader, RefusesASharedObjectThatIsNoDriver) {
  expect_refusal("libm.so.6.so", MYDEV_FAILED_PRECONDITION, "cannot be loaded");
  expect_refusal("/proc/self/exe", MYDEV_FAILED_PRECONDITION, "/proc/self/exe");
}

TEST(DriverLoader, RefusesAnotherVersion) {
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", "version");
  expect_refusal(kBrokenDriver, MYDEV_FAILED_PRECONDITION, "is built for version 2.2 of mydev/driver.h");
}

TEST(DriverLoader, RefusesADriverThatRefusesUs) {
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", "null");
  expect_refusal(kBrokenDriver, MYDEV_FAILED_PRECONDITION, "returned NULL");
}

TEST(DriverLoader, RefusesATableTooSmallForAVersion) {
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", "small");
  expect_refusal(kBrokenDriver, MYDEV_FAILED_PRECONDITION, "a table of 8 bytes");
}

TEST(DriverLoader, PassesOnWhatInitializeSays) {
  expect_refusal(kBrokenDriver + ":fail=initialize", MYDEV_INTERNAL, "initialize fails on request");
  expect_refusal(kBrokenDriver + ":color=red", MYDEV_INVALID_ARGUMENT, "unknown option 'color=red'");
}

class RequiredEntry : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Entries, RequiredEntry,
                         testing::Values("initialize", "last_error", "device_count", "device_properties",
                                         "memory_alloc", "memory_free", "copy", "fill", "stream_create",
                                         "stream_destroy", "stream_query", "stream_synchronize", "stream_wait_event",
                                         "event_create", "event_destroy", "event_record", "event_query",
                                         "event_synchronize", "event_elapsed", "launch"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(RequiredEntry, ItsAbsenceIsNamed) {
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", GetParam());
  expect_refusal(kBrokenDriver, MYDEV_FAILED_PRECONDITION, "lacks the entry '" + std::string(GetParam()) + "'");
}

class PairedEntry : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Entries, PairedEntry,
                         testing::Values("host_alloc", "host_free", "host_access_begin", "host_access_end",
                                         "host_register", "host_unregister", "host_access_begin_range",
                                         "host_access_end_range"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(PairedEntry, IsRefusedAlone) {
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", GetParam());
  expect_refusal(kBrokenDriver, MYDEV_FAILED_PRECONDITION, "both or neither");
}

class OptionalEntry : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Entries, OptionalEntry,
                         testing::Values("memory_info", "copy_peer", "stream_status", "stream_host_call",
                                         "event_on_done", "copy_strided", "peer_access", "pointer_info",
                                         "list_kernels"),
                         [](const auto& test) { return std::string(test.param); });

TEST_P(OptionalEntry, MayBeAbsent) {
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", GetParam());
  EXPECT_STREQ(load_driver(kBrokenDriver).api.name, "broken");
}

TEST(DriverLoader, RefusesRangesWithoutTheWholeOfHostAccess) {
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", "host_access_begin+host_access_end");
  expect_refusal(kBrokenDriver, MYDEV_FAILED_PRECONDITION, "host_access_end_range without host_access_begin");
}

// --- extensions ------------------------------------------------------------------------------------------------------

TEST(DriverExtensions, AreLoadedWithTheDriver) {
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", "extension_whole");
  const OpenDriver& driver = load_driver(kBrokenDriver);
  ASSERT_EQ(driver.extensions.size(), 1U);
  EXPECT_EQ(driver.extensions[0].name, "profiler");
  ASSERT_TRUE(driver.extensions[0].known());
  EXPECT_NE(driver.extensions[0].as<mydev_profiler_extension>().flush, nullptr);
}

using Refusal = std::tuple<const char*, const char*>;
class BrokenExtension : public testing::TestWithParam<Refusal> {};
INSTANTIATE_TEST_SUITE_P(
    Defects, BrokenExtension,
    testing::Values(Refusal{"extension_without_table", "lists the extension 'profiler' and gives no table"},
                    Refusal{"extension_without_entry", "its entry `extension` is NULL"},
                    Refusal{"extension_without_list", "the list of them is NULL"},
                    Refusal{"extension_without_name", "an extension without a name"},
                    Refusal{"extension_of_version_0", "'profiler' with version 0; versions begin with 1"},
                    Refusal{"extension_twice", "'profiler' twice"},
                    Refusal{"extension_too_small", "'profiler' has struct_size 24"},
                    Refusal{"extension_too_new", "'profiler' says version 9, asked was for at most 1"},
                    Refusal{"extension_incomplete", "'profiler' lacks the entry 'flush'"},
                    Refusal{"extensions_absurd", "lists 1099511627776 extensions"}),
    [](const auto& test) { return std::string(std::get<0>(test.param)); });

TEST_P(BrokenExtension, IsRefusedWithTheNamesOfDriverAndExtension) {
  const auto& [name, message] = GetParam();
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", name);
  expect_refusal(kBrokenDriver, MYDEV_FAILED_PRECONDITION, message);
  expect_refusal(kBrokenDriver, MYDEV_FAILED_PRECONDITION, "driver '" + kBrokenDriver + "'");
}

// --- other minor versions --------------------------------------------------------------------------------------------

TEST(OlderDriver, HasNoneOfTheLaterEntries) {
  const OpenDriver& driver = load_driver(built_file("drivers/discrete_driver_1_0.so"));
  EXPECT_EQ(driver.api.version_minor, 0U);
  EXPECT_EQ(driver.api.stream_status, nullptr);
  EXPECT_EQ(driver.api.pointer_info, nullptr);
  EXPECT_EQ(driver.api.num_extensions, 0U);
  EXPECT_TRUE(driver.extensions.empty());
}

TEST(OlderDriver, HasPropertiesThatTheRuntimeFillsIn) {
  const OpenDriver& driver = load_driver(built_file("drivers/discrete_driver_1_0.so"));
  const mydev_device_properties first = read_properties(driver.api, "old", 0);
  const mydev_device_properties second = read_properties(driver.api, "old", 1);
  EXPECT_STREQ(first.architecture, "discrete");
  EXPECT_STREQ(first.driver_version, "1.0");
  EXPECT_EQ(first.max_allocation, first.total_memory);
  EXPECT_EQ(first.native_dtypes, 0U);
  EXPECT_EQ(first.uuid[6] >> 4, 8);
  EXPECT_NE(std::memcmp(first.uuid, second.uuid, sizeof(first.uuid)), 0);
}

TEST(OlderDriver, HasNoneOfTheEntriesOfTheLastVersion) {
  const OpenDriver& driver = load_driver(built_file("drivers/discrete_driver_1_1.so"));
  EXPECT_EQ(driver.api.version_minor, 1U);
  EXPECT_EQ(driver.api.list_kernels, nullptr);
  EXPECT_EQ(driver.api.host_access_begin_range, nullptr);
  EXPECT_EQ(driver.api.host_access_end_range, nullptr);
}

TEST(NewerDriver, IsReadAsFarAsItIsKnown) {
  const OpenDriver& driver = load_driver(built_file("drivers/discrete_driver_1_3.so"));
  EXPECT_EQ(driver.api.version_minor, 3U);
  ASSERT_EQ(driver.extensions.size(), 2U);
  EXPECT_EQ(driver.extensions[0].version, 1U) << "of a profiler that knows version 2";
  EXPECT_TRUE(driver.extensions[0].known());
  EXPECT_EQ(driver.extensions[1].name, "time_travel");
  EXPECT_EQ(driver.extensions[1].version, 7U);
  EXPECT_FALSE(driver.extensions[1].known());
}

// --- a driver that fails ---------------------------------------------------------------------------------------------

mydev_code do_nothing(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}
constexpr mydev_kernel kNothing = {sizeof(mydev_kernel), "test.nothing", do_nothing, nullptr, nullptr, nullptr};

// Makes every call that the runtime makes of a driver, each in its turn, and collects what is raised.
std::vector<std::string> use_everything() {
  std::vector<std::string> errors;
  const auto attempt = [&](const std::function<void()>& action) {
    if (const Error error = error_of(action); error.code() != MYDEV_OK) {
      errors.emplace_back(error.what());
    }
  };
  std::vector<char> host(4096);
  void* data = nullptr;
  const auto check = [](mydev_code code) { check_driver(device(0), code, "the call"); };
  attempt([&] { check(device(0).driver->memory_alloc(0, host.size(), &data)); });
  if (data == nullptr) {
    return errors;
  }
  attempt([&] {
    uint64_t free_bytes = 0;
    uint64_t total = 0;
    memory_info(0, free_bytes, total);
  });
  attempt([&] {
    void* pinned = nullptr;
    check(device(0).driver->host_alloc(host.size(), &pinned));
    check(device(0).driver->host_free(pinned, host.size()));
  });
  attempt([&] { const HostAccess access(device(0)); });
  attempt([&] { const HostAccess access(device(0), {{data, host.size(), MYDEV_HOST_READS}}); });
  attempt([&] {
    const mydev_kernel* const* kernels = nullptr;
    check(device(0).driver->list_kernels(0, &kernels));
  });
  attempt([&] {
    check(
        device(0).driver->copy(default_stream(0).handle(), data, host.data(), host.size(), MYDEV_COPY_HOST_TO_DEVICE));
  });
  attempt([&] { check(device(0).driver->copy_peer(default_stream(0).handle(), data, 0, data, 0, 1)); });
  attempt([&] { check(device(0).driver->fill(default_stream(0).handle(), data, host.size(), "x", 1)); });
  attempt([&] {
    const int64_t size = 8;
    const int64_t stride = 2;
    const mydev_buffer to = {data, &size, &stride, 1, MYDEV_F32, 0};
    const mydev_buffer from = {host.data(), &size, &stride, 1, MYDEV_F32, 0};
    check(device(0).driver->copy_strided(default_stream(0).handle(), &to, &from, MYDEV_COPY_HOST_TO_DEVICE));
  });
  attempt([&] {
    check(device(0).driver->host_register(host.data(), host.size()));
    check(device(0).driver->host_unregister(host.data(), host.size()));
  });
  attempt([&] {
    mydev_pointer_info info{.struct_size = sizeof(info)};
    check(device(0).driver->pointer_info(data, &info));
  });
  attempt([&] { default_stream(0).host_call([] {}, "a call", ""); });
  attempt([&] { stream_from_pool(0, 0).query(); });
  attempt([&] { default_stream(0).synchronize(); });
  attempt([&] {
    Event start(0, true);
    Event end(0, true);
    start.record(default_stream(0));
    end.record(default_stream(0));
    start.block(default_stream(0));
    end.query();
    end.synchronize();
    start.elapsed(end);
    check(device(0).driver->event_on_done(end.handle(), [](void*) {}, nullptr));
  });
  attempt([&] {
    mydev_stream made = nullptr;
    check(device(0).driver->stream_create(0, 0, &made));
    check(device(0).driver->stream_destroy(made));
  });
  attempt([&] {
    mydev_frame frame = make_frame({}, 0);
    launch(kNothing, frame, default_stream(0));
    default_stream(0).synchronize();
  });
  attempt([&] { check(device(0).driver->memory_free(0, data, host.size())); });
  return errors;
}

// In a child process: with `entry` failing in its first call that matters, exactly that is reported, and then all
// works.
[[noreturn]] void survive_failure(const std::string& entry, const std::string& mode) {
  ::setenv("MYDEV_DRIVER", (kBrokenDriver + ":" + mode + "fail=" + entry + ",times=1").c_str(), 1);
  const std::vector<std::string> errors = use_everything();
  const std::vector<std::string> later = use_everything();
  const bool named = !errors.empty() && errors.front().find(entry + " fails on request") != std::string::npos;
  for (const std::string& error : errors) {
    std::fprintf(stderr, "first: %s\n", error.c_str());
  }
  for (const std::string& error : later) {
    std::fprintf(stderr, "later: %s\n", error.c_str());
  }
  std::exit(named && later.empty() ? 0 : 1);
}

class FailingEntry : public testing::TestWithParam<std::tuple<const char*, const char*>> {};
INSTANTIATE_TEST_SUITE_P(Entries, FailingEntry,
                         testing::Combine(testing::Values("memory_alloc", "memory_free", "memory_info", "host_alloc",
                                                          "host_free", "host_access_begin", "host_access_begin_range",
                                                          "list_kernels", "copy", "copy_peer", "fill", "stream_create",
                                                          "stream_destroy", "stream_query", "stream_synchronize",
                                                          "stream_wait_event", "event_create", "event_record",
                                                          "event_query", "event_synchronize", "event_elapsed", "launch",
                                                          "stream_status", "stream_host_call", "event_on_done",
                                                          "copy_strided", "host_register", "pointer_info"),
                                          testing::Values("", "async,")),
                         [](const auto& test) {
                           return std::string(std::get<0>(test.param)) +
                                  (*std::get<1>(test.param) != '\0' ? "_async" : "");
                         });

TEST_P(FailingEntry, IsReportedOnceAndTheProcessStaysUsable) {
  const auto& [entry, mode] = GetParam();
  EXPECT_EXIT(survive_failure(entry, mode), testing::ExitedWithCode(0), "");
}

// Destructors have nobody to report to; a driver that fails there must not bring the process down.
class FailingCleanup : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Entries, FailingCleanup, testing::Values("event_destroy", "host_access_end"),
                         [](const auto& test) { return std::string(test.param); });

[[noreturn]] void survive_failing_cleanup(const std::string& entry) {
  ::setenv("MYDEV_DRIVER", (kBrokenDriver + ":fail=" + entry).c_str(), 1);
  std::exit(use_everything().empty() ? 0 : 1);
}

TEST_P(FailingCleanup, IsSurvived) {
  EXPECT_EXIT(survive_failing_cleanup(GetParam()), testing::ExitedWithCode(0), "");
}

[[noreturn]] void report_missing_devices(const std::string& options, const std::string& expected) {
  ::setenv("MYDEV_DRIVER", (kBrokenDriver + ":" + options).c_str(), 1);
  const Error error = error_of([] { device(0); });
  std::fprintf(stderr, "%s\n", error.what());
  const bool consistent = device_count() == 0 && std::string(error.what()).find(driver_error()) != std::string::npos;
  std::exit(consistent && std::string(error.what()).find(expected) != std::string::npos ? 0 : 1);
}

class BrokenProperties : public testing::TestWithParam<Refusal> {};
INSTANTIATE_TEST_SUITE_P(Defects, BrokenProperties,
                         testing::Values(Refusal{"alignment", "an alignment of 96 bytes"},
                                         Refusal{"small_alignment", "an alignment of 32 bytes"},
                                         Refusal{"priorities", "stream priorities from 5 to 0"},
                                         Refusal{"max_allocation", "a largest allocation of "},
                                         Refusal{"launch_copies", "LAUNCH_COPIES without ASYNC"}),
                         [](const auto& test) { return std::string(std::get<0>(test.param)); });

TEST_P(BrokenProperties, AreRefusedWithTheirValues) {
  const auto& [name, message] = GetParam();
  const ScopedVariable defect("BROKEN_DRIVER_DEFECT", name);
  EXPECT_EXIT(report_missing_devices("", message), testing::ExitedWithCode(0), "");
}

TEST(FailingStart, LeavesNoDevicesAndAReason) {
  EXPECT_EXIT(report_missing_devices("fail=device_count", "device_count fails on request"), testing::ExitedWithCode(0),
              "");
  EXPECT_EXIT(report_missing_devices("fail=device_properties", "device_properties fails on request"),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(report_missing_devices("devices=2,fail=peer_access", "peer_access fails on request"),
              testing::ExitedWithCode(0), "");
  EXPECT_EXIT(report_missing_devices("fail=initialize", "initialize fails on request"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(report_missing_devices("devices=0", "finds no hardware"), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mydev
