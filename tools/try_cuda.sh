#!/usr/bin/env bash
# Tries the CUDA driver on a machine with an NVIDIA GPU that has neither this checkout's build nor a network:
#
#   tools/try_cuda.sh pack DIRECTORY   here: builds without torch, and writes DIRECTORY/mydev-cuda.tar.xz
#   DIRECTORY/try_cuda.sh run          there, beside the archive: unpacks it and tries everything, in ten minutes at most
#
# `run` wants bash, tar, xz and NVIDIA's driver. NVRTC comes from the machine's Python packages or its CUDA; a copy of the
# package nvidia-cuda-nvrtc in DIRECTORY/nvrtc goes before these. With JAX, a training step runs on the GPU and is
# compared with JAX's CPU; with a torch that has CUDA, the same work is timed against it. The output goes to
# $OUT/try_cuda.log too, if OUT is set, as MYDEV_DRIVER may be.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

pack() { # <directory>
  cd "$here/.."
  local directory root=$PWD build=build/try_cuda
  mkdir -p "$1"
  directory=$(cd "$1" && pwd)
  tools/setup.sh build
  PATH=$PWD/.venv/bin:$PATH
  cmake -S . -B $build -G Ninja -DMYDEV_BUILD_TORCH=OFF "-DMYDEV_ISA_VARIANTS=baseline;avx2" \
    -DCMAKE_INSTALL_PREFIX="$root/$build/package/torch_mydev" >/dev/null
  ninja -C $build
  rm -rf $build/package
  cmake --install $build --strip >/dev/null
  mkdir -p $build/package/pjrt_mydev $build/package/mydev
  cp pjrt_mydev/*.py $build/package/pjrt_mydev
  cp mydev/*.py $build/package/mydev
  cp tools/try_cuda_jax.py $build/package
  tar -C $build/package -cJf "$directory/mydev-cuda.tar.xz" .
  cp tools/try_cuda.sh "$directory"
  du -h "$directory/mydev-cuda.tar.xz"
}

# Runs a step for so many seconds at most; a failure is told, and the next step goes on.
step() { # <seconds> <title> <command>...
  local limit=$1 title=$2 code=0 begin=$SECONDS
  shift 2
  echo "== $title"
  timeout "$limit" "$@" || code=$?
  case $code in
    0) echo "-- done in $((SECONDS - begin)) s" ;;
    124) echo "-- not finished within $limit s" ;;
    *) echo "-- failed with $code after $((SECONDS - begin)) s" ;;
  esac
}

# The directory of NVRTC, from the archive's neighbour, Python's packages or CUDA itself; nothing if it is only known to
# the loader.
find_nvrtc() {
  local place
  for place in "$here/nvrtc" $(python3 -c 'import site; print(*site.getsitepackages())' 2>/dev/null) /usr/local/cuda; do
    find -L "$place" -maxdepth 5 -name 'libnvrtc.so.1[23]' -printf '%h\n' 2>/dev/null | head -1
  done | head -1
}

# What each case came to, and what failed.
count_cases() {
  python3 -c '
import json, sys
counts, wrong = {}, []
for line in sys.stdin:
    row = json.loads(line) if line.startswith("{") else {}
    if "status" not in row:
        continue
    counts[row["status"]] = counts.get(row["status"], 0) + 1
    if row["status"] == "failed":
        wrong.append(row)
print(counts)
for row in wrong:
    print("FAILED", row["name"], *row["messages"][:3], sep="\n    ")
sys.exit(bool(wrong))'
}

# All cases in one process: the one in which it hangs or ends is named.
conform_driver() { # <seconds>
  local program=$package/mydev/lib/mydev_conform code=0
  timeout "$1" "$program" driver >"$package/driver" 2>/dev/null || code=$?
  if [ "$code" -gt 1 ]; then
    "$program" driver --list | grep -o '"name": "[a-z_0-9]*"' | grep -o '[a-z_0-9]*"$' | tr -d '"' >"$package/names"
    echo "the suite ended with $code in $(sed -n "$(($(grep -c status "$package/driver") + 1))p" "$package/names")"
  fi
  count_cases <"$package/driver"
}

# All portable kernels, with a third of the frames of each: eight processes, since most of the time is NVRTC's.
conform_kernels() { # <seconds>
  local part
  for part in 0 1 2 3 4 5 6 7; do
    timeout "$1" "$package/mydev/lib/mydev_conform" portable_kernels --share $part/24 \
      >"$package/part$part" 2>/dev/null &
  done
  wait
  cat "$package"/part? | count_cases
}

run() {
  package=$(mktemp -d)
  trap 'rm -rf "$package"' EXIT
  tar -C "$package" -xJf "$here/mydev-cuda.tar.xz"
  local nvrtc
  nvrtc=$(find_nvrtc)
  export MYDEV_DRIVER=${MYDEV_DRIVER:-cuda:device=0${nvrtc:+,nvrtc=$nvrtc}}
  export PYTHONPATH=$package XDG_CACHE_HOME=$package/cache
  export -f conform_driver conform_kernels count_cases
  export package
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
  echo "MYDEV_DRIVER=$MYDEV_DRIVER"
  step 100 "the driver's table" bash -o pipefail -c "conform_driver 90"
  step 120 "training with JAX, and times" python3 "$package/try_cuda_jax.py"
  step 330 "portable kernels" bash -o pipefail -c "conform_kernels 320"
}

case "${1:-}" in
  pack) pack "${2:?where to: try_cuda.sh pack DIRECTORY}" ;;
  run) if [ -n "${OUT:-}" ]; then run 2>&1 | tee "$OUT/try_cuda.log"; else run; fi ;;
  *)
    echo "usage: try_cuda.sh pack DIRECTORY | run" >&2
    exit 2
    ;;
esac
