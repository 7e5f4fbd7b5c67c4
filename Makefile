# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo   set up, then recognise letters that the model never saw
#   make test   set up, then run the quick tests, about four minutes
#               (EXTRAS=torch,plot,… adds the optional parts, SEED=1 runs them in random order);
#               make test-all runs the slow tests

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
EXTRAS ?=
BIN := $(VENV)/bin
comma := ,
# Tests start many processes, so bytecode is cached even if the environment disables that.
unexport PYTHONDONTWRITEBYTECODE

# $(call stamp,extras): the file that marks these extras as installed.
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

# The quick tests, or those under PATHS, with the OpenBLAS kernels of other processors, which round differently.
# Skips kernels that this processor does not support; "own" is the kernel that OpenBLAS chooses here.
has = $(shell grep -qsw $(1) /proc/cpuinfo && echo $(2))
KERNELS ?= $(call has,sse4_2,Nehalem) $(call has,avx2,Haswell) $(call has,avx512f,SkylakeX) own
PATHS ?=
test-kernels: $(call stamp,$(TEST_EXTRAS))
	@set -e; for kernel in $(KERNELS); do echo "OpenBLAS kernel: $$kernel"; \
		if [ $$kernel = own ]; then unset OPENBLAS_CORETYPE; else export OPENBLAS_CORETYPE=$$kernel; fi; \
		$(PYTEST) -m "not slow" $(PATHS); done

# The quick tests with every other Python on the PATH or in pyenv, each in its own environment, without
# torch: the pinned build is for Python 3.11.
PYTHONS ?= 3.12 3.13 3.14 3.15
test-pythons:
	@set -e; for version in $(PYTHONS); do found=; \
		for python in python$$version "$$(pyenv root 2> /dev/null)"/versions/$$version.*/bin/python; do \
			if "$$python" -c "" 2> /dev/null; then found=$$python; fi; done; \
		if [ -z "$$found" ]; then echo "Python $$version: not found"; \
			if [ "$(origin PYTHONS)" = "command line" ]; then exit 1; fi; continue; fi; \
		$(MAKE) test PYTHON="$$found" VENV=.venv-$$version EXTRAS=plot,matlab,dask,serve,words,onnx,zarr; done

# The quick tests with the oldest dependencies that pyproject.toml allows.
test-lowest:
	$(PYTHON) -m venv $(VENV)-lowest
	$(VENV)-lowest/bin/python -m pip install --quiet uv
	$(VENV)-lowest/bin/uv pip compile --quiet --resolution lowest-direct --extra dev,plot,matlab,dask,serve,words,onnx,zarr \
		pyproject.toml --output-file $(VENV)-lowest/lowest.txt
	$(VENV)-lowest/bin/uv pip install --quiet --python $(VENV)-lowest/bin/python \
		--requirement $(VENV)-lowest/lowest.txt --editable .
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(VENV)-lowest/bin/python -m pytest -q -n 2 \
		--dist worksteal -m "not slow"

# Tests with damaged and hostile files for about MINUTES minutes of processor time: first the seeds of
# `make test`, then new ones.
MINUTES ?= 5
fuzz: $(call stamp,$(TEST_EXTRAS))
	ZSLEARN_FUZZ_MINUTES=$(MINUTES) $(PYTEST) tests/fuzz

lint: $(call stamp,$(TEST_EXTRAS))
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(call stamp,docs)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Screenshots of the pages in Chromium, which must be installed (Debian: apt-get install chromium).
# Playwright is needed for this alone, so no extra contains it.
docs-shots: docs $(VENV)/.playwright
	$(BIN)/python docs/shots.py

# The source archive, the wheel built from it, and twine's checks of both.
dist: $(BIN)/python
	$(BIN)/python -m pip install --quiet build twine
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

# Benchmarks relative to peers, written to benchmarks/results and plotted for the documentation: an
# estimated 50 minutes on two idle cores. Finished benchmarks survive an interruption;
# ONLY="sync nu_svr" runs some of them. QUICK=1 takes under three minutes on one thread and writes to
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
