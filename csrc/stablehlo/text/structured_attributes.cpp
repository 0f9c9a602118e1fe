// The structured attributes of StableHLO's text, made of the flat ones that operations have here.
#include <algorithm>
#include <array>

#include "stablehlo/text/attribute_printer.h"

namespace mydev::stablehlo {

namespace {

// Several attributes that are one in the text: dimension_numbers = #stablehlo.gather<offset_dims = [1], ...>.
struct StructuredForm {
  Operator op;
  std::string_view name, kind;
  std::array<std::string_view, 7> fields;
};

constexpr std::array kStructuredForms = {
    StructuredForm{Operator::kDotGeneral,
                   "dot_dimension_numbers",
                   "dot",
                   {"lhs_batching_dimensions", "rhs_batching_dimensions", "lhs_contracting_dimensions",
                    "rhs_contracting_dimensions"}},
    StructuredForm{Operator::kDotGeneral,
                   "algorithm",
                   "dot_algorithm",
                   {"lhs_precision_type", "rhs_precision_type", "accumulation_type", "lhs_component_count",
                    "rhs_component_count", "num_primitive_operations", "allow_imprecise_accumulation"}},
    StructuredForm{Operator::kGather,
                   "dimension_numbers",
                   "gather",
                   {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
                    "start_index_map", "index_vector_dim"}},
    StructuredForm{Operator::kDynamicGather,
                   "dimension_numbers",
                   "gather",
                   {"offset_dims", "collapsed_slice_dims", "operand_batching_dims", "start_indices_batching_dims",
                    "start_index_map", "index_vector_dim"}},
    StructuredForm{Operator::kScatter,
                   "scatter_dimension_numbers",
                   "scatter",
                   {"update_window_dims", "inserted_window_dims", "input_batching_dims",
                    "scatter_indices_batching_dims", "scatter_dims_to_operand_dims", "index_vector_dim"}},
};

// One part of a convolution's dimension numbers: the attributes of its dimensions, and their letters in the text.
struct ConvolutionPart {
  std::string_view spatial, first, second;
  char first_letter, second_letter;
};
constexpr std::array kConvolutionParts = {
    ConvolutionPart{"input_spatial_dimensions", "input_batch_dimension", "input_feature_dimension", 'b', 'f'},
    ConvolutionPart{"kernel_spatial_dimensions", "kernel_input_feature_dimension", "kernel_output_feature_dimension",
                    'i', 'o'},
    ConvolutionPart{"output_spatial_dimensions", "output_batch_dimension", "output_feature_dimension", 'b', 'f'},
};

// Booleans that are false if the text leaves them out. The booleans of triangular_solve are always written.
constexpr std::array kFalseByDefault = {"has_side_effect", "indices_are_sorted", "is_host_transfer",
                                        "is_stable",       "unique_indices",     "use_global_device_ids"};

bool is_channel(std::string_view name) {
  return name == "channel_id" || name == "channel_type";
}

// True if a structured attribute contains it.
bool is_in_structure(Operator op, std::string_view name) {
  for (const StructuredForm& form : kStructuredForms) {
    if (form.op == op && std::ranges::find(form.fields, name) != form.fields.end()) return true;
  }
  const bool is_convolution = op == Operator::kConvolution || op == Operator::kDynamicConv;
  return is_channel(name) ||
         (is_convolution && std::ranges::any_of(kConvolutionParts, [name](const ConvolutionPart& part) {
            return name == part.spatial || name == part.first || name == part.second;
          }));
}

class OperatorAttributes {
 public:
  OperatorAttributes(std::string& text, const Operation& op) : text_(text), op_(op) {}

  void print() {
    for (const StructuredForm& form : kStructuredForms) {
      if (form.op == op_.op) structured(form);
    }
    if (op_.op == Operator::kConvolution || op_.op == Operator::kDynamicConv) convolution();
    channel();
    for (const NamedAttribute& attribute : op_.attributes) {
      const AttributeRow* row = find_attribute(op_.row(), attribute.name);
      if (row != nullptr && !is_in_structure(op_.op, attribute.name)) plain(*row, *attribute.value);
    }
  }

 private:
  void begin(std::string_view name) {
    if (!first_) text_ += ", ";
    first_ = false;
    text_ += name;
  }

  void structured(const StructuredForm& form) {
    std::string fields;
    for (const std::string_view field : form.fields) {
      const Attribute* value = field.empty() ? nullptr : op_.find(field);
      if (value == nullptr) continue;
      fields += (fields.empty() ? "" : ", ") + std::string(field) + " = ";
      if (const auto* integer = value->get_if<Integer>()) {
        fields += std::to_string(integer->value);
      } else if (value->get_if<TensorLiteral>() != nullptr) {
        fields += '[';
        append_numbers(fields, op_.integers(field));
        fields += ']';
      } else {
        append_attribute(fields, *value);
      }
    }
    if (fields.empty()) return;
    begin(form.name);
    text_ += " = #stablehlo." + std::string(form.kind) + "<" + fields + ">";
  }

