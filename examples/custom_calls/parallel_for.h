// The process's thread pool for a C++ function object, body(begin, end), which must not throw.
#pragma once

#include "mydev/custom_call.h"

// [docs: parallel-for]
template <typename Body>
void parallel_for(const mydev_frame& frame, int64_t count, int64_t grain, const Body& body) {
  frame.host->parallel_for(
      count, grain, [](void* context, int64_t begin, int64_t end) { (*static_cast<const Body*>(context))(begin, end); },
      const_cast<Body*>(&body));
}
// [docs: end]
