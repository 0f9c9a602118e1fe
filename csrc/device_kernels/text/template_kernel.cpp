#include "device_kernels/text/template_kernel.h"

#include <algorithm>
#include <limits>
#include <string_view>

#include "device_kernels/text/function_text.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

constexpr std::string_view kHeader = "KERNEL(FUNCTION, ", kBody = ") {\n", kMemory = "_PARAMETER";

// The parameters of a template's function: "OUT_PARAMETER(T, out)", "IN_PARAMETER(T, in)", "i64 n",
// "NUMBER(eps_given)".
std::vector<std::string_view> parameters_of(std::string_view text) {
  text.remove_prefix(text.find(kHeader) + kHeader.size());
  text = text.substr(0, text.find(kBody));
  std::vector<std::string_view> found;
  while (!text.empty()) {
    const size_t end = text.starts_with("i64") ? text.find(',') : text.find(')') + 1;
    found.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.find_first_not_of(", \n", end), text.size()));
  }
  return found;
}

bool is_memory(std::string_view parameter) {
  return parameter.find(kMemory) != std::string_view::npos;
}

// The text with the pointers of its function's parameters, as the body's first lines.
std::string with_pointers(std::string text) {
  std::string pointers;
  for (const std::string_view parameter : parameters_of(text)) {
    if (!is_memory(parameter)) continue;
    pointers.append(parameter).replace(pointers.rfind(kMemory), kMemory.size(), "_POINTER").append("\n");
  }
  return text.insert(text.find(kBody, text.find(kHeader)) + kBody.size(), pointers);
}

}  // namespace

void TemplateUse::check(Domain domain) const {
  const bool wide = domain == Domain::kF64 || domain == Domain::kC128;
  require(request_.language.f64 || !wide, "compute in no f64 on this device");
}

TemplateUse& TemplateUse::type(char letter, mydev_dtype dtype) {
  check(domain_of(dtype));
  if (types_.empty() && !has_domain_) domain_ = domain_of(dtype);
  types_.emplace_back(letter, dtype);
  return *this;
}

TemplateUse& TemplateUse::compute_in(Domain domain) {
  check(domain);
  domain_ = domain;
  has_domain_ = true;
  return *this;
}

TemplateUse& TemplateUse::place(const char* parameter, Call::Memory memory) {
  placed_[parameter] = memory;
  return *this;
}

TemplateUse& TemplateUse::choose(const char* word, int64_t value) {
  choices_[word] = value;
  return *this;
}

std::string TemplateUse::function_name() const {
  std::string name = name_;
  for (const auto& [letter, dtype] : types_) name += std::string("_") + dtype_name(dtype);
  for (const auto& [word, value] : choices_) name += "_" + std::to_string(value);
  return name;
}

std::string TemplateUse::source() const {
  const std::string type = domain_type(domain_);
  std::string defined;
  const auto define = [&](const std::string& word, const std::string& value) {
    defined.append("#define ").append(word).append(" ").append(value).append("\n");
  };
  define("FUNCTION", function_name());
  define("C", type);
  define("C_(name)", "name##_" + type);
  const Domain real = real_part(domain_);
  const std::string value = real == Domain::kF32 ? "f32_of_bits((u32)name)" : "((" + type + ")name)";
  define("NUMBER(name)", real == Domain::kF64 ? "f64 name" : "i64 name");
  define("VALUE(name)",
         domain_ == real ? value : "make_" + type + "(" + (real == Domain::kF64 ? "name" : value) + ", 0)");
  if (!is_complex(domain_)) {
    const double infinity = std::numeric_limits<double>::infinity();
    define("FIRST_max", domain_ == Domain::kI64 ? "(-9223372036854775807L - 1)" : literal(-infinity, domain_));
  }
  for (const auto& [letter, dtype] : types_) {
    define(std::string(1, letter), memory_type(dtype));
    define(std::string("LOAD_") + letter + "(x)", loaded("(x)", dtype, domain_));
    define(std::string("STORE_") + letter + "(x)", stored("(x)", dtype, domain_));
  }
  for (const auto& [word, value] : choices_) define(word, std::to_string(value));
  return defined + with_pointers(text_);
}

Call TemplateUse::call(const mydev_geometry& geometry) const {
  const auto declared = [&] {
    KernelParameters known;
    for (const std::string_view parameter : parameters_of(text_)) {
      if (is_memory(parameter)) {
        ++(parameter.starts_with("OUT") ? known.results : known.operands);
      } else {
        known.numbers += parameter.starts_with("NUMBER") && real_part(domain_) == Domain::kF64 ? 'f' : 'i';
      }
    }
    return known;
  };
  const std::string name = function_name();
  return {function_of(request_, name, name, {[&] { return source(); }, declared}), geometry};
}

Call TemplateUse::call(const BoundFrame& frame, const mydev_geometry& geometry) const {
  std::vector<Call::Memory> memory;
  size_t absent = 0;  // of the first parameters
  for (const std::string_view parameter : parameters_of(text_)) {
    if (!is_memory(parameter)) continue;
    const size_t begin = parameter.rfind(' ') + 1;
    const std::string_view name = parameter.substr(begin, parameter.size() - 1 - begin);
    if (const auto placed = placed_.find(name); placed != placed_.end()) {
      memory.push_back(placed->second);
    } else if (const BoundOperand* operand = frame.find(name); is_there(operand)) {
      memory.push_back({operand->buffer});
    } else if (memory.empty()) {
      ++absent;
    } else {
      memory.push_back(memory.back());
    }
  }
  Call call = this->call(geometry);
  for (size_t i = 0; i < absent; ++i) call.give(memory.front());
  for (const Call::Memory& each : memory) call.give(each);
  return call;
}

void TemplateUse::give_number(Call& call, double number) const {
  device_kernels::give_number(call, real_part(domain_), number, 0.0, static_cast<int64_t>(number));
}

}  // namespace mydev::device_kernels
