// An engine for groups whose ranks are all on one machine: large and frequent collectives go through shared memory
// (collectives/shared_memory.h), all others to the engine behind it.
//
// Collectives through shared memory run in order on a thread of their own, and PyTorch's CPU kernels reduce. If a rank
// ends, is late, or calls another collective, the waiting ranks fail with one error that names it, and so does every
// later collective of the group. Thread-safe as far as the engine is.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "collectives/shared_memory.h"
#include "runtime/base/api.h"

namespace mydev {

class MYDEV_API MachineEngine final : public c10d::Backend {
 public:
  using Tensor = at::Tensor;
  using Tensors = std::vector<at::Tensor>;
  using WorkPtr = c10::intrusive_ptr<c10d::Work>;
  using Engine = c10::intrusive_ptr<c10d::Backend>;

  // Returns `engine` behind shared memory if all ranks can open the same memory, else `engine` itself: all ranks decide
  // alike. The rendezvous of the ranks is in the store.
  static Engine over(Engine engine, const c10::intrusive_ptr<c10d::Store>& store, std::chrono::milliseconds timeout);

  MachineEngine(Engine engine, std::unique_ptr<collectives::SharedMemoryGroup> memory,
                std::chrono::milliseconds timeout);
  ~MachineEngine() override;

  const std::string getBackendName() const override { return engine_->getBackendName(); }
  c10::intrusive_ptr<c10d::Backend::Options> getBackendOptions() override { return engine_->getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setSequenceNumberForGroup() override { engine_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return engine_->getSequenceNumberForGroup(); }
  void abort() override;
  void shutdown() override { engine_->shutdown(); }

  WorkPtr broadcast(Tensors& tensors, const c10d::BroadcastOptions& options) override;
  WorkPtr allreduce(Tensors& tensors, const c10d::AllreduceOptions& options) override;
  WorkPtr allgather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::AllgatherOptions& options) override;
  WorkPtr alltoall_base(Tensor& output, Tensor& input, std::vector<int64_t>& output_splits,
                        std::vector<int64_t>& input_splits, const c10d::AllToAllOptions& options) override;
  // The shards may be of several lengths.
  WorkPtr reduce_scatter(Tensors& outputs, std::vector<Tensors>& inputs,
                         const c10d::ReduceScatterOptions& options) override;
  static bool reduces(c10d::ReduceOp::RedOpType op);  // by shared memory

  WorkPtr reduce(Tensors& tensors, const c10d::ReduceOptions& options) override {
    return engine_->reduce(tensors, options);
  }
  WorkPtr gather(std::vector<Tensors>& outputs, Tensors& inputs, const c10d::GatherOptions& options) override {
    return engine_->gather(outputs, inputs, options);
  }
  WorkPtr scatter(Tensors& outputs, std::vector<Tensors>& inputs, const c10d::ScatterOptions& options) override {
    return engine_->scatter(outputs, inputs, options);
  }
  WorkPtr send(Tensors& tensors, int destination, int tag) override { return engine_->send(tensors, destination, tag); }
  WorkPtr recv(Tensors& tensors, int source, int tag) override { return engine_->recv(tensors, source, tag); }
  WorkPtr recvAnysource(Tensors& tensors, int tag) override { return engine_->recvAnysource(tensors, tag); }
  WorkPtr barrier(const c10d::BarrierOptions& options) override { return engine_->barrier(options); }
  void monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) override {
    engine_->monitoredBarrier(options, wait_all_ranks);
  }

 private:
  class SharedMemoryWork;
  using Operation = collectives::SharedMemoryGroup::Operation;
  using Task = std::function<void(const Operation& operation)>;

  WorkPtr start(c10d::OpType type, const char* name, std::chrono::milliseconds timeout, Tensors outputs, Task task);
  void run();

  const Engine engine_;
  const std::unique_ptr<collectives::SharedMemoryGroup> memory_;
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::chrono::milliseconds timeout_;
  std::deque<std::function<void()>> waiting_;
  bool ending_ = false;
  std::exception_ptr failure_;  // of the group
  std::thread thread_;
};

}  // namespace mydev
