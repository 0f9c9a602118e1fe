// The PJRT plugin as a client sees it: compiling, executing, donation, asynchrony, errors. The programs are text.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "pjrt/buffer/submission.h"
#include "pjrt_fixture.h"
#include "runtime/driver/device.h"

namespace mydev::pjrt {
namespace {

using Values = std::vector<float>;

constexpr char kAddOne[] = R"(programs version 1
program add_one(x: f32[4]) -> (y: f32[4]) {
  y = launch mydev.add(x, f32[4] 1.0; alpha=1.0)
}
)";
constexpr char kUpdate[] = R"(programs version 1
program update(donated state: f32[4], g: f32[4]) -> (state, y: f32[4]) {
  y = launch mydev.add(state, f32[4] 0.0; alpha=1.0)
  state = launch mydev.add(state, g; alpha=1.0)
}
)";

class PjrtExecute : public Pjrt {
 protected:
  // On one device for each row of arguments; `outputs` results on each.
  std::vector<std::vector<BufferHandle>> execute(PJRT_LoadedExecutable* executable,
                                                 const std::vector<std::vector<PJRT_Buffer*>>& rows, size_t outputs,
                                                 const std::vector<int64_t>& kept = {}) {
    std::vector<PJRT_Buffer* const*> arguments;
    std::vector<std::vector<PJRT_Buffer*>> results(rows.size(), std::vector<PJRT_Buffer*>(outputs));
    std::vector<PJRT_Buffer**> result_lists;
    for (size_t d = 0; d < rows.size(); ++d) {
      arguments.push_back(rows[d].data());
      result_lists.push_back(results[d].data());
    }
    std::vector<PJRT_Event*> events(rows.size());
    auto options = sized<PJRT_ExecuteOptions>();
    options.non_donatable_input_indices = kept.data();
    options.num_non_donatable_input_indices = kept.size();
    auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = executable;
    args.options = &options;
    args.argument_lists = arguments.data();
    args.num_devices = rows.size();
    args.num_args = rows[0].size();
    args.output_lists = result_lists.data();
    args.device_complete_events = events.data();
    call(api().PJRT_LoadedExecutable_Execute, args);
    std::vector<std::vector<BufferHandle>> handles(rows.size());
    complete_.clear();
    for (size_t d = 0; d < rows.size(); ++d) {
      complete_.emplace_back(events[d]);
      for (PJRT_Buffer* result : results[d]) handles[d].emplace_back(result);
    }
    return handles;
  }

  ExecutableHandle executable_of(PJRT_LoadedExecutable* loaded) {
    auto args = sized<PJRT_LoadedExecutable_GetExecutable_Args>();
    args.loaded_executable = loaded;
    call(api().PJRT_LoadedExecutable_GetExecutable, args);
    return ExecutableHandle(args.executable);
  }

  std::vector<EventHandle> complete_;  // of the last execution, for each device
};

// --- compiling -------------------------------------------------------------------------------------------------------

TEST_F(PjrtExecute, RefusesFormatsThatItDoesNotKnow) {
  expect_error(error_of([&] { compile("", "", "invalid"); }), MYDEV_INVALID_ARGUMENT,
               "Unknown program format 'invalid'.");
}

TEST_F(PjrtExecute, RefusesOptionsThatAreNone) {
  expect_error(error_of([&] { compile(kAddOne, "\x0b not a message"); }), MYDEV_INVALID_ARGUMENT,
               "PJRT_Client_Compile: failed to deserialize CompileOptionsProto");
}

TEST_F(PjrtExecute, RefusesAnAssignmentOfOtherCounts) {
  const std::string partitions_5 = {0x1a, 0x02, 0x28, 0x05};  // appended: the last one counts
  expect_error(error_of([&] { compile(kAddOne, options_for({0}, partitions_5)); }), MYDEV_INVALID_ARGUMENT,
               "the device assignment is not one of 1 replicas of 5 partitions");
}

TEST_F(PjrtExecute, RefusesDevicesThatAreNotThere) {
  expect_error(error_of([&] { compile(kAddOne, options_for({99})); }), MYDEV_INVALID_ARGUMENT,
               "No matching device found for device_id 99");
}

TEST_F(PjrtExecute, RefusesAnOrdinalThatIsNotThere) {
  WireWriter build, options;
  build.number(1, 99);  // device_ordinal
  options.bytes(3, std::move(build).take());
  expect_error(error_of([&] { compile(kAddOne, std::move(options).take()); }), MYDEV_INVALID_ARGUMENT,
               "device_ordinal is 99");
}

