// Libraries of kernels: loading, refusals that say what is wrong, discovery, and reloading.
#include <sys/stat.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "built_files.h"
#include "ffi_fixture.h"
#include "kernels/registry/kernel_library.h"

namespace mydev {
namespace {

namespace fs = std::filesystem;

const std::string kLibraries = built_file("kernels");

std::vector<float> apply(const char* name) {
  DeviceArray in({2}, 3), out({2});
  const mydev_kernel* kernel = find_kernel(name);
  if (kernel == nullptr) return {};
  run_kernel(*kernel, {out.buffer(), in.buffer()}, 1);
  return out.values();
}

TEST(KernelLibrary, RunsKernelsOfALibraryInC) {
  const LibraryInfo info = load_kernel_library(kLibraries + "/c_library.so");
  EXPECT_EQ(info.name, "c library");
  EXPECT_EQ(info.version, "1.2");
  EXPECT_EQ(info.kernels, (std::vector<std::string>{"c.twice", "c.fail"}));
  EXPECT_EQ(apply("c.twice"), (std::vector<float>{6, 8}));
  EXPECT_EQ(kernel_origin("c.twice").file, fs::canonical(kLibraries + "/c_library.so"));
  EXPECT_EQ(kernel_origin("c.twice").library, "c library 1.2");
}

TEST(KernelLibrary, RunsKernelsOfALibraryWithShorterRecords) {
  load_kernel_library(kLibraries + "/cpp_library.so");
  EXPECT_EQ(apply("cpp.negate"), (std::vector<float>{-3, -4}));
}

TEST(KernelLibrary, LoadsAFileOnce) {
  load_kernel_library(kLibraries + "/c_library.so");
  const uint64_t generation = registry_generation();
  load_kernel_library(kLibraries + "/../kernels/c_library.so");
  EXPECT_EQ(registry_generation(), generation);
  EXPECT_EQ(loaded_kernel_libraries().size(), 1U);
}

struct Broken {
  const char* name;
  mydev_code code;
  const char* message;
};
class BrokenLibraries : public testing::TestWithParam<Broken> {};
INSTANTIATE_TEST_SUITE_P(Libraries, BrokenLibraries,
                         testing::Values(Broken{"no_query", MYDEV_INVALID_ARGUMENT,
                                                "does not export mydev_custom_call_query"},
                                         Broken{"null_table", MYDEV_FAILED_PRECONDITION, "returned NULL"},
                                         Broken{"old_major", MYDEV_FAILED_PRECONDITION, "is built for version 77.0"},
                                         Broken{"absurd_count", MYDEV_INVALID_ARGUMENT, "has 4000000000 kernels"},
                                         Broken{"null_kernels", MYDEV_INVALID_ARGUMENT, "its table of kernels is NULL"},
                                         Broken{"null_kernel", MYDEV_INVALID_ARGUMENT, "kernel 1 is NULL"},
                                         Broken{"bad_name", MYDEV_INVALID_ARGUMENT, "bad kernel name 'not a name'"},
                                         Broken{"taken_name", MYDEV_ALREADY_EXISTS, "broken_taken_name.so"},
                                         Broken{"small_table", MYDEV_INVALID_ARGUMENT, "a table of 8 bytes"},
                                         Broken{"throwing_query", MYDEV_INVALID_ARGUMENT, "threw: not today"},
                                         Broken{"no_function", MYDEV_INVALID_ARGUMENT, "its entry is NULL"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(BrokenLibraries, AreRefusedWithTheReason) {
  const std::string file = kLibraries + "/broken_" + GetParam().name + ".so";
  expect_error(error_of([&] { load_kernel_library(file); }), GetParam().code, GetParam().message);
  EXPECT_EQ(find_kernel("broken.good"), nullptr) << "all kernels or none";
}

// A directory of its own, gone at the end.
class Directory {
 public:
  Directory() {
    std::string path = testing::TempDir() + "/mydev-XXXXXX";
    path_ = ::mkdtemp(path.data());
  }
  ~Directory() { fs::remove_all(path_); }
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  std::string add(const std::string& library, const std::string& name) const {
    const fs::path file = path_ / name;
    fs::remove(file);  // as linkers do: a loaded file must be replaced, not written into
    fs::copy_file(fs::path(kLibraries) / library, file);
    return file.string();
  }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path_ / name, std::ios::binary) << text;
    return (path_ / name).string();
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path path_;
};

TEST(KernelLibrary, RefusesAMissingFile) {
  expect_error(error_of([] { load_kernel_library("/no/such/library.so"); }), MYDEV_NOT_FOUND, "no such file");
}

TEST(KernelLibrary, RefusesADirectory) {
  expect_error(error_of([] { load_kernel_library(kLibraries); }), MYDEV_INVALID_ARGUMENT, "is no regular file");
}

TEST(KernelLibrary, RefusesTextAndPrograms) {
  const Directory directory;
  const std::string text =
      directory.write("text.so", "not an ELF file, though long enough to have a header of one....");
  expect_error(error_of([&] { load_kernel_library(text); }), MYDEV_INVALID_ARGUMENT, "it is no ELF file");
}

// Whatever is left of a file, loading it is an error and no crash.
class TruncatedLibraries : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Percent, TruncatedLibraries, testing::Values(0, 1, 5, 20, 40, 60, 80));

TEST_P(TruncatedLibraries, AreRefused) {
  const Directory directory;
  const std::string file = directory.add("c_library.so", "truncated.so");
  fs::resize_file(file, fs::file_size(file) * static_cast<uintmax_t>(GetParam()) / 100);
  const Error error = error_of([&] { load_kernel_library(file); });
  // The bytes behind the segments may be missing: the library then works.
  EXPECT_TRUE(error.code() == MYDEV_INVALID_ARGUMENT || (error.code() == MYDEV_OK && GetParam() >= 60)) << error.what();
}

TEST(KernelLibrary, ReloadsAFile) {
  const Directory directory;
  const std::string file = directory.add("c_library.so", "changing.so");
  load_kernel_library(file);
  EXPECT_EQ(apply("c.twice"), (std::vector<float>{6, 8}));
  const mydev_kernel* before = find_kernel("c.twice");
  directory.add("cpp_library.so", "changing.so");
  EXPECT_EQ(reload_kernel_library(file).kernels, (std::vector<std::string>{"cpp.negate"}));
  EXPECT_EQ(find_kernel("c.twice"), nullptr);
  EXPECT_EQ(apply("cpp.negate"), (std::vector<float>{-3, -4}));
  EXPECT_STREQ(before->name, "c.twice") << "old code stays";
}

TEST(KernelLibrary, IsReloadedWhileItsKernelsRun) {
  const Directory directory;
  const std::string file = directory.add("c_library.so", "changing.so");
  load_kernel_library(file);
  std::atomic<bool> enough{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (!enough) {
        wrong += apply("c.twice") != std::vector<float>{6, 8};
        wrong += describe_kernel("c.twice").find("name") == nullptr;
      }
    });
  }
  for (int i = 0; i < 10; ++i) {
    directory.add("c_library.so", "changing.so");
    reload_kernel_library(file);
    loaded_kernel_libraries();
  }
  enough = true;
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

// --- discovery -------------------------------------------------------------------------------------------------------

class Discovery : public testing::Test {
 protected:
  void TearDown() override { ::unsetenv("MYDEV_CUSTOM_CALLS"); }
  static void discover(const std::string& value) { ::setenv("MYDEV_CUSTOM_CALLS", value.c_str(), 1); }
  Directory directory_;
};

TEST_F(Discovery, FindsLibrariesInDirectoriesAtTheFirstMiss) {
  directory_.add("c_library.so", "c.so");
  discover(directory_.path());
  EXPECT_EQ(apply("c.twice"), (std::vector<float>{6, 8}));
}

TEST_F(Discovery, LoadsByManifestOnlyWhatIsAskedFor) {
  const std::string first = directory_.add("c_library.so", "c.so");
  const std::string second = directory_.add("cpp_library.so", "cpp.so");
  directory_.write("c.so.json", R"({"kernels": ["c.twice", "c.fail"]})");
  directory_.write("cpp.so.json", R"({"name": "cpp", "kernels" : [ "cpp.negate" ]})");
  discover(first + ":" + second);
  EXPECT_EQ(find_kernel("nobody.has_it"), nullptr);
  EXPECT_TRUE(loaded_kernel_libraries().empty());
  EXPECT_NE(find_kernel("cpp.negate"), nullptr);
  ASSERT_EQ(loaded_kernel_libraries().size(), 1U);
  EXPECT_TRUE(load_discovered_libraries(nullptr));
  EXPECT_EQ(loaded_kernel_libraries().size(), 2U);
  EXPECT_FALSE(load_discovered_libraries(nullptr));
}

TEST_F(Discovery, TakesABadManifestForNone) {
  directory_.add("c_library.so", "c.so");
  directory_.write("c.so.json", R"({"kernels": ["c.tw)");
  discover(directory_.path());
  EXPECT_NE(find_kernel("c.twice"), nullptr);
}

std::string refusal_of(const std::string& part_of_file) {
  for (const RefusedLibrary& refused : refused_kernel_libraries()) {
    if (refused.file.find(part_of_file) != std::string::npos) return refused.reason;
  }
  return "";
}

TEST_F(Discovery, RefusesMissingFiles) {
  discover("/no/such/lib::/no/such/file.so");
  EXPECT_EQ(find_kernel("c.twice"), nullptr);
  EXPECT_EQ(refusal_of("/no/such/file.so"), "no such file");
}

TEST_F(Discovery, RefusesWhatAnyoneMayWrite) {
  const std::string file = directory_.add("c_library.so", "c.so");
  fs::permissions(file, fs::perms::others_write, fs::perm_options::add);
  discover(file);
  EXPECT_EQ(find_kernel("c.twice"), nullptr);
  EXPECT_EQ(refusal_of("c.so"), "world-writable");
}

TEST_F(Discovery, RefusesFilesInDirectoriesThatAnyoneMayWrite) {
  const std::string file = directory_.add("c_library.so", "c.so");
  fs::permissions(directory_.path(), fs::perms::others_write, fs::perm_options::add);
  discover(file);
  EXPECT_EQ(find_kernel("c.twice"), nullptr);
  EXPECT_EQ(refusal_of("c.so"), "in a directory that is world-writable");
}

TEST_F(Discovery, KeepsTheReasonOfALibraryThatFails) {
  directory_.add("broken_old_major.so", "old.so");
  discover(directory_.path());
  EXPECT_EQ(find_kernel("broken.good"), nullptr);
  EXPECT_NE(refusal_of("old.so").find("is built for version 77.0"), std::string::npos);
}

}  // namespace
}  // namespace mydev
