// Validation: streams, events, and the host calls that they make.
#include <memory>
#include <utility>

#include "runtime/validation/finding.h"
#include "runtime/validation/state.h"

namespace mydev::validation {

namespace {

// The point that a stream's work given so far has, and the time when that was asked.
struct Mark {
  Point point;
  uint64_t time = 0;
};

Mark mark_of(State& self, mydev_stream stream) {
  const std::lock_guard lock(self.mutex);
  return {self.objects.stream(stream).order.point, self.completions.now()};
}

// Called after a wait for the mark's work. Frames of the stream (NULL: of any) must be completed by then.
void waited(State& self, const Mark& mark, mydev_stream stream) {
  const std::lock_guard lock(self.mutex);
  self.order.observe(mark.point);
  if (const auto overdue = self.completions.overdue(stream, mark.time)) {
    throw Finding(MYDEV_FAILED_PRECONDITION, *overdue);
  }
}

// --- streams ---------------------------------------------------------------------------------------------------------

mydev_code stream_create(int32_t device, int32_t priority, mydev_stream* out_stream) {
  State& self = state();
  return checked("stream_create", [&] {
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
      require(out_stream != nullptr, MYDEV_INVALID_ARGUMENT, "out_stream is NULL");
    }
    const mydev_code code = self.driver.stream_create(device, priority, out_stream);
    if (code != MYDEV_OK) return code;
    const std::lock_guard lock(self.mutex);
    self.objects.add_stream(*out_stream, device, self.order);
    return code;
  });
}

// The driver may give the handle to another thread as soon as it is destroyed.
mydev_code stream_destroy(mydev_stream stream) {
  State& self = state();
  return checked("stream_destroy", [&] {
    Mark mark;
    {
      const std::lock_guard lock(self.mutex);
      StreamObject& object = self.objects.stream(stream);
      mark = {object.order.point, self.completions.now()};
      self.order.remove_stream(object.order);
      self.objects.remove_stream(stream);
    }
    const mydev_code code = self.driver.stream_destroy(stream);
    if (code == MYDEV_OK) waited(self, mark, stream);
    return code;
  });
}

mydev_code stream_query(mydev_stream stream, int32_t* out_done) {
  State& self = state();
  return checked("stream_query", [&] {
    const Mark mark = mark_of(self, stream);
    const mydev_code code = self.driver.stream_query(stream, out_done);
    if (code != MYDEV_OK) return code;
    const std::lock_guard lock(self.mutex);
    if (*out_done != 0) {
      self.order.observe(mark.point);
      return code;
    }
    const StreamObject& object = self.objects.stream(stream);
    require(self.objects.has(object.device, MYDEV_CAPABILITY_ASYNC), MYDEV_FAILED_PRECONDITION, "work of ", object.name,
            " is pending, and its device does not claim ASYNC: finish work in the call that gives it");
    return code;
  });
}

mydev_code stream_synchronize(mydev_stream stream) {
  State& self = state();
  return checked("stream_synchronize", [&] {
    const Mark mark = mark_of(self, stream);
    const mydev_code code = self.driver.stream_synchronize(stream);
    if (code == MYDEV_OK) waited(self, mark, stream);
    return code;
  });
}

mydev_code device_synchronize(int32_t device) {
  State& self = state();
  return checked("device_synchronize", [&] {
    std::vector<std::pair<mydev_stream, Mark>> marks;
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
      for (const auto& [handle, stream] : self.objects.streams()) {
        if (stream.device == device) marks.push_back({handle, {stream.order.point, self.completions.now()}});
      }
    }
    const mydev_code code = self.driver.device_synchronize(device);
    if (code != MYDEV_OK) return code;
    for (const auto& [handle, mark] : marks) waited(self, mark, handle);
    return code;
  });
}

mydev_code stream_wait_event(mydev_stream stream, mydev_event event) {
  State& self = state();
  return checked("stream_wait_event", [&] {
    Point waits_for;
    {
      const std::lock_guard lock(self.mutex);
      self.objects.stream(stream);
      waits_for = self.objects.event(event).point;
    }
    const mydev_code code = self.driver.stream_wait_event(stream, event);
    const std::lock_guard lock(self.mutex);
    if (code == MYDEV_OK) self.objects.stream(stream).order.point.join(waits_for);
    return code;
  });
}

