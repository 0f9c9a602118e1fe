#include "distributed/device_work.h"

#include <ATen/record_function.h>

#include "aten/core/device_type.h"
#include "distributed/collective_error.h"
#include "distributed/issue_thread.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/command/host_work.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

using Future = c10::ivalue::Future;

DeviceWork::DeviceWork(Label label, c10d::OpType type, Stream& copies, std::vector<at::Tensor> outputs,
                       std::shared_ptr<const CompletionHooks> hooks)
    : Work(label.rank, type),
      label_(label),
      end_(std::make_shared<CollectiveEnd>(std::move(hooks))),
      outputs_(std::move(outputs)),
      stages_(copies) {}

DeviceWork::~DeviceWork() {
  release_all();
}

void DeviceWork::release_resources() {
  release_all();
}

void DeviceWork::release_all() noexcept {
  if (watcher_.joinable() && watcher_.get_id() == std::this_thread::get_id()) watcher_.detach();
  watcher_ = {};
  if (!completed_ && !is_transfer()) stages_.keep_open(access_);  // dropped while the engine works
  access_.reset();
  stages_.clear();
  outputs_.clear();
  future_.reset();
}

// --- the backend's side ----------------------------------------------------------------------------------------------

void DeviceWork::issue(const Issue& issue) {
  const StreamScope scope(stages_.copies());
  if (stages_.copies().device().host_accessible()) access_ = std::make_shared<HostAccess>(stages_.copies().device());
  issue(stages_);
  for (Stage& stage : stages_.all()) stage.pending = stage.works.size();
  pending_stages_ = stages_.all().size();
}

void DeviceWork::issue_now(const Issue& issue) {
  this->issue(issue);
  const bool watch = !is_transfer() && !stages_.is_direct();
  set_issued(watch);
  if (!watch && !is_transfer() && end_->is_wanted()) {  // hooks are told, whether or not anybody waits
    stages_.first_work().getFuture()->addCallback([end = end_](Future& future) {
      if (!future.hasError()) end->succeeded();
    });
  }
}

// Who waits must find it watched as soon as it is issued: the end comes once.
void DeviceWork::set_issued(bool watch) {
  bool abort_now = false;
  {
    const std::lock_guard lock(mutex_);
    issued_ = true;
    watched_ = watch;
    abort_now = abort_requested_;
  }
  cv_.notify_all();
  if (abort_now) abort();
  if (watch) attach_callbacks();
}

void DeviceWork::issue_later(const Issue& issue) noexcept {
  try {
    this->issue(issue);
  } catch (...) {
    complete(explained(std::current_exception()));
    return;
  }
  set_issued(/*watch=*/!is_transfer());
}

void DeviceWork::fail(const std::string& message) noexcept {
  complete(std::make_exception_ptr(backend_error(description() + ": " + message)));
}

// --- the end ---------------------------------------------------------------------------------------------------------

void DeviceWork::begin_watching() {
  {
    const std::lock_guard lock(mutex_);
    if (watched_ || completed_) return;
    watched_ = true;
    if (is_transfer()) {
      watcher_ = std::jthread([work = self()] {
        try {
          {
            std::unique_lock lock(work->mutex_);
            work->cv_.wait(lock, [&] { return work->issued_ || work->completed_; });
          }
          work->wait_for_engine(kNoTimeout);
        } catch (...) {  // kept in the work
        }
      });
      return;
    }
  }
  attach_callbacks();
}

void DeviceWork::attach_callbacks() {
  if (stages_.all().empty()) complete(nullptr);
  for (Stage& stage : stages_.all()) {
    if (stage.works.empty()) {
      stage.pending = 1;
      stage_done(stage, nullptr);
    }
    for (const EngineWork& work : stage.works) {
      work->getFuture()->addCallback([this_work = self(), &stage](Future& future) {
        this_work->stage_done(stage, future.hasError() ? future.exception_ptr() : nullptr);
      });
    }
  }
}

