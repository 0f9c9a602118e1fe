// Memory pools of the user: the functions behind torch_mydev/device/memory_pool.py.
#include <pybind11/stl.h>

#include "python/bindings.h"
#include "runtime/base/blocking_call.h"
#include "runtime/base/status.h"
#include "runtime/memory/entered_pools.h"
#include "runtime/memory/private_pool.h"

namespace mydev {

namespace {

// A share of a pool. The last one gives memory back to the driver, and so waits for streams.
class PoolShare {
 public:
  explicit PoolShare(PoolOptions options) : pool_(PrivatePool::make(options)) {}
  ~PoolShare() {
    call_blocking([this] { pool_.reset(); });
  }
  PoolShare(const PoolShare&) = delete;
  PoolShare& operator=(const PoolShare&) = delete;

  PoolId id() const { return pool_->id(); }
  // Shares of graphs and of threads that have entered it count too.
  long use_count() const { return pool_.use_count(); }
  void enter(int device) const { enter_pool(device, pool_); }

 private:
  std::shared_ptr<PrivatePool> pool_;
};

}  // namespace

void bind_pools(pybind11::module_& m) {
  pybind11::class_<PoolShare>(m, "MemPool")
      .def(pybind11::init([](bool use_on_oom) {
             return std::make_unique<PoolShare>(PoolOptions{.last_resort = use_on_oom, .returns_memory = true});
           }),
           pybind11::arg("use_on_oom") = false)
      .def_property_readonly("id", &PoolShare::id)
      .def("use_count", &PoolShare::use_count)
      .def("_enter", wrap_pybind_function_no_gil([](const PoolShare& pool, int device) { pool.enter(device); }))
      .def("_leave",
           wrap_pybind_function_no_gil([](const PoolShare& pool, int device) { leave_pool(device, pool.id()); }));
}

}  // namespace mydev
