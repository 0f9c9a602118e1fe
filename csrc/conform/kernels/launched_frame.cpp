#include "conform/kernels/launched_frame.h"

#include <cstring>
#include <utility>

#include "conform/kernels/expected.h"
#include "kernels/launch/kernel_launch.h"
#include "runtime/base/status.h"
#include "runtime/memory/caching_allocator.h"

namespace mydev::conform {

namespace {

// Device memory with the content of an image.
class DeviceImage {
 public:
  DeviceImage(Stream& stream, const std::vector<unsigned char>& image)
      : stream_(stream), block_(image.empty() ? nullptr : allocate(stream, image.size())), bytes_(image.size()) {
    if (block_ == nullptr) return;
    copy(block_->data, image.data(), MYDEV_COPY_HOST_TO_DEVICE, "uploading an operand");
  }
  ~DeviceImage() {
    if (block_ != nullptr) release(*block_);
  }
  DeviceImage(const DeviceImage&) = delete;
  DeviceImage(DeviceImage&& other) noexcept
      : stream_(other.stream_), block_(std::exchange(other.block_, nullptr)), bytes_(other.bytes_) {}

  unsigned char* data() const { return block_ == nullptr ? nullptr : static_cast<unsigned char*>(block_->data); }
  void download(std::vector<unsigned char>& to) const {
    to.resize(bytes_);
    if (block_ != nullptr) copy(to.data(), block_->data, MYDEV_COPY_DEVICE_TO_HOST, "downloading an operand");
  }

 private:
  void copy(void* to, const void* from, mydev_copy_kind kind, const char* what) const {
    check_driver(stream_.device(), stream_.device().driver->copy(stream_.handle(), to, from, bytes_, kind), what);
  }

  Stream& stream_;
  Block* block_;
  size_t bytes_;
};

void launch_and_wait(const Launchable& kernel, mydev_frame& frame, Stream& stream, LaunchedFrame& launched) {
  try {
    launch_kernel(kernel, frame, stream);
    stream.synchronize();
  } catch (const KernelDeclined& declined) {
    launched.end = LaunchedFrame::End::kDeclined;
    launched.why = declined.what();
  } catch (const Error& error) {
    launched.end = LaunchedFrame::End::kFailed;
    launched.why = error.what();
  }
}

// Returns the text of an index, "[0,2]"; "" if there are no dimensions.
std::string index_text(const Sizes& sizes, size_t index) {
  Sizes position = sizes;
  for (size_t d = sizes.size(); d-- > 0;) {
    position[d] = static_cast<int64_t>(index) % sizes[d];
    index /= static_cast<size_t>(sizes[d]);
  }
  std::string text;
  for (const int64_t at : position) text.append(text.empty() ? "[" : ",").append(std::to_string(at));
  return text.empty() ? text : text + "]";
}

// Describes the first element of a result that is not as expected; marks the bytes that the kernel may have written.
std::string wrong_element(const Operand& result, const std::vector<unsigned char>& image,
                          const ExpectedResult& expected, std::vector<bool>& written) {
  Operand places = result;
  places.sizes = result.places();
  std::string wrong;
  const size_t bytes = result.element_size();
  for (size_t place = 0; place < expected.defined.size(); ++place) {
    const size_t at = places.byte_of(place);
    for (size_t i = 0; i < bytes; ++i) written[at + i] = true;
    const unsigned char* wanted = expected.elements.data() + place * bytes;
    if (!wrong.empty() || !expected.defined[place] || is_near(result.dtype, image.data() + at, wanted)) continue;
    const bool untouched = std::string(bytes, static_cast<char>(Operand::kPattern)) ==
                           std::string(reinterpret_cast<const char*>(image.data() + at), bytes);
    wrong = result.name() + index_text(places.sizes, place) + " is " +
            (untouched && result.alias < 0 ? "not written" : element_text(result.dtype, image.data() + at)) +
            ", expected " + element_text(result.dtype, wanted);
  }
  return wrong;
}

// Describes the first write that is to no element of a result; "" if there is none.
std::string stray_write(const Operand& operand, const std::vector<unsigned char>& image,
                        const std::vector<bool>& written) {
  for (size_t i = 0; i < image.size(); ++i) {
    if (written[i] || image[i] == operand.image[i]) continue;
    const auto from_first = static_cast<int64_t>(i) - static_cast<int64_t>(operand.first_byte());
    const std::string where = std::to_string(from_first) + " bytes from its first element";
    return operand.is_result ? "memory beside the elements of result '" + operand.name() + "' was written, " + where
                             : "operand '" + operand.name() + "' was written, " + where;
  }
  return "";
}

}  // namespace

LaunchedFrame launch_frame(const Launchable& kernel, ContractFrame& frame, Stream& stream) {
  LaunchedFrame launched;
  std::vector<DeviceImage> images;
  images.reserve(frame.operands().size());
  std::vector<unsigned char*> memories;
  for (const Operand& operand : frame.operands()) {
    images.emplace_back(stream, operand.image);
    memories.push_back(images.back().data());
  }
  stream.synchronize();
  mydev_frame call = frame.prepare(memories);
  launch_and_wait(kernel, call, stream, launched);
  if (launched.end != LaunchedFrame::End::kDone) return launched;
  for (const DeviceImage& image : images) image.download(launched.images.emplace_back());
  stream.synchronize();
  return launched;
}

std::string mismatch(const ContractFrame& frame, const LaunchedFrame& launched, const Expected& expected) {
  std::vector<std::vector<bool>> written;
  written.reserve(launched.images.size());
  for (const auto& image : launched.images) written.emplace_back(image.size());
  for (size_t i = 0; i < frame.num_results(); ++i) {
    const Operand& result = frame.operands()[i];
    if (result.absent) continue;
    const size_t memory = result.alias < 0 ? i : static_cast<size_t>(result.alias);
    std::string wrong = wrong_element(result, launched.images[memory], expected.results[i], written[memory]);
    if (!wrong.empty()) return wrong;
  }
  for (size_t i = 0; i < frame.operands().size(); ++i) {
    std::string stray = stray_write(frame.operands()[i], launched.images[i], written[i]);
    if (!stray.empty()) return stray;
  }
  return "";
}

}  // namespace mydev::conform
