// The suites of kernels, a case for each name that has a contract: of those that the driver offers, and of the host's
// own. The first case of each tells which there are.
#include <string>
#include <vector>

#include "conform/case.h"
#include "conform/kernels/kernel_case.h"
#include "kernels/registry/kernel_choice.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/spec/contract.h"
#include "runtime/driver/device.h"

namespace mydev::conform {
namespace {

// What runs a name, or nullptr.
using Finder = const mydev_kernel* (*)(const Device& device, const char* name);

const mydev_kernel* of_driver(const Device& device, const char* name) {
  const auto find = device.driver->find_kernel;
  const mydev_kernel* own = find != nullptr ? find(device.index, name) : nullptr;
  return own != nullptr ? choose_record(device, name, own, nullptr, "") : nullptr;
}

const mydev_kernel* of_host(const Device& device, const char* name) {
  return choose_record(device, name, nullptr, find_kernel(name), "built-in");
}

template <Finder find>
void tell_offered(Checks& checks) {
  const Device& tested = device(0);
  std::vector<std::string> offered;
  for (const KernelContract& contract : builtin_contracts()) {
    if (find(tested, contract.name.c_str()) != nullptr) offered.push_back(contract.name);
  }
  const std::string driver = std::string("driver '") + tested.driver->name + "'";
  if (offered.empty()) checks.skip(driver + " offers no kernel that has a contract");
  checks.tell("offered", std::move(offered));
}

template <Finder find>
std::vector<Case> offered_cases() {
  return {{"offered", "what is found under a name is a record of that name", tell_offered<find>}};
}

template <Finder find>
std::vector<Case> kernel_cases() {
  std::vector<Case> cases;
  for (const KernelContract& contract : builtin_contracts()) {
    const auto run = [&contract](Checks& checks) {
      Device& tested = device(0);
      const mydev_kernel* record = find(tested, contract.name.c_str());
      if (record == nullptr) checks.skip("there is none");
      check_kernel(contract, *record, tested, checks);
    };
    cases.push_back({contract.name, describe_contract(contract), run});
  }
  return cases;
}

[[maybe_unused]] const bool registered =
    register_suite({.name = "kernels",
                    .title = "what the contracts of the kernels say that the driver offers",
                    .groups = {{"offered", offered_cases<of_driver>}, {"kernels", kernel_cases<of_driver>}}}) &&
    register_suite({.name = "host_kernels",
                    .title = "what the contracts of the host's kernels say, on a device that the host reaches",
                    .groups = {{"offered", offered_cases<of_host>}, {"kernels", kernel_cases<of_host>}}});

}  // namespace
}  // namespace mydev::conform
