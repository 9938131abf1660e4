# Everything starts from Python 3.11 or later (PYTHON=python3.12 names one) and a JDK 17 or later.
PYTHON ?= python3
# Of Kafka, for test-kafka: 3.9, 4.1 or 4.4; with ZooKeeper 2.8, 3.0 or 3.6.
VERSION ?= 4.1
BIN := .venv/bin
# .venv with all that runs, and with the tools of development beside it.
RUNS := .venv/runs
READY := .venv/ready
# What looks after the packages, each in a throw-away environment of its own: no part of .venv.
PIP_AUDIT := pip-audit==2.10.1
CYCLONEDX := cyclonedx-bom==7.5.0
MKDOCS := mkdocs-material==9.8.2
# What test-kafka runs: all of it, of which `make test` leaves the gate and the way to a message to make nightly.
KAFKA_TESTS ?= tests/realkafka
# For lock: --upgrade, or --upgrade-package=NAME.
UPGRADE ?=
# For test-model: --histories, --minutes, --processes, --seed.
MODEL ?=
COMPILE := uv pip compile -q --no-header --universal --python-version 3.11 --generate-hashes
PIP := pip install -q --disable-pip-version-check
# Of requirements.lock the packages with these names (a|b|c): what comes first, what kernels are compiled with, what
# builds the package of this checkout.
pinned = awk '/^[a-z]/ {named = /^($(1))==/} named' requirements.lock
COMPILES := llvmlite|msgspec|numba|numpy|pyarrow
BUILDS := editables|hatchling|packaging|pathspec|pluggy|tomlkit|trove-classifiers
# From the index that pip is configured with, and by pip where uv cannot (a proxy or credentials that only pip knows). The
# wheel of pyspark, 450 MB that are unpacked at once, is not compressed. Modules are compiled now: where
# PYTHONDONTWRITEBYTECODE is set, as in many images, every process would do it anew, a second of CPU for each.
install = UV_DEFAULT_INDEX="$${UV_DEFAULT_INDEX:-$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url \
  2> /dev/null || echo https://pypi.org/simple)}}" $(BIN)/uv pip install -q --system-certs --python $(BIN)/python --no-deps \
  --compile-bytecode --require-hashes --config-settings-package pyspark:--build-option=--compression=stored $(1) || \
  { echo "setup: uv could not install these, pip tries" >&2; $(BIN)/$(PIP) --no-deps --require-hashes $(1); }
check = if [ -x $(BIN)/uv ]; then $(BIN)/uv pip check -q --python $(BIN)/python; else $(BIN)/pip check; fi
# Earlier set-ups left a package that refuses this pyspark.
outdated = { ! ls -d .venv/lib/python3*/site-packages/delta_spark-* > /dev/null 2>&1 || \
  $(BIN)/pip uninstall -q -y --disable-pip-version-check delta-spark; }
# No target of its own: a line that calls make runs with `make -n`, too.
packages = $(call pinned,$(BUILDS)) > build/builds.lock && $(outdated) && \
  { $(call install,-r build/builds.lock -r requirements-run.lock); } && \
  $(BIN)/$(PIP) --no-deps --no-build-isolation -e . && $(BIN)/python -m compileall -q hwmark schemas generators pipelines && \
  { $(check); } && $(BIN)/python -m pipelines.setup jars
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup demo unit test test-all test-kafka test-kafka-roads test-wheel test-wheels test-faults test-model test-months
.PHONY: nightly test-kafka-zookeeper test-spark lint format bench bench-full test-properties test-histories docs
.PHONY: count lock audit sbom clean spark-of-test kafka-of-test

help: ## this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

setup: $(READY) ## .venv with the pinned packages, Delta's jars and compiled kernels; once

demo: $(RUNS) ## the whole job on recorded logs of a real Kafka and a simulated one
	@$(BIN)/hwmark demo

# What pytest makes of a module is kept, in images that keep no bytecode, too: half of what collecting takes.
unit test spark-of-test kafka-of-test test-all: export PYTHONDONTWRITEBYTECODE :=

unit: $(READY) ## the pure tests, for each change; a minute on two cores
	@$(BIN)/pytest -n 2 --dist loadfile -m "not long and not spark" tests/unit

