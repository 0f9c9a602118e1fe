#!/usr/bin/env bash
# Tests the plugin with another version of JAX: tools/test_jax.sh <version> [<option for pytest>...]
#
# The environment lies in build/jax-<version>, without torch: the plugin is this checkout's build, which needs neither
# torch nor this environment's Python. JAX 0.11 and newer need Python 3.12: the newest of python3.12 to python3.14 that is
# in $PATH or among pyenv's versions is taken, or $JAX_PYTHON. The outcome is kept in build/runs, and
# `tools/list_status.py --record` takes it into docs/status.md.
set -euo pipefail
cd "$(dirname "$0")/.."
version=${1:?which version of JAX, as in tools/test_jax.sh 0.12.0.1}
shift

find_python() { case $version in 0.10*) echo python3 ;; *) tools/find_python.sh 3.14 3.13 3.12 ;; esac; }

venv=build/jax-$version
requirements="jax==$version jaxlib==$version $(sed -n 's/^\(optax==.*\)/\1/p' requirements/jax.txt)"
requirements+=" $(grep -hE '^(pytest|pytest-xdist|scikit-learn)==' requirements/{test,demo}.txt | tr '\n' ' ')"
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$requirements" ]; then
  python=${JAX_PYTHON:-$(find_python)}
  echo "test_jax: installing jax $version for $("$python" --version) into $venv (400 MB)"
  "$python" -m venv --clear "$venv"
  # shellcheck disable=SC2086 # several requirements
  "$venv/bin/python" -m pip install -q --no-compile $requirements
  echo "$requirements" >"$venv/installed"
fi
command="tools/test_jax.sh $version $*"
if [ $# = 0 ]; then
  command="make test-jax JAX=$version"
  set -- tests/pjrt
fi
python=$("$venv/bin/python" -c 'import sys; print(*sys.version_info[:2], sep=".")')
PYTHONPATH=$PWD:$PWD/tests OMP_WAIT_POLICY=passive \
  "$venv/bin/python" -m pytest -q -n 2 --dist worksteal -c /dev/null -p no:cacheprovider --confcutdir tests/pjrt \
  --junit-xml="build/runs/jax-$version-python$python.xml" \
  -o junit_suite_name="JAX $version, Python $python: $command" "$@"
