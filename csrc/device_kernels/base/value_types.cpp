#include "device_kernels/base/value_types.h"

#include <array>
#include <cmath>
#include <cstdio>
#include <limits>

#include "device_kernels/base/portable_kernel.h"
#include "runtime/frame/frame.h"

namespace mydev::device_kernels {

namespace {

struct Row {
  mydev_dtype dtype;
  const char* memory;
  Domain domain;
};

constexpr std::array kRows = {
    Row{MYDEV_PRED, "u8", Domain::kI64},       Row{MYDEV_S8, "i8", Domain::kI64},
    Row{MYDEV_S16, "i16", Domain::kI64},       Row{MYDEV_S32, "i32", Domain::kI64},
    Row{MYDEV_S64, "i64", Domain::kI64},       Row{MYDEV_U8, "u8", Domain::kI64},
    Row{MYDEV_U16, "u16", Domain::kI64},       Row{MYDEV_U32, "u32", Domain::kI64},
    Row{MYDEV_U64, "u64", Domain::kI64},       Row{MYDEV_F16, "f16", Domain::kF32},
    Row{MYDEV_BF16, "bf16", Domain::kF32},     Row{MYDEV_F32, "f32", Domain::kF32},
    Row{MYDEV_F64, "f64", Domain::kF64},       Row{MYDEV_F8E4M3FN, "f8e4m3fn", Domain::kF32},
    Row{MYDEV_F8E5M2, "f8e5m2", Domain::kF32}, Row{MYDEV_C64, "c64", Domain::kC64},
    Row{MYDEV_C128, "c128", Domain::kC128},
};
constexpr std::array<const char*, 5> kTypes = {"f32", "f64", "i64", "c64", "c128"};

const Row& row_of(mydev_dtype dtype) {
  for (const Row& row : kRows) {
    if (row.dtype == dtype) return row;
  }
  require(false, "compute in no ", dtype_name(dtype));
  return kRows[0];
}

bool is_narrow(mydev_dtype dtype) {
  return dtype == MYDEV_F16 || dtype == MYDEV_BF16 || dtype == MYDEV_F8E4M3FN || dtype == MYDEV_F8E5M2;
}

}  // namespace

const char* memory_type(mydev_dtype dtype) {
  return row_of(dtype).memory;
}

Domain domain_of(mydev_dtype dtype) {
  return row_of(dtype).domain;
}

const char* domain_type(Domain domain) noexcept {
  return kTypes[static_cast<size_t>(domain)];
}

bool is_complex(Domain domain) noexcept {
  return domain == Domain::kC64 || domain == Domain::kC128;
}

Domain real_part(Domain domain) noexcept {
  return domain == Domain::kC64 ? Domain::kF32 : domain == Domain::kC128 ? Domain::kF64 : domain;
}

bool is_real(Domain domain) noexcept {
  return domain == Domain::kF32 || domain == Domain::kF64;
}

std::string loaded(const std::string& element, mydev_dtype dtype, Domain domain) {
  std::string value = element;
  if (is_narrow(dtype)) value = std::string(memory_type(dtype)) + "_to_f32(" + element + ")";
  if (dtype == MYDEV_PRED) value = "(" + element + " != 0)";
  const Domain own = domain_of(dtype);
  if (own == domain && dtype != MYDEV_PRED && (domain != Domain::kI64 || dtype == MYDEV_S64)) return value;
  if (!is_complex(domain)) return "((" + std::string(domain_type(domain)) + ")" + value + ")";
  const std::string part = domain == Domain::kC64 ? "f32" : "f64";
  if (!is_complex(own)) return std::string("make_") + domain_type(domain) + "((" + part + ")" + value + ", 0)";
  return std::string("make_") + domain_type(domain) + "((" + part + ")" + value + ".re, (" + part + ")" + value +
         ".im)";
}

std::string stored(const std::string& value, mydev_dtype dtype, Domain domain) {
  if (dtype == MYDEV_PRED) {
    return is_complex(domain) ? std::string("(u8)truth_") + domain_type(domain) + "(" + value + ")"
                              : "(u8)(" + value + " != 0)";
  }
  const std::string type = memory_type(dtype);
  if (is_complex(domain)) return value;  // of the same dtype
  if (is_narrow(dtype)) return "f32_to_" + type + "((f32)" + value + ")";
  // A number beyond the range of a narrow integer is that of a wider one, cut off.
  if (is_real(domain) && (dtype == MYDEV_S8 || dtype == MYDEV_S16)) return "(" + type + ")(i32)" + value;
  if (is_real(domain) && (dtype == MYDEV_U8 || dtype == MYDEV_U16 || dtype == MYDEV_U32)) {
    return "(" + type + ")(i64)" + value;
  }
  if (is_real(domain) && dtype == MYDEV_U64)
    return std::string("wrapped_u64_") + domain_type(domain) + "(" + value + ")";
  return "(" + type + ")" + value;
}

std::string literal(int64_t number) {
  // The sign is no part of a literal, and the least number has no positive one.
  if (number == std::numeric_limits<int64_t>::min()) return "(-9223372036854775807L - 1)";
  return number < 0 ? "(" + std::to_string(number) + "L)" : std::to_string(number) + "L";
}

std::string literal(double number, Domain domain) {
  if (domain == Domain::kI64) return literal(static_cast<int64_t>(number));
  if (is_complex(domain)) {
    const Domain part = real_part(domain);
    return std::string("make_") + domain_type(domain) + "(" + literal(number, part) + ", 0)";
  }
  const std::string type = domain_type(domain);
  if (std::isnan(number)) return "NAN_" + type;
  if (std::isinf(number)) return (number < 0 ? "(-INFINITY_" : "(INFINITY_") + type + ")";
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%.17g", number);
  std::string digits = text.data();
  if (digits.find_first_of(".e") == std::string::npos) digits += ".0";
  return "(" + digits + (domain == Domain::kF32 ? "f)" : ")");
}

}  // namespace mydev::device_kernels