test: $(READY) ## the tests, of long ones a sample; twenty minutes
	@$(BIN)/pytest -n 3 --dist loadfile -m "not spark and not realkafka"
	@$(MAKE) --no-print-directory -j 2 -Oline spark-of-test kafka-of-test

# Beside each other: a real Kafka waits for most of its four minutes.
spark-of-test:
	@$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder -m spark

kafka-of-test:
	@if command -v mvn > /dev/null; then $(MAKE) --no-print-directory test-kafka \
	  KAFKA_TESTS="$$(echo tests/realkafka/test_{real_kafka,watcher,harness}.py)"; \
	  else echo "test: no Maven here, so no real Kafka was run (make test-kafka)" >&2; fi

test-all: $(READY) ## whole, the tests of which `make test` runs a sample or none
	-@$(BIN)/python -m pipelines.setup s3
	@$(BIN)/pytest -n 2 --dist loadfile --no-loadscope-reorder --all -m "sampled or nightly"

test-kafka: $(READY) ## hwmark beside a real Kafka under faults (Maven fetches it; make test-all adds rights and both roads); VERSION=3.9, 4.1, 4.4; with ZooKeeper 2.8, 3.0, 3.6
	@$(BIN)/pytest -n 3 --dist loadfile $(KAFKA_TESTS) --kafka=$(VERSION)

test-kafka-zookeeper: $(READY) ## hwmark beside Kafkas with ZooKeeper under faults; ten minutes
	@for version in 2.8 3.0 3.6; do $(MAKE) --no-print-directory test-kafka VERSION=$$version || exit 1; done

test-kafka-roads: $(READY) ## every fault of a real Kafka as samples and as logs show it; about six minutes
	@$(BIN)/pytest -s --all tests/realkafka/test_both_roads.py --faults all --kafka=$(VERSION)

test-wheel: $(READY) ## the wheel beside the newest packages on Python 3.13, and the lowest that it takes on 3.11
	@$(BIN)/python -m tests.wheel.trial newest:3.13 lowest:3.11

test-wheels: $(READY) ## resolves packages anew, and runs the wheel with Spark on every Python; half an hour
	@$(BIN)/python -m tests.wheel.trial --renew --spark newest:3.11 newest:3.12 newest:3.13 lowest:3.11

test-spark: $(READY) ## the job on other versions of Spark, alone and over one checkpoint; VERSION="4.1.4 4.3.0 delta"
	@$(BIN)/python -m tests.sparks.trial $(if $(filter file,$(origin VERSION)),4.1.4 4.3.0 delta,$(VERSION))

nightly: $(READY) ## all that is too long for CI, one after another; at most eight hours on two cores
	@$(BIN)/python -m tests.nightly

test-faults: $(READY) ## writes that fail, call by call, on a disk and an object store; at most two hours
	@$(BIN)/python -m tests.faults.campaign --minutes 100; disk=$$?; \
	  FAULTS=all $(BIN)/pytest --all tests/objectstore/test_faulty_store.py && exit $$disk

test-months: $(READY) ## a lake that lives through two months, day by day; a quarter of an hour
	@$(BIN)/python -m tests.months.campaign

test-model: $(READY) ## the rules against a model of one partition, in a million histories; MODEL=--histories=20000
	@$(BIN)/python -m tests.model.campaign $(MODEL)

test-histories: $(READY) ## 2,000 histories of what alerts tell, looked at in any way; ten minutes on two cores; SEED=
	@HWMARK_HISTORIES=2000 SEED=$${SEED:-$$(date +%Y%m%d)0000} $(BIN)/pytest --all -n 2 tests/unit/alerting/test_histories.py \
	  tests/unit/alerting/test_simulated_histories.py

test-properties: $(READY) ## 10,000 drawn lakes, each cut and ordered anew, against one batch of it; a quarter of an hour on two cores; SEED=
	@LAKES=10000 SEED=$${SEED:-$$(date +%Y%m%d)0000} $(BIN)/pytest --all -n 2 tests/properties

count: ## lines of code by package, without blanks, comments and docstrings
	@$(PYTHON) -m tests.count

lint: $(READY) ## ruff, mypy, and the order of the packages (import-linter)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: $(READY) ## rewrite the code as ruff wants it
	@$(BIN)/ruff format .

bench: $(READY) ## events a second, beside other engines on the same work
	@$(BIN)/python -m tests.bench

