#include "kernels/ffi/ffi_attributes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string_view>

#include "runtime/base/status.h"
#include "runtime/frame/dtype.h"

namespace mydev::ffi {

namespace {

constexpr int kMaxDepth = 8;

template <typename T>
void store(std::byte* out, T value) {
  std::memcpy(out, &value, sizeof(value));
}

bool store_integer(std::byte* out, int64_t value, int32_t dtype) {
  constexpr uint64_t kIntegers = dtypes_of(DtypeKind::kSigned) | dtypes_of(DtypeKind::kUnsigned);
  if (dtype < 0 || dtype >= 64 || (kIntegers & MYDEV_DTYPE_BIT(dtype)) == 0) return false;
  // The frame has no unsigned 64-bit integers: those come as the bits of a signed one.
  if (dtype != MYDEV_U64 && !can_hold(dtype, value)) return false;
  // Little-endian: the low bytes come first.
  std::memcpy(out, &value, static_cast<size_t>(dtype_size(static_cast<mydev_dtype>(dtype))));
  return true;
}

// To a binary floating type of 16 bits, rounding to even: `mantissa` bits, an exponent of `15 - mantissa`.
uint16_t to_16_bits(double value, int mantissa) {
  const int bias = (1 << (14 - mantissa)) - 1;
  const auto sign = static_cast<uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const auto infinity = static_cast<uint16_t>((2 * bias + 1) << mantissa);
  if (std::isnan(value)) return static_cast<uint16_t>(sign | infinity | (1 << (mantissa - 1)));
  const double magnitude = std::fabs(value);
  if (magnitude == 0) return sign;
  const int exponent = std::max(std::isinf(magnitude) ? bias + 1 : std::ilogb(magnitude), 1 - bias);
  if (exponent > bias) return sign | infinity;
  // In units of the last place; a carry into the exponent is right by the encoding.
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, mantissa - exponent)));
  return static_cast<uint16_t>(sign | (units + ((exponent + bias - 1) << mantissa)));
}

bool store_float(std::byte* out, double value, int32_t dtype) {
  switch (dtype) {
    case MYDEV_F64:
      store(out, value);
      return true;
    case MYDEV_F32:
      store(out, static_cast<float>(value));
      return true;
    case MYDEV_F16:
      store(out, to_16_bits(value, 10));
      return true;
    case MYDEV_BF16:
      store(out, to_16_bits(value, 7));
      return true;
    default:
      return false;
  }
}

bool store_complex(std::byte* out, const double* value, int32_t dtype) {
  if (dtype == MYDEV_C128) {
    std::memcpy(out, value, 16);
    return true;
  }
  return dtype == MYDEV_C64 && store_float(out, value[0], MYDEV_F32) && store_float(out + 4, value[1], MYDEV_F32);
}

// Stores a scalar in the width that it is to have; gives that width, INVALID if it does not fit.
int32_t store_scalar(std::byte* out, const mydev_attribute& attribute) {
  const auto or_default = [&](mydev_dtype dtype) { return attribute.dtype != 0 ? int32_t{attribute.dtype} : dtype; };
  int32_t dtype = MYDEV_DTYPE_INVALID;
  bool fits = false;
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
      dtype = or_default(MYDEV_PRED);
      fits = dtype == MYDEV_PRED;
      store(out, static_cast<uint8_t>(attribute.value.i != 0));
      break;
    case MYDEV_ATTRIBUTE_INT:
      dtype = or_default(MYDEV_S64);
      fits = store_integer(out, attribute.value.i, dtype);
      break;
    case MYDEV_ATTRIBUTE_FLOAT:
      dtype = or_default(MYDEV_F64);
      fits = store_float(out, attribute.value.f, dtype);
      break;
    default:
      dtype = or_default(MYDEV_C128);
      fits = store_complex(out, attribute.value.c, dtype);
  }
  return fits ? dtype : int32_t{MYDEV_DTYPE_INVALID};
}

