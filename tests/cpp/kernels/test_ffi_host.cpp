// The host of typed-FFI kernels: each function of its table, tasks on the thread pool, and futures.
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "ffi_handlers.h"
#include "runtime/base/parallel.h"
#include "runtime/memory/workspace.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

// --- the table's functions -------------------------------------------------------------------------------------------

TEST(FfiHost, GivesStreamDeviceAndOneRunIdPerCall) {
  static std::vector<int64_t> run_ids;
  run_ids.clear();
  const auto look = handler([](CallFrame* frame) -> ffi::Error* {
    ffi::StreamGetArgs stream{sizeof(stream), nullptr, frame->context, nullptr};
    if (ffi::Error* error = frame->api->stream_get(&stream)) return error;
    ffi::DeviceOrdinalGetArgs ordinal{ffi::kDeviceOrdinalGetArgsSize, nullptr, frame->context, -1};
    if (ffi::Error* error = frame->api->device_ordinal_get(&ordinal)) return error;
    ffi::RunIdGetArgs run{sizeof(run), nullptr, frame->context, 0};
    if (ffi::Error* error = frame->api->run_id_get(&run)) return error;
    run_ids.push_back(run.run_id);
    const bool right = stream.stream == default_stream(0).handle() && ordinal.ordinal == 0;
    return right ? nullptr : fail(frame, 13, "stream or device");
  });
  const ScopedKernel kernel(ffi_record("test.look", look, nullptr, look));
  run_kernel(*kernel);
  run_kernel(*kernel);
  ASSERT_EQ(run_ids.size(), 4U);
  EXPECT_EQ(run_ids[0], run_ids[1]);
  EXPECT_NE(run_ids[1], run_ids[2]);
}

