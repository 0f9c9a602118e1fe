#!/usr/bin/env bash
# Builds both packages in place and installs them into .venv in editable form. Arguments are options for CMake.
set -euo pipefail
cd "$(dirname "$0")/.."
export CMAKE_ARGS="${CMAKE_ARGS:-} $*"

.venv/bin/python setup.py --quiet build_ext --inplace
# An editable install only writes metadata: the entry points, the command and the path to this directory. In the mode
# `compat` the path is in a file that type checkers read, too. The command is mydev's, and an older torch_mydev would
# take it away with itself.
metadata=$(cat pyproject.toml packaging/mydev/pyproject.toml setup.py && pwd)
if [ "$(cat .venv/installed-package 2>/dev/null)" != "$metadata" ]; then
  for project in . packaging/mydev; do
    .venv/bin/python -m pip install -q --no-build-isolation --no-deps --config-settings editable_mode=compat \
      -e "$project"
  done
  echo "$metadata" >.venv/installed-package
fi