TEST_F(PjrtExecute, DescribesWhatWasCompiled) {
  const LoadedHandle loaded = compile(kUpdate);
  const ExecutableHandle executable = executable_of(loaded.get());
  auto sizes = sized<PJRT_Executable_OutputDimensions_Args>();
  sizes.executable = executable.get();
  call(api().PJRT_Executable_OutputDimensions, sizes);
  ASSERT_EQ(sizes.num_outputs, 2U);
  EXPECT_EQ(sizes.dim_sizes[1], 1U);
  EXPECT_EQ(sizes.dims[1], 4);
  auto types = sized<PJRT_Executable_OutputElementTypes_Args>();
  types.executable = executable.get();
  call(api().PJRT_Executable_OutputElementTypes, types);
  EXPECT_EQ(types.output_types[0], PJRT_Buffer_Type_F32);
  auto memory = sized<PJRT_Executable_GetCompiledMemoryStats_Args>();
  memory.executable = executable.get();
  call(api().PJRT_Executable_GetCompiledMemoryStats, memory);
  EXPECT_EQ(memory.argument_size_in_bytes, 32);
  EXPECT_EQ(memory.alias_size_in_bytes, 16);
}

TEST_F(PjrtExecute, EchoesTheProgramInTwoCalls) {
  const LoadedHandle loaded = compile(kAddOne);
  const ExecutableHandle executable = executable_of(loaded.get());
  auto program = sized<PJRT_Program>();
  auto args = sized<PJRT_Executable_OptimizedProgram_Args>();
  args.executable = executable.get();
  args.program = &program;
  call(api().PJRT_Executable_OptimizedProgram, args);
  std::string code(program.code_size, '\0');
  program.code = code.data();
  call(api().PJRT_Executable_OptimizedProgram, args);
  EXPECT_EQ(code, kAddOne);
  EXPECT_EQ(std::string(program.format, program.format_size), "mydev_program");
}

TEST_F(PjrtExecute, RunsWhatWasSerialized) {
  const LoadedHandle loaded = compile(kAddOne);
  const ExecutableHandle executable = executable_of(loaded.get());
  auto serialized = sized<PJRT_Executable_Serialize_Args>();
  serialized.executable = executable.get();
  call(api().PJRT_Executable_Serialize, serialized);
  std::string bytes(serialized.serialized_bytes, serialized.serialized_bytes_size);
  serialized.serialized_executable_deleter(serialized.serialized_executable);
  auto load = sized<PJRT_Executable_DeserializeAndLoad_Args>();
  load.client = client();
  load.serialized_executable = bytes.data();
  load.serialized_executable_size = bytes.size();
  call(api().PJRT_Executable_DeserializeAndLoad, load);
  const LoadedHandle again(load.loaded_executable);
  const BufferHandle x = upload({1, 2, 3, 4});
  EXPECT_EQ(download(execute(again.get(), {{x.get()}}, 1)[0][0].get()), (Values{2, 3, 4, 5}));
  load.serialized_executable_size = bytes.size() - 1;
  expect_error(error_of([&] { call(api().PJRT_Executable_DeserializeAndLoad, load); }), MYDEV_INVALID_ARGUMENT,
               "is damaged: malformed message");
  load.serialized_executable_size = bytes.size();
  bytes[bytes.find("mydev.add")] = 'n';
  expect_error(error_of([&] { call(api().PJRT_Executable_DeserializeAndLoad, load); }), MYDEV_INVALID_ARGUMENT,
               "it is not what its hash was taken of");
}

// --- executing -------------------------------------------------------------------------------------------------------

TEST_F(PjrtExecute, FeedsResultsToTheNextExecution) {
  const LoadedHandle loaded = compile(kAddOne);
  BufferHandle x = upload({1, 2, 3, 4});
  for (int i = 0; i < 100; ++i) x = std::move(execute(loaded.get(), {{x.get()}}, 1)[0][0]);
  await(complete_[0].get());
  EXPECT_TRUE(is_ready(ready_event(x.get()).get()));
  EXPECT_EQ(download(x.get()), (Values{101, 102, 103, 104}));
}

