# Everything starts from Python 3.11 or later (PYTHON=python3.12 names one) and a JDK 17 or later.
PYTHON ?= python3
# Of Kafka, for test-kafka: 3.9, 4.1 or 4.4.
VERSION ?= 4.1
BIN := .venv/bin
READY := .venv/ready
# What looks after the packages, each in a throw-away environment of its own: no part of .venv.
UV := uv==0.13.9
PIP_AUDIT := pip-audit==2.10.1
CYCLONEDX := cyclonedx-bom==7.5.0
# For lock: --upgrade, or --upgrade-package=NAME.
UPGRADE ?=
PIP := pip install -q --disable-pip-version-check
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-kafka test-faults lint format bench bench-full bench-bounds lock audit sbom clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## .venv with the pinned packages, Delta's jars and compiled kernels; once

demo: $(READY) ## the whole job on recorded logs of a real Kafka and a simulated one
	@$(BIN)/hwmark demo

test: $(READY) ## all tests
	@$(BIN)/pytest -n 2 --dist loadfile -m "not spark and not realkafka"
	@$(BIN)/pytest -m spark
	@if command -v mvn > /dev/null; then $(MAKE) --no-print-directory test-kafka; \
	  else echo "test: no Maven here, so no real Kafka was run (make test-kafka)" >&2; fi

test-kafka: $(READY) ## hwmark beside a real Kafka under faults (Maven fetches it); VERSION=3.9, 4.1 or 4.4
	@$(BIN)/pytest -s tests/realkafka --kafka=$(VERSION)

test-faults: $(READY) ## writes that fail, call by call, on a disk and an object store; at most two hours
	@$(BIN)/python -m tests.faults.campaign --minutes 100; disk=$$?; \
	  FAULTS=all $(BIN)/pytest tests/objectstore/test_faulty_store.py && exit $$disk

lint: $(READY) ## ruff, mypy, and the order of the packages (import-linter)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(READY) ## rewrite the code as ruff wants it
	@$(BIN)/ruff format .

bench: $(READY) ## events a second, beside other engines on the same work
	@$(BIN)/hwmark bench

bench-full: $(READY) ## all of it, half an hour; its tables and plot into docs/benchmarks.md
	@$(BIN)/hwmark bench --full --for 10m --readme

bench-bounds: $(READY) ## the most memory that the job takes: a large backlog, a million partitions, a silent source
	@$(BIN)/python -m pipelines.bench.measure.bounds

lock: ## what pyproject.toml asks for, pinned with hashes; UPGRADE=--upgrade pins anew what is pinned
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/$(PIP) $(UV)
	@cp requirements.lock build/pinned.lock
	@build/lock/bin/uv pip compile -q --no-header --annotation-style line --universal --python-version 3.11 \
	  --generate-hashes $(UPGRADE) --extra dev -o build/pinned.lock pyproject.toml
	@{ head -n 1 requirements.lock; cat build/pinned.lock; } > build/requirements.lock
	@mv build/requirements.lock requirements.lock

audit: ## known vulnerabilities of the pinned packages; fails where the service that knows them cannot be asked
	@$(PYTHON) -m venv --clear build/audit
	@build/audit/bin/$(PIP) $(PIP_AUDIT)
	@build/audit/bin/pip-audit --strict --progress-spinner off --require-hashes --disable-pip -r requirements.lock

sbom: $(READY) ## build/sbom.json: what .venv and Delta's jars consist of, as CycloneDX
	@$(PYTHON) -m venv --clear build/sbom
	@build/sbom/bin/$(PIP) $(CYCLONEDX)
	@build/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
	  --of JSON -o build/packages.json $(BIN)/python
	@$(BIN)/python -m pipelines.commands.sbom build/packages.json build/sbom.json

clean: ## remove .venv and everything made
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hwmark needs Python 3.11 or later: name one with make PYTHON=python3.12" >&2; exit 1; }
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	  found=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	  [ "$${found:-0}" -ge 17 ] || \
	  { echo "hwmark needs a JDK 17 or later: install one, or set JAVA_HOME" >&2; exit 1; }
	@echo "setup: packages into .venv (some minutes the first time)"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@$(BIN)/$(PIP) --require-hashes -r requirements.lock
	@$(BIN)/$(PIP) --no-deps --no-build-isolation -e .
	@$(BIN)/pip check
	@$(BIN)/python -m pipelines.setup
	@touch $@
