// A driver behind the validation layer. Its work is done when a test says so, and it does wrong as asked. A process has
// one validation layer, so each case has a process of its own.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "runtime/driver/driver_loader.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/frame.h"
#include "runtime/validation/validation.h"

namespace mydev {

inline constexpr uint64_t kPage = 4096;
inline constexpr uint64_t kBytes = 16 * kPage;

struct FakeDevice {
  uint32_t capabilities = MYDEV_CAPABILITY_ASYNC;
  mydev_code answer = MYDEV_OK;  // of launch, copy and fill
  int32_t done = 1;              // of queries
  std::vector<mydev_frame*> frames;
  mydev_host_function function = nullptr;
  void* context = nullptr;
  uint64_t misalign = 0;
  void* next_memory = nullptr;  // what memory_alloc gives; else something new
  bool completes_in_launch = false;
};
inline FakeDevice fake;
inline int handles = 0;
alignas(kPage) inline std::array<char, 64 * kPage> arena;

template <typename Handle>
mydev_code make_handle(Handle* out) {
  *out = reinterpret_cast<Handle>(static_cast<uintptr_t>(16 * ++handles));  // NOLINT(performance-no-int-to-ptr)
  return MYDEV_OK;
}

inline mydev_code allocate_fake(int32_t /*device*/, uint64_t /*bytes*/, void** out) {
  static uint64_t used = 0;
  *out = fake.next_memory != nullptr ? fake.next_memory : arena.data() + used + fake.misalign;
  used += kBytes;
  return MYDEV_OK;
}

inline mydev_code launch_fake(mydev_stream /*stream*/, const mydev_kernel* /*kernel*/, mydev_frame* frame) {
  fake.frames.push_back(frame);
  if (fake.completes_in_launch) frame->host->complete(frame, MYDEV_OK);
  return fake.answer;
}

inline mydev_driver_api fake_table() {
  mydev_driver_api table{};
  table.struct_size = sizeof(table);
  table.name = "fake";
  table.initialize = [](const char*, const mydev_host_services*) { return MYDEV_OK; };
  table.last_error = [] { return "the fake device fails on request"; };
  table.device_count = [](int32_t* out) {
    *out = 2;
    return MYDEV_OK;
  };
  table.device_properties = [](int32_t, mydev_device_properties* out) {
    out->total_memory = 3 * kBytes;
    out->alignment = 256;
    out->capabilities = fake.capabilities;
    return MYDEV_OK;
  };
  table.memory_alloc = allocate_fake;
  table.memory_free = [](int32_t, void*, uint64_t) { return MYDEV_OK; };
  table.copy = [](mydev_stream, void*, const void*, uint64_t, mydev_copy_kind) { return fake.answer; };
  table.copy_strided = [](mydev_stream, const mydev_buffer*, const mydev_buffer*, mydev_copy_kind) {
    return fake.answer;
  };
  table.fill = [](mydev_stream, void*, uint64_t, const void*, uint32_t) { return fake.answer; };
  table.stream_create = [](int32_t, int32_t, mydev_stream* out) { return make_handle(out); };
  table.stream_destroy = [](mydev_stream) { return MYDEV_OK; };
  table.stream_query = [](mydev_stream, int32_t* out) {
    *out = fake.done;
    return MYDEV_OK;
  };
  table.stream_synchronize = [](mydev_stream) { return MYDEV_OK; };
  table.stream_wait_event = [](mydev_stream, mydev_event) { return MYDEV_OK; };
  table.stream_host_call = [](mydev_stream, mydev_host_function function, void* context) {
    fake.function = function;
    fake.context = context;
    return MYDEV_OK;
  };
  table.event_create = [](int32_t, uint32_t, mydev_event* out) { return make_handle(out); };
  table.event_destroy = [](mydev_event) { return MYDEV_OK; };
  table.event_record = [](mydev_event, mydev_stream) { return MYDEV_OK; };
  table.event_query = [](mydev_event, int32_t* out) {
    *out = fake.done;
    return MYDEV_OK;
  };
  table.event_synchronize = [](mydev_event) { return MYDEV_OK; };
  table.event_elapsed = [](mydev_event, mydev_event, double*) { return MYDEV_OK; };
  table.launch = launch_fake;
  return table;
}

class Validation : public testing::Test {
 protected:
  explicit Validation(uint32_t capabilities = MYDEV_CAPABILITY_ASYNC, const mydev_driver_api& table = fake_table())
      : api(table) {
    fake.capabilities = capabilities;
    detail::validate_driver(api);
    EXPECT_EQ(api.initialize("", &host_services()), MYDEV_OK);
    data = allocate();
    stream = make_stream();
    other = make_stream();
  }

