// Programs to text.
#include <algorithm>
#include <charconv>
#include <ostream>
#include <sstream>
#include <string_view>

#include "program/ir/access.h"
#include "program/ir/names.h"
#include "program/text/text.h"
#include "runtime/base/quoted.h"
#include "runtime/frame/dtype.h"

namespace mydev::program {

namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

void print_hex(std::ostream& out, std::span<const std::byte> bytes) {
  out << "hex \"";
  for (const std::byte byte : bytes) {
    out << kHexDigits[std::to_integer<unsigned>(byte) >> 4] << kHexDigits[std::to_integer<unsigned>(byte) & 15];
  }
  out << '"';
}

// Returns the shortest digits that give the value again, in a form that no integer has.
void print_float(std::ostream& out, double value) {
  char digits[32];
  const auto [end, problem] = std::to_chars(digits, digits + sizeof digits, value);
  const std::string_view text(digits, static_cast<size_t>(end - digits));
  out << text << (text.find_first_of(".en") == std::string_view::npos ? ".0" : "");
}

void print_complex(std::ostream& out, const double* parts) {
  out << '(';
  print_float(out, parts[0]);
  out << ',';
  print_float(out, parts[1]);
  out << ')';
}

void print_list(std::ostream& out, char open, std::span<const int64_t> values, char close) {
  out << open;
  for (size_t i = 0; i < values.size(); ++i) out << (i != 0 ? "," : "") << values[i];
  out << close;
}

const char* name_of(int32_t dtype) {
  return dtype_row(dtype).name;
}

void print_type(std::ostream& out, mydev_dtype dtype, std::span<const int64_t> sizes) {
  out << name_of(dtype);
  print_list(out, '[', sizes, ']');
}

void print_number(std::ostream& out, const Operand& operand) {
  if (operand.sizes.empty()) {
    out << name_of(operand.dtype);
  } else {
    print_type(out, operand.dtype, operand.sizes);
  }
  out << ' ';
  switch (scalar_kind(operand.dtype)) {
    case ScalarKind::kInteger:
      out << operand.number.i;
      break;
    case ScalarKind::kFloat:
      print_float(out, operand.number.f);
      break;
    case ScalarKind::kComplex:
      print_complex(out, operand.number.c);
      break;
  }
}

void print_operand(std::ostream& out, const Program& program, const Operand& operand) {
  if (operand.kind == Operand::kAbsent) {
    out << "none";
    return;
  }
  if (operand.kind == Operand::kNumber) return print_number(out, operand);
  const Slot& slot = program.slots()[operand.slot];
  out << slot.name;
  const bool dense = is_dense(operand);
  if (operand.offset == 0 && operand.dtype == slot.dtype && operand.sizes == slot.sizes && dense) return;
  if (operand.offset != 0) out << '+' << operand.offset;
  out << ' ';
  print_type(out, operand.dtype, operand.sizes);
  if (!dense) print_list(out, '{', operand.strides, '}');
}

void print_operands(std::ostream& out, const Program& program, const std::vector<Operand>& operands,
                    const std::vector<int64_t>& advances = {}) {
  for (size_t i = 0; i < operands.size(); ++i) {
    out << (i != 0 ? ", " : "");
    print_operand(out, program, operands[i]);
    if (i < advances.size() && advances[i] != 0) out << " by " << advances[i];
  }
}

void print_floats(std::ostream& out, std::span<const double> values) {
  out << '[' << (values.empty() ? "." : "");
  for (size_t i = 0; i < values.size(); ++i) {
    out << (i != 0 ? "," : "");
    print_float(out, values[i]);
  }
  out << ']';
}

void print_attributes(std::ostream& out, std::span<const mydev_attribute> attributes);

void print_value(std::ostream& out, const mydev_attribute& attribute) {
  if (attribute.dtype != MYDEV_DTYPE_INVALID) out << name_of(attribute.dtype) << ' ';
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      out << (attribute.value.i != 0 ? "true" : "false");
      break;
    case MYDEV_ATTRIBUTE_INT:
      out << attribute.value.i;
      break;
    case MYDEV_ATTRIBUTE_FLOAT:
      print_float(out, attribute.value.f);
      break;
    case MYDEV_ATTRIBUTE_COMPLEX:
      print_complex(out, attribute.value.c);
      break;
    case MYDEV_ATTRIBUTE_STRING:
      out << in_quotes({attribute.value.bytes, attribute.count});
      break;
    case MYDEV_ATTRIBUTE_INT_ARRAY:
      print_list(out, '[', {attribute.value.ints, attribute.count}, ']');
      break;
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      print_floats(out, {attribute.value.floats, attribute.count});
      break;
    case MYDEV_ATTRIBUTE_ARRAY:
      print_hex(out, {static_cast<const std::byte*>(attribute.value.data),
                      attribute.count * static_cast<size_t>(dtype_row(attribute.dtype).size)});
      break;
    default:  // MYDEV_ATTRIBUTE_DICTIONARY
      out << '{';
      print_attributes(out, {attribute.value.attributes, attribute.count});
      out << '}';
  }
}

