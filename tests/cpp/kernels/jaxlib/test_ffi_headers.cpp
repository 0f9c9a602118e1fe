// XLA's own headers, as the installed jaxlib ships them, against our declarations; and handlers built with those
// headers, run by our host. Built where jaxlib is installed.
#include <atomic>
#include <cstdint>
#include <numeric>
#include <thread>

#include "../ffi_fixture.h"
#include "kernels/ffi/ffi_abi.h"
#include "runtime/stream/stream_table.h"
#include "xla/ffi/api/c_api.h"
#include "xla/ffi/api/ffi.h"

namespace mydev {
namespace {

namespace xf = ::xla::ffi;

// --- layouts ---------------------------------------------------------------------------------------------------------

TEST(FfiHeaders, AreOfAVersionThatTheHostKnows) {
  EXPECT_EQ(XLA_FFI_API_MAJOR, ffi::kMajor);
  EXPECT_EQ(XLA_FFI_API_MINOR, 3);  // tests/custom_call/test_ffi_versions.py has later ones
}

struct Layout {
  const char* what;
  size_t theirs, ours;
};
class Layouts : public testing::TestWithParam<Layout> {};

#define SIZE(theirs, ours)                               \
  Layout {                                               \
    "sizeof " #theirs, sizeof(theirs), sizeof(ffi::ours) \
  }
#define COUNTED(theirs, ours)                          \
  Layout {                                             \
    #theirs "_STRUCT_SIZE", theirs##_STRUCT_SIZE, ours \
  }
#define OFFSET(theirs, field, ours, our_field)                                  \
  Layout {                                                                      \
    #theirs "." #field, offsetof(theirs, field), offsetof(ffi::ours, our_field) \
  }
INSTANTIATE_TEST_SUITE_P(
    FfiHeaders, Layouts,
    testing::Values(
        SIZE(XLA_FFI_Extension_Base, Extension), SIZE(XLA_FFI_Api_Version, ApiVersion), SIZE(XLA_FFI_Buffer, Buffer),
        SIZE(XLA_FFI_ByteSpan, ByteSpan), SIZE(XLA_FFI_Scalar, Scalar), SIZE(XLA_FFI_Array, Array),
        SIZE(XLA_FFI_TypeId, TypeId), SIZE(XLA_FFI_TypeInfo, TypeInfo), SIZE(XLA_FFI_Args, Arguments),
        SIZE(XLA_FFI_Rets, Results), SIZE(XLA_FFI_Attrs, Attributes), SIZE(XLA_FFI_CallFrame, CallFrame),
        SIZE(XLA_FFI_Metadata, Metadata), SIZE(XLA_FFI_Metadata_Extension, MetadataExtension),
        SIZE(XLA_FFI_Handler_Bundle, HandlerBundle3), SIZE(XLA_FFI_Error_Create_Args, ErrorCreateArgs),
        SIZE(XLA_FFI_Error_Destroy_Args, ErrorDestroyArgs), SIZE(XLA_FFI_Handler_Register_Args, HandlerRegisterArgs3),
        SIZE(XLA_FFI_Type_Register_Args, TypeRegisterArgs), SIZE(XLA_FFI_ExecutionContext_Get_Args, ContextGetArgs),
        SIZE(XLA_FFI_State_Set_Args, StateSetArgs3), SIZE(XLA_FFI_State_Get_Args, StateGetArgs3),
        SIZE(XLA_FFI_Stream_Get_Args, StreamGetArgs), SIZE(XLA_FFI_DeviceMemory_Allocate_Args, MemoryAllocateArgs),
        SIZE(XLA_FFI_DeviceMemory_Free_Args, MemoryFreeArgs),
        SIZE(XLA_FFI_ThreadPool_Schedule_Args, ThreadPoolScheduleArgs),
        SIZE(XLA_FFI_ThreadPool_NumThreads_Args, ThreadPoolNumThreadsArgs),
        SIZE(XLA_FFI_Future_Create_Args, FutureCreateArgs),
        SIZE(XLA_FFI_Future_SetAvailable_Args, FutureSetAvailableArgs),
        SIZE(XLA_FFI_Future_SetError_Args, FutureSetErrorArgs), SIZE(XLA_FFI_RunId_Get_Args, RunIdGetArgs),
        SIZE(XLA_FFI_DeviceOrdinal_Get_Args, DeviceOrdinalGetArgs)),
    [](const auto& test) { return std::string(test.param.what + sizeof("sizeof")); });
INSTANTIATE_TEST_SUITE_P(FfiHeadersCounted, Layouts,
                         testing::Values(COUNTED(XLA_FFI_CallFrame, ffi::kCallFrameSize),
                                         COUNTED(XLA_FFI_Metadata, ffi::kMetadataSize),
                                         COUNTED(XLA_FFI_Type_Register_Args, ffi::kTypeRegisterArgsSize),
                                         COUNTED(XLA_FFI_Future_Create_Args, ffi::kFutureCreateArgsSize),
                                         COUNTED(XLA_FFI_Error_Create_Args, ffi::kErrorCreateArgsSize),
                                         COUNTED(XLA_FFI_Error_GetMessage_Args, ffi::kErrorGetMessageArgsSize),
                                         COUNTED(XLA_FFI_Handler_Register_Args, ffi::kHandlerRegisterArgsSize3),
                                         COUNTED(XLA_FFI_DeviceOrdinal_Get_Args, ffi::kDeviceOrdinalGetArgsSize),
                                         COUNTED(XLA_FFI_Api, ffi::kApiSize3)),
                         [](const auto& test) { return std::string(test.param.what); });
INSTANTIATE_TEST_SUITE_P(
    FfiHeadersOffsets, Layouts,
    testing::Values(
        OFFSET(XLA_FFI_Extension_Base, type, Extension, type), OFFSET(XLA_FFI_Extension_Base, next, Extension, next),
        OFFSET(XLA_FFI_Buffer, dtype, Buffer, dtype), OFFSET(XLA_FFI_Buffer, data, Buffer, data),
        OFFSET(XLA_FFI_Buffer, rank, Buffer, rank), OFFSET(XLA_FFI_Buffer, dims, Buffer, dims),
        OFFSET(XLA_FFI_Args, args, Arguments, values), OFFSET(XLA_FFI_Rets, rets, Results, values),
        OFFSET(XLA_FFI_Attrs, names, Attributes, names), OFFSET(XLA_FFI_Attrs, attrs, Attributes, values),
        OFFSET(XLA_FFI_CallFrame, api, CallFrame, api), OFFSET(XLA_FFI_CallFrame, ctx, CallFrame, context),
        OFFSET(XLA_FFI_CallFrame, stage, CallFrame, stage), OFFSET(XLA_FFI_CallFrame, args, CallFrame, arguments),
        OFFSET(XLA_FFI_CallFrame, rets, CallFrame, results), OFFSET(XLA_FFI_CallFrame, attrs, CallFrame, attributes),
        OFFSET(XLA_FFI_CallFrame, future, CallFrame, future),
        OFFSET(XLA_FFI_Metadata, api_version, Metadata, api_version),
        OFFSET(XLA_FFI_Metadata, traits, Metadata, traits),
        OFFSET(XLA_FFI_Metadata, state_type_id, Metadata, state_type_id),
        OFFSET(XLA_FFI_State_Set_Args, stage, StateSetArgs3, stage),
        OFFSET(XLA_FFI_State_Set_Args, type_id, StateSetArgs3, type_id),
        OFFSET(XLA_FFI_State_Set_Args, state, StateSetArgs3, state),
        OFFSET(XLA_FFI_Handler_Register_Args, bundle, HandlerRegisterArgs3, bundle),
        OFFSET(XLA_FFI_Type_Register_Args, type_info, TypeRegisterArgs, type_info)),
    [](const auto& test) {
      std::string name = test.param.what;
      std::replace(name.begin(), name.end(), '.', '_');
      return name;
    });
INSTANTIATE_TEST_SUITE_P(FfiHeadersTable, Layouts,
                         testing::Values(OFFSET(XLA_FFI_Api, XLA_FFI_Error_Create, Api, error_create),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_Error_GetMessage, Api, error_get_details),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_Error_Destroy, Api, error_destroy),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_Handler_Register, Api, handler_register),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_Stream_Get, Api, stream_get),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_Type_Register, Api, type_register),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_ExecutionContext_Get, Api, context_get),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_State_Set, Api, state_set),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_State_Get, Api, state_get),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_DeviceMemory_Allocate, Api, memory_allocate),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_DeviceMemory_Free, Api, memory_free),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_ThreadPool_Schedule, Api, thread_pool_schedule),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_ThreadPool_NumThreads, Api,
                                                thread_pool_num_threads),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_Future_Create, Api, future_create),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_Future_SetAvailable, Api, future_set_available),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_Future_SetError, Api, future_set_error),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_RunId_Get, Api, run_id_get),
                                         OFFSET(XLA_FFI_Api, XLA_FFI_DeviceOrdinal_Get, Api, device_ordinal_get)),
                         [](const auto& test) { return std::string(test.param.what + sizeof("XLA_FFI_Api")); });
