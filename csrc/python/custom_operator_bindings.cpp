// torch_mydev._C: the functions that torch.ops.mydev_cc.<name> calls.
//
// An operator's function is a direct function (direct_call.h) for calls of the usual kind: tensors by position,
// numbers by keyword, results that are fresh. All others, and whatever is wrong with a call, it leaves to the
// operator's ordinary function, which goes through PyTorch's dispatcher.
#include <pybind11/pybind11.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include "aten/custom_call/custom_operator.h"
#include "python/bindings.h"
#include "python/direct_call.h"

namespace py = pybind11;

namespace mydev {
namespace {

using Attributes = c10::SmallVector<c10::IValue, 4>;

// Whether every operand is one tensor, and nothing is written in place, which would have a version to count.
bool has_usual_form(const mydev_signature& signature, Py_ssize_t num_operands) {
  if (num_operands != static_cast<Py_ssize_t>(signature.num_operands) || signature.num_results == 0) return false;
  for (uint32_t i = 0; i < signature.num_results; ++i) {
    if (signature.results[i]->alias >= 0) return false;
  }
  return !has_variadic_operand(signature);
}

// None if the value is not of just the type that the attribute has.
c10::IValue exact_number(const mydev_attribute& attribute, PyObject* value) {
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
    found[a] = exact_number(signature.attributes[a]->value, values[i]);
    if (found[a].isNone()) return false;
  }
  for (uint32_t a = 0; a < signature.num_attributes; ++a) {
    if (found[a].isNone() && (signature.attributes[a]->flags & MYDEV_ATTRIBUTE_REQUIRED) != 0) return false;
  }
  return true;
}

struct OperatorFunction {
  static constexpr const char* kName = "custom_operator";
  static constexpr const char* kDoc = "Calls the kernel of an operator of mydev_cc.";
  struct Call {
    const mydev_kernel* record;
    Attributes attributes;
  };

  CustomOperator& op;
  py::object dispatch;  // the ordinary function

  bool prepare(PyObject* const* attributes, PyObject* names, Py_ssize_t num_operands, Call& call) const {
    call.record = op.current_record();
    return call.record != nullptr && has_usual_form(*call.record->signature, num_operands) &&
           find_attributes(*call.record->signature, attributes, names, call.attributes);
  }
  DirectTensors run(c10::ArrayRef<at::Tensor> operands, const Call& call) const {
    return call_custom_operator(op, *call.record, operands, call.attributes);
  }
  static Structure structure(size_t num_results) { return num_results == 1 ? Structure::kSingle : Structure::kTuple; }
};

py::object operator_function(const std::string& name, py::object dispatch) {
  return DirectFunction<OperatorFunction>::make(
      std::unique_ptr<OperatorFunction>(new OperatorFunction{custom_operator(name), std::move(dispatch)}));
}

// Arguments as the operator's schema wants them.
torch::jit::Stack stack_of(const CustomOperator& op, const py::tuple& operands, const py::dict& attributes) {
  const c10::OperatorHandle handle = c10::Dispatcher::singleton().findSchemaOrThrow(op.name().c_str(), "");
  return torch::jit::createStackForSchema(handle.schema(), torch::jit::tuple_slice(operands),
                                          py::reinterpret_borrow<py::kwargs>(attributes), std::nullopt);
}

// Returns the operator's results, without its kernel.
py::object fake_operator(const std::string& name, const py::tuple& operands, const py::dict& attributes) {
  CustomOperator& op = custom_operator(name);
  torch::jit::Stack stack = stack_of(op, operands, attributes);
  fake_custom_operator(op, &stack);
  return torch::jit::createPyObjectForStack(std::move(stack));
}

}  // namespace

void bind_custom_operator(py::module_& m) {
  m.def("operator_function", wrap_pybind_function(&operator_function));
  m.def("fake_operator", wrap_pybind_function(&fake_operator));
  m.def("operator_refusal", wrap_pybind_function([](const std::string& name, const py::tuple& operands,
                                                    const py::dict& attributes, int device) {
          CustomOperator& op = custom_operator(name);
          return refusal_of_custom_operator(op, stack_of(op, operands, attributes), device);
        }));
}

}  // namespace mydev
