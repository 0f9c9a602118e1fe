// torch_mydev._C: the registry of kernels, and libraries of them.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "aten/custom_call/custom_operator.h"
#include "kernels/registry/kernel_library.h"
#include "kernels/registry/kernel_registry.h"
#include "python/bindings.h"
#include "runtime/base/utf8.h"
#include "runtime/frame/dtype.h"

namespace py = pybind11;

namespace mydev {
namespace {

py::tuple library_row(const LibraryInfo& info) {
  return py::make_tuple(info.file, info.name, info.version, py::make_tuple(info.version_major, info.version_minor),
                        py::tuple(py::cast(info.kernels)));
}

// Does the same as wrap_pybind_function, and raises the error types of custom calls.
template <typename Result, typename... Arguments>
auto wrap_custom_call(Result (*function)(Arguments...)) {
  return wrap_pybind_function([function](Arguments... arguments) {
    const CustomCallErrors errors;
    return function(std::forward<Arguments>(arguments)...);
  });
}

// --- records ---------------------------------------------------------------------------------------------------------

// A string of Python; text that is not UTF-8 has a character for each byte.
py::str to_python(const std::string& text) {
  if (is_utf8(text)) return {text};
  return py::reinterpret_steal<py::str>(PyUnicode_DecodeLatin1(text.data(), static_cast<Py_ssize_t>(text.size()), ""));
}

py::object to_python(const Description& description) {
  struct Converter {
    py::object operator()(std::nullptr_t) const { return py::none(); }
    py::object operator()(bool value) const { return py::bool_(value); }
    py::object operator()(int64_t value) const { return py::int_(value); }
    py::object operator()(uint64_t value) const { return py::int_(value); }
    py::object operator()(double value) const { return py::float_(value); }
    py::object operator()(const std::string& value) const { return to_python(value); }
    py::object operator()(const Description::List& items) const {
      py::list list;
      for (const Description& item : items) list.append(to_python(item));
      return list;
    }
    py::object operator()(const Description::Dictionary& entries) const {
      py::dict dictionary;
      for (const auto& [name, value] : entries) dictionary[to_python(name)] = to_python(value);
      return dictionary;
    }
  };
  return std::visit(Converter{}, description.value);
}

// (name, name in torch) of the element types that torch has.
py::list dtype_rows() {
  py::list rows;
  for (const DtypeRow& row : kDtypes) {
    if (row.python_name != nullptr) rows.append(py::make_tuple(row.name, row.python_name));
  }
  return rows;
}

// --- operators -------------------------------------------------------------------------------------------------------

std::vector<std::tuple<std::string, std::string, std::string>> sync_operators() {
  constexpr std::array kKinds = {"defined", "removed", "collision"};
  std::vector<std::tuple<std::string, std::string, std::string>> rows;
  sync_custom_operators();
  for (const OperatorChange& change : take_operator_changes()) {
    rows.emplace_back(kKinds[change.kind], change.kernel, change.operator_name);
  }
  return rows;
}

}  // namespace

void bind_custom_call(py::module_& m) {
  m.def("load_kernel_library",
        wrap_custom_call(+[](const std::string& file) { return library_row(load_kernel_library(file)); }));
  m.def("reload_kernel_library",
        wrap_custom_call(+[](const std::string& file) { return library_row(reload_kernel_library(file)); }));
  m.def("loaded_kernel_libraries", [] {
    py::list rows;
    for (const LibraryInfo& info : loaded_kernel_libraries()) rows.append(library_row(info));
    return rows;
  });
  m.def("refused_kernel_libraries", [] {
    py::list rows;
    for (const RefusedLibrary& refused : refused_kernel_libraries()) {
      rows.append(py::make_tuple(refused.file, refused.reason));
    }
    return rows;
  });
  m.def("load_discovered_libraries", wrap_custom_call(+[](const std::optional<std::string>& name) {
          return load_discovered_libraries(name ? name->c_str() : nullptr);
        }));
  m.def("kernel_names", [] {
    std::vector<std::string> names;
    for (const mydev_kernel* kernel : all_kernels()) names.emplace_back(kernel->name);
    return names;
  });
  m.def("has_kernel", wrap_custom_call(+[](const std::string& name) { return find_kernel(name) != nullptr; }));
  m.def("describe_kernel", wrap_custom_call(+[](const std::string& name) { return to_python(describe_kernel(name)); }));
  m.def("drivers_kernels", wrap_custom_call(+[](int index) {
          py::list kernels;
          for (const mydev_kernel* kernel : drivers_kernels(device(index))) {
            kernels.append(to_python(describe_drivers_kernel(device(index), *kernel)));
          }
          return kernels;
        }));
  m.def("kernel_contracts", [] {
    py::list contracts;
    for (const KernelContract& contract : builtin_contracts()) contracts.append(to_python(describe(contract)));
    return contracts;
  });
  m.def("unregister_kernel", wrap_custom_call(+[](const std::string& name) { unregister_kernel(name); }));
  m.def("registry_generation", &registry_generation);
  m.def("dense_copies", &dense_copies);
  m.def("sync_operators", wrap_custom_call(&sync_operators));
  m.def("dtypes", &dtype_rows);
}

}  // namespace mydev
