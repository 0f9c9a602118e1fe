// Frames against contracts.
#include <algorithm>
#include <utility>

#include "kernels/spec/contract.h"
#include "kernels/spec/dense.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

template <typename... Parts>
std::string text_of(const Parts&... parts) {
  std::string text;
  const auto append = [&text](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>) {
      text += std::to_string(part);
    } else {
      text += part;
    }
  };
  (append(parts), ...);
  return text;
}

const char* name_of(int32_t dtype) {
  return dtype_row(dtype).name;
}

const char* kind_name(int32_t kind) {
  constexpr const char* kNames[] = {"BOOL",      "INT",         "FLOAT", "COMPLEX",   "STRING",
                                    "INT_ARRAY", "FLOAT_ARRAY", "ARRAY", "DICTIONARY"};
  return kind >= 0 && kind < static_cast<int32_t>(std::size(kNames)) ? kNames[kind] : "unknown";
}

std::string sizes_of(const mydev_buffer& buffer) {
  std::string text = "[";
  for (int32_t d = 0; d < buffer.rank; ++d) text += (d != 0 ? "," : "") + std::to_string(buffer.sizes[d]);
  return text + "]";
}

// One buffer, the operand that it belongs to, and its index in that operand's list.
struct Given {
  const mydev_buffer* buffer;
  const ContractOperand* operand;
  size_t index;
};

// Checks return a reason as a string; it is empty if there is nothing to say against the frame.
class FrameCheck {
 public:
  // `operands_only`: the frame has no results yet, and no memory.
  FrameCheck(const KernelContract& contract, const mydev_frame& frame, bool operands_only)
      : contract_(contract),
        frame_(frame),
        operands_only_(operands_only),
        dtypes_(contract.variables.size()),
        sizes_(contract.sizes.size()) {}

  std::string run() {
    std::string why = count();
    for (const Given& given : given_) {
      if (why.empty()) why = check(given);
    }
    if (why.empty()) why = check_conditions();
    if (why.empty() && !contract_.may_be_empty) why = check_elements();
    // Operands that may have several shapes come last: the others determine what sizes stand for.
    for (const bool several : {false, true}) {
      for (const Given& given : given_) {
        const bool has_shape = !is_absent(*given.buffer) && (given.operand->shapes.size() > 1) == several;
        if (why.empty() && has_shape) why = check_shape(given);
      }
    }
    if (why.empty()) why = check_attributes();
    for (const SizeFact& fact : contract_.facts) {
      if (why.empty()) why = check_fact(fact);
    }
    return why;
  }

  // The sizes of the results that are no lists, after run().
  std::string infer(std::span<mydev_shape> results) {
    for (size_t i = 0; i < results.size(); ++i) {
      mydev_shape& result = results[i];
      result.rank = 0;
      for (const ContractSize& size : contract_.results[i].shapes.front()) {
        const Sizes* known = meaning_of(size);
        if (known == nullptr) return text_of("the sizes of result '", contract_.results[i].name, "' are not known");
        for (const int64_t value : *known) {
          if (value < 0) return text_of("result '", contract_.results[i].name, "' would have the size ", value);
          if (result.rank == MYDEV_MAX_SHAPE_RANK)
            return text_of("result '", contract_.results[i].name, "' has more than 32 sizes");
          result.sizes[result.rank++] = value;
        }
      }
    }
    return "";
  }

 private:
  using Sizes = std::vector<int64_t>;
  // The meaning of a name in shapes: one size or list, or one for each buffer of a list.
  struct Meaning {
    std::vector<std::optional<Sizes>> values;
  };

  // --- which buffer is which operand ---

  static std::pair<size_t, size_t> single_and_lists(const std::vector<ContractOperand>& operands) {
    const auto lists = static_cast<size_t>(
        std::count_if(operands.begin(), operands.end(), [](const ContractOperand& o) { return o.is_list; }));
    return {operands.size() - lists, lists};
  }

