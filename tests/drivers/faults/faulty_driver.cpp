// A driver that does as asked, but one thing wrong: another driver (MYDEV_WRAPPED_DRIVER, asynchronous) with a fault
// that the conformance suite must find.
//
// Options: fault=NAME, a row of kFaults; any other option is the wrapped driver's.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "mydev/driver_extensions.h"

namespace {

enum class Fault {
  kNone,
  // memory
  kLateRead,     // ordinary host memory is read after copy has returned
  kEarlyReturn,  // ordinary host memory is written after copy has returned
  kLostCopy,     // the failure of a copy is reported to nobody
  kLostFill,
  // functions of the host's: called twice, never, or while the work is pending
  kCompletionTwice,
  kCompletionNever,
  kCompletionEarly,
  kHostCallTwice,
  kHostCallNever,
  kHostCallEarly,
  kOnDoneTwice,
  kOnDoneNever,
  kOnDoneEarly,
  // events: what counts is the latest record when the work comes to it, not when the call was made
  kLateWait,
  kLateOnDone,
  // kernels that are compiled at run time
  kLostCompiledLaunch,
  kOneGroup,        // of those that the geometry has
  kAnyKernel,       // for a name that the module does not have
  kSilentCompiler,  // says that bad source is an error of its own
  kStrangeKernel,   // lists a kernel that is not found
  // the process
  kHang,
  kAbort,
  kExit,
  kAbortAtExit,
};

struct NamedFault {
  std::string_view name;
  Fault fault;
};
constexpr std::array kFaults = {
    NamedFault{"late_read", Fault::kLateRead},
    NamedFault{"early_return", Fault::kEarlyReturn},
    NamedFault{"lost_copy", Fault::kLostCopy},
    NamedFault{"lost_fill", Fault::kLostFill},
    NamedFault{"completion_twice", Fault::kCompletionTwice},
    NamedFault{"completion_never", Fault::kCompletionNever},
    NamedFault{"completion_early", Fault::kCompletionEarly},
    NamedFault{"host_call_twice", Fault::kHostCallTwice},
    NamedFault{"host_call_never", Fault::kHostCallNever},
    NamedFault{"host_call_early", Fault::kHostCallEarly},
    NamedFault{"on_done_twice", Fault::kOnDoneTwice},
    NamedFault{"on_done_never", Fault::kOnDoneNever},
    NamedFault{"on_done_early", Fault::kOnDoneEarly},
    NamedFault{"late_wait", Fault::kLateWait},
    NamedFault{"late_on_done", Fault::kLateOnDone},
    NamedFault{"lost_compiled_launch", Fault::kLostCompiledLaunch},
    NamedFault{"one_group", Fault::kOneGroup},
    NamedFault{"any_kernel", Fault::kAnyKernel},
    NamedFault{"silent_compiler", Fault::kSilentCompiler},
    NamedFault{"strange_kernel", Fault::kStrangeKernel},
    NamedFault{"hang", Fault::kHang},
    NamedFault{"abort", Fault::kAbort},
    NamedFault{"exit", Fault::kExit},
    NamedFault{"abort_at_exit", Fault::kAbortAtExit},
};

const mydev_driver_api* wrapped = nullptr;
Fault chosen = Fault::kNone;  // set by initialize

mydev_code initialize(const char* options, const mydev_host_services* host) {
  std::string rest;
  std::string text = options;
  while (!text.empty()) {
    const std::string option = text.substr(0, text.find(','));
    text.erase(0, option.size() + 1);
    const auto* const row = std::find_if(kFaults.begin(), kFaults.end(), [&](const NamedFault& fault) {
      return option == "fault=" + std::string(fault.name);
    });
    if (row != kFaults.end()) {
      chosen = row->fault;
    } else {
      rest += (rest.empty() ? "" : ",") + option;
    }
  }
  return wrapped->initialize(rest.c_str(), host);
}

void finalize() {
  if (chosen == Fault::kAbortAtExit) std::abort();
  if (wrapped->finalize != nullptr) wrapped->finalize();
}

// Gives the stream a function as a piece of its work.
mydev_code later(mydev_stream stream, std::function<void()> function) {
  auto given = std::make_unique<std::function<void()>>(std::move(function));
  const auto run = [](void* context) {
    const std::unique_ptr<std::function<void()>> taken(static_cast<std::function<void()>*>(context));
    (*taken)();
  };
  const mydev_code code = wrapped->stream_host_call(stream, run, given.get());
  if (code == MYDEV_OK) static_cast<void>(given.release());
  return code;
}

mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  if (chosen == Fault::kAbort) {
    std::fprintf(stderr, "this driver aborts in copy\n");
    std::abort();
  }
  if ((chosen == Fault::kLateRead && kind == MYDEV_COPY_HOST_TO_DEVICE) ||
      (chosen == Fault::kEarlyReturn && kind == MYDEV_COPY_DEVICE_TO_HOST)) {
    return later(stream, [=] { std::memcpy(dst, src, bytes); });
  }
  const mydev_code code = wrapped->copy(stream, dst, src, bytes, kind);
  return chosen == Fault::kLostCopy ? MYDEV_OK : code;
}

mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  const mydev_code code = wrapped->fill(stream, dst, bytes, pattern, pattern_bytes);
  return chosen == Fault::kLostFill ? MYDEV_OK : code;
}

mydev_code stream_synchronize(mydev_stream stream) {
  while (chosen == Fault::kHang) ::pause();
  return wrapped->stream_synchronize(stream);
}

// The call that an event was given for, made when it is recorded again.
struct LateCall {
  mydev_event event;
  mydev_host_function function;
  void* context;
};
LateCall late_call{};

mydev_code event_record(mydev_event event, mydev_stream stream) {
  if (chosen == Fault::kExit) std::exit(0);  // NOLINT(concurrency-mt-unsafe)
  const mydev_code code = wrapped->event_record(event, stream);
  if (late_call.function != nullptr && late_call.event == event) {
    const LateCall call = std::exchange(late_call, {});
    wrapped->event_on_done(event, call.function, call.context);
  }
  return code;
}

mydev_code stream_wait_event(mydev_stream stream, mydev_event event) {
  if (chosen != Fault::kLateWait) return wrapped->stream_wait_event(stream, event);
  return later(stream, [event] { wrapped->event_synchronize(event); });
}

// --- functions of the host's -----------------------------------------------------------------------------------------

mydev_code stream_host_call(mydev_stream stream, mydev_host_function function, void* context) {
  static std::atomic<int> calls{0};
  const int calls_before = calls.fetch_add(1, std::memory_order_relaxed);
  switch (chosen) {
    case Fault::kHostCallNever:
      return MYDEV_OK;
    case Fault::kHostCallEarly:
      if (calls_before == 0) break;  // the first, which may be to hold the stream up
      function(context);
      return MYDEV_OK;
    case Fault::kHostCallTwice:
      wrapped->stream_host_call(stream, function, context);
      break;
    default:
      break;
  }
  return wrapped->stream_host_call(stream, function, context);
}

mydev_code event_on_done(mydev_event event, mydev_host_function function, void* context) {
  switch (chosen) {
    case Fault::kOnDoneNever:
      return MYDEV_OK;
    case Fault::kOnDoneEarly:
      function(context);
      return MYDEV_OK;
    case Fault::kLateOnDone:
      late_call = {event, function, context};
      return MYDEV_OK;
    case Fault::kOnDoneTwice:
      wrapped->event_on_done(event, function, context);
      break;
    default:
      break;
  }
  return wrapped->event_on_done(event, function, context);
}

// The services that frames came with, and what this driver gives in their place.
const mydev_host_services* services = nullptr;
mydev_host_services wrong_services;

