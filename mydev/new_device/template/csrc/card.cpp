/* The simulated card (card.h): threads for its queues, and ordinary memory behind addresses that nobody can read. */
#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "card_queue.h"

namespace {

thread_local std::string error;

bool is_blocking = false;
std::array<CardMemory, CARD_MOST_DEVICES>& memories = *new std::array<CardMemory, CARD_MOST_DEVICES>;

constexpr uint64_t round_up(uint64_t bytes) {
  return (bytes + CARD_ALIGNMENT - 1) / CARD_ALIGNMENT * CARD_ALIGNMENT;
}

}  // namespace

mydev_code card_fail(mydev_code code, std::string message) {
  error = std::move(message);
  return code;
}

/* --- memory ------------------------------------------------------------------------------------------------------- */

bool CardMemory::reserve(uint64_t bytes) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  size_ = bytes;
  address_ = static_cast<char*>(mmap(nullptr, bytes, PROT_NONE, kFlags, -1, 0));
  data_ = static_cast<char*>(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0));
  free_ranges_ = {{0, bytes}};
  return address_ != MAP_FAILED && data_ != MAP_FAILED;
}

void* CardMemory::allocate(uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t size = round_up(bytes);
  for (auto range = free_ranges_.begin(); range != free_ranges_.end(); ++range) {
    const auto [offset, available] = *range;
    if (bytes > available || size > available) continue;
    free_ranges_.erase(range);
    if (size < available) free_ranges_[offset + size] = available - size;
    return address_ + offset;
  }
  return nullptr;
}

bool CardMemory::release(void* data, uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (!holds(data, bytes)) return false;
  const auto offset = static_cast<uint64_t>(static_cast<char*>(data) - address_);
  uint64_t size = round_up(bytes);
  auto next = free_ranges_.lower_bound(offset);
  if (next != free_ranges_.end() && next->first == offset + size) {
    size += next->second;
    next = free_ranges_.erase(next);
  }
  if (next != free_ranges_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      previous->second += size;
      return true;
    }
  }
  free_ranges_[offset] = size;
  return true;
}

mydev_code card_initialize(int32_t devices, uint64_t memory_bytes, int32_t blocking) {
  is_blocking = blocking != 0;
  for (int32_t device = 0; device < devices; ++device) {
    if (!memories[static_cast<size_t>(device)].reserve(memory_bytes)) {
      return card_fail(MYDEV_RESOURCE_EXHAUSTED, "no address space for the devices' memory");
    }
  }
  return MYDEV_OK;
}

const char* card_error(void) {
  return error.c_str();
}

mydev_code card_allocate(int32_t device, uint64_t bytes, void** out_data) {
  void* data = memories[static_cast<size_t>(device)].allocate(bytes);
  if (data == nullptr) {
    return card_fail(MYDEV_RESOURCE_EXHAUSTED, "no free range of " + std::to_string(bytes) + " bytes on the device");
  }
  *out_data = data;
  return MYDEV_OK;
}

mydev_code card_release(int32_t device, void* data, uint64_t bytes) {
  const bool ours = memories[static_cast<size_t>(device)].release(data, bytes);
  return ours ? MYDEV_OK : card_fail(MYDEV_INVALID_ARGUMENT, "not a pointer of this device");
}

/* --- queues ------------------------------------------------------------------------------------------------------- */

card_queue::card_queue(CardMemory& of_device, bool waits) : memory(of_device), blocking_(waits) {
  if (!blocking_) thread_ = std::thread([this] { work(); });
}

card_queue::~card_queue() {
  if (blocking_) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join(); /* the queue is empty then */
}

mydev_code card_queue::run(Task task) {
  if (blocking_) return task();
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
    ++given_;
  }
  changed_.notify_all();
  return MYDEV_OK;
}

bool card_queue::is_done() {
  const std::lock_guard lock(mutex_);
  return finished_ == given_;
}

void card_queue::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this, target = given_] { return finished_ >= target; });
}

std::pair<mydev_code, std::string> card_queue::take_failure() {
  const std::lock_guard lock(mutex_);
  return std::exchange(failure_, {MYDEV_OK, ""});
}

