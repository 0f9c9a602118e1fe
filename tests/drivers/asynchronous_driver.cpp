// A driver whose devices work on their own: a launch, a copy or a fill is a task in a stream's queue, and the call
// returns before it has run. Each stream has a thread, which stands for the card; the host cannot touch the card's
// memory (simulated_memory.h). Launches take copies of what they need (MYDEV_CAPABILITY_LAUNCH_COPIES), and
// stream_status reports later failures. The driver is for mydev/driver.h 1.1.
//
// Two kernels: "conformance.scale" and "conformance.fail", as docs/conformance.md describes them.
// Options: devices=N (1 to 4), memory=MIB (of each device; 256).
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mydev/driver.h"
#include "simulated_memory.h"

namespace {

constexpr int32_t kMaxDevices = 4;

int32_t num_devices = 1;
uint64_t memory_bytes = uint64_t{256} << 20;
std::array<SimulatedMemory, kMaxDevices>& memories = *new std::array<SimulatedMemory, kMaxDevices>;

thread_local std::array<char, 256> error_message;

mydev_code fail(mydev_code code, const std::string& message) {
  std::snprintf(error_message.data(), error_message.size(), "%s", message.c_str());
  return code;
}

const char* last_error() {
  return error_message.data();
}

// --- streams: a queue of tasks, and the thread that runs them --------------------------------------------------------

// [docs: stream]
class Stream {
 public:
  using Task = std::function<mydev_code()>;  // on failure its message is the thread's last error

  explicit Stream(int32_t device) : device_(device), thread_([this] { work(); }) {}
  ~Stream() {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    changed_.notify_all();
    thread_.join();  // the queue is empty then
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  SimulatedMemory& memory() const { return memories[static_cast<size_t>(device_)]; }

  void run(Task task) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      ++given_;
    }
    changed_.notify_all();
  }
  bool done() {
    const std::lock_guard lock(mutex_);
    return finished_ == given_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, target = given_] { return finished_ >= target; });
  }
  // Returns the first failure since the last call, which then is reported.
  std::pair<mydev_code, std::string> take_failure() {
    const std::lock_guard lock(mutex_);
    return std::exchange(failure_, {MYDEV_OK, ""});
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      const mydev_code code = task();
      task = nullptr;  // what it holds goes before anyone hears that it is done
      lock.lock();
      if (code != MYDEV_OK && failure_.first == MYDEV_OK) failure_ = {code, last_error()};
      ++finished_;
      changed_.notify_all();
    }
  }

  const int32_t device_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  uint64_t given_ = 0, finished_ = 0;
  bool ending_ = false;
  std::pair<mydev_code, std::string> failure_{MYDEV_OK, ""};
  std::thread thread_;  // last: it uses all of the above
};
// [docs: end]

Stream& as_stream(mydev_stream stream) {
  return *reinterpret_cast<Stream*>(stream);
}

mydev_code stream_create(int32_t device, int32_t /*priority*/, mydev_stream* out_stream) {
  *out_stream = reinterpret_cast<mydev_stream>(new Stream(device));
  return MYDEV_OK;
}
mydev_code stream_destroy(mydev_stream stream) {
  delete &as_stream(stream);
  return MYDEV_OK;
}
mydev_code stream_query(mydev_stream stream, int32_t* out_done) {
  *out_done = as_stream(stream).done() ? 1 : 0;
  return MYDEV_OK;
}
mydev_code stream_synchronize(mydev_stream stream) {
  as_stream(stream).wait();
  return MYDEV_OK;
}

// [docs: status]
mydev_code stream_status(mydev_stream stream, mydev_code* out_status) {
  const auto [code, message] = as_stream(stream).take_failure();
  if (code != MYDEV_OK) fail(code, message);
  *out_status = code;
  return MYDEV_OK;
}

mydev_code stream_host_call(mydev_stream stream, mydev_host_function function, void* context) {
  as_stream(stream).run([=] {
    function(context);
    return MYDEV_OK;
  });
  return MYDEV_OK;
}
// [docs: end]

// --- events: the latest task that was recorded -----------------------------------------------------------------------

struct Record {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  std::chrono::steady_clock::time_point time;

  void finish() {
    {
      const std::lock_guard lock(mutex);
      time = std::chrono::steady_clock::now();
      done = true;
    }
    finished.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    finished.wait(lock, [this] { return done; });
  }
  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }
};

struct Event {
  std::mutex mutex;
  std::shared_ptr<Record> record;  // waits that were given keep theirs when the event is recorded again or destroyed
};

std::shared_ptr<Record> latest(mydev_event event) {
  Event& object = *reinterpret_cast<Event*>(event);
  const std::lock_guard lock(object.mutex);
  return object.record;
}

