// Kernel group slices: parts of a tensor that begin where indices say, read or written.
//
// The dimensions of a part are merged where both tensors go through two as through one, so that most parts are one run
// of elements. Reading shares the parts among threads. Writing takes them in order, since they may overlap; where they
// can only be the same or apart, threads share the places, and each looks at all parts.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "host_kernels/isa/simd/combine.h"
#include "host_kernels/isa/simd/element_bytes.h"
#include "host_kernels/isa/simd/tensor_list.h"
#include "runtime/base/parallel.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

constexpr int32_t kMostDimensions = 16;
constexpr int64_t kPlaces = 512;  // that are computed at a time
constexpr int64_t kOutside = INT64_MIN;
constexpr int64_t kElementsShared = 32;  // of a part, from which on threads share places

// A part's dimensions, from the last on, with the steps in the whole tensor and among the parts.
struct Box {
  int32_t rank = 0;
  int64_t sizes[kMostDimensions], whole[kMostDimensions], part[kMostDimensions];

  void add(int64_t size, int64_t in_whole, int64_t in_part) {
    if (size == 1) return;
    if (rank > 0 && in_whole == whole[rank - 1] * sizes[rank - 1] && in_part == part[rank - 1] * sizes[rank - 1]) {
      sizes[rank - 1] *= size;
      return;
    }
    sizes[rank] = size;
    whole[rank] = in_whole;
    part[rank++] = in_part;
  }
};

class Slices {
 public:
  // `parts` is [n, w...], `whole` [d...].
  // `from_end`: the attribute of that name; it may be left out.
  Slices(const mydev_frame* frame, const mydev_buffer& whole, const mydev_buffer& parts, const mydev_buffer& index,
         uint32_t from_end)
      : whole_(whole), parts_(parts), index_(index), components_(frame->attributes[0].count) {
    const int64_t wraps = from_end < frame->num_attributes ? frame->attributes[from_end].value.i : 0;
    for (uint32_t k = 0; k < components_; ++k) {
      const int64_t d = frame->attributes[0].value.ints[k];
      const int64_t last = whole.sizes[d] - parts.sizes[d + 1];
      along_[k] = {last, whole.strides[d], (wraps >> k & 1) != 0 ? whole.sizes[d] : 0};
      end_ += last * whole.strides[d];
      apart_ = apart_ && parts.sizes[d + 1] == 1;
    }
    for (int32_t d = whole.rank; d-- > 0;) box_.add(parts.sizes[d + 1], whole.strides[d], parts.strides[d + 1]);
    if (box_.rank == 0) box_.sizes[box_.rank++] = 1, box_.whole[0] = box_.part[0] = 1;
    for (int32_t d = 0; d < box_.rank; ++d) elements_ *= box_.sizes[d];
  }

  static const char* problem(const mydev_frame* frame, const mydev_buffer& whole, const mydev_buffer& parts,
                             const mydev_buffer& index) {
    const mydev_attribute& dims = frame->attributes[0];
    if (whole.rank > kMostDimensions || dims.count > kMostDimensions || parts.rank != whole.rank + 1 ||
        index.rank != 2 || index.sizes[0] != parts.sizes[0] || index.sizes[1] != static_cast<int64_t>(dims.count)) {
      return "takes parts [n,w...] of [d...] and an index [n,k] with a dimension for each of k";
    }
    for (uint32_t i = 0; i < dims.count; ++i) {
      const int64_t d = dims.value.ints[i];
      if (d < 0 || d >= whole.rank) return "dims are dimensions, from 0 on";
      if (std::count(dims.value.ints, dims.value.ints + i, d) != 0) return "dims are dimensions, each once";
    }
    for (int32_t d = 0; d < whole.rank; ++d) {
      if (parts.sizes[d + 1] > whole.sizes[d]) return "a part is larger than the tensor";
    }
    return nullptr;
  }

  int64_t count() const { return parts_.sizes[0]; }
  int64_t elements() const { return elements_; }  // of a part
  bool is_supported() const { return index_.dtype == MYDEV_S64 || index_.dtype == MYDEV_S32; }

