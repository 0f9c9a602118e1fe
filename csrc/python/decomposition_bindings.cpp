// torch_mydev._C: operators as compositions of others, for a compiler to trace (compile/decompositions.py).
#include "aten/ops/linear/recurrent_cells.h"
#include "python/bindings.h"

namespace py = pybind11;

namespace mydev {

void bind_decompositions(py::module_& m) {
  constexpr CellForm kForm = CellForm::kFunctional;
  m.def("lstm_cell", wrap_pybind_function(lstm_cell<kForm>), py::arg("input_gates"), py::arg("hidden_gates"),
        py::arg("cx"), py::arg("input_bias") = py::none(), py::arg("hidden_bias") = py::none());
  m.def("lstm_cell_backward", wrap_pybind_function(lstm_cell_backward<kForm>), py::arg("grad_hy"), py::arg("grad_cy"),
        py::arg("cx"), py::arg("cy"), py::arg("workspace"), py::arg("has_bias"));
  m.def("gru_cell", wrap_pybind_function(gru_cell<kForm>), py::arg("input_gates"), py::arg("hidden_gates"),
        py::arg("hx"), py::arg("input_bias") = py::none(), py::arg("hidden_bias") = py::none());
  m.def("gru_cell_backward", wrap_pybind_function(gru_cell_backward<kForm>), py::arg("grad_hy"), py::arg("workspace"),
        py::arg("has_bias"));
}

}  // namespace mydev
