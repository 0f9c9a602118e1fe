// Reading and writing strided elements of any type, a chunk at a time, in a few compute types.
//
// A kernel that works on chunks of one compute type (float, double, int64_t) serves every element type without being
// instantiated for each. Elements that already are dense and of that type are used where they lie. All others pass
// through a buffer of kChunk elements on the caller's stack.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "host_kernels/isa/simd/element_conversion.h"
#include "host_kernels/isa/simd/simd.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {
namespace {

inline constexpr int64_t kChunk = 1024;

struct BFloat16Bits {
  uint16_t bits;
  operator float() const { return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16); }
  BFloat16Bits() = default;
  explicit BFloat16Bits(float value) {
    const uint32_t word = std::bit_cast<uint32_t>(value);
    const uint32_t rounded = (word + 0x7FFF + ((word >> 16) & 1)) >> 16;  // to nearest, ties to even
    bits = static_cast<uint16_t>(value != value ? 0x7FC0 : rounded);
  }
};

template <typename T>
inline constexpr mydev_dtype kDtypeOf = MYDEV_DTYPE_INVALID;
template <>
inline constexpr mydev_dtype kDtypeOf<float> = MYDEV_F32;
template <>
inline constexpr mydev_dtype kDtypeOf<double> = MYDEV_F64;
template <>
inline constexpr mydev_dtype kDtypeOf<int32_t> = MYDEV_S32;
template <>
inline constexpr mydev_dtype kDtypeOf<int64_t> = MYDEV_S64;
template <>
inline constexpr mydev_dtype kDtypeOf<uint8_t> = MYDEV_U8;

// PRED elements: any byte but 0 is true. Its values as a compute type are 0 and 1. There is no kDtypeOf: a byte in
// memory may be neither, so elements are never used where they lie.
enum class Truth : uint8_t {};

template <typename To, typename From>
To element_cast(From value) {
  if constexpr (std::is_same_v<To, Truth>) {
    if constexpr (std::is_same_v<From, BFloat16Bits> || std::is_same_v<From, _Float16>) {
      return static_cast<Truth>(static_cast<float>(value) != 0.0f);
    } else {
      return static_cast<Truth>(value != From{});
    }
  } else if constexpr (std::is_same_v<From, Truth>) {
    return element_cast<To>(static_cast<uint8_t>(value != Truth{}));
  } else if constexpr (std::is_same_v<From, BFloat16Bits>) {
    return static_cast<To>(static_cast<float>(value));
  } else if constexpr (std::is_same_v<To, BFloat16Bits>) {
    return BFloat16Bits(static_cast<float>(value));
  } else {
    return static_cast<To>(value);
  }
}

// Calls body.template operator()<T>() for the element type; false if it is none that kernels compute with.
template <typename Body>
bool visit_element_type(int32_t dtype, const Body& body) {
  switch (dtype) {
    case MYDEV_PRED:
      body.template operator()<Truth>();
      return true;
    case MYDEV_U8:
      body.template operator()<uint8_t>();
      return true;
    case MYDEV_S8:
      body.template operator()<int8_t>();
      return true;
    case MYDEV_S16:
      body.template operator()<int16_t>();
      return true;
    case MYDEV_S32:
      body.template operator()<int32_t>();
      return true;
    case MYDEV_S64:
      body.template operator()<int64_t>();
      return true;
    case MYDEV_F16:
      body.template operator()<_Float16>();
      return true;
    case MYDEV_BF16:
      body.template operator()<BFloat16Bits>();
      return true;
    case MYDEV_F32:
      body.template operator()<float>();
      return true;
    case MYDEV_F64:
      body.template operator()<double>();
      return true;
    default:
      return false;
  }
}

// Calls body.template operator()<T, C>() for the floating element type and the type that it is computed in;
// MYDEV_UNIMPLEMENTED for other types.
template <typename Body>
mydev_code visit_floating_type(int32_t dtype, const Body& body) {
  switch (dtype) {
    case MYDEV_F16:
      return body.template operator()<_Float16, float>();
    case MYDEV_BF16:
      return body.template operator()<BFloat16Bits, float>();
    case MYDEV_F32:
      return body.template operator()<float, float>();
    case MYDEV_F64:
      return body.template operator()<double, double>();
    default:
      return MYDEV_UNIMPLEMENTED;
  }
}