  // Each part is one run of elements, here and there.
  bool are_runs() const { return box_.rank == 1 && box_.whole[0] == 1 && box_.part[0] == 1; }
  // Parts that begin at different places have no element in common.
  bool are_apart() const { return apart_; }
  int64_t end() const { return end_; }  // behind the places where parts may begin, of a dense tensor

  // Calls body(first, n, places) for blocks that cover [begin, end). `clamps`: a part that would begin outside begins
  // as near to that as it can.
  template <typename Body>
  void for_each_block(bool clamps, int64_t begin, int64_t end, const Body& body) const {
    int64_t places[kPlaces];
    for (int64_t first = begin; first < end; first += kPlaces) {
      const int64_t n = std::min(kPlaces, end - first);
      if (index_.dtype == MYDEV_S64) {
        clamps ? this->places<int64_t, true>(first, n, places) : this->places<int64_t, false>(first, n, places);
      } else {
        clamps ? this->places<int32_t, true>(first, n, places) : this->places<int32_t, false>(first, n, places);
      }
      body(first, n, places);
    }
  }

  // Computes where parts [first, first + n) begin in the tensor, in elements. In a dense tensor a negative place marks
  // a part that does not lie within, and is not to be moved. Places come a block at a time, so that this code need not
  // know the elements, nor their loops the index.
  template <typename I, bool kClamps>
  void places(int64_t first, int64_t n, int64_t* places) const {
    const int64_t step = index_.strides[0];
    if (components_ == 0) std::fill_n(places, n, 0);
    for (uint32_t k = 0; k < components_; ++k) {
      const I* const index = static_cast<const I*>(index_.data) + first * step + k * index_.strides[1];
      const Component component = along_[k];
      const auto add = [&]<bool kFirst>(auto index_step) {
#pragma GCC ivdep
        for (int64_t j = 0; j < n; ++j) {
          int64_t given = index[j * index_step];
          given += given < 0 ? component.wrap : 0;
          const int64_t within = std::min(std::max<int64_t>(given, 0), component.last);
          const int64_t place = (kFirst ? 0 : places[j]) + within * component.stride;
          places[j] = !kClamps && given != within ? kOutside : place;
        }
      };
      if (step == 1) {
        const std::integral_constant<int64_t, 1> one;
        k == 0 ? add.template operator()<true>(one) : add.template operator()<false>(one);
      } else {
        k == 0 ? add.template operator()<true>(step) : add.template operator()<false>(step);
      }
    }
  }

  template <typename Element>
  Element* whole(int64_t begin) const {
    return static_cast<Element*>(whole_.data) + begin;
  }
  template <typename Element>
  Element* part(int64_t i) const {
    return static_cast<Element*>(parts_.data) + i * part_step();
  }
  int64_t part_step() const { return parts_.strides[0]; }

  // Calls run(whole, its step, part, its step, count) for each run of part i, whose place in the tensor is `begin`.
  template <typename Element, typename Run>
  void for_each_run(int64_t i, int64_t begin, const Run& run) const {
    Element *whole = this->whole<Element>(begin), *part = this->part<Element>(i);
    if (box_.rank == 1) return run(whole, box_.whole[0], part, box_.part[0], box_.sizes[0]);
    int64_t at[kMostDimensions] = {};
    for (int64_t left = elements_ / box_.sizes[0]; left > 0; --left) {
      run(whole, box_.whole[0], part, box_.part[0], box_.sizes[0]);
      for (int32_t d = 1; d < box_.rank; ++d) {
        whole += box_.whole[d];
        part += box_.part[d];
        if (++at[d] < box_.sizes[d]) break;
        whole -= at[d] * box_.whole[d];
        part -= at[d] * box_.part[d];
        at[d] = 0;
      }
    }
  }

 private:
  const mydev_buffer &whole_, &parts_, &index_;
  struct Component {
    int64_t last, stride;  // the last place where a part may begin
    int64_t wrap;          // what is added to a negative index
  };
  Component along_[kMostDimensions];
  uint32_t components_;
  int64_t elements_ = 1, end_ = 1;
  bool apart_ = true;
  Box box_;
};