mydev_code event_create(int32_t /*device*/, uint32_t /*flags*/, mydev_event* out_event) {
  *out_event = reinterpret_cast<mydev_event>(new Event);
  return MYDEV_OK;
}
mydev_code event_destroy(mydev_event event) {
  delete reinterpret_cast<Event*>(event);
  return MYDEV_OK;
}
mydev_code event_record(mydev_event event, mydev_stream stream) {
  auto record = std::make_shared<Record>();
  as_stream(stream).run([record] {
    record->finish();
    return MYDEV_OK;
  });
  Event& object = *reinterpret_cast<Event*>(event);
  const std::lock_guard lock(object.mutex);
  object.record = std::move(record);
  return MYDEV_OK;
}
mydev_code event_query(mydev_event event, int32_t* out_done) {
  const auto record = latest(event);
  *out_done = record == nullptr || record->is_done() ? 1 : 0;
  return MYDEV_OK;
}
mydev_code event_synchronize(mydev_event event) {
  if (const auto record = latest(event)) record->wait();
  return MYDEV_OK;
}
mydev_code event_elapsed(mydev_event start, mydev_event end, double* out_milliseconds) {
  const auto first = latest(start);
  const auto last = latest(end);
  if (first == nullptr || last == nullptr || !first->is_done() || !last->is_done()) {
    return fail(MYDEV_FAILED_PRECONDITION, "an event of the pair was never recorded, or is not finished");
  }
  *out_milliseconds = std::chrono::duration<double, std::milli>(last->time - first->time).count();
  return MYDEV_OK;
}
mydev_code stream_wait_event(mydev_stream stream, mydev_event event) {
  if (const auto record = latest(event)) {
    as_stream(stream).run([record] {
      record->wait();
      return MYDEV_OK;
    });
  }
  return MYDEV_OK;
}

// --- devices, memory, copies -----------------------------------------------------------------------------------------

mydev_code initialize(const char* options, const mydev_host_services* host) {
  std::string text = options;
  while (!text.empty()) {
    const std::string option = text.substr(0, text.find(','));
    text.erase(0, option.size() + 1);
    const std::string name = option.substr(0, option.find('='));
    const long value = std::atol(option.substr(std::min(option.size(), name.size() + 1)).c_str());
    if (name == "devices" && value >= 1 && value <= kMaxDevices) {
      num_devices = static_cast<int32_t>(value);
    } else if (name == "memory" && value >= 1) {
      memory_bytes = static_cast<uint64_t>(value) << 20;
    } else {
      return fail(MYDEV_INVALID_ARGUMENT,
                  "bad option '" + option + "'; the asynchronous driver takes devices=N (1 to 4), memory=MIB");
    }
  }
  for (SimulatedMemory& memory : std::span(memories).first(static_cast<size_t>(num_devices))) {
    if (!memory.reserve(memory_bytes)) {
      return fail(MYDEV_RESOURCE_EXHAUSTED, "no address space for the devices' memory");
    }
  }
  const std::string found = "the asynchronous driver simulates " + std::to_string(num_devices) + " devices";
  host->log(MYDEV_LOG_INFO, found.c_str());
  return MYDEV_OK;
}

mydev_code device_count(int32_t* out_count) {
  *out_count = num_devices;
  return MYDEV_OK;
}

// [docs: properties]
mydev_code device_properties(int32_t /*device*/, mydev_device_properties* out) {
  std::snprintf(out->name, sizeof(out->name), "asynchronous");
  out->total_memory = memory_bytes;
  out->alignment = SimulatedMemory::kAlignment;
  out->capabilities = MYDEV_CAPABILITY_ASYNC | MYDEV_CAPABILITY_LAUNCH_COPIES;
  out->multi_processor_count = 1;
  return MYDEV_OK;
}
// [docs: end]

mydev_code memory_alloc(int32_t device, uint64_t bytes, void** out_data) {
  void* data = memories[static_cast<size_t>(device)].allocate(bytes);
  if (data == nullptr) {
    return fail(MYDEV_RESOURCE_EXHAUSTED, "no free range of " + std::to_string(bytes) + " bytes on the device");
  }
  *out_data = data;
  return MYDEV_OK;
}

mydev_code memory_free(int32_t device, void* data, uint64_t bytes) {
  const bool ours = memories[static_cast<size_t>(device)].free(data, bytes);
  return ours ? MYDEV_OK : fail(MYDEV_INVALID_ARGUMENT, "not a pointer of this device");
}

// [docs: copy]
mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  Stream& target = as_stream(stream);
  const SimulatedMemory& memory = target.memory();
  const bool from_device = kind != MYDEV_COPY_HOST_TO_DEVICE;
  const bool to_device = kind != MYDEV_COPY_DEVICE_TO_HOST;
  if ((from_device && !memory.holds(src, bytes)) || (to_device && !memory.holds(dst, bytes))) {
    return fail(MYDEV_INVALID_ARGUMENT, "a copy reaches beyond the device's memory");
  }
  target.run([=, &memory] {
    std::memcpy(to_device ? memory.translate(dst) : dst, from_device ? memory.translate(src) : src, bytes);
    return MYDEV_OK;
  });
  // There is no host_alloc, so all host memory is ordinary memory: the caller's again when this returns.
  if (kind != MYDEV_COPY_DEVICE_TO_DEVICE) target.wait();
  return MYDEV_OK;
}
// [docs: end]

mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  Stream& target = as_stream(stream);
  const SimulatedMemory& memory = target.memory();
  if (!memory.holds(dst, bytes)) {
    return fail(MYDEV_INVALID_ARGUMENT, "a fill reaches beyond the device's memory");
  }
  target.run([&memory, dst, bytes, copied = std::string(static_cast<const char*>(pattern), pattern_bytes)] {
    auto* out = static_cast<char*>(memory.translate(dst));
    for (uint64_t done = 0; done < bytes; done += copied.size()) std::memcpy(out + done, copied.data(), copied.size());
    return MYDEV_OK;
  });
  return MYDEV_OK;
}

// --- work ------------------------------------------------------------------------------------------------------------

// [docs: arguments]
// What a launch needs of its frame, which is the caller's again when the call has returned.
struct Arguments {
  struct Operand {
    float* data;  // as the card sees it
    int64_t size, stride;
  };
  std::vector<Operand> operands;
  double number = 0;
};

using DeviceCode = mydev_code (*)(const Arguments& arguments);  // of a record: its driver_data

mydev_code scale(const Arguments& arguments) {
  const Arguments::Operand& out = arguments.operands[0];
  const Arguments::Operand& in = arguments.operands[1];
  const auto factor = static_cast<float>(arguments.number);
  for (int64_t i = 0; i < out.size; ++i) out.data[i * out.stride] = factor * in.data[i * in.stride];
  return MYDEV_OK;
}

mydev_code fail_late(const Arguments& arguments) {
  return fail(static_cast<mydev_code>(arguments.number), "conformance.fail does as it is told");
}
// [docs: end]

constexpr DeviceCode kScaleCode = scale;
constexpr DeviceCode kFailCode = fail_late;

// Without an entry: the host has no use for it.
mydev_kernel record(const char* name, const char* doc, const DeviceCode& code) {
  static constexpr mydev_limits kLimits = {
      .struct_size = sizeof(mydev_limits), .dtypes = 0, .rank_max = 1, .flags = MYDEV_LIMIT_NO_SCALARS};
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(mydev_kernel);
  kernel.name = name;
  kernel.doc = doc;
  kernel.driver_data = const_cast<DeviceCode*>(&code);
  kernel.limits = &kLimits;
  return kernel;
}

const std::array kKernels = {
    record("conformance.scale", "out f32[n], in f32[n]; factor: out = factor * in", kScaleCode),
    record("conformance.fail", "code: fails with it when the stream comes to it", kFailCode),
};

const mydev_kernel* find_kernel(int32_t /*device*/, const char* name) {
  for (const mydev_kernel& kernel : kKernels) {
    if (std::strcmp(name, kernel.name) == 0) return &kernel;
  }
  return nullptr;
}

// [docs: launch]
mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  if (kernel != find_kernel(frame->device, kernel->name)) {
    return fail(MYDEV_UNIMPLEMENTED, std::string("the asynchronous device has no kernel ") + kernel->name);
  }
  Stream& target = as_stream(stream);
  Arguments arguments;
  for (const mydev_buffer& buffer : std::span(frame->buffers, frame->num_outputs + frame->num_inputs)) {
    if (buffer.dtype != MYDEV_F32) return fail(MYDEV_INVALID_ARGUMENT, std::string(kernel->name) + " takes f32");
    arguments.operands.push_back(
        {static_cast<float*>(target.memory().translate(buffer.data)), buffer.sizes[0], buffer.strides[0]});
  }
  const mydev_attribute& number = frame->attributes[0];
  arguments.number = number.kind == MYDEV_ATTRIBUTE_INT ? static_cast<double>(number.value.i) : number.value.f;
  const DeviceCode code = *static_cast<const DeviceCode*>(kernel->driver_data);
  target.run([code, arguments = std::move(arguments)] { return code(arguments); });
  return MYDEV_OK;
}
// [docs: end]

constexpr mydev_driver_api kApi = {
    .struct_size = sizeof(mydev_driver_api),
    .version_major = MYDEV_DRIVER_VERSION_MAJOR,
    .version_minor = MYDEV_DRIVER_VERSION_MINOR,
    .name = "asynchronous",
    .version = "1.1",
    .initialize = initialize,
    .last_error = last_error,
    .device_count = device_count,
    .device_properties = device_properties,
    .memory_alloc = memory_alloc,
    .memory_free = memory_free,
    .copy = copy,
    .fill = fill,
    .stream_create = stream_create,
    .stream_destroy = stream_destroy,
    .stream_query = stream_query,
    .stream_synchronize = stream_synchronize,
    .stream_wait_event = stream_wait_event,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_query = event_query,
    .event_synchronize = event_synchronize,
    .event_elapsed = event_elapsed,
    .launch = launch,
    .find_kernel = find_kernel,
    .stream_status = stream_status,
    .stream_host_call = stream_host_call,
};

}  // namespace

// [docs: query]
extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor) {
  // A runtime of version 1.0 would wait for its frames to be completed.
  return version_major == MYDEV_DRIVER_VERSION_MAJOR && version_minor >= 1 ? &kApi : nullptr;
}
// [docs: end]
