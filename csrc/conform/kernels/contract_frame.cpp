#include "conform/kernels/contract_frame.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::conform {

namespace {

// Sizes differ from each other, so that no two are taken for one another. Later lists are larger.
constexpr std::array<int64_t, 8> kSizes = {3, 4, 5, 2, 6, 7, 8, 9};
constexpr std::array<int64_t, 8> kManySizes = {7, 67, 33, 5, 9, 6, 8, 3};
constexpr std::array<int64_t, 5> kEntries = {2, 3, 2, 3, 2};
constexpr std::array<int64_t, 5> kManyEntries = {37, 67, 2, 3, 2};

bool is_float(mydev_dtype dtype) {
  return dtype_row(dtype).kind == DtypeKind::kFloat;
}

int64_t least_of(mydev_dtype dtype) {
  const int64_t bits = 8 * dtype_size(dtype);
  return dtype_row(dtype).kind == DtypeKind::kUnsigned ? 0 : std::numeric_limits<int64_t>::min() >> (64 - bits);
}
int64_t greatest_of(mydev_dtype dtype) {
  const int64_t bits = 8 * dtype_size(dtype);
  const int64_t greatest = std::numeric_limits<int64_t>::max() >> (64 - bits);
  return dtype_row(dtype).kind == DtypeKind::kUnsigned ? 2 * greatest + 1 : greatest;
}

}  // namespace

ContractFrame::ContractFrame(const KernelContract& contract, std::vector<mydev_dtype> dtypes, Variation variation,
                             Settings settings, int wrong_operand, mydev_dtype wrong)
    : contract_(contract), dtypes_(std::move(dtypes)), variation_(std::move(variation)), settings_(settings) {
  const bool of_some = variation_.reversed == Reversed::kOperands || variation_.reversed == Reversed::kResults;
  worth_it_ = variation_.content == Content::kOrdinary && variation_.alias < 0 && !of_some;
  choose_sizes();
  make_attributes();
  compute_sizes();
  add_operands(wrong_operand, wrong);
  share_memory();
}

std::string ContractFrame::text() const {
  std::string text;
  for (const mydev_dtype dtype : dtypes_) text += std::string(dtype_name(dtype)) + " ";
  text = text.empty() ? variation_.name : text.substr(0, text.size() - 1) + ", " + variation_.name;
  if (!settings_.text().empty()) text += "; " + std::string(settings_.text());
  return text;
}

const std::vector<unsigned char>& ContractFrame::memory_of(const Operand& operand) const {
  return operand.alias < 0 ? operand.image : operands_[static_cast<size_t>(operand.alias)].image;
}

const Operand* ContractFrame::find(const std::string& name, size_t position) const {
  for (const Operand& operand : operands_) {
    if (operand.contract->name == name && operand.position == position) return &operand;
  }
  return nullptr;
}

const mydev_attribute* ContractFrame::find_attribute(const std::string& name) const {
  for (const mydev_attribute& attribute : attributes_) {
    if (name == attribute.name) return &attribute;
  }
  return nullptr;
}

mydev_frame ContractFrame::prepare(const std::vector<unsigned char*>& memories) {
  buffers_.clear();
  for (size_t i = 0; i < operands_.size(); ++i) {
    const int alias = operands_[i].alias;
    buffers_.push_back(operands_[i].buffer(memories[alias < 0 ? i : static_cast<size_t>(alias)]));
  }
  return make_frame(buffers_, static_cast<uint32_t>(num_results_), attributes_);
}

mydev_frame ContractFrame::prepare_on_host() {
  std::vector<unsigned char*> memories;
  memories.reserve(operands_.size());
  for (Operand& operand : operands_) memories.push_back(operand.image.data());
  return prepare(memories);
}

// --- sizes -----------------------------------------------------------------------------------------------------------

mydev_dtype ContractFrame::dtype_of(const ContractOperand& operand) const {
  if (operand.variable >= 0) return dtypes_[static_cast<size_t>(operand.variable)];
  return static_cast<mydev_dtype>(__builtin_ctzll(operand.dtypes));
}

