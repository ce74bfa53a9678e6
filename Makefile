# `make demo` and `make test` set themselves up; they need only Python 3.11 or later and make.

CODE     = $(wildcard src tests examples benchmarks fuzz)
# `make test` fails unless every branch of these, under src/cursorkit, is covered.
COMPLETE = catalogs/* catalogs/skills/* codecs/* paginators/* stores/* adapters/sqlalchemy.py \
           adapters/mcp/skills.py binding.py checks.py healing.py items.py keys/* packing.py positions.py refusals.py snapshots.py walk.py
PIP      = -m pip install -qq --disable-pip-version-check

# The first interpreter that runs a program. They are tried, not looked up: a version manager puts
# commands on the PATH for versions that it cannot run.
first_python = $(shell for python in $(2); do \
    if "$$python" -c '$(1)' >/dev/null 2>&1; then echo "$$python"; break; fi; done)
IS_311   = import ensurepip, sys; sys.exit(sys.version_info < (3, 11))
IS_313   = import ensurepip, sys; sys.exit(sys.version_info[:2] != (3, 13))
PYTHON   = $(call first_python,$(IS_311),python3.11 python3)
PYTHON13 = $(call first_python,$(IS_313),\
    python3.13 "$$(pyenv root 2>/dev/null)"/versions/3.13*/bin/python3.13)

space   := $() $()
comma   := ,
INCLUDE  = $(subst $(space),$(comma),$(addprefix src/cursorkit/,$(COMPLETE)))

MINUTES  = 60
MUTANTS  = *

.PHONY: help setup demo test test-3.13 format bench fuzz mutants soak timing vectors clean

help:
	@echo "make demo     an MCP server, walked by a real client"
	@echo "make test     lint, types, and tests on Python 3.11 and 3.13"
	@echo "make format   format, and fix what can be fixed"
	@echo "make bench    every benchmark"
	@echo "make fuzz     every fuzz target, MINUTES=60 over all of them"
	@echo "make soak     walks while servers and objects are lost, for MINUTES=60 at most"
	@echo "make timing   whether the time of a refusal tells anything of a tag"
	@echo "make mutants  mutation tests, which take long; MUTANTS='cursorkit.binding*' for a part"
	@echo "make vectors  the test vectors, written anew"
	@echo "make clean    remove all that these made"

# Both environments; -j2 makes them at once.
setup: .venv/.ready $(if $(PYTHON13),.venv313/.ready)

demo: .venv/.ready
	@.venv/bin/cursorkit demo

test: .venv/.ready .venv/.fuzz
	.venv/bin/ruff check $(CODE)
	.venv/bin/ruff format --check $(CODE)
	.venv/bin/mypy $(CODE)
	.venv/bin/basedpyright --pythonpath .venv/bin/python $(CODE)
	.venv/bin/pytest -n 2 --cov --cov-report=
	.venv/bin/coverage report
	.venv/bin/coverage report --include='$(INCLUDE)' --fail-under=100
	.venv/bin/python -m fuzz --minutes 0.5 || [ $$? = 3 ]
	.venv/bin/python -m benchmarks.soak --minutes 0.5
	@if .venv/bin/python -c '$(IS_313)'; then \
	    echo "Python 3.13 is what was tested just now"; \
	elif [ -n '$(PYTHON13)' ]; then \
	    $(MAKE) --no-print-directory test-3.13; \
	else \
	    echo "Python 3.13 is not on this machine: not tested"; \
	fi

# Fewer examples of each property than on 3.11, and one kind of server: what differs between versions
# shows in few. The tests of benchmarks and fuzz targets are left out: those are this project's tools.
TOOLS    = $(wildcard tests/test_bench*.py tests/test_fuzz_targets.py tests/test_simulate_fleet.py \
           tests/test_soak.py tests/test_timing.py)
test-3.13: .venv313/.ready
	CURSORKIT_TEST_PROFILE=quick .venv313/bin/pytest -n 2 $(addprefix --ignore=,$(TOOLS))

format: .venv/.ready
	.venv/bin/ruff check --fix $(CODE)
	.venv/bin/ruff format $(CODE)

bench: .venv/.ready
	@for file in benchmarks/bench_*.py; do \
	    .venv/bin/python -m "benchmarks.$$(basename "$$file" .py)" || exit 1; \
	done

fuzz: .venv/.fuzz
	.venv/bin/python -m fuzz --minutes $(MINUTES)

soak: .venv/.ready
	.venv/bin/python -m benchmarks.soak --minutes $(MINUTES)

timing: .venv/.ready
	.venv/bin/python -m benchmarks.timing

# CI=1: the same examples in every run.
mutants: .venv/.ready
	.venv/bin/python $(PIP) 'mutmut>=3.8,<4'
	CI=1 .venv/bin/mutmut run --max-children 2 '$(MUTANTS)'
	.venv/bin/mutmut results

vectors: .venv/.ready
	.venv/bin/python -m tests.vectors.generate

clean:
	rm -rf .venv .venv313 .coverage .coverage.* .hypothesis .mypy_cache .pytest_cache .ruff_cache
	rm -rf .fuzz build dist mutants
	find $(CODE) -name __pycache__ -prune -exec rm -rf {} +

# Made again only when pyproject.toml changes.
.venv/.ready: pyproject.toml
	@if [ -z '$(PYTHON)' ]; then \
	    echo "No Python 3.11 or later with its venv module on the PATH"; exit 1; fi
	'$(PYTHON)' -m venv .venv
	.venv/bin/python $(PIP) --editable '.[dev]'
	@touch $@

.venv313/.ready: pyproject.toml
	'$(PYTHON13)' -m venv .venv313
	.venv313/bin/python $(PIP) --editable '.[dev]'
	@touch $@

# Where there is no wheel of atheris, the fuzz run says that it did nothing.
.venv/.fuzz: .venv/.ready
	-.venv/bin/python $(PIP) --only-binary :all: 'atheris>=3,<4'
	@touch $@
