// Status, configuration, devices, frames and launches of the runtime, with the inline host driver.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "error_fixture.h"
#include "runtime/base/config.h"
#include "runtime/base/source_location.h"
#include "runtime/base/status.h"
#include "runtime/command/command_hooks.h"
#include "runtime/command/launch.h"
#include "runtime/driver/device.h"
#include "runtime/driver/driver_life_cycle.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

// --- status ----------------------------------------------------------------------------------------------------------

TEST(Status, CodesHaveTheirCanonicalNames) {
  EXPECT_STREQ(code_name(MYDEV_OK), "OK");
  EXPECT_STREQ(code_name(MYDEV_INVALID_ARGUMENT), "INVALID_ARGUMENT");
  EXPECT_STREQ(code_name(MYDEV_UNAUTHENTICATED), "UNAUTHENTICATED");
  EXPECT_STREQ(code_name(static_cast<mydev_code>(99)), "UNKNOWN");
}

TEST(Status, ACheckRaisesItsCodeAndItsMessage) {
  try {
    MYDEV_CHECK(1 > 2, MYDEV_OUT_OF_RANGE, "got ", 1, " of ", 2);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MYDEV_OUT_OF_RANGE);
    EXPECT_STREQ(error.what(), "got 1 of 2");
  }
}

TEST(Status, ANumberThatIsNoCodeIsUnknown) {
  for (const int number : {-1, 17, 99}) {
    try {
      raise(static_cast<mydev_code>(number), "a vendor's function gave it");
    } catch (const Error& error) {
      const Error copied = error;
      EXPECT_EQ(copied.code(), MYDEV_UNKNOWN) << number;
    }
  }
}

struct Text {
  const char* name;
  std::string given, message;
};
class Messages : public testing::TestWithParam<Text> {};
INSTANTIATE_TEST_SUITE_P(Status, Messages,
                         testing::Values(Text{"Ascii", "plain", "plain"},
                                         Text{"Characters", "\u00e9 \u20ac \U0001f600", "\u00e9 \u20ac \U0001f600"},
                                         Text{"Bytes",
                                              "a\xff\xfe"
                                              "b",
                                              "a??b"},
                                         Text{"Latin1", "caf\xe9 au", "caf? au"}, Text{"CutOff", "x\xe2\x82", "x??"},
                                         Text{"OverLong", "\xc0\xaf", "??"}, Text{"Surrogate", "\xed\xa0\x80", "???"},
                                         Text{"BeyondUnicode", "\xf4\x90\x80\x80", "????"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Messages, AreTextWhateverALibrarySays) {
  expect_error(error_of([] { raise(MYDEV_INTERNAL, GetParam().given); }), MYDEV_INTERNAL, GetParam().message);
}

TEST(Status, AnInstalledRaiserChoosesTheException) {
  set_raiser([](mydev_code, const std::string& message, ErrorOwner) { throw std::domain_error(message); });
  EXPECT_THROW(raise(MYDEV_INTERNAL, "x"), std::domain_error);
  set_raiser(nullptr);
  EXPECT_THROW(raise(MYDEV_INTERNAL, "x"), Error);
}

// --- configuration ---------------------------------------------------------------------------------------------------

class Config : public testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("MYDEV_FALLBACK");
    ::unsetenv("MYDEV_FALBACK");
  }
};

TEST_F(Config, EveryVariableHasItsRow) {
  for (const ConfigVariable& variable : config_variables()) {
    EXPECT_TRUE(std::string(variable.name).starts_with("MYDEV_"));
    EXPECT_NE(std::string(variable.doc), "") << variable.name;
  }
}

TEST_F(Config, AnUnsetOrEmptyVariableHasItsDefault) {
  ::unsetenv("MYDEV_FALLBACK");
  EXPECT_EQ(config_string("MYDEV_FALLBACK"), "allow");
  ::setenv("MYDEV_FALLBACK", "", 1);
  EXPECT_EQ(config_string("MYDEV_FALLBACK"), "allow");
}

