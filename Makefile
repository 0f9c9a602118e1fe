# The project's commands. Each prepares what it needs (tools/setup.sh), so each works on a fresh machine that has make,
# python3 and g++; none rebuilds what did not change.
#
#   make demo      build, then train two models on the device and compare with the CPU
#   make demo-distributed  train on two processes, by DDP and by FSDP2
#   make test      lint, build, googletests, Python tests in every mode of the host driver
#   make conformance-compile  every operator of PyTorch's database under torch.compile: some ten minutes
#   make lint      formatting, static analysis and types
#   make sanitize  googletests under ASan + UBSan, and under TSan
#   make bench     C++ and Python benchmarks
#   make build     the package, installed into .venv in editable form
#   make clean     removes what was built; .venv stays

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest -q -n 2 --dist worksteal
CMAKE  := $(PYTHON) -m cmake
CTEST  := .venv/bin/ctest
# Files whose behaviour depends on how the driver runs work; they are tested in each of the driver's modes.
MODE_TESTS := $(wildcard $(patsubst %,tests/*/test_%.py,runtime device memory stream copy autograd fallback multiprocessing distributed_training \
  custom_call ffi_call))
MODES := host:async host:guarded host:devices=2

.DELETE_ON_ERROR:
.PHONY: demo demo-distributed test conformance-compile lint sanitize bench build clean setup-% configure-%

demo: setup-demo build
	@$(PYTHON) examples/train_digits.py

demo-distributed: setup-demo build
	@OMP_NUM_THREADS=1 $(PYTHON) -m torch.distributed.run --standalone --nproc-per-node=2 \
	  examples/train_digits_distributed.py

build: setup-build
	@tools/build.sh

test: lint setup-test
	@tools/build.sh -DMYDEV_BUILD_TESTS=ON
	@$(CTEST) --test-dir build/release --output-on-failure -j 2
	@for mode in $(MODES); do \
	  echo "== MYDEV_DRIVER=$$mode"; MYDEV_DRIVER=$$mode $(PYTEST) $(MODE_TESTS) || exit 1; done
	@echo "== tests that need two devices"; MYDEV_DRIVER=host:devices=2 $(PYTEST) -m devices tests
	@echo "== MYDEV_DRIVER unset"; env -u MYDEV_DRIVER $(PYTEST) tests

conformance-compile: setup-test build
	@$(PYTEST) --compiled-operators=10000 tests/conformance/test_compiled.py

lint: setup-lint
	@tools/lint.sh

sanitize: setup-test
	@tools/sanitize.sh address,undefined build/asan
	@tools/sanitize.sh thread build/tsan

bench: setup-bench
	@tools/build.sh -DMYDEV_BUILD_BENCHMARKS=ON
	@tools/bench.sh

clean:
	rm -rf build dist torch_mydev.egg-info torch_mydev/lib torch_mydev/include torch_mydev/_C*.so

setup-%:
	@tools/setup.sh $*
