#include "cuda_driver/compiler/nvrtc.h"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "cuda_driver/library/cuda_error.h"
#include "cuda_driver/library/library_search.h"

namespace mydev::cuda_driver {

namespace {

constexpr const char* kNvrtcNames[] = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
// The wheels have it in these, beside packages.
constexpr const char* kNvrtcWheels[] = {"nvidia/cu13/lib", "nvidia/cuda_nvrtc/lib"};

NvrtcApi api;

// A program of NVRTC's, destroyed with this.
class NvrtcProgram {
 public:
  explicit NvrtcProgram(const std::string& source) {
    const Result result = api.nvrtcCreateProgram(&program_, source.c_str(), "kernels.cu", 0, nullptr, nullptr);
    require(result == kSuccess, MYDEV_INTERNAL, "nvrtcCreateProgram: ", api.nvrtcGetErrorString(result));
  }
  ~NvrtcProgram() { api.nvrtcDestroyProgram(&program_); }
  NvrtcProgram(const NvrtcProgram&) = delete;
  NvrtcProgram& operator=(const NvrtcProgram&) = delete;

  void compile(const std::vector<std::string>& options) {
    std::vector<const char*> texts;
    texts.reserve(options.size());
    for (const std::string& option : options) texts.push_back(option.c_str());
    const Result result = api.nvrtcCompileProgram(program_, static_cast<int>(texts.size()), texts.data());
    require(result == kSuccess, MYDEV_INVALID_ARGUMENT, "NVRTC refuses the source: ", api.nvrtcGetErrorString(result),
            "\n", result_of("log", api.nvrtcGetProgramLogSize, api.nvrtcGetProgramLog));
  }
  std::string result_of(const char* what, Result (*size)(Program, size_t*), Result (*get)(Program, char*)) const {
    size_t bytes = 0;
    require(size(program_, &bytes) == kSuccess, MYDEV_INTERNAL, "NVRTC gives no ", what);
    std::string text(bytes, '\0');
    require(bytes == 0 || get(program_, text.data()) == kSuccess, MYDEV_INTERNAL, "NVRTC gives no ", what);
    return text;
  }

 private:
  Program program_ = nullptr;
};

std::pair<int, int> version() {
  int major = 0, minor = 0;
  if (has_nvrtc()) api.nvrtcVersion(&major, &minor);
  return {major, minor};
}

// The newest architecture that this NVRTC knows and that is not newer than the device's.
int architecture_for(int compute_capability) {
  int count = 0;
  require(api.nvrtcGetNumSupportedArchs(&count) == kSuccess && count > 0, MYDEV_INTERNAL,
          "NVRTC does not say what it compiles for");
  std::vector<int> known(static_cast<size_t>(count));
  require(api.nvrtcGetSupportedArchs(known.data()) == kSuccess, MYDEV_INTERNAL,
          "NVRTC does not say what it compiles for");
  std::erase_if(known, [&](int architecture) { return architecture > compute_capability; });
  require(!known.empty(), MYDEV_UNIMPLEMENTED, "NVRTC ", nvrtc_version(),
          " compiles for no device of compute capability ", compute_capability / 10, ".", compute_capability % 10,
          "; an older one does");
  return std::ranges::max(known);
}

}  // namespace

void load_nvrtc(const std::string& path) {
  const SharedLibrary library = find_library({"nvrtc", kNvrtcNames, kNvrtcWheels}, path);
  if (!library) return;
  NvrtcApi found{};
  constexpr const char* kNeeded = "NVRTC 11.2 or newer";
#define MYDEV_FIND(entry, suffix, parameters) library.find(found.entry, #entry suffix, kNeeded);
  MYDEV_NVRTC_ENTRIES(MYDEV_FIND)
#undef MYDEV_FIND
  library.find(found.nvrtcGetErrorString, "nvrtcGetErrorString", kNeeded);
  api = found;
}

bool has_nvrtc() noexcept {
  return api.nvrtcVersion != nullptr;
}

std::string nvrtc_version() {
  const auto [major, minor] = version();
  return has_nvrtc() ? std::to_string(major) + "." + std::to_string(minor) : "";
}

std::string compile_cuda(std::string_view source, const std::string& options, int compute_capability) {
  require(has_nvrtc(), MYDEV_UNAVAILABLE, "NVRTC is not installed here; install the package nvidia-cuda-nvrtc");
  const int architecture = architecture_for(compute_capability);
  // Machine code runs on later devices of the same major number alone; PTX on all later ones.
  const bool to_ptx = architecture / 10 != compute_capability / 10;
  std::vector<std::string> all = {
      std::string("--gpu-architecture=") + (to_ptx ? "compute_" : "sm_") + std::to_string(architecture), "--std=c++17"};
  all.emplace_back("--disable-warnings");
  if (version().first >= 13)
    all.emplace_back("--minimal");  // without textures and the like, which take a third of the time
  std::istringstream given(options);
  for (std::string option; given >> option;) all.push_back(option);
  NvrtcProgram program{std::string(source)};
  program.compile(all);
  return to_ptx ? program.result_of("PTX", api.nvrtcGetPTXSize, api.nvrtcGetPTX)
                : program.result_of("CUBIN", api.nvrtcGetCUBINSize, api.nvrtcGetCUBIN);
}

}  // namespace mydev::cuda_driver
