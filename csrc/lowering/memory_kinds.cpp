#include "lowering/memory_kinds.h"

#include "runtime/base/status.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

std::string text_of(const Dictionary& attributes, std::string_view name) {
  const Attribute* attribute = find(attributes, name);
  if (attribute == nullptr) return "";
  const auto* text = attribute->get_if<std::string>();
  MYDEV_CHECK(text != nullptr, MYDEV_INVALID_ARGUMENT, "attribute '", name, "' is no text that names a memory");
  return *text;
}

std::string placement_of(const Value& value) {
  const Operation* op = value.definition;
  if (op == nullptr || op->op != Operator::kCustomCall || op->string("call_target_name") != kPlacement) return "";
  const Attribute* said = op->find("mhlo.frontend_attributes");
  const auto* attributes = said == nullptr ? nullptr : said->get_if<Dictionary>();
  return attributes == nullptr ? "" : text_of(*attributes, "_xla_buffer_placement");
}

}  // namespace

bool is_on_host(std::string_view kind) noexcept {
  return !kind.empty() && kind != "device";
}

MemoryKinds memory_kinds_of(const Module& module) {
  const Function& main = module.main();
  MemoryKinds kinds;
  for (const FunctionArgument& argument : main.arguments) {
    kinds.arguments.push_back(text_of(argument.attributes, "mhlo.memory_kind"));
  }
  const Operation& terminator = main.body->body().terminator();
  for (size_t i = 0; i < main.results.size(); ++i) {
    std::string kind = text_of(main.results[i].attributes, "mhlo.memory_kind");
    kinds.results.push_back(kind.empty() ? placement_of(terminator.operand(i)) : std::move(kind));
  }
  return kinds;
}

}  // namespace mydev::lowering
