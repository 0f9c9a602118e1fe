#!/usr/bin/env bash
# Prepares PyTorch/XLA with torch of its version: tools/setup_torch_xla.sh [--if-present]
#
# The environment takes some 1 GB of downloads. It lies in the user's cache folder, by the content of its requirements,
# and all clones share it; build/torch_xla leads to it. This clone's wheels are unpacked into build/torch_xla_package, for
# PYTHONPATH. With --if-present the script makes no environment, and exits with 77 where there is none. Wants .venv, as
# tools/setup.sh makes it.
set -euo pipefail
cd "$(dirname "$0")/.."

requirements=requirements/torch_xla.txt
content=$({ python3 -VV && cat "$requirements"; } | sha256sum | cut -c1-12)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/torch_mydev
venv=$cache/torch_xla-$content
if [ ! -e "$venv/installed" ]; then
  if [ "${1:-}" = --if-present ]; then
    echo "skipped: PyTorch/XLA's environment is absent; make test-torch-xla makes it"
    exit 77
  fi
  mkdir -p "$cache"
  exec 9>"$venv.lock"
  flock 9 # another clone may be at it
  if [ ! -e "$venv/installed" ]; then
    echo "setup: installing PyTorch/XLA into $venv, about 1 GB of downloads"
    python3 -m venv --clear "$venv"
    "$venv/bin/python" -m pip install -q --no-deps --no-compile -r "$requirements"
    # The only torch of that version is linked with NVIDIA's libraries.
    libraries=$(echo "$venv"/lib/python3*/site-packages/torch/lib)
    "$venv/bin/python" tools/stub_libraries.py "$libraries" "$libraries"
    touch "$venv/installed"
  fi
fi
mkdir -p build
ln -sfn "$venv" build/torch_xla
rm -rf build/wheel build/torch_xla_package
.venv/bin/python -m pip wheel -q --no-build-isolation --no-deps -w build/wheel . packaging/mydev
.venv/bin/python -m pip install -q --no-deps --no-compile --target build/torch_xla_package build/wheel/*.whl
