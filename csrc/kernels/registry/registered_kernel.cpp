#include "kernels/registry/registered_kernel.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "kernels/registry/description.h"
#include "kernels/spec/struct_copy.h"
#include "runtime/base/status.h"

namespace mydev {

namespace {

constexpr size_t kMaxNameLength = 128;
constexpr uint32_t kMaxGradientEntries = 1024;

bool is_host_form(int32_t kind) {
  return kind == MYDEV_KIND_ORIGINAL_HOST || kind == MYDEV_KIND_STATUS_HOST || kind == MYDEV_KIND_UNIFIED_HOST;
}

template <typename... Args>
void require(bool condition, const mydev_kernel& kernel, const Args&... args) {
  MYDEV_CHECK(condition, MYDEV_INVALID_ARGUMENT, "kernel '", kernel.name, "': ", args...);
}

void check_functions(const mydev_kernel& kernel) {
  require(kernel.kind >= MYDEV_KIND_FRAME && kernel.kind <= MYDEV_KIND_UNIFIED_DEVICE, kernel, "unknown kind ",
          kernel.kind, "; see mydev_kernel_kind");
  const bool stages = kernel.instantiate != nullptr || kernel.prepare != nullptr || kernel.initialize != nullptr;
  require(!stages || kernel.kind == MYDEV_KIND_TYPED_FFI, kernel, "kind ", kind_name(kernel.kind),
          " has no stages; leave instantiate, prepare and initialize NULL");
  if (kernel.kind == MYDEV_KIND_FRAME) {
    require(kernel.entry != nullptr || kernel.driver_data != nullptr, kernel, "its entry is NULL");
    require(kernel.execute == nullptr, kernel, "a kernel of kind frame is called by entry; leave execute NULL");
  } else {
    require(kernel.execute != nullptr, kernel, "its function, execute, is NULL");
    require(kernel.entry == nullptr, kernel, "kind ", kind_name(kernel.kind),
            " is called by execute; leave entry NULL");
  }
  constexpr uint32_t kTraits = MYDEV_TRAIT_COMMAND_BUFFER_COMPATIBLE | MYDEV_TRAIT_TUPLE_RESULT;
  require((kernel.traits & ~kTraits) == 0, kernel, "unknown traits ", kernel.traits);
  require((kernel.traits & MYDEV_TRAIT_TUPLE_RESULT) == 0 || is_host_form(kernel.kind), kernel,
          "TUPLE_RESULT is for legacy host kinds");
  require(kernel.batching >= MYDEV_BATCHING_NONE && kernel.batching <= MYDEV_BATCHING_BROADCAST_ALL, kernel,
          "unknown batching ", kernel.batching);
}

void check_gradient(const mydev_kernel& kernel) {
  const mydev_gradient& gradient = *kernel.gradient;
  require(kernel.signature != nullptr, kernel, "it has a gradient and no signature");
  const auto operands = static_cast<int32_t>(kernel.signature->num_operands);
  const auto results = static_cast<int32_t>(kernel.signature->num_results);
  require(valid_kernel_name(gradient.kernel), kernel, "its gradient names no kernel");
  require(gradient.num_saved <= kMaxGradientEntries && gradient.num_wrt <= kMaxGradientEntries, kernel,
          "its gradient has ", gradient.num_saved, " saved values and ", gradient.num_wrt, " operands; the limit is ",
          kMaxGradientEntries);
  require((gradient.num_saved == 0 || gradient.saved != nullptr) && gradient.wrt != nullptr && gradient.num_wrt != 0,
          kernel, "its gradient lacks `saved` or `wrt`");
  require(!has_variadic_result(*kernel.signature), kernel, "it has a gradient and a variadic result");
  const std::span saved_values(gradient.saved, gradient.num_saved);
  for (uint32_t i = 0; i < gradient.num_saved; ++i) {
    const int32_t saved = gradient.saved[i];
    require(saved < operands && saved >= -results, kernel, "its gradient saves value ", saved, "; it has ", operands,
            " operands and ", results, " results");
  }
  for (uint32_t i = 0; i < gradient.num_wrt; ++i) {
    const int32_t operand = gradient.wrt[i];
    require(operand >= 0 && operand < operands, kernel, "its gradient is for operand ", operand, "; there are ",
            operands);
    if (!is_variadic(*kernel.signature->operands[operand])) continue;
    require(i + 1 == gradient.num_wrt, kernel, "its gradient is for operand ", operand,
            ", which is variadic; put it last in `wrt`");
    require(std::find(saved_values.begin(), saved_values.end(), operand) != saved_values.end(), kernel,
            "its gradient is for operand ", operand,
            ", which is variadic; save it too, so that the gradient kernel knows how many there are");
  }
}

}  // namespace

bool valid_kernel_name(const char* name) noexcept {
  if (name == nullptr) return false;
  constexpr std::string_view kAllowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-";
  size_t length = 0;
  while (length <= kMaxNameLength && name[length] != '\0') ++length;  // may lack its end
  const std::string_view text(name, length);
  return length != 0 && length <= kMaxNameLength && text.find_first_not_of(kAllowed) == std::string_view::npos;
}

bool same_record(const mydev_kernel& a, const mydev_kernel& b) {
  const bool same_functions = a.entry == b.entry && a.scratch_bytes == b.scratch_bytes && a.execute == b.execute &&
                              a.instantiate == b.instantiate && a.prepare == b.prepare &&
                              a.initialize == b.initialize && a.driver_data == b.driver_data;
  if (!same_functions || (a.signature == nullptr) != (b.signature == nullptr)) return false;
  if (a.signature != nullptr && a.signature->infer_shapes != b.signature->infer_shapes) return false;
  return describe_record(a) == describe_record(b);
}

RegisteredKernel::RegisteredKernel(const mydev_kernel& kernel, const KernelOrigin& from)
    : mydev_kernel(copy_struct(&kernel, MYDEV_END_OF(mydev_kernel, driver_data), "a kernel record")), origin(from) {
  MYDEV_CHECK(valid_kernel_name(name), MYDEV_INVALID_ARGUMENT, "bad kernel name '",
              name == nullptr ? "(null)" : std::string_view(name).substr(0, kMaxNameLength + 1), "': give 1 to ",
              kMaxNameLength, " letters, digits or any of _ . : -");
  check_functions(*this);
  if (signature != nullptr) {
    compiled = std::make_unique<CompiledSignature>(*this);
    signature = compiled.get();
    if (batching == MYDEV_BATCHING_NONE && compiled->is_pointwise()) batching = MYDEV_BATCHING_BROADCAST_ALL;
  }
  if (gradient != nullptr) {
    gradient_value = copy_struct(gradient, MYDEV_END_OF(mydev_gradient, wrt), "a gradient");
    gradient = &gradient_value;
    check_gradient(*this);
  }
  if (kind == MYDEV_KIND_TYPED_FFI) {
    adaptor = adapt_typed_ffi(*this);
  } else if (kind != MYDEV_KIND_FRAME) {
    adaptor = adapt_legacy(*this);
  }
}

}  // namespace mydev
