// torch_mydev._C: functions that were recorded as programs (aten/graph/recorded_function.h), by the signature of their
// arguments. torch_mydev/compile/program calls graphs with them. And programs of others as functions of tensors
// (aten/graph/program_function.h).
//
// A signature has all that a recording depends on: numbers; dtype, sizes, strides, conj and neg bits of tensors;
// whether donated tensors are aligned; and which kernels there are. A function of other sizes is another recording. A
// call takes a list and gives a list; it runs without the GIL.
#include <c10/util/SmallVector.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <bit>

#include "aten/core/device_type.h"
#include "aten/graph/program_function.h"
#include "aten/graph/recorded_function.h"
#include "kernels/registry/kernel_registry.h"
#include "python/bindings.h"
#include "runtime/stream/stream_table.h"

namespace py = pybind11;

namespace mydev {
namespace {

using Signature = c10::SmallVector<int64_t, 128>;

bool is_recordable(const at::Tensor& tensor, int device) {
  return on_device(tensor) && tensor.device().index() == device && tensor.layout() == at::kStrided &&
         !tensor._is_zerotensor() && !tensor.unsafeGetTensorImpl()->is_python_dispatch();
}

// False if a function cannot be recorded with an argument.
bool append(Signature& signature, PyObject* argument, int device) {
  if (THPVariable_Check(argument)) {
    const at::Tensor& tensor = THPVariable_Unpack(argument);
    if (!is_recordable(tensor, device)) return false;
    signature.push_back(tensor.dim());
    signature.push_back(static_cast<int64_t>(tensor.scalar_type()) << 2 | (tensor.is_conj() ? 2 : 0) |
                        (tensor.is_neg() ? 1 : 0));
    signature.append(tensor.sizes().begin(), tensor.sizes().end());
    signature.append(tensor.strides().begin(), tensor.strides().end());
    return true;
  }
  // Negative, as no number of dimensions is.
  if (PyBool_Check(argument)) {
    signature.append({-1, argument == Py_True ? 1 : 0});
  } else if (PyLong_Check(argument)) {
    int overflow = 0;
    signature.append({-2, PyLong_AsLongLongAndOverflow(argument, &overflow)});
    return overflow == 0;
  } else if (PyFloat_Check(argument)) {
    signature.append({-3, std::bit_cast<int64_t>(PyFloat_AS_DOUBLE(argument))});
  } else {
    return false;
  }
  return true;
}

// A function's recordings. At most kMost are kept, those that were used last.
class RecordedFunctions {
 public:
  // `donated`: places of arguments that are donated where they are aligned.
  RecordedFunctions(int device, std::vector<size_t> donated) : device_(device), donated_(std::move(donated)) {}

  // The results; the list of arguments is empty then, so that the function can release each argument when it no longer
  // needs it. Or None, and the list as it was, if there is no recording for these arguments, or the current stream
  // captures: then the calls themselves are to be captured.
  py::object call(const py::list& arguments) {
    Signature signature;
    if (current_stream(device_).capture() != nullptr || !signature_of(arguments, signature)) return py::none();
    const auto found = std::ranges::find(variants_, signature, &Variant::signature);
    if (found == variants_.end()) return py::none();
    if (found != variants_.begin()) std::rotate(variants_.begin(), found, found + 1);
    const std::shared_ptr<RecordedFunction> function = variants_.front().function;
    py::list results = py::reinterpret_steal<py::list>(PySequence_List(variants_.front().results.ptr()));
    std::vector<at::Tensor> inputs = tensors_of(arguments);
    PyList_SetSlice(arguments.ptr(), 0, PyList_GET_SIZE(arguments.ptr()), nullptr);
    std::vector<at::Tensor> outputs;
    {
      const py::gil_scoped_release no_gil;
      outputs = function->call(std::move(inputs));
    }
    size_t next = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(results.ptr()); ++i) {
      if (PyList_GET_ITEM(results.ptr(), i) != Py_Ellipsis) continue;
      PyList_SetItem(results.ptr(), i, THPVariable_Wrap(std::move(outputs[next++])));
    }
    return results;
  }

  // `results`: what a call returns, with an Ellipsis for each tensor of the function.
  void add(const py::list& arguments, std::shared_ptr<RecordedFunction> function, py::list results) {
    Signature signature;
    TORCH_CHECK(signature_of(arguments, signature), "a function cannot be recorded with these arguments");
    if (variants_.size() == kMost) variants_.pop_back();
    variants_.insert(variants_.begin(), {std::move(signature), std::move(function), std::move(results)});
  }

