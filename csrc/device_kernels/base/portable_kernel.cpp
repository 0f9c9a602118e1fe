#include "device_kernels/base/portable_kernel.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <mutex>
#include <utility>

#include "kernels/registry/kernel_entry.h"
#include "kernels/registry/portable_launches.h"
#include "runtime/base/log.h"
#include "runtime/command/launch.h"
#include "runtime/frame/frame.h"
#include "runtime/stream/stream_table.h"

namespace mydev::device_kernels {

namespace {

// The modules of one device, by their keys.
class Functions {
 public:
  std::shared_ptr<const CompiledKernel> find(const Request& request, const std::string& key, const std::string& name,
                                             const FunctionSource& source) {
    const std::lock_guard lock(mutex_);  // held while a function is compiled, which others wait for
    auto place = functions_.find(key);
    if (place == functions_.end()) {
      const std::string text = source.text();  // it may decline
      place = functions_.emplace(key, compile(request, key, name, text, source.parameters())).first;
    }
    const Function& function = place->second;
    require(function.compiled != nullptr, "were refused by the compiler: ", function.refusal);
    return function.compiled;
  }

 private:
  struct Function {
    std::shared_ptr<const CompiledKernel> compiled;
    std::string refusal;
  };

  static Function compile(const Request& request, const std::string& key, const std::string& name,
                          const std::string& text, KernelParameters parameters) {
    try {
      const std::string source = request.language.source() + "#line 1 \"" + key + "\"\n" + text;
      const auto module = KernelModule::find_or_compile(request.device, request.language.name, source, "");
      return {module->kernel(name, std::move(parameters)), ""};
    } catch (const Error& error) {
      const std::string message = "the compiler of driver '" + std::string(request.device.driver->name) +
                                  "' refuses the source of " + key + ", so that another record runs: " + error.what();
      log(MYDEV_LOG_WARNING, message.c_str());
      return {nullptr, error.what()};
    }
  }

  std::mutex mutex_;
  std::map<std::string, Function> functions_;
};

Functions& functions_of(const Device& device) {
  static auto& all = *new std::array<Functions, kMaxDevices>;
  return all[static_cast<size_t>(device.index)];
}

mydev_code plan_entry(const mydev_frame* frame, mydev_plan* out) {
  const RaiserBypass bypass;
  return kernels::run_entry(*frame, [&] {
    Device& on = device(frame->device);
    const auto& kernel = *static_cast<const PortableKernel*>(frame->kernel);
    auto work = std::make_unique<Work>(kernel.plan_work({on, *kernel_language(on), *frame}));
    work->launches = &portable_launches(kernel.name, frame->device);
    out->scratch_bytes = work->scratch_bytes;
    out->decision = work.release();
    out->release = [](void* decision) { delete static_cast<Work*>(decision); };
  });
}

mydev_code enqueue_entry(const mydev_frame* frame) {
  const RaiserBypass bypass;
  return kernels::run_entry(*frame, [&] {
    Stream& stream = stream_by_handle(frame->device, frame->stream);
    const auto& work = kernels::planned<Work>(*frame);
    for (const Call& call : work.calls) call.enqueue(*frame, stream);
    work.launches->fetch_add(1, std::memory_order_relaxed);
  });
}

}  // namespace

void Call::enqueue(const mydev_frame& frame, Stream& stream) const {
  std::vector<mydev_buffer> buffers;
  buffers.reserve(memory_.size());
  for (const Memory& memory : memory_) {
    mydev_buffer& buffer = buffers.emplace_back();
    if (memory.buffer >= 0) {
      buffer = frame.buffers[memory.buffer];
      if (buffer.data != nullptr) buffer.data = static_cast<char*>(buffer.data) + memory.offset;
    } else {
      buffer = {.data = static_cast<char*>(frame.scratch) + memory.offset, .dtype = MYDEV_U8};
    }
  }
  mydev_frame call = make_frame(buffers, launch_.kernel->parameters().written(), numbers_);
  enqueue_compiled(launch_, call, stream);
}

Call::Memory Work::take(int64_t count, mydev_dtype dtype) {
  const Call::Memory room{-1, scratch_bytes};
  scratch_bytes += (static_cast<uint64_t>(count * dtype_size(dtype)) + 63) / 64 * 64;
  return room;
}

std::shared_ptr<const CompiledKernel> function_of(const Request& request, const std::string& key,
                                                  const std::string& name, const FunctionSource& source) {
  return functions_of(request.device).find(request, key, name, source);
}

mydev_geometry groups(const Request& request, int64_t number) {
  const KernelLanguage& language = request.language;
  return make_geometry(language.grid(static_cast<uint64_t>(number)), {language.threads(language.lanes), 1, 1});
}

mydev_geometry rows_of(const Request& request, int64_t rows, int64_t length, uint32_t piece) {
  const KernelLanguage& language = request.language;
  const uint64_t pieces = (static_cast<uint64_t>(length) + piece - 1) / piece;
  return make_geometry(language.grid(static_cast<uint64_t>(rows) * pieces), {language.threads(piece), 1, 1});
}

int64_t groups_to_fill(const Device& device) noexcept {
  return 2 * std::max(device.properties.multi_processor_count, 1);
}

int64_t parts_of(const Request& request, int64_t groups, int64_t elements, int64_t threads) {
  constexpr int64_t kFewest = 8;       // elements of a thread
  constexpr int64_t kSmallGroups = 8;  // in the place of one that is large
  if (!request.language.gpu || groups == 0) return 1;
  const int64_t wanted = kSmallGroups * groups_to_fill(request.device) / groups;
  // A thread that has all elements of a result adds its parts alone: no more of them than elements of each.
  const int64_t most =
      std::min(elements / (kFewest * threads),
               threads > 1 ? elements : static_cast<int64_t>(std::sqrt(static_cast<double>(elements))));
  return std::max<int64_t>(std::min(wanted, most), 1);
}

PortableKernel::PortableKernel(const char* kernel, Plan planner, const mydev_limits* beyond)
    : mydev_kernel{.struct_size = sizeof(mydev_kernel),
                   .name = kernel,
                   .entry = enqueue_entry,
                   .runs = MYDEV_RUNS_HOST_ENQUEUE,
                   .limits = beyond,
                   .plan = plan_entry},
      plan_work(planner) {}

}  // namespace mydev::device_kernels
