// The extension module torch_mydev._C. Private: torch_mydev's Python files are its only users.
#include "aten/library.h"
#include "python/bindings.h"

PYBIND11_MODULE(_C, m) {
  m.doc() = "Native part of torch_mydev";
  mydev::initialize_library();
  mydev::bind_compile(m);
  mydev::bind_compiled_kernels(m);
  mydev::bind_config(m);
  mydev::bind_custom_call(m);
  mydev::bind_custom_operator(m);
  mydev::bind_decompositions(m);
  mydev::bind_device(m);
  mydev::bind_distributed(m);
  mydev::bind_fallback(m);
  mydev::bind_ffi(m);
  mydev::bind_graph(m);
  mydev::bind_host_functions(m);
  mydev::bind_log(m);
  mydev::bind_memory(m);
  mydev::bind_memory_history(m);
  mydev::bind_extern_kernels(m);
  mydev::bind_optimizers(m);
  mydev::bind_pools(m);
  mydev::bind_recorded_functions(m);
  mydev::bind_sharing(m);
  mydev::bind_source_location(m);
  mydev::bind_statistics(m);
  mydev::bind_stream(m);
  mydev::bind_trace(m);
}
