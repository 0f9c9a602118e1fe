#!/usr/bin/env bash
# Builds and tests with another version of torch, or of Python: [PYTHON=3.13] tools/test_torch.sh <version> [<test>...]
#
# Where and how, tools/torch_build.sh says. torchvision's operators are tested here, where it has been published. Models of
# tests/support/models.py, torch_xla, the documentation, JAX, and the contracts of portable kernels, which other versions
# have or which do not depend on torch's, are left out.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?which version of torch, as in tools/test_torch.sh 2.14.1}
shift
tools/torch_build.sh "$version" -DMYDEV_BUILD_TESTS=ON
cd "build/torch-$version${PYTHON:+-python$PYTHON}"
if [ $# = 0 ]; then
  set -- tests/device tests/drivers tests/ops tests/train tests/custom_call tests/compile/test_compile.py tests/compile/test_programs.py \
    tests/ecosystem/test_flex_attention.py --ignore=tests/train/test_models.py --ignore=tests/device/test_graph_training.py \
    --ignore=tests/drivers/test_models_of_drivers.py \
    --deselect=tests/drivers/test_portable_kernels.py::test_a_kernel_does_what_its_contract_says
  .venv/bin/python -c 'import torchvision' 2>/dev/null && set -- "$@" tests/ecosystem/test_torchvision_operators.py
fi
OMP_WAIT_POLICY=passive .venv/bin/python -m pytest -q --bar -n 2 --dist worksteal "$@"
