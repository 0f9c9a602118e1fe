// Streams by (device, id), as torch.Stream names them. Their work is torch.Stream's own business, through the guard.
#include <chrono>
#include <string>
#include <thread>

#include "python/bindings.h"
#include "runtime/base/status.h"
#include "runtime/command/host_work.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

void bind_stream(pybind11::module_& m) {
  m.def("current_stream_id", wrap_pybind_function([](int index) {
          device(index);
          return current_stream(index).id();
        }));
  // Also makes the stream's device current, as torch.cuda does.
  m.def("sleep", wrap_pybind_function_no_gil([](int64_t nanoseconds) {
          submit_host_call(current_stream(current_device()), "sleep",
                           [nanoseconds] { std::this_thread::sleep_for(std::chrono::nanoseconds(nanoseconds)); });
        }));
  m.def("set_current_stream", wrap_pybind_function([](int index, int64_t id) {
          Stream& stream = stream_by_id(index, id);
          set_current_device(index);
          exchange_current_stream(stream);
        }));
  m.def("stream_priority",
        wrap_pybind_function([](int index, int64_t id) { return stream_by_id(index, id).priority(); }));
  m.def("stream_handle", wrap_pybind_function([](int index, int64_t id) {
          return reinterpret_cast<uintptr_t>(stream_by_id(index, id).handle());
        }));
  m.def("register_external_stream", wrap_pybind_function([](int index, uintptr_t handle) {
          return register_external_stream(index, reinterpret_cast<mydev_stream>(handle)).id();
        }));
  // torch.Event's own method refuses subclasses of torch.Event. Takes the events' ids: 0 before the first record.
  m.def("event_elapsed_time", wrap_pybind_function([](uintptr_t start, uintptr_t end) {
          MYDEV_CHECK(start != 0 && end != 0, MYDEV_FAILED_PRECONDITION,
                      "both events must be recorded before the time between them can be asked for");
          return reinterpret_cast<Event*>(start)->elapsed(*reinterpret_cast<Event*>(end));
        }));
  // The event of that id, which must have been recorded, becomes one of several processes: a new one, or the one that
  // `handle` names; gives its handle.
  m.def("share_event", wrap_pybind_function([](uintptr_t id, const std::string& handle) {
          Event& event = *reinterpret_cast<Event*>(id);
          event.share(handle.empty() ? SharedEvent::create() : SharedEvent::open(handle));
          return event.shared()->handle();
        }));
  m.def("release_external_stream",
        wrap_pybind_function_no_gil([](int index, int64_t id) { release_external_stream(stream_by_id(index, id)); }));
}

}  // namespace mydev
