// For tests of the PJRT plugin: a client of its C API, as small as can be.
//
// Errors of the API are thrown as mydev::Error, with their code and message. Handles destroy what they own.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "error_fixture.h"
#include "pjrt/base/wire.h"
#include "pjrt/c_api/buffer.h"
#include "pjrt/c_api/client.h"
#include "pjrt/c_api/executable.h"
#include "pjrt/c_api/extensions.h"
#include "pjrt/c_api/table.h"

namespace mydev::pjrt {

template <typename Args>
Args sized() {
  Args args{};
  args.struct_size = sizeof args;
  return args;
}

inline const PJRT_Api& api() {
  return *GetPjrtApi();
}

inline void throw_if(PJRT_Error* error) {
  if (error == nullptr) return;
  auto message = sized<PJRT_Error_Message_Args>();
  message.error = error;
  api().PJRT_Error_Message(&message);
  auto code = sized<PJRT_Error_GetCode_Args>();
  code.error = error;
  EXPECT_EQ(api().PJRT_Error_GetCode(&code), nullptr);
  const Error thrown(static_cast<mydev_code>(code.code), std::string(message.message, message.message_size));
  auto destroy = sized<PJRT_Error_Destroy_Args>();
  destroy.error = error;
  api().PJRT_Error_Destroy(&destroy);
  throw thrown;
}

// call(api().PJRT_X, args): throws the function's error.
template <typename Args>
void call(PJRT_Error* (*function)(Args*), Args& args) {
  throw_if(function(&args));
}

// A handle, destroyed by the function of its kind.
template <typename T, typename Args, PJRT_Error* (*PJRT_Api::*kDestroy)(Args*), T* Args::* kField>
struct Destroy {
  void operator()(T* handle) const {
    auto args = sized<Args>();
    args.*kField = handle;
    EXPECT_EQ((api().*kDestroy)(&args), nullptr);
  }
};
using EventHandle =
    std::unique_ptr<PJRT_Event, Destroy<PJRT_Event, PJRT_Event_Destroy_Args, &PJRT_Api::PJRT_Event_Destroy,
                                        &PJRT_Event_Destroy_Args::event>>;
using BufferHandle =
    std::unique_ptr<PJRT_Buffer, Destroy<PJRT_Buffer, PJRT_Buffer_Destroy_Args, &PJRT_Api::PJRT_Buffer_Destroy,
                                         &PJRT_Buffer_Destroy_Args::buffer>>;
using LoadedHandle =
    std::unique_ptr<PJRT_LoadedExecutable,
                    Destroy<PJRT_LoadedExecutable, PJRT_LoadedExecutable_Destroy_Args,
                            &PJRT_Api::PJRT_LoadedExecutable_Destroy, &PJRT_LoadedExecutable_Destroy_Args::executable>>;
using ExecutableHandle =
    std::unique_ptr<PJRT_Executable,
                    Destroy<PJRT_Executable, PJRT_Executable_Destroy_Args, &PJRT_Api::PJRT_Executable_Destroy,
                            &PJRT_Executable_Destroy_Args::executable>>;
using ClientHandle =
    std::unique_ptr<PJRT_Client, Destroy<PJRT_Client, PJRT_Client_Destroy_Args, &PJRT_Api::PJRT_Client_Destroy,
                                         &PJRT_Client_Destroy_Args::client>>;

inline bool is_ready(PJRT_Event* event) {
  auto args = sized<PJRT_Event_IsReady_Args>();
  args.event = event;
  call(api().PJRT_Event_IsReady, args);
  return args.is_ready;
}

inline void await(PJRT_Event* event) {
  auto args = sized<PJRT_Event_Await_Args>();
  args.event = event;
  call(api().PJRT_Event_Await, args);
}

// CompileOptionsProto of one replica and some partitions, on these devices.
inline std::string options_for(const std::vector<int64_t>& ids, const std::string& more = "") {
  WireWriter assignment;
  assignment.number(1, 1);
  assignment.number(2, ids.size());
  for (const int64_t id : ids) {
    WireWriter computation;
    computation.packed(1, {id});
    assignment.bytes(3, std::move(computation).take());
  }
  WireWriter build;
  build.number(4, 1);
  build.number(5, ids.size());
  build.bytes(9, std::move(assignment).take());
  WireWriter options;
  options.bytes(3, std::move(build).take());
  return std::move(options).take() + more;
}

class Pjrt : public testing::Test {
 protected:
  Pjrt() {
    auto args = sized<PJRT_Client_Create_Args>();
    call(api().PJRT_Client_Create, args);
    client_.reset(args.client);
  }