#undef SIZE
#undef COUNTED
#undef OFFSET

TEST_P(Layouts, AreOurs) {
  EXPECT_EQ(GetParam().theirs, GetParam().ours) << GetParam().what;
}

TEST(FfiHeaders, NumberTypesCodesAndStagesAsWeDo) {
  EXPECT_EQ(XLA_FFI_DataType_F32, static_cast<int>(MYDEV_F32));
  EXPECT_EQ(XLA_FFI_DataType_BF16, static_cast<int>(MYDEV_BF16));
  EXPECT_EQ(XLA_FFI_DataType_C128, static_cast<int>(MYDEV_C128));
  EXPECT_EQ(XLA_FFI_DataType_F8E4M3FN, static_cast<int>(MYDEV_F8E4M3FN));
  EXPECT_EQ(XLA_FFI_Error_Code_UNAUTHENTICATED, static_cast<int>(MYDEV_UNAUTHENTICATED));
  EXPECT_EQ(XLA_FFI_AttrType_ARRAY, static_cast<int>(ffi::kArray));
  EXPECT_EQ(XLA_FFI_AttrType_DICTIONARY, static_cast<int>(ffi::kDictionary));
  EXPECT_EQ(XLA_FFI_AttrType_SCALAR, static_cast<int>(ffi::kScalar));
  EXPECT_EQ(XLA_FFI_AttrType_STRING, static_cast<int>(ffi::kString));
  EXPECT_EQ(XLA_FFI_ExecutionStage_EXECUTE, static_cast<int>(ffi::kExecute));
  EXPECT_EQ(XLA_FFI_Extension_Metadata, static_cast<int>(ffi::kMetadataExtension));
}

