#!/usr/bin/env bash
# Prints the first of these versions of Python that this machine has, in $PATH or among pyenv's: tools/find_python.sh
# 3.14 3.13. Fails, and says so, where it has none.
set -euo pipefail
for version in "$@"; do
  for found in "$(command -v "python$version" || true)" "$HOME"/.pyenv/versions/*/bin/"python$version"; do
    if "$found" --version >/dev/null 2>&1; then echo "$found" && exit; fi
  done
done
echo "find_python: none of these versions of Python is in \$PATH or among pyenv's: $*; install one" >&2
exit 1
