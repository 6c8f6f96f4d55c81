# Everything runs in .venv, which the first command makes and the next ones find ready.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test check bench docs explore clean

demo: $(READY)
	$(BIN)/python -m sim.demo

test: $(READY)
	$(BIN)/python -m pytest -q -n 2

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python -m benchmarks

# The variable keeps a notice about versions to come out of the output. Warnings are errors, see mkdocs.yml.
docs: $(READY)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo "built into build/site; to read it with its search: $(BIN)/python -m http.server -d build/site"

# The same properties, many more examples.
explore: $(READY)
	HYPOTHESIS_PROFILE=explore $(BIN)/python -m pytest -q -n 2 tests

$(READY): pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --editable '.[dev]'
	touch $(READY)

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
