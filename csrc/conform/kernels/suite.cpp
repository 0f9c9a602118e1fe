// The suites of kernels, with a case for each name that has a contract: one suite for the kernels that the driver
// offers, one for the host's, its own and those of the libraries in MYDEV_CUSTOM_CALLS. The first case of each reports
// which kernels there are.
#include <string>
#include <vector>

#include "conform/case.h"
#include "conform/kernels/kernel_case.h"
#include "conform/kernels/module_case.h"
#include "kernels/registry/kernel_library.h"
#include "kernels/registry/kernel_registry.h"
#include "kernels/registry/registered_kernel.h"
#include "kernels/spec/contract.h"
#include "runtime/driver/device.h"

namespace mydev::conform {
namespace {

using Contracts = std::vector<const KernelContract*>;

// A source of the kernels to try: `find` returns what runs a name, or nullptr; `without` is the text for a
// source that has none.
struct Source {
  Contracts (*contracts)();
  const Launchable* (*find)(const Device& device, const char* name);
  const char* without;
};

const Launchable* of_driver(const Device& device, const char* name) {
  const auto find = device.driver->find_kernel;
  NamedRecords records{.own = find != nullptr ? find(device.index, name) : nullptr};
  return records.own != nullptr ? find_launchable(device, name, records) : nullptr;
}

const Launchable* of_compiler(const Device& device, const char* name) {
  return find_launchable(device, name, {.portable = find_portable_kernel(device, name)});
}

const Launchable* of_host(const Device& device, const char* name) {
  return find_launchable(device, name, {.registered = find_kernel(name), .registered_owner = "built-in"});
}

Contracts contracts_of_builtins() {
  Contracts contracts;
  for (const KernelContract& contract : builtin_contracts()) contracts.push_back(&contract);
  return contracts;
}

Contracts contracts_of_host() {
  Contracts contracts = contracts_of_builtins();
  load_discovered_libraries(nullptr);
  for (const mydev_kernel* kernel : registered_kernels()) {
    if (is_builtin_name(kernel->name)) continue;
    if (const KernelContract* contract = contract_of(*kernel)) contracts.push_back(contract);
  }
  return contracts;
}

constexpr Source kOfDriver = {contracts_of_builtins, of_driver, "offers no kernel that has a contract"};
constexpr Source kOfCompiler = {contracts_of_builtins, of_compiler,
                                "has no compiler for the portable kernels, or the host computes on its memory"};
constexpr Source kOfHost = {contracts_of_host, of_host, "has devices whose memory the host's kernels do not reach"};

template <const Source& source>
void tell_offered(Checks& checks) {
  const Device& tested = device(0);
  std::vector<std::string> offered;
  for (const KernelContract* contract : source.contracts()) {
    if (source.find(tested, contract->name.c_str()) != nullptr) offered.push_back(contract->name);
  }
  if (offered.empty()) checks.skip(std::string("driver '") + tested.driver->name + "' " + source.without);
  checks.report("offered", std::move(offered));
}

template <const Source& source>
std::vector<Case> offered_cases() {
  return {{"offered", "what is found under a name is a record of that name", tell_offered<source>}};
}

template <const Source& source>
std::vector<Case> kernel_cases() {
  std::vector<Case> cases;
  for (const KernelContract* contract : source.contracts()) {
    const auto run = [contract](Checks& checks) {
      Device& tested = device(0);
      const Launchable* kernel = source.find(tested, contract->name.c_str());
      if (kernel == nullptr) checks.skip("there is none");
      check_kernel(*contract, *kernel, tested, checks);
    };
    cases.push_back({contract->name, describe_contract(*contract), run});
  }
  return cases;
}

std::vector<Case> module_cases() {
  std::vector<Case> cases;
  for (const KernelContract* contract : contracts_of_builtins()) {
    const auto run = [contract](Checks& checks) {
      Device& tested = device(0);
      const mydev_kernel* record = find_portable_kernel(tested, contract->name.c_str());
      if (record == nullptr) checks.skip("there is none");
      check_modules(*contract, *record, tested, checks);
    };
    cases.push_back({contract->name, describe_contract(*contract), run});
  }
  return cases;
}

}  // namespace

Suite kernel_suite() {
  return {.name = "kernels",
          .title = "what the contracts of the kernels say that the driver offers",
          .groups = {{"offered", offered_cases<kOfDriver>}, {"kernels", kernel_cases<kOfDriver>}}};
}

Suite portable_kernel_suite() {
  return {.name = "portable_kernels",
          .title = "what the contracts of the kernels say, of those that the device's compiler makes",
          .groups = {{"offered", offered_cases<kOfCompiler>}, {"kernels", kernel_cases<kOfCompiler>}}};
}

Suite portable_module_suite() {
  return {.name = "portable_modules",
          .title = "that the device's compiler takes what it is given for portable kernels; nothing runs",
          .groups = {{"offered", offered_cases<kOfCompiler>}, {"modules", module_cases}}};
}

Suite host_kernel_suite() {
  return {.name = "host_kernels",
          .title = "what the contracts of the host's kernels say, on a device that the host reaches",
          .groups = {{"offered", offered_cases<kOfHost>}, {"kernels", kernel_cases<kOfHost>}}};
}

}  // namespace mydev::conform
