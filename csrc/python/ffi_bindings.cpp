// torch_mydev._C: call sites in jax.ffi's terms, and the attributes that they are given.
//
// A call site is a direct function (direct_call.h), since it competes with PyTorch's own operators on small tensors;
// the calls that PyTorch has to see go to a Python function, which calls an operator of PyTorch.
#include <pybind11/complex.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "aten/custom_call/ffi_call.h"
#include "kernels/registry/kernel_registry.h"
#include "python/bindings.h"
#include "python/direct_call.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace py = pybind11;

namespace mydev {
namespace {

// --- attributes ------------------------------------------------------------------------------------------------------

constexpr int kMaxAttributeDepth = 8;

[[noreturn]] void refuse(const char* name, py::handle value, const char* advice) {
  TORCH_CHECK_TYPE(false, "attribute '", name, "' is a ", Py_TYPE(value.ptr())->tp_name, "; ", advice);
}

mydev_dtype numpy_dtype(const char* name, py::handle value) {
  const auto dtype = py::str(value.attr("dtype").attr("name")).cast<std::string>();
  const mydev_dtype known = dtype_of_python_name(dtype);
  TORCH_CHECK_TYPE(known != MYDEV_DTYPE_INVALID, "attribute '", name, "' has dtype ", dtype, ", which no kernel takes");
  return known;
}

void set_bytes(mydev_attribute& attribute, const char* data, Py_ssize_t size) {
  attribute.kind = MYDEV_ATTRIBUTE_STRING;
  attribute.value.bytes = data;
  attribute.count = static_cast<uint32_t>(size);
}

void set_integer(mydev_attribute& attribute, PyObject* value) {
  int overflow = 0;
  attribute.kind = MYDEV_ATTRIBUTE_INT;
  attribute.value.i = PyLong_AsLongLongAndOverflow(value, &overflow);
  TORCH_CHECK_VALUE(overflow == 0, "attribute '", attribute.name,
                    "' does not fit 64 bits with a sign; np.uint64(x) gives 64 without");
  if (PyErr_Occurred() != nullptr) throw py::error_already_set();
}

// A numpy scalar or an array of no dimensions.
void set_numpy_scalar(mydev_attribute& attribute, mydev_dtype dtype, py::handle value) {
  const py::object item = value.attr("item")();
  attribute.dtype = static_cast<uint16_t>(dtype);
  if (PyBool_Check(item.ptr())) {
    attribute.kind = MYDEV_ATTRIBUTE_BOOL;
    attribute.value.i = item.ptr() == Py_True ? 1 : 0;
  } else if (dtype == MYDEV_U64) {
    attribute.kind = MYDEV_ATTRIBUTE_INT;
    attribute.value.i = static_cast<int64_t>(PyLong_AsUnsignedLongLongMask(item.ptr()));
  } else if (PyLong_Check(item.ptr())) {
    set_integer(attribute, item.ptr());
  } else if (PyComplex_Check(item.ptr())) {
    attribute.kind = MYDEV_ATTRIBUTE_COMPLEX;
    attribute.value.c[0] = PyComplex_RealAsDouble(item.ptr());
    attribute.value.c[1] = PyComplex_ImagAsDouble(item.ptr());
  } else {
    attribute.kind = MYDEV_ATTRIBUTE_FLOAT;
    attribute.value.f = item.cast<double>();
  }
}

void set_numpy_array(mydev_attribute& attribute, mydev_dtype dtype, py::handle value, CustomAttributes& attributes) {
  const auto bytes = py::bytes(value.attr("tobytes")());
  const auto view = static_cast<std::string_view>(bytes);
  void* data = attributes.allocate(view.size());
  std::memcpy(data, view.data(), view.size());
  attribute.kind = dtype == MYDEV_S64   ? MYDEV_ATTRIBUTE_INT_ARRAY
                   : dtype == MYDEV_F64 ? MYDEV_ATTRIBUTE_FLOAT_ARRAY
                                        : MYDEV_ATTRIBUTE_ARRAY;
  attribute.dtype = static_cast<uint16_t>(dtype);
  attribute.count = static_cast<uint32_t>(view.size() / static_cast<size_t>(dtype_size(dtype)));
  attribute.value.data = data;
}

mydev_attribute convert_attribute(PyObject* name, PyObject* value, CustomAttributes& attributes, int depth);

void set_dictionary(mydev_attribute& attribute, PyObject* value, CustomAttributes& attributes, int depth) {
  if (depth == kMaxAttributeDepth) refuse(attribute.name, value, "dictionaries are nested at most 8 deep");
  std::vector<mydev_attribute> entries;
  PyObject *key = nullptr, *entry = nullptr;
  for (Py_ssize_t position = 0; PyDict_Next(value, &position, &key, &entry) != 0;) {
    if (PyUnicode_Check(key) == 0) refuse(attribute.name, key, "keys of a dictionary are strings");
    entries.push_back(convert_attribute(key, entry, attributes, depth + 1));
  }
  std::sort(entries.begin(), entries.end(),
            [](const mydev_attribute& a, const mydev_attribute& b) { return std::string_view(a.name) < b.name; });
  auto* data = static_cast<mydev_attribute*>(attributes.allocate(entries.size() * sizeof(mydev_attribute)));
  std::copy(entries.begin(), entries.end(), data);
  attribute.kind = MYDEV_ATTRIBUTE_DICTIONARY;
  attribute.count = static_cast<uint32_t>(entries.size());
  attribute.value.attributes = data;
}

// Converts an attribute as jax.ffi does. Names, strings and bytes are borrowed from the Python objects.
mydev_attribute convert_attribute(PyObject* name, PyObject* value, CustomAttributes& attributes, int depth) {
  mydev_attribute attribute{PyUnicode_AsUTF8(name), 0, 0, 0, {}};
  if (attribute.name == nullptr) throw py::error_already_set();
  if (PyBool_Check(value)) {
    attribute.kind = MYDEV_ATTRIBUTE_BOOL;
    attribute.value.i = value == Py_True ? 1 : 0;
  } else if (PyLong_Check(value)) {
    set_integer(attribute, value);
  } else if (PyFloat_Check(value)) {
    attribute.kind = MYDEV_ATTRIBUTE_FLOAT;
    attribute.value.f = PyFloat_AS_DOUBLE(value);
  } else if (PyUnicode_Check(value)) {
    Py_ssize_t size = 0;
    const char* data = PyUnicode_AsUTF8AndSize(value, &size);
    if (data == nullptr) throw py::error_already_set();
    set_bytes(attribute, data, size);
  } else if (PyBytes_Check(value)) {
    set_bytes(attribute, PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value));
  } else if (PyDict_Check(value)) {
    set_dictionary(attribute, value, attributes, depth);
  } else if (PyComplex_Check(value)) {
    attribute.kind = MYDEV_ATTRIBUTE_COMPLEX;
    attribute.value.c[0] = PyComplex_RealAsDouble(value);
    attribute.value.c[1] = PyComplex_ImagAsDouble(value);
  } else if (THPVariable_Check(value)) {
    refuse(attribute.name, value, "tensors are operands: give them by position");
  } else if (PyObject_HasAttrString(value, "dtype") != 0 && PyObject_HasAttrString(value, "tobytes") != 0) {
    const mydev_dtype dtype = numpy_dtype(attribute.name, value);
    if (py::handle(value).attr("ndim").cast<int>() == 0) {
      set_numpy_scalar(attribute, dtype, value);
    } else {
      set_numpy_array(attribute, dtype, value, attributes);
    }
  } else {
    refuse(attribute.name, value,
           "give bool, int, float, str, bytes, a dict, or numpy's scalars and arrays (np.array(x) for a list)");
  }
  return attribute;
}

// --- call sites ------------------------------------------------------------------------------------------------------

struct CallSiteFunction {
  static constexpr const char* kName = "ffi_call";
  static constexpr const char* kDoc = "Calls a kernel with tensors and attributes.";
  using Call = CustomAttributes;

