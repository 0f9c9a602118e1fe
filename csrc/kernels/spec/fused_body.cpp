#include "kernels/spec/fused_body.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "kernels/spec/form_reader.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels {

FusedBody FusedBody::read(const mydev_frame& frame) {
  FusedBody body;
  body.read_head(frame);
  const std::span<const mydev_attribute> form(frame.attributes, frame.num_attributes);
  const std::span<const mydev_attribute> steps = entries_of(find(form, "steps", MYDEV_ATTRIBUTE_DICTIONARY));
  check(!steps.empty(), "the body of mydev.fused has no steps");
  for (const mydev_attribute& step : steps) {
    try {
      body.add_step(step, frame);
    } catch (const Error& problem) {
      throw Error(problem.code(), "step " + std::to_string(&step - steps.data()) + " of mydev.fused (" + step.name +
                                      "): " + problem.what());
    }
  }
  return body;
}

void FusedBody::read_head(const mydev_frame& frame) {
  const std::span<const mydev_attribute> form(frame.attributes, frame.num_attributes);
  const std::span<const int64_t> own_sizes = ints_of(form, "sizes"), own_advances = ints_of(form, "advances");
  const int64_t outer = find(form, "outer_rank", MYDEV_ATTRIBUTE_INT).value.i;
  const int64_t trip_count = find(form, "iterations", MYDEV_ATTRIBUTE_INT).value.i;
  const size_t num_buffers = frame.num_outputs + frame.num_inputs;
  int64_t elements = 1;
  for (const int64_t size : own_sizes) {
    check(size >= 0 && !__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements),
          "a size of the body of mydev.fused is ", size, ", of ", own_sizes.size(), " sizes; they are no array's");
  }
  check(outer >= 0 && outer <= static_cast<int64_t>(own_sizes.size()), "mydev.fused has ", outer,
        " outer dimensions, of ", own_sizes.size());
  check(trip_count >= 0, "mydev.fused has ", trip_count, " iterations");
  check(own_advances.empty() || own_advances.size() == num_buffers, "mydev.fused says of ", own_advances.size(),
        " buffers how they move, and has ", num_buffers);
  sizes.assign(own_sizes.begin(), own_sizes.end());
  outer_rank = static_cast<size_t>(outer);
  iterations = static_cast<uint64_t>(trip_count);
  apart = find(form, "apart", MYDEV_ATTRIBUTE_BOOL).value.i != 0;
  advances.assign(own_advances.begin(), own_advances.end());
}

void FusedBody::add_step(const mydev_attribute& form, const mydev_frame& frame) {
  const std::span<const mydev_attribute> entries = entries_of(form);
  const size_t count = ints_of(entries, "bindings").size(), rank = sizes.size();
  for (const char* name : {"dtypes", "offsets"}) {
    check(ints_of(entries, name).size() == count, "there are ", count, " bindings and ", ints_of(entries, name).size(),
          " ", name);
  }
  check(ints_of(entries, "strides").size() == count * rank, "there are ", ints_of(entries, "strides").size(),
        " strides of ", count, " operands in ", rank, " dimensions");
  const size_t numbers = find(entries, "numbers", MYDEV_ATTRIBUTE_DICTIONARY).count;
  const auto wanted = static_cast<size_t>(std::ranges::count(ints_of(entries, "bindings"), kNumberBinding));
  check(numbers == wanted, wanted, " operands are numbers, and there are ", numbers, " numbers");
  const int64_t results = find(entries, "results", MYDEV_ATTRIBUTE_INT).value.i;
  check(results >= 1 && results <= static_cast<int64_t>(count), "it writes ", results, " of its ", count, " operands");
  Step& step = steps.emplace_back();
  step.kernel = form.name;
  step.num_outputs = static_cast<uint32_t>(results);
  step.is_outer = find(entries, "is_outer", MYDEV_ATTRIBUTE_BOOL).value.i != 0;
  step.attributes = clone_frame(make_frame({}, 0, entries_of(find(entries, "attributes", MYDEV_ATTRIBUTE_DICTIONARY))));
  for (size_t i = 0; i < count; ++i) read_operand(form, i, frame);
  std::vector<mydev_buffer> buffers;
  frame_of(step, buffers);
  check_contract(step.kernel.c_str(), buffers, step.num_outputs,
                 {step.attributes->attributes, step.attributes->num_attributes});
}

