// torch_mydev._C: what torch.ops.mydev_cc.<name> calls.
//
// An operator's function is a builtin that makes direct calls (direct_call.h) of the usual kind: tensors by position,
// numbers by keyword, results that are fresh. All others, and whatever is wrong with a call, it leaves to the
// operator's ordinary function, which goes through PyTorch's dispatcher.
#include <pybind11/pybind11.h>

#include "aten/custom_call/custom_operator.h"
#include "python/bindings.h"
#include "python/direct_call.h"

namespace py = pybind11;

namespace mydev {
namespace {

struct OperatorFunction {
  CustomOperator& op;
  py::object dispatch;  // the ordinary function
};

constexpr const char* kOperatorCapsule = "mydev.custom_operator";

using Attributes = c10::SmallVector<c10::IValue, 4>;

// Every operand one tensor, and nothing written in place, which would have a version to count.
bool has_usual_form(const mydev_signature& signature, Py_ssize_t num_operands) {
  if (num_operands != static_cast<Py_ssize_t>(signature.num_operands) || signature.num_results == 0) return false;
  for (uint32_t i = 0; i < signature.num_results; ++i) {
    if (signature.results[i]->alias >= 0) return false;
  }
  return !has_variadic_operand(signature);
}

// None if the value is not of just the type that the attribute has.
c10::IValue plain_number(const mydev_attribute& attribute, PyObject* value) {
  if (attribute.kind == MYDEV_ATTRIBUTE_FLOAT && PyFloat_CheckExact(value)) return PyFloat_AS_DOUBLE(value);
  if (attribute.kind == MYDEV_ATTRIBUTE_BOOL && PyBool_Check(value)) return value == Py_True;
  if (attribute.kind == MYDEV_ATTRIBUTE_INT && PyLong_CheckExact(value)) {
    int overflow = 0;
    const long long integer = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow == 0) return static_cast<int64_t>(integer);
  }
  return {};
}

// False if an attribute is missing, unknown or no number.
bool find_attributes(const mydev_signature& signature, PyObject* const* values, PyObject* names, Attributes& found) {
  const Py_ssize_t given = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  found.resize(signature.num_attributes);
  for (Py_ssize_t i = 0; i < given; ++i) {
    uint32_t a = 0;
    while (a < signature.num_attributes &&
           PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(names, i), signature.attributes[a]->value.name) != 0) {
      ++a;
    }
    if (a == signature.num_attributes) return false;
    found[a] = plain_number(signature.attributes[a]->value, values[i]);
    if (found[a].isNone()) return false;
  }
  for (uint32_t a = 0; a < signature.num_attributes; ++a) {
    if (found[a].isNone() && (signature.attributes[a]->flags & MYDEV_ATTRIBUTE_REQUIRED) != 0) return false;
  }
  return true;
}

PyObject* wrap_results(CustomResults& results) {
  if (results.size() == 1) return THPVariable_Wrap(std::move(results[0]));
  auto tuple = py::reinterpret_steal<py::object>(PyTuple_New(static_cast<Py_ssize_t>(results.size())));
  for (size_t i = 0; i < results.size(); ++i) {
    PyTuple_SET_ITEM(tuple.ptr(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(std::move(results[i])));
  }
  return tuple.release().ptr();
}

PyObject* call_operator(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  HANDLE_TH_ERRORS
  auto* function = static_cast<OperatorFunction*>(PyCapsule_GetPointer(self, kOperatorCapsule));
  const mydev_kernel* record = function->op.current_record();
  Attributes attributes;
  if (record == nullptr || !has_usual_form(*record->signature, count) || !may_call_directly(arguments, count) ||
      !find_attributes(*record->signature, arguments + count, names, attributes)) {
    return PyObject_Vectorcall(function->dispatch.ptr(), arguments, static_cast<size_t>(count), names);
  }
  c10::SmallVector<at::Tensor, 4> operands;
  for (Py_ssize_t i = 0; i < count; ++i) operands.push_back(THPVariable_Unpack(arguments[i]));
  CustomResults results;
  {
    const py::gil_scoped_release no_gil;
    results = call_custom_operator(function->op, *record, operands, attributes);
  }
  return wrap_results(results);
  END_HANDLE_TH_ERRORS
}

PyMethodDef operator_method = {"custom_operator",
                               reinterpret_cast<PyCFunction>(reinterpret_cast<void*>(&call_operator)),
                               METH_FASTCALL | METH_KEYWORDS, "Calls the kernel of an operator of mydev_cc."};

py::object operator_function(const std::string& name, py::object dispatch) {
  auto* function = new OperatorFunction{custom_operator(name), std::move(dispatch)};
  const py::capsule capsule(function, kOperatorCapsule, [](PyObject* self) {
    delete static_cast<OperatorFunction*>(PyCapsule_GetPointer(self, kOperatorCapsule));
  });
  return py::reinterpret_steal<py::object>(PyCFunction_NewEx(&operator_method, capsule.ptr(), nullptr));
}

}  // namespace

void bind_custom_operator(py::module_& m) {
  m.def("operator_function", wrap_pybind_function(&operator_function));
}

}  // namespace mydev
