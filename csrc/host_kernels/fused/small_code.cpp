// Machine code of a SmallProgram, for processors with AVX2: its control flow, and calls of what is not instructions
// (small_instructions.h).
//
// One function runs all items. Pointwise steps over up to four values are instructions, one after the other for each
// value, and so are arithmetic ones over up to 32 floats, by vectors. All else is called.
#include <bit>
#include <optional>
#include <span>

#include "host_kernels/fused/small_instructions.h"
#include "host_kernels/isa_variant.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::kernels {

namespace {

constexpr size_t kMostCode = 1 << 18;  // bytes; a longer program is interpreted

}  // namespace

class SmallProgram::Coder : SmallProgram::Instructions {
 public:
  explicit Coder(const SmallProgram& program) : Instructions(program) {}

  // Returns nothing if the program has numbers that instructions do not hold.
  std::optional<ExecutableMemory> code() {
    begin();
    items(0, program_.items_.size(), 0);
    end();
    if (!fits_ || to_.size() > kMostCode) return std::nullopt;
    return ExecutableMemory(to_.code());
  }

 private:
  using Step = mydev_code (*)(const SmallProgram&, size_t, size_t, Run&) noexcept;

  static mydev_code fail(const PointwiseTableCall& failed, Run& run) noexcept {
    return pass_on(*failed.frame, MYDEV_FAILED_PRECONDITION, run.outer);
  }
  static mydev_code run_item(const SmallProgram& program, size_t index, size_t, Run& run) noexcept {
    return program.run_items(index, index + 1, run);
  }
  static mydev_code begin_loop(const SmallProgram& program, size_t index, size_t, Run& run) noexcept {
    program.begin_repeat(program.items_[index], run);
    return MYDEV_OK;
  }

  // Calls step(program, first, second, run), and leaves with its code if that is none of success.
  void to_call(Step step, size_t first, size_t second) {
    to_.move(kRdi, kProgram);
    to_.set(kRsi, first);
    to_.set(kRdx, second);
    to_.move(kRcx, kRun);
    call_function(step);
    to_.bytes({0x85, 0xC0});  // test eax, eax
    exits_.push_back(to_.jump_if_not_zero());
    forget();
  }

  template <typename Function>
  void call_function(Function* function) {
    to_.set(kRax, std::bit_cast<uint64_t>(function));
    to_.bytes({0xC5, 0xF8, 0x77});  // vzeroupper
    to_.call(kRax);
  }

  // Runs calls one after the other; leaves if the attributes of one failed.
  void call_kernels(size_t first, size_t count) {
    to_.set(kRdi, std::bit_cast<uint64_t>(&program_.calls_[first]));
    to_.set(kRsi, count);
    to_.move(kRdx, kPointerTable);
    call_function(program_.run_calls_);
    to_.bytes({0x48, 0x85, 0xC0});  // test rax, rax
    failures_.push_back(to_.jump_if_not_zero());
    forget();
  }

  // Sets the flags by the byte: zero if it is 0.
  void test(size_t pointer) {
    to_.load_byte(kRax, address_of(pointer, 0));
    to_.bytes({0x85, 0xC0});
  }

  void calls(const Item& item) {
    const size_t end = item.first + item.count;
    for (size_t i = item.first; i < end; ++i) {
      if (has_code(i)) {
        call(i);
        continue;
      }
      const size_t first = i;
      while (i + 1 < end && !has_code(i + 1)) ++i;
      call_kernels(first, i + 1 - first);
    }
  }

  void items(size_t begin, size_t end, int depth) {
    for (size_t i = begin; i < end && to_.size() <= kMostCode;) {
      const Item& item = program_.items_[i];
      size_t next = i + 1;
      bool has_code = true;
      switch (item.kind) {
        case Item::kCalls:
          calls(item);
          break;
        case Item::kMove:
          has_code = move(program_.moves_[item.first]);
          break;
        case Item::kConvert:
          has_code = convert(program_.converts_[item.first]);
          break;
        case Item::kRows:
          has_code = rows(program_.rows_[item.first]);
          break;
        case Item::kKernel:
          has_code = kernel(program_.kernels_[item.first]);
          break;
        case Item::kRepeat:
          repeat(i, depth);
          next = item.end;
          break;
        case Item::kWhile:
          loop(i, depth);
          next = item.end;
          break;
        case Item::kIf:
          condition(i, depth);
          next = item.end;
          break;
      }
      if (!has_code) to_call(&run_item, i, 0);
      i = next;
    }
  }

