#include "aten/custom_call/custom_attributes.h"

#include <cstring>

#include "kernels/spec/signature.h"
#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"
#include "runtime/frame/frame.h"

namespace mydev {

namespace {

// One entry of a list of booleans, integers or floating-point numbers.
void store_entry(const mydev_kernel& kernel, const mydev_attribute& attribute, const c10::IValue& value, void* entry) {
  if (attribute.dtype == MYDEV_F32) {
    const auto number = static_cast<float>(value.toDouble());
    std::memcpy(entry, &number, sizeof(number));
  } else if (attribute.dtype == MYDEV_F64) {
    const double number = value.toDouble();
    std::memcpy(entry, &number, sizeof(number));
  } else {
    const int64_t number = value.isBool() ? static_cast<int64_t>(value.toBool()) : value.toInt();
    check_width(kernel, attribute, number);
    // Little-endian: the low bytes come first.
    std::memcpy(entry, &number, static_cast<size_t>(dtype_size(static_cast<mydev_dtype>(attribute.dtype))));
  }
}

}  // namespace

void check_width(const mydev_kernel& kernel, const mydev_attribute& attribute, int64_t value) {
  MYDEV_CHECK(can_hold(attribute.dtype, value), MYDEV_INVALID_ARGUMENT, kernel.name, ": attribute '", attribute.name,
              "' is ", value, ", which ", dtype_name(static_cast<mydev_dtype>(attribute.dtype)),
              " cannot hold: ", describe_signature(kernel));
}

const char* CustomAttributes::keep(std::string_view text) {
  auto* copy = static_cast<char*>(allocate(text.size() + 1));
  std::memcpy(copy, text.data(), text.size());
  copy[text.size()] = '\0';
  return copy;
}

void CustomAttributes::add(const mydev_kernel& kernel, const mydev_attribute_spec& spec, const c10::IValue& value) {
  mydev_attribute attribute = spec.value;
  if (value.isNone()) {
    values_.push_back(attribute);
    return;
  }
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      attribute.value.i = value.toBool() ? 1 : 0;
      break;
    case MYDEV_ATTRIBUTE_INT:
      attribute.value.i = value.toInt();
      check_width(kernel, attribute, attribute.value.i);
      break;
    case MYDEV_ATTRIBUTE_FLOAT:
      attribute.value.f = value.toDouble();
      break;
    case MYDEV_ATTRIBUTE_COMPLEX: {
      const c10::complex<double> number = value.toComplexDouble();
      attribute.value.c[0] = number.real();
      attribute.value.c[1] = number.imag();
      break;
    }
    case MYDEV_ATTRIBUTE_STRING: {
      const std::string& text = value.toStringRef();
      attribute.value.bytes = text.data();
      attribute.count = static_cast<uint32_t>(text.size());
      break;
    }
    case MYDEV_ATTRIBUTE_INT_ARRAY: {
      const auto list = value.toIntList();
      auto* entries = static_cast<int64_t*>(allocate(list.size() * sizeof(int64_t)));
      for (size_t i = 0; i < list.size(); ++i) entries[i] = list[i];
      attribute.value.ints = entries;
      attribute.count = static_cast<uint32_t>(list.size());
      break;
    }
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY: {
      const auto list = value.toDoubleList();
      auto* entries = static_cast<double*>(allocate(list.size() * sizeof(double)));
      for (size_t i = 0; i < list.size(); ++i) entries[i] = list[i];
      attribute.value.floats = entries;
      attribute.count = static_cast<uint32_t>(list.size());
      break;
    }
    case MYDEV_ATTRIBUTE_ARRAY: {
      const auto list = value.toListRef();
      const auto size = static_cast<size_t>(dtype_size(static_cast<mydev_dtype>(attribute.dtype)));
      auto* entries = static_cast<char*>(allocate(list.size() * size));
      for (size_t i = 0; i < list.size(); ++i) store_entry(kernel, attribute, list[i], entries + i * size);
      attribute.value.data = entries;
      attribute.count = static_cast<uint32_t>(list.size());
      break;
    }
    default:
      MYDEV_CHECK(false, MYDEV_UNIMPLEMENTED, kernel.name, ": attribute '", attribute.name,
                  "' is of a kind that an operator cannot be given; call the kernel with ffi_call");
  }
  values_.push_back(attribute);
}

}  // namespace mydev