bench-full: $(READY) ## all of it, half an hour on two idle cores; its tables are for docs/benchmarks.md
	@$(BIN)/python -m tests.bench dense sparse fine logs live incident cores --events 4000000 --seconds 600

lock: ## what pyproject.toml asks for, pinned with hashes; UPGRADE=--upgrade pins anew what is pinned
	@$(PYTHON) -m venv --clear build/lock
	@$(call pinned,uv) > build/uv.lock
	@build/lock/bin/$(PIP) --require-hashes -r build/uv.lock
	@cp requirements.lock build/pinned.lock
	@build/lock/bin/$(COMPILE) --annotation-style line $(UPGRADE) --extra dev -o build/pinned.lock pyproject.toml
	@{ head -n 1 requirements.lock; cat build/pinned.lock; } > build/requirements.lock
	@mv build/requirements.lock requirements.lock
	@build/lock/bin/$(COMPILE) --no-annotate --upgrade -c requirements.lock -o build/runs.lock pyproject.toml
	@{ head -n 1 requirements-run.lock; cat build/runs.lock; } > build/requirements-run.lock
	@mv build/requirements-run.lock requirements-run.lock
	@grep -oE '^[a-z0-9._-]+==[^ ;]+' requirements-run.lock | grep -vE '^(pyspark|py4j)==' > build/pins.txt
	@build/lock/bin/$(COMPILE) --no-annotate --upgrade --extra delta -c build/pins.txt -o build/delta.lock pyproject.toml
	@{ head -n 1 requirements-delta.lock; cat build/delta.lock; } > build/requirements-delta.lock
	@mv build/requirements-delta.lock requirements-delta.lock

audit: ## known vulnerabilities of the pinned packages; fails where the service that knows them cannot be asked
	@$(PYTHON) -m venv --clear build/audit
	@build/audit/bin/$(PIP) $(PIP_AUDIT)
	@build/audit/bin/pip-audit --strict --progress-spinner off --require-hashes --disable-pip -r requirements.lock

sbom: $(READY) ## build/sbom.json: what .venv and Delta's jars consist of, as CycloneDX
	@$(PYTHON) -m venv --clear build/sbom
	@build/sbom/bin/$(PIP) $(CYCLONEDX)
	@build/sbom/bin/cyclonedx-py environment --pyproject pyproject.toml --mc-type application --output-reproducible \
	  --of JSON -o build/packages.json $(BIN)/python
	@$(BIN)/python -m tests.sbom build/packages.json build/sbom.json

docs: ## build/site, the documentation as a site; fails where a link or an anchor leads nowhere
	@$(PYTHON) -m venv --clear build/docs
	@build/docs/bin/$(PIP) $(MKDOCS)
	@NO_MKDOCS_2_WARNING=1 build/docs/bin/mkdocs build -q

clean: ## remove .venv and everything made
	@rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(RUNS): requirements.lock requirements-run.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "hwmark needs Python 3.11 or later: name one with make PYTHON=python3.12" >&2; exit 1; }
	@java="$${JAVA_HOME:+$$JAVA_HOME/bin/}java"; \
	  found=$$("$$java" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1); \
	  [ "$${found:-0}" -ge 17 ] || \
	  { echo "hwmark needs a JDK 17 or later: install one, or set JAVA_HOME" >&2; exit 1; }
	@echo "setup: packages into .venv, and kernels compiled meanwhile (some minutes the first time)"
	@[ -x $(BIN)/python ] && [ -x $(BIN)/pip ] || $(PYTHON) -m venv .venv
	@mkdir -p build
	@$(call pinned,uv) > build/uv.lock
	@$(BIN)/$(PIP) --require-hashes -r build/uv.lock || echo "setup: there is no uv here, pip takes longer" >&2
	@$(call pinned,$(COMPILES)) > build/compiles.lock
	@$(call install,-r build/compiles.lock)
	@$(BIN)/python -m pipelines.setup kernels & kernels=$$!; \
	  { $(packages); } || { kill $$kernels; exit 1; }; \
	  wait $$kernels
	@touch $@

$(READY): $(RUNS)
	@$(call install,-r requirements.lock)
	@$(check)
	@$(BIN)/python -m pipelines.setup
	@touch $@
