// Streams and events. A stream is one of CUDA's that does not wait for the default stream.
//
// A kernel that finds an index out of bounds says so in its fault word, in page-locked memory that the device reaches.
// A stream has a ring of them, so that the message can name the kernel. The next wait for the stream looks at them all.
// Launches that are captured have one word for all graphs of a device, which streams look at that launched a graph.
//
// Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>

#include "cuda_driver/device/cuda_device.h"
#include "cuda_driver/memory/cuda_memory.h"
#include "mydev/driver.h"

namespace mydev::cuda_driver {

class CudaStream {
 public:
  CudaStream(CudaDevice& device, int32_t priority);
  ~CudaStream();  // waits for its work
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CudaDevice& device() const noexcept { return device_; }
  StreamRef ref() const noexcept { return ref_; }
  mydev_stream handle() noexcept { return reinterpret_cast<mydev_stream>(this); }

  bool capturing() const;
  // Raises FAILED_PRECONDITION while the stream is captured, naming what cannot be.
  void refuse_capture(const char* what) const;
  void synchronize();
  bool done();

  // The fault word of the next launch, of a kernel of this name.
  uint32_t* next_fault_word(const std::string& kernel);
  // A graph was launched, whose kernels may use the device's word.
  void watch_graphs() noexcept { watches_graphs_.store(true, std::memory_order_relaxed); }
  // Returns what the fault words say of finished launches, which then is reported: "" if all is well.
  std::string take_fault();

 private:
  static constexpr size_t kWords = 64;

  CudaDevice& device_;
  StreamRef ref_ = nullptr;
  std::atomic<bool> watches_graphs_{false};
  std::mutex mutex_;  // guards what follows
  PinnedWords words_;
  std::array<std::array<char, 64>, kWords> names_{};  // of the kernels that have the words
  size_t next_ = 0;
};

CudaStream& as_stream(mydev_stream stream);

// Begins and ends with each capture: while there is none, launches need not ask whether theirs is captured.
void count_captures(int change) noexcept;

mydev_code stream_create(int32_t device, int32_t priority, mydev_stream* out_stream);
mydev_code stream_destroy(mydev_stream stream);
mydev_code stream_query(mydev_stream stream, int32_t* out_done);
mydev_code stream_synchronize(mydev_stream stream);
mydev_code stream_wait_event(mydev_stream stream, mydev_event event);
mydev_code stream_status(mydev_stream stream, mydev_code* out_status);
mydev_code stream_host_call(mydev_stream stream, mydev_host_function function, void* context);
// Whether all streams of the device are done, of those that stream_create made.
bool all_done(const CudaDevice& device);

// --- events ----------------------------------------------------------------------------------------------------------

mydev_code event_create(int32_t device, uint32_t flags, mydev_event* out_event);
mydev_code event_destroy(mydev_event event);
mydev_code event_record(mydev_event event, mydev_stream stream);
mydev_code event_query(mydev_event event, int32_t* out_done);
mydev_code event_synchronize(mydev_event event);
mydev_code event_elapsed(mydev_event start, mydev_event end, double* out_milliseconds);

}  // namespace mydev::cuda_driver
