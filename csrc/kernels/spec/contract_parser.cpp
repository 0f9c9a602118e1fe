// Contracts from text.
#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <utility>

#include "kernels/spec/contract.h"
#include "runtime/base/status.h"
#include "runtime/base/text_scanner.h"
#include "runtime/frame/dtype.h"

namespace mydev {

namespace {

struct NamedSet {
  std::string_view name;
  uint64_t dtypes;
};

constexpr uint64_t bits(std::initializer_list<mydev_dtype> dtypes) {
  uint64_t set = 0;
  for (const mydev_dtype dtype : dtypes) set |= MYDEV_DTYPE_BIT(dtype);
  return set;
}
constexpr uint64_t all_dtypes() {
  uint64_t set = 0;
  for (const DtypeRow& row : kDtypes) {
    if (row.kind != DtypeKind::kToken && row.kind != DtypeKind::kBits) set |= MYDEV_DTYPE_BIT(row.dtype);
  }
  return set;
}

constexpr NamedSet kSets[] = {
    {"ints", bits({MYDEV_S8, MYDEV_S16, MYDEV_S32, MYDEV_S64, MYDEV_U8})},
    {"floats", dtypes_of(DtypeKind::kFloat)},
    {"complex", dtypes_of(DtypeKind::kComplex)},
    {"any", all_dtypes()},
};

// The dtypes of a set's or of a dtype's name; 0 for another word.
uint64_t dtypes_named(std::string_view word) {
  for (const NamedSet& set : kSets) {
    if (set.name == word) return set.dtypes;
  }
  for (const DtypeRow& row : kDtypes) {
    if (row.name == word) return MYDEV_DTYPE_BIT(row.dtype);
  }
  return 0;
}

constexpr std::pair<std::string_view, ContractLayout> kLayouts[] = {{"strided", ContractLayout::kStrided},
                                                                    {"dense", ContractLayout::kDense},
                                                                    {"packed", ContractLayout::kPacked},
                                                                    {"reduced", ContractLayout::kReduced}};

constexpr std::pair<std::string_view, ContractKind> kKinds[] = {
    {"bool", ContractKind::kBool},     {"int", ContractKind::kInt},       {"float", ContractKind::kFloat},
    {"number", ContractKind::kNumber}, {"scalar", ContractKind::kScalar}, {"ints", ContractKind::kInts},
    {"floats", ContractKind::kFloats}};

bool is_variable(std::string_view word) {
  return word.size() == 1 && word[0] >= 'A' && word[0] <= 'Z';
}

template <typename Thing>
void append_names(std::vector<std::string>& names, const std::vector<Thing>& things) {
  names.reserve(names.size() + things.size());
  for (const Thing& thing : things) names.push_back(thing.name);
}
template <typename Thing>
std::vector<std::string> names_of(const std::vector<Thing>& things) {
  std::vector<std::string> names;
  append_names(names, things);
  return names;
}

// The characters of a part, and the position of the reader.
class Reader final : public TextScanner {
 public:
  Reader(const char* kernel, const char* part, std::string_view text)
      : TextScanner(text), kernel_(kernel), part_(part) {}

