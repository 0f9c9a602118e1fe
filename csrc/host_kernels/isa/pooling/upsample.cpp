// Kernel group upsample: interpolation of [N, C, D, H, W], of which D and H may be missing, by the nearest element and
// linearly along each dimension; and the gradients. A gradient gathers for each element from the positions that it went
// to, so that no two threads write one element.
//
// Any strides. If channels lie side by side (channels last), loops go along channels, else along W. f16 and bf16 are
// computed in float. Positions and weights along each dimension are tables, made once, in scratch.
#include <algorithm>
#include <cmath>

#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int kAxes = 3;

// One dimension: `in` positions become `out`. Position i is first[i] with a weight, and second[i] with another. The
// positions that element j goes to are some of [begin[j], end[j]).
template <typename C>
struct Axis {
  int64_t in = 1, out = 1;
  double step = 1;
  int64_t *first, *second, *begin, *end;
  C *first_weight, *second_weight;

  C weight(int64_t position, int64_t element) const {
    return (first[position] == element ? first_weight[position] : C{0}) +
           (second[position] == element ? second_weight[position] : C{0});
  }
};

struct Options {
  bool linear, flag;  // flag: exact, or align_corners
};

int64_t floor_within(double x, int64_t size) {
  if (x >= static_cast<double>(size - 1)) return size - 1;
  return x > 0 ? static_cast<int64_t>(x) : 0;
}

// Positions are computed in float but for f64, as PyTorch's are on the CPU.
template <typename C>
void set_position(Axis<C>& axis, int64_t i, const Options& options) {
  const C step = static_cast<C>(axis.step), at = static_cast<C>(i);
  int64_t first, second;
  C distance = 0;
  if (options.linear) {
    const C x = axis.in == axis.out ? at : options.flag ? at * step : std::max((at + C{0.5}) * step - C{0.5}, C{0});
    first = floor_within(x, axis.in);
    second = std::min(first + 1, axis.in - 1);
    distance = std::min(std::max(x - static_cast<C>(first), C{0}), C{1});
  } else {
    first = second = floor_within(options.flag ? (at + C{0.5}) * step : at * step, axis.in);
  }
  axis.first[i] = first;
  axis.second[i] = second;
  axis.first_weight[i] = 1 - distance;
  axis.second_weight[i] = distance;
}

template <typename C>
struct Problem {
  int64_t samples, channels;
  Axis<C> axes[kAxes];
  Options options;
  // Strides of the upsampled image and of the other: sample, channel, D, H, W.
  int64_t fine[2 + kAxes], coarse[2 + kAxes];
  char *fine_data, *coarse_data;

  bool along_channels() const { return channels > 1 && fine[1] == 1 && coarse[1] == 1; }
};

// Whether the operands are images, a step for each dimension.
bool is_valid(const mydev_frame* frame) {
  const mydev_buffer &a = frame->buffers[0], &b = frame->buffers[1];
  return a.rank >= 3 && a.rank <= 2 + kAxes && b.rank == a.rank && a.sizes[0] == b.sizes[0] &&
         a.sizes[1] == b.sizes[1] && frame->num_attributes == 2 &&
         frame->attributes[0].kind == MYDEV_ATTRIBUTE_FLOAT_ARRAY &&
         frame->attributes[0].count == static_cast<uint32_t>(a.rank - 2);
}

uint64_t table_bytes(const mydev_frame* frame) {
  uint64_t bytes = 0;
  for (const mydev_buffer* buffer : {&frame->buffers[0], &frame->buffers[1]}) {
    for (int d = 2; d < buffer->rank; ++d) bytes += static_cast<uint64_t>(buffer->sizes[d]);
  }
  return (bytes + 2 * kAxes) * (4 * sizeof(int64_t) + 2 * sizeof(double));
}

void set_strides(const mydev_buffer& buffer, int64_t (&strides)[2 + kAxes]) {
  strides[0] = buffer.strides[0];
  strides[1] = buffer.strides[1];
  for (int d = 0; d < kAxes; ++d) {
    const int from = d + buffer.rank - kAxes;
    strides[2 + d] = from >= 2 ? buffer.strides[from] : 0;
  }
}

