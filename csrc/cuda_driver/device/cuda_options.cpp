#include "cuda_driver/device/cuda_options.h"

#include <charconv>

#include "cuda_driver/library/cuda_error.h"

namespace mydev::cuda_driver {

namespace {

int32_t parse_device(std::string_view option, std::string_view value) {
  int32_t device = -1;
  const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), device);
  require(error == std::errc() && end == value.data() + value.size() && device >= 0, MYDEV_INVALID_ARGUMENT, "option '",
          option, "' of the CUDA driver: '", value, "' is not the number of a device");
  return device;
}

}  // namespace

CudaOptions parse_cuda_options(std::string_view text) {
  CudaOptions options;
  while (!text.empty()) {
    const size_t comma = text.find(',');
    const std::string_view option = text.substr(0, comma);
    text = comma == std::string_view::npos ? std::string_view() : text.substr(comma + 1);
    const size_t equals = option.find('=');
    const std::string_view name = option.substr(0, equals);
    const std::string_view value = equals == std::string_view::npos ? std::string_view() : option.substr(equals + 1);
    if (name == "device") {
      options.device = parse_device(option, value);
    } else if (name == "nvrtc" && !value.empty()) {
      options.nvrtc = value;
    } else if (name == "cublas" && !value.empty()) {
      options.cublas = value;
    } else if (name == "cudnn" && !value.empty()) {
      options.cudnn = value;
    } else if (name == "library" && !value.empty()) {
      options.library = value;
    } else {
      raise(MYDEV_INVALID_ARGUMENT, "unknown option '", option,
            "' of the CUDA driver; it takes device=N, nvrtc=PATH, cublas=PATH|off, cudnn=PATH|off, library=PATH");
    }
  }
  return options;
}

}  // namespace mydev::cuda_driver
