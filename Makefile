# Every target sets itself up: it makes a virtual environment and installs what it needs, once.
#
#   make demo | test | test-all | fuzz | lint | bench | clean | distclean
#
# Variables: PYTHON (3.11 or later), VENV, PYTEST_ARGS, X64_ARGS, LEAKS_ARGS, FUZZ_ARGS, DEMO_ARGS.

PYTHON ?= python3
VENV ?= .venv
# For all passes of the tests; two workers suit two cores.
PYTEST_ARGS ?= -n 2 --dist worksteal
# What the second pass, with 64-bit types (a part of the suite, in some placements), and the third, with tracer-leak checks, select.
X64_ARGS ?= $(addprefix tests/test_,elementwise.py reductions.py einsum.py nn.py) -m "not slow and not full" -k "not explicit and not crossed and not two-"
LEAKS_ARGS ?= $(shell grep -l "mark.leaks" tests/test_*.py 2>/dev/null) -m leaks
# For example --minutes 60, --programs 2000, --layouts 8, --seed 1, --keep FOLDER.
FUZZ_ARGS ?= --minutes 10
DEMO_ARGS ?=

PY := $(VENV)/bin/python
# The benchmarks that are programs; the other modules are shared by these.
BENCHMARKS = $(shell grep -l '^if __name__ == "__main__":' benchmarks/*.py 2>/dev/null)

.PHONY: help demo test test-suite test-x64 test-leaks test-all fuzz lint bench clean distclean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make demo        train one model under several partitionings (examples/digits.py)"
	@echo "make test        lint, then all tests: test-suite, test-x64, test-leaks"
	@echo "make test-suite  the tests and the doctests, but those marked 'leaks'"
	@echo "make test-x64    a part of the tests, with JAX_ENABLE_X64=1"
	@echo "make test-leaks  the tests marked 'leaks', with JAX_CHECK_TRACER_LEAKS=1"
	@echo "make test-all    the tests marked 'full', which 'make test' leaves out: whole matrices"
	@echo "make fuzz        random programs in random layouts against an interpreter of its own (FUZZ_ARGS)"
	@echo "make lint        ruff, and mypy in strict mode"
	@echo "make bench       every program in benchmarks/"
	@echo "make clean       remove caches, build outputs and the examples' outputs"
	@echo "make distclean   the same, and $(VENV)"

demo: $(VENV)/.ready-examples
	$(PY) examples/digits.py $(DEMO_ARGS)

test: lint test-suite test-x64 test-leaks

test-suite: $(VENV)/.ready-test
	$(PY) -m pytest $(PYTEST_ARGS) -m "not leaks and not full"

test-x64: $(VENV)/.ready-test
	JAX_ENABLE_X64=1 $(PY) -m pytest $(PYTEST_ARGS) $(X64_ARGS)

test-leaks: $(VENV)/.ready-test
	JAX_CHECK_TRACER_LEAKS=1 $(PY) -m pytest $(PYTEST_ARGS) $(LEAKS_ARGS)

test-all: $(VENV)/.ready-test
	$(PY) -m pytest $(PYTEST_ARGS) -m full

fuzz: $(VENV)/.ready-test
	$(PY) -m tests.fuzz $(FUZZ_ARGS)

lint: $(VENV)/.ready-lint
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

bench: $(VENV)/.ready
	@test -n "$(BENCHMARKS)" || { echo "There is no program in benchmarks/." >&2; exit 1; }
	@set -e; for program in $(BENCHMARKS); do echo "== $$program"; $(PY) $$program; done

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis examples/out site
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV)

# --- the virtual environment ---------------------------------------------------------------------
# The stamp is written last, so that an interrupted set-up starts again.

$(VENV)/.created:
	@command -v $(PYTHON) >/dev/null || \
	  { echo "namedax needs Python 3.11 or later, but there is no '$(PYTHON)'. Name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "namedax needs Python 3.11 or later, but '$(PYTHON)' is $$($(PYTHON) --version 2>&1). Name another: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.ready: pyproject.toml $(VENV)/.created
	$(PY) -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.ready-%: pyproject.toml $(VENV)/.created
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@
