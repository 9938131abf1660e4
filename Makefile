# Everything starts from Python 3.11 or later (PYTHON=python3.12 names one) and a JDK 17 or later.
PYTHON ?= python3
# Of Kafka, for test-kafka: 3.9, 4.1 or 4.4.
VERSION ?= 4.1
BIN := .venv/bin
READY := .venv/ready
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo test test-kafka test-faults lint format bench bench-full lock clean

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' Makefile

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

lint: $(READY) ## ruff and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(READY) ## rewrite the code as ruff wants it
	@$(BIN)/ruff format .

bench: $(READY) ## events a second, beside other engines on the same work
	@$(BIN)/hwmark bench

bench-full: $(READY) ## all of it, half an hour; its tables and plot into the README
	@$(BIN)/hwmark bench --full --for 10m --readme

lock: ## pin anew what pyproject.toml asks for
	@$(PYTHON) -m venv --clear build/lock
	@build/lock/bin/pip install -q '.[dev]'
	@{ head -n 1 requirements.lock; build/lock/bin/pip freeze --exclude hwmark; } > build/requirements.lock
	@mv build/requirements.lock requirements.lock

clean: ## remove .venv and everything made
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hwmark needs Python 3.11 or later: name one with make PYTHON=python3.12" >&2; exit 1; }
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	  found=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	  [ "$${found:-0}" -ge 17 ] || \
	  { echo "hwmark needs a JDK 17 or later: install one, or set JAVA_HOME" >&2; exit 1; }
	@echo "setup: packages into .venv (some minutes the first time)"
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv .venv
	@$(BIN)/pip install -q --disable-pip-version-check -r requirements.lock
	@$(BIN)/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(BIN)/pip check
	@$(BIN)/python -m pipelines.setup
	@touch $@
