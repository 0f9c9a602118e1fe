#include "host_driver/compiler/kernel_modules.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "host_driver/compiler/kernel_prelude.h"
#include "host_driver/compiler/system_compiler.h"
#include "host_driver/content_hash.h"
#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace fs = std::filesystem;

namespace {

constexpr const char* kLanguage = "c++";
constexpr std::array<const char*, 2> kLanguages = {kLanguage, nullptr};
// Limits like those of a GPU: code that relies on more would not run elsewhere.
constexpr uint64_t kMostThreadsOfAGroup = 1024;
constexpr uint64_t kMostLocalMemory = 256 << 10;
constexpr uint64_t kMostGroups = uint64_t{1} << 48;
constexpr int64_t kElementsOfAThread = 16384;  // of an operand, that make a second thread worth its while
constexpr size_t kLocalAlignment = 64;

// --- libraries -------------------------------------------------------------------------------------------------------

}  // namespace

// A directory of its own for temporary files, removed with this.
class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    std::error_code problem;
    std::string name = (fs::temp_directory_path(problem) / "mydev-kernels-XXXXXX").string();
    require(!problem && ::mkdtemp(name.data()) != nullptr, MYDEV_UNAVAILABLE,
            "kernels cannot be compiled: the directory for temporary files (TMPDIR) cannot be written to");
    path_ = name;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
  fs::path operator/(const char* name) const { return path_ / name; }

 private:
  fs::path path_;
};

// A shared library, open as long as this lives.
class KernelLibrary {
 public:
  KernelLibrary(std::shared_ptr<const TemporaryDirectory> directory, fs::path file)
      : directory_(std::move(directory)), file_(std::move(file)) {
    library_ = ::dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* problem = library_ == nullptr ? ::dlerror() : nullptr;  // NOLINT(concurrency-mt-unsafe): per thread
    require(library_ != nullptr, MYDEV_FAILED_PRECONDITION,
            "a compiled module cannot be loaded: ", problem == nullptr ? file_.c_str() : problem);
  }
  ~KernelLibrary() { ::dlclose(library_); }
  KernelLibrary(const KernelLibrary&) = delete;
  KernelLibrary& operator=(const KernelLibrary&) = delete;

  void* symbol(const std::string& name) const { return ::dlsym(library_, name.c_str()); }
  const fs::path& path() const noexcept { return file_; }
  std::string target() const {
    const auto* target = static_cast<const char*>(symbol(kTargetSymbol));
    return target == nullptr ? "" : target;
  }

 private:
  std::shared_ptr<const TemporaryDirectory> directory_;
  fs::path file_;
  void* library_ = nullptr;
};

using SharedLibrary = std::shared_ptr<const KernelLibrary>;

namespace {

void write_file(const fs::path& path, std::initializer_list<std::string_view> parts) {
  std::ofstream file(path, std::ios::binary);
  for (const std::string_view part : parts) file.write(part.data(), static_cast<std::streamsize>(part.size()));
  require(static_cast<bool>(file.flush()), MYDEV_UNAVAILABLE, "cannot write ", path.string());
}

// Names all but source and options that decides a library.
const std::string& target_of(const SystemCompiler& compiler) {
  static const auto& target = *new std::string([&] {
    std::string flags;
    for (const std::string& flag : compiler_flags()) flags += flag + ' ';
    return content_hash({compiler.identity, flags, kKernelPrelude});
  }());
  return target;
}

SharedLibrary compile_source(std::string_view source, const std::string& options) {
  const SystemCompiler* compiler = system_compiler();
  require(compiler != nullptr, MYDEV_UNIMPLEMENTED, "there is no C++ compiler on this machine");
  auto directory = std::make_shared<const TemporaryDirectory>();
  const fs::path text = *directory / "kernel.cpp", library = *directory / "kernel.so";
  write_file(text, {kKernelPrelude, source});
  compile_library(*compiler, text, target_of(*compiler), options, library);
  return std::make_shared<const KernelLibrary>(std::move(directory), library);
}

SharedLibrary load_binary(std::string_view bytes) {
  auto directory = std::make_shared<const TemporaryDirectory>();
  const fs::path file = *directory / "kernel.so";
  write_file(file, {bytes});
  auto library = std::make_shared<const KernelLibrary>(std::move(directory), file);
  const SystemCompiler* compiler = system_compiler();
  require(compiler != nullptr && library->target() == target_of(*compiler), MYDEV_FAILED_PRECONDITION,
          "the binary was compiled for another processor or by another compiler, or is no module of this driver; "
          "compile its source here");
  return library;
}

}  // namespace