// --- handlers --------------------------------------------------------------------------------------------------------

mydev_kernel xla_record(const char* name, XLA_FFI_Handler* execute, XLA_FFI_Handler* instantiate = nullptr,
                        XLA_FFI_Handler* prepare = nullptr) {
  const auto as_ours = [](XLA_FFI_Handler* handler) { return reinterpret_cast<ffi::Handler>(handler); };
  return ffi_record(name, as_ours(execute), as_ours(instantiate), as_ours(prepare));
}

const XLA_FFI_Api* table() {
  return reinterpret_cast<const XLA_FFI_Api*>(&ffi::api_table(XLA_FFI_API_MINOR));
}

xf::Error scale_add(xf::Buffer<xf::F32> a, xf::BufferR1<xf::F32> b, xf::ResultBuffer<xf::F32> out, float factor,
                    std::string_view label, xf::Span<const int64_t> dims, xf::Dictionary more) {
  if (label != "label" || dims.size() != 2 || dims[1] != -1) return xf::Error::Internal("label or dims");
  const xf::ErrorOr<int32_t> width = more.get<int32_t>("width");
  if (!width.has_value() || *width != 9) return xf::Error::Internal("dictionary");
  for (size_t i = 0; i < a.element_count(); ++i) {
    out->typed_data()[i] = factor * a.typed_data()[i] + b.typed_data()[i];
  }
  return xf::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kScaleAdd, scale_add,
                       xf::Ffi::Bind()
                           .Arg<xf::Buffer<xf::F32>>()
                           .Arg<xf::BufferR1<xf::F32>>()
                           .Ret<xf::Buffer<xf::F32>>()
                           .Attr<float>("factor")
                           .Attr<std::string_view>("label")
                           .Attr<xf::Span<const int64_t>>("dims")
                           .Attr<xf::Dictionary>("more"),
                       {xf::Traits::kCmdBufferCompatible});

