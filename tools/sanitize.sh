#!/usr/bin/env bash
# Builds the layers without torch and their googletests under a sanitizer and runs them:
#   tools/sanitize.sh address,undefined|thread <build directory> [--shard=N]
#
# --shard asks the tests that tools/googletests.sh says.
#
# Kernels are built once and hardly optimised, for AVX2 where the processor has it: what they read and write is what the
# optimised ones do, and `make test` runs those in every instruction set.
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=$1
build=$2
export PATH="$PWD/.venv/bin:$PATH"

isa=baseline
if grep -qw avx2 /proc/cpuinfo 2>/dev/null; then isa=avx2; fi
cmake -S . -B "$build" -G Ninja -DPython_EXECUTABLE="$PWD/.venv/bin/python" -DMYDEV_BUILD_TORCH=OFF \
  -DMYDEV_BUILD_TESTS=ON -DMYDEV_ISA_VARIANTS=$isa -DMYDEV_SANITIZE="$sanitizers" \
  ${CMAKE_ARGS:-} >/dev/null
cmake --build "$build"

# oneDNN's OpenMP runtime is not instrumented: with more than one thread, ThreadSanitizer would report its barriers.
export OMP_NUM_THREADS=1
export ASAN_OPTIONS=detect_stack_use_after_return=1:strict_string_checks=1
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1:suppressions=$PWD/tests/cpp/tsan_suppressions.txt"
# ThreadSanitizer needs the memory layout that it knows; some kernels randomise more of it.
without_randomisation=()
if setarch -R true 2>/dev/null; then without_randomisation=(setarch -R); fi
"${without_randomisation[@]}" tools/googletests.sh "$build" "${@:3}"