  PJRT_Client* client() const { return client_.get(); }
  void close() { client_.reset(); }
  std::span<PJRT_Device* const> devices() const {
    auto args = sized<PJRT_Client_AddressableDevices_Args>();
    args.client = client();
    call(api().PJRT_Client_AddressableDevices, args);
    return {args.addressable_devices, args.num_addressable_devices};
  }
  PJRT_Device* device(size_t index = 0) const { return devices()[index]; }
  // 0: device, 1: pinned host, 2: unpinned host.
  PJRT_Memory* memory(size_t kind, size_t index = 0) const {
    auto args = sized<PJRT_Device_AddressableMemories_Args>();
    args.device = device(index);
    call(api().PJRT_Device_AddressableMemories, args);
    return args.memories[kind];
  }

  LoadedHandle compile(std::string code, const std::string& options = "", std::string format = "mydev_program") {
    auto program = sized<PJRT_Program>();
    program.code = code.data();
    program.code_size = code.size();
    program.format = format.data();
    program.format_size = format.size();
    auto args = sized<PJRT_Client_Compile_Args>();
    args.client = client();
    args.program = &program;
    args.compile_options = options.data();
    args.compile_options_size = options.size();
    call(api().PJRT_Client_Compile, args);
    return LoadedHandle(args.executable);
  }

  template <typename T>
  PJRT_Client_BufferFromHostBuffer_Args upload_args(const std::vector<T>& values, const std::vector<int64_t>& sizes,
                                                    PJRT_Buffer_Type type, PJRT_Device* to) const {
    auto args = sized<PJRT_Client_BufferFromHostBuffer_Args>();
    args.client = client();
    args.data = values.data();
    args.type = type;
    args.dims = sizes.data();
    args.num_dims = sizes.size();
    args.device = to;
    return args;
  }
  BufferHandle upload(const std::vector<float>& values, PJRT_Device* to = nullptr) const {
    const std::vector<int64_t> sizes = {static_cast<int64_t>(values.size())};
    auto args = upload_args(values, sizes, PJRT_Buffer_Type_F32, to == nullptr ? device() : to);
    call(api().PJRT_Client_BufferFromHostBuffer, args);
    const EventHandle done(args.done_with_host_buffer);
    await(done.get());
    return BufferHandle(args.buffer);
  }
  static std::vector<float> download(PJRT_Buffer* buffer) {
    auto args = sized<PJRT_Buffer_ToHostBuffer_Args>();
    args.src = buffer;
    call(api().PJRT_Buffer_ToHostBuffer, args);
    std::vector<float> values(args.dst_size / sizeof(float));
    args.dst = values.data();
    call(api().PJRT_Buffer_ToHostBuffer, args);
    const EventHandle done(args.event);
    await(done.get());
    return values;
  }
  static EventHandle ready_event(PJRT_Buffer* buffer) {
    auto args = sized<PJRT_Buffer_ReadyEvent_Args>();
    args.buffer = buffer;
    call(api().PJRT_Buffer_ReadyEvent, args);
    return EventHandle(args.event);
  }
  static bool is_deleted(PJRT_Buffer* buffer) {
    auto args = sized<PJRT_Buffer_IsDeleted_Args>();
    args.buffer = buffer;
    call(api().PJRT_Buffer_IsDeleted, args);
    return args.is_deleted;
  }
  static uintptr_t address(PJRT_Buffer* buffer) {
    auto args = sized<PJRT_Buffer_UnsafePointer_Args>();
    args.buffer = buffer;
    call(api().PJRT_Buffer_UnsafePointer, args);
    return args.buffer_pointer;
  }
  static void delete_content(PJRT_Buffer* buffer) {
    auto args = sized<PJRT_Buffer_Delete_Args>();
    args.buffer = buffer;
    call(api().PJRT_Buffer_Delete, args);
  }

 private:
  ClientHandle client_;
};

}  // namespace mydev::pjrt
