// Adds attributes that the text of an operation leaves out, and converts those that operations have in another form
// here.
#include <algorithm>

#include "stablehlo/text/operation_reader.h"

namespace mydev::stablehlo {

namespace {

// The length of a list that was left out: one number for each dimension of a window.
int64_t window_rank(const Operation& op) {
  if (op.operands.empty()) return 0;
  const int64_t rank = op.operands.front()->type->rank();
  const bool is_convolution = op.op == Operator::kConvolution || op.op == Operator::kDynamicConv;
  return is_convolution ? std::max<int64_t>(rank - 2, 0) : rank;
}

const Attribute* zeros(ElementType element, std::vector<int64_t> dims, TextAttributeReader& attributes) {
  Type type;
  type.kind = TypeKind::kTensor;
  type.element = element;
  type.dims = std::move(dims);
  return attributes.zeros(std::move(type));
}

// Returns nullptr if it has no default.
const Attribute* default_of(const Operation& op, const AttributeRow& row, TextAttributeReader& attributes) {
  switch (row.kind) {
    case AttributeRow::kBool:
      return op.op == Operator::kTriangularSolve ? nullptr : attributes.add(false);
    case AttributeRow::kInteger:
      if (row.name.starts_with("channel_") || row.name == "version" || row.name == "index_vector_dim") {
        return attributes.integer(0);
      }
      return row.name == "dimension" && op.op == Operator::kSort ? attributes.integer(-1) : nullptr;
    case AttributeRow::kString:
      return row.name.ends_with("_config") && op.row().has(kSideEffects) ? attributes.add(std::string()) : nullptr;
    case AttributeRow::kIntegers: {
      const bool is_window = row.name == "window_strides" || row.name.find("_dilation") != std::string_view::npos;
      if (is_window) return attributes.integers(std::vector<int64_t>(static_cast<size_t>(window_rank(op)), 1));
      const bool may_be_none = row.name.starts_with("known_") || op.op == Operator::kDotGeneral ||
                               op.op == Operator::kGather || op.op == Operator::kDynamicGather ||
                               op.op == Operator::kScatter;
      return may_be_none ? attributes.integers({}) : nullptr;
    }
    case AttributeRow::kBools:
      return zeros(ElementType::kPred, {window_rank(op)}, attributes);
    case AttributeRow::kTensor:
      return row.name == "padding" ? zeros(ElementType::kS64, {window_rank(op), 2}, attributes) : nullptr;
    case AttributeRow::kArray:
      return attributes.add(ArrayAttribute());
    case AttributeRow::kDictionary:
      return attributes.add(Dictionary());
    case AttributeRow::kEnumeration:
      if (row.name == "compare_type") return attributes.add(ComparisonType::kNone);
      return row.name == "api_version" ? attributes.add(CustomCallVersion::kOriginal) : nullptr;
    case AttributeRow::kAny:
      return row.name == "backend_config" ? attributes.add(std::string()) : nullptr;
    case AttributeRow::kFloat:
    case AttributeRow::kType:
      break;
  }
  return nullptr;
}

// The value in the form that operations have here.
const Attribute* converted(const AttributeRow& row, const Attribute* value, TextAttributeReader& attributes) {
  if (row.kind == AttributeRow::kBool && value->get_if<Unit>() != nullptr) return attributes.add(true);
  const auto* integer = value->get_if<Integer>();
  const bool is_version = integer != nullptr && row.name == "api_version" && integer->value >= 0 &&
                          integer->value <= static_cast<int64_t>(CustomCallVersion::kTypedFfi);
  if (is_version) return attributes.add(static_cast<CustomCallVersion>(integer->value));
  if (const auto* symbol = value->get_if<Symbol>()) return attributes.add(symbol->path);
  return value;
}

}  // namespace

void complete_attributes(Operation& op, TextAttributeReader& attributes) {
  const OperatorRow& row = op.row();
  for (NamedAttribute& attribute : op.attributes) {
    const AttributeRow* found = find_attribute(row, attribute.name);
    if (found != nullptr) attribute.value = converted(*found, attribute.value, attributes);
  }
  for (const AttributeRow& attribute : row.attributes) {
    if (attribute.optional || attribute.last_version != 0xFF || op.find(attribute.name) != nullptr) continue;
    if (const Attribute* value = default_of(op, attribute, attributes)) {
      op.attributes.push_back({attribute.name, value});
    }
  }
}

}  // namespace mydev::stablehlo
