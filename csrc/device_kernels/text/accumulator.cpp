#include "device_kernels/text/accumulator.h"

#include <limits>
#include <utility>

#include "device_kernels/base/portable_kernel.h"

namespace mydev::device_kernels {

namespace {

constexpr const char* kGreatest = "9223372036854775807L";
constexpr const char* kLeast = "(-9223372036854775807L - 1)";

}  // namespace

Accumulator::Accumulator(std::string function, std::string name, Domain domain, bool has_f64)
    : function_(std::move(function)), name_(std::move(name)), domain_(domain) {
  require(!is_complex(domain) || is_truth(), "reduce no complex numbers by ", function_);
  if (has_f64 && domain == Domain::kF32 && operation() == "sum") domain_ = Domain::kF64;
}

std::string Accumulator::first() const {
  const bool largest = function_ == "amax" || function_ == "argmax";
  if (largest || function_ == "amin" || function_ == "argmin") {
    if (domain_ == Domain::kI64) return largest ? kLeast : kGreatest;
    const double infinity = std::numeric_limits<double>::infinity();
    return literal(largest ? -infinity : infinity, domain_);
  }
  return function_ == "prod" ? "1" : "0";
}

std::string Accumulator::operation() const {
  if (is_truth()) return "or";
  if (function_ == "amax" || function_ == "amin") return function_.substr(1);
  return function_ == "mean" ? "sum" : function_;
}

std::string Accumulator::declarations(const std::string& lanes) const {
  const std::string array = "ACCUMULATOR(" + type() + ", " + name_ + ", " + first() + ", " + lanes + ");\n";
  return is_place() ? array + "ACCUMULATOR(i64, " + name_ + "_at, " + kGreatest + ", " + lanes + ");\n" : array;
}

std::vector<std::pair<std::string, std::string>> Accumulator::fields() const {
  std::vector<std::pair<std::string, std::string>> all = {{name_, type()}};
  if (is_place()) all.emplace_back(name_ + "_at", "i64");
  return all;
}

std::string Accumulator::keep(const std::string& lane, const std::string& at) const {
  std::string text;
  for (const auto& [name, type] : fields())
    text.append("m_").append(name).append("[").append(at).append("] = ").append(name).append("[" + lane + "];\n");
  return text;
}

std::string Accumulator::add_kept(const std::string& at) const {
  return added("m_" + name_ + "[" + at + "]", "m_" + name_ + "_at[" + at + "]");
}

std::string Accumulator::update(const ExpressionText& text, const Printed& element, const std::string& place) const {
  if (is_truth()) return added("(i32)(" + std::string(function_ == "all" ? "!" : "") + text.truth(element) + ")", "");
  return added(text.value(element), place);
}

std::string Accumulator::added(const std::string& value, const std::string& place) const {
  const std::string lane = name_ + "[lane]";
  if (is_truth()) return lane + " |= " + value + ";\n";
  if (is_place())
    return function_ + "_" + type() + "(&" + lane + ", &" + name_ + "_at[lane], " + value + ", " + place + ");\n";
  return lane + " = " + operation() + "_" + type() + "(" + lane + ", " + value + ");\n";
}

std::string Accumulator::combination() const {
  return "GROUP(group_" + operation() + "_" + type() + ", " + name_ + (is_place() ? ", " + name_ + "_at" : "") + ");\n";
}

Printed Accumulator::value(const std::string& lane, const std::string& count) const {
  const std::string element = name_ + "[" + lane + "]";
  if (is_place()) return {name_ + "_at[" + lane + "]", false, {}};
  if (is_truth()) return {"(" + element + (function_ == "any" ? " != 0)" : " == 0)"), true, {}};
  if (function_ == "mean") return {"(" + element + " / (" + type() + ")" + count + ")", false, {}};
  return {element, false, {}};
}

}  // namespace mydev::device_kernels
