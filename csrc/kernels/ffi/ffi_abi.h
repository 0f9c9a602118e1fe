// XLA's typed foreign function interface, as a binary layout: the structs, numbers and table of its versions 0.1 to
// 0.5, declared by us under our own names. Handlers that were compiled against XLA's headers see these bytes.
//
// kXyzSize is the `struct_size` that the other side gives or expects: usually up to the end of the last field, without
// padding, in a few structs shorter than the struct (each is marked). A version is 0.minor; where a struct differs
// between versions there is one per layout, its name ending in the last version that has it, or one whose last fields
// only later versions have, which struct_size tells.
#pragma once

#include <cstddef>
#include <cstdint>

namespace mydev::ffi {

inline constexpr int kMajor = 0;
inline constexpr int kMinMinor = 1;
inline constexpr int kMaxMinor = 5;

// --- extensions and versions -----------------------------------------------------------------------------------------

enum ExtensionType : int32_t { kMetadataExtension = 1 };

struct Extension {
  size_t struct_size;
  int32_t type;  // ExtensionType
  Extension* next;
};

struct ApiVersion {
  size_t struct_size;
  Extension* extension_start;
  int32_t major;
  int32_t minor;
};

// --- opaque types, each with the host's own body (ffi_host.h) --------------------------------------------------------

struct Error;             // nullptr: no error
struct ExecutionContext;  // of one call; InvokeContext from 0.4
struct Future;

// --- numbers ---------------------------------------------------------------------------------------------------------

// Data types and error codes have the numbers of mydev_dtype and mydev_code.
enum BufferType : int32_t { kBuffer = 1 };  // of an argument, and of a result
enum AttributeType : int32_t { kArray = 1, kDictionary = 2, kScalar = 3, kString = 4 };
// From 0.4 there is a stage 4, record, for devices that record commands to replay them later.
enum Stage : int32_t { kInstantiate = 0, kPrepare = 1, kInitialize = 2, kExecute = 3 };
inline constexpr int kNumStages = 4;
inline constexpr uint32_t kCommandBufferCompatible = 1;  // a trait

// --- values ----------------------------------------------------------------------------------------------------------

struct Buffer {  // dense, row-major
  size_t struct_size;
  Extension* extension_start;
  int32_t dtype;
  void* data;
  int64_t rank;
  int64_t* dims;
};
struct ByteSpan {
  const char* data;
  size_t size;
};
struct Scalar {
  int32_t dtype;
  const void* value;
};
struct Array {
  int32_t dtype;
  size_t size;
  const void* data;
};
struct TypeId {
  int64_t id;  // 0: not registered
};
struct TypeInfo {
  size_t struct_size;
  Extension* extension_start;
  void (*deleter)(void* object);
};

struct Arguments {
  size_t struct_size;
  Extension* extension_start;
  int64_t size;
  const int32_t* types;  // BufferType
  void** values;         // Buffer*
};
using Results = Arguments;

struct Attributes {
  size_t struct_size;
  Extension* extension_start;
  int64_t size;
  const int32_t* types;          // AttributeType
  const ByteSpan* const* names;  // in ascending order
  const void* const* values;     // Array*, Attributes*, Scalar* or ByteSpan*
};

// --- the call --------------------------------------------------------------------------------------------------------

struct Api;

struct CallFrame {
  size_t struct_size;
  Extension* extension_start;
  const Api* api;
  ExecutionContext* context;
  int32_t stage;
  Arguments arguments;
  Results results;
  Attributes attributes;
  Future* future;  // out; not counted in struct_size
};
inline constexpr size_t kCallFrameSize = offsetof(CallFrame, future);  // short; handlers insist on exactly this

using Handler = Error* (*)(CallFrame* frame);

struct Metadata {
  size_t struct_size;
  ApiVersion api_version;
  uint32_t traits;
  TypeId state_type_id;  // from 0.2
};
struct MetadataExtension {
  Extension extension;
  Metadata* metadata;
};

struct HandlerBundle3 {
  Handler stages[kNumStages];  // by Stage
};
struct HandlerBundle {  // from 0.4
  Handler stages[kNumStages];
  Handler record;
};

// --- arguments of the table's functions ------------------------------------------------------------------------------

struct ErrorCreateArgs {
  size_t struct_size;
  Extension* extension_start;
  const char* message;
  int32_t code;
};
struct ErrorGetDetailsArgs {  // ErrorGetMessage to 0.3
  size_t struct_size;
  Extension* extension_start;
  Error* error;
  const char* message;  // out
  int32_t code;         // out, from 0.4
};
struct ErrorDestroyArgs {
  size_t struct_size;
  Extension* extension_start;
  Error* error;
};
struct HandlerRegisterArgs3 {
  size_t struct_size;
  Extension* extension_start;
  ByteSpan name;
  ByteSpan platform;
  HandlerBundle3 bundle;
  uint32_t traits;
};
struct HandlerRegisterArgs {  // from 0.4
  size_t struct_size;
  Extension* extension_start;
  ByteSpan name;
  ByteSpan platform;
  HandlerBundle bundle;
  uint32_t traits;
};
struct TypeRegisterArgs {
  size_t struct_size;
  Extension* extension_start;
  ByteSpan name;
  TypeId* type_id;            // in-out
  const TypeInfo* type_info;  // from 0.2; not counted in struct_size
};
inline constexpr size_t kTypeRegisterArgsSize = offsetof(TypeRegisterArgs, type_info);  // short
struct ContextGetArgs {
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  const TypeId* type_id;
  void* data;  // out
};
struct StateSetArgs1 {  // 0.1
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  const TypeId* type_id;
  void* state;
  void (*deleter)(void* state);
};
struct StateSetArgs2 {  // 0.2
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  const TypeId* type_id;
  void* state;
};
struct StateSetArgs3 {  // from 0.3
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  int32_t stage;
  const TypeId* type_id;
  void* state;
};
using StateGetArgs2 = StateSetArgs2;  // 0.1, 0.2; state is out
using StateGetArgs3 = StateSetArgs3;  // from 0.3; state is out
struct StreamGetArgs {
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  void* stream;  // out
};
struct MemoryAllocateArgs {
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  size_t size;
  size_t alignment;
  void* data;  // out
};
struct MemoryFreeArgs {
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  size_t size;
  void* data;
};
using Task = void (*)(void* data);
struct ThreadPoolScheduleArgs {
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  Task task;
  void* data;
};
struct ThreadPoolNumThreadsArgs {
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  int64_t* num_threads;  // out
};
struct FutureCreateArgs {
  size_t struct_size;
  Extension* extension_start;
  Future* future;  // out; not counted in struct_size
};
inline constexpr size_t kFutureCreateArgsSize = offsetof(FutureCreateArgs, future);  // short
struct FutureSetAvailableArgs {
  size_t struct_size;
  Extension* extension_start;
  Future* future;
};
struct FutureSetErrorArgs {
  size_t struct_size;
  Extension* extension_start;
  Future* future;
  Error* error;  // the host's from now on
};
struct RunIdGetArgs {
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  int64_t run_id;  // out
};
struct DeviceOrdinalGetArgs {
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  int32_t ordinal;  // out
};
struct ContextExtension {  // what a device's runtime adds to a context, by types that it defines
  size_t struct_size;
  int64_t type;
  int32_t major;
  int32_t minor;
  const ContextExtension* next;
};
struct FindExtensionArgs {  // from 0.4
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  int64_t type;
  const ContextExtension* extension;  // out; nullptr: there is none
};
struct CustomOptionsGetArgs {  // from 0.5
  size_t struct_size;
  Extension* extension_start;
  ExecutionContext* context;
  const Attributes* options;  // out
};

// --- the table -------------------------------------------------------------------------------------------------------

// State functions take the arguments of the table's own version; registration takes those of any. In a table of 0.1
// nothing after thread_pool_schedule has a fixed place: thread_pool_num_threads came in between without a new version.
struct Api {
  size_t struct_size;
  Extension* extension_start;
  ApiVersion api_version;
  const void* internal_api;
  Error* (*error_create)(ErrorCreateArgs* args);
  void (*error_get_details)(ErrorGetDetailsArgs* args);
  void (*error_destroy)(ErrorDestroyArgs* args);
  Error* (*handler_register)(void* args);
  Error* (*stream_get)(StreamGetArgs* args);
  Error* (*type_register)(TypeRegisterArgs* args);
  Error* (*context_get)(ContextGetArgs* args);
  Error* (*state_set)(void* args);
  Error* (*state_get)(void* args);
  Error* (*memory_allocate)(MemoryAllocateArgs* args);
  Error* (*memory_free)(MemoryFreeArgs* args);
  Error* (*thread_pool_schedule)(ThreadPoolScheduleArgs* args);
  Error* (*thread_pool_num_threads)(ThreadPoolNumThreadsArgs* args);
  Error* (*future_create)(FutureCreateArgs* args);
  Error* (*future_set_available)(FutureSetAvailableArgs* args);
  Error* (*future_set_error)(FutureSetErrorArgs* args);
  Error* (*run_id_get)(RunIdGetArgs* args);
  Error* (*device_ordinal_get)(DeviceOrdinalGetArgs* args);
  Error* (*find_extension)(FindExtensionArgs* args);         // from 0.4
  Error* (*custom_options_get)(CustomOptionsGetArgs* args);  // from 0.5
};
inline constexpr size_t kApiSize3 = offsetof(Api, find_extension);  // of 0.2 and 0.3
inline constexpr size_t kApiSize4 = offsetof(Api, custom_options_get);

// The size that counts: up to the end of the last field.
#define MYDEV_FFI_SIZE(type, last_field) (offsetof(type, last_field) + sizeof(type::last_field))
inline constexpr size_t kErrorCreateArgsSize = MYDEV_FFI_SIZE(ErrorCreateArgs, code);
inline constexpr size_t kErrorGetMessageArgsSize = MYDEV_FFI_SIZE(ErrorGetDetailsArgs, message);  // to 0.3
inline constexpr size_t kErrorGetDetailsArgsSize = MYDEV_FFI_SIZE(ErrorGetDetailsArgs, code);
inline constexpr size_t kHandlerRegisterArgsSize3 = MYDEV_FFI_SIZE(HandlerRegisterArgs3, traits);
inline constexpr size_t kHandlerRegisterArgsSize = MYDEV_FFI_SIZE(HandlerRegisterArgs, traits);
inline constexpr size_t kDeviceOrdinalGetArgsSize = MYDEV_FFI_SIZE(DeviceOrdinalGetArgs, ordinal);
inline constexpr size_t kMetadataSize = MYDEV_FFI_SIZE(Metadata, traits);  // short
#undef MYDEV_FFI_SIZE

// --- the layouts that XLA's headers have -----------------------------------------------------------------------------

static_assert(sizeof(void*) == 8, "the layouts are those of 64-bit systems");
static_assert(sizeof(Extension) == 24 && offsetof(Extension, type) == 8 && offsetof(Extension, next) == 16);
static_assert(sizeof(ApiVersion) == 24 && offsetof(ApiVersion, major) == 16 && offsetof(ApiVersion, minor) == 20);
static_assert(sizeof(Buffer) == 48 && offsetof(Buffer, dtype) == 16 && offsetof(Buffer, data) == 24 &&
              offsetof(Buffer, rank) == 32 && offsetof(Buffer, dims) == 40);
static_assert(sizeof(ByteSpan) == 16 && sizeof(Scalar) == 16 && offsetof(Scalar, value) == 8);
static_assert(sizeof(Array) == 24 && offsetof(Array, size) == 8 && offsetof(Array, data) == 16);
static_assert(sizeof(TypeId) == 8 && sizeof(TypeInfo) == 24 && offsetof(TypeInfo, deleter) == 16);
static_assert(sizeof(Arguments) == 40 && offsetof(Arguments, size) == 16 && offsetof(Arguments, types) == 24 &&
              offsetof(Arguments, values) == 32);
static_assert(sizeof(Attributes) == 48 && offsetof(Attributes, types) == 24 && offsetof(Attributes, names) == 32 &&
              offsetof(Attributes, values) == 40);
static_assert(sizeof(CallFrame) == 176 && kCallFrameSize == 168 && offsetof(CallFrame, api) == 16 &&
              offsetof(CallFrame, context) == 24 && offsetof(CallFrame, stage) == 32 &&
              offsetof(CallFrame, arguments) == 40 && offsetof(CallFrame, results) == 80 &&
              offsetof(CallFrame, attributes) == 120 && offsetof(CallFrame, future) == 168);
static_assert(sizeof(Metadata) == 48 && kMetadataSize == 36 && offsetof(Metadata, api_version) == 8 &&
              offsetof(Metadata, traits) == 32 && offsetof(Metadata, state_type_id) == 40);
static_assert(sizeof(MetadataExtension) == 32 && offsetof(MetadataExtension, metadata) == 24);
static_assert(sizeof(HandlerBundle3) == 32 && sizeof(HandlerBundle) == 40);
static_assert(sizeof(ErrorCreateArgs) == 32 && kErrorCreateArgsSize == 28 && offsetof(ErrorCreateArgs, code) == 24);
static_assert(kErrorGetMessageArgsSize == 32 && sizeof(ErrorDestroyArgs) == 24);
static_assert(sizeof(ErrorGetDetailsArgs) == 40 && kErrorGetDetailsArgsSize == 36 &&
              offsetof(ErrorGetDetailsArgs, message) == 24);
static_assert(sizeof(HandlerRegisterArgs3) == 88 && kHandlerRegisterArgsSize3 == 84 &&
              offsetof(HandlerRegisterArgs3, bundle) == 48 && offsetof(HandlerRegisterArgs3, traits) == 80);
static_assert(sizeof(HandlerRegisterArgs) == 96 && kHandlerRegisterArgsSize == 92 &&
              offsetof(HandlerRegisterArgs, bundle) == 48 && offsetof(HandlerRegisterArgs, traits) == 88);
static_assert(sizeof(TypeRegisterArgs) == 48 && kTypeRegisterArgsSize == 40);
static_assert(sizeof(ContextGetArgs) == 40 && offsetof(ContextGetArgs, data) == 32);
static_assert(sizeof(StateSetArgs1) == 48 && sizeof(StateSetArgs2) == 40 && sizeof(StateSetArgs3) == 48);
static_assert(offsetof(StateSetArgs1, type_id) == 24 && offsetof(StateSetArgs1, deleter) == 40);
static_assert(offsetof(StateSetArgs3, stage) == 24 && offsetof(StateSetArgs3, type_id) == 32);
static_assert(sizeof(StreamGetArgs) == 32 && sizeof(MemoryAllocateArgs) == 48 && sizeof(MemoryFreeArgs) == 40);
static_assert(sizeof(ThreadPoolScheduleArgs) == 40 && sizeof(ThreadPoolNumThreadsArgs) == 32);
static_assert(sizeof(FutureCreateArgs) == 24 && kFutureCreateArgsSize == 16);
static_assert(sizeof(FutureSetAvailableArgs) == 24 && sizeof(FutureSetErrorArgs) == 32);
static_assert(sizeof(RunIdGetArgs) == 32 && sizeof(DeviceOrdinalGetArgs) == 32 && kDeviceOrdinalGetArgsSize == 28);
static_assert(sizeof(ContextExtension) == 32 && offsetof(ContextExtension, type) == 8 &&
              offsetof(ContextExtension, major) == 16 && offsetof(ContextExtension, next) == 24);
static_assert(sizeof(FindExtensionArgs) == 40 && offsetof(FindExtensionArgs, type) == 24 &&
              offsetof(FindExtensionArgs, extension) == 32);
static_assert(sizeof(CustomOptionsGetArgs) == 32 && offsetof(CustomOptionsGetArgs, options) == 24);
static_assert(sizeof(Api) == 208 && kApiSize3 == 192 && kApiSize4 == 200 && offsetof(Api, api_version) == 16 &&
              offsetof(Api, internal_api) == 40 && offsetof(Api, error_create) == 48 &&
              offsetof(Api, error_get_details) == 56 && offsetof(Api, stream_get) == 80 &&
              offsetof(Api, state_set) == 104 && offsetof(Api, thread_pool_schedule) == 136 &&
              offsetof(Api, future_create) == 152 && offsetof(Api, device_ordinal_get) == 184);

}  // namespace mydev::ffi
