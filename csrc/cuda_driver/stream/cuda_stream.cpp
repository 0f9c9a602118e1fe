#include "cuda_driver/stream/cuda_stream.h"

#include <memory>

#include "driver_support/streams.h"

namespace mydev::cuda_driver {

namespace {

std::atomic<int> captures{0};

Streams<CudaStream>& streams() {
  static Streams<CudaStream>& all = *new Streams<CudaStream>;
  return all;
}

// The word of all launches of a device that were captured.
uint32_t* graph_word(const CudaDevice& device) {
  static std::mutex& mutex = *new std::mutex;
  static PinnedWords& words = *new PinnedWords;
  const std::lock_guard lock(mutex);
  if (words == nullptr) words = make_pinned_words(static_cast<size_t>(count_devices()));
  return &words[static_cast<size_t>(device.index())];
}

// Reads a word that a device may write.
bool take(uint32_t* word) noexcept {
  return std::atomic_ref(*word).exchange(0, std::memory_order_acquire) != 0;
}

}  // namespace

CudaStream& as_stream(mydev_stream stream) {
  return *reinterpret_cast<CudaStream*>(stream);
}

CudaStream::CudaStream(CudaDevice& device, int32_t priority) : device_(device), words_(make_pinned_words(kWords)) {
  const CurrentContext context(device_);
  check(cuda().cuStreamCreateWithPriority(&ref_, kStreamNonBlocking, priority),
        "cuStreamCreateWithPriority of priority ", priority, " on device ", device_.ordinal());
}

CudaStream::~CudaStream() {
  const CudaApi& api = cuda();
  api.cuStreamSynchronize(ref_);
  api.cuStreamDestroy(ref_);
}

bool CudaStream::capturing() const {
  if (captures.load(std::memory_order_acquire) == 0) return false;
  int status = kCaptureNone;
  check(cuda().cuStreamIsCapturing(ref_, &status), "cuStreamIsCapturing");
  return status != kCaptureNone;
}

void CudaStream::refuse_capture(const char* what) const {
  require(!capturing(), MYDEV_FAILED_PRECONDITION, what, " cannot be captured");
}

void CudaStream::synchronize() {
  refuse_capture("a wait for the stream");
  check(cuda().cuStreamSynchronize(ref_), "cuStreamSynchronize");
}

bool CudaStream::done() {
  const Result result = cuda().cuStreamQuery(ref_);
  if (result != kErrorNotReady) check(result, "cuStreamQuery");
  return result == kSuccess;
}

uint32_t* CudaStream::next_fault_word(const std::string& kernel) {
  if (capturing()) return graph_word(device_);
  const std::lock_guard lock(mutex_);
  const size_t at = next_++ % kWords;
  auto& name = names_[at];
  name[kernel.copy(name.data(), name.size() - 1)] = '\0';
  return &words_[at];
}

std::string CudaStream::take_fault() {
  constexpr const char* kWhat = ": an index is out of bounds, an integer is divided by 0, or an assertion failed";
  std::string fault;
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < kWords; ++i) {  // the oldest first
    const size_t at = (next_ + i) % kWords;
    if (take(&words_[at]) && fault.empty()) fault = std::string("kernel '") + names_[at].data() + "'" + kWhat;
  }
  const bool of_graph = watches_graphs_.load(std::memory_order_relaxed) && take(graph_word(device_));
  return of_graph && fault.empty() ? std::string("a kernel of a graph") + kWhat : fault;
}

void count_captures(int change) noexcept {
  captures.fetch_add(change, std::memory_order_release);
}

bool all_done(const CudaDevice& device) {
  return streams().all_of(
      [&](CudaStream& stream) { return &stream.device() != &device || (!stream.capturing() && stream.done()); });
}

mydev_code stream_create(int32_t device, int32_t priority, mydev_stream* out_stream) {
  return run_checked([&] { *out_stream = streams().add(std::make_unique<CudaStream>(device_at(device), priority)); });
}

mydev_code stream_destroy(mydev_stream stream) {
  return run_checked([&] {
    const CurrentContext context(as_stream(stream).device());
    streams().destroy(stream);
  });
}

mydev_code stream_query(mydev_stream stream, int32_t* out_done) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    on.refuse_capture("a question whether the stream is done");
    *out_done = on.done() ? 1 : 0;
  });
}

mydev_code stream_synchronize(mydev_stream stream) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    on.synchronize();
  });
}

mydev_code stream_status(mydev_stream stream, mydev_code* out_status) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    mydev_code status = MYDEV_OK;
    if (const std::string fault = on.take_fault(); !fault.empty()) {
      status = fail(MYDEV_OUT_OF_RANGE, fault.c_str());
    } else if (!on.capturing()) {
      const Result result = cuda().cuStreamQuery(on.ref());
      if (result != kSuccess && result != kErrorNotReady) status = fail(code_of(result), text_of(result).c_str());
    }
    *out_status = status;
  });
}

mydev_code stream_host_call(mydev_stream stream, mydev_host_function function, void* context) {
  struct Call {
    mydev_host_function function;
    void* context;
  };
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    const CurrentContext current(on.device());
    on.refuse_capture("a call of the host");
    auto call = std::make_unique<Call>(Call{function, context});
    // Unlike cuLaunchHostFunc's functions these are called when earlier work has failed, too.
    const StreamCallback run = [](StreamRef /*stream*/, Result /*status*/, void* given) {
      const std::unique_ptr<Call> owned(static_cast<Call*>(given));
      owned->function(owned->context);
    };
    check(cuda().cuStreamAddCallback(on.ref(), run, call.get(), 0), "cuStreamAddCallback");
    [[maybe_unused]] const Call* given = call.release();
  });
}

}  // namespace mydev::cuda_driver
