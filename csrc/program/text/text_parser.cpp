// Programs from text.
#include <map>
#include <optional>
#include <utility>

#include "program/ir/builder.h"
#include "program/ir/names.h"
#include "program/text/text.h"
#include "program/text/text_reader.h"
#include "runtime/base/status.h"

namespace mydev::program {

namespace {

constexpr int kDeepestDictionary = 8;  // as custom_call.h has it

// Attributes with all that they point to.
struct ParsedAttributes {
  std::vector<mydev_attribute> attributes;
  // The data that the attributes point to. These do not move while the lists grow.
  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<std::unique_ptr<std::vector<int64_t>>> ints;
  std::vector<std::unique_ptr<std::vector<double>>> floats;
  std::vector<std::unique_ptr<ParsedAttributes>> dictionaries;

  const char* keep(std::string text) { return texts.emplace_back(new std::string(std::move(text)))->c_str(); }
};

using ProgramsByName = std::map<std::string, SharedProgram, std::less<>>;

class ProgramParser {
 public:
  ProgramParser(TextReader& reader, const ProgramsByName& programs) : reader_(reader), programs_(programs) {}

  SharedProgram run() {
    if (!reader_.take_word("program")) reader_.fail("'program'");
    const std::string name = new_name("the name of a program");
    if (programs_.contains(name)) reader_.fail_before("another name: there is a program of this one");
    builder_ = ProgramBuilder(name);
    reader_.expect("(");
    parse_list(")", [&] { parse_parameter(); });
    reader_.expect("->");
    reader_.expect("(");
    std::vector<SlotIndex> results;
    parse_list(")", [&] { results.push_back(parse_result()); });
    reader_.expect("{");
    reader_.end_of_line();
    while (!reader_.take("}")) {
      parse_line();
      reader_.end_of_line();
    }
    reader_.end_of_line();
    for (const SlotIndex result : results) builder_.returns(result);
    return std::move(builder_).build();
  }

 private:
  // Parses things that commas separate, up to the token.
  template <typename Parse>
  void parse_list(std::string_view end, const Parse& parse) {
    if (reader_.take(end)) return;
    do {
      parse();
    } while (reader_.take(","));
    if (!reader_.take(end)) reader_.fail("',' or '" + std::string(end) + "'");
  }

  // --- slots ---

  std::string new_name(const std::string& expected) {
    const std::string name(reader_.word(expected));
    if (!is_name(name)) reader_.fail_before(expected + " that is no word of the language");
    return name;
  }

  SlotIndex keep(SlotIndex slot, const std::string& name) {
    slots_.emplace(name, slot);
    return slot;
  }
  std::string new_slot() {
    const std::string name = new_name("the name of a slot");
    if (slots_.contains(name)) reader_.fail_before("another name: there is a slot of this one");
    return name;
  }

  struct Type {
    mydev_dtype dtype;
    std::vector<int64_t> sizes;
  };
  mydev_dtype parse_dtype() {
    const mydev_dtype dtype = dtype_named(reader_.word("a dtype, as in f32[2,3]"));
    if (dtype == MYDEV_DTYPE_INVALID) reader_.fail_before("a dtype, as in f32[2,3]");
    return dtype;
  }
  std::vector<int64_t> parse_integers(std::string_view open, std::string_view close, const char* expected) {
    reader_.expect(open);
    std::vector<int64_t> values;
    parse_list(close, [&] { values.push_back(reader_.integer(expected)); });
    return values;
  }
  Type parse_type() {
    const mydev_dtype dtype = parse_dtype();
    return {dtype, parse_integers("[", "]", "a size")};
  }

  void parse_parameter() {
    const bool donated = reader_.take_word("donated"), on_host = reader_.take_word("host");
    const std::string name = new_slot();
    reader_.expect(":");
    Type type = parse_type();
    const SlotIndex slot = keep(builder_.parameter(type.dtype, std::move(type.sizes), donated, name), name);
    if (on_host) builder_.place_on_host(slot);
  }

