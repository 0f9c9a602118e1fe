#include "lowering/emitter.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "program/ir/access.h"
#include "runtime/frame/dtype.h"

namespace mydev::lowering {

using program::Operand;

namespace {

constexpr size_t kMostKnownBytes = 2048;  // of constants by which operations are computed beforehand

bool is_floating(mydev_dtype dtype) noexcept {
  return dtype == MYDEV_F16 || dtype == MYDEV_BF16 || dtype == MYDEV_F32 || dtype == MYDEV_F64;
}
stablehlo::ElementType element_type_of(mydev_dtype dtype) noexcept {
  for (const stablehlo::ElementRow& row : stablehlo::kElementTypes) {
    if (row.dtype == dtype) return row.type;
  }
  return stablehlo::ElementType::kNone;
}

Operand part(const Operand& view, uint64_t index) {
  Operand result = view;
  result.dtype = view.dtype == MYDEV_C128 ? MYDEV_F64 : MYDEV_F32;
  for (int64_t& stride : result.strides) stride *= 2;
  result.offset += index * static_cast<uint64_t>(dtype_size(result.dtype));
  return result;
}

void move(Operand& view, int64_t elements) {
  view.offset += static_cast<uint64_t>(elements * dtype_size(view.dtype));
}

}  // namespace

bool is_complex(mydev_dtype dtype) noexcept {
  return dtype == MYDEV_C64 || dtype == MYDEV_C128;
}

mydev_dtype dtype_of(stablehlo::ElementType type) noexcept {
  const mydev_dtype dtype = stablehlo::element_row(type).dtype;
  return dtype == MYDEV_DTYPE_INVALID ? MYDEV_U8 : dtype;
}

mydev_dtype signed_dtype(mydev_dtype dtype) noexcept {
  switch (dtype) {
    case MYDEV_U16:
      return MYDEV_S16;
    case MYDEV_U32:
      return MYDEV_S32;
    case MYDEV_U64:
      return MYDEV_S64;
    default:
      return dtype;
  }
}

bool has_kernels(stablehlo::ElementType type) noexcept {
  return stablehlo::element_row(type).dtype != MYDEV_DTYPE_INVALID;
}

bool has_float_kernels(stablehlo::ElementType type) noexcept {
  const stablehlo::ElementRow& row = stablehlo::element_row(type);
  return row.kind == stablehlo::ElementKind::kFloat && row.bits >= 16;
}

bool is_empty(const Sizes& sizes) noexcept {
  return std::ranges::count(sizes, 0) != 0;
}

Sizes listed_or(const Sizes& listed, size_t count, int64_t otherwise) {
  return listed.empty() ? Sizes(count, otherwise) : listed;
}

bool is_row_major(const Operand& view) noexcept {
  return is_empty(view.sizes) || program::is_dense(view);
}

// --- views -----------------------------------------------------------------------------------------------------------

Operand with_dtype(Operand view, mydev_dtype dtype) {
  view.dtype = dtype;
  return view;
}

Operand transposed(const Operand& view, const Sizes& permutation) {
  Operand result = view;
  for (size_t d = 0; d < permutation.size(); ++d) {
    result.sizes[d] = view.sizes[static_cast<size_t>(permutation[d])];
    result.strides[d] = view.strides[static_cast<size_t>(permutation[d])];
  }
  return result;
}

Operand sliced(const Operand& view, const Sizes& start, const Sizes& sizes, const Sizes& steps) {
  Operand result = view;
  result.sizes = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!is_empty(sizes)) move(result, start[d] * view.strides[d]);
    if (sizes[d] > 1) result.strides[d] = view.strides[d] * steps[d];
  }
  return result;
}

Operand reversed(Operand view, const Sizes& dimensions) {
  if (is_empty(view.sizes)) return view;
  for (const int64_t dimension : dimensions) {
    const auto d = static_cast<size_t>(dimension);
    move(view, (view.sizes[d] - 1) * view.strides[d]);
    view.strides[d] = -view.strides[d];
  }
  return view;
}