void print_attributes(std::ostream& out, std::span<const mydev_attribute> attributes) {
  const char* separator = "";
  for (const mydev_attribute& attribute : attributes) {
    out << separator;
    separator = ", ";
    const std::string_view name(attribute.name);
    (is_identifier(name) ? out << name : out << in_quotes(name)) << '=';
    print_value(out, attribute);
  }
}

void print_command(std::ostream& out, const Program& program, const Step& step) {
  out << step_kind_name(step.kind) << ' ';
  switch (step.kind) {
    case StepKind::kLaunch:
      out << step.name;
      break;
    case StepKind::kCopy:
      return print_operand(out, program, step.operands[0]);
    case StepKind::kFill:
      return print_hex(out, step.pattern);
    case StepKind::kHostCall:
    case StepKind::kCollective:
      out << in_quotes(step.name);
      break;
    case StepKind::kCall:
    case StepKind::kFused:
      out << step.program->name();
      break;
    case StepKind::kRepeat:
      out << step.count << ' ' << step.program->name();
      break;
    case StepKind::kWhile:
    case StepKind::kIf:
      print_operand(out, program, step.predicate);
      out << (step.kind == StepKind::kIf ? " then " : " ") << step.program->name();
      if (step.otherwise != nullptr) out << " else " << step.otherwise->name();
      break;
  }
  out << '(';
  print_operands(out, program, step.operands, step.advances);
  if (!step.attributes.get().empty()) {
    out << "; ";
    print_attributes(out, step.attributes.get());
  }
  out << ')';
}

void print_order(std::ostream& out, const Step& step) {
  if (step.lane != 0) out << " lane " << step.lane;
  for (size_t i = 0; i < step.after.size(); ++i) out << (i == 0 ? " after " : ", ") << step.after[i];
}

void print_slot(std::ostream& out, const Slot& slot) {
  out << slot.name << ": ";
  print_type(out, slot.dtype, slot.sizes);
}

void print_head(std::ostream& out, const Program& program) {
  out << "program " << program.name() << '(';
  const char* separator = "";
  for (const SlotIndex index : program.parameters()) {
    const Slot& slot = program.slots()[index];
    out << separator << (slot.donated ? "donated " : "") << (slot.on_host ? "host " : "");
    print_slot(out, slot);
    separator = ", ";
  }
  out << ") -> (";
  separator = "";
  for (const SlotIndex index : program.results()) {
    const Slot& slot = program.slots()[index];
    out << separator;
    if (slot.kind == SlotKind::kResult) {
      out << (slot.on_host ? "host " : "");
      print_slot(out, slot);
    } else {
      out << slot.name;
    }
    separator = ", ";
  }
  out << ") {\n";
}

void print_program(std::ostream& out, const Program& program) {
  print_head(out, program);
  for (const SlotKind kind : {SlotKind::kConstant, SlotKind::kTemporary}) {
    for (const Slot& slot : program.slots()) {
      if (slot.kind != kind) continue;
      out << "  " << (kind == SlotKind::kConstant ? "constant " : "temporary ");
      print_slot(out, slot);
      if (kind == SlotKind::kConstant) {
        for (uint32_t device = 0; device < slot.devices; ++device) {
          out << (device == 0 ? " = " : ", ");
          print_hex(out, slot.data_of(device));
        }
      }
      out << '\n';
    }
  }
  std::vector<bool> awaited(program.steps().size());
  for (const Step& step : program.steps()) {
    for (const StepIndex earlier : step.after) awaited[earlier] = true;
  }
  for (StepIndex index = 0; index < awaited.size(); ++index) {
    out << "  ";
    if (awaited[index]) out << index << ": ";
    out << print_step(program, program.steps()[index]) << '\n';
  }
  out << "}\n";
}

}  // namespace

std::string print_step(const Program& program, const Step& step) {
  std::ostringstream out;
  print_operands(out, program, step.results);
  if (!step.results.empty()) out << " = ";
  print_command(out, program, step);
  print_order(out, step);
  if (step.executable != nullptr) out << "  # one executable of the device's compiler";
  return out.str();
}

std::string print(const Program& program) {
  std::ostringstream out;
  out << "programs version " << kTextVersion << '\n';
  for (const Program* each : programs_of(program)) {
    out << '\n';
    print_program(out, *each);
  }
  return out.str();
}

}  // namespace mydev::program