// Dense elements of f16 as f32, and back, rounded to nearest. GCC converts them one by one.
inline void load_halves(const _Float16* from, int64_t count, float* to) {
  int64_t i = 0;
#if defined(MYDEV_ISA_AVX512)
  for (; i + 16 <= count; i += 16) {
    _mm512_storeu_ps(
        to + i, _mm512_maskz_cvtph_ps(__mmask16(-1), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + i))));
  }
#endif
#if defined(MYDEV_ISA_AVX2) || defined(MYDEV_ISA_AVX512)
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  for (; i < count; ++i) to[i] = static_cast<float>(from[i]);
}
inline void store_halves(const float* from, int64_t count, _Float16* to) {
  int64_t i = 0;
#if defined(MYDEV_ISA_AVX512)
  for (; i + 16 <= count; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i),
                        _mm512_maskz_cvtps_ph(__mmask16(-1), _mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
#if defined(MYDEV_ISA_AVX2) || defined(MYDEV_ISA_AVX512)
  for (; i + 8 <= count; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < count; ++i) to[i] = static_cast<_Float16>(from[i]);
}

template <typename To, typename From>
void load_elements(const void* source, int64_t stride, int64_t count, To* __restrict target) {
  const From* from = static_cast<const From*>(source);
  if (stride == 1) {
    if constexpr (std::is_same_v<To, float> && std::is_same_v<From, _Float16>) return load_halves(from, count, target);
    for (int64_t i = 0; i < count; ++i) target[i] = element_cast<To>(from[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) target[i] = element_cast<To>(from[i * stride]);
  }
}

template <typename From, typename To>
void store_elements(const From* __restrict source, void* target, int64_t stride, int64_t count) {
  To* to = static_cast<To*>(target);
  if (stride == 1) {
    if constexpr (std::is_same_v<From, float> && std::is_same_v<To, _Float16>) return store_halves(source, count, to);
    for (int64_t i = 0; i < count; ++i) to[i] = element_cast<To>(source[i]);
  } else {
    for (int64_t i = 0; i < count; ++i) to[i * stride] = element_cast<To>(source[i]);
  }
}

// Elements of one type as values of the compute type `To`.
template <typename To>
class ChunkReader {
 public:
  explicit ChunkReader(int32_t dtype) : size_(dtype_row(dtype).size), direct_(dtype == kDtypeOf<To>) {
    visit_element_type(dtype, [&]<typename From>() { load_ = load_elements<To, From>; });
  }
  bool supported() const { return load_ != nullptr; }
  int64_t element_bytes() const { return size_; }
  // True if dense elements are read where they lie, in runs of any length.
  bool direct(int64_t stride) const { return direct_ && stride == 1; }
  // `count` elements from `source`; at most kChunk of them unless direct(stride). `buffer` holds kChunk.
  const To* read(const char* source, int64_t stride, int64_t count, To* buffer) const {
    if (direct(stride)) return reinterpret_cast<const To*>(source);
    load_(source, stride, count, buffer);
    return buffer;
  }

 private:
  void (*load_)(const void*, int64_t, int64_t, To*) = nullptr;
  int64_t size_;
  bool direct_;
};

// Values of the compute type `From` as elements of one type.
template <typename From>
class ChunkWriter {
 public:
  explicit ChunkWriter(int32_t dtype) : size_(dtype_row(dtype).size), direct_(dtype == kDtypeOf<From>) {
    visit_element_type(dtype, [&]<typename To>() { store_ = store_elements<From, To>; });
  }
  bool supported() const { return store_ != nullptr; }
  int64_t element_bytes() const { return size_; }
  // Returns where to compute values for `target`: in place if possible, else in `buffer`. Follow with write().
  From* place(char* target, int64_t stride, From* buffer) const {
    return direct_ && stride == 1 ? reinterpret_cast<From*>(target) : buffer;
  }
  void write(const From* values, char* target, int64_t stride, int64_t count) const {
    if (reinterpret_cast<const char*>(values) != target) store_(values, target, stride, count);
  }

 private:
  void (*store_)(const From*, void*, int64_t, int64_t) = nullptr;
  int64_t size_;
  bool direct_;
};

}  // namespace
}  // namespace mydev::kernels::MYDEV_ISA
