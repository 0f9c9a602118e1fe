#include "aten/custom_call/ffi_call.h"

#include <algorithm>
#include <list>
#include <string_view>

#include "aten/memory/storage.h"
#include "kernels/registry/description.h"
#include "kernels/registry/launchable.h"
#include "kernels/registry/registered_kernel.h"
#include "runtime/base/status.h"
#include "runtime/command/transfer.h"
#include "runtime/driver/device.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

namespace {

using at::Tensor;

std::string operand_name(size_t i) {
  return std::to_string(i);
}

bool is_permutation(const std::vector<int64_t>& layout) {
  std::vector<int64_t> sorted = layout;
  std::sort(sorted.begin(), sorted.end());
  for (size_t i = 0; i < sorted.size(); ++i) {
    if (sorted[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

bool has_layout(const std::vector<std::vector<int64_t>>& layouts, size_t i) {
  return !layouts.empty() && !layouts[i].empty();
}

std::vector<int64_t> permuted(const std::vector<int64_t>& sizes, const std::vector<int64_t>& layout) {
  if (layout.empty()) return sizes;
  std::vector<int64_t> result;
  for (const int64_t dimension : layout) result.push_back(sizes[static_cast<size_t>(dimension)]);
  return result;
}

std::vector<int64_t> inverse(const std::vector<int64_t>& layout) {
  std::vector<int64_t> result(layout.size());
  for (size_t i = 0; i < layout.size(); ++i) result[static_cast<size_t>(layout[i])] = static_cast<int64_t>(i);
  return result;
}

// Handlers see the sizes of the tensor, and row-major strides, whatever the order of its dimensions in memory.
class RowMajorStrides {
 public:
  void describe(mydev_buffer& buffer, c10::IntArrayRef sizes) {
    std::vector<int64_t>& strides = strides_.emplace_back(sizes.size());
    int64_t stride = 1;
    for (size_t d = sizes.size(); d-- > 0;) {
      strides[d] = stride;
      stride *= std::max<int64_t>(sizes[d], 1);
    }
    buffer.sizes = sizes.data();
    buffer.strides = strides.data();
  }

 private:
  std::list<std::vector<int64_t>> strides_;  // does not move
};

int api_version_of(int32_t kind) {
  switch (kind) {
    case MYDEV_KIND_ORIGINAL_HOST:
    case MYDEV_KIND_ORIGINAL_DEVICE:
      return 1;
    case MYDEV_KIND_STATUS_HOST:
    case MYDEV_KIND_STATUS_DEVICE:
      return 2;
    case MYDEV_KIND_UNIFIED_HOST:
    case MYDEV_KIND_UNIFIED_DEVICE:
      return 3;
    default:
      return 4;
  }
}

bool is_legacy_host(int32_t kind) {
  return kind == MYDEV_KIND_ORIGINAL_HOST || kind == MYDEV_KIND_STATUS_HOST || kind == MYDEV_KIND_UNIFIED_HOST;
}

// Attributes in the signature's order and, unless the caller says otherwise, of its widths; defaults filled in.
void arrange_by_signature(const mydev_kernel& record, CustomAttributes& attributes) {
  const mydev_signature& signature = *record.signature;
  c10::SmallVector<mydev_attribute, 4> arranged;
  size_t used = 0;
  for (uint32_t i = 0; i < signature.num_attributes; ++i) {
    const mydev_attribute_spec& spec = *signature.attributes[i];
    const auto given = std::find_if(attributes.begin(), attributes.end(), [&](const mydev_attribute& attribute) {
      return std::string_view(attribute.name) == spec.value.name;
    });
    if (given != attributes.end()) {
      arranged.push_back(*given);
      if (given->dtype == 0) {
        arranged.back().dtype = spec.value.dtype;
        if (given->kind == MYDEV_ATTRIBUTE_INT) check_width(record, arranged.back(), given->value.i);
      }
      ++used;
      continue;
    }
    MYDEV_CHECK((spec.flags & MYDEV_ATTRIBUTE_REQUIRED) == 0, MYDEV_INVALID_ARGUMENT, record.name, ": attribute '",
                spec.value.name, "' is missing: ", describe_signature(record));
    arranged.push_back(spec.value);
  }
  if (used != attributes.size()) {
    for (const mydev_attribute& attribute : attributes) {
      const bool known = std::any_of(arranged.begin(), arranged.end(), [&](const mydev_attribute& other) {
        return std::string_view(other.name) == attribute.name;
      });
      MYDEV_CHECK(known, MYDEV_INVALID_ARGUMENT, record.name, " has no attribute '", attribute.name,
                  "': ", describe_signature(record));
    }
  }
  attributes.assign(arranged);
}

}  // namespace

FfiCallSite::FfiCallSite(FfiCallOptions options) : options_(std::move(options)), kernel_(options_.target) {
  const auto check_layout = [&](const char* what, size_t i, const std::vector<int64_t>& layout) {
    MYDEV_CHECK(is_permutation(layout), MYDEV_INVALID_ARGUMENT, options_.target, ": the layout of ", what, " ", i,
                " is not an order of its dimensions, 0 to ", layout.size() - 1, ", major to minor");
  };
  for (size_t i = 0; i < options_.results.size(); ++i) {
    const FfiResult& result = options_.results[i];
    if (result.layout.empty()) continue;
    check_layout("result", i, result.layout);
    MYDEV_CHECK(result.layout.size() == result.sizes.size(), MYDEV_INVALID_ARGUMENT, options_.target,
                ": the layout of result ", i, " has ", result.layout.size(), " dimensions, the result ",
                result.sizes.size());
  }
  for (size_t i = 0; i < options_.input_layouts.size(); ++i) check_layout("operand", i, options_.input_layouts[i]);
  for (const auto& [operand, result] : options_.aliases) {
    MYDEV_CHECK(result < options_.results.size(), MYDEV_INVALID_ARGUMENT, options_.target, ": operand ", operand,
                " is aliased to result ", result, "; there are ", options_.results.size());
  }
  MYDEV_CHECK(options_.api_version >= 1 && options_.api_version <= 4, MYDEV_INVALID_ARGUMENT, options_.target,
              ": custom_call_api_version is ", options_.api_version, "; give 1, 2, 3, or 4 for typed FFI");
  MYDEV_CHECK(
      options_.api_version != 4 || !options_.opaque, MYDEV_INVALID_ARGUMENT, options_.target,
      ": legacy_backend_config is for custom_call_api_version 1, 2 and 3; give version 4 attributes by keyword");
}

void FfiCallSite::check_kind(const mydev_kernel& record) const {
  const int version = api_version_of(record.kind);
  MYDEV_CHECK(version == options_.api_version, MYDEV_INVALID_ARGUMENT, "kernel '", record.name, "' is of kind ",
              kind_name(record.kind), ", called with custom_call_api_version=", version, ", not ",
              options_.api_version);
}

const FfiCallSite::Fitted& FfiCallSite::fit(const CustomKernel::Resolved& resolved, int on) {
  const Fitted* fitted = fitted_.load(std::memory_order_acquire);
  if (fitted != nullptr && fitted->resolved == &resolved) [[likely]]
    return *fitted;
  check_kind(*resolved.record);
  const std::lock_guard lock(mutex_);
  auto* fresh = new Fitted{&resolved, resolved};
  const bool tuple_of_one = options_.tuple && options_.results.size() == 1;
  if (tuple_of_one && is_legacy_host(resolved.record->kind) &&
      (resolved.record->traits & MYDEV_TRAIT_TUPLE_RESULT) == 0) {
    mydev_kernel variant = *resolved.record;
    variant.entry = nullptr;
    variant.traits |= MYDEV_TRAIT_TUPLE_RESULT;
    const KernelOrigin origin = kernel_origin(variant.name);
    const auto* registered = new RegisteredKernel(variant, origin);
    fresh->runs.launchable =
        find_launchable(device(on), variant.name, {.registered = registered, .registered_owner = origin_text(origin)});
  }
  fitted_.store(fresh, std::memory_order_release);
  return *fresh;
}

// The operand as the kernel wants it: dense in the order of its layout, or as it is where any strides are welcome.
Tensor FfiCallSite::arrange_operand(size_t i, const Tensor& operand, const mydev_kernel& record) {
  const Tensor view = has_layout(options_.input_layouts, i) ? operand.permute(options_.input_layouts[i]) : operand;
  if ((takes_strides(record, i) || view.is_contiguous()) && !view.is_conj() && !view.is_neg()) return view;
  kernel_.count_dense_copy();
  Tensor dense = at::empty(view.sizes(), view.options());
  dense.copy_(view);
  return dense;
}

void FfiCallSite::check_shapes(const mydev_kernel& record, const mydev_frame& frame) const {
  check_operands(record, frame);
  c10::SmallVector<mydev_shape, 2> shapes(options_.results.size());
  infer_results(record, frame, {shapes.data(), shapes.size()});
  for (size_t i = 0; i < shapes.size(); ++i) {
    const FfiResult& result = options_.results[i];
    const c10::IntArrayRef expected(shapes[i].sizes, static_cast<size_t>(shapes[i].rank));
    MYDEV_CHECK(expected == c10::IntArrayRef(result.sizes) && shapes[i].dtype == to_frame_dtype(result.dtype),
                MYDEV_INVALID_ARGUMENT, record.name, ": result ", i, " is ",
                dtype_name(static_cast<mydev_dtype>(shapes[i].dtype)), c10::str(expected), ", not ",
                c10::str(result.dtype, c10::IntArrayRef(result.sizes)), ": ", describe_signature(record));
  }
}

ResultTensors FfiCallSite::run(c10::ArrayRef<Tensor> operands, CustomAttributes& attributes) {
  const CustomCallErrors errors;
  int device = common_device(options_.target, operands, operand_name);
  if (device == -1) device = current_device();
  const Fitted& kernel = fit(kernel_.on(device), device);
  MYDEV_CHECK(options_.input_layouts.empty() || options_.input_layouts.size() == operands.size(),
              MYDEV_INVALID_ARGUMENT, options_.target, ": ", options_.input_layouts.size(), " input_layouts for ",
              operands.size(), " operands");
  for (size_t i = 0; i < operands.size(); ++i) {
    MYDEV_CHECK(!has_layout(options_.input_layouts, i) ||
                    static_cast<int64_t>(options_.input_layouts[i].size()) == operands[i].dim(),
                MYDEV_INVALID_ARGUMENT, options_.target, ": the layout of operand ", i, " has ",
                options_.input_layouts[i].size(), " dimensions, the operand ", operands[i].dim());
  }
  CustomFrame frame(options_.results.size());
  RowMajorStrides strides;
  ResultTensors kept;
  for (size_t i = 0; i < operands.size(); ++i) {
    kept.push_back(arrange_operand(i, operands[i], *kernel.runs.record));
    frame.add(kept.back());
    if (has_layout(options_.input_layouts, i)) strides.describe(frame.operand(i), operands[i].sizes());
  }
  if (options_.opaque) {
    mydev_attribute opaque{"opaque", MYDEV_ATTRIBUTE_STRING, 0, static_cast<uint32_t>(options_.opaque->size()), {}};
    opaque.value.bytes = options_.opaque->data();
    attributes.add(opaque);
  }
  if (kernel.runs.record->signature != nullptr) {
    arrange_by_signature(*kernel.runs.record, attributes);
    check_shapes(*kernel.runs.record, frame.frame(attributes.values()));
  } else if (attributes.size() > 1) {
    std::sort(attributes.begin(), attributes.end(),
              [](const mydev_attribute& a, const mydev_attribute& b) { return std::string_view(a.name) < b.name; });
  }
  const c10::Device on{kDeviceType, static_cast<c10::DeviceIndex>(device)};
  ResultTensors results;
  for (size_t i = 0; i < options_.results.size(); ++i) {
    const FfiResult& result = options_.results[i];
    results.push_back(empty_dense(permuted(result.sizes, result.layout), result.dtype, on));
    frame.set_result(i, results.back());
    if (!result.layout.empty()) strides.describe(frame.result(i), result.sizes);
  }
  for (const auto& [operand, result] : options_.aliases) {
    MYDEV_CHECK(operand < kept.size(), MYDEV_INVALID_ARGUMENT, options_.target, ": input_output_aliases names operand ",
                operand, "; there are ", kept.size());
    MYDEV_CHECK(kept[operand].nbytes() == results[result].nbytes() && kept[operand].is_contiguous(),
                MYDEV_INVALID_ARGUMENT, options_.target, ": operand ", operand, ", aliased to result ", result,
                ", has ", kept[operand].nbytes(), " bytes, the result ", results[result].nbytes());
    copy_bytes(current_stream(device), frame.result(result).data, frame.operand(operand).data, results[result].nbytes(),
               MYDEV_COPY_DEVICE_TO_DEVICE);
    frame.operand(operand).data = frame.result(result).data;
  }
  frame.launch(kernel.runs, attributes.values(), device);
  for (size_t i = 0; i < results.size(); ++i) {
    if (const auto& layout = options_.results[i].layout; !layout.empty()) {
      results[i] = results[i].permute(inverse(layout));
    }
  }
  return results;
}

}  // namespace mydev
