// The plugin's requests to pjrt_mydev's Python.
#pragma once

namespace mydev::pjrt {

// To be called before a program is loaded that another process may have compiled: the functions that it calls may have
// to be prepared, which was done there. Thread-safe; does nothing if Python asked for nothing.
void prepare_to_load();

}  // namespace mydev::pjrt
