#include "lowering/donation.h"

#include <algorithm>
#include <string>

#include "runtime/base/status.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

namespace {

constexpr std::string_view kAliases = "mhlo.input_output_alias";

class Reader {
 public:
  explicit Reader(const Module& module) : module_(module), main_(module.main()) {
    donations_.donated.resize(main_.arguments.size());
    donations_.argument_of.resize(main_.results.size());
  }

  Donations run() {
    for (size_t i = 0; i < main_.arguments.size(); ++i) {
      const Dictionary& attributes = main_.arguments[i].attributes;
      if (find(attributes, "jax.buffer_donor") != nullptr) donations_.donated[i] = true;
      const Attribute* result = find(attributes, "tf.aliasing_output");
      if (result == nullptr) continue;
      const auto* number = result->get_if<Integer>();
      require(number != nullptr, "tf.aliasing_output");
      add(i, number->value);
    }
    if (const Attribute* aliases = find(module_.attributes(), kAliases)) read(*aliases);
    return std::move(donations_);
  }

 private:
  void require(bool holds, std::string_view attribute) const {
    MYDEV_CHECK(holds, MYDEV_INVALID_ARGUMENT, "module '", module_.name(), "': attribute ", attribute,
                " is not of the form that names an argument and a result");
  }

  // [{alias = {kind, parameter_index = [], parameter_number}, output_index = [result]}, ...]; an only result has no
  // index.
  void read(const Attribute& aliases) {
    const auto* entries = aliases.get_if<ArrayAttribute>();
    require(entries != nullptr, kAliases);
    for (const Attribute* entry : *entries) {
      const Dictionary& fields = dictionary(entry);
      const Dictionary& alias = dictionary(find(fields, "alias"));
      const Attribute* number = find(alias, "parameter_number");
      require(number != nullptr && number->get_if<Integer>() != nullptr, kAliases);
      const std::vector<int64_t> output = integers(find(fields, "output_index"));
      require(integers(find(alias, "parameter_index")).empty() && output.size() <= 1, kAliases);
      const int64_t argument = number->get_if<Integer>()->value;
      MYDEV_CHECK(argument >= 0 && static_cast<size_t>(argument) < main_.arguments.size(), MYDEV_INVALID_ARGUMENT,
                  "module '", module_.name(), "': ", kAliases, " names argument ", argument, ", and there are ",
                  main_.arguments.size());
      add(static_cast<size_t>(argument), output.empty() ? 0 : output[0]);
    }
  }

  const Dictionary& dictionary(const Attribute* attribute) const {
    const auto* fields = attribute != nullptr ? attribute->get_if<Dictionary>() : nullptr;
    require(fields != nullptr, kAliases);
    return *fields;
  }

  std::vector<int64_t> integers(const Attribute* attribute) const {
    if (attribute != nullptr) {
      if (std::optional<std::vector<int64_t>> values = integers_in(*attribute)) return *std::move(values);
    }
    require(false, kAliases);
    return {};
  }

  void add(size_t argument, int64_t result) {
    MYDEV_CHECK(result >= 0 && static_cast<size_t>(result) < main_.results.size(), MYDEV_INVALID_ARGUMENT, "module '",
                module_.name(), "': argument ", argument, " is to be the memory of result ", result, ", and there are ",
                main_.results.size());
    std::optional<size_t>& place = donations_.argument_of[static_cast<size_t>(result)];
    MYDEV_CHECK(!place && std::ranges::count(donations_.argument_of, std::optional(argument)) == 0,
                MYDEV_INVALID_ARGUMENT, "module '", module_.name(), "': argument ", argument,
                " is to be the memory of result ", result, ", and one of them is donated or given memory already");
    place = argument;
    donations_.donated[argument] = true;
  }

  const Module& module_;
  const Function& main_;
  Donations donations_;
};

bool is_same_form(const program::Operand& parameter, const program::Operand& result) {
  return parameter.dtype == result.dtype && parameter.sizes == result.sizes && program::has_elements(result);
}

}  // namespace

Donations donations_of(const Module& module) {
  return Reader(module).run();
}

void finalize(Donations& donations, const MemoryKinds& kinds, std::span<const program::Operand> parameters,
              std::span<const program::Operand> results) {
  std::vector<std::optional<size_t>>& places = donations.argument_of;
  const auto fits = [&](size_t argument, size_t result) {
    return is_same_form(parameters[argument], results[result]) && !is_on_host(kinds.arguments[argument]) &&
           !is_on_host(kinds.results[result]);
  };
  for (size_t r = 0; r < results.size(); ++r) {
    std::optional<size_t>& place = places[r];
    if (place && !fits(*place, r)) place.reset();
  }
  for (size_t argument = 0; argument < parameters.size(); ++argument) {
    if (!donations.donated[argument] || std::ranges::count(places, std::optional(argument)) != 0) continue;
    for (size_t r = 0; r < results.size(); ++r) {
      if (places[r] || !fits(argument, r)) continue;
      places[r] = argument;
      break;
    }
  }
}

void return_results(Emitter& emit, std::span<const program::Operand> parameters, const Donations& donations,
                    std::vector<program::Operand> results) {
  program::ProgramBuilder& builder = emit.builder();
  const auto parameter_of = [&](size_t result) -> const program::Operand* {
    const std::optional<size_t>& argument = donations.argument_of[result];
    return argument ? &parameters[*argument] : nullptr;
  };
  // All that is read of parameters is read before one of them is written.
  std::vector<program::SlotIndex> taken;
  for (size_t r = 0; r < results.size(); ++r) {
    program::Operand& view = results[r];
    const program::Slot& slot = builder.slots()[view.slot];
    const bool whole = view.offset == 0 && is_row_major(view) && slot.dtype == view.dtype && slot.sizes == view.sizes;
    const bool is_there = whole && parameter_of(r) != nullptr && parameter_of(r)->slot == view.slot;
    const bool is_own =
        whole && slot.kind == program::SlotKind::kTemporary && std::ranges::count(taken, view.slot) == 0;
    if (!is_there && !is_own) view = emit.duplicate(view);
    taken.push_back(view.slot);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    const program::Operand* parameter = parameter_of(r);
    if (parameter != nullptr && parameter->slot != results[r].slot) emit.copy(*parameter, results[r]);
  }
  for (size_t r = 0; r < results.size(); ++r) {
    builder.returns(parameter_of(r) != nullptr ? parameter_of(r)->slot : results[r].slot);
  }
}

}  // namespace mydev::lowering