  // Whether a function can be recorded with them.
  bool takes(const py::list& arguments) const {
    Signature signature;
    return current_stream(device_).capture() == nullptr && signature_of(arguments, signature);
  }

  // The stand-in for the argument at this place.
  at::Tensor add_input(FunctionRecorder& recorder, size_t place, const at::Tensor& argument) const {
    return recorder.add_input(argument, std::ranges::find(donated_, place) != donated_.end() && is_aligned(argument));
  }

  std::vector<std::shared_ptr<RecordedFunction>> functions() const {
    std::vector<std::shared_ptr<RecordedFunction>> functions;
    for (const Variant& variant : variants_) functions.push_back(variant.function);
    return functions;
  }

 private:
  static constexpr size_t kMost = 64;
  struct Variant {
    Signature signature;
    std::shared_ptr<RecordedFunction> function;
    py::list results;
  };

  bool signature_of(const py::list& arguments, Signature& signature) const {
    signature.push_back(static_cast<int64_t>(registry_generation()));
    if (!std::ranges::all_of(arguments,
                             [&](const py::handle& each) { return append(signature, each.ptr(), device_); })) {
      return false;
    }
    for (const size_t place : donated_) {
      signature.push_back(is_aligned(THPVariable_Unpack(PyList_GET_ITEM(arguments.ptr(), place))) ? 1 : 0);
    }
    return true;
  }
  bool is_aligned(const at::Tensor& tensor) const {
    const uint64_t alignment = device(device_).properties.alignment;
    return reinterpret_cast<uintptr_t>(tensor.unsafeGetTensorImpl()->data()) % alignment == 0;
  }
  static std::vector<at::Tensor> tensors_of(const py::list& arguments) {
    std::vector<at::Tensor> tensors;
    for (const py::handle& argument : arguments) {
      if (THPVariable_Check(argument.ptr())) tensors.push_back(THPVariable_Unpack(argument.ptr()));
    }
    return tensors;
  }

  const int device_;
  const std::vector<size_t> donated_;
  std::vector<Variant> variants_;
};

}  // namespace

void bind_recorded_functions(py::module_& m) {
  py::class_<RecordedFunction, std::shared_ptr<RecordedFunction>>(m, "RecordedFunction")
      .def("text", wrap_pybind_function([](const RecordedFunction& function) { return function.text(); }))
      .def_property_readonly("num_steps", &RecordedFunction::num_steps)
      .def_property_readonly("arena_bytes", &RecordedFunction::arena_bytes)
      .def_property_readonly("draws", &RecordedFunction::draws)
      .def_property_readonly("num_others", &RecordedFunction::num_others)
      .def_property_readonly("num_written_results", &RecordedFunction::num_written_results);
  py::class_<FunctionRecorder>(m, "FunctionRecorder")
      .def(py::init<int>())
      .def("add_input", wrap_pybind_function([](FunctionRecorder& recorder, const at::Tensor& like, bool donated) {
             return recorder.add_input(like, donated);
           }))
      .def("cancel", wrap_pybind_function([](FunctionRecorder& recorder) { recorder.cancel(); }))
      .def("finish", wrap_pybind_function([](FunctionRecorder& recorder, const std::vector<at::Tensor>& outputs) {
             return recorder.finish(outputs);
           }));
  py::class_<RecordedFunctions>(m, "RecordedFunctions")
      .def(py::init<int, std::vector<size_t>>())
      .def("add_input", wrap_pybind_function(&RecordedFunctions::add_input))
      .def("call", wrap_pybind_function(&RecordedFunctions::call))
      .def("add", wrap_pybind_function(&RecordedFunctions::add))
      .def("takes", wrap_pybind_function(&RecordedFunctions::takes))
      .def("functions", wrap_pybind_function(&RecordedFunctions::functions));
  // Takes the address of a SharedProgram, which is the function's from then on.
  py::class_<ProgramFunction, std::shared_ptr<ProgramFunction>>(m, "ProgramFunction")
      .def(py::init(wrap_pybind_function([](uintptr_t address) {
        const std::unique_ptr<program::SharedProgram> program(reinterpret_cast<program::SharedProgram*>(address));
        return std::make_shared<ProgramFunction>(*program);
      })))
      .def("call", wrap_pybind_function_no_gil([](ProgramFunction& function, const std::vector<at::Tensor>& inputs,
                                                  int device) { return function.call(inputs, device); }));
}

}  // namespace mydev
