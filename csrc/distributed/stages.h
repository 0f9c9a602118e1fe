// The stages of a collective: the works that the engine is given, and the steps to take once it has finished.
//
// Each stage has its own staging tensors (host_operands.h) and works of the engine, and ends by copying back what was
// written. Stages run at the same time. Not thread-safe by itself: DeviceWork orders the threads.
#pragma once

#include <ATen/core/LegacyTypeDispatch.h>

#include <list>
#include <memory>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <vector>

#include "distributed/host_operands.h"
#include "runtime/stream/stream.h"

namespace mydev {

using EngineWork = c10::intrusive_ptr<c10d::Work>;

// Sets the device and the stream for the work on a collective, on whichever thread.
class StreamScope {
 public:
  explicit StreamScope(Stream& stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  int device_;
  Stream& previous_;
  at::AutoDispatchBelowADInplaceOrView below_autograd_;
};

struct Stage {
  HostOperands operands;
  std::vector<EngineWork> works;
  size_t pending = 0;  // works that have not ended
};

class Stages {
 public:
  // `copies`: the stream for copies to and from staging tensors.
  explicit Stages(Stream& copies) : copies_(copies) {}

  // Adds a stage. Works of the engine that are started then belong to it.
  HostOperands& add() { return stages_.emplace_back().operands; }
  void start(EngineWork work) { stages_.back().works.push_back(std::move(work)); }

  Stream& copies() const noexcept { return copies_; }
  std::list<Stage>& all() noexcept { return stages_; }
  const std::list<Stage>& all() const noexcept { return stages_; }
  // One work of the engine, and nothing to do after it.
  bool is_direct() const;
  c10d::Work& first_work() const { return *stages_.front().works[0]; }

  // Copies back what the stage's works have written.
  void end(Stage& stage) const;
  // Keeps device memory open to the host until the engine has finished.
  void keep_open(const std::shared_ptr<HostAccess>& access) const;
  void clear() noexcept { stages_.clear(); }

 private:
  Stream& copies_;
  std::list<Stage> stages_;
};

}  // namespace mydev
