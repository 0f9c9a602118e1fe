#!/usr/bin/env bash
# Builds with another version of torch, in an environment of its own:
#   tools/torch_build.sh <version> [<option for CMake>...]
#
# Everything lies in build/torch-<version>: a copy of the sources, since a build is in place, with its .venv. A second
# run installs nothing and compiles what changed.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?which version of torch, as in tools/torch_build.sh 2.14.1}
shift
copy=build/torch-$version
mkdir -p "$copy"

# What git has or would take, where it is newer; what is gone here goes there too.
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
[ -x .venv/bin/python ] || python3 -m venv .venv
installed=$(echo torchvision && cat requirements/torch.txt requirements/build.txt requirements/test.txt)
if [ "$(cat .venv/installed-for-tests 2>/dev/null)" != "$installed" ]; then
  echo "torch_build: installing torch $version into $copy/.venv (some GB, some minutes)"
  .venv/bin/python -m pip install -q --no-compile "torch==$version" torchvision
  .venv/bin/python -m pip install -q --no-compile -r requirements/build.txt
  grep -E '^(pytest|pytest-xdist|expecttest)==' requirements/test.txt |
    xargs .venv/bin/python -m pip install -q --no-compile
  echo "$installed" >.venv/installed-for-tests
fi
[ -e "$OLDPWD/.venv/ducc0" ] && ln -sfn "$OLDPWD/.venv/ducc0" .venv/ducc0
export CCACHE_BASEDIR=$PWD
tools/build.sh "$@"
