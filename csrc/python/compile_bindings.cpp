// torch_mydev._C: calls of graphs that torch.compile made for the host, on the device's own memory.
//
// A call takes the boxed list of arguments, as Inductor's own callables do. Tensors of the device in it are replaced by
// aliases (aten/host/alias.h), the graph runs inside a HostScope, and device tensors take ownership of what it returns;
// nothing is copied, except results that belong on the CPU. Aliases of static inputs (parameters and buffers) are kept
// from call to call, without their memory. The graph's own references are the only ones to the memory of other inputs,
// so that it can free and reuse them early. With the GIL, as the graph itself.
#include <ATen/Functions.h>
#include <torch/csrc/autograd/python_variable.h>

#include "aten/core/device_type.h"
#include "aten/custom_call/device_call.h"
#include "aten/host/staging.h"
#include "aten/memory/storage.h"
#include "python/bindings.h"
#include "runtime/driver/device.h"

namespace py = pybind11;

namespace mydev {
namespace {

constexpr const char* kHostGraphCapsule = "mydev.host_graph";

// An output of the graph.
struct OutputRule {
  bool on_device;
  int32_t source;  // the input that it is, or shares memory with; -1: none
};

struct HostGraph {
  py::object function;
  int device;
  std::vector<OutputRule> outputs;
  std::vector<py::object> static_aliases;  // by input; null where there is none
  std::vector<bool> is_static, is_source;
};

const at::Tensor& unpack(const py::handle& object) {
  return THPVariable_Unpack(object.ptr());
}

c10::StorageImpl* storage_of(const at::TensorBase& tensor) {
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  return impl->has_storage() ? impl->unsafe_storage().unsafeGetStorageImpl() : nullptr;
}

// One call of a graph: aliases in, device tensors out.
class HostGraphCall {
 public:
  HostGraphCall(HostGraph& graph, PyObject* arguments) : graph_(graph), arguments_(arguments) {}

  PyObject* run() {
    alias_inputs();
    py::object results;
    {
      const HostScope scope(graph_.device, "compiled graph");
      results = py::reinterpret_steal<py::object>(PyObject_CallOneArg(graph_.function.ptr(), arguments_));
      if (results) take_outputs(results);
    }
    if (results) copy_cpu_outputs();
    if (results) {
      results = py::reinterpret_steal<py::object>(PySequence_List(results.ptr()));
      if (results) place_outputs(results);
    }
    return results.release().ptr();
  }

  ~HostGraphCall() {
    for (const auto& [slot, alias] : borrowed_) return_alias(slot, alias);
  }
  HostGraphCall(const HostGraphCall&) = delete;
  HostGraphCall& operator=(const HostGraphCall&) = delete;

 private:
  struct Source {
    int32_t input;
    py::object tensor;
    c10::intrusive_ptr<c10::StorageImpl> alias;
  };

  void alias_inputs() {
    const Py_ssize_t count = PyList_GET_SIZE(arguments_);
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = PyList_GET_ITEM(arguments_, i);
      if (!THPVariable_Check(item) || !on_device(THPVariable_Unpack(item))) continue;
      const at::Tensor& tensor = THPVariable_Unpack(item);
      auto storage = alias_storage(*storage_of(tensor));
      const auto slot = static_cast<size_t>(i);
      if (slot < graph_.is_source.size() && graph_.is_source[slot]) {
        sources_.push_back({static_cast<int32_t>(i), py::reinterpret_borrow<py::object>(item), storage});
      }
      py::object alias = slot < graph_.is_static.size() && graph_.is_static[slot]
                             ? borrow_alias(slot, std::move(storage), tensor)
                             : wrap_alias(std::move(storage), tensor);
      PyList_SetItem(arguments_, i, alias.release().ptr());  // drops the device tensor
    }
  }

  static py::object wrap_alias(c10::intrusive_ptr<c10::StorageImpl> storage, const at::Tensor& tensor) {
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(alias_over(std::move(storage), tensor)));
  }

  // The kept alias of a static input, given the input's memory and shape; a fresh one while another call has it.
  py::object borrow_alias(size_t slot, c10::intrusive_ptr<c10::StorageImpl> storage, const at::Tensor& tensor) {
    py::object& kept = graph_.static_aliases[slot];
    c10::TensorImpl* alias = kept ? unpack(kept).unsafeGetTensorImpl() : nullptr;
    const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    if (alias != nullptr && alias->dtype() == impl->dtype() && !impl->is_conj() && !impl->is_neg() &&
        alias->is_inference() == c10::InferenceMode::is_enabled()) {
      alias->set_storage_keep_dtype(c10::Storage(std::move(storage)));
      if (alias->sizes() != impl->sizes() || alias->strides() != impl->strides() ||
          alias->storage_offset() != impl->storage_offset()) {
        alias->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
      }
    } else {
      kept = wrap_alias(std::move(storage), tensor);
    }
    py::object alias_object = std::move(kept);
    kept = py::object();
    borrowed_.emplace_back(slot, alias_object);
    return alias_object;
  }

