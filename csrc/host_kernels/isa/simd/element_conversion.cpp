#include "host_kernels/isa/simd/element_conversion.h"

#include <bit>
#include <type_traits>

#include "host_kernels/isa/simd/half_values.h"
#include "runtime/frame/dtype.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

struct Pred {
  uint8_t value;  // any byte but 0 is true
};

// --- native to native ----------------------------------------------------------------------------------------------

template <typename To, typename From>
To cast(From value) {
  if constexpr (std::is_same_v<From, Pred>) {
    return cast<To>(static_cast<uint8_t>(value.value != 0));
  } else if constexpr (std::is_same_v<To, Pred>) {
    return Pred{static_cast<uint8_t>(value != From{})};
  } else if constexpr (std::is_floating_point_v<From> && std::is_unsigned_v<To>) {
    // Negative values wrap round.
    if constexpr (sizeof(To) == 8) {
      if (!(value < 0)) return static_cast<To>(value);
    }
    return static_cast<To>(static_cast<int64_t>(value));
  } else {
    return static_cast<To>(value);
  }
}

template <typename From, typename To>
void convert(void* dst, const void* src, int64_t n) {
  To* to = static_cast<To*>(dst);
  const From* from = static_cast<const From*>(src);
  for (int64_t i = 0; i < n; ++i) to[i] = cast<To>(from[i]);
}

// The native types, in the order of kNative below.
template <typename From>
struct Row {
  static constexpr Convert kTo[] = {
      convert<From, Pred>,     convert<From, int8_t>,  convert<From, int16_t>,  convert<From, int32_t>,
      convert<From, int64_t>,  convert<From, uint8_t>, convert<From, uint16_t>, convert<From, uint32_t>,
      convert<From, uint64_t>, convert<From, float>,   convert<From, double>,
  };
};
constexpr const Convert* kNativeToNative[] = {
    Row<Pred>::kTo,     Row<int8_t>::kTo,   Row<int16_t>::kTo,  Row<int32_t>::kTo, Row<int64_t>::kTo, Row<uint8_t>::kTo,
    Row<uint16_t>::kTo, Row<uint32_t>::kTo, Row<uint64_t>::kTo, Row<float>::kTo,   Row<double>::kTo,
};
constexpr mydev_dtype kNative[] = {MYDEV_PRED, MYDEV_S8,  MYDEV_S16, MYDEV_S32, MYDEV_S64, MYDEV_U8,
                                   MYDEV_U16,  MYDEV_U32, MYDEV_U64, MYDEV_F32, MYDEV_F64};

int native_index(mydev_dtype dtype) {
  for (int i = 0; i < static_cast<int>(std::size(kNative)); ++i) {
    if (kNative[i] == dtype) return i;
  }
  return -1;
}

// --- half precision ------------------------------------------------------------------------------------------------

void bf16_to_f32(void* dst, const void* src, int64_t n) {
  uint32_t* to = static_cast<uint32_t*>(dst);
  const uint16_t* from = static_cast<const uint16_t*>(src);
  for (int64_t i = 0; i < n; ++i) to[i] = uint32_t{from[i]} << 16;
}

// The upper halves of floats, rounded to nearest, ties to even.
inline uint32_t bf16_bits(uint32_t u) {
  const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
  return (u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded;
}
void f32_to_bf16(void* dst, const void* src, int64_t n) {
  uint16_t* to = static_cast<uint16_t*>(dst);
  const uint32_t* from = static_cast<const uint32_t*>(src);
  int64_t i = 0;
#if defined(MYDEV_ISA_AVX2)
  for (; i + 16 <= n; i += 16) {
    const float* values = reinterpret_cast<const float*>(from + i);
    const __m256i packed =
        _mm256_packus_epi32(bf16_bits(_mm256_loadu_ps(values)), bf16_bits(_mm256_loadu_ps(values + 8)));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to + i), _mm256_permute4x64_epi64(packed, 0xD8));
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<uint16_t>(bf16_bits(from[i]));
}

void f16_to_f32(void* dst, const void* src, int64_t n) {
  load_halves(static_cast<const _Float16*>(src), n, static_cast<float*>(dst));
}

void f32_to_f16(void* dst, const void* src, int64_t n) {
  store_halves(static_cast<const float*>(src), n, static_cast<_Float16*>(dst));
}

// --- eight bits ----------------------------------------------------------------------------------------------------

// Sign, 7 - kMantissa bits of exponent, kMantissa bits of mantissa. From kOverflow on, a value is kOverflowed.
struct E5M2 {
  static constexpr int kMantissa = 2, kBias = 15;
  static constexpr float kOverflow = 65536;
  static constexpr uint8_t kOverflowed = 0x7C, kNan = 0x7F;  // infinity; mantissas but 0 with its exponent are NaN
  static bool is_nan(uint32_t magnitude) { return magnitude > 0x7C; }
  static bool is_infinite(uint32_t magnitude) { return magnitude == 0x7C; }
};
struct E4M3FN {
  static constexpr int kMantissa = 3, kBias = 7;
  static constexpr float kOverflow = 464;
  static constexpr uint8_t kOverflowed = 0x7E, kNan = 0x7F;  // no infinity, and one NaN: the largest number
  static bool is_nan(uint32_t magnitude) { return magnitude == 0x7F; }
  static bool is_infinite(uint32_t) { return false; }
};

