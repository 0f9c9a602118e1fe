#include "runtime/base/config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/base/installed_library.h"
#include "runtime/base/status.h"

extern char** environ;

namespace mydev {

namespace {

bool is_choice(std::string_view choices, std::string_view value) {
  while (true) {
    const size_t bar = choices.find('|');
    if (choices.substr(0, bar) == value) {
      return true;
    }
    if (bar == std::string_view::npos) {
      return false;
    }
    choices.remove_prefix(bar + 1);
  }
}

// --- forms of text ---------------------------------------------------------------------------------------------------

// Calls accepts for what lies between separators; entries may be empty.
template <typename Accepts>
bool all_entries(std::string_view text, char separator, const Accepts& accepts) {
  while (true) {
    const size_t end = text.find(separator);
    const std::string_view entry = text.substr(0, end);
    if (!entry.empty() && !accepts(entry)) {
      return false;
    }
    if (end == std::string_view::npos) {
      return true;
    }
    text.remove_prefix(end + 1);
  }
}

bool are_absolute_paths(std::string_view text) {
  return all_entries(text, ':', [](std::string_view path) { return path.front() == '/'; });
}

bool is_driver(std::string_view text) {
  if (constexpr std::string_view kValidate = "validate:"; text.starts_with(kValidate)) {
    text.remove_prefix(kValidate.size());
  }
  const std::string_view name = text.substr(0, text.find(':'));
  return std::ranges::find(kInstalledDrivers, name) != kInstalledDrivers.end() ||
         name.find('/') != std::string_view::npos || name.ends_with(".so");
}

constexpr const char* kFallbackModes = "allow|warn|error";

bool are_operator_modes(std::string_view text) {
  return all_entries(text, ',', [](std::string_view entry) {
    const size_t equals = entry.rfind('=');
    const std::string_view op = entry.substr(0, equals);
    const size_t colons = op.find("::");
    return equals != std::string_view::npos && colons != std::string_view::npos && colons != 0 &&
           colons + 2 < op.size() && is_choice(kFallbackModes, entry.substr(equals + 1));
  });
}

bool are_names(std::string_view text) {
  return all_entries(text, ',', [](std::string_view name) {
    return std::all_of(name.begin(), name.end(), [](char c) { return (c >= 'a' && c <= 'z') || c == '_'; });
  });
}

bool is_timeout(std::string_view text) {
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  return error == std::errc{} && end == text.data() + text.size() && seconds >= 0 && seconds <= 1e9;
}

// --- the table -------------------------------------------------------------------------------------------------------

constexpr std::array kVariables = {
    ConfigVariable{"MYDEV_CUSTOM_CALLS", "", nullptr,
                   "libraries of kernels, or directories of them, with ':' between: absolute paths", are_absolute_paths,
                   "absolute paths with ':' between"},
    ConfigVariable{"MYDEV_CUSTOM_CALL_TIMEOUT", "600", nullptr,
                   "seconds that a kernel which finishes later (a future) may take; 0: as long as it likes", is_timeout,
                   "seconds from 0 to 1e9, 0 for no limit"},
    ConfigVariable{
        "MYDEV_DRIVER", "host", nullptr,
        "driver to load: 'host', 'opencl', 'cuda', the name of an installed package's device or the path of a "
        "shared object, then ':option,option...'; after 'validate:' behind the validation layer",
        is_driver,
        "'host', 'opencl', 'cuda', the name of an installed package's device or the path of a driver's shared "
        "object, then ':option,option...', after 'validate:' to check it"},
    ConfigVariable{"MYDEV_FALLBACK", "allow", kFallbackModes,
                   "what happens when an operator has no kernel of its own and runs on the host"},
    ConfigVariable{"MYDEV_FALLBACK_OPS", "", nullptr,
                   "the same for single operators: 'aten::add.Tensor=error,aten::sort.stable=allow'",
                   are_operator_modes, "operator=mode with ',' between, where a mode is allow|warn|error"},
    ConfigVariable{"MYDEV_FUSED_OPTIMIZERS", "1", "0|1",
                   "whether steps of Adam, AdamW and SGD that were given neither fused nor foreach are fused"},
    ConfigVariable{"MYDEV_INTEGRATIONS", "all", nullptr,
                   "libraries that are told about the device: 'all', 'off', or names with ',' between", are_names,
                   "all|off, or names of integrations with ',' between"},
    ConfigVariable{"MYDEV_ISA", "auto", "auto|baseline|avx2|avx512",
                   "instruction set of the built-in kernels; auto: the best that the processor has"},
    ConfigVariable{
        "MYDEV_KERNEL_GENERATION", "programs", "programs|raise",
        "torch.compile: a graph for which no kernels can be generated becomes programs, or raises the error"},
    ConfigVariable{"MYDEV_LOG", "warning", "debug|info|warning|error",
                   "the least of the messages that go to stderr where nobody takes them, as in JAX"},
    ConfigVariable{"MYDEV_PROCESS_ADDRESS", "", nullptr,
                   "for JAX and PyTorch/XLA in processes on several machines: the address at which the others reach "
                   "this one"},
    ConfigVariable{"MYDEV_PROCESS_TIMEOUT", "600", nullptr,
                   "for JAX and PyTorch/XLA in several processes: seconds that one waits for another; 0: as long as it "
                   "takes",
                   is_timeout, "seconds from 0 to 1e9, 0 for no limit"},
    ConfigVariable{"MYDEV_TEST_DRIVERS", "build/release/drivers", nullptr,
                   "where the tests find the drivers built for them"},
    ConfigVariable{"MYDEV_TOP", "on", "on|off",
                   "whether the process shows 'mydev top' its use of memory: a page in the user's runtime folder"},
    ConfigVariable{"MYDEV_WINOGRAD", "1", "0|1",
                   "whether the host's convolutions of 3 x 3 windows multiply less than once for each tap"},
};

constexpr std::string_view kPrefix = "MYDEV_";

const ConfigVariable& find_variable(std::string_view name) {
  const auto* row = std::find_if(kVariables.begin(), kVariables.end(), [&](const auto& v) { return v.name == name; });
  MYDEV_CHECK(row != kVariables.end(), MYDEV_INTERNAL, "no row for ", name, " in config.cpp");
  return *row;
}

void check_value(const ConfigVariable& variable, const std::string& value) {
  MYDEV_CHECK(variable.choices == nullptr || is_choice(variable.choices, value), MYDEV_INVALID_ARGUMENT, variable.name,
              "='", value, "' is not valid; it takes ", variable.choices);
  MYDEV_CHECK(variable.accepts == nullptr || variable.accepts(value), MYDEV_INVALID_ARGUMENT, variable.name, "='",
              value, "' is not valid; it takes ", variable.form);
}

// The values of set_config. Never destroyed.
struct OwnValues {
  std::string find(std::string_view name) {
    const std::lock_guard lock(mutex);
    const auto found = values.find(name);
    return found == values.end() ? "" : found->second;
  }
  void set(std::string_view name, std::string value) {
    const std::lock_guard lock(mutex);
    values.insert_or_assign(std::string(name), std::move(value));
  }

