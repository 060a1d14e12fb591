# Every target sets itself up: it makes a virtual environment and installs what it needs, once.
#
#   make demo | test | test-all | test-versions | fuzz | lint | stubs | docs | docs-check | bench | clean | distclean
#
# Variables: PYTHON (3.11 or later), VENV, PYTEST_ARGS, X64_ARGS, LEAKS_ARGS, FULL_ARGS, OPTIMIZED_ARGS, FLAGS_ARGS, FUZZ_ARGS, DEMO_ARGS,
# VERSIONS, JAX_VERSIONS, NEWEST, OLDEST.

PYTHON ?= python3
# Every other Python has a virtual environment of its own: make test PYTHON=python3.13.
VENV ?= .venv$(patsubst %,-%,$(filter-out python3,$(notdir $(PYTHON))))
# What make test-versions looks for: on the PATH, among pyenv's versions, and among those of uv.
VERSIONS ?= 3.11 3.12 3.13 3.14
# And with which JAX besides that which pip takes: images for GPUs have 0.11.2.
JAX_VERSIONS ?= 3.12:0.11.2
# The Pythons of the newest JAX, the first of which that is here is taken; and the Python of the oldest JAX that is supported.
NEWEST ?= 3.13 3.12
OLDEST ?= 3.11
# Two workers and several passes read the same modules, so each is compiled once, also where it was switched off.
unexport PYTHONDONTWRITEBYTECODE
# For all passes of the tests; two workers suit two cores.
PYTEST_ARGS ?= -n 2 --dist worksteal
# What the passes with 64-bit types, with tracer-leak checks, and with the optimisations that users have, select.
X64_ARGS ?= $(addprefix tests/ops/,elementwise/test_elementwise.py reduction/test_reductions.py contraction/test_einsum.py nn/test_nn.py) --tier fast
LEAKS_ARGS ?= $(shell grep -rl --include="test_*.py" "mark.leaks" tests 2>/dev/null) -m leaks
# What make test-full leaves out: tests of files, which no JAX changes, and which make test has run.
FULL_ARGS ?= $(foreach name,house make prose public_jax reference site_check site_pages,--ignore=tests/house/test_$(name).py)
# Compiled as users compile: a part of the tests. And under each flag that later versions of JAX will have switched on, some of the tests
# of what these flags change.
OPTIMIZED_ARGS ?= tests/ops tests/whole --tier full --one-in 80
FLAGS_ARGS ?= tests/ops/loops tests/programs $(addprefix tests/xmap/test_,coming_jax.py transformations.py) --tier fast --one-in 6
# For example --minutes 60, --programs 2000, --layouts 8, --seed 1, --keep FOLDER.
FUZZ_ARGS ?= --minutes 10
# Always the same programs: a test that fails has to fail again. `make fuzz` draws others each time.
TEST_FUZZ_ARGS ?= --minutes 3 --programs 30 --seed 1000000
# Infinities, NaN and numbers near the ends of a dtype.
TEST_SPECIAL_ARGS ?= --special --minutes 2 --programs 60 --seed 1000000
DEMO_ARGS ?=

