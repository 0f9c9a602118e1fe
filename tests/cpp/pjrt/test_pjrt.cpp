// The PJRT plugin as a client sees it: table, devices, events, buffers. test_pjrt_execute.cpp has executables.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "pjrt_fixture.h"
#include "runtime/command/command_hooks.h"
#include "runtime/driver/device.h"

namespace mydev::pjrt {
namespace {

using Values = std::vector<float>;

// --- the table -------------------------------------------------------------------------------------------------------

TEST(PjrtTable, HasAFunctionInEachSlot) {
  const PJRT_Api& table = api();
  EXPECT_EQ(table.struct_size, sizeof(PJRT_Api));
  EXPECT_EQ(table.pjrt_api_version.minor_version, 104);
  const auto* slots = reinterpret_cast<void* const*>(&table.PJRT_Error_Destroy);
  const auto* end = reinterpret_cast<void* const*>(&table + 1);
  EXPECT_EQ(end - slots, 135);
  for (const auto* slot = slots; slot != end; ++slot) EXPECT_NE(*slot, nullptr) << slot - slots;
}

TEST(PjrtTable, AnswersWithTheNameOfWhatIsNotImplemented) {
  const Error error = error_of([] { throw_if(api().PJRT_Buffer_Bitcast(nullptr)); });
  expect_error(error, MYDEV_UNIMPLEMENTED, "PJRT_Buffer_Bitcast is not implemented");
}

TEST(PjrtTable, RefusesArgumentsThatEndTooEarly) {
  auto args = sized<PJRT_Client_PlatformName_Args>();
  args.struct_size = 24;
  expect_error(error_of([&] { call(api().PJRT_Client_PlatformName, args); }), MYDEV_INVALID_ARGUMENT,
               "PJRT_Client_PlatformName: struct_size is 24, and at least 40 are needed");
}

TEST(PjrtTable, ErrorsHaveNoPayloads) {
  PJRT_Error* error = api().PJRT_Buffer_Bitcast(nullptr);
  auto args = sized<PJRT_Error_ForEachPayload_Args>();
  args.error = error;
  args.visitor = [](const char*, size_t, const char*, size_t, void*) { ADD_FAILURE(); };
  EXPECT_EQ(api().PJRT_Error_ForEachPayload(&args), nullptr);
  EXPECT_THROW(throw_if(error), Error);
}

TEST(PjrtTable, SaysWhichStablehloItReads) {
  auto args = sized<PJRT_Plugin_Attributes_Args>();
  call(api().PJRT_Plugin_Attributes, args);
  bool found = false;
  for (const PJRT_NamedValue& value : std::span(args.attributes, args.num_attributes)) {
    if (std::string(value.name, value.name_size) != "stablehlo_current_version") continue;
    found = true;
    EXPECT_EQ(std::vector(value.int64_array_value, value.int64_array_value + value.value_size),
              (std::vector<int64_t>{1, 13, 0}));
  }
  EXPECT_TRUE(found);
}

// --- clients and devices ---------------------------------------------------------------------------------------------

TEST_F(Pjrt, RefusesOptionsThatItDoesNotKnow) {
  PJRT_NamedValue option{};
  option.name = "speed";
  option.name_size = 5;
  auto args = sized<PJRT_Client_Create_Args>();
  args.create_options = &option;
  args.num_options = 1;
  expect_error(error_of([&] { call(api().PJRT_Client_Create, args); }), MYDEV_INVALID_ARGUMENT,
               "client option 'speed' is not known");
}

TEST_F(Pjrt, FindsDevicesByTheirId) {
  auto args = sized<PJRT_Client_LookupDevice_Args>();
  args.client = client();
  args.id = static_cast<int>(devices().size()) - 1;
  call(api().PJRT_Client_LookupDevice, args);
  EXPECT_EQ(args.device, devices().back());
}

TEST_F(Pjrt, RefusesIdsOfNoDevice) {
  auto args = sized<PJRT_Client_LookupDevice_Args>();
  args.client = client();
  args.id = -1;
  expect_error(error_of([&] { call(api().PJRT_Client_LookupDevice, args); }), MYDEV_INVALID_ARGUMENT,
               "No matching device found for device_id -1");
}

TEST_F(Pjrt, AssignsDevicesInOrder) {
  std::vector<int> ids(devices().size(), -1);
  auto args = sized<PJRT_Client_DefaultDeviceAssignment_Args>();
  args.client = client();
  args.num_replicas = 1;
  args.num_partitions = static_cast<int>(ids.size());
  args.default_assignment_size = ids.size();
  args.default_assignment = ids.data();
  call(api().PJRT_Client_DefaultDeviceAssignment, args);
  EXPECT_EQ(ids.back(), static_cast<int>(ids.size()) - 1);
  args.default_assignment_size = ids.size() - 1;
  expect_error(error_of([&] { call(api().PJRT_Client_DefaultDeviceAssignment, args); }), MYDEV_FAILED_PRECONDITION,
               "are needed");
}

TEST_F(Pjrt, CountsMemoryThatIsInUse) {
  const auto in_use = [&] {
    auto args = sized<PJRT_Device_MemoryStats_Args>();
    args.device = device();
    call(api().PJRT_Device_MemoryStats, args);
    return args.bytes_in_use;
  };
  const int64_t before = in_use();
  const BufferHandle buffer = upload(Values(1024, 1));
  EXPECT_GE(in_use() - before, 4096);
}

TEST_F(Pjrt, WritesNoMemoryStatisticsBeyondTheCallersStruct) {
  auto args = sized<PJRT_Device_MemoryStats_Args>();
  args.device = device();
  args.struct_size = offsetof(PJRT_Device_MemoryStats_Args, peak_bytes_in_use);
  args.peak_bytes_in_use = -7;
  args.peak_pool_bytes = -7;
  call(api().PJRT_Device_MemoryStats, args);
  EXPECT_EQ(args.peak_bytes_in_use, -7);
  EXPECT_EQ(args.peak_pool_bytes, -7);
}

// --- events ----------------------------------------------------------------------------------------------------------

struct Call {
  std::atomic<int> times{0};
  std::atomic<int> code{-1};
};

void note_call(PJRT_Error* error, void* user) {
  auto* noted = static_cast<Call*>(user);
  noted->code = error_of([error] { throw_if(error); }).code();
  ++noted->times;
}

void on_ready(PJRT_Event* event, Call& noted) {
  auto args = sized<PJRT_Event_OnReady_Args>();
  args.event = event;
  args.callback = note_call;
  args.user_arg = &noted;
  call(api().PJRT_Event_OnReady, args);
}

EventHandle new_event() {
  auto args = sized<PJRT_Event_Create_Args>();
  call(api().PJRT_Event_Create, args);
  return EventHandle(args.event);
}

void set(PJRT_Event* event, PJRT_Error_Code code, const std::string& message = "") {
  auto args = sized<PJRT_Event_Set_Args>();
  args.event = event;
  args.error_code = code;
  args.error_message = message.data();
  args.error_message_size = message.size();
  call(api().PJRT_Event_Set, args);
}

TEST(PjrtEvent, CallsBackOnceWhenItIsSetAndAtOnceAfterwards) {
  const EventHandle event = new_event();
  Call before, after;
  on_ready(event.get(), before);
  EXPECT_EQ(before.times, 0);
  EXPECT_FALSE(is_ready(event.get()));
  set(event.get(), PJRT_Error_Code_OK);
  EXPECT_TRUE(is_ready(event.get()));
  on_ready(event.get(), after);
  EXPECT_EQ(before.times, 1);
  EXPECT_EQ(after.times, 1);
  EXPECT_EQ(before.code, MYDEV_OK);
}

TEST(PjrtEvent, GivesItsErrorToAllWhoAsk) {
  const EventHandle event = new_event();
  Call noted;
  on_ready(event.get(), noted);
  set(event.get(), PJRT_Error_Code_DATA_LOSS, "gone");
  EXPECT_EQ(noted.code, MYDEV_DATA_LOSS);
  expect_error(error_of([&] { await(event.get()); }), MYDEV_DATA_LOSS, "gone");
  auto args = sized<PJRT_Event_Error_Args>();
  args.event = event.get();
  expect_error(error_of([&] { call(api().PJRT_Event_Error, args); }), MYDEV_DATA_LOSS, "gone");
}

TEST(PjrtEvent, HasNoErrorBeforeItIsReady) {
  const EventHandle event = new_event();
  auto args = sized<PJRT_Event_Error_Args>();
  args.event = event.get();
  expect_error(error_of([&] { call(api().PJRT_Event_Error, args); }), MYDEV_FAILED_PRECONDITION, "not ready");
  set(event.get(), PJRT_Error_Code_OK);
  call(api().PJRT_Event_Error, args);
}

TEST(PjrtEvent, IsSetOnce) {
  const EventHandle event = new_event();
  set(event.get(), PJRT_Error_Code_OK);
  expect_error(error_of([&] { set(event.get(), PJRT_Error_Code_OK); }), MYDEV_FAILED_PRECONDITION, "ready already");
}

TEST(PjrtEvent, WakesThreadsThatWait) {
  const EventHandle event = new_event();
  std::thread waiting([&] { await(event.get()); });
  set(event.get(), PJRT_Error_Code_OK);
  waiting.join();
}

TEST(PjrtEvent, MayBeDestroyedBeforeItIsReadyByThoseWhoWereToBeCalled) {
  Call noted;
  EventHandle event = new_event();
  on_ready(event.get(), noted);
  event.reset();
  EXPECT_EQ(noted.times, 0);  // nobody can set it any more
}

// --- buffers ---------------------------------------------------------------------------------------------------------

TEST_F(Pjrt, KeepsWhatWasUploaded) {
  const BufferHandle buffer = upload({1, 2, 3});
  EXPECT_EQ(download(buffer.get()), (Values{1, 2, 3}));
}

TEST_F(Pjrt, ReadsHostArraysOfAnyStrides) {
  const Values values = {0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> sizes = {3, 2}, strides = {-4, 12};  // the transpose of 2x3, rows from the last
  auto args = upload_args(values, sizes, PJRT_Buffer_Type_F32, device());
  args.data = &values[2];
  args.byte_strides = strides.data();
  args.num_byte_strides = strides.size();
  call(api().PJRT_Client_BufferFromHostBuffer, args);
  const EventHandle done(args.done_with_host_buffer);
  const BufferHandle buffer(args.buffer);
  EXPECT_EQ(download(buffer.get()), (Values{2, 5, 1, 4, 0, 3}));
}

TEST_F(Pjrt, WritesHostArraysOfOtherLayouts) {
  const Values values = {0, 1, 2, 3, 4, 5};
  const std::vector<int64_t> sizes = {2, 3};
  auto up = upload_args(values, sizes, PJRT_Buffer_Type_F32, device());
  call(api().PJRT_Client_BufferFromHostBuffer, up);
  const EventHandle uploaded(up.done_with_host_buffer);
  const BufferHandle buffer(up.buffer);
  const std::vector<int64_t> minor_to_major = {0, 1};
  auto layout = sized<PJRT_Buffer_MemoryLayout>();
  layout.type = PJRT_Buffer_MemoryLayout_Type_Tiled;
  layout.tiled.minor_to_major = minor_to_major.data();
  layout.tiled.minor_to_major_size = minor_to_major.size();
  Values columns(6, -1);
  auto args = sized<PJRT_Buffer_ToHostBuffer_Args>();
  args.src = buffer.get();
  args.host_layout = &layout;
  args.dst = columns.data();
  args.dst_size = 24;
  call(api().PJRT_Buffer_ToHostBuffer, args);
  const EventHandle done(args.event);
  await(done.get());
  EXPECT_EQ(columns, (Values{0, 3, 1, 4, 2, 5}));
}

TEST_F(Pjrt, DoesNotLookAtTheHostsMemoryAfterACallThatForbidsIt) {
  Values values(4096, 1);
  const std::vector<int64_t> sizes = {4096};
  auto args = upload_args(values, sizes, PJRT_Buffer_Type_F32, device());
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableOnlyDuringCall;
  call(api().PJRT_Client_BufferFromHostBuffer, args);
  std::ranges::fill(values, 2);
  const EventHandle done(args.done_with_host_buffer);
  const BufferHandle buffer(args.buffer);
  EXPECT_EQ(download(buffer.get()), Values(4096, 1));
}

TEST_F(Pjrt, HoldsMemoryOfTheHostThatItAliasesUntilTheBufferIsGone) {
  alignas(64) static const std::array<float, 16> values = {1, 2, 3};
  auto args = sized<PJRT_Client_BufferFromHostBuffer_Args>();
  const std::vector<int64_t> sizes = {16};
  args.client = client();
  args.data = values.data();
  args.type = PJRT_Buffer_Type_F32;
  args.dims = sizes.data();
  args.num_dims = 1;
  args.memory = memory(2);
  args.host_buffer_semantics = PJRT_HostBufferSemantics_kImmutableZeroCopy;
  call(api().PJRT_Client_BufferFromHostBuffer, args);
  const EventHandle done(args.done_with_host_buffer);
  BufferHandle buffer(args.buffer);
  EXPECT_EQ(address(buffer.get()), reinterpret_cast<uintptr_t>(values.data()));
  EXPECT_FALSE(is_ready(done.get()));
  EXPECT_EQ(download(buffer.get())[1], 2);
  buffer.reset();
  await(done.get());
}

TEST_F(Pjrt, CopiesToEachMemoryAndBack) {
  const BufferHandle buffer = upload({1, 2, 3});
  for (size_t kind = 0; kind < 3; ++kind) {
    SCOPED_TRACE(kind);
    auto there = sized<PJRT_Buffer_CopyToMemory_Args>();
    there.buffer = buffer.get();
    there.dst_memory = memory(kind, devices().size() - 1);
    call(api().PJRT_Buffer_CopyToMemory, there);
    const BufferHandle other(there.dst_buffer);
    auto back = sized<PJRT_Buffer_CopyToDevice_Args>();
    back.buffer = other.get();
    back.dst_device = device();
    call(api().PJRT_Buffer_CopyToDevice, back);
    const BufferHandle returned(back.dst_buffer);
    EXPECT_EQ(download(other.get()), (Values{1, 2, 3}));
    EXPECT_EQ(download(returned.get()), (Values{1, 2, 3}));
  }
}

// The source may be gone before the copy is made, and the memory that it goes to may have been somebody else's.
TEST_F(Pjrt, CopiesBetweenDevicesWithoutTheHost) {
  if (devices().size() < 2) GTEST_SKIP() << "needs two devices";
  std::atomic<int> direct = 0;
  const int hook = add_command_hook({.submitted =
                                         [](void* count, const CommandRecord& record) {
                                           if (std::string_view(record.name) == "copy between devices") {
                                             ++*static_cast<std::atomic<int>*>(count);
                                           }
                                         },
                                     .context = &direct});
  constexpr int kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    const Values values(1000, static_cast<float>(round));
    BufferHandle buffer = upload(values);
    auto there = sized<PJRT_Buffer_CopyToMemory_Args>();
    there.buffer = buffer.get();
    there.dst_memory = memory(0, 1);
    call(api().PJRT_Buffer_CopyToMemory, there);
    const BufferHandle other(there.dst_buffer);
    buffer.reset();
    upload(Values(1000, -1));
    EXPECT_EQ(download(other.get()), values);
  }
  remove_command_hook(hook);
  EXPECT_EQ(direct, mydev::device(0).reaches(mydev::device(1)) ? kRounds : 0);
}

TEST_F(Pjrt, SaysThatABufferWasDeleted) {
  const BufferHandle buffer = upload({1, 2, 3});
  delete_content(buffer.get());
  EXPECT_TRUE(is_deleted(buffer.get()));
  expect_error(error_of([&] { download(buffer.get()); }), MYDEV_INVALID_ARGUMENT,
               "f32[3] in device of mydev:0 was deleted, and has no memory any more");
}

TEST_F(Pjrt, KeepsMemoryWithExternalReferencesWhenABufferIsDeleted) {
  const BufferHandle buffer = upload({1, 2, 3});
  auto add = sized<PJRT_Buffer_IncreaseExternalReferenceCount_Args>();
  add.buffer = buffer.get();
  call(api().PJRT_Buffer_IncreaseExternalReferenceCount, add);
  const uintptr_t held = address(buffer.get());
  delete_content(buffer.get());
  EXPECT_NE(address(upload({4, 5, 6}).get()), held);
  auto remove = sized<PJRT_Buffer_DecreaseExternalReferenceCount_Args>();
  remove.buffer = buffer.get();
  call(api().PJRT_Buffer_DecreaseExternalReferenceCount, remove);
  expect_error(error_of([&] { call(api().PJRT_Buffer_DecreaseExternalReferenceCount, remove); }),
               MYDEV_FAILED_PRECONDITION, "no external reference");
}

TEST_F(Pjrt, TellsTheOwnerOfMemoryThatItSawWhenTheViewIsGone) {
  const BufferHandle owner = upload({1, 2, 3});
  const std::vector<int64_t> sizes = {3};
  std::atomic<int> released{0};
  auto args = sized<PJRT_Client_CreateViewOfDeviceBuffer_Args>();
  args.client = client();
  args.device_buffer_ptr = reinterpret_cast<void*>(address(owner.get()));
  args.dims = sizes.data();
  args.num_dims = 1;
  args.element_type = PJRT_Buffer_Type_F32;
  args.device = device();
  args.on_delete_callback = [](void*, void* user) { ++*static_cast<std::atomic<int>*>(user); };
  args.on_delete_callback_arg = &released;
  call(api().PJRT_Client_CreateViewOfDeviceBuffer, args);
  BufferHandle view(args.buffer);
  EXPECT_EQ(download(view.get()), (Values{1, 2, 3}));
  EXPECT_EQ(released, 0);
  view.reset();
  EXPECT_EQ(released, 1);
}

TEST_F(Pjrt, GivesTheErrorOfABufferToWhoReadsIt) {
  const std::vector<int64_t> sizes = {3};
  auto args = sized<PJRT_Client_CreateErrorBuffer_Args>();
  args.client = client();
  args.error_code = PJRT_Error_Code_ABORTED;
  args.error_message = "never made";
  args.error_message_size = 10;
  args.shape_dims = sizes.data();
  args.shape_num_dims = 1;
  args.shape_element_type = PJRT_Buffer_Type_F32;
  args.memory = memory(0);
  call(api().PJRT_Client_CreateErrorBuffer, args);
  const BufferHandle buffer(args.buffer);
  expect_error(error_of([&] { download(buffer.get()); }), MYDEV_ABORTED, "never made");
}

TEST_F(Pjrt, RefusesShapesThatCannotBe) {
  const Values values(4);
  const std::vector<int64_t> negative = {2, -1}, huge = {int64_t{1} << 40, int64_t{1} << 40};
  auto args = upload_args(values, negative, PJRT_Buffer_Type_F32, device());
  expect_error(error_of([&] { call(api().PJRT_Client_BufferFromHostBuffer, args); }), MYDEV_INVALID_ARGUMENT,
               "dimension 1 of f32[2,-1] is negative");
  args = upload_args(values, huge, PJRT_Buffer_Type_F32, device());
  expect_error(error_of([&] { call(api().PJRT_Client_BufferFromHostBuffer, args); }), MYDEV_INVALID_ARGUMENT,
               "more bytes than a machine can address");
}

TEST_F(Pjrt, RefusesTypesThatItDoesNotKnow) {
  const Values values(1);
  const std::vector<int64_t> sizes = {1};
  auto args = upload_args(values, sizes, static_cast<PJRT_Buffer_Type>(99), device());
  expect_error(error_of([&] { call(api().PJRT_Client_BufferFromHostBuffer, args); }), MYDEV_INVALID_ARGUMENT,
               "element type 99 is not known");
}

TEST_F(Pjrt, CopiesBytesFromWithinABuffer) {
  const BufferHandle buffer = upload({1, 2, 3, 4});
  Values values(2);
  auto args = sized<PJRT_Buffer_CopyRawToHost_Args>();
  args.buffer = buffer.get();
  args.dst = values.data();
  args.offset = 4;
  args.transfer_size = 8;
  call(api().PJRT_Buffer_CopyRawToHost, args);
  const EventHandle done(args.event);
  await(done.get());
  EXPECT_EQ(values, (Values{2, 3}));
  args.transfer_size = 16;
  expect_error(error_of([&] { call(api().PJRT_Buffer_CopyRawToHost, args); }), MYDEV_INVALID_ARGUMENT,
               "16 bytes from 4 on are not within");
}

}  // namespace
}  // namespace mydev::pjrt
