// The discrete driver with a compiler for OpenCL C, as a small device has one: a group has one thread, a launch at most
// 512 x 65536 groups, buffers are a base and an offset, there is neither f64 nor a 64-bit atomic, and a fault word says
// that a check failed. The machine's C++ compiler does the work, by opencl_shim.h.
#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <memory>
#include <utility>

#define mydev_driver_query discrete_driver_query
#include "../discrete_driver.cpp"
#include "mydev/driver_extensions.h"
#include "opencl_shim.h"

namespace {

constexpr uint32_t kMostGroups = 512, kMostRows = 65536;

// A function takes its numbers and addresses as integers, then doubles: wherever these come in the order of its
// parameters, they are in the same registers, and in the same order on the stack.
constexpr size_t kMostIntegers = 80, kMostDoubles = 8;
template <size_t kIndex>
using Integer = int64_t;
template <size_t kIndex>
using Double = double;
template <size_t... kIntegers, size_t... kDoubles>
void call(void* function, const int64_t* integers, const double* doubles, std::index_sequence<kIntegers...>,
          std::index_sequence<kDoubles...>) {
  reinterpret_cast<void (*)(Integer<kIntegers>..., Double<kDoubles>...)>(function)(integers[kIntegers]...,
                                                                                   doubles[kDoubles]...);
}

struct CompiledFunction {
  std::string name;
  void* function;
  mydev_kernel record;
};

struct Module {
  void* library;
  void (*place)(const uint32_t* group, const uint32_t* grid);
  std::vector<std::unique_ptr<CompiledFunction>> functions;
};

mydev_code languages(int32_t /*device*/, const char* const** out_languages) {
  static constexpr const char* kLanguages[] = {"opencl-c", nullptr};
  *out_languages = kLanguages;
  return MYDEV_OK;
}

mydev_code properties(int32_t /*device*/, mydev_compiler_properties* out) {
  *out = {.struct_size = out->struct_size,
          .max_group = {1, 1, 1},
          .max_group_threads = 1,
          .max_grid = {kMostGroups, kMostRows, 1},
          .preferred_group_threads = 0,
          .subgroup_size = 1,
          .parameters = MYDEV_PARAMETERS_BASE_AND_OFFSET,
          .features = MYDEV_COMPILER_ATOMIC_F32 | MYDEV_COMPILER_SCALAR_MATH,
          .fault_word = 1};
  return MYDEV_OK;
}

mydev_code module_create(int32_t /*device*/, const mydev_module_source* source, mydev_module* out_module) {
  if (std::strcmp(source->language, "opencl-c") != 0) {
    return fail(MYDEV_INVALID_ARGUMENT, std::string("no compiler for '") + source->language + "'; give 'opencl-c'");
  }
  char directory[] = "/tmp/mydev-opencl-XXXXXX";
  if (mkdtemp(directory) == nullptr) return fail(MYDEV_UNAVAILABLE, "no directory for temporary files");
  const std::string base = std::string(directory) + "/kernels";
  std::ofstream(base + ".cpp") << kOpenclShim << std::string(static_cast<const char*>(source->data), source->bytes);
  const std::string command = "c++ -O1 -std=c++20 -w -fpermissive -fwrapv -shared -fPIC -o " + base + ".so " + base +
                              ".cpp 2> " + base + ".log";
  const bool compiled = std::system(command.c_str()) == 0;  // NOLINT(cert-env33-c)
  void* library = compiled ? dlopen((base + ".so").c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  std::ifstream log(base + ".log");
  std::string problem;
  for (std::string line; problem.empty() && std::getline(log, line);) {
    if (line.find("error") != std::string::npos) problem = line;
  }
  for (const char* file : {".cpp", ".log", ".so"}) unlink((base + file).c_str());
  rmdir(directory);
  if (library == nullptr) return fail(MYDEV_INVALID_ARGUMENT, "the source does not compile: " + problem);
  auto module = std::make_unique<Module>();
  module->library = library;
  module->place = reinterpret_cast<decltype(module->place)>(dlsym(library, "shim_place"));
  *out_module = reinterpret_cast<mydev_module>(module.release());
  return MYDEV_OK;
}

mydev_code module_destroy(mydev_module module) {
  const std::unique_ptr<Module> taken(reinterpret_cast<Module*>(module));
  dlclose(taken->library);
  return MYDEV_OK;
}

mydev_code module_kernel(mydev_module handle, const char* name, const mydev_kernel** out_kernel) {
  Module& module = *reinterpret_cast<Module*>(handle);
  const auto known = std::find_if(module.functions.begin(), module.functions.end(),
                                  [&](const auto& function) { return function->name == name; });
  if (known != module.functions.end()) {
    *out_kernel = &(*known)->record;
    return MYDEV_OK;
  }
  void* function = dlsym(module.library, name);
  if (function == nullptr) return fail(MYDEV_NOT_FOUND, std::string("the source has no kernel '") + name + "'");
  CompiledFunction& made = *module.functions.emplace_back(new CompiledFunction{name, function, {}});
  made.record = {.struct_size = sizeof(mydev_kernel), .name = made.name.c_str(), .runs = MYDEV_RUNS_DRIVER};
  made.record.driver_data = new std::pair<Module*, CompiledFunction*>(&module, &made);  // the tests' processes end soon
  *out_kernel = &made.record;
  return MYDEV_OK;
}

mydev_code launch_compiled(mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame,
                           const mydev_geometry* geometry) {
  const auto& [grid_x, grid_y, grid_z] = geometry->grid;
  if (grid_x == 0 || grid_x > kMostGroups || grid_y == 0 || grid_y > kMostRows || grid_z != 1 ||
      std::any_of(std::begin(geometry->group), std::end(geometry->group), [](uint32_t size) { return size != 1; })) {
    return fail(MYDEV_INVALID_ARGUMENT, "a launch has at most 512 x 65536 groups of 1 thread");
  }
  const SimulatedMemory& memory = memory_of(stream);
  uint32_t fault = 0;
  std::array<int64_t, kMostIntegers> integers{};
  std::array<double, kMostDoubles> doubles{};
  size_t num_integers = 0, num_doubles = 0;
  const uint32_t buffers = frame->num_outputs + frame->num_inputs;
  if (2 * buffers + frame->num_attributes + 1 > kMostIntegers) return fail(MYDEV_INVALID_ARGUMENT, "too many operands");
  char* const base = memory.base();
  for (uint32_t i = 0; i < buffers; ++i) {
    void* const data = frame->buffers[i].data;
    integers[num_integers++] = reinterpret_cast<int64_t>(base);
    integers[num_integers++] = data == nullptr ? 0 : static_cast<char*>(memory.translate(data)) - base;
  }
  for (const mydev_attribute& number : std::span(frame->attributes, frame->num_attributes)) {
    if (number.kind == MYDEV_ATTRIBUTE_INT) {
      integers[num_integers++] = number.value.i;
    } else if (num_doubles < kMostDoubles) {
      doubles[num_doubles++] = number.value.f;
    }
  }
  integers[num_integers] = reinterpret_cast<int64_t>(&fault);
  const auto& [module, function] = *static_cast<std::pair<Module*, CompiledFunction*>*>(kernel->driver_data);
  for (uint32_t y = 0; y < grid_y; ++y) {
    for (uint32_t x = 0; x < grid_x; ++x) {
      const uint32_t group[3] = {x, y, 0};
      module->place(group, geometry->grid);
      call(function->function, integers.data(), doubles.data(), std::make_index_sequence<kMostIntegers>(),
           std::make_index_sequence<kMostDoubles>());
    }
  }
  return fault == 0 ? MYDEV_OK : fail(MYDEV_OUT_OF_RANGE, "an index is out of bounds, or an assertion failed");
}

constexpr mydev_compiler_extension kCompiler = {
    .head = {.struct_size = sizeof(mydev_compiler_extension), .version = MYDEV_COMPILER_VERSION, .reserved = 0},
    .languages = languages,
    .module_create = module_create,
    .module_destroy = module_destroy,
    .module_binary = nullptr,
    .module_kernel = module_kernel,
    .launch = launch_compiled,
    .properties = properties,
};

constexpr mydev_extension kExtensions[] = {{MYDEV_COMPILER_EXTENSION, MYDEV_COMPILER_VERSION}};

const void* extension(const char* name, uint32_t /*version*/) {
  return std::strcmp(name, MYDEV_COMPILER_EXTENSION) == 0 ? &kCompiler : nullptr;
}

}  // namespace

#undef mydev_driver_query
extern "C" MYDEV_EXPORT const mydev_driver_api* mydev_driver_query(uint32_t version_major, uint32_t /*version_minor*/) {
  static const mydev_driver_api table = [] {
    mydev_driver_api made = kApi;
    made.extensions = kExtensions;
    made.num_extensions = 1;
    made.extension = extension;
    return made;
  }();
  return version_major == MYDEV_DRIVER_VERSION_MAJOR ? &table : nullptr;
}