// Findings about the stream's work are reported before the driver's status.
mydev_code stream_status(mydev_stream stream, mydev_code* out_status) {
  State& self = state();
  return checked("stream_status", [&] {
    std::string finding;
    {
      const std::lock_guard lock(self.mutex);
      finding = std::exchange(self.objects.stream(stream).finding, "");
    }
    if (!finding.empty()) {
      *out_status = fail(MYDEV_FAILED_PRECONDITION, "complete", finding.c_str());
      return MYDEV_OK;
    }
    *out_status = MYDEV_OK;
    if (self.driver.stream_status == nullptr) return MYDEV_OK;
    const mydev_code code = self.driver.stream_status(stream, out_status);
    if (code == MYDEV_OK) *out_status = known_code("stream_status", *out_status);
    return code;
  });
}

// --- calls of the host's ---------------------------------------------------------------------------------------------

// A function that the driver is to call once. Kept for good, so that a second call finds it.
struct AskedCall {
  const char* entry;
  mydev_host_function function;
  void* context;
  Point before;                    // what is done when it is called
  std::shared_ptr<HostCall> call;  // of stream_host_call
  bool made = false;
};

void make_call(void* context) {
  State& self = state();
  auto& asked = *static_cast<AskedCall*>(context);
  {
    const std::lock_guard lock(self.mutex);
    if (std::exchange(asked.made, true)) {
      report(text("the driver made a call twice that ", asked.entry, " asked for; the second is ignored"));
      return;
    }
    --self.calls_waiting;
    asked.before.finalize();
    self.order.observe(asked.before);
    if (asked.call != nullptr) asked.call->called = true;
  }
  asked.function(asked.context);
  const std::lock_guard lock(self.mutex);
  asked.before = {};
  if (asked.call == nullptr) return;
  asked.call->released = self.order.host();
  asked.call->returned = true;
}

// give(asked) gives the call to the driver.
template <typename Give>
mydev_code give_call(State& self, std::unique_ptr<AskedCall> asked, const Give& give) {
  const mydev_code code = give(asked.get());
  if (code == MYDEV_OK) {
    [[maybe_unused]] const AskedCall* of_driver = asked.release();
    return code;
  }
  const std::lock_guard lock(self.mutex);
  --self.calls_waiting;
  if (asked->call != nullptr) asked->call->returned = true;
  return code;
}

mydev_code stream_host_call(mydev_stream stream, mydev_host_function function, void* context) {
  State& self = state();
  return checked("stream_host_call", [&] {
    require(function != nullptr, MYDEV_INVALID_ARGUMENT, "the function is NULL");
    auto asked = std::make_unique<AskedCall>();
    const auto call = std::make_shared<HostCall>();
    {
      const std::lock_guard lock(self.mutex);
      StreamObject& object = self.objects.stream(stream);
      *asked = {"stream_host_call", function, context, object.order.point, call, false};
      object.order.point.calls.push_back(call);
      ++self.calls_waiting;
    }
    return give_call(self, std::move(asked),
                     [&](AskedCall* given) { return self.driver.stream_host_call(stream, make_call, given); });
  });
}

mydev_code event_on_done(mydev_event event, mydev_host_function function, void* context) {
  State& self = state();
  return checked("event_on_done", [&] {
    require(function != nullptr, MYDEV_INVALID_ARGUMENT, "the function is NULL");
    auto asked = std::make_unique<AskedCall>();
    {
      const std::lock_guard lock(self.mutex);
      *asked = {"event_on_done", function, context, self.objects.event(event).point, nullptr, false};
      ++self.calls_waiting;
    }
    return give_call(self, std::move(asked),
                     [&](AskedCall* given) { return self.driver.event_on_done(event, make_call, given); });
  });
}

// --- events ----------------------------------------------------------------------------------------------------------