size_t array_bytes(const mydev_attribute& attribute) noexcept {
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_STRING:
      return attribute.count;
    case MYDEV_ATTRIBUTE_INT_ARRAY:
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
      return size_t{attribute.count} * 8;
    case MYDEV_ATTRIBUTE_ARRAY:
      return size_t{attribute.count} * static_cast<size_t>(dtype_size(static_cast<mydev_dtype>(attribute.dtype)));
    default:
      return 0;
  }
}

// NaN is itself, and the zeros differ.
bool same_bits(double a, double b) noexcept {
  return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
}

bool same_value(const mydev_attribute& a, const mydev_attribute& b) noexcept {
  switch (a.kind) {
    case MYDEV_ATTRIBUTE_BOOL:
    case MYDEV_ATTRIBUTE_INT:
      return a.value.i == b.value.i;
    case MYDEV_ATTRIBUTE_FLOAT:
      return same_bits(a.value.f, b.value.f);
    case MYDEV_ATTRIBUTE_COMPLEX:
      return same_bits(a.value.c[0], b.value.c[0]) && same_bits(a.value.c[1], b.value.c[1]);
    case MYDEV_ATTRIBUTE_DICTIONARY:
      if (a.count == 0) return true;
      return b.value.attributes != nullptr &&
             same_attributes({a.value.attributes, a.count}, {b.value.attributes, b.count});
    default: {
      const size_t bytes = array_bytes(a);
      return bytes == 0 || (b.value.data != nullptr && std::memcmp(a.value.data, b.value.data, bytes) == 0);
    }
  }
}

// Before they are copied: no deeper than is allowed, and nothing that is not there.
void check_attributes(std::span<const mydev_attribute> attributes, int depth) {
  MYDEV_CHECK(depth <= kMaxDepth, MYDEV_INVALID_ARGUMENT, "attributes are nested more than ", kMaxDepth, " deep");
  for (const mydev_attribute& attribute : attributes) {
    MYDEV_CHECK(attribute.name != nullptr, MYDEV_INVALID_ARGUMENT, "an attribute has no name");
    MYDEV_CHECK(attribute.kind <= MYDEV_ATTRIBUTE_DICTIONARY, MYDEV_INVALID_ARGUMENT, "attribute '", attribute.name,
                "' is of unknown kind ", attribute.kind);
    const bool has_data = attribute.kind >= MYDEV_ATTRIBUTE_STRING && attribute.count != 0;
    MYDEV_CHECK(!has_data || attribute.value.data != nullptr, MYDEV_INVALID_ARGUMENT, "attribute '", attribute.name,
                "' has ", attribute.count, " entries at NULL");
    MYDEV_CHECK(attribute.kind != MYDEV_ATTRIBUTE_ARRAY || dtype_size(static_cast<mydev_dtype>(attribute.dtype)) != 0,
                MYDEV_INVALID_ARGUMENT, "attribute '", attribute.name, "' is an array of unknown dtype ",
                attribute.dtype);
    if (attribute.kind == MYDEV_ATTRIBUTE_DICTIONARY) {
      check_attributes({attribute.value.attributes, attribute.count}, depth + 1);
    }
  }
}

OwnedFrame copy_attributes(std::span<const mydev_attribute> attributes) {
  check_attributes(attributes, 0);
  return clone_frame(make_frame({}, 0, attributes));
}

}  // namespace

