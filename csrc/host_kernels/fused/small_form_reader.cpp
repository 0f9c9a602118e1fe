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
#include "runtime/driver/host_services.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/kernel_messages.h"

namespace mydev::kernels {

namespace {

constexpr int64_t kMostScratch = 1 << 20;
constexpr int64_t kMostCount = 1 << 16;        // of the values of a step
constexpr int64_t kMostRowElements = 1 << 14;  // the kernel cuts what has more into pieces
constexpr int kMostDepth = 64;                 // of loops and conditions in each other

// Decisions are made on addresses that only tell operands apart.
void* pretended_address(size_t place, int64_t offset) {
  return reinterpret_cast<void*>((place + 1) << 40 | static_cast<uint64_t>(offset + (int64_t{1} << 39)));
}

}  // namespace

class SmallProgram::Reader {
 public:
  explicit Reader(SmallProgram& program) : to_(program) {}

  void read(const mydev_frame& frame) {
    const std::span<const mydev_attribute> form(frame.attributes, frame.num_attributes);
    read_memory(form, frame);
    steps_ = entries_of(find(form, "steps", MYDEV_ATTRIBUTE_DICTIONARY));
    check(!steps_.empty(), "the body of mydev.small_steps has no steps");
    read_steps(0, steps_.size());
    to_.kernel_scratch_ = aligned(static_cast<uint64_t>(scratch_));
    to_.scratch_bytes_ = to_.kernel_scratch_ + kernel_scratch_;
    for (Advance& advance : to_.advances_) {
      for (size_t i = 0; i < to_.pointers_.size(); ++i) {
        if (to_.pointers_[i].place == advance.place) advance.pointers.push_back(i);
      }
    }
  }

 private:
  struct View {
    enum Kind : uint8_t { kMemory, kNumber, kAbsent } kind;
    size_t place = 0;
    int64_t offset = 0;
    mydev_dtype dtype = MYDEV_DTYPE_INVALID;
    std::span<const int64_t> sizes, strides;
    mydev_scalar number{};
  };

  static uint64_t aligned(uint64_t bytes) { return (bytes + 63) / 64 * 64; }

  // --- memory ---

  void read_memory(std::span<const mydev_attribute> form, const mydev_frame& frame) {
    for (uint32_t i = 0; i < frame.num_outputs + frame.num_inputs; ++i) {
      const mydev_buffer& buffer = frame.buffers[i];
      const std::span<const int64_t> sizes(buffer.sizes, static_cast<size_t>(buffer.rank));
      const auto reached =
          bytes_reached(sizes, {buffer.strides, sizes.size()}, dtype_size(static_cast<mydev_dtype>(buffer.dtype)), 0);
      const bool has_none = !reached || is_empty(sizes);
      to_.places_.push_back({Place::kBuffer, has_none ? 0 : reached->second, 0, 0, has_none ? 0 : reached->first});
    }
    const std::span<const int64_t> memory = ints_of(form, "memory");
    const std::span<const mydev_attribute> constants = entries_of(find(form, "constants", MYDEV_ATTRIBUTE_DICTIONARY));
    check(memory.size() % 3 == 0, "'memory' has ", memory.size(), " numbers; give three for each place");
    for (size_t i = 0; i < memory.size(); i += 3) {
      const int64_t kind = memory[i], first = memory[i + 1], second = memory[i + 2];
      const size_t place = to_.places_.size();
      check(kind >= 0 && kind <= 2, "place ", place, " is of kind ", kind, "; there are 0, 1 and 2");
      if (kind == 0) {
        add_scratch(first);
      } else if (kind == 1) {
        check(second >= 0 && static_cast<size_t>(second) < constants.size(), "place ", place, " is constant ", second,
              ", of ", constants.size());
        const mydev_attribute& constant = constants[static_cast<size_t>(second)];
        check(constant.kind == MYDEV_ATTRIBUTE_ARRAY && constant.dtype == MYDEV_U8 && constant.count == first,
              "constant ", second, " is no array of ", first, " bytes");
        std::memcpy(add_constant(first), constant.value.data, static_cast<size_t>(first));
      } else {
        check(first >= 0 && static_cast<size_t>(first) < place, "place ", place, " moves along place ", first,
              ", which is not before it");
        to_.places_.push_back({Place::kMoving, 0, second, static_cast<size_t>(first)});
      }
    }
  }

