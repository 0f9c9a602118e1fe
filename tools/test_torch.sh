#!/usr/bin/env bash
# Builds and tests with another version of torch, or of Python: [PYTHON=3.13] tools/test_torch.sh <version> [<test>...]
#
# tools/torch_build.sh says where and how. The outcome is kept in build/runs, and `tools/list_status.py --record` takes
# it into docs/status.md. torchvision's operators are tested here, where it has been published. The models of
# tests/support/models.py, torch_xla, the documentation, JAX, and the contracts of portable kernels are left out: they
# have versions of their own, or do not depend on torch's.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?which version of torch, as in tools/test_torch.sh 2.14.1}
shift
command="${PYTHON:+PYTHON=$PYTHON }tools/test_torch.sh $version${*:+ $*}"
runs=$PWD/build/runs
tools/torch_build.sh "$version" -DMYDEV_BUILD_TESTS=ON
cd "build/torch-$version${PYTHON:+-python$PYTHON}"
if [ $# = 0 ]; then
  command="make test-torch TORCH=$version"
  set -- tests/device tests/drivers tests/ops tests/train tests/custom_call tests/compile/test_compile.py tests/compile/test_programs.py \
    tests/ecosystem/test_flex_attention.py --ignore=tests/train/test_models.py --ignore=tests/device/test_graph_training.py \
    --ignore=tests/drivers/test_models_of_drivers.py \
    --deselect=tests/drivers/test_portable_kernels.py::test_a_kernel_does_what_its_contract_says
  .venv/bin/python -c 'import torchvision' 2>/dev/null && set -- "$@" tests/ecosystem/test_torchvision_operators.py
fi
python=$(.venv/bin/python -c 'import sys; print(*sys.version_info[:2], sep=".")')
OMP_WAIT_POLICY=passive .venv/bin/python -m pytest -q --bar -n 2 --dist worksteal \
  --junit-xml="$runs/torch-$version-python$python.xml" \
  -o junit_suite_name="PyTorch $version, Python $python: $command" "$@"