  std::string count() {
    const auto [single_results, result_lists] = single_and_lists(contract_.results);
    const auto [single_operands, operand_lists] = single_and_lists(contract_.operands);
    const size_t outputs = frame_.num_outputs, inputs = frame_.num_inputs;
    if (result_lists != 0) {
      length_ = outputs < single_results ? 0 : (outputs - single_results) / result_lists;
    } else if (operand_lists != 0) {
      length_ = inputs < single_operands ? 0 : (inputs - single_operands) / operand_lists;
    }
    std::string why = operands_only_ ? "" : give("results", contract_.results, frame_.buffers, outputs);
    if (why.empty()) why = give("operands", contract_.operands, frame_.buffers + outputs, inputs);
    return why;
  }

  std::string give(const char* what, const std::vector<ContractOperand>& operands, const mydev_buffer* buffers,
                   size_t count) {
    size_t taken = 0, wanted = 0;
    for (const ContractOperand& operand : operands) {
      if (operand.may_be_left_out && taken == count) break;
      const size_t number = operand.is_list ? length_ : 1;
      wanted += number;
      for (size_t i = 0; i < number && taken < count; ++i) given_.push_back({buffers + taken++, &operand, i});
    }
    if (wanted == count) return "";
    return text_of("there are ", count, " ", what, ", where ", wanted, " fit");
  }

  bool is_absent(const mydev_buffer& buffer) const {
    return operands_only_ ? buffer.dtype == MYDEV_DTYPE_INVALID : buffer.data == nullptr && buffer.rank == 0;
  }
  static std::string describe(const Given& given) {
    const std::string index = given.operand->is_list ? "[" + std::to_string(given.index) + "]" : "";
    return "'" + given.operand->name + index + "'";
  }

  // --- one buffer ---

  std::string check(const Given& given) {
    const ContractOperand& operand = *given.operand;
    const mydev_buffer& buffer = *given.buffer;
    if (is_absent(buffer)) return operand.may_be_absent ? "" : text_of(describe(given), " is absent");
    if (is_scalar(buffer) && !operand.may_be_number) return text_of(describe(given), " is one number");
    if (static_cast<uint32_t>(buffer.dtype) >= 64 || (operand.dtypes & MYDEV_DTYPE_BIT(buffer.dtype)) == 0) {
      return text_of(describe(given), " is ", name_of(buffer.dtype), ", and may be ", dtype_list(operand.dtypes));
    }
    if (operand.variable >= 0) {
      if (std::string why = check_variable(static_cast<size_t>(operand.variable), given); !why.empty()) return why;
    }
    if (operand.layout == ContractLayout::kDense && !operands_only_ && !is_dense(buffer)) {
      return text_of(describe(given), " of sizes ", sizes_of(buffer), " is not dense");
    }
    return "";
  }

  std::string check_elements() const {
    const auto gives = [&](const Given& g) { return is_result(g) && !is_absent(*g.buffer) && !is_empty(g); };
    if (std::none_of(given_.begin(), given_.end(), gives)) return "";
    for (const Given& given : given_) {
      if (!is_result(given) && !is_absent(*given.buffer) && is_empty(given)) {
        return text_of(describe(given), " has no elements");
      }
    }
    return "";
  }
  bool is_result(const Given& given) const { return given.buffer < frame_.buffers + frame_.num_outputs; }
  // Reduced dimensions of results may have size 0.
  static bool is_empty(const Given& given) {
    const mydev_buffer& buffer = *given.buffer;
    for (int32_t d = 0; d < buffer.rank; ++d) {
      const bool reduced = given.operand->layout == ContractLayout::kReduced && buffer.strides[d] == 0;
      if (buffer.sizes[d] == 0 && !reduced) return true;
    }
    return false;
  }

