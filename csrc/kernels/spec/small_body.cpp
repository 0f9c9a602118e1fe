#include "kernels/spec/small_body.h"

#include <algorithm>
#include <string_view>

#include "kernels/spec/form_reader.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

namespace {

constexpr int64_t kMostCount = 1 << 16;  // of the values of a step
constexpr int kMostDepth = 64;           // of loops and conditions in each other

// Decisions are made on addresses that only tell operands apart.
void* pretended_address(size_t binding, int64_t offset) {
  return reinterpret_cast<void*>((binding + 1) << 40 | static_cast<uint64_t>(offset + (int64_t{1} << 39)));
}

std::span<const std::byte> bytes_of(const mydev_attribute& array) {
  return {static_cast<const std::byte*>(array.value.data), array.count};
}

class Reader {
 public:
  Reader(SmallBody& body, const mydev_frame& frame) : body_(body), frame_(frame) {}

  void read() {
    const std::span<const mydev_attribute> form(frame_.attributes, frame_.num_attributes);
    read_memory(form);
    steps_ = entries_of(find(form, "steps", MYDEV_ATTRIBUTE_DICTIONARY));
    check(!steps_.empty(), "the body of mydev.small_steps has no steps");
    for (const mydev_attribute& step : steps_) body_.steps.push_back({.kind = kind_of(step.name), .name = step.name});
    read_steps(0, steps_.size());
  }

 private:
  using Binding = SmallBody::Binding;
  using View = SmallBody::View;
  using Step = SmallBody::Step;

  static Step::Kind kind_of(std::string_view name) {
    if (name == "repeat") return Step::kRepeat;
    if (name == "while") return Step::kWhile;
    if (name == "if") return Step::kIf;
    return name == "fill" ? Step::kFill : Step::kLaunch;
  }

  void read_memory(std::span<const mydev_attribute> form) {
    for (uint32_t i = 0; i < frame_.num_outputs + frame_.num_inputs; ++i) {
      const mydev_buffer& buffer = frame_.buffers[i];
      const std::span<const int64_t> sizes(buffer.sizes, static_cast<size_t>(buffer.rank));
      const auto reached =
          bytes_reached(sizes, {buffer.strides, sizes.size()}, dtype_size(static_cast<mydev_dtype>(buffer.dtype)), 0);
      const bool has_none = !reached || is_empty(sizes);
      body_.bindings.push_back({Binding::kBuffer, has_none ? 0 : reached->first, has_none ? 0 : reached->second});
    }
    const std::span<const int64_t> memory = ints_of(form, "memory");
    const std::span<const mydev_attribute> constants = entries_of(find(form, "constants", MYDEV_ATTRIBUTE_DICTIONARY));
    check(memory.size() % 3 == 0, "'memory' has ", memory.size(), " numbers; give three for each binding");
    for (size_t i = 0; i < memory.size(); i += 3) read_binding(memory.subspan(i, 3), constants);
  }

  void read_binding(std::span<const int64_t> numbers, std::span<const mydev_attribute> constants) {
    const int64_t kind = numbers[0], first = numbers[1], second = numbers[2];
    const size_t binding = body_.bindings.size();
    check(kind >= 0 && kind <= 2, "binding ", binding, " is of kind ", kind, "; there are 0, 1 and 2");
    if (kind == 0) {
      check(first >= 0 && first <= SmallBody::kMostTemporary, "binding ", binding, " has ", first, " bytes");
      body_.bindings.push_back({Binding::kTemporary, 0, first});
    } else if (kind == 1) {
      check(second >= 0 && static_cast<size_t>(second) < constants.size(), "binding ", binding, " is constant ", second,
            ", of ", constants.size());
      const mydev_attribute& constant = constants[static_cast<size_t>(second)];
      check(constant.kind == MYDEV_ATTRIBUTE_ARRAY && constant.dtype == MYDEV_U8 && constant.count == first,
            "constant ", second, " is no array of ", first, " bytes");
      body_.bindings.push_back({Binding::kConstant, 0, first, bytes_of(constant)});
    } else {
      check(first >= 0 && static_cast<size_t>(first) < binding, "binding ", binding, " moves along binding ", first,
            ", which is not before it");
      body_.bindings.push_back({.kind = Binding::kMoving, .base = static_cast<size_t>(first), .offset = second});
    }
  }

  void read_steps(size_t begin, size_t end) {
    for (size_t i = begin; i < end;) {
      try {
        i = read_step(i, end);
      } catch (const Error& problem) {
        if (std::string_view(problem.what()).starts_with("step ")) throw;  // of a body: it says which
        throw Error(problem.code(), name_of(body_, i) + problem.what());
      }
    }
  }

