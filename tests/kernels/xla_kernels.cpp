// Functions of XLA's kinds, for registering one by one: exported under their own names, no library of kernels.
#include <cstring>

#include "kernels/custom_call/ffi_abi.h"
#include "mydev/custom_call.h"

namespace ffi = mydev::ffi;

namespace {

// Answers the host's question for the handler's version.
bool answer_metadata(ffi::CallFrame* frame) {
  if (frame->extension_start == nullptr || frame->extension_start->type != ffi::kMetadataExtension) return false;
  ffi::Metadata* metadata = reinterpret_cast<ffi::MetadataExtension*>(frame->extension_start)->metadata;
  metadata->api_version.major = 0;
  metadata->api_version.minor = 3;
  metadata->traits = 0;
  return true;
}

int64_t count(const ffi::Buffer& buffer) {
  int64_t elements = 1;
  for (int64_t d = 0; d < buffer.rank; ++d) elements *= buffer.dims[d];
  return elements;
}

ffi::Error* fail(ffi::CallFrame* frame, int32_t code, const char* message) {
  ffi::ErrorCreateArgs args{};
  args.struct_size = sizeof(args);
  args.message = message;
  args.code = code;
  return frame->api->error_create(&args);
}

}  // namespace

// out = a + b, of f32.
extern "C" MYDEV_EXPORT ffi::Error* typed_add(ffi::CallFrame* frame) {
  if (answer_metadata(frame)) return nullptr;
  const auto& a = *static_cast<const ffi::Buffer*>(frame->arguments.values[0]);
  const auto& b = *static_cast<const ffi::Buffer*>(frame->arguments.values[1]);
  const auto& out = *static_cast<const ffi::Buffer*>(frame->results.values[0]);
  if (a.dtype != MYDEV_F32) return fail(frame, MYDEV_INVALID_ARGUMENT, "operand 0 is not f32");
  const auto* x = static_cast<const float*>(a.data);
  const auto* y = static_cast<const float*>(b.data);
  auto* z = static_cast<float*>(out.data);
  const int64_t size = count(out);
  for (int64_t i = 0; i < size; ++i) z[i] = x[i] + y[i];
  return nullptr;
}

// out = scale * a; `scale` must be f32.
extern "C" MYDEV_EXPORT ffi::Error* typed_scale(ffi::CallFrame* frame) {
  if (answer_metadata(frame)) return nullptr;
  const auto& a = *static_cast<const ffi::Buffer*>(frame->arguments.values[0]);
  const auto& out = *static_cast<const ffi::Buffer*>(frame->results.values[0]);
  if (frame->attributes.size != 1 || frame->attributes.types[0] != ffi::kScalar) {
    return fail(frame, MYDEV_INVALID_ARGUMENT, "the attribute scale is missing");
  }
  const auto& scale = *static_cast<const ffi::Scalar*>(frame->attributes.values[0]);
  if (scale.dtype != MYDEV_F32) return fail(frame, MYDEV_INVALID_ARGUMENT, "the attribute scale is not f32");
  for (int64_t i = 0; i < count(out); ++i) {
    static_cast<float*>(out.data)[i] = *static_cast<const float*>(scale.value) * static_cast<const float*>(a.data)[i];
  }
  return nullptr;
}

// Three elements: out = in[0] + in[1].
extern "C" MYDEV_EXPORT void original_add(void* out, const void** in) {
  for (int i = 0; i < 3; ++i) {
    static_cast<float*>(out)[i] = static_cast<const float*>(in[0])[i] + static_cast<const float*>(in[1])[i];
  }
}

// Three elements, as a tuple of one.
extern "C" MYDEV_EXPORT void original_tuple(void* out, const void** in) {
  std::memcpy(static_cast<void**>(out)[0], in[0], 3 * sizeof(float));
}

// The opaque bytes, and how many there are, into eight bytes.
extern "C" MYDEV_EXPORT void unified_opaque(void* out, const void** /*in*/, const char* opaque, size_t size,
                                            void* /*status*/) {
  auto* bytes = static_cast<unsigned char*>(out);
  std::memset(bytes, 0, 8);
  bytes[0] = static_cast<unsigned char>(size);
  std::memcpy(bytes + 1, opaque, size < 7 ? size : 7);
}
