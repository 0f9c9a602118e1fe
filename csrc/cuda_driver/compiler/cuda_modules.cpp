#include "cuda_driver/compiler/cuda_modules.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cuda_driver/compiler/nvrtc.h"
#include "cuda_driver/device/cuda_device.h"
#include "cuda_driver/observe/profiler.h"
#include "cuda_driver/stream/cuda_stream.h"

namespace mydev::cuda_driver {

namespace {

constexpr const char* kLanguage = "cuda-c";
constexpr std::array<const char*, 2> kLanguages = {kLanguage, nullptr};
constexpr uint64_t kUsualSharedBytes = 48 << 10;  // beyond this a function must ask for its group's memory

// --- modules ---------------------------------------------------------------------------------------------------------

// A record and the kernel that it describes: `driver_data` leads from the one to the other.
struct ModuleKernel {
  std::string name;
  mydev_kernel record{};
  FunctionRef function = nullptr;
  CudaDevice* device = nullptr;
};

mydev_code refuse_without_geometry(const mydev_frame* frame) {
  frame->host->set_error(frame,
                         "a kernel of a compiled module is launched with a geometry: the compiler extension's "
                         "launch");
  return MYDEV_INVALID_ARGUMENT;
}

class CudaModule {
 public:
  CudaModule(CudaDevice& device, std::string binary) : device_(device), binary_(std::move(binary)) {
    std::array<char, 2048> log{};
    std::array<int, 2> options = {kJitErrorLog, kJitErrorLogBytes};
    std::array<void*, 2> values = {log.data(), reinterpret_cast<void*>(log.size() - 1)};
    const CurrentContext context(device_);
    const Result result = cuda().cuModuleLoadDataEx(&module_, binary_.c_str(), 2, options.data(), values.data());
    const bool foreign = result == kErrorInvalidImage || result == kErrorNoBinary || result == kErrorInvalidPtx ||
                         result == kErrorUnsupportedPtx || result == kErrorInvalidSource;
    require(!foreign, MYDEV_FAILED_PRECONDITION,
            "the module is of another architecture or version of CUDA, or is no "
            "module: ",
            text_of(result), " ", log.data());
    check(result, "cuModuleLoadDataEx of ", binary_.size(), " bytes");
  }
  ~CudaModule() {
    try {
      const CurrentContext context(device_);
      cuda().cuModuleUnload(module_);
    } catch (const DriverError&) {  // NOLINT(bugprone-empty-catch): at exit CUDA may be gone, and the module with it
    }
  }
  CudaModule(const CudaModule&) = delete;
  CudaModule& operator=(const CudaModule&) = delete;

  CudaDevice& device() const noexcept { return device_; }
  const std::string& binary() const noexcept { return binary_; }

  const mydev_kernel* kernel(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (const auto known = kernels_.find(name); known != kernels_.end()) return &known->second->record;
    const CurrentContext context(device_);
    auto kernel = std::make_unique<ModuleKernel>();
    kernel->name = name;
    kernel->device = &device_;
    check(cuda().cuModuleGetFunction(&kernel->function, module_, name.c_str()), "the module has no kernel '", name,
          "'; its source makes one with extern \"C\" __global__: cuModuleGetFunction");
    kernel->record = {.struct_size = sizeof(mydev_kernel),
                      .name = kernel->name.c_str(),
                      .entry = refuse_without_geometry,
                      .driver_data = kernel.get(),
                      .runs = MYDEV_RUNS_DRIVER};
    return &kernels_.emplace(name, std::move(kernel)).first->second->record;
  }