Operand broadcast(const Operand& view, const Sizes& sizes, const Sizes& dimensions) {
  Operand result = view;
  result.sizes = sizes;
  result.strides.assign(sizes.size(), 0);
  for (size_t i = 0; i < dimensions.size(); ++i) {
    if (view.sizes[i] != 1) result.strides[static_cast<size_t>(dimensions[i])] = view.strides[i];
  }
  return result;
}

Operand dense_reshaped(Operand dense, const Sizes& sizes) {
  dense.sizes = sizes;
  dense.strides = program::dense_strides(sizes);
  return dense;
}

std::optional<Operand> reshaped(const Operand& view, const Sizes& sizes) {
  if (is_row_major(view)) return dense_reshaped(view, sizes);
  Operand result = view;
  result.sizes = sizes;
  // Runs of the old dimensions that lie as one, and the new dimensions that make each of them up; from the last on.
  result.strides.assign(sizes.size(), 0);
  size_t next = sizes.size();
  for (size_t d = view.sizes.size(); d-- > 0;) {
    if (view.sizes[d] == 1) continue;
    int64_t run = view.sizes[d];
    const int64_t step = view.strides[d];
    while (d > 0 && (view.sizes[d - 1] == 1 || view.strides[d - 1] == step * run)) run *= view.sizes[--d];
    int64_t stride = step;
    while (run > 1) {
      if (next == 0) return std::nullopt;
      const int64_t size = sizes[--next];
      if (run % size != 0) return std::nullopt;
      result.strides[next] = stride;
      stride *= size;
      run /= size;
    }
  }
  return result;
}

namespace {
Sizes merged_sizes(const Operand& view, std::span<const size_t> groups) {
  Sizes sizes;
  size_t d = 0;
  for (const size_t length : groups) {
    int64_t size = 1;
    for (size_t i = 0; i < length; ++i) size *= view.sizes[d++];
    sizes.push_back(size);
  }
  return sizes;
}
}  // namespace

Sizes as_one_part(Sizes sizes) {
  sizes.insert(sizes.begin(), 1);
  return sizes;
}

Operand real_part(const Operand& view) {
  return part(view, 0);
}
Operand imaginary_part(const Operand& view) {
  return part(view, 1);
}
Operand both_parts(const Operand& view) {
  Operand result = part(view, 0);
  result.sizes.push_back(2);
  result.strides.push_back(1);
  return result;
}
Operand of_both_parts(Operand view) {
  view.dtype = view.dtype == MYDEV_F64 ? MYDEV_C128 : MYDEV_C64;
  view.sizes.pop_back();
  view.strides.pop_back();
  for (int64_t& stride : view.strides) stride /= 2;
  return view;
}

// --- steps -----------------------------------------------------------------------------------------------------------

const std::vector<Tensor>* Emitter::find(const std::string& key) const {
  const auto found = known_.find(key);
  return found == known_.end() ? nullptr : &found->second;
}

void Emitter::forget() noexcept {
  known_.clear();
  elements_.clear();
}

void Emitter::note_elements(program::SlotIndex slot, std::span<const std::byte> data) {
  if (data.size() <= kMostKnownBytes) elements_.insert_or_assign(slot, std::vector(data.begin(), data.end()));
}

void Emitter::note_indices(const Operand& temporary) {
  const auto bytes = static_cast<size_t>(dtype_size(temporary.dtype));
  const auto count = static_cast<size_t>(count_of(temporary.sizes));
  if (count > kMostKnownBytes / bytes) return;
  std::vector<std::byte> data(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    stablehlo::store(element_type_of(temporary.dtype), {.integer = static_cast<int64_t>(i)}, data.data() + i * bytes);
  }
  note_elements(temporary.slot, data);
}

std::optional<std::vector<std::byte>> Emitter::known_elements(const Operand& view) const {
  const auto found = elements_.find(view.slot);
  const auto bytes = static_cast<size_t>(dtype_size(view.dtype));
  const auto count = static_cast<size_t>(count_of(view.sizes));
  if (view.kind != Operand::kView || found == elements_.end() || count * bytes > kMostKnownBytes) return std::nullopt;
  std::vector<std::byte> elements(count * bytes);
  for (size_t i = 0; i < count; ++i) {
    Operand element = view;
    auto left = static_cast<int64_t>(i);
    for (size_t d = view.sizes.size(); d-- > 0; left /= view.sizes[d]) {
      move(element, left % view.sizes[d] * view.strides[d]);
    }
    std::memcpy(elements.data() + i * bytes, found->second.data() + element.offset, bytes);
  }
  return elements;
}

