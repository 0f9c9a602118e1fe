// Reads the attributes of `mydev.fused` (program/transform/fused_form.h) into tiles. Whoever calls the kernel may have
// made them: each number is checked before anything is computed with it, and the operands of a step's kernel fit its
// contract.
#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host_kernels/fused/form_reader.h"
#include "host_kernels/fused/fused_tiles.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels {

Refusal FusedTiles::read(const mydev_frame& frame) {
  try {
    read_head(frame);
    const std::span<const mydev_attribute> form(frame.attributes, frame.num_attributes);
    const std::span<const mydev_attribute> steps = entries_of(find(form, "steps", MYDEV_ATTRIBUTE_DICTIONARY));
    check(!steps.empty(), "the body of mydev.fused has no steps");
    for (const mydev_attribute& step : steps) {
      try {
        add_step(step, frame);
      } catch (const Error& problem) {
        throw Error(problem.code(), "step " + std::to_string(&step - steps.data()) + " of mydev.fused (" + step.name +
                                        "): " + problem.what());
      }
    }
    return {};
  } catch (const Error& problem) {
    return {problem.code(), problem.what()};
  }
}

void FusedTiles::read_head(const mydev_frame& frame) {
  const std::span<const mydev_attribute> form(frame.attributes, frame.num_attributes);
  const std::span<const int64_t> sizes = ints_of(form, "sizes"), advances = ints_of(form, "advances");
  const int64_t outer_rank = find(form, "outer_rank", MYDEV_ATTRIBUTE_INT).value.i;
  const int64_t iterations = find(form, "iterations", MYDEV_ATTRIBUTE_INT).value.i;
  const size_t num_buffers = frame.num_outputs + frame.num_inputs;
  int64_t elements = 1;
  for (const int64_t size : sizes) {
    check(size >= 0 && !__builtin_mul_overflow(elements, std::max<int64_t>(size, 1), &elements),
          "a size of the body of mydev.fused is ", size, ", of ", sizes.size(), " sizes; they are no array's");
  }
  check(outer_rank >= 0 && outer_rank <= static_cast<int64_t>(sizes.size()), "mydev.fused keeps ", outer_rank,
        " dimensions, of ", sizes.size());
  check(iterations >= 0, "mydev.fused has ", iterations, " iterations");
  check(advances.empty() || advances.size() == num_buffers, "mydev.fused says of ", advances.size(),
        " buffers how they move, and has ", num_buffers);
  sizes_.assign(sizes.begin(), sizes.end());
  outer_rank_ = static_cast<size_t>(outer_rank);
  iterations_ = static_cast<uint64_t>(iterations);
  apart_ = find(form, "apart", MYDEV_ATTRIBUTE_BOOL).value.i != 0;
  advances_.assign(advances.begin(), advances.end());
}

void FusedTiles::add_step(const mydev_attribute& form, const mydev_frame& frame) {
  const std::span<const mydev_attribute> entries = entries_of(form);
  const size_t count = ints_of(entries, "places").size(), rank = sizes_.size();
  for (const char* name : {"dtypes", "offsets"}) {
    check(ints_of(entries, name).size() == count, "there are ", count, " places and ", ints_of(entries, name).size(),
          " ", name);
  }
  check(ints_of(entries, "strides").size() == count * rank, "there are ", ints_of(entries, "strides").size(),
        " strides of ", count, " operands in ", rank, " dimensions");
  const size_t numbers = find(entries, "numbers", MYDEV_ATTRIBUTE_DICTIONARY).count;
  const auto wanted = static_cast<size_t>(std::ranges::count(ints_of(entries, "places"), kNumberPlace));
  check(numbers == wanted, wanted, " operands are numbers, and there are ", numbers, " numbers");
  const int64_t results = find(entries, "results", MYDEV_ATTRIBUTE_INT).value.i;
  check(results >= 1 && results <= static_cast<int64_t>(count), "it writes ", results, " of its ", count, " operands");
  const mydev_kernel* record = record_of(form.name);
  require(record != nullptr && record->plan == nullptr, MYDEV_UNIMPLEMENTED,
          "it is of no kernel of the host that runs in tiles");
  Step& step = steps_.emplace_back();
  step.record = record;
  step.num_outputs = static_cast<uint32_t>(results);
  step.is_outer = find(entries, "is_outer", MYDEV_ATTRIBUTE_BOOL).value.i != 0;
  step.attributes = clone_frame(make_frame({}, 0, entries_of(find(entries, "attributes", MYDEV_ATTRIBUTE_DICTIONARY))));
  for (size_t i = 0; i < count; ++i) read_operand(form, i, frame);
  check_contract(step);
}

