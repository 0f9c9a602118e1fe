// Programs that say something else than they mean: a program for each operator (tests/pjrt/operators.mlir), with a
// declared type, an attribute or an operand that is another one. Each is refused with an error, or is lowered and runs
// to its end, writing all bytes of its results.
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <limits>
#include <set>
#include <sstream>

#include "built_files.h"
#include "fuzz.h"
#include "lowering/emitter.h"
#include "lowering_fixture.h"

namespace mydev::lowering {
namespace {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

// Without those that the text's reader does not know.
const std::vector<std::string>& programs() {
  static const std::vector<std::string> kPrograms = [] {
    std::ifstream file(built_file("operators.mlir"));
    std::vector<std::string> programs(1);
    for (std::string line; std::getline(file, line);) {
      if (line == "// -----") {
        programs.emplace_back();
      } else {
        programs.back() += line + '\n';
      }
    }
    std::erase_if(programs, [](const std::string& text) { return error_of([&] { read_text(text); }).code() != 0; });
    return programs;
  }();
  return kPrograms;
}

template <typename Visit>
void for_each_operation(const Module& module, const Visit& visit) {
  for (const Operation& op : const_cast<Module&>(module).contents().operations) visit(op);
}

bool has_any(const Module& module, std::initializer_list<Operator> wanted) {
  bool found = false;
  for_each_operation(module, [&](const Operation& op) { found = found || std::ranges::count(wanted, op.op) != 0; });
  return found;
}

// Functions return what their bodies do: a type that was changed is seen by the operation that gives it, and its users.
void let_functions_return_what_they_do(Module& module) {
  for (Function& function : module.contents().functions) {
    const std::span<const Value* const> values = function.body->results();
    for (size_t i = 0; i < std::min(values.size(), function.results.size()); ++i) {
      function.results[i].type = values[i]->type;
    }
  }
}

class Mutator {
  size_t below(size_t count) { return random_() % count; }
  template <typename List>
  auto& any(List& list) {
    return list[below(list.size())];
  }

 public:
  Mutator(Module& module, std::mt19937& random) : contents_(module.contents()), random_(random) {}

  void mutate() {
    switch (below(4)) {
      case 0:
        return change_type(any(contents_.values));
      case 1:
        return change_operands(any(contents_.operations));
      default:
        return change_attribute(any(contents_.operations));
    }
  }

  void change_type(Value& value) {
    Type type = *value.type;
    if (!type.is_tensor()) return;
    switch (below(4)) {
      case 0:
        type.element = static_cast<ElementType>(below(static_cast<size_t>(ElementType::kIndex)));
        break;
      case 1:
        type.dims.insert(type.dims.begin() + static_cast<std::ptrdiff_t>(below(type.dims.size() + 1)), size());
        break;
      default:
        if (type.dims.empty()) return;
        if (below(4) == 0) {
          type.dims.pop_back();
        } else {
          any(type.dims) = size();
        }
    }
    if (sizes_are_valid(type)) value.type = contents_.add(std::move(type));
  }

 private:
  int64_t size() {
    constexpr std::array<int64_t, 10> kSizes = {0, 1, 2, 3, 4, 5, 6, 8, 9, int64_t{1} << 40};
    return any(kSizes);
  }
  int64_t number() {
    constexpr std::array<int64_t, 14> kNumbers = {
        -1, 0, 1, 2, 3, 4, 5, 7, 8, int64_t{1} << 31, -9, 64, 1 << 20, std::numeric_limits<int64_t>::max()};
    return any(kNumbers);
  }

  void change_operands(Operation& op) {
    if (op.operands.empty()) return;
    switch (below(8)) {
      case 0:
        op.operands.pop_back();
        break;
      case 1:
        op.operands.push_back(any(op.operands));
        break;
      default: {
        const Value& other = any(contents_.values);
        if (other.block->region->function == op.function) any(op.operands) = &other;
      }
    }
  }

  void change_attribute(Operation& op) {
    if (op.attributes.empty()) return;
    NamedAttribute& attribute = any(op.attributes);
    if (below(10) == 0) {
      op.attributes.erase(op.attributes.begin() + (&attribute - op.attributes.data()));
      return;
    }
    Attribute changed = *attribute.value;
    if (auto* integer = std::get_if<Integer>(&changed.value)) {
      integer->value = number();
    } else if (auto* flag = std::get_if<bool>(&changed.value)) {
      *flag = !*flag;
    } else if (auto* literal = std::get_if<TensorLiteral>(&changed.value)) {
      change_literal(*literal);
    }
    attribute.value = contents_.add(std::move(changed));
  }

