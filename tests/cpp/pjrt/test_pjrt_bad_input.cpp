// Wrong input from clients of the PJRT plugin, beyond single calls: programs that are newer, cut off or damaged, and
// handles that outlive their client. Each is reported or does no harm, and the next program runs.
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "bytecode_writer.h"
#include "fuzz.h"
#include "pjrt_fixture.h"

namespace mydev::pjrt {
namespace {

// y = x + x, in bytecode.
std::string addition(const std::string& operator_name = "add_v1") {
  AdditionProgram parts;
  parts.operator_name = operator_name;
  const Bytes program = parts.program();
  return {reinterpret_cast<const char*>(program.data.data()), program.data.size()};
}

class PjrtBadInput : public Pjrt {
 protected:
  static std::vector<float> doubled(PJRT_LoadedExecutable* executable, PJRT_Buffer* x) {
    PJRT_Buffer* const* const arguments = &x;
    PJRT_Buffer* result = nullptr;
    PJRT_Buffer** const results = &result;
    auto options = sized<PJRT_ExecuteOptions>();
    auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
    args.executable = executable;
    args.options = &options;
    args.argument_lists = &arguments;
    args.num_devices = 1;
    args.num_args = 1;
    args.output_lists = &results;
    call(api().PJRT_LoadedExecutable_Execute, args);
    const BufferHandle y(result);
    return download(y.get());
  }

  void expect_that_programs_run() {
    const LoadedHandle loaded = compile(addition(), "", "mlir");
    const BufferHandle x = upload({1, 2, 3, 4});
    EXPECT_EQ(doubled(loaded.get(), x.get()), (std::vector<float>{2, 4, 6, 8}));
  }
};

TEST_F(PjrtBadInput, NamesTheOperatorOfANewerStableHlo) {
  expect_error(error_of([&] { compile(addition("add_v2"), "", "mlir"); }), MYDEV_UNIMPLEMENTED,
               "vhlo.add_v2 (at \"model.py\":12:3) is no operator of StableHLO 1.13, the newest version that is read");
  expect_that_programs_run();
}

TEST_F(PjrtBadInput, RefusesProgramsThatAreCutOff) {
  const std::string whole = addition();
  for (size_t length = 0; length < whole.size(); ++length) {
    const Error error = error_of([&] { compile(whole.substr(0, length), "", "mlir"); });
    ASSERT_EQ(error.code(), MYDEV_INVALID_ARGUMENT) << length << " bytes: " << error.what();
  }
  expect_that_programs_run();
}

// It may still be a program: of another name, or of other sizes.
TEST_F(PjrtBadInput, SurvivesProgramsThatAreDamaged) {
  const std::string whole = addition();
  fuzz(2000, 1, [&](std::mt19937& random) {
    std::string damaged = whole;
    for (unsigned count = 1 + random() % 3; count > 0; --count) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    try {
      compile(damaged, "", "mlir");
    } catch (const Error& error) {
      ASSERT_TRUE(error.code() == MYDEV_INVALID_ARGUMENT || error.code() == MYDEV_UNIMPLEMENTED) << error.what();
    }
  });
  expect_that_programs_run();
}

// The options are those of clients of several processes, while this process is one by itself.
TEST_F(PjrtBadInput, NamesNumbersOfProcessesThatDoNotFit) {
  const auto error_with = [](int64_t index, int64_t count) {
    std::vector<PJRT_NamedValue> options(2);
    const std::string names[] = {"node_id", "num_nodes"};
    for (size_t i = 0; i < 2; ++i) {
      options[i].struct_size = sizeof(PJRT_NamedValue);
      options[i].name = names[i].data();
      options[i].name_size = names[i].size();
      options[i].type = PJRT_NamedValue_kInt64;
      options[i].int64_value = i == 0 ? index : count;
      options[i].value_size = 1;
    }
    auto args = sized<PJRT_Client_Create_Args>();
    args.create_options = options.data();
    args.num_options = options.size();
    return error_of([&] { call(api().PJRT_Client_Create, args); });
  };
  expect_error(error_with(-1, 2), MYDEV_INVALID_ARGUMENT, "client option 'node_id' is no number from 0 on");
  expect_error(error_with(2, 2), MYDEV_INVALID_ARGUMENT,
               "client option 'node_id' is 2, and 'num_nodes' 2: processes are numbered from 0");
  expect_error(error_with(1, 2), MYDEV_FAILED_PRECONDITION,
               "the client is process 1 of 2, and this process uses the devices as 0 of 1 already");
}

TEST_F(PjrtBadInput, KeepsWhatOutlivesItsClient) {
  auto create = sized<PJRT_Client_Create_Args>();
  call(api().PJRT_Client_Create, create);
  ClientHandle other(create.client);
  const LoadedHandle loaded = compile(addition(), "", "mlir");
  const BufferHandle x = upload({1, 2, 3, 4});
  const EventHandle ready = ready_event(x.get());
  close();
  other.reset();
  EXPECT_EQ(doubled(loaded.get(), x.get()), (std::vector<float>{2, 4, 6, 8}));
  await(ready.get());
  EXPECT_EQ(download(x.get()), (std::vector<float>{1, 2, 3, 4}));
}

}  // namespace
}  // namespace mydev::pjrt