  // [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]
  void convolution() {
    begin("dimension_numbers");
    text_ += " = #stablehlo.conv<";
    for (size_t p = 0; p < kConvolutionParts.size(); ++p) {
      constexpr std::array kBefore = {"", "x", "->"};
      const ConvolutionPart& part = kConvolutionParts[p];
      const std::vector<int64_t> spatial = op_.integers(part.spatial);
      std::vector<std::string> letters(spatial.size() + 2);
      const auto place = [&](int64_t dimension, std::string letter) {
        if (dimension >= 0 && dimension < static_cast<int64_t>(letters.size())) {
          letters[static_cast<size_t>(dimension)] = std::move(letter);
        }
      };
      place(op_.integer(part.first), std::string(1, part.first_letter));
      place(op_.integer(part.second), std::string(1, part.second_letter));
      for (size_t i = 0; i < spatial.size(); ++i) place(spatial[i], std::to_string(i));
      text_ += kBefore[p];
      for (size_t i = 0; i < letters.size(); ++i) text_ += (i == 0 ? "[" : ", ") + letters[i];
      text_ += ']';
    }
    text_ += '>';
  }

  // Without a number there is no channel, except where it has a type.
  void channel() {
    const auto* id = op_.get_if<Integer>("channel_id");
    if (id == nullptr) return;
    const auto* type = op_.get_if<Integer>("channel_type");
    if (id->value == 0 && type == nullptr) return;
    begin("channel_handle");
    text_ += " = #stablehlo.channel_handle<handle = " + std::to_string(id->value) +
             ", type = " + std::to_string(type != nullptr ? type->value : 0) + ">";
  }

  bool is_all(const AttributeRow& row, int64_t number) const {
    return std::ranges::all_of(op_.integers(row.name), [number](int64_t value) { return value == number; });
  }

  // Layouts of operands and of results are given together.
  bool has_layouts(std::string_view name) const {
    const auto is_given = [&](std::string_view layouts) {
      const auto* array = op_.get_if<ArrayAttribute>(layouts);
      return array != nullptr && !array->empty();
    };
    return name.ends_with("_layouts") && (is_given("operand_layouts") || is_given("result_layouts"));
  }

  // True if the value is the default, so that it need not be written.
  bool is_default(const AttributeRow& row, const Attribute& value) const {
    if (const auto* type = value.get_if<ComparisonType>()) return *type == ComparisonType::kNone;
    if (const auto* version = value.get_if<CustomCallVersion>()) return *version == CustomCallVersion::kOriginal;
    if (const auto* string = value.get_if<std::string>()) return row.name == "backend_config" && string->empty();
    if (const auto* boolean = value.get_if<bool>()) {
      return !*boolean &&
             (op_.op == Operator::kCholesky || std::ranges::find(kFalseByDefault, row.name) != kFalseByDefault.end());
    }
    if (const auto* accuracy = value.get_if<ResultAccuracy>()) {
      return accuracy->mode == ResultAccuracyMode::kDefault && accuracy->ulps == 0;
    }
    if (const auto* literal = value.get_if<TensorLiteral>()) {
      const bool may_be_missing = row.name.starts_with("known_") || row.name == "source_target_pairs";
      if (may_be_missing) return literal->type->element_count() == 0;
      const bool is_window =
          row.name == "window_strides" || row.name.ends_with("_dilation") || row.name.ends_with("_dilations");
      if (is_window) return is_all(row, 1);
      return (row.name == "padding" || row.name == "window_reversal") && is_all(row, 0);
    }
    const auto* array = value.get_if<ArrayAttribute>();
    if (array == nullptr || has_layouts(row.name)) return false;
    return std::ranges::all_of(*array, [](const Attribute* element) {
      const auto* precision = element->get_if<Precision>();
      return precision != nullptr && *precision == Precision::kDefault;
    });
  }

  void plain(const AttributeRow& row, const Attribute& value) {
    if (is_default(row, value)) return;
    begin(row.name);
    if (row.name == "use_global_device_ids") return;
    text_ += " = ";
    const bool is_symbol = row.name == "callee" || row.name == "decomposition";
    if (is_symbol) {
      append_symbol(text_, op_.string(row.name));
    } else if (row.name == "called_computations" && value.get_if<ArrayAttribute>() != nullptr) {
      symbols(value);
    } else if (row.kind == AttributeRow::kIntegers && value.get_if<TensorLiteral>() != nullptr) {
      const std::vector<int64_t> numbers = op_.integers(row.name);
      text_ += numbers.empty() ? "array<i64" : "array<i64: ";
      append_numbers(text_, numbers);
      text_ += '>';
    } else if (row.kind == AttributeRow::kBools && value.get_if<TensorLiteral>() != nullptr) {
      booleans(row.name);
    } else {
      append_attribute(text_, value);
    }
  }

  void symbols(const Attribute& value) {
    text_ += '[';
    bool first = true;
    for (const Attribute* element : *value.get_if<ArrayAttribute>()) {
      if (!first) text_ += ", ";
      first = false;
      const auto* name = element->get_if<std::string>();
      if (name != nullptr) {
        append_symbol(text_, *name);
      } else {
        append_attribute(text_, *element);
      }
    }
    text_ += ']';
  }

  void booleans(std::string_view name) {
    text_ += "array<i1";
    const char* before = ": ";
    for (const int64_t value : op_.integers(name)) {
      text_ += std::string(before) + (value != 0 ? "true" : "false");
      before = ", ";
    }
    text_ += '>';
  }

  std::string& text_;
  const Operation& op_;
  bool first_ = true;
};

}  // namespace

void append_operator_attributes(std::string& text, const Operation& op) {
  OperatorAttributes(text, op).print();
}

}  // namespace mydev::stablehlo
