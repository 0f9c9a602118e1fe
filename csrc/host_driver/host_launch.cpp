#include "host_driver/host_launch.h"

#include <exception>
#include <string>

#include "host_driver/compiler/kernel_modules.h"
#include "host_driver/faults.h"
#include "host_driver/host_error.h"
#include "host_driver/memory/host_memory.h"
#include "host_driver/stream/host_stream.h"

namespace mydev::host_driver {

namespace {

// Kernels come from users too: their exceptions end here.
mydev_code run_kernel(const mydev_kernel* kernel, const mydev_frame* frame) noexcept {
  try {
    return kernel->entry(frame);
  } catch (const std::exception& error) {
    frame->host->set_error(frame, (std::string("the kernel threw: ") + error.what()).c_str());
  } catch (...) {
    frame->host->set_error(frame, "the kernel threw something that is no std::exception");
  }
  return MYDEV_INTERNAL;
}

// Runs work(frame), a launch's: now, or when the stream comes to it, which completes the frame then.
template <typename Run>
mydev_code launch_work(HostStream& stream, mydev_frame* frame, const char* name, const Run& work) {
  const uint64_t injected = stream.faults().inject(FaultKind::kLaunch);
  const auto run = [work, frame, &memory = stream.memory(), injected] {
    if (injected != 0) return run_checked([injected] { raise_if_injected(FaultKind::kLaunch, injected); });
    mydev_code code = MYDEV_OK;
    const mydev_code access_code = run_checked([&] {
      const MemoryAccess access(memory);
      code = work(*frame);
    });
    return access_code != MYDEV_OK ? access_code : code;
  };
  if (!stream.asynchronous()) return run();
  return run_checked(
      [&] { stream.run([run, frame] { frame->host->complete(frame, run()); }, {MYDEV_ACTIVITY_LAUNCH, name}); });
}

mydev_code launch_of_module(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame,
                            const mydev_geometry* geometry) {
  mydev_code code = MYDEV_OK;
  const mydev_code checked = run_checked([&] {
    const ModuleLaunch launch(*kernel, *frame, *geometry);
    code = launch_work(as_stream(stream), frame, kernel->name,
                       [launch](const mydev_frame& given) { return launch.run(given); });
  });
  return checked != MYDEV_OK ? checked : code;
}

}  // namespace

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  HostStream& host_stream = as_stream(stream);
  if (host_stream.direct()) [[likely]] {
    return run_kernel(kernel, frame);
  }
  return launch_work(host_stream, frame, kernel->name,
                     [kernel](const mydev_frame& given) { return run_kernel(kernel, &given); });
}

const mydev_compiler_extension& compiler_extension() {
  static constexpr mydev_compiler_extension kTable = {
      .head = {.struct_size = sizeof(mydev_compiler_extension), .version = MYDEV_COMPILER_VERSION},
      .languages = compiler_languages,
      .module_create = module_create,
      .module_destroy = module_destroy,
      .module_binary = module_binary,
      .module_kernel = module_kernel,
      .launch = launch_of_module,
      .properties = compiler_properties,
  };
  return kTable;
}

}  // namespace mydev::host_driver