  SlotIndex parse_result() {
    if (const auto found = slots_.find(reader_.next_word()); found != slots_.end()) {
      reader_.word("a parameter");
      return found->second;
    }
    const bool on_host = reader_.take_word("host");
    const SlotIndex slot = parse_temporary();
    if (on_host) builder_.place_on_host(slot);
    return slot;
  }

  SlotIndex parse_temporary() {
    const std::string name = new_slot();
    reader_.expect(":");
    Type type = parse_type();
    return keep(builder_.temporary(type.dtype, std::move(type.sizes), name), name);
  }

  void parse_constant() {
    const std::string name = new_slot();
    reader_.expect(":");
    Type type = parse_type();
    reader_.expect("=");
    std::vector<std::byte> data = parse_hex();
    uint32_t devices = 1;
    for (; reader_.take(","); ++devices) {
      const std::vector<std::byte> more = parse_hex();
      data.insert(data.end(), more.begin(), more.end());
    }
    keep(builder_.constant(type.dtype, std::move(type.sizes), data, name, devices), name);
  }

  std::vector<std::byte> parse_hex() {
    if (!reader_.take_word("hex")) reader_.fail("'hex' and a string of digits");
    return reader_.hex();
  }

  // --- operands ---

  uint64_t parse_count(const char* expected) {
    const int64_t value = reader_.integer(expected);
    if (value < 0) reader_.fail_before(expected);
    return static_cast<uint64_t>(value);
  }

  Operand parse_operand() {
    if (reader_.take_word("none")) return {};
    if (dtype_named(reader_.next_word()) != MYDEV_DTYPE_INVALID) return parse_number();
    const auto found = slots_.find(reader_.word("the name of a slot, a number with its dtype, or 'none'"));
    if (found == slots_.end()) reader_.fail_before("the name of a slot");
    Operand operand = builder_.view(found->second);
    if (reader_.take("+")) operand.offset = parse_count("an offset in bytes");
    if (dtype_named(reader_.next_word()) == MYDEV_DTYPE_INVALID) return operand;
    const Type type = parse_type();
    operand.dtype = type.dtype;
    operand.sizes = type.sizes;
    if (reader_.peek() == '{') {
      operand.strides = parse_integers("{", "}", "a stride");
      if (operand.strides.size() != operand.sizes.size()) {
        reader_.fail_before("as many strides as sizes, which are " + std::to_string(operand.sizes.size()));
      }
    } else {
      operand.strides = dense_strides(operand.sizes);
    }
    return operand;
  }

  Operand parse_number() {
    mydev_scalar value{};
    const mydev_dtype dtype = parse_dtype();
    const std::vector<int64_t> sizes =
        reader_.peek() == '[' ? parse_integers("[", "]", "a size") : std::vector<int64_t>();
    switch (scalar_kind(dtype)) {
      case ScalarKind::kInteger:
        value.i = reader_.integer("an integer");
        break;
      case ScalarKind::kFloat:
        value.f = reader_.floating("a number");
        break;
      case ScalarKind::kComplex:
        parse_complex(value.c);
        break;
    }
    Operand operand = ProgramBuilder::number(dtype, value);
    operand.sizes = sizes;
    operand.strides.resize(sizes.size());
    return operand;
  }

  void parse_complex(double* parts) {
    reader_.expect("(");
    parts[0] = reader_.floating("a number");
    reader_.expect(",");
    parts[1] = reader_.floating("a number");
    reader_.expect(")");
  }

  std::vector<Operand> parse_operands(std::string_view end) {
    std::vector<Operand> operands;
    parse_list(end, [&] { operands.push_back(parse_operand()); });
    return operands;
  }

  // --- attributes ---

  void parse_attribute(ParsedAttributes& into, int depth = 0) {
    const bool quoted = reader_.peek() == '"';
    const char* name = into.keep(quoted ? reader_.string() : std::string(reader_.word("the name of an attribute")));
    reader_.expect("=");
    mydev_attribute attribute{name, 0, 0, 0, {}};
    if (const mydev_dtype dtype = dtype_named(reader_.next_word()); dtype != MYDEV_DTYPE_INVALID) {
      attribute.dtype = static_cast<uint16_t>(parse_dtype());
    }
    parse_value(attribute, into, depth);
    into.attributes.push_back(attribute);
  }