  std::string check_variable(size_t index, const Given& given) {
    const ContractVariable& variable = contract_.variables[index];
    const int32_t dtype = given.buffer->dtype;
    if (dtypes_[index] != MYDEV_DTYPE_INVALID && dtypes_[index] != dtype) {
      return text_of(describe(given), " is ", name_of(dtype), ", but ", std::string(1, variable.name), " is ",
                     name_of(dtypes_[index]));
    }
    dtypes_[index] = dtype;
    if ((variable.own & MYDEV_DTYPE_BIT(dtype)) != 0) return "";
    int32_t& like = dtypes_[static_cast<size_t>(variable.like)];
    if (like == MYDEV_DTYPE_INVALID) like = dtype;
    if (like == dtype) return "";
    return text_of(describe(given), " is ", name_of(dtype), ", and may be ", name_of(like), " ",
                   dtype_list(variable.own));
  }

  std::string check_conditions() const {
    for (size_t i = 0; i < dtypes_.size(); ++i) {
      const ContractVariable& variable = contract_.variables[i];
      if (variable.like < 0 || dtypes_[i] == MYDEV_DTYPE_INVALID) continue;
      const int32_t other = dtypes_[static_cast<size_t>(variable.like)];
      if (other == MYDEV_DTYPE_INVALID) continue;
      if (!variable.takes(static_cast<mydev_dtype>(dtypes_[i]), static_cast<mydev_dtype>(other))) {
        return text_of(std::string(1, variable.name), " may not be ", name_of(dtypes_[i]), " where ",
                       std::string(1, contract_.variables[static_cast<size_t>(variable.like)].name), " is ",
                       name_of(other));
      }
    }
    return "";
  }

  // --- sizes ---

  std::string check_shape(const Given& given) {
    for (const ContractShape& shape : given.operand->shapes) {
      std::vector<Meaning> before = sizes_;
      const std::optional<size_t> entries = entries_;
      if (matches(shape, given)) return "";
      sizes_ = std::move(before);
      entries_ = entries;
    }
    return text_of(describe(given), " of sizes ", sizes_of(*given.buffer), " does not fit the others");
  }

  bool matches(const ContractShape& shape, const Given& given) {
    if (shape.size() == 1 && shape[0].is_product) {
      int64_t count = 1;
      for (int32_t d = 0; d < given.buffer->rank; ++d) count *= given.buffer->sizes[d];
      return matches(shape[0], {count}, given.index);
    }
    const bool has_list = std::any_of(shape.begin(), shape.end(), is_list);
    const auto rank = static_cast<size_t>(given.buffer->rank), single = shape.size() - (has_list ? 1 : 0);
    if (rank < single || (!has_list && rank != single)) return false;
    const int64_t* sizes = given.buffer->sizes;
    for (const ContractSize& size : shape) {
      const size_t entries = is_list(size) ? rank - single : 1;
      if (!matches(size, {sizes, sizes + entries}, given.index)) return false;
      sizes += entries;
    }
    return true;
  }
  static bool is_list(const ContractSize& size) { return size.kind == ContractSize::kList; }

  bool matches(const ContractSize& size, Sizes actual, size_t index) {
    if (size.kind == ContractSize::kNumber) return actual[0] == size.number;
    const ContractSizeName& name = contract_.sizes[static_cast<size_t>(size.name)];
    if (name.is_list) {
      const auto entries = static_cast<int64_t>(actual.size());
      if (entries < contract_.least_list || entries > contract_.greatest_list) return false;
      if (!name.is_own && entries_.value_or(actual.size()) != actual.size()) return false;
      if (!name.is_own) entries_ = actual.size();
    }
    auto& values = sizes_[static_cast<size_t>(size.name)].values;
    const size_t position = name.is_own ? index : 0;
    if (values.size() <= position) values.resize(position + 1);
    std::optional<Sizes>& known = values[position];
    if (known.has_value()) return *known == actual;
    known = std::move(actual);
    return true;
  }

  // --- attributes ---