void DeviceWork::stage_done(Stage& stage, const std::exception_ptr& error) noexcept {
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    if (error != nullptr && stage_error_ == nullptr) stage_error_ = error;
    if (--stage.pending > 0) return;
    failed = stage_error_ != nullptr;
  }
  std::exception_ptr end_error;
  if (!failed) {
    try {
      stages_.end(stage);
    } catch (...) {
      end_error = std::current_exception();
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (end_error != nullptr && stage_error_ == nullptr) stage_error_ = end_error;
    if (--pending_stages_ > 0) return;
  }
  complete(stage_error_ != nullptr ? explained(stage_error_) : nullptr);
}

void DeviceWork::complete(std::exception_ptr error) noexcept {
  c10::intrusive_ptr<Future> future;
  std::shared_ptr<HostAccess> access;
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return;
    completed_ = true;
    exception_ = error;
    if (waiting_stream_ == nullptr) future = future_;
    access.swap(access_);
  }
  access.reset();
  if (error == nullptr) end_->succeeded();
  cv_.notify_all();
  if (future == nullptr) return;
  auto finish = [future = std::move(future), error = std::move(error), outputs = outputs_, &copies = stages_.copies()] {
    if (error != nullptr) {
      future->setError(error);
    } else {
      const StreamScope scope(copies);  // the results are there: nothing of the caller's streams is waited for
      future->markCompleted(outputs);
    }
  };
  if (ServingScope::is_open()) {
    std::thread(std::move(finish)).detach();  // it runs the callbacks of users
  } else {
    finish();
  }
}

std::string DeviceWork::description() const {
  return c10::str(label_.name, " on ", device_text(stages_.copies().device().index), ", rank ", label_.rank, " of ",
                  label_.size);
}

std::exception_ptr DeviceWork::explained(const std::exception_ptr& error) const {
  return std::make_exception_ptr(backend_error(description() + " failed: " + message_of(error)));
}

// --- the user's side: waiting, asking, aborting, futures -------------------------------------------------------------

using std::chrono::milliseconds;

void DeviceWork::wait_on_host(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                              milliseconds timeout, const std::function<bool()>& done) {
  if (timeout <= kNoTimeout) {
    changed.wait(lock, done);
  } else if (!changed.wait_for(lock, timeout, done)) {
    throw backend_error(description() + " has not finished within " + std::to_string(timeout.count()) + " ms");
  }
}

void DeviceWork::Signal::raise() {
  {
    const std::lock_guard lock(mutex);
    is_raised = true;
  }
  raised.notify_all();
}

// For the one work of a collective. Its future is complete before the work is: asking that leaves out a second sleep.
void DeviceWork::wait_for_collective(milliseconds timeout) {
  const auto future = stages_.first_work().getFuture();
  if (!future->completed()) {
    future->addCallback([signal = signal_](Future&) { signal->raise(); });
    std::unique_lock lock(signal_->mutex);
    wait_on_host(signal_->raised, lock, timeout, [this] { return signal_->is_raised; });
    if (!future->completed()) return;  // aborted meanwhile
  }
  complete(future->hasError() ? explained(future->exception_ptr()) : nullptr);
}

void DeviceWork::wait_for_transfer(milliseconds timeout) {
  const std::lock_guard engine_lock(engine_mutex_);
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return;
  }
  std::exception_ptr error;
  for (Stage& stage : stages_.all()) {
    try {
      for (const EngineWork& work : stage.works) {
        TORCH_CHECK(work->wait(timeout <= kNoTimeout ? kNoTimeout : timeout), kAborted);
      }
      stages_.end(stage);
    } catch (...) {
      error = explained(std::current_exception());
    }
  }
  complete(error);
}

void DeviceWork::wait_for_engine(milliseconds timeout) {
  if (is_transfer()) {
    wait_for_transfer(timeout);
  } else {
    wait_for_collective(timeout);
  }
}

void DeviceWork::block(milliseconds timeout) {
  std::unique_lock lock(mutex_);
  wait_on_host(cv_, lock, timeout, [this] { return issued_ || completed_; });
  if (!completed_ && !watched_) {
    lock.unlock();
    wait_for_engine(timeout);
    lock.lock();
  }
  wait_on_host(cv_, lock, timeout, [this] { return completed_; });
  if (exception_ != nullptr) std::rethrow_exception(exception_);
  lock.unlock();
  if (at::hasCallbacks() && !is_transfer()) wait_for_profiler();
}