TEST_F(PjrtExecute, RefusesArgumentsOfOtherShapes) {
  const LoadedHandle loaded = compile(kAddOne);
  const BufferHandle x = upload({1, 2, 3});
  expect_error(error_of([&] { execute(loaded.get(), {{x.get()}}, 1); }), MYDEV_INVALID_ARGUMENT,
               "argument 0 of 'add_one' is f32[3] in device of mydev:0, and f32[4] is expected");
  expect_error(error_of([&] { execute(loaded.get(), {{x.get(), x.get()}}, 1); }), MYDEV_INVALID_ARGUMENT,
               "'add_one' takes 1 arguments, and 2 are given");
}

TEST_F(PjrtExecute, RefusesToRunWhatWasDeleted) {
  const LoadedHandle loaded = compile(kAddOne);
  const BufferHandle x = upload({1, 2, 3, 4});
  auto args = sized<PJRT_LoadedExecutable_Delete_Args>();
  args.executable = loaded.get();
  call(api().PJRT_LoadedExecutable_Delete, args);
  expect_error(error_of([&] { execute(loaded.get(), {{x.get()}}, 1); }), MYDEV_FAILED_PRECONDITION, "was deleted");
}

TEST_F(PjrtExecute, AcceptsOptionsOfOlderClients) {
  const LoadedHandle loaded = compile(kAddOne);
  const BufferHandle x = upload({1, 2, 3, 4});
  std::vector<PJRT_Buffer*> arguments = {x.get()}, results = {nullptr};
  PJRT_Buffer* const* const argument_list = arguments.data();
  PJRT_Buffer** const result_list = results.data();
  auto options = sized<PJRT_ExecuteOptions>();
  options.struct_size = offsetof(PJRT_ExecuteOptions, non_donatable_input_indices);
  options.num_non_donatable_input_indices = 77;  // beyond the caller's struct
  auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
  args.struct_size = offsetof(PJRT_LoadedExecutable_Execute_Args, execute_device);
  args.executable = loaded.get();
  args.options = &options;
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = 1;
  args.output_lists = &result_list;
  call(api().PJRT_LoadedExecutable_Execute, args);
  const BufferHandle y(results[0]);
  EXPECT_EQ(download(y.get()), (Values{2, 3, 4, 5}));
}

// --- donation --------------------------------------------------------------------------------------------------------

TEST_F(PjrtExecute, UpdatesDonatedArgumentsInPlace) {
  const LoadedHandle loaded = compile(kUpdate);
  const BufferHandle state = upload({1, 2, 3, 4}), g = upload({10, 10, 10, 10});
  const uintptr_t place = address(state.get());
  const auto results = execute(loaded.get(), {{state.get(), g.get()}}, 2);
  EXPECT_EQ(address(results[0][0].get()), place);
  EXPECT_EQ(download(results[0][0].get()), (Values{11, 12, 13, 14}));
  EXPECT_EQ(download(results[0][1].get()), (Values{1, 2, 3, 4}));
  EXPECT_TRUE(is_deleted(state.get()));
  expect_error(error_of([&] { download(state.get()); }), MYDEV_INVALID_ARGUMENT, "was donated to 'update'");
}

TEST_F(PjrtExecute, KeepsArgumentsThatTheCallerDoesNotDonate) {
  const LoadedHandle loaded = compile(kUpdate);
  const BufferHandle state = upload({1, 2, 3, 4}), g = upload({10, 10, 10, 10});
  const auto results = execute(loaded.get(), {{state.get(), g.get()}}, 2, {0});
  EXPECT_EQ(download(results[0][0].get()), (Values{11, 12, 13, 14}));
  EXPECT_EQ(download(state.get()), (Values{1, 2, 3, 4}));
}

TEST_F(PjrtExecute, KeepsDonatedArgumentsThatOthersRefer) {
  const LoadedHandle loaded = compile(kUpdate);
  const BufferHandle state = upload({1, 2, 3, 4}), g = upload({10, 10, 10, 10});
  auto add = sized<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  add.buffer = state.get();
  call(api().PJRT_Buffer_IncreaseExternalReferenceCount, add);
  const auto results = execute(loaded.get(), {{state.get(), g.get()}}, 2);
  EXPECT_EQ(download(results[0][0].get()), (Values{11, 12, 13, 14}));
  EXPECT_EQ(download(state.get()), (Values{1, 2, 3, 4}));
}

TEST_F(PjrtExecute, RefusesADonatedArgumentThatIsGivenTwice) {
  const LoadedHandle loaded = compile(kUpdate);
  const BufferHandle state = upload({1, 2, 3, 4});
  expect_error(error_of([&] { execute(loaded.get(), {{state.get(), state.get()}}, 2); }), MYDEV_INVALID_ARGUMENT,
               "argument 1 of 'update' is also given as one that is donated");
  EXPECT_FALSE(is_deleted(state.get()));
}