  char* allocate(int32_t device = 0) {
    void* memory = nullptr;
    EXPECT_EQ(api.memory_alloc(device, kBytes, &memory), MYDEV_OK) << api.last_error();
    return static_cast<char*>(memory);
  }
  mydev_stream make_stream(int32_t device = 0) {
    mydev_stream made = nullptr;
    EXPECT_EQ(api.stream_create(device, 0, &made), MYDEV_OK);
    return made;
  }
  mydev_event make_event(int32_t device = 0, uint32_t flags = 0) {
    mydev_event made = nullptr;
    EXPECT_EQ(api.event_create(device, flags, &made), MYDEV_OK);
    return made;
  }
  mydev_code fill(mydev_stream on, char* dst, uint64_t bytes = kPage) { return api.fill(on, dst, bytes, "", 1); }
  mydev_code read(mydev_stream on, const char* src, uint64_t bytes = kPage) {
    return api.copy(on, data + 8 * kPage, src, bytes, MYDEV_COPY_DEVICE_TO_DEVICE);
  }
  void order(mydev_stream earlier, mydev_stream later) {
    const mydev_event event = make_event();
    EXPECT_EQ(api.event_record(event, earlier), MYDEV_OK);
    EXPECT_EQ(api.stream_wait_event(later, event), MYDEV_OK);
  }

  // A launch of "test.kernel" with one result of `count` numbers, a column of which `stride` tells.
  mydev_code launch(mydev_stream on, char* result, int64_t count = 8, int64_t stride = 1) {
    launched.push_back(std::make_unique<Launched>());
    Launched& it = *launched.back();
    it.size = count;
    it.stride = stride;
    it.buffer = {result, &it.size, &it.stride, 1, MYDEV_F32, 0};
    it.frame = make_frame({&it.buffer, 1}, 1);
    it.frame.stream = on;
    it.frame.host = &counting;
    it.frame.launch = &it;
    return api.launch(on, &kernel, &it.frame);
  }

  void expect_found(mydev_code code, mydev_code expected, const std::vector<std::string>& parts) const {
    EXPECT_EQ(code, expected);
    const std::string message = api.last_error();
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_EQ(message.find("validate: "), 0U) << message;
    EXPECT_GT(validation::findings(), 0U);
  }
  void expect_status(mydev_stream of, const std::string& part) const {
    mydev_code status = MYDEV_OK;
    EXPECT_EQ(api.stream_status(of, &status), MYDEV_OK);
    expect_found(status, MYDEV_FAILED_PRECONDITION, {part});
  }

  struct Launched {
    int64_t size, stride;
    mydev_buffer buffer;
    mydev_frame frame;
  };
  inline static int completed = 0;
  mydev_driver_api api;
  mydev_kernel kernel{.struct_size = sizeof(mydev_kernel), .name = "test.kernel"};
  mydev_host_services counting = [] {
    mydev_host_services services = host_services();
    services.complete = [](mydev_frame*, mydev_code) { ++completed; };
    return services;
  }();
  std::vector<std::unique_ptr<Launched>> launched;
  char* data;
  mydev_stream stream, other;
};

class InlineValidation : public Validation {
 protected:
  InlineValidation() : Validation(0) {}
};

}  // namespace mydev
