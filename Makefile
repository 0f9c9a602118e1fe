# The project's commands. Each prepares what it needs (tools/setup.sh), so each works on a fresh machine that has make,
# python3 and g++; none rebuilds what did not change.
#
#   make demo      build what PyTorch needs, train two models on the device and compare with the CPU
#   make demo-distributed  train on two processes, by DDP and by FSDP2
#   make demo-jax, demo-torch-xla  train with JAX, and with PyTorch/XLA, and compare with their CPU; the latter in an
#                  environment of its own (1 GB of downloads, once a user)
#   make test      whether it works: the googletests, and one in ten of the Python tests
#   make check     what a change must pass: lint, `make test`, all other passes, sanitizers (tools/passes.py)
#   make sanitize  googletests under ASan + UBSan, and under TSan
#   make lint      formatting, static analysis and types
#   make test-compile-cold  all that torch.compile's tests compile, and all operators, with no compiled code kept
#   make test-fuzz MINUTES=n  each fuzz test for n minutes from a random seed on; the googletests also under the
#                  sanitizers that `make sanitize` has built
#   make conformance  all questions of tests/conformance/breadth.py, where `make check` asks one in six
#   make test-torch-xla  the plugin under PyTorch/XLA, in an environment of its own (1 GB of downloads, once a user)
#   make test-jax JAX=0.12.0.1  the plugin under another version of JAX, in an environment of its own (400 MB)
#   make test-opencl  the driver for OpenCL, on the platform that is there; without one it installs PoCL (100 MB)
#   make test-browser  looks at the pages in headless Chromium, which it installs (300 MB), with a profile of its own
#   make test-cuda-kernels  all portable kernels through NVIDIA's compiler, whose package (60 MB) it adds to .venv
#   make test-ecosystem  programs of users' libraries, whose packages (40 MB) it adds to .venv
#   make test-torch TORCH=2.15.0 [PYTHON=3.13]  build and test with another version of torch, or of Python, in an
#                  environment of its own (some 2 GB)
#   make wheels TORCH="2.13.0 2.14.1"  the wheels of mydev and of torch_mydev for these versions of torch, tried with
#                  each, and the source distributions, in dist/
#   make test-all  everything: the above, all Python tests in each mode of the host driver, all operators on drivers
#                  whose memory the host cannot touch. Several hours
#   make bench     C++ and Python benchmarks, and a page of charts, build/bench.html
#   make build     the package, installed into .venv in editable form
#   make clean     removes what was built; .venv stays, and so does what is kept for other checkouts: objects
#                  (ccache), clang-tidy's verdicts and compiled graphs (~/.cache/torch_mydev)

PYTHON := .venv/bin/python
PYTEST := OMP_WAIT_POLICY=passive $(PYTHON) -m pytest -q -n 2 --dist worksteal
CTEST  := .venv/bin/ctest --output-on-failure -j 2
# PyTorch/XLA's interpreter, with this checkout's package: tools/setup_torch_xla.sh makes both.
TORCH_XLA := PYTHONPATH=$(CURDIR)/build/torch_xla_package build/torch_xla/bin/python
TORCH_XLA_PYTEST := $(TORCH_XLA) -m pytest -q -c /dev/null -p no:cacheprovider --confcutdir tests/torch_xla
MINUTES := 1
JAX := 0.12.0.1
# Python keeps what it compiled: hundreds of interpreters start here, and compiling torch's modules is most of a start.
unexport PYTHONDONTWRITEBYTECODE

.DELETE_ON_ERROR:
.PHONY: demo demo-distributed demo-jax demo-torch-xla test check check-all test-compile-cold conformance test-fuzz test-torch test-torch-xla test-jax test-opencl test-browser test-cuda-kernels test-ecosystem test-all wheels lint sanitize bench build clean setup-% configure-%

demo: setup-demo
	@BUILD_COMPONENT=torch tools/build.sh
	@$(PYTHON) examples/train_digits.py

demo-distributed: setup-demo build
	@OMP_NUM_THREADS=1 $(PYTHON) -m torch.distributed.run --standalone --nproc-per-node=2 \
	  examples/train_digits_distributed.py

demo-jax: setup-jax build
	@MYDEV_DRIVER=$${MYDEV_DRIVER:-host:devices=4} PYTHONPATH=$(CURDIR) $(PYTHON) examples/train_digits_jax.py

demo-torch-xla: setup-build build
	@tools/setup_torch_xla.sh
	@PJRT_DEVICE=MYDEV $(TORCH_XLA) examples/train_digits_torch_xla.py

build: setup-build
	@tools/build.sh

test: setup-test
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTHON) tools/passes.py test

# CHECK=--keep-going goes on after a pass that failed.
check: setup-test setup-lint
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTHON) tools/passes.py check $(CHECK)

check-all: setup-test setup-lint
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTHON) tools/passes.py check --long

test-compile-cold: setup-test
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@rm -rf build/cold
	@XDG_CACHE_HOME=$(CURDIR)/build/cold $(PYTEST) --all-models --compiled-operators=10000 \
	  tests/compile tests/custom_call tests/conformance/test_compiled.py

conformance: setup-test
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTEST) --conformance-share=1 tests/conformance/test_breadth.py

test-fuzz: setup-test
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTEST) --minutes=$(MINUTES) tests/fuzz
	@for build in build/release $(wildcard build/asan build/tsan); do \
	  FUZZ_MINUTES=$(MINUTES) FUZZ_SEED=$$(date +%s) $(CTEST) --test-dir $$build -L fuzz || exit 1; done

test-torch-xla: setup-build build
	@tools/setup_torch_xla.sh
	@$(TORCH_XLA_PYTEST) tests/torch_xla

test-jax: setup-test
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@tools/test_jax.sh $(JAX)

test-browser: setup-browser
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTEST) tests/drivers/test_conform_report.py tests/device/test_report_page.py

test-opencl: setup-opencl
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTEST) tests/drivers/test_opencl.py

test-cuda-kernels: setup-cuda
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTEST) --cuda-kernels tests/drivers/test_cuda_kernels.py

test-ecosystem: setup-ecosystem
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(PYTEST) --ecosystem tests/ecosystem

test-torch: setup-test
	@PYTHON=$(filter 3.%,$(PYTHON)) tools/test_torch.sh $(TORCH)

wheels:
	@tools/build_wheels.sh $(TORCH)

test-all: check-all test-compile-cold conformance test-fuzz test-torch-xla test-jax test-opencl test-browser test-cuda-kernels test-ecosystem
	@for driver in discrete partial core; do \
	  echo "== operators on tests/drivers' $$driver driver"; \
	  MYDEV_DRIVER=$(CURDIR)/build/release/drivers/$${driver}_driver.so $(PYTEST) tests/conformance/test_opinfo.py || exit 1; done
	@for mode in host:async host:guarded host:devices=2 host:async,guarded,devices=2; do \
	  echo "== MYDEV_DRIVER=$$mode"; MYDEV_DRIVER=$$mode $(PYTEST) tests || exit 1; done

lint: setup-lint
	@tools/lint.sh

sanitize: setup-test
	@tools/sanitize.sh address,undefined build/asan
	@tools/sanitize.sh thread build/tsan

bench: setup-bench
	@tools/build.sh -DMYDEV_BUILD_BENCHMARKS=ON
	@tools/bench.sh

clean:
	rm -rf build dist *.egg-info mydev/lib mydev/include torch_mydev/lib torch_mydev/include

setup-%:
	@tools/setup.sh $*
