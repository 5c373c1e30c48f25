# Everything a developer runs. Each target makes what it needs, on a fresh machine too.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WARM := $(VENV)/.warm
PYTEST := $(BIN)/python -m pytest
PYTEST_FLAGS ?= -q
WORKERS ?= 2
SIZE ?= quick

.DEFAULT_GOAL := help
.PHONY: help demo test check format lint types imports suite nojit docs screenshots wheel bench peers figures lock clean

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

demo: $(WARM) ## sixty queries over a year of flights: answers, what sharing gains, the same on Spark
	@$(BIN)/motet demo

test: check docs nojit suite ## everything CI runs: style, types, layers, documentation, all tests

check: lint types imports ## what needs no run: style, types, layers

format: $(READY) ## rewrite the code in the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

# Kernels are plain Python when the compiler is off: what then fails is the algorithm, not its compilation.
nojit: $(READY)
	NUMBA_DISABLE_JIT=1 $(PYTEST) $(PYTEST_FLAGS) -n $(WORKERS) --hypothesis-profile=nojit $(wildcard tests/kernels) tests/engine tests/detect

# Tests that need Spark share one session, so they stay together on one worker (tests/conftest.py keeps them there).
suite: $(WARM)
	@$(BIN)/python scripts/check-java
	$(PYTEST) $(PYTEST_FLAGS) -n $(WORKERS)

# A link that leads nowhere is an error. Pages load nothing from elsewhere.
docs: $(READY) ## build the documentation into build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Needs Chromium and its chromedriver.
screenshots: $(WARM) ## make the screenshots of the documentation anew
	$(BIN)/python -m tests.docs.screenshots

# Two wheels: one with compiled kernels for this Python and platform, one in pure Python for all others.
wheel: $(READY) ## build wheels and the source distribution into dist, and check them
	rm -rf dist
	$(BIN)/motet warm --cache build/kernels
	MOTET_WHEEL_KERNELS=build/kernels $(BIN)/python -m build --no-isolation --wheel
	$(BIN)/python -m build --no-isolation
	$(BIN)/twine check --strict dist/*

bench: $(WARM) ## every experiment (a quarter of an hour; SIZE=paper: hours); results in bench-results
	$(BIN)/motet bench all --size $(SIZE) --json bench-results

peers: $(WARM) .venv-peers/.ready .venv-peers/jars/.ready ## DuckDB, chDB, Spark, Flink, Esper, Siddhi and plain Python on the same questions
	$(BIN)/motet bench peers peers-detection --size $(SIZE) --json bench-results

figures: $(WARM) .venv-peers/.ready ## every experiment, peers included, and their results into docs/benchmarks.md
	$(BIN)/motet bench all --size $(SIZE) --json bench-results
	$(BIN)/python -m benchmarks.page bench-results docs/benchmark-tables.md

# What peers need is no part of motet: an environment of their own.
.venv-peers/.ready: benchmarks/peers/requirements.lock
	@python=$$(scripts/find-python) && set -x && $$python -m venv .venv-peers
	.venv-peers/bin/pip install --quiet --disable-pip-version-check --require-hashes -r benchmarks/peers/requirements.lock
	@touch $@

# Engines for detection, from Maven Central.
.venv-peers/jars/.ready: benchmarks/peers/detection/pom.xml | .venv-peers/.ready
	for peer in esper siddhi flink; do \
		mvn --quiet --batch-mode -f $< -P $$peer dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.venv-peers/jars/$$peer || exit 1; \
	done
	@touch $@

lock: ## resolve the dependencies anew (needs uv)
	@command -v uv >/dev/null || { echo "make lock needs uv" >&2; exit 1; }
	uv pip compile $(LOCK_FLAGS) --extra spark --extra plot --extra translate pyproject.toml -o requirements/run.lock
	uv pip compile $(LOCK_FLAGS) --extra spark --extra plot --extra translate --extra docs --extra dev pyproject.toml -o requirements/dev.lock
	uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url --no-header $(UPGRADE) benchmarks/peers/requirements.in -o benchmarks/peers/requirements.lock

LOCK_FLAGS := --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url $(UPGRADE)

clean: ## remove the environment and every cache
	rm -rf $(VENV) .venv-peers build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Compiled kernels are kept in their package: compile them once here rather than in every Spark worker at once.
$(WARM): $(READY) $(wildcard src/motet/kernels/*.py)
	@$(BIN)/motet warm
	@touch $@

# --require-hashes: nothing is installed that the lock does not name, the build back end included.
$(READY): requirements/dev.lock pyproject.toml
	@python=$$(scripts/find-python) && set -x && $$python -m venv $(VENV) \
		|| { echo "no environment: on Debian and Ubuntu, apt-get install python3-venv" >&2; exit 1; }
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.lock
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@
