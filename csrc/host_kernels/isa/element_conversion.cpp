#include "host_kernels/isa/element_conversion.h"

#include <type_traits>

#include "host_kernels/isa/simd.h"

namespace mydev::kernels::MYDEV_ISA {

namespace {

struct Pred {
  uint8_t value;
};

// --- native to native ----------------------------------------------------------------------------------------------

template <typename To, typename From>
To cast(From value) {
  if constexpr (std::is_same_v<From, Pred>) {
    return cast<To>(value.value);
  } else if constexpr (std::is_same_v<To, Pred>) {
    return Pred{static_cast<uint8_t>(value != From{})};
  } else if constexpr (std::is_floating_point_v<From> && std::is_unsigned_v<To> && sizeof(To) < 8) {
    return static_cast<To>(static_cast<int64_t>(value));  // negative values wrap round
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

void f32_to_bf16(void* dst, const void* src, int64_t n) {
  uint16_t* to = static_cast<uint16_t*>(dst);
  const uint32_t* from = static_cast<const uint32_t*>(src);
  for (int64_t i = 0; i < n; ++i) {
    const uint32_t u = from[i];
    const uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;  // to nearest, ties to even
    to[i] = static_cast<uint16_t>((u & 0x7fffffff) > 0x7f800000 ? 0x7fc0 : rounded);
  }
}

void f16_to_f32(void* dst, const void* src, int64_t n) {
  float* to = static_cast<float*>(dst);
  const _Float16* from = static_cast<const _Float16*>(src);
  int64_t i = 0;
#if defined(MYDEV_ISA_AVX2) || defined(MYDEV_ISA_AVX512)
  for (; i + 8 <= n; i += 8) {
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from + i))));
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<float>(from[i]);
}

void f32_to_f16(void* dst, const void* src, int64_t n) {
  _Float16* to = static_cast<_Float16*>(dst);
  const float* from = static_cast<const float*>(src);
  int64_t i = 0;
#if defined(MYDEV_ISA_AVX2) || defined(MYDEV_ISA_AVX512)
  for (; i + 8 <= n; i += 8) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  }
#endif
  for (; i < n; ++i) to[i] = static_cast<_Float16>(from[i]);
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
  conversion.sizes[conversion.count++] = element_size(result);
}

}  // namespace

int64_t element_size(int32_t dtype) {
  switch (dtype) {
    case MYDEV_PRED:
    case MYDEV_S8:
    case MYDEV_U8:
    case MYDEV_F8E5M2:
    case MYDEV_F8E4M3FN:
      return 1;
    case MYDEV_S16:
    case MYDEV_U16:
    case MYDEV_F16:
    case MYDEV_BF16:
      return 2;
    case MYDEV_S32:
    case MYDEV_U32:
    case MYDEV_F32:
      return 4;
    case MYDEV_S64:
    case MYDEV_U64:
    case MYDEV_F64:
    case MYDEV_C64:
      return 8;
    case MYDEV_C128:
      return 16;
    default:
      return 0;
  }
}

Conversion find_conversion(mydev_dtype from, mydev_dtype to) {
  Conversion conversion{};
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
