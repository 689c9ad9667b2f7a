# `make` alone lists the targets. Everything a target needs, it installs into .venv first.
SHELL := /bin/bash
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export PYSPARK_PYTHON := $(abspath $(BIN)/python)
export PYSPARK_DRIVER_PYTHON := $(abspath $(BIN)/python)
# Workers import us again and again: compiled modules must be kept, whatever the caller prefers.
unexport PYTHONDONTWRITEBYTECODE

# Short runs gain more from a quick start than from the JVM's best code.
demo demo-recovery demo-kafka test chaos: export JAVA_TOOL_OPTIONS := -XX:TieredStopAtLevel=1

.PHONY: help setup lock java demo demo-recovery demo-kafka servers serve test test-s3 test-brokers promtool unit lint fmt chaos chaos-control model bench bench-connectors fuzz-rest sbom clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

setup: $(STAMP) java  ## install everything into .venv

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing dependencies into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --upgrade pip
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt \
		--build-constraint constraints.txt -e ".[dev]"
	@touch $(STAMP)

lock:  ## renew constraints.txt: the newest versions that the ranges of pyproject.toml allow
	@bash scripts/lock.sh $(PYTHON)

java:
	@bash scripts/java.sh

demo: setup  ## generate orders, run a windowed job on Spark, interrupt and resume it, show the result
	@$(BIN)/python examples/demo.py

demo-recovery: setup  ## kill a job that writes to PostgreSQL five times, rescale it through a savepoint, compare with plain Python
	@$(BIN)/python examples/recovery.py

demo-kafka: setup  ## start a broker and a database, run a job between them, kill it twice, compare with plain Python
	@$(BIN)/python scripts/kafka_server.py install
	@$(BIN)/python examples/kafka_demo.py

servers: setup  ## a Kafka broker and a PostgreSQL database for the tutorial, until Ctrl-C
	@$(BIN)/python scripts/kafka_server.py install
	@$(BIN)/python scripts/demo_servers.py

serve: setup  ## a service with three jobs: a stream, an HTTP roller every minute, a SQL task behind it, until Ctrl-C
	@$(BIN)/python examples/serve.py

lint: $(STAMP)  ## ruff, mypy --strict, import contracts
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

unit: $(STAMP)  ## the fast tests, no JVM
	@$(BIN)/python -m pytest -q -m "not spark and not brokers" -n 3 --dist loadfile

test: setup lint  ## everything that must pass: lint, unit tests, Spark tests
	@$(BIN)/python scripts/s3_server.py install || echo "no S3 server to be had: its tests will be skipped"
	@$(BIN)/python scripts/kafka_server.py install || echo "no Kafka broker to be had: its tests will be skipped"
	@$(BIN)/python scripts/promtool.py install || echo "no promtool to be had: the tests of alert rules will be skipped"
	@$(BIN)/python -m pytest -q -m "not spark and not brokers" -n 3 --dist loadfile
	@$(BIN)/millstream doctor --caches --make || echo "no class archive: Spark starts more slowly"
	@$(BIN)/python -m pytest -q -m "spark and not brokers"

test-s3: setup  ## manifests in a real S3-compatible server, installed first
	@$(BIN)/python scripts/s3_server.py install
	@$(BIN)/python -m pytest -q -m s3

test-brokers: setup  ## sources and sinks against RabbitMQ and MariaDB, from the distribution's packages
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt -e ".[mysql]"
	@$(BIN)/python scripts/brokers.py install
	@$(BIN)/python -m pytest -q -m brokers

promtool: setup  ## check the alert rules of deploy/prometheus and try each of them, with promtool, which it fetches first
	@$(BIN)/python scripts/promtool.py install
	@$$($(BIN)/python scripts/promtool.py path) check rules deploy/prometheus/recording.yml deploy/prometheus/alerts.yml
	@$$($(BIN)/python scripts/promtool.py path) test rules deploy/prometheus/alerts_test.yml

SEED ?= 1
KILLS ?= 200
MINUTES ?= 60
WORLD ?= files
chaos: setup  ## kill, pause and damage running jobs: make chaos WORLD=kafka SEED=7 KILLS=200 MINUTES=30 (worlds: files, kafka, bounded)
	@test $(WORLD) = files || $(BIN)/python scripts/kafka_server.py install
	@$(BIN)/python -m tests.chaos --world $(WORLD) --seed $(SEED) --kills $(KILLS) --minutes $(MINUTES)

CONTROL ?=
chaos-control: setup  ## kill and pause the processes of a service: make chaos-control SEED=7 CONTROL="--node-kills 10 --minutes 5 --spark 0"
	@$(BIN)/python -m tests.chaos.control --seed $(SEED) --minutes $(MINUTES) $(CONTROL)

CASES ?= 10000
model: setup  ## the model of the control plane, 10,000 stories: make model CASES=100000
	@MILLSTREAM_MODEL_CASES=$(CASES) $(BIN)/python -m pytest -q -n0 --timeout 7200 tests/unit/control/model

fmt: $(STAMP)  ## format and fix what can be fixed
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

fuzz-rest: $(STAMP)  ## requests made from the OpenAPI document: CASES=10000 SEED=1
	@$(BIN)/python -W ignore -m tests.unit.server.fuzz $(or $(CASES),10000) --seed $(or $(SEED),1)

sbom: $(STAMP)  ## what is installed, as CycloneDX JSON in sbom.json
	@$(BIN)/python scripts/sbom.py sbom.json

bench: setup  ## benchmarks: our figure and the rival's from one run
	@$(BIN)/python -m benchmarks

SCALE ?= 1
SECONDS ?= 600
bench-connectors: setup  ## the same for connectors, with real servers: make bench-connectors SCALE=0.1 SECONDS=60
	@$(BIN)/python scripts/kafka_server.py install
	@$(BIN)/python -m benchmarks connectors --scale $(SCALE) --seconds $(SECONDS)

clean:  ## remove what the targets made
	rm -rf $(VENV) .venv-pyflink .venv-dlt demo-data demo-recovery-data demo-kafka-data bench-results .mypy_cache .ruff_cache .pytest_cache
