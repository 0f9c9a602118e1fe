#include "device_kernels/template_kernel.h"

#include <limits>
#include <string_view>

#include "device_kernels/function_text.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

const char* kind_of(mydev_dtype dtype) {
  const Domain domain = domain_of(dtype);
  if (dtype == MYDEV_PRED) return "truths";
  if (dtype == MYDEV_F8E4M3FN || dtype == MYDEV_F8E5M2) return "small";
  return is_complex(domain) ? "complex" : is_real(domain) ? "reals" : "integers";
}

}  // namespace

void TemplateUse::check(Domain domain) const {
  const bool wide = domain == Domain::kF64 || domain == Domain::kC128;
  require(request_.language.f64 || !wide, "compute in no f64 on this device");
}

TemplateUse& TemplateUse::type(char letter, mydev_dtype dtype) {
  check(domain_of(dtype));
  if (own_.types.empty() && !has_domain_) own_.domain = domain_of(dtype);
  own_.types.emplace_back(letter, dtype);
  return *this;
}

TemplateUse& TemplateUse::compute_in(Domain domain) {
  check(domain);
  own_.domain = domain;
  has_domain_ = true;
  return *this;
}

TemplateUse& TemplateUse::choose(const char* word, int64_t value) {
  choices_[word] = value;
  return *this;
}

std::string TemplateUse::function_name(const Variant& variant) const {
  std::string name = name_;
  for (const auto& [letter, dtype] : variant.types) name += std::string("_") + dtype_name(dtype);
  for (const auto& [word, value] : choices_) name += "_" + std::to_string(value);
  return name;
}

bool TemplateUse::has_variants() const {
  return request_.language.loops && !own_.types.empty() && !is_alone_;
}

std::string TemplateUse::module_key() const {
  if (!has_variants()) return function_name(own_);
  const mydev_dtype first = own_.types.front().second;
  std::string key = name_ + "_" + kind_of(first);
  for (const auto& [letter, dtype] : own_.types) key += dtype == first ? "_*" : std::string("_") + dtype_name(dtype);
  for (const auto& [word, value] : choices_) key += "_" + std::to_string(value);
  return key;
}

std::string TemplateUse::source(const Variant& variant) const {
  const Domain domain = variant.domain;
  const std::string type = domain_type(domain);
  std::string defined, undefined;
  const auto define = [&](const std::string& word, const std::string& parameters, const std::string& value) {
    defined.append("#define ").append(word).append(parameters).append(" ").append(value).append("\n");
    undefined.append("#undef ").append(word).append("\n");
  };
  define("FUNCTION", "", function_name(variant));
  define("C", "", type);
  define("C_", "(name)", "name##_" + type);
  define("NUMBER", "(name)", domain == Domain::kF64 ? "f64 name" : "i64 name");
  define("VALUE", "(name)", domain == Domain::kF32 ? "f32_of_bits((u32)name)" : "((" + type + ")name)");
  if (!is_complex(domain)) {
    const double infinity = std::numeric_limits<double>::infinity();
    define("FIRST_max", "", domain == Domain::kI64 ? "(-9223372036854775807L - 1)" : literal(-infinity, domain));
  }
  for (const auto& [letter, dtype] : variant.types) {
    define(std::string(1, letter), "", memory_type(dtype));
    define(std::string("LOAD_") + letter, "(x)", loaded("(x)", dtype, domain));
    define(std::string("STORE_") + letter, "(x)", stored("(x)", dtype, domain));
  }
  for (const auto& [word, value] : choices_) define(word, "", std::to_string(value));
  return defined + text_ + undefined;
}

std::vector<TemplateUse::Variant> TemplateUse::variants() const {
  if (!has_variants()) return {own_};
  const mydev_dtype first = own_.types.front().second;
  std::vector<Variant> all;
  for (const mydev_dtype dtype : computed_dtypes()) {
    if (std::string_view(kind_of(dtype)) != kind_of(first)) continue;
    Variant variant = own_;
    for (auto& [letter, of_letter] : variant.types) {
      if (of_letter == first) of_letter = dtype;
    }
    if (!has_domain_) variant.domain = domain_of(dtype);
    all.push_back(std::move(variant));
  }
  return all;
}

Call TemplateUse::call(const KernelParameters& parameters, const mydev_geometry& geometry) const {
  const auto source_of_all = [&] {
    std::string text;
    for (const Variant& variant : variants()) text += source(variant);
    return text;
  };
  const auto given = [&] {
    KernelParameters known = parameters;
    for (char& number : known.numbers) {
      if (number == 'c') number = own_.domain == Domain::kF64 ? 'f' : 'i';
    }
    return known;
  };
  return {function_of(request_, module_key(), function_name(own_), {source_of_all, given}), geometry};
}

void TemplateUse::give_number(Call& call, double number) const {
  device_kernels::give_number(call, own_.domain, number, 0, static_cast<int64_t>(number));
}

}  // namespace mydev::device_kernels