  std::string check_attributes() const {
    const size_t count = frame_.num_attributes;
    if (count > contract_.attributes.size()) {
      return text_of("there are ", count, " attributes, and no more than ", contract_.attributes.size(), " fit");
    }
    for (size_t i = 0; i < contract_.attributes.size(); ++i) {
      const ContractAttribute& attribute = contract_.attributes[i];
      if (i >= count) {
        if (attribute.otherwise) continue;
        return text_of("attribute '", attribute.name, "' is missing");
      }
      const mydev_attribute& actual = frame_.attributes[i];
      if (attribute.name != actual.name) {
        return text_of("attribute ", i, " is '", actual.name, "' and not '", attribute.name, "'");
      }
      if (std::string why = check_attribute(attribute, actual); !why.empty()) return why;
    }
    return "";
  }

  bool has_kind(const ContractAttribute& attribute, int32_t kind) const {
    const ScalarKind scalar = contract_.variables.empty() ? ScalarKind::kFloat : scalar_kind(dtypes_[0]);
    switch (attribute.kind) {
      case ContractKind::kBool:
        return kind == MYDEV_ATTRIBUTE_BOOL;
      case ContractKind::kInt:
        return kind == MYDEV_ATTRIBUTE_INT;
      case ContractKind::kFloat:
        return kind == MYDEV_ATTRIBUTE_FLOAT;
      case ContractKind::kNumber:
        return kind == (scalar == ScalarKind::kInteger ? MYDEV_ATTRIBUTE_INT
                        : scalar == ScalarKind::kFloat ? MYDEV_ATTRIBUTE_FLOAT
                                                       : MYDEV_ATTRIBUTE_COMPLEX);
      case ContractKind::kScalar:
        return kind == MYDEV_ATTRIBUTE_BOOL || kind == MYDEV_ATTRIBUTE_INT || kind == MYDEV_ATTRIBUTE_FLOAT ||
               kind == MYDEV_ATTRIBUTE_COMPLEX;
      case ContractKind::kInts:
        return kind == MYDEV_ATTRIBUTE_INT_ARRAY;
      case ContractKind::kFloats:
        return kind == MYDEV_ATTRIBUTE_FLOAT_ARRAY;
    }
    return false;
  }

  std::string check_attribute(const ContractAttribute& attribute, const mydev_attribute& actual) const {
    if (!has_kind(attribute, actual.kind)) {
      return text_of("attribute '", attribute.name, "' has the kind ", kind_name(actual.kind));
    }
    const bool is_array = attribute.kind == ContractKind::kInts || attribute.kind == ContractKind::kFloats;
    const int64_t length = attribute.length == ContractAttribute::kListLength && entries_
                               ? static_cast<int64_t>(*entries_)
                               : attribute.length;
    if (is_array && length >= 0 && length != static_cast<int64_t>(actual.count)) {
      return text_of("attribute '", attribute.name, "' has ", actual.count, " entries and not ", length);
    }
    for (const double value : values_of(actual)) {
      if ((attribute.low && !(value >= *attribute.low)) || (attribute.high && !(value <= *attribute.high))) {
        return text_of("attribute '", attribute.name, "' is ", value, ", out of what is defined");
      }
    }
    return "";
  }

  static std::vector<double> values_of(const mydev_attribute& attribute) {
    switch (attribute.kind) {
      case MYDEV_ATTRIBUTE_FLOAT:
        return {attribute.value.f};
      case MYDEV_ATTRIBUTE_INT_ARRAY:
        return {attribute.value.ints, attribute.value.ints + attribute.count};
      case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
        return {attribute.value.floats, attribute.value.floats + attribute.count};
      case MYDEV_ATTRIBUTE_COMPLEX:
        return {};
      default:
        return {static_cast<double>(attribute.value.i)};
    }
  }

  // --- facts ---