// --- modules ---------------------------------------------------------------------------------------------------------

// A kernel's function, with the library that it lies in.
class KernelFunctionOfModule {
 public:
  KernelFunctionOfModule(SharedLibrary library, const std::string& name)
      : library_(std::move(library)),
        function_(reinterpret_cast<KernelFunction>(library_->symbol(kFunctionPrefix + name))),
        parameters_(static_cast<const int32_t*>(library_->symbol(kParametersPrefix + name))) {
    require(function_ != nullptr && parameters_ != nullptr, MYDEV_NOT_FOUND, "the module has no kernel '", name,
            "'; its source makes one with MYDEV_KERNEL(", name, ", parameters...)");
  }

  uint32_t pointers() const noexcept { return static_cast<uint32_t>(parameters_[0]); }
  uint32_t numbers() const noexcept { return static_cast<uint32_t>(parameters_[1]); }
  void operator()(const KernelCall& call) const { function_(&call); }

 private:
  SharedLibrary library_;
  KernelFunction function_;
  const int32_t* parameters_;
};

namespace {

mydev_code refuse_without_geometry(const mydev_frame* frame) {
  frame->host->set_error(frame,
                         "a kernel of a compiled module is launched with a geometry: the compiler extension's "
                         "launch");
  return MYDEV_INVALID_ARGUMENT;
}

// A record and the kernel that it describes: `driver_data` leads from the one to the other.
struct ModuleKernel {
  std::string name;
  mydev_kernel record{};
  std::shared_ptr<const KernelFunctionOfModule> function;
};

class HostModule {
 public:
  explicit HostModule(SharedLibrary library) : library_(std::move(library)) {}

  const mydev_kernel* kernel(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (const auto known = kernels_.find(name); known != kernels_.end()) return &known->second->record;
    auto kernel = std::make_unique<ModuleKernel>();
    kernel->name = name;
    kernel->function = std::make_shared<const KernelFunctionOfModule>(library_, name);
    kernel->record = {.struct_size = sizeof(mydev_kernel),
                      .name = kernel->name.c_str(),
                      .entry = refuse_without_geometry,
                      .driver_data = kernel.get(),
                      .runs = MYDEV_RUNS_DRIVER};
    return &kernels_.emplace(name, std::move(kernel)).first->second->record;
  }

  std::string_view binary() {
    const std::lock_guard lock(mutex_);
    if (binary_.empty()) {
      std::ifstream file(library_->path(), std::ios::binary);
      binary_.assign(std::istreambuf_iterator<char>(file), {});
      require(!binary_.empty(), MYDEV_UNAVAILABLE, "cannot read ", library_->path().string());
    }
    return binary_;
  }

 private:
  std::mutex mutex_;  // guards what follows
  SharedLibrary library_;
  std::map<std::string, std::unique_ptr<ModuleKernel>> kernels_;
  std::string binary_;
};

HostModule& as_module(mydev_module module) {
  return *reinterpret_cast<HostModule*>(module);
}

}  // namespace

bool has_compiler() {
  return system_compiler() != nullptr;
}

mydev_code compiler_languages(int32_t /*device*/, const char* const** out_languages) {
  *out_languages = kLanguages.data();
  return MYDEV_OK;
}