  void parse_value(mydev_attribute& attribute, ParsedAttributes& into, int depth) {
    const std::string_view word = reader_.next_word();
    if (word == "true" || word == "false") {
      attribute.kind = MYDEV_ATTRIBUTE_BOOL;
      attribute.value.i = reader_.word("") == "true" ? 1 : 0;
    } else if (reader_.at_floating()) {
      attribute.kind = MYDEV_ATTRIBUTE_FLOAT;
      attribute.value.f = reader_.floating("a number");
    } else if (reader_.at_number()) {
      attribute.kind = MYDEV_ATTRIBUTE_INT;
      attribute.value.i = reader_.integer("an integer");
    } else if (reader_.peek() == '(') {
      attribute.kind = MYDEV_ATTRIBUTE_COMPLEX;
      parse_complex(attribute.value.c);
    } else if (reader_.peek() == '"') {
      const std::string text = reader_.string();
      attribute.kind = MYDEV_ATTRIBUTE_STRING;
      attribute.count = static_cast<uint32_t>(text.size());
      attribute.value.bytes = into.keep(text);
    } else if (reader_.peek() == '[') {
      parse_array(attribute, into);
    } else if (attribute.dtype != MYDEV_DTYPE_INVALID && word == "hex") {
      parse_typed_array(attribute, into);
    } else if (reader_.take("{")) {
      if (depth == kDeepestDictionary) reader_.fail_before("a value that is no dictionary: they are nested too deep");
      ParsedAttributes& entries = *into.dictionaries.emplace_back(new ParsedAttributes);
      parse_list("}", [&] { parse_attribute(entries, depth + 1); });
      attribute.kind = MYDEV_ATTRIBUTE_DICTIONARY;
      attribute.count = static_cast<uint32_t>(entries.attributes.size());
      attribute.value.attributes = entries.attributes.data();
    } else {
      reader_.fail("the value of an attribute");
    }
  }

  void parse_array(mydev_attribute& attribute, ParsedAttributes& into) {
    reader_.expect("[");
    if (reader_.take(".")) {
      reader_.expect("]");
      attribute.kind = MYDEV_ATTRIBUTE_FLOAT_ARRAY;
    } else if (reader_.at_floating()) {
      std::vector<double>& values = *into.floats.emplace_back(new std::vector<double>);
      parse_list("]", [&] { values.push_back(reader_.floating("a number")); });
      attribute.kind = MYDEV_ATTRIBUTE_FLOAT_ARRAY;
      attribute.count = static_cast<uint32_t>(values.size());
      attribute.value.floats = values.data();
    } else {
      std::vector<int64_t>& values = *into.ints.emplace_back(new std::vector<int64_t>);
      parse_list("]", [&] { values.push_back(reader_.integer("an integer")); });
      attribute.kind = MYDEV_ATTRIBUTE_INT_ARRAY;
      attribute.count = static_cast<uint32_t>(values.size());
      attribute.value.ints = values.data();
    }
  }