  // The value of a size or attribute as an expression of sizes sees it; empty if only an absent operand determines it.
  std::vector<double> known_values(const std::string& name) const {
    for (size_t i = 0; i < contract_.sizes.size(); ++i) {
      if (contract_.sizes[i].name != name) continue;
      std::vector<double> values;
      for (const std::optional<Sizes>& sizes : sizes_[i].values) {
        if (sizes) values.insert(values.end(), sizes->begin(), sizes->end());
      }
      return values;
    }
    for (size_t i = 0; i < contract_.attributes.size(); ++i) {
      if (contract_.attributes[i].name != name) continue;
      if (i < frame_.num_attributes) return values_of(frame_.attributes[i]);
      return {contract_.attributes[i].otherwise.value_or(0)};
    }
    return {};
  }
  bool is_many(const std::string& name) const {
    for (const ContractSizeName& size : contract_.sizes) {
      if (size.name == name) return size.is_list || size.is_own;
    }
    for (const ContractAttribute& attribute : contract_.attributes) {
      if (attribute.name == name) return attribute.kind == ContractKind::kInts;
    }
    return false;
  }

  // Returns the value of a size; nullptr if no operand determines it.
  const Sizes* meaning_of(const ContractSize& size) {
    if (size.kind == ContractSize::kNumber) return &(number_ = {size.number});
    const auto& values = sizes_[static_cast<size_t>(size.name)].values;
    if (values.empty()) return nullptr;
    const std::optional<Sizes>& value = values.front();
    return value.has_value() ? &*value : nullptr;
  }

  // Checks a size against what a fact says that it is. A size that only results have gets its value here.
  std::string check_fact(const SizeFact& fact) {
    const ContractSizeName& size = contract_.sizes[static_cast<size_t>(fact.size)];
    const std::vector<double> actual = known_values(size.name);
    size_t count = actual.size();
    std::vector<Series<double>> inputs;
    for (const std::string& name : fact.value.names()) {
      Series<double> series{known_values(name), !is_many(name)};
      const bool read = fact.value.reads(name);
      if (read && series.uniform && series.values.empty()) return "";
      if (read && !series.uniform) count = series.values.size();
      if (!read) series = {{0}, true};
      inputs.push_back(std::move(series));
    }
    for (const Series<double>& series : inputs) {
      if (!series.uniform && series.values.size() != count) return "";
    }
    const bool is_new = operands_only_ && actual.empty();
    if (is_new && !size.is_list) count = 1;
    const Series<double> expected = fact.value.evaluate<double>(0, inputs, count);
    if (is_new) {
      Sizes computed;
      for (size_t i = 0; i < count; ++i) {
        computed.push_back(static_cast<int64_t>(expected.values[expected.uniform ? 0 : i]));
      }
      sizes_[static_cast<size_t>(fact.size)].values = {std::move(computed)};
      return "";
    }
    for (size_t i = 0; i < actual.size(); ++i) {
      const double value = expected.values[expected.uniform ? 0 : i];
      if (actual[i] != value) {
        return text_of("size '", size.name, "' is ", static_cast<int64_t>(actual[i]), ", where ", fact.value.text(),
                       " is ", value);
      }
    }
    return "";
  }

  const KernelContract& contract_;
  const mydev_frame& frame_;
  bool operands_only_;
  Sizes number_;
  size_t length_ = 0;  // of the lists
  std::vector<Given> given_;
  std::vector<int32_t> dtypes_;    // of the variables
  std::vector<Meaning> sizes_;     // of the names
  std::optional<size_t> entries_;  // of the lists of sizes
};

}  // namespace

namespace {

std::string with_contract(const std::string& why, const KernelContract& contract) {
  return why.empty() ? why : text_of(contract.name, ": ", why, "; the contract is ", describe_contract(contract));
}

}  // namespace

std::string contract_violation(const KernelContract& contract, const mydev_frame& frame) {
  return with_contract(FrameCheck(contract, frame, /*operands_only=*/false).run(), contract);
}

std::string infer_by_contract(const KernelContract& contract, const mydev_frame& frame,
                              std::span<mydev_shape> results) {
  FrameCheck check(contract, frame, /*operands_only=*/true);
  std::string why = check.run();
  if (why.empty()) why = check.infer(results);
  return with_contract(why, contract);
}

}  // namespace mydev
