#!/usr/bin/env bash
# Prepares build/torch_xla: a virtual environment with PyTorch/XLA, torch of its version and this project's wheel. Some
# 1 GB of downloads, once; later only the wheel is made again. Wants .venv, as tools/setup.sh makes it.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=build/torch_xla
requirements=requirements/torch_xla.txt
if ! cmp -s "$requirements" "$venv/installed"; then
  echo "setup: installing PyTorch/XLA into $venv, about 1 GB"
  python3 -m venv --clear "$venv"
  "$venv/bin/python" -m pip install -q -r "$requirements"
  "$venv/bin/python" -m pip install -q --no-deps torch==2.9.0 torch_xla==2.9.0 torchvision==0.24.0 timm==1.0.31
  # The only torch of that version is linked with NVIDIA's libraries.
  libraries=$(echo "$venv"/lib/python3*/site-packages/torch/lib)
  "$venv/bin/python" tools/stub_libraries.py "$libraries" "$libraries"
  cp "$requirements" "$venv/installed"
fi
rm -rf build/wheel
.venv/bin/python -m pip wheel -q --no-build-isolation --no-deps -w build/wheel .
"$venv/bin/python" -m pip install -q --no-deps --force-reinstall build/wheel/*.whl
