// The process-group backend of the device: c10d's collectives on device tensors, over an engine that has them on the
// host's.
//
// The engine is any c10d::Backend for CPU tensors; ProcessGroupGloo by default. Collectives that it lacks are composed
// of the ones it has (docs/distributed.md has the table). All ranks of a group must use the same kind of driver, since
// operands that are staged in pieces on one rank must be staged in pieces on the others.
//
// Order. A collective follows the current stream's earlier work. On synchronous streams it goes to the engine at once,
// on the caller's thread; on asynchronous ones from the group's issue thread, so that no caller waits. Either way the
// engine sees the collectives of a group in the order of the calls. A stream that captures records the collective, and
// each replay issues it (captured_work.h). Thread-safe as far as the engine is.
#pragma once

#include <list>
#include <mutex>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "aten/core/torch_version.h"
#include "distributed/backend_hooks.h"
#include "distributed/device_work.h"
#include "distributed/issue_thread.h"
#include "distributed/reduction.h"
#include "distributed/self_transfers.h"
#include "runtime/base/api.h"

namespace mydev {

class MYDEV_API DeviceBackend final : public c10d::Backend {
 public:
  using Tensor = at::Tensor;
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Engine = c10::intrusive_ptr<c10d::Backend>;

  struct Options final : c10d::Backend::Options {
    using c10d::Backend::Options::Options;
  };
  using OptionsPtr = c10::intrusive_ptr<c10d::Backend::Options>;
  // Makes the engine of a group, and of its subgroups when it is split.
  using EngineFactory = std::function<Engine(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                             const c10d::Backend::Options& options)>;

  DeviceBackend(EngineFactory factory, const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                OptionsPtr options);
  ~DeviceBackend() override;

  const std::string getBackendName() const override { return options_->backend; }
  OptionsPtr getBackendOptions() override { return options_; }
  void setTimeout(std::chrono::milliseconds timeout) override {
    options_->timeout = timeout;
    engine_->setTimeout(timeout);
  }
  void setSequenceNumberForGroup() override { engine_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return engine_->getSequenceNumberForGroup(); }
  void enableCollectivesTiming() override { engine_->enableCollectivesTiming(); }

#if MYDEV_TORCH_HAS(15)
  // No abort hooks: the flight recorder's writes a file, which keeps the error from its reader for half a minute, and
  // ends a process that exits meanwhile.
  bool supportsCompletionHooks() const override { return true; }
  void registerCompletionHook(int64_t id, c10d::CompletionHook hook) override {
    hooks_->set(id, [hook = std::move(hook)](uint64_t key) { hook({key, std::nullopt}); });
  }
  void unregisterCompletionHook(int64_t id) override { hooks_->erase(id); }
#endif

  bool supportsSplitting() const override { return true; }
  Engine split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
               const OptionsPtr& options) override;
  Engine merge(const c10::intrusive_ptr<c10d::Store>& store, const OptionsPtr& options, const int& rank,
               const int& size) override;

  // Collectives between the two calls start as usual; the Work of endCoalescing() stands for all of them.
  bool supportsCoalescing() const override { return true; }
  void startCoalescing() override;
  WorkPtr endCoalescing() override;

  // Collectives and transfers under way fail at once, and so do later ones. Nobody waits for the engine's remaining
  // work.
  void abort() override;
  void shutdown() override { engine_->shutdown(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_sparse(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allreduce_coalesced(Tensors& tensors, const c10d::AllreduceCoalescedOptions& options) override;
  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr _allgather_base(Tensor& output, Tensor& input, const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_coalesced(std::vector<Tensors>& outputs, Tensors& inputs,
                              const c10d::AllgatherOptions& options) override;
  WorkPtr allgather_into_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::AllgatherOptions& options) override;
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override;
#if MYDEV_TORCH_HAS(14)
  // Also gather_single, which torch forwards here. `output` has `size_` inputs on the destination; elsewhere it is
  // ignored.
  WorkPtr gather_into_tensor(Tensor& output, Tensor& input, const c10d::GatherOptions& options) override;
#endif
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override;
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  WorkPtr _reduce_scatter_base(Tensor& output, Tensor& input, const c10d::ReduceScatterOptions& options) override;
  WorkPtr reduce_scatter_tensor_coalesced(Tensors& outputs, Tensors& inputs,
                                          const c10d::ReduceScatterOptions& options) override;
  WorkPtr alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  WorkPtr alltoall(Tensors& outputs, Tensors& inputs, const c10d::AllToAllOptions& options) override;
  WorkPtr send(Tensors& tensors, int destination, int tag) override;
  WorkPtr recv(Tensors& tensors, int source, int tag) override;
  WorkPtr recvAnysource(Tensors& tensors, int tag) override;
  WorkPtr barrier(const c10d::BarrierOptions& options) override;
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override;

 private:
  // Issues a collective's stages, over the tensors that it holds for the operands.
  using Issue = std::function<void(Stages& stages, const Tensors& outputs, const Tensors& inputs)>;

  // `outputs`: all that the collective may write, and read.
  WorkPtr start(c10d::OpType type, const char* name, int device, const Tensors& outputs, const Tensors& inputs,
                Issue issue);
  WorkPtr capture(c10d::OpType type, const char* name, Stream& stream, const Tensors& outputs, const Tensors& inputs,
                  Issue issue);
  void keep_for_abort(const c10::intrusive_ptr<DeviceWork>& work);
  void keep_transfer(const c10::intrusive_ptr<DeviceWork>& transfer);

  // Add the stages of collectives that other collectives are made of.
  void add_allgather(Stages& stages, const Tensors& outputs, const Tensor& input,
                     const c10d::AllgatherOptions& options);
  void add_allgather_base(Stages& stages, const Tensor& output, const Tensor& input,
                          const c10d::AllgatherOptions& options);
  void add_allreduce(Stages& stages, const Tensor& tensor, const Reduction& reduction,
                     const c10d::AllreduceOptions& options);
  void add_reduce_scatter(Stages& stages, HostOperands& operands, const Tensor& output, const Tensors& parts,
                          const Tensor& whole, const Reduction& reduction, const c10d::ReduceScatterOptions& options);
  void add_reduce_scatter_list(Stages& stages, const Tensor& output, const Tensors& inputs, const Reduction& reduction,
                               const c10d::ReduceScatterOptions& options);
  void add_reduce_scatter_base(Stages& stages, const Tensor& output, const Tensor& input, const Reduction& reduction,
                               const c10d::ReduceScatterOptions& options);

  const EngineFactory factory_;
  const OptionsPtr options_;
  Engine engine_;
  const std::shared_ptr<CompletionHooks> hooks_ = std::make_shared<CompletionHooks>();
  SelfTransfers self_transfers_;
  IssueThread issue_thread_;
  std::mutex mutex_;                                        // guards what follows
  std::list<c10::intrusive_ptr<DeviceWork>> transfers_;     // that nobody may have waited for
  std::vector<c10::weak_intrusive_ptr<DeviceWork>> works_;  // that may be under way
  bool aborted_ = false;
  bool coalescing_ = false;
  std::vector<WorkPtr> coalesced_;
};

}  // namespace mydev
