#include "program/text/graphviz.h"

#include <map>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "program/text/text.h"
#include "runtime/base/quoted.h"

namespace mydev::program {

namespace {

// Graphviz knows no escapes of bytes.
constexpr EscapeStyle kDotStyle = {.first = 0, .last = 0xff};

// A write to bytes of a slot, since the last write of all of them.
struct Write {
  std::pair<int64_t, int64_t> bytes;
  StepIndex step;
};

bool overlap(const std::pair<int64_t, int64_t>& a, const std::pair<int64_t, int64_t>& b) {
  return a.first < b.second && b.first < a.second;
}
bool covers(const std::pair<int64_t, int64_t>& a, const std::pair<int64_t, int64_t>& b) {
  return a.first <= b.first && b.second <= a.second;
}

}  // namespace

std::string dot_of(const Program& program) {
  std::ostringstream out;
  out << "digraph " << in_quotes(program.name(), kDotStyle) << " {\n  node [fontname=monospace];\n";
  std::map<SlotIndex, std::vector<Write>> writes;
  std::set<SlotIndex> sources;
  for (StepIndex i = 0; i < program.steps().size(); ++i) {
    const Step& step = program.steps()[i];
    out << "  s" << i
        << " [shape=box, label=" << in_quotes(std::to_string(i) + ": " + print_step(program, step), kDotStyle)
        << "];\n";
    std::set<std::string> from;
    const auto follow = [&](const Operand& operand, bool reads) {
      if (operand.kind != Operand::kView) return;
      const auto bytes = bytes_touched(operand);
      bool found = false;
      for (const Write& write : writes[operand.slot]) {
        if (!overlap(write.bytes, bytes)) continue;
        from.insert("s" + std::to_string(write.step));
        found = true;
      }
      const SlotKind kind = program.slots()[operand.slot].kind;
      if (!found && reads && (kind == SlotKind::kParameter || kind == SlotKind::kConstant)) {
        sources.insert(operand.slot);
        from.insert("v" + std::to_string(operand.slot));
      }
    };
    for (const Operand& operand : step.operands) follow(operand, true);
    follow(step.predicate, true);
    for (const Operand& operand : step.results) follow(operand, false);
    for (const std::string& node : from) out << "  " << node << " -> s" << i << ";\n";
    for (const StepIndex earlier : step.after) out << "  s" << earlier << " -> s" << i << " [style=dashed];\n";
    for (const Operand& operand : step.results) {
      if (operand.kind != Operand::kView) continue;
      const auto bytes = bytes_touched(operand);
      std::vector<Write>& of_slot = writes[operand.slot];
      std::erase_if(of_slot, [&](const Write& write) { return covers(bytes, write.bytes); });
      of_slot.push_back({bytes, i});
    }
  }
  for (const SlotIndex slot : sources)
    out << "  v" << slot << " [label=" << in_quotes(program.slots()[slot].name, kDotStyle) << "];\n";
  out << "}\n";
  return out.str();
}

}  // namespace mydev::program
