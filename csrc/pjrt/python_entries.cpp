// What pjrt_mydev's Python asks of the library beyond the C API: functions of C that programs call by a target's name.
#include <exception>
#include <string>

#include "kernels/registry/kernel_registry.h"

namespace {

thread_local std::string last_message;

}  // namespace

// Registers a target of custom calls for all devices: `kind` is a mydev_kernel_kind, the functions are of that kind, or
// NULL. Returns NULL, or what is wrong, valid until this thread's next call. Thread-safe.
extern "C" __attribute__((visibility("default"))) const char* mydev_pjrt_register_target(
    const char* name, int32_t kind, uint32_t traits, mydev_function execute, mydev_function instantiate,
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
    mydev::register_kernel(kernel, {"", "register_ffi_target"});
    return nullptr;
  } catch (const std::exception& error) {
    last_message = error.what();
    return last_message.c_str();
  }
}
