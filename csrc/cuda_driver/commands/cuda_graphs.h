// The driver's extension "graph": CUDA's own graphs, by capture. Thread-safe.
#pragma once

#include "mydev/driver_extensions.h"

namespace mydev::cuda_driver {

const mydev_graph_extension& graph_extension();

}  // namespace mydev::cuda_driver
