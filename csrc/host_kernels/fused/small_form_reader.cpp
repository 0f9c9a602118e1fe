// Reads the attributes of `mydev.small_steps` (program/transform/small_steps.h) into a SmallProgram.
#include <algorithm>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "host_kernels/fused/small_program.h"
#include "host_kernels/isa_variant.h"
#include "kernels/spec/form_reader.h"
#include "kernels/spec/small_body.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::kernels {

namespace {

constexpr int64_t kMostRowElements = 1 << 14;  // the kernel cuts what has more into pieces

}  // namespace

class SmallProgram::Reader {
 public:
  explicit Reader(SmallProgram& program) : to_(program) {}

  void read(const mydev_frame& frame) {
    body_ = SmallBody::read(frame);
    for (const SmallBody::Binding& binding : body_.bindings) add_binding(binding);
    read_steps(0, body_.steps.size());
    to_.kernel_scratch_ = aligned(static_cast<uint64_t>(scratch_));
    to_.scratch_bytes_ = to_.kernel_scratch_ + kernel_scratch_;
    for (Advance& advance : to_.advances_) {
      for (size_t i = 0; i < to_.pointers_.size(); ++i) {
        if (to_.pointers_[i].binding == advance.binding) advance.pointers.push_back(i);
      }
    }
  }

 private:
  using View = SmallBody::View;

  static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

  // --- memory ---

  void add_binding(const SmallBody::Binding& binding) {
    switch (binding.kind) {
      case SmallBody::Binding::kBuffer:
        to_.bindings_.push_back({Binding::kBuffer, binding.end, 0, 0, binding.begin});
        break;
      case SmallBody::Binding::kTemporary:
        add_scratch(binding.end);
        break;
      case SmallBody::Binding::kConstant:
        std::memcpy(add_constant(binding.end), binding.data.data(), binding.data.size());
        break;
      default:
        to_.bindings_.push_back({Binding::kMoving, 0, binding.offset, binding.base});
    }
  }

  size_t add_scratch(int64_t bytes) {
    to_.bindings_.push_back({Binding::kScratch, bytes, scratch_, 0});
    const int64_t unit = bytes >= 64 ? 64 : 16;
    scratch_ = (scratch_ + bytes + unit - 1) / unit * unit;
    require(scratch_ <= SmallBody::kMostTemporary, MYDEV_UNIMPLEMENTED, "the steps need more than ",
            SmallBody::kMostTemporary, " bytes of memory of their own");
    return to_.bindings_.size() - 1;
  }

  // Returns the memory of a new constant, which is the last binding then. It is there until the next one is added.
  char* add_constant(int64_t bytes) {
    constexpr size_t kUnit = sizeof(std::max_align_t);
    const size_t begin = to_.constants_.size();
    to_.constants_.resize(begin + (static_cast<size_t>(bytes) + kUnit - 1) / kUnit);
    to_.bindings_.push_back({Binding::kConstant, bytes, static_cast<int64_t>(begin * kUnit), 0});
    return to_.constant(to_.bindings_.back().offset);
  }

  size_t add_pointer(size_t binding, int64_t offset) {
    to_.pointers_.push_back({binding, offset});
    return to_.pointers_.size() - 1;
  }

  // --- steps ---

  void read_steps(size_t begin, size_t end) {
    joins_ = false;
    for (size_t i = begin; i < end;) {
      try {
        i = read_step(i);
      } catch (const Error& problem) {
        if (std::string_view(problem.what()).starts_with("step ")) throw;  // of a body: it says which
        throw Error(problem.code(), name_of(body_, i) + problem.what());
      }
    }
    joins_ = false;
  }

  // Returns the number of the next step.
  size_t read_step(size_t index) {
    const SmallBody::Step& step = body_.steps[index];
    const size_t item = to_.items_.size();
    switch (step.kind) {
      case SmallBody::Step::kLaunch:
        add_launch(step);
        return index + 1;
      case SmallBody::Step::kFill:
        add_fill(step);
        return index + 1;
      case SmallBody::Step::kRepeat:
        to_.items_.push_back({.kind = Item::kRepeat,
                              .first = to_.advances_.size(),
                              .count = step.moves.size(),
                              .iterations = step.count});
        for (const auto& [binding, bytes] : step.moves) to_.advances_.push_back({binding, bytes, {}});
        read_steps(index + 1, step.end);
        break;
      default:
        to_.items_.push_back({.kind = step.kind == SmallBody::Step::kIf ? Item::kIf : Item::kWhile,
                              .first = add_pointer(step.binding, step.offset)});
        read_steps(index + 1, step.otherwise);
        to_.items_[item].otherwise = to_.items_.size();
        read_steps(step.otherwise, step.end);
    }
    to_.items_[item].end = to_.items_.size();
    return step.end;
  }