mydev_code refuse(const mydev_frame* frame, const char* problem) {
  frame->host->set_error(frame, problem);
  return MYDEV_INVALID_ARGUMENT;
}

mydev_code gather_entry(const mydev_frame* frame) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1], &index = frame->buffers[2];
  if (const char* problem = Slices::problem(frame, in, out, index)) return refuse(frame, problem);
  const Slices slices(frame, in, out, index, 1);
  if (!slices.is_supported() || in.dtype != out.dtype) return MYDEV_UNIMPLEMENTED;
  return visit_element_bytes(dtype_row(out.dtype).size, [&]<typename Element>() {
    const auto copy = [](const Element* from, int64_t from_step, Element* to, int64_t to_step, int64_t count) {
      if (count == 1) {
        *to = *from;
      } else if (from_step == 1 && to_step == 1) {
        std::memcpy(to, from, static_cast<size_t>(count) * sizeof(Element));
      } else {
        for (int64_t i = 0; i < count; ++i) to[i * to_step] = from[i * from_step];
      }
    };
    const int64_t grain = kGrainHeavy / std::max<int64_t>(slices.elements(), 1) + 1;
    if (slices.elements() == 0) return MYDEV_OK;
    parallel_for(slices.count(), grain, [&](int64_t begin, int64_t end) {
      slices.for_each_block(/*clamps=*/true, begin, end, [&](int64_t first, int64_t n, const int64_t* places) {
        if (slices.elements() == 1) {
          const Element* const from = slices.whole<Element>(0);
          Element* const to = slices.part<Element>(first);
          const int64_t step = slices.part_step();
#pragma GCC ivdep
          for (int64_t j = 0; j < n; ++j) to[j * step] = from[places[j]];
        } else {
          for (int64_t j = 0; j < n; ++j) slices.for_each_run<Element>(first + j, places[j], copy);
        }
      });
    });
    return MYDEV_OK;
  });
}

// The tensor as it was, in the result: nothing to do where they are one. A smaller
// tensor stays in the caches of this thread, which writes to it next.
void begin_with(const mydev_buffer& out, const mydev_buffer& in) {
  constexpr int64_t kBytesShared = int64_t{1} << 19;
  if (out.data == in.data) return;
  const int64_t bytes = element_count(out) * dtype_row(out.dtype).size;
  parallel_for(bytes, kBytesShared, [&](int64_t begin, int64_t end) {
    std::memcpy(static_cast<char*>(out.data) + begin, static_cast<const char*>(in.data) + begin,
                static_cast<size_t>(end - begin));
  });
}

// Calls put(place, value) for each element that lies within, for parts that begin in [begin, end).
template <typename Element, typename Put>
void write_part_of(const Slices& slices, bool clamps, int64_t begin, int64_t end, const Put& put) {
  const auto put_dense = [&put](Element* to, const Element* from, int64_t count) {
#pragma GCC ivdep
    for (int64_t k = 0; k < count; ++k) put(to[k], from[k]);
  };
  const auto put_run = [&](Element* to, int64_t to_step, const Element* from, int64_t from_step, int64_t count) {
    if (to_step == 1 && from_step == 1) return put_dense(to, from, count);
    for (int64_t k = 0; k < count; ++k) put(to[k * to_step], from[k * from_step]);
  };
  slices.for_each_block(clamps, 0, slices.count(), [&](int64_t first, int64_t n, const int64_t* places) {
    if (slices.elements() == 1) {
      Element* const to = slices.whole<Element>(0);
      const Element* const from = slices.part<Element>(first);
      const int64_t step = slices.part_step();
      for (int64_t j = 0; j < n; ++j) {
        if (places[j] >= begin && places[j] < end) put(to[places[j]], from[j * step]);
      }
      return;
    }
    int32_t own[kPlaces + 1];
    int64_t count = 0;
    const auto lies_within = [least = begin, limit = end](int64_t place) { return place >= least && place < limit; };
    const auto put_part = [&, whole = slices.whole<Element>(0), part = slices.part<Element>(first),
                           step = slices.part_step(), elements = slices.elements()](int64_t j) {
      put_dense(whole + places[j], part + j * step, elements);
    };
    if (slices.are_runs() && begin == 0 && end == slices.end()) {
      // There is little work around the elements: meanwhile the processor asks memory for those of the next parts.
      for (int64_t j = 0; j < n; ++j) {
        if (lies_within(places[j])) put_part(j);
      }
      return;
    }
    for (int64_t j = 0; j < n; ++j) {
      own[count] = static_cast<int32_t>(j);
      count += lies_within(places[j]) ? 1 : 0;
    }
    if (slices.are_runs()) {
      for (int64_t i = 0; i < count; ++i) put_part(own[i]);
      return;
    }
    for (int64_t i = 0; i < count; ++i) slices.for_each_run<Element>(first + own[i], places[own[i]], put_run);
  });
}

