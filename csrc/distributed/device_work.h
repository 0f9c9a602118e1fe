// A collective under way: c10d::Work over the works of the engine that it was made of.
//
// A collective is one or more stages (stages.h); each is ended on the thread on which its last work completes. The
// operands stay alive, and device memory open to the host, until the engine is done, whoever drops the Work.
//
// Waiting. On a synchronous stream wait() blocks the caller. On an asynchronous one it makes the current stream wait,
// as NCCL's does: the future is then complete in that stream's order, and a failure is raised by the next wait for that
// stream. With a timeout, for a barrier, for a receive from any source, for sparse tensors, and where the device cannot
// run host code in a stream, it blocks the caller. Failures carry the collective's name and rank and are
// torch.distributed.DistBackendError. Thread-safe.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "aten/core/torch_version.h"
#include "distributed/backend_hooks.h"
#include "distributed/stages.h"

namespace mydev {

class DeviceWork final : public c10d::Work {
 public:
  using Issue = std::function<void(Stages&)>;
  static constexpr const char* kAborted = "the process group was aborted";

  // For messages: "all_reduce on mydev:0, rank 1 of 2".
  struct Label {
    const char* name;
    int rank, size;
  };

  // `copies`: the stream for copies to and from staging tensors.
  DeviceWork(Label label, c10d::OpType type, Stream& copies, std::vector<at::Tensor> outputs,
             std::shared_ptr<const CompletionHooks> hooks);
  ~DeviceWork() override;
  void release_resources() override;

  // Issues the collective to the engine, once. If `issue` throws, issue_now() rethrows to the caller, and issue_later()
  // makes the Work fail.
  void issue_now(const Issue& issue);
  void issue_later(const Issue& issue) noexcept;
  void fail(const std::string& message) noexcept;

  std::string description() const;  // for messages, as above

  bool isCompleted() override;
#if MYDEV_TORCH_HAS(15)
  uint64_t getCompletionKey() const override { return end_->key(); }
#endif
  int sourceRank() const override;
  std::vector<at::Tensor> result() override { return outputs_; }
  void synchronize() override;
  bool wait(std::chrono::milliseconds timeout) override;
  void blockCurrentStream() override { synchronize(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

  // Fails now, whatever the engine does; waiters wake up. Memory stays open to the host until the engine is done.
  void abort() override;

  // Makes the Work end even if nobody waits for it. A point-to-point transfer gets a thread for that, since the
  // engine's work has no future. Collectives whose stages have an end are watched from the start.
  void begin_watching();

 private:
  bool is_transfer() const { return c10d::isP2POp(opType_); }
  void issue(const Issue& issue);
  void attach_callbacks();
  void release_all() noexcept;
  void set_issued(bool watch);
  void stage_done(Stage& stage, const std::exception_ptr& error) noexcept;
  void complete(std::exception_ptr error) noexcept;
  void wait_on_stream(Stream& stream);
  void complete_future_after(Stream& stream);
  void wait_for_future();
  void block(std::chrono::milliseconds timeout);
  void wait_for_profiler();
  void wait_for_engine(std::chrono::milliseconds timeout);
  void wait_for_collective(std::chrono::milliseconds timeout);
  void wait_for_transfer(std::chrono::milliseconds timeout);
  void wait_on_host(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                    std::chrono::milliseconds timeout, const std::function<bool()>& done);
  std::exception_ptr explained(const std::exception_ptr& error) const;
  c10::intrusive_ptr<DeviceWork> self() { return c10::intrusive_ptr<DeviceWork>::reclaim_copy(this); }

  const Label label_;
  const std::shared_ptr<CollectiveEnd> end_;
  std::vector<at::Tensor> outputs_;
  std::shared_ptr<HostAccess> access_;
  Stages stages_;
  std::mutex engine_mutex_;  // held while waiting for the engine's transfers
  // Wakes the threads that wait for the engine's one work. The engine may hold it for longer than the Work exists.
  struct Signal {
    std::mutex mutex;
    std::condition_variable raised;
    bool is_raised = false;
    void raise();
  };
  const std::shared_ptr<Signal> signal_ = std::make_shared<Signal>();
  // Guarded by the base's mutex_, with completed_ and exception_.
  bool issued_ = false;
  bool abort_requested_ = false;
  bool watched_ = false;  // the end comes by itself
  size_t pending_stages_ = 0;
  std::exception_ptr stage_error_;    // the first
  Stream* waiting_stream_ = nullptr;  // the first on which wait() left the waiting to the stream
  c10::intrusive_ptr<c10::ivalue::Future> future_;
  std::jthread watcher_;
};

}  // namespace mydev