  void add_launch(const SmallBody::Step& step) {
    const std::string_view name = step.name;
    const std::vector<View>& views = step.views;
    const mydev_kernel* record = record_of(name);
    require(record != nullptr && name != "mydev.small_steps", MYDEV_UNIMPLEMENTED, "it is of no kernel of the host");
    const std::vector<mydev_buffer> buffers = SmallBody::buffers_of(step);
    const std::span<const mydev_attribute> attributes = step.attributes;
    mydev_frame frame = make_frame(buffers, step.results, attributes);
    frame.kernel = record;
    frame.host = &host_services();
    if (name == "mydev.copy") {
      const bool keeps_signs =
          std::ranges::all_of(attributes, [](const mydev_attribute& flag) { return flag.value.i == 0; });
      if (keeps_signs && views[0].dtype == views[1].dtype && views[0].dtype != MYDEV_PRED) {
        return add_move(views[0], views[1]);
      }
      if (keeps_signs && add_conversion(views[0], views[1])) return;
    }
    if (name == "mydev.concatenate") return add_concatenation(views);
    if (add_reduction(record->name, views)) return;
    const bool has_all = std::ranges::all_of(views, [](const View& view) { return view.kind != View::kAbsent; });
    PointwiseBlock block;
    if (has_all && MYDEV_ISA_VARIANT(instruction_set(), find_block)(record->name, frame, block)) {
      return add_call(block, views, frame);
    }
    add_kernel(*record, views, frame);
  }

  void add_fill(const SmallBody::Step& step) {
    const std::vector<View>& views = step.views;
    const int64_t bytes = count_of(views[0].sizes) * dtype_size(views[0].dtype);
    const auto unit = static_cast<int64_t>(step.pattern.size());
    char* const data = add_constant(bytes);
    const size_t constant = to_.bindings_.size() - 1;
    for (int64_t at = 0; at < bytes; at += unit) std::memcpy(data + at, step.pattern.data(), step.pattern.size());
    add_move(views[0], {.kind = View::kMemory,
                        .binding = constant,
                        .dtype = views[0].dtype,
                        .sizes = views[0].sizes,
                        .strides = views[0].strides});
  }

  static std::vector<int32_t> offsets_of(const View& view) {
    std::vector<int32_t> offsets;
    const int64_t count = count_of(view.sizes), bytes = dtype_size(view.dtype);
    for (int64_t i = 0; i < count; ++i) {
      int64_t offset = 0, rest = i;
      for (size_t d = view.sizes.size(); d-- > 0; rest /= view.sizes[d]) {
        offset += rest % view.sizes[d] * view.strides[d] * bytes;
      }
      require(offset == static_cast<int32_t>(offset), MYDEV_UNIMPLEMENTED, "elements lie ", offset, " bytes apart");
      offsets.push_back(static_cast<int32_t>(offset));
    }
    return offsets;
  }

  // Both have the same sizes.
  void add_move(const View& to, const View& from) {
    const int64_t count = count_of(to.sizes);
    if (count == 0) return;
    int64_t run = 1;
    size_t outer = to.sizes.size();
    for (; outer > 0; run *= to.sizes[--outer]) {
      const bool is_run = to.strides[outer - 1] == run && from.strides[outer - 1] == run;
      if (to.sizes[outer - 1] != 1 && !is_run) break;
    }
    const auto offsets_of_runs = [outer](View view) {
      view.sizes = view.sizes.first(outer);
      view.strides = view.strides.first(outer);
      return offsets_of(view);
    };
    to_.moves_.push_back({add_pointer(to.binding, to.offset), add_pointer(from.binding, from.offset),
                          dtype_size(to.dtype), count, run, offsets_of_runs(to), offsets_of_runs(from)});
    to_.items_.push_back({.kind = Item::kMove, .first = to_.moves_.size() - 1});
    joins_ = false;
  }

