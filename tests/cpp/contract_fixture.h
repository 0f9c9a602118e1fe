// Frames made of a contract alone: for tests that run each built-in kernel as its contract says.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <complex>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "host_kernels/builtin_kernels.h"
#include "kernels/spec/contract.h"
#include "planned_launch.h"
#include "runtime/driver/host_services.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev::kernels {

using Sizes = std::vector<int64_t>;

// The value of an element in the domain of its dtype: an integer, or a number with an imaginary part.
struct Value {
  int64_t integer = 0;
  std::complex<double> number;
};

template <typename T>
void put(void* to, T value) {
  std::memcpy(to, &value, sizeof(T));
}
template <typename T>
T take(const void* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

inline void store(mydev_dtype dtype, void* to, const Value& value) {
  const double real = value.number.real();
  switch (dtype) {
    case MYDEV_PRED:
      return put(to, static_cast<uint8_t>(value.integer != 0));
    case MYDEV_F16:
      return put(to, static_cast<_Float16>(real));
    case MYDEV_BF16: {
      const auto word = std::bit_cast<uint32_t>(static_cast<float>(real));
      return put(to, static_cast<uint16_t>((word + 0x7FFF + ((word >> 16) & 1)) >> 16));
    }
    case MYDEV_F32:
      return put(to, static_cast<float>(real));
    case MYDEV_F64:
      return put(to, real);
    case MYDEV_C64:
      return put(to, std::complex<float>(value.number));
    case MYDEV_C128:
      return put(to, value.number);
    default:
      std::memcpy(to, &value.integer, static_cast<size_t>(dtype_size(dtype)));
  }
}

inline Value load(mydev_dtype dtype, const void* from) {
  const auto integer = [](int64_t i) { return Value{i, static_cast<double>(i)}; };
  const auto number = [](std::complex<double> z) { return Value{0, z}; };
  switch (dtype) {
    case MYDEV_PRED:
      return integer(take<uint8_t>(from) != 0);
    case MYDEV_S8:
      return integer(take<int8_t>(from));
    case MYDEV_S16:
      return integer(take<int16_t>(from));
    case MYDEV_S32:
      return integer(take<int32_t>(from));
    case MYDEV_S64:
      return integer(take<int64_t>(from));
    case MYDEV_U8:
      return integer(take<uint8_t>(from));
    case MYDEV_F16:
      return number(static_cast<double>(take<_Float16>(from)));
    case MYDEV_BF16:
      return number(std::bit_cast<float>(static_cast<uint32_t>(take<uint16_t>(from)) << 16));
    case MYDEV_F32:
      return number(take<float>(from));
    case MYDEV_F64:
      return number(take<double>(from));
    case MYDEV_C64:
      return number(std::complex<double>(take<std::complex<float>>(from)));
    case MYDEV_C128:
      return number(take<std::complex<double>>(from));
    default:
      return {};
  }
}

// A strided operand with memory of its own.
struct Tensor {
  mydev_dtype dtype = MYDEV_DTYPE_INVALID;
  Sizes sizes, strides;
  int64_t offset = 0;
  std::vector<unsigned char> memory;
  bool absent = false;
  bool is_number = false;
  bool is_reduced = false;  // dimensions of stride 0 are
  mydev_scalar number{};

  size_t count() const {
    int64_t product = 1;
    for (const int64_t size : sizes) product *= size;
    return static_cast<size_t>(product);
  }
  // Whether there is memory to point to: a reduction of nothing has results.
  bool has_elements() const {
    for (size_t d = 0; d < sizes.size(); ++d) {
      if (sizes[d] == 0 && !(is_reduced && strides[d] == 0)) return false;
    }
    return true;
  }
  unsigned char* first() { return memory.data() + offset * std::max<int64_t>(dtype_size(dtype), 1); }
  unsigned char* at(size_t position) {
    auto rest = static_cast<int64_t>(position);
    int64_t element = offset;
    for (size_t d = sizes.size(); d-- > 0;) {
      element += rest % sizes[d] * strides[d];
      rest /= sizes[d];
    }
    return memory.data() + element * std::max<int64_t>(dtype_size(dtype), 1);
  }
  Value get(size_t position) {
    if (!is_number) return load(dtype, at(position));
    return scalar_kind(dtype) == ScalarKind::kInteger ? Value{number.i, static_cast<double>(number.i)}
           : scalar_kind(dtype) == ScalarKind::kFloat ? Value{0, number.f}
                                                      : Value{0, {number.c[0], number.c[1]}};
  }
  mydev_buffer buffer() {
    if (absent) return {nullptr, nullptr, nullptr, 0, MYDEV_DTYPE_INVALID, 0};
    void* data = is_number ? static_cast<void*>(&number) : has_elements() ? first() : nullptr;
    const auto flags = static_cast<uint16_t>(is_number ? MYDEV_BUFFER_SCALAR : 0);
    return {data, sizes.data(), strides.data(), static_cast<int32_t>(sizes.size()), static_cast<int16_t>(dtype), flags};
  }
};

// What a frame is like, as far as the contract leaves it open.
struct Variation {
  std::string name = "plain";
  bool empty = false;         // no elements
  bool reversed = false;      // the last dimension has the greatest stride
  bool gaps = false;          // and negative strides
  bool broadcast = false;     // operands have stride 0 in their first dimension
  bool absent = false;        // what may be absent is, what may be left out is
  bool flags = false;         // attributes that are bool are true
  bool defaults = false;      // attributes that have a default are left out
  bool other_shapes = false;  // the last shape of each operand, the greatest int attributes
  int number = -1;            // this operand is a number
  int reduced = -1;           // -1: all dimensions, else this one
};

// Operands, results and attributes as a contract allows them, all with small reproducible values.
class ContractFrame {
 public:
  // `dtypes`: of each variable. `wrong_operand`: this buffer has the dtype `wrong` instead.
  ContractFrame(const KernelContract& contract, std::vector<mydev_dtype> dtypes, Variation variation,
                int wrong_operand = -1, mydev_dtype wrong = MYDEV_DTYPE_INVALID)
      : contract_(contract), dtypes_(std::move(dtypes)), variation_(std::move(variation)) {
    choose_sizes();
    make_attributes();
    compute_sizes();
    int position = 0;
    for (const auto* operands : {&contract.results, &contract.operands}) {
      for (size_t i = 0; i < operands->size(); ++i, ++position) {
        const ContractOperand& operand = (*operands)[i];
        if (operand.may_be_left_out && variation_.absent) continue;
        const bool is_result = operands == &contract.results;
        const bool is_number = !is_result && variation_.number == static_cast<int>(i);
        const mydev_dtype dtype = position == wrong_operand ? wrong : dtype_of(operand);
        for (size_t k = 0; k < (operand.is_list ? kLength : 1); ++k) add(operand, is_result, is_number, dtype, k);
      }
    }
  }

  static constexpr size_t kLength = 2;  // of lists

  mydev_code run(const mydev_kernel& kernel) {
    std::vector<mydev_buffer> buffers;
    for (Tensor& tensor : tensors_) buffers.push_back(tensor.buffer());
    mydev_frame frame = make_frame(buffers, static_cast<uint32_t>(num_outputs_), attributes_);
    frame.kernel = &kernel;
    violation_ = contract_violation(contract_, frame);
    return run_record(kernel, frame);
  }
  const std::string& violation() const { return violation_; }

  // The buffer of an operand or result by name; nullptr if it was left out.
  Tensor* find(const std::string& name, size_t k) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (names_[i].first == name && names_[i].second == k) return &tensors_[i];
    }
    return nullptr;
  }
  // As the expression sees it, in list position k.
  const mydev_attribute* find_attribute(const std::string& name) const {
    for (const mydev_attribute& attribute : attributes_) {
      if (name == attribute.name) return &attribute;
    }
    return nullptr;
  }

 private:
  mydev_dtype dtype_of(const ContractOperand& operand) const {
    if (operand.variable >= 0) return dtypes_[static_cast<size_t>(operand.variable)];
    return static_cast<mydev_dtype>(__builtin_ctzll(operand.dtypes));
  }
  mydev_dtype first_dtype() const { return dtypes_.empty() ? MYDEV_F32 : dtypes_[0]; }

  void choose_sizes() {
    entries_ = static_cast<size_t>(std::min<int64_t>(2, contract_.greatest_list));
    for (const ContractSizeName& name : contract_.sizes) {
      Sizes list = {2, 3};
      list.resize(entries_);
      sizes_.push_back(name.is_list ? list : Sizes{3});
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

  void compute_sizes() {
    for (const SizeFact& fact : contract_.facts) {
      std::vector<Series<double>> inputs;
      size_t count = entries_;
      for (size_t i = 0; i < contract_.sizes.size(); ++i) {
        const ContractSizeName& name = contract_.sizes[i];
        Series<double> series{{sizes_[i].begin(), sizes_[i].end()}, !name.is_list && !name.is_own};
        if (name.is_own && !name.is_list) series.values.assign(kLength, static_cast<double>(sizes_[i][0]));
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

  void make_attributes() {
    for (size_t i = 0; i < contract_.attributes.size(); ++i) {
      const ContractAttribute& attribute = contract_.attributes[i];
      if (variation_.defaults && attribute.otherwise) break;
      attributes_.push_back(make_attribute(attribute, static_cast<int64_t>(i)));
    }
  }

  mydev_attribute make_attribute(const ContractAttribute& attribute, int64_t index) {
    const char* name = attribute.name.c_str();
    const bool has_values = !contract_.expression.empty();
    const auto integer = static_cast<int64_t>(variation_.other_shapes && attribute.high
                                                  ? *attribute.high
                                                  : attribute.low.value_or(has_values ? index + 1 : 0));
    const double real = has_values ? 0.5 * static_cast<double>(index + 1) : attribute.low.value_or(0);
    const ScalarKind kind = scalar_kind(first_dtype());
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
      case ContractKind::kInts: {
        const size_t length = attribute.length >= 0 ? static_cast<size_t>(attribute.length) : entries_;
        return int_array_attribute(name, int_arrays_.emplace_back(length, integer));
      }
      case ContractKind::kFloats: {
        std::vector<double>& values = float_arrays_.emplace_back(kLength, 0.5);
        values[1] = 1.5;
        mydev_attribute array{name, MYDEV_ATTRIBUTE_FLOAT_ARRAY, 0, static_cast<uint32_t>(values.size()), {}};
        array.value.floats = values.data();
        return array;
      }
    }
    return {};
  }

  Sizes sizes_of(const ContractOperand& operand) const {
    Sizes sizes;
    for (const ContractSize& size : variation_.other_shapes ? operand.shapes.back() : operand.shapes.front()) {
      if (size.name < 0) {
        sizes.push_back(size.number);
      } else {
        const Sizes& named = sizes_[static_cast<size_t>(size.name)];
        sizes.insert(sizes.end(), named.begin(), named.end());
      }
    }
    return sizes;
  }

  void add(const ContractOperand& operand, bool is_result, bool is_number, mydev_dtype dtype, size_t k) {
    Tensor tensor;
    tensor.dtype = dtype;
    tensor.absent = operand.may_be_absent && variation_.absent;
    tensor.is_number = is_number;
    tensor.is_reduced = operand.layout == ContractLayout::kReduced;
    tensor.sizes = sizes_of(operand);
    lay_out(tensor, operand, is_result);
    if (!tensor.absent) fill(tensor, operand);
    names_.emplace_back(operand.name, k);
    tensors_.push_back(std::move(tensor));
    num_outputs_ += is_result ? 1 : 0;
  }

  void lay_out(Tensor& tensor, const ContractOperand& operand, bool is_result) const {
    const size_t rank = tensor.sizes.size();
    const bool free = operand.layout == ContractLayout::kStrided || operand.layout == ContractLayout::kReduced;
    const bool may_reverse = free || operand.layout == ContractLayout::kPacked;
    tensor.strides.assign(rank, 0);
    if (tensor.is_number) {
      const auto kind = scalar_kind(tensor.dtype);
      if (kind == ScalarKind::kInteger) tensor.number.i = tensor.dtype == MYDEV_PRED ? 1 : 3;
      if (kind == ScalarKind::kFloat) tensor.number.f = 0.75;
      if (kind == ScalarKind::kComplex) tensor.number.c[0] = 0.75, tensor.number.c[1] = 0.5;
      return;
    }
    int64_t stride = variation_.gaps && free ? 2 : 1;
    for (size_t i = 0; i < rank; ++i) {
      const size_t d = variation_.reversed && may_reverse ? i : rank - 1 - i;
      const bool is_reduced = operand.layout == ContractLayout::kReduced &&
                              (variation_.reduced < 0 || variation_.reduced == static_cast<int>(d));
      const bool repeats = is_reduced || (variation_.broadcast && free && !is_result && d == 0 && rank > 1);
      if (repeats) continue;
      tensor.strides[d] = stride;
      stride *= std::max<int64_t>(tensor.sizes[d], 1);
    }
    if (variation_.gaps && free && rank > 0 && tensor.strides[rank - 1] != 0 && tensor.sizes[rank - 1] > 0) {
      tensor.offset = tensor.strides[rank - 1] * (tensor.sizes[rank - 1] - 1);
      tensor.strides[rank - 1] *= -1;
    }
    tensor.memory.resize(static_cast<size_t>((stride + 1) * std::max<int64_t>(dtype_size(tensor.dtype), 1)));
  }

  uint32_t random() { return (seed_ = seed_ * 1664525u + 1013904223u) >> 16; }

  void fill(Tensor& tensor, const ContractOperand& operand) {
    if (tensor.is_number) return;
    // Integers of kernels without an expression are positions, for all that the contract says.
    const bool has_values = !contract_.expression.empty() || dtype_row(tensor.dtype).kind == DtypeKind::kFloat;
    for (size_t i = 0; i < tensor.count() && has_values; ++i) {
      Value value;
      value.integer = static_cast<int64_t>(random() % 7) - 3;
      if (value.integer == 0) value.integer = 100;
      if (tensor.dtype == MYDEV_PRED) value.integer = random() & 1;
      const auto quarter = [&] { return (static_cast<double>(random() & 31) - 16) / 4; };
      const double real = quarter();
      value.number = {real, quarter()};
      if (dtype_row(tensor.dtype).kind == DtypeKind::kComplex && real == 0) value.number.real(0.5);
      if (operand.low) value.number = *operand.low + (*operand.high - *operand.low) * (real + 4) / 8;
      store(tensor.dtype, tensor.at(i), value);
    }
  }

  const KernelContract& contract_;
  std::vector<mydev_dtype> dtypes_;
  Variation variation_;
  std::vector<Sizes> sizes_;  // of the contract's names
  size_t entries_ = 0;        // of lists of sizes
  std::deque<Tensor> tensors_;
  std::vector<std::pair<std::string, size_t>> names_;
  std::vector<mydev_attribute> attributes_;
  std::deque<std::vector<int64_t>> int_arrays_;
  std::deque<std::vector<double>> float_arrays_;
  size_t num_outputs_ = 0;
  uint32_t seed_ = 17;
  std::string violation_;
};

// --- what the expression makes of the same operands ------------------------------------------------------------------

inline int64_t domain_value(const Value& value, int64_t /*domain*/, mydev_dtype dtype) {
  return scalar_kind(dtype) == ScalarKind::kInteger ? value.integer : static_cast<int64_t>(value.number.real());
}
inline double domain_value(const Value& value, double /*domain*/, mydev_dtype /*dtype*/) {
  return value.number.real();
}
inline std::complex<double> domain_value(const Value& value, std::complex<double> /*domain*/, mydev_dtype /*dtype*/) {
  return value.number;
}

template <typename Domain>
Domain attribute_value(const mydev_attribute& attribute, size_t k) {
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_FLOAT:
      return static_cast<Domain>(attribute.value.f);
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return static_cast<Domain>(attribute.value.floats[k]);
    case MYDEV_ATTRIBUTE_COMPLEX:
      if constexpr (std::is_same_v<Domain, std::complex<double>>) return {attribute.value.c[0], attribute.value.c[1]};
      return static_cast<Domain>(attribute.value.c[0]);
    default:
      return static_cast<Domain>(static_cast<double>(attribute.value.i));
  }
}

}  // namespace mydev::kernels