void ContractFrame::choose_sizes() {
  const int64_t wanted = std::max<int64_t>(variation_.rank, settings_.values("rank").empty() ? 0 : 2);
  entries_ = static_cast<size_t>(std::clamp(wanted, contract_.least_list, contract_.greatest_list));
  size_t lists = 0, single = 0;
  for (const ContractSizeName& name : contract_.sizes) {
    Sizes& sizes = sizes_.emplace_back();
    if (name.is_list) {
      for (size_t e = 0; e < entries_; ++e) {
        const auto& entries = variation_.many ? kManyEntries : kEntries;
        sizes.push_back(entries[e % entries.size()] + 2 * static_cast<int64_t>(lists));
      }
      ++lists;
    } else {
      sizes.push_back((variation_.many ? kManySizes : kSizes)[single++ % kSizes.size()]);
    }
    const std::vector<double> set = settings_.values(name.name);
    for (int64_t& size : sizes) size = set.empty() ? size : static_cast<int64_t>(set[0]);
  }
  if (!variation_.empty) return;
  for (const auto* operands : {&contract_.results, &contract_.operands}) {
    for (const ContractOperand& operand : *operands) {
      for (const ContractShape& shape : operand.shapes) {
        if (shape.empty() || shape[0].name < 0) continue;
        Sizes& sizes = sizes_[static_cast<size_t>(shape[0].name)];
        if (!sizes.empty()) sizes[0] = 0;
      }
    }
  }
}

// Returns the sizes that a name stands for, in this position of a list if each position has its own.
Sizes ContractFrame::size_of(size_t name, size_t position) const {
  Sizes sizes = sizes_[name];
  if (contract_.sizes[name].is_own && !sizes.empty()) sizes.back() += static_cast<int64_t>(position);
  return sizes;
}

int64_t ContractFrame::least_size(std::string_view name) const {
  for (size_t i = 0; i < sizes_.size(); ++i) {
    if (contract_.sizes[i].name != name || sizes_[i].empty()) continue;
    return *std::min_element(sizes_[i].begin(), sizes_[i].end());
  }
  return 0;
}

void ContractFrame::compute_sizes() {
  for (const SizeFact& fact : contract_.facts) {
    std::vector<Series<double>> inputs;
    size_t count = entries_;
    for (size_t i = 0; i < contract_.sizes.size(); ++i) {
      const ContractSizeName& name = contract_.sizes[i];
      Series<double> series{{sizes_[i].begin(), sizes_[i].end()}, !name.is_list && !name.is_own};
      if (name.is_own && !name.is_list) {
        series.values.clear();
        for (size_t k = 0; k < kLength; ++k) series.values.push_back(static_cast<double>(size_of(i, k)[0]));
      }
      if (name.is_own && fact.value.reads(name.name)) count = kLength;
      inputs.push_back(std::move(series));
    }
    for (const mydev_attribute& attribute : attributes_) {
      const bool is_list = attribute.kind == MYDEV_ATTRIBUTE_INT_ARRAY;
      inputs.push_back(
          is_list ? Series<double>{{attribute.value.ints, attribute.value.ints + attribute.count}, false}
                  : Series<double>{{attribute.kind == MYDEV_ATTRIBUTE_FLOAT ? attribute.value.f
                                                                            : static_cast<double>(attribute.value.i)},
                                   true});
    }
    const Series<double> value = fact.value.evaluate<double>(0, inputs, count);
    Sizes& sizes = sizes_[static_cast<size_t>(fact.size)];
    for (size_t i = 0; i < sizes.size(); ++i) {
      sizes[i] = static_cast<int64_t>(value.values[value.uniform ? 0 : i]);
    }
  }
}

Sizes ContractFrame::sizes_of(const ContractOperand& operand, size_t position) const {
  Sizes sizes;
  for (const ContractSize& size : variation_.other_shapes ? operand.shapes.back() : operand.shapes.front()) {
    if (size.name < 0) {
      sizes.push_back(size.number);
    } else {
      const Sizes named = size_of(static_cast<size_t>(size.name), position);
      sizes.insert(sizes.end(), named.begin(), named.end());
    }
  }
  return sizes;
}

// --- attributes ------------------------------------------------------------------------------------------------------

