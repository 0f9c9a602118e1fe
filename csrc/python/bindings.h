// torch_mydev._C: one file of bindings per subsystem, each with one function that module.cpp calls.
//
// Bindings are thin: they convert, release the GIL where the call may wait, and turn errors into Python exceptions
// (torch::wrap_pybind_function does; the _no_gil form also releases the GIL). The interface that users see is written
// in Python.
#pragma once

#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace mydev {

using torch::wrap_pybind_function;
using torch::wrap_pybind_function_no_gil;

void bind_compile(pybind11::module_& m);
void bind_compiled_kernels(pybind11::module_& m);
void bind_config(pybind11::module_& m);
void bind_custom_call(pybind11::module_& m);
void bind_custom_operator(pybind11::module_& m);
void bind_decompositions(pybind11::module_& m);
void bind_device(pybind11::module_& m);
void bind_distributed(pybind11::module_& m);
void bind_extern_kernels(pybind11::module_& m);
void bind_fallback(pybind11::module_& m);
void bind_ffi(pybind11::module_& m);
void bind_graph(pybind11::module_& m);
void bind_host_functions(pybind11::module_& m);
void bind_log(pybind11::module_& m);
void bind_memory(pybind11::module_& m);
void bind_memory_history(pybind11::module_& m);
void bind_optimizers(pybind11::module_& m);
void bind_pools(pybind11::module_& m);
void bind_recorded_functions(pybind11::module_& m);
void bind_sharing(pybind11::module_& m);
void bind_source_location(pybind11::module_& m);
void bind_statistics(pybind11::module_& m);
void bind_stream(pybind11::module_& m);
void bind_trace(pybind11::module_& m);

}  // namespace mydev