mydev_code event_create(int32_t device, uint32_t flags, mydev_event* out_event) {
  State& self = state();
  return checked("event_create", [&] {
    {
      const std::lock_guard lock(self.mutex);
      self.objects.device(device);
      require(out_event != nullptr, MYDEV_INVALID_ARGUMENT, "out_event is NULL");
      require((flags & ~uint32_t{MYDEV_EVENT_TIMING}) == 0, MYDEV_INVALID_ARGUMENT, "the flags ", flags,
              " have bits that are no mydev_event_flag");
    }
    const mydev_code code = self.driver.event_create(device, flags, out_event);
    if (code != MYDEV_OK) return code;
    const std::lock_guard lock(self.mutex);
    self.objects.add_event(*out_event, device, flags);
    return code;
  });
}

mydev_code event_destroy(mydev_event event) {
  State& self = state();
  return checked("event_destroy", [&] {
    {
      const std::lock_guard lock(self.mutex);
      self.objects.event(event);
      self.objects.remove_event(event);
    }
    return self.driver.event_destroy(event);
  });
}

mydev_code event_record(mydev_event event, mydev_stream stream) {
  State& self = state();
  return checked("event_record", [&] {
    Point earlier;
    {
      const std::lock_guard lock(self.mutex);
      const StreamObject& object = self.objects.stream(stream);
      EventObject& recorded = self.objects.event(event);
      require(recorded.device == object.device, MYDEV_INVALID_ARGUMENT, "an event of device ", recorded.device,
              " is recorded on ", object.name, "; record events on streams of their device");
      recorded.recorded = true;
      earlier = std::exchange(recorded.point, object.order.point);
    }
    const mydev_code code = self.driver.event_record(event, stream);
    if (code == MYDEV_OK) return code;
    const std::lock_guard lock(self.mutex);
    self.objects.event(event).point = std::move(earlier);
    return code;
  });
}

Point point_of(State& self, mydev_event event) {
  const std::lock_guard lock(self.mutex);
  return self.objects.event(event).point;
}

mydev_code event_query(mydev_event event, int32_t* out_done) {
  State& self = state();
  return checked("event_query", [&] {
    const Point point = point_of(self, event);
    const mydev_code code = self.driver.event_query(event, out_done);
    const std::lock_guard lock(self.mutex);
    if (code == MYDEV_OK && *out_done != 0) self.order.observe(point);
    return code;
  });
}

mydev_code event_synchronize(mydev_event event) {
  State& self = state();
  return checked("event_synchronize", [&] {
    const Point point = point_of(self, event);
    const mydev_code code = self.driver.event_synchronize(event);
    const std::lock_guard lock(self.mutex);
    if (code == MYDEV_OK) self.order.observe(point);
    return code;
  });
}

mydev_code event_elapsed(mydev_event start, mydev_event end, double* out_milliseconds) {
  State& self = state();
  return checked("event_elapsed", [&] {
    {
      const std::lock_guard lock(self.mutex);
      for (mydev_event event : {start, end}) {
        const EventObject& object = self.objects.event(event);
        require((object.flags & MYDEV_EVENT_TIMING) != 0, MYDEV_INVALID_ARGUMENT, static_cast<const void*>(event),
                " was made without MYDEV_EVENT_TIMING");
        require(object.recorded, MYDEV_FAILED_PRECONDITION, static_cast<const void*>(event),
                " was never recorded; record both events first");
      }
    }
    return self.driver.event_elapsed(start, end, out_milliseconds);
  });
}

}  // namespace

void put_stream_checks(mydev_driver_api& table) {
  table.stream_create = stream_create;
  table.stream_destroy = stream_destroy;
  table.stream_query = stream_query;
  table.stream_synchronize = stream_synchronize;
  if (table.device_synchronize != nullptr) table.device_synchronize = device_synchronize;
  table.stream_wait_event = stream_wait_event;
  table.stream_status = stream_status;
  if (table.stream_host_call != nullptr) table.stream_host_call = stream_host_call;
  table.event_create = event_create;
  table.event_destroy = event_destroy;
  table.event_record = event_record;
  table.event_query = event_query;
  table.event_synchronize = event_synchronize;
  table.event_elapsed = event_elapsed;
  if (table.event_on_done != nullptr) table.event_on_done = event_on_done;
}

}  // namespace mydev::validation
