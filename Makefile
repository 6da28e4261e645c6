# Everything runs in .venv, which these targets make. Another interpreter: make PYTHON=python3.12 test
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip --disable-pip-version-check install --quiet

.PHONY: demo test floors soak notebooks lint check clean

demo: .venv/.installed
	$(BIN)/python examples/demo.py

test: .venv/.installed-test
	$(BIN)/python -m pytest -n auto

# The tests of the requirements, with the lowest version of everything that pyproject.toml allows.
floors: .venv/.installed-test
	$(PYTHON) -m venv --clear .venv-floors
	$(BIN)/python tests/floors.py > .venv-floors/constraints.txt
	.venv-floors/bin/pip --disable-pip-version-check install --quiet \
		--constraint .venv-floors/constraints.txt --editable '.[test]'
	.venv-floors/bin/python -m pytest -n auto -W default tests/requirements

soak: .venv/.installed-test
	$(BIN)/python tests/soak.py

notebooks: .venv/.installed-test
	$(BIN)/python notebooks/execute.py

lint: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports

check: lint test

clean:
	rm -rf .venv .venv-floors .demo dist

.venv/.installed: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv .venv
	$(PIP) --editable .
	touch $@

.venv/.installed-test: .venv/.installed
	$(PIP) --editable '.[test]'
	touch $@

.venv/.installed-dev: .venv/.installed-test
	$(PIP) --editable '.[dev]'
	touch $@
