# make demo and make test are all a newcomer needs; both install what they use into .venv.
PYTHON ?= python3
BIN := .venv/bin
WORKERS ?= 2

.PHONY: setup demo test lint bench docs clean

# The core alone: enough for the demo and for everyday use.
.venv/core: pyproject.toml constraints.txt
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	@touch $@

# Everything: extras and development tools.
.venv/everything: .venv/core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev]"
	@touch $@

setup: .venv/everything

demo: .venv/core
	$(BIN)/longtail demo

lint: .venv/everything
	$(BIN)/ruff check src tests benchmarks
	$(BIN)/ruff format --check src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: lint
	$(BIN)/python -m pytest -n $(WORKERS) -m "not slow"

bench: .venv/everything
	$(BIN)/python benchmarks/peers.py; measured=$$?; $(BIN)/python benchmarks/render.py && exit $$measured

docs: .venv/everything
	$(BIN)/mkdocs build --strict

clean:
	rm -rf .venv site build .pytest_cache .mypy_cache .ruff_cache
