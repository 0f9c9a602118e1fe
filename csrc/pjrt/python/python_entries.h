// What the plugin asks of pjrt_mydev's Python.
#pragma once

namespace mydev::pjrt {

// Before a program is loaded that another process may have compiled: what it calls may have to be prepared, which was
// done there. Thread-safe; does nothing where Python asked for nothing.
void prepare_to_load();

}  // namespace mydev::pjrt
