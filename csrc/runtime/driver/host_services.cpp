#include "runtime/driver/host_services.h"

#include "runtime/base/log.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/frame.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev {

namespace {

void run_parallel_for(int64_t count, int64_t grain, void (*body)(void*, int64_t, int64_t), void* context) {
  parallel_for(count, grain, body, context);
}

void complete_launch(mydev_frame* frame, mydev_code code) {
  static_cast<LaunchCompletion*>(frame->launch)->complete(frame, code);
}

}  // namespace

namespace detail {

constinit const mydev_host_services services = {
    .struct_size = sizeof(mydev_host_services),
    .set_error = give_kernel_message,
    .parallel_for = run_parallel_for,
    .complete = complete_launch,
    .log = log,
    .device_alloc = allocate_workspace,
    .device_free = free_workspace,
    .last_error = workspace_error,
};

}  // namespace detail

}  // namespace mydev