  // Operands are joined along the middle of three dimensions: each is moved into its part of the result.
  void add_concatenation(const std::vector<View>& views) {
    View part = views[0];
    for (size_t k = 1; k < views.size(); ++k) {
      part.sizes = views[k].sizes;
      add_move(part, views[k]);
      part.offset += part.sizes[1] * part.strides[1] * dtype_size(part.dtype);
    }
  }

  // False: it is no reduction of dense rows.
  bool add_reduction(const char* kernel, const std::vector<View>& views) {
    if (views.size() != 2 || views[1].kind != View::kMemory || views[0].dtype != views[1].dtype) return false;
    const RowReduction reduction = MYDEV_ISA_VARIANT(instruction_set(), find_row_reduction)(kernel, views[0].dtype);
    const View &to = views[0], &from = views[1];
    if (reduction.run == nullptr || is_empty(from.sizes) || !is_dense(from.sizes, from.strides)) return false;
    size_t outer_rank = from.sizes.size();
    while (outer_rank > 0 && (to.strides[outer_rank - 1] == 0 || from.sizes[outer_rank - 1] == 1)) --outer_rank;
    const std::span<const int64_t> outer = from.sizes.first(outer_rank);
    if (!is_dense(outer, to.strides.first(outer_rank))) return false;
    const int64_t rows = count_of(outer), length = count_of(from.sizes.subspan(outer_rank));
    if (rows * length > kMostRowElements) return false;
    to_.rows_.push_back({reduction.run, add_pointer(to.binding, to.offset), add_pointer(from.binding, from.offset),
                         dtype_size(to.dtype), rows, length, kernel, to.dtype});
    to_.items_.push_back({.kind = Item::kRows, .first = to_.rows_.size() - 1});
    joins_ = false;
    return true;
  }

  // False: the kernel has no conversion of dense values for the dtypes.
  bool add_conversion(const View& to, const View& from) {
    const ValueConversion conversion =
        MYDEV_ISA_VARIANT(instruction_set(), find_value_conversion)(from.dtype, to.dtype);
    const int64_t count = count_of(to.sizes);
    if (count == 0 || conversion.count < 1) return count == 0;
    const auto dense = [](const View& view) { return is_dense(view.sizes, view.strides); };
    const View result = dense(to) ? to : dense_copy(to);
    View value = dense(from) ? from : dense_copy(from);
    if (!dense(from)) add_move(value, from);
    const bool is_direct = conversion.count == 1;
    for (int step = 0; step < conversion.count; ++step) {
      View next = result;
      if (step + 1 < conversion.count) {
        next.binding = add_scratch(count * conversion.sizes[step]);
        next.offset = 0;
      }
      to_.converts_.push_back(
          {conversion.steps[step], add_pointer(next.binding, next.offset), add_pointer(value.binding, value.offset),
           count, is_direct ? from.dtype : MYDEV_DTYPE_INVALID, is_direct ? to.dtype : MYDEV_DTYPE_INVALID});
      to_.items_.push_back({.kind = Item::kConvert, .first = to_.converts_.size() - 1});
      value = next;
    }
    joins_ = false;
    if (!dense(to)) add_move(to, result);
    return true;
  }

  // A dense view of scratch that has the values of another view, or will.
  View dense_copy(const View& view) {
    std::vector<int64_t>& strides = lists_.emplace_back(view.sizes.size());
    int64_t count = 1;
    for (size_t d = strides.size(); d-- > 0; count *= view.sizes[d]) strides[d] = count;
    const size_t binding = add_scratch(count * dtype_size(view.dtype));
    return {.kind = View::kMemory, .binding = binding, .dtype = view.dtype, .sizes = view.sizes, .strides = strides};
  }

