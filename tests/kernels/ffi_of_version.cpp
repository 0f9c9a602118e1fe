// Handlers built with the headers of one jaxlib, whose layouts are compared with ours: what a version has that others
// lack. Its kernels register themselves, under the names "<prefix>.…".
#include <cstddef>
#include <string>

#include "kernels/ffi/ffi_abi.h"
#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"

namespace ours = mydev::ffi;
namespace ffi = xla::ffi;

// --- layouts ---------------------------------------------------------------------------------------------------------

static_assert(XLA_FFI_API_MAJOR == ours::kMajor && XLA_FFI_API_MINOR <= ours::kMaxMinor);
static_assert(XLA_FFI_CallFrame_STRUCT_SIZE == ours::kCallFrameSize);
static_assert(sizeof(XLA_FFI_CallFrame) == sizeof(ours::CallFrame));
static_assert(XLA_FFI_Metadata_STRUCT_SIZE == ours::kMetadataSize && sizeof(XLA_FFI_Metadata) == 48);
static_assert(XLA_FFI_Type_Register_Args_STRUCT_SIZE == ours::kTypeRegisterArgsSize);
static_assert(XLA_FFI_Future_Create_Args_STRUCT_SIZE == ours::kFutureCreateArgsSize);
static_assert(XLA_FFI_Error_Create_Args_STRUCT_SIZE == ours::kErrorCreateArgsSize);
static_assert(XLA_FFI_DeviceOrdinal_Get_Args_STRUCT_SIZE == ours::kDeviceOrdinalGetArgsSize);
static_assert(sizeof(XLA_FFI_State_Set_Args) == sizeof(ours::StateSetArgs3));
static_assert(sizeof(XLA_FFI_DeviceMemory_Allocate_Args) == sizeof(ours::MemoryAllocateArgs));
static_assert(sizeof(XLA_FFI_ThreadPool_Schedule_Args) == sizeof(ours::ThreadPoolScheduleArgs));
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_Error_Create) == offsetof(ours::Api, error_create));
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_Handler_Register) == offsetof(ours::Api, handler_register));
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_State_Set) == offsetof(ours::Api, state_set));
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_Future_SetError) == offsetof(ours::Api, future_set_error));
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get) == offsetof(ours::Api, device_ordinal_get));
#if XLA_FFI_API_MINOR <= 3
static_assert(sizeof(XLA_FFI_Handler_Bundle) == sizeof(ours::HandlerBundle3));
static_assert(XLA_FFI_Handler_Register_Args_STRUCT_SIZE == ours::kHandlerRegisterArgsSize3);
static_assert(XLA_FFI_Error_GetMessage_Args_STRUCT_SIZE == ours::kErrorGetMessageArgsSize);
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_Error_GetMessage) == offsetof(ours::Api, error_get_details));
static_assert(XLA_FFI_Api_STRUCT_SIZE == ours::kApiSize3);
#else
static_assert(sizeof(XLA_FFI_Handler_Bundle) == sizeof(ours::HandlerBundle));
static_assert(offsetof(XLA_FFI_Handler_Bundle, record) == offsetof(ours::HandlerBundle, record));
static_assert(XLA_FFI_Handler_Register_Args_STRUCT_SIZE == ours::kHandlerRegisterArgsSize);
static_assert(offsetof(XLA_FFI_Handler_Register_Args, traits) == offsetof(ours::HandlerRegisterArgs, traits));
static_assert(XLA_FFI_Error_GetDetails_Args_STRUCT_SIZE == ours::kErrorGetDetailsArgsSize);
static_assert(offsetof(XLA_FFI_Error_GetDetails_Args, errc) == offsetof(ours::ErrorGetDetailsArgs, code));
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_Error_GetDetails) == offsetof(ours::Api, error_get_details));
static_assert(XLA_FFI_InvokeContext_FindExtension_Args_STRUCT_SIZE == sizeof(ours::FindExtensionArgs));
static_assert(offsetof(XLA_FFI_InvokeContext_FindExtension_Args, extension) ==
              offsetof(ours::FindExtensionArgs, extension));
static_assert(sizeof(XLA_FFI_Extension) == sizeof(ours::ContextExtension));
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_InvokeContext_FindExtension) == offsetof(ours::Api, find_extension));
static_assert(XLA_FFI_Api_STRUCT_SIZE == (XLA_FFI_API_MINOR == 4 ? ours::kApiSize4 : sizeof(ours::Api)));
#endif
#if XLA_FFI_API_MINOR >= 5
static_assert(XLA_FFI_CustomOptions_Get_Args_STRUCT_SIZE == sizeof(ours::CustomOptionsGetArgs));
static_assert(offsetof(XLA_FFI_CustomOptions_Get_Args, attrs) == offsetof(ours::CustomOptionsGetArgs, options));
static_assert(offsetof(XLA_FFI_Api, XLA_FFI_CustomOptions_Get) == offsetof(ours::Api, custom_options_get));
#endif