void card_queue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    const mydev_code code = task();
    task = nullptr; /* what it holds goes before anyone hears that it is done */
    lock.lock();
    if (code != MYDEV_OK && failure_.first == MYDEV_OK) failure_ = {code, error};
    ++finished_;
    changed_.notify_all();
  }
}

card_queue* card_queue_create(int32_t device) {
  return new card_queue(memories[static_cast<size_t>(device)], is_blocking);
}
void card_queue_destroy(card_queue* queue) {
  delete queue;
}
int32_t card_queue_is_done(card_queue* queue) {
  return queue->is_done() ? 1 : 0;
}
void card_queue_wait(card_queue* queue) {
  queue->wait();
}
mydev_code card_queue_take_failure(card_queue* queue) {
  auto [code, message] = queue->take_failure();
  return code == MYDEV_OK ? MYDEV_OK : card_fail(code, std::move(message));
}

mydev_code card_copy(card_queue* queue, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  const CardMemory& memory = queue->memory;
  const bool from_card = kind != MYDEV_COPY_HOST_TO_DEVICE, to_card = kind != MYDEV_COPY_DEVICE_TO_HOST;
  if ((from_card && !memory.holds(src, bytes)) || (to_card && !memory.holds(dst, bytes))) {
    return card_fail(MYDEV_INVALID_ARGUMENT, "a copy reaches beyond the device's memory");
  }
  return queue->run([=, &memory] {
    std::memcpy(to_card ? memory.translate(dst) : dst, from_card ? memory.translate(src) : src, bytes);
    return MYDEV_OK;
  });
}

mydev_code card_fill(card_queue* queue, void* dst, uint64_t bytes, const void* pattern, uint32_t period) {
  const CardMemory& memory = queue->memory;
  if (!memory.holds(dst, bytes)) {
    return card_fail(MYDEV_INVALID_ARGUMENT, "a fill reaches beyond the device's memory");
  }
  return queue->run([&memory, dst, bytes, copied = std::string(static_cast<const char*>(pattern), period)] {
    auto* out = static_cast<char*>(memory.translate(dst));
    for (uint64_t done = 0; done < bytes; done += copied.size()) std::memcpy(out + done, copied.data(), copied.size());
    return MYDEV_OK;
  });
}

mydev_code card_call(card_queue* queue, mydev_host_function function, void* context) {
  return queue->run([=] {
    function(context);
    return MYDEV_OK;
  });
}

/* --- launches ----------------------------------------------------------------------------------------------------- */

