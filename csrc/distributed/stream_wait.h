// Makes a device's stream wait for something that happens on the host.
#pragma once

#include <functional>

#include "runtime/stream/stream.h"

namespace mydev {

// Whether the stream can run host code in its order: as a kernel of a host-accessible device, which errors and traces
// name, or by the driver's stream_host_call.
bool can_wait_in(const Stream& stream) noexcept;

// Later work on the stream waits until `wait` has returned; it runs on the stream's thread, once. What it throws
// becomes the stream's error, raised by the next wait for the stream.
void wait_in(Stream& stream, std::function<void()> wait);

}  // namespace mydev
