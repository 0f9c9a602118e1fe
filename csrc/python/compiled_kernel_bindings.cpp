// torch_mydev._C: kernels that a driver compiles of source at run time: modules, kernels, launches on tensors.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/empty_strided.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>

#include "aten/core/device_type.h"
#include "aten/launch/buffer.h"
#include "kernels/language/kernel_language.h"
#include "python/bindings.h"
#include "runtime/command/launch.h"
#include "runtime/driver/kernel_module.h"
#include "runtime/stream/stream_table.h"

namespace py = pybind11;

namespace mydev {
namespace {

using SharedModule = std::shared_ptr<KernelModule>;
using SharedKernel = std::shared_ptr<const CompiledKernel>;
using Triple = std::array<uint32_t, 3>;

// Items of a list or a tuple, borrowed.
class Items {
 public:
  Items(py::handle sequence, const char* what)
      : fast_(py::reinterpret_steal<py::object>(PySequence_Fast(sequence.ptr(), what))) {
    if (!fast_) throw py::error_already_set();
  }
  size_t size() const { return static_cast<size_t>(PySequence_Fast_GET_SIZE(fast_.ptr())); }
  PyObject* operator[](size_t i) const { return PySequence_Fast_GET_ITEM(fast_.ptr(), static_cast<Py_ssize_t>(i)); }

 private:
  py::object fast_;
};

struct Operands {
  c10::SmallVector<at::Tensor, 8> tensors;
  c10::SmallVector<mydev_buffer, 8> buffers;
  c10::SmallVector<c10::TensorImpl*, 8> impls;

  // A kernel goes by sizes and strides, and so must the memory.
  static void check_reach(const CompiledKernel& kernel, size_t i, const at::Tensor& tensor) {
    const size_t wanted = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.itemsize(),
                                                           static_cast<size_t>(tensor.storage_offset()));
    TORCH_CHECK_VALUE(tensor.numel() == 0 || wanted <= tensor.storage().nbytes(), kernel.shown().name, ": argument ", i,
                      " reaches beyond its storage, which has ", tensor.storage().nbytes(), " bytes");
  }
  // The values of a negated view, laid out as it is.
  static at::Tensor resolved(const at::Tensor& tensor) {
    return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options()).copy_(tensor);
  }

  Operands(const CompiledKernel& kernel, const Items& given) {
    const KernelParameters& parameters = kernel.parameters();
    TORCH_CHECK_VALUE(given.size() == parameters.buffers(), kernel.shown().name, " takes ", parameters.buffers(),
                      " tensors, got ", given.size());
    for (size_t i = 0; i < given.size(); ++i) {
      TORCH_CHECK_TYPE(THPVariable_Check(given[i]), kernel.shown().name, ": argument ", i, " is a ",
                       Py_TYPE(given[i])->tp_name, ", not a tensor");
      const at::Tensor& tensor = THPVariable_Unpack(given[i]);
      TORCH_CHECK_VALUE(on_device(tensor) && tensor.device().index() == kernel.device().index, kernel.shown().name,
                        ": argument ", i, " is on ", tensor.device(), ", the kernel was compiled for ",
                        torch_device(kernel.device().index));
      check_reach(kernel, i, tensor);
      const bool negated = tensor.is_neg();
      TORCH_CHECK(!negated || i >= parameters.written(), kernel.shown().name, ": argument ", i,
                  " is a negated view, which a compiled kernel cannot write to; give it resolve_neg()");
      tensors.push_back(negated ? resolved(tensor) : tensor);
      buffers.push_back(input_buffer_of(tensors.back()));
      impls.push_back(tensors.back().unsafeGetTensorImpl());
    }
    make_writable({buffers.data(), buffers.size()}, parameters.written(), impls.data());
  }
};

c10::SmallVector<mydev_attribute, 8> numbers_of(const CompiledKernel& kernel, const Items& given) {
  const auto wanted = kernel.attributes();
  TORCH_CHECK_VALUE(given.size() == wanted.size(), kernel.shown().name, " takes ", wanted.size(), " numbers, got ",
                    given.size());
  c10::SmallVector<mydev_attribute, 8> numbers(wanted.begin(), wanted.end());
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i].kind == MYDEV_ATTRIBUTE_INT) {
      numbers[i].value.i = py::cast<int64_t>(py::handle(given[i]));
    } else {
      numbers[i].value.f = PyFloat_AsDouble(given[i]);
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    }
  }
  return numbers;
}

