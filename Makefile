# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo   set up, then recognise letters that the model never saw
#   make test   set up, then run the tests that take four minutes together
#               (EXTRAS=torch,plot,… adds the optional parts, SEED=1 takes them in a random order);
#               make test-all runs the slow ones

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
EXTRAS ?=
BIN := $(VENV)/bin
comma := ,
# Bytecode is written even where the environment forbids it: tests start many processes.
unexport PYTHONDONTWRITEBYTECODE

# $(call stamp,extras): the file that says that these extras are installed.
stamp = $(VENV)/.installed-$(subst $(comma),-,$(1))
TEST_EXTRAS := dev$(if $(EXTRAS),$(comma)$(EXTRAS))

.PHONY: demo test test-all test-kernels test-pythons test-lowest fuzz lint docs docs-shots dist bench clean

demo: $(call stamp,plot)
	$(BIN)/zslearn demo

SEED ?=
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal \
	$(if $(SEED),--shuffle $(SEED))

test: $(call stamp,$(TEST_EXTRAS))
	$(PYTEST) -m "not slow"

test-all: $(call stamp,$(TEST_EXTRAS))
	$(PYTEST) -m slow

# The quick tests, or those under PATHS, with OpenBLAS kernels of other processors, which round differently.
# Kernels that this processor cannot run are left out; "own" is the one that OpenBLAS chooses here.
has = $(shell grep -qsw $(1) /proc/cpuinfo && echo $(2))
KERNELS ?= $(call has,sse4_2,Nehalem) $(call has,avx2,Haswell) $(call has,avx512f,SkylakeX) own
PATHS ?=
test-kernels: $(call stamp,$(TEST_EXTRAS))
	@set -e; for kernel in $(KERNELS); do echo "OpenBLAS kernel: $$kernel"; \
		if [ $$kernel = own ]; then unset OPENBLAS_CORETYPE; else export OPENBLAS_CORETYPE=$$kernel; fi; \
		$(PYTEST) -m "not slow" $(PATHS); done

# The quick tests under every other Python that is found, on the PATH or among those of pyenv, each in
# an environment of its own. The constraints' build of torch is for 3.11.
PYTHONS ?= 3.12 3.13 3.14 3.15
test-pythons:
	@set -e; for version in $(PYTHONS); do found=; \
		for python in python$$version "$$(pyenv root 2> /dev/null)"/versions/$$version.*/bin/python; do \
			if "$$python" -c "" 2> /dev/null; then found=$$python; fi; done; \
		if [ -z "$$found" ]; then echo "Python $$version: not found"; \
			if [ "$(origin PYTHONS)" = "command line" ]; then exit 1; fi; continue; fi; \
		$(MAKE) test PYTHON="$$found" VENV=.venv-$$version EXTRAS=plot,matlab,dask,serve,words,onnx,zarr; done

# The oldest versions of everything that pyproject.toml allows.
test-lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet uv
	$(VENV)-lowest/bin/uv pip compile --quiet --resolution lowest-direct --extra dev,plot,matlab,dask,serve,words,onnx,zarr \
		pyproject.toml --output-file $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python \
		--requirement $(VENV)-lowest/lowest.txt --editable .
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -q -n 2 \
		--dist worksteal -m "not slow"

# Damaged and hostile files: so many minutes of tests, two at a time, so that about half as many pass.
# First the seeds of `make test`, then new ones; a test whose share ends early tries fewer.
MINUTES ?= 5
fuzz: $(call stamp,$(TEST_EXTRAS))
	ZSLEARN_FUZZ_MINUTES=$(MINUTES) $(PYTEST) tests/fuzz

lint: $(call stamp,$(TEST_EXTRAS))
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(call stamp,docs)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Pictures of the pages in Chromium, which is to be installed beforehand (Debian: apt-get install
# chromium); no extra names playwright, since nothing else needs it.
docs-shots: docs $(VENV)/.playwright
	$(BIN)/python docs/shots.py

# The source archive and the wheel that is built from it, and what an index would say of them.
dist: $(BIN)/python
	$(BIN)/python -m pip install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# Ratios against peers in one run, written to benchmarks/results and drawn for the documentation:
# an estimated 50 minutes on two cores that do nothing else. What is finished stays if it is stopped, and
# ONLY="sync nu_svr" measures some. QUICK=1 takes under three minutes, one thread, and writes to
# benchmarks/results/quick.
QUICK ?=
ONLY ?=
bench: $(call stamp,dev-plot)
	$(BIN)/python benchmarks/run.py $(if $(QUICK),--quick) $(if $(ONLY),--only $(ONLY))

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable ".[$(subst -,$(comma),$*)]"
	@touch $@

$(VENV)/.playwright: $(BIN)/python
	$(BIN)/python -m pip install --quiet playwright
	@touch $@

clean:
	rm -rf $(VENV) dist docs/_build docs/auto_examples docs/generated docs/reference/generated zslearn-demo
