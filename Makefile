PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 1
STAMP := $(VENV)/.up-to-date
export OMP_NUM_THREADS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: setup demo test lint benchmarks tables clean

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "vesica needs Python 3.11 or newer: make PYTHON=python3.12")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: setup
	$(BIN)/vesica reproduce demo credit --seeds $(SEEDS) --report report.html
	@echo "open report.html"

test: setup lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses 2

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

benchmarks: setup
	$(BIN)/python -m benchmarks

tables: setup
	$(BIN)/python -m vesica.experiment.tables experiments/*/README.md

clean:
	rm -rf $(VENV) report.html
