#!/usr/bin/env bash
# Makes one wheel for several versions of torch, and tries it with each: tools/build_wheel.sh <version>...
#
# The wheel is in dist/, for the Python that is python3. Each version is built by tools/torch_build.sh in an
# environment of its own (some GB, except for the one that requirements/torch.txt names, which is in .venv); what they
# make is joined by tools/join_wheels.py, and gets the tag of the systems that it is for by tools/tag_wheel.py. Each
# environment then runs tools/try_wheel.py with the wheel, and with one that has no part for its torch.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "build_wheel: which versions of torch, as in tools/build_wheel.sh 2.13.0 2.14.1" >&2; exit 2; }

# A wheel is for any processor.
export CMAKE_ARGS="${CMAKE_ARGS:-} -DMYDEV_ISA_VARIANTS=all"

home_of() { # <version>: the sources that are built with it
  if [ "torch==$1" = "$(cat requirements/torch.txt)" ]; then echo .; else echo "build/torch-$1"; fi
}

rm -rf build/wheels
wheels=()
for version in "$@"; do
  home=$(home_of "$version")
  if [ "$home" = . ]; then tools/setup.sh build && tools/build.sh; else tools/torch_build.sh "$version"; fi
  mkdir -p "build/wheels/$version"
  output=$PWD/build/wheels/$version
  (cd "$home" && .venv/bin/python -m pip wheel -q --no-build-isolation --no-deps --wheel-dir "$output" .)
  wheels+=("$output"/*.whl)
done
tools/setup.sh wheel
joined=$(python3 tools/join_wheels.py "${wheels[@]}" --output dist)
joined=$(.venv/bin/python tools/tag_wheel.py "$joined")

try() { # <version> <wheel> <what is expected>
  local site=build/wheels/site
  rm -rf "$site"
  "$(home_of "$1")/.venv/bin/python" -m pip install -q --no-deps --no-compile --target "$site" "$2"
  echo "== torch $1, $(basename "$(dirname "$2")")/$(basename "$2")"
  PYTHONPATH=$PWD/$site "$(home_of "$1")/.venv/bin/python" -P tools/try_wheel.py "$3"
}
for version in "$@"; do
  try "$version" "$joined" works
  for other in "$@"; do
    if [ "${other%.*}" != "${version%.*}" ]; then try "$version" build/wheels/"$other"/*.whl refuses; fi
  done
done
ls -l "$joined"