// The engine ends its events after it has completed the future, and the profiler must not be stopped in between.
void DeviceWork::wait_for_profiler() {
  for (const Stage& stage : stages_.all()) {
    for (const EngineWork& work : stage.works) work->wait();
  }
}

namespace {

// Whether the stream can wait, so that the host need not.
bool runs_host_calls(const Stream& stream) {
  return stream.asynchronous() && stream.device().driver->stream_host_call != nullptr;
}

}  // namespace

bool DeviceWork::wait(milliseconds timeout) {
  Stream& stream = current_stream(stages_.copies().device().index);
  const bool for_host = opType_ == c10d::OpType::BARRIER || opType_ == c10d::OpType::RECVANYSOURCE ||
                        opType_ == c10d::OpType::_ALLREDUCE_SPARSE;
  if (timeout > kNoTimeout || for_host || !runs_host_calls(stream)) {
    block(timeout);
  } else {
    wait_on_stream(stream);
  }
  wait_for_future();
  return true;
}

void DeviceWork::wait_on_stream(Stream& stream) {
  {
    const std::lock_guard lock(mutex_);
    if (exception_ != nullptr) std::rethrow_exception(exception_);
    if (completed_) return;
  }
  submit_host_call(stream, "wait for a collective", [work = self()] {
    const ServingScope serving;
    try {
      work->block(kNoTimeout);
    } catch (...) {
      throw Error(MYDEV_ABORTED, message_of(std::current_exception()));
    }
  });
  complete_future_after(stream);
}

// Code after wait() may read the future's value. The stream waits, so the value is there in its order.
void DeviceWork::complete_future_after(Stream& stream) {
  c10::intrusive_ptr<Future> future;
  {
    const std::lock_guard lock(mutex_);
    if (completed_ || waiting_stream_ != nullptr) return;
    waiting_stream_ = &stream;
    future = future_;
  }
  if (future == nullptr) return;
  const StreamScope scope(stream);
  future->markCompleted(outputs_);
}

// The work is complete, or its end belongs to a stream: another thread may be about to say so to the future.
void DeviceWork::wait_for_future() {
  c10::intrusive_ptr<Future> future;
  {
    const std::lock_guard lock(mutex_);
    future = future_;
  }
  if (future != nullptr) future->wait();
}

void DeviceWork::synchronize() {
  wait(kNoTimeout);
}

bool DeviceWork::isCompleted() {
  {
    const std::lock_guard lock(mutex_);
    if (completed_) return true;
    if (!issued_ && !is_transfer()) return false;
  }
  if (is_transfer()) {
    begin_watching();
    return false;
  }
  if (!stages_.is_direct() || !stages_.first_work().isCompleted()) return false;
  try {
    wait_for_engine(kNoTimeout);
  } catch (...) {  // kept in the work
  }
  return true;
}

int DeviceWork::sourceRank() const {
  TORCH_CHECK(is_transfer() && !stages_.all().empty(),
              "source_rank() is for the work of a receive that has been waited for");
  return stages_.first_work().sourceRank();
}

void DeviceWork::abort() {
  std::shared_ptr<HostAccess> access;
  {
    const std::lock_guard lock(mutex_);
    abort_requested_ = true;
    if (completed_ || !issued_) return;
    access = access_;
  }
  if (is_transfer()) {
    stages_.first_work().abort();
    return;
  }
  stages_.keep_open(access);
  fail(kAborted);
  signal_->raise();
}

c10::intrusive_ptr<Future> DeviceWork::getFuture() {
  bool completed = false;
  bool watch = false;
  Stream* waiting_stream = nullptr;
  {
    const std::lock_guard lock(mutex_);
    if (future_ != nullptr) return future_;
    future_ = c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()),
                                          std::vector{torch_device(stages_.copies().device().index)});
    completed = completed_;  // otherwise complete() or complete_future_after() finds the future
    waiting_stream = waiting_stream_;
    watch = issued_ || is_transfer();
  }
  if (completed && exception_ != nullptr) {
    future_->setError(exception_);
  } else if (completed || waiting_stream != nullptr) {
    const StreamScope scope(completed ? stages_.copies() : *waiting_stream);
    future_->markCompleted(outputs_);
  } else if (watch) {
    begin_watching();
  }
  return future_;
}

}  // namespace mydev
