#include "cuda_driver/commands/cuda_graphs.h"

#include <memory>

#include "cuda_driver/observe/profiler.h"
#include "cuda_driver/stream/cuda_stream.h"

namespace mydev::cuda_driver {

namespace {

struct CudaGraph {
  CudaDevice& device;
  GraphRef ref = nullptr;
};
struct CudaGraphExec {
  CudaDevice& device;
  GraphExecRef ref = nullptr;
};

CudaGraph& as_graph(mydev_graph graph) {
  return *reinterpret_cast<CudaGraph*>(graph);
}
CudaGraphExec& as_exec(mydev_graph_exec exec) {
  return *reinterpret_cast<CudaGraphExec*>(exec);
}

// Relaxed: while a stream is captured the runtime may allocate memory and load modules.
mydev_code capture_begin(mydev_stream stream) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    check(cuda().cuStreamBeginCapture(on.ref(), kCaptureRelaxed), "cuStreamBeginCapture");
    count_captures(1);
  });
}

mydev_code capture_end(mydev_stream stream, mydev_graph* out_graph) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    auto graph = std::make_unique<CudaGraph>(CudaGraph{on.device()});
    const Result result = cuda().cuStreamEndCapture(on.ref(), &graph->ref);
    count_captures(-1);
    check(result, "cuStreamEndCapture");
    *out_graph = reinterpret_cast<mydev_graph>(graph.release());
  });
}

mydev_code instantiate(mydev_graph graph, mydev_graph_exec* out_exec) {
  return run_checked([&] {
    CudaGraph& given = as_graph(graph);
    const CurrentContext context(given.device);
    auto exec = std::make_unique<CudaGraphExec>(CudaGraphExec{given.device});
    check(cuda().cuGraphInstantiateWithFlags(&exec->ref, given.ref, 0), "cuGraphInstantiateWithFlags");
    *out_exec = reinterpret_cast<mydev_graph_exec>(exec.release());
  });
}

mydev_code launch(mydev_graph_exec exec, mydev_stream stream) {
  return run_checked([&] {
    CudaStream& on = as_stream(stream);
    const CurrentContext context(on.device());
    on.watch_graphs();
    const RecordedActivity activity(on, {MYDEV_ACTIVITY_LAUNCH, "graph"});
    check(cuda().cuGraphLaunch(as_exec(exec).ref, on.ref()), "cuGraphLaunch");
  });
}

mydev_code destroy(mydev_graph graph) {
  return run_checked([&] {
    const std::unique_ptr<CudaGraph> owned(&as_graph(graph));
    const CurrentContext context(owned->device);
    if (owned->ref != nullptr) check_given_back(cuda().cuGraphDestroy(owned->ref), "cuGraphDestroy");
  });
}

// CUDA itself keeps what its pending launches need.
mydev_code exec_destroy(mydev_graph_exec exec) {
  return run_checked([&] {
    const std::unique_ptr<CudaGraphExec> owned(&as_exec(exec));
    const CurrentContext context(owned->device);
    check_given_back(cuda().cuGraphExecDestroy(owned->ref), "cuGraphExecDestroy");
  });
}

constexpr mydev_graph_extension kGraphs = {
    .head = {.struct_size = sizeof(mydev_graph_extension), .version = MYDEV_GRAPH_VERSION, .reserved = 0},
    .capture_begin = capture_begin,
    .capture_end = capture_end,
    .instantiate = instantiate,
    .launch = launch,
    .destroy = destroy,
    .exec_destroy = exec_destroy,
};

}  // namespace

const mydev_graph_extension& graph_extension() {
  return kGraphs;
}

}  // namespace mydev::cuda_driver