  void repeat(size_t index, int depth) {
    const Item& item = program_.items_[index];
    if (item.iterations == 0) return;
    if (item.count != 0) to_call(&begin_loop, index, 0);
    const Address counter{kRsp, signed32(int64_t{8} * depth)};
    to_.set(kRax, static_cast<uint64_t>(item.iterations));
    to_.store(counter, kRax);
    forget();
    const size_t head = to_.size();
    items(index + 1, item.end, depth + 1);
    forget();
    to_.add(counter, -1);
    const size_t done = to_.jump_if_zero();
    for (const Advance& advance : std::span(program_.advances_).subspan(item.first, item.count)) {
      const int32_t bytes = signed32(advance.bytes);
      to_.add({kBindingTable, signed32(static_cast<int64_t>(advance.binding * sizeof(void*)))}, bytes);
      for (const size_t pointer : advance.pointers) {
        to_.add({kPointerTable, signed32(static_cast<int64_t>(pointer * sizeof(void*)))}, bytes);
      }
    }
    to_.land(to_.jump(), head);
    to_.land(done);
  }

  void loop(size_t index, int depth) {
    const Item& item = program_.items_[index];
    test(item.first);
    const size_t done = to_.jump_if_zero();
    forget();
    const size_t head = to_.size();
    items(index + 1, item.end, depth + 1);
    test(item.first);
    to_.land(to_.jump_if_not_zero(), head);
    to_.land(done);
    forget();
  }

  void condition(size_t index, int depth) {
    const Item& item = program_.items_[index];
    test(item.first);
    const size_t to_otherwise = to_.jump_if_zero();
    const auto held = held_;
    const auto loaded = loaded_;
    items(index + 1, item.otherwise, depth + 1);
    const size_t done = to_.jump();
    to_.land(to_otherwise);
    held_ = held;
    loaded_ = loaded;
    items(item.otherwise, item.end, depth + 1);
    to_.land(done);
    forget();
  }

  static constexpr int32_t kFrame = 520;  // counters of loops; calls are aligned to 16 bytes with it
  void begin() {
    to_.bytes({0x55, 0x53, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57});  // push rbp, rbx, r12 to r15
    to_.bytes({0x48, 0x81, 0xEC, kFrame & 255, kFrame >> 8, 0, 0});           // sub rsp
    to_.move(kMemory, kRdi);
    to_.move(kPointerTable, kRsi);
    to_.move(kBindingTable, kRdx);
    to_.move(kProgram, kRcx);
    to_.move(kRun, kR8);
    to_.set(kConstants, std::bit_cast<uint64_t>(program_.constant(0)));
    forget();
  }
  void end() {
    to_.bytes({0x31, 0xC0});  // xor eax, eax
    const size_t leave = to_.size();
    for (const size_t exit : exits_) to_.land(exit);
    to_.bytes({0xC5, 0xF8, 0x77});                                   // vzeroupper
    to_.bytes({0x48, 0x81, 0xC4, kFrame & 255, kFrame >> 8, 0, 0});  // add rsp
    to_.bytes({0x41, 0x5F, 0x41, 0x5E, 0x41, 0x5D, 0x41, 0x5C, 0x5B, 0x5D, 0xC3});
    for (const size_t failure : failures_) to_.land(failure);
    to_.move(kRdi, kRax);
    to_.move(kRsi, kRun);
    call_function(&fail);
    to_.land(to_.jump(), leave);
  }

  std::vector<size_t> exits_, failures_;  // jumps: with a code in eax, with a call that failed in rax
};

void SmallProgram::generate_code() {
#ifdef __x86_64__
  if (instruction_set() == InstructionSet::kBaseline) return;
  if (std::optional<ExecutableMemory> code = Coder(*this).code()) code_ = std::move(*code);
#endif
}

}  // namespace mydev::kernels
