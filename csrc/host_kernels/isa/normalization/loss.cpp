// Kernel group loss: negative log likelihood, mean squared error, binary cross entropy.
//
// Sums are taken in double, in an order that the shape alone decides.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "host_kernels/isa/simd/tensor_list.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

enum Reduction : int64_t { kNone = 0, kMean = 1, kSum = 2 };

// `target` is the one operand of another type.
template <template <typename> class Loss, uint32_t target>
mydev_code for_float_type(const mydev_frame* frame) {
  const int32_t dtype = frame->buffers[0].dtype;
  if (frame->buffers[target].dtype != MYDEV_S64 || !have_dtype(frame, 1, target, dtype) ||
      !have_dtype(frame, target + 1, 5, dtype)) {
    return MYDEV_UNIMPLEMENTED;
  }
  return visit_floating_type(dtype, [&]<typename T, typename> { return Loss<T>::run(frame); });
}

template <typename T>
double value_of(const mydev_buffer& buffer, int64_t offset) {
  return element_cast<double>(static_cast<const T*>(buffer.data)[offset]);
}
template <typename T>
void set_value(const mydev_buffer& buffer, int64_t offset, double value) {
  static_cast<T*>(buffer.data)[offset] = element_cast<T>(value);
}

mydev_code refuse_target(const mydev_frame* frame, int64_t target) {
  char message[64];
  std::snprintf(message, sizeof(message), "Target %lld is out of bounds.", static_cast<long long>(target));
  frame->host->set_error(frame, message);
  return MYDEV_OUT_OF_RANGE;
}

// --- negative log likelihood ---------------------------------------------------------------------------------------

struct Targets {
  const mydev_buffer& buffer;
  int64_t classes, ignored;
  int64_t at(int64_t n, int64_t s) const {
    return static_cast<const int64_t*>(buffer.data)[n * buffer.strides[0] + s * buffer.strides[1]];
  }
  // The first target that names no class, or `ignored`.
  int64_t find_bad() const {
    for (int64_t n = 0; n < buffer.sizes[0]; ++n) {
      for (int64_t s = 0; s < buffer.sizes[1]; ++s) {
        const int64_t t = at(n, s);
        if (t != ignored && (t < 0 || t >= classes)) return t;
      }
    }
    return ignored;
  }
};

template <typename T>
struct NllLoss {
  static mydev_code run(const mydev_frame* frame) {
    const mydev_buffer &out = frame->buffers[0], &total_weight = frame->buffers[1], &in = frame->buffers[2],
                       &weight = frame->buffers[4];
    const int64_t reduction = frame->attributes[0].value.i;
    const Targets targets{frame->buffers[3], in.sizes[1], frame->attributes[1].value.i};
    if (const int64_t bad = targets.find_bad(); bad != targets.ignored) return refuse_target(frame, bad);
    double sum = 0, weights = 0;
    for (int64_t n = 0; n < in.sizes[0]; ++n) {
      for (int64_t s = 0; s < in.sizes[2]; ++s) {
        const int64_t t = targets.at(n, s);
        double w = 0, loss = 0;
        if (t != targets.ignored) {
          w = weight.data == nullptr ? 1 : value_of<T>(weight, t * weight.strides[0]);
          loss = -w * value_of<T>(in, n * in.strides[0] + t * in.strides[1] + s * in.strides[2]);
        }
        if (reduction == kNone) {
          set_value<T>(out, n * out.strides[0] + s * out.strides[1], loss);
        } else {
          sum += loss;
          weights += w;
        }
      }
    }
    if (reduction != kNone) set_value<T>(out, 0, reduction == kMean ? sum / weights : sum);
    set_value<T>(total_weight, 0, weights);
    return MYDEV_OK;
  }
};