template <typename C>
Problem<C> problem_of(const mydev_frame* frame, const mydev_buffer& fine, const mydev_buffer& coarse, bool linear) {
  Problem<C> p{fine.sizes[0], fine.sizes[1], {}, {linear, frame->attributes[1].value.i != 0}, {}, {}, {}, {}};
  set_strides(fine, p.fine);
  set_strides(coarse, p.coarse);
  p.fine_data = static_cast<char*>(fine.data);
  p.coarse_data = static_cast<char*>(coarse.data);
  char* table = static_cast<char*>(frame->scratch);
  const auto take = [&]<typename V>(V*& values, int64_t count) {
    values = reinterpret_cast<V*>(table);
    table += static_cast<size_t>(count) * 8;
  };
  for (int d = 0; d < kAxes; ++d) {
    Axis<C>& axis = p.axes[d];
    const int from = d + fine.rank - kAxes;
    if (from >= 2) {
      axis.in = coarse.sizes[from];
      axis.out = fine.sizes[from];
      axis.step = frame->attributes[0].value.floats[from - 2];
    }
    take(axis.first, axis.out);
    take(axis.second, axis.out);
    take(axis.first_weight, axis.out);
    take(axis.second_weight, axis.out);
    take(axis.begin, axis.in);
    take(axis.end, axis.in);
    std::fill(axis.begin, axis.begin + axis.in, axis.out);
    std::fill(axis.end, axis.end + axis.in, int64_t{0});
    for (int64_t i = 0; i < axis.out; ++i) {
      set_position(axis, i, p.options);
      for (const int64_t element : {axis.first[i], axis.second[i]}) {
        axis.begin[element] = std::min(axis.begin[element], i);
        axis.end[element] = i + 1;
      }
    }
  }
  return p;
}

// Calls body(sample, channel, depth, height) for each row of the image whose axes have these sizes, for all channels
// at once (channel 0) where loops go along channels.
template <typename C, typename Body>
void for_each_row(const Problem<C>& p, int64_t depth, int64_t height, int64_t work, const Body& body) {
  const int64_t channels = p.along_channels() ? 1 : p.channels;
  const int64_t elements = std::max<int64_t>(work * (p.along_channels() ? p.channels : 1), 1);
  parallel_for(p.samples * channels * depth * height, std::max<int64_t>(kGrainCheap / elements, 1),
               [&](int64_t begin, int64_t end) {
                 for (int64_t row = begin; row < end; ++row) {
                   const int64_t h = row % height, d = row / height % depth, plane = row / height / depth;
                   body(plane / channels, plane % channels, d, h);
                 }
               });
}

// --- nearest ---------------------------------------------------------------------------------------------------------

template <typename T>
void copy_nearest(const Problem<float>& p) {
  const Axis<float>&depth = p.axes[0], &height = p.axes[1], &width = p.axes[2];
  const auto* in = reinterpret_cast<const T*>(p.coarse_data);
  auto* out = reinterpret_cast<T*>(p.fine_data);
  const int64_t in_step = p.coarse[4], out_step = p.fine[4];
  for_each_row(p, depth.out, height.out, width.out, [&](int64_t n, int64_t c, int64_t d, int64_t h) {
    const T* from =
        in + n * p.coarse[0] + c * p.coarse[1] + depth.first[d] * p.coarse[2] + height.first[h] * p.coarse[3];
    T* to = out + n * p.fine[0] + c * p.fine[1] + d * p.fine[2] + h * p.fine[3];
    if (p.along_channels()) {
      for (int64_t w = 0; w < width.out; ++w) {
        std::memcpy(to + w * out_step, from + width.first[w] * in_step, static_cast<size_t>(p.channels) * sizeof(T));
      }
    } else {
      for (int64_t w = 0; w < width.out; ++w) to[w * out_step] = from[width.first[w] * in_step];
    }
  });
}

// --- linear, and gradients -------------------------------------------------------------------------------------------