void ContractFrame::make_attributes() {
  for (size_t i = 0; i < contract_.attributes.size(); ++i) {
    const ContractAttribute& attribute = contract_.attributes[i];
    if (variation_.defaults && attribute.otherwise) break;
    attributes_.push_back(make_attribute(attribute, static_cast<int64_t>(i)));
  }
}

// Without settings or bounds, the integer is neither the default nor a value that makes no difference.
int64_t ContractFrame::integer_of(const ContractAttribute& attribute, int64_t index) const {
  if (const std::vector<double> set = settings_.values(attribute.name); !set.empty())
    return static_cast<int64_t>(set[0]);
  if (variation_.other_shapes && attribute.high) {
    return static_cast<int64_t>(variation_.next_choice && attribute.low ? *attribute.low + 1 : *attribute.high);
  }
  return static_cast<int64_t>(attribute.low.value_or(static_cast<double>(index) + 2));
}

double ContractFrame::real_of(const ContractAttribute& attribute, int64_t index) const {
  if (const std::vector<double> set = settings_.values(attribute.name); !set.empty()) return set[0];
  if (attribute.low && attribute.high) return *attribute.low + (*attribute.high - *attribute.low) / 4;
  const double position = static_cast<double>(index) + 1;
  return contract_.expression.empty() ? 0.5 / position : 0.5 * position;
}

mydev_attribute ContractFrame::make_attribute(const ContractAttribute& attribute, int64_t index) {
  const char* name = attribute.name.c_str();
  const int64_t integer = integer_of(attribute, index);
  const double real = real_of(attribute, index);
  const ScalarKind kind = scalar_kind(dtypes_.empty() ? MYDEV_F32 : dtypes_[0]);
  switch (attribute.kind) {
    case ContractKind::kBool:
      return bool_attribute(name, variation_.flags);
    case ContractKind::kInt:
      return int_attribute(name, integer);
    case ContractKind::kFloat:
      return float_attribute(name, real);
    case ContractKind::kNumber:
    case ContractKind::kScalar:
      if (kind == ScalarKind::kComplex) return complex_attribute(name, real, -0.25);
      return kind == ScalarKind::kInteger ? int_attribute(name, integer) : float_attribute(name, real);
    case ContractKind::kInts:
    case ContractKind::kFloats:
      return make_array(attribute, integer);
  }
  return {};
}

mydev_attribute ContractFrame::make_array(const ContractAttribute& attribute, int64_t integer) {
  const char* name = attribute.name.c_str();
  if (attribute.kind == ContractKind::kInts) {
    const std::vector<double> set = settings_.values(attribute.name);
    const bool is_as_set = attribute.length == ContractAttribute::kAnyLength && !set.empty();
    const size_t length = attribute.length >= 0 ? static_cast<size_t>(attribute.length)
                          : is_as_set           ? set.size()
                                                : entries_;
    std::vector<int64_t>& values = int_arrays_.emplace_back(length, integer);
    for (size_t i = 0; i < length && i < set.size(); ++i) values[i] = static_cast<int64_t>(set[i]);
    return int_array_attribute(name, values);
  }
  const size_t length = attribute.length == ContractAttribute::kListLength ? entries_ : kLength;
  std::vector<double>& values = float_arrays_.emplace_back(length, 0.5);
  if (length > 1) values[1] = 1.5;
  mydev_attribute array{name, MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, static_cast<uint32_t>(values.size()), {}};
  array.value.floats = values.data();
  return array;
}

// --- operands --------------------------------------------------------------------------------------------------------

void ContractFrame::add_operands(int wrong_operand, mydev_dtype wrong) {
  int position = 0;
  for (const auto* operands : {&contract_.results, &contract_.operands}) {
    for (size_t i = 0; i < operands->size(); ++i, ++position) {
      const ContractOperand& operand = (*operands)[i];
      if (operand.may_be_left_out && variation_.absent) continue;
      const bool is_result = operands == &contract_.results;
      const bool is_number = !is_result && variation_.number == static_cast<int>(i);
      const mydev_dtype dtype = position == wrong_operand ? wrong : dtype_of(operand);
      for (size_t k = 0; k < (operand.is_list ? kLength : 1); ++k) add(operand, is_result, is_number, dtype, k);
    }
  }
}

