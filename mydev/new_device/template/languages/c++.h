/* The card's language: C++ with the words of docs/compiler.md, "The host driver's compiler". A call runs all groups,
 * and the threads of a group are a loop.
 */
#pragma once

#include "card_place.h"

constexpr const char* kLanguage = "c++";
constexpr const char* kOptions = "-O1 -std=c++20 -w -fwrapv -ffp-contract=off -fopenmp-simd -shared -fPIC";
constexpr bool kLoops = true;
constexpr bool kOffsets = false;
constexpr uint64_t kMostLocalMemory = 256 << 10;

constexpr mydev_compiler_properties kProperties = {
    .struct_size = sizeof(mydev_compiler_properties),
    .max_group = {1024, 1024, 1024},
    .max_group_threads = 1024,
    .max_grid = {0x7FFFFFFF, 65535, 65535},
    .preferred_group_threads = 0,
    .subgroup_size = 0,
    .parameters = MYDEV_PARAMETERS_POINTERS,
    .features = MYDEV_COMPILER_F64 | MYDEV_COMPILER_ATOMIC_F32 | MYDEV_COMPILER_ATOMIC_S64,
    .fault_word = 0,
};

constexpr const char* kPrelude = R"prelude(
#include <stddef.h>
namespace mydev {
struct Group { int64_t x, y, z; };  // its place in the grid
inline Group group_at(const CardPlace& call, int64_t index) {
  const int64_t x = call.grid[0], y = call.grid[1];
  return {index % x, index / x % y, index / (x * y)};
}
inline int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }
}  // namespace mydev
#define mydev_call card_here
#define MYDEV_KERNEL(name, ...) extern "C" __attribute__((visibility("default"))) void name(__VA_ARGS__)
#if defined(__clang__)
#define MYDEV_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#else
#define MYDEV_INDEPENDENT _Pragma("GCC ivdep")
#endif
#define MYDEV_FOR_THREADS(i, count)                                                      \
  for (int64_t i = card_here.begin * int64_t(card_here.group[0]),                                \
               mydev_end = mydev::at_most(card_here.end * int64_t(card_here.group[0]), (count)); \
       i < mydev_end; ++i)
#define MYDEV_FOR_GROUPS(g)                                                         \
  for (int64_t mydev_group = card_here.begin; mydev_group < card_here.end; ++mydev_group)   \
    if (const mydev::Group g = mydev::group_at(card_here, mydev_group); true)
#define MYDEV_FOR_GROUP_THREADS(x) for (int64_t x = 0; x < int64_t(card_here.group[0]); ++x)
#define MYDEV_FOR_GROUP_THREADS_Y(y) for (int64_t y = 0; y < int64_t(card_here.group[1]); ++y)
#define MYDEV_FOR_GROUP_THREADS_Z(z) for (int64_t z = 0; z < int64_t(card_here.group[2]); ++z)
)prelude";
