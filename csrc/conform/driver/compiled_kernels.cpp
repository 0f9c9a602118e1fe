// The compiler extension: kernels from source, their launches and geometries, binaries, the life of modules.
//
// The suite knows sources in the languages of kSources and takes the first that the driver lists; a driver of other
// languages is tested only for what needs no source.
#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "conform/driver/scale_kernel.h"
#include "runtime/base/status.h"
#include "runtime/command/launch.h"
#include "runtime/driver/kernel_module.h"

namespace mydev::conform {
namespace {

// conformance_scale: out[i] = factor * in[i] for i < count, by one thread each. conformance_add: sum[i] += in[i].
// conformance_fault, of languages without a trap: says in the fault word that it failed.
struct Source {
  const char* language;
  const char* text;
};
constexpr const char* kParameters = R"(
#if BASE_AND_OFFSET
#define PARAMETER(T, name) T* name##_base, LONG name##_offset
#define POINTER(T, name) T* name = (T*)((GLOBAL const char*)name##_base + name##_offset);
#else
#define PARAMETER(T, name) T* name
#define POINTER(T, name)
#endif
#if FAULT_WORD
#define FAULT , GLOBAL unsigned int* fault
#else
#define FAULT
#endif
KERNEL conformance_scale(PARAMETER(GLOBAL float, out), PARAMETER(GLOBAL const float, in), LONG count, FACTOR factor FAULT) {
  POINTER(GLOBAL float, out)
  POINTER(GLOBAL const float, in)
  const LONG i = INDEX;
  if (i < count) out[i] = (float)factor * in[i];
}
KERNEL conformance_add(PARAMETER(GLOBAL float, sum), PARAMETER(GLOBAL const float, in), LONG count FAULT) {
  POINTER(GLOBAL float, sum)
  POINTER(GLOBAL const float, in)
  const LONG i = INDEX;
  if (i < count) sum[i] += in[i];
}
#if FAULT_WORD
KERNEL conformance_fault(PARAMETER(GLOBAL float, out), PARAMETER(GLOBAL const float, in), LONG count FAULT) {
  if (INDEX == count - 1) *fault = 1;
}
#endif
)";
constexpr std::array kSources = {
    Source{"cuda-c", R"(
#define KERNEL extern "C" __global__ void
#define GLOBAL
#define LONG long long
#define INDEX (blockIdx.x * (long long)blockDim.x + threadIdx.x)
)"},
    Source{"opencl-c", R"(
#if HAS_F64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#endif
#define KERNEL __kernel void
#define GLOBAL __global
#define LONG long
#define INDEX (long)get_global_id(0)
)"},
    Source{"c++", R"(
MYDEV_KERNEL(conformance_scale, float* out, const float* in, int64_t count, double factor) {
  MYDEV_FOR_THREADS(i, count) out[i] = float(factor) * in[i];
}
MYDEV_KERNEL(conformance_add, float* sum, const float* in, int64_t count) {
  MYDEV_FOR_THREADS(i, count) sum[i] += in[i];
}
)"},
};

constexpr uint32_t kGroups = 5, kThreads = 64;
constexpr int64_t kVectorElements = 300;  // fewer than there are threads
constexpr size_t kVectorBytes = kVectorElements * sizeof(float);

const mydev_compiler_extension& compiler(DriverCase& t) {
  const mydev_compiler_extension* table = compiler_of(t.device());
  t.needs(table != nullptr, "the driver has no extension 'compiler'");
  return *table;
}

// Ends the case if the driver compiles no language that the suite has source in.
const Source& source_for(DriverCase& t) {
  compiler(t);
  for (const std::string& language : compiler_languages(t.device())) {
    const auto* const known =
        std::ranges::find_if(kSources, [&](const Source& source) { return language == source.language; });
    if (known != kSources.end()) return *known;
  }
  t.checks.skip("the suite has no source in a language that the driver compiles");
}

bool has_f64(DriverCase& t) {
  return (compiler_properties(t.device()).features & MYDEV_COMPILER_F64) != 0;
}

std::shared_ptr<KernelModule> compile(DriverCase& t) {
  const Source& source = source_for(t);
  std::string text = source.text;
  if (std::string_view(source.language) != "c++") {
    const mydev_compiler_properties properties = compiler_properties(t.device());
    const auto define = [](const char* name, const auto& value) {
      return std::string("#define ") + name + " " + value + "\n";
    };
    text = define("BASE_AND_OFFSET", std::to_string(properties.parameters)) +
           define("FAULT_WORD", std::to_string(properties.fault_word)) + define("HAS_F64", has_f64(t) ? "1" : "0") +
           define("FACTOR", has_f64(t) ? "double" : "LONG") + text + kParameters;
  }
  return KernelModule::compile(t.device(), source.language, text, "");
}

std::shared_ptr<const CompiledKernel> scale_of(DriverCase& t, KernelModule& module) {
  return module.kernel("conformance_scale", {.results = 1, .operands = 1, .numbers = has_f64(t) ? "if" : "ii"});
}

// So many groups of kThreads, or the same threads in groups of one where the device has no room for kThreads.
mydev_geometry geometry_of(DriverCase& t, uint32_t groups = kGroups) {
  const mydev_compiler_properties properties = compiler_properties(t.device());
  const uint32_t threads = std::min(properties.max_group[0], properties.max_group_threads) >= kThreads ? kThreads : 1;
  const uint32_t grid = groups * kThreads / threads;
  t.needs(grid <= properties.max_grid[0], "the device runs fewer groups in one dimension than the case has");
  return make_geometry({grid, 1, 1}, {threads, 1, 1});
}

mydev_module_source given(const char* language, std::string_view data) {
  return {.struct_size = sizeof(mydev_module_source),
          .language = language,
          .data = data.data(),
          .bytes = data.size(),
          .options = ""};
}

// Operands and numbers of a launch of conformance_scale, or, without a factor, of conformance_add.
struct Arguments {
  Arguments(const CompiledKernel& kernel, const DeviceMemory& out, const DeviceMemory& in, double factor = 0)
      : operands{{{out.data(), &count, &stride, 1, MYDEV_F32, 0}, {in.data(), &count, &stride, 1, MYDEV_F32, 0}}} {
    std::ranges::copy(kernel.attributes(), numbers.begin());
    num_numbers = kernel.attributes().size();
    numbers[0].value.i = kVectorElements;
    if (numbers[1].kind == MYDEV_ATTRIBUTE_INT) {
      numbers[1].value.i = static_cast<int64_t>(factor);
    } else {
      numbers[1].value.f = factor;
    }
  }
  mydev_frame frame() const { return make_frame(operands, 1, {numbers.data(), num_numbers}); }