void launch_kernel_of_module(const SharedKernel& kernel, py::handle tensors, py::handle numbers, const Triple& grid,
                             const Triple& group, uint64_t local_memory) {
  const Operands operands(*kernel, Items(tensors, "a compiled kernel takes a sequence of tensors"));
  const auto attributes = numbers_of(*kernel, Items(numbers, "a compiled kernel takes a sequence of numbers"));
  const CompiledLaunch compiled{kernel, make_geometry(grid, group, local_memory)};
  const py::gil_scoped_release no_gil;
  mydev_frame frame = make_frame({operands.buffers.data(), operands.buffers.size()}, kernel->parameters().written(),
                                 {attributes.data(), attributes.size()});
  launch_compiled(compiled, frame, current_stream(kernel->device().index));
}

py::object binary_of(const SharedModule& module) {
  const auto binary = module->binary();
  if (!binary) return py::none();
  return py::bytes(reinterpret_cast<const char*>(binary->data()), binary->size());
}

}  // namespace

void bind_compiled_kernels(py::module_& m) {
  m.def("compiler_languages", wrap_pybind_function_no_gil([](int index) { return compiler_languages(device(index)); }));
  py::class_<KernelLanguage>(m, "KernelLanguage")
      .def_readonly("name", &KernelLanguage::name)
      .def_property_readonly("source", &KernelLanguage::source)
      .def_readonly("elements", &KernelLanguage::elements)
      .def_readonly("block", &KernelLanguage::block)
      .def_readonly("lanes", &KernelLanguage::lanes)
      .def_readonly("f64", &KernelLanguage::f64)
      .def_readonly("atomic_f32", &KernelLanguage::atomic_f32)
      .def_readonly("atomic_s64", &KernelLanguage::atomic_s64)
      .def("threads", &KernelLanguage::threads)
      .def("grid",
           wrap_pybind_function([](const KernelLanguage& language, uint64_t groups) { return language.grid(groups); }));
  m.def("kernel_languages", [] { return std::vector(kernel_languages().begin(), kernel_languages().end()); });
  m.def("kernel_language", wrap_pybind_function([](int index) { return kernel_language(device(index)); }),
        py::return_value_policy::reference);
  m.def("compile_kernels",
        wrap_pybind_function_no_gil(
            [](int index, const std::string& language, const std::string& source, const std::string& options) {
              return KernelModule::find_or_compile(device(index), language, source, options);
            }),
        py::arg("device"), py::arg("language"), py::arg("source"), py::arg("options") = "");
  py::class_<KernelModule, SharedModule>(m, "KernelModule")
      .def("binary", wrap_pybind_function(binary_of))
      .def("kernel",
           wrap_pybind_function([](KernelModule& module, const std::string& name, uint32_t results, uint32_t updated,
                                   uint32_t operands, const std::string& numbers) {
             return std::const_pointer_cast<CompiledKernel>(module.kernel(name, {results, updated, operands, numbers}));
           }),
           py::arg("name"), py::kw_only(), py::arg("results"), py::arg("updated") = 0, py::arg("operands") = 0,
           py::arg("numbers") = "");
  py::class_<CompiledKernel, std::shared_ptr<CompiledKernel>>(m, "CompiledKernel")
      .def_property_readonly("name", [](const CompiledKernel& kernel) { return kernel.shown().name; })
      .def("launch",
           wrap_pybind_function([](const std::shared_ptr<CompiledKernel>& kernel, py::handle tensors,
                                   py::handle numbers, const Triple& grid, const Triple& group, uint64_t local_memory) {
             launch_kernel_of_module(kernel, tensors, numbers, grid, group, local_memory);
           }),
           py::arg("tensors"), py::arg("numbers"), py::arg("grid"), py::arg("group") = Triple{1, 1, 1},
           py::arg("local_memory") = 0);
}

}  // namespace mydev