  // Returns the number of the next step.
  size_t read_step(size_t index, size_t limit) {
    Step& step = body_.steps[index];
    const std::span<const mydev_attribute> entries = entries_of(steps_[index]);
    if (step.kind == Step::kLaunch || step.kind == Step::kFill) {
      read_launch(step, entries);
      return index + 1;
    }
    const auto number_of_step = [&](const char* entry, size_t first, size_t last) {
      const int64_t number = find(entries, entry, MYDEV_ATTRIBUTE_INT).value.i;
      check(number >= static_cast<int64_t>(first) && number <= static_cast<int64_t>(last), "'", entry, "' is step ",
            number, ", which is not in ", first, " to ", last);
      return static_cast<size_t>(number);
    };
    step.end = number_of_step("end", index + 1, limit);
    require(depth_ < kMostDepth, MYDEV_UNIMPLEMENTED, "more than ", kMostDepth, " loops are in each other");
    ++depth_;
    if (step.kind == Step::kRepeat) {
      const std::vector<bool> moving = moving_;
      read_repeat(step, entries);
      read_steps(index + 1, step.end);
      moving_ = moving;
    } else {
      step.otherwise = number_of_step("otherwise", index + 1, step.end);
      check(step.kind == Step::kIf || step.otherwise == step.end, "a loop has steps from ", step.otherwise,
            " on for a byte that is 0");
      View byte{.kind = View::kMemory, .dtype = MYDEV_U8};
      byte.binding = binding_of(find(entries, "binding", MYDEV_ATTRIBUTE_INT).value.i);
      byte.offset = find(entries, "offset", MYDEV_ATTRIBUTE_INT).value.i;
      check_inside(byte, "the byte");
      step.binding = byte.binding;
      step.offset = byte.offset;
      read_steps(index + 1, step.otherwise);
      read_steps(step.otherwise, step.end);
    }
    --depth_;
    return step.end;
  }

  void read_repeat(Step& step, std::span<const mydev_attribute> entries) {
    step.count = find(entries, "count", MYDEV_ATTRIBUTE_INT).value.i;
    const std::span<const int64_t> moves = ints_of(entries, "moves");
    check(step.count >= 0, "it is repeated ", step.count, " times");
    check(moves.size() % 2 == 0, "'moves' has ", moves.size(), " numbers; give two for each binding");
    for (size_t i = 0; i < moves.size(); i += 2) {
      check(moves[i] >= 0 && static_cast<size_t>(moves[i]) < body_.bindings.size() &&
                body_.bindings[static_cast<size_t>(moves[i])].kind == Binding::kMoving,
            "binding ", moves[i], " does not move");
      const auto binding = static_cast<size_t>(moves[i]);
      binding_of(static_cast<int64_t>(body_.bindings[binding].base));
      step.moves.emplace_back(binding, moves[i + 1]);
    }
    moving_.resize(body_.bindings.size());
    for (const auto& [binding, bytes] : step.moves) moving_[binding] = true;
  }

  size_t binding_of(int64_t binding) const {
    check(binding >= 0 && static_cast<size_t>(binding) < body_.bindings.size(), "there is no binding ", binding);
    const auto index = static_cast<size_t>(binding);
    check(body_.bindings[index].kind != Binding::kMoving || (index < moving_.size() && moving_[index]), "binding ",
          binding, " moves in a loop, and is used outside of it");
    return index;
  }

  void check_inside(const View& view, const std::string& what) const {
    const Binding& binding = body_.bindings[view.binding];
    if (binding.kind == Binding::kMoving || !has_elements(view.sizes, view.strides)) return;
    const auto reached = bytes_reached(view.sizes, view.strides, dtype_size(view.dtype), view.offset);
    check(reached && reached->first >= binding.begin && reached->second <= binding.end, what, " of ",
          dtype_row(view.dtype).name, ", ", view.offset, " bytes into binding ", view.binding, ", reaches beyond it");
  }

