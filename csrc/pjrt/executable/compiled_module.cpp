#include "pjrt/executable/compiled_module.h"

#include <array>

#include "runtime/base/status.h"

namespace mydev::pjrt {

namespace {

struct Format {
  std::string_view name;
  SharedModule (*compile)(std::string_view code, const CompileOptions& options);
};

constexpr std::array kFormats = {
    Format{"mlir", compile_stablehlo},
    Format{"mydev_program", compile_program_text},
};

}  // namespace

SharedModule compile_module(std::string_view format, std::string_view code, const CompileOptions& options) {
  for (const Format& row : kFormats) {
    if (row.name == format) return row.compile(code, options);
  }
  MYDEV_CHECK(format != "hlo", MYDEV_UNIMPLEMENTED,
              "programs of format 'hlo' are not supported; PyTorch/XLA gives 'mlir' where XLA_STABLEHLO_COMPILE=1");
  raise(MYDEV_INVALID_ARGUMENT, "Unknown program format '" + std::string(format) + "'.");
}

}  // namespace mydev::pjrt