template <typename T>
struct NllLossBackward {
  static mydev_code run(const mydev_frame* frame) {
    const mydev_buffer &grad_in = frame->buffers[0], &grad_out = frame->buffers[1], &weight = frame->buffers[3],
                       &total_weight = frame->buffers[4];
    const int64_t reduction = frame->attributes[0].value.i;
    const int64_t classes = grad_in.sizes[1], places = grad_in.sizes[2];
    const Targets targets{frame->buffers[2], classes, frame->attributes[1].value.i};
    if (const int64_t bad = targets.find_bad(); bad != targets.ignored) return refuse_target(frame, bad);
    const double divisor = reduction == kMean ? value_of<T>(total_weight, 0) : 1;
    const int64_t per_sample = classes * places;
    parallel_for(grad_in.sizes[0], std::max<int64_t>(kGrainCheap / std::max<int64_t>(per_sample, 1), 1),
                 [&](int64_t begin, int64_t end) {
                   T* grads = static_cast<T*>(grad_in.data);
                   std::memset(static_cast<void*>(grads + begin * per_sample), 0,
                               static_cast<size_t>((end - begin) * per_sample) * sizeof(T));
                   for (int64_t n = begin; n < end; ++n) {
                     for (int64_t s = 0; s < places; ++s) {
                       const int64_t t = targets.at(n, s);
                       if (t == targets.ignored) continue;
                       const double w = weight.data == nullptr ? 1 : value_of<T>(weight, t * weight.strides[0]);
                       const int64_t place = reduction == kNone ? n * grad_out.strides[0] + s * grad_out.strides[1] : 0;
                       set_value<T>(grad_in, n * per_sample + t * places + s,
                                    -w * value_of<T>(grad_out, place) / divisor);
                     }
                   }
                 });
    return MYDEV_OK;
  }
};

// --- elementwise losses: value and derivative of one element -------------------------------------------------------

struct SquaredError {
  template <typename C>
  static bool valid(C) {  // every input and target has a loss
    return true;
  }
  template <typename C>
  static C value(C x, C t) {
    return (x - t) * (x - t);
  }
  template <typename C>
  static C derivative(C x, C t) {
    return 2 * (x - t);
  }
};

struct BinaryCrossEntropy {  // logarithms are bounded by -100, so that 0 and 1 have a finite loss
  template <typename C>
  static bool valid(C x) {
    return x >= 0 && x <= 1;
  }
  template <typename C>
  static C value(C x, C t) {
    return (t - 1) * std::max(std::log1p(-x), C{-100}) - t * std::max(std::log(x), C{-100});
  }
  template <typename C>
  static C derivative(C x, C t) {
    return (x - t) / std::max((1 - x) * x, C(1e-12));
  }
};

// The dense operand's elements [at, at + n), or nullptr for an absent operand.
template <typename C>
const C* read_operand(const mydev_buffer& buffer, int64_t at, int64_t n, C* space) {
  if (buffer.data == nullptr) return nullptr;
  const ChunkReader<C> reader(buffer.dtype);
  return reader.read(static_cast<const char*>(buffer.data) + at * reader.element_bytes(), 1, n, space);
}

template <typename Loss, typename C>
mydev_code loss_as(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1], &target = frame->buffers[2];
  const mydev_buffer absent{};
  const mydev_buffer& weight = frame->num_inputs > 2 ? frame->buffers[3] : absent;
  const int64_t reduction = frame->attributes[0].value.i, count = element_count(in);
  const ChunkWriter<C> writer(out.dtype);
  if (!writer.supported() || !ChunkReader<C>(in.dtype).supported()) return MYDEV_UNIMPLEMENTED;
  double* partial = static_cast<double*>(frame->scratch);
  std::atomic<bool> wrong_input{false}, wrong_target{false};  // read after all threads are joined
  for_each_piece(&in, 1, [&](int64_t, int64_t piece, int64_t begin, int64_t elements) {
    alignas(64) C spaces[3][kChunk], losses[kChunk];
    double total = 0;
    for (int64_t at = begin; at < begin + elements; at += kChunk) {
      const int64_t n = std::min(kChunk, begin + elements - at);
      const C* x = read_operand(in, at, n, spaces[0]);
      const C* t = read_operand(target, at, n, spaces[1]);
      const C* w = read_operand(weight, at, n, spaces[2]);
      for (int64_t i = 0; i < n; ++i) {
        if (!Loss::valid(x[i])) wrong_input.store(true, std::memory_order_relaxed);
        if (!Loss::valid(t[i])) wrong_target.store(true, std::memory_order_relaxed);
        losses[i] = Loss::value(x[i], t[i]);
      }
      if (w != nullptr) {
        for (int64_t i = 0; i < n; ++i) losses[i] *= w[i];
      }
      if (reduction == kNone) {
        writer.write(losses, static_cast<char*>(out.data) + at * writer.element_bytes(), 1, n);
      } else {
        total += sum_of(losses, n);
      }
    }
    partial[piece] = total;
  });
  const bool input_is_wrong = wrong_input.load(std::memory_order_relaxed);
  if (input_is_wrong || wrong_target.load(std::memory_order_relaxed)) {
    frame->host->set_error(frame, input_is_wrong ? "all elements of input should be between 0 and 1"
                                                 : "all elements of target should be between 0 and 1");
    return MYDEV_INVALID_ARGUMENT;
  }
  if (reduction != kNone) {
    double total = 0;
    for (int64_t piece = 0; piece < piece_count(in); ++piece) total += partial[piece];
    if (reduction == kMean) total /= static_cast<double>(count);
    ChunkWriter<double>(out.dtype).write(&total, static_cast<char*>(out.data), 0, 1);
  }
  return MYDEV_OK;
}