  int64_t count = kVectorElements, stride = 1;
  std::array<mydev_buffer, 2> operands;
  std::array<mydev_attribute, 2> numbers{};
  size_t num_numbers;
};

void launch(DriverCase& t, const std::shared_ptr<const CompiledKernel>& kernel, const DeviceMemory& out,
            const DeviceMemory& in, double factor = 0, uint32_t groups = kGroups) {
  const Arguments arguments(*kernel, out, in, factor);
  mydev_frame frame = arguments.frame();
  launch_compiled({kernel, geometry_of(t, groups)}, frame, t.stream());
}

std::vector<float> counted() {
  std::vector<float> values(kVectorElements);
  std::iota(values.begin(), values.end(), 0.0F);
  return values;
}

// --- languages, source -----------------------------------------------------------------------------------------------

void languages_are_listed(DriverCase& t) {
  compiler(t);
  const std::vector<std::string> languages = compiler_languages(t.device());
  t.checks.that(!languages.empty(), "languages gave none; a driver without a compiler lists no such extension");
  t.checks.that(std::ranges::count(languages, MYDEV_MODULE_BINARY) == 0,
                "languages lists 'binary', which is for what module_binary gave");
  t.checks.that(languages == compiler_languages(t.device()), "languages gave others when it was asked again");
}

void expect_refusal(DriverCase& t, std::string_view what, const mydev_module_source& source) {
  mydev_module module = nullptr;
  const mydev_code code = compiler(t).module_create(0, &source, &module);
  const std::string message = t.driver().last_error();
  t.checks.equal("the code of module_create for " + std::string(what), code_name(code),
                 code_name(MYDEV_INVALID_ARGUMENT));
  if (code == MYDEV_OK) return;
  t.checks.that(!message.empty(), "last_error says nothing of " + std::string(what));
  t.checks.that(module == nullptr, "module_create failed for " + std::string(what) + " and wrote *out_module");
}

void bad_source_is_refused(DriverCase& t) {
  expect_refusal(t, "source with an error", given(source_for(t).language, "this is no kernel at all;"));
}

void an_unknown_language_is_refused(DriverCase& t) {
  expect_refusal(t, "the language 'conformance-none'", given("conformance-none", ""));
}

void a_missing_kernel_is_not_found(DriverCase& t) {
  const auto module = compile(t);
  mydev_code code = MYDEV_OK;
  try {
    const RaiserBypass bypass;
    module->kernel("conformance_none", {.results = 1});
  } catch (const Error& error) {
    code = error.code();
  }
  t.checks.equal("the code of module_kernel for 'conformance_none', which is not in the source", code_name(code),
                 code_name(MYDEV_NOT_FOUND));
}

void a_kernel_has_one_record(DriverCase& t) {
  const auto module = compile(t);
  const mydev_kernel& record = scale_of(t, *module)->record();
  t.checks.that(record.struct_size >= offsetof(mydev_kernel, limits) && record.runs == MYDEV_RUNS_DRIVER,
                "the record of a compiled kernel does not say MYDEV_RUNS_DRIVER");
  t.checks.that(record.name != nullptr, "the record of a compiled kernel has no name");
  t.checks.that(&scale_of(t, *module)->record() == &record,
                "module_kernel gave another record when it was asked again");
}

// --- launches --------------------------------------------------------------------------------------------------------

void a_compiled_kernel_runs(DriverCase& t) {
  const auto module = compile(t);
  const DeviceMemory in(t, kVectorBytes), out(t, kVectorBytes);
  t.upload(t.stream(), in, bytes_of(counted()));
  launch(t, scale_of(t, *module), out, in, 3);
  std::vector<float> expected = counted();
  for (float& value : expected) value *= 3;
  t.same_bytes("3 times 0, 1, 2, …, in f32", t.download(t.stream(), out), bytes_of(expected));
}

void the_geometry_says_how_many_threads(DriverCase& t) {
  const auto module = compile(t);
  const DeviceMemory in(t, kVectorBytes), out(t, kVectorBytes);
  t.upload(t.stream(), in, bytes_of(std::vector<float>(kVectorElements, 1)));
  t.upload(t.stream(), out, bytes_of(std::vector<float>(kVectorElements, 9)));
  launch(t, scale_of(t, *module), out, in, 2, /*groups=*/2);
  std::vector<float> expected(kVectorElements, 9);
  std::fill_n(expected.begin(), 2 * kThreads, 2.0F);
  t.same_bytes("2 for each thread of two groups, else 9, in f32", t.download(t.stream(), out), bytes_of(expected));
}

void compiled_kernels_keep_the_order_of_the_stream(DriverCase& t) {
  const auto module = compile(t);
  const auto scale = scale_of(t, *module);
  const auto add = module->kernel("conformance_add", {.updated = 1, .operands = 1, .numbers = "i"});
  const DeviceMemory value(t, kVectorBytes), sum(t, kVectorBytes);
  t.upload(t.stream(), value, bytes_of(std::vector<float>(kVectorElements, 1)));
  t.upload(t.stream(), sum, bytes_of(std::vector<float>(kVectorElements, 0)));
  for (int step = 0; step < 10; ++step) {
    launch(t, scale, value, value, 2);
    launch(t, add, sum, value);
  }
  t.same_bytes("2 + 4 + … + 1024, in f32", t.download(t.stream(), sum),
               bytes_of(std::vector<float>(kVectorElements, 2046)));
}

void frame_and_geometry_are_the_callers_after_the_call(DriverCase& t) {
  const auto module = compile(t);
  const auto scale = scale_of(t, *module);
  const DeviceMemory memory(t, kVectorBytes);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(kVectorElements, 1)));
  for (int step = 0; step < 10; ++step) {
    Arguments arguments(*scale, memory, memory, 2);
    mydev_frame frame = arguments.frame();
    CompiledLaunch compiled{scale, geometry_of(t)};
    launch_compiled(compiled, frame, t.stream());
    compiled.geometry = {};
    arguments.count = -1;
    arguments.operands.fill({});
    arguments.numbers.fill({});
    frame = {};
  }
  t.same_bytes("1, doubled ten times, in f32, by launches whose frames and geometries changed after the call",
               t.download(t.stream(), memory), bytes_of(std::vector<float>(kVectorElements, 1024)));
}

