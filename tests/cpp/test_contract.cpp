// The contracts of the built-in kernels: each kernel, in each instruction set, does what its contract says with frames
// that are made of the contract alone, and refuses dtypes that it does not name. What contracts are made of:
// test_contract_language.cpp.
#include <map>
#include <set>

#include "contract_fixture.h"

namespace mydev::kernels {
namespace {

bool uses(const KernelContract& contract, std::initializer_list<std::string_view> functions) {
  for (const Expression::Node& node : contract.expression.nodes()) {
    if (node.function != nullptr &&
        std::find(functions.begin(), functions.end(), node.function->name) != functions.end())
      return true;
  }
  return false;
}
// Positions are along one dimension.
bool reduces_one_dimension(const KernelContract& contract) {
  return uses(contract, {"argmax", "argmin"});
}

// --- what there is to try --------------------------------------------------------------------------------------------

std::vector<mydev_dtype> dtypes_in(uint64_t set) {
  std::vector<mydev_dtype> found;
  for (const DtypeRow& row : kDtypes) {
    if ((set & MYDEV_DTYPE_BIT(row.dtype)) != 0) found.push_back(row.dtype);
  }
  return found;
}

// Each choice of dtypes for the variables.
std::vector<std::vector<mydev_dtype>> dtype_choices(const KernelContract& contract) {
  std::vector<std::vector<mydev_dtype>> choices = {{}};
  for (const ContractVariable& variable : contract.variables) {
    std::vector<std::vector<mydev_dtype>> longer;
    for (const auto& choice : choices) {
      for (const mydev_dtype dtype : dtypes_in(variable.dtypes)) {
        const bool like = variable.like >= 0 && choice[static_cast<size_t>(variable.like)] == dtype;
        if (!like && (variable.own & MYDEV_DTYPE_BIT(dtype)) == 0) continue;
        longer.push_back(choice);
        longer.back().push_back(dtype);
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

std::vector<Variation> variations_of(const KernelContract& contract) {
  const int one = reduces_one_dimension(contract) ? 1 : -1;
  std::vector<Variation> variations = {{.name = "plain"},
                                       {.name = "reversed", .reversed = true},
                                       {.name = "gaps", .gaps = true},
                                       {.name = "broadcast", .broadcast = true},
                                       {.name = "absent", .absent = true},
                                       {.name = "defaults", .defaults = true}};
  const auto has_choice = [](const ContractOperand& operand) { return operand.shapes.size() > 1; };
  if (std::any_of(contract.results.begin(), contract.results.end(), has_choice) ||
      std::any_of(contract.operands.begin(), contract.operands.end(), has_choice)) {
    variations.push_back({.name = "other shapes", .other_shapes = true});
  }
  if (contract.may_be_empty) variations.push_back({.name = "empty", .empty = true});
  if (!contract.expression.empty()) variations.push_back({.name = "flags", .flags = true});
  for (Variation& variation : variations) variation.reduced = one;
  if (contract.is_reduction()) {
    variations.push_back({.name = "first dimension", .reduced = 0});
    variations.push_back({.name = "last dimension", .reduced = 1});
    variations.push_back({.name = "reversed, last dimension", .reversed = true, .reduced = 1});
    variations.push_back({.name = "no dimension", .reduced = 2});
  }
  for (size_t i = 0; i < contract.operands.size(); ++i) {
    if (!contract.operands[i].may_be_number) continue;
    variations.push_back({.name = contract.operands[i].name + " is a number", .number = static_cast<int>(i)});
  }
  return variations;
}

// --- comparing -------------------------------------------------------------------------------------------------------

double tolerance(mydev_dtype dtype) {
  switch (dtype) {
    case MYDEV_BF16:
      return 1.0 / 64;
    case MYDEV_F16:
      return 1.0 / 256;
    case MYDEV_F32:
    case MYDEV_C64:
      return 2e-5;
    default:
      return 1e-12;
  }
}

bool is_near(double actual, double expected, double relative) {
  if (std::isnan(expected) || std::isnan(actual)) return std::isnan(expected) && std::isnan(actual);
  if (std::isinf(actual) || std::isinf(expected)) return actual == expected;
  return std::fabs(actual - expected) <= relative * std::max(1.0, std::fabs(expected));
}

Value value_of(int64_t integer) {
  return {integer, static_cast<double>(integer)};
}
Value value_of(double number) {
  return {number == number ? static_cast<int64_t>(number) : 0, number};
}
Value value_of(std::complex<double> number) {
  return {number != 0.0 ? 1 : 0, number};
}

template <typename Domain>
void expect_equal(mydev_dtype dtype, const Value& actual, Domain expected) {
  Value value = value_of(expected);
  if (dtype == MYDEV_PRED) value.integer = expected != Domain{} ? 1 : 0;
  alignas(16) unsigned char stored[16] = {};
  store(dtype, stored, value);
  if (scalar_kind(dtype) == ScalarKind::kInteger) {
    EXPECT_EQ(actual.integer, load(dtype, stored).integer);
    return;
  }
  const std::complex<double> rounded = load(dtype, stored).number;
  EXPECT_PRED3(is_near, actual.number.real(), rounded.real(), tolerance(dtype));
  EXPECT_PRED3(is_near, actual.number.imag(), rounded.imag(), tolerance(dtype));
}

// The results of one frame against the expression.
template <typename Domain>
class Comparison {
 public:
  Comparison(const KernelContract& contract, ContractFrame& frame) : contract_(contract), frame_(frame) {}

  void run() {
    const Expression& expression = contract_.expression;
    for (size_t r = 0; r < expression.results().size(); ++r) {
      const std::string& name = expression.results()[r].name;
      const auto same = [&](const ContractOperand& o) { return name.empty() || o.name == name; };
      const ContractOperand& result = *std::find_if(contract_.results.begin(), contract_.results.end(), same);
      for (size_t k = 0; k < (result.is_list ? ContractFrame::kLength : 1); ++k) {
        Tensor* out = frame_.find(result.name, k);
        if (out == nullptr || out->absent) continue;
        SCOPED_TRACE("result " + result.name + "[" + std::to_string(k) + "]");
        if (out->is_reduced) {
          compare_reduced(r, *out, k);
        } else {
          compare_whole(r, *out, k);
        }
      }
    }
  }

 private:
  // The operand of that name beside result k of a list; nullptr for an attribute, or if there is none.
  Tensor* operand(const std::string& name, size_t k) {
    for (const ContractOperand& o : contract_.operands) {
      if (o.name == name) return frame_.find(name, o.is_list ? k : 0);
    }
    return nullptr;
  }
  static bool is_uniform(const Tensor& tensor) { return tensor.is_number || tensor.sizes.empty(); }

  Series<Domain> evaluate(size_t result, const std::vector<size_t>& positions, size_t k) {
    std::vector<Series<Domain>> inputs;
    for (const std::string& name : contract_.expression.names()) inputs.push_back(series(name, positions, k));
    const auto dtype = contract_.variables.empty() ? MYDEV_F32 : type_;
    return contract_.expression.evaluate<Domain>(result, inputs, positions.size(), dtype);
  }
  Series<Domain> series(const std::string& name, const std::vector<size_t>& positions, size_t k) {
    if (const mydev_attribute* attribute = frame_.find_attribute(name)) {
      return {{attribute_value<Domain>(*attribute, k)}, true};
    }
    for (const ContractAttribute& attribute : contract_.attributes) {
      if (attribute.name == name) return {{static_cast<Domain>(attribute.otherwise.value_or(0))}, true};
    }
    Tensor* tensor = operand(name, k);
    if (tensor == nullptr || tensor->absent) return {{Domain{1}}, true};
    if (is_uniform(*tensor)) return {{domain_value(tensor->get(0), Domain{}, tensor->dtype)}, true};
    Series<Domain> values;
    values.uniform = false;
    for (const size_t position : positions) {
      values.values.push_back(domain_value(tensor->get(position), Domain{}, tensor->dtype));
    }
    return values;
  }

  void compare_whole(size_t result, Tensor& out, size_t k) {
    size_t count = out.count();
    for (const ContractOperand& o : contract_.operands) {
      const Tensor* tensor = operand(o.name, k);
      if (out.sizes.empty() && tensor != nullptr && !tensor->absent && !is_uniform(*tensor)) count = tensor->count();
    }
    std::vector<size_t> positions(count);
    for (size_t i = 0; i < count; ++i) positions[i] = i;
    const Series<Domain> expected = evaluate(result, positions, k);
    for (size_t i = 0; i < out.count(); ++i) {
      SCOPED_TRACE("element " + std::to_string(i));
      expect_equal(out.dtype, out.get(i), expected.values[expected.uniform ? 0 : i]);
    }
  }

  // Elements go together whose result lies in the same place.
  void compare_reduced(size_t result, Tensor& out, size_t k) {
    Tensor kept = out;
    for (size_t d = 0; d < kept.sizes.size(); ++d) kept.sizes[d] = kept.strides[d] == 0 ? 1 : kept.sizes[d];
    std::map<const unsigned char*, std::vector<size_t>> groups;
    for (size_t i = 0; i < out.count(); ++i) groups[out.at(i)].push_back(i);
    for (size_t i = 0; i < kept.count(); ++i) {
      SCOPED_TRACE("output " + std::to_string(i));
      const std::vector<size_t>& positions = groups[out.memory.data() + (kept.at(i) - kept.memory.data())];
      const bool undefined =
          positions.empty() && uses(contract_, {"amax", "amin"}) && scalar_kind(out.dtype) == ScalarKind::kInteger;
      if (undefined) continue;
      const Series<Domain> expected = evaluate(result, positions, k);
      ASSERT_TRUE(expected.uniform);
      expect_equal(out.dtype, load(out.dtype, kept.at(i)), expected.values[0]);
    }
  }

  const KernelContract& contract_;
  ContractFrame& frame_;

 public:
  mydev_dtype type_ = MYDEV_DTYPE_INVALID;  // of the first variable
};

template <typename Domain>
void compare_in(const KernelContract& contract, ContractFrame& frame, mydev_dtype type) {
  Comparison<Domain> comparison(contract, frame);
  comparison.type_ = type;
  comparison.run();
}

void compare(const KernelContract& contract, ContractFrame& frame, const std::vector<mydev_dtype>& dtypes) {
  const mydev_dtype type = dtypes.empty() ? MYDEV_F32 : dtypes[0];
  const DtypeRow& row = dtype_row(type);
  const bool loads = row.kind != DtypeKind::kNarrowFloat && (row.kind != DtypeKind::kUnsigned || row.size == 1);
  if (!loads) return;  // nothing is computed in these types
  if (scalar_kind(type) == ScalarKind::kComplex) return compare_in<std::complex<double>>(contract, frame, type);
  if (scalar_kind(type) == ScalarKind::kFloat || uses(contract, {"any", "all"})) {
    return compare_in<double>(contract, frame, type);
  }
  compare_in<int64_t>(contract, frame, type);
}

// --- the tests -------------------------------------------------------------------------------------------------------

std::string text_of(const std::vector<mydev_dtype>& dtypes) {
  std::string text;
  for (const mydev_dtype dtype : dtypes) text += std::string(dtype_name(dtype)) + " ";
  return text;
}

struct Subject {
  const KernelContract* contract;
  InstructionSet isa;
};

std::vector<Subject> all_subjects() {
  std::vector<Subject> subjects;
  for (const InstructionSet isa : supported_instruction_sets()) {
    for (const KernelContract& contract : builtin_contracts()) subjects.push_back({&contract, isa});
  }
  return subjects;
}

class BuiltinContract : public testing::TestWithParam<Subject> {
 protected:
  const KernelContract& contract() const { return *GetParam().contract; }
  const mydev_kernel& kernel() const { return builtin_kernel(contract().name, GetParam().isa); }

  // Each dtype that buffer `position` must not have.
  void expect_refusals(int position, uint64_t accepted, const std::vector<mydev_dtype>& others) {
    for (const DtypeRow& row : kDtypes) {
      if ((accepted & MYDEV_DTYPE_BIT(row.dtype)) != 0) continue;
      SCOPED_TRACE("buffer " + std::to_string(position) + " of " + row.name);
      ContractFrame frame(contract(), others, {.reduced = reduces_one_dimension(contract()) ? 1 : -1}, position,
                          row.dtype);
      EXPECT_NE(frame.run(kernel()), MYDEV_OK);
      EXPECT_NE(frame.violation(), "");
    }
  }
};

TEST_P(BuiltinContract, HoldsForTheDtypesThatItNames) {
  for (const auto& dtypes : dtype_choices(contract())) {
    for (const Variation& variation : variations_of(contract())) {
      SCOPED_TRACE(text_of(dtypes) + variation.name);
      ContractFrame frame(contract(), dtypes, variation);
      ASSERT_EQ(frame.run(kernel()), MYDEV_OK);
      ASSERT_EQ(frame.violation(), "");
      if (!contract().expression.empty()) compare(contract(), frame, dtypes);
      if (HasFailure()) return;
    }
  }
}

TEST_P(BuiltinContract, NamesAllDtypesOfVariables) {
  const std::vector<mydev_dtype> usual = dtype_choices(contract()).front();
  for (size_t i = 0; i < contract().variables.size(); ++i) {
    for (const DtypeRow& row : kDtypes) {
      if ((contract().variables[i].dtypes & MYDEV_DTYPE_BIT(row.dtype)) != 0) continue;
      std::vector<mydev_dtype> dtypes = usual;
      dtypes[i] = row.dtype;
      SCOPED_TRACE(text_of(dtypes));
      ContractFrame frame(contract(), dtypes, {.reduced = reduces_one_dimension(contract()) ? 1 : -1});
      EXPECT_NE(frame.run(kernel()), MYDEV_OK);
      EXPECT_NE(frame.violation(), "");
    }
  }
}

TEST_P(BuiltinContract, NamesAllDtypesOfOperandsWithoutVariable) {
  const std::vector<mydev_dtype> usual = dtype_choices(contract()).front();
  int position = 0;
  for (const auto* operands : {&contract().results, &contract().operands}) {
    for (const ContractOperand& operand : *operands) {
      if (operand.variable < 0) expect_refusals(position, operand.dtypes, usual);
      ++position;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, BuiltinContract, testing::ValuesIn(all_subjects()), [](const auto& info) {
  std::string name = info.param.contract->name.substr(std::string_view("mydev.").size());
  return name + "_" + instruction_set_name(info.param.isa);
});

TEST(BuiltinContracts, AreThoseOfTheKernels) {
  std::set<std::string> contracts, kernels;
  for (const KernelContract& contract : builtin_contracts()) contracts.insert(contract.name);
  for (const mydev_kernel* kernel : builtin_kernels(instruction_set())) kernels.insert(kernel->name);
  EXPECT_EQ(contracts, kernels);
}

}  // namespace
}  // namespace mydev::kernels