  std::vector<View> views_of(std::span<const mydev_attribute> entries, size_t results) const {
    const std::span<const int64_t> bindings = ints_of(entries, "bindings"), dtypes = ints_of(entries, "dtypes"),
                                   offsets = ints_of(entries, "offsets"), ranks = ints_of(entries, "ranks"),
                                   sizes = ints_of(entries, "sizes"), strides = ints_of(entries, "strides");
    const std::span<const mydev_attribute> numbers = entries_of(find(entries, "numbers", MYDEV_ATTRIBUTE_DICTIONARY));
    check(dtypes.size() == bindings.size() && offsets.size() == bindings.size() && ranks.size() == bindings.size() &&
              sizes.size() == strides.size() && results <= bindings.size(),
          "the entries say different things of how many operands there are");
    std::vector<View> views;
    size_t dimension = 0, number = 0;
    for (size_t i = 0; i < bindings.size(); ++i) {
      View& view = views.emplace_back();
      check(bindings[i] >= kAbsentBinding, "operand ", i, " has the binding ", bindings[i]);
      check(ranks[i] >= 0 && static_cast<size_t>(ranks[i]) <= sizes.size() - dimension, "operand ", i, " has rank ",
            ranks[i]);
      view.kind = bindings[i] == kNumberBinding   ? View::kNumber
                  : bindings[i] == kAbsentBinding ? View::kAbsent
                                                  : View::kMemory;
      view.sizes = sizes.subspan(dimension, static_cast<size_t>(ranks[i]));
      view.strides = strides.subspan(dimension, static_cast<size_t>(ranks[i]));
      dimension += static_cast<size_t>(ranks[i]);
      int64_t count = 1;
      for (const int64_t size : view.sizes) {
        check(size >= 0 && !__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count) && count <= kMostCount,
              "operand ", i, " has a dimension of size ", size, ", and is no small array");
      }
      if (view.kind == View::kAbsent) continue;
      view.dtype = dtype_of(dtypes[i], i);
      if (view.kind == View::kNumber) {
        check(number < numbers.size() && i >= results, "operand ", i, " is no number that is there");
        view.number = scalar_of(numbers[number++]);
        continue;
      }
      view.binding = binding_of(bindings[i]);
      view.offset = offsets[i];
      check_inside(view, "operand " + std::to_string(i));
    }
    check(dimension == sizes.size(), "there are ", sizes.size(), " sizes, of ", dimension, " dimensions");
    return views;
  }

  void read_launch(Step& step, std::span<const mydev_attribute> entries) const {
    const int64_t results = find(entries, "results", MYDEV_ATTRIBUTE_INT).value.i;
    check(results >= 1 && results <= static_cast<int64_t>(ints_of(entries, "bindings").size()), "it writes ", results,
          " operands");
    step.results = static_cast<uint32_t>(results);
    step.views = views_of(entries, step.results);
    if (step.kind == Step::kFill) return read_fill(step, entries);
    step.attributes = entries_of(find(entries, "attributes", MYDEV_ATTRIBUTE_DICTIONARY));
    check_contract(step.name, SmallBody::buffers_of(step), step.results, step.attributes);
  }

  static void read_fill(Step& step, std::span<const mydev_attribute> entries) {
    const mydev_attribute& pattern = find(entries, "pattern", MYDEV_ATTRIBUTE_ARRAY);
    const std::vector<View>& views = step.views;
    check(views.size() == 1 && views[0].kind == View::kMemory && is_dense(views[0].sizes, views[0].strides),
          "a fill writes one dense operand");
    const int64_t bytes = count_of(views[0].sizes) * dtype_size(views[0].dtype);
    check(pattern.dtype == MYDEV_U8 && pattern.count != 0 && bytes % pattern.count == 0, "a pattern of ", pattern.count,
          " bytes does not fill ", bytes);
    step.pattern = bytes_of(pattern);
  }

  SmallBody& body_;
  const mydev_frame& frame_;
  std::span<const mydev_attribute> steps_;
  int depth_ = 0;
  std::vector<bool> moving_;  // of the bindings: a loop that is being read moves it
};

}  // namespace

SmallBody SmallBody::read(const mydev_frame& frame) {
  SmallBody body;
  Reader(body, frame).read();
  return body;
}

std::vector<mydev_buffer> SmallBody::buffers_of(const Step& step) {
  std::vector<mydev_buffer> buffers;
  for (const View& view : step.views) {
    mydev_buffer& buffer = buffers.emplace_back();
    if (view.kind == View::kAbsent) continue;
    buffer.sizes = view.sizes.data();
    buffer.strides = view.strides.data();
    buffer.rank = static_cast<int32_t>(view.sizes.size());
    buffer.dtype = static_cast<int16_t>(view.dtype);
    buffer.flags = view.kind == View::kNumber ? MYDEV_BUFFER_SCALAR : 0;
    if (view.kind == View::kNumber) {
      buffer.data = const_cast<mydev_scalar*>(&view.number);  // NOLINT(cppcoreguidelines-pro-type-const-cast)
    } else if (has_elements(view.sizes, view.strides)) {
      buffer.data = pretended_address(view.binding, view.offset);
    }
  }
  return buffers;
}

std::string name_of(const SmallBody& body, size_t step) {
  return "step " + std::to_string(step) + " of mydev.small_steps (" + body.steps[step].name + "): ";
}

}  // namespace mydev::kernels