  void add_call(const PointwiseBlock& block, const std::vector<View>& views, const mydev_frame& frame) {
    const int64_t count = count_of(views[0].sizes);
    if (count == 0) return;
    struct Address {
      size_t binding;
      int64_t offset;
    };
    std::vector<Address> addresses(views.size());
    bool by_one = false;
    for (size_t k = 1; k < views.size(); ++k) {
      const View& view = views[k];
      const bool is_one = count > 1 && k == 2 && block.inputs == 2 && block.apply_by_one != nullptr;
      if (view.kind == View::kNumber) {
        const int64_t copies = is_one ? 1 : count;
        char* const values = add_constant(copies * block.value_bytes[k]);
        block.fill(block, static_cast<int>(k), view.number, values, copies);
        addresses[k] = {to_.bindings_.size() - 1, 0};
        by_one = by_one || is_one;
      } else if (is_one && is_one_element(view.sizes, view.strides)) {
        addresses[k] = {view.binding, view.offset};
        by_one = true;
      } else if (is_dense(view.sizes, view.strides)) {
        addresses[k] = {view.binding, view.offset};
      } else {
        const View dense = dense_copy(view);
        add_move(dense, view);
        addresses[k] = {dense.binding, 0};
      }
    }
    const View& result = views[0];
    const bool is_direct = is_dense(result.sizes, result.strides);
    const View computed = is_direct ? result : dense_copy(result);
    addresses[0] = {computed.binding, computed.offset};
    mydev_frame own = make_frame({}, 0, {frame.attributes, frame.num_attributes});
    own.kernel = frame.kernel;
    own.host = frame.host;
    to_.attributes_.push_back(clone_frame(own));
    const size_t first = to_.pointers_.size();
    for (const Address& address : addresses) add_pointer(address.binding, address.offset);
    to_.run_calls_ = block.run_table;
    to_.calls_.push_back({.apply = by_one ? block.apply_by_one : block.apply,
                          .kernel = block.kernel,
                          .frame = to_.attributes_.back().get(),
                          .first = first,
                          .count = count});
    to_.operations_.push_back({.dtype = block.wanted[block.inputs],
                               .inputs = block.inputs,
                               .by_one = by_one,
                               .alpha = alpha_of({frame.attributes, frame.num_attributes}),
                               .pack = block.pack});
    if (joins_) {
      ++to_.items_.back().count;
    } else {
      to_.items_.push_back({.kind = Item::kCalls, .first = to_.calls_.size() - 1, .count = 1});
      joins_ = true;
    }
    if (!is_direct) add_move(result, computed);
  }

  // The factor of a sum or a difference.
  static double alpha_of(std::span<const mydev_attribute> attributes) {
    if (attributes.empty()) return 1;
    const mydev_attribute& first = attributes[0];
    return first.kind == MYDEV_ATTRIBUTE_FLOAT ? first.value.f : static_cast<double>(first.value.i);
  }

  void add_kernel(const mydev_kernel& record, const std::vector<View>& views, mydev_frame& frame) {
    require(record.kind == MYDEV_KIND_FRAME && record.entry != nullptr, MYDEV_UNIMPLEMENTED, "the host cannot call it");
    Kernel kernel;
    uint64_t scratch = 0;
    if (record.plan != nullptr) {
      mydev_plan plan{};
      plan.struct_size = sizeof plan;
      const mydev_code code = record.plan(&frame, &plan);
      if (code != MYDEV_OK) {
        throw Error(code, take_kernel_message(frame).value_or("its plan gives no message"));
      }
      kernel.decision = Decision(plan.decision, plan.release);
      scratch = plan.scratch_bytes;
    } else if (record.scratch_bytes != nullptr) {
      scratch = record.scratch_bytes(&frame);
    }
    forget_kernel_message(frame);
    require(scratch <= static_cast<uint64_t>(SmallBody::kMostTemporary), MYDEV_UNIMPLEMENTED, "it needs ", scratch,
            " bytes of scratch");
    kernel_scratch_ = std::max(kernel_scratch_, aligned(scratch));
    frame.scratch_bytes = scratch;
    kernel.frame = clone_frame(frame);
    for (const View& view : views) {
      const bool has_memory = view.kind == View::kMemory && has_elements(view.sizes, view.strides);
      kernel.pointers.push_back(has_memory ? add_pointer(view.binding, view.offset) : kNoPointer);
    }
    to_.kernels_.push_back(std::move(kernel));
    to_.items_.push_back({.kind = Item::kKernel, .first = to_.kernels_.size() - 1});
    joins_ = false;
  }

  SmallProgram& to_;
  SmallBody body_;
  std::deque<std::vector<int64_t>> lists_;
  int64_t scratch_ = 0;
  uint64_t kernel_scratch_ = 0;
  bool joins_ = false;  // the next call goes to the last item
};

std::unique_ptr<const SmallProgram> SmallProgram::make(const mydev_frame& frame, Refusal& why) {
  try {
    std::unique_ptr<SmallProgram> program(new SmallProgram);
    Reader(*program).read(frame);
    program->generate_code();
    return program;
  } catch (const Error& problem) {
    why = {problem.code(), problem.what()};
    return nullptr;
  }
}

}  // namespace mydev::kernels
