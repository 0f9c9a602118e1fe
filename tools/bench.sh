#!/usr/bin/env bash
# Runs every benchmark: the C++ ones, then the Python ones (interleaved.py is what they share), then `mydev bench`, whose
# page is build/bench.html.
set -euo pipefail
cd "$(dirname "$0")/.."
find build/release/benchmarks/cpp -maxdepth 1 -name 'bench_*' -type f -perm -u+x -print0 | sort -z |
  xargs -0 -r -n 1 sh -c 'echo "== $(basename "$0")"; "$0"'
find benchmarks -maxdepth 1 -name "*.py" ! -name interleaved.py -print0 | sort -z |
  xargs -0 -r -n 1 sh -c 'echo "== $(basename "$0")"; .venv/bin/python "$0"'
echo "== mydev bench"
.venv/bin/python -m mydev bench --html build/bench.html
echo "charts: build/bench.html"
