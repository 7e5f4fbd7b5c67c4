# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo   set up, then recognise letters that the model never saw
#   make test   set up, then run the tests (EXTRAS=torch,plot,… adds the optional parts)

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV ?= .venv
EXTRAS ?=
BIN := $(VENV)/bin
comma := ,

# $(call stamp,extras): the file that says that these extras are installed.
stamp = $(VENV)/.installed-$(subst $(comma),-,$(1))
TEST_EXTRAS := dev$(if $(EXTRAS),$(comma)$(EXTRAS))

.PHONY: demo test lint docs docs-shots bench clean

demo: $(call stamp,plot)
	$(BIN)/zslearn demo

test: $(call stamp,$(TEST_EXTRAS))
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist worksteal

lint: $(call stamp,dev)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(call stamp,docs)
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# Pictures of the pages in Chromium, which is to be installed beforehand (Debian: apt-get install
# chromium); no extra names playwright, since nothing else needs it.
docs-shots: docs $(VENV)/.playwright
	$(BIN)/python docs/shots.py

bench: $(call stamp,dev)
	for script in benchmarks/bench_*.py; do \
		case $$script in *_cuda.py) ;; *) $(BIN)/python $$script || exit 1 ;; esac; \
	done

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: $(BIN)/python pyproject.toml constraints.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[$(subst -,$(comma),$*)]"
	@touch $@

$(VENV)/.playwright: $(BIN)/python
	$(BIN)/python -m pip install --quiet playwright
	@touch $@

clean:
	rm -rf $(VENV) docs/_build docs/auto_examples docs/generated zslearn-demo
