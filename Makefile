# Every target sets up what it needs: the virtual environment in .venv from requirements.lock, and Java 17+.
.DEFAULT_GOAL := help
.PHONY: help demo serve test test-fast long fuzz faults environment check lint types bench lock hooks clean python java

BIN := .venv/bin
MINUTES ?= 5
KILLS ?= 20
SEED ?= 1
SOAK ?= 400
PYTEST := $(BIN)/python -m pytest
export PYTHON
# Spark asks what this machine's name resolves to, and in a container that may be nothing.
export SPARK_LOCAL_IP ?= 127.0.0.1
# Where modules may not be kept compiled, every worker and engine that starts compiles all its imports: seconds each.
unexport PYTHONDONTWRITEBYTECODE

help:  ## list the targets
	@sed -n 's/^\([a-z-]*\):.*  ## \(.*\)/  make \1|\2/p' $(MAKEFILE_LIST) | awk -F'|' '{printf "%-18s%s\n", $$1, $$2}'

python:
	@sh scripts/setup.sh python

java: python
	@sh scripts/setup.sh java

demo: java  ## the network-monitoring query on generated packets, live (ARGS="--seconds 60")
	@$(BIN)/penstock demo $(ARGS)

serve: java  ## the same in a browser, with knobs (ARGS="--port 9000")
	@$(BIN)/penstock serve --demo $(ARGS)

test: java  ## all tests: those without Spark beside those with it
	@$(BIN)/python tests/suite.py all $(ARGS)

test-fast: python  ## engine and language: the tests without Spark that are not slow
	@$(BIN)/python tests/suite.py fast $(ARGS)

long: java  ## all tests with all their cases and runs, of which make test has a share
	@PENSTOCK_LONG=1 $(BIN)/python tests/suite.py all $(ARGS)

fuzz: python  ## random queries on random streams against the oracle (MINUTES=5)
	@$(BIN)/python tests/fuzz.py --minutes $(MINUTES) $(ARGS)

faults: java  ## kill drivers, workers, engines and executors, often; run a query for minutes, 400 random ones (KILLS=20 SEED=1 SOAK=400)
	@PENSTOCK_KILLS=$(KILLS) PENSTOCK_SEED=$(SEED) PENSTOCK_SOAK=$(SOAK) PENSTOCK_BUNDLED=400 $(PYTEST) \
		tests/spark/test_faults.py tests/spark/test_cluster.py tests/spark/test_soak.py tests/spark/test_orphans.py \
		tests/spark/test_random_pipelines.py tests/spark/test_compositions.py \
		tests/spark/test_spark_against_oracle.py $(ARGS)

environment: python  ## pack Penstock and what it imports for a cluster's executors (build/environment.tar.gz)
	@sh scripts/environment.sh

lint: python  ## ruff
	@$(BIN)/ruff check .

types: python  ## mypy
	@$(BIN)/mypy

check: lint types test  ## lint, types and tests: what CI runs

bench: java  ## Penstock beside Spark's own stream-stream join (ARGS="--json")
	@$(BIN)/penstock bench join $(ARGS)

lock: python  ## resolve pyproject.toml into requirements.lock again
	@$(BIN)/uv pip compile pyproject.toml --group dev --universal --python-version 3.11 --generate-hashes \
		--no-header --no-annotate --no-emit-index-url --quiet --output-file requirements.lock

hooks: python  ## lint and check types at every git commit
	@$(BIN)/pre-commit install

clean:  ## remove what was built, the virtual environment included
	@rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist artifacts spark-warehouse
	@find src tests bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