  [[noreturn]] void fail(const std::string& what) const {
    raise(MYDEV_INVALID_ARGUMENT, std::string("contract of ") + kernel_ + ", " + part_ + " \"" + std::string(text_) +
                                      "\": " + what + " at position " + std::to_string(position_));
  }
  [[noreturn]] void fail_expecting(const std::string& expected) override { fail("expected " + expected); }
  bool at_name() { return starts_name(peek()); }
  // A number with an optional sign; "inf", "true" and "false" are such.
  double number() {
    if (take_word("true")) return 1;
    if (take_word("false")) return 0;
    const bool negative = take("-");
    if (take_word("inf")) return negative ? -kInfinity : kInfinity;
    if (!is_digit(peek())) fail("expected a number");
    // "0..1" is a range: a '.' belongs to the number only before a digit.
    size_t end = position_;
    const auto part_of_number = [&](size_t i) {
      if (i >= text_.size()) return false;
      if (text_[i] == '.') return i + 1 < text_.size() && is_digit(text_[i + 1]);
      const bool of_exponent = (text_[i] == '-' || text_[i] == '+') && text_[i - 1] == 'e';
      return is_digit(text_[i]) || text_[i] == 'e' || of_exponent;
    };
    while (part_of_number(end)) ++end;
    double value = 0;
    const auto [stop, error] = std::from_chars(text_.data() + position_, text_.data() + end, value);
    if (error != std::errc() || stop != text_.data() + end) fail("expected a number");
    position_ = end;
    return negative ? -value : value;
  }
  // Takes the text up to a comma outside of parentheses, or to the end.
  std::string_view until_comma() {
    peek();
    const size_t begin = position_;
    int depth = 0;
    for (; position_ < text_.size() && (depth > 0 || text_[position_] != ','); ++position_) {
      depth += text_[position_] == '(' ? 1 : text_[position_] == ')' ? -1 : 0;
    }
    return text_.substr(begin, position_ - begin);
  }

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const char* kernel_;
  const char* part_;
};

// --- types -----------------------------------------------------------------------------------------------------------

// "s8 u8)" behind a dtype: where the variable that is named before has one of these.
uint64_t parse_condition(Reader& reader) {
  uint64_t others = 0;
  while (reader.at_name()) {
    const std::string_view other = reader.word("a dtype");
    if (dtypes_named(other) == 0) reader.fail("'" + std::string(other) + "' is no dtype or set");
    others |= dtypes_named(other);
  }
  reader.expect(")");
  return others;
}

std::vector<ContractVariable> parse_types(const char* kernel, const char* text) {
  Reader reader(kernel, "types", text);
  std::vector<ContractVariable> variables;
  while (!reader.at_end()) {
    const std::string_view name = reader.word("a variable");
    if (!is_variable(name)) reader.fail("a variable is one capital letter");
    reader.expect(":");
    ContractVariable variable{name[0], 0};
    bool on_request = false;
    while (true) {
      if (!on_request) on_request = reader.take("|");
      if (!reader.at_name()) break;
      const std::string_view word = reader.word("a dtype");
      const auto other = std::find_if(variables.begin(), variables.end(),
                                      [&](const ContractVariable& v) { return std::string_view(&v.name, 1) == word; });
      if (other != variables.end()) {
        variable.like = static_cast<int32_t>(other - variables.begin());
        variable.dtypes |= other->dtypes;
      } else if (const uint64_t dtypes = dtypes_named(word); dtypes != 0) {
        variable.own |= dtypes;
        if (on_request) variable.on_request |= dtypes;
        if (reader.take("(")) variable.conditions.push_back({dtypes, parse_condition(reader)});
      } else {
        reader.fail("'" + std::string(word) + "' is no dtype, set or earlier variable");
      }
    }
    variable.dtypes |= variable.own;
    if (variable.dtypes == 0) reader.fail("expected a dtype");
    variables.push_back(variable);
    if (!reader.at_end()) reader.expect(";");
  }
  return variables;
}

// --- operands --------------------------------------------------------------------------------------------------------

class OperandsParser {
 public:
  OperandsParser(KernelContract& contract, const char* text)
      : contract_(contract), reader_(contract.name.c_str(), "operands", text) {}

  void parse() {
    const ContractLayout layout = take_layout().value_or(ContractLayout::kStrided);
    contract_.results = operands(layout, /*are_results=*/true);
    reader_.expect("<-");
    contract_.operands = operands(layout, /*are_results=*/false);
    if (has_attributes_) attributes();
    reader_.expect(")");
    mark_own_sizes();
    if (reader_.take_word("where")) {
      do {
        fact();
      } while (reader_.take(","));
    }
    if (!reader_.at_end()) reader_.fail("expected the end");
  }

 private:
  std::optional<ContractLayout> take_layout() {
    for (const auto& [name, layout] : kLayouts) {
      if (reader_.take_word(name)) return layout;
    }
    return std::nullopt;
  }

  // Reads results up to ")", or operands up to ";" or before ")".
  std::vector<ContractOperand> operands(ContractLayout layout, bool are_results) {
    std::vector<ContractOperand> found;
    reader_.expect("(");
    while (reader_.peek() != ')' && reader_.peek() != ';') {
      if (!found.empty()) reader_.expect(",");
      const bool left_out = reader_.take("[");
      ContractOperand operand = this->operand(layout);
      if (left_out) reader_.expect("]");
      if (!left_out && !found.empty() && found.back().may_be_left_out) reader_.fail("only the last may be left out");
      operand.may_be_left_out = left_out;
      found.push_back(std::move(operand));
    }
    has_attributes_ = !are_results && reader_.take(";");
    if (are_results) reader_.expect(")");
    return found;
  }