Operand Emitter::temporary(mydev_dtype dtype, const Sizes& sizes) {
  return builder_.view(builder_.temporary(dtype, sizes));
}

Tensor Emitter::constant(mydev_dtype dtype, const Sizes& sizes, std::span<const std::byte> data) {
  const program::SlotIndex slot = builder_.constant(dtype, sizes, data);
  note_elements(slot, data);
  return {builder_.view(slot), std::nullopt};
}

Tensor Emitter::splat(mydev_dtype dtype, const Sizes& sizes, mydev_scalar value, std::span<const std::byte> bytes) {
  const Operand element = constant(dtype, {}, bytes).view;
  return {broadcast(element, sizes, {}), value};
}

Tensor Emitter::splat(mydev_dtype dtype, const Sizes& sizes, const stablehlo::Number& value) {
  const stablehlo::ElementType type = element_type_of(dtype);
  const stablehlo::Number number = stablehlo::rounded(type, value);
  std::array<std::byte, 16> bytes{};
  stablehlo::store(type, number, bytes.data());
  mydev_scalar scalar{};
  if (is_complex(dtype)) {
    scalar.c[0] = number.real;
  } else if (is_floating(dtype)) {
    scalar.f = number.real;
  } else {
    scalar.i = number.integer;
  }
  return splat(dtype, sizes, scalar, std::span(bytes).first(static_cast<size_t>(dtype_size(dtype))));
}

Tensor Emitter::splat(mydev_dtype dtype, const Sizes& sizes, double value) {
  if (!is_floating(dtype) && !is_complex(dtype)) return integer_splat(dtype, sizes, static_cast<int64_t>(value));
  return splat(dtype, sizes, stablehlo::Number{.real = value});
}

Tensor Emitter::integer_splat(mydev_dtype dtype, const Sizes& sizes, int64_t value) {
  return splat(dtype, sizes, stablehlo::Number{.integer = value});
}

Tensor Emitter::device_integers(mydev_dtype dtype, const Sizes& sizes, const Sizes& numbers) {
  const auto [least, greatest] = std::ranges::minmax(numbers);
  if (least == greatest) return integer_splat(dtype, sizes, least);
  const auto bytes = static_cast<size_t>(dtype_size(dtype));
  std::vector<std::byte> data(numbers.size() * bytes);
  for (size_t i = 0; i < numbers.size(); ++i) {
    stablehlo::store(element_type_of(dtype), stablehlo::Number{.integer = numbers[i]}, data.data() + i * bytes);
  }
  const auto devices = static_cast<uint32_t>(std::ssize(numbers) / count_of(sizes));
  return {builder_.view(builder_.constant(dtype, sizes, data, "", devices)), std::nullopt, Range{least, greatest}};
}

void Emitter::copy(const Operand& to, const Operand& from) {
  if (!is_empty(to.sizes)) builder_.copy(to, from);
}

Operand Emitter::dense(const Operand& view) {
  return is_row_major(view) ? view : duplicate(view);
}

Operand Emitter::duplicate(const Operand& view) {
  const Operand result = temporary(view.dtype, view.sizes);
  copy(result, view);
  return result;
}

Operand Emitter::reshape(const Operand& view, const Sizes& sizes) {
  if (std::optional<Operand> result = reshaped(view, sizes)) return *result;
  return dense_reshaped(duplicate(view), sizes);
}

void Emitter::join(const Operand& result, std::span<const Operand> parts, size_t dimension) {
  Sizes start(result.sizes.size(), 0);
  const Sizes ones(result.sizes.size(), 1);
  for (const Operand& part : parts) {
    copy(sliced(result, start, part.sizes, ones), part);
    start[dimension] += part.sizes[dimension];
  }
}

