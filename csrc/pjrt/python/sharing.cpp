#include "pjrt/python/sharing.h"

#include <optional>
#include <string>
#include <utility>

#include "pjrt/buffer/submission.h"
#include "pjrt/python/dlpack.h"
#include "pjrt/python/python_entries.h"
#include "runtime/base/api.h"
#include "runtime/command/host_work.h"
#include "runtime/stream/event.h"
#include "runtime/stream/stream_table.h"

namespace mydev::pjrt {

namespace {

// A buffer's memory that is lent, and what is known of the work that fills it.
class Loan {
 public:
  explicit Loan(PJRT_Buffer& buffer)
      : storage_(buffer.lend("a loan")), shape_(buffer.shape), ready_(buffer.ready), memory_(buffer.memory) {}
  Loan(Loan&& other) noexcept = default;
  Loan& operator=(Loan&&) = delete;
  ~Loan() {
    if (storage_ == nullptr) return;
    storage_->take_back();
    // Memory that is not the allocator's must be held until the borrower's work is done.
    if (user_ != nullptr && user_->asynchronous() && !storage_->stream_ordered()) hold_until_used();
  }

  // `user` waits for the work that fills the memory, with its failure, and uses the memory from then on. Raises
  // FAILED_PRECONDITION for memory of the host and for a stream that captures, and the failure if it is there already.
  void give_to(Stream& user) {
    MYDEV_CHECK(!memory_.on_host(), MYDEV_FAILED_PRECONDITION, describe(*shape_), " is in ", memory_.to_string,
                ", and only memory of the device is shared; jax.device_put moves it there");
    check_captures_nothing(user);
    if (!ready_->is_ready()) wait_on_stream(user);
    if (ready_->has_failed()) raise(ready_->failure().code, ready_->failure().message);
    if (&user != &device().stream) storage_->record_use(user);
    user_ = &user;
  }

  static void check_captures_nothing(const Stream& stream) {
    MYDEV_CHECK(stream.capture() == nullptr, MYDEV_FAILED_PRECONDITION,
                "the current stream captures a graph, and JAX's work is not captured; share memory before or after");
  }

  LocalDevice& device() const noexcept { return *memory_.device; }
  const Storage& storage() const noexcept { return *storage_; }
  const Shape& shape() const noexcept { return *shape_; }

 private:
  void wait_on_stream(Stream& user) {
    check_not_awaited(device(), "an array that is still to be computed");
    Failure failure;
    device().queue.run([&] {  // so that the work that fills it was submitted
      failure = failure_of([&] {
        if (&user == &device().stream) return;
        Event event(user.device().index, /*timing=*/false);
        event.record_uncaptured(device().stream);
        event.block(user);
      });
    });
    if (failure.failed()) raise(failure.code, failure.message);
    // The work's own failure does not stay with the plugin's stream: the buffer has it.
    submit_host_call(user, "wait for an array of JAX", [ready = ready_] {
      ready->wait();
      if (ready->has_failed()) raise(ready->failure().code, ready->failure().message);
    });
  }

  void hold_until_used() {
    (void)failure_of([&] {
      auto event = std::make_shared<Event>(user_->device().index, /*timing=*/false);
      event->record_uncaptured(*user_);
      Submission wait{.name = "end of a loan", .submit = [event](Stream& stream) { event->block(stream); }};
      wait.after = [event] {};
      wait.storages = {std::move(storage_)};
      submit(device(), std::move(wait));
    });
  }

  SharedStorage storage_;
  SharedShape shape_;
  SharedCompletion ready_;
  PJRT_Memory& memory_;
  Stream* user_ = nullptr;
};

struct LentTensor {
  explicit LentTensor(Loan given) : loan(std::move(given)) {
    DlTensor& tensor = managed.tensor;
    tensor.data = loan.storage().data();
    tensor.device = {kDlExtensionDevice, loan.device().device.index};
    tensor.rank = static_cast<int32_t>(loan.shape().sizes.size());
    tensor.type = dl_type(*loan.shape().type);
    tensor.sizes = loan.shape().sizes.data();
    managed.owner = this;
    managed.deleter = [](DlManagedTensor* self) { delete static_cast<LentTensor*>(self->owner); };
  }

  DlManagedTensor managed{};
  Loan loan;
};

// Makes the device wait for `stream`, which has work on memory that the device is about to use.
void wait_for_stream(LocalDevice& device, Stream& stream) {
  Loan::check_captures_nothing(stream);
  if (&stream == &device.stream || !stream.asynchronous()) return;
  Event event(stream.device().index, /*timing=*/false);
  event.record(stream);
  Failure failure;
  device.queue.run([&] { failure = failure_of([&] { event.block(device.stream); }); });
  if (failure.failed()) raise(failure.code, failure.message);
}

thread_local bool wanted = false;
thread_local std::optional<Loan> noted;

}  // namespace

void note_address(PJRT_Buffer& buffer) {
  if (wanted) noted.emplace(buffer);
}

// Functions that pjrt_mydev's Python calls. Functions with a message return a mydev_code; the message is valid until
// this thread's next call. Streams are given by the runtime's number for them.

// Says whether this thread wants the next buffer whose address it asks for. A buffer noted before is dropped.
extern "C" MYDEV_API void mydev_pjrt_want_buffer(bool wanted) {
  noted.reset();
  pjrt::wanted = wanted;
}

// Lends the noted buffer to work of the stream.
extern "C" MYDEV_API int32_t mydev_pjrt_lend(int64_t stream, DlManagedTensor** out_tensor, const char** out_message) {
  return answer(out_message, [&] {
    MYDEV_CHECK(noted.has_value(), MYDEV_FAILED_PRECONDITION,
                "this version of jaxlib does not ask the plugin for the address of an array");
    noted->give_to(stream_by_id(noted->device().device.index, stream));
    auto tensor = std::make_unique<LentTensor>(*std::move(noted));
    noted.reset();
    *out_tensor = &tensor.release()->managed;
  });
}

// Makes the device's work from now on wait for the stream's work so far.
extern "C" MYDEV_API int32_t mydev_pjrt_wait_for_stream(int64_t device, int64_t stream, const char** out_message) {
  return answer(out_message, [&] {
    LocalDevice& found = Platform::get().local_device(device);
    wait_for_stream(found, stream_by_id(found.device.index, stream));
  });
}

}  // namespace mydev::pjrt