void an_empty_geometry_is_refused(DriverCase& t) {
  const auto module = compile(t);
  const auto scale = scale_of(t, *module);
  const DeviceMemory memory(t, kVectorBytes);
  const Arguments arguments(*scale, memory, memory, 2);
  const std::array empty = {make_geometry({0, 1, 1}, {1, 1, 1}), make_geometry({1, 1, 1}, {1, 1, 0})};
  for (const mydev_geometry& geometry : empty) {
    mydev_frame frame = arguments.frame();
    frame.device = t.device().index;
    frame.stream = t.stream().handle();
    frame.host = &host_services();
    frame.kernel = &scale->record();
    const mydev_code code = scale->submit(t.stream().handle(), &frame, geometry);
    if (!t.checks.equal("the code of a launch with a 0 in its geometry", code_name(code),
                        code_name(MYDEV_INVALID_ARGUMENT))) {
      t.checks.end();
    }
  }
}

bool are_same(const mydev_compiler_properties& a, const mydev_compiler_properties& b) {
  return std::ranges::equal(a.max_group, b.max_group) && a.max_group_threads == b.max_group_threads &&
         std::ranges::equal(a.max_grid, b.max_grid) && a.preferred_group_threads == b.preferred_group_threads &&
         a.subgroup_size == b.subgroup_size && a.parameters == b.parameters && a.features == b.features &&
         a.fault_word == b.fault_word;
}

