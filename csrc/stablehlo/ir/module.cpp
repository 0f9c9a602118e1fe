#include "stablehlo/ir/module.h"

#include "runtime/base/status.h"

namespace mydev::stablehlo {

Module::Module() : contents_(std::make_unique<Contents>()) {}
Module::~Module() = default;
Module::Module(Module&&) noexcept = default;
Module& Module::operator=(Module&&) noexcept = default;

const std::string& Module::name() const noexcept {
  return contents_->name;
}

const Dictionary& Module::attributes() const noexcept {
  return contents_->attributes;
}

const std::vector<const Function*>& Module::functions() const noexcept {
  return contents_->function_order;
}

const Mesh* Module::find_mesh(std::string_view name) const noexcept {
  const auto found = contents_->meshes.find(name);
  return found != contents_->meshes.end() ? &found->second : nullptr;
}

const std::map<std::string, Mesh, std::less<>>& Module::meshes() const noexcept {
  return contents_->meshes;
}

const Function* Module::find_function(std::string_view name) const noexcept {
  const auto found = contents_->functions_by_name.find(name);
  return found != contents_->functions_by_name.end() ? found->second : nullptr;
}

const Function& Module::main() const {
  const Function* main = find_function("main");
  MYDEV_CHECK(main != nullptr, MYDEV_INVALID_ARGUMENT, "module '", name(),
              "' has no function 'main', which is the one that is run");
  return *main;
}

const Function& Module::callee(const Operation& op, std::string_view attribute) const {
  const std::string& name = op.string(attribute);
  const Function* function = find_function(name);
  if (function == nullptr) op.fail(MYDEV_INVALID_ARGUMENT, "the module has no function '", name, "'");
  return *function;
}

std::string Module::location_text(uint32_t location) const {
  return contents_->locations != nullptr ? contents_->locations->text(location) : std::string();
}

const std::string& Module::version() const noexcept {
  return contents_->version;
}

}  // namespace mydev::stablehlo