  void parse_typed_array(mydev_attribute& attribute, ParsedAttributes& into) {
    const std::vector<std::byte> bytes = parse_hex();
    const auto size = static_cast<size_t>(dtype_row(attribute.dtype).size);
    if (size == 0 || bytes.size() % size != 0) reader_.fail_before("the bytes of whole elements");
    attribute.kind = MYDEV_ATTRIBUTE_ARRAY;
    attribute.count = static_cast<uint32_t>(bytes.size() / size);
    attribute.value.data = into.keep({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }

  // --- steps ---

  void parse_line() {
    if (reader_.take_word("constant")) return parse_constant();
    if (reader_.take_word("temporary")) return static_cast<void>(parse_temporary());
    if (reader_.at_number()) {
      const uint64_t number = parse_count("the number of a step");
      if (!numbers_.emplace(number, builder_.num_steps()).second) reader_.fail_before("a number that no step has");
      reader_.expect(":");
    }
    parse_step();
  }

  static std::optional<StepKind> kind_named(std::string_view word) {
    for (int kind = 0; kind <= static_cast<int>(StepKind::kIf); ++kind) {
      if (word == step_kind_name(static_cast<StepKind>(kind))) return static_cast<StepKind>(kind);
    }
    return std::nullopt;
  }

  void parse_step() {
    Step step;
    if (!kind_named(reader_.next_word())) step.results = parse_operands("=");
    const auto kind = kind_named(reader_.word("a command: launch, copy, fill, call, repeat, while, if"));
    if (!kind) reader_.fail_before("a command: launch, copy, fill, call, repeat, while, if");
    step.kind = *kind;
    parse_command(step);
    if (reader_.take_word("lane")) step.lane = static_cast<uint32_t>(parse_count("the number of a lane"));
    if (reader_.take_word("after")) {
      do {
        const auto found = numbers_.find(parse_count("the number of a step"));
        if (found == numbers_.end()) reader_.fail_before("the number of a step above this one");
        step.after.push_back(found->second);
      } while (reader_.take(","));
    }
    builder_.add(std::move(step));
  }

  void parse_command(Step& step) {
    switch (step.kind) {
      case StepKind::kLaunch:
        step.name = reader_.run_of(".:-", "the name of a kernel");
        return parse_arguments(step);
      case StepKind::kCopy:
        step.operands.push_back(parse_operand());
        return;
      case StepKind::kFill:
        step.pattern = parse_hex();
        return;
      case StepKind::kHostCall:
      case StepKind::kCollective:
        reader_.fail_before(
            "a step that text can hold; a host call or a collective is a function of the process that built it");
      case StepKind::kCall:
      case StepKind::kFused:
        break;
      case StepKind::kRepeat:
        step.count = parse_count("how often");
        break;
      case StepKind::kWhile:
        step.predicate = parse_operand();
        break;
      case StepKind::kIf:
        step.predicate = parse_operand();
        if (!reader_.take_word("then")) reader_.fail("'then'");
        break;
    }
    step.program = parse_program_name();
    if (step.kind == StepKind::kIf && reader_.take_word("else")) step.otherwise = parse_program_name();
    reader_.expect("(");
    if (step.kind == StepKind::kRepeat) return parse_moving_operands(step);
    step.operands = parse_operands(")");
  }

  // "x, rows f32[4] by 16)"
  void parse_moving_operands(Step& step) {
    bool moves = false;
    parse_list(")", [&] {
      step.operands.push_back(parse_operand());
      const bool by = reader_.take_word("by");
      step.advances.push_back(by ? reader_.integer("by how many bytes it moves from iteration to iteration") : 0);
      moves |= by;
    });
    if (!moves) step.advances.clear();
  }

  SharedProgram parse_program_name() {
    const auto found = programs_.find(reader_.word("the name of a program"));
    if (found == programs_.end()) {
      reader_.fail_before("the name of a program above this one; no program calls itself");
    }
    return found->second;
  }

  // "(x, y; alpha=1)"
  void parse_arguments(Step& step) {
    reader_.expect("(");
    ParsedAttributes parsed;
    if (reader_.peek() != ';' && reader_.peek() != ')') {
      do {
        step.operands.push_back(parse_operand());
      } while (reader_.take(","));
    }
    if (reader_.take(";")) {
      parse_list(")", [&] { parse_attribute(parsed); });
    } else if (!reader_.take(")")) {
      reader_.fail("',', ';' or ')'");
    }
    step.attributes = Attributes(parsed.attributes);
  }

  TextReader& reader_;
  const ProgramsByName& programs_;
  ProgramBuilder builder_{""};
  std::map<std::string, SlotIndex, std::less<>> slots_;
  std::map<uint64_t, StepIndex> numbers_;
};

}  // namespace

SharedProgram parse(std::string_view text) {
  TextReader reader(text);
  reader.skip_lines();
  if (!reader.take_word("programs") || !reader.take_word("version")) reader.fail("'programs version' and a number");
  if (reader.integer("the version of the text") != kTextVersion) {
    reader.fail_before("version " + std::to_string(kTextVersion));
  }
  reader.end_of_line();
  ProgramsByName programs;
  SharedProgram last;
  do {
    last = ProgramParser(reader, programs).run();
    programs.emplace(last->name(), last);
  } while (reader.peek() != '\0');
  return last;
}

}  // namespace mydev::program