 private:
  CudaDevice& device_;
  const std::string binary_;
  ModuleRef module_ = nullptr;
  std::mutex mutex_;  // guards what follows
  std::map<std::string, std::unique_ptr<ModuleKernel>> kernels_;
};

CudaModule& as_module(mydev_module module) {
  return *reinterpret_cast<CudaModule*>(module);
}

// Modules that were destroyed while launches of the device were pending: maybe theirs. Unloaded once it is idle.
class Retired {
 public:
  void add(std::unique_ptr<CudaModule> module) {
    const std::lock_guard lock(mutex_);
    modules_.push_back(std::move(module));
  }
  void unload() {
    const std::lock_guard lock(mutex_);
    std::erase_if(modules_, [](const std::unique_ptr<CudaModule>& module) {
      const CurrentContext context(module->device());
      return all_done(module->device());
    });
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<CudaModule>> modules_;
};

Retired& retired() {
  static Retired& modules = *new Retired;
  return modules;
}

mydev_code languages(int32_t /*device*/, const char* const** out_languages) {
  *out_languages = kLanguages.data();
  return MYDEV_OK;
}

mydev_code properties(int32_t device, mydev_compiler_properties* out) {
  return run_checked([&] {
    const CudaDevice& on = device_at(device);
    const auto number = [&](Attribute which) { return static_cast<uint32_t>(on.attribute(which)); };
    *out = {.struct_size = out->struct_size,
            .max_group = {number(Attribute::kMaxBlockX), number(Attribute::kMaxBlockY), number(Attribute::kMaxBlockZ)},
            .max_group_threads = number(Attribute::kMaxThreadsPerBlock),
            .max_grid = {number(Attribute::kMaxGridX), number(Attribute::kMaxGridY), number(Attribute::kMaxGridZ)},
            .preferred_group_threads = 0,
            .subgroup_size = number(Attribute::kWarpSize),
            .parameters = MYDEV_PARAMETERS_POINTERS,
            .features = MYDEV_COMPILER_F64 | MYDEV_COMPILER_ATOMIC_F32 | MYDEV_COMPILER_ATOMIC_S64,
            .fault_word = 1};
  });
}

mydev_code module_create(int32_t device, const mydev_module_source* source, mydev_module* out_module) {
  return run_checked([&] {
    CudaDevice& on = device_at(device);
    const std::string_view language = source->language;
    const std::string_view data(static_cast<const char*>(source->data), source->bytes);
    const bool binary = language == MYDEV_MODULE_BINARY;
    require(binary || language == kLanguage, MYDEV_INVALID_ARGUMENT, "the CUDA driver compiles no '", language,
            "'; it takes '", kLanguage, "' and '" MYDEV_MODULE_BINARY "'");
    retired().unload();
    const std::string options = source->options == nullptr ? "" : source->options;
    auto module = std::make_unique<CudaModule>(
        on, binary ? std::string(data) : compile_cuda(data, options, on.compute_capability()));
    *out_module = reinterpret_cast<mydev_module>(module.release());
  });
}

mydev_code module_destroy(mydev_module module) {
  return run_checked([&] {
    retired().add(std::unique_ptr<CudaModule>(&as_module(module)));
    retired().unload();
  });
}

mydev_code module_binary(mydev_module module, const void** out_data, uint64_t* out_bytes) {
  *out_data = as_module(module).binary().data();
  *out_bytes = as_module(module).binary().size();
  return MYDEV_OK;
}

mydev_code module_kernel(mydev_module module, const char* name, const mydev_kernel** out_kernel) {
  return run_checked([&] { *out_kernel = as_module(module).kernel(name); });
}

// --- launches --------------------------------------------------------------------------------------------------------

// The parameters of a launch, which CUDA copies: their addresses in the order of the function's.
class Parameters {
 public:
  Parameters(const mydev_frame& frame, uint32_t* fault_word) : fault_word_(fault_word) {
    const size_t buffers = frame.num_outputs + frame.num_inputs;
    addresses_.reserve(buffers + frame.num_attributes + 1);
    for (size_t i = 0; i < buffers; ++i) {
      addresses_.push_back(const_cast<void*>(static_cast<const void*>(&frame.buffers[i].data)));
    }
    for (size_t i = 0; i < frame.num_attributes; ++i) {
      const mydev_attribute& attribute = frame.attributes[i];
      const bool number = attribute.kind == MYDEV_ATTRIBUTE_INT || attribute.kind == MYDEV_ATTRIBUTE_FLOAT;
      require(number, MYDEV_INVALID_ARGUMENT, "attribute ", i, " is neither an INT nor a FLOAT, but of kind ",
              attribute.kind);
      addresses_.push_back(const_cast<void*>(static_cast<const void*>(&attribute.value)));
    }
    addresses_.push_back(static_cast<void*>(&fault_word_));
  }
  void** data() noexcept { return addresses_.data(); }

 private:
  uint32_t* fault_word_;
  std::vector<void*> addresses_;
};

void check_geometry(const CudaDevice& device, const mydev_geometry& geometry) {
  const auto all_used = [](const uint32_t (&sizes)[3]) { return sizes[0] != 0 && sizes[1] != 0 && sizes[2] != 0; };
  require(all_used(geometry.grid) && all_used(geometry.group), MYDEV_INVALID_ARGUMENT,
          "a geometry has a 0 in it; each dimension is at least 1");
  if (geometry.local_memory <= kUsualSharedBytes) return;
  const auto most = static_cast<uint64_t>(device.attribute(Attribute::kMaxSharedPerBlock));
  require(geometry.local_memory <= most, MYDEV_INVALID_ARGUMENT, "a group has ", geometry.local_memory,
          " bytes of local memory; it may have ", most);
}

mydev_code launch(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame, const mydev_geometry* geometry) {
  return run_checked([&] {
    require(kernel->entry == refuse_without_geometry, MYDEV_INVALID_ARGUMENT, "kernel '", kernel->name,
            "' is of no module; launch it without a geometry");
    const auto& of_module = *static_cast<const ModuleKernel*>(kernel->driver_data);
    CudaStream& on = as_stream(stream);
    check_geometry(*of_module.device, *geometry);
    const CurrentContext context(on.device());
    const auto shared = static_cast<int>(geometry->local_memory);
    if (geometry->local_memory > kUsualSharedBytes) {
      check(cuda().cuFuncSetAttribute(of_module.function, kFunctionMaxDynamicShared, shared), "cuFuncSetAttribute of ",
            shared, " bytes of local memory for kernel '", of_module.name, "'");
    }
    Parameters parameters(*frame, on.next_fault_word(of_module.name));
    const RecordedActivity activity(on, {MYDEV_ACTIVITY_LAUNCH, of_module.name.c_str()});
    const auto& [grid_x, grid_y, grid_z] = geometry->grid;
    const auto& [group_x, group_y, group_z] = geometry->group;
    check(cuda().cuLaunchKernel(of_module.function, grid_x, grid_y, grid_z, group_x, group_y, group_z,
                                static_cast<unsigned>(shared), on.ref(), parameters.data(), nullptr),
          "cuLaunchKernel of '", of_module.name, "', ", grid_x, " x ", grid_y, " x ", grid_z, " groups of ", group_x,
          " x ", group_y, " x ", group_z);
  });
}

constexpr mydev_compiler_extension kCompiler = {
    .head = {.struct_size = sizeof(mydev_compiler_extension), .version = MYDEV_COMPILER_VERSION, .reserved = 0},
    .languages = languages,
    .module_create = module_create,
    .module_destroy = module_destroy,
    .module_binary = module_binary,
    .module_kernel = module_kernel,
    .launch = launch,
    .properties = properties,
};

}  // namespace

const mydev_compiler_extension& compiler_extension() {
  return kCompiler;
}

}  // namespace mydev::cuda_driver