void complete(mydev_frame* frame, mydev_code code) {
  if (chosen != Fault::kCompletionTwice) return;
  services->complete(frame, code);
  services->complete(frame, code);
}

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame) {
  const bool wrong =
      chosen == Fault::kCompletionTwice || chosen == Fault::kCompletionNever || chosen == Fault::kCompletionEarly;
  if (!wrong) return wrapped->launch(stream, kernel, frame);
  services = frame->host;
  wrong_services = *services;
  wrong_services.complete = complete;
  frame->host = &wrong_services;
  const mydev_code code = wrapped->launch(stream, kernel, frame);
  if (code == MYDEV_OK && chosen == Fault::kCompletionEarly) services->complete(frame, MYDEV_OK);
  return code;
}

// --- kernels that are compiled at run time ---------------------------------------------------------------------------

const mydev_compiler_extension* compiler = nullptr;

mydev_code module_create(int32_t device, const mydev_module_source* source, mydev_module* out_module) {
  const mydev_code code = compiler->module_create(device, source, out_module);
  return code != MYDEV_OK && chosen == Fault::kSilentCompiler ? MYDEV_INTERNAL : code;
}

mydev_code module_kernel(mydev_module module, const char* name, const mydev_kernel** out_kernel) {
  const mydev_code code = compiler->module_kernel(module, name, out_kernel);
  if (code != MYDEV_NOT_FOUND || chosen != Fault::kAnyKernel) return code;
  return compiler->module_kernel(module, "conformance_scale", out_kernel);
}

mydev_code launch_compiled(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame,
                           const mydev_geometry* geometry) {
  if (chosen == Fault::kLostCompiledLaunch) {
    frame->host->complete(frame, MYDEV_OK);
    return MYDEV_OK;
  }
  mydev_geometry given = *geometry;
  if (chosen == Fault::kOneGroup) given.grid[0] = 1;
  return compiler->launch(stream, kernel, frame, &given);
}

mydev_code list_kernels(int32_t device, const mydev_kernel* const** out_kernels) {
  static constexpr mydev_kernel kStrange = {.struct_size = sizeof(mydev_kernel), .name = "strange.kernel"};
  static constexpr std::array<const mydev_kernel*, 2> kListed = {&kStrange, nullptr};
  if (chosen != Fault::kStrangeKernel) return wrapped->list_kernels(device, out_kernels);
  *out_kernels = kListed.data();
  return MYDEV_OK;
}

const void* extension(const char* name, uint32_t version) {
  const void* table = wrapped->extension(name, version);
  if (table == nullptr || std::strcmp(name, MYDEV_COMPILER_EXTENSION) != 0) return table;
  compiler = static_cast<const mydev_compiler_extension*>(table);
  static mydev_compiler_extension ours;
  ours = *compiler;
  ours.module_create = module_create;
  ours.module_kernel = module_kernel;
  ours.launch = launch_compiled;
  return &ours;
}

const mydev_driver_api* query_wrapped(uint32_t version_major, uint32_t version_minor) {
  void* library = ::dlopen(MYDEV_WRAPPED_DRIVER, RTLD_NOW | RTLD_LOCAL);
  void* query = library == nullptr ? nullptr : ::dlsym(library, MYDEV_DRIVER_QUERY_SYMBOL);
  if (query == nullptr) {
    std::fprintf(stderr, "faulty_driver: %s\n", ::dlerror());  // NOLINT(concurrency-mt-unsafe)
    std::abort();
  }
  return reinterpret_cast<mydev_driver_query_fn>(query)(version_major, version_minor);
}

}  // namespace

extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t version_minor) {
  wrapped = query_wrapped(version_major, version_minor);
  static mydev_driver_api api;
  api = *wrapped;
  api.name = "faulty";
  api.initialize = initialize;
  api.finalize = finalize;
  api.copy = copy;
  api.fill = fill;
  api.stream_synchronize = stream_synchronize;
  api.event_record = event_record;
  api.stream_wait_event = stream_wait_event;
  api.stream_host_call = stream_host_call;
  if (wrapped->event_on_done != nullptr) api.event_on_done = event_on_done;
  api.launch = launch;
  if (wrapped->extension != nullptr) api.extension = extension;
  if (wrapped->list_kernels != nullptr) api.list_kernels = list_kernels;
  return &api;
}
