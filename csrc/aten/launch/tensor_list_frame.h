// Frames over lists of tensors, for kernels that update many tensors in one launch.
#pragma once

#include <initializer_list>

#include "aten/launch/native_launch.h"
#include "runtime/stream/stream_table.h"

namespace mydev {

// Collects operands and attributes of any number. Sizes and strides are borrowed: the tensors must stay alive.
class ListFrame {
 public:
  void add(const at::Tensor& tensor) {
    buffers_.push_back(input_buffer_of(tensor));
    tensors_.push_back(tensor.unsafeGetTensorImpl());
  }
  void add(at::TensorList list) {
    for (const at::Tensor& tensor : list) add(tensor);
  }
  void add_absent(size_t count = 1) {
    buffers_.resize(buffers_.size() + count, absent_buffer(MYDEV_F32));
    tensors_.resize(buffers_.size(), nullptr);
  }
  void launch(const Launchable& kernel, size_t num_outputs, std::span<const mydev_attribute> attributes,
              const at::Device& device) {
    make_writable({buffers_.data(), buffers_.size()}, num_outputs, tensors_.data());
    launch_on(kernel, {buffers_.data(), buffers_.size()}, static_cast<uint32_t>(num_outputs), attributes,
              current_stream(device.index()));
  }

 private:
  c10::SmallVector<mydev_buffer, 32> buffers_;
  c10::SmallVector<c10::TensorImpl*, 32> tensors_;  // nullptr for absent ones
};

// Whether corresponding elements of the two lie at corresponding places of dense memory.
inline bool laid_out_alike(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() &&
         ((a.is_contiguous() && b.is_contiguous()) || (a.strides() == b.strides() && a.is_non_overlapping_and_dense()));
}

// Whether `list` corresponds to `model`, tensor by tensor: one device, one layout; one dtype in itself.
inline bool corresponds(at::TensorList list, at::TensorList model) {
  if (list.size() != model.size()) return false;
  for (size_t i = 0; i < list.size(); ++i) {
    if (!on_device(list[i]) || list[i].device() != model[0].device() || !laid_out_alike(list[i], model[i]) ||
        list[i].scalar_type() != list[0].scalar_type()) {
      return false;
    }
  }
  return true;
}

// Whether one launch gives the same results as one kernel per position of the lists, one after the other. Threads of
// the launch share the lists' elements among them. `written` and `read` are lists of corresponding tensors; `scalar`,
// if any, is read at each position. If it is false, the CPU's kernel decides: it refuses operands of one position that
// overlap partly, and goes through positions that share memory in order.
bool are_independent(std::initializer_list<at::TensorList> written, c10::ArrayRef<at::TensorList> read,
                     const at::Tensor* scalar = nullptr);

}  // namespace mydev