template <typename Loss, typename C>
mydev_code loss_backward_as(const mydev_frame* frame) {
  const mydev_buffer &grad_in = frame->buffers[0], &grad_out = frame->buffers[1], &in = frame->buffers[2],
                     &target = frame->buffers[3];
  const mydev_buffer absent{};
  const mydev_buffer& weight = frame->num_inputs > 3 ? frame->buffers[4] : absent;
  const int64_t reduction = frame->attributes[0].value.i, count = element_count(grad_in);
  const ChunkWriter<C> writer(grad_in.dtype);
  const ChunkReader<C> grad_reader(grad_out.dtype);
  if (!writer.supported() || !grad_reader.supported() || !ChunkReader<C>(in.dtype).supported()) {
    return MYDEV_UNIMPLEMENTED;
  }
  const C divisor = reduction == kMean ? static_cast<C>(count) : C{1};
  const int64_t step = reduction == kNone ? 1 : 0;
  parallel_for(count, kGrainCheap, [&](int64_t begin, int64_t end) {
    alignas(64) C spaces[4][kChunk], grads[kChunk];
    for (int64_t at = begin; at < end; at += kChunk) {
      const int64_t n = std::min(kChunk, end - at);
      const C* g = grad_reader.read(static_cast<const char*>(grad_out.data) + at * step * grad_reader.element_bytes(),
                                    step, n, spaces[0]);
      const C* x = read_operand(in, at, n, spaces[1]);
      const C* t = read_operand(target, at, n, spaces[2]);
      const C* w = read_operand(weight, at, n, spaces[3]);
      for (int64_t i = 0; i < n; ++i) grads[i] = Loss::derivative(x[i], t[i]) * g[i] / divisor;
      if (w != nullptr) {
        for (int64_t i = 0; i < n; ++i) grads[i] *= w[i];
      }
      writer.write(grads, static_cast<char*>(grad_in.data) + at * writer.element_bytes(), 1, n);
    }
  });
  return MYDEV_OK;
}

template <typename Loss>
mydev_code loss_entry(const mydev_frame* frame) {
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  if (frame->buffers[0].dtype == MYDEV_F64) return loss_as<Loss, double>(frame);
  return loss_as<Loss, float>(frame);
}

template <typename Loss>
mydev_code loss_backward_entry(const mydev_frame* frame) {
  if (!have_one_floating_dtype(frame)) return MYDEV_UNIMPLEMENTED;
  if (frame->buffers[0].dtype == MYDEV_F64) return loss_backward_as<Loss, double>(frame);
  return loss_backward_as<Loss, float>(frame);
}

uint64_t loss_scratch(const mydev_frame* frame) {
  return static_cast<uint64_t>(piece_count(frame->buffers[1])) * sizeof(double);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.nll_loss", for_float_type<NllLoss, 3>),
    kernel_record("mydev.nll_loss_backward", for_float_type<NllLossBackward, 2>),
    kernel_record("mydev.mse_loss", loss_entry<SquaredError>, loss_scratch),
    kernel_record("mydev.mse_loss_backward", loss_backward_entry<SquaredError>),
    kernel_record("mydev.bce_loss", loss_entry<BinaryCrossEntropy>, loss_scratch),
    kernel_record("mydev.bce_loss_backward", loss_backward_entry<BinaryCrossEntropy>),
};

}  // namespace

std::span<const mydev_kernel> loss() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
