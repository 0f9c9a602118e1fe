// CPython keeps the layout of frames to itself: this file alone includes its internal header, for the versions whose
// frames it knows.
#include "python/frame_walk.h"

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030D0000
#define MYDEV_WALKS_FRAMES 1
#define Py_BUILD_CORE 1
#include <internal/pycore_frame.h>
#endif

namespace mydev {

#ifdef MYDEV_WALKS_FRAMES

namespace {

FramePosition position_of(const _PyInterpreterFrame* frame) noexcept {
  while (frame != nullptr && _PyFrame_IsIncomplete(const_cast<_PyInterpreterFrame*>(frame))) frame = frame->previous;
  if (frame == nullptr) return {};
  return {frame->f_code, frame->prev_instr, frame,
          static_cast<int32_t>(_PyInterpreterFrame_LASTI(frame) * sizeof(_Py_CODEUNIT))};
}

}  // namespace

bool can_walk_frames() noexcept {
  return true;
}
FramePosition innermost_frame(PyThreadState* thread) noexcept {
  return position_of(thread->cframe->current_frame);
}
FramePosition calling_frame(const FramePosition& position) noexcept {
  return position_of(static_cast<const _PyInterpreterFrame*>(position.frame)->previous);
}

#else

bool can_walk_frames() noexcept {
  return false;
}
FramePosition innermost_frame(PyThreadState* /*thread*/) noexcept {
  return {};
}
FramePosition calling_frame(const FramePosition& /*position*/) noexcept {
  return {};
}

#endif

}  // namespace mydev
