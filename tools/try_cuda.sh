#!/usr/bin/env bash
# Tries the CUDA driver on a machine with an NVIDIA GPU that has neither this checkout's build nor a network:
#
#   tools/try_cuda.sh pack DIRECTORY   here: puts the wheel of mydev, which needs no torch, and this into DIRECTORY
#   DIRECTORY/try_cuda.sh run          there: tries everything, in ten minutes at most
#
# `run` wants bash, Python and NVIDIA's driver. NVRTC and other libraries of NVIDIA's come from the machine's Python
# packages or its CUDA; a copy of the package nvidia-cuda-nvrtc in DIRECTORY/nvrtc goes before these. With JAX, a training
# step runs on the GPU and is compared with JAX's CPU. PyTorch's part wants a Python that has torch_mydev and its torch:
# python3, or TORCH_PYTHON. With a torch that has CUDA in python3, the same work is timed on it. The output goes to
# $OUT/try_cuda.log too, if OUT is set, as MYDEV_DRIVER may be.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

pack() { # <directory>
  cd "$here/.."
  mkdir -p "$1"
  rm -f "$1"/mydev-*.whl
  tools/setup.sh build
  CMAKE_ARGS="${CMAKE_ARGS:-} -DMYDEV_ISA_VARIANTS=all" \
    .venv/bin/python -m pip wheel -q --no-build-isolation --no-deps --wheel-dir "$1" ./packaging/mydev
  cp tools/try_cuda.sh tools/try_cuda_jax.py tools/try_cuda_torch.py "$1"
  du -h "$1"/*
}

# Runs a step for so many seconds at most; a failure is reported, and the next step goes on.
step() { # <seconds> <title> <command>...
  local limit=$1 title=$2 code=0 begin=$SECONDS
  shift 2
  echo "== $title"
  if [ "$(type -t "$1")" = function ]; then
    timeout "$limit" bash -o pipefail -c '"$@"' -- "$@" || code=$?
  else
    timeout "$limit" "$@" || code=$?
  fi
  case $code in
    0) echo "-- done in $((SECONDS - begin)) s" ;;
    124) echo "-- not finished within $limit s" ;;
    *) echo "-- failed with $code after $((SECONDS - begin)) s" ;;
  esac
}

# The directory of a library, from the neighbour "nvrtc", Python's packages or CUDA itself; nothing if it is only known to
# the loader.
find_library() { # <form of its name>
  local place
  for place in "$here/nvrtc" $(python3 -c 'import site; print(*site.getsitepackages())' 2>/dev/null) /usr/local/cuda; do
    find -L "$place" -maxdepth 5 -name "$1" -printf '%h\n' 2>/dev/null | head -1
  done | head -1
}

# ",nvrtc=DIRECTORY" and its like, for what is found.
library_options() {
  local option directory
  for option in 'nvrtc=libnvrtc.so.1[23]' 'cublas=libcublasLt.so.1[23]' 'cudnn=libcudnn.so.9'; do
    directory=$(find_library "${option#*=}")
    printf '%s' "${directory:+,${option%%=*}=$directory}"
  done
}

# The number of cases by outcome, and the cases that failed.
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

# A third of the frames of all portable kernels: in many processes, since most of the time is NVRTC's.
conform_kernels() { # <seconds>
  local part
  for part in $(seq 0 13); do
    timeout "$1" "$package/mydev/lib/mydev_conform" portable_kernels --share "$part/42" \
      >"$package/part$part" 2>/dev/null &
  done
  wait
  cat "$package"/part* | count_cases
}

# The same rows on either device, beside each other.
times_of_torch() { # <Python with torch_mydev> <option>...
  local python=$1
  shift
  "$python" "$here/try_cuda_torch.py" mydev "$@" >"$package/ours" 2>"$package/errors" || tail -3 "$package/errors"
  MYDEV_DRIVER=none TORCH_DEVICE_BACKEND_AUTOLOAD=0 PYTHONPATH='' \
    python3 "$here/try_cuda_torch.py" cuda "$@" >"$package/theirs" 2>/dev/null || true
  python3 -c '
import json, sys
ours, theirs = ([json.loads(line) for line in open(name)] for name in sys.argv[1:])
known = {row["name"]: row.get("ms") for row in theirs}
print("| ms | here | torch on CUDA |\n| --- | --- | --- |")
for row in ours:
    print("|", row["name"], "|", row.get("ms", row.get("error")), "|", known.get(row["name"]), "|")' \
    "$package/ours" "$package/theirs"
}

run() {
  package=$(mktemp -d)
  trap 'rm -rf "$package"' EXIT
  python3 -m zipfile -e "$here"/mydev-*.whl "$package"
  chmod +x "$package/mydev/lib/mydev_conform"
  local torch_python=${TORCH_PYTHON:-python3}
  export MYDEV_DRIVER=${MYDEV_DRIVER:-cuda:device=0$(library_options)}
  export XDG_CACHE_HOME=$package/cache
  export -f conform_kernels count_cases times_of_torch
  export package here
  nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader || true
  echo "MYDEV_DRIVER=$MYDEV_DRIVER"
  step 100 "the driver's table" env PYTHONPATH="$package" python3 -m mydev conform driver
  step 120 "training with JAX, and times" env PYTHONPATH="$package" python3 "$here/try_cuda_jax.py"
  step 100 "kernels of NVIDIA's libraries" env PYTHONPATH="$package" python3 -m mydev conform kernels
  step 150 "portable kernels" conform_kernels 140
  if ! "$torch_python" -c 'import torch_mydev' 2>/dev/null; then
    echo "no torch_mydev with its torch is in $torch_python: PyTorch was not tried"
    return
  fi
  step 60 "PyTorch: models" "$torch_python" -m mydev conform report --suites models
  step 100 "PyTorch: operators, a sixth" "$torch_python" -m mydev conform operators --share 0/6 -j 14 --timeout 20
  step 60 "PyTorch: times" times_of_torch "$torch_python"
  step 60 "PyTorch: training steps" times_of_torch "$torch_python" --steps
}

case "${1:-}" in
  pack) pack "${2:?where to: try_cuda.sh pack DIRECTORY}" ;;
  run) if [ -n "${OUT:-}" ]; then run 2>&1 | tee "$OUT/try_cuda.log"; else run; fi ;;
  *)
    echo "usage: try_cuda.sh pack DIRECTORY | run" >&2
    exit 2
    ;;
esac
