#include "conform/kernels/module_case.h"

#include <set>
#include <string>
#include <utility>

#include "conform/kernels/contract_frame.h"
#include "kernels/registry/launchable.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::conform {

namespace {

constexpr size_t kMostRefusals = 8;  // of different refusals; the others are counted
constexpr std::string_view kRefused = "refused by the compiler";

class ModuleCase {
 public:
  ModuleCase(const mydev_kernel& record, const KernelCandidate& candidate, Device& device, Checks& checks)
      : record_(record), candidate_(candidate), device_(device), checks_(checks) {}

  void plan(ContractFrame& made) {
    mydev_frame frame = made.prepare_on_host();
    frame.device = device_.index;
    frame.host = &host_services();
    frame.kernel = &record_;
    if (!declared_refusal(candidate_, frame).empty()) return ++declined_, void();
    checks_.at(made.text());
    mydev_plan plan{.struct_size = sizeof(mydev_plan)};
    const mydev_code code = record_.plan(&frame, &plan);
    if (plan.release != nullptr) plan.release(plan.decision);
    if (code == MYDEV_OK) return ++planned_, void();
    const std::string why = take_kernel_message(frame).value_or("it gives no reason");
    if (code == MYDEV_UNIMPLEMENTED && why.find(kRefused) == std::string::npos) return ++declined_, void();
    if (refusals_.insert(why).second && refusals_.size() <= kMostRefusals) checks_.fail(made.text() + ": " + why);
  }

  void report() const {
    if (refusals_.size() > kMostRefusals) {
      checks_.fail("and " + std::to_string(refusals_.size() - kMostRefusals) + " other refusals");
    }
    checks_.report("planned", static_cast<double>(planned_));
    checks_.report("declined", static_cast<double>(declined_));
    if (planned_ == 0 && refusals_.empty()) checks_.skip("it declines all that its contract allows");
  }

 private:
  const mydev_kernel& record_;
  const KernelCandidate& candidate_;
  Device& device_;
  Checks& checks_;
  size_t planned_ = 0, declined_ = 0;
  std::set<std::string> refusals_;
};

}  // namespace

void check_modules(const KernelContract& contract, const mydev_kernel& record, Device& device, Checks& checks) {
  const Launchable* launchable = find_launchable(device, contract.name.c_str(), {.portable = &record});
  checks.require(launchable != nullptr && record.plan != nullptr, "the portable record has no plan");
  ModuleCase modules(record, launchable->candidates.front(), device, checks);
  for_each_frame(contract, checks, [&](ContractFrame& frame) { modules.plan(frame); });
  modules.report();
}

}  // namespace mydev::conform
