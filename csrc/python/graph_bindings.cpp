// Graphs: the functions behind torch_mydev/device/graphs.py. torch.accelerator.Graph has PyTorch's own bindings.
#include <torch/csrc/Generator.h>

#include "aten/graph/device_graph.h"
#include "python/bindings.h"

namespace mydev {

void bind_graph(pybind11::module_& m) {
  pybind11::class_<DeviceGraph, std::shared_ptr<DeviceGraph>>(m, "Graph")
      .def(pybind11::init([](bool keep_graph) {
             return std::make_shared<DeviceGraph>(at::GraphImplArgs{.keep_graph = keep_graph});
           }),
           pybind11::arg("keep_graph") = false)
      .def("capture_begin", wrap_pybind_function_no_gil([](DeviceGraph& graph, c10::MempoolId_t pool, int mode) {
             graph.capture_begin(pool, static_cast<at::GraphCaptureMode>(mode));
           }))
      .def("capture_end", wrap_pybind_function_no_gil([](DeviceGraph& graph) { graph.capture_end(); }))
      .def("instantiate", wrap_pybind_function_no_gil([](DeviceGraph& graph) { graph.instantiate(); }))
      .def("replay", wrap_pybind_function_no_gil([](DeviceGraph& graph) { graph.replay(); }))
      .def("reset", wrap_pybind_function_no_gil([](DeviceGraph& graph) { graph.reset(); }))
      .def("pool", wrap_pybind_function([](const DeviceGraph& graph) { return graph.pool(); }))
      .def("enable_debug_mode", wrap_pybind_function([](DeviceGraph& graph) { graph.enable_debug_mode(); }))
      .def("debug_dump",
           wrap_pybind_function_no_gil([](DeviceGraph& graph, const std::string& path) { graph.debug_dump(path); }))
      .def("register_generator_state", wrap_pybind_function([](DeviceGraph& graph, pybind11::handle generator) {
             graph.register_generator_state(THPGenerator_Unwrap(generator.ptr()));
           }));
  m.def("graph_pool_handle", wrap_pybind_function([] { return graph_pool_handle(); }));
}

}  // namespace mydev
