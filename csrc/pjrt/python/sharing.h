// Memory of buffers that others in this process use in place, as PyTorch does.
//
// Python has no handle of a buffer, but jaxlib asks for a buffer's address (PJRT_Buffer_UnsafePointer) on the thread
// that asked for an array's. So the thread says beforehand that it wants the next buffer, and lends it. A lent buffer
// is held until the borrower releases it, and is not donated meanwhile: a program that would write it writes a copy.
// The two sides use the device in the order of their streams: each function here makes one stream wait for the other,
// on the device. Thread-safe.
#pragma once

#include "pjrt/buffer/buffer.h"

namespace mydev::pjrt {

// To be called when a client asks for the buffer's address.
void note_address(PJRT_Buffer& buffer);

}  // namespace mydev::pjrt
