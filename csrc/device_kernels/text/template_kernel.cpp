#include "device_kernels/text/template_kernel.h"

#include <limits>
#include <string_view>

#include "device_kernels/text/function_text.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

// The text with the pointers of its function's parameters, as the body's first lines.
std::string with_pointers(std::string text) {
  const size_t begin = text.find("KERNEL("), body = text.find(") {\n", begin) + 4;
  std::string pointers;
  for (size_t at = begin; (at = text.find("_PARAMETER(", at)) < body;) {
    const char* kind = text[at - 1] == 'N' ? "IN" : "OUT";
    at = text.find('(', at);
    pointers += std::string(kind) + "_POINTER" + text.substr(at, text.find(')', at) + 1 - at) + "\n";
  }
  return text.insert(body, pointers);
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

Call TemplateUse::call(const KernelParameters& parameters, const mydev_geometry& geometry) const {
  const auto given = [&] {
    KernelParameters known = parameters;
    for (char& number : known.numbers) {
      if (number == 'c') number = real_part(domain_) == Domain::kF64 ? 'f' : 'i';
    }
    return known;
  };
  const std::string name = function_name();
  return {function_of(request_, name, name, {[&] { return source(); }, given}), geometry};
}

void TemplateUse::give_number(Call& call, double number) const {
  device_kernels::give_number(call, real_part(domain_), number, 0.0, static_cast<int64_t>(number));
}

}  // namespace mydev::device_kernels
