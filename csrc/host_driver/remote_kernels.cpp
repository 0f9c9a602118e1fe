#include "host_driver/remote_kernels.h"

#include <dlfcn.h>

#include <filesystem>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

constexpr const char* kLibrary = "libmydev_host_kernels.so";

mydev_code scale(const mydev_frame* frame) {
  const mydev_buffer& out = frame->buffers[0];
  const mydev_buffer& in = frame->buffers[1];
  if (out.dtype != MYDEV_F32 || in.dtype != MYDEV_F32) {
    frame->host->set_error(frame, "conformance.scale takes f32");
    return MYDEV_INVALID_ARGUMENT;
  }
  const auto factor = static_cast<float>(frame->attributes[0].value.f);
  for (int64_t i = 0; i < out.sizes[0]; ++i) {
    static_cast<float*>(out.data)[i * out.strides[0]] = factor * static_cast<const float*>(in.data)[i * in.strides[0]];
  }
  return MYDEV_OK;
}

constexpr mydev_kernel kScale = {
    .struct_size = sizeof(mydev_kernel),
    .name = "conformance.scale",
    .entry = scale,
    .doc = "out f32[n], in f32[n]; factor: out = factor * in",
    .runs = MYDEV_RUNS_DRIVER,
};

using Records = std::map<std::string_view, mydev_kernel>;

// Never destroyed: kernels may run until the process is gone.
Records& records() {
  static Records& all = *new Records{{kScale.name, kScale}};
  return all;
}

std::string beside_this_library(const char* name) {
  Dl_info ours{};
  const bool known = ::dladdr(reinterpret_cast<const void*>(&scale), &ours) != 0 && ours.dli_fname != nullptr;
  return known ? std::filesystem::path(ours.dli_fname).replace_filename(name).string() : name;
}

}  // namespace

void load_remote_kernels() {
  const std::string file = beside_this_library(kLibrary);
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  require(library != nullptr, MYDEV_FAILED_PRECONDITION, "the host's kernels, which option 'remote' runs, cannot be ",
          "loaded: ", library == nullptr ? ::dlerror() : "");
  const auto query = reinterpret_cast<mydev_custom_call_query_fn>(::dlsym(library, MYDEV_CUSTOM_CALL_QUERY_SYMBOL));
  const mydev_library* table =
      query == nullptr ? nullptr : query(MYDEV_CUSTOM_CALL_VERSION_MAJOR, MYDEV_CUSTOM_CALL_VERSION_MINOR);
  require(table != nullptr, MYDEV_FAILED_PRECONDITION, file, " is not the host's library of kernels");
  for (const mydev_kernel* kernel : std::span(table->kernels, table->num_kernels)) {
    const auto [at, added] = records().emplace(kernel->name, *kernel);
    at->second.runs = MYDEV_RUNS_DRIVER;
  }
}

const mydev_kernel* remote_kernel(const char* name) {
  const auto found = records().find(name);
  return found == records().end() ? nullptr : &found->second;
}

const mydev_kernel* const* remote_kernels() {
  static const std::vector<const mydev_kernel*>& all = *new std::vector<const mydev_kernel*>([] {
    std::vector<const mydev_kernel*> listed;
    for (const auto& [name, record] : records()) listed.push_back(&record);
    listed.push_back(nullptr);
    return listed;
  }());
  return all.data();
}

}  // namespace mydev::host_driver