TEST(FfiHost, HasNoDeviceWhileInstantiating) {
  const ScopedKernel kernel(ffi_record("test.early", succeed, handler([](CallFrame* frame) -> ffi::Error* {
                                         ffi::StreamGetArgs args{sizeof(args), nullptr, frame->context, nullptr};
                                         return frame->api->stream_get(&args);
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_FAILED_PRECONDITION, "while a handler is instantiated");
}

TEST(FfiHost, GivesDeviceMemoryAndTakesItBack) {
  static std::atomic<size_t> free_after;
  const ScopedKernel kernel(
      ffi_record("test.memory", handler([](CallFrame* frame) -> ffi::Error* {
                   void* kept = nullptr;
                   for (int i = 0; i < 2; ++i) {
                     ffi::MemoryAllocateArgs args{sizeof(args), nullptr, frame->context, 1000, 16, nullptr};
                     if (ffi::Error* error = frame->api->memory_allocate(&args)) return error;
                     std::memset(args.data, 1, 1000);
                     if (i == 0) {
                       kept = args.data;
                       continue;
                     }
                     if (args.data == kept) return fail(frame, 13, "the same memory twice");
                     ffi::MemoryFreeArgs free{sizeof(free), nullptr, frame->context, 1000, args.data};
                     if (ffi::Error* error = frame->api->memory_free(&free)) return error;
                   }
                   return nullptr;
                 })));
  run_kernel(*kernel);
  const int64_t before = allocator_stats(0).allocated_bytes.all.current;
  run_kernel(*kernel);
  EXPECT_EQ(allocator_stats(0).allocated_bytes.all.current, before);
}

// Memory goes back to the driver once this stream has passed, or at any time once its owner has it.
TEST(FfiHost, GivesMemoryOfTheStreamThatRuns) {
  Stream& other = stream_from_pool(0, 0);
  Stream& external = register_external_stream(0, other.handle());
  Block* block = allocate_while_running(0, external.handle(), 1000);
  EXPECT_EQ(block->stream->handle(), external.handle());
  EXPECT_NE(block->stream, &external);
  EXPECT_FALSE(block->stream->released());
  release(*block);
}

TEST(FfiHost, MemoryOfAnExternalStreamIsReleasedWithIt) {
  int handle = 0;
  Stream& external = register_external_stream(0, reinterpret_cast<mydev_stream>(&handle));
  Block* block = allocate_while_running(0, external.handle(), 1000);
  EXPECT_EQ(block->stream->handle(), external.handle());
  release_external_stream(external);
  EXPECT_TRUE(block->stream->released());
  release(*block);
}

class MemoryMisuse : public testing::TestWithParam<Misuse> {};
INSTANTIATE_TEST_SUITE_P(
    FfiHost, MemoryMisuse,
    testing::Values(Misuse{"Alignment", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::MemoryAllocateArgs args{sizeof(args), nullptr, frame->context, 8, 24, nullptr};
                             return frame->api->memory_allocate(&args);
                           }),
                           MYDEV_INVALID_ARGUMENT, "an alignment of 24"},
                    Misuse{"TooMuch", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::MemoryAllocateArgs args{sizeof(args), nullptr, frame->context, SIZE_MAX, 8, nullptr};
                             return frame->api->memory_allocate(&args);
                           }),
                           MYDEV_RESOURCE_EXHAUSTED, "more than any device has"},
                    Misuse{"OutOfMemory", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::MemoryAllocateArgs args{sizeof(args),    nullptr, frame->context,
                                                          size_t{1} << 50, 8,       nullptr};
                             return frame->api->memory_allocate(&args);
                           }),
                           MYDEV_RESOURCE_EXHAUSTED, "out of memory"},
                    Misuse{"FreeUnknown", handler([](CallFrame* frame) -> ffi::Error* {
                             int mine = 0;
                             ffi::MemoryFreeArgs args{sizeof(args), nullptr, frame->context, 4, &mine};
                             return frame->api->memory_free(&args);
                           }),
                           MYDEV_INVALID_ARGUMENT, "was not allocated"},
                    Misuse{"NullContext", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::MemoryAllocateArgs args{sizeof(args), nullptr, nullptr, 4, 4, nullptr};
                             return frame->api->memory_allocate(&args);
                           }),
                           MYDEV_INVALID_ARGUMENT, "the context is NULL"},
                    Misuse{"UnknownUserData", handler([](CallFrame* frame) -> ffi::Error* {
                             const ffi::TypeId type{123456};
                             ffi::ContextGetArgs args{sizeof(args), nullptr, frame->context, &type, nullptr};
                             return frame->api->context_get(&args);
                           }),
                           MYDEV_NOT_FOUND, "no user data of type 123456"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(MemoryMisuse, IsRefused) {
  const ScopedKernel kernel(ffi_record("test.misuse", GetParam().handler));
  expect_error(error_of([&] { run_kernel(*kernel); }), GetParam().code, GetParam().message);
}

TEST(FfiHost, GivesUserData) {
  static int data = 5;
  ffi::TypeId type{0};
  ASSERT_EQ(ffi::register_type("test.user_data", type, nullptr), nullptr);
  ffi::set_user_data(type, &data);
  static std::atomic<int64_t> id;
  id = type.id;
  const ScopedKernel kernel(ffi_record("test.user", handler([](CallFrame* frame) -> ffi::Error* {
                                         const ffi::TypeId wanted{id};
                                         ffi::ContextGetArgs args{sizeof(args), nullptr, frame->context, &wanted,
                                                                  nullptr};
                                         if (ffi::Error* error = frame->api->context_get(&args)) return error;
                                         return args.data == &data ? nullptr : fail(frame, 13, "data");
                                       })));
  run_kernel(*kernel);
  ffi::set_user_data(type, nullptr);
  EXPECT_EQ(error_of([&] { run_kernel(*kernel); }).code(), MYDEV_NOT_FOUND);
}

TEST(FfiHost, RegistersTypesOnce) {
  const ffi::Api& api = ffi::api_table(3);
  const ffi::TypeInfo info{sizeof(ffi::TypeInfo), nullptr, std::free};
  ffi::TypeId type{0}, again{0};
  const std::string name = "test.type";
  ffi::TypeRegisterArgs args{ffi::kTypeRegisterArgsSize, nullptr, {name.data(), name.size()}, &type, &info};
  ASSERT_EQ(api.type_register(&args), nullptr);
  EXPECT_GT(type.id, 0);
  EXPECT_EQ(api.type_register(&args), nullptr) << "the same again";
  args.type_id = &again;
  std::unique_ptr<ffi::Error> error(api.type_register(&args));
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, MYDEV_ALREADY_EXISTS);
}

