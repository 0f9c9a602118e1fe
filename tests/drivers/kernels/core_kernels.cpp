// The kernels that a vendor brings second: matrix products, convolutions, pointwise operators and reductions. The
// host's kernels do the work, on the memory behind the device's addresses; all else falls back through copies.
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "mydev/custom_call.h"

namespace {

// The other groups: copies and fills, optimizers and lists, pooling, normalisation, softmax, losses, indices, random
// numbers; and a gradient, of which the CPU's kernel wants more than the device's forward saves.
constexpr std::string_view kOthers[] = {
    "copy",        "fill",          "foreach_",     "fused_",   "max_pool2d",
    "avg_pool2d",  "adaptive_avg_", "layer_",       "rms_norm", "batch_",
    "softmax",     "log_softmax",   "nll_loss",     "mse_loss", "bce_loss",
    "random_",     "dropout",       "index_select", "gather",   "embedding",
    "concatenate", "arange",        "isin",         "swiglu",   "log_sigmoid_backward"};

bool is_core(std::string_view name) {
  name.remove_prefix(std::strlen("mydev."));
  for (const std::string_view other : kOthers) {
    if (name.starts_with(other)) return false;
  }
  return true;
}

const std::vector<mydev_kernel>& core_kernels() {
  static const std::vector<mydev_kernel> kernels = [] {
    void* library = dlopen(MYDEV_HOST_KERNELS, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
      std::fprintf(stderr, "core_driver: %s\n", dlerror());
      std::abort();
    }
    const auto query = reinterpret_cast<mydev_custom_call_query_fn>(dlsym(library, MYDEV_CUSTOM_CALL_QUERY_SYMBOL));
    const mydev_library* table = query(MYDEV_CUSTOM_CALL_VERSION_MAJOR, MYDEV_CUSTOM_CALL_VERSION_MINOR);
    std::vector<mydev_kernel> core;
    for (const mydev_kernel* kernel : std::span(table->kernels, table->num_kernels)) {
      if (!is_core(kernel->name)) continue;
      core.push_back(*kernel);
      core.back().runs = MYDEV_RUNS_DRIVER;
    }
    return core;
  }();
  return kernels;
}

}  // namespace

extern const std::span<const mydev_kernel> kMoreKernels;
const std::span<const mydev_kernel> kMoreKernels = core_kernels();
