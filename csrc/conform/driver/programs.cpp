// The programs extension: steps that are taken or declined, executables, their order and their operands.
//
// The suite offers sums of f32 vectors, copies and fills. A driver that takes none of them is tested only for what it
// declines.
#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conform/driver/driver_case.h"
#include "conform/driver/groups.h"
#include "runtime/command/executable.h"
#include "runtime/frame/frame.h"

namespace mydev::conform {
namespace {

constexpr int64_t kSumElements = 1000;
constexpr uint64_t kSumBytes = kSumElements * sizeof(float);

// A program over slots of kSumElements f32.
class OfferedSums {
 public:
  uint32_t slot(mydev_slot_kind kind, bool updated = false) {
    const auto index = static_cast<uint32_t>(slots_.size());
    slots_.push_back({.struct_size = sizeof(mydev_slot),
                      .name = names_.emplace_back("s" + std::to_string(index)).c_str(),
                      .kind = kind,
                      .updated = updated ? 1 : 0,
                      .dtype = MYDEV_F32,
                      .rank = 1,
                      .sizes = &kSumElements,
                      .bytes = kSumBytes,
                      .data = nullptr});
    if (kind == MYDEV_SLOT_PARAMETER) parameters_.push_back(index);
    if (kind == MYDEV_SLOT_RESULT) results_.push_back(index);
    return index;
  }
  void add(uint32_t sum, uint32_t a, uint32_t b, const char* kernel = "mydev.add") {
    step(MYDEV_STEP_LAUNCH, {sum, a, b}, kernel);
  }
  void copy(uint32_t to, uint32_t from) { step(MYDEV_STEP_COPY, {to, from}); }
  void fill(uint32_t to) { step(MYDEV_STEP_FILL, {to}); }

  const mydev_program& program() {
    view_.self = this;
    view_.program = {.struct_size = sizeof(mydev_program),
                     .name = "conformance",
                     .num_slots = static_cast<uint32_t>(slots_.size()),
                     .num_steps = static_cast<uint32_t>(steps_.size()),
                     .num_parameters = static_cast<uint32_t>(parameters_.size()),
                     .num_results = static_cast<uint32_t>(results_.size()),
                     .parameters = parameters_.data(),
                     .results = results_.data(),
                     .slot = [](const mydev_program* of, uint32_t index) { return &self(of).slots_.at(index); },
                     .step = [](const mydev_program* of, uint32_t index) { return &self(of).steps_.at(index).view; },
                     .text = [](const mydev_program*) { return "sums, copies and fills of f32[1000]"; }};
    return view_.program;
  }

 private:
  struct OfferedStep {
    std::vector<mydev_buffer> buffers;
    std::vector<uint32_t> slots;
    std::vector<uint64_t> offsets;
    mydev_attribute alpha{};
    mydev_frame frame;
    mydev_step view;
  };
  struct View {
    mydev_program program;
    const OfferedSums* self;
  };
  static const OfferedSums& self(const mydev_program* program) { return *reinterpret_cast<const View*>(program)->self; }

  void step(mydev_step_kind kind, std::vector<uint32_t> slots, const char* kernel = nullptr) {
    static constexpr int64_t kStride = 1;
    static constexpr float kPattern = 3;
    OfferedStep& step = steps_.emplace_back();
    step.slots = std::move(slots);
    step.offsets.resize(step.slots.size());
    step.buffers.assign(step.slots.size(), {nullptr, &kSumElements, &kStride, 1, MYDEV_F32, 0});
    step.alpha.name = "alpha";
    step.alpha.kind = MYDEV_ATTRIBUTE_FLOAT;
    step.alpha.value.f = 1;
    const bool is_launch = kind == MYDEV_STEP_LAUNCH;
    step.frame = make_frame(step.buffers, 1, {&step.alpha, is_launch ? size_t{1} : size_t{0}});
    step.view = {.struct_size = sizeof(mydev_step),
                 .kind = kind,
                 .pattern_bytes = kind == MYDEV_STEP_FILL ? uint32_t{sizeof(kPattern)} : 0,
                 .pattern = kind == MYDEV_STEP_FILL ? &kPattern : nullptr,
                 .kernel = kernel,
                 .frame = &step.frame,
                 .slots = step.slots.data(),
                 .offsets = step.offsets.data()};
  }