template <typename Element, typename Put>
void write(const mydev_frame* frame, const Slices& slices, const Put& put) {
  begin_with(frame->buffers[0], frame->buffers[1]);
  if (slices.elements() == 0) return;
  const bool clamps = frame->attributes[1].value.i != 0;
  const auto run = [&](int64_t begin, int64_t end) { write_part_of<Element>(slices, clamps, begin, end, put); };
  // If parts are short, finding its own ones costs a thread as much as writing all.
  const bool shared = slices.are_apart() && slices.elements() >= kElementsShared;
  const int64_t pieces = shared ? std::max<int64_t>(slices.count() * slices.elements() / kGrainHeavy, 1) : 1;
  parallel_for(slices.end(), slices.end() / pieces + 1, run);
}

template <typename Body>
mydev_code scatter(const mydev_frame* frame, const Body& body) {
  const mydev_buffer &out = frame->buffers[0], &in = frame->buffers[1], &index = frame->buffers[2],
                     &values = frame->buffers[3];
  if (const char* problem = Slices::problem(frame, out, values, index)) return refuse(frame, problem);
  const Slices slices(frame, out, values, index, 2);
  if (!slices.is_supported() || in.dtype != out.dtype || values.dtype != out.dtype) return MYDEV_UNIMPLEMENTED;
  return body(slices);
}

mydev_code scatter_entry(const mydev_frame* frame) {
  return scatter(frame, [&](const Slices& slices) {
    return visit_element_bytes(dtype_row(frame->buffers[0].dtype).size, [&]<typename Element>() {
      write<Element>(frame, slices, [](Element& place, const Element& value) { place = value; });
      return MYDEV_OK;
    });
  });
}

template <typename Combine>
mydev_code combine_entry(const mydev_frame* frame) {
  return scatter(frame, [&](const Slices& slices) {
    const auto run = [&]<typename Element>() {
      write<Element>(frame, slices, [](Element& place, const Element& value) { Combine::apply(place, value); });
    };
    if constexpr (std::is_same_v<Combine, Add> || std::is_same_v<Combine, Multiply>) {
      if (frame->buffers[0].dtype == MYDEV_C64) return run.template operator()<ComplexPair<float>>(), MYDEV_OK;
      if (frame->buffers[0].dtype == MYDEV_C128) return run.template operator()<ComplexPair<double>>(), MYDEV_OK;
    }
    return visit_element_type(frame->buffers[0].dtype, run) ? MYDEV_OK : MYDEV_UNIMPLEMENTED;
  });
}

constexpr mydev_kernel kRecords[] = {
    kernel_record("mydev.gather_slices", gather_entry),
    kernel_record("mydev.scatter_slices", scatter_entry),
    kernel_record("mydev.scatter_slices_add", combine_entry<Add>),
    kernel_record("mydev.scatter_slices_mul", combine_entry<Multiply>),
    kernel_record("mydev.scatter_slices_max", combine_entry<Maximum>),
    kernel_record("mydev.scatter_slices_min", combine_entry<Minimum>),
};

}  // namespace

std::span<const mydev_kernel> slices() {
  return kRecords;
}

}  // namespace mydev::kernels::MYDEV_ISA
