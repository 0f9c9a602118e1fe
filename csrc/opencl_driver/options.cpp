#include "opencl_driver/options.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "opencl_driver/api/errors.h"

namespace mydev::opencl_driver {

namespace {

constexpr const char* kValid =
    "platform=NAME|NUMBER, device=NAME|NUMBER, devices=N, memory=usm|svm|fine|buffers, limit=SIZE";

constexpr std::array<std::pair<std::string_view, MemoryKind>, 4> kMemoryKinds = {{
    {"usm", MemoryKind::kUsm},
    {"svm", MemoryKind::kSvm},
    {"fine", MemoryKind::kFine},
    {"buffers", MemoryKind::kBuffers},
}};

[[noreturn]] void refuse(std::string_view option, const std::string& wanted) {
  raise(MYDEV_INVALID_ARGUMENT, "option '", option, "' of the OpenCL driver: it takes ", wanted);
}

std::optional<uint64_t> number_in(std::string_view digits) {
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (digits.empty() || error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

int32_t parse_devices(std::string_view option, std::string_view value) {
  const std::optional<uint64_t> number = number_in(value);
  if (!number || *number < 1 || *number > kMaxDevices) refuse(option, "from 1 to " + std::to_string(kMaxDevices));
  return static_cast<int32_t>(*number);
}

MemoryKind parse_memory(std::string_view option, std::string_view value) {
  const auto known = std::ranges::find(kMemoryKinds, value, &std::pair<std::string_view, MemoryKind>::first);
  if (known == kMemoryKinds.end()) refuse(option, "usm, svm, fine or buffers; a size is given by limit=");
  return known->second;
}

uint64_t parse_limit(std::string_view option, std::string_view value) {
  constexpr std::string_view kSuffixes = "KMG";
  const size_t suffix = value.empty() ? std::string_view::npos : kSuffixes.find(value.back());
  const size_t shift = suffix == std::string_view::npos ? 0 : 10 * (suffix + 1);
  const std::optional<uint64_t> number = number_in(value.substr(0, value.size() - (shift != 0 ? 1 : 0)));
  if (!number || *number == 0 || *number > (UINT64_MAX >> shift)) {
    refuse(option, "a size such as 512M: bytes, or a number with suffix K, M or G");
  }
  return *number << shift;
}

void set_option(Options& options, std::string_view option) {
  const size_t equals = std::min(option.find('='), option.size());
  const std::string_view name = option.substr(0, equals);
  const std::string_view value = option.substr(std::min(equals + 1, option.size()));
  if (name == "platform") {
    options.platform = value;
  } else if (name == "device") {
    options.device = value;
  } else if (name == "devices") {
    options.devices = parse_devices(option, value);
  } else if (name == "memory") {
    options.memory = parse_memory(option, value);
  } else if (name == "limit") {
    options.limit = parse_limit(option, value);
  } else {
    raise(MYDEV_INVALID_ARGUMENT, "unknown option '", option, "' of the OpenCL driver; it takes ", kValid);
  }
  if ((name == "platform" || name == "device") && value.empty()) refuse(option, "a part of a name, or a number");
}

}  // namespace

Options parse_options(std::string_view text) {
  Options options;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    set_option(options, text.substr(0, comma));
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return options;
}

}  // namespace mydev::opencl_driver
