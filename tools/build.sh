#!/usr/bin/env bash
# Builds the package in place and installs it into .venv in editable form. Arguments are options for CMake.
set -euo pipefail
cd "$(dirname "$0")/.."
export CMAKE_ARGS="${CMAKE_ARGS:-} $*"

.venv/bin/python setup.py --quiet build_ext --inplace
# An editable install only writes metadata: the entry point, the command and the path to this directory. In the mode
# `compat` the path is in a file that type checkers read, too.
metadata=$(cat pyproject.toml setup.py && pwd)
if [ "$(cat .venv/installed-package 2>/dev/null)" != "$metadata" ]; then
  .venv/bin/python -m pip install -q --no-build-isolation --no-deps \
    --config-settings editable_mode=compat -e .
  echo "$metadata" >.venv/installed-package
fi