class RealHandlers : public testing::Test {
 protected:
  RealHandlers() {
    width_ = typed(int_attribute("width", 9), MYDEV_S32);
    more_ = {"more", MYDEV_ATTRIBUTE_DICTIONARY, 0, 1, {}};
    more_.value.attributes = &width_;
  }
  std::vector<mydev_attribute> attributes() const {
    return {typed(float_attribute("factor", 2), MYDEV_F32), string_attribute("label", "label"),
            int_array_attribute("dims", dims_), more_};
  }
  const std::array<int64_t, 2> dims_ = {0, -1};
  mydev_attribute width_, more_;
  DeviceArray a_{{3}, 1}, b_{{3}, 10}, out_{{3}};
};

TEST_F(RealHandlers, DecodeOperandsAndAttributes) {
  const ScopedKernel kernel(xla_record("test.scale_add", kScaleAdd));
  EXPECT_EQ((*kernel).traits, MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE);
  run_kernel(*kernel, {out_.buffer(), a_.buffer(), b_.buffer()}, 1, attributes());
  EXPECT_EQ(out_.values(), (std::vector<float>{12, 15, 18}));
}

TEST_F(RealHandlers, SayWhatIsWrongWithTheCall) {
  const ScopedKernel kernel(xla_record("test.scale_add", kScaleAdd));
  expect_error(error_of([&] { run_kernel(*kernel, {out_.buffer(), a_.buffer()}, 1, attributes()); }),
               MYDEV_INVALID_ARGUMENT, "expected 2 but got 1");
  mydev_buffer wrong = b_.buffer();
  wrong.dtype = MYDEV_S32;
  expect_error(error_of([&] { run_kernel(*kernel, {out_.buffer(), a_.buffer(), wrong}, 1, attributes()); }),
               MYDEV_INVALID_ARGUMENT, "S32");
  std::vector<mydev_attribute> wide = attributes();
  wide[0].dtype = 0;
  expect_error(error_of([&] { run_kernel(*kernel, {out_.buffer(), a_.buffer(), b_.buffer()}, 1, wide); }),
               MYDEV_INVALID_ARGUMENT, "factor");
}

xf::Error use_context(xf::ResultBuffer<xf::F32> out, xf::ScratchAllocator scratch, xf::ThreadPool pool, xf::RunId run,
                      int32_t ordinal, void* stream) {
  const std::optional<void*> memory = scratch.Allocate(4096, 64);
  if (!memory) return xf::Error::Internal("scratch");
  auto* numbers = static_cast<float*>(*memory);
  std::atomic<int> left = 8;
  for (int i = 0; i < 8; ++i) {
    pool.Schedule([&, i] {
      numbers[i] = static_cast<float>(i);
      --left;
    });
  }
  // Tasks may run on the thread that schedules them, so nothing is gained by blocking; without a pool all are done.
  while (left != 0) std::this_thread::yield();
  if (pool.num_threads() < 1 || run.run_id == 0 || ordinal != 0 || stream != default_stream(0).handle()) {
    return xf::Error::Internal("context");
  }
  out->typed_data()[0] = std::accumulate(numbers, numbers + 8, 0.0F);
  return xf::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kUseContext, use_context,
                       xf::Ffi::Bind()
                           .Ret<xf::Buffer<xf::F32>>()
                           .Ctx<xf::ScratchAllocator>()
                           .Ctx<xf::ThreadPool>()
                           .Ctx<xf::RunId>()
                           .Ctx<xf::DeviceOrdinal>()
                           .Ctx<xf::PlatformStream<void*>>());

TEST_F(RealHandlers, UseScratchThreadsAndTheDevice) {
  const ScopedKernel kernel(xla_record("test.context", kUseContext));
  DeviceArray out({1});
  run_kernel(*kernel, {out.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{28}));
  run_kernel(*kernel, {out.buffer()}, 1);  // now with the pool
  EXPECT_EQ(out.values(), (std::vector<float>{28}));
}

struct Counter {
  explicit Counter(int64_t first) : value(first) { ++alive; }
  ~Counter() { --alive; }
  static xf::TypeId id;
  static inline std::atomic<int> alive = 0;
  int64_t value;
};
xf::TypeId Counter::id = {};