// --- handlers --------------------------------------------------------------------------------------------------------

// A handler gets these from the table itself: the api and the context of its call.
struct Raw {};
struct RawContext {
  const XLA_FFI_Api* api;
  void* context;
};
namespace xla::ffi {
template <>
struct CtxDecoding<Raw> {
  using Type = RawContext;
  template <typename Context>
  static std::optional<Type> Decode(const XLA_FFI_Api* api, Context* context, DiagnosticEngine&) {
    return RawContext{api, context};
  }
};
}  // namespace xla::ffi

static ffi::Error Scale(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> out, ffi::ScratchAllocator scratch,
                        float factor) {
  if (factor < 0) return ffi::Error(ffi::ErrorCode::kOutOfRange, "factor is negative");
  if (!scratch.Allocate(64, 64)) return ffi::Error::Internal("scratch");
  for (size_t i = 0; i < x.element_count(); ++i) out->typed_data()[i] = factor * x.typed_data()[i];
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(
    kScale, Scale,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>().Ctx<ffi::ScratchAllocator>().Attr<float>(
        "factor"),
    {ffi::Traits::kCmdBufferCompatible});

// out[0] is the code of an error of the host, out[1] the length of its message.
static ffi::Error Details(ffi::ResultBuffer<ffi::F32> out, RawContext raw) {
  XLA_FFI_Stream_Get_Args too_short{};
  XLA_FFI_Error* error = raw.api->XLA_FFI_Stream_Get(&too_short);
  if (error == nullptr) return ffi::Error::Internal("no error");
#if XLA_FFI_API_MINOR >= 4
  const auto details = ffi::internal::GetErrorDetails(raw.api, error);
  out->typed_data()[0] = static_cast<float>(details.errc);
  out->typed_data()[1] = static_cast<float>(std::string(details.message).size());
#else
  out->typed_data()[0] = 0;
  out->typed_data()[1] = static_cast<float>(std::string(ffi::internal::GetErrorMessage(raw.api, error)).size());
#endif
  ffi::internal::DestroyError(raw.api, error);
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kDetails, Details, ffi::Ffi::Bind().Ret<ffi::Buffer<ffi::F32>>().Ctx<Raw>());

#define REGISTER(name, ...) XLA_FFI_REGISTER_HANDLER(XLA_FFI_GetApi(), PREFIX "." name, "Host", __VA_ARGS__)
REGISTER("details", kDetails);

#if XLA_FFI_API_MINOR >= 4
struct Unknown {
  using Type = int;
  using CExtension = XLA_FFI_Extension;
  static Type Create(const XLA_FFI_Api*, const CExtension*) { return 0; }
  static constexpr int64_t kExtensionType = 12345;
  static constexpr int32_t kMajorVersion = 0, kMinorVersion = 1;
  static constexpr const char* kName = "Unknown";
};
static ffi::Error Extend(ffi::ResultBuffer<ffi::F32>, int) {
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kExtend, Extend, ffi::Ffi::Bind().Ret<ffi::Buffer<ffi::F32>>().Ctx<ffi::Extension<Unknown>>());
REGISTER("extend", kExtend);

static ffi::Error Record(ffi::RemainingArgs, ffi::RemainingRets) {
  return ffi::Error::Internal("nothing here records");
}
XLA_FFI_DEFINE_HANDLER(kRecord, Record, ffi::Ffi::BindRecord().RemainingArgs().RemainingRets());
extern "C" XLA_FFI_Handler* const record_handler = kRecord;
static constexpr XLA_FFI_Handler_Bundle kScaleBundle = {nullptr, nullptr, nullptr, kScale, kRecord};
#else
static constexpr XLA_FFI_Handler_Bundle kScaleBundle = {nullptr, nullptr, nullptr, kScale};
#endif
REGISTER("scale", kScaleBundle, XLA_FFI_HANDLER_TRAITS_COMMAND_BUFFER_COMPATIBLE);
extern "C" XLA_FFI_Handler* const scale_handler = kScale;

#if XLA_FFI_API_MINOR >= 5
static ffi::Error Options(ffi::ResultBuffer<ffi::F32> out, ffi::Dictionary options) {
  out->typed_data()[0] = static_cast<float>(options.size());
  return ffi::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kOptions, Options, ffi::Ffi::Bind().Ret<ffi::Buffer<ffi::F32>>().Ctx<ffi::CustomOptions>());
REGISTER("options", kOptions);
#endif
