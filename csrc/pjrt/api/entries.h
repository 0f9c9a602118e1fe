// The parts of the table of functions. Each file of entries fills in its own slots. A slot that nobody fills in returns
// UNIMPLEMENTED with the function's name (table.cpp).
#pragma once

#include "pjrt/c_api/table.h"

namespace mydev::pjrt {

void add_event_entries(PJRT_Api& api);  // errors, events, the plugin
void add_client_entries(PJRT_Api& api);
void add_device_entries(PJRT_Api& api);  // devices, memories, topologies
void add_buffer_entries(PJRT_Api& api);
void add_executable_entries(PJRT_Api& api);
void add_loaded_executable_entries(PJRT_Api& api);

// Extensions are chained; `next` is the one after it.
PJRT_Extension_Base* profiler_extension(PJRT_Extension_Base* next) noexcept;
// The first of them.
PJRT_Extension_Base* extensions() noexcept;

}  // namespace mydev::pjrt
