#!/usr/bin/env bash
# Every static check: layout, lints and types. Changes nothing.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=.venv/bin

find csrc mydev tests benchmarks examples \( -name '*.cpp' -o -name '*.h' -o -name '*.c' \) -print0 2>/dev/null |
  xargs -0 "$bin/clang-format" --dry-run -Werror
"$bin/python" -m ruff check --quiet .
"$bin/python" -m ruff format --quiet --check .
"$bin/python" -m mypy
"$bin/python" -m mypy --strict examples/typed.py
"$bin/python" tools/clang_tidy.py
echo "lint: all is well"