PY := $(VENV)/bin/python
comma := ,
RUFF = $(PY) -m ruff check . && $(PY) -m ruff format --check . && $(PY) -m codespell_lib
FAST = $(PY) -m pytest $(PYTEST_ARGS) --tier fast
# The benchmarks that are programs; the other modules are shared by these.
BENCHMARKS = $(shell grep -l '^if __name__ == "__main__":' benchmarks/*.py 2>/dev/null)

.PHONY: help demo test test-fast test-all test-full test-products test-x64 test-leaks test-reference test-optimized test-flags test-fuzz test-versions fuzz lint ruff stubs docs docs-check bench bench-check bench-counts release-check clean distclean
.NOTPARALLEL:
.DELETE_ON_ERROR:

help:
	@echo "make demo        train one model under several partitionings (examples/digits.py)"
	@echo "make test        lint, then test-fast: what to run before a commit, six minutes on two cores"
	@echo "make test-fast   every operation, law and message, in some placements each, and the doctests"
	@echo "make test-all    the site; on the newest JAX test-full and the targets below it to test-fuzz; test-fast on the oldest, unless make test ran there"
	@echo "make test-full       test-fast, and every value of every parameter with every other one and with every trait of placements"
	@echo "make test-x64        a part of the tests, with JAX_ENABLE_X64=1"
	@echo "make test-leaks      the tests marked 'leaks', with JAX_CHECK_TRACER_LEAKS=1"
	@echo "make test-optimized  a part of test-full, compiled as for users: the other passes compile with few optimisations"
	@echo "make test-flags      a part of the tests under each flag that later versions of JAX will have switched on"
	@echo "make bench-counts    counts (equations, instructions, bytes, compilations, functions entered) against those recorded"
	@echo "make bench-check     the same, and ratios of times: on a machine that does nothing else"
	@echo "make test-fuzz       random programs for three minutes, and for two over special values"
	@echo "make test-products   before a release: all tests, with the combinations that only multiply"
	@echo "make test-versions   test-fast on every Python of $(VERSIONS) that is here, and with the JAX of $(JAX_VERSIONS);"
	@echo "                     make test PYTHON=python3.13 takes one"
	@echo "make fuzz        random programs in random layouts against an interpreter of its own (FUZZ_ARGS)"
	@echo "make lint        ruff, codespell, and mypy in strict mode"
	@echo "make stubs       write what editors and type checkers know of namedax (*.pyi, by tools/stubs.py)"
	@echo "make docs        build the site in site/: tutorials are executed, and a warning or a broken link is an error"
	@echo "make docs-check  the same, and open every page in Chromium or Chrome: errors, widths, themes, the search"
	@echo "make bench       every program in benchmarks/"
	@echo "make release-check  sdist and wheel, and README's examples in an empty environment that has the wheel"
	@echo "make clean       remove caches, build outputs and the examples' outputs"
	@echo "make distclean   the same, and $(VENV)"

demo: $(VENV)/.ready-examples
	$(PY) examples/digits.py $(DEMO_ARGS)

# Ruff takes a second. Mypy keeps one core busy for most of a minute, so it runs beside the tests and speaks after them.
test: $(VENV)/.ready-test
	$(RUFF)
	@$(PY) -m mypy >$(VENV)/mypy.txt 2>&1 & types=$$!; \
	echo 'The tests, and beside them mypy:'; $(FAST); tests=$$?; \
	wait $$types; types=$$?; \
	echo "mypy: $$(cat $(VENV)/mypy.txt)"; \
	[ $$tests = 0 ] && [ $$types = 0 ]

test-fast: $(VENV)/.ready-test
	$(FAST)

# The newest JAX runs everything, the oldest the tier `fast`: one of them is that of the Python of `make test`, and `tools/find-python`
# finds a Python for the other; without one, this Python runs what there is. The site is built by the Python of `make test`, whose JAX
# has written the examples of the reference.
PARTS = test-full test-x64 test-leaks test-optimized test-flags bench-counts test-fuzz

test-all: docs test-reference
	@set -e; \
	if $(PY) -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then wanted="$(OLDEST)"; else wanted="$(NEWEST)"; fi; \
	other=$$(tools/find-python $$wanted) || { $(MAKE) $(PARTS); exit; }; \
	there="PYTHON=$$other VENV=.venv-$$(basename "$$other")"; \
	if [ "$$wanted" = "$(OLDEST)" ]; then $(MAKE) test-fast $$there; $(MAKE) $(PARTS) COUNTS=".venv-$$(basename "$$other")/bin/python"; \
	else $(MAKE) $(PARTS) $$there COUNTS="$(PY)"; fi

test-full: $(VENV)/.ready-test
	$(PY) -m pytest $(PYTEST_ARGS) --tier full $(FULL_ARGS)

test-reference: $(VENV)/.ready-docs,test
	$(PY) -m pytest $(PYTEST_ARGS) tests/house/test_reference.py tests/house/test_site_pages.py --tier full

test-products: $(VENV)/.ready-test
	$(PY) -m pytest $(PYTEST_ARGS) tests -m "not leaks"

test-x64: $(VENV)/.ready-test
	JAX_ENABLE_X64=1 $(PY) -m pytest $(PYTEST_ARGS) $(X64_ARGS)

test-leaks: $(VENV)/.ready-test
	JAX_CHECK_TRACER_LEAKS=1 $(PY) -m pytest $(PYTEST_ARGS) $(LEAKS_ARGS)

test-optimized: $(VENV)/.ready-test
	NAMEDAX_TEST_OPTIMIZED=1 $(PY) -m pytest $(PYTEST_ARGS) $(OPTIMIZED_ARGS)

test-fuzz: $(VENV)/.ready-test
	$(PY) -m tests.fuzz $(TEST_FUZZ_ARGS)
	$(PY) -m tests.fuzz $(TEST_SPECIAL_ARGS)

test-flags: $(VENV)/.ready-test
	JAX_REMAT3=1 JAX_CUSTOM_JVP3=1 JAX_CUSTOM_VJP3=1 $(PY) -m pytest $(PYTEST_ARGS) $(FLAGS_ARGS)
	JAX_AUTO_PCAST=0 $(PY) -m pytest $(PYTEST_ARGS) $(FLAGS_ARGS)

test-versions:
	@failed=; missing=; \
	for version in $(VERSIONS) $(JAX_VERSIONS); do \
	  found=$$(tools/find-python $${version%%:*} 2>/dev/null) || { missing="$$missing $$version"; continue; }; \
	  echo "== Python $$version ($$found)"; \
	  venv=.venv-python$$(echo $$version | sed s/:/-jax/); \
	  case $$version in *:*) \
	    mkdir -p $$venv; printf 'jax==%s\njaxlib==%s\n' $${version#*:} $${version#*:} >$$venv/constraints.txt; \
	    export PIP_CONSTRAINT=$$PWD/$$venv/constraints.txt;; esac; \
	  $(MAKE) test-fast PYTHON="$$found" VENV=$$venv || failed="$$failed $$version"; \
	done; \
	[ -z "$$missing" ] || echo "No Python of the version(s)$$missing was found here."; \
	[ -z "$$failed" ] || { echo "The tests failed on Python$$failed." >&2; exit 1; }

fuzz: $(VENV)/.ready-test
	$(PY) -m tests.fuzz $(FUZZ_ARGS)

lint: ruff
	$(PY) -m mypy

ruff: $(VENV)/.ready-lint
	$(RUFF)

stubs: $(VENV)/.ready
	$(PY) tools/stubs.py

docs: $(VENV)/.ready-docs
	$(PY) -m sphinx --fail-on-warning --keep-going --jobs 2 --quiet -d site/.doctrees -b html docs site/html
	$(PY) tools/site_check.py --links
	@echo "The site is built: open site/html/index.html"

docs-check: docs
	$(PY) tools/site_check.py

bench: $(VENV)/.ready
	@test -n "$(BENCHMARKS)" || { echo "There is no program in benchmarks/." >&2; exit 1; }
	@set -e; for program in $(BENCHMARKS); do echo "== $$program"; $(PY) $$program; done

# On the JAX that the counts were recorded on, none may have grown. Continuous integration compares counts alone: ratios of times are only
# right on a machine that does nothing else.
COUNTS ?= $(PY)

bench-check: $(VENV)/.ready-test
	$(COUNTS) benchmarks/check.py

bench-counts: $(VENV)/.ready-test
	$(COUNTS) benchmarks/check.py --counts

release-check: $(VENV)/.ready-release
	$(PY) tools/release_check.py

clean:
	rm -rf build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis examples/out site
	find . -path './.venv*' -prune -o -path ./$(VENV) -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean
	rm -rf $(VENV) .venv-python3.*

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

# For one extra, or for several at once: .ready-docs,test makes .ready-docs and .ready-test.
$(VENV)/.ready-%: pyproject.toml $(VENV)/.created
	$(PY) -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@ $(patsubst %,$(VENV)/.ready-%,$(subst $(comma), ,$*))
