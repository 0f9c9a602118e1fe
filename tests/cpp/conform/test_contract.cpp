// The contracts of the built-in kernels, in each instruction set. A contract allows the frames that are made of it
// alone, and its kernel refuses dtypes that it does not name. The suite host_kernels of csrc/conform tests that kernels
// do what their contracts say. test_contract_language.cpp tests the parts of contracts.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "conform/kernels/contract_frame.h"
#include "conform/kernels/planned_launch.h"
#include "conform/kernels/settings.h"
#include "conform/kernels/variation.h"
#include "host_kernels/builtin_kernels.h"
#include "kernels/spec/contract.h"
#include "runtime/base/instruction_set.h"
#include "runtime/frame/dtype.h"

namespace mydev::conform {
namespace {

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

std::string name_of(const std::string& kernel) {
  return kernel.substr(std::string_view("mydev.").size());
}

class BuiltinContract : public testing::TestWithParam<Subject> {
 protected:
  const KernelContract& contract() const { return *GetParam().contract; }

  void expect_refusal(ContractFrame frame) {
    SCOPED_TRACE(frame.text());
    mydev_frame call = frame.prepare_on_host();
    EXPECT_NE(contract_violation(contract(), call), "");
    EXPECT_NE(run_record(kernels::builtin_kernel(contract().name, GetParam().isa), call), MYDEV_OK);
  }
  ContractFrame plain_frame(std::vector<mydev_dtype> dtypes, int wrong_operand = -1,
                            mydev_dtype wrong = MYDEV_DTYPE_INVALID) {
    return {contract(),
            std::move(dtypes),
            variations_of(contract()).front(),
            settings_of(contract(), {}).front(),
            wrong_operand,
            wrong};
  }
  // Each dtype that buffer `position` must not have.
  void expect_refusals(int position, uint64_t accepted) {
    for (const DtypeRow& row : kDtypes) {
      if ((accepted & MYDEV_DTYPE_BIT(row.dtype)) != 0) continue;
      SCOPED_TRACE("buffer " + std::to_string(position) + " of " + row.name);
      expect_refusal(plain_frame(dtype_choices(contract()).front(), position, row.dtype));
    }
  }
};

TEST_P(BuiltinContract, NamesAllDtypesOfVariables) {
  for (size_t i = 0; i < contract().variables.size(); ++i) {
    for (const DtypeRow& row : kDtypes) {
      if ((contract().variables[i].dtypes & MYDEV_DTYPE_BIT(row.dtype)) != 0) continue;
      std::vector<mydev_dtype> dtypes = dtype_choices(contract()).front();
      dtypes[i] = row.dtype;
      // Kernels that move elements move these as bytes.
      if (row.kind == DtypeKind::kBits) {
        ContractFrame frame = plain_frame(dtypes);
        EXPECT_NE(contract_violation(contract(), frame.prepare_on_host()), "") << row.name;
      } else {
        expect_refusal(plain_frame(dtypes));
      }
    }
  }
}

TEST_P(BuiltinContract, NamesAllDtypesOfOperandsWithoutVariable) {
  int position = 0;
  for (const auto* operands : {&contract().results, &contract().operands}) {
    for (const ContractOperand& operand : *operands) {
      if (operand.variable < 0) expect_refusals(position, operand.dtypes);
      ++position;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, BuiltinContract, testing::ValuesIn(all_subjects()), [](const auto& info) {
  return name_of(info.param.contract->name) + "_" + instruction_set_name(info.param.isa);
});

class FramesOfContract : public testing::TestWithParam<const KernelContract*> {};

TEST_P(FramesOfContract, AreAllowed) {
  const KernelContract& contract = *GetParam();
  for (const auto& dtypes : dtype_choices(contract)) {
    for (const Variation& variation : variations_of(contract)) {
      for (const Settings& settings : settings_of(contract, variation)) {
        ContractFrame frame(contract, dtypes, variation, settings);
        SCOPED_TRACE(frame.text());
        ASSERT_EQ(contract_violation(contract, frame.prepare_on_host()), "");
      }
    }
  }
}

std::vector<const KernelContract*> all_contracts() {
  std::vector<const KernelContract*> contracts;
  for (const KernelContract& contract : builtin_contracts()) contracts.push_back(&contract);
  return contracts;
}
INSTANTIATE_TEST_SUITE_P(Kernels, FramesOfContract, testing::ValuesIn(all_contracts()),
                         [](const auto& info) { return name_of(info.param->name); });

TEST(BuiltinContracts, AreThoseOfTheKernels) {
  std::set<std::string> contracts, records;
  for (const KernelContract& contract : builtin_contracts()) contracts.insert(contract.name);
  for (const mydev_kernel* kernel : kernels::builtin_kernels(instruction_set())) records.insert(kernel->name);
  contracts.insert({"mydev.fused", "mydev.small_steps"});  // whose operands their bodies say: program/transform
  EXPECT_EQ(contracts, records);
}

}  // namespace
}  // namespace mydev::conform