void properties_make_sense(DriverCase& t) {
  t.needs(compiler(t).properties != nullptr, "the driver leaves the compiler's properties out");
  const mydev_compiler_properties first = compiler_properties(t.device()), second = compiler_properties(t.device());
  t.checks.that(are_same(first, second), "properties gave others when it was asked again");
}

void a_fault_word_fails_the_launch(DriverCase& t) {
  compiler(t);
  t.needs(compiler_properties(t.device()).fault_word != 0, "the compiler has no fault word");
  const auto module = compile(t);
  const auto fault = module->kernel("conformance_fault", {.results = 1, .operands = 1, .numbers = "i"});
  const DeviceMemory memory(t, kVectorBytes);
  mydev_code code = MYDEV_OK;
  try {
    const RaiserBypass bypass;
    launch(t, fault, memory, memory);
    t.stream().synchronize();
  } catch (const Error& error) {
    code = error.code();
  }
  t.checks.equal("the code of a launch that left 1 in the fault word", code_name(code), code_name(MYDEV_OUT_OF_RANGE));
  launch(t, scale_of(t, *module), memory, memory, 2);
  t.stream().synchronize();
}

// --- life, binaries --------------------------------------------------------------------------------------------------

void launches_outlive_their_module(DriverCase& t) {
  const DeviceMemory memory(t, kVectorBytes);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(kVectorElements, 1)));
  for (int step = 0; step < 10; ++step) {
    const auto module = compile(t);
    launch(t, scale_of(t, *module), memory, memory, 2);
  }
  t.same_bytes("1, doubled ten times, in f32, each time by a module that was destroyed at once",
               t.download(t.stream(), memory), bytes_of(std::vector<float>(kVectorElements, 1024)));
}

void a_binary_is_the_module_again(DriverCase& t) {
  t.needs(compiler(t).module_binary != nullptr, "the driver leaves module_binary out");
  std::string binary;
  {
    const auto module = compile(t);
    const auto bytes = module->binary().value_or(std::span<const std::byte>());
    t.checks.require(!bytes.empty(), "module_binary gave no bytes");
    binary.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const auto module = KernelModule::compile(t.device(), MYDEV_MODULE_BINARY, binary, "");
  const DeviceMemory memory(t, kVectorBytes);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(kVectorElements, 1)));
  launch(t, scale_of(t, *module), memory, memory, 2);
  t.same_bytes("twice 1, in f32, by a module that was loaded from its binary", t.download(t.stream(), memory),
               bytes_of(std::vector<float>(kVectorElements, 2)));
}

}  // namespace

std::vector<Case> compiled_kernel_cases() {
  return driver_cases({
      MYDEV_CASE(languages_are_listed, "the compiler extension names its languages, the same each time"),
      MYDEV_CASE(an_unknown_language_is_refused,
                 "module_create says INVALID_ARGUMENT to a language that is not listed"),
      MYDEV_CASE(bad_source_is_refused,
                 "module_create says INVALID_ARGUMENT to bad source, and last_error what is wrong"),
      MYDEV_CASE(a_missing_kernel_is_not_found, "module_kernel says NOT_FOUND for a function that the source has not"),
      MYDEV_CASE(a_kernel_has_one_record,
                 "module_kernel gives one record for a function, which says MYDEV_RUNS_DRIVER"),
      MYDEV_CASE(a_compiled_kernel_runs,
                 "a function is given pointers in the order of the buffers, then numbers by value"),
      MYDEV_CASE(the_geometry_says_how_many_threads, "a launch has as many groups and threads as its geometry says"),
      MYDEV_CASE(properties_make_sense, "what properties says does not contradict itself, and is the same each time"),
      MYDEV_CASE(a_fault_word_fails_the_launch,
                 "a launch that leaves a number in the fault word fails with OUT_OF_RANGE"),
      MYDEV_CASE(an_empty_geometry_is_refused, "a geometry with a 0 in it is INVALID_ARGUMENT"),
      MYDEV_CASE(compiled_kernels_keep_the_order_of_the_stream,
                 "launches of compiled kernels run in the order of the calls"),
      MYDEV_CASE(frame_and_geometry_are_the_callers_after_the_call,
                 "a frame and a geometry that change once launch has returned change nothing"),
      MYDEV_CASE(launches_outlive_their_module, "what was launched before module_destroy runs to its end"),
      MYDEV_CASE(a_binary_is_the_module_again, "what module_binary gave makes the same module"),
  });
}

}  // namespace mydev::conform
