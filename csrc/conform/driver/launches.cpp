// Launches: operands, strides, order with copies, frames that change afterwards, failing kernels and life after them.
#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>
#include <string>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "conform/driver/scale_kernel.h"
#include "kernels/spec/contract.h"
#include "kernels/spec/struct_copy.h"
#include "runtime/base/status.h"

namespace mydev::conform {
namespace {

void runs_a_kernel_on_its_operands(DriverCase& t) {
  const ScaleKernel scale(t);
  std::vector<float> values(1000);
  std::iota(values.begin(), values.end(), 0.0F);
  const DeviceMemory in(t, 4000);
  const DeviceMemory out(t, 4000);
  t.upload(t.stream(), in, bytes_of(values));
  scale.launch(t.stream(), {out, in, 1000, 2});
  for (float& value : values) value *= 2;
  t.same_bytes("twice 0, 1, 2, …, in f32", t.download(t.stream(), out), bytes_of(values));
}

void honours_strides(DriverCase& t) {
  const ScaleKernel scale(t);
  const DeviceMemory in(t, 4 * 6);
  const DeviceMemory out(t, 4 * 6);
  t.upload(t.stream(), in, bytes_of({1, 2, 3, 4, 5, 6}));
  t.upload(t.stream(), out, bytes_of({9, 9, 9, 9, 9, 9}));
  scale.launch(t.stream(), {out, in, 3, 10, MYDEV_F32, 2});
  t.same_bytes("every second of six f32, times 10", t.download(t.stream(), out), bytes_of({10, 9, 30, 9, 50, 9}));
}

void launches_and_copies_keep_their_order(DriverCase& t) {
  const ScaleKernel scale(t);
  const DeviceMemory memory(t, 4 * 1000);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(1000, 1)));
  for (int step = 0; step < 10; ++step) scale.launch(t.stream(), {memory, memory, 1000, 2});
  t.same_bytes("1, doubled ten times, in f32", t.download(t.stream(), memory),
               bytes_of(std::vector<float>(1000, 1024)));
}

void the_frame_is_the_callers_after_the_call(DriverCase& t) {
  const ScaleKernel scale(t);
  const DeviceMemory memory(t, 4 * 1000);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(1000, 1)));
  for (int step = 0; step < 10; ++step) {
    ScaleArguments arguments(memory, memory, 1000, 2);
    mydev_frame frame = arguments.frame();
    scale.launch(t.stream(), frame);
    arguments.size = -1;
    arguments.stride_of_elements = 1 << 30;
    arguments.attribute.value.f = 77;
    std::fill(std::begin(arguments.operands), std::end(arguments.operands), mydev_buffer{});
    frame = {};
  }
  t.same_bytes("1, doubled ten times, in f32, by launches whose frames changed after the call",
               t.download(t.stream(), memory), bytes_of(std::vector<float>(1000, 1024)));
}

// Launches a frame that the kernel does not take. Returns the error, from the launch or the next wait.
std::optional<Error> refused(DriverCase& t, const ScaleKernel& scale, const DeviceMemory& memory) {
  try {
    scale.launch(t.stream(), {memory, memory, 100, 2, MYDEV_S32});
    t.stream().synchronize();
  } catch (const Error& error) {
    return error;
  }
  t.checks.fail("conformance.scale of s32 was launched and waited for, and nothing reported that it failed");
  return std::nullopt;
}

void a_failing_kernel_is_reported(DriverCase& t) {
  const ScaleKernel scale(t);
  const DeviceMemory memory(t, 400);
  const std::optional<Error> error = refused(t, scale, memory);
  if (!error) return;
  t.checks.equal("the code of conformance.scale of s32", code_name(error->code()), code_name(MYDEV_INVALID_ARGUMENT));
  const std::string message = error->what();
  for (const char* part : {"takes f32", "conformance.scale(out s32[100], s32[100]; factor=2)"}) {
    t.checks.that(message.find(part) != std::string::npos,
                  "the message of conformance.scale of s32 does not say '" + std::string(part) + "': " + message);
  }
}

void a_stream_works_on_after_an_error(DriverCase& t) {
  const ScaleKernel scale(t);
  const DeviceMemory memory(t, 400);
  t.upload(t.stream(), memory, bytes_of(std::vector<float>(100, 3)));
  if (!refused(t, scale, memory)) return;
  scale.launch(t.stream(), {memory, memory, 100, 2});
  t.same_bytes("twice 3, in f32, after a launch that failed", t.download(t.stream(), memory),
               bytes_of(std::vector<float>(100, 6)));
}

void an_unknown_kernel_is_not_found(DriverCase& t) {
  t.needs(t.driver().find_kernel != nullptr, "the driver has no kernels of its own");
  t.checks.that(t.driver().find_kernel(0, "conformance.no_such_kernel") == nullptr,
                "find_kernel gave a record for 'conformance.no_such_kernel'");
}

void listed_kernels_are_found(DriverCase& t) {
  t.needs(t.driver().list_kernels != nullptr, "the driver lists no kernels");
  const mydev_kernel* const* listed = nullptr;
  t.must(t.driver().list_kernels(0, &listed), "list_kernels");
  std::set<std::string> names;
  for (; listed != nullptr && *listed != nullptr; ++listed) {
    const mydev_kernel& kernel = **listed;
    const std::string name = kernel.name != nullptr ? kernel.name : "(null)";
    t.checks.that(names.insert(name).second, "list_kernels lists '" + name + "' twice");
    t.checks.that(t.driver().find_kernel != nullptr && t.driver().find_kernel(0, name.c_str()) == &kernel,
                  "list_kernels lists '" + name + "', and find_kernel gives another record, or none, for that name");
    const bool signed_for = kernel.struct_size >= offsetof(mydev_kernel, gradient) && kernel.signature != nullptr;
    // The bodies of these two are data of programs.
    const bool has_body = name == "mydev.fused" || name == "mydev.small_steps";
    t.checks.that(builtin_contract(name) != nullptr || has_body || signed_for || name.starts_with("conformance."),
                  "list_kernels lists '" + name + "', which is the name of no contract, and has no signature");
  }
}

}  // namespace

std::vector<Case> launch_cases() {
  return driver_cases({
      MYDEV_CASE(runs_a_kernel_on_its_operands, "a launch reads its inputs and writes its outputs"),
      MYDEV_CASE(honours_strides, "operands are addressed by their strides"),
      MYDEV_CASE(launches_and_copies_keep_their_order,
                 "launches and copies of one stream run in the order of the calls"),
      MYDEV_CASE(the_frame_is_the_callers_after_the_call,
                 "a frame that changes once launch has returned changes nothing"),
      MYDEV_CASE(a_failing_kernel_is_reported, "launch or the next wait tells the code and the kernel's message"),
      MYDEV_CASE(a_stream_works_on_after_an_error, "work that is given after a failure is done"),
      MYDEV_CASE(an_unknown_kernel_is_not_found, "find_kernel gives NULL for a name that it does not have"),
      MYDEV_CASE(listed_kernels_are_found,
                 "find_kernel gives each record of list_kernels, under a name that has a meaning"),
  });
}

}  // namespace mydev::conform
