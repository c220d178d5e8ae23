# The developer interface; .ci/run calls the same targets.
SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
# The first interpreter that runs and is new enough; override with `make PYTHON=python3.13 …`.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help setup demo test check sync format bench clean

help:  ## List the targets
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

setup: $(VENV)/.ready  ## Make the virtual environment with everything in it

$(VENV)/.ready: pyproject.toml constraints.txt
	@test -n "$(PYTHON)" || { echo "turnmill needs Python 3.11 or newer on PATH" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $@

demo: setup  ## Run 50 concurrent tool-using agents through the whole pipeline, no key, no network
	$(BIN)/turnmill demo

test: setup  ## Run every test and the coverage gate
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest --numprocesses=auto --maxprocesses=4 --dist=loadscope
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

check: setup  ## Lint, types, import contracts, and _sync as it is generated
	$(BIN)/python tools/sync.py --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes turnmill --ignoreexternal

sync: setup  ## Write producer/turnmill/_sync from _async
	$(BIN)/python tools/sync.py

format: setup  ## Rewrite the code the way check wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup  ## Run the benchmarks (ratios within one run; see docs/benchmarks.md)
	$(BIN)/python -m benchmarks

clean:  ## Remove the virtual environment and build products
	rm -rf $(VENV) build dist .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
