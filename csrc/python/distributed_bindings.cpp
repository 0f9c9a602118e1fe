// torch.distributed: makes a backend for device tensors of one for CPU tensors, and one that refuses them.
#include <pybind11/chrono.h>
#include <pybind11/stl.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "distributed/device_backend.h"
#include "distributed/machine_engine.h"
#include "distributed/refusing_backend.h"
#include "python/bindings.h"

namespace mydev {
namespace {

// Holds a backend from Python. The last reference goes without the GIL, since threads that end then may need it.
template <typename T>
class BackendHolder {
 public:
  BackendHolder() = default;
  BackendHolder(c10::intrusive_ptr<T> backend) : backend_(std::move(backend)) {}
  explicit BackendHolder(T* backend) : backend_(c10::intrusive_ptr<T>::unsafe_steal_from_new(backend)) {}
  BackendHolder(const BackendHolder&) = default;
  BackendHolder(BackendHolder&&) noexcept = default;
  BackendHolder& operator=(const BackendHolder&) = default;
  BackendHolder& operator=(BackendHolder&&) noexcept = default;
  ~BackendHolder() {
    if (backend_ == nullptr) return;
    if (PyGILState_Check() != 0) {
      const pybind11::gil_scoped_release release;
      backend_.reset();
    } else {
      backend_.reset();
    }
  }
  T* get() const noexcept { return backend_.get(); }

 private:
  c10::intrusive_ptr<T> backend_;
};

}  // namespace
}  // namespace mydev

PYBIND11_DECLARE_HOLDER_TYPE(T, mydev::BackendHolder<T>, true)

namespace mydev {

namespace {

using Options = DeviceBackend::Options;

// The factory lives with the backend, whose last reference goes without the GIL.
DeviceBackend::EngineFactory engine_factory(pybind11::function create) {
  auto kept = std::shared_ptr<pybind11::function>(new pybind11::function(std::move(create)), [](auto* function) {
    if (Py_IsInitialized() == 0) return;  // the interpreter has taken everything along
    const pybind11::gil_scoped_acquire acquire;
    delete function;
  });
  return
      [kept](const c10::intrusive_ptr<c10d::Store>& store, int rank, int size, const c10d::Backend::Options& options) {
        const pybind11::gil_scoped_acquire acquire;
        return (*kept)(store, rank, size, options.timeout, options.group_name, options.global_ranks_in_group)
            .cast<c10::intrusive_ptr<c10d::Backend>>();
      };
}

c10::intrusive_ptr<Options> copy_of(const Options& options) {
  return c10::make_intrusive<Options>(options);
}

}  // namespace

void bind_distributed(pybind11::module_& m) {
  pybind11::module_::import("torch._C._distributed_c10d");  // has the base classes
  pybind11::class_<Options, c10::intrusive_ptr<Options>, c10d::Backend::Options>(m, "DistributedOptions")
      .def("__copy__", &copy_of)
      .def("__deepcopy__", [](const Options& options, const pybind11::dict&) { return copy_of(options); });
  pybind11::class_<DeviceBackend, c10d::Backend, BackendHolder<DeviceBackend>>(m, "DistributedBackend")
      .def_property_readonly("options", &DeviceBackend::getBackendOptions);
  m.def("distributed_backend", wrap_pybind_function([](const pybind11::function& create, const std::string& name,
                                                       const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                                                       std::chrono::milliseconds timeout, const std::string& group_name,
                                                       const std::vector<uint64_t>& global_ranks) {
          auto options = c10::make_intrusive<Options>(name, timeout);
          options->group_name = group_name;
          options->global_ranks_in_group = global_ranks;
          return c10::intrusive_ptr<c10d::Backend>(
              c10::make_intrusive<DeviceBackend>(engine_factory(create), store, rank, size, options));
        }));
  m.def("over_shared_memory", &MachineEngine::over, pybind11::call_guard<pybind11::gil_scoped_release>());
  m.def("refusing_distributed_backend", [](int rank, int size, const std::string& name) {
    return c10::intrusive_ptr<c10d::Backend>(c10::make_intrusive<RefusingBackend>(rank, size, name));
  });
}

}  // namespace mydev