template <typename Args>
Args register_args(size_t size) {
  constexpr std::string_view kName = "test.from_table", kPlatform = "Host";
  Args args{};
  args.struct_size = size;
  args.name = {kName.data(), kName.size()};
  args.platform = {kPlatform.data(), kPlatform.size()};
  args.bundle.stages[ffi::kExecute] = succeed;
  args.traits = ffi::kCommandBufferCompatible;
  return args;
}

// Registers by either layout, whatever the table: a library asks for the table before anybody knows its version.
void expect_registered(int table, void* args) {
  ASSERT_EQ(ffi::api_table(table).handler_register(args), nullptr);
  const mydev_kernel* kernel = find_kernel("test.from_table");
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(kernel->traits, MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE);
  EXPECT_EQ(kernel->execute, reinterpret_cast<mydev_function>(succeed));
  run_kernel(*kernel);
  unregister_kernel("test.from_table");
}

TEST(FfiHost, RegistersHandlers) {
  for (const int table : {2, 3, 4, 5}) {
    auto without_record = register_args<ffi::HandlerRegisterArgs3>(84);
    expect_registered(table, &without_record);
    auto with_record = register_args<ffi::HandlerRegisterArgs>(92);
    with_record.bundle.record = succeed;
    expect_registered(table, &with_record);
  }
}

TEST(FfiHost, RefusesARegistrationThatIsTooShort) {
  auto args = register_args<ffi::HandlerRegisterArgs3>(80);
  const std::unique_ptr<ffi::Error> error(ffi::api_table(5).handler_register(&args));
  ASSERT_NE(error, nullptr);
  EXPECT_EQ(error->code, MYDEV_INVALID_ARGUMENT);
}

TEST(FfiHost, HasNoExtensionsOfAContext) {
  const ScopedKernel kernel(ffi_record("test.extension", handler<4>([](CallFrame* frame) -> ffi::Error* {
                                         ffi::ContextExtension untouched{};
                                         ffi::FindExtensionArgs args{sizeof(args), nullptr, frame->context,
                                                                     /*type=*/128, &untouched};
                                         if (ffi::Error* error = frame->api->find_extension(&args)) return error;
                                         return args.extension == nullptr ? nullptr : fail(frame, 13, "an extension");
                                       })));
  run_kernel(*kernel);
}

TEST(FfiHost, GivesAnEmptyTableOfCustomOptions) {
  const ScopedKernel kernel(ffi_record("test.options", handler<5>([](CallFrame* frame) -> ffi::Error* {
                                         ffi::CustomOptionsGetArgs args{sizeof(args), nullptr, frame->context, nullptr};
                                         if (ffi::Error* error = frame->api->custom_options_get(&args)) return error;
                                         const bool right = args.options != nullptr && args.options->size == 0 &&
                                                            args.options->struct_size == sizeof(ffi::Attributes);
                                         return right ? nullptr : fail(frame, 13, "options");
                                       })));
  run_kernel(*kernel);
}

TEST(FfiHost, ATableEndsWithTheEntriesOfItsVersion) {
  EXPECT_EQ(ffi::api_table(3).struct_size, 192U);
  EXPECT_EQ(ffi::api_table(4).struct_size, 200U);
  EXPECT_EQ(ffi::api_table(5).struct_size, 208U);
  EXPECT_EQ(ffi::api_table(3).find_extension, nullptr);
  EXPECT_EQ(ffi::api_table(4).custom_options_get, nullptr);
}