// The next of the last step.
void FusedTiles::read_operand(const mydev_attribute& form, size_t i, const mydev_frame& frame) {
  Step& step = steps_.back();
  const std::span<const mydev_attribute> entries = entries_of(form);
  const size_t rank = sizes_.size(), num_buffers = frame.num_outputs + frame.num_inputs;
  const int64_t place = ints_of(entries, "places")[i], dtype = ints_of(entries, "dtypes")[i];
  const int64_t offset = ints_of(entries, "offsets")[i];
  const std::span<const int64_t> strides = ints_of(entries, "strides").subspan(i * rank, rank);
  const bool is_result = i < step.num_outputs;
  check(place >= kAbsentPlace, "operand ", i, " has the place ", place);
  check(place != kNumberPlace || !is_result, "operand ", i, " is written, and is a number");
  if (place != kAbsentPlace) dtype_of(dtype, i);
  Operand& operand = step.operands.emplace_back(
      Operand{Operand::kAbsent, 0, offset, {strides.begin(), strides.end()}, static_cast<mydev_dtype>(dtype), {}});
  if (place == kNumberPlace) {
    const auto before = std::ranges::count(ints_of(entries, "places").first(i), kNumberPlace);
    operand.kind = Operand::kNumber;
    operand.number = scalar_of(find(entries, "numbers", MYDEV_ATTRIBUTE_DICTIONARY).value.attributes[before]);
  } else if (place >= 0 && static_cast<size_t>(place) < num_buffers) {
    operand.kind = Operand::kMemory;
    operand.index = static_cast<size_t>(place);
    check_in_buffer(operand, frame.buffers[place]);
  } else if (place >= 0) {
    operand.kind = Operand::kTemporary;
    const auto found = std::ranges::find(temporaries_, place, &Temporary::place);
    operand.index = static_cast<size_t>(found - temporaries_.begin());
    const size_t now = steps_.size() - 1;
    const int64_t bytes = dtype_size(operand.dtype);
    const bool outer_alone = outer_rank_ < rank && strides.back() == 0;
    check(offset == 0, "operand ", i, " begins ", offset, " bytes into a temporary");
    if (found == temporaries_.end()) {
      check(is_result, "operand ", i, " reads place ", place,
            ", which no step before has written; the buffers are those below ", num_buffers);
      temporaries_.push_back({place, bytes, outer_alone, false, now, now});
    } else {
      check(found->bytes == bytes && found->is_outer == outer_alone, "operand ", i, " is not of the size of place ",
            place, ", which a step before has written");
    }
    temporaries_[operand.index].last = now;
  }
}

// Refuses an operand that reaches beyond its buffer. If iterations move buffers, there is no check: a buffer does not
// tell all that they reach.
void FusedTiles::check_in_buffer(const Operand& operand, const mydev_buffer& buffer) const {
  const std::span<const int64_t> sizes(buffer.sizes, static_cast<size_t>(buffer.rank));
  const std::span<const int64_t> strides(buffer.strides, static_cast<size_t>(buffer.rank));
  if (is_empty(sizes_) || !advances_.empty()) return;
  const int64_t bytes = dtype_size(operand.dtype), own = dtype_size(static_cast<mydev_dtype>(buffer.dtype));
  const auto reached = bytes_reached(sizes_, operand.strides, bytes, operand.offset);
  const auto there = bytes_reached(sizes, strides, own, 0);
  const bool is_inside =
      reached && there && !is_empty(sizes) && reached->first >= there->first && reached->second <= there->second;
  check(is_inside, "an operand of ", dtype_row(operand.dtype).name, ", ", operand.offset, " bytes into buffer ",
        operand.index, ", reaches beyond it");
}

void FusedTiles::check_contract(const Step& step) const {
  const size_t rank = step.is_outer ? outer_rank_ : sizes_.size();
  std::vector<mydev_buffer> buffers;
  for (const Operand& operand : step.operands) {
    mydev_buffer& buffer = buffers.emplace_back();
    if (operand.kind == Operand::kAbsent) continue;
    buffer.data = const_cast<Operand*>(&operand);  // NOLINT(cppcoreguidelines-pro-type-const-cast): not looked at
    buffer.dtype = static_cast<int16_t>(operand.dtype);
    buffer.flags = operand.kind == Operand::kNumber ? MYDEV_BUFFER_SCALAR : 0;
    buffer.rank = static_cast<int32_t>(rank);
    buffer.sizes = sizes_.data();
    buffer.strides = operand.strides.data();
  }
  kernels::check_contract(step.record->name, buffers, step.num_outputs,
                          {step.attributes->attributes, step.attributes->num_attributes});
}

}  // namespace mydev::kernels
