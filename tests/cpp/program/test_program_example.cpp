// The example of docs/programs.md: a program from text to the commands that a device is given.
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "program_fixture.h"
#include "runtime/command/command_hooks.h"
#include "runtime/frame/frame.h"

namespace mydev::program {
namespace {

constexpr char kText[] = R"(
# [docs: text]
programs version 1

program mlp(x: f32[64,128], w1: f32[128,256], w2: f32[256,10]) -> (y: f32[64,10]) {
  constant half: f32[] = hex "0000003f"
  temporary h: f32[64,256]
  temporary r: f32[64,256]
  h = launch mydev.matmul(x, w1; alpha=1.0, beta=0.0)
  r = launch mydev.relu(h)
  y = launch mydev.matmul(r, w2; alpha=1.0, beta=0.0)
  y = launch mydev.mul(y, half f32[64,10]{0,0})
}
# [docs: end]
)";

constexpr const char* kLaunches[] = {
    // [docs: launches]
    "mydev.matmul(out f32[64,256], f32[64,128], f32[128,256]; alpha=1, beta=0)",
    "mydev.relu(out f32[64,256], f32[64,256])",
    "mydev.matmul(out f32[64,10], f32[64,256], f32[256,10]; alpha=1, beta=0)",
    "mydev.mul(out f32[64,10], f32[64,10], f32[64,10]{0,0})",
    // [docs: end]
};

SharedProgram built() {
  // [docs: build]
  ProgramBuilder builder("mlp");
  const SlotIndex x = builder.parameter(MYDEV_F32, {64, 128}, /*donated=*/false, "x");
  const SlotIndex w1 = builder.parameter(MYDEV_F32, {128, 256}, false, "w1");
  const SlotIndex w2 = builder.parameter(MYDEV_F32, {256, 10}, false, "w2");
  const float value = 0.5F;
  const SlotIndex half = builder.constant(MYDEV_F32, {}, std::as_bytes(std::span(&value, 1)), "half");
  const SlotIndex h = builder.temporary(MYDEV_F32, {64, 256}, "h"), r = builder.temporary(MYDEV_F32, {64, 256}, "r");
  const SlotIndex y = builder.temporary(MYDEV_F32, {64, 10}, "y");
  builder.returns(y);

  const std::array once = {float_attribute("alpha", 1), float_attribute("beta", 0)};
  builder.launch("mydev.matmul", {builder.view(h)}, {builder.view(x), builder.view(w1)}, once);
  builder.launch("mydev.relu", {builder.view(r)}, {builder.view(h)});
  builder.launch("mydev.matmul", {builder.view(y)}, {builder.view(r), builder.view(w2)}, once);
  Operand broadcast = builder.view(half);
  broadcast.sizes = {64, 10};
  broadcast.strides = {0, 0};
  builder.launch("mydev.mul", {builder.view(y)}, {builder.view(y), broadcast});
  SharedProgram program = std::move(builder).build();
  // [docs: end]
  return program;
}

std::vector<std::string>& seen() {
  static std::vector<std::string> launches;
  return launches;
}

TEST(ProgramExample, IsBuiltAsItIsWritten) {
  std::string text = kText;
  for (const char* mark : {"\n# [docs: text]\n", "# [docs: end]\n"})
    text.erase(text.find(mark), std::string(mark).size());
  EXPECT_EQ(print(*built()), text);
  EXPECT_EQ(print(*parse(kText)), text);
}

TEST(ProgramExample, ComputesInThePlaceOfItsTemporary) {
  const MemoryPlan plan = plan_memory(*parse(kText), 64);
  EXPECT_EQ(plan.arena_bytes, 65536U);
  EXPECT_EQ(plan.unplanned_bytes, 131072U);
}

TEST(ProgramExample, GivesTheDeviceItsCommands) {
  for (const char* kernel : {"mydev.matmul", "mydev.relu", "mydev.mul"}) {
    if (resolve_kernel(device(0), kernel) == nullptr) GTEST_SKIP() << "needs the kernel " << kernel;
  }
  const SharedProgram program = parse(kText);
  Stream& stream = default_stream(0);
  const Floats x(std::vector<float>(64 * 128, 1)), w1(std::vector<float>(128 * 256, 1)),
      w2(std::vector<float>(2560, 1)), y(std::vector<float>(640));
  // [docs: run]
  Executor executor(program, stream, caching_allocator_for(stream));
  const std::array parameters = {x.binding(), w1.binding(), w2.binding()};  // where each lies, and its bytes
  const std::array results = {y.binding()};
  executor.run(stream, parameters, results);
  // [docs: end]
  EXPECT_EQ(y.read(), std::vector<float>(640, 128 * 256 / 2));
  const int id = add_command_hook({.submitted = [](void*, const CommandRecord& record) {
    if (record.frame != nullptr) seen().push_back(describe_frame(*record.frame->kernel, *record.frame));
  }});
  executor.run(stream, parameters, results);
  remove_command_hook(id);
  stream.synchronize();
  EXPECT_EQ(seen(), std::vector<std::string>(std::begin(kLaunches), std::end(kLaunches)));
}

}  // namespace
}  // namespace mydev::program
