// Prints the best instruction set of this processor, by the rule of csrc/runtime/base/instruction_set.cpp.
#include <cstdio>

int main() {
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi2");
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  std::fputs(avx512 ? "avx512" : avx2 ? "avx2" : "baseline", stdout);
}
