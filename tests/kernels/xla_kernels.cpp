// Functions of XLA's kinds, for registering one by one, under their own names; and some of them as a library of kernels
// with signatures.
#include <cstring>

#include "kernels/ffi/ffi_abi.h"
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

constexpr uint64_t kF32 = MYDEV_DTYPE_BIT(MYDEV_F32);

constexpr mydev_operand operand(const char* name) {
  return {sizeof(mydev_operand), name, kF32, -1, -1, 0, -1, 0, nullptr};
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

// --- as a library ----------------------------------------------------------------------------------------------------

namespace {

constexpr mydev_operand kA = operand("a"), kB = operand("b"), kOut = operand("out");
constexpr const mydev_operand* kOperands[] = {&kA, &kB};
constexpr const mydev_operand* kResults[] = {&kOut};
constexpr mydev_attribute_spec kScale = {sizeof(mydev_attribute_spec),
                                         {"scale", MYDEV_ATTRIBUTE_FLOAT, MYDEV_F32, 0, {}},
                                         MYDEV_ATTRIBUTE_REQUIRED,
                                         nullptr};
constexpr const mydev_attribute_spec* kAttributes[] = {&kScale};

mydev_signature signature(uint32_t num_operands, uint32_t num_attributes, const char* shapes) {
  mydev_signature signature{};
  signature.struct_size = sizeof(signature);
  signature.operands = kOperands;
  signature.num_operands = num_operands;
  signature.results = kResults;
  signature.num_results = 1;
  signature.attributes = kAttributes;
  signature.num_attributes = num_attributes;
  signature.shapes = shapes;
  return signature;
}

mydev_kernel typed_kernel(const char* name, ffi::Error* (*execute)(ffi::CallFrame*), const mydev_signature& signature) {
  mydev_kernel kernel{};
  kernel.struct_size = sizeof(kernel);
  kernel.name = name;
  kernel.kind = MYDEV_KIND_TYPED_FFI;
  kernel.execute = reinterpret_cast<mydev_function>(execute);
  kernel.signature = &signature;
  return kernel;
}

const mydev_signature kAddSignature = signature(2, 0, "(n),(n)->(n)");
const mydev_signature kScaleSignature = signature(1, 1, "(...)->(...)");
const mydev_kernel kAdd = typed_kernel("typed.add", typed_add, kAddSignature);
const mydev_kernel kScaleKernel = typed_kernel("typed.scale", typed_scale, kScaleSignature);

}  // namespace

extern "C" MYDEV_EXPORT const mydev_library* mydev_custom_call_query(uint32_t version_major, uint32_t) {
  static const mydev_kernel* const kernels[] = {&kAdd, &kScaleKernel};
  static const mydev_library library = {sizeof(mydev_library),
                                        MYDEV_CUSTOM_CALL_VERSION_MAJOR,
                                        MYDEV_CUSTOM_CALL_VERSION_MINOR,
                                        "xla_kernels",
                                        "1.0",
                                        kernels,
                                        2};
  return version_major == MYDEV_CUSTOM_CALL_VERSION_MAJOR ? &library : nullptr;
}
