// Typed-FFI kernels: stages, their states, and calls from several threads.
#include <atomic>
#include <cstring>
#include <thread>

#include "ffi_handlers.h"
#include "kernels/ffi/ffi_attributes.h"

namespace mydev {
namespace {

// --- stages and states -----------------------------------------------------------------------------------------------

std::atomic<int> states_alive;
std::atomic<int> instantiations;
void delete_state(void* state) {
  --states_alive;
  delete static_cast<int*>(state);
}

int64_t state_type() {
  static const int64_t id = [] {
    ffi::TypeId type{0};
    const ffi::TypeInfo info{sizeof(ffi::TypeInfo), nullptr, delete_state};
    EXPECT_EQ(ffi::register_type("test.state", type, &info), nullptr);
    return type.id;
  }();
  return id;
}

ffi::Error* set_state(const CallFrame* frame, int value) {
  const ffi::TypeId type{state_type()};
  ffi::StateSetArgs3 args{sizeof(args), nullptr, frame->context, frame->stage, &type, new int(value)};
  ++states_alive;
  return frame->api->state_set(&args);
}
ffi::Error* get_state(const CallFrame* frame, ffi::Stage stage, int& value) {
  const ffi::TypeId type{state_type()};
  ffi::StateGetArgs3 args{sizeof(args), nullptr, frame->context, stage, &type, nullptr};
  if (ffi::Error* error = frame->api->state_get(&args)) return error;
  value = *static_cast<int*>(args.state);
  return nullptr;
}

const ffi::Handler instantiate_counting = handler([](CallFrame* frame) -> ffi::Error* {
  if (frame->arguments.size != 0 || frame->results.size != 0) return fail(frame, 13, "operands while instantiating");
  return set_state(frame, ++instantiations);
});
const ffi::Handler give_instance_state = handler([](CallFrame* frame) -> ffi::Error* {
  int value = 0;
  if (ffi::Error* error = get_state(frame, ffi::kInstantiate, value)) return error;
  static_cast<float*>(result(frame, 0).data)[0] = static_cast<float>(value);
  return nullptr;
});

TEST(Stages, InstantiateRunsOncePerAttributes) {
  instantiations = 0;
  const ScopedKernel kernel(ffi_record("test.instance", give_instance_state, instantiate_counting));
  DeviceArray out({1});
  const auto run = [&](int64_t n) {
    run_kernel(*kernel, {out.buffer()}, 1, {int_attribute("n", n)});
    return out.values()[0];
  };
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(run(2), 2);
  EXPECT_EQ(run(1), 1);
  EXPECT_EQ(instantiations, 2);
}

TEST(Stages, InstancesAreBounded) {
  instantiations = 0;
  const int before = states_alive;
  const ScopedKernel kernel(ffi_record("test.bounded", give_instance_state, instantiate_counting));
  DeviceArray out({1});
  for (int64_t n = 0; n < 200; ++n) run_kernel(*kernel, {out.buffer()}, 1, {int_attribute("n", n)});
  EXPECT_EQ(instantiations, 200);
  EXPECT_LE(states_alive - before, static_cast<int>(ffi::InstanceCache::kCapacity));
}

TEST(Stages, AFailedInstantiationIsTriedAgain) {
  static std::atomic<int> attempts;
  attempts = 0;
  const ScopedKernel kernel(ffi_record("test.retry", succeed, handler([](CallFrame* frame) -> ffi::Error* {
                                         return ++attempts == 1 ? fail(frame, 14, "not yet") : nullptr;
                                       })));
  expect_error(error_of([&] { run_kernel(*kernel); }), MYDEV_UNAVAILABLE, "instantiate: not yet");
  run_kernel(*kernel);
  run_kernel(*kernel);
  EXPECT_EQ(attempts, 2);
}

TEST(Stages, RunInOrderBeforeEachExecution) {
  static std::vector<int> order;
  order.clear();
  const auto note = handler([](CallFrame* frame) -> ffi::Error* {
    order.push_back(frame->stage);
    return nullptr;
  });
  const ScopedKernel kernel(ffi_record("test.order", note, note, note, note));
  run_kernel(*kernel);
  run_kernel(*kernel);
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 1, 2, 3}));
}

TEST(Stages, PrepareAndInitializeSeeTheOperandsAndMayStopTheCall) {
  const ScopedKernel kernel(ffi_record("test.prepare", succeed, nullptr, handler([](CallFrame* frame) -> ffi::Error* {
                                         return frame->arguments.size == 1 ? fail(frame, 8, "no room")
                                                                           : fail(frame, 13, "count");
                                       })));
  DeviceArray a({1});
  expect_error(error_of([&] { run_kernel(*kernel, {a.buffer()}); }), MYDEV_RESOURCE_EXHAUSTED, "prepare: no room");
}

TEST(Stages, LeaveStatesToLaterOnesForOneCall) {
  const int before = states_alive;
  const auto leave = handler([](CallFrame* frame) -> ffi::Error* { return set_state(frame, 10 + frame->stage); });
  const ScopedKernel kernel(ffi_record("test.states", handler([](CallFrame* frame) -> ffi::Error* {
                                         int prepared = 0, initialized = 0;
                                         if (ffi::Error* error = get_state(frame, ffi::kPrepare, prepared))
                                           return error;
                                         if (ffi::Error* error = get_state(frame, ffi::kInitialize, initialized)) {
                                           return error;
                                         }
                                         return prepared == 11 && initialized == 12 ? nullptr
                                                                                    : fail(frame, 13, "state");
                                       }),
                                       nullptr, leave, leave));
  run_kernel(*kernel);
  EXPECT_EQ(states_alive, before);
}