  size_t add_scratch(int64_t bytes) {
    check(bytes >= 0 && bytes <= kMostScratch, "place ", to_.places_.size(), " has ", bytes, " bytes");
    to_.places_.push_back({Place::kScratch, bytes, scratch_, 0});
    const int64_t unit = bytes >= 64 ? 64 : 16;
    scratch_ = (scratch_ + bytes + unit - 1) / unit * unit;
    require(scratch_ <= kMostScratch, MYDEV_UNIMPLEMENTED, "the steps need more than ", kMostScratch,
            " bytes of memory of their own");
    return to_.places_.size() - 1;
  }

  // Returns the memory of a new constant, which is the last place then. It is there until the next one is added.
  char* add_constant(int64_t bytes) {
    constexpr size_t kUnit = sizeof(std::max_align_t);
    const size_t begin = to_.constants_.size();
    to_.constants_.resize(begin + (static_cast<size_t>(bytes) + kUnit - 1) / kUnit);
    to_.places_.push_back({Place::kConstant, bytes, static_cast<int64_t>(begin * kUnit), 0});
    return to_.constant(to_.places_.back().offset);
  }

  size_t add_pointer(size_t place, int64_t offset) {
    to_.pointers_.push_back({place, offset});
    return to_.pointers_.size() - 1;
  }

  // --- steps ---

  void read_steps(size_t begin, size_t end) {
    joins_ = false;
    for (size_t i = begin; i < end;) {
      const mydev_attribute& step = steps_[i];
      try {
        i = read_step(i, end);
      } catch (const Error& problem) {
        if (std::string_view(problem.what()).starts_with("step ")) throw;  // of a body: it says which
        throw Error(problem.code(), "step " + std::to_string(&step - steps_.data()) + " of mydev.small_steps (" +
                                        step.name + "): " + problem.what());
      }
    }
    joins_ = false;
  }

  // Returns the number of the next step.
  size_t read_step(size_t index, size_t limit) {
    const mydev_attribute& step = steps_[index];
    const std::string_view name = step.name;
    const std::span<const mydev_attribute> entries = entries_of(step);
    if (name != "repeat" && name != "while" && name != "if") {
      read_launch(step);
      return index + 1;
    }
    const auto number_of_step = [&](const char* entry, size_t first, size_t last) {
      const int64_t number = find(entries, entry, MYDEV_ATTRIBUTE_INT).value.i;
      check(number >= static_cast<int64_t>(first) && number <= static_cast<int64_t>(last), "'", entry, "' is step ",
            number, ", which is not in ", first, " to ", last);
      return static_cast<size_t>(number);
    };
    const size_t end = number_of_step("end", index + 1, limit), item = to_.items_.size();
    require(depth_ < kMostDepth, MYDEV_UNIMPLEMENTED, "more than ", kMostDepth, " loops are in each other");
    ++depth_;
    if (name == "repeat") {
      const std::vector<bool> moving = moving_;
      add_repeat(entries);
      read_steps(index + 1, end);
      moving_ = moving;
    } else {
      const size_t otherwise = number_of_step("otherwise", index + 1, end);
      check(name == "if" || otherwise == end, "a loop has steps from ", otherwise, " on for a byte that is 0");
      View byte{.kind = View::kMemory, .dtype = MYDEV_U8};
      byte.place = place_of(find(entries, "place", MYDEV_ATTRIBUTE_INT).value.i);
      byte.offset = find(entries, "offset", MYDEV_ATTRIBUTE_INT).value.i;
      check_inside(byte, "the byte");
      to_.items_.push_back(
          {.kind = name == "if" ? Item::kIf : Item::kWhile, .first = add_pointer(byte.place, byte.offset)});
      read_steps(index + 1, otherwise);
      to_.items_[item].otherwise = to_.items_.size();
      read_steps(otherwise, end);
    }
    --depth_;
    to_.items_[item].end = to_.items_.size();
    return end;
  }

  void add_repeat(std::span<const mydev_attribute> entries) {
    const int64_t count = find(entries, "count", MYDEV_ATTRIBUTE_INT).value.i;
    const std::span<const int64_t> moves = ints_of(entries, "moves");
    check(count >= 0, "it is repeated ", count, " times");
    check(moves.size() % 2 == 0, "'moves' has ", moves.size(), " numbers; give two for each place");
    to_.items_.push_back(
        {.kind = Item::kRepeat, .first = to_.advances_.size(), .count = moves.size() / 2, .iterations = count});
    for (size_t i = 0; i < moves.size(); i += 2) {
      check(moves[i] >= 0 && static_cast<size_t>(moves[i]) < to_.places_.size() &&
                to_.places_[static_cast<size_t>(moves[i])].kind == Place::kMoving,
            "place ", moves[i], " does not move");
      const auto place = static_cast<size_t>(moves[i]);
      place_of(static_cast<int64_t>(to_.places_[place].base));
      to_.advances_.push_back({place, moves[i + 1], {}});
    }
    moving_.resize(to_.places_.size());
    for (size_t i = to_.items_.back().first; i < to_.advances_.size(); ++i) {
      moving_[to_.advances_[i].place] = true;
    }
  }

