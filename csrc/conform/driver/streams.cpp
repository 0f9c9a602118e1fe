// Streams: priorities, order of work, destruction with work pending; functions of the host that a stream calls.
#include <string>
#include <vector>

#include "conform/driver/calls.h"
#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "conform/driver/held_stream.h"
#include "runtime/base/status.h"

namespace mydev::conform {
namespace {

mydev_stream make_stream(DriverCase& t, int32_t priority = 0) {
  mydev_stream made = nullptr;
  t.must(t.driver().stream_create(0, priority, &made), "stream_create of priority " + std::to_string(priority));
  t.checks.require(made != nullptr, "stream_create gave NULL");
  return made;
}

void makes_streams_of_each_priority(DriverCase& t) {
  const mydev_device_properties& properties = t.device().properties;
  for (int priority = properties.stream_priority_high; priority <= properties.stream_priority_low; ++priority) {
    t.ok(t.driver().stream_destroy(make_stream(t, priority)), "stream_destroy");
  }
}

void an_idle_stream_is_done(DriverCase& t) {
  mydev_stream made = make_stream(t);
  int32_t done = 0;
  t.must(t.driver().stream_query(made, &done), "stream_query");
  t.checks.equal("stream_query of a stream that was given nothing", done, 1);
  t.ok(t.driver().stream_synchronize(made), "stream_synchronize");
  t.ok(t.driver().stream_destroy(made), "stream_destroy");
}

void destroying_a_stream_waits_for_its_work(DriverCase& t) {
  mydev_stream made = make_stream(t);
  const DeviceMemory memory(t, 4 << 20);
  const unsigned char pattern = 5;
  t.must(t.driver().fill(made, memory.data(), memory.bytes(), &pattern, 1), "fill");
  t.must(t.driver().stream_destroy(made), "stream_destroy");
  t.same_bytes("memory filled on a stream that was destroyed", t.download(t.stream(), memory),
               Bytes(memory.bytes(), 5));
}

void work_on_one_stream_runs_in_order(DriverCase& t) {
  const DeviceMemory first(t, 1 << 16);
  const DeviceMemory second(t, 1 << 16);
  constexpr unsigned char kSteps = 50;
  for (unsigned char step = 1; step <= kSteps; ++step) {
    t.fill(t.stream(), first, {step});
    t.copy_on_device(t.stream(), second, first);
  }
  t.fill(t.stream(), first, {0});
  t.same_bytes("the last of 50 copies, each after a fill", t.download(t.stream(), second),
               Bytes(second.bytes(), kSteps));
}

void synchronizing_the_device_finishes_all_streams(DriverCase& t) {
  Stream& other = stream_from_pool(0, 0);
  const DeviceMemory memory(t, 8 << 20);
  t.fill(other, memory, {3});
  synchronize_device(t.device());
  t.checks.that(t.done(other), "the device was synchronized, and stream_query says that a stream is not done");
}

void a_held_stream_is_not_done(DriverCase& t) {
  needs_held_streams(t);
  HeldStream held(t, t.stream());
  const DeviceMemory memory(t, 1000);
  t.fill(t.stream(), memory, {5});
  const bool done = t.done(t.stream());
  t.checks.that(!done || !held.held(), "stream_query says that work is done which a host call holds up");
  held.release();
  t.same_bytes("memory filled after a host call", t.download(t.stream(), memory), Bytes(1000, 5));
}

void a_stream_that_did_well_has_no_failure(DriverCase& t) {
  t.needs(t.driver().stream_status != nullptr, "the driver tells failures by launch and complete alone");
  const DeviceMemory memory(t, 1000);
  t.fill(t.stream(), memory, {1});
  t.stream().synchronize();
  mydev_code status = MYDEV_UNKNOWN;
  t.must(t.driver().stream_status(t.stream().handle(), &status), "stream_status");
  t.checks.equal("stream_status after a fill", code_name(status), code_name(MYDEV_OK));
}

// --- host calls ------------------------------------------------------------------------------------------------------

void needs_host_calls(DriverCase& t) {
  t.needs(t.driver().stream_host_call != nullptr, "the driver leaves host calls to the runtime");
}

void give_call(DriverCase& t, Calls& calls) {
  t.must(t.driver().stream_host_call(t.stream().handle(), Calls::count, &calls), "stream_host_call");
}

void a_host_call_comes_once(DriverCase& t) {
  needs_host_calls(t);
  Calls& calls = Calls::make();
  give_call(t, calls);
  t.stream().synchronize();
  expect_one_call(t, "the function given to stream_host_call", calls);
}

void host_calls_come_in_order(DriverCase& t) {
  needs_host_calls(t);
  static constexpr mydev_host_function kFunctions[] = {
      [](void* context) { static_cast<std::vector<int>*>(context)->push_back(0); },
      [](void* context) { static_cast<std::vector<int>*>(context)->push_back(1); }};
  auto& order = keep_forever(std::make_unique<std::vector<int>>());
  for (int round = 0; round < 3; ++round) {
    for (const mydev_host_function function : kFunctions) {
      t.must(t.driver().stream_host_call(t.stream().handle(), function, &order), "stream_host_call");
    }
  }
  t.stream().synchronize();
  t.checks.that(order == std::vector<int>{0, 1, 0, 1, 0, 1},
                "six host calls of one stream came in another order, or not all of them before synchronize returned");
}

void a_host_call_waits_for_earlier_work(DriverCase& t) {
  needs_held_streams(t);
  Calls& calls = Calls::make();
  HeldStream held(t, t.stream());
  give_call(t, calls);
  expect_no_call(t, held, "the function given to stream_host_call", calls);
  held.release();
  expect_one_call(t, "the function given to stream_host_call", calls);
}

// A function that waits until it may return; while it does, the effects of the work before it are looked at.
void a_host_call_sees_earlier_work_done(DriverCase& t) {
  needs_held_streams(t);
  const DeviceMemory memory(t, 1 << 20);
  Calls& calls = Calls::make();
  t.fill(t.stream(), memory, {1});
  t.stream().synchronize();
  t.fill(t.stream(), memory, {2});
  give_call(t, calls);
  HeldStream held(t, t.stream());
  t.fill(t.stream(), memory, {3});
  expect_one_call(t, "the function given to stream_host_call", calls);
  const Bytes seen = t.download(stream_from_pool(0, 0), memory);
  if (held.held()) {
    t.same_bytes("memory filled before a host call, once that has come, and before later work,", seen,
                 Bytes(memory.bytes(), 2));
  }
  held.release();
  t.same_bytes("memory filled after a host call", t.download(t.stream(), memory), Bytes(memory.bytes(), 3));
}

}  // namespace

std::vector<Case> stream_cases() {
  return driver_cases({
      MYDEV_CASE(makes_streams_of_each_priority, "stream_create takes every priority of the properties"),
      MYDEV_CASE(an_idle_stream_is_done, "a stream that was given nothing is done"),
      MYDEV_CASE(destroying_a_stream_waits_for_its_work, "work that is pending when a stream is destroyed is done"),
      MYDEV_CASE(work_on_one_stream_runs_in_order, "fills and copies of one stream run in the order of the calls"),
      MYDEV_CASE(synchronizing_the_device_finishes_all_streams, "after it every stream is done"),
      MYDEV_CASE(a_stream_that_did_well_has_no_failure, "stream_status is OK where nothing failed"),
      MYDEV_CASE(a_host_call_comes_once, "the function of stream_host_call is called exactly once"),
      MYDEV_CASE(host_calls_come_in_order, "functions of one stream are called in the order of the calls"),
      MYDEV_CASE(a_held_stream_is_not_done, "later work waits for a host call, and stream_query says so"),
      MYDEV_CASE(a_host_call_waits_for_earlier_work, "the function is not called while earlier work is pending"),
      MYDEV_CASE(a_host_call_sees_earlier_work_done, "what a fill before the call wrote is there when the call comes"),
  });
}

}  // namespace mydev::conform