class StateMisuse : public testing::TestWithParam<Misuse> {};
INSTANTIATE_TEST_SUITE_P(
    States, StateMisuse,
    testing::Values(Misuse{"Missing", handler([](CallFrame* frame) -> ffi::Error* {
                             int value = 0;
                             return get_state(frame, ffi::kInstantiate, value);
                           }),
                           MYDEV_NOT_FOUND, "no state"},
                    Misuse{"SetWhileExecuting", handler([](CallFrame* frame) -> ffi::Error* {
                             const ffi::TypeId type{state_type()};
                             ffi::StateSetArgs3 args{sizeof(args), nullptr, frame->context,
                                                     frame->stage, &type,   nullptr};
                             return frame->api->state_set(&args);
                           }),
                           MYDEV_FAILED_PRECONDITION, "cannot be set in stage 3"},
                    Misuse{"UnknownType", handler([](CallFrame* frame) -> ffi::Error* {
                             const ffi::TypeId type{987654};
                             ffi::StateSetArgs3 args{sizeof(args), nullptr, frame->context,
                                                     frame->stage, &type,   nullptr};
                             return frame->api->state_set(&args);
                           }),
                           MYDEV_FAILED_PRECONDITION, "not registered with this host"},
                    Misuse{"ShortArguments", handler([](CallFrame* frame) -> ffi::Error* {
                             ffi::StateGetArgs3 args{
                                 sizeof(ffi::StateGetArgs2), nullptr, frame->context, 0, nullptr, nullptr};
                             return frame->api->state_get(&args);
                           }),
                           MYDEV_INVALID_ARGUMENT, "struct_size of at least 48"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST_P(StateMisuse, IsRefused) {
  const ScopedKernel kernel(ffi_record("test.misuse", GetParam().handler));
  expect_error(error_of([&] { run_kernel(*kernel); }), GetParam().code, GetParam().message);
}

// Version 0.1 gives the deleter with the state; 0.2 has it from the type, but no stage.
ffi::Error* set_state_1(CallFrame* frame) {
  if (answer(frame, 1)) return nullptr;
  const ffi::TypeId type{4711};
  ffi::StateSetArgs1 args{sizeof(args), nullptr, frame->context, &type, new int(41), delete_state};
  ++states_alive;
  return frame->api->state_set(&args);
}
ffi::Error* set_state_2(CallFrame* frame) {
  if (answer(frame, 2)) return nullptr;
  const ffi::TypeId type{state_type()};
  ffi::StateSetArgs2 args{sizeof(args), nullptr, frame->context, &type, new int(42)};
  ++states_alive;
  return frame->api->state_set(&args);
}
template <int kMinor>
ffi::Error* get_state_2(CallFrame* frame) {
  if (answer(frame, kMinor)) return nullptr;
  const ffi::TypeId type{kMinor == 1 ? 4711 : state_type()};
  ffi::StateGetArgs2 args{sizeof(args), nullptr, frame->context, &type, nullptr};
  if (ffi::Error* error = frame->api->state_get(&args)) return error;
  return *static_cast<int*>(args.state) == 40 + kMinor ? nullptr : fail(frame, 13, "value");
}

TEST(States, HaveTheLayoutOfTheHandlersVersion) {
  const ScopedKernel first(ffi_record("test.state1", get_state_2<1>, set_state_1));
  run_kernel(*first);
  const ScopedKernel second(ffi_record("test.state2", get_state_2<2>, set_state_2));
  run_kernel(*second);
}

// --- concurrency -----------------------------------------------------------------------------------------------------

TEST(Concurrency, CallsOfOneKernelShareItsInstances) {
  instantiations = 0;
  static std::atomic<int> sum;
  sum = 0;
  const ScopedKernel kernel(ffi_record("test.concurrent", handler([](CallFrame* frame) -> ffi::Error* {
                                         int value = 0;
                                         if (ffi::Error* error = get_state(frame, ffi::kInstantiate, value)) {
                                           return error;
                                         }
                                         ++sum;
                                         return nullptr;
                                       }),
                                       instantiate_counting));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int64_t n = 0; n < 300; ++n) {
        const std::vector<mydev_attribute> attributes = {int_attribute("n", n % 3)};
        mydev_frame frame = make_frame({}, 0, attributes);
        frame.kernel = &*kernel;
        frame.host = &host_services();
        ASSERT_EQ((*kernel).entry(&frame), MYDEV_OK);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum, 1200);
  EXPECT_EQ(instantiations, 3);
}

TEST(Concurrency, HandlersMayRunOtherKernels) {
  static const mydev_kernel* inner;
  const ScopedKernel first(ffi_record("test.inner", add));
  inner = &*first;
  const ScopedKernel outer(ffi_record("test.outer", handler([](CallFrame* frame) -> ffi::Error* {
                                        float* data = static_cast<float*>(argument(frame, 0).data);
                                        const int64_t one = 1;
                                        const mydev_buffer operand{data, &one, &one, 1, MYDEV_F32};
                                        const std::vector<mydev_buffer> buffers = {
                                            {result(frame, 0).data, &one, &one, 1, MYDEV_F32}, operand, operand};
                                        mydev_frame nested = make_frame(buffers, 1);
                                        nested.kernel = inner;
                                        nested.host = &host_services();
                                        return inner->entry(&nested) == MYDEV_OK ? nullptr : fail(frame, 13, "nested");
                                      })));
  DeviceArray a({1}, 4), out({1});
  run_kernel(*outer, {out.buffer(), a.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{8}));
}

}  // namespace
}  // namespace mydev