void ContractFrame::add(const ContractOperand& contract, bool is_result, bool is_number, mydev_dtype dtype,
                        size_t position) {
  Operand operand;
  operand.contract = &contract;
  operand.position = position;
  operand.is_result = is_result;
  operand.dtype = dtype;
  operand.absent = contract.may_be_absent && variation_.absent;
  operand.is_number = is_number;
  operand.sizes = sizes_of(contract, position);
  operand.strides.assign(operand.sizes.size(), 0);
  if (is_number) {
    set_number(operand);
  } else if (!operand.absent) {
    lay_out(operand);
    if (!is_result || contract.is_updated) fill(operand);
  }
  operands_.push_back(std::move(operand));
  num_results_ += is_result ? 1 : 0;
}

void ContractFrame::set_number(Operand& operand) const {
  switch (scalar_kind(operand.dtype)) {
    case ScalarKind::kInteger:
      operand.number.i = operand.dtype == MYDEV_PRED ? 1 : 3;
      break;
    case ScalarKind::kFloat:
      operand.number.f = 0.75;
      break;
    case ScalarKind::kComplex:
      operand.number.c[0] = 0.75;
      operand.number.c[1] = 0.5;
      break;
  }
}

bool ContractFrame::is_reversed(const Operand& operand) {
  const ContractLayout layout = operand.contract->layout;
  const bool free = layout == ContractLayout::kStrided || layout == ContractLayout::kReduced;
  switch (variation_.reversed) {
    case Reversed::kNone:
      return false;
    case Reversed::kAll:
      return free || layout == ContractLayout::kPacked;
    case Reversed::kOperands:
      if (!free || operand.is_result || (operands_.size() - num_results_) % 2 != 0) return false;
      break;
    case Reversed::kResults:
      if (!free || !operand.is_result) return false;
      break;
  }
  worth_it_ |= operand.sizes.size() > 1;
  return true;
}

void ContractFrame::lay_out(Operand& operand) {
  const ContractLayout layout = operand.contract->layout;
  const auto rank = static_cast<int>(operand.sizes.size());
  const bool free = layout == ContractLayout::kStrided || layout == ContractLayout::kReduced;
  const bool reversed = is_reversed(operand);
  // Neighbours repeat different dimensions.
  const int repeated = operands_.size() % 2 == 0 ? 0 : rank - 1;
  int64_t stride = variation_.gaps && free ? 2 : 1;
  for (int i = 0; i < rank; ++i) {
    const int d = reversed ? i : rank - 1 - i;
    const bool is_reduced = layout == ContractLayout::kReduced && (variation_.reduced < 0 || variation_.reduced == d);
    const bool repeats = variation_.broadcast && free && !operand.is_result && d == repeated && rank > 1;
    if (is_reduced || repeats) continue;
    operand.strides[static_cast<size_t>(d)] = stride;
    stride *= std::max<int64_t>(operand.sizes[static_cast<size_t>(d)], 1);
  }
  if (variation_.gaps && free && rank > 0 && operand.strides.back() != 0 && operand.sizes.back() > 0) {
    operand.offset = operand.strides.back() * (operand.sizes.back() - 1);
    operand.strides.back() *= -1;
  }
  operand.make_image(stride + 1);
}

// Puts results into an operand's memory if the variation asks for it, the contract allows it, and both have the same
// dtype and sizes.
void ContractFrame::share_memory() {
  if (variation_.alias < 0) return;
  const std::string& name = contract_.operands[static_cast<size_t>(variation_.alias)].name;
  for (Operand& result : operands_) {
    const auto& may_be = result.contract->may_be;
    if (!result.is_result || std::find(may_be.begin(), may_be.end(), variation_.alias) == may_be.end()) continue;
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& operand = operands_[i];
      const bool wanted = operand.contract->name == name && operand.position == result.position;
      if (!wanted || operand.dtype != result.dtype || operand.sizes != result.sizes) continue;
      result.alias = static_cast<int>(i);
      result.strides = operand.strides;
      result.offset = operand.offset;
      result.image.clear();
      worth_it_ = true;
    }
  }
}

// --- values ----------------------------------------------------------------------------------------------------------