mydev_code compiler_properties(int32_t /*device*/, mydev_compiler_properties* out_properties) {
  return run_checked([&] {
    constexpr uint32_t kGroup = kMostThreadsOfAGroup, kGrid = UINT32_MAX;
    *out_properties = {.struct_size = out_properties->struct_size,
                       .max_group = {kGroup, kGroup, kGroup},
                       .max_group_threads = kGroup,
                       .max_grid = {kGrid, kGrid, kGrid},
                       .preferred_group_threads = 0,
                       .subgroup_size = 0,
                       .parameters = MYDEV_PARAMETERS_POINTERS,
                       .features = MYDEV_COMPILER_F64 | MYDEV_COMPILER_ATOMIC_F32 | MYDEV_COMPILER_ATOMIC_S64,
                       .fault_word = 0};
  });
}

mydev_code module_create(int32_t /*device*/, const mydev_module_source* source, mydev_module* out_module) {
  return run_checked([&] {
    const std::string_view language = source->language;
    const std::string_view data(static_cast<const char*>(source->data), source->bytes);
    const bool binary = language == MYDEV_MODULE_BINARY;
    require(binary || language == kLanguage, MYDEV_INVALID_ARGUMENT, "the host driver compiles no '", language,
            "'; it takes '", kLanguage, "' and '" MYDEV_MODULE_BINARY "'");
    const std::string options = source->options == nullptr ? "" : source->options;
    auto module = std::make_unique<HostModule>(binary ? load_binary(data) : compile_source(data, options));
    *out_module = reinterpret_cast<mydev_module>(module.release());
  });
}

mydev_code module_destroy(mydev_module module) {
  return run_checked([&] { const std::unique_ptr<HostModule> owned(&as_module(module)); });
}

mydev_code module_binary(mydev_module module, const void** out_data, uint64_t* out_bytes) {
  return run_checked([&] {
    const std::string_view binary = as_module(module).binary();
    *out_data = binary.data();
    *out_bytes = binary.size();
  });
}

mydev_code module_kernel(mydev_module module, const char* name, const mydev_kernel** out_kernel) {
  return run_checked([&] { *out_kernel = as_module(module).kernel(name); });
}

// --- launches --------------------------------------------------------------------------------------------------------

namespace {

uint64_t product(const uint32_t (&sizes)[3], const char* what, uint64_t most) {
  uint64_t all = 1;
  for (const uint32_t size : sizes) {
    require(size != 0, MYDEV_INVALID_ARGUMENT, "the ", what, " is ", sizes[0], " x ", sizes[1], " x ", sizes[2],
            "; each dimension is at least 1");
    const bool fits = size <= most / all;
    require(fits, MYDEV_INVALID_ARGUMENT, "the ", what, " is ", sizes[0], " x ", sizes[1], " x ", sizes[2],
            "; it may have ", most, " in all");
    all *= size;
  }
  return all;
}

void check_geometry(const mydev_geometry& geometry) {
  product(geometry.grid, "grid", kMostGroups);
  product(geometry.group, "group", kMostThreadsOfAGroup);
  require(geometry.local_memory <= kMostLocalMemory, MYDEV_INVALID_ARGUMENT, "a group has ", geometry.local_memory,
          " bytes of local memory; it may have ", kMostLocalMemory);
}

void check_frame(const ModuleKernel& kernel, const mydev_frame& frame) {
  const uint32_t buffers = frame.num_outputs + frame.num_inputs;
  require(buffers == kernel.function->pointers() && frame.num_attributes == kernel.function->numbers(),
          MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name, "' takes ", kernel.function->pointers(), " pointers and ",
          kernel.function->numbers(), " numbers; the frame has ", buffers, " and ", frame.num_attributes);
  for (uint32_t i = 0; i < buffers; ++i) {
    require((frame.buffers[i].flags & MYDEV_BUFFER_SCALAR) == 0, MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name,
            "': buffer ", i, " is one number; a compiled kernel takes numbers as attributes");
  }
  for (uint32_t i = 0; i < frame.num_attributes; ++i) {
    const uint16_t kind = frame.attributes[i].kind;
    require(kind == MYDEV_ATTRIBUTE_INT || kind == MYDEV_ATTRIBUTE_FLOAT, MYDEV_INVALID_ARGUMENT, "kernel '",
            kernel.name, "': attribute ", i, " is neither an INT nor a FLOAT, but of kind ", kind);
  }
}

// Returns the number of groups that makes another thread worth its while. The elements of the largest operand measure
// the work.
int64_t grain_of(const mydev_frame& frame, int64_t groups) {
  int64_t most = 1;
  for (uint32_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
    const mydev_buffer& buffer = frame.buffers[i];
    int64_t elements = 1;
    for (int32_t d = 0; d < buffer.rank; ++d) elements *= buffer.strides[d] == 0 ? 1 : buffer.sizes[d];
    most = std::max(most, elements);
  }
  const int64_t of_a_group = std::max<int64_t>(most / groups, 1);
  return (kElementsOfAThread + of_a_group - 1) / of_a_group;
}

// The state that the threads of one launch share.
struct Running {
  const KernelFunctionOfModule& function;
  KernelCall call;
  uint64_t local_memory;
  const char* failure = nullptr;  // of any thread; written as an atomic
  std::atomic<bool> out_of_memory{false};
};

void run_groups(void* context, int64_t begin, int64_t end) {
  Running& running = *static_cast<Running*>(context);
  KernelCall call = running.call;
  call.begin = begin;
  call.end = end;
  void* local = nullptr;
  if (running.local_memory != 0) {
    local = std::aligned_alloc(kLocalAlignment, (running.local_memory + kLocalAlignment - 1) & ~(kLocalAlignment - 1));
    if (local == nullptr) return running.out_of_memory.store(true, std::memory_order_relaxed);
  }
  call.local_memory = static_cast<char*>(local);
  call.failure = &running.failure;
  running.function(call);
  std::free(local);
}

}  // namespace