  std::deque<std::string> names_;
  std::vector<mydev_slot> slots_;
  std::deque<OfferedStep> steps_;
  std::vector<uint32_t> parameters_, results_;
  View view_{};
};

const mydev_programs_extension& program_compiler(DriverCase& t) {
  const mydev_programs_extension* programs = program_compiler_of(t.device());
  t.needs(programs != nullptr, "the driver has no extension 'programs'");
  return *programs;
}

// Ends the case if the driver declines a step, or all together.
std::shared_ptr<const Executable> compile_sums(DriverCase& t, OfferedSums& sums) {
  const mydev_program& program = sums.program();
  for (uint32_t step = 0; step < program.num_steps; ++step) {
    const mydev_code code = program_compiler(t).takes(0, &program, step);
    if (code == MYDEV_UNIMPLEMENTED)
      t.checks.skip(std::string("the driver declines a step: ") + t.driver().last_error());
    t.must(code, "takes");
  }
  std::string reason;
  auto executable = Executable::compile(t.device(), program, "program 'conformance'", reason);
  if (executable == nullptr) t.checks.skip("the driver declines the program: " + reason);
  return executable;
}

Bytes sum_bytes(float value) {
  const std::vector<float> values(kSumElements, value);
  const auto* bytes = reinterpret_cast<const unsigned char*>(values.data());
  return {bytes, bytes + kSumBytes};
}

// Runs it, with scratch if it needs some.
void run_sums(DriverCase& t, const Executable& executable, std::vector<void*> parameters, std::vector<void*> results) {
  const DeviceMemory scratch(t, std::max<uint64_t>(executable.scratch_bytes(), 1));
  executable.run(t.stream(), parameters, results, executable.scratch_bytes() != 0 ? scratch.data() : nullptr);
  t.stream().synchronize();
}

void an_unknown_kernel_is_declined(DriverCase& t) {
  OfferedSums sums;
  const uint32_t x = sums.slot(MYDEV_SLOT_PARAMETER), y = sums.slot(MYDEV_SLOT_RESULT);
  sums.add(y, x, x, "conformance.unknown");
  t.checks.equal("takes", program_compiler(t).takes(0, &sums.program(), 0), MYDEV_UNIMPLEMENTED);
  t.checks.that(*t.driver().last_error() != '\0', "last_error does not say why the step is declined");
}

void a_program_runs(DriverCase& t) {
  OfferedSums sums;
  const uint32_t a = sums.slot(MYDEV_SLOT_PARAMETER), b = sums.slot(MYDEV_SLOT_PARAMETER);
  const uint32_t inner = sums.slot(MYDEV_SLOT_TEMPORARY), out = sums.slot(MYDEV_SLOT_RESULT);
  sums.add(inner, a, b);
  sums.add(out, inner, inner);
  const auto executable = compile_sums(t, sums);
  const DeviceMemory first(t, kSumBytes), second(t, kSumBytes), result(t, kSumBytes);
  for (const float value : {1.0F, 5.0F}) {
    t.upload(t.stream(), first, sum_bytes(value));
    t.upload(t.stream(), second, sum_bytes(2));
    run_sums(t, *executable, {first.data(), second.data()}, {result.data()});
    t.same_bytes("twice the sum of both parameters", t.download(t.stream(), result), sum_bytes(2 * (value + 2)));
  }
  t.same_bytes("a parameter that is not updated", t.download(t.stream(), first), sum_bytes(5));
}

void a_parameter_is_updated(DriverCase& t) {
  OfferedSums sums;
  const uint32_t sum = sums.slot(MYDEV_SLOT_PARAMETER, /*updated=*/true), x = sums.slot(MYDEV_SLOT_PARAMETER);
  sums.add(sum, sum, x);
  const auto executable = compile_sums(t, sums);
  const DeviceMemory total(t, kSumBytes), added(t, kSumBytes);
  t.upload(t.stream(), total, sum_bytes(1));
  t.upload(t.stream(), added, sum_bytes(2));
  for (int round = 0; round < 3; ++round) run_sums(t, *executable, {total.data(), added.data()}, {});
  t.same_bytes("1 and three times 2", t.download(t.stream(), total), sum_bytes(7));
}

void copies_and_fills_are_steps(DriverCase& t) {
  OfferedSums sums;
  const uint32_t filled = sums.slot(MYDEV_SLOT_RESULT), copied = sums.slot(MYDEV_SLOT_RESULT);
  sums.fill(filled);
  sums.copy(copied, filled);
  const auto executable = compile_sums(t, sums);
  const DeviceMemory first(t, kSumBytes), second(t, kSumBytes);
  run_sums(t, *executable, {}, {first.data(), second.data()});
  t.same_bytes("a slot that is filled with 3", t.download(t.stream(), first), sum_bytes(3));
  t.same_bytes("a copy of it", t.download(t.stream(), second), sum_bytes(3));
}

void executables_keep_the_order_of_the_stream(DriverCase& t) {
  OfferedSums sums;
  const uint32_t x = sums.slot(MYDEV_SLOT_PARAMETER), y = sums.slot(MYDEV_SLOT_RESULT);
  sums.add(y, x, x);
  const auto executable = compile_sums(t, sums);
  const DeviceMemory scratch(t, std::max<uint64_t>(executable->scratch_bytes(), 1));
  void* const given = executable->scratch_bytes() != 0 ? scratch.data() : nullptr;
  const DeviceMemory a(t, kSumBytes), b(t, kSumBytes);
  t.upload(t.stream(), a, sum_bytes(1));
  for (int round = 0; round < 10; ++round) {
    std::array<void*, 1> from{a.data()}, to{b.data()};
    executable->run(t.stream(), from, to, given);
    std::swap(from, to);
    executable->run(t.stream(), from, to, given);
    from = to = {};  // the addresses are the caller's again
  }
  t.same_bytes("1, doubled twenty times", t.download(t.stream(), a), sum_bytes(1 << 20));
}

void a_binary_is_the_executable_again(DriverCase& t) {
  t.needs(program_compiler(t).load != nullptr, "the driver leaves binary and load out");
  OfferedSums sums;
  const uint32_t x = sums.slot(MYDEV_SLOT_PARAMETER), y = sums.slot(MYDEV_SLOT_RESULT);
  sums.add(y, x, x);
  std::string binary;
  {
    const auto executable = compile_sums(t, sums);
    const std::span<const std::byte> bytes = executable->binary();
    t.checks.require(!bytes.empty(), "binary gave no bytes");
    binary.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  const auto executable = Executable::load(t.device(), binary, "program 'conformance'");
  const DeviceMemory in(t, kSumBytes), out(t, kSumBytes);
  t.upload(t.stream(), in, sum_bytes(4));
  run_sums(t, *executable, {in.data()}, {out.data()});
  t.same_bytes("twice 4, by an executable that was loaded from its binary", t.download(t.stream(), out), sum_bytes(8));
}

}  // namespace

std::vector<Case> program_cases() {
  return driver_cases({
      MYDEV_CASE(an_unknown_kernel_is_declined, "takes says UNIMPLEMENTED, and why, to a kernel that nobody knows"),
      MYDEV_CASE(a_program_runs, "an executable computes what the steps say, whatever memory it is given"),
      MYDEV_CASE(a_parameter_is_updated, "a parameter that is updated holds what the steps wrote"),
      MYDEV_CASE(copies_and_fills_are_steps, "copies and fills that are taken do what they say"),
      MYDEV_CASE(executables_keep_the_order_of_the_stream, "runs of executables come in the order of the calls"),
      MYDEV_CASE(a_binary_is_the_executable_again, "what binary gave loads as the same executable"),
  });
}

}  // namespace mydev::conform
