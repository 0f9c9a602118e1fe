// Kernels that are compiled at run time: modules, their kernels and launches, as the runtime has them, and the host
// driver's compiler with its cache. With whichever mode of the host driver MYDEV_DRIVER names.
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <latch>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "error_fixture.h"
#include "runtime/command/launch.h"
#include "runtime/command/transfer.h"
#include "runtime/driver/kernel_module.h"
#include "runtime/memory/caching_allocator.h"
#include "runtime/stream/stream_table.h"

namespace mydev {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSource = R"(
MYDEV_KERNEL(scale, float* out, const float* in, int64_t count, double factor) {
  MYDEV_FOR_THREADS(i, count) out[i] = float(factor) * in[i];
}
MYDEV_KERNEL(add_to, float* sum, const float* in, int64_t count) {
  MYDEV_FOR_THREADS(i, count) sum[i] += in[i];
}
// Each group writes its threads' numbers backwards: all have written before any reads.
MYDEV_KERNEL(backwards, float* out) {
  MYDEV_FOR_GROUPS(g) {
    float* numbers = reinterpret_cast<float*>(mydev_call.local_memory);
    const int64_t width = mydev_call.group[0], threads = width * mydev_call.group[1];
    const int64_t first = ((g.z * mydev_call.grid[1] + g.y) * mydev_call.grid[0] + g.x) * threads;
    MYDEV_FOR_GROUP_THREADS_Y(y) MYDEV_FOR_GROUP_THREADS(x) numbers[y * width + x] = float(first + y * width + x);
    MYDEV_FOR_GROUP_THREADS_Y(y) MYDEV_FOR_GROUP_THREADS(x) {
      out[first + y * width + x] = numbers[threads - 1 - (y * width + x)];
    }
  }
}
)";

template <typename Action>
void expect_refusal(const Action& action, mydev_code code, const char* part_of_message) {
  expect_error(error_of(action), code, part_of_message);
}

// --- where the cache lies --------------------------------------------------------------------------------------------