Operand Emitter::joined_apart(std::span<const Operand> parts, size_t dimension) {
  Sizes sizes = parts.front().sizes, order(sizes.size());
  sizes[dimension] = 0;
  for (const Operand& part : parts) sizes[dimension] += part.sizes[dimension];
  const auto outermost = sizes.begin() + static_cast<std::ptrdiff_t>(dimension);
  std::rotate(sizes.begin(), outermost, outermost + 1);
  for (size_t d = 0; d < order.size(); ++d) {
    order[d] = static_cast<int64_t>(d < dimension ? d + 1 : d == dimension ? 0 : d);
  }
  const Operand result = transposed(temporary(parts.front().dtype, sizes), order);
  join(result, parts, dimension);
  return result;
}

Operand Emitter::merge(const Operand& view, std::span<const size_t> groups) {
  return reshape(view, merged_sizes(view, groups));
}

Tensor Emitter::pointwise(const char* kernel, mydev_dtype dtype, std::vector<Tensor> operands,
                          std::span<const mydev_attribute> attributes) {
  const Sizes sizes = operands.front().sizes();
  const bool all_constant =
      std::ranges::all_of(operands, [](const Tensor& tensor) { return tensor.splat.has_value(); });
  const bool is_choice = std::strcmp(kernel, "mydev.where") == 0;  // whose condition is no number
  std::vector<Operand> given;
  for (size_t i = 0; i < operands.size(); ++i) {
    given.push_back(operands[i].view);
    const std::optional<mydev_scalar>& splat = operands[i].splat;
    if (splat && !all_constant && !(is_choice && i == 0)) {
      given.back() = program::ProgramBuilder::number(operands[i].view.dtype, *splat);
      given.back().sizes = sizes;
      given.back().strides.assign(sizes.size(), 0);
    }
  }
  const Operand result = temporary(dtype, sizes);
  launch(kernel, {result}, std::move(given), attributes);
  return {result, std::nullopt};
}

Tensor Emitter::unary(const char* kernel, mydev_dtype dtype, const Operand& operand) {
  const Operand result = temporary(dtype, operand.sizes);
  launch(kernel, {result}, {operand});
  return {result, std::nullopt};
}

Tensor Emitter::converted(const Tensor& tensor, mydev_dtype dtype) {
  return tensor.view.dtype == dtype ? tensor : unary("mydev.copy", dtype, tensor.view);
}

void Emitter::launch(const char* kernel, std::vector<Operand> results, std::vector<Operand> operands,
                     std::span<const mydev_attribute> attributes) {
  if (!results.empty() && std::ranges::all_of(results, [](const Operand& result) { return is_empty(result.sizes); }))
    return;
  builder_.launch(kernel, std::move(results), std::move(operands), attributes);
}

Operand Emitter::pad(const Tensor& tensor, const Tensor& value, const Sizes& low, const Sizes& high,
                     const Sizes& interior) {
  const Sizes& sizes = tensor.sizes();
  const size_t rank = sizes.size();
  // For each dimension: the elements that stay, from the first on, and the place of that first one.
  Sizes whole(rank), first(rank), kept(rank), place(rank), steps(rank), ones(rank, 1);
  for (size_t d = 0; d < rank; ++d) {
    const int64_t step = interior[d] + 1;
    const int64_t spread = sizes[d] == 0 ? 0 : (sizes[d] - 1) * step + 1;
    whole[d] = std::max<int64_t>(spread + low[d] + high[d], 0);
    first[d] = low[d] >= 0 ? 0 : (-low[d] + interior[d]) / step;
    const int64_t start = first[d] * step + low[d];
    kept[d] = start >= whole[d] ? 0 : std::min(sizes[d] - first[d], (whole[d] - 1 - start) / step + 1);
    kept[d] = std::max<int64_t>(kept[d], 0);
    place[d] = start;
    steps[d] = step;
  }
  const Operand result = temporary(tensor.view.dtype, whole);
  copy(result, broadcast(value.view, whole, {}));
  if (!is_empty(kept)) copy(sliced(result, place, kept, steps), sliced(tensor.view, first, kept, ones));
  return result;
}

}  // namespace mydev::lowering