// --- asynchrony and errors -------------------------------------------------------------------------------------------

// Kernels that wait for the test, or for each other; at most ten seconds.
class Gate {
 public:
  void close() { set(false); }
  void open() { set(true); }
  bool pass() {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [this] { return open_; });
  }

 private:
  void set(bool open) {
    const std::lock_guard lock(mutex_);
    open_ = open;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = true;
};
Gate gate;
std::atomic<bool> shall_fail{false};
std::atomic<int> arrived{0};
int expected_arrivals = 0;
Gate all_arrived;

mydev_code pass_gate(const mydev_frame*) {
  return gate.pass() ? MYDEV_OK : MYDEV_DEADLINE_EXCEEDED;
}
mydev_code fail_if_asked(const mydev_frame* frame) {
  if (!shall_fail) return MYDEV_OK;
  frame->host->set_error(frame, "out of order");
  return MYDEV_ABORTED;
}
mydev_code rendezvous(const mydev_frame*) {
  if (++arrived == expected_arrivals) all_arrived.open();
  return all_arrived.pass() ? MYDEV_OK : MYDEV_DEADLINE_EXCEEDED;
}

void register_test_kernel(const char* name, mydev_code (*entry)(const mydev_frame*)) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof kernel;
  kernel.name = name;
  kernel.entry = entry;
  register_kernel(kernel);
}

std::string text_with(const std::string& kernel) {
  register_test_kernel("test.gate", pass_gate);
  register_test_kernel("test.failing", fail_if_asked);
  register_test_kernel("test.rendezvous", rendezvous);
  return "programs version 1\nprogram p(x: f32[4]) -> (y: f32[4]) {\n  y = copy x\n  y = launch test." + kernel +
         "(y)\n}\n";
}

// The test's kernels are the host's.
#define SKIP_UNLESS_THE_HOST_RUNS_KERNELS() \
  if (!mydev::device(0).host_accessible()) GTEST_SKIP() << "needs memory that the host reaches"

TEST_F(PjrtExecute, ReturnsBeforeTheWorkIsDone) {
  if (!mydev::device(0).asynchronous()) GTEST_SKIP() << "needs an asynchronous driver";
  SKIP_UNLESS_THE_HOST_RUNS_KERNELS();
  const LoadedHandle slow = compile(text_with("gate")), next = compile(kAddOne);
  const BufferHandle x = upload({1, 2, 3, 4});
  gate.close();
  const auto y = execute(slow.get(), {{x.get()}}, 1);
  const auto z = execute(next.get(), {{y[0][0].get()}}, 1);
  const BufferHandle later = upload({5, 6, 7, 8});  // does not wait either
  EXPECT_FALSE(is_ready(ready_event(y[0][0].get()).get()));
  EXPECT_FALSE(is_ready(complete_[0].get()));
  gate.open();
  EXPECT_EQ(download(z[0][0].get()), (Values{2, 3, 4, 5}));
  EXPECT_EQ(download(later.get()), (Values{5, 6, 7, 8}));
}

TEST_F(PjrtExecute, GivesAFailureToAllThatComesOfIt) {
  SKIP_UNLESS_THE_HOST_RUNS_KERNELS();
  const LoadedHandle failing = compile(text_with("failing")), next = compile(kAddOne);
  const BufferHandle x = upload({1, 2, 3, 4});
  shall_fail = true;
  const auto y = execute(failing.get(), {{x.get()}}, 1);
  const auto z = execute(next.get(), {{y[0][0].get()}}, 1);
  const EventHandle complete = std::move(complete_[0]);
  expect_error(error_of([&] { await(ready_event(y[0][0].get()).get()); }), MYDEV_ABORTED, "out of order");
  shall_fail = false;
  expect_error(error_of([&] { await(complete.get()); }), MYDEV_ABORTED, "out of order");
  expect_error(error_of([&] { download(z[0][0].get()); }), MYDEV_ABORTED, "out of order");
  EXPECT_EQ(download(execute(failing.get(), {{x.get()}}, 1)[0][0].get()), (Values{1, 2, 3, 4}));
}