  FfiCallSite site;
  Structure results;
  py::object dispatch;  // calls the operator of PyTorch

  static bool prepare(PyObject* const* attributes, PyObject* names, Py_ssize_t /*num_operands*/, Call& call) {
    const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    for (Py_ssize_t i = 0; i < count; ++i) {
      call.add(convert_attribute(PyTuple_GET_ITEM(names, i), attributes[i], call, 0));
    }
    return true;
  }
  DirectTensors run(c10::ArrayRef<at::Tensor> operands, Call& call) { return site.run(operands, call); }
  Structure structure(size_t /*num_results*/) const { return results; }
};

Structure structure_of(const std::string& name) {
  return name == "single" ? Structure::kSingle : name == "tuple" ? Structure::kTuple : Structure::kList;
}

// `structure`: "single", "tuple" or "list".
py::object make_call_site(
    std::string target,
    const std::vector<std::tuple<at::ScalarType, std::vector<int64_t>, std::vector<int64_t>>>& results,
    const std::string& structure, bool tuple, int api_version, std::optional<py::bytes> opaque,
    std::vector<std::vector<int64_t>> input_layouts, std::vector<std::pair<uint32_t, uint32_t>> aliases,
    py::object dispatch) {
  const CustomCallErrors errors;
  FfiCallOptions options{std::move(target), {}, tuple, api_version, std::nullopt, std::move(input_layouts),
                         std::move(aliases)};
  for (const auto& [dtype, sizes, layout] : results) options.results.push_back({dtype, sizes, layout});
  if (opaque) options.opaque = static_cast<std::string>(*opaque);
  return DirectFunction<CallSiteFunction>::make(std::unique_ptr<CallSiteFunction>(
      new CallSiteFunction{FfiCallSite(std::move(options)), structure_of(structure), std::move(dispatch)}));
}

// Runs below the dispatcher: attributes as a dict.
py::object run_below_dispatcher(const py::handle& function, const std::vector<at::Tensor>& operands,
                                const py::dict& values) {
  CallSiteFunction& call = DirectFunction<CallSiteFunction>::state(function);
  CustomAttributes attributes;
  for (const auto& [name, value] : values) {
    attributes.add(convert_attribute(name.ptr(), value.ptr(), attributes, 0));
  }
  DirectTensors results;
  {
    const py::gil_scoped_release no_gil;
    results = call.run(operands, attributes);
  }
  return py::reinterpret_steal<py::object>(wrap_results(results, Structure::kList));
}

// --- targets ---------------------------------------------------------------------------------------------------------

uintptr_t capsule_address(const py::handle& capsule) {
  void* address = PyCapsule_GetPointer(capsule.ptr(), PyCapsule_GetName(capsule.ptr()));
  if (address == nullptr) throw py::error_already_set();
  return reinterpret_cast<uintptr_t>(address);
}

mydev_function function_at(uintptr_t address) {
  return reinterpret_cast<mydev_function>(address);  // NOLINT(performance-no-int-to-ptr)
}

void register_target(const std::string& name, const std::optional<std::string>& platform, int32_t kind, uint32_t traits,
                     uintptr_t execute, uintptr_t instantiate, uintptr_t prepare, uintptr_t initialize) {
  const CustomCallErrors errors;
  // Outlive the registry.
  const auto* kept_name = new std::string(name);
  const auto* kept_platform = platform ? new std::string(*platform) : nullptr;
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.name = kept_name->c_str();
  kernel.platform = kept_platform != nullptr ? kept_platform->c_str() : nullptr;
  kernel.kind = kind;
  kernel.traits = traits;
  kernel.execute = function_at(execute);
  kernel.instantiate = function_at(instantiate);
  kernel.prepare = function_at(prepare);
  kernel.initialize = function_at(initialize);
  register_kernel(kernel, {"", "register_ffi_target"});
}

}  // namespace

void bind_ffi(py::module_& m) {
  m.def("ffi_call_site", wrap_pybind_function(&make_call_site));
  m.def("run_ffi_call_site", wrap_pybind_function(&run_below_dispatcher));
  m.def("capsule_address", &capsule_address);
  m.def("register_ffi_target", wrap_pybind_function(&register_target));
}

}  // namespace mydev