const void* AttributeTable::fill(Entry& entry, const mydev_attribute& attribute, int32_t& type, int depth) {
  entry.name = {attribute.name, std::strlen(attribute.name)};
  switch (attribute.kind) {
    case MYDEV_ATTRIBUTE_STRING:
      type = kString;
      entry.string = {attribute.value.bytes, attribute.count};
      return &entry.string;
    case MYDEV_ATTRIBUTE_INT_ARRAY:
    case MYDEV_ATTRIBUTE_FLOAT_ARRAY:
    case MYDEV_ATTRIBUTE_ARRAY: {
      type = kArray;
      const bool typed = attribute.kind == MYDEV_ATTRIBUTE_ARRAY;
      const int32_t dtype = attribute.kind == MYDEV_ATTRIBUTE_INT_ARRAY ? MYDEV_S64 : MYDEV_F64;
      entry.array = {typed ? attribute.dtype : dtype, attribute.count, attribute.value.data};
      return &entry.array;
    }
    case MYDEV_ATTRIBUTE_DICTIONARY:
      type = kDictionary;
      entry.dictionary = std::make_unique<AttributeTable>(
          std::span<const mydev_attribute>(attribute.value.attributes, attribute.count), depth + 1);
      return &entry.dictionary->table();
    default:
      type = kScalar;
      entry.scalar = {store_scalar(entry.value, attribute), entry.value};
      MYDEV_CHECK(entry.scalar.dtype != MYDEV_DTYPE_INVALID, MYDEV_INVALID_ARGUMENT, "attribute '", attribute.name,
                  "' cannot be given as ", dtype_name(static_cast<mydev_dtype>(attribute.dtype)),
                  attribute.kind == MYDEV_ATTRIBUTE_INT ? ": its value is " + std::to_string(attribute.value.i)
                                                        : std::string());
      return &entry.scalar;
  }
}

AttributeTable::AttributeTable(std::span<const mydev_attribute> attributes, int depth) : entries_(attributes.size()) {
  std::vector<const mydev_attribute*> sorted;
  for (const mydev_attribute& attribute : attributes) sorted.push_back(&attribute);
  std::sort(sorted.begin(), sorted.end(),
            [](const mydev_attribute* a, const mydev_attribute* b) { return std::string_view(a->name) < b->name; });
  for (size_t i = 0; i < sorted.size(); ++i) {
    MYDEV_CHECK(i == 0 || std::string_view(sorted[i]->name) != sorted[i - 1]->name, MYDEV_INVALID_ARGUMENT,
                "there are two attributes '", sorted[i]->name, "'");
    int32_t type = 0;
    values_.push_back(fill(entries_[i], *sorted[i], type, depth));
    types_.push_back(type);
    names_.push_back(&entries_[i].name);
  }
  table_ = {sizeof(Attributes), nullptr,       static_cast<int64_t>(entries_.size()),
            types_.data(),      names_.data(), values_.data()};
}

bool same_attributes(std::span<const mydev_attribute> valid, std::span<const mydev_attribute> given) noexcept {
  return std::equal(valid.begin(), valid.end(), given.begin(), given.end(),
                    [](const mydev_attribute& x, const mydev_attribute& y) {
                      return x.kind == y.kind && x.dtype == y.dtype && x.count == y.count && same_value(x, y) &&
                             (x.name == y.name || (y.name != nullptr && std::strcmp(x.name, y.name) == 0));
                    });
}

Instance::Instance(std::span<const mydev_attribute> given)
    : copy(copy_attributes(given)), attributes({copy->attributes, copy->num_attributes}) {}

std::shared_ptr<Instance> InstanceCache::find_or_make(std::span<const mydev_attribute> attributes) {
  const auto is_it = [&](const std::shared_ptr<Instance>& instance) {
    return same_attributes({instance->copy->attributes, instance->copy->num_attributes}, attributes);
  };
  std::shared_ptr<Instance> gone;  // after the lock: its state's deleter is the handler's
  const std::lock_guard lock(mutex_);
  const auto position = std::find_if(instances_.begin(), instances_.end(), is_it);
  if (position != instances_.end()) {
    std::rotate(instances_.begin(), position, position + 1);
    return instances_.front();
  }
  const RaiserBypass bypass;
  auto instance = std::make_shared<Instance>(attributes);
  if (instances_.size() == kCapacity) {
    gone = std::move(instances_.back());
    instances_.pop_back();
  }
  instances_.insert(instances_.begin(), instance);
  return instance;
}

size_t InstanceCache::size() {
  const std::lock_guard lock(mutex_);
  return instances_.size();
}

}  // namespace mydev::ffi
