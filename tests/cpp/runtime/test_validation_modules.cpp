// The validation layer before the compiler extension: handles, records and launches that are wrong, by the caller or by
// the driver, are found and named; launches of compiled kernels are ordered as all work is.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "mydev/driver_extensions.h"
#include "validation_fixture.h"

namespace mydev {
namespace {

// --- a compiler that does wrong as asked -----------------------------------------------------------------------------

struct FakeCompiler {
  mydev_code answer = MYDEV_OK;  // of module_create
  mydev_module made = nullptr;   // what module_create gives; else something new
  mydev_kernel record{.struct_size = sizeof(mydev_kernel), .name = "made", .runs = MYDEV_RUNS_DRIVER};
  const mydev_kernel* found = &record;  // what module_kernel gives
  uint64_t binary_bytes = 1;
  int destroyed = 0, launches = 0;
};
FakeCompiler compiler;

const mydev_compiler_extension kTable = {
    .head = {.struct_size = sizeof(mydev_compiler_extension), .version = MYDEV_COMPILER_VERSION},
    .languages =
        [](int32_t, const char* const** out) {
          *out = nullptr;
          return MYDEV_OK;
        },
    .module_create =
        [](int32_t, const mydev_module_source*, mydev_module* out) {
          *out = compiler.made;
          return compiler.made != nullptr || compiler.answer != MYDEV_OK ? compiler.answer : make_handle(out);
        },
    .module_destroy =
        [](mydev_module) {
          ++compiler.destroyed;
          return MYDEV_OK;
        },
    .module_binary =
        [](mydev_module, const void** out_data, uint64_t* out_bytes) {
          *out_data = "";
          *out_bytes = compiler.binary_bytes;
          return MYDEV_OK;
        },
    .module_kernel =
        [](mydev_module, const char*, const mydev_kernel** out) {
          *out = compiler.found;
          return MYDEV_OK;
        },
    .launch =
        [](mydev_stream stream, const mydev_kernel* kernel, mydev_frame* frame, const mydev_geometry*) {
          ++compiler.launches;
          return launch_fake(stream, kernel, frame);
        },
};

mydev_driver_api table_with_compiler() {
  mydev_driver_api table = fake_table();
  table.extension = [](const char* name, uint32_t) {
    return std::strcmp(name, MYDEV_COMPILER_EXTENSION) == 0 ? static_cast<const void*>(&kTable) : nullptr;
  };
  return table;
}

class ModuleValidation : public Validation {
 protected:
  ModuleValidation() : Validation(MYDEV_CAPABILITY_ASYNC, table_with_compiler()) {
    const void* table = api.extension(MYDEV_COMPILER_EXTENSION, MYDEV_COMPILER_VERSION);
    checked = static_cast<const mydev_compiler_extension*>(table);
  }

  mydev_code create(mydev_module* out, int32_t device = 0) const {
    const mydev_module_source source{sizeof(mydev_module_source), "c", "", 0, ""};
    return checked->module_create(device, &source, out);
  }
  mydev_module make_module(int32_t device = 0) const {
    mydev_module made = nullptr;
    EXPECT_EQ(create(&made, device), MYDEV_OK) << api.last_error();
    return made;
  }
  mydev_code find(mydev_module module, const mydev_kernel** out) const {
    return checked->module_kernel(module, "made", out);
  }
  const mydev_kernel* kernel_of(mydev_module module) const {
    const mydev_kernel* found = nullptr;
    EXPECT_EQ(find(module, &found), MYDEV_OK) << api.last_error();
    return found;
  }
  // With one result of 8 numbers.
  mydev_code launch_compiled(mydev_stream on, const mydev_kernel* which, char* result, uint32_t groups = 1) {
    launched.push_back(std::make_unique<Launched>());
    Launched& it = *launched.back();
    it.size = 8;
    it.stride = 1;
    it.buffer = {result, &it.size, &it.stride, 1, MYDEV_F32, 0};
    it.frame = make_frame({&it.buffer, 1}, 1);
    it.frame.stream = on;
    it.frame.host = &counting;
    it.frame.launch = &it;
    const mydev_geometry geometry{sizeof(mydev_geometry), {groups, 1, 1}, {8, 1, 1}, 0};
    return checked->launch(on, which, &it.frame, &geometry);
  }

