// Validation: launches, and the completion of frames that the driver took.
#include <span>
#include <string>
#include <utility>

#include "runtime/base/source_location.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"
#include "runtime/validation/finding.h"
#include "runtime/validation/state.h"

namespace mydev::validation {

namespace {

constexpr uint64_t kScratchAlignment = 64;

int64_t elements_of(const mydev_buffer& buffer) {
  int64_t elements = 1;
  for (int32_t d = 0; d < buffer.rank; ++d) elements *= buffer.sizes[d];
  return elements;
}

void check_buffer(const mydev_buffer& buffer, const std::string& role) {
  require(buffer.rank >= 0, MYDEV_INVALID_ARGUMENT, role, " has the rank ", buffer.rank);
  require(buffer.rank == 0 || (buffer.sizes != nullptr && buffer.strides != nullptr), MYDEV_INVALID_ARGUMENT, role,
          " has the rank ", buffer.rank, " and no sizes or strides");
  for (int32_t d = 0; d < buffer.rank; ++d) {
    require(buffer.sizes[d] >= 0, MYDEV_INVALID_ARGUMENT, role, " has the size ", buffer.sizes[d], " in dimension ", d);
  }
  // A buffer of rank 0 without data is an absent operand or result. It may have the dtype of what is absent.
  require(buffer.data != nullptr || buffer.rank == 0 || elements_of(buffer) == 0, MYDEV_INVALID_ARGUMENT, role, " has ",
          elements_of(buffer), " elements and no data");
}

std::vector<Use> frame_uses(State& self, int32_t device, const mydev_frame& frame) {
  std::vector<Use> uses;
  const std::span buffers(frame.buffers, frame.num_outputs + frame.num_inputs);
  uses.reserve(buffers.size() + 1);
  for (size_t i = 0; i < buffers.size(); ++i) {
    const bool result = i < frame.num_outputs;
    std::string role = result ? text("result ", i) : text("operand ", i - frame.num_outputs);
    if (is_scalar(buffers[i])) {
      require(buffers[i].data != nullptr, MYDEV_INVALID_ARGUMENT, role, " is a number, and its data NULL");
      continue;
    }
    check_buffer(buffers[i], role);
    MemoryView view = MemoryView::of_buffer(buffers[i]);
    if (view.empty()) continue;
    self.objects.check_range(device, view, role);
    uses.push_back({device, result, std::move(role), std::move(view)});
  }
  if (frame.scratch != nullptr && frame.scratch_bytes != 0) {
    require(reinterpret_cast<uintptr_t>(frame.scratch) % kScratchAlignment == 0, MYDEV_INVALID_ARGUMENT, "scratch at ",
            frame.scratch, " is not aligned to ", kScratchAlignment, " bytes");
    MemoryView view = MemoryView::of_bytes(frame.scratch, frame.scratch_bytes);
    self.objects.check_range(device, view, "scratch");
    uses.push_back({device, true, "scratch", std::move(view)});
  }
  return uses;
}

void check_frame(const mydev_frame& frame, mydev_stream stream, const StreamObject& object) {
  require(frame.stream == stream, MYDEV_INVALID_ARGUMENT, "frame->stream is ", static_cast<const void*>(frame.stream),
          ", and the launch is on ", object.name);
  require(frame.device == object.device, MYDEV_INVALID_ARGUMENT, "frame->device is ", frame.device,
          ", and the launch on ", object.name);
  require(frame.host != nullptr, MYDEV_INVALID_ARGUMENT, "frame->host is NULL");
  require(frame.buffers != nullptr || frame.num_outputs + frame.num_inputs == 0, MYDEV_INVALID_ARGUMENT,
          "the frame has ", frame.num_outputs + frame.num_inputs, " buffers, and frame->buffers is NULL");
}

// True for a record that the driver offers, or that says so.
bool runs_driver(const mydev_driver_api& driver, int32_t device, const mydev_kernel& kernel) {
  const bool says = kernel.struct_size >= offsetof(mydev_kernel, limits) && kernel.runs == MYDEV_RUNS_DRIVER;
  return says || (driver.find_kernel != nullptr && driver.find_kernel(device, kernel.name) == &kernel);
}

// --- completions -----------------------------------------------------------------------------------------------------

// The runtime's services report to nobody that a frame is completed. A caller that gives other services may wait for
// it.
void note_completed(State& self, const AcceptedFrame& entry) {
  if (entry.host == &host_services()) {
    self.order.complete(entry.point.clock);
  } else {
    self.order.observe(entry.point);
  }
}

// Reports the message at the stream's next wait, or in the log if there is no stream any more.
void tell(State& self, mydev_stream stream, const std::string& message) {
  StreamObject* object = self.objects.find_stream(stream);
  if (object == nullptr || !object->finding.empty()) return report(message);
  count_finding();
  object->finding = message;
}

void complete(mydev_frame* frame, mydev_code code) {
  State& self = state();
  const mydev_host_services* host = nullptr;
  {
    const std::lock_guard lock(self.mutex);
    AcceptedFrame* entry = self.completions.find(frame);
    if (entry == nullptr) return report(self.completions.unknown(frame));
    if (entry->accepted == 0) {  // the driver is still in launch: passed on once it accepts the frame
      if (entry->code) return report(text("the driver completed ", *entry->what, " twice; the second is ignored"));
      entry->code = code;
      return;
    }
    const std::string wrong = self.completions.wrong_order(*entry);
    if (!wrong.empty()) tell(self, entry->stream, wrong);
    if (code < MYDEV_OK || code > MYDEV_UNAUTHENTICATED) {
      tell(self, entry->stream,
           text("the driver completed ", *entry->what, " with ", static_cast<int>(code), ", which is no mydev_code"));
      code = MYDEV_INTERNAL;
    }
    host = entry->host;
    note_completed(self, *entry);
    self.completions.remove(frame);
  }
  frame->host = host;
  host->complete(frame, code);
}

// A launch between its check and the driver's answer.
class Launching {
 public:
  Launching(State& self, mydev_stream stream, mydev_frame& frame, const Submission& submission, bool owned)
      : self_(self), stream_(stream), frame_(frame), host_(frame.host), owned_(owned) {
    auto what = std::make_shared<const std::string>(submission.description());
    const Point& point = self.objects.stream(stream).order.point;
    self.completions.add(&frame, {std::move(what), stream, host_, self.completions.now(), 0, point, {}, false});
    frame.host = services_for(self, host_);
  }

