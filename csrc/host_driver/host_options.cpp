#include "host_driver/host_options.h"

#include <algorithm>
#include <charconv>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

constexpr const char* kValidOptions =
    "devices=N, memory=SIZE, async, guarded, remote, kernels=all|compiled|none, faults[=SEED][:KIND@N]";
constexpr const char* kWantedSize = "a size such as 512M: bytes, or a number with suffix K, M or G";

struct Option {
  std::string_view text;  // "devices=2"
  std::string_view name, value;
  bool has_value;
};

Option split_option(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos) {
    return {text, text, {}, false};
  }
  return {text, text.substr(0, equals), text.substr(equals + 1), true};
}

uint64_t parse_number(const Option& option, std::string_view digits, const char* wanted) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  require(error == std::errc() && end == digits.data() + digits.size(), MYDEV_INVALID_ARGUMENT, "option '", option.text,
          "' of the host driver: '", option.value, "' is not ", wanted);
  return value;
}

int32_t parse_devices(const Option& option) {
  const uint64_t devices = parse_number(option, option.value, "a number of devices");
  require(devices <= kMaxHostDevices, MYDEV_INVALID_ARGUMENT, "option '", option.text,
          "' of the host driver: it offers from 0 to ", kMaxHostDevices, " devices");
  return static_cast<int32_t>(devices);
}

uint64_t parse_size(const Option& option) {
  constexpr std::string_view kSuffixes = "KMG";
  std::string_view digits = option.value;
  const size_t suffix = digits.empty() ? std::string_view::npos : kSuffixes.find(digits.back());
  const size_t shift = suffix == std::string_view::npos ? 0 : 10 * (suffix + 1);
  if (shift != 0) {
    digits.remove_suffix(1);
  }
  const uint64_t value = parse_number(option, digits, kWantedSize);
  require(value > 0 && value <= (UINT64_MAX >> shift), MYDEV_INVALID_ARGUMENT, "option '", option.text,
          "' of the host driver: '", option.value, "' is not ", kWantedSize);
  return value << shift;
}

bool parse_switch(const Option& option) {
  require(!option.has_value, MYDEV_INVALID_ARGUMENT, "option '", option.text, "' of the host driver: '", option.name,
          "' takes no value");
  return true;
}

RemoteKernels parse_kernels(const Option& option) {
  if (option.value == "all") return RemoteKernels::kAll;
  if (option.value == "compiled") return RemoteKernels::kCompiled;
  require(option.value == "none", MYDEV_INVALID_ARGUMENT, "option '", option.text,
          "' of the host driver: a remote device brings all of the host's kernels as its own, compiled ones, or none");
  return RemoteKernels::kNone;
}

// One entry of faults=: "7", a seed, or "copy@3".
void parse_fault(const Option& option, std::string_view text, FaultPlan& plan) {
  constexpr const char* kWanted =
      "[SEED][:KIND@N]..., with KIND one of alloc, copy, fill, launch, host_call, and N from 1 on";
  const size_t at = text.find('@');
  if (at == std::string_view::npos) {
    plan.seed = parse_number(option, text, kWanted);
    plan.delays = true;
    return;
  }
  const auto name = std::find(kFaultNames.begin(), kFaultNames.end(), text.substr(0, at));
  const uint64_t number = parse_number(option, text.substr(at + 1), kWanted);
  require(name != kFaultNames.end() && number > 0, MYDEV_INVALID_ARGUMENT, "option '", option.text,
          "' of the host driver: '", text, "' is not ", kWanted);
  plan.failures.push_back({static_cast<FaultKind>(name - kFaultNames.begin()), number});
}

FaultPlan parse_faults(const Option& option) {
  FaultPlan plan{.delays = !option.has_value};
  if (!option.has_value) return plan;
  std::string_view rest = option.value;
  for (size_t colon = 0; (colon = rest.find(':')) != std::string_view::npos; rest.remove_prefix(colon + 1)) {
    parse_fault(option, rest.substr(0, colon), plan);
  }
  parse_fault(option, rest, plan);
  return plan;
}

}  // namespace

HostOptions parse_host_options(std::string_view text) {
  HostOptions options;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const Option option = split_option(text.substr(0, comma));
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    if (option.name == "devices") {
      options.devices = parse_devices(option);
    } else if (option.name == "memory") {
      options.memory = parse_size(option);
    } else if (option.name == "async") {
      options.asynchronous = parse_switch(option);
    } else if (option.name == "guarded") {
      options.guarded = parse_switch(option);
    } else if (option.name == "remote") {
      options.remote = parse_switch(option);
    } else if (option.name == "kernels") {
      options.kernels = parse_kernels(option);
    } else if (option.name == "faults") {
      options.faults = parse_faults(option);
    } else {
      raise(MYDEV_INVALID_ARGUMENT, "unknown option '", option.text, "' of the host driver; it takes ", kValidOptions);
    }
  }
  return options;
}

}  // namespace mydev::host_driver