  const mydev_compiler_extension* checked;
};

// --- launches --------------------------------------------------------------------------------------------------------

TEST_F(ModuleValidation, LeavesOrderedLaunchesAlone) {
  const mydev_kernel* made = kernel_of(make_module());
  ASSERT_EQ(launch_compiled(stream, made, data), MYDEV_OK) << api.last_error();
  order(stream, other);
  EXPECT_EQ(launch_compiled(other, made, data), MYDEV_OK) << api.last_error();
  EXPECT_EQ(compiler.launches, 2);
}

TEST_F(ModuleValidation, FindsAReadThatWaitsForNoLaunch) {
  ASSERT_EQ(launch_compiled(stream, kernel_of(make_module()), data), MYDEV_OK);
  expect_found(read(other, data), MYDEV_FAILED_PRECONDITION, {"made on stream 0", "writes its result 0"});
}

TEST_F(ModuleValidation, FindsALaunchThatWaitsForNoWrite) {
  const mydev_kernel* made = kernel_of(make_module());
  ASSERT_EQ(fill(stream, data), MYDEV_OK);
  expect_found(launch_compiled(other, made, data), MYDEV_FAILED_PRECONDITION, {"made on stream 1", "fill on stream 0"});
  EXPECT_EQ(compiler.launches, 0);
}

TEST_F(ModuleValidation, FindsAnEmptyGeometry) {
  expect_found(launch_compiled(stream, kernel_of(make_module()), data, 0), MYDEV_INVALID_ARGUMENT,
               {"'made' is launched with a grid of 0 x 1 x 1 groups of 8 x 1 x 1 threads"});
}

TEST_F(ModuleValidation, FindsALaunchOfNoRecord) {
  expect_found(launch_compiled(stream, &kernel, data), MYDEV_INVALID_ARGUMENT,
               {"is no record that module_kernel gave"});
}

TEST_F(ModuleValidation, FindsALaunchOnAnotherDevice) {
  expect_found(launch_compiled(stream, kernel_of(make_module(1)), data), MYDEV_INVALID_ARGUMENT,
               {"'made' was compiled for device 1, and is launched on device 0"});
}

TEST_F(ModuleValidation, FindsALaunchAfterItsModule) {
  const mydev_module module = make_module();
  const mydev_kernel* made = kernel_of(module);
  ASSERT_EQ(launch_compiled(stream, made, data), MYDEV_OK);
  ASSERT_EQ(checked->module_destroy(module), MYDEV_OK) << "with a launch pending";
  expect_found(launch_compiled(stream, made, data), MYDEV_INVALID_ARGUMENT, {"for a live module"});
}

// --- modules ---------------------------------------------------------------------------------------------------------

TEST_F(ModuleValidation, FindsAModuleThatIsDestroyedTwice) {
  const mydev_module module = make_module();
  ASSERT_EQ(checked->module_destroy(module), MYDEV_OK);
  expect_found(checked->module_destroy(module), MYDEV_INVALID_ARGUMENT, {"module_destroy", "is no live module"});
  EXPECT_EQ(compiler.destroyed, 1);
}

TEST_F(ModuleValidation, FindsSourceWithoutALanguage) {
  const mydev_module_source source{sizeof(mydev_module_source), nullptr, "", 0, ""};
  mydev_module module = nullptr;
  expect_found(checked->module_create(0, &source, &module), MYDEV_INVALID_ARGUMENT, {"the language"});
}

TEST_F(ModuleValidation, BadSourceIsNoFinding) {
  compiler.answer = MYDEV_INVALID_ARGUMENT;
  mydev_module module = nullptr;
  EXPECT_EQ(create(&module), MYDEV_INVALID_ARGUMENT);
  EXPECT_EQ(validation::findings(), 0U);
}

TEST_F(ModuleValidation, FindsAHandleThatIsGivenTwice) {
  compiler.made = make_module();
  mydev_module module = nullptr;
  expect_found(create(&module), MYDEV_FAILED_PRECONDITION, {"gave the handle of a live module again"});
}

TEST_F(ModuleValidation, FindsARecordOfAnotherModule) {
  kernel_of(make_module());
  const mydev_kernel* found = nullptr;
  expect_found(find(make_module(), &found), MYDEV_FAILED_PRECONDITION, {"the record 'made' of another live module"});
}

TEST_F(ModuleValidation, FindsARecordThatTheDriverDoesNotRun) {
  compiler.record.runs = MYDEV_RUNS_HOST_ENQUEUE;
  const mydev_kernel* found = nullptr;
  expect_found(find(make_module(), &found), MYDEV_FAILED_PRECONDITION, {"MYDEV_RUNS_DRIVER for 'made'"});
}

TEST_F(ModuleValidation, FindsAnEmptyBinary) {
  compiler.binary_bytes = 0;
  const void* data_of_module = nullptr;
  uint64_t bytes = 0;
  expect_found(checked->module_binary(make_module(), &data_of_module, &bytes), MYDEV_FAILED_PRECONDITION,
               {"gave an empty binary"});
}

TEST_F(ModuleValidation, FindsNoLanguages) {
  const char* const* listed = nullptr;
  expect_found(checked->languages(0, &listed), MYDEV_FAILED_PRECONDITION, {"NULL for its languages"});
}

}  // namespace
}  // namespace mydev