// out[i] (+)= weight * in[i * step]
template <typename T, typename C>
void add_line(const T* in, int64_t count, C weight, bool is_first, C* __restrict out) {
  if (is_first) {
    for (int64_t i = 0; i < count; ++i) out[i] = weight * element_cast<C>(in[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) out[i] += weight * element_cast<C>(in[i]);
  }
}
template <typename T, typename C>
void store_line(const C* __restrict from, int64_t count, T* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = element_cast<T>(from[i]);
}

// The rows between which a row of the result lies, with their weights.
template <typename T, typename C>
struct Neighbours {
  const T* rows[4];
  C weights[4];
  int count = 0;

  Neighbours(const Problem<C>& p, int64_t n, int64_t c, int64_t d, int64_t h) {
    const Axis<C>&depth = p.axes[0], &height = p.axes[1];
    const T* plane = reinterpret_cast<const T*>(p.coarse_data) + n * p.coarse[0] + c * p.coarse[1];
    for (const bool far_depth : {false, true}) {
      for (const bool far_height : {false, true}) {
        const C weight = (far_depth ? depth.second_weight[d] : depth.first_weight[d]) *
                         (far_height ? height.second_weight[h] : height.first_weight[h]);
        // A row without weight is not read, since it may be infinite. If the sizes differ it is read, as by PyTorch's
        // CPU kernel.
        if (weight == 0 && ((far_depth && depth.in == depth.out) || (far_height && height.in == height.out))) continue;
        rows[count] = plane + (far_depth ? depth.second[d] : depth.first[d]) * p.coarse[2] +
                      (far_height ? height.second[h] : height.first[h]) * p.coarse[3];
        weights[count++] = weight;
      }
    }
  }
};

template <typename T, typename C>
void interpolate(const Problem<C>& p) {
  const Axis<C>& width = p.axes[2];
  auto* out = reinterpret_cast<T*>(p.fine_data);
  const int64_t in_step = p.coarse[4], out_step = p.fine[4];
  for_each_row(p, p.axes[0].out, p.axes[1].out, 4 * width.out, [&](int64_t n, int64_t c, int64_t d, int64_t h) {
    const Neighbours<T, C> near(p, n, c, d, h);
    T* to = out + n * p.fine[0] + c * p.fine[1] + d * p.fine[2] + h * p.fine[3];
    for (int64_t w = 0; w < width.out; ++w) {
      const int64_t first = width.first[w] * in_step, second = width.second[w] * in_step;
      const C first_weight = width.first_weight[w], second_weight = width.second_weight[w];
      const bool has_second = width.in != width.out;
      if (!p.along_channels()) {
        C value = 0;
        for (int i = 0; i < near.count; ++i) {
          C along = first_weight * element_cast<C>(near.rows[i][first]);
          if (has_second) along += second_weight * element_cast<C>(near.rows[i][second]);
          value += near.weights[i] * along;
        }
        to[w * out_step] = element_cast<T>(value);
        continue;
      }
      alignas(64) C line[kChunk];
      for (int64_t at = 0; at < p.channels; at += kChunk) {
        const int64_t count = std::min(kChunk, p.channels - at);
        for (int i = 0; i < near.count; ++i) {
          add_line(near.rows[i] + first + at, count, near.weights[i] * first_weight, i == 0, line);
          if (has_second) {
            add_line(near.rows[i] + second + at, count, near.weights[i] * second_weight, false, line);
          }
        }
        store_line(line, count, to + w * out_step + at);
      }
    }
  });
}

// Calls body(row, weight) for the rows of gradients that row (d, h) of the operand went to.
template <typename T, typename C, typename Body>
void for_each_target(const Problem<C>& p, const T* plane, int64_t d, int64_t h, const Body& body) {
  const Axis<C>&depth = p.axes[0], &height = p.axes[1];
  for (int64_t i = depth.begin[d]; i < depth.end[d]; ++i) {
    const C along_depth = depth.weight(i, d);
    for (int64_t j = height.begin[h]; j < height.end[h]; ++j) {
      const C weight = along_depth * height.weight(j, h);
      if (weight != 0) body(plane + i * p.fine[2] + j * p.fine[3], weight);
    }
  }
}

template <typename T, typename C>
void gather_gradients(const Problem<C>& p) {
  const Axis<C>& width = p.axes[2];
  const auto* grad_out = reinterpret_cast<const T*>(p.fine_data);
  auto* grad_in = reinterpret_cast<T*>(p.coarse_data);
  const int64_t in_step = p.coarse[4], out_step = p.fine[4];
  const int64_t work = p.axes[0].out * p.axes[1].out * width.out / std::max<int64_t>(p.axes[0].in * p.axes[1].in, 1);
  for_each_row(p, p.axes[0].in, p.axes[1].in, 4 * work, [&](int64_t n, int64_t c, int64_t d, int64_t h) {
    const T* plane = grad_out + n * p.fine[0] + c * p.fine[1];
    T* to = grad_in + n * p.coarse[0] + c * p.coarse[1] + d * p.coarse[2] + h * p.coarse[3];
    for (int64_t w = 0; w < width.in; ++w) {
      if (!p.along_channels()) {
        C sum = 0;
        for_each_target(p, plane, d, h, [&](const T* row, C weight) {
          C along = 0;
          for (int64_t i = width.begin[w]; i < width.end[w]; ++i) {
            along += width.weight(i, w) * element_cast<C>(row[i * out_step]);
          }
          sum += weight * along;
        });
        to[w * in_step] = element_cast<T>(sum);
        continue;
      }
      alignas(64) C line[kChunk];
      for (int64_t at = 0; at < p.channels; at += kChunk) {
        const int64_t count = std::min(kChunk, p.channels - at);
        std::fill(line, line + count, C{0});
        for_each_target(p, plane, d, h, [&](const T* row, C weight) {
          for (int64_t i = width.begin[w]; i < width.end[w]; ++i) {
            add_line(row + i * out_step + at, count, weight * width.weight(i, w), false, line);
          }
        });
        store_line(line, count, to + w * in_step + at);
      }
    }
  });
}

mydev_code refuse(const mydev_frame* frame) {
  frame->host->set_error(frame, "takes images [n,c,...] of one n and c, and a step for each of 1 to 3 dimensions");
  return MYDEV_INVALID_ARGUMENT;
}

mydev_code nearest_entry(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1];
  const bool known = is_floating(out.dtype) || out.dtype == MYDEV_U8;
  if (!known || in.dtype != out.dtype) return MYDEV_UNIMPLEMENTED;
  if (!is_valid(frame)) return refuse(frame);
  // Positions of f64 are computed in double; elements are copied as bits.
  Problem<float> p = problem_of<float>(frame, out, in, /*linear=*/false);
  if (out.dtype == MYDEV_F64) {
    const Problem<double> wide = problem_of<double>(frame, out, in, /*linear=*/false);
    for (int d = 0; d < kAxes; ++d) p.axes[d].first = wide.axes[d].first;
  }
  switch (dtype_row(out.dtype).size) {
    case 1:
      copy_nearest<uint8_t>(p);
      break;
    case 2:
      copy_nearest<uint16_t>(p);
      break;
    case 4:
      copy_nearest<uint32_t>(p);
      break;
    default:
      copy_nearest<uint64_t>(p);
      break;
  }
  return MYDEV_OK;
}

