// Kernels of XLA's API versions 1 to 3: arrays of pointers, and at most a string and a status.
//
// The functions see no shapes. Host forms get their operands as an array, and their result as such, or as an array of
// pointers when it is a tuple. Device forms get a stream and one array of operands, then results. The arrays are on the
// stack for kernels of few operands.
#include <array>
#include <exception>
#include <string>
#include <vector>

#include "kernels/custom_call/legacy_status.h"
#include "kernels/registry/adaptor.h"
#include "kernels/registry/kernel_entry.h"

namespace mydev {

namespace {

// Operands, then results, in one array; and the string "opaque".
class Call {
 public:
  explicit Call(const mydev_frame& frame) : frame_(frame) {
    const size_t count = size_t{frame.num_inputs} + frame.num_outputs;
    if (count > few_.size()) many_.resize(count);
    pointers_ = count > few_.size() ? many_.data() : few_.data();
    for (uint32_t i = 0; i < frame.num_inputs; ++i) pointers_[i] = data(frame.buffers[frame.num_outputs + i]);
    for (uint32_t i = 0; i < frame.num_outputs; ++i) pointers_[frame.num_inputs + i] = data(frame.buffers[i]);
    for (uint32_t i = 0; i < frame.num_attributes; ++i) {
      const mydev_attribute& attribute = frame.attributes[i];
      if (attribute.kind != MYDEV_ATTRIBUTE_STRING || std::string_view(attribute.name) != "opaque") continue;
      opaque = attribute.count != 0 ? attribute.value.bytes : "";
      opaque_size = attribute.count;
    }
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

  void** buffers() { return pointers_; }
  const void** in() { return const_cast<const void**>(pointers_); }
  // An array of results for a tuple. A single result is a tuple only if the record says so.
  void* out() {
    void** results = pointers_ + frame_.num_inputs;
    const bool tuple = frame_.num_outputs != 1 || (frame_.kernel->traits & MYDEV_TRAIT_TUPLE_RESULT) != 0;
    return tuple ? static_cast<void*>(results) : results[0];
  }
  void* stream() { return frame_.stream; }

  const char* opaque = "";
  size_t opaque_size = 0;

 private:
  static void* data(const mydev_buffer& buffer) { return buffer.dtype == MYDEV_TOKEN ? nullptr : buffer.data; }

  const mydev_frame& frame_;
  std::array<void*, 16> few_;
  std::vector<void*> many_;
  void** pointers_;
};

using OriginalHost = void (*)(void* out, const void** in);
using OriginalDevice = void (*)(void* stream, void** buffers, const char* opaque, size_t opaque_size);
using StatusHost = void (*)(void* out, const void** in, LegacyStatus* status);
using StatusDevice = void (*)(void* stream, void** buffers, const char* opaque, size_t opaque_size,
                              LegacyStatus* status);
using UnifiedHost = void (*)(void* out, const void** in, const char* opaque, size_t opaque_size, LegacyStatus* status);

template <typename Function>
Function function_of(const mydev_frame& frame) {
  return reinterpret_cast<Function>(frame.kernel->execute);
}

void run_original_host(const mydev_frame& frame, Call& call, LegacyStatus& /*status*/) {
  function_of<OriginalHost>(frame)(call.out(), call.in());
}
void run_original_device(const mydev_frame& frame, Call& call, LegacyStatus& /*status*/) {
  function_of<OriginalDevice>(frame)(call.stream(), call.buffers(), call.opaque, call.opaque_size);
}
void run_status_host(const mydev_frame& frame, Call& call, LegacyStatus& status) {
  function_of<StatusHost>(frame)(call.out(), call.in(), &status);
}
void run_status_device(const mydev_frame& frame, Call& call, LegacyStatus& status) {
  function_of<StatusDevice>(frame)(call.stream(), call.buffers(), call.opaque, call.opaque_size, &status);
}
void run_unified_host(const mydev_frame& frame, Call& call, LegacyStatus& status) {
  function_of<UnifiedHost>(frame)(call.out(), call.in(), call.opaque, call.opaque_size, &status);
}

// Runs a legacy kernel; the forms differ only in kRun. A failure without a message has an empty one.
template <void (*kRun)(const mydev_frame&, Call&, LegacyStatus&)>
mydev_code run(const mydev_frame* frame) {
  for (uint32_t i = 0; i < frame->num_outputs + frame->num_inputs; ++i) {
    if (!is_dense(frame->buffers[i])) return refuse_strided(*frame);
  }
  try {
    Call call(*frame);
    LegacyStatus status;
    kRun(*frame, call, status);
    if (!status.message) return MYDEV_OK;
    return kernels::fail(*frame, MYDEV_INTERNAL, ("the custom call failed: " + *status.message).c_str());
  } catch (const std::exception& thrown) {
    return kernels::fail(*frame, MYDEV_UNKNOWN, (std::string("the custom call threw: ") + thrown.what()).c_str());
  } catch (...) {
    return kernels::fail(*frame, MYDEV_UNKNOWN, "the custom call threw something that is no std::exception");
  }
}

mydev_kernel_fn entry_of_kind(int32_t kind) {
  switch (kind) {
    case MYDEV_KIND_ORIGINAL_HOST:
      return run<run_original_host>;
    case MYDEV_KIND_ORIGINAL_DEVICE:
      return run<run_original_device>;
    case MYDEV_KIND_STATUS_HOST:
      return run<run_status_host>;
    case MYDEV_KIND_UNIFIED_HOST:
      return run<run_unified_host>;
    default:  // MYDEV_KIND_STATUS_DEVICE, MYDEV_KIND_UNIFIED_DEVICE
      return run<run_status_device>;
  }
}

}  // namespace

// A legacy kernel needs no more than its function, which the record has.
std::unique_ptr<Adaptor> adapt_legacy(mydev_kernel& kernel) {
  kernel.entry = entry_of_kind(kernel.kind);
  return nullptr;
}

}  // namespace mydev
