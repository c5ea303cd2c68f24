PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BASE ?= main

.DEFAULT_GOAL := help
.PHONY: help setup demo test check format stubs images bench wheel clean

help:  ## Show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable . --group dev
	touch $@

setup: $(STAMP)  ## Make .venv with everything in it

demo: $(STAMP)  ## Set up, start a server, run six calls through it, stop it
	$(BIN)/executor demo

test: $(STAMP)  ## Set up and run every test
	$(BIN)/pytest

check: $(STAMP)  ## Lint, types, import contracts, proto, generated stubs, built-in catalogue
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	cd sandbox_images && ../$(BIN)/mypy --strict build.py
	cd benchmarks && ../$(BIN)/mypy --strict bench.py
	$(BIN)/lint-imports
	$(BIN)/buf lint
	$(BIN)/buf format --diff --exit-code
	@if git rev-parse --verify --quiet $(BASE):proto >/dev/null; then \
	  echo "buf breaking --against '.git#branch=$(BASE)'"; $(BIN)/buf breaking --against '.git#branch=$(BASE)'; fi
	$(MAKE) --no-print-directory stubs OUT=build/stubs
	diff --recursive --exclude=__pycache__ --exclude=__init__.py executor/v1 build/stubs/executor/v1
	$(BIN)/executor tools lint

format: $(STAMP)  ## Format Python and proto
	$(BIN)/ruff check --fix --quiet . || true
	$(BIN)/ruff format .
	$(BIN)/buf format --write

OUT ?= .
stubs: $(STAMP)  ## Generate executor/v1 from proto
	mkdir -p $(OUT)
	$(BIN)/python -m grpc_tools.protoc --proto_path=proto --python_out=$(OUT) --grpc_python_out=$(OUT) \
	  --plugin=protoc-gen-mypy=$(BIN)/protoc-gen-mypy --plugin=protoc-gen-mypy_grpc=$(BIN)/protoc-gen-mypy_grpc \
	  --mypy_out=quiet:$(OUT) --mypy_grpc_out=quiet:$(OUT) proto/executor/v1/executor.proto

images: $(STAMP)  ## Build the sandbox images from Debian packages (needs apt-get, no root)
	$(BIN)/python sandbox_images/build.py

bench: $(STAMP)  ## Measure against the peers that this machine has (QUICK=1: in less than a minute)
	-@test $(VENV)/.bench -nt pyproject.toml || { $(BIN)/python -m pip install --quiet --disable-pip-version-check --group bench && touch $(VENV)/.bench; }
	$(BIN)/python benchmarks/bench.py

wheel: $(STAMP)  ## Build the wheel and the source distribution into dist/
	$(BIN)/python -m build

clean:  ## Remove what was made here
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