TEST(FfiHost, GivesVersion01NoFutures) {
  const ScopedKernel kernel(ffi_record("test.old", handler<1>([](CallFrame* frame) -> ffi::Error* {
                                         ffi::FutureCreateArgs args{ffi::kFutureCreateArgsSize, nullptr, nullptr};
                                         return frame->api->future_create(&args);
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNIMPLEMENTED, "0.1");
  const ScopedKernel threads(ffi_record("test.old_threads", handler<1>([](CallFrame* frame) -> ffi::Error* {
                                          int64_t count = 0;
                                          ffi::ThreadPoolNumThreadsArgs args{sizeof(args), nullptr, frame->context,
                                                                             &count};
                                          return frame->api->thread_pool_num_threads(&args);
                                        })));
  run_kernel(*threads);
}

// --- threads ---------------------------------------------------------------------------------------------------------

TEST(ThreadPool, RunsEachTaskOnce) {
  static std::atomic<int> done;
  done = 0;
  const ScopedKernel kernel(ffi_record(
      "test.tasks", handler([](CallFrame* frame) -> ffi::Error* {
        int64_t threads = 0;
        ffi::ThreadPoolNumThreadsArgs count{sizeof(count), nullptr, frame->context, &threads};
        if (ffi::Error* error = frame->api->thread_pool_num_threads(&count)) return error;
        if (threads != parallel_threads() && threads < 1) return fail(frame, 13, "threads");
        for (int i = 0; i < 100; ++i) {
          ffi::ThreadPoolScheduleArgs args{sizeof(args), nullptr, frame->context,
                                           [](void* data) { ++*static_cast<std::atomic<int>*>(data); }, &done};
          if (ffi::Error* error = frame->api->thread_pool_schedule(&args)) return error;
        }
        return nullptr;
      })));
  run_kernel(*kernel);  // on the thread itself
  EXPECT_EQ(done, 100);
  run_kernel(*kernel);  // with the pool
  EXPECT_EQ(done, 200);
}

TEST(ThreadPool, SurvivesATaskThatThrows) {
  const ScopedKernel kernel(ffi_record("test.throwing_task", handler([](CallFrame* frame) -> ffi::Error* {
                                         ffi::ThreadPoolScheduleArgs args{sizeof(args), nullptr, frame->context,
                                                                          [](void*) { throw 1; }, nullptr};
                                         return frame->api->thread_pool_schedule(&args);
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNKNOWN, "a task that the handler scheduled threw");
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNKNOWN, "a task that the handler scheduled threw");
}

TEST(ThreadPool, IsReportedToBeMissingInBadArguments) {
  const ScopedKernel kernel(ffi_record("test.no_task", handler([](CallFrame* frame) -> ffi::Error* {
                                         ffi::ThreadPoolScheduleArgs args{sizeof(args), nullptr, frame->context,
                                                                          nullptr, nullptr};
                                         return frame->api->thread_pool_schedule(&args);
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_INVALID_ARGUMENT, "the task is NULL");
}

// --- futures ---------------------------------------------------------------------------------------------------------

class ScopedTimeout {
 public:
  explicit ScopedTimeout(const char* seconds) { ::setenv("MYDEV_CUSTOM_CALL_TIMEOUT", seconds, 1); }
  ~ScopedTimeout() { ::unsetenv("MYDEV_CUSTOM_CALL_TIMEOUT"); }
  ScopedTimeout(const ScopedTimeout&) = delete;
  ScopedTimeout& operator=(const ScopedTimeout&) = delete;
};

ffi::Future* create_future(const CallFrame* frame) {
  ffi::FutureCreateArgs args{ffi::kFutureCreateArgsSize, nullptr, nullptr};
  EXPECT_EQ(frame->api->future_create(&args), nullptr);
  return args.future;
}
void complete(const ffi::Api* api, ffi::Future* future) {
  ffi::FutureSetAvailableArgs args{sizeof(args), nullptr, future};
  EXPECT_EQ(api->future_set_available(&args), nullptr);
}
ffi::Error* complete_with_error(const ffi::Api* api, ffi::Future* future, ffi::Error* error) {
  ffi::FutureSetErrorArgs args{sizeof(args), nullptr, future, error};
  return api->future_set_error(&args);
}

// Threads that handlers start; joined at the end of a test.
std::vector<std::thread>& workers() {
  static std::vector<std::thread> threads;
  return threads;
}
class Futures : public testing::Test {
 protected:
  void TearDown() override {
    for (std::thread& thread : workers()) thread.join();
    workers().clear();
  }
};

TEST_F(Futures, AreAwaited) {
  const ScopedKernel kernel(ffi_record("test.later", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         workers().emplace_back([api = frame->api, future = frame->future,
                                                                 out = static_cast<float*>(result(frame, 0).data)] {
                                           *out = 7;
                                           complete(api, future);
                                         });
                                         return nullptr;
                                       })));
  DeviceArray out({1});
  run_kernel(*kernel, {out.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{7}));
}

TEST_F(Futures, MayBeCompletedBeforeTheHandlerReturns) {
  const ScopedKernel kernel(ffi_record("test.at_once", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         complete(frame->api, frame->future);
                                         return nullptr;
                                       })));
  run_kernel(*kernel);
}

TEST_F(Futures, PassOnErrors) {
  const ScopedKernel kernel(
      ffi_record("test.late_error", handler([](CallFrame* frame) -> ffi::Error* {
                   frame->future = create_future(frame);
                   workers().emplace_back([api = frame->api, future = frame->future] {
                     ffi::ErrorCreateArgs args{ffi::kErrorCreateArgsSize, nullptr, "late", MYDEV_DATA_LOSS};
                     EXPECT_EQ(complete_with_error(api, future, api->error_create(&args)), nullptr);
                   });
                   return nullptr;
                 })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_DATA_LOSS, "late");
}

TEST_F(Futures, TogetherWithAnErrorAreInternalErrors) {
  const ScopedKernel kernel(ffi_record("test.both", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         workers().emplace_back(
                                             [api = frame->api, future = frame->future] { complete(api, future); });
                                         return fail(frame, 3, "and an error");
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_INTERNAL, "an error together with a future: and an error");
}

TEST_F(Futures, ThatTheHostDidNotMakeAreInternalErrors) {
  const ScopedKernel kernel(ffi_record("test.invented", handler([](CallFrame* frame) -> ffi::Error* {
                                         static int anything;
                                         frame->future = reinterpret_cast<ffi::Future*>(&anything);
                                         return nullptr;
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_INTERNAL, "that this host did not make");
}

TEST_F(Futures, AreCompletedOnce) {
  static std::atomic<int> second;
  second = 0;
  const ScopedKernel kernel(ffi_record("test.twice", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         complete(frame->api, frame->future);
                                         ffi::FutureSetAvailableArgs args{sizeof(args), nullptr, frame->future};
                                         const std::unique_ptr<ffi::Error> error(
                                             frame->api->future_set_available(&args));
                                         second = error != nullptr ? error->code : MYDEV_OK;
                                         return nullptr;
                                       })));
  run_kernel(*kernel);
  EXPECT_EQ(second, MYDEV_FAILED_PRECONDITION);
}

TEST_F(Futures, NeverCompletedAreTimedOutAndKeepWhatTheyMayTouch) {
  const ScopedTimeout timeout("0.01");
  static std::atomic<bool> go;
  static std::atomic<bool> done;
  go = done = false;
  const ScopedKernel kernel(ffi_record("test.never", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         workers().emplace_back([frame, api = frame->api, future = frame->future] {
                                           go.wait(false);
                                           {
                                             const HostAccess access(device(0));  // the launch is over
                                             static_cast<float*>(result(frame, 0).data)[result(frame, 0).dims[0] - 1] =
                                                 1;
                                           }
                                           ffi::StreamGetArgs args{sizeof(args), nullptr, frame->context, nullptr};
                                           EXPECT_EQ(frame->api->stream_get(&args), nullptr);
                                           complete(api, future);
                                           done = true;
                                         });
                                         return nullptr;
                                       })));
  const int64_t before = allocator_stats(0).allocated_bytes.all.current;
  {
    DeviceArray out({1000});
    mydev_buffer part = out.buffer();
    const int64_t sizes[] = {900};
    part.data = out.data() + 100;
    part.sizes = sizes;
    expect_error(error_of([&] { run_kernel(*kernel, {part}, 1); }), MYDEV_DEADLINE_EXCEEDED,
                 "did not complete it within 0.01");
  }
  EXPECT_GT(allocator_stats(0).allocated_bytes.all.current, before) << "the result must stay";
  go = true;
  go.notify_all();
  workers().back().join();
  workers().pop_back();
  EXPECT_TRUE(done);
  EXPECT_EQ(allocator_stats(0).allocated_bytes.all.current, before);
}

TEST_F(Futures, ABadTimeoutIsNamed) {
  const ScopedTimeout timeout("soon");
  const ScopedKernel kernel(ffi_record("test.bad_timeout", handler([](CallFrame* frame) -> ffi::Error* {
                                         frame->future = create_future(frame);
                                         complete(frame->api, frame->future);
                                         return nullptr;
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_INVALID_ARGUMENT, "MYDEV_CUSTOM_CALL_TIMEOUT='soon'");
}

}  // namespace
}  // namespace mydev
