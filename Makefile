PYTHON := .venv/bin/python
WORKERS ?= auto

.PHONY: help setup demo bench docs test lint wheel clean

help:  ## print this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

setup:  ## virtual environment in .venv, cross tools where this machine lets us install them
	@scripts/setup.sh

demo: setup  ## compile two digit classifiers, check them here, measure them on an emulated Cortex-M4
	@$(PYTHON) examples/digits/demo.py

bench: setup  ## instructions, cycles, flash, RAM and host time of ../shared/models beside other compilers; BENCH=options
	@$(PYTHON) bench/run.py --json out/bench.json $(BENCH)

docs: setup  ## docs/OPERATORS.md, docs/FUSION.md, and what the README says that commands print
	$(PYTHON) scripts/make_docs.py --readme --models ../shared/models

test: setup  ## all tests
	$(PYTHON) -m pytest -n $(WORKERS) --durations=15

lint: setup  ## ruff and mypy
	$(PYTHON) -m ruff check
	$(PYTHON) -m mypy fuse2c

wheel: setup  ## a wheel in dist/
	rm -rf build
	$(PYTHON) -m build --wheel --no-isolation

clean:  ## remove what was built; .venv stays
	rm -rf build dist out *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