  ContractOperand operand(ContractLayout layout) {
    ContractOperand operand;
    operand.is_updated = reader_.take("&");
    operand.name = reader_.word("an operand's name");
    operand.is_list = reader_.take("...");
    operand.may_be_absent = reader_.take("?");
    operand.layout = take_layout().value_or(layout);
    const std::string_view type = reader_.word("a dtype");
    if (is_variable(type)) {
      const auto& variables = contract_.variables;
      const auto found =
          std::find_if(variables.begin(), variables.end(), [&](const auto& v) { return v.name == type[0]; });
      if (found == variables.end()) reader_.fail("'" + std::string(type) + "' has no types");
      operand.variable = static_cast<int32_t>(found - variables.begin());
      operand.dtypes = found->dtypes;
    } else {
      operand.dtypes = dtypes_named(type);
      if (operand.dtypes == 0) reader_.fail("'" + std::string(type) + "' is no dtype or set");
    }
    if (reader_.peek() == '[') operand.shapes.push_back(shape());
    while (reader_.take("|")) {
      if (reader_.take_word("number")) {
        operand.may_be_number = true;
      } else {
        operand.shapes.push_back(shape());
      }
    }
    if (operand.shapes.empty())
      operand.shapes.push_back({ContractSize{ContractSize::kList, 0, size_name("...", true)}});
    return operand;
  }

  ContractShape shape() {
    ContractShape shape;
    reader_.expect("[");
    while (!reader_.take("]")) {
      if (!shape.empty()) reader_.expect(",");
      if (is_digit(reader_.peek())) {
        const auto number = static_cast<int64_t>(reader_.number());
        shape.push_back({ContractSize::kNumber, number, -1, reader_.take("*")});
      } else if (reader_.take("...")) {
        shape.push_back({ContractSize::kList, 0, size_name("...", true)});
      } else {
        const std::string name(reader_.word("a size: a name, a number or '...'"));
        const bool is_list = reader_.take("...");
        const bool is_product = !is_list && reader_.take("*");
        shape.push_back({is_list ? ContractSize::kList : ContractSize::kName, 0, size_name(name, is_list), is_product});
      }
    }
    const bool has_product =
        std::any_of(shape.begin(), shape.end(), [](const ContractSize& s) { return s.is_product; });
    if (has_product && shape.size() > 1) reader_.fail("'*' beside other sizes");
    if (std::count_if(shape.begin(), shape.end(), [](const ContractSize& s) { return s.kind == ContractSize::kList; }) >
        1) {
      reader_.fail("a shape with two lists");
    }
    return shape;
  }

  int32_t size_name(const std::string& name, bool is_list) {
    auto& sizes = contract_.sizes;
    const auto found = std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.name == name; });
    if (found != sizes.end() && found->is_list != is_list) reader_.fail("'" + name + "' is a size and a list of sizes");
    const auto index = static_cast<int32_t>(found - sizes.begin());
    if (found == sizes.end()) sizes.push_back({name, is_list, true});
    return index;
  }

  // A size is the same for all buffers if an operand that is no list has it.
  void mark_own_sizes() {
    for (const auto* operands : {&contract_.results, &contract_.operands}) {
      for (const ContractOperand& operand : *operands) {
        for (const ContractShape& shape : operand.shapes) {
          for (const ContractSize& size : shape) {
            if (size.name >= 0 && !operand.is_list) contract_.sizes[static_cast<size_t>(size.name)].is_own = false;
          }
        }
      }
    }
  }

  void attributes() {
    while (reader_.peek() != ')') {
      if (!contract_.attributes.empty()) reader_.expect(",");
      attribute();
    }
  }

