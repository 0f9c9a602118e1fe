// Fourier transforms, where the host has kernels for them: the library of these is optional (cmake/ducc.cmake).
#include <array>

#include "kernels/registry/kernel_registry.h"
#include "lowering/frame.h"

namespace mydev::lowering {

using namespace stablehlo;  // NOLINT(google-build-using-namespace)

bool lower_fourier(Frame& frame, const Operation& op) {
  if (op.op != Operator::kFft) return false;
  const auto type = op.get<FftType>("fft_type");
  const char* kernel = type == FftType::kRfft    ? "mydev.fft_r2c"
                       : type == FftType::kIrfft ? "mydev.fft_c2r"
                                                 : "mydev.fft_c2c";
  if (find_kernel(kernel) == nullptr) return false;
  const program::Operand result = frame.result_of(op.result());
  frame.set(op.result(), {result, std::nullopt});
  if (is_empty(result.sizes)) return true;
  const Sizes length = op.integers("fft_length");
  // The kernel has one dimension for the batch.
  std::vector<size_t> groups(length.size() + 1, 1);
  groups[0] = result.sizes.size() - length.size();
  const bool forward = type == FftType::kFft || type == FftType::kRfft;
  const double scale = forward ? 1 : 1.0 / static_cast<double>(count_of(length));
  const std::array attributes = {bool_attribute("forward", forward), float_attribute("scale", scale)};
  frame.emit.launch(kernel, {frame.emit.merge(result, groups)},  // a view: it is dense
                    {frame.emit.merge(frame.view(op.operand(0)), groups)}, attributes);
  return true;
}

}  // namespace mydev::lowering
