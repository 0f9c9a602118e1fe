// Graphs of PyTorch on the device. Work that streams are given between capture_begin() and capture_end() becomes a
// program (program/record/recorder.h), which a replay runs again, on the same memory.
//
// Graphs work like torch.cuda.CUDAGraph: inputs and outputs are tensors that keep their places, memory of the capture
// comes from a pool that graphs can share, and the random numbers of a replay follow those before it. A graph holds
// memory from outside of the pool that it uses. One thread at a time.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/GraphImplInterface.h>
#include <ATen/core/Tensor.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aten/graph/captured_draws.h"
#include "program/record/recorder.h"
#include "program/run/executor.h"
#include "runtime/base/api.h"
#include "runtime/memory/private_pool.h"

namespace mydev {

// Makes a handle for graphs that share memory. No two calls give the same handle.
MYDEV_API c10::MempoolId_t graph_pool_handle();

class MYDEV_API DeviceGraph final : public at::GraphImplInterface {
 public:
  explicit DeviceGraph(const at::GraphImplArgs& args) : keep_graph_(args.keep_graph) {}
  ~DeviceGraph() override;

  // Captures the current stream of the current device. {0, 0}: a pool of its own. In all modes, a stream that does not
  // capture may do anything. Relaxed records the user's host functions, which the other modes refuse.
  void capture_begin(c10::MempoolId_t pool, at::GraphCaptureMode mode) override;
  void capture_end() override;
  void instantiate() override;
  void replay() override;
  void reset() override;
  c10::MempoolId_t pool() const override;
  void enable_debug_mode() override { debug_ = true; }
  // Writes the program's text, or, if the path ends in ".dot", a drawing for Graphviz. Needs enable_debug_mode() before
  // the capture, or keep_graph.
  void debug_dump(const std::string& path) override;

  // Draws of this generator follow the graph too, as those of the device's default generator do. Call it before the
  // capture.
  void register_generator_state(const at::Generator& generator);

 private:
  void end_draws();  // of the capture
  void cancel() noexcept;

  const bool keep_graph_;
  bool debug_ = false;
  int device_ = -1;
  c10::MempoolId_t pool_id_{0, 0};
  std::shared_ptr<PrivatePool> pool_;
  std::shared_ptr<program::Recorder> recorder_;  // while it captures
  std::optional<program::Recording> recording_;
  std::unique_ptr<program::Executor> executor_;
  std::vector<CapturedDraws> draws_;
};

}  // namespace mydev
