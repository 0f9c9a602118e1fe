// Typed-FFI handlers written by hand against the binary layout: what they are made of, and the simplest.
#pragma once

#include "ffi_fixture.h"

namespace mydev {

using ffi::CallFrame;

// Answers the handshake as a handler of version 0.kMinor does; true if the frame was a question.
inline bool answer(CallFrame* frame, int minor = 3, int major = 0, uint32_t traits = 0) {
  if (frame->extension_start == nullptr || frame->extension_start->type != ffi::kMetadataExtension) return false;
  auto* extension = reinterpret_cast<ffi::MetadataExtension*>(frame->extension_start);
  extension->metadata->api_version.major = major;
  extension->metadata->api_version.minor = minor;
  extension->metadata->traits = traits;
  return true;
}

inline ffi::Error* fail(const CallFrame* frame, int code, const char* message) {
  ffi::ErrorCreateArgs args{ffi::kErrorCreateArgsSize, nullptr, message, code};
  return frame->api->error_create(&args);
}

inline ffi::Buffer& argument(const CallFrame* frame, size_t index) {
  return *static_cast<ffi::Buffer*>(frame->arguments.values[index]);
}
inline ffi::Buffer& result(const CallFrame* frame, size_t index) {
  return *static_cast<ffi::Buffer*>(frame->results.values[index]);
}

// A call of a handler that must fail.
struct Misuse {
  const char* name;
  ffi::Handler handler;
  mydev_code code;
  const char* message;
};

// A handler whose body is a lambda without captures.
template <int kMinor, typename Body>
ffi::Handler handler(Body) {
  return [](CallFrame* frame) -> ffi::Error* { return answer(frame, kMinor) ? nullptr : Body{}(frame); };
}
template <typename Body>
ffi::Handler handler(Body body) {
  return handler<3>(body);
}

inline ffi::Error* succeed(CallFrame* frame) {
  answer(frame);
  return nullptr;
}

// out[i] = a[i] + b[i]; returns an error if anything about the frame is not as it should be.
inline ffi::Error* add(CallFrame* frame) {
  if (answer(frame)) return nullptr;
  if (frame->struct_size != ffi::kCallFrameSize) return fail(frame, 13, "struct_size of the frame");
  if (frame->stage != ffi::kExecute) return fail(frame, 13, "stage");
  if (frame->arguments.size != 2 || frame->results.size != 1) return fail(frame, 3, "count");
  if (frame->arguments.types[0] != ffi::kBuffer || frame->results.types[0] != ffi::kBuffer) {
    return fail(frame, 13, "types");
  }
  int64_t count = 1;
  for (int64_t d = 0; d < argument(frame, 0).rank; ++d) count *= argument(frame, 0).dims[d];
  const auto* a = static_cast<const float*>(argument(frame, 0).data);
  const auto* b = static_cast<const float*>(argument(frame, 1).data);
  auto* out = static_cast<float*>(result(frame, 0).data);
  for (int64_t i = 0; i < count; ++i) out[i] = a[i] + b[i];
  return nullptr;
}

}  // namespace mydev