TEST_F(Config, TheEnvironmentWins) {
  ::setenv("MYDEV_FALLBACK", "error", 1);
  EXPECT_EQ(config_string("MYDEV_FALLBACK"), "error");
}

TEST_F(Config, AValueThatDoesNotFitIsRefusedWithTheChoices) {
  ::setenv("MYDEV_FALLBACK", "sometimes", 1);
  try {
    config_string("MYDEV_FALLBACK");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
    EXPECT_STREQ(error.what(), "MYDEV_FALLBACK='sometimes' is not valid; it takes allow|warn|error");
  }
}

struct Misfit {
  const char *name, *value, *takes;
};
class Misfits : public testing::TestWithParam<Misfit> {};
INSTANTIATE_TEST_SUITE_P(
    Config, Misfits,
    testing::Values(Misfit{"MYDEV_CUSTOM_CALLS", "/a.so:b.so", "absolute paths with ':' between"},
                    Misfit{"MYDEV_CUSTOM_CALL_TIMEOUT", "-1", "seconds from 0 to 1e9, 0 for no limit"},
                    Misfit{"MYDEV_CUSTOM_CALL_TIMEOUT", "5s", "seconds from 0 to 1e9, 0 for no limit"},
                    Misfit{"MYDEV_DRIVER", "hots:devices=2",
                           "'host', 'opencl', 'cuda', the name of an installed package's device or the path of a "
                           "driver's shared object, then ':option,option...', after 'validate:' to check it"},
                    Misfit{"MYDEV_FALLBACK", "ERROR", "allow|warn|error"},
                    Misfit{"MYDEV_FALLBACK_OPS", "garbage",
                           "operator=mode with ',' between, where a mode is allow|warn|error"},
                    Misfit{"MYDEV_FALLBACK_OPS", "aten::sort=allow,aten::topk=loud",
                           "operator=mode with ',' between, where a mode is allow|warn|error"},
                    Misfit{"MYDEV_ISA", "sse", "auto|baseline|avx2|avx512"}));

TEST_P(Misfits, AreRefusedWithNameValueAndWhatIsTaken) {
  const auto& [name, value, takes] = GetParam();
  const char* before = std::getenv(name);
  const std::string kept = before != nullptr ? before : "";
  ::setenv(name, value, 1);
  const Error error = error_of([] { check_config(); });
  before != nullptr ? ::setenv(name, kept.c_str(), 1) : ::unsetenv(name);
  EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
  EXPECT_EQ(error.what(), std::string(name) + "='" + value + "' is not valid; it takes " + takes);
}

TEST_F(Config, AValueOfTheRightFormIsTaken) {
  ::setenv("MYDEV_FALLBACK_OPS", "aten::sort=error,,mine::op.overload=allow", 1);
  ::setenv("MYDEV_CUSTOM_CALL_TIMEOUT", "0.5", 1);
  EXPECT_NO_THROW(check_config());
  ::unsetenv("MYDEV_FALLBACK_OPS");
  ::unsetenv("MYDEV_CUSTOM_CALL_TIMEOUT");
}

TEST_F(Config, ASlipOfThePenIsToldTheNearestName) {
  ::setenv("MYDEV_FALBACK", "error", 1);
  const std::vector<std::string> warnings = config_warnings();
  EXPECT_EQ(std::count(warnings.begin(), warnings.end(),
                       "unknown environment variable MYDEV_FALBACK; did you mean MYDEV_FALLBACK?"),
            1);
}

TEST_F(Config, KnownVariablesAreNoSlips) {
  ::setenv("MYDEV_FALLBACK", "error", 1);
  EXPECT_EQ(config_warnings(), std::vector<std::string>());
}

// --- devices ---------------------------------------------------------------------------------------------------------

TEST(Device, TheFirstIsCurrentAtFirst) {
  EXPECT_EQ(current_device(), 0);
}

TEST(Device, TheCurrentDeviceIsTheThreadsOwn) {
  const int previous = exchange_current_device(5);
  int seen = -1;
  std::thread([&] { seen = current_device(); }).join();
  EXPECT_EQ(seen, 0);
  EXPECT_EQ(exchange_current_device(-1), 5) << "a negative index changes nothing";
  EXPECT_EQ(exchange_current_device(previous), 5);
}

