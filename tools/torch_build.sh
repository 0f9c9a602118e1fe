#!/usr/bin/env bash
# Builds with another version of torch, or of Python, in an environment of its own:
#   [PYTHON=3.13] tools/torch_build.sh <version> [<option for CMake>...]
#
# Everything lies in build/torch-<version>[-python<version>]: a copy of the sources, since a build is in place, with its
# .venv. A second run installs nothing and compiles what changed.
#
# Many versions of torch are published with CUDA alone. NVIDIA's libraries that they need, several GB, are not
# installed: stand-ins (tools/stub_libraries.py) take their place, so that torch loads and finds no GPU.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?which version of torch, as in tools/torch_build.sh 2.14.1}
shift
copy=build/torch-$version${PYTHON:+-python$PYTHON}
mkdir -p "$copy"

# Copies the files that git has or would take, if they differ. Files that are gone here are removed there, too.
git ls-files -z --cached --others --exclude-standard | while IFS= read -r -d '' file; do
  if [ -e "$file" ] && ! cmp -s "$file" "$copy/$file"; then
    mkdir -p "$copy/$(dirname "$file")"
    cp -p "$file" "$copy/$file"
  fi
done
(cd "$copy" && find csrc mydev pjrt_mydev torch_mydev tests cmake -type f \( -name '*.cpp' -o -name '*.h' -o -name '*.py' \)) 2>/dev/null |
  while IFS= read -r file; do [ -e "$file" ] || rm "$copy/$file"; done

cd "$copy"
echo "torch==$version" >requirements/torch.txt
[ -x .venv/bin/python ] || "$(tools/find_python.sh "${PYTHON:-3}")" -m venv .venv
installed=$(cat requirements/{torch,build,test}.txt tools/torch_build.sh)
if [ "$(cat .venv/installed-for-tests 2>/dev/null)" != "$installed" ]; then
  echo "torch_build: installing torch $version into $copy/.venv (500 MB where it is published with CUDA alone)"
  install() { .venv/bin/python -m pip install -q --no-compile "$@"; }
  install --no-deps "torch==$version"
  # shellcheck disable=SC2046 # several requirements; what has a marker is for CUDA or optional
  install $(.venv/bin/python -c 'import importlib.metadata as m; print(*(r for r in m.requires("torch") if ";" not in r))')
  install -r requirements/build.txt
  # shellcheck disable=SC2046
  install $(grep -hE '^(pytest|pytest-xdist|expecttest|scikit-learn|tqdm|pillow)==' requirements/*.txt | sort -u)
  # torchvision's minor version is torch's and 15, its patch torch's. It may be published later.
  IFS=. read -r major minor patch <<<"${version%%+*}"
  install --no-deps "torchvision==0.$((minor + 15)).$patch" || echo "torch_build: there is no torchvision for torch $version"
  libraries=$(echo .venv/lib/python3*/site-packages/torch/lib)
  .venv/bin/python tools/stub_libraries.py "$libraries" "$libraries"
  echo "$installed" >.venv/installed-for-tests
fi
[ -e "$OLDPWD/.venv/ducc0" ] && ln -sfn "$OLDPWD/.venv/ducc0" .venv/ducc0
export CCACHE_BASEDIR=$PWD
tools/build.sh "$@"
