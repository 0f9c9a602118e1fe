// Kernel group group_norm: over [N, G, D, S], groups of D channels with S places each.
//
// f16, bf16 and f32 are computed in float. Statistics take two passes, sums in double. A task is a block of whole
// groups of one sample. If the channels of a place lie side by side (channels last), a task reads runs of channels and
// keeps a sum for each; else it reads along the places of one channel.
#include <algorithm>
#include <cmath>

#include "host_kernels/isa/simd/dense_values.h"
#include "host_kernels/isa/simd/element_chunk.h"
#include "runtime/base/parallel.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int64_t kBlockChannels = 64;  // of a task, at least, where groups are smaller

// [N, G, D, S] of any strides, or absent.
template <typename C>
class Image {
 public:
  explicit Image(const mydev_buffer& buffer) : buffer_(buffer), reader_(buffer.dtype), writer_(buffer.dtype) {}
  bool supported() const { return !present() || reader_.supported(); }
  bool present() const { return buffer_.data != nullptr; }
  bool has_channels_side_by_side() const {
    return !present() || ((buffer_.sizes[2] == 1 || buffer_.strides[2] == 1) &&
                          (buffer_.sizes[1] == 1 || buffer_.strides[1] == buffer_.sizes[2]));
  }
  // `count` values from a place of a channel on, along channels or along places.
  const C* read(int64_t sample, int64_t channel, int64_t place, bool along_channels, int64_t count, C* space) const {
    return reader_.read(address(sample, channel, place), along_channels ? 1 : buffer_.strides[3], count, space);
  }
  C* target(int64_t sample, int64_t channel, int64_t place, bool along_channels, C* space) const {
    return writer_.place(address(sample, channel, place), along_channels ? 1 : buffer_.strides[3], space);
  }
  void write(const C* values, int64_t sample, int64_t channel, int64_t place, bool along_channels,
             int64_t count) const {
    writer_.write(values, address(sample, channel, place), along_channels ? 1 : buffer_.strides[3], count);
  }

 private:
  char* address(int64_t sample, int64_t channel, int64_t place) const {
    const int64_t *strides = buffer_.strides, depth = buffer_.sizes[2];
    return static_cast<char*>(buffer_.data) +
           (sample * strides[0] + channel / depth * strides[1] + channel % depth * strides[2] + place * strides[3]) *
               reader_.element_bytes();
  }
  const mydev_buffer& buffer_;
  ChunkReader<C> reader_;
  ChunkWriter<C> writer_;
};

// A dense operand, or an absent one.
template <typename C>
class Values {
 public:
  explicit Values(const mydev_buffer& buffer)
      : data_(static_cast<char*>(buffer.data)), reader_(buffer.dtype), writer_(buffer.dtype) {}
  bool supported() const { return !present() || reader_.supported(); }
  bool present() const { return data_ != nullptr; }
  C value_or(int64_t at, C otherwise) const {
    C space;
    return present() ? *reader_.read(data_ + at * reader_.element_bytes(), 1, 1, &space) : otherwise;
  }
  void set(int64_t at, double value) const {
    const C rounded = static_cast<C>(value);
    writer_.write(&rounded, data_ + at * reader_.element_bytes(), 1, 1);
  }

 private:
  char* data_;
  ChunkReader<C> reader_;
  ChunkWriter<C> writer_;
};

struct Shape {
  int64_t samples, groups, depth, places;
  explicit Shape(const mydev_buffer& image)
      : samples(image.sizes[0]), groups(image.sizes[1]), depth(image.sizes[2]), places(image.sizes[3]) {}
  int64_t channels() const { return groups * depth; }
  double count() const { return static_cast<double>(depth * places); }  // elements of a group
};

// A task: the channels [first, last), whole groups, of a sample.
struct Block {
  int64_t sample, first, last;
};

template <typename Body>
void for_each_block(const Shape& shape, const Body& body) {
  const int64_t groups = std::max<int64_t>(kBlockChannels / std::max<int64_t>(shape.depth, 1), 1);
  const int64_t blocks = (shape.groups + groups - 1) / groups;
  const int64_t work = std::max<int64_t>(groups * shape.depth * shape.places, 1);
  parallel_for(shape.samples * blocks, std::max<int64_t>(kGrainHeavy / work, 1), [&](int64_t first, int64_t last) {
    for (int64_t task = first; task < last; ++task) {
      const int64_t group = task % blocks * groups;
      body(Block{task / blocks, group * shape.depth, std::min(group + groups, shape.groups) * shape.depth});
    }
  });
}