class DeviceIndex : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Invalid, DeviceIndex, testing::Values(-1, 16, 64, 1 << 20));
TEST_P(DeviceIndex, OutOfRangeIsToldTheRange) {
  try {
    set_current_device(GetParam());
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MYDEV_INVALID_ARGUMENT);
    EXPECT_NE(std::string(error.what()).find("invalid device index " + std::to_string(GetParam()) + ": there "),
              std::string::npos)
        << error.what();
  }
}

TEST(Device, KnowsItsFreeMemory) {
  uint64_t free_bytes = 0;
  uint64_t total = 0;
  memory_info(0, free_bytes, total);
  EXPECT_EQ(total, device(0).properties.total_memory);
  EXPECT_LE(free_bytes, total);
}

// --- fork ------------------------------------------------------------------------------------------------------------

// Runs body in a forked child; true if it returned true.
template <typename Body>
bool holds_in_child(const Body& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body() ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool refused_with_advice(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code() == MYDEV_FAILED_PRECONDITION && std::string(error.what()).find("spawn") != std::string::npos;
  }
  return false;
}

mydev_code do_nothing(const mydev_frame* /*frame*/) {
  return MYDEV_OK;
}
constexpr mydev_kernel kNothing = {sizeof(mydev_kernel), "test.nothing", do_nothing, nullptr, nullptr, nullptr};

TEST(Fork, TheChildOfAUserIsToldToSpawn) {
  Stream& stream = current_stream(0);
  mydev_frame frame = make_frame({}, 0);
  EXPECT_FALSE(in_bad_fork());
  EXPECT_TRUE(holds_in_child([&] {
    return in_bad_fork() && !driver_loaded() && device_count() == 0 &&
           std::string(driver_error()).find("spawn") != std::string::npos;
  }));
  EXPECT_TRUE(holds_in_child([&] { return refused_with_advice([] { current_stream(0); }); }));
  EXPECT_TRUE(holds_in_child([&] { return refused_with_advice([] { device(0); }); }));
  EXPECT_TRUE(holds_in_child([&] { return refused_with_advice([&] { stream.synchronize(); }); }));
  EXPECT_TRUE(holds_in_child([&] { return refused_with_advice([&] { launch(kNothing, frame, stream); }); }));
  EXPECT_NO_THROW(stream.synchronize()) << "the parent is not touched";
}

[[noreturn]] void fork_before_first_use() {
  std::exit(holds_in_child([] { return device_count() == 1 && !in_bad_fork(); }) ? 0 : 1);
}

TEST(Fork, BeforeTheFirstUseIsFree) {
  EXPECT_EXIT(fork_before_first_use(), testing::ExitedWithCode(0), "");
}

// --- frames ----------------------------------------------------------------------------------------------------------

TEST(Dtype, HasANameAndASize) {
  EXPECT_STREQ(dtype_name(MYDEV_BF16), "bf16");
  EXPECT_EQ(dtype_size(MYDEV_BF16), 2);
  EXPECT_EQ(dtype_size(MYDEV_C128), 16);
  EXPECT_STREQ(dtype_name(MYDEV_DTYPE_INVALID), "invalid");
  EXPECT_EQ(dtype_size(static_cast<mydev_dtype>(13)), 0);
  EXPECT_EQ(dtype_size(static_cast<mydev_dtype>(1000)), 0);
}

