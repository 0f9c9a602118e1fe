// torch_mydev._C: the registry of kernels, libraries of them, and what fake kernels need of a signature.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "aten/core/dtype.h"
#include "aten/custom_call/custom_attributes.h"
#include "aten/custom_call/custom_operator.h"
#include "kernels/registry/kernel_library.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/signature.h"
#include "python/bindings.h"
#include "runtime/status.h"

namespace py = pybind11;

namespace mydev {
namespace {

py::tuple library_row(const LibraryInfo& info) {
  return py::make_tuple(info.file, info.name, info.version, py::make_tuple(info.version_major, info.version_minor),
                        py::tuple(py::cast(info.kernels)));
}

// As wrap_pybind_function, with the error types of custom calls.
template <typename Result, typename... Arguments>
auto wrap_custom_call(Result (*function)(Arguments...)) {
  return wrap_pybind_function([function](Arguments... arguments) {
    const CustomCallErrors errors;
    return function(std::forward<Arguments>(arguments)...);
  });
}

const mydev_kernel& kernel_with_signature(const std::string& name) {
  const mydev_kernel* kernel = find_kernel(name);
  MYDEV_CHECK(kernel != nullptr && kernel->signature != nullptr, MYDEV_NOT_FOUND, "there is no kernel '", name,
              "' with a signature");
  return *kernel;
}

// --- fake kernels ----------------------------------------------------------------------------------------------------

py::list rule_lists(const std::vector<ShapeRule::List>& lists) {
  constexpr std::array kKinds = {"name", "number", "attribute"};
  py::list rows;
  for (const ShapeRule::List& list : lists) {
    py::list sizes;
    for (const ShapeRule::Size& size : list.sizes) {
      const int64_t value = size.kind == ShapeRule::Size::kName     ? size.name
                            : size.kind == ShapeRule::Size::kNumber ? size.number
                                                                    : size.attribute;
      sizes.append(py::make_tuple(kKinds[size.kind], value));
    }
    rows.append(py::make_tuple(list.ellipsis, std::move(sizes)));
  }
  return rows;
}

// (operands, results), or None where the kernel infers shapes itself.
py::object shape_rule(const std::string& name) {
  const CompiledSignature& signature = *compiled_signature(kernel_with_signature(name));
  if (!signature.rule) return py::none();
  return py::make_tuple(rule_lists(signature.rule->operands()), rule_lists(signature.rule->results()));
}

c10::IValue attribute_value(const mydev_attribute& attribute, const py::handle& value) {
  if (value.is_none()) return {};
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      return value.cast<bool>();
    case MYDEV_ATTRIBUTE_INT:
      return value.cast<int64_t>();
    case MYDEV_ATTRIBUTE_FLOAT:
      return value.cast<double>();
    case MYDEV_ATTRIBUTE_COMPLEX:
      return c10::complex<double>(value.cast<std::complex<double>>());
    case MYDEV_ATTRIBUTE_STRING:
      return value.cast<std::string>();
    case MYDEV_ATTRIBUTE_INT_ARRAY:
      return value.cast<std::vector<int64_t>>();
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return value.cast<std::vector<double>>();
    default:
      if (attribute.dtype == MYDEV_F32 || attribute.dtype == MYDEV_F64) return value.cast<std::vector<double>>();
      return value.cast<std::vector<int64_t>>();
  }
}

using FakeOperand = std::optional<std::pair<at::ScalarType, std::vector<int64_t>>>;

// Checks operands of these dtypes and sizes; with `infer`, also gives the results' sizes.
std::vector<std::vector<int64_t>> check_fake_operands(const std::string& name, const std::vector<FakeOperand>& operands,
                                                      const std::vector<py::object>& values, bool infer) {
  const mydev_kernel& kernel = kernel_with_signature(name);
  const mydev_signature& signature = *kernel.signature;
  CustomAttributes attributes;
  std::vector<c10::IValue> kept;  // strings are borrowed
  kept.reserve(values.size());
  for (uint32_t i = 0; i < signature.num_attributes; ++i) {
    kept.push_back(attribute_value(signature.attributes[i]->value, values.at(i)));
    attributes.add(kernel, *signature.attributes[i], kept.back());
  }
  std::vector<mydev_buffer> buffers;
  std::vector<std::vector<int64_t>> strides;
  strides.reserve(operands.size());
  for (const FakeOperand& operand : operands) {
    if (!operand) {
      buffers.push_back({nullptr, nullptr, nullptr, 0, MYDEV_DTYPE_INVALID});
      continue;
    }
    TORCH_CHECK_VALUE(to_frame_dtype(operand->first) != MYDEV_DTYPE_INVALID, name, ": an operand is ", operand->first,
                      ", a dtype that no kernel can be given");
    const std::vector<int64_t>& sizes = operand->second;
    const c10::DimVector dense = c10::contiguous_strides(sizes);
    strides.emplace_back(dense.begin(), dense.end());
    buffers.push_back({nullptr, sizes.data(), strides.back().data(), static_cast<int32_t>(sizes.size()),
                       to_frame_dtype(operand->first)});
  }
  const mydev_frame frame = make_frame(buffers, 0, attributes.values());
  check_operands(kernel, frame);
  std::vector<std::vector<int64_t>> results;
  if (!infer) return results;
  std::vector<mydev_shape> shapes(num_outputs(signature, static_cast<uint32_t>(operands.size())));
  infer_results(kernel, frame, shapes);
  for (const mydev_shape& shape : shapes) results.emplace_back(shape.sizes, shape.sizes + shape.rank);
  return results;
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
  m.def("describe_kernel", wrap_custom_call(+[](const std::string& name) { return describe_kernel(name); }));
  m.def("unregister_kernel", wrap_custom_call(+[](const std::string& name) { unregister_kernel(name); }));
  m.def("registry_generation", &registry_generation);
  m.def("dense_copies", &dense_copies);
  m.def("sync_operators", wrap_custom_call(&sync_operators));
  m.def("shape_rule", wrap_custom_call(&shape_rule));
  m.def("check_fake_operands", wrap_custom_call(&check_fake_operands));
}

}  // namespace mydev
