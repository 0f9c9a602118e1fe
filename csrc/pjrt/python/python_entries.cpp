// The library's functions for pjrt_mydev's Python beyond the C API: they register C functions that programs call by a
// target's name.
#include "pjrt/python/python_entries.h"

#include <array>
#include <atomic>
#include <exception>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "pjrt/device/callback_scope.h"
#include "runtime/base/api.h"

namespace mydev::pjrt {

namespace {

// Takes a function's number, and the memory of operands and results. Returns 0, or writes what is wrong, with a NUL.
using Callback = int (*)(int64_t number, void** operands, void** results, char* message, size_t size);
constexpr size_t kMessageBytes = 4096;
std::atomic<Callback> callback{nullptr};

using Preparation = void (*)();
std::atomic<Preparation> preparation{nullptr};

mydev_code call_python(const mydev_frame* frame) {
  std::vector<void*> results, operands;
  results.reserve(frame->num_outputs);
  operands.reserve(frame->num_inputs);
  for (uint32_t i = 0; i < frame->num_outputs; ++i) results.push_back(frame->buffers[i].data);
  for (uint32_t i = 0; i < frame->num_inputs; ++i) operands.push_back(frame->buffers[frame->num_outputs + i].data);
  std::array<char, kMessageBytes> message{};
  const int64_t number = frame->attributes[0].value.i;
  const CallbackScope scope(frame->device);
  if (callback.load()(number, operands.data(), results.data(), message.data(), message.size()) == 0) return MYDEV_OK;
  frame->host->set_error(frame, message.data());
  return MYDEV_INTERNAL;
}

constexpr mydev_kernel kCallback = {.struct_size = sizeof(mydev_kernel),
                                    .name = "pjrt.python_callback",
                                    .entry = call_python,
                                    .doc = "a Python function that a program calls: callback, its number"};

}  // namespace

void prepare_to_load() {
  if (const Preparation function = preparation.load()) function();
}

// Sets, for good, the function that calls Python functions. Thread-safe.
extern "C" MYDEV_API void mydev_pjrt_set_callback(Callback function) {
  callback.store(function);
  register_kernel(kCallback);
}

// Sets, for good, the function that is called before serialized executables are loaded. Thread-safe.
extern "C" MYDEV_API void mydev_pjrt_set_preparation(Preparation function) {
  preparation.store(function);
}

// Registers a target of custom calls for all devices. `kind` is a mydev_kernel_kind; the functions are of that kind, or
// NULL. Returns NULL, or what is wrong, valid until this thread's next call. Thread-safe.
extern "C" MYDEV_API const char* mydev_pjrt_register_target(const char* name, int32_t kind, uint32_t traits,
                                                            mydev_function execute, mydev_function instantiate,
                                                            mydev_function prepare, mydev_function initialize) {
  try {
    mydev_kernel kernel{};
    kernel.struct_size = sizeof(kernel);
    kernel.name = (new std::string(name))->c_str();  // outlives the registry
    kernel.kind = kind;
    kernel.traits = traits;
    kernel.execute = execute;
    kernel.instantiate = instantiate;
    kernel.prepare = prepare;
    kernel.initialize = initialize;
    register_kernel(kernel, {"", "register_ffi_target"});
    return nullptr;
  } catch (const std::exception& error) {
    last_answer = error.what();
    return last_answer.c_str();
  }
}

}  // namespace mydev::pjrt