  size_t place_of(int64_t place) const {
    check(place >= 0 && static_cast<size_t>(place) < to_.places_.size(), "there is no place ", place);
    const auto index = static_cast<size_t>(place);
    check(to_.places_[index].kind != Place::kMoving || (index < moving_.size() && moving_[index]), "place ", place,
          " moves in a loop, and is used outside of it");
    return index;
  }

  void check_inside(const View& view, const std::string& what) const {
    const Place& place = to_.places_[view.place];
    if (place.kind == Place::kMoving || !has_elements(view.sizes, view.strides)) return;
    const auto reached = bytes_reached(view.sizes, view.strides, dtype_size(view.dtype), view.offset);
    check(reached && reached->first >= place.begin && reached->second <= place.bytes, what, " of ",
          dtype_row(view.dtype).name, ", ", view.offset, " bytes into place ", view.place, ", reaches beyond it");
  }

  std::vector<View> views_of(std::span<const mydev_attribute> entries, size_t results) const {
    const std::span<const int64_t> places = ints_of(entries, "places"), dtypes = ints_of(entries, "dtypes"),
                                   offsets = ints_of(entries, "offsets"), ranks = ints_of(entries, "ranks"),
                                   sizes = ints_of(entries, "sizes"), strides = ints_of(entries, "strides");
    const std::span<const mydev_attribute> numbers = entries_of(find(entries, "numbers", MYDEV_ATTRIBUTE_DICTIONARY));
    check(dtypes.size() == places.size() && offsets.size() == places.size() && ranks.size() == places.size() &&
              sizes.size() == strides.size() && results <= places.size(),
          "the entries say different things of how many operands there are");
    std::vector<View> views;
    size_t dimension = 0, number = 0;
    for (size_t i = 0; i < places.size(); ++i) {
      View& view = views.emplace_back();
      check(places[i] >= kAbsentPlace, "operand ", i, " has the place ", places[i]);
      check(ranks[i] >= 0 && static_cast<size_t>(ranks[i]) <= sizes.size() - dimension, "operand ", i, " has rank ",
            ranks[i]);
      view.kind = places[i] == kNumberPlace ? View::kNumber : places[i] == kAbsentPlace ? View::kAbsent : View::kMemory;
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
      view.place = place_of(places[i]);
      view.offset = offsets[i];
      check_inside(view, "operand " + std::to_string(i));
    }
    check(dimension == sizes.size(), "there are ", sizes.size(), " sizes, of ", dimension, " dimensions");
    return views;
  }

  static std::vector<mydev_buffer> buffers_of(const std::vector<View>& views) {
    std::vector<mydev_buffer> buffers;
    for (const View& view : views) {
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
        buffer.data = pretended_address(view.place, view.offset);
      }
    }
    return buffers;
  }

