// The calling thread's Python frames, without the GIL.
//
// A thread that is inside an operator has given the GIL away; taking it back for each launch would cost more than the
// launch. But its own frames stand still meanwhile, and only two addresses of a frame are needed.
#pragma once

#include <Python.h>

#include <cstdint>

namespace mydev {

struct FramePosition {
  PyCodeObject* code = nullptr;       // borrowed from the frame
  const void* instruction = nullptr;  // the one that runs, inside the code object
  const void* frame = nullptr;
  int32_t offset = 0;  // of the instruction, in bytes, as PyCode_Addr2Line wants it
};

// Whether frames of this version of Python can be read in this way; if not, the two functions below must not be called.
bool can_walk_frames() noexcept;
// The frame that the thread is in, and the one that called a frame; code is nullptr past the last.
FramePosition innermost_frame(PyThreadState* thread) noexcept;
FramePosition calling_frame(const FramePosition& position) noexcept;

}  // namespace mydev