  std::mutex mutex;
  std::map<std::string, std::string, std::less<>> values;
};

OwnValues& own_values() {
  static OwnValues& instance = *new OwnValues;
  return instance;
}

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) {
    row[j] = j;
  }
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0U : 1U)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::span<const ConfigVariable> config_variables() noexcept {
  return kVariables;
}

std::string config_string(std::string_view name) {
  const ConfigVariable& variable = find_variable(name);
  std::string value = own_values().find(variable.name);
  if (value.empty()) {
    const char* text = std::getenv(variable.name);  // NOLINT(concurrency-mt-unsafe): see config.h
    value = text != nullptr && *text != '\0' ? text : variable.default_value;
  }
  check_value(variable, value);
  return value;
}

void set_config(std::string_view name, std::string value) {
  const ConfigVariable& variable = find_variable(name);
  check_value(variable, value);
  own_values().set(variable.name, std::move(value));
}

void check_config() {
  for (const ConfigVariable& variable : kVariables) {
    static_cast<void>(config_string(variable.name));
  }
}

std::vector<std::string> config_warnings() {
  std::vector<std::string> warnings;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text(*entry);
    const std::string_view name = text.substr(0, text.find('='));
    const auto is_name = [&](const ConfigVariable& variable) { return variable.name == name; };
    if (!name.starts_with(kPrefix) || std::any_of(kVariables.begin(), kVariables.end(), is_name)) {
      continue;
    }
    const auto* nearest =
        std::min_element(kVariables.begin(), kVariables.end(), [&](const ConfigVariable& a, const ConfigVariable& b) {
          return edit_distance(a.name, name) < edit_distance(b.name, name);
        });
    warnings.push_back("unknown environment variable " + std::string(name) + "; did you mean " + nearest->name + "?");
  }
  return warnings;
}

}  // namespace mydev
