#include "runtime/command/transfer.h"

#include <optional>
#include <string>

#include "runtime/base/source_location.h"
#include "runtime/command/command_hooks.h"
#include "runtime/frame/dtype.h"

namespace mydev {

const char* copy_name(mydev_copy_kind kind) noexcept {
  switch (kind) {
    case MYDEV_COPY_HOST_TO_DEVICE:
      return "copy to the device";
    case MYDEV_COPY_DEVICE_TO_HOST:
      return "copy to the host";
    default:
      return "copy on the device";
  }
}

namespace {

uint64_t bytes_of(const mydev_buffer& view) {
  auto bytes = static_cast<uint64_t>(dtype_row(view.dtype).size);
  for (int32_t d = 0; d < view.rank; ++d) bytes *= static_cast<uint64_t>(view.sizes[d]);
  return bytes;
}

// Calls `make_command` only if the command must be reported: an inline stream without hooks pays for the transfer
// alone.
template <typename MakeCommand, typename Submit>
void submit(Stream& stream, const MakeCommand& make_command, const Submit& give_to_driver) {
  mydev_code code = MYDEV_OK;
  if (!stream.needs_care() && !detail::observing()) [[likely]] {
    code = give_to_driver();
  } else {
    stream.check_open();
    const CommandRecord command = make_command();
    if (stream.asynchronous()) {
      stream.note_transfer({command.name, command.dst, command.src, command.bytes, source_location()});
    }
    std::optional<detail::ObservedCommand> observed;
    if (detail::observing()) observed.emplace(command);
    code = give_to_driver();
    if (observed) observed->submitted(stream, code);
  }
  if (code != MYDEV_OK) [[unlikely]] {
    const CommandRecord command = make_command();
    detail::raise_driver_error(stream.device(), code,
                               describe_transfer({command.name, command.dst, command.src, command.bytes, ""}).c_str());
  }
}

mydev_buffer bytes_at(void* data, const int64_t& bytes) {
  static constexpr int64_t kStride = 1;
  return {.data = data, .sizes = &bytes, .strides = &kStride, .rank = 1, .dtype = MYDEV_U8};
}

// Hands a copy to the stream's capture.
void capture_copy(Stream& stream, const mydev_buffer& dst, const mydev_buffer& src, mydev_copy_kind kind) {
  if (kind != MYDEV_COPY_DEVICE_TO_DEVICE) raise_not_captured(stream, copy_name(kind));
  stream.capture()->copy(stream, dst, src);
}

}  // namespace

void copy_bytes(Stream& stream, void* dst, const void* src, uint64_t bytes, mydev_copy_kind kind) {
  if (bytes == 0) return;
  if (stream.capture() != nullptr) [[unlikely]] {
    const auto count = static_cast<int64_t>(bytes);
    return capture_copy(stream, bytes_at(dst, count), bytes_at(const_cast<void*>(src), count), kind);
  }
  const auto command = [&] {
    return CommandRecord{
        .kind = CommandKind::kCopy, .name = copy_name(kind), .stream = &stream, .dst = dst, .src = src, .bytes = bytes};
  };
  submit(stream, command, [&] { return stream.device().driver->copy(stream.handle(), dst, src, bytes, kind); });
}

bool copy_views(Stream& stream, const mydev_buffer& dst, const mydev_buffer& src, mydev_copy_kind kind) {
  const uint64_t bytes = bytes_of(dst);
  if (bytes == 0) return true;
  if (stream.capture() != nullptr) [[unlikely]] {
    capture_copy(stream, dst, src, kind);
    return true;
  }
  const auto command = [&] {
    return CommandRecord{.kind = CommandKind::kCopy,
                         .name = copy_name(kind),
                         .stream = &stream,
                         .dst = dst.data,
                         .src = src.data,
                         .bytes = bytes};
  };
  bool taken = true;
  submit(stream, command, [&] {
    const mydev_code code = stream.device().driver->copy_strided(stream.handle(), &dst, &src, kind);
    taken = code != MYDEV_UNIMPLEMENTED;
    return taken ? code : MYDEV_OK;
  });
  return taken;
}

void copy_to_peer(Stream& stream, void* dst, const Device& dst_device, const void* src, uint64_t bytes) {
  if (bytes == 0) return;
  if (stream.capture() != nullptr) [[unlikely]]
    raise_not_captured(stream, "copy between devices");
  const auto command = [&] {
    return CommandRecord{.kind = CommandKind::kCopy,
                         .name = "copy between devices",
                         .stream = &stream,
                         .dst = dst,
                         .src = src,
                         .bytes = bytes};
  };
  submit(stream, command, [&] {
    return stream.device().driver->copy_peer(stream.handle(), dst, dst_device.index, src, stream.device().index, bytes);
  });
}

bool give_collective(Stream& stream, const char* name, void* dst, const void* src, uint64_t bytes,
                     const std::function<mydev_code()>& give_to_driver) {
  if (stream.capture() != nullptr) [[unlikely]]
    raise_not_captured(stream, name);
  const auto command = [&] {
    return CommandRecord{
        .kind = CommandKind::kCopy, .name = name, .stream = &stream, .dst = dst, .src = src, .bytes = bytes};
  };
  bool taken = true;
  submit(stream, command, [&] {
    const mydev_code code = give_to_driver();
    taken = code != MYDEV_UNIMPLEMENTED;
    return taken ? code : MYDEV_OK;
  });
  return taken;
}

void fill_bytes(Stream& stream, void* dst, uint64_t bytes, const void* pattern, uint32_t pattern_bytes) {
  if (bytes == 0) return;
  if (Capture* capture = stream.capture()) [[unlikely]] {
    return capture->fill(stream, dst, bytes, pattern, pattern_bytes);
  }
  const auto command = [&] {
    return CommandRecord{.kind = CommandKind::kFill, .name = "fill", .stream = &stream, .dst = dst, .bytes = bytes};
  };
  submit(stream, command,
         [&] { return stream.device().driver->fill(stream.handle(), dst, bytes, pattern, pattern_bytes); });
}

}  // namespace mydev