// Calls run(channel, place, count) for runs that cover the block: along channels, place by place for a chunk of them,
// or along the places of each channel. `done(channel, count)` follows the last run of those channels.
template <typename Run, typename Done>
void for_each_run(const Shape& shape, const Block& block, bool along_channels, const Run& run, const Done& done) {
  if (along_channels) {
    for (int64_t channel = block.first; channel < block.last; channel += kChunk) {
      const int64_t count = std::min(kChunk, block.last - channel);
      for (int64_t place = 0; place < shape.places; ++place) run(channel, place, count);
      done(channel, count);
    }
    return;
  }
  for (int64_t channel = block.first; channel < block.last; ++channel) {
    for (int64_t place = 0; place < shape.places; place += kChunk) {
      run(channel, place, std::min(kChunk, shape.places - place));
    }
    done(channel, 1);
  }
}

// The factor and the shift of each channel. A run along places has one of each, a run along channels one for each
// value.
template <typename C>
struct ChannelLine {
  alignas(64) C scale[kChunk], shift[kChunk];
};

template <typename C>
class Forward {
 public:
  explicit Forward(const mydev_frame* frame)
      : shape_(frame->buffers[3]),
        out_(frame->buffers[0]),
        in_(frame->buffers[3]),
        mean_(frame->buffers[1]),
        rstd_(frame->buffers[2]),
        weight_(frame->buffers[4]),
        bias_(frame->buffers[5]),
        along_channels_(out_.has_channels_side_by_side() && in_.has_channels_side_by_side() && shape_.channels() > 1),
        eps_(frame->attributes[0].value.f) {}
  bool supported() const {
    return out_.supported() && in_.supported() && mean_.supported() && rstd_.supported() && weight_.supported() &&
           bias_.supported();
  }

  void run(const Block& block) const {
    double sums[kBlockChannels] = {}, squares[kBlockChannels] = {};
    C means[kBlockChannels] = {}, rstds[kBlockChannels] = {};
    add_up(block, nullptr, sums);
    const int64_t group = block.first / shape_.depth, groups = block.last / shape_.depth - group;
    for (int64_t g = 0; g < groups; ++g) means[g] = static_cast<C>(sums[g] / shape_.count());
    add_up(block, means, squares);
    for (int64_t g = 0; g < groups; ++g) {
      const double rounded = sums[g] / shape_.count() - static_cast<double>(means[g]);
      const double variance = squares[g] / shape_.count() - rounded * rounded;
      rstds[g] = static_cast<C>(1 / std::sqrt((variance < 0 ? 0 : variance) + eps_));
      const int64_t at = block.sample * shape_.groups + group + g;
      mean_.set(at, means[g]);
      rstd_.set(at, rstds[g]);
    }
    normalise(block, means, rstds);
  }
  const Shape& shape() const { return shape_; }

 private:
  // Adds up the values of each group of the block, or the squares of their deviations from the mean.
  void add_up(const Block& block, const C* means, double* totals) const {
    alignas(64) C space[kChunk];
    alignas(64) double sums[kChunk] = {};
    alignas(64) C centers[kChunk];
    const int64_t depth = shape_.depth, group = block.first / depth;
    for_each_run(
        shape_, block, along_channels_,
        [&](int64_t channel, int64_t place, int64_t count) {
          const C* x = in_.read(block.sample, channel, place, along_channels_, count, space);
          if (!along_channels_) {
            const int64_t g = channel / depth - group;
            sums[0] += means == nullptr ? wide_sum_of(x, count) : wide_squares_about(x, means[g], count);
            return;
          }
          if (means == nullptr) {
            for (int64_t j = 0; j < count; ++j) sums[j] += x[j];
            return;
          }
          if (place == 0) {
            for (int64_t j = 0; j < count; ++j) centers[j] = means[(channel + j) / depth - group];
          }
          for (int64_t j = 0; j < count; ++j) {
            const C deviation = x[j] - centers[j];
            sums[j] += deviation * deviation;
          }
        },
        [&](int64_t channel, int64_t count) {
          for (int64_t j = 0; j < count; ++j) {
            totals[(channel + j) / depth - group] += sums[j];
            sums[j] = 0;
          }
        });
  }