TEST_F(PjrtExecute, BlamesNoWorkForTheFailureOfLaterWork) {
  SKIP_UNLESS_THE_HOST_RUNS_KERNELS();
  const LoadedHandle failing = compile(text_with("failing"));
  for (int i = 0; i < 100; ++i) {
    const BufferHandle x = upload({1, 2, 3, 4});
    shall_fail = true;
    const auto y = execute(failing.get(), {{x.get()}}, 1);
    const BufferHandle after = upload({5, 6, 7, 8});
    expect_error(error_of([&] { await(ready_event(y[0][0].get()).get()); }), MYDEV_ABORTED, "out of order");
    shall_fail = false;
    await(ready_event(x.get()).get());
    await(ready_event(after.get()).get());
  }
}

TEST_F(PjrtExecute, RunsPartsOfAProgramOnSeveralDevicesAtOnce) {
  if (devices().size() < 2) GTEST_SKIP() << "needs two devices";
  SKIP_UNLESS_THE_HOST_RUNS_KERNELS();
  std::vector<int64_t> ids;
  std::vector<BufferHandle> arguments;
  std::vector<std::vector<PJRT_Buffer*>> rows;
  for (size_t d = 0; d < devices().size(); ++d) {
    ids.push_back(static_cast<int64_t>(d));
    arguments.push_back(upload(Values(4, static_cast<float>(d)), device(d)));
    rows.push_back({arguments.back().get()});
  }
  const LoadedHandle loaded = compile(text_with("rendezvous"), options_for(ids));
  arrived = 0;
  expected_arrivals = static_cast<int>(ids.size());
  all_arrived.close();
  const auto results = execute(loaded.get(), rows, 1);
  for (size_t d = 0; d < results.size(); ++d) {
    await(complete_[d].get());
    EXPECT_EQ(download(results[d][0].get()), Values(4, static_cast<float>(d)));
  }
}

TEST_F(PjrtExecute, TellsAPartOfAProgramThatItIsCancelled) {
  const SharedCompletion failed = Completion::failed({MYDEV_ABORTED, "an argument was never made"});
  std::atomic<int> submitted{0}, cancelled{0};
  for (const bool input_fails : {true, false}) {
    Submission part{.name = "part"};
    if (input_fails) part.inputs = {failed};
    part.submit = [&](Stream&) {
      ++submitted;
      raise(MYDEV_ABORTED, "no such kernel");
    };
    part.cancel = [&](const Failure&) { ++cancelled; };
    const SharedCompletion end = submit_on_thread(Platform::get().local(*device()), std::move(part));
    end->wait();
    EXPECT_TRUE(end->has_failed());
  }
  EXPECT_EQ(submitted, 1);
  EXPECT_EQ(cancelled, 2);
}

TEST_F(PjrtExecute, CallsContinuationsBeforeAClientIsDestroyed) {
  const LoadedHandle loaded = compile(kAddOne);
  const BufferHandle x = upload({1, 2, 3, 4});
  const auto y = execute(loaded.get(), {{x.get()}}, 1);
  std::atomic<bool> called{false};
  auto args = sized<PJRT_Event_OnReady_Args>();
  args.event = complete_[0].get();
  args.callback = [](PJRT_Error* error, void* user) {
    EXPECT_EQ(error, nullptr);
    *static_cast<std::atomic<bool>*>(user) = true;
  };
  args.user_arg = &called;
  call(api().PJRT_Event_OnReady, args);
  auto create = sized<PJRT_Client_Create_Args>();
  call(api().PJRT_Client_Create, create);
  ClientHandle(create.client).reset();
  EXPECT_TRUE(called);
}

TEST_F(PjrtExecute, RunsAPortableExecutableWhereTheCallSays) {
  const std::string portable = {0x20, 0x01};
  const LoadedHandle loaded = compile(kAddOne, portable);
  PJRT_Device* last = devices().back();
  const BufferHandle x = upload({1, 2, 3, 4}, last);
  std::vector<PJRT_Buffer*> arguments = {x.get()}, results = {nullptr};
  PJRT_Buffer* const* const argument_list = arguments.data();
  PJRT_Buffer** const result_list = results.data();
  auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = loaded.get();
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = 1;
  args.output_lists = &result_list;
  expect_error(error_of([&] { call(api().PJRT_LoadedExecutable_Execute, args); }), MYDEV_INVALID_ARGUMENT,
               "names none");
  args.execute_device = last;
  call(api().PJRT_LoadedExecutable_Execute, args);
  const BufferHandle y(results[0]);
  EXPECT_EQ(download(y.get()), (Values{2, 3, 4, 5}));
}

}  // namespace
}  // namespace mydev::pjrt