// A directory that goes with this.
class Directory {
 public:
  Directory() {
    std::string name = (fs::temp_directory_path() / "test-compiler-XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    path_ = name;
  }
  ~Directory() { fs::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

void set_environment(const char* name, const std::string& value) {
  ::setenv(name, value.c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
}

// The libraries below a cache, and what else is left there.
std::vector<fs::path> files_of(const fs::path& cache) {
  std::vector<fs::path> files;
  if (!fs::exists(cache)) return files;
  for (const auto& entry : fs::recursive_directory_iterator(cache)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::ranges::sort(files);
  return files;
}

// --- operands --------------------------------------------------------------------------------------------------------

// Numbers on a device.
class Numbers {
 public:
  Numbers(size_t count, float value, int device = 0)
      : stream_(default_stream(device)), count_(static_cast<int64_t>(count)), block_(allocate(stream_, count * 4)) {
    const std::vector<float> numbers(count, value);
    copy_bytes(stream_, block_->data, numbers.data(), count * 4, MYDEV_COPY_HOST_TO_DEVICE);
  }
  ~Numbers() { release(*block_); }
  Numbers(const Numbers&) = delete;
  Numbers& operator=(const Numbers&) = delete;

  mydev_buffer buffer() const { return {block_->data, &count_, &stride_, 1, MYDEV_F32, 0}; }
  std::vector<float> get() const {
    std::vector<float> numbers(static_cast<size_t>(count_));
    copy_bytes(stream_, numbers.data(), block_->data, numbers.size() * 4, MYDEV_COPY_DEVICE_TO_HOST);
    stream_.synchronize();
    return numbers;
  }

 private:
  Stream& stream_;
  int64_t count_;
  int64_t stride_ = 1;
  Block* block_;
};

std::vector<float> repeated(size_t count, float value) {
  return std::vector<float>(count, value);
}

using Triple = std::array<uint32_t, 3>;
using SharedKernel = std::shared_ptr<const CompiledKernel>;

// Launches a kernel whose numbers are a count and maybe a factor.
void launch_on(const SharedKernel& kernel, const std::vector<mydev_buffer>& buffers, std::vector<double> numbers,
               const Triple& grid, const Triple& group, int device = 0, uint64_t local_memory = 0) {
  std::vector<mydev_attribute> attributes(kernel->attributes().begin(), kernel->attributes().end());
  for (size_t i = 0; i < attributes.size() && i < numbers.size(); ++i) {
    if (attributes[i].kind == MYDEV_ATTRIBUTE_INT) {
      attributes[i].value.i = static_cast<int64_t>(numbers[i]);
    } else {
      attributes[i].value.f = numbers[i];
    }
  }
  attributes.resize(numbers.size());
  mydev_frame frame = make_frame(buffers, kernel->parameters().written(), attributes);
  launch_compiled({kernel, make_geometry(grid, group, local_memory)}, frame, default_stream(device));
}

// With one cache for all cases.
class CompilerExtension : public testing::Test {
 protected:
  static void SetUpTestSuite() { shared_cache_ = std::make_unique<Directory>(); }
  static void TearDownTestSuite() { shared_cache_.reset(); }
  explicit CompilerExtension(const fs::path& cache = shared_cache_->path()) {
    set_environment("XDG_CACHE_HOME", cache);
  }
  ~CompilerExtension() override { default_stream(0).synchronize(); }

  static std::shared_ptr<KernelModule> compile(const std::string& source = kSource, const std::string& options = "",
                                               int device = 0) {
    return KernelModule::compile(mydev::device(device), "c++", source, options);
  }
  static SharedKernel scale_of(KernelModule& module) {
    return module.kernel("scale", {.results = 1, .operands = 1, .numbers = "if"});
  }
  static void scale(const SharedKernel& kernel, const Numbers& out, const Numbers& in, double factor, int count = 1000,
                    int device = 0) {
    launch_on(kernel, {out.buffer(), in.buffer()}, {static_cast<double>(count), factor}, {8, 1, 1}, {128, 1, 1},
              device);
  }

 private:
  inline static std::unique_ptr<Directory> shared_cache_;
};

// With a cache of each case's own.
struct OwnCache {
  Directory cache;
};
class CompilerCache : private OwnCache, public CompilerExtension {
 protected:
  CompilerCache() : CompilerExtension(OwnCache::cache.path()) {}
  static std::shared_ptr<KernelModule> compile(const std::string& source = kSource, const std::string& options = "") {
    return KernelModule::find_or_compile(mydev::device(0), "c++", source, options);
  }
  const fs::path& cache() const { return OwnCache::cache.path(); }
  std::vector<fs::path> files() const { return files_of(cache()); }
};

// --- kernels ---------------------------------------------------------------------------------------------------------

TEST_F(CompilerExtension, NamesItsLanguages) {
  EXPECT_EQ(compiler_languages(device(0)), std::vector<std::string>{"c++"});
}

TEST_F(CompilerExtension, RunsAKernel) {
  const Numbers in(1000, 3), out(1000, 0);
  scale(scale_of(*compile()), out, in, 2.5, 900);
  std::vector<float> expected = repeated(1000, 7.5F);
  std::fill(expected.begin() + 900, expected.end(), 0.0F);
  EXPECT_EQ(out.get(), expected);
}

TEST_F(CompilerExtension, RunsLaunchesInTheOrderOfTheStream) {
  const auto module = compile();
  const SharedKernel add = module->kernel("add_to", {.updated = 1, .operands = 1, .numbers = "i"});
  const Numbers in(1000, 1), sum(1000, 0);
  for (int i = 0; i < 10; ++i) {
    scale(scale_of(*module), in, in, 2);
    launch_on(add, {sum.buffer(), in.buffer()}, {1000}, {8, 1, 1}, {128, 1, 1});
  }
  EXPECT_EQ(sum.get(), repeated(1000, 2046));
}

TEST_F(CompilerExtension, RunsGroupsOfThreeDimensionsWithMemoryOfTheirOwn) {
  constexpr size_t kGroups = size_t{5} * 3 * 2, kThreads = size_t{8} * 4;
  const SharedKernel kernel = compile()->kernel("backwards", {.results = 1});
  const Numbers out(kGroups * kThreads, 0);
  launch_on(kernel, {out.buffer()}, {}, {5, 3, 2}, {8, 4, 1}, 0, kThreads * sizeof(float));
  std::vector<float> expected;
  for (size_t g = 0; g < kGroups; ++g) {
    for (size_t t = kThreads; t-- > 0;) expected.push_back(static_cast<float>(g * kThreads + t));
  }
  EXPECT_EQ(out.get(), expected);
}

TEST_F(CompilerExtension, RunsManyGroupsOnce) {
  constexpr uint32_t kGroups = 3000, kThreads = 256;
  constexpr size_t kCount = size_t{kGroups} * kThreads;
  const SharedKernel add = compile()->kernel("add_to", {.updated = 1, .operands = 1, .numbers = "i"});
  const Numbers in(kCount, 1), sum(kCount, 1);
  launch_on(add, {sum.buffer(), in.buffer()}, {static_cast<double>(kCount)}, {kGroups, 1, 1}, {kThreads, 1, 1});
  EXPECT_EQ(sum.get(), repeated(kCount, 2));
}

TEST_F(CompilerExtension, FinishesWhatWasGivenBeforeAModuleIsDestroyed) {
  const Numbers numbers(1 << 16, 1);
  {
    const auto module = compile();
    const SharedKernel kernel = scale_of(*module);
    for (int i = 0; i < 100; ++i) {
      launch_on(kernel, {numbers.buffer(), numbers.buffer()}, {1 << 16, i % 2 == 0 ? 2.0 : 0.5}, {64, 1, 1},
                {1024, 1, 1});
    }
  }
  EXPECT_EQ(numbers.get(), repeated(1 << 16, 1));
}

TEST_F(CompilerExtension, AKernelKeepsItsModule) {
  const SharedKernel kernel = scale_of(*compile());
  const Numbers in(1000, 3), out(1000, 0);
  scale(kernel, out, in, 2);
  EXPECT_EQ(out.get(), repeated(1000, 6));
}

TEST_F(CompilerExtension, RunsOnTheDeviceThatItWasCompiledFor) {
  if (device_count() < 2) GTEST_SKIP() << "needs two devices";
  const auto module = compile(kSource, "", 1);
  const Numbers in(1000, 3, 1), out(1000, 0, 1), elsewhere(1000, 0, 0);
  scale(scale_of(*module), out, in, 2, 1000, 1);
  EXPECT_EQ(out.get(), repeated(1000, 6));
  expect_refusal([&] { scale(scale_of(*module), elsewhere, elsewhere, 2); }, MYDEV_INVALID_ARGUMENT,
                 "compiled.scale was compiled for device mydev:1, and is launched on device mydev:0");
}

TEST_F(CompilerExtension, HooksSeeLaunchesByName) {
  const SharedKernel kernel = scale_of(*compile());
  const Numbers numbers(1000, 3);
  std::vector<std::string> seen;
  const int hook = add_command_hook({.submitted =
                                         [](void* context, const CommandRecord& record) {
                                           static_cast<std::vector<std::string>*>(context)->push_back(
                                               std::string(command_kind_name(record.kind)) + " " + record.name + " " +
                                               std::to_string(record.bytes));
                                         },
                                     .context = &seen});
  scale(kernel, numbers, numbers, 2);
  default_stream(0).synchronize();
  remove_command_hook(hook);
  EXPECT_EQ(seen, std::vector<std::string>{"launch compiled.scale 8000"});
}

// --- what is refused -------------------------------------------------------------------------------------------------

TEST_F(CompilerExtension, TellsWhatTheCompilerSays) {
  expect_refusal([] { compile("\nMYDEV_KERNEL(f, float* out) { out[0] = missing; }"); }, MYDEV_INVALID_ARGUMENT,
                 "kernel.cpp:2:");
  expect_refusal([] { compile("MYDEV_KERNEL(f, float* out) { out[0] = missing; }"); }, MYDEV_INVALID_ARGUMENT,
                 "missing");
}

TEST_F(CompilerExtension, TellsWithWhichOptionsTheSourceIsBad) {
  expect_refusal([] { compile(kSource, "-Dfloat=nothing -DOTHER"); }, MYDEV_INVALID_ARGUMENT,
                 "with options '-Dfloat=nothing -DOTHER'");
}

TEST_F(CompilerExtension, RefusesParametersThatItsLaunchesDoNotHave) {
  expect_refusal([] { compile("MYDEV_KERNEL(f, float* out, int count) { out[0] = count; }"); }, MYDEV_INVALID_ARGUMENT,
                 "a pointer, an int64_t or a double");
  expect_refusal([] { compile("MYDEV_KERNEL(f, int64_t count, float* out) { out[0] = count; }"); },
                 MYDEV_INVALID_ARGUMENT, "pointers first, then numbers");
}

TEST_F(CompilerExtension, RefusesOtherLanguages) {
  expect_refusal([] { KernelModule::compile(device(0), "fortran", "", ""); }, MYDEV_INVALID_ARGUMENT,
                 "compiles no 'fortran'; it takes 'c++' and 'binary'");
}

TEST_F(CompilerExtension, RefusesFunctionsThatAreNoKernels) {
  const auto module = compile();
  expect_refusal([&] { module->kernel("malloc", {.results = 1}); }, MYDEV_NOT_FOUND, "no kernel 'malloc'");
  expect_refusal([&] { module->kernel("scale", {.results = 1, .operands = 1, .numbers = "ix"}); },
                 MYDEV_INVALID_ARGUMENT, "its numbers are 'ix'");
}

TEST_F(CompilerExtension, RefusesFramesOfOtherParameters) {
  const auto module = compile();
  const Numbers numbers(1000, 1);
  expect_refusal([&] { launch_on(scale_of(*module), {numbers.buffer()}, {1000, 2}, {1, 1, 1}, {1, 1, 1}); },
                 MYDEV_INVALID_ARGUMENT,
                 "compiled.scale takes 1 tensors that it writes, 1 that it reads and 2 numbers");
  const SharedKernel wrong = module->kernel("scale", {.results = 1, .numbers = "if"});
  expect_refusal([&] { launch_on(wrong, {numbers.buffer()}, {1000, 2}, {1, 1, 1}, {1, 1, 1}); }, MYDEV_INVALID_ARGUMENT,
                 "takes 2 pointers and 2 numbers; the frame has 1 and 2");
}

struct GeometryCase {
  const char* name;
  Triple grid, group;
  uint64_t local_memory;
  const char* message;
};
class RefusedGeometry : public CompilerExtension, public testing::WithParamInterface<GeometryCase> {};
INSTANTIATE_TEST_SUITE_P(
    Geometries, RefusedGeometry,
    testing::Values(
        GeometryCase{
            "NoGroups", {4, 0, 1}, {1, 1, 1}, 0, "scale is launched with 4 x 0 x 1 groups of 1 x 1 x 1 threads"},
        GeometryCase{"NoThreads", {1, 1, 1}, {8, 8, 0}, 0, "launched with 1 x 1 x 1 groups of 8 x 8 x 0 threads"},
        GeometryCase{"ManyThreads", {1, 1, 1}, {32, 33, 1}, 0, "the group is 32 x 33 x 1; it may have 1024"},
        GeometryCase{"ManyGroups", {1U << 31, 1U << 31, 4}, {1, 1, 1}, 0, "the grid is 2147483648 x 2147483648 x 4"},
        GeometryCase{"MuchMemory", {1, 1, 1}, {1, 1, 1}, 1 << 30, "1073741824 bytes of local memory"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(RefusedGeometry, IsNamedAndWritesNothing) {
  const SharedKernel kernel = scale_of(*compile());
  const Numbers numbers(1000, 1);
  const GeometryCase& it = GetParam();
  expect_refusal(
      [&] {
        launch_on(kernel, {numbers.buffer(), numbers.buffer()}, {1000, 2}, it.grid, it.group, 0, it.local_memory);
      },
      MYDEV_INVALID_ARGUMENT, it.message);
  EXPECT_EQ(numbers.get(), repeated(1000, 1));
}

TEST_F(CompilerExtension, ARefusedLaunchNamesKernelAndOperands) {
  const Numbers numbers(1000, 1);
  const SharedKernel kernel = scale_of(*compile());
  expect_refusal([&] { launch_on(kernel, {numbers.buffer(), numbers.buffer()}, {1000, 2}, {1, 1, 1}, {2048, 1, 1}); },
                 MYDEV_INVALID_ARGUMENT, "compiled.scale(out f32[1000], f32[1000]; i0=1000, f1=2)");
}

// --- binaries --------------------------------------------------------------------------------------------------------

std::string binary_of(const KernelModule& module) {
  const auto bytes = module.binary().value();
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TEST_F(CompilerExtension, LoadsTheBinaryOfAModule) {
  const std::string binary = binary_of(*compile());
  const auto module = KernelModule::compile(device(0), MYDEV_MODULE_BINARY, binary, "");
  const Numbers in(1000, 3), out(1000, 0);
  scale(scale_of(*module), out, in, 2);
  EXPECT_EQ(out.get(), repeated(1000, 6));
  EXPECT_EQ(binary_of(*module), binary);
}

TEST_F(CompilerExtension, RefusesBinariesForOtherProcessors) {
  std::string binary = binary_of(*compile());
  // The processor's name is the one text of 32 hexadecimal digits.
  size_t at = 0;
  constexpr std::string_view kDigits = "0123456789abcdef";
  for (size_t digits = 0; digits < 32; ++at) digits = kDigits.find(binary[at]) != kDigits.npos ? digits + 1 : 0;
  binary[at - 1] = binary[at - 1] == '0' ? '1' : '0';
  expect_refusal([&] { KernelModule::compile(device(0), MYDEV_MODULE_BINARY, binary, ""); }, MYDEV_FAILED_PRECONDITION,
                 "compiled for another processor");
  expect_refusal([&] { KernelModule::compile(device(0), MYDEV_MODULE_BINARY, "no library", ""); },
                 MYDEV_FAILED_PRECONDITION, "cannot be loaded");
}

// --- the cache -------------------------------------------------------------------------------------------------------

TEST_F(CompilerCache, CompilesTheSameSourceOnce) {
  compile();
  ASSERT_EQ(files().size(), 1U);
  const auto written = fs::last_write_time(files()[0]);
  EXPECT_EQ(fs::status(files()[0].parent_path()).permissions(), fs::perms::owner_all);
  compile();
  EXPECT_EQ(files().size(), 1U);
  EXPECT_EQ(fs::last_write_time(files()[0]), written);
}

TEST_F(CompilerCache, KeepsNothingOfBadSource) {
  expect_refusal([] { compile("MYDEV_KERNEL(f, float* out) { out[0] = missing; }"); }, MYDEV_INVALID_ARGUMENT,
                 "missing");
  EXPECT_EQ(files(), std::vector<fs::path>());
}

TEST_F(CompilerCache, KeepsWhatDiffersApart) {
  compile();
  compile(kSource, "-DOTHER");
  compile(std::string(kSource) + "// other");
  EXPECT_EQ(files().size(), 3U);
}

TEST_F(CompilerCache, LoadsWhatIsKept) {
  const std::string binary = binary_of(*compile());
  const auto module = compile();
  EXPECT_EQ(binary_of(*module), binary);
  const Numbers in(1000, 3), out(1000, 0);
  scale(scale_of(*module), out, in, 2);
  EXPECT_EQ(out.get(), repeated(1000, 6));
}

TEST_F(CompilerCache, MakesADamagedLibraryAnew) {
  compile("MYDEV_KERNEL(f, float* out) { out[0] = 1; }");
  fs::resize_file(files().at(0), 100);
  const SharedKernel kernel = compile("MYDEV_KERNEL(f, float* out) { out[0] = 1; }")->kernel("f", {.results = 1});
  const Numbers out(1, 0);
  launch_on(kernel, {out.buffer()}, {}, {1, 1, 1}, {1, 1, 1});
  EXPECT_EQ(out.get(), repeated(1, 1));
}

TEST_F(CompilerCache, DoesWithoutACacheThatCannotBe) {
  set_environment("XDG_CACHE_HOME", "/proc/nowhere");
  const Numbers in(1000, 3), out(1000, 0);
  const auto module = compile();
  scale(scale_of(*module), out, in, 2);
  EXPECT_EQ(out.get(), repeated(1000, 6));
  EXPECT_GT(binary_of(*module).size(), 1000U);
}

TEST_F(CompilerCache, RunsNothingFromADirectoryThatOthersMayWriteTo) {
  const fs::path directory = cache() / "torch_mydev" / "binaries";
  fs::create_directories(directory);
  fs::permissions(directory, fs::perms::all);
  compile();
  EXPECT_EQ(files(), std::vector<fs::path>());
}

TEST_F(CompilerCache, ThreadsCompileAtTheSameTime) {
  constexpr int kThreads = 8;
  std::latch start(kThreads);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&start, t] {
      start.arrive_and_wait();
      scale_of(*compile(kSource, t % 2 == 0 ? "" : "-DOTHER"));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(files().size(), 2U);
}

TEST_F(CompilerCache, ProcessesCompileAtTheSameTime) {
  const std::string program = fs::read_symlink("/proc/self/exe").string();
  const std::string filter = "--gtest_filter=CompilerProcess.DISABLED_CompilesAndRuns";
  std::array<char*, 4> arguments = {const_cast<char*>(program.c_str()), const_cast<char*>(filter.c_str()),
                                    const_cast<char*>("--gtest_also_run_disabled_tests"), nullptr};
  std::vector<pid_t> processes(6);
  for (pid_t& process : processes) {
    ASSERT_EQ(::posix_spawn(&process, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
  }
  for (const pid_t process : processes) {
    int status = 0;
    ASSERT_EQ(::waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(files().size(), 1U);
}

// A process of the case above, in its cache.
TEST(CompilerProcess, DISABLED_CompilesAndRuns) {
  const auto module = KernelModule::find_or_compile(device(0), "c++", kSource, "");
  const SharedKernel kernel = module->kernel("scale", {.results = 1, .operands = 1, .numbers = "if"});
  const Numbers in(1000, 3), out(1000, 0);
  launch_on(kernel, {out.buffer(), in.buffer()}, {1000, 2}, {8, 1, 1}, {128, 1, 1});
  EXPECT_EQ(out.get(), repeated(1000, 6));
}

// --- machines without a compiler -------------------------------------------------------------------------------------

// In a process of its own, since the driver looks for the compiler once.
int exit_code_without_compiler(const char* variable, const char* value) {
  ::unsetenv("CXX");  // NOLINT(concurrency-mt-unsafe)
  set_environment(variable, value);
  try {
    if (!compiler_languages(device(0)).empty()) return 1;
    KernelModule::compile(device(0), "c++", kSource, "");
    return 2;
  } catch (const Error& error) {
    const bool named = std::string(error.what()).find("driver 'host' has no extension 'compiler'") != std::string::npos;
    return error.code() == MYDEV_UNIMPLEMENTED && named ? 0 : 3;
  }
}

TEST(CompilerDeathTest, IsNotListedWhereThereIsNone) {
  EXPECT_EXIT(std::exit(exit_code_without_compiler("PATH", "/nowhere")), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(std::exit(exit_code_without_compiler("CXX", "/nowhere/c++ -m64")), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace mydev
