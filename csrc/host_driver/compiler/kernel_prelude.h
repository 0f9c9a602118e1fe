// The prelude that each source in language "c++" begins with: how its kernels are written, and how they are called.
//
//   MYDEV_KERNEL(scale, float* out, const float* in, int64_t count, double factor) {
//     MYDEV_FOR_THREADS(i, count) out[i] = float(factor) * in[i];
//   }
//
// makes a kernel of the name "scale". Its parameters are pointers, then numbers of type int64_t or double; at least one
// parameter. Several threads of the host call the body, each for a range of the launch's groups. The body goes through
// the device's threads in these groups with the loops below. Their iterations do not depend on each other, so that the
// compiler makes vectors of them. The prelude is text: KernelCall here is mydev::KernelCall there.
#pragma once

#include <cstdint>

namespace mydev::host_driver {

union KernelNumber {
  int64_t i;
  double f;
};

struct KernelCall {
  void* const* pointers;
  const KernelNumber* numbers;
  uint32_t grid[3];      // groups of the launch
  uint32_t group[3];     // threads of a group
  int64_t begin, end;    // the groups of this call; dimension 0 varies fastest
  char* local_memory;    // for one group at a time
  const char** failure;  // set: the launch fails with this text, which is the module's
};

using KernelFunction = void (*)(const KernelCall* call);

// For a kernel named `x` a library exports kFunctionPrefix + x, a KernelFunction, and kParametersPrefix + x, two of
// int32_t: how many pointers and how many numbers it takes. The module exports kTargetSymbol, a string that differs
// for other processors, compilers and preludes.
inline constexpr const char* kFunctionPrefix = "mydev_kernel_";
inline constexpr const char* kParametersPrefix = "mydev_parameters_";
inline constexpr const char* kTargetSymbol = "mydev_kernel_target";

// MYDEV_KERNEL_TARGET is given to the compiler.
inline constexpr const char* kKernelPrelude = R"prelude(
#include <stddef.h>
#include <stdint.h>

namespace mydev {

union KernelNumber {
  int64_t i;
  double f;
};

struct KernelCall {
  void* const* pointers;
  const KernelNumber* numbers;
  uint32_t grid[3];
  uint32_t group[3];
  int64_t begin, end;
  char* local_memory;
  const char** failure;

  void fail(const char* text) const { __atomic_store_n(failure, text, __ATOMIC_RELAXED); }
};

struct Group {
  int64_t x, y, z;  // its place in the grid
};

inline Group group_at(const KernelCall& call, int64_t index) {
  const int64_t x = call.grid[0], y = call.grid[1];
  return {index % x, index / x % y, index / (x * y)};
}

inline int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

template <typename T>
struct Parameter {
  static constexpr bool is_pointer = false;
  static_assert(sizeof(T) == 0, "a parameter of a kernel is a pointer, an int64_t or a double");
};
template <typename T>
struct Parameter<T*> {
  static constexpr bool is_pointer = true;
  static T* get(const KernelCall& call, int place, int) { return static_cast<T*>(call.pointers[place]); }
};
template <typename T>
struct Parameter<T* __restrict__> : Parameter<T*> {};
template <>
struct Parameter<int64_t> {
  static constexpr bool is_pointer = false;
  static int64_t get(const KernelCall& call, int place, int pointers) { return call.numbers[place - pointers].i; }
};
template <>
struct Parameter<double> {
  static constexpr bool is_pointer = false;
  static double get(const KernelCall& call, int place, int pointers) { return call.numbers[place - pointers].f; }
};

template <int... kPlaces>
struct Places {};
template <int kCount, int... kPlaces>
struct MakePlaces : MakePlaces<kCount - 1, kCount - 1, kPlaces...> {};
template <int... kPlaces>
struct MakePlaces<0, kPlaces...> {
  using Type = Places<kPlaces...>;
};

template <auto kBody>
struct Kernel;
template <typename... P, void (*kBody)(const KernelCall&, P...)>
struct Kernel<kBody> {
  static constexpr int pointers = (0 + ... + int(Parameter<P>::is_pointer));
  static constexpr int numbers = int(sizeof...(P)) - pointers;
  template <int... kPlaces>
  static constexpr bool pointers_first(Places<kPlaces...>) {
    return ((Parameter<P>::is_pointer == (kPlaces < pointers)) && ...);
  }
  template <int... kPlaces>
  static void run(const KernelCall& call, Places<kPlaces...>) {
    kBody(call, Parameter<P>::get(call, kPlaces, pointers)...);
  }
  static void run(const KernelCall& call) {
    using All = typename MakePlaces<sizeof...(P)>::Type;
    static_assert(pointers_first(All()), "a kernel's parameters are pointers first, then numbers");
    run(call, All());
  }
};

}  // namespace mydev

#define MYDEV_EXPORT_SYMBOL extern "C" __attribute__((visibility("default"), used))

MYDEV_EXPORT_SYMBOL const char mydev_kernel_target[] = MYDEV_KERNEL_TARGET;

#define MYDEV_KERNEL(name, ...)                                                                               \
  static void mydev_body_##name(const mydev::KernelCall& mydev_call, __VA_ARGS__);                            \
  MYDEV_EXPORT_SYMBOL const int32_t mydev_parameters_##name[2] = {                                       \
      mydev::Kernel<&mydev_body_##name>::pointers, mydev::Kernel<&mydev_body_##name>::numbers};               \
  MYDEV_EXPORT_SYMBOL void mydev_kernel_##name(const mydev::KernelCall* mydev_call) {                         \
    mydev::Kernel<&mydev_body_##name>::run(*mydev_call);                                                      \
  }                                                                                                           \
  static inline void mydev_body_##name([[maybe_unused]] const mydev::KernelCall& mydev_call, __VA_ARGS__)

#if defined(__clang__)
#define MYDEV_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MYDEV_INDEPENDENT _Pragma("GCC ivdep")
#endif

// The threads of all groups of this call, in a launch of one dimension: i is the thread's number, below count.
#define MYDEV_FOR_THREADS(i, count)                                                              \
  MYDEV_INDEPENDENT                                                                              \
  for (int64_t i = mydev_call.begin * int64_t(mydev_call.group[0]),                    \
                    mydev_end = mydev::at_most(mydev_call.end * int64_t(mydev_call.group[0]), count); \
       i < mydev_end; ++i)

// The groups of this call. The memory that each needs for itself lies in mydev_call.local_memory.
#define MYDEV_FOR_GROUPS(g)                                                                      \
  for (int64_t mydev_group = mydev_call.begin; mydev_group < mydev_call.end; ++mydev_group) \
    if (const mydev::Group g = mydev::group_at(mydev_call, mydev_group); true)

// The threads of one group, in each of its dimensions: from 0 on, as within a group. All threads are through with one
// loop before the next begins.
#define MYDEV_FOR_GROUP_THREADS(x) \
  MYDEV_INDEPENDENT                \
  for (int64_t x = 0; x < int64_t(mydev_call.group[0]); ++x)
#define MYDEV_FOR_GROUP_THREADS_Y(y) for (int64_t y = 0; y < int64_t(mydev_call.group[1]); ++y)
#define MYDEV_FOR_GROUP_THREADS_Z(z) for (int64_t z = 0; z < int64_t(mydev_call.group[2]); ++z)

#line 1 "kernel.cpp"
)prelude";

}  // namespace mydev::host_driver
