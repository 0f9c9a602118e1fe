// One allocation of device memory, as the allocator gives it out.
//
// Reference-counted, since a host-side alias of a tensor may outlive the tensor; caching_allocator.h has the functions.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "runtime/stream/stream.h"

namespace mydev {

// Created by allocate() with one reference.
struct Block {
  void* data;                          // nullptr for 0 bytes
  size_t size;                         // bytes reserved for it, >= requested
  size_t requested;                    // bytes asked for
  Stream* stream;                      // it was allocated on
  std::atomic<int32_t> references;     // see retain, release; 0 while the allocator has it
  int32_t size_class;                  // of the thread caches (runtime/memory/size_classes.h); -1: none
  std::atomic<void*> framework_alias;  // slot for the layer above (csrc/aten keeps the storage of the host alias here)
};

}  // namespace mydev