  void normalise(const Block& block, const C* means, const C* rstds) const {
    alignas(64) C space[kChunk], result[kChunk];
    ChannelLine<C> line;
    const int64_t depth = shape_.depth, group = block.first / depth;
    for_each_run(
        shape_, block, along_channels_,
        [&](int64_t channel, int64_t place, int64_t count) {
          if (place == 0) {
            for (int64_t j = 0; j < (along_channels_ ? count : 1); ++j) {
              const int64_t c = channel + j, g = c / depth - group;
              line.scale[j] = rstds[g] * weight_.value_or(c, 1);
              line.shift[j] = bias_.value_or(c, 0) - means[g] * line.scale[j];
            }
          }
          const C* x = in_.read(block.sample, channel, place, along_channels_, count, space);
          C* y = out_.target(block.sample, channel, place, along_channels_, result);
          if (along_channels_) {
#pragma GCC ivdep
            for (int64_t j = 0; j < count; ++j) y[j] = x[j] * line.scale[j] + line.shift[j];
          } else {
            const C scale = line.scale[0], shift = line.shift[0];
#pragma GCC ivdep
            for (int64_t j = 0; j < count; ++j) y[j] = x[j] * scale + shift;
          }
          out_.write(y, block.sample, channel, place, along_channels_, count);
        },
        [](int64_t, int64_t) {});
  }

  Shape shape_;
  Image<C> out_, in_;
  Values<C> mean_, rstd_, weight_, bias_;
  bool along_channels_;
  double eps_;
};

template <typename C>
class Backward {
 public:
  explicit Backward(const mydev_frame* frame)
      : shape_(frame->buffers[4]),
        grad_in_(frame->buffers[0]),
        grad_out_(frame->buffers[3]),
        in_(frame->buffers[4]),
        grad_weight_(frame->buffers[1]),
        grad_bias_(frame->buffers[2]),
        mean_(frame->buffers[5]),
        rstd_(frame->buffers[6]),
        weight_(frame->buffers[7]),
        along_channels_(grad_in_.has_channels_side_by_side() && grad_out_.has_channels_side_by_side() &&
                        in_.has_channels_side_by_side() && shape_.channels() > 1),
        products_(static_cast<double*>(frame->scratch)),
        sums_(products_ + shape_.samples * shape_.channels()) {}
  bool supported() const {
    return grad_in_.supported() && grad_out_.supported() && in_.supported() && grad_weight_.supported() &&
           grad_bias_.supported() && mean_.supported() && rstd_.supported() && weight_.supported();
  }

  void run(const Block& block) const {
    add_up(block);
    if (grad_in_.present()) differentiate(block);
  }

