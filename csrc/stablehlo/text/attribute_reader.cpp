#include "stablehlo/text/attribute_reader.h"

#include <algorithm>
#include <bit>
#include <span>

#include "stablehlo/ir/limits.h"
#include "stablehlo/text/enumeration_names.h"
#include "stablehlo/text/literals.h"

namespace mydev::stablehlo {

namespace {

// Counts how deep a reader is in itself.
class Nesting {
 public:
  Nesting(int& depth, ModuleScanner& scanner) : depth_(depth) {
    if (++depth_ > kMostNesting) scanner.fail_about("it is nested more than " + std::to_string(kMostNesting) + " deep");
  }
  ~Nesting() { --depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  int& depth_;
};

template <typename T, size_t kCount>
bool match(std::string_view name, const std::array<const char*, kCount>& names, Attribute::Value& value) {
  const auto found = std::ranges::find(names, name, [](const char* candidate) { return std::string_view(candidate); });
  if (found == names.end() || name.empty()) return false;
  value = static_cast<T>(found - names.begin());
  return true;
}

// The enumeration's value of that name.
bool match_enumeration(std::string_view kind, std::string_view name, Attribute::Value& value) {
  if (kind == "comparison_direction") return match<ComparisonDirection>(name, kDirectionNames, value);
  if (kind == "comparison_type" || kind == "compare_type") return match<ComparisonType>(name, kComparisonNames, value);
  if (kind == "fft_type") return match<FftType>(name, kFftNames, value);
  if (kind == "precision") return match<Precision>(name, kPrecisionNames, value);
  if (kind == "rng_algorithm") return match<RngAlgorithm>(name, kRngAlgorithmNames, value);
  if (kind == "rng_distribution") return match<RngDistribution>(name, kRngDistributionNames, value);
  if (kind == "transpose" || kind == "transpose_a") return match<Transpose>(name, kTransposeNames, value);
  return kind == "result_accuracy_mode" && match<ResultAccuracyMode>(name, kAccuracyModeNames, value);
}

}  // namespace

// --- types ---

const Type* TextAttributeReader::element_type(ElementType element) {
  Type type;
  type.kind = TypeKind::kElement;
  type.element = element;
  return contents_.add(std::move(type));
}

const Type* TextAttributeReader::tensor_type() {
  Type type;
  type.kind = TypeKind::kTensor;
  scanner_.expect("<");
  while (scanner_.at_number() || scanner_.peek() == '?') {
    type.dims.push_back(scanner_.take("?") ? kDynamic : scanner_.integer("a size"));
    if (scanner_.peek() != 'x') scanner_.fail("'x' after a size");
    scanner_.expect("x");
  }
  const Type* element = this->type();
  if (element->kind != TypeKind::kElement) scanner_.fail_about("a tensor has elements of " + element->text());
  type.element = element->element;
  if (scanner_.take(",")) {
    scanner_.expect("#stablehlo.bounds");
    scanner_.expect("<");
    do {
      type.bounds.push_back(scanner_.take("?") ? kDynamic : scanner_.integer("a bound"));
    } while (scanner_.take(","));
    scanner_.expect(">");
    if (type.bounds.size() != type.dims.size()) scanner_.fail_about("a tensor has a bound for each dimension");
  }
  scanner_.expect(">");
  if (!sizes_are_valid(type)) {
    scanner_.fail_about("the sizes of " + type.text() + " are negative, or more than there can be");
  }
  return contents_.add(std::move(type));
}

const Type* TextAttributeReader::type() {
  const Nesting nesting(depth_, scanner_);
  Type type;
  if (scanner_.take("!stablehlo.token")) {
    type.kind = TypeKind::kToken;
    return contents_.add(std::move(type));
  }
  if (scanner_.peek() == '(') {
    type.kind = TypeKind::kFunction;
    type.inputs = types();
    scanner_.expect("->");
    type.results = types();
    return contents_.add(std::move(type));
  }
  if (scanner_.take_word("tensor")) return tensor_type();
  if (scanner_.take_word("none")) return contents_.add(std::move(type));
  if (scanner_.take_word("tuple")) {
    type.kind = TypeKind::kTuple;
    scanner_.expect("<");
    if (scanner_.peek() != '>') {
      do type.inputs.push_back(this->type());
      while (scanner_.take(","));
    }
    scanner_.expect(">");
    return contents_.add(std::move(type));
  }
  if (scanner_.take_word("complex")) {
    scanner_.expect("<");
    const bool is_single = scanner_.take_word("f32");
    if (!is_single && !scanner_.take_word("f64")) scanner_.fail("f32 or f64");
    scanner_.expect(">");
    return element_type(is_single ? ElementType::kC64 : ElementType::kC128);
  }
  const auto row = std::ranges::find(kElementTypes, scanner_.next_word(), &ElementRow::mlir_name);
  if (row == kElementTypes.end()) scanner_.fail("a type");
  scanner_.word("a type");
  return element_type(row->type);
}

std::vector<const Type*> TextAttributeReader::types() {
  std::vector<const Type*> list;
  if (!scanner_.take("(")) {
    list.push_back(type());
    return list;
  }
  if (scanner_.peek() != ')') {
    do list.push_back(type());
    while (scanner_.take(","));
  }
  scanner_.expect(")");
  return list;
}

// --- literals ---

const Attribute* TextAttributeReader::integer(int64_t value, ElementType type) {
  return add(Integer{value, element_type(type)});
}

TensorLiteral TextAttributeReader::make_literal(const Type* type, std::vector<std::byte> bytes, bool is_splat) {
  return {type, contents_.literals.emplace_back(std::move(bytes)), is_splat};
}

const Attribute* TextAttributeReader::integers(const std::vector<int64_t>& values) {
  Type type;
  type.kind = TypeKind::kTensor;
  type.element = ElementType::kS64;
  type.dims = {static_cast<int64_t>(values.size())};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return add(make_literal(contents_.add(std::move(type)), {bytes.begin(), bytes.end()}, false));
}

const Attribute* TextAttributeReader::zeros(Type type) {
  const auto size = static_cast<size_t>(type.bytes());
  return add(make_literal(contents_.add(std::move(type)), std::vector<std::byte>(size), false));
}

const Attribute* TextAttributeReader::literal() {
  scanner_.expect("<");
  const WrittenElements written = read_elements(scanner_);
  scanner_.expect(">");
  scanner_.expect(":");
  const Type* type = this->type();
  if (!type->is_tensor() || !type->is_static()) {
    scanner_.fail_about("a literal of the type " + type->text() + ", which is no tensor of known sizes");
  }
  const int64_t count = type->element_count(), each = element_bytes(type->element);
  std::vector<std::byte> bytes;
  for (const char byte : written.bytes) bytes.push_back(static_cast<std::byte>(byte));
  for (const std::string_view number : written.numbers) append_number(bytes, type->element, number, scanner_);
  const bool is_written_once = written.bytes.empty() && written.sizes.empty();
  const auto size = static_cast<int64_t>(bytes.size());
  const bool fits = is_written_once ? size == each
                                    : size == count * each && (!written.bytes.empty() || written.sizes == type->dims ||
                                                               (count == 0 && written.numbers.empty()));
  if (!fits) scanner_.fail_about("the elements of a literal do not make a " + type->text());
  if (count == 0) bytes.clear();
  return add(make_literal(type, std::move(bytes), is_written_once && count > 1));
}

const Attribute* TextAttributeReader::array_literal() {
  scanner_.expect("<");
  const Type* element = type();
  Type type;
  type.kind = TypeKind::kTensor;
  type.element = element->element;
  std::vector<std::byte> bytes;
  int64_t count = 0;
  if (scanner_.take(":")) {
    do {
      append_number(bytes, element->element, scanner_.at_number() ? scanner_.number() : scanner_.word("a number"),
                    scanner_);
      ++count;
    } while (scanner_.take(","));
  }
  scanner_.expect(">");
  type.dims = {count};
  return add(make_literal(contents_.add(std::move(type)), std::move(bytes), false));
}

std::vector<int64_t> TextAttributeReader::integer_list() {
  std::vector<int64_t> values;
  scanner_.expect("[");
  if (scanner_.peek() != ']') {
    do values.push_back(scanner_.integer("a number"));
    while (scanner_.take(","));
  }
  scanner_.expect("]");
  return values;
}

const Attribute* TextAttributeReader::boolean_list() {
  Type type;
  type.kind = TypeKind::kTensor;
  type.element = ElementType::kPred;
  std::vector<std::byte> bytes;
  scanner_.expect("[");
  if (scanner_.peek() != ']') {
    do append_number(bytes, ElementType::kPred, scanner_.word("true or false"), scanner_);
    while (scanner_.take(","));
  }
  scanner_.expect("]");
  type.dims = {static_cast<int64_t>(bytes.size())};
  return add(make_literal(contents_.add(std::move(type)), std::move(bytes), false));
}

const Attribute* TextAttributeReader::pair_list() {
  Type type;
  type.kind = TypeKind::kTensor;
  type.element = ElementType::kS64;
  std::vector<int64_t> values;
  scanner_.expect("[");
  if (scanner_.peek() != ']') {
    do {
      const std::vector<int64_t> pair = integer_list();
      if (pair.size() != 2) scanner_.fail_about("a pair has " + std::to_string(pair.size()) + " numbers");
      values.insert(values.end(), pair.begin(), pair.end());
    } while (scanner_.take(","));
  }
  scanner_.expect("]");
  type.dims = {static_cast<int64_t>(values.size() / 2), 2};
  const std::span<const std::byte> bytes = std::as_bytes(std::span(values));
  return add(make_literal(contents_.add(std::move(type)), {bytes.begin(), bytes.end()}, false));
}

// --- attributes ---

const Attribute* TextAttributeReader::number() {
  const std::string_view written = scanner_.number();
  const bool is_hex = written.starts_with("0x");
  const bool is_float = !is_hex && written.find_first_of(".eE") != std::string_view::npos;
  const Type* type = scanner_.take(":") ? this->type() : element_type(is_float ? ElementType::kF64 : ElementType::kS64);
  if (type->kind != TypeKind::kElement) scanner_.fail_about("a number is of the type " + type->text());
  if (element_row(type->element).kind == ElementKind::kFloat) {
    const uint64_t bits = bits_of_float(type->element, written, scanner_);
    return add(Float{float_of_bits(type->element, bits), bits, type});
  }
  std::vector<std::byte> bytes;
  append_number(bytes, type->element, written, scanner_);
  Type shape;
  shape.kind = TypeKind::kTensor;
  shape.element = type->element;
  return add(Integer{integers_of({&shape, bytes, false}).front(), type});
}

const Attribute* TextAttributeReader::attribute() {
  const Nesting nesting(depth_, scanner_);
  switch (scanner_.peek()) {
    case '"':
      return add(scanner_.string());
    case '@':
      return add(Symbol{scanner_.symbol()});
    case '#':
      return dialect_attribute();
    case '{':
      scanner_.expect("{");
      return add(dictionary());
    case '[': {
      scanner_.expect("[");
      ArrayAttribute elements;
      if (scanner_.peek() != ']') {
        do elements.push_back(attribute());
        while (scanner_.take(","));
      }
      scanner_.expect("]");
      return add(std::move(elements));
    }
    default:
      break;
  }
  if (scanner_.at_number()) return number();
  if (scanner_.take_word("true")) return add(true);
  if (scanner_.take_word("false")) return add(false);
  if (scanner_.take_word("unit")) return add(Unit{});
  if (scanner_.take_word("dense")) return literal();
  if (scanner_.take_word("array")) return array_literal();
  return add(type());
}

Dictionary TextAttributeReader::dictionary() {
  Dictionary entries;
  if (scanner_.take("}")) return entries;
  do {
    const std::string name =
        scanner_.peek() == '"' ? scanner_.string() : std::string(scanner_.word("the name of an attribute"));
    const Attribute* value = scanner_.take("=") ? attribute() : add(Unit{});
    entries.push_back({contents_.add_string(name), value});
  } while (scanner_.take(","));
  scanner_.expect("}");
  return entries;
}

// --- StableHLO's own ---

const Attribute* TextAttributeReader::enumeration(std::string_view kind) {
  const std::string_view name = scanner_.word("the value of an enumeration");
  Attribute::Value value;
  if (!match_enumeration(kind, name, value)) {
    scanner_.fail_about("'" + std::string(name) + "' is no " + std::string(kind));
  }
  return add(std::move(value));
}

const Attribute* TextAttributeReader::dialect_attribute() {
  // #stablehlo<precision HIGHEST>
  if (scanner_.take("#stablehlo<")) {
    const std::string_view kind = scanner_.word("the name of an enumeration");
    const Attribute* value = enumeration(kind);
    scanner_.expect(">");
    return value;
  }
  if (scanner_.take("#stablehlo.result_accuracy<")) return result_accuracy();
  if (scanner_.take("#stablehlo.output_operand_alias<")) return output_operand_alias();
  // Attributes that Shardy adds are read past.
  if (scanner_.take("#sdy")) {
    const std::string_view name = scanner_.next_word();
    if (!name.empty()) scanner_.word("the name of an attribute");
    scanner_.bracketed();
    return add(UnknownAttribute{"#sdy" + std::string(name)});
  }
  scanner_.fail("an attribute that the reader of text knows");
}

const Attribute* TextAttributeReader::result_accuracy() {
  ResultAccuracy accuracy;
  do {
    const std::string_view field = scanner_.word("a field of result_accuracy");
    scanner_.expect("=");
    if (field == "atol" || field == "rtol") {
      (field == "atol" ? accuracy.atol : accuracy.rtol) =
          std::bit_cast<double>(bits_of_float(ElementType::kF64, scanner_.number(), scanner_));
    } else if (field == "ulps") {
      accuracy.ulps = scanner_.integer("a number");
    } else if (field == "mode") {
      scanner_.expect("#stablehlo.result_accuracy_mode<");
      accuracy.mode = *enumeration("result_accuracy_mode")->get_if<ResultAccuracyMode>();
      scanner_.expect(">");
    } else {
      scanner_.fail_about("result_accuracy has no field '" + std::string(field) + "'");
    }
  } while (scanner_.take(","));
  scanner_.expect(">");
  return add(accuracy);
}

const Attribute* TextAttributeReader::output_operand_alias() {
  OutputOperandAlias alias;
  do {
    const std::string_view field = scanner_.word("a field of output_operand_alias");
    scanner_.expect("=");
    if (field == "operand_index") {
      alias.operand_index = scanner_.integer("a number");
    } else if (field == "output_tuple_indices") {
      alias.output_tuple_indices = integer_list();
    } else if (field == "operand_tuple_indices") {
      alias.operand_tuple_indices = integer_list();
    } else {
      scanner_.fail_about("output_operand_alias has no field '" + std::string(field) + "'");
    }
  } while (scanner_.take(","));
  scanner_.expect(">");
  return add(std::move(alias));
}

// <name = value, ...>: several attributes that are one in the text.
void TextAttributeReader::structured(Dictionary& attributes, const OperatorRow& row) {
  do {
    std::string name(scanner_.word("a field"));
    scanner_.expect("=");
    if (name == "handle") name = "channel_id";
    if (name == "type") name = "channel_type";
    const Attribute* value = scanner_.peek() == '[' ? integers(integer_list()) : attribute();
    // Channels of collectives have no type here.
    const AttributeRow* known = find_attribute(row, name);
    if (known != nullptr) attributes.push_back({known->name, value});
    if (known == nullptr && name != "channel_type") {
      scanner_.fail_about(std::string(row.name) + " has no attribute '" + name + "'");
    }
  } while (scanner_.take(","));
  scanner_.expect(">");
}

// [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f]
void TextAttributeReader::convolution_numbers(Dictionary& attributes) {
  const auto read_part = [&](const char* prefix, std::string_view letters, const std::array<const char*, 2>& names) {
    std::array<int64_t, 2> lettered = {-1, -1};
    std::vector<int64_t> spatial;
    int64_t dimension = 0;
    scanner_.expect("[");
    do {
      const std::string_view word = scanner_.word("a dimension");
      const size_t letter = word.size() == 1 ? letters.find(word[0]) : std::string_view::npos;
      if (letter != std::string_view::npos) {
        lettered[letter] = dimension++;
        continue;
      }
      const size_t place =
          word.size() == 1 && word[0] >= '0' && word[0] <= '9' ? static_cast<size_t>(word[0] - '0') : 10;
      if (place == 10) scanner_.fail_about("'" + std::string(word) + "' is no dimension of a convolution");
      if (spatial.size() <= place) spatial.resize(place + 1, -1);
      spatial[place] = dimension++;
    } while (scanner_.take(","));
    scanner_.expect("]");
    attributes.push_back({contents_.add_string(std::string(prefix) + "_spatial_dimensions"), integers(spatial)});
    for (size_t i = 0; i < 2; ++i) {
      attributes.push_back({contents_.add_string(std::string(prefix) + names[i]), integer(lettered[i])});
    }
  };
  read_part("input", "bf", {"_batch_dimension", "_feature_dimension"});
  scanner_.expect("x");
  read_part("kernel", "io", {"_input_feature_dimension", "_output_feature_dimension"});
  scanner_.expect("->");
  read_part("output", "bf", {"_batch_dimension", "_feature_dimension"});
}

void TextAttributeReader::operator_attribute(std::string_view name, const OperatorRow& row, Dictionary& attributes) {
  for (const char* kind : {"dot", "dot_algorithm", "gather", "scatter", "channel_handle"}) {
    if (scanner_.take("#stablehlo." + std::string(kind) + "<")) return structured(attributes, row);
  }
  if (scanner_.take("#stablehlo.conv<")) {
    convolution_numbers(attributes);
    scanner_.expect(">");
    return;
  }
  attributes.push_back({contents_.add_string(name), attribute()});
}

void TextAttributeReader::dot_algorithm(const OperatorRow& row, Dictionary& attributes) {
  scanner_.expect("<");
  structured(attributes, row);
}

const Attribute* TextAttributeReader::short_attribute(const AttributeRow& row) {
  switch (row.kind) {
    case AttributeRow::kIntegers:
      return integers(integer_list());
    case AttributeRow::kInteger:
      return integer(scanner_.integer("a number"));
    case AttributeRow::kEnumeration:
      return enumeration(row.name);
    case AttributeRow::kArray: {  // of precisions
      ArrayAttribute elements;
      scanner_.expect("[");
      do elements.push_back(enumeration("precision"));
      while (scanner_.take(","));
      scanner_.expect("]");
      return add(std::move(elements));
    }
    default:
      return attribute();
  }
}

}  // namespace mydev::stablehlo
