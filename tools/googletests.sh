#!/usr/bin/env bash
# Runs the googletests of a build: tools/googletests.sh <build directory> [--shard=N] [<option for ctest>...]
#
# The conformance of kernels, in one mode after another, takes most of the time. --shard asks a sixth of these modes,
# and leaves those of instruction sets to the pass that is about them.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
ctest=$PWD/.venv/bin/ctest
left_out=()
if [[ ${1:-} == --shard=* ]]; then
  mapfile -t modes < <("$ctest" --test-dir "$build" -N -R 'conform(_host)?_kernels$' | sed -n 's/^ *Test *#[0-9]*: //p')
  shard=${1#--shard=}
  i=0
  for mode in "${modes[@]}"; do
    if [[ $mode =~ ^(baseline|avx2|avx512)/ ]] || ((i++ % 6 != shard % 6)); then left_out+=("$mode"); fi
  done
  left_out=(-E "^($(IFS='|' && echo "${left_out[*]}"))\$")
fi
[[ ${1:-} == --* ]] && shift
exec "$ctest" --test-dir "$build" --output-on-failure -j 2 "${left_out[@]}" "$@"
