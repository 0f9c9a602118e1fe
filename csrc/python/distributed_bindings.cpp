// torch.distributed: makes a backend for device tensors of one for CPU tensors. c10d's types are registered by torch,
// when torch.distributed is imported; these functions are called later only.
#include "distributed/device_backend.h"
#include "python/bindings.h"

namespace mydev {

void bind_distributed(pybind11::module_& m) {
  m.def("distributed_backend", wrap_pybind_function_no_gil([](const c10::intrusive_ptr<c10d::Backend>& engine) {
          return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<DeviceBackend>(engine));
        }));
}

}  // namespace mydev
