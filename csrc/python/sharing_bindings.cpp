// Storages in memory that processes share.
#include <optional>
#include <utility>

#include <pybind11/stl.h>

#include "aten/memory/shared_storage.h"
#include "python/bindings.h"

namespace mydev {

void bind_sharing(pybind11::module_& m) {
  m.def("move_to_shared_memory", wrap_pybind_function_no_gil(move_to_shared_memory));
  m.def("storage_over_shared_memory", wrap_pybind_function_no_gil(storage_over_shared_memory));
  // None for a storage that is not shared.
  m.def("shared_host_storage", wrap_pybind_function([](const c10::Storage& storage) -> std::optional<c10::Storage> {
          c10::Storage host = shared_host_storage(storage);
          return host ? std::optional(std::move(host)) : std::nullopt;
        }));
}

}  // namespace mydev
