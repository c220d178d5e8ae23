# The developer interface; .ci/run calls the same targets.
SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# The first interpreter that runs and is new enough; override with `make PYTHON=python3.13 …`.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help setup hooks demo test test-fast check lint types contracts generated format sync docs sizes bench clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

setup: $(VENV)/.ready  ## Make the virtual environment with everything in it

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "turnmill needs Python 3.11 or newer on PATH" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) --upgrade pip  # Python 3.11 brings one that knows no groups
	$(PIP) -e '.[embedded,evaluate,kit,postgres,pydantic-ai]' --group dev
	touch $@

hooks: setup  ## Have git run what check runs before each commit
	$(BIN)/pre-commit install

demo: setup  ## Run 50 concurrent tool-using agents through the whole pipeline, no key, no network
	$(BIN)/turnmill demo

test: setup  ## Run every test and the coverage gate
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadscope
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

test-fast: setup  ## Run the unit and property tests that need no worker, in less than a minute
	$(BIN)/python -m pytest tests/house tests/unit tests/properties tests/typing \
		-m 'not slow and not worker' --numprocesses=auto --maxprocesses=4 --dist=worksteal

# What .pre-commit-config.yaml runs before a commit, too: a hook for each.
check: lint types contracts generated  ## Lint, types, import contracts, generated files

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pre-commit validate-config

types: setup
	$(BIN)/mypy
	PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes turnmill --ignoreexternal

contracts: setup
	$(BIN)/lint-imports --no-logo

generated: setup
	$(BIN)/python tools/settings_page.py --check
	$(BIN)/python tools/sync.py --check

sync: setup  ## Write producer/turnmill/_sync from _async
	$(BIN)/python tools/sync.py

format: setup  ## Rewrite the code the way check wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: setup  ## Write docs/settings.md from the workers' settings
	$(BIN)/python tools/settings_page.py

sizes: setup  ## Lower the lengths in tests/house/sizes.toml to what files and functions have now
	$(BIN)/python -m tests.house.test_sizes

bench: setup  ## Run the benchmarks (ratios within one run; see docs/benchmarks.md)
	$(BIN)/python -m benchmarks

clean:  ## Remove the virtual environment and build products
	rm -rf $(VENV) build dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
