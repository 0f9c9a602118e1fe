#include "distributed/captured_work.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <span>
#include <utility>

#include "aten/core/device_type.h"
#include "aten/launch/buffer.h"
#include "distributed/stages.h"
#include "runtime/stream/capture.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

using Future = c10::ivalue::Future;

namespace {

std::vector<mydev_buffer> buffers_of(const std::string& name, const std::vector<at::Tensor>& tensors) {
  std::vector<mydev_buffer> buffers;
  for (const at::Tensor& tensor : tensors) {
    TORCH_CHECK(has_frame_type(tensor), name, ": a tensor of ", tensor.scalar_type(),
                " cannot be captured, since kernels do not have this type; pass a view as another type");
    TORCH_CHECK(!tensor.is_conj() && !tensor.is_neg() && !tensor._is_zerotensor(), name, ": a tensor of ",
                tensor.scalar_type(),
                " whose values are not those in its memory cannot be captured; pass tensor.clone()");
    buffers.push_back(buffer_of(tensor));
  }
  return buffers;
}

// A tensor over memory that a replay keeps alive.
at::Tensor tensor_of(const mydev_buffer& buffer, const c10::Device& device) {
  const auto rank = static_cast<size_t>(buffer.rank);
  return at::from_blob(
      buffer.data, {buffer.sizes, rank}, {buffer.strides, rank}, [](void*) {},
      at::TensorOptions(device).dtype(to_scalar_type(buffer.dtype)), device);
}

}  // namespace

CapturedWork::CapturedWork(int rank, c10d::OpType type, std::string name, Stream& stream, Tensors outputs,
                           Tensors inputs, Reissue reissue)
    : Work(rank, type),
      name_(std::move(name)),
      device_(stream.device().index),
      outputs_(std::move(outputs)),
      inputs_(std::move(inputs)) {
  // The outputs come twice: as what is written and as what is read.
  const auto count = static_cast<std::ptrdiff_t>(outputs_.size());
  record(stream, name_, [reissue = std::move(reissue), replayed = replayed_, count](const Tensors& tensors) {
    *replayed = reissue({tensors.begin(), tensors.begin() + count}, {tensors.begin() + 2 * count, tensors.end()});
  });
}

void CapturedWork::record(Stream& stream, const std::string& name, std::function<void(const Tensors&)> function) const {
  const std::vector<mydev_buffer> written = buffers_of(name_, outputs_);
  std::vector<mydev_buffer> read = written;
  for (const mydev_buffer& buffer : buffers_of(name_, inputs_)) read.push_back(buffer);
  auto step = [function = std::move(function)](Stream& on, std::span<const mydev_buffer> buffers) {
    const StreamScope scope(on);
    const c10::Device device = torch_device(on.device().index);
    Tensors tensors;
    for (const mydev_buffer& buffer : buffers) tensors.push_back(tensor_of(buffer, device));
    function(tensors);
  };
  stream.capture()->collective(stream, name, written, read, std::move(step));
}

bool CapturedWork::wait(std::chrono::milliseconds /*timeout*/) {
  Stream& stream = current_stream(device_);
  if (std::ranges::find(waiting_, &stream) != waiting_.end()) return true;
  TORCH_CHECK(stream.capture() != nullptr, "waiting for ", name_, ", which a graph has captured: it has not run, and ",
              "stream ", stream.id(), " of ", torch_device(device_), " does not capture; wait in the capture");
  record(stream, "wait for " + name_, [replayed = replayed_](const Tensors& /*tensors*/) {
    if (*replayed != nullptr) (*replayed)->wait();
  });
  waiting_.push_back(&stream);
  inputs_.clear();
  return true;
}

c10::intrusive_ptr<Future> CapturedWork::getFuture() {
  wait(kNoTimeout);
  auto future =
      c10::make_intrusive<Future>(c10::ListType::create(c10::TensorType::get()), std::vector{torch_device(device_)});
  future->markCompleted(outputs_);
  return future;
}

bool CapturedWork::isCompleted() {
  raise_not_captured(current_stream(device_), ("asking whether " + name_ + " is done").c_str());
}

}  // namespace mydev
