// Validation: copies and fills.
#include <algorithm>

#include "runtime/base/source_location.h"
#include "runtime/command/transfer.h"
#include "runtime/frame/dtype.h"
#include "runtime/validation/finding.h"
#include "runtime/validation/state.h"

namespace mydev::validation {

namespace {

const char* name_of_known(mydev_copy_kind kind) {
  const int number = static_cast<int>(kind);
  if (number < 0 || number > 2) {
    throw Finding(MYDEV_INVALID_ARGUMENT, text("the kind ", number, " is none; there are 0 to 2"));
  }
  return copy_name(kind);
}

// The memory that a copy uses. `ordinary`: its side on the host is ordinary memory, which the caller may use when the
// call returns.
struct CopyUses {
  std::vector<Use> uses;
  bool ordinary = false;

  void add(State& self, int32_t device, bool on_device, bool writes, const MemoryView& view) {
    const char* role = writes ? "destination" : "source";
    if (on_device) {
      self.objects.check_range(device, view, text("the ", role));
      uses.push_back({device, writes, role, view});
    } else if (self.objects.check_host_range(view, text("the ", role))) {
      uses.push_back({kPinned, writes, role, view});
    } else {
      ordinary = true;
    }
  }
};

CopyUses copy_uses(State& self, int32_t device, const MemoryView& dst, const MemoryView& src, mydev_copy_kind kind) {
  CopyUses found;
  found.add(self, device, kind != MYDEV_COPY_DEVICE_TO_HOST, true, dst);
  found.add(self, device, kind != MYDEV_COPY_HOST_TO_DEVICE, false, src);
  require(kind != MYDEV_COPY_DEVICE_TO_DEVICE || !overlap(dst, src), MYDEV_INVALID_ARGUMENT,
          "source and destination overlap; copy by way of other memory");
  return found;
}

// Whether a copy is done once its call has returned.
bool finished_at_once(State& self, mydev_stream stream, const CopyUses& uses, mydev_copy_kind kind) {
  const int32_t device = self.objects.stream(stream).device;
  return !self.objects.has(device, MYDEV_CAPABILITY_ASYNC) || (kind == MYDEV_COPY_DEVICE_TO_HOST && uses.ordinary);
}

void check_given(const void* dst, const void* src, uint64_t bytes) {
  require(dst != nullptr && src != nullptr && bytes > 0, MYDEV_INVALID_ARGUMENT, "dst is ", dst, ", src ", src,
          ", bytes ", bytes, "; none may be 0");
}

// Checks with `prepare`, which returns a Submission and whether the call finishes it; then asks the driver.
template <typename Prepare, typename Ask>
mydev_code submit(const char* entry, const Prepare& prepare, const Ask& ask) {
  State& self = state();
  return checked(entry, [&] {
    bool finished = false;
    std::string source = source_location();
    const auto make = [&] {
      const std::lock_guard lock(self.mutex);
      return prepare(self, finished, std::move(source));
    };
    Submission submission = make();
    const mydev_code code = ask(self.driver);
    submission.finalize(code, finished);
    return code;
  });
}

mydev_code copy(mydev_stream stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  return submit(
      "copy",
      [&](State& self, bool& finished, std::string source) {
        const StreamObject& object = self.objects.stream(stream);
        check_given(dst, src, bytes);
        const char* what = name_of_known(kind);
        CopyUses uses =
            copy_uses(self, object.device, MemoryView::of_bytes(dst, bytes), MemoryView::of_bytes(src, bytes), kind);
        finished = finished_at_once(self, stream, uses, kind);
        return Submission(self, stream, what, std::move(source), std::move(uses.uses));
      },
      [&](const mydev_driver_api& driver) { return driver.copy(stream, dst, src, bytes, kind); });
}

mydev_code copy_peer(mydev_stream stream, void* dst, int32_t dst_device, const void* src, int32_t src_device,
                     uint64_t bytes) {
  return submit(
      "copy_peer",
      [&](State& self, bool& finished, std::string source) {
        const StreamObject& object = self.objects.stream(stream);
        check_given(dst, src, bytes);
        self.objects.device(dst_device);
        require(object.device == src_device, MYDEV_INVALID_ARGUMENT, "the source is device ", src_device, ", and ",
                object.name, " is not its stream; copy on a stream of the source");
        require(dst_device != src_device, MYDEV_INVALID_ARGUMENT, "both sides are device ", src_device,
                "; copies on one device are copy's");
        CopyUses uses;
        uses.add(self, dst_device, true, true, MemoryView::of_bytes(dst, bytes));
        uses.add(self, src_device, true, false, MemoryView::of_bytes(src, bytes));
        finished = !self.objects.has(src_device, MYDEV_CAPABILITY_ASYNC);
        return Submission(self, stream, text("copy to device ", dst_device), std::move(source), std::move(uses.uses));
      },
      [&](const mydev_driver_api& driver) {
        return driver.copy_peer(stream, dst, dst_device, src, src_device, bytes);
      });
}

void check_views(const mydev_buffer* dst, const mydev_buffer* src) {
  require(dst != nullptr && src != nullptr, MYDEV_INVALID_ARGUMENT, "dst is ", static_cast<const void*>(dst), ", src ",
          static_cast<const void*>(src), "; neither may be NULL");
  require(dst->rank == src->rank && dst->rank >= 0 && std::equal(dst->sizes, dst->sizes + dst->rank, src->sizes),
          MYDEV_INVALID_ARGUMENT, "the views have ranks ", dst->rank, " and ", src->rank,
          ", or other sizes; both have the same");
  require(dst->dtype == src->dtype && dtype_row(dst->dtype).size > 0, MYDEV_INVALID_ARGUMENT, "the views have dtypes ",
          dst->dtype, " and ", src->dtype, "; both have one, of elements of a known size");
  for (int32_t d = 0; d < dst->rank; ++d) {
    require(dst->sizes[d] >= 0, MYDEV_INVALID_ARGUMENT, "dimension ", d, " has the size ", dst->sizes[d]);
    require(dst->sizes[d] < 2 || dst->strides[d] != 0, MYDEV_INVALID_ARGUMENT, "dimension ", d, " of dst has ",
            dst->sizes[d], " elements and the stride 0; no two elements of dst may be one");
  }
}

mydev_code copy_strided(mydev_stream stream, const mydev_buffer* dst, const mydev_buffer* src, mydev_copy_kind kind) {
  return submit(
      "copy_strided",
      [&](State& self, bool& finished, std::string source) {
        const StreamObject& object = self.objects.stream(stream);
        const char* what = name_of_known(kind);
        check_views(dst, src);
        const MemoryView to = MemoryView::of_buffer(*dst), from = MemoryView::of_buffer(*src);
        CopyUses uses;
        if (!to.empty()) uses = copy_uses(self, object.device, to, from, kind);
        finished = finished_at_once(self, stream, uses, kind);
        return Submission(self, stream, text("strided ", what), std::move(source), std::move(uses.uses));
      },
      [&](const mydev_driver_api& driver) { return driver.copy_strided(stream, dst, src, kind); });
}

mydev_code fill(mydev_stream stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  return submit(
      "fill",
      [&](State& self, bool& finished, std::string source) {
        const StreamObject& object = self.objects.stream(stream);
        check_given(dst, pattern, bytes);
        const bool power = (pattern_bytes & (pattern_bytes - 1)) == 0;
        require(pattern_bytes >= 1 && pattern_bytes <= 16 && power, MYDEV_INVALID_ARGUMENT, "the pattern has ",
                pattern_bytes, " bytes; 1, 2, 4, 8 and 16 are possible");
        require(bytes % pattern_bytes == 0, MYDEV_INVALID_ARGUMENT, bytes, " bytes are no multiple of the pattern's ",
                pattern_bytes);
        CopyUses uses;
        uses.add(self, object.device, true, true, MemoryView::of_bytes(dst, bytes));
        finished = !self.objects.has(object.device, MYDEV_CAPABILITY_ASYNC);
        return Submission(self, stream, "fill", std::move(source), std::move(uses.uses));
      },
      [&](const mydev_driver_api& driver) { return driver.fill(stream, dst, bytes, pattern, pattern_bytes); });
}

}  // namespace

void put_transfer_checks(mydev_driver_api& table) {
  table.copy = copy;
  if (table.copy_peer != nullptr) table.copy_peer = copy_peer;
  if (table.copy_strided != nullptr) table.copy_strided = copy_strided;
  table.fill = fill;
}

}  // namespace mydev::validation