// A frame with one of everything, over storage of its own.
struct RichFrame {
  float out_data[6] = {}, in_data[6] = {};
  std::array<int64_t, 2> sizes = {2, 3}, dense = {3, 1}, transposed = {1, 2};
  std::array<int64_t, 2> ints = {4, -5};
  std::array<double, 2> doubles = {0.5, 2};
  std::array<float, 3> singles = {1, 2, 3};
  std::array<mydev_attribute, 1> inner = {bool_attribute("deep", true)};
  std::array<mydev_attribute, 2> entries = {array_attribute("scale", singles), dictionary_attribute("inner", inner)};
  std::array<mydev_buffer, 3> buffers = {{{out_data, sizes.data(), dense.data(), 2, MYDEV_F32},
                                          {in_data, sizes.data(), transposed.data(), 2, MYDEV_F32},
                                          {nullptr, sizes.data(), dense.data(), 2, MYDEV_S64}}};
  std::array<mydev_attribute, 9> attributes = {bool_attribute("flag", true),
                                               int_attribute("count", -7),
                                               float_attribute("alpha", 1.5),
                                               complex_attribute("z", 1, -2),
                                               string_attribute("mode", "mean"),
                                               int_array_attribute("ints", ints),
                                               float_array_attribute("floats", doubles),
                                               dictionary_attribute("options", entries),
                                               dictionary_attribute("nothing", {})};
  mydev_frame frame = make_frame(buffers, 1, attributes);

  static mydev_attribute string_attribute(const char* name, std::string_view value) {
    mydev_attribute a{name, MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(value.size()), {}};
    a.value.bytes = value.data();
    return a;
  }
  static mydev_attribute array_attribute(const char* name, std::span<const float> values) {
    mydev_attribute a{name, MYDEV_ATTRIBUTE_ARRAY, MYDEV_F32, static_cast<uint32_t>(values.size()), {}};
    a.value.data = values.data();
    return a;
  }
  static mydev_attribute dictionary_attribute(const char* name, std::span<const mydev_attribute> entries) {
    mydev_attribute a{name, MYDEV_ATTRIBUTE_DICTIONARY, 0, static_cast<uint32_t>(entries.size()), {}};
    a.value.attributes = entries.data();
    return a;
  }
  static mydev_attribute float_array_attribute(const char* name, std::span<const double> values) {
    mydev_attribute a{name, MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, static_cast<uint32_t>(values.size()), {}};
    a.value.floats = values.data();
    return a;
  }
};

constexpr const char* kRichDescription =
    "test.nothing(out f32[2,3], f32[2,3]{1,2}, none; flag=true, count=-7, alpha=1.5, z=(1,-2), mode=\"mean\", "
    "ints=[4,-5], floats=[0.5,2], options={scale=f32[3], inner={deep=true}}, nothing={})";

TEST(Frame, DescribesOperandsAndAttributes) {
  const RichFrame rich;
  EXPECT_EQ(describe_frame(kNothing, rich.frame), kRichDescription);
}

TEST(Frame, DescribesAnEmptyOne) {
  EXPECT_EQ(describe_frame(kNothing, make_frame({}, 0)), "test.nothing()");
}

TEST(Frame, ACloneOutlivesItsOriginal) {
  auto original = std::make_unique<RichFrame>();
  const OwnedFrame clone = clone_frame(original->frame);
  EXPECT_EQ(clone->buffers[0].data, original->out_data) << "device memory is shared";
  original.reset();
  EXPECT_EQ(describe_frame(kNothing, *clone), kRichDescription);
}

// --- launch ----------------------------------------------------------------------------------------------------------

TEST(Launch, FillsInTheFrame) {
  static const mydev_frame* seen = nullptr;
  static constexpr mydev_kernel kLook = {sizeof(mydev_kernel),
                                         "test.look",
                                         [](const mydev_frame* frame) {
                                           seen = frame;
                                           return MYDEV_OK;
                                         },
                                         nullptr,
                                         nullptr,
                                         nullptr};
  mydev_frame frame = make_frame({}, 0);
  launch(kLook, frame, default_stream(0));
  ASSERT_EQ(seen, &frame);
  EXPECT_EQ(frame.device, 0);
  EXPECT_EQ(frame.stream, default_stream(0).handle());
  EXPECT_EQ(frame.host, &host_services());
  EXPECT_EQ(frame.kernel, &kLook);
}

constexpr mydev_kernel kFailing = {sizeof(mydev_kernel),
                                   "test.failing",
                                   [](const mydev_frame* frame) {
                                     frame->host->set_error(frame, "index 7 is out of range");
                                     return MYDEV_OUT_OF_RANGE;
                                   },
                                   nullptr,
                                   nullptr,
                                   nullptr};
