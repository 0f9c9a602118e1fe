// Devices that are started one by one, as clients with a thread for each device do: their programs rendezvous.
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

// x + (5, 6, 7, 8), which are copied to the device.
constexpr const char* kAddition = R"(module @addition {
  func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = stablehlo.constant dense<[5.0, 6.0, 7.0, 8.0]> : tensor<4xf32>
    %1 = stablehlo.add %x, %0 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
})";

// On one device, as clients do that have a thread for each.
BufferHandle start(const LoadedHandle& program, PJRT_Device* on, const BufferHandle& x) {
  std::vector<PJRT_Buffer*> arguments = {x.get()}, result = {nullptr};
  PJRT_Buffer* const* const argument_list = arguments.data();
  PJRT_Buffer** const result_list = result.data();
  auto args = sized<PJRT_LoadedExecutable_Execute_Args>();
  args.executable = program.get();
  args.argument_lists = &argument_list;
  args.num_devices = 1;
  args.num_args = 1;
  args.output_lists = &result_list;
  args.execute_device = on;
  call(api().PJRT_LoadedExecutable_Execute, args);
  return BufferHandle(result[0]);
}

// The devices' programs need be alike only in the operations at which they rendezvous. They run twice, since runs must
// not be taken for each other, and the second program is compiled while a device waits.
TEST_F(PjrtDevicesOneByOne, HasARendezvousOfDevicesThatAreStartedOneByOne) {
  if (devices().size() < 2) GTEST_SKIP() << "needs two devices";
  std::vector<LoadedHandle> programs;
  std::vector<BufferHandle> results;
  for (int number = 0; number < 2; ++number) {
    programs.push_back(compile(sum_with(10 * number), options_for({0, 1}), "mlir"));
    PJRT_Device* const on = device(static_cast<size_t>(number));
    const BufferHandle x = upload(Values(4, 1), on);
    for (int run = 0; run < 2; ++run) results.push_back(start(programs.back(), on, x));
  }
  for (const BufferHandle& sum : results) EXPECT_EQ(download(sum.get()), Values(4, 12));
}

// Clients may start all devices on one thread: whatever it gives a device that waits must come back to it. Programs are
// loaded there meanwhile, of one device when they are compiled, of several when they are first executed.
TEST_F(PjrtDevicesOneByOne, LoadsProgramsOnADeviceThatWaits) {
  if (devices().size() < 2) GTEST_SKIP() << "needs two devices";
  const LoadedHandle sum = compile(sum_with(0), options_for({0, 1}), "mlir");
  const LoadedHandle of_both = compile(kAddition, options_for({0, 1}), "mlir");
  const BufferHandle x = upload(Values(4, 1), device(0)), y = upload(Values(4, 2), device(1));
  const BufferHandle first_sum = start(sum, device(0), x);
  const BufferHandle with_both = start(of_both, device(0), x);
  const LoadedHandle of_one = compile(kAddition, options_for({0}), "mlir");
  const BufferHandle with_one = start(of_one, device(0), with_both);
  const BufferHandle second_sum = start(sum, device(1), y);
  EXPECT_EQ(download(first_sum.get()), Values(4, 3));
  EXPECT_EQ(download(second_sum.get()), Values(4, 3));
  EXPECT_EQ(download(with_one.get()), (Values{11, 13, 15, 17}));
}

}  // namespace
}  // namespace mydev::pjrt
