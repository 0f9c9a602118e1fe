#!/usr/bin/env bash
# Makes the wheels of both distributions, and tries them: tools/build_wheels.sh <version of torch>...
#
# dist/ gets a wheel of mydev, for any Python, and one of torch_mydev, for the Python that is python3 and these versions of
# torch; and the source distributions of both. Each version is built by tools/torch_build.sh in an environment of its own
# (some GB, except for the one that requirements/torch.txt names, which is in .venv); what they make is joined by
# tools/join_wheels.py. Wheels get the tag of the systems that they are for by tools/tag_wheel.py. Each environment then
# runs tools/try_wheels.py with the wheels, and with a torch_mydev that has no part for its torch.
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "build_wheels: which versions of torch, as in tools/build_wheels.sh 2.13.0 2.14.1" >&2; exit 2; }

# A wheel is for any processor.
export CMAKE_ARGS="${CMAKE_ARGS:-} -DMYDEV_ISA_VARIANTS=all"

home_of() { # <version>: the sources that are built with it
  if [ "torch==$1" = "$(cat requirements/torch.txt)" ]; then echo .; else echo "build/torch-$1"; fi
}

build() { # <sources> <project> <folder for the wheel>
  mkdir -p "$3"
  local output=$PWD/$3
  (cd "$1" && .venv/bin/python -m pip wheel -q --no-build-isolation --no-deps --wheel-dir "$output" "$2")
}

rm -rf build/wheels
wheels=()
for version in "$@"; do
  home=$(home_of "$version")
  if [ "$home" = . ]; then tools/setup.sh build && tools/build.sh; else tools/torch_build.sh "$version"; fi
  build "$home" . "build/wheels/$version"
  wheels+=("build/wheels/$version"/*.whl)
done
build "$(home_of "$1")" ./packaging/mydev build/wheels/mydev
tools/setup.sh wheel
mkdir -p dist
joined=$(python3 tools/join_wheels.py "${wheels[@]}" --output dist)
joined=$(.venv/bin/python tools/tag_wheel.py "$joined")
cp build/wheels/mydev/*.whl dist
mydev=$(.venv/bin/python tools/tag_wheel.py "dist/$(basename build/wheels/mydev/*.whl)")
for project in . packaging/mydev; do
  (cd "$project" && "$OLDPWD/.venv/bin/python" setup.py --quiet sdist --dist-dir "$OLDPWD/dist")
done

try() { # <version> <wheel of torch_mydev> <what is expected>
  local site=build/wheels/site
  rm -rf "$site"
  "$(home_of "$1")/.venv/bin/python" -m pip install -q --no-deps --no-compile --target "$site" "$mydev" "$2"
  echo "== torch $1, $(basename "$(dirname "$2")")/$(basename "$2")"
  PYTHONPATH=$PWD/$site "$(home_of "$1")/.venv/bin/python" -P tools/try_wheels.py "$3"
}
for version in "$@"; do
  try "$version" "$joined" works
  for other in "$@"; do
    if [ "${other%.*}" != "${version%.*}" ]; then try "$version" build/wheels/"$other"/*.whl refuses; fi
  done
done
ls -l dist