ModuleLaunch::ModuleLaunch(const mydev_kernel& kernel, const mydev_frame& frame, const mydev_geometry& geometry)
    : geometry_(geometry) {
  require(kernel.entry == refuse_without_geometry, MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name,
          "' is of no module; launch it without a geometry");
  const auto& of_module = *static_cast<const ModuleKernel*>(kernel.driver_data);
  check_geometry(geometry);
  check_frame(of_module, frame);
  function_ = of_module.function;
}

mydev_code ModuleLaunch::run(const mydev_frame& frame) const noexcept {
  constexpr size_t kMost = 64;
  std::array<void*, kMost> few_pointers{};
  std::array<KernelNumber, kMost> few_numbers{};
  std::vector<void*> many_pointers;
  std::vector<KernelNumber> many_numbers;
  const size_t buffers = frame.num_outputs + frame.num_inputs;
  void** pointers = few_pointers.data();
  KernelNumber* numbers = few_numbers.data();
  if (buffers > kMost) pointers = (many_pointers.resize(buffers), many_pointers.data());
  if (frame.num_attributes > kMost) numbers = (many_numbers.resize(frame.num_attributes), many_numbers.data());
  for (size_t i = 0; i < buffers; ++i) pointers[i] = frame.buffers[i].data;
  for (size_t i = 0; i < frame.num_attributes; ++i) {
    const mydev_attribute& attribute = frame.attributes[i];
    if (attribute.kind == MYDEV_ATTRIBUTE_INT) {
      numbers[i].i = attribute.value.i;
    } else {
      numbers[i].f = attribute.value.f;
    }
  }
  Running running{*function_, {.pointers = pointers, .numbers = numbers}, geometry_.local_memory};
  std::ranges::copy(geometry_.grid, running.call.grid);
  std::ranges::copy(geometry_.group, running.call.group);
  const int64_t groups = int64_t{geometry_.grid[0]} * geometry_.grid[1] * geometry_.grid[2];
  frame.host->parallel_for(groups, grain_of(frame, groups), run_groups, &running);
  if (running.out_of_memory.load(std::memory_order_relaxed)) {
    frame.host->set_error(&frame, "out of host memory for a kernel's local memory");
    return MYDEV_RESOURCE_EXHAUSTED;
  }
  if (running.failure != nullptr) {
    frame.host->set_error(&frame, running.failure);
    return MYDEV_OUT_OF_RANGE;
  }
  return MYDEV_OK;
}

}  // namespace mydev::host_driver