namespace {

/* A copy of a frame, with the card's places of buffers. For the card's thread it is one of all that the frame points
 * to; a queue that blocks needs it no longer than the caller has it. */
class Arguments {
 public:
  Arguments(const mydev_frame& original, const card_queue& queue) : frame_(original), host_(*original.host) {
    const CardMemory& memory = queue.memory;
    const uint32_t count = original.num_outputs + original.num_inputs;
    mydev_buffer* buffers = keep(original.buffers, count);
    for (mydev_buffer* buffer = buffers; buffer != buffers + count; ++buffer) {
      const auto rank = static_cast<size_t>(buffer->rank);
      buffer->sizes = keep(buffer->sizes, rank);
      buffer->strides = keep(buffer->strides, rank);
      const bool number = (buffer->flags & MYDEV_BUFFER_SCALAR) != 0; /* lies in host memory */
      buffer->data = number ? keep(static_cast<const mydev_scalar*>(buffer->data), 1) : memory.translate(buffer->data);
    }
    frame_.buffers = buffers;
    frame_.scratch = memory.translate(original.scratch);
    if (queue.is_blocking()) return;
    frame_.attributes = keep_attributes(original.attributes, original.num_attributes);
    frame_.host = &host_;
    host_.set_error = [](const mydev_frame* /*frame*/, const char* message) { error = message; };
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  const mydev_frame& frame() const { return frame_; }

 private:
  template <typename T>
  T* keep(const T* from, size_t count) {
    if (count == 0) return nullptr;
    const auto* bytes = reinterpret_cast<const char*>(from);
    return reinterpret_cast<T*>(kept_.emplace_back(bytes, bytes + count * sizeof(T)).data());
  }
  const mydev_attribute* keep_attributes(const mydev_attribute* from, uint32_t count) {
    mydev_attribute* attributes = keep(from, count);
    for (mydev_attribute* attribute = attributes; attribute != attributes + count; ++attribute) {
      if (attribute->name != nullptr) attribute->name = keep(attribute->name, std::strlen(attribute->name) + 1);
      auto& value = attribute->value;
      if (attribute->kind == MYDEV_ATTRIBUTE_STRING) value.bytes = keep(value.bytes, attribute->count);
      if (attribute->kind == MYDEV_ATTRIBUTE_INT_ARRAY) value.ints = keep(value.ints, attribute->count);
      if (attribute->kind == MYDEV_ATTRIBUTE_FLOAT_ARRAY) value.floats = keep(value.floats, attribute->count);
    }
    return attributes;
  }

  mydev_frame frame_;
  mydev_host_services host_; /* the same, but a kernel's message is the card's */
  std::deque<std::vector<char>> kept_;
};

}  // namespace

mydev_code card_launch(card_queue* queue, mydev_kernel_fn code, const mydev_frame* frame) {
  error = "the kernel failed and said no reason";
  if (queue->is_blocking()) { /* the runtime knows a kernel's message by the caller's frame */
    const mydev_frame original = *frame;
    const Arguments arguments(original, *queue);
    auto* given = const_cast<mydev_frame*>(frame);
    *given = arguments.frame();
    const mydev_code result = code(given);
    *given = original;
    return result;
  }
  for (uint32_t i = 0; i < frame->num_attributes; ++i) {
    if (frame->attributes[i].kind == MYDEV_ATTRIBUTE_ARRAY || frame->attributes[i].kind == MYDEV_ATTRIBUTE_DICTIONARY) {
      return card_fail(MYDEV_UNIMPLEMENTED, "the card takes attributes of numbers, text and lists of numbers");
    }
  }
  const auto arguments = std::make_shared<const Arguments>(*frame, *queue);
  return queue->run([code, arguments] { return code(&arguments->frame()); });
}

/* --- events ------------------------------------------------------------------------------------------------------- */

namespace {

struct Place {
  std::mutex mutex;
  std::condition_variable reached;
  bool done = false;
  std::chrono::steady_clock::time_point time;

  void reach() {
    {
      const std::lock_guard lock(mutex);
      time = std::chrono::steady_clock::now();
      done = true;
    }
    reached.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    reached.wait(lock, [this] { return done; });
  }
  bool is_done() {
    const std::lock_guard lock(mutex);
    return done;
  }
};

}  // namespace

struct card_event {
  std::mutex mutex;
  std::shared_ptr<Place> place; /* waits keep theirs when the event is recorded again or destroyed */

  std::shared_ptr<Place> latest() {
    const std::lock_guard lock(mutex);
    return place;
  }
};

card_event* card_event_create(void) {
  return new card_event;
}
void card_event_destroy(card_event* event) {
  delete event;
}
mydev_code card_event_record(card_event* event, card_queue* queue) {
  auto place = std::make_shared<Place>();
  const mydev_code code = queue->run([place] {
    place->reach();
    return MYDEV_OK;
  });
  const std::lock_guard lock(event->mutex);
  event->place = std::move(place);
  return code;
}
mydev_code card_queue_wait_event(card_queue* queue, card_event* event) {
  const auto place = event->latest();
  if (place == nullptr) return MYDEV_OK;
  return queue->run([place] {
    place->wait();
    return MYDEV_OK;
  });
}
int32_t card_event_is_done(card_event* event) {
  const auto place = event->latest();
  return place == nullptr || place->is_done() ? 1 : 0;
}
void card_event_wait(card_event* event) {
  if (const auto place = event->latest()) place->wait();
}
mydev_code card_event_elapsed(card_event* start, card_event* end, double* out_milliseconds) {
  const auto first = start->latest(), last = end->latest();
  if (first == nullptr || last == nullptr || !first->is_done() || !last->is_done()) {
    return card_fail(MYDEV_FAILED_PRECONDITION, "an event of the pair was never recorded, or is not finished");
  }
  *out_milliseconds = std::chrono::duration<double, std::milli>(last->time - first->time).count();
  return MYDEV_OK;
}
