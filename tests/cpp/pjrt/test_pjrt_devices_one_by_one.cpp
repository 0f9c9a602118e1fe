// Devices that are started one by one, as clients do that have a thread for each: they meet in what they run.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "pjrt_fixture.h"

namespace mydev::pjrt {
namespace {

using Values = std::vector<float>;

using PjrtDevicesOneByOne = Pjrt;

// The sum over both devices of x + `number`.
std::string sum_with(int number) {
  return R"(module @sum {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.constant dense<)" +
         std::to_string(number) + R"(.0> : tensor<4xf32>
    %1 = stablehlo.add %x, %0 : tensor<4xf32>
    %2 = "stablehlo.all_reduce"(%1) <{replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %3 = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %3 : tensor<f32>
    }) : (tensor<4xf32>) -> tensor<4xf32>
    return %2 : tensor<4xf32>
  }
})";
}

// As clients do that have a thread for each device: the devices' programs need be alike only in what they meet for.
// They run twice, since runs must not be taken for each other, and the second program is compiled while a device waits.
TEST_F(PjrtDevicesOneByOne, LetsDevicesMeetThatAreStartedOneByOne) {
  if (devices().size() < 2) GTEST_SKIP() << "there is one device";
  std::vector<LoadedHandle> programs;
  std::vector<BufferHandle> results;
  for (int number = 0; number < 2; ++number) {
    programs.push_back(compile(sum_with(10 * number), options_for({0, 1}), "mlir"));
    const BufferHandle x = upload(Values(4, 1), device(static_cast<size_t>(number)));
    for (int run = 0; run < 2; ++run) {
      std::vector<PJRT_Buffer*> arguments = {x.get()}, result = {nullptr};
      PJRT_Buffer* const* const argument_list = arguments.data();
      PJRT_Buffer** const result_list = result.data();
      auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
      args.executable = programs.back().get();
      args.argument_lists = &argument_list;
      args.num_devices = 1;
      args.num_args = 1;
      args.output_lists = &result_list;
      args.execute_device = device(static_cast<size_t>(number));
      call(api().PJRT_LoadedExecutable_Execute, args);
      results.emplace_back(result[0]);
    }
  }
  for (const BufferHandle& sum : results) EXPECT_EQ(download(sum.get()), Values(4, 12));
}

}  // namespace
}  // namespace mydev::pjrt