  // Keeps the alias for the next call, unless the graph has kept it or another call has put one there.
  void return_alias(size_t slot, const py::object& alias) {
    const at::Tensor& tensor = unpack(alias);
    if (Py_REFCNT(alias.ptr()) != 1 || tensor.use_count() != 1 || !tensor.is_cpu() || graph_.static_aliases[slot]) {
      return;
    }
    static const c10::Storage no_memory(c10::make_intrusive<c10::StorageImpl>(
        c10::StorageImpl::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(c10::kCPU)), nullptr, false));
    tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(no_memory);
    graph_.static_aliases[slot] = alias;
  }

  const Source* source_of(const OutputRule& rule, const c10::StorageImpl* host) const {
    if (rule.source < 0) return nullptr;
    for (const Source& source : sources_) {
      if (source.input == rule.source && source.alias.get() == host) return &source;
    }
    return nullptr;
  }

  // Inside the scope. Tensors that the graph made become the device's in place; where others hold them, place_outputs
  // puts another object there.
  void take_outputs(const py::object& results) {
    auto items = py::reinterpret_steal<py::object>(PySequence_Fast(results.ptr(), "a compiled graph returns a tuple"));
    if (!items) throw py::error_already_set();
    const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.ptr());
    TORCH_CHECK(static_cast<size_t>(count) == graph_.outputs.size(), "a compiled graph returned ", count,
                " values where ", graph_.outputs.size(), " were compiled");
    for (Py_ssize_t i = 0; i < count; ++i) {
      PyObject* item = PySequence_Fast_GET_ITEM(items.ptr(), i);
      if (!THPVariable_Check(item)) continue;
      const at::Tensor& result = THPVariable_Unpack(item);
      if (!result.is_cpu()) continue;
      const OutputRule& rule = graph_.outputs[static_cast<size_t>(i)];
      c10::StorageImpl* host = storage_of(result);
      if (host == nullptr) continue;
      if (!rule.on_device) {
        if (is_scope_memory(*host)) replaced_.emplace_back(i, py::reinterpret_borrow<py::object>(item));
      } else if (const Source* source = source_of(rule, host); source != nullptr) {
        placed_.emplace_back(i, output_of(*source, result));
      } else if (Py_REFCNT(item) == 1 && result.use_count() == 1) {
        become_device_tensor(result, storages_.of(*host, device_of_graph()), device_of_graph());
      } else {  // the graph's own, as a constant
        placed_.emplace_back(i,
                             wrap_device_tensor(storages_.of(*host, device_of_graph()), *result.unsafeGetTensorImpl()));
      }
    }
  }

  static py::object output_of(const Source& source, const at::Tensor& result) {
    const at::Tensor& input = unpack(source.tensor);
    const c10::TensorImpl *from = input.unsafeGetTensorImpl(), *to = result.unsafeGetTensorImpl();
    if (from->sizes() == to->sizes() && from->strides() == to->strides() &&
        from->storage_offset() == to->storage_offset() && from->dtype() == to->dtype() &&
        from->is_conj() == to->is_conj() && from->is_neg() == to->is_neg()) {
      return source.tensor;
    }
    return wrap_device_tensor(from->unsafe_storage(), *to);
  }

  static py::object wrap_device_tensor(c10::Storage storage, const c10::TensorImpl& like) {
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor_over(std::move(storage), kDispatchKey, like)));
  }

  c10::Device device_of_graph() const { return torch_device(graph_.device); }

  // After the scope: results on the CPU may not stay in the device's memory.
  void copy_cpu_outputs() {
    for (auto& [index, object] : replaced_) {
      const at::Tensor& host = unpack(object);
      at::Tensor copy = at::empty_strided(host.sizes(), host.strides(), host.options());
      {
        const HostScope scope(graph_.device, "result of a compiled graph");
        copy.copy_(host);
      }
      placed_.emplace_back(index, py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(copy))));
    }
  }

  void place_outputs(const py::object& results) {
    for (auto& [index, object] : placed_) PyList_SetItem(results.ptr(), index, object.release().ptr());
  }

  HostGraph& graph_;
  PyObject* arguments_;
  c10::SmallVector<Source, 2> sources_;
  DeviceStorages storages_;
  c10::SmallVector<std::pair<size_t, py::object>, 4> borrowed_;
  c10::SmallVector<std::pair<Py_ssize_t, py::object>, 2> placed_, replaced_;
};

PyObject* run_host_graph(PyObject* self, PyObject* arguments) {
  HANDLE_TH_ERRORS
  auto* graph = static_cast<HostGraph*>(PyCapsule_GetPointer(self, kHostGraphCapsule));
  TORCH_CHECK_TYPE(PyList_Check(arguments), "a compiled graph takes one list of arguments, not a ",
                   Py_TYPE(arguments)->tp_name);
  return HostGraphCall(*graph, arguments).run();
  END_HANDLE_TH_ERRORS
}

PyMethodDef host_graph_method = {"host_graph", &run_host_graph, METH_O,
                                 "Runs a graph that was compiled for the host on the device's memory."};

py::object make_host_graph(py::object function, int device_index, const std::vector<std::pair<bool, int32_t>>& outputs,
                           const std::vector<int32_t>& static_inputs, int32_t num_inputs) {
  TORCH_CHECK(device(device_index).host_accessible(), "the memory of device ", device_index,
              " is not accessible from the host");
  const auto count = static_cast<size_t>(num_inputs);
  auto* graph =
      new HostGraph{std::move(function),     device_index, {}, std::vector<py::object>(count), std::vector<bool>(count),
                    std::vector<bool>(count)};
  const py::capsule capsule(graph, kHostGraphCapsule, [](PyObject* self) {
    delete static_cast<HostGraph*>(PyCapsule_GetPointer(self, kHostGraphCapsule));
  });
  for (const auto& [on_device, source] : outputs) {
    graph->outputs.push_back({on_device, source});
    if (on_device && source >= 0) graph->is_source.at(static_cast<size_t>(source)) = true;
  }
  for (const int32_t input : static_inputs) graph->is_static.at(static_cast<size_t>(input)) = true;
  return py::reinterpret_steal<py::object>(PyCFunction_NewEx(&host_graph_method, capsule.ptr(), nullptr));
}

}  // namespace

void bind_compile(py::module_& m) {
  m.def("host_graph", wrap_pybind_function(&make_host_graph));
  m.def("define_device_call", wrap_pybind_function(&define_device_call));
}

}  // namespace mydev