// The next of the last step.
void FusedBody::read_operand(const mydev_attribute& form, size_t i, const mydev_frame& frame) {
  Step& step = steps.back();
  const std::span<const mydev_attribute> entries = entries_of(form);
  const size_t rank = sizes.size(), num_buffers = frame.num_outputs + frame.num_inputs;
  const int64_t binding = ints_of(entries, "bindings")[i], dtype = ints_of(entries, "dtypes")[i];
  const int64_t offset = ints_of(entries, "offsets")[i];
  const std::span<const int64_t> strides = ints_of(entries, "strides").subspan(i * rank, rank);
  const bool is_result = i < step.num_outputs;
  check(binding >= kAbsentBinding, "operand ", i, " has the binding ", binding);
  check(binding != kNumberBinding || !is_result, "operand ", i, " is written, and is a number");
  if (binding != kAbsentBinding) dtype_of(dtype, i);
  Operand& operand = step.operands.emplace_back(
      Operand{Operand::kAbsent, 0, offset, {strides.begin(), strides.end()}, static_cast<mydev_dtype>(dtype), {}});
  if (binding == kNumberBinding) {
    const auto before = std::ranges::count(ints_of(entries, "bindings").first(i), kNumberBinding);
    operand.kind = Operand::kNumber;
    operand.number = scalar_of(find(entries, "numbers", MYDEV_ATTRIBUTE_DICTIONARY).value.attributes[before]);
  } else if (binding >= 0 && static_cast<size_t>(binding) < num_buffers) {
    operand.kind = Operand::kMemory;
    operand.index = static_cast<size_t>(binding);
    check_in_buffer(operand, frame.buffers[binding]);
  } else if (binding >= 0) {
    operand.kind = Operand::kTemporary;
    const auto found = std::ranges::find(temporaries, binding, &Temporary::binding);
    operand.index = static_cast<size_t>(found - temporaries.begin());
    const size_t now = steps.size() - 1;
    const int64_t bytes = dtype_size(operand.dtype);
    const bool outer_alone = outer_rank < rank && strides.back() == 0;
    check(offset == 0, "operand ", i, " begins ", offset, " bytes into a temporary");
    if (found == temporaries.end()) {
      check(is_result, "operand ", i, " reads binding ", binding,
            ", which no step before has written; the buffers are those below ", num_buffers);
      temporaries.push_back({binding, bytes, outer_alone, now, now});
    } else {
      check(found->bytes == bytes && found->is_outer == outer_alone, "operand ", i, " is not of the size of binding ",
            binding, ", which a step before has written");
    }
    temporaries[operand.index].last = now;
  }
}

// Refuses an operand that reaches beyond its buffer. If iterations move buffers, there is no check: a buffer does not
// tell all that they reach.
void FusedBody::check_in_buffer(const Operand& operand, const mydev_buffer& buffer) const {
  const std::span<const int64_t> its_sizes(buffer.sizes, static_cast<size_t>(buffer.rank));
  const std::span<const int64_t> its_strides(buffer.strides, static_cast<size_t>(buffer.rank));
  if (is_empty(sizes) || !advances.empty()) return;
  const int64_t bytes = dtype_size(operand.dtype), own = dtype_size(static_cast<mydev_dtype>(buffer.dtype));
  const auto reached = bytes_reached(sizes, operand.strides, bytes, operand.offset);
  const auto there = bytes_reached(its_sizes, its_strides, own, 0);
  const bool is_inside =
      reached && there && !is_empty(its_sizes) && reached->first >= there->first && reached->second <= there->second;
  check(is_inside, "an operand of ", dtype_row(operand.dtype).name, ", ", operand.offset, " bytes into buffer ",
        operand.index, ", reaches beyond it");
}

mydev_frame FusedBody::frame_of(const Step& step, std::vector<mydev_buffer>& buffers) const {
  const size_t rank = step.is_outer ? outer_rank : sizes.size();
  buffers.clear();
  for (const Operand& operand : step.operands) {
    mydev_buffer& buffer = buffers.emplace_back();
    if (operand.kind == Operand::kAbsent) continue;
    buffer.data = const_cast<mydev_scalar*>(&operand.number);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    buffer.dtype = static_cast<int16_t>(operand.dtype);
    buffer.flags = operand.kind == Operand::kNumber ? MYDEV_BUFFER_SCALAR : 0;
    buffer.rank = static_cast<int32_t>(rank);
    buffer.sizes = sizes.data();
    buffer.strides = operand.strides.data();
  }
  return make_frame(buffers, step.num_outputs, {step.attributes->attributes, step.attributes->num_attributes});
}

}  // namespace mydev::kernels