  void attribute() {
    ContractAttribute attribute;
    attribute.name = reader_.word("an attribute's name");
    reader_.expect(":");
    const std::string_view kind = reader_.word("an attribute's kind");
    const auto* const found =
        std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& entry) { return entry.first == kind; });
    if (found == std::end(kKinds)) reader_.fail("'" + std::string(kind) + "' is no kind of attribute");
    attribute.kind = found->second;
    if (attribute.kind == ContractKind::kInts || attribute.kind == ContractKind::kFloats) {
      reader_.expect("[");
      if (reader_.take("...")) {
        attribute.length = ContractAttribute::kListLength;
      } else if (reader_.peek() != ']') {
        attribute.length = static_cast<int64_t>(reader_.number());
      }
      reader_.expect("]");
    }
    if (is_digit(reader_.peek()) || reader_.peek() == '-') {
      attribute.low = reader_.number();
      reader_.expect("..");
      if (is_digit(reader_.peek()) || reader_.peek() == '-') attribute.high = reader_.number();
    }
    if (reader_.take("=")) attribute.otherwise = reader_.number();
    const bool after_default = !contract_.attributes.empty() && contract_.attributes.back().otherwise.has_value();
    if (after_default && !attribute.otherwise) reader_.fail("an attribute without a default after one that has one");
    contract_.attributes.push_back(std::move(attribute));
  }

  void fact() {
    if (reader_.take("...")) return list_bounds();
    const std::string name(reader_.word("a result, a size or a list of sizes"));
    if (name == "operands" && reader_.take_word("are")) return not_empty();
    if (reader_.take_word("may")) return aliases(name);
    const auto& sizes = contract_.sizes;
    const auto found = std::find_if(sizes.begin(), sizes.end(), [&](const auto& s) { return s.name == name; });
    if (found == sizes.end()) return operand_bounds(name);
    if (reader_.peek() == ':') {
      if (!found->is_list) reader_.fail("'" + name + "' is no list of sizes");
      return list_bounds();
    }
    reader_.expect("=");
    std::vector<std::string> names = names_of(sizes);
    append_names(names, contract_.attributes);
    contract_.facts.push_back(
        {static_cast<int32_t>(found - sizes.begin()), Expression(reader_.until_comma(), std::move(names), {})});
  }
  void list_bounds() {
    reader_.expect(":");
    contract_.least_list = static_cast<int64_t>(reader_.number());
    reader_.expect("..");
    contract_.greatest_list = static_cast<int64_t>(reader_.number());
  }
  void operand_bounds(const std::string& name) {
    ContractOperand& operand = contract_.operands[position(contract_.operands, name)];
    reader_.expect(":");
    operand.low = reader_.number();
    reader_.expect("..");
    operand.high = reader_.number();
  }
  void not_empty() {
    if (!reader_.take_word("not") || !reader_.take_word("empty")) reader_.fail("expected 'operands are not empty'");
    contract_.may_be_empty = false;
  }
  size_t position(const std::vector<ContractOperand>& operands, std::string_view wanted) const {
    const auto found = std::find_if(operands.begin(), operands.end(), [&](const auto& o) { return o.name == wanted; });
    if (found == operands.end()) reader_.fail("there is no operand or size '" + std::string(wanted) + "'");
    return static_cast<size_t>(found - operands.begin());
  }
  void aliases(const std::string& name) {
    if (!reader_.take_word("be")) reader_.fail("expected 'may be'");
    ContractOperand& result = contract_.results[position(contract_.results, name)];
    do {
      result.may_be.push_back(static_cast<int32_t>(position(contract_.operands, reader_.word("an operand"))));
    } while (reader_.take_word("or"));
  }

  KernelContract& contract_;
  Reader reader_;
  bool has_attributes_ = false;
};

void check_names(const KernelContract& contract) {
  std::vector<std::string> names = names_of(contract.results);
  append_names(names, contract.operands);
  append_names(names, contract.attributes);
  std::sort(names.begin(), names.end());
  const auto twice = std::adjacent_find(names.begin(), names.end());
  MYDEV_CHECK(twice == names.end(), MYDEV_INVALID_ARGUMENT, "contract of ", contract.name, ": two things are called '",
              *twice, "'");
}

}  // namespace

KernelContract parse_contract(const char* name, const char* group, const char* operands, const char* types,
                              const char* expression, const char* notes) {
  KernelContract contract{.name = name, .group = group, .operands_text = operands, .types_text = types, .notes = notes};
  contract.variables = parse_types(name, types);
  OperandsParser(contract, operands).parse();
  check_names(contract);
  if (*expression != '\0') {
    std::vector<std::string> names = names_of(contract.operands);
    append_names(names, contract.attributes);
    contract.expression = Expression(expression, std::move(names), names_of(contract.results));
  }
  return contract;
}

}  // namespace mydev