xf::ErrorOr<std::unique_ptr<Counter>> make_counter(int64_t first) {
  if (first < 0) return xf::Unexpected(xf::Error::InvalidArgument("first is negative"));
  return std::make_unique<Counter>(first);
}
xf::Error count(Counter* counter, xf::ResultBuffer<xf::F32> out, int64_t /*first*/) {
  out->typed_data()[0] = static_cast<float>(counter->value++);
  return xf::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kMakeCounter, make_counter, xf::Ffi::BindInstantiate().Attr<int64_t>("first"));
XLA_FFI_DEFINE_HANDLER(kCount, count,
                       xf::Ffi::Bind().Ctx<xf::State<Counter>>().Ret<xf::Buffer<xf::F32>>().Attr<int64_t>("first"));

TEST_F(RealHandlers, KeepAStateOfARegisteredType) {
  // Before its type is registered the handler refuses; that needs a table to make the error with.
  expect_error(error_of([] { const ScopedKernel early(xla_record("test.counter", kCount, kMakeCounter)); }),
               MYDEV_FAILED_PRECONDITION, "registered before the handler");
  const XLA_FFI_TypeInfo info = xf::MakeTypeInfo<Counter>();
  ASSERT_EQ(xf::Ffi::RegisterTypeId(table(), "test.counter_type", &Counter::id, info), nullptr);
  const ScopedKernel kernel(xla_record("test.counter", kCount, kMakeCounter));
  DeviceArray out({1});
  for (const float expected : {5.0F, 6.0F}) {
    run_kernel(*kernel, {out.buffer()}, 1, {int_attribute("first", 5)});
    EXPECT_EQ(out.values(), (std::vector<float>{expected}));
  }
  EXPECT_EQ(Counter::alive, 1);
  expect_error(error_of([&] { run_kernel(*kernel, {out.buffer()}, 1, {int_attribute("first", -1)}); }),
               MYDEV_INVALID_ARGUMENT, "first is negative");
}

std::thread worker;
xf::Future finish_later(xf::ResultBuffer<xf::F32> out, bool well) {
  xf::Promise promise;
  xf::Future future(promise);
  worker = std::thread([out, well, promise = std::move(promise)]() mutable {
    out->typed_data()[0] = 4;
    if (well) {
      promise.SetAvailable();
    } else {
      promise.SetError(xf::Error(xf::ErrorCode::kUnavailable, "gave up"));
    }
  });
  return future;
}
XLA_FFI_DEFINE_HANDLER(kFinishLater, finish_later, xf::Ffi::Bind().Ret<xf::Buffer<xf::F32>>().Attr<bool>("well"));

TEST_F(RealHandlers, FinishLater) {
  const ScopedKernel kernel(xla_record("test.later", kFinishLater));
  DeviceArray out({1});
  run_kernel(*kernel, {out.buffer()}, 1, {bool_attribute("well", true)});
  worker.join();
  EXPECT_EQ(out.values(), (std::vector<float>{4}));
  const Error error = error_of([&] { run_kernel(*kernel, {out.buffer()}, 1, {bool_attribute("well", false)}); });
  worker.join();
  expect_error(error, MYDEV_UNAVAILABLE, "gave up");
}

xf::Error remaining(xf::RemainingArgs args, xf::RemainingRets rets) {
  const auto first = args.get<xf::AnyBuffer>(args.size() - 1);
  auto out = rets.get<xf::AnyBuffer>(0);
  if (!first || !out) return xf::Error::Internal("operands");
  (*out)->typed_data<float>()[0] = first->typed_data<float>()[0];
  return xf::Error::Success();
}
XLA_FFI_DEFINE_HANDLER(kRemaining, remaining, xf::Ffi::Bind().RemainingArgs().RemainingRets());

TEST_F(RealHandlers, TakeAnyNumberOfOperands) {
  const ScopedKernel kernel(xla_record("test.remaining", kRemaining));
  DeviceArray out({1});
  run_kernel(*kernel, {out.buffer(), a_.buffer(), a_.buffer(), b_.buffer()}, 1);
  EXPECT_EQ(out.values(), (std::vector<float>{10}));
}

}  // namespace
}  // namespace mydev