  // The gradients of weight and bias, of the sums over samples.
  void combine() const {
    if (!grad_weight_.present() && !grad_bias_.present()) return;
    const int64_t channels = shape_.channels();
    parallel_for(channels, std::max<int64_t>(kGrainHeavy / std::max<int64_t>(shape_.samples, 1), 1),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t c = begin; c < end; ++c) {
                     double product = 0, sum = 0;
                     for (int64_t n = 0; n < shape_.samples; ++n) {
                       const double rstd = rstd_.value_or(n * shape_.groups + c / shape_.depth, 0);
                       product += products_[n * channels + c] * rstd;
                       sum += sums_[n * channels + c];
                     }
                     if (grad_weight_.present()) grad_weight_.set(c, product);
                     if (grad_bias_.present()) grad_bias_.set(c, sum);
                   }
                 });
  }
  const Shape& shape() const { return shape_; }

 private:
  C mean_of(const Block& block, int64_t channel) const {
    return mean_.value_or(block.sample * shape_.groups + channel / shape_.depth, 0);
  }

  // Adds up for each channel the gradients, and their products with the deviations of the values from the mean.
  void add_up(const Block& block) const {
    alignas(64) C x_space[kChunk], g_space[kChunk], means[kChunk], product[kChunk];
    double* products = products_ + block.sample * shape_.channels();
    double* sums = sums_ + block.sample * shape_.channels();
    std::fill(products + block.first, products + block.last, 0.0);
    std::fill(sums + block.first, sums + block.last, 0.0);
    for_each_run(
        shape_, block, along_channels_,
        [&](int64_t channel, int64_t place, int64_t count) {
          if (place == 0) {
            for (int64_t j = 0; j < (along_channels_ ? count : 1); ++j) means[j] = mean_of(block, channel + j);
          }
          const C* x = in_.read(block.sample, channel, place, along_channels_, count, x_space);
          const C* g = grad_out_.read(block.sample, channel, place, along_channels_, count, g_space);
          if (along_channels_) {
            double* __restrict to = products + channel;
            double* __restrict sum = sums + channel;
            for (int64_t j = 0; j < count; ++j) to[j] += (x[j] - means[j]) * g[j];
            for (int64_t j = 0; j < count; ++j) sum[j] += g[j];
          } else {
            const C mean = means[0];
            for (int64_t j = 0; j < count; ++j) product[j] = (x[j] - mean) * g[j];
            products[channel] += sum_of(product, count);
            sums[channel] += sum_of(g, count);
          }
        },
        [](int64_t, int64_t) {});
  }

  // grad_in = grad_out * scale + (in - mean) * slope + shift, with one slope and shift for each group.
  void differentiate(const Block& block) const {
    alignas(64) C x_space[kChunk], g_space[kChunk], result[kChunk], means[kChunk], slopes[kChunk];
    ChannelLine<C> line;
    for_each_run(
        shape_, block, along_channels_,
        [&](int64_t channel, int64_t place, int64_t count) {
          if (place == 0) {
            for (int64_t j = 0; j < (along_channels_ ? count : 1); ++j) {
              means[j] = mean_of(block, channel + j);
              set_line(block, channel + j, j, line, slopes);
            }
          }
          const C* x = in_.read(block.sample, channel, place, along_channels_, count, x_space);
          const C* g = grad_out_.read(block.sample, channel, place, along_channels_, count, g_space);
          C* y = grad_in_.target(block.sample, channel, place, along_channels_, result);
          if (along_channels_) {
#pragma GCC ivdep
            for (int64_t j = 0; j < count; ++j) {
              y[j] = g[j] * line.scale[j] + (x[j] - means[j]) * slopes[j] + line.shift[j];
            }
          } else {
            const C scale = line.scale[0], shift = line.shift[0], mean = means[0], slope = slopes[0];
#pragma GCC ivdep
            for (int64_t j = 0; j < count; ++j) y[j] = g[j] * scale + (x[j] - mean) * slope + shift;
          }
          grad_in_.write(y, block.sample, channel, place, along_channels_, count);
        },
        [](int64_t, int64_t) {});
  }

  void set_line(const Block& block, int64_t channel, int64_t j, ChannelLine<C>& line, C* slopes) const {
    const int64_t first = channel / shape_.depth * shape_.depth;
    const double rstd = rstd_.value_or(block.sample * shape_.groups + channel / shape_.depth, 0);
    if (channel == first || j == 0) {
      const int64_t row = block.sample * shape_.channels();
      double product = 0, sum = 0;
      for (int64_t c = first; c < first + shape_.depth; ++c) {
        const double weight = weight_.value_or(c, 1);
        product += products_[row + c] * weight;
        sum += sums_[row + c] * weight;
      }
      slopes[j] = static_cast<C>(-product * rstd * rstd * rstd / shape_.count());
      line.shift[j] = static_cast<C>(-sum * rstd / shape_.count());
    } else {
      slopes[j] = slopes[j - 1];
      line.shift[j] = line.shift[j - 1];
    }
    line.scale[j] = static_cast<C>(rstd * weight_.value_or(channel, 1));
  }

  Shape shape_;
  Image<C> grad_in_, grad_out_, in_;
  Values<C> grad_weight_, grad_bias_, mean_, rstd_, weight_;
  bool along_channels_;
  double *products_, *sums_;  // of each channel of each sample
};

template <typename C>
mydev_code forward_as(const mydev_frame* frame) {
  const Forward<C> forward(frame);
  if (!forward.supported()) return MYDEV_UNIMPLEMENTED;
  for_each_block(forward.shape(), [&](const Block& block) { forward.run(block); });
  return MYDEV_OK;
}

template <typename C>
mydev_code backward_as(const mydev_frame* frame) {
  const Backward<C> backward(frame);
  if (!backward.supported()) return MYDEV_UNIMPLEMENTED;
  for_each_block(backward.shape(), [&](const Block& block) { backward.run(block); });
  backward.combine();
  return MYDEV_OK;
}

uint64_t backward_scratch(const mydev_frame* frame) {
  const Shape shape(frame->buffers[4]);
  return static_cast<uint64_t>(2 * shape.samples * shape.channels()) * sizeof(double);
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.group_norm", floating_entry<forward_as<float>, forward_as<double>, 3>),
    kernel_record("mydev.group_norm_backward", floating_entry<backward_as<float>, backward_as<double>, 4>,
                  backward_scratch),
};

}  // namespace

std::span<const mydev_kernel> group_norm() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
