#include "host_driver/host_options.h"

#include <charconv>

#include "host_driver/host_error.h"

namespace mydev::host_driver {

namespace {

constexpr const char* kValidOptions = "devices=N, memory=SIZE, async, guarded, remote";
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
    } else {
      raise(MYDEV_INVALID_ARGUMENT, "unknown option '", option.text, "' of the host driver; it takes ", kValidOptions);
    }
  }
  return options;
}

}  // namespace mydev::host_driver
