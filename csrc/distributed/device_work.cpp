#include "distributed/device_work.h"

#include "distributed/collective_error.h"
#include "distributed/issue_thread.h"
#include "runtime/base/device_name.h"

namespace mydev {

using Future = c10::ivalue::Future;

DeviceWork::DeviceWork(Label label, c10d::OpType type, Stream& copies, std::vector<at::Tensor> outputs)
    : Work(label.rank, type), label_(label), outputs_(std::move(outputs)), stages_(copies) {}

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
  set_issued(/*watch=*/!is_transfer() && !stages_.is_direct());
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
    future = future_;
    access.swap(access_);
  }
  access.reset();
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
  return c10::str(label_.name, " on " MYDEV_DEVICE_NAME ":", stages_.copies().device().index, ", rank ", label_.rank,
                  " of ", label_.size);
}

std::exception_ptr DeviceWork::explained(const std::exception_ptr& error) const {
  return std::make_exception_ptr(backend_error(description() + " failed: " + message_of(error)));
}

}  // namespace mydev