  // Raises a Finding if the driver did something wrong meanwhile.
  void finalize(mydev_code code) {
    std::unique_lock lock(self_.mutex);
    AcceptedFrame* entry = self_.completions.find(&frame_);
    const std::optional<mydev_code> completed = entry->code;
    if (code == MYDEV_OK && owned_ && !completed) {
      entry->accepted = self_.completions.now();
      return;
    }
    const std::shared_ptr<const std::string> what = entry->what;
    const std::string wrong = completed ? self_.completions.wrong_order(*entry) : "";
    if (completed && owned_) note_completed(self_, *entry);
    self_.completions.remove(&frame_);
    frame_.host = host_;
    if (!completed) return;
    require(code == MYDEV_OK, MYDEV_FAILED_PRECONDITION, "the driver refused ", *what,
            ", and completed its frame all the same; complete only what launch accepted");
    require(owned_, MYDEV_FAILED_PRECONDITION, "the driver completed the frame of ", *what,
            ", which it only borrowed: the device is not ASYNC, or its launch copies the frame");
    if (!wrong.empty()) tell(self_, stream_, wrong);
    lock.unlock();
    host_->complete(&frame_, *completed);
  }

 private:
  State& self_;
  mydev_stream stream_;
  mydev_frame& frame_;
  const mydev_host_services* host_;
  bool owned_;
};

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  State& self = state();
  return checked("launch", [&] {
    require(kernel != nullptr && frame != nullptr && kernel->name != nullptr, MYDEV_INVALID_ARGUMENT,
            "the kernel, its name, or the frame is NULL");
    const bool of_driver = runs_driver(self.driver, frame->device, *kernel);
    return launch_checked(stream, *kernel, *frame, of_driver,
                          [&] { return self.driver.launch(stream, kernel, frame); });
  });
}

}  // namespace

const mydev_host_services* services_for(State& self, const mydev_host_services* host) {
  std::unique_ptr<mydev_host_services>& services = self.services[host];
  if (services == nullptr) {
    services = std::make_unique<mydev_host_services>(*host);
    services->complete = complete;
  }
  return services.get();
}

mydev_code launch_checked(mydev_stream stream, const mydev_kernel& kernel, mydev_frame& frame, bool of_driver,
                          const std::function<mydev_code()>& give) {
  State& self = state();
  std::optional<Submission> submission;
  std::optional<Launching> launching;
  bool asynchronous = false;
  std::string source = source_location();
  {
    const std::lock_guard lock(self.mutex);
    const StreamObject& object = self.objects.stream(stream);
    check_frame(frame, stream, object);
    asynchronous = self.objects.has(object.device, MYDEV_CAPABILITY_ASYNC);
    const bool copies = self.objects.has(object.device, MYDEV_CAPABILITY_LAUNCH_COPIES);
    submission.emplace(self, stream, kernel.name, std::move(source), frame_uses(self, object.device, frame));
    launching.emplace(self, stream, frame, *submission, asynchronous && !(copies && of_driver));
  }
  const mydev_code code = give();
  submission->finalize(code, !asynchronous);
  launching->finalize(code);
  return code;
}

void put_launch_checks(mydev_driver_api& table) {
  table.launch = launch;
}

}  // namespace mydev::validation