  void read_launch(const mydev_attribute& step) {
    const std::string_view name = step.name;
    const std::span<const mydev_attribute> entries = entries_of(step);
    const int64_t results = find(entries, "results", MYDEV_ATTRIBUTE_INT).value.i;
    check(results >= 1 && results <= static_cast<int64_t>(ints_of(entries, "places").size()), "it writes ", results,
          " operands");
    const std::vector<View> views = views_of(entries, static_cast<size_t>(results));
    if (name == "fill") return add_fill(views, entries);
    const std::span<const mydev_attribute> attributes =
        entries_of(find(entries, "attributes", MYDEV_ATTRIBUTE_DICTIONARY));
    const mydev_kernel* record = record_of(name);
    require(record != nullptr && name != "mydev.small_steps", MYDEV_UNIMPLEMENTED, "it is of no kernel of the host");
    const std::vector<mydev_buffer> buffers = buffers_of(views);
    check_contract(record->name, buffers, static_cast<uint32_t>(results), attributes);
    mydev_frame frame = make_frame(buffers, static_cast<uint32_t>(results), attributes);
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

  void add_fill(const std::vector<View>& views, std::span<const mydev_attribute> entries) {
    const mydev_attribute& pattern = find(entries, "pattern", MYDEV_ATTRIBUTE_ARRAY);
    check(views.size() == 1 && views[0].kind == View::kMemory && is_dense(views[0].sizes, views[0].strides),
          "a fill writes one dense operand");
    const int64_t bytes = count_of(views[0].sizes) * dtype_size(views[0].dtype);
    check(pattern.dtype == MYDEV_U8 && pattern.count != 0 && bytes % pattern.count == 0, "a pattern of ", pattern.count,
          " bytes does not fill ", bytes);
    char* const data = add_constant(bytes);
    const size_t constant = to_.places_.size() - 1;
    for (int64_t at = 0; at < bytes; at += pattern.count) std::memcpy(data + at, pattern.value.data, pattern.count);
    add_move(views[0], {.kind = View::kMemory,
                        .place = constant,
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
    to_.moves_.push_back({add_pointer(to.place, to.offset), add_pointer(from.place, from.offset), dtype_size(to.dtype),
                          count, run, offsets_of_runs(to), offsets_of_runs(from)});
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
    size_t kept = from.sizes.size();
    while (kept > 0 && (to.strides[kept - 1] == 0 || from.sizes[kept - 1] == 1)) --kept;
    const std::span<const int64_t> outer = from.sizes.first(kept);
    if (!is_dense(outer, to.strides.first(kept))) return false;
    const int64_t rows = count_of(outer), length = count_of(from.sizes.subspan(kept));
    if (rows * length > kMostRowElements) return false;
    to_.rows_.push_back({reduction.run, add_pointer(to.place, to.offset), add_pointer(from.place, from.offset),
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
        next.place = add_scratch(count * conversion.sizes[step]);
        next.offset = 0;
      }
      to_.converts_.push_back(
          {conversion.steps[step], add_pointer(next.place, next.offset), add_pointer(value.place, value.offset), count,
           is_direct ? from.dtype : MYDEV_DTYPE_INVALID, is_direct ? to.dtype : MYDEV_DTYPE_INVALID});
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
    const size_t place = add_scratch(count * dtype_size(view.dtype));
    return {.kind = View::kMemory, .place = place, .dtype = view.dtype, .sizes = view.sizes, .strides = strides};
  }

  void add_call(const PointwiseBlock& block, const std::vector<View>& views, const mydev_frame& frame) {
    const int64_t count = count_of(views[0].sizes);
    if (count == 0) return;
    struct Address {
      size_t place;
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
        addresses[k] = {to_.places_.size() - 1, 0};
        by_one = by_one || is_one;
      } else if (is_one && is_one_element(view.sizes, view.strides)) {
        addresses[k] = {view.place, view.offset};
        by_one = true;
      } else if (is_dense(view.sizes, view.strides)) {
        addresses[k] = {view.place, view.offset};
      } else {
        const View dense = dense_copy(view);
        add_move(dense, view);
        addresses[k] = {dense.place, 0};
      }
    }
    const View& result = views[0];
    const bool is_direct = is_dense(result.sizes, result.strides);
    const View computed = is_direct ? result : dense_copy(result);
    addresses[0] = {computed.place, computed.offset};
    mydev_frame own = make_frame({}, 0, {frame.attributes, frame.num_attributes});
    own.kernel = frame.kernel;
    own.host = frame.host;
    to_.attributes_.push_back(clone_frame(own));
    const size_t first = to_.pointers_.size();
    for (const Address& address : addresses) add_pointer(address.place, address.offset);
    to_.run_calls_ = block.run_table;
    to_.calls_.push_back({.apply = by_one ? block.apply_by_one : block.apply,
                          .kernel = block.kernel,
                          .frame = to_.attributes_.back().get(),
                          .first = first,
                          .count = count});
    to_.operations_.push_back({.dtype = block.wanted[block.inputs],
                               .inputs = block.inputs,
                               .by_one = by_one,
                               .alpha = alpha_of({frame.attributes, frame.num_attributes})});
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
    require(scratch <= static_cast<uint64_t>(kMostScratch), MYDEV_UNIMPLEMENTED, "it needs ", scratch,
            " bytes of scratch");
    kernel_scratch_ = std::max(kernel_scratch_, aligned(scratch));
    frame.scratch_bytes = scratch;
    kernel.frame = clone_frame(frame);
    for (const View& view : views) {
      const bool has_memory = view.kind == View::kMemory && has_elements(view.sizes, view.strides);
      kernel.pointers.push_back(has_memory ? add_pointer(view.place, view.offset) : kNoPointer);
    }
    to_.kernels_.push_back(std::move(kernel));
    to_.items_.push_back({.kind = Item::kKernel, .first = to_.kernels_.size() - 1});
    joins_ = false;
  }

  SmallProgram& to_;
  std::span<const mydev_attribute> steps_;
  std::deque<std::vector<int64_t>> lists_;
  int64_t scratch_ = 0;
  uint64_t kernel_scratch_ = 0;
  bool joins_ = false;  // the next call goes to the last item
  int depth_ = 0;
  std::vector<bool> moving_;  // of the places: a loop that is being read moves it
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