mydev_code linear_entry(const mydev_frame* frame) {
  if (frame->buffers[0].dtype != frame->buffers[1].dtype) return MYDEV_UNIMPLEMENTED;
  return visit_floating_type(frame->buffers[0].dtype, [&]<typename T, typename C>() -> mydev_code {
    if (!is_valid(frame)) return refuse(frame);
    interpolate<T>(problem_of<C>(frame, frame->buffers[0], frame->buffers[1], /*linear=*/true));
    return MYDEV_OK;
  });
}

template <bool kLinear>
mydev_code backward_entry(const mydev_frame* frame) {
  if (frame->buffers[0].dtype != frame->buffers[1].dtype) return MYDEV_UNIMPLEMENTED;
  return visit_floating_type(frame->buffers[0].dtype, [&]<typename T, typename C>() -> mydev_code {
    if (!is_valid(frame)) return refuse(frame);
    gather_gradients<T>(problem_of<C>(frame, frame->buffers[1], frame->buffers[0], kLinear));
    return MYDEV_OK;
  });
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.upsample_nearest", nearest_entry, table_bytes),
    kernel_record("mydev.upsample_nearest_backward", backward_entry<false>, table_bytes),
    kernel_record("mydev.upsample_linear", linear_entry, table_bytes),
    kernel_record("mydev.upsample_linear_backward", backward_entry<true>, table_bytes),
};

}  // namespace

std::span<const mydev_kernel> upsample() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