void ContractFrame::fill(Operand& operand) {
  std::optional<OperandBounds> bounds =
      settings_.bounds(operand.contract->name, [&](std::string_view name) { return least_size(name); });
  const auto &low = operand.contract->low, &high = operand.contract->high;
  if (!bounds && low && high) bounds = OperandBounds{*low, *high};
  seed_ = seed_ * 1664525U + 1013904223U;
  for (size_t i = 0; i < operand.count(); ++i) {
    store_element(operand.dtype, operand.image.data() + operand.byte_of(i), value_at(operand, i, bounds));
  }
}

// False if floats are read as integers, since that says nothing of special floats.
bool ContractFrame::has_special_floats() const {
  const bool in_integers = !dtypes_.empty() && scalar_kind(dtypes_[0]) == ScalarKind::kInteger;
  return contract_.expression.empty() || !in_integers || uses(contract_, {"any", "all"});
}

// True if the expression computes in integers: no contract says what becomes of large integers in floats.
bool ContractFrame::has_exact_integers() const {
  return !contract_.expression.empty() && (dtypes_.empty() || scalar_kind(dtypes_[0]) == ScalarKind::kInteger);
}

Value ContractFrame::value_at(const Operand& operand, size_t index, const std::optional<OperandBounds>& bounds) {
  // Numbers below 4 that every floating dtype holds; those near each other differ.
  const auto spread = [&](size_t factor) {
    return static_cast<double>(static_cast<int64_t>((index * factor + (seed_ >> 16)) % 251) - 125) / 32;
  };
  const double real = spread(37);
  if (bounds) {
    const double number = bounds->low + (bounds->high - bounds->low) * (real + 4) / 8;
    const bool by_integer = scalar_kind(operand.dtype) == ScalarKind::kInteger || !is_readable(operand.dtype);
    return by_integer ? value_of(static_cast<int64_t>(std::lround(number))) : Value{0, number};
  }
  const bool special = variation_.content != Content::kOrdinary && index % 5 < 4;
  if (special && is_float(operand.dtype) && has_special_floats()) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr std::array<double, 4> kSpecial = {kInfinity, -kInfinity, 0.0, -0.0};
    worth_it_ |= variation_.content != Content::kExtremes;
    if (variation_.content == Content::kNan && index % 5 == 1 + operands_.size() % 3) return {0, std::nan("")};
    if (variation_.content == Content::kInfinities) return {0, kSpecial[(index + operands_.size()) % 4]};
  }
  const bool is_integer = dtype_row(operand.dtype).kind == DtypeKind::kSigned || operand.dtype == MYDEV_U8;
  if (special && is_integer && variation_.content == Content::kExtremes && has_exact_integers()) {
    worth_it_ = true;
    const std::array<int64_t, 3> extremes = {least_of(operand.dtype), greatest_of(operand.dtype), -1};
    const int64_t extreme = extremes[(index + operands_.size()) % 3];
    return value_of(extreme == 0 ? 1 : extreme);
  }
  Value value{static_cast<int64_t>((index * 5 + (seed_ >> 16)) % 7) - 3, {real, spread(53)}};
  if (value.integer == 0) value.integer = 100;
  if (operand.dtype == MYDEV_PRED) value.integer = value.integer > 0 && value.integer < 4 ? 1 : 0;
  if (dtype_row(operand.dtype).kind == DtypeKind::kComplex && real == 0) value.number.real(0.5);
  return value;
}

// --- frames ----------------------------------------------------------------------------------------------------------

void for_each_frame(const KernelContract& contract, const Checks& checks,
                    const std::function<void(ContractFrame& frame)>& use) {
  const auto choices = dtype_choices(contract);
  const bool by_dtypes = checks.shares() <= choices.size();
  size_t choice = 0, number = 0;
  for (const auto& dtypes : choices) {
    const bool wants_dtypes = checks.wants(choice++);
    if (by_dtypes && !wants_dtypes) continue;
    for (const Variation& variation : variations_of(contract)) {
      for (const Settings& settings : settings_of(contract, variation)) {
        ContractFrame frame(contract, dtypes, variation, settings);
        if (!frame.is_worth_it() || !contract_violation(contract, frame.prepare_on_host()).empty()) continue;
        if (by_dtypes || checks.wants(number++)) use(frame);
      }
    }
  }
}

}  // namespace mydev::conform
