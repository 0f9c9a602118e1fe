// Effective settings: environment variables, instruction set.
#include "python/bindings.h"
#include "runtime/base/config.h"
#include "runtime/base/instruction_set.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

pybind11::list list_variables() {
  pybind11::list rows;
  for (const ConfigVariable& variable : config_variables()) {
    pybind11::dict row;
    row["name"] = variable.name;
    row["default"] = variable.default_value;
    row["choices"] = variable.choices == nullptr ? "" : variable.choices;
    row["doc"] = variable.doc;
    rows.append(row);
  }
  return rows;
}

std::vector<std::string> list_instruction_sets() {
  std::vector<std::string> names;
  for (const InstructionSet isa : supported_instruction_sets()) {
    names.emplace_back(instruction_set_name(isa));
  }
  return names;
}

// "" where every variable has a value that fits.
std::string config_problem() {
  const RaiserBypass bypass;
  try {
    check_config();
    instruction_set();  // that the variable names may be one that this processor lacks
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

void bind_config(pybind11::module_& m) {
  m.def("config_variables", wrap_pybind_function(list_variables));
  m.def("config_value", wrap_pybind_function([](const std::string& name) { return config_string(name); }));
  m.def("config_problem", &config_problem);
  m.def("config_warnings", wrap_pybind_function(config_warnings));
  m.def("supported_instruction_sets", wrap_pybind_function(list_instruction_sets));
  m.def("instruction_set", wrap_pybind_function([] { return instruction_set_name(instruction_set()); }));
}

}  // namespace mydev
