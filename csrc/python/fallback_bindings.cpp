// Python's view of the fallback census and its modes.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include "aten/host/census.h"
#include "python/bindings.h"

namespace mydev {
namespace {

FallbackMode parse_mode(const std::string& mode) {
  if (mode == "allow") return FallbackMode::kAllow;
  if (mode == "warn") return FallbackMode::kWarn;
  if (mode == "error") return FallbackMode::kError;
  throw pybind11::value_error("fallback mode must be \"allow\", \"warn\" or \"error\", got \"" + mode + "\"");
}

const char* mode_name(FallbackMode mode) {
  constexpr const char* kNames[] = {"allow", "warn", "error"};
  return kNames[static_cast<size_t>(mode)];
}

}  // namespace

void bind_fallback(pybind11::module_& m) {
  m.def("_fallback_rows", [] {
    pybind11::list rows;
    for (const FallbackRow& row : fallback_rows()) {
      rows.append(pybind11::make_tuple(row.op, row.calls, row.bytes_copied, row.nanoseconds, row.copying_nanoseconds,
                                       row.first_line, row.declined));
    }
    return rows;
  });
  m.def("_composition_counts", [] {
    pybind11::dict counts;
    for (const auto& [op, count] : composition_counts()) counts[pybind11::str(op)] = count;
    return counts;
  });
  m.def("_composable_ops", &composable_ops);
  m.def("_fallback_reset", &reset_fallback_census);
  m.def("_fallback_mode", [] { return mode_name(fallback_mode()); });
  m.def("_set_fallback_mode", [](const std::string& mode) { set_fallback_mode(parse_mode(mode)); });
  m.def("_fallback_op_mode", [](const std::string& op) -> std::optional<std::string> {
    const auto mode = fallback_mode(op);
    return mode.has_value() ? std::optional<std::string>(mode_name(*mode)) : std::nullopt;
  });
  m.def("_set_fallback_op_mode", [](const std::string& op, const std::optional<std::string>& mode) {
    set_fallback_mode(op, mode.has_value() ? std::optional(parse_mode(*mode)) : std::nullopt);
  });
}

}  // namespace mydev
