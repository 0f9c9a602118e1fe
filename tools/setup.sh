#!/usr/bin/env bash
# Prepares a machine for one of the project's commands:
# tools/setup.sh build|demo|jax|test|opencl|browser|cuda|ecosystem|lint|bench|wheel
#
# System packages come by apt, and only where what they bring is absent; Python packages go into .venv, in the versions
# that requirements/ pins. Packages that are there already are left alone, so a second run does next to nothing.
set -euo pipefail
cd "$(dirname "$0")/.."

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup: neither root nor sudo; run this as root, then try again: $*" >&2
    exit 1
  fi
}

apt_updated=
install_package() { # <package>
  if ! command -v apt-get >/dev/null; then
    echo "setup: $1 (its Debian name) is missing, and there is no apt-get; please install it" >&2
    exit 1
  fi
  if [ -z "$apt_updated" ]; then
    as_root apt-get update -qq
    apt_updated=yes
  fi
  echo "setup: installing $1"
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null
}

need_command() { command -v "$1" >/dev/null || install_package "$2"; }
need_header() { echo "#include <$1>" | g++ -std=c++20 -fsyntax-only -x c++ - 2>/dev/null || install_package "$2"; }

# For what only makes things faster: goes on without it where it cannot be installed.
prefer_command() { # <command> <package>
  command -v "$1" >/dev/null && return
  if { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; } && (install_package "$2"); then return; fi
  echo "setup: without $1 every build compiles everything; it is worth installing" >&2
}

make_venv() {
  python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' || {
    echo "setup: Python 3.10 or newer is needed; python3 is $(python3 -V)" >&2
    exit 1
  }
  # Debian splits venv's ensurepip, and Python.h, off into packages of their own.
  python3 -c 'import ensurepip, venv' 2>/dev/null || install_package python3-venv
  python3 -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))' ||
    install_package python3-dev
  [ -x .venv/bin/python ] && .venv/bin/python -m pip --version >/dev/null 2>&1 || python3 -m venv --clear .venv
}

# Installs what a requirements file names, once for each content of that file and of those that it includes.
pip_install() { # <name>
  local file=requirements/$1.txt stamp=.venv/installed-$1
  local content
  content=$(cat requirements/torch.txt "$file" requirements/{demo,models,jax}.txt)
  [ "$(cat "$stamp" 2>/dev/null)" = "$content" ] && return
  echo "setup: installing $file into .venv"
  # Python compiles what is imported, when it is: a small part of these packages.
  if [ "$1" = torch ]; then
    .venv/bin/python -m pip install -q --no-compile "$(cat "$file")"
  elif [ "$1" = ecosystem ]; then # the file names all that is needed; what its packages name would be another torch
    .venv/bin/python -m pip install -q --no-compile --no-deps -r "$file"
    # These are for a torch with CUDA, and do not load; torchaudio does without them where they are not there.
    rm -f .venv/lib/python3*/site-packages/torchaudio/lib/*.so
  else
    .venv/bin/python -m pip install -q --no-compile -r "$file"
  fi
  echo "$content" >"$stamp"
}

# ducc0's sources, of which cmake/ducc.cmake compiles the Fourier transforms. Its Python package is not built.
fetch_ducc() {
  cmp -s requirements/ducc.txt .venv/ducc0/fetched && return
  echo "setup: fetching the sources that requirements/ducc.txt names"
  rm -rf .venv/ducc0 .venv/ducc0-archive
  .venv/bin/python -m pip download -q --no-deps --no-binary ducc0 --require-hashes -r requirements/ducc.txt \
    -d .venv/ducc0-archive
  mkdir .venv/ducc0
  tar -xzf .venv/ducc0-archive/ducc0-*.tar.gz --strip-components=1 -C .venv/ducc0
  rm -r .venv/ducc0-archive
  cp requirements/ducc.txt .venv/ducc0/fetched
}

# A platform of OpenCL, of any vendor; else PoCL, which makes a device of the processor.
need_opencl() {
  tools/opencl_present.sh >/dev/null && return
  install_package pocl-opencl-icd
  install_package ocl-icd-libopencl1
}

# Looks at pages; the tests go without it, and say so, where it cannot be installed.
prefer_browser() {
  command -v chromium >/dev/null && return
  if { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; } && (install_package chromium); then return; fi
  echo "setup: without chromium no page is looked at" >&2
}

purpose=${1:?what for: build, demo, jax, test, opencl, browser, cuda, ecosystem, lint, bench or wheel}
need_command python3 python3
need_command g++ g++
prefer_command ccache ccache
make_venv
pip_install torch
pip_install build
# Only the plugin of JAX and PyTorch/XLA transforms by ducc0.
[ "$purpose" = demo ] || fetch_ducc
case $purpose in
  build) ;;
  demo) pip_install demo ;;
  jax) pip_install jax ;;
  lint) pip_install lint ;;
  wheel) pip_install wheel ;;
  test)
    need_header gtest/gtest.h libgtest-dev
    pip_install test
    ;;
  opencl)
    need_header gtest/gtest.h libgtest-dev
    pip_install test
    need_opencl
    ;;
  browser)
    need_header gtest/gtest.h libgtest-dev
    pip_install test
    prefer_browser
    ;;
  cuda)
    need_header gtest/gtest.h libgtest-dev
    pip_install test
    pip_install cuda
    ;;
  ecosystem)
    need_header gtest/gtest.h libgtest-dev
    pip_install test
    pip_install ecosystem
    ;;
  bench)
    need_header benchmark/benchmark.h libbenchmark-dev
    pip_install models
    pip_install jax
    ;;
  *)
    echo "setup: unknown purpose '$purpose'; one of build, demo, jax, test, opencl, browser, cuda, ecosystem, lint, bench, wheel" >&2
    exit 2
    ;;
esac