  // One number, or how many there are.
  void change_literal(TensorLiteral& literal) {
    if (literal.type->element != ElementType::kS64 || literal.type->rank() > 2) return;
    std::vector<int64_t> numbers = integers_of(literal);
    Type type = *literal.type;
    if (below(4) == 0 && type.rank() == 1) {
      numbers.push_back(number());
      ++type.dims[0];
    } else if (!numbers.empty()) {
      any(numbers) = number();
    }
    const auto bytes = std::as_bytes(std::span(numbers));
    literal = {contents_.add(std::move(type)), contents_.literals.emplace_back(bytes.begin(), bytes.end()), false};
  }

  Module::Contents& contents_;
  std::mt19937& random_;
};

// Ends the test with the program, where one does not end.
class Watchdog {
 public:
  explicit Watchdog(std::string text) {
    text_ = "does not end:\n" + std::move(text);
    std::signal(SIGALRM, [](int) {
      [[maybe_unused]] const auto written = write(STDERR_FILENO, text_.data(), text_.size());
      _exit(1);
    });
    alarm(120);
  }
  ~Watchdog() { alarm(0); }
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  static inline std::string text_;
};

using Bytes = std::vector<unsigned char>;

uint64_t bytes_of(const program::Slot& slot) {
  return static_cast<uint64_t>(count_of(slot.sizes)) * static_cast<uint64_t>(dtype_size(slot.dtype));
}

// Returns the results of a run: memory that was filled with a byte before. Every byte of the arguments is one.
std::vector<Bytes> run_over(const LoweredProgram& lowered, unsigned char fill) {
  const program::Program& built = *lowered.program;
  std::vector<std::unique_ptr<DeviceArray<unsigned char>>> arguments, results;
  std::vector<program::Binding> parameters, outputs;
  for (const program::SlotIndex slot : built.parameters()) {
    arguments.push_back(std::make_unique<DeviceArray<unsigned char>>(Bytes(bytes_of(built.slots()[slot]), 1)));
    parameters.push_back(arguments.back()->binding());
  }
  for (const program::SlotIndex slot : built.own_results()) {
    results.push_back(std::make_unique<DeviceArray<unsigned char>>(Bytes(bytes_of(built.slots()[slot]), fill)));
    outputs.push_back(results.back()->binding());
  }
  program::executor_of(lowered.program).run(default_stream(0), parameters, outputs);
  std::vector<Bytes> written;
  for (const auto& result : results) written.push_back(result->read());
  return written;
}

bool is_small(const LoweredProgram& lowered) {
  uint64_t bytes = 0;
  for (const program::Slot& slot : lowered.program->slots()) bytes += bytes_of(slot) >> 10;
  return bytes < (1 << 14);
}

// Returns whether the program ran. Programs with loops or random numbers do not: loops may go on for ever, and random
// numbers differ each time.
bool lower_and_run(const Module& module) {
  verify(module);
  const bool is_collective =
      has_any(module, {Operator::kAllGather, Operator::kAllReduce, Operator::kAllToAll, Operator::kCollectiveBroadcast,
                       Operator::kCollectivePermute, Operator::kReduceScatter});
  const LoweredProgram lowered = lower(module, Devices{.partitions = is_collective ? 4 : 1});
  if (is_collective || has_any(module, {Operator::kWhile, Operator::kRng}) || !is_small(lowered)) return false;
  EXPECT_EQ(run_over(lowered, 0x00), run_over(lowered, 0xFF)) << "bytes of a result are not written";
  return true;
}

TEST(Mutations, EndWithAValueOrAnError) {
  ASSERT_GT(programs().size(), 70U);
  int ran = 0;
  fuzz(6000, 3, [&](std::mt19937& random) {
    Module module = read_text(programs()[random() % programs().size()]);
    Mutator mutator(module, random);
    for (unsigned count = 1 + random() % 2; count > 0; --count) mutator.mutate();
    if (random() % 4 != 0) let_functions_return_what_they_do(module);
    std::string text;
    const Error unprintable = error_of([&] { text = print(module); });
    const Watchdog watchdog(text);
    SCOPED_TRACE(text);
    const Error error = error_of([&] { ran += lower_and_run(module) ? 1 : 0; });
    for (const mydev_code code : {unprintable.code(), error.code()}) {
      ASSERT_TRUE(code == MYDEV_OK || code == MYDEV_INVALID_ARGUMENT || code == MYDEV_UNIMPLEMENTED ||
                  code == MYDEV_RESOURCE_EXHAUSTED)
          << error.what();
    }
  });
  RecordProperty("ran", ran);
  EXPECT_GT(ran, 0);
}

// --- declared types --------------------------------------------------------------------------------------------------

// The operators whose first result may be declared otherwise, as `change` does it.
template <typename Change>
std::set<std::string> accepted(const Change& change) {
  std::set<std::string> names;
  for (const std::string& text : programs()) {
    const Module unchanged = read_text(text);
    const size_t count = const_cast<Module&>(unchanged).contents().operations.size();
    for (size_t i = 0; i < count; ++i) {
      Module module = read_text(text);
      const Operation& op = module.contents().operations[i];
      if (op.results.empty() || !op.result().type->is_tensor()) continue;
      Type type = *op.result().type;
      if (!change(type)) continue;
      const_cast<Value&>(op.result()).type = module.contents().add(std::move(type));
      let_functions_return_what_they_do(module);
      if (error_of([&] { verify(module); }).code() == MYDEV_OK) names.insert(std::string(op.row().short_name()));
    }
  }
  return names;
}

using Names = std::set<std::string>;

// Adds operators whose results are of any type, since their source is not in the program, and operators that are not
// lowered.
Names with_unknown(Names names) {
  names.merge(Names{"custom_call", "infeed", "recv", "dot", "einsum", "torch_index_select", "unary_einsum"});
  return names;
}

// Some operators have sizes of their own: made from 1, given by operands when the program runs, or by the number of
// devices.
TEST(DeclaredTypes, HaveTheSizesThatFollow) {
  const Names others = accepted([](Type& type) {
    if (type.dims.empty() || type.dims[0] == kDynamic) return false;
    return ++type.dims[0], true;
  });
  EXPECT_EQ(others, with_unknown({"all_to_all", "broadcast_in_dim", "iota", "rng"}));
}

TEST(DeclaredTypes, HaveTheRankThatFollows) {
  const Names others = accepted([](Type& type) { return type.dims.push_back(1), true; });
  EXPECT_EQ(others, with_unknown({"broadcast_in_dim", "iota", "reshape"}));
}

// Some operators have elements of their own: a wider type asks for sums of products in that type.
TEST(DeclaredTypes, HaveTheElementsThatFollow) {
  const Names others = accepted([](Type& type) {
    type.element = type.element == ElementType::kF64 ? ElementType::kF32 : ElementType::kF64;
    return true;
  });
  EXPECT_EQ(others, with_unknown({"convert", "convolution", "dot_general", "dynamic_conv", "dynamic_iota", "iota"}));
}

// --- sizes that no tensor has ----------------------------------------------------------------------------------------

std::string pooled(const std::string& type, const std::string& window, const std::string& padding,
                   const std::string& more = "") {
  return function("%x: tensor<4xf32>", type,
                  R"(
    %i = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = "stablehlo.reduce_window"(%x, %i) <{window_dimensions = array<i64: )" +
                      window + ">, padding = dense<" + padding + "> : tensor<1x2xi64>" + more + R"(}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.subtract %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
    }) : (tensor<4xf32>, tensor<f32>) -> )" +
                      type + "\n return %0 : " + type);
}

TEST(Windows, AreGoneThroughWhereTheTensorIs) {
  const Watchdog watchdog("a window of 2^40");
  EXPECT_EQ(run(pooled("tensor<2xf32>", "1099511627776", "[[1099511627773, 0]]"), {{1, 2, 4, 8}}, 2),
            (Values{-7, -15}));
  const std::string spread = ", base_dilations = array<i64: 1099511627776>";
  EXPECT_EQ(run(pooled("tensor<1xf32>", "3298534883329", "[[0, 0]]", spread), {{1, 2, 4, 8}}, 1), (Values{-15}));
}

TEST(Windows, ReachNoFurtherThanTensors) {
  expect_error(error_of([] { module_of(pooled("tensor<4xf32>", "1", "[[9223372036854775807, 0]]")); }),
               MYDEV_INVALID_ARGUMENT, "the windows along dimension 0 reach further than any tensor");
}

}  // namespace
}  // namespace mydev::lowering
