// The checks of a program against its kernels.
#include <algorithm>
#include <string>
#include <vector>

#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/contract.h"
#include "kernels/spec/signature.h"
#include "program/ir/access.h"
#include "program/ir/launch_frame.h"
#include "program/ir/verify.h"
#include "runtime/base/device_name.h"
#include "runtime/base/status.h"
#include "runtime/driver/kernel_module.h"

namespace mydev::program {

namespace {

class KernelCheck {
 public:
  KernelCheck(const Program& program, const Device* device) : program_(program), device_(device) {}

  void run() {
    for (step_ = 0; step_ < program_.steps().size(); ++step_) {
      const Step& step = program_.steps()[step_];
      if (step.kind == StepKind::kLaunch) check_launch(step);
      if (step.program != nullptr) verify_kernels(*step.program, device_);
      if (step.otherwise != nullptr) verify_kernels(*step.otherwise, device_);
    }
  }

 private:
  template <typename... Parts>
  void require(bool holds, mydev_code code, const Parts&... what) const {
    if (holds) [[likely]]
      return;
    mydev::detail::raise_formatted(code, describe_step(program_, step_), ": ", what...);
  }

  void check_launch(const Step& step) const {
    if (step.compiled != nullptr) {
      const Device& compiled_for = step.compiled->kernel->device();
      return require(device_ == nullptr || device_ == &compiled_for, MYDEV_FAILED_PRECONDITION, step.name,
                     " was compiled for device ", device_name(), ":", compiled_for.index,
                     "; compile it for the device that the program runs on");
    }
    const KernelContract* contract = builtin_contract(step.name);
    if (device_ != nullptr) {
      require(resolve_step(*device_, step.name.c_str()) != nullptr, MYDEV_NOT_FOUND, "device ", device_name(), ":",
              device_->index, " has no kernel '", step.name, "'");
    }
    if (contract != nullptr) {
      const std::string why = contract_violation(*contract, LaunchFrame(step).frame());
      require(why.empty(), MYDEV_INVALID_ARGUMENT, why);
      return check_shared_memory(*contract, step);
    }
    const mydev_kernel* record = find_kernel(step.name);
    require(record != nullptr || device_ != nullptr, MYDEV_NOT_FOUND, "there is no kernel '", step.name,
            "'; load the library that has it");
    if (record != nullptr && compiled_signature(*record) != nullptr) check_signature(*record, step);
  }

  // Results may use the memory of operands if the contract allows it; otherwise memory is not shared.
  void check_shared_memory(const KernelContract& contract, const Step& step) const {
    const std::vector<ContractPosition> positions = contract_positions(contract, step);
    for (size_t r = 0; r < step.results.size(); ++r) {
      for (size_t other = r + 1; other < positions.size(); ++other) {
        const bool is_operand = other >= step.results.size();
        const Operand& view = is_operand ? step.operands[other - step.results.size()] : step.results[other];
        require(
            !surely_overlap(step.results[r], view) ||
                (is_operand && may_be(contract, positions[r], positions[other]) && same_place(step.results[r], view)),
            MYDEV_INVALID_ARGUMENT, "result '", contract.results[positions[r].operand].name, "' of ", step.name,
            " overlaps ", is_operand ? "operand" : "result", " '",
            (is_operand ? contract.operands : contract.results)[positions[other].operand].name, "'; the contract is ",
            describe_contract(contract));
      }
    }
  }

  void check_signature(const mydev_kernel& record, const Step& step) const {
    LaunchFrame made(step);
    std::vector<mydev_shape> shapes(step.results.size());
    try {
      const RaiserBypass bypass;
      check_operands(record, made.frame());
      infer_results(record, made.frame(), shapes);
    } catch (const Error& error) {
      require(false, error.code(), error.what());
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      const Operand& result = step.results[i];
      const std::span<const int64_t> sizes(shapes[i].sizes, static_cast<size_t>(shapes[i].rank));
      require(result.kind != Operand::kView || (result.dtype == static_cast<mydev_dtype>(shapes[i].dtype) &&
                                                std::ranges::equal(result.sizes, sizes)),
              MYDEV_INVALID_ARGUMENT, "result ", i, " has not the dtype and sizes that ", describe_signature(record),
              " gives it");
    }
  }

  const Program& program_;
  const Device* device_;
  StepIndex step_ = 0;
};

}  // namespace

void verify_kernels(const Program& program, const Device* device) {
  KernelCheck(program, device).run();
}

}  // namespace mydev::program