template <typename F>
void f8_to_f32(void* dst, const void* src, int64_t n) {
  constexpr int kShift = 23 - F::kMantissa;
  constexpr float kSmallest = 1.0f / static_cast<float>(1 << (F::kBias + F::kMantissa - 1));
  float* to = static_cast<float*>(dst);
  const uint8_t* from = static_cast<const uint8_t*>(src);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t magnitude = from[i] & 0x7F;
    float value = std::bit_cast<float>((magnitude << kShift) + (uint32_t{127 - F::kBias} << 23));
    if (magnitude < (1 << F::kMantissa)) value = static_cast<float>(magnitude) * kSmallest;
    if (F::is_infinite(magnitude)) value = __builtin_inff();
    if (F::is_nan(magnitude)) value = __builtin_nanf("");
    to[i] = (from[i] & 0x80) != 0 ? -value : value;
  }
}

// To nearest, ties to even.
template <typename F>
void f32_to_f8(void* dst, const void* src, int64_t n) {
  constexpr int kShift = 23 - F::kMantissa;
  constexpr float kNormal = 2.0f / static_cast<float>(1 << F::kBias);  // the smallest normal number
  // Adding this leaves the units of the smallest denormal in the last bits of the sum, rounded.
  constexpr float kAlign = kNormal * static_cast<float>(1 << kShift);
  uint8_t* to = static_cast<uint8_t*>(dst);
  const float* from = static_cast<const float*>(src);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t bits = std::bit_cast<uint32_t>(from[i]), magnitude = bits & 0x7FFFFFFF;
    const float value = std::bit_cast<float>(magnitude);
    const uint32_t odd = (magnitude >> kShift) & 1;
    const uint32_t rounded = (magnitude + (1u << (kShift - 1)) - 1 + odd) >> kShift;
    uint32_t result = rounded - (uint32_t{127 - F::kBias} << F::kMantissa);
    if (value < kNormal) result = std::bit_cast<uint32_t>(value + kAlign) - std::bit_cast<uint32_t>(kAlign);
    if (value >= F::kOverflow) result = F::kOverflowed;
    if (value != value) result = F::kNan;
    to[i] = static_cast<uint8_t>(result | (bits >> 24 & 0x80));
  }
}

// --- complex -------------------------------------------------------------------------------------------------------

template <typename T>
void complex_to_real(void* dst, const void* src, int64_t n) {
  T* to = static_cast<T*>(dst);
  const T* from = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
}

template <typename T>
void real_to_complex(void* dst, const void* src, int64_t n) {
  T* to = static_cast<T*>(dst);
  const T* from = static_cast<const T*>(src);
  for (int64_t i = 0; i < n; ++i) {
    to[2 * i] = from[i];
    to[2 * i + 1] = 0;
  }
}

template <typename From, typename To>
void complex_to_complex(void* dst, const void* src, int64_t n) {
  convert<From, To>(dst, src, 2 * n);
}

// To and from the native type of an element type.
struct Bridge {
  mydev_dtype dtype, native;
  Convert load, store;
};
constexpr Bridge kBridges[] = {
    {MYDEV_F16, MYDEV_F32, f16_to_f32, f32_to_f16},
    {MYDEV_BF16, MYDEV_F32, bf16_to_f32, f32_to_bf16},
    {MYDEV_F8E5M2, MYDEV_F32, f8_to_f32<E5M2>, f32_to_f8<E5M2>},
    {MYDEV_F8E4M3FN, MYDEV_F32, f8_to_f32<E4M3FN>, f32_to_f8<E4M3FN>},
    {MYDEV_C64, MYDEV_F32, complex_to_real<float>, real_to_complex<float>},
    {MYDEV_C128, MYDEV_F64, complex_to_real<double>, real_to_complex<double>},
};

const Bridge* bridge_of(mydev_dtype dtype) {
  for (const Bridge& bridge : kBridges) {
    if (bridge.dtype == dtype) return &bridge;
  }
  return nullptr;
}

void add_step(Conversion& conversion, Convert step, mydev_dtype result) {
  conversion.steps[conversion.count] = step;
  conversion.sizes[conversion.count++] = dtype_row(result).size;
}

}  // namespace

Conversion find_conversion(mydev_dtype from, mydev_dtype to) {
  Conversion conversion{};
  if (from == MYDEV_PRED && to == MYDEV_PRED) add_step(conversion, convert<Pred, Pred>, to);
  if (from == to) return conversion;
  if (from == MYDEV_C64 && to == MYDEV_C128) {
    add_step(conversion, complex_to_complex<float, double>, to);
    return conversion;
  }
  if (from == MYDEV_C128 && to == MYDEV_C64) {
    add_step(conversion, complex_to_complex<double, float>, to);
    return conversion;
  }
  const Bridge* load = bridge_of(from);
  const Bridge* store = bridge_of(to);
  const mydev_dtype native_from = load != nullptr ? load->native : from;
  const mydev_dtype native_to = store != nullptr ? store->native : to;
  const int row = native_index(native_from), column = native_index(native_to);
  if (row < 0 || column < 0) {
    conversion.count = -1;
    return conversion;
  }
  if (load != nullptr) add_step(conversion, load->load, native_from);
  if (native_from != native_to) add_step(conversion, kNativeToNative[row][column], native_to);
  if (store != nullptr) add_step(conversion, store->store, to);
  return conversion;
}

}  // namespace mydev::kernels::MYDEV_ISA
