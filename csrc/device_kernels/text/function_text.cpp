#include "device_kernels/text/function_text.h"

#include <bit>

#include "device_kernels/base/portable_kernel.h"

namespace mydev::device_kernels {

void FunctionText::add_number(const std::string& name, Domain domain) {
  if (is_complex(domain)) {
    const Domain part = real_part(domain);
    add_number(name + "_re", part);
    add_number(name + "_im", part);
    constants_ += std::string("const ") + domain_type(domain) + " " + name + " = make_" + domain_type(domain) + "(" +
                  name + "_re, " + name + "_im);\n";
    return;
  }
  if (domain == Domain::kF64) {
    numbers_ += 'f';
    declarations_.push_back("f64 " + name);
  } else if (domain == Domain::kI64) {
    add_integer(name);
  } else {
    add_integer(name + "_bits");
    constants_ += "const f32 " + name + " = f32_of_bits((u32)" + name + "_bits);\n";
  }
}

KernelParameters FunctionText::parameters() const {
  return {static_cast<uint32_t>(results_.size()), 0, static_cast<uint32_t>(operands_.size()), numbers_};
}

std::string FunctionText::text(const std::string& name, const std::string& body) const {
  std::string parameters, pointers;
  const auto declare = [&](const std::vector<Pointer>& all, const std::string& kind) {
    for (const auto& [type, buffer] : all) {
      parameters += (parameters.empty() ? "" : ", ") + kind;
      parameters.append("_PARAMETER(").append(type).append(", ").append(buffer).append(")");
      pointers.append(kind).append("_POINTER(").append(type).append(", ").append(buffer).append(")\n");
    }
  };
  declare(results_, "OUT");
  declare(operands_, "IN");
  for (const std::string& number : declarations_) parameters += ", " + number;
  const bool checks = body.find("CHECK_") != std::string::npos;
  const std::string checked = checks ? "CHECKS_OPEN;\n" + body + "CHECKS_CLOSE;\n" : body;
  return "KERNEL(" + name + ", " + parameters + ") {\n" + pointers + constants_ + checked + "}\n";
}

void give_number(Call& call, Domain domain, double real, double imaginary, int64_t integer) {
  switch (domain) {
    case Domain::kI64:
      call.give(integer);
      break;
    case Domain::kF32:
      call.give(int64_t{std::bit_cast<uint32_t>(static_cast<float>(real))});
      break;
    case Domain::kF64:
      call.give_f64(real);
      break;
    default: {
      const Domain part = real_part(domain);
      give_number(call, part, real, 0, 0);
      give_number(call, part, imaginary, 0, 0);
    }
  }
}

}  // namespace mydev::device_kernels
