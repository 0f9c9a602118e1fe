// Events: never recorded, recorded again, timing, waits across streams, calls when they are done. An event means the
// work that it recorded last at the time of the call that names it; a later record changes nothing for that call.
#include <chrono>
#include <string>
#include <thread>

#include "conform/driver/calls.h"
#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "conform/driver/held_stream.h"

namespace mydev::conform {
namespace {

void wait_event(DriverCase& t, Stream& stream, const DriverEvent& event) {
  t.must(t.driver().stream_wait_event(stream.handle(), event.handle()), "stream_wait_event");
}

void an_event_never_recorded_is_done(DriverCase& t) {
  DriverEvent event(t);
  t.checks.that(event.done(), "event_query says that an event which was never recorded is not done");
  t.ok(t.driver().event_synchronize(event.handle()), "event_synchronize");
  wait_event(t, t.stream(), event);
  t.stream().synchronize();
}

void a_synchronized_event_is_done(DriverCase& t) {
  DriverEvent event(t);
  const DeviceMemory memory(t, 4 << 20);
  t.fill(t.stream(), memory, {1});
  event.record(t.stream());
  t.must(t.driver().event_synchronize(event.handle()), "event_synchronize");
  t.checks.that(event.done(), "event_query says that an event which was synchronized is not done");
  t.same_bytes("memory filled before an event that was synchronized", t.download(stream_from_pool(0, 0), memory),
               Bytes(memory.bytes(), 1));
}

void an_event_of_held_work_is_not_done(DriverCase& t) {
  needs_held_streams(t);
  DriverEvent event(t);
  HeldStream held(t, t.stream());
  event.record(t.stream());
  const bool done = event.done();
  t.checks.that(!done || !held.held(), "event_query says that a record is done which a host call holds up");
  held.release();
  t.must(t.driver().event_synchronize(event.handle()), "event_synchronize");
  t.checks.that(event.done(), "event_query says that an event which was synchronized is not done");
}

double milliseconds_between(DriverCase& t, const DriverEvent& start, const DriverEvent& end) {
  t.must(t.driver().event_synchronize(end.handle()), "event_synchronize");
  double milliseconds = -1;
  t.must(t.driver().event_elapsed(start.handle(), end.handle(), &milliseconds), "event_elapsed");
  return milliseconds;
}

void events_tell_the_time_between_them(DriverCase& t) {
  DriverEvent start(t, MYDEV_EVENT_TIMING);
  DriverEvent end(t, MYDEV_EVENT_TIMING);
  const DeviceMemory memory(t, 4 << 20);
  start.record(t.stream());
  t.fill(t.stream(), memory, {1});
  end.record(t.stream());
  const double milliseconds = milliseconds_between(t, start, end);
  t.checks.that(milliseconds > 0, "event_elapsed around a fill of 4 MiB gave " + std::to_string(milliseconds) + " ms");
}

void recording_again_replaces_the_record(DriverCase& t) {
  DriverEvent start(t, MYDEV_EVENT_TIMING);
  DriverEvent end(t, MYDEV_EVENT_TIMING);
  end.record(t.stream());
  start.record(t.stream());
  end.record(t.stream());
  const double milliseconds = milliseconds_between(t, start, end);
  t.checks.that(milliseconds >= 0, "event_elapsed gave " + std::to_string(milliseconds) +
                                       " ms: the time of a record that a later one had replaced");
}

void a_stream_waits_for_an_event_of_another(DriverCase& t) {
  Stream& producer = stream_from_pool(0, 0);
  Stream& consumer = stream_from_pool(0, 0);
  const DeviceMemory source(t, 2 << 20);
  const DeviceMemory target(t, 2 << 20);
  for (unsigned char step = 1; step <= 10; ++step) {
    DriverEvent written(t);  // destroyed while streams may still be waiting for what it recorded
    DriverEvent read(t);
    t.fill(producer, source, Bytes(16, step));
    written.record(producer);
    wait_event(t, consumer, written);
    t.copy_on_device(consumer, target, source);
    read.record(consumer);
    wait_event(t, producer, read);
  }
  t.same_bytes("the last of 10 copies, each after a fill on another stream", t.download(consumer, target),
               Bytes(target.bytes(), 10));
}

// --- recorded again after a call that named the event ----------------------------------------------------------------

// The wait runs after the event was recorded again, and before the work that it was given for is done: a third stream
// lets the consumer go on first, then the producer.
void a_wait_keeps_the_record_that_it_was_given(DriverCase& t) {
  Stream& order = stream_from_pool(0, 0);
  Stream& producer = stream_from_pool(0, 0);
  Stream& consumer = stream_from_pool(0, 0);
  Stream& idle = stream_from_pool(0, 0);
  const DeviceMemory source(t, 1 << 16);
  const DeviceMemory target(t, 1 << 16);
  t.fill(producer, source, {1});
  t.fill(producer, target, {0});
  producer.synchronize();
  DriverEvent consumer_may(t);
  DriverEvent producer_may(t);
  DriverEvent event(t);
  HeldStream held(t, order);
  consumer_may.record(order);
  HeldStream held_longer(t, order);
  producer_may.record(order);
  wait_event(t, producer, producer_may);
  t.fill(producer, source, {2});
  event.record(producer);
  wait_event(t, consumer, consumer_may);
  wait_event(t, consumer, event);
  t.copy_on_device(consumer, target, source);
  event.record(idle);  // done at once
  held.release();
  std::this_thread::sleep_for(kLookout);
  const bool done = t.done(consumer);
  t.checks.that(!done || !held_longer.held(),
                "a stream did not wait for what an event had recorded, since it was recorded again later");
  held_longer.release();
  t.same_bytes("a copy that waited for an event, which was recorded again after the wait was given",
               t.download(consumer, target), Bytes(target.bytes(), 2));
}

// The wait runs after the event was recorded again, by work that comes after the wait: a stream that waits for that
// record waits for ever.
void a_wait_ignores_later_records(DriverCase& t) {
  Stream& consumer = stream_from_pool(0, 0);
  Stream& producer = stream_from_pool(0, 0);
  const DeviceMemory memory(t, 1 << 16);
  DriverEvent event(t);
  DriverEvent filled(t);
  event.record(t.stream());
  t.must(t.driver().event_synchronize(event.handle()), "event_synchronize");
  HeldStream held(t, consumer);
  wait_event(t, consumer, event);
  t.fill(consumer, memory, {2});
  filled.record(consumer);
  wait_event(t, producer, filled);
  event.record(producer);
  held.release();
  const auto limit = std::chrono::steady_clock::now() + kPatience;
  while (!filled.done() && std::chrono::steady_clock::now() < limit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  t.checks.require(filled.done(), "a stream waits for what an event recorded after the wait was given");
  t.same_bytes("memory filled after a wait for a record that was done", t.download(producer, memory),
               Bytes(memory.bytes(), 2));
}

void queries_see_the_latest_record(DriverCase& t) {
  needs_held_streams(t);
  Stream& producer = stream_from_pool(0, 0);
  const DeviceMemory memory(t, 1 << 16);
  DriverEvent event(t);
  event.record(t.stream());
  t.must(t.driver().event_synchronize(event.handle()), "event_synchronize");
  HeldStream held(t, producer);
  t.fill(producer, memory, {2});
  event.record(producer);
  const bool done = event.done();
  t.checks.that(!done || !held.held(), "event_query tells of a record that a later, pending one had replaced");
  held.release();
  t.must(t.driver().event_synchronize(event.handle()), "event_synchronize");
  t.same_bytes("memory filled before the latest record of an event that was synchronized",
               t.download(t.stream(), memory), Bytes(memory.bytes(), 2));
}

// --- event_on_done ---------------------------------------------------------------------------------------------------

constexpr const char* kOnDone = "the function given to event_on_done";

void needs_on_done(DriverCase& t) {
  t.needs(t.driver().event_on_done != nullptr, "the driver does not call back for events");
}

void give_call(DriverCase& t, const DriverEvent& event, Calls& calls) {
  t.must(t.driver().event_on_done(event.handle(), Calls::count, &calls), "event_on_done");
}

void on_done_comes_once(DriverCase& t) {
  needs_on_done(t);
  Calls& calls = Calls::make();
  const DeviceMemory memory(t, 4 << 20);
  t.fill(t.stream(), memory, {1});
  {
    DriverEvent event(t);
    event.record(t.stream());
    give_call(t, event, calls);
  }  // the event may go before
  expect_one_call(t, kOnDone, calls);
  t.same_bytes("memory filled before an event, once event_on_done has called,",
               t.download(stream_from_pool(0, 0), memory), Bytes(memory.bytes(), 1));
}

void on_done_comes_at_once_where_nothing_is_pending(DriverCase& t) {
  needs_on_done(t);
  Calls& never_recorded = Calls::make();
  DriverEvent event(t);
  give_call(t, event, never_recorded);
  expect_one_call(t, kOnDone, never_recorded);
  Calls& done = Calls::make();
  event.record(t.stream());
  t.must(t.driver().event_synchronize(event.handle()), "event_synchronize");
  give_call(t, event, done);
  expect_one_call(t, kOnDone, done);
}

void on_done_waits_for_the_work(DriverCase& t) {
  needs_on_done(t);
  needs_held_streams(t);
  Calls& calls = Calls::make();
  DriverEvent event(t);
  HeldStream held(t, t.stream());
  event.record(t.stream());
  give_call(t, event, calls);
  expect_no_call(t, held, kOnDone, calls);
  held.release();
  expect_one_call(t, kOnDone, calls);
}

void on_done_keeps_the_record_that_it_was_given(DriverCase& t) {
  needs_on_done(t);
  needs_held_streams(t);
  Calls& calls = Calls::make();
  Stream& idle = stream_from_pool(0, 0);
  DriverEvent event(t);
  HeldStream held(t, t.stream());
  event.record(t.stream());
  give_call(t, event, calls);
  event.record(idle);  // done at once
  idle.synchronize();
  expect_no_call(t, held, kOnDone, calls);
  held.release();
  expect_one_call(t, kOnDone, calls);
}

}  // namespace

std::vector<Case> event_cases() {
  return driver_cases({
      MYDEV_CASE(an_event_never_recorded_is_done, "an event that recorded nothing is done and holds nothing up"),
      MYDEV_CASE(a_synchronized_event_is_done, "after event_synchronize the work before the record is done"),
      MYDEV_CASE(an_event_of_held_work_is_not_done, "event_query says whether the recorded work is done"),
      MYDEV_CASE(events_tell_the_time_between_them, "event_elapsed around work is more than 0"),
      MYDEV_CASE(recording_again_replaces_the_record, "event_elapsed takes the time of the latest record"),
      MYDEV_CASE(a_stream_waits_for_an_event_of_another, "stream_wait_event orders the work of two streams"),
      MYDEV_CASE(a_wait_keeps_the_record_that_it_was_given, "a stream waits for the record of the time of the call"),
      MYDEV_CASE(a_wait_ignores_later_records, "a stream does not wait for a record that came after the call"),
      MYDEV_CASE(queries_see_the_latest_record,
                 "event_query and event_synchronize mean the record of the time of the call"),
      MYDEV_CASE(on_done_comes_once, "the function of event_on_done is called exactly once, after the work"),
      MYDEV_CASE(on_done_comes_at_once_where_nothing_is_pending, "an event never recorded, or done, calls at once"),
      MYDEV_CASE(on_done_waits_for_the_work, "the function is not called while the recorded work is pending"),
      MYDEV_CASE(on_done_keeps_the_record_that_it_was_given, "a later record does not bring the call forward"),
  });
}

}  // namespace mydev::conform