constexpr mydev_kernel kRecovering = {sizeof(mydev_kernel),
                                      "test.recovering",
                                      [](const mydev_frame* frame) {
                                        frame->host->set_error(frame, "the first way that was tried failed");
                                        return MYDEV_OK;
                                      },
                                      nullptr,
                                      nullptr,
                                      nullptr};
constexpr mydev_kernel kSilent = {sizeof(mydev_kernel),
                                  "test.silent",
                                  [](const mydev_frame*) { return MYDEV_UNIMPLEMENTED; },
                                  nullptr,
                                  nullptr,
                                  nullptr};

TEST(Launch, RaisesWhatTheKernelSaysWithItsOperands) {
  mydev_frame frame = make_frame({}, 0);
  try {
    launch(kFailing, frame, default_stream(0));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MYDEV_OUT_OF_RANGE);
    EXPECT_STREQ(error.what(), "index 7 is out of range [OUT_OF_RANGE in test.failing() on device mydev:0]");
  }
}

TEST(Launch, AFailureWithoutAMessageStillNamesTheKernel) {
  mydev_frame frame = make_frame({}, 0);
  try {
    launch(kSilent, frame, default_stream(0));
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), MYDEV_UNIMPLEMENTED);
    EXPECT_NE(std::string(error.what()).find("test.silent()"), std::string::npos) << error.what();
  }
}

// Its frame may lie where that of a later launch lies.
TEST(Launch, AMessageThatNoFailureFollowsIsForgotten) {
  mydev_frame frame = make_frame({}, 0);
  launch(kRecovering, frame, default_stream(0));
  const Error error = error_of([&] { launch(kSilent, frame, default_stream(0)); });
  EXPECT_EQ(std::string(error.what()).find("tried"), std::string::npos) << error.what();
}

TEST(Launch, IsCountedOnEveryThread) {
  const uint64_t before = launch_count();
  const auto launch_ten_times = [] {
    mydev_frame frame = make_frame({}, 0);
    for (int i = 0; i < 10; ++i) {
      launch(kNothing, frame, default_stream(0));
    }
  };
  launch_ten_times();
  std::thread(launch_ten_times).join();
  EXPECT_EQ(launch_count() - before, 20U);
}

TEST(Launch, HooksSeeEachLaunchUntilTheyAreRemoved) {
  std::vector<std::string> seen;
  const int id = add_command_hook({.submitted =
                                       [](void* context, const CommandRecord& record) {
                                         EXPECT_LE(record.begin_ns, record.end_ns);
                                         static_cast<std::vector<std::string>*>(context)->push_back(
                                             std::string(record.name) + " " + code_name(record.code));
                                       },
                                   .context = &seen});
  mydev_frame frame = make_frame({}, 0);
  launch(kNothing, frame, default_stream(0));
  EXPECT_THROW(launch(kFailing, frame, default_stream(0)), Error);
  remove_command_hook(id);
  launch(kNothing, frame, default_stream(0));
  EXPECT_EQ(seen, (std::vector<std::string>{"test.nothing OK", "test.failing OUT_OF_RANGE"}));
}

TEST(Launch, AnUnknownHookIsNotRemoved) {
  EXPECT_THROW(remove_command_hook(12345), Error);
}

// --- asynchronous errors, in a process of its own --------------------------------------------------------------------

[[noreturn]] void fail_asynchronously() {
  ::setenv("MYDEV_DRIVER", "host:async", 1);
  set_source_locator([] { return "train.py:12 in step"; });
  mydev_frame frame = make_frame({}, 0);
  launch(kFailing, frame, default_stream(0));
  try {
    default_stream(0).synchronize();
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
  default_stream(0).synchronize();
  std::exit(0);
}

TEST(FreshProcess, AnAsynchronousErrorNamesKernelAndPythonLine) {
  EXPECT_EXIT(fail_asynchronously(), testing::ExitedWithCode(0),
              "index 7 is out of range \\[OUT_OF_RANGE in test.failing\\(\\) on device mydev:0\\], launched at "
              "train.py:12 in step");
}

}  // namespace
}  // namespace mydev
